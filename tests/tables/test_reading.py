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
