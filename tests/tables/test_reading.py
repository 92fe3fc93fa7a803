import errno
import io
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from pieces import cells_of

from atlas_splines.tables import reading
from atlas_splines.tables.cells import Cells
from atlas_splines.tables.reading import Source, TableError, opened


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_numbers_with_any_delimiter_spaces_and_missing_ones(table, delimiter):
    source = table("\ufeffa, b\n1, 2.5\n,NA\n-3e2 , nan\n".replace(",", delimiter))
    assert source.columns == ("a", "b")
    np.testing.assert_array_equal(cells_of(source, "a").numbers(), [1, np.nan, -300])
    np.testing.assert_array_equal(cells_of(source, "b").numbers(), [2.5, np.nan, np.nan])


def test_quoted_cells_hold_delimiters_and_line_ends(table):
    source = table('a,"b, c"\n"x\ny",1\n"say ""hi""",2\n')
    assert source.columns == ("a", "b, c")
    assert set(cells_of(source, "a").spellings()) == {"x\ny", 'say "hi"'}


def test_pieces_are_counted(table, monkeypatch):
    monkeypatch.setattr(reading, "BLOCK", 200)
    lines = [f"{k},{k % 7}" for k in range(500)]
    source = table("a,b\n" + "\n".join(lines) + "\n")
    pieces = list(source.pieces(["a"]))
    assert len(pieces) > 10
    for piece in pieces:
        assert Cells.of(piece, "a").numbers().tolist() == (piece.row_numbers - 1).tolist()
        assert piece.row_numbers[0] == piece.first_row
    lines[321] = "oops,1"
    source = table("a,b\n" + "\n".join(lines) + "\n")
    with pytest.raises(TableError, match=r"^t.csv, row 322, column 'a': 'oops' is not a number; correct it"):
        [Cells.of(piece, "a").numbers() for piece in source.pieces()]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "t.csv is empty or starts with an empty line; begin with the column names"),
        (b"\n1,2\n", "t.csv is empty or starts with an empty line; begin with the column names"),
        (b"a,,b\n1,2,3\n", "t.csv has no name for column 2; give each column a name"),
        (b"a,b,a\n1,2,3\n", "t.csv has two columns 'a'; rename one"),
        (b"a\xff,b\n1,2\n", "t.csv is not UTF-8; save it with that encoding"),
        (b"a,b\n1,2\n3\n", "t.csv, row 2 has 1 cell instead of 2; correct that row"),
        (b"a,b\n1,2\n3,4\n5,6,7\n", "t.csv, row 3 has 3 cells instead of 2; correct that row"),
        (
            b"a,b\n" + 9000 * b"1,2\n" + b"1,\xff\n",
            "t.csv after row 0 is not UTF-8; save it with that encoding",
        ),
    ],
)
def test_files_that_cannot_be_read(table, text, says):
    with pytest.raises(TableError) as caught:
        list(table(text).pieces())
    assert str(caught.value) == says


def test_endings_and_names(table, tmp_path):
    with pytest.raises(TableError, match=r"t.xlsx must end in .csv, .tsv, .txt, .parquet or .pq"):
        table("a\n", "t.xlsx")
    with pytest.raises(TableError, match=r"nowhere.csv does not exist or is not a file; check the name"):
        Source.of(tmp_path / "nowhere.csv")
    with pytest.raises(TableError, match=r"t.parquet is not a Parquet file: .*; check the file"):
        table("a,b\n1,2\n", "t.parquet")
    with pytest.raises(TableError, match=r"t.csv has no column 'z'; it has 'a', 'b'"):
        table("a,b\n").need(["a", "z"])


def test_standard_input_is_either(monkeypatch, tmp_path):
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"a": [1.0, 2.0]}), path)
    for content in (b"a\n1\n2\n", path.read_bytes()):
        (tmp_path / "stdin").write_bytes(content)
        with open(tmp_path / "stdin") as stdin, monkeypatch.context() as patch:
            patch.setattr("sys.stdin", stdin)
            with opened("-") as source:
                assert source.name == "standard input"
                assert cells_of(source, "a").numbers().tolist() == [1, 2]
                kept = source.path
            assert not kept.exists()


def test_long_texts_in_many_rows_are_read_in_small_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "TEXTS", 10_000)
    rows = {
        "text": pa.array(["a" * 1000, None, "b"] * 30),
        "large": pa.array(["c"] * 90, pa.large_string()),
        "coded": pa.array(["d", "e", None] * 30).dictionary_encode(),
        "y": np.arange(90.0),
    }
    whole = pa.table(rows)
    parquet.write_table(whole, tmp_path / "t.parquet")
    pieces = list(Source.of(tmp_path / "t.parquet").pieces())
    assert 3 <= len(pieces) <= 5
    assert [piece.first_row for piece in pieces][:2] == [1, 1 + pieces[0].table.num_rows]
    joined = pa.concat_tables(piece.table for piece in pieces)
    assert joined.schema.types == whole.schema.types
    assert joined.to_pylist() == whole.to_pylist()


def test_rows_of_many_cells_are_read_in_small_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "CELLS", 100)
    parquet.write_table(pa.table({f"c{k}": np.zeros(50) for k in range(20)}), tmp_path / "t.parquet")
    source = Source.of(tmp_path / "t.parquet")
    assert [piece.table.num_rows for piece in source.pieces()] == [5] * 10
    assert [piece.table.num_rows for piece in source.pieces(["c1"])] == [50]


def test_threads_of_pyarrow_know_no_function_of_python(table, monkeypatch):
    """They could call it when Python has ended, which aborts the process."""
    given = []

    def options(**wanted):
        given.append(wanted)
        return parse_options(**wanted)

    parse_options = reading.arrow_csv.ParseOptions
    monkeypatch.setattr(reading.arrow_csv, "ParseOptions", options)
    assert len(list(table("a,b\n1,2\n").pieces())) == 1
    assert not any(callable(value) for wanted in given for value in wanted.values())


def test_standard_input_that_finds_no_room(monkeypatch, tmp_path):
    class Endless:
        buffer = io.BytesIO(b"a,b\n1,2\n")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sys, "stdin", Endless)
    monkeypatch.setattr(reading.shutil, "copyfileobj", full)
    with pytest.raises(
        TableError, match=r"^standard input cannot be kept in .*: No space left on device; set TMPDIR"
    ):
        opened("-").__enter__()
