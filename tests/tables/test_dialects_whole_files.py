import sys
from datetime import datetime

import pytest

from atlas_splines.tables.cells import Cells
from atlas_splines.tables.dialects import PLAIN
from atlas_splines.tables.source import TableError, opened


def columns_of(name, dialect=PLAIN):
    with opened(str(name), dialect) as source:
        assert source.name == str(name)
        (piece,) = source.pieces()
        return {column: Cells.of(piece, column) for column in source.columns}


def test_lines_of_json(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"n": 1, "c": "red", "d": "2024-01-05", "f": true}\n{"n": 2.5, "c": null, "d": null}\n')
    columns = columns_of(path)
    assert columns["n"].numbers().tolist() == [1, 2.5]
    assert set(columns["c"].spellings()) == {"red"}
    assert set(columns["f"].spellings()) == {"true"}
    assert columns["d"].is_temporal
    path.write_text('{"n": 1}\nnothing\n')
    with pytest.raises(TableError, match=r"t.jsonl cannot be read: JSON parse error: .*; check the file"):
        columns_of(path)


def test_excel(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    rows = [["n", "c", "d", "m"], [1, "NA", datetime(2024, 1, 5), 1], [2.5, None, None, "x"]]
    for row in rows:
        book.active.append(row)
    path = tmp_path / "t.xlsx"
    book.save(path)
    columns = columns_of(path)
    assert columns["n"].numbers().tolist() == [1, 2.5]
    assert columns["c"].spellings() == {}
    assert columns["d"].is_temporal
    assert set(columns["m"].spellings()) == {"1", "x"}
    assert list(columns_of(path, PLAIN.with_options(header=False))) == ["1", "2", "3", "4"]
    path.write_bytes(b"no book")
    with pytest.raises(TableError, match=r"t.xlsx cannot be read: .*; check the file"):
        columns_of(path)


def test_excel_without_its_packages(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    (tmp_path / "t.xlsx").write_bytes(b"")
    with pytest.raises(TableError) as caught:
        columns_of(tmp_path / "t.xlsx")
    assert str(caught.value).endswith(
        "t.xlsx: reading Excel needs more packages; install them with: pip install 'atlas-splines[excel]'"
    )
