import json
import os
import re
import signal
import subprocess
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from command import COMMAND, HEADER, SMALL, estimator_of, files, homes, ok, records, refused, write_csv

from atlas_splines import AtlasClassifier, AtlasRegressor
from atlas_splines.cli import fit
from atlas_splines.model.atlas import state_of
from atlas_splines.tables.wording import byte_size
from atlas_splines.updates.routing import needed_pool


def test_fit_tells_and_writes(work):
    output = ok("fit", "homes.csv", "--target", "price", "-o", "a.atlas", *SMALL).output
    assert (
        "homes.csv: 120 rows, target 'price', numbers, from 2 columns of numbers and 2 of categories."
        in output
    )
    assert re.search(r"Held-out RMSE [\d.]+ \(R² [\d.]+; the mean alone [\d.]+\)\.\n", output)
    model = estimator_of("a.atlas")
    size = byte_size((work / "a.atlas").stat().st_size)
    sizes = f"{size}, with {model.model_.n_parameters:,} coefficients"
    assert f"The model is a.atlas, {sizes}; it keeps all 120 rows.\n" in output
    assert isinstance(model, AtlasRegressor)
    assert model.feature_names_in_.tolist() == [
        "size",
        "age",
        "city=Aarhus",
        "city=Bergen",
        "city=Cadiz",
        "garden",
    ]
    assert (work / "a.atlas").read_bytes() == (work / "m.atlas").read_bytes()  # the seed settles it


def test_a_model_that_is_too_large_is_refused_with_what_it_costs(work):
    what = refused("fit", "homes.csv", "-t", "price", "-o", "large.atlas", "--density", "18", "--terms", "50")
    assert "GiB in memory and a multiple of that while it is fitted; choose a lower density" in what
    assert not (work / "large.atlas").exists()


def test_groups_are_held_out_and_are_no_input(work):
    output = ok("fit", "homes.csv", "-t", "price", "-o", "g.atlas", "--groups", "city", *SMALL).output
    assert "from 2 columns of numbers and 1 of categories." in output
    assert estimator_of("g.atlas").feature_names_in_.tolist() == ["size", "age", "garden"]
    out_of_fold_rows, known = estimator_of("g.atlas").fit_record_, estimator_of("m.atlas").fit_record_
    assert out_of_fold_rows.error > 2 * known.error
    assert "no column 'town'" in refused("fit", "homes.csv", "-t", "price", "--groups", "town")
    assert (
        refused("fit", "homes.csv", "-t", "price", "--groups", "price")
        == "--groups and --target both name 'price'; give another column to one of them"
    )


def test_wrong_groups_are_refused(work):
    rows = [(k, k % 2, k, "a" if k != 7 else "") for k in range(50)]
    write_csv("g.csv", ["x", "z", "y", "g"], rows)
    assert (
        refused("fit", "g.csv", "-t", "y", "--groups", "g")
        == "g.csv, row 8, column 'g': the group is missing; fill it in"
    )
    write_csv("g.csv", ["x", "y", "g"], [(k, k, "a") for k in range(50)])
    assert (
        refused("fit", "g.csv", "-t", "y", "--groups", "g")
        == "g.csv, column 'g': there is one group only; two are needed"
    )


def test_groups_of_a_large_table_are_kept_aside_as_a_whole(work, streams):
    rows = [(k % 97, k % 12, (k % 12) * 100 + k % 97) for k in range(2000)]
    write_csv("large.csv", ["x", "g", "y"], rows)
    output = ok("fit", "large.csv", "-t", "y", "-o", "l.atlas", "--groups", "g", *SMALL).output
    aside = int(re.search(r"Learned a sample of \d+ rows; on (\d+) others", output)[1])
    assert 20 <= aside <= 80  # one group of twelve, of 500 rows
    record = estimator_of("l.atlas").fit_record_
    assert (record.held_out, record.cross_validated) == (aside, False)
    assert record.rows in (2000, 2000 - aside)  # with the rows aside, if all evidence speaks
    assert f"{record}.\n" in output
    assert estimator_of("l.atlas").feature_names_in_.tolist() == ["x"]


