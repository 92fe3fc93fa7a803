"""Commands whose tables are read by workers, in processes of their own."""

from datetime import date, timedelta
from pathlib import Path

import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
import pytest
from command import HEADER, estimator_of, files, homes, ok, refused, write_csv
from distributed import LocalCluster

from atlas_splines import load
from atlas_splines.dask import clusters
from atlas_splines.versions import version

SIZES = ["--members", "1", "--terms", "4", "--density", "2"]
COLUMNS = ["size", "age", "city", "garden", "day", "level", "price"]


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(n_workers=2, threads_per_worker=1, protocol="tcp", dashboard_address=":0") as cluster:
        yield cluster


@pytest.fixture
def days(work, streams):
    """A folder of CSV files, with dates, categories, missing values and classes, of 1,500 rows."""
    rows = [
        (*row[:4], date(2024, 1, 1) + timedelta(days=k // 4), "high" if row[4] > 200 else "low", row[4])
        for k, row in enumerate(homes(1500))
    ]
    (work / "days").mkdir()
    for k, (begin, end) in enumerate([(0, 700), (700, 900), (900, 900), (900, 1500)]):
        write_csv(work / f"days/{k}.csv", COLUMNS, rows[begin:end])
    return work / "days"


def entries(path):
    log = estimator_of(path).update_log_
    return [(done.kind, done.rows, done.reason, done.before, done.after, done.data) for done in log]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "other", "retention"), [("price", "level", "auto"), ("level", "price", "pool")]
)
def test_workers_make_the_same_model(days, cluster, target, other, retention):
    scheduler = ["--scheduler", cluster.scheduler_address]
    fit = ["fit", "days", "-t", target, "--ignore", other, *SIZES, "-o"]
    alone = ok(*fit, "alone.atlas").output
    assert ok(*fit, "m2.atlas", *scheduler).output == alone.replace("alone.atlas", "m2.atlas")
    assert version(load("m2.atlas")) == version(load("alone.atlas"))
    update = ["--retention", retention]
    alone = ok("update", "alone.atlas", "days", *update).output
    together = ok("update", "m2.atlas", "days", *update, *scheduler).output
    assert together == alone.replace("alone.atlas", "m2.atlas")
    assert entries("m2.atlas") == entries("alone.atlas")


@pytest.mark.slow
@pytest.mark.parametrize("most", [900, 100_000])
def test_workers_keep_the_same_rows(days, cluster, most):
    scheduler = ["--scheduler", cluster.scheduler_address]
    fit = ["fit", "days", "-t", "price", "--ignore", "level,day", "--max-rows", most, "-o"]
    alone = ok(*fit, "alone.atlas").output
    assert ("; it keeps all 1,500 rows." in alone) == (most > 1500)
    assert ok(*fit, "m2.atlas", *scheduler).output == alone.replace("alone.atlas", "m2.atlas")
    assert version(load("m2.atlas")) == version(load("alone.atlas"))
    for model, more in (("alone.atlas", []), ("m2.atlas", scheduler)):
        ok("update", model, "days", "--retention", "pool", *more)
    assert entries("m2.atlas") == entries("alone.atlas")


@pytest.mark.slow
def test_workers_predict_the_same(days, cluster):
    scheduler = ["--scheduler", cluster.scheduler_address]
    for path in sorted(days.iterdir()):
        parquet.write_table(arrow_csv.read_csv(path), f"{path.stem}.parquet")
    for rows, output in (("days", "all.csv"), ("[0-3].parquet", "all.parquet"), ("days", "-")):
        alone = ok("predict", "m.atlas", rows, "-o", output).stdout
        written = b"" if output == "-" else Path(output).read_bytes()
        assert ok("predict", "m.atlas", rows, "-o", output, *scheduler).stdout == alone
        assert output == "-" or Path(output).read_bytes() == written
    ok("predict", "m.atlas", "days", "-o", "alone")
    ok("predict", "m.atlas", "days", "-o", "together", *scheduler)
    assert sorted(files(Path("alone"))) == ["0.csv", "1.csv", "3.csv"]  # one has no rows
    assert files(Path("together")) == files(Path("alone"))
    write_csv("days/2.csv", COLUMNS, [(100, 20, "Oslo", "no", "2024-01-01", "low", 1)])
    line = refused("predict", "m.atlas", "days", "-o", "together", *scheduler)
    assert line.startswith("days/2.csv, row 1, column 'city': 'Oslo'")
    assert files(Path("together")) == files(Path("alone"))


@pytest.mark.slow
def test_what_is_wrong_with_a_table_is_said_as_by_one_process(days, cluster):
    scheduler = ["--scheduler", cluster.scheduler_address]
    write_csv("days/1.csv", COLUMNS, [("small", 20, "Oslo", "no", "2024-01-01", "low", 1)])
    fit = ["fit", "days", "-t", "price", "-o", "l.atlas", *SIZES]
    line = refused(*fit, *scheduler)
    assert line == refused(*fit)
    assert line.startswith("days/1.csv, row 1, column 'size': 'small' is not a number, as other cells are;")


@pytest.mark.slow
def test_a_worker_that_does_not_find_the_files_says_so(days, cluster, tmp_path_factory):
    from atlas_splines.cli.output import Progress
    from atlas_splines.cli.scan import Workers
    from atlas_splines.tables.source import opened

    with opened("days") as source, Workers(None, cluster.scheduler_address, Progress.none()) as workers:
        shares = source.shares(["size"])
        for path in days.iterdir():
            path.unlink()
        sentence = (
            r"the Dask workers do not find .*csv; put it where they see it under this name, or use --jobs"
        )
        with pytest.raises(FileNotFoundError, match=sentence):
            workers.each(list, shares, list.__add__, "test")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_processes_of_this_machine(work, streams):
    write_csv("large.csv", HEADER, homes(1500))
    ok("fit", "large.csv", "-t", "price", "-o", "alone.atlas", *SIZES)
    ok("fit", "large.csv", "-t", "price", "-o", "m2.atlas", *SIZES, "--jobs", "1")
    assert estimator_of("m2.atlas").model_.fingerprint() == estimator_of("alone.atlas").model_.fingerprint()


def test_no_scheduler_is_named(work, streams, monkeypatch):
    monkeypatch.setattr(clusters, "PATIENCE", 1)
    write_csv("large.csv", HEADER, homes(1000))
    line = refused(
        "fit", "large.csv", "-t", "price", "-o", "l.atlas", *SIZES, "--scheduler", "tcp://127.0.0.1:1"
    )
    assert line == (
        "no Dask scheduler answers at tcp://127.0.0.1:1; start one with `dask scheduler`, or use --jobs"
    )
    assert not (work / "l.atlas").exists()


@pytest.mark.parametrize("address", ["nonsense", "http://127.0.0.1:8786"])
def test_what_is_no_address_is_named(work, streams, address):
    write_csv("large.csv", HEADER, homes(1000))
    line = refused("fit", "large.csv", "-t", "price", "-o", "l.atlas", *SIZES, "--scheduler", address)
    assert line == f"{address!r} is not a scheduler address; give one such as tcp://host:8786, or use --jobs"


def test_one_kind_of_workers(work):
    line = refused("update", "m.atlas", "new.csv", "--jobs", "2", "--scheduler", "tcp://127.0.0.1:1")
    assert line == "--jobs and --scheduler exclude each other; give one of them"


def test_small_tables_need_no_workers(work):
    ok("fit", "homes.csv", "-t", "price", "-o", "a.atlas", *SIZES, "--scheduler", "tcp://127.0.0.1:1")
    assert (work / "a.atlas").exists()
