import errno
import gzip
import io
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from pieces import cells_of

from atlas_splines.tables import source as reading
from atlas_splines.tables.cells import Cells
from atlas_splines.tables.dialects import PLAIN
from atlas_splines.tables.source import Source, TableError, opened


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


def numbers_of(source, column):
    return np.concatenate([Cells.of(piece, column).numbers() for piece in source.pieces()]).tolist()


def test_tables_without_a_header_have_numbered_columns(table):
    source = table("1,2.5\n3,4.5\n", dialect=PLAIN.with_options(header=False))
    assert source.columns == ("1", "2")
    assert numbers_of(source, "2") == [2.5, 4.5]
    assert not source.lacks_header
    source = table("1,2.5\n3,4.5\n")
    assert source.lacks_header
    with pytest.raises(TableError, match=r"it has '1', '2.5'; if its first row is data, add --no-header$"):
        source.need(["y"])
    with pytest.raises(TableError, match=r"two columns '1'; rename one, or add --no-header if its first row"):
        table("1,1\n2,3\n")


@pytest.mark.parametrize("block", [20, 2**20])
def test_blanks_between_cells(table, monkeypatch, block):
    monkeypatch.setattr(reading, "BLOCK", block)
    blank = PLAIN.with_options(separator="blank")
    source = table('  a   "b c"\td \n  1 2e-1    x\n\n -3\t"  " "y  z"\n' + "5 6 v\n" * 20, dialect=blank)
    assert source.columns == ("a", "b c", "d")
    assert numbers_of(source, "a") == [1, -3] + [5] * 20
    np.testing.assert_array_equal(numbers_of(source, "b c"), [0.2, np.nan] + [6] * 20)
    spelled = {text for piece in source.pieces() for text in Cells.of(piece, "d").spellings()}
    assert spelled == {"x", "y  z", "v"}
    with pytest.raises(TableError, match=r"^t.csv, row 21 has 2 cells instead of 3; correct that row$"):
        list(table("a b c\n" + "1 2 3\n" * 20 + "4 5\n", dialect=blank).pieces())
    with pytest.raises(
        TableError, match=r"; it has 'a b'; if blanks are between its columns, add --separator"
    ):
        table("a b\n1 2\n").need(["b"])


def test_decimal_commas(table):
    source = table(
        "a;b\n-1,5;1.234\n2;1.234.567,25\n,5;3e2\n1,e3;NA\n", dialect=PLAIN.with_options(decimal=",")
    )
    assert numbers_of(source, "a") == [-1.5, 2, 0.5, 1000]
    np.testing.assert_array_equal(numbers_of(source, "b"), [1234, 1234567.25, 300, np.nan])
    with pytest.raises(TableError) as caught:
        numbers_of(table("a;b\n1,5;1\n2.5;1\n", dialect=PLAIN.with_options(decimal=",")), "a")
    assert str(caught.value) == (
        "t.csv, row 2, column 'a': '2.5' has a point, and the decimal mark is a comma; correct it"
    )
    assert table("a,b;c\n1;2\n", dialect=PLAIN.with_options(decimal=",")).columns == ("a,b", "c")


def test_what_stands_for_missing_values(table, tmp_path):
    told = PLAIN.with_options(missing=["?", "-999"])
    source = table("a,b\n1, ?\n-999,red\n?,2\n", dialect=told)
    np.testing.assert_array_equal(numbers_of(source, "a"), [1, np.nan, np.nan])
    assert set(cells_of(source, "b").spellings()) == {"red", "2"}
    parquet.write_table(pa.table({"a": [1, -999], "b": ["?", "red"]}), tmp_path / "t.parquet")
    source = Source.of(tmp_path / "t.parquet", dialect=told)
    np.testing.assert_array_equal(numbers_of(source, "a"), [1, np.nan])
    assert set(cells_of(source, "b").spellings()) == {"red"}