def test_what_is_set_aside_leaves_groups_to_learn():
    groups = np.repeat([0, 1, 2], [95, 3, 2])
    aside = fit.held_out_rows(100, groups, np.random.default_rng(0))
    left = fit.several_groups(groups, ~aside)
    assert left is None or len(np.unique(left)) > 1
    assert fit.several_groups(groups, groups < 1) is None
    assert fit.several_groups(None, groups < 1) is None


@pytest.mark.slow
def test_classes(work):
    output = ok("fit", "homes.csv", "--target", "city", "-o", "c.atlas", *SMALL).output
    assert "3 classes" in output
    assert isinstance(estimator_of("c.atlas"), AtlasClassifier)
    ok("predict", "c.atlas", "new.csv", "-o", "out.csv", "--probabilities")
    rows = records("out.csv")
    for row in rows:
        shares = {city: float(row[f"city={city}"]) for city in ("Aarhus", "Bergen", "Cadiz")}
        assert sum(shares.values()) == pytest.approx(1)
        assert shares[row["city_predicted"]] == max(shares.values()) == float(row["city_probability"])
    output = ok("update", "c.atlas", "new.csv").output
    right = np.mean([row["city"] == row["city_predicted"] for row in rows])
    assert f"Error on these rows before: {right:.2%} right" in output
    assert "loss" in ok("inspect", "c.atlas").output


@pytest.mark.slow
def test_numbers_as_classes(work):
    write_csv("n.csv", ["x", "y"], [(k, k % 3) for k in range(90)])
    ok("fit", "n.csv", "--target", "y", "--classify", "-o", "n.atlas", *SMALL)
    assert estimator_of("n.atlas").classes_.tolist() == ["0", "1", "2"]
    ok("fit", "n.csv", "--target", "y", "--category", "y", "-o", "twin.atlas", *SMALL)
    assert (work / "twin.atlas").read_bytes() == (work / "n.atlas").read_bytes()
    assert (
        refused("fit", "n.csv", "--target", "y", "--category", "y", "--regress", *SMALL)
        == "--category y and --regress exclude each other; give one of them"
    )
    ok("fit", "n.csv", "--target", "y", "-o", "r.atlas", *SMALL)
    assert isinstance(estimator_of("r.atlas"), AtlasRegressor)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (["2", "10", "-1"], pa.int16()),
        (["2", "10", "-1"], pa.float64()),
        (["0.5", "1.5", "2"], pa.float64()),
        (["true", "false"], pa.bool_()),
        (["True", "False"], pa.string()),
        (["2.0", "10.0"], pa.string()),
    ],
)
def test_classes_come_back_as_they_were(work, labels, kind):
    values = pa.array(labels).cast(kind)
    table = pa.table({"x": np.arange(90.0), "y": values.take(pa.array(np.arange(90) % len(labels)))})
    parquet.write_table(table, "n.parquet")
    ok("fit", "n.parquet", "--target", "y", "--classify", "-o", "n.atlas", *SMALL)
    ok("predict", "n.atlas", "n.parquet", "-o", "out.parquet", "--probabilities")
    predicted = parquet.read_table("out.parquet")["y_predicted"]
    fractions = labels[0] == "0.5"
    assert predicted.type == (pa.string() if fractions else kind)
    assert set(predicted.to_pylist()) <= set(labels if fractions else values.to_pylist())
    assert "% right, log loss " in ok("update", "n.atlas", "n.parquet").output
    write_csv("n.csv", ["x", "y"], [(k, labels[k % len(labels)]) for k in range(90)])
    ok("fit", "n.csv", "--target", "y", "--classify", "-o", "c.atlas", *SMALL)
    ok("predict", "c.atlas", "n.csv", "-o", "out.csv")
    assert {row["y_predicted"] for row in records("out.csv")} <= set(labels)
    ok("update", "c.atlas", "n.parquet")  # either file teaches either model
    ok("update", "n.atlas", "n.csv")


