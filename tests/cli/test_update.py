import json
import os
import re
import subprocess
import sys
import textwrap
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from command import (
    COMMAND,
    HEADER,
    SMALL,
    estimator_of,
    files,
    homes,
    inputs_of,
    ok,
    records,
    refused,
    run,
    write_csv,
)

from atlas_splines import load
from atlas_splines.cli import fit, update
from atlas_splines.cli.app import app
from atlas_splines.files.locks import lock
from atlas_splines.model.atlas import state_of
from atlas_splines.tables import source as reading
from atlas_splines.tables.encoded_rows import EncodedRows
from atlas_splines.tables.encoding import Column, Encoding
from atlas_splines.tables.source import Source
from atlas_splines.updates.routing import memory_in


@pytest.mark.slow
def test_update_tells_what_it_did(work):
    before = estimator_of("m.atlas")
    output = ok("update", "m.atlas", "new.csv", "--retention", "chart").output
    assert "new.csv: 60 rows, all of them learned." in output
    assert re.search(
        r"Can change: rows with all of these.*, about \d+% of the known rows, [\d.]+% of the domain:\n  size    (?:79|80)\.\d+ to 1\d\d\.\d+",
        output,
    )
    assert "Cannot change: every other prediction; it stays the same to the bit." in output
    before_and_after = (
        r"before: MAE [\d.]+, RMSE ([\d.]+) .*\nCross-validated RMSE ([\d.]+) \(R² .* on these rows"
    )
    rmse_before, rmse_after = map(float, re.search(before_and_after, output).groups())
    assert rmse_after < rmse_before / 3
    assert "This is update 1 of m.atlas; atlas revert m.atlas 1 takes it back." in output
    after = estimator_of("m.atlas")
    X = np.column_stack(
        [np.linspace(30, 75, 50), np.full(50, 40.0), np.eye(3)[np.arange(50) % 3], np.arange(50) % 2]
    )
    X = EncodedRows(X)
    assert (before.predict(X) == after.predict(X)).all()
    assert after.get_params() == before.get_params()


def test_errors_are_those_of_the_estimator(work):
    ok("predict", "m.atlas", "new.csv", "-o", "out.csv")
    rows = records("out.csv")
    errors = np.array([float(row["price"]) - float(row["price_predicted"]) for row in rows])
    mae, rmse = np.abs(errors).mean(), np.sqrt((errors**2).mean())
    output = ok("update", "m.atlas", "new.csv").output
    assert f"before: MAE {mae:.4g}, RMSE {rmse:.4g} (R²" in output
    done = estimator_of("m.atlas").update_log_[0]
    assert (done.measure, done.unit, done.held_out.crossed) == ("RMSE", "target", True)
    assert f"Cross-validated RMSE {done.held_out.error:.4g} (R² {done.held_out.score:.4g}; the mean" in output
    assert done.error_after < done.held_out.error < done.error_before


def test_dry_run_writes_nothing(work):
    before = files(work)
    output = ok("update", "m.atlas", "new.csv", "--retention", "chart", "--dry-run").output
    assert output.startswith("new.csv: 60 rows, all of them would be learned.\n")
    assert "Can change" in output
    assert "Nothing was written." in output
    assert files(work) == before


@pytest.mark.slow
def test_dry_run_keeps_its_promise(work):
    output = ok("update", "m.atlas", "new.csv", "--retention", "chart", "--dry-run").output
    promised = output.splitlines()[1:6]
    assert ok("update", "m.atlas", "new.csv", "--retention", "chart").output.splitlines()[1:6] == promised


def test_by_default_the_data_decides_and_the_command_says_what_it_did(work):
    output = ok("update", "m.atlas", "new.csv").output
    assert "Can change: every prediction; --retention chart confines it to boxes around the rows." in output
    assert re.search(r"\nDone: the rows contradict what was known.*\.\n", output)
    both = r"before: MAE [\d.]+, RMSE ([\d.]+) .*\nCross-validated RMSE ([\d.]+) "
    (rmse_before, rmse_after) = map(float, re.search(both, output).groups())
    assert rmse_after < rmse_before
    assert "atlas revert m.atlas 1 takes it back" in output
    output = ok("update", "m.atlas", "new.csv", "--retention", "pool", "--accept").output
    assert "Done: pooled with all rows before" in output


