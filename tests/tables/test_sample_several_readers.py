import numpy as np
import pyarrow as pa
import pytest

from atlas_splines.tables import sample as sampling
from atlas_splines.tables import source as reading
from atlas_splines.tables.inference import TableSurvey
from atlas_splines.tables.sample import Counts, Picking, Reservoir, Sample, chosen_rows
from atlas_splines.tables.source import opened


@pytest.mark.parametrize("rows", [20, 5000])
def test_what_a_reservoir_would_hold_is_known_beforehand(rows, monkeypatch):
    monkeypatch.setattr(sampling, "ROWS_AT_ONCE", 900)
    reservoir = Reservoir(50, seed=3)
    for part in np.array_split(np.arange(rows), 7):
        reservoir.add(pa.table({"number": part}), part)
    assert np.array_equal(chosen_rows(rows, 50, seed=3), reservoir.sample()[1])


def test_several_readers_fetch_the_sample_of_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reading, "BLOCK", 300)
    for k, rows in enumerate([400, 0, 250]):  # some rows have no target
        lines = [f"{1000 * k + row},{'' if row % 9 == 4 else row}\n" for row in range(rows)]
        (tmp_path / f"{k}.csv").write_text("x,y\n" + "".join(lines))
    survey = TableSurvey(["x"], "y", skip_missing=True)
    reservoir, counts = Reservoir(60, seed=0), Counts()
    with opened("*.csv") as source:
        for piece in source.pieces():
            there = survey.present(piece)
            counts[piece.place] = piece.table.num_rows, int(there.sum())
            reservoir.add(piece.table.filter(there), piece.row_numbers[there])
        shares = source.shares(readers=7, before=counts.before_files)
        assert len(shares) == 9  # three readers for each file
        places = [piece.place for share in shares for piece in share.pieces()]
        assert sorted(places) == sorted(counts)  # each piece is read by one
        assert len(places) > 9
        picking = Picking.of(counts, 60, 0, survey.present)
        picked = [part for share in reversed(shares) for part in picking(share.apart.pieces())]
    sample, expected = Sample.of_picked(picked, counts), Sample.held_by(reservoir)
    assert sample.rows.equals(expected.rows)
    assert np.array_equal(sample.numbers, expected.numbers)
    assert (sample.seen, sample.is_whole) == (expected.seen, False)
