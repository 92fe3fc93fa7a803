import re

import pytest
from command import HEADER, estimator_of, homes, ok, refused, write_csv
from distributed import Client, LocalCluster

SIZES = ["--members", "1", "--terms", "4", "--density", "2"]


@pytest.fixture(scope="module")
def scheduler():
    """Address of a cluster of one worker in this process."""
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, protocol="tcp", dashboard_address=":0"
        ) as cluster,
        Client(cluster, set_as_default=False),
    ):
        yield cluster.scheduler_address


def without_seconds(log):
    return [(entry.kind, entry.rows, entry.before, entry.after, entry.data) for entry in log]


@pytest.mark.slow
def test_workers_make_the_same_model(work, streams, scheduler):
    write_csv("large.csv", HEADER, homes(2000))
    alone = ok("fit", "large.csv", "-t", "price", "-o", "alone.atlas", *SIZES).output
    together = ok(
        "fit", "large.csv", "-t", "price", "-o", "m2.atlas", *SIZES, "--scheduler", scheduler
    ).output
    assert together == alone.replace("alone.atlas", "m2.atlas")
    assert estimator_of("m2.atlas").model_.fingerprint() == estimator_of("alone.atlas").model_.fingerprint()
    ok("update", "alone.atlas", "large.csv", "--retention", "pool")
    output = ok("update", "m2.atlas", "large.csv", "--retention", "pool", "--scheduler", scheduler).output
    assert "large.csv: 2,000 rows, all of them learned." in output
    assert re.search(r"\nCross-validated RMSE [\d.]+ \(R² .* on these rows after\.\n", output)
    logs = [estimator_of(name).update_log_ for name in ("m2.atlas", "alone.atlas")]
    assert without_seconds(logs[0]) == without_seconds(logs[1])


def test_workers_predict_the_same(work, scheduler):
    ok("predict", "m.atlas", "new.csv", "-o", "alone.csv")
    ok("predict", "m.atlas", "new.csv", "-o", "out.csv", "--scheduler", scheduler)
    assert (work / "out.csv").read_bytes() == (work / "alone.csv").read_bytes()
    write_csv("wrong.csv", HEADER, [(100, 20, "Oslo", "no", 1)])
    line = refused("predict", "m.atlas", "wrong.csv", "-o", "no.csv", "--scheduler", scheduler)
    assert line.startswith("wrong.csv, row 1, column 'city': 'Oslo'")
    assert not (work / "no.csv").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_processes_of_this_machine(work, streams):
    write_csv("large.csv", HEADER, homes(1500))
    ok("fit", "large.csv", "-t", "price", "-o", "alone.atlas", *SIZES)
    ok("fit", "large.csv", "-t", "price", "-o", "m2.atlas", *SIZES, "--jobs", "1")
    assert estimator_of("m2.atlas").model_.fingerprint() == estimator_of("alone.atlas").model_.fingerprint()


def test_no_scheduler_is_named(work, streams, monkeypatch):
    from atlas_splines.dask import feeding

    monkeypatch.setattr(feeding, "PATIENCE", 1)
    write_csv("large.csv", HEADER, homes(1000))
    line = refused(
        "fit", "large.csv", "-t", "price", "-o", "l.atlas", *SIZES, "--scheduler", "tcp://127.0.0.1:1"
    )
    assert line == (
        "no Dask scheduler answers at tcp://127.0.0.1:1; start one with `dask scheduler`, or use --jobs"
    )
    assert not (work / "l.atlas").exists()


def test_one_kind_of_workers(work):
    line = refused("update", "m.atlas", "new.csv", "--jobs", "2", "--scheduler", "tcp://127.0.0.1:1")
    assert line == "--jobs and --scheduler exclude each other; give one of them"


def test_small_tables_need_no_workers(work):
    ok("fit", "homes.csv", "-t", "price", "-o", "a.atlas", *SIZES, "--scheduler", "tcp://127.0.0.1:1")
    assert (work / "a.atlas").exists()