def learned_at_once(path, table, retention):
    """The estimator of a file after `partial_fit` of all rows of a table."""
    model = load(path)
    source = Source.of(table)
    (piece,) = source.pieces()
    X, (y, _) = model.encoding_.encode(piece), model.encoding_.targets(piece, skip=False)
    model.retention = retention
    return model.partial_fit(X, y), X


@pytest.mark.slow
def test_a_large_table_is_pooled_whole_whatever_its_pieces(work, streams, monkeypatch):
    write_csv("large.csv", HEADER, homes(1400, 40, 150, seed=4))
    predicted = []
    for block in (4096, 30_000):
        monkeypatch.setattr(reading, "BLOCK", block)
        output = ok(
            "update", "m.atlas", "large.csv", "-o", "l.atlas", "--retention", "pool", "--force"
        ).output
        assert "large.csv: 1,400 rows, all of them learned." in output
        assert "Done: pooled with all rows before." in output
        predicted.append(estimator_of("l.atlas"))
    monkeypatch.setattr(reading, "BLOCK", 10_000_000)
    whole, X = learned_at_once(work / "m.atlas", work / "large.csv", "pool")
    for model in predicted:
        assert model.update_log_[0].rows == 1400
        assert memory_in(state_of(model.model_)).total == memory_in(state_of(whole.model_)).total
        assert np.array_equal(model.predict(X), whole.predict(X))
    ok("revert", "l.atlas", "1")
    assert (
        memory_in(state_of(estimator_of("l.atlas").model_)).total
        == memory_in(state_of(load("m.atlas").model_)).total
    )


@pytest.mark.slow
def test_charts_of_a_large_table_are_decided_on_a_sample_and_all_rows_are_learned(work, streams):
    write_csv("large.csv", HEADER, homes(1400, 80, 120, factor=3, seed=4))
    output = ok("update", "m.atlas", "large.csv").output
    assert "Can change: every prediction; --retention chart confines it" in output
    assert re.search(
        r"Done: the rows contradict .*; decided on a sample of 500 of 1,400 rows, all learned", output
    )
    (entry,) = estimator_of("m.atlas").update_log_
    assert entry.rows == 1400
    state = state_of(estimator_of("m.atlas").model_)
    pools = [memory_in(state), *(memory_in(state_of(chart.content)) for chart in state.charts)]
    assert sum(pool.total.count for pool in pools) == 120 + 1400
    output = ok("update", "m.atlas", "large.csv", "--retention", "chart").output
    assert "a random sample of 500 of them learned." in output


@pytest.mark.slow
def test_one_of_something_is_not_several(work):
    write_csv("one.csv", HEADER, homes(1, 80, 120, seed=1))
    assert "one.csv: 1 row, would be learned." in ok("update", "m.atlas", "one.csv", "--dry-run").output
    assert "one.csv: 1 row, learned." in ok("update", "m.atlas", "one.csv", "--retention", "chart").output
    assert ok("predict", "m.atlas", "one.csv", "-o", "out.csv").stderr.startswith("1 row predicted")
    assert re.search(r"7 inputs, 1 output, .* coefficients, 1 chart\n", ok("inspect", "m.atlas").output)
    assert "Update 1 of m.atlas (1 row) was taken back" in ok("revert", "m.atlas", "1").output
    assert (
        fit.described(Encoding((Column("x"),), "y"))
        == "numbers, from 1 column of numbers and 0 of categories"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("retention", "says"),
    [("none", "Can change: every prediction.\n"), ("rehearsal", "every prediction, a little")],
)
def test_other_kinds_of_retention(work, retention, says):
    output = ok("update", "m.atlas", "new.csv", "--retention", retention).output
    assert says in output
    assert output.endswith("This is update 1 of m.atlas; atlas revert m.atlas 1 takes it back.\n")
    assert estimator_of("m.atlas").update_log_[-1].kind == retention
    assert estimator_of("m.atlas").retention == "auto"
    assert "every prediction is as it was before, to the bit" in ok("revert", "m.atlas", "1").output