def test_compressed_text(table):
    source = table(gzip.compress(b"a,b\n1,2\n3,4\n"), "t.csv.gz")
    assert source.columns == ("a", "b")
    assert numbers_of(source, "b") == [2, 4]
    blank = table(gzip.compress(b"a b\n1 2\n3  4\n"), "t.txt.gz", dialect=PLAIN.with_options(separator=" "))
    assert numbers_of(blank, "b") == [2, 4]
    with pytest.raises(TableError, match=r"t.csv.gz cannot be read: Not a gzipped file .*; check the file"):
        table(b"a,b\n1,2\n", "t.csv.gz")
    with pytest.raises(
        TableError, match=r"t.csv.gz (is damaged|cannot be read): .*; (write it again|check the)"
    ):
        list(table(gzip.compress(b"a,b\n" + bytes(range(48, 58)) * 9999)[:60], "t.csv.gz").pieces())


def test_several_files_are_one_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    for k, text in enumerate(["a,b\n1,2\n3,4\n", "b,a\n6,5\n", "a,b\n"]):
        (tmp_path / "data" / f"part{k}.csv").write_text(text)
    for name in ("data", "data/*.csv", "data/part[0-2].csv"):
        with opened(name) as source:
            assert source.name == name
            pieces = list(source.pieces(["a"]))
            assert numbers_of(source, "a") == [1, 3, 5]
    assert [piece.row_numbers.tolist() for piece in pieces] == [[1, 2], [3]]
    assert [piece.first_row for piece in pieces] == [1, 1]
    (tmp_path / "data" / "part2.csv").write_text("a,b\n1,2\nx,4\n")
    with (
        opened("data") as source,
        pytest.raises(TableError, match=r"^data.part2.csv, row 2, column 'a': 'x' is"),
    ):
        numbers_of(source, "a")
    (tmp_path / "data" / "part2.csv").write_text("a,c\n1,2\n")
    with pytest.raises(TableError, match=r"^data.part2.csv has no column 'b'; it has 'a', 'c'"):
        opened("data").__enter__()
    (tmp_path / "data" / "part2.csv").write_text("a,b,c\n1,2,3\n")
    with pytest.raises(TableError, match=r"^data.part0.csv has no column 'c'; it has 'a', 'b'"):
        opened("data").__enter__()
    with pytest.raises(TableError, match=r"^no file matches none/\*.csv; check the pattern"):
        opened("none/*.csv").__enter__()
    (tmp_path / "empty").mkdir()
    with pytest.raises(TableError, match=r"^empty is a folder without tables; give a file, or a folder of"):
        opened("empty").__enter__()


def test_several_files_of_different_types(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parquet.write_table(pa.table({"a": pa.array([1, 2], pa.int8()), "b": pa.nulls(2)}), "1.parquet")
    parquet.write_table(pa.table({"b": ["x"], "a": [2.5]}), "2.parquet")
    with opened("*.parquet") as source:
        assert numbers_of(source, "a") == [1, 2, 2.5]
        assert len({piece.table.schema for piece in source.pieces()}) == 1
    parquet.write_table(pa.table({"a": ["x"], "b": ["x"]}), "3.parquet")
    with (
        opened("*.parquet") as source,
        pytest.raises(TableError, match=r"^3.parquet has other types: .* a .*;"),
    ):
        list(source.pieces())
    (tmp_path / "4.csv").write_text("a,b\n1,2\n")
    with pytest.raises(TableError, match=r"^\.: 1.parquet and 4.csv are of different kinds; give one kind"):
        opened(".").__enter__()


def test_categories_and_the_index_of_a_data_frame(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"i": pandas.Categorical([1, 20, 1]), "c": pandas.Categorical(["x", "y", "x"]), "n": [1.0, 2, 3]},
        index=[5, 7, 9],
    )
    frame.to_parquet(tmp_path / "t.parquet")
    source = Source.of(tmp_path / "t.parquet")
    assert source.columns == ("i", "c", "n", "__index_level_0__")
    assert source.categories == {"i", "c"}
    assert source.index == {"__index_level_0__"}
    frame.rename_axis("day").to_parquet(tmp_path / "t.parquet")
    assert Source.of(tmp_path / "t.parquet").index == frozenset()  # it has a name: it is meant
    plain = pa.table({"__index_level_0__": [1], "d": pa.array([3]).dictionary_encode()})
    for metadata in (None, {b"pandas": b"{"}, {b"pandas": b"[]"}):
        parquet.write_table(plain.replace_schema_metadata(metadata), tmp_path / "t.parquet")
        assert Source.of(tmp_path / "t.parquet").index == frozenset()