@pytest.mark.slow
def test_columns_to_use_and_to_leave(work):
    ok(
        "fit",
        "homes.csv",
        "-t",
        "price",
        "--columns",
        "size",
        "--columns",
        "age",
        "-o",
        "a.atlas",
        "-q",
        *SMALL,
    )
    assert estimator_of("a.atlas").feature_names_in_.tolist() == ["size", "age"]
    assert (
        ok(
            "fit",
            "homes.csv",
            "-t",
            "price",
            "--ignore",
            "city",
            "--category",
            "garden",
            "-o",
            "a.atlas",
            "-q",
            *SMALL,
        ).output
        == ""
    )
    assert estimator_of("a.atlas").feature_names_in_.tolist() == ["size", "age", "garden"]
    result = ok("update", "a.atlas", "new.csv")
    assert result.stderr == "new.csv: not used: 'city'\n"


@pytest.mark.slow
def test_many_categories(work):
    random = np.random.default_rng(0)
    codes = random.integers(0, 40, 400)
    write_csv("z.csv", ["zip", "y"], [(f"z{(k * 7) % 40}", k) for k in codes])
    ok("fit", "z.csv", "-t", "y", "-o", "z.atlas", "--members", "1")
    ok("predict", "z.atlas", "z.csv", "-o", "out.csv")
    rows = records("out.csv")
    assert np.mean([abs(float(row["y"]) - float(row["y_predicted"])) for row in rows]) < 1


@pytest.mark.slow
def test_large_tables_are_learned_from_a_sample_and_the_evidence_of_all_rows(work, streams):
    write_csv("large.csv", HEADER, sorted(homes(3000), key=lambda row: row[0]))
    output = ok(
        "fit", "large.csv", "-t", "price", "-o", "l.atlas", "--members", "1", "--terms", "4", "--density", "2"
    ).output
    assert "large.csv: 3,000 rows" in output
    learned, others = map(int, re.search(r"Learned a sample of (\d+) rows; on (\d+) others", output).groups())
    assert learned + others == 500
    assert re.search(r"With the evidence of all rows: MAE|would not predict better", output)
    ok("predict", "l.atlas", "large.csv", "-o", "out.csv")
    rows = records("out.csv")
    assert len(rows) == 3000
    assert np.mean([abs(float(row["price"]) - float(row["price_predicted"])) for row in rows]) < 20
    output = ok("update", "l.atlas", "large.csv").output
    assert "large.csv: 3,000 rows, all of them learned." in output
    assert estimator_of("l.atlas").update_log_[-1].rows == 3000


def kept_by(path):
    """Targets of the rows that the model of a file is made from, in their order, rounded."""
    estimator = estimator_of(path)
    targets = needed_pool(state_of(estimator.model_)).memory.newest.targets[:, 0].astype(np.float64)
    return (targets * estimator.target_scale_[0] + estimator.target_mean_[0]).round(1).tolist()


def test_a_file_keeps_the_newest_rows_or_none(work):
    prices = [row[-1] for row in homes()]
    fit = ["fit", "homes.csv", "-t", "price", "-o", "k.atlas", "--force"]
    assert "; it keeps all 120 rows.\n" in ok(*fit).output
    assert kept_by("k.atlas") == prices
    assert (
        "\nrows: all 120 are kept; of more than 100,000 the oldest leave\n" in ok("inspect", "k.atlas").output
    )
    output = ok(*fit, "--max-rows", "50").output
    assert "; it keeps the newest 50 of 120 rows; the others are in its sums.\n" in output
    assert kept_by("k.atlas") == prices[-50:]
    line = "\nrows: 50 of 120 are kept; the oldest have left, and are in its sums\n"
    assert line in ok("inspect", "k.atlas").output
    assert json.loads(ok("inspect", "k.atlas", "--json").stdout)["kept_rows"] == 50
    output = ok(*fit, "--memory", "sums").output
    assert "; it keeps no rows.\n" in output
    assert "\nrows: none are kept, only sums of them\n" in ok("inspect", "k.atlas").output