@pytest.mark.slow
def test_training_without_all_rows_cannot_be_reverted(work):
    ok("fit", "homes.csv", "-t", "price", "-o", "s.atlas", "--memory", "sums", *SMALL)
    output = ok("update", "s.atlas", "new.csv", "--retention", "none").output
    why = "since it trained the coefficients themselves and no copy is kept"
    assert output.endswith(f"This is update 1 of s.atlas; it cannot be taken back, {why}.\n")
    assert refused("revert", "s.atlas", "1") == (
        f"s.atlas: update 1 cannot be reverted, {why}; of this model's updates, none can"
    )


@pytest.mark.slow
def test_a_domain_that_grows_is_told(work):
    write_csv("far.csv", HEADER, homes(60, 250, 300, seed=2))
    output = ok("update", "m.atlas", "far.csv", "--retention", "chart").output
    assert re.search(
        r"Domain: size is now 2\d\.\d+ to [23]\d\d\.?\d*; it was 2\d\.\d+ to 20\d\.\d+\.", output
    )
    assert "Cannot change: every other prediction in the domain it had; it stays" in output
    assert re.search(r"  size    2[45]\d\.?\d* (?:or more|to \d+)", output)


@pytest.mark.slow
def test_rows_can_be_skipped_and_categories_can_be_missing(work):
    write_csv("odd.csv", HEADER, [*homes(60), (50, 3, "Cadiz", "no", ""), (50, 3, "Oslo", "maybe", 9)])
    output = ok("update", "m.atlas", "odd.csv", "--skip-missing", "--unknown", "missing").output
    assert "odd.csv: 61 rows" in output
    ok("predict", "m.atlas", "odd.csv", "--unknown", "missing")
    ok("fit", "odd.csv", "-t", "price", "--skip-missing", "-o", "odd.atlas", *SMALL)
    write_csv("none.csv", HEADER, [(50, 3, "Cadiz", "no", "")])
    assert (
        refused("update", "m.atlas", "none.csv", "--skip-missing")
        == "none.csv has no rows with a target below its header; check the file"
    )


@pytest.mark.slow
def test_a_model_that_must_not_extrapolate_learns_rows_beyond_its_domain(work):
    ok("fit", "homes.csv", "-t", "price", "--extrapolation", "error", "-o", "e.atlas", *SMALL)
    far = homes(60, 250, 300, seed=2)
    write_csv("far.csv", HEADER, far)
    write_csv("both.csv", HEADER, [*far, *homes(40, 80, 120, seed=3)])
    output = ok("update", "e.atlas", "both.csv", "--dry-run").output
    assert "both.csv: 100 rows" in output
    assert re.search(r"Error on these rows: MAE [\d.]+, RMSE .* on the 40 rows inside the domain", output)
    output = ok("update", "e.atlas", "far.csv").output
    assert "Error on these rows before: unknown: outside the domain\n" in output
    assert re.search(r"Cross-validated RMSE [\d.]+ \(R² .* on these rows after\.\n", output)
    ok("predict", "e.atlas", "far.csv", "-o", "out.csv")
    ok("fit", "homes.csv", "-t", "city", "--extrapolation", "error", "-o", "c.atlas", *SMALL)
    assert re.search(
        r"% right, log loss .* on the 40 rows inside", ok("update", "c.atlas", "both.csv", "--dry-run").output
    )


