import shutil
from pathlib import Path

import pytest
from command import HEADER, app, estimator_of, homes, ok, refused, run, write_csv


@pytest.fixture
def conflict(work):
    for name, factor in (("ours", 3), ("theirs", 5)):
        write_csv(f"{name}.csv", HEADER, homes(60, 80, 120, factor=factor, seed=1))
        ok("update", "m.atlas", f"{name}.csv", "--retention", "chart", "-o", f"{name}.atlas")


def test_updates_made_apart_come_together(work):
    write_csv("more.csv", HEADER, homes(40, seed=7))
    ok("update", "m.atlas", "new.csv", "--retention", "pool", "-o", "ours.atlas")
    ok("update", "m.atlas", "more.csv", "--retention", "pool", "-o", "theirs.atlas")
    predicted = ok("merge", "m.atlas", "ours.atlas", "theirs.atlas", "-o", "both.atlas").stdout
    assert predicted.endswith(": 1 update of ours.atlas and 1 of theirs.atlas since m.atlas.\n")
    ok("merge", "m.atlas", "theirs.atlas", "ours.atlas", "-o", "again.atlas")
    assert Path("both.atlas").read_bytes() == Path("again.atlas").read_bytes()
    assert "both.atlas has a log of 2 updates" in refused(
        "merge", "m.atlas", "ours.atlas", "theirs.atlas", "-o", "both.atlas"
    )
    ok("verify", "both.atlas")


@pytest.mark.slow
def test_a_conflict_is_listed_and_settled(conflict):
    arguments = ["merge", "m.atlas", "ours.atlas", "theirs.atlas", "-o", "both.atlas"]
    result = run(app, arguments)
    assert result.exit_code == 1
    assert not Path("both.atlas").exists()
    lines = result.stdout.splitlines()
    assert lines[0].startswith("Conflict: update 1 of ours.atlas (RMSE ")
    assert ", and update 1 of theirs.atlas (RMSE " in lines[0]
    assert lines[1].startswith("  size ")
    assert lines[-1].startswith("both.atlas was not written: settle ")
    for side in ("ours", "theirs"):
        ok(*arguments, f"--{side}", "--force")
        assert run(app, ["diff", "both.atlas", f"{side}.atlas"]).exit_code == 0
    assert refused(*arguments, "--ours", "--theirs").startswith(
        "--ours, --theirs and --rows exclude each other"
    )


@pytest.mark.slow
def test_rows_settle_a_conflict(conflict):
    write_csv("rows.csv", HEADER, homes(60, 80, 120, factor=4, seed=1))
    ok("merge", "m.atlas", "ours.atlas", "theirs.atlas", "-o", "both.atlas", "--rows", "rows.csv")
    log = estimator_of("both.atlas").update_log_
    learned = [record for record in log if record.kind != "revert"]
    assert [record.reverted is not None for record in learned] == [True, True, False]
    assert len(log) == 5
    shutil.copy("m.atlas", "stranger.atlas")
    assert "exclude each other" in refused(
        "merge", "m.atlas", "ours.atlas", "theirs.atlas", "-o", "x.atlas", "--rows", "rows.csv", "--ours"
    )
