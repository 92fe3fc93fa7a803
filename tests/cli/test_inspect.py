import re

import numpy as np
import pytest
from command import HEADER, app, estimator_of, homes, inputs_of, ok, refused, run, write_csv
from mutations import long_lived_model

from atlas_splines import Atlas, AtlasClassifier, AtlasRegressor, save


@pytest.mark.slow
def test_inspect_shows_configuration_domain_and_log(work, monkeypatch):
    ok("update", "m.atlas", "new.csv")
    ok("update", "m.atlas", "new.csv", "--accept")
    ok("revert", "m.atlas", "2")
    output = ok("inspect", "m.atlas").output
    assert f"m.atlas: AtlasRegressor, {(work / 'm.atlas').stat().st_size:,} bytes" in output
    assert "2 terms, density 1" in output
    assert re.search(r"\nfit: 20\d\d-\d\d-\d\d, 120 rows\. Held-out RMSE [\d.]+ \(R² [\d.]+; ", output)
    assert "options: density=1, members=1, random_state=0, terms=2" in output
    assert re.search(r"age +number +-4\.\d+ to 9\d\.\d+, or missing\n", output)
    assert re.search(r"city +category  3: 'Aarhus', 'Bergen', 'Cadiz'\n", output)
    assert re.search(
        r"\n1 .* chart +60 +RMSE [\d.]+ +RMSE [\d.]+ +about \d+% +[\d.]+%\n2 .* reverted 20", output
    )
    ok("inspect", "m.atlas", "--plot", "picture.png", "--data", "homes.csv")
    assert (work / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_rows_are_for_a_picture(work):
    assert refused("inspect", "m.atlas", "--data", "homes.csv") == (
        "--data is for a picture; name one with --plot, or leave it out"
    )


def test_inspect_of_other_files(work):
    save(Atlas(inputs=2), "bare.atlas")
    assert "bare.atlas: Atlas, " in ok("inspect", "bare.atlas").output
    save(
        AtlasRegressor(density=1, terms=1, members=1, features=0).fit(np.eye(50), np.arange(50)),
        "plain.atlas",
    )
    output = ok("inspect", "plain.atlas").output
    assert "column 49  number  " in output
    for command in (["predict", "plain.atlas", "new.csv"], ["update", "bare.atlas", "new.csv"]):
        assert "does not know the columns of a table; make it with atlas fit" in refused(*command)
    assert "bare.atlas is a bare model" in run(app, ["inspect", "bare.atlas", "--plot", "a.png"]).stderr


def test_inspect_shows_folded_entries_as_one(work):
    save(long_lived_model(), "old.atlas")
    head, folded, first = ok("inspect", "old.atlas").output.splitlines()[2:5]
    assert head.startswith("id   time (UTC)")
    assert re.fullmatch(r"1-5  2024-01-06 00:00  folded  15    since 2024-01-02", folded)
    assert first.startswith("6    2024-01-07 00:00  none    6")
    says = refused("fit", "homes.csv", "-t", "price", "-o", "old.atlas")
    assert says.startswith("old.atlas has a log of 205 updates, which would be lost")


def test_inspect_tells_how_rows_lay_in_intervals(work):
    lines = ok("inspect", "m.atlas").output.splitlines()
    (first,) = [line for line in lines if line.startswith("intervals")]
    found = re.fullmatch(
        r"intervals of 90%: ([\d.]+)% of held-out rows lie inside, mean width ([\d.]+)", first
    )
    assert 75 <= float(found[1]) <= 100  # of intervals that were made without them
    model, X = estimator_of("m.atlas"), inputs_of("m.atlas", "homes.csv")
    low, high = model.predict_interval(X, 0.9)
    assert float(found[2]) == pytest.approx((high - low).mean(), rel=0.2)
    write_csv("more.csv", HEADER, homes(90, seed=5))
    ok("update", "m.atlas", "more.csv", "--retention", "pool")
    ok("update", "m.atlas", "new.csv", "--retention", "chart")
    lines = ok("inspect", "m.atlas").output.splitlines()
    (at,) = [k for k, line in enumerate(lines) if line.startswith("intervals")]
    held = r"[\d.]+% of (.*) lie inside, mean width [\d.]+"
    assert re.fullmatch(rf"  charts: {held}", lines[at + 1])[1] == "their held-out rows"
    assert re.fullmatch(rf"  updates: {held}", lines[at + 2])[1] == "90 rows, before learning,"
    assert re.fullmatch(rf"  lately: {held}", lines[at + 3])[1] == "90 rows, before learning,"


def test_inspect_tells_of_sets_and_of_several_targets(work):
    X = np.random.default_rng(0).random((200, 2))
    options = {"members": 1, "terms": 0, "density": 0, "max_iter": 1, "features": 20}
    save(AtlasClassifier(**options).fit(X, X[:, 0] > 0.5), "classes.atlas")
    assert re.search(
        r"\nsets of 90%: at least [\d.]+% of held-out rows have their class inside\n",
        ok("inspect", "classes.atlas").output,
    )
    save(AtlasRegressor(**options).fit(X, X), "two.atlas")
    output = ok("inspect", "two.atlas").output
    assert "\nintervals of 90% of target 0: " in output
    assert "\nintervals of 90% of target 1: " in output
    save(AtlasRegressor(**{**options, "features": 0}).fit(X, X[:, 0]), "blind.atlas")
    assert "intervals" not in ok("inspect", "blind.atlas").output