@pytest.mark.filterwarnings("error")
def test_a_target_that_is_too_large_is_refused(work):
    write_csv("huge.csv", HEADER, [*homes(60), (50, 3, "Cadiz", "no", 1e300)])
    write_csv("far.csv", HEADER, [*homes(60), (50, 3, "Cadiz", "no", 1e30)])
    huge = "huge.csv, row 61, column 'price': the number is beyond 1e+150, too large to compute with; correct it or leave it empty"
    assert refused("fit", "huge.csv", "-t", "price", "-o", "h.atlas", *SMALL) == huge
    assert refused("update", "m.atlas", "huge.csv") == huge
    assert re.fullmatch(
        r"y has 1e\+30, too far from the targets of fit, which are [\d.]+ on average; correct it, or fit again",
        refused("update", "m.atlas", "far.csv"),
    )


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_a_whole_file(work):
    """Processes with everything imported fork, update, and are killed: at the file's last step, or at random."""
    script = textwrap.dedent("""
        import os, random, signal, sys, time
        from atlas_splines import load
        from atlas_splines.cli.app import app
        random.seed(0)
        app(["update", "m.atlas", "new.csv", "-o", "other.atlas"], standalone_mode=False)  # children need not load the kernels

        replace = os.replace

        def die(*_):
            os.kill(os.getpid(), signal.SIGKILL)

        def replace_and_die(*names):
            replace(*names)
            die()

        def child(kill_after, at_the_end=replace):
            start = time.perf_counter()
            pid = os.fork()
            if not pid:
                os.replace = at_the_end
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                app(["update", "m.atlas", "new.csv", "--retention", random.choice(["chart", "none", "none"]), "--accept"])
            if kill_after is not None:
                time.sleep(kill_after)
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return time.perf_counter() - start

        span = max(child(None), child(None))
        moments = [(None, die), (None, replace_and_die), (None, replace)]
        moments += [(random.uniform(0.1, 1.3) * span, replace) for _ in range(12)]
        for moment in moments:
            child(*moment)
            print("log", len(load("m.atlas").update_log_), flush=True)
    """)
    one_thread = {**os.environ, "NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # threads do not fork
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=one_thread
    )
    lengths = [2, *map(int, re.findall(r"log (\d+)", result.stdout))]
    steps = np.diff(lengths)
    assert len(steps) == 15
    assert steps[:3].tolist() == [
        0,
        1,
        1,
    ]  # killed with all written but in its place, killed then, not killed
    assert set(steps) <= {0, 1}  # each update is there or is not
    ok("update", "m.atlas", "new.csv", "--accept")  # no lock was left behind
    assert len(estimator_of("m.atlas").update_log_) == lengths[-1] + 1