@pytest.mark.slow
@pytest.mark.parametrize("most", [2000, 100_000])
def test_of_a_large_table_the_newest_rows_are_kept_in_order(work, streams, most):
    random, rows = np.random.default_rng(0), homes(3000)
    rough = [(*row[:4], round(row[4] + 50 * np.sin(row[0]) + random.normal(), 1)) for row in rows]
    write_csv("large.csv", HEADER, rough)
    output = ok("fit", "large.csv", "-t", "price", "-o", "l.atlas", "--max-rows", most).output
    found = re.search(r" on \d+ others: MAE ([\d.]+).*\nWith all rows: MAE ([\d.]+)", output)
    assert float(found[2]) < 0.8 * float(found[1])
    kept = "the newest 2,000 of 3,000 rows; the others are in its sums" if most == 2000 else "all 3,000 rows"
    assert f"; it keeps {kept}.\n" in output
    assert kept_by("l.atlas") == [row[-1] for row in rough][-most:]
    write_csv("more.csv", HEADER, [(*row[:4], row[4] + 1) for row in rough[:1200]])
    ok("update", "l.atlas", "more.csv", "--retention", "pool")
    expected = [row[-1] for row in rough] + [round(row[4] + 1, 1) for row in rough[:1200]]
    assert kept_by("l.atlas") == expected[-most:]
    line = "rows: 3,200 of 4,200 are kept; the newest 2,000 predict, and older ones stay until the latest updates"
    assert (line in ok("inspect", "l.atlas").output) == (most == 2000)


def test_rows_of_the_sample_are_kept_where_the_newest_predict_worse(work, streams):
    rows = [(k, round(100 * np.sin(k / 60))) for k in range(3000)]
    write_csv("turning.csv", ["x", "y"], rows)
    output = ok("fit", "turning.csv", "-t", "y", "-o", "t.atlas", "--max-rows", 450, "--regress").output
    assert re.search(r"With all rows: MAE [\d.]+.*; the newest would not predict better \(MAE [\d.]+", output)
    assert "; it keeps a random sample of 450 of 3,000 rows; the others are in its sums.\n" in output
    ok("predict", "t.atlas", "turning.csv", "-o", "out.csv")
    assert np.mean([abs(float(row["y"]) - float(row["y_predicted"])) for row in records("out.csv")]) < 20


@pytest.mark.slow
def test_evidence_that_would_harm_does_not_speak(work, streams, monkeypatch):
    write_csv("large.csv", HEADER, homes(1500))

    def spoil(self, state, rows):
        return self._take_state(replace(state, table=0 * state.table))

    monkeypatch.setattr(AtlasRegressor, "_take_first", spoil)
    output = ok("fit", "large.csv", "-t", "price", "-o", "l.atlas", *SMALL).output
    spoiled = float(re.search(r"would not predict better \(MAE ([\d.]+)", output)[1])
    kept = float(
        re.search(r"rows: MAE ([\d.]+)", ok("update", "l.atlas", "large.csv", "--dry-run").output)[1]
    )
    assert kept < spoiled / 3


def test_a_class_that_is_not_in_the_sample_is_known(work, streams):
    write_csv("c.csv", ["x", "c"], [(k, "rare" if k == 1500 else "ab"[k % 2]) for k in range(3000)])
    ok("fit", "c.csv", "-t", "c", "-o", "c.atlas", *SMALL)
    assert estimator_of("c.atlas").classes_.tolist() == ["a", "b", "rare"]


