import re

import numpy as np
import pytest
from command import app, ok, refused, run
from mutations import long_lived_model

from atlas_splines import Atlas, AtlasRegressor, save


@pytest.mark.slow
def test_inspect_shows_configuration_domain_and_log(work, monkeypatch):
    ok("update", "m.atlas", "new.csv")
    ok("update", "m.atlas", "new.csv")
    ok("revert", "m.atlas", "2")
    output = ok("inspect", "m.atlas").output
    assert f"m.atlas: AtlasRegressor, {(work / 'm.atlas').stat().st_size:,} bytes" in output
    assert "2 terms, density 1" in output
    assert re.search(r"\nfit: 20\d\d-\d\d-\d\d, 120 rows\. Held-out RMSE [\d.]+ \(R² [\d.]+; ", output)
    assert "options: density=1, members=1, missing='learn', random_state=0, terms=2" in output
    assert re.search(r"age +number +-4\.\d+ to 9\d\.\d+, or missing\n", output)
    assert re.search(r"city +category  3: 'Aarhus', 'Bergen', 'Cadiz'\n", output)
    assert re.search(r"\n1 .* chart  60    RMSE [\d.]+ +RMSE [\d.]+ +[\d.]+%\n2 .* reverted 20", output)
    ok("inspect", "m.atlas", "--plot", "picture.png")
    assert (work / "picture.png").read_bytes().startswith(b"\x89PNG")


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
