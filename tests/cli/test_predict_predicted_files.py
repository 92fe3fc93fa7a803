from pathlib import Path

import pytest
from command import HEADER, files, homes, ok, refused, write_csv

from atlas_splines.cli.predict import Keeping, in_order
from atlas_splines.tables.source import opened


def doubled(piece):
    return piece.table.append_column("more", [[f"row {row}" for row in piece.row_numbers]])


@pytest.fixture
def days(work, streams):
    (work / "days").mkdir()
    for k in range(2):
        write_csv(f"days/{k}.csv", HEADER, homes(300, seed=k))
    return work / "days"


def test_pieces_of_several_readers_come_in_order(days, tmp_path):
    (tmp_path / "kept").mkdir()
    with opened("days") as source:
        shares = source.shares(readers=5)
        assert len(shares) == 6
        kept = [part for share in shares for part in Keeping(doubled, tmp_path / "kept")(share.pieces())]
        tables = [table.to_pylist() for table in in_order(kept)]
        expected = [doubled(piece).to_pylist() for share in source.shares() for piece in share.pieces()]
    assert len(tables) > 2  # more than files
    assert tables == expected


def test_a_folder_gets_a_file_for_each_file(days):
    assert ok("predict", "m.atlas", "days", "-o", "out").stderr.endswith(
        "600 rows predicted, written to out.\n"
    )
    whole = ok("predict", "m.atlas", "days").stdout.splitlines()
    parts = [(Path("out") / f"{k}.csv").read_text().splitlines() for k in range(2)]
    assert whole == parts[0] + parts[1][1:]
    ok("predict", "m.atlas", "days/*.csv", "-o", "out")  # again: these are predictions
    before = files(Path("out"))
    write_csv("out/1.csv", HEADER, homes(3))
    assert refused("predict", "m.atlas", "days", "-o", "out") == (
        "out/1.csv is there already, and has no column 'price_predicted'; choose another name, or replace it with --force"
    )
    ok("predict", "m.atlas", "days", "-o", "out", "--force")
    assert files(Path("out")) == before
    assert refused("predict", "m.atlas", "days", "-o", "days") == (
        "days/0.csv is the table itself, and would be lost; give the predictions another name"
    )
    (days / "more").mkdir()
    write_csv("days/more/0.csv", HEADER, homes(3))
    assert refused("predict", "m.atlas", "days/**/*.csv", "-o", "other") == (
        "days/**/*.csv has two files for other/0.csv; give the name of one table to write them to"
    )
    assert not Path("other").exists()