@pytest.mark.slow
def test_a_large_table_and_a_model_that_must_not_extrapolate(work, streams, monkeypatch):
    monkeypatch.setattr(fit, "TEST_SHARE", 0.5)
    rows = [
        (row[0] * 2.0 ** (k % 40), *row[1:]) for k, row in enumerate(homes(1500))
    ]  # few are near the largest
    write_csv("large.csv", HEADER, rows)
    totals = []
    for seed in range(3):
        options = ["--extrapolation", "error", "--seed", seed, "-o", "l.atlas", *SMALL]
        output = ok("fit", "large.csv", "-t", "price", *options).output
        assessed = re.search(r"Learned a sample of (\d+) rows; on (\d+) others: MAE", output)
        totals.append(sum(map(int, assessed.groups())))
    assert max(totals) <= 500
    assert min(totals) < 500  # rows kept aside that lie outside the domain are not judged by


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        ("a,y\n1,2\n", ["-t", "z"], "bad.csv has no column 'z'; it has 'a', 'y'"),
        ("a,y\n1,2\n", ["-t", "y", "--ignore", "b"], "bad.csv has no column 'b'; it has 'a', 'y'"),
        ("y\n1\n", ["-t", "y"], "bad.csv has no column left to predict 'y' from; name some"),
        ("a,y\n", ["-t", "y"], "bad.csv has no rows with a target below its header; check the file"),
        (
            "a,y\n1,2\nb,3\n",
            ["-t", "y"],
            "bad.csv, row 2, column 'a': 'b' is not a number, as other cells are; correct it, leave it empty, add --na 'b' if it stands for a missing value, or add --category a",
        ),
        (
            "a,y\n1,2\n2,b\n",
            ["-t", "y"],
            "bad.csv, row 2, column 'y': 'b' is not a number, as other cells are; correct it, leave it empty, add --na 'b' if it stands for a missing value, or add --classify",
        ),
        (
            "a,y\n1,2\n2,b\n",
            ["-t", "y", "--regress"],
            "bad.csv, row 2, column 'y': 'b' is not a number; correct it, leave it empty, or add --na 'b' if it stands for a missing value",
        ),
        (
            "a,y\n1,2\n2,\n",
            ["-t", "y"],
            "bad.csv, row 2, column 'y': the target is missing; fill it in, or add --skip-missing",
        ),
        ("a,y\n1,2\n2,3,4\n", ["-t", "y"], "bad.csv, row 2 has 3 cells instead of 2; correct that row"),
        ("a,y\n1,b\n2,b\n", ["-t", "y"], "bad.csv, column 'y': there is one class only, 'b'; two are needed"),
        (
            "a,y\n" + "".join(f"1,c{k}\n" for k in range(101)),
            ["-t", "y"],
            "bad.csv, column 'y': 101 classes are too many, at most 100; check --target",
        ),
        (
            "a,y\n" + "".join(f"n{k},{k}\n" for k in range(30)),
            ["-t", "y"],
            "bad.csv, column 'a': nearly every string is distinct, so the column carries no information; leave the column out with --ignore",
        ),
        (
            "a,y\n1,2024-01-05\n",
            ["-t", "y"],
            "bad.csv, column 'y': dates and times are not a target; turn them into numbers, such as days since a start",
        ),
        (
            "a=x,a,y\n1,x,1\n1,z,1\n1,w,1\n",
            ["-t", "y"],
            "bad.csv: a column has the name of another one's category or part of a date; rename it",
        ),
        (
            "a,y\n1,2\n",
            ["-t", "y", "--classify", "--regress"],
            "--classify and --regress exclude each other; give one of them",
        ),
        (
            "a,y\n1,x\n2,z\n",
            ["-t", "y", "--loss", "huber"],
            "loss must be one of auto, log_loss, not 'huber'",
        ),
    ],
)
def test_what_fit_refuses(work, text, options, says):
    (work / "bad.csv").write_text(text, encoding="utf8")
    before = files(work)
    assert refused("fit", "bad.csv", "-o", "bad.atlas", *options) == says
    assert files(work) == before


@pytest.mark.slow
def test_a_model_with_updates_is_not_replaced(work, monkeypatch):
    again = ["fit", "homes.csv", "-t", "price", "-o", "m.atlas", *SMALL]
    ok(*again)  # without updates it may be
    ok("update", "m.atlas", "new.csv")
    before = files(work)
    says = (
        "m.atlas has a log of 1 update, which would be lost; choose another name, or replace it with --force"
    )
    assert refused(*again) == says
    no_model = "is there already, and is not a model that can be read; choose another name, or replace it with --force"
    assert refused("fit", "homes.csv", "-t", "price", "-o", "new.csv", *SMALL) == f"new.csv {no_model}"
    assert files(work) == before
    ok(*again, "--force")
    assert estimator_of("m.atlas").update_log_ == []
    learn = fit.learn_small

    def with_an_update(*arguments):
        learn(*arguments)
        (work / "m.atlas").write_bytes(before["m.atlas"])

    monkeypatch.setattr(fit, "learn_small", with_an_update)
    assert refused(*again) == says
    assert files(work) == before


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs signals")
def test_an_interrupt_leaves_nothing_behind(work, tmp_path_factory, interruptible):
    before, scratch = files(work), tmp_path_factory.mktemp("scratch")
    process = subprocess.Popen(
        [*COMMAND, "fit", "-", "-t", "y", "-o", "a.atlas"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(scratch)},
    )
    # far more than a pipe holds: when all is written, the command reads it
    process.stdin.write(b"x,y\n" * 500_000)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode in (1, 130)  # interrupted, and not refused with 2
    assert b"Traceback" not in errors
    assert files(work) == before
    assert list(scratch.iterdir()) == []