@pytest.mark.slow
def test_updates_at_once_are_all_kept(work):
    processes = [
        subprocess.Popen([*COMMAND, "update", "m.atlas", "new.csv", "--accept"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]  # fmt: skip
    for process in processes:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
        assert errors in ("", "another process is changing m.atlas; waiting for it\n")
    assert [record.id for record in estimator_of("m.atlas").update_log_] == [1, 2]


def test_who_does_not_want_to_wait_is_told(work):
    with lock("m.atlas"):
        for command in (["update", "m.atlas", "new.csv"], ["revert", "m.atlas", "1"]):
            assert (
                refused(*command, "--wait", "0")
                == "another process is updating m.atlas; try again, or wait longer"
            )


@pytest.mark.slow
@pytest.mark.parametrize("retention", ["auto", "pool", "chart", "none"])
def test_a_table_of_400_columns_is_updated(retention, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("atlas_splines.updates.trained_charts.BATCHES", 20)  # enough to see that it ends
    X = np.random.default_rng(0).random((90, 400)).round(3)
    header = [*(f"c{j}" for j in range(400)), "y"]
    write_csv("first.csv", header, np.column_stack([X, X[:, 0]]).tolist())
    write_csv("wide.csv", header, np.column_stack([0.2 + 0.5 * X, 1 + X[:, 0]]).tolist())
    ok("fit", "first.csv", "-t", "y", "-o", "m.atlas", "--members", "1", "--terms", "0", "--density", "0")
    assert (
        "wide.csv: 90 rows, all of them learned."
        in ok("update", "m.atlas", "wide.csv", "--retention", retention).output
    )
    (entry,) = estimator_of("m.atlas").update_log_
    assert entry.rows == 90
    assert f"\n1   {entry.time:%Y-%m-%d %H:%M}" in ok("inspect", "m.atlas").output


@pytest.mark.slow
def test_a_far_row_is_refused_unless_it_is_meant(work):
    write_csv("far.csv", HEADER, [*homes(40, seed=3), (90000, 10, "Cadiz", "no", 300)])
    size = os.path.getsize("m.atlas")
    line = refused("update", "m.atlas", "far.csv", "--retention", "chart")
    assert re.fullmatch(
        r"far\.csv: row 40 of X has 90000 in column 0, far outside its domain, .* to .*; correct it or leave it "
        r"out, or let the domain grow that far with --far",
        line,
    )
    rows = [(size + 20000, *others, 5000) for size, *others, _ in homes(200, seed=3)]
    write_csv("far.csv", HEADER, rows)  # all of them are far, and a chart is needed
    refused("update", "m.atlas", "far.csv", "--retention", "chart")
    output = ok("update", "m.atlas", "far.csv", "--retention", "chart", "--far").output
    assert "Domain: size is now" in output
    assert "is as it was before, to the bit" in ok("revert", "m.atlas", "1").output
    assert os.path.getsize("m.atlas") < size + 10_000  # one more entry of the log


def run_unread(*arguments):
    """Run the command with an output that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*COMMAND, *arguments], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    return done


@pytest.mark.slow
def test_an_update_is_saved_when_nobody_reads_on(work):
    """As with `atlas update … | head -1`."""
    done = run_unread("update", "m.atlas", "new.csv")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(estimator_of("m.atlas").update_log_) == 1
    done = run_unread("revert", "m.atlas", "1")
    assert (done.returncode, done.stderr) == (0, "")
    assert estimator_of("m.atlas").update_log_[0].reverted is not None
    done = run_unread("predict", "m.atlas", "new.csv")
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)


@pytest.mark.slow
def test_new_categories_are_learned(work):
    new = [(100 + k, 20, "Oslo", "maybe" if k % 2 else "no", 500) for k in range(30)]
    write_csv("odd.csv", HEADER, new)
    before = files(work)
    says = "odd.csv, row 1, column 'city': 'Oslo' was not there in fit, which had 'Aarhus', 'Bergen', 'Cadiz'; correct it, learn it with an update without --strict, or treat it as missing with --unknown missing"
    for strict in (["--strict"], ["--unknown", "error"], ["--strict", "--unknown", "missing"]):
        assert refused("update", "m.atlas", "odd.csv", *strict) == says
    assert files(work) == before
    ok("predict", "m.atlas", "odd.csv", "--unknown", "missing", "-o", "out.csv")
    before_it = np.mean([float(row["price_predicted"]) for row in records("out.csv")])
    output = ok("update", "m.atlas", "odd.csv").output
    assert "New in column 'city': 'Oslo', known as the mean of all until its rows are learned.\n" in output
    assert "New in column 'garden': 'maybe', known as the mean of all until its rows are learned.\n" in output
    ok("predict", "m.atlas", "odd.csv", "-o", "out.csv")  # it knows them
    after = np.mean([float(row["price_predicted"]) for row in records("out.csv")])
    assert after > (before_it + 500) / 2
    assert "New in column" not in ok("update", "m.atlas", "odd.csv", "--dry-run").output
    write_csv("odder.csv", HEADER, [(100, 20, "Paris", "no", 500)])
    assert "'Paris' was not there in fit" in refused("predict", "m.atlas", "odder.csv")


@pytest.mark.slow
def test_new_categories_among_many_get_a_place(work):
    write_csv("z.csv", ["zip", "y"], [(f"z{k % 30:02}", k % 30) for k in range(300)])
    ok("fit", "z.csv", "-t", "y", "-o", "z.atlas", *SMALL)
    write_csv("new.csv", ["zip", "y"], [("z99", 60)] * 60)
    output = ok("update", "z.atlas", "new.csv").output
    assert "New in column 'zip': 'z99', known as the mean of all until its rows are learned.\n" in output
    assert "pooled" in output  # a chart would speak for levels that lie near the new one
    assert "30: 'z00'" in ok("inspect", "z.atlas").output
    ok("predict", "z.atlas", "new.csv", "-o", "out.csv")
    assert float(records("out.csv")[0]["y_predicted"]) > 45


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_new_classes_are_learned(work, ending):
    def write(name, labels):
        table = pa.table({"x": [k + 0.1 * j for k in labels for j in range(9)], "y": np.repeat(labels, 9)})
        if ending == "parquet":
            parquet.write_table(table, name)
        else:
            write_csv(name, ["x", "y"], zip(*table.to_pydict().values(), strict=True))

    old, new = f"old.{ending}", f"new.{ending}"
    write(old, [1, 2, 3, 5, 6] * 2)
    write(new, [4, 12])
    ok("fit", old, "-t", "y", "--classify", "-o", "c.atlas", *SMALL)
    before = files(work)
    assert "was not there in fit, which had" in refused("update", "c.atlas", new, "--strict")
    assert files(work) == before
    output = ok("update", "c.atlas", new).output
    labels = [4, 12] if ending == "parquet" else ["12", "4"]
    assert f"New in column 'y': {labels[0]!r}, {labels[1]!r}, learned as classes.\n" in output
    ok("predict", "c.atlas", new, "-o", "new-out.csv")
    assert all(row["y"] == row["y_predicted"] for row in records("new-out.csv"))
    classes = estimator_of("c.atlas").classes_.tolist()
    assert classes == sorted([*([1, 2, 3, 5, 6] if ending == "parquet" else "12356"), *labels])
    ok("predict", "c.atlas", old, "-o", "out.csv")
    assert np.mean([row["y"] == row["y_predicted"] for row in records("out.csv")]) > 0.9


@pytest.mark.slow
def test_new_classes_and_categories_one_after_the_other(work):
    ok("fit", "homes.csv", "-t", "city", "-o", "c.atlas", *SMALL)
    for city, garden, size, price in [("Oslo", "maybe", 160, 50), ("Paris", "roof", 40, 350)]:
        rows = [(size + k, 20, city, garden, price + k) for k in range(30)]
        write_csv("more.csv", HEADER, rows)
        before = files(work)
        assert f"{city!r} was not there in fit" in refused("update", "c.atlas", "more.csv", "--strict")
        assert files(work) == before
        output = ok("update", "c.atlas", "more.csv", "--retention", "pool").output
        assert (
            f"New in column 'garden': {garden!r}, known as the mean of all until its rows are learned.\n"
            in output
        )
        assert f"New in column 'city': {city!r}, learned as classes.\n" in output
        ok("update", "c.atlas", "more.csv", "--strict", "--dry-run")
    ok("predict", "c.atlas", "more.csv", "-o", "out.csv")
    assert {row["city_predicted"] for row in records("out.csv")} == {"Paris"}
    assert estimator_of("c.atlas").classes_.tolist() == ["Aarhus", "Bergen", "Cadiz", "Oslo", "Paris"]


@pytest.mark.slow
def test_new_classes_beside_charts_are_refused_with_what_to_do(work):
    ok("fit", "homes.csv", "-t", "city", "-o", "c.atlas", *SMALL)
    write_csv("here.csv", HEADER, [(60 + k % 20, 20 + k % 7, "Cadiz", "no", 100 + k) for k in range(40)])
    ok("update", "c.atlas", "here.csv", "--retention", "chart")
    write_csv("more.csv", HEADER, [(100, 20, "Oslo", "no", 900)] * 30)
    before = files(work)
    assert refused("update", "c.atlas", "more.csv") == (
        "more.csv, column 'city': 'Oslo' was not there in fit, and cannot be learned where charts stand; "
        "take these back with atlas revert, or fit again with all rows"
    )
    assert files(work) == before
    ok("revert", "c.atlas", "1")
    assert "New in column 'city': 'Oslo', learned as classes.\n" in ok("update", "c.atlas", "more.csv").output


def test_what_is_no_class(work):
    table = pa.table({"x": np.arange(60.0), "y": np.arange(60) % 2 == 0, "n": np.arange(60) % 3})
    parquet.write_table(table, "b.parquet")
    ok("fit", "b.parquet", "-t", "y", "--ignore", "n", "-o", "b.atlas", *SMALL)
    write_csv("b.csv", ["x", "y", "n"], [(1, "perhaps", "many")])
    says = "b.csv, column 'y': 'perhaps' was not there in fit, which had False, True; correct it"
    assert refused("update", "b.atlas", "b.csv") == says
    ok("fit", "b.parquet", "-t", "n", "--classify", "--ignore", "y", "-o", "b.atlas", *SMALL)
    assert refused("update", "b.atlas", "b.csv") == (
        "b.csv, column 'n': 'many' was not there in fit, which had 0, 1, 2; correct it"
    )


def test_rows_where_nothing_was_known_are_counted(work):
    known, far = homes(40, seed=4), homes(3, 260, 300, seed=4)
    write_csv("mixed.csv", HEADER, [*known, *far])
    assert (estimator_of("m.atlas").support(inputs_of("m.atlas", "mixed.csv")) == 0).sum() >= 3
    result = ok("update", "m.atlas", "mixed.csv", "--dry-run")
    nothing = (estimator_of("m.atlas").support(inputs_of("m.atlas", "mixed.csv")) == 0).sum()
    says = f"{nothing} of 43 rows lie where nothing was known, beyond the fit in 'size'.\n"
    assert result.stderr == says
    write_csv("one.csv", HEADER, far[:1])
    assert (
        "1 of 1 row lies where nothing was known, beyond the fit in 'size'.\n"
        in ok("update", "m.atlas", "one.csv").stderr
    )
    write_csv("old.csv", HEADER, homes()[:1])
    assert "nothing was known" not in ok("update", "m.atlas", "old.csv").stderr


def test_that_time_goes_on_is_no_news(work):
    begin = datetime(2024, 1, 1)
    hours = [(begin + timedelta(hours=k), k % 24, 0.01 * (k % 24) ** 2 + 0.001 * k) for k in range(1400)]
    rows = [(f"{when:%Y-%m-%d}", hour, value) for when, hour, value in hours]
    write_csv("start.csv", ["day", "hour", "load"], rows[:1064])
    ok("fit", "start.csv", "-t", "load", "-o", "load.atlas", *SMALL)
    for k in range(2):
        write_csv("week.csv", ["day", "hour", "load"], rows[1064 + 168 * k : 1232 + 168 * k])
        assert "nothing was known" not in ok("update", "load.atlas", "week.csv").stderr
    write_csv("odd.csv", ["day", "hour", "load"], [("2024-03-01", 40, 5)])
    assert ok("update", "load.atlas", "odd.csv").stderr == (
        "1 of 1 row lies where nothing was known, beyond the fit in 'hour'.\n"
    )


def test_of_many_rows_a_sample_is_judged(work, monkeypatch):
    monkeypatch.setattr(update, "MOST_JUDGED", 20)
    write_csv("far.csv", HEADER, homes(60, 260, 300, seed=4))
    assert ok("update", "m.atlas", "far.csv", "--dry-run").stderr == (
        "20 of a random sample of 20 rows lie where nothing was known, beyond the fit in 'size'.\n"
    )


@pytest.mark.parametrize("way", [(), ("--retention", "chart")])
def test_one_far_row_is_no_world(work, way):
    """What is told before is what the log says; the row is no needle, and the file stays as it was, nearly."""
    size = (work / "m.atlas").stat().st_size
    write_csv("far.csv", HEADER, [(1200, 40, "Cadiz", "no", 5000)])
    assert "far outside its domain" in refused("update", "m.atlas", "far.csv", "--retention", "chart")
    ok("predict", "m.atlas", "homes.csv", "-o", "before.csv")
    output = ok("update", "m.atlas", "far.csv", *way, "--far").output
    ok("predict", "m.atlas", "homes.csv", "-o", "after.csv")
    assert (work / "before.csv").read_bytes() == (work / "after.csv").read_bytes()
    told = re.search(r"these, (none) of the known rows, (.*%) of the domain:", output).groups()
    assert re.search(rf"\n1 .* {told[0]} +{told[1]}\n", ok("inspect", "m.atlas").output)
    write_csv("near.csv", HEADER[:4], [(1200 + step, 40, "Cadiz", "no") for step in (0, 1, -1)])
    ok("predict", "m.atlas", "near.csv", "-o", "out.csv")
    at, *around = [float(row["price_predicted"]) for row in records("out.csv")]
    assert at == pytest.approx(5000, rel=0.01)
    assert min(around) > 4000
    assert (work / "m.atlas").stat().st_size < 1.5 * size


def test_an_update_that_spoils_what_was_known_says_so(work):
    write_csv("wrong.csv", HEADER, homes(60, factor=-20))
    output = ok("update", "m.atlas", "wrong.csv", "--retention", "pool").output
    assert re.search(r"\nLook: rows known before are predicted worse now, with [\d.,]+ times", output)
    assert re.search(r"\nupdate 1: rows known before are predicted worse", ok("inspect", "m.atlas").output)


def times_ten(rows):
    return [[*row[:-1], 10 * row[-1]] for row in rows]  # the target is last


def test_a_table_in_other_units_is_refused_with_its_reason_and_an_exit_code(work):
    write_csv("units.csv", HEADER, times_ten(homes(120, seed=5)))
    before = Path("m.atlas").read_bytes()
    result = run(app, ["update", "m.atlas", "units.csv"])
    assert result.exit_code == 3
    assert result.stderr == (
        "atlas: units.csv: targets are about 10 times those predicted; "
        "nothing was learned: correct the table, or learn it all the same with --accept\n"
    )
    assert Path("m.atlas").read_bytes() == before
    result = ok("update", "m.atlas", "units.csv", "--accept")
    assert result.output.count("Look: ") == 1
    assert "Look: " not in result.stderr
    assert "UpdateWarning" not in result.stderr


def test_a_table_that_was_learned_is_not_learned_again(work):
    write_csv("more.csv", HEADER, homes(90, seed=5))
    ok("update", "m.atlas", "more.csv")
    before = Path("m.atlas").read_bytes()
    again = ok("update", "m.atlas", "more.csv")
    assert "These rows are update 1, so nothing was learned; --accept learns them twice." in again.output
    assert again.stderr == ""
    assert Path("m.atlas").read_bytes() == before
    assert json.loads(ok("update", "m.atlas", "more.csv", "--json").stdout)["known"] == 1
    ok("update", "m.atlas", "more.csv", "-o", "other.atlas")
    assert len(estimator_of("other.atlas").update_log_) == 1
    ok("update", "m.atlas", "more.csv", "--accept")
    assert len(estimator_of("m.atlas").update_log_) == 2


def with_garage(path, seed, rows=60, names=("size", "garage", "price")):
    random = np.random.default_rng(seed)
    size, garage = random.uniform(20, 200, rows), random.integers(3, size=rows)
    every = {"size": size.round(1), "garage": np.array(["none", "one", "two"])[garage]}
    every |= {"price": (2 * size + 200 * garage).round(2), "id": np.arange(rows)}
    write_csv(path, list(names), list(zip(*(every[name] for name in names), strict=True)))


@pytest.mark.slow
def test_new_columns(work):
    with_garage("first.csv", 0, names=("id", "size", "price"))
    with_garage("week.csv", 1)
    with_garage("later.csv", 2, names=("garage", "price"))
    ok("fit", "first.csv", "--target", "price", "--ignore", "id", "-o", "g.atlas", "-q", *SMALL)
    before = load("g.atlas").model_.fingerprint()
    sentence = refused("update", "g.atlas", "week.csv")
    assert "week.csv has the column 'garage', which the model has not seen" in sentence
    assert "--new-columns" in sentence
    assert "--ignore garage" in sentence
    told = ok("update", "g.atlas", "week.csv", "--new-columns").stdout
    assert "New: column 'garage'; older rows count as missing there." in told
    assert "Done: column 'garage' came: all rows were fitted again." in told
    assert load("g.atlas").encoding_.names == ["size", "garage"]
    assert "column 'garage' came" in ok("log", "g.atlas").stdout
    result = ok("update", "g.atlas", "later.csv")
    assert "later.csv: not there, and counted as missing: 'size'" in result.stderr
    ok("revert", "g.atlas", "2")
    ok("revert", "g.atlas", "1")
    assert load("g.atlas").encoding_.names == ["size"]
    assert load("g.atlas").model_.fingerprint() == before
    ok("update", "g.atlas", "week.csv", "--ignore", "garage")
    assert load("g.atlas").encoding_.names == ["size"]