def test_increasing_and_decreasing(work):
    ok(
        "fit",
        "homes.csv",
        "-t",
        "price",
        "--increasing",
        "size",
        "--decreasing",
        "age",
        "-o",
        "w.atlas",
        *SMALL,
    )
    model = estimator_of("w.atlas")
    assert model.monotonic_cst == {"size": 1, "age": -1}
    assert "monotonic_cst={'size': 1, 'age': -1}" in ok("inspect", "w.atlas").output
    write_csv("down.csv", HEADER, homes(60, factor=-2, seed=1))  # larger homes are cheaper: against the rule
    ok("update", "w.atlas", "down.csv")
    cells = [(size, 20, "Cadiz", "yes", 0) for size in np.linspace(-100, 400, 1000)]
    write_csv("line.csv", HEADER, cells)
    ok("predict", "w.atlas", "line.csv", "-o", "out.csv")
    prices = np.array([float(row["price_predicted"]) for row in records("out.csv")])
    assert (np.diff(prices) >= -1e-5 * np.ptp(prices)).all()  # of float32
    assert np.ptp(prices) > 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--increasing", "city"], "column 'city' of homes.csv has categories, which have no order"),
        (["--increasing", "garden"], "column 'garden' of homes.csv has categories, which have no order"),
        (["--decreasing", "sizes"], "homes.csv has no input column 'sizes' to go along; check its name"),
        (["--decreasing", "price"], "homes.csv has no input column 'price' to go along; check its name"),
        (["--increasing", "age", "--decreasing", "age"], "--increasing and --decreasing both name 'age'"),
        (
            ["--increasing", "age", "--extrapolation", "linear"],
            "monotonic_cst does not go with extrapolation",
        ),
    ],
    ids=str,
)
def test_ways_that_are_refused(work, options, sentence):
    assert sentence in refused("fit", "homes.csv", "-t", "price", "-o", "w.atlas", *options, *SMALL)
    assert not (work / "w.atlas").exists()


def test_ways_of_many_classes(work):
    line = refused("fit", "homes.csv", "-t", "city", "--increasing", "size", "-o", "w.atlas", *SMALL)
    assert line == (
        "--increasing and --decreasing are for numbers or two classes, and 'city' has 3 classes; leave them out"
    )


def test_counts_are_never_predicted_below_zero(work):
    random = np.random.default_rng(0)
    x = random.uniform(0, 1, 300)
    write_csv(work / "counts.csv", ("x", "n"), zip(x, random.poisson(np.exp(6 * x - 4)), strict=True))
    output = ok("fit", "counts.csv", "-t", "n", "-o", "n.atlas", "--loss", "poisson").output
    assert re.search(r"Cross-validated deviance [\d.]+ \(R² [\d.]+; the mean alone [\d.]+\)\.", output)
    ok("update", "n.atlas", "counts.csv")
    ok("predict", "n.atlas", "counts.csv", "-o", "said.csv", "--interval", "0.9")
    predicted = np.array([[float(cell) for cell in list(row.values())[-3:]] for row in records("said.csv")])
    assert predicted[:, 0].min() > 0
    assert predicted[:, 1].min() >= 0


def test_classes_are_balanced_on_demand(work):
    random = np.random.default_rng(0)
    is_rare = random.random(400) < 0.1
    x = random.normal(size=400) + is_rare
    write_csv(work / "rare.csv", ("x", "kind"), zip(x, np.where(is_rare, "rare", "usual"), strict=True))
    ok("fit", "rare.csv", "-t", "kind", "-o", "r.atlas", "--class-weight", "balanced")
    model = estimator_of("r.atlas")
    assert model.class_weight == "balanced"
    assert model.class_weight_[0] > 3
    ok("predict", "r.atlas", "rare.csv", "-o", "kinds.csv")
    assert np.mean([row["kind_predicted"] == "rare" for row in records("kinds.csv")]) > 0.2
    assert "class_weight is for classes" in refused(
        "fit", "homes.csv", "-t", "price", "-o", "x.atlas", "--class-weight", "balanced"
    )
