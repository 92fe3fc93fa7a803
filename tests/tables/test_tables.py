import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from atlas_splines.tables import reading as tables
from atlas_splines.tables.encoding import MOST_CATEGORIES, Column, Encoding, Survey
from atlas_splines.tables.reading import Cells, Reservoir, Source, TableError, TableWriter, opened


@pytest.fixture
def table(tmp_path):
    """A source with that text."""

    def write(text, name="t.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return Source.of(path, name)

    return write


def cells_of(source, column):
    first, piece = next(source.pieces())
    return Cells.of(source, column, first, piece)


def survey(source, column, category=False):
    seen = Survey(category=category, option=f"--category {column}")
    for first, piece in source.pieces([column]):
        seen.add(Cells.of(source, column, first, piece))
    return seen


# --- reading ------------------------------------------------------------------------------------------


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
    monkeypatch.setattr(tables, "BLOCK", 200)
    lines = [f"{k},{k % 7}" for k in range(500)]
    source = table("a,b\n" + "\n".join(lines) + "\n")
    pieces = list(source.pieces(["a"]))
    assert len(pieces) > 10
    for first, piece in pieces:
        assert Cells.of(source, "a", first, piece).numbers()[0] == first - 1
    lines[321] = "oops,1"
    source = table("a,b\n" + "\n".join(lines) + "\n")
    with pytest.raises(TableError, match=r"^t.csv, row 322, column 'a': 'oops' is not a number; correct it"):
        [Cells.of(source, "a", first, piece).numbers() for first, piece in source.pieces()]


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


def test_infinite_numbers_are_refused(table):
    with pytest.raises(TableError, match=r"t.csv, row 2, column 'a': the number is infinite; correct it"):
        cells_of(table("a\n1\n1e999\n"), "a").numbers()
    with pytest.raises(
        TableError, match=r"^t.csv, row 2, column 'a': the number is beyond 1e\+150, too large"
    ):
        cells_of(table("a\nNA\n-1e300\n"), "a").numbers()


def test_parquet_types(tmp_path):
    path = tmp_path / "t.parquet"
    columns = {
        "i": pa.array([1, None, 3], pa.int16()),
        "f": pa.array([1.5, None, 3.0], pa.float32()),
        "d": pa.array(["x", "y", None]).dictionary_encode(),
        "b": pa.array([True, None, False]),
        "s": pa.array(["1", " 2", ""], pa.large_string()),
        "n": pa.nulls(3),
        "t": pa.array([1, 2, 3], pa.timestamp("s")),
        "l": pa.array([[1], [2], []]),
    }
    parquet.write_table(pa.table(columns), path)
    source = Source.of(path, "t.parquet")
    for name, values in {
        "i": [1, np.nan, 3],
        "f": [1.5, np.nan, 3],
        "s": [1, 2, np.nan],
        "n": [np.nan] * 3,
    }.items():
        np.testing.assert_array_equal(cells_of(source, name).numbers(), values)
    assert set(cells_of(source, "d").spellings()) == {"x", "y"}
    assert set(cells_of(source, "b").spellings()) == {"true", "false"}
    with pytest.raises(
        TableError, match=r"t.parquet, column 't': dates and times are not understood; turn them"
    ):
        cells_of(source, "t")
    with pytest.raises(TableError, match=r"t.parquet, column 'l': values of type list.* are not understood"):
        cells_of(source, "l")


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


# --- surveys ------------------------------------------------------------------------------------------


def test_a_survey_tells_numbers_from_categories(table):
    source = table("n,c,f,e\n1,red,True,\n2, blue,FALSE,\n,NA,true,NA\n")
    assert survey(source, "n").column("n") == Column("n")
    assert survey(source, "c").column("c") == Column("c", ("blue", "red"))
    assert survey(source, "f").column("f") == Column("f", ("false", "true"))
    assert survey(source, "e").column("e") == Column("e")
    assert survey(source, "n", category=True).column("n") == Column("n", ("1", "2"))


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        (
            ["1", "2", "abc"],
            "row 3, column 'a': 'abc' is not a number, as other cells are; correct it, leave it",
        ),
        (["abc", "2"], "row 1, column 'a': 'abc' is not a number, as other cells are"),
        (
            ["2024-01-31", "2024-02-01"],
            "column 'a': dates and times are not understood; turn them into numbers",
        ),
        (["31.12.2024 10:00"], "column 'a': dates and times"),
        (["12:30"], "column 'a': dates and times"),
        (
            ["3", "NA", "3,5"],
            "row 3, column 'a': '3,5' has a comma; write numbers without commas and with a decimal point, such as "
            "3.5, or add --category a",
        ),
        (["-3,5", "2,25"], "row 1, column 'a': '-3,5' has a comma; write numbers without commas"),
    ],
)
def test_mixtures_and_dates_are_refused(table, cells, says):
    with pytest.raises(TableError) as caught:
        survey(table("a;b\n" + ";\n".join(cells) + ";\n"), "a")
    assert str(caught.value).startswith(f"t.csv, {says}")


def test_mixtures_across_pieces_are_refused(table, monkeypatch):
    monkeypatch.setattr(tables, "BLOCK", 100)
    words, digits = ["word"] * 100, ["12.5"] * 100
    with pytest.raises(TableError, match=r"row 101, column 'a': 'word' is not a number, as other cells are"):
        survey(table("a\n" + "\n".join(digits + words) + "\n"), "a")
    with pytest.raises(
        TableError, match=r"row 101, column 'a': '12.5' is a number among texts; .* --category a"
    ):
        survey(table("a\n" + "\n".join(words * 1 + digits) + "\n"), "a")


def test_commas_in_numbers(table):
    source = table("a;b\n1;2\n3,5;4\n")
    with pytest.raises(
        TableError, match=r"^t.csv, row 2, column 'a': '3,5' has a comma; write numbers without"
    ):
        cells_of(source, "a").numbers()
    assert survey(source, "a", category=True).column("a").categories == ("1", "3,5")
    assert survey(table("a;b\nred,3;\nblue;\n"), "a").column("a").categories == ("blue", "red,3")


def test_too_many_texts_are_refused(table):
    source = table("a\n" + "\n".join(f"t{k}" for k in range(MOST_CATEGORIES + 1)) + "\n")
    with pytest.raises(
        TableError, match=r"column 'a': there are more than 10,000 different texts; leave the column"
    ):
        survey(source, "a")


def test_a_reservoir_is_a_uniform_sample():
    counts = np.zeros(100)
    for seed in range(400):
        reservoir = Reservoir(10, seed)
        for start in range(0, 100, 7):
            places = np.arange(start, min(start + 7, 100))
            reservoir.add(pa.table({"value": places}), places)
        rows, places = reservoir.sample()
        assert rows["value"].to_pylist() == places.tolist()
        assert len(set(places)) == 10
        counts[places] += 1
    assert np.abs(counts - 40).max() < 5 * np.sqrt(40)  # each row 40 times on average


def test_a_reservoir_does_not_follow_data_of_the_same_seed():
    values = np.random.default_rng(0).random(10_000)
    reservoir = Reservoir(1000, seed=0)
    reservoir.add(pa.table({"value": values}), np.arange(10_000))
    assert abs(np.mean(reservoir.sample()[0]["value"].to_numpy()) - 0.5) < 0.05


# --- encodings ----------------------------------------------------------------------------------------

ENCODING = Encoding(
    (Column("n"), Column("two", ("no", "yes")), Column("few", ("a", "b", "c")), Column("many", tuple(map(str, range(30))))),
    "y",
)  # fmt: skip


def test_columns_become_inputs(table):
    source = table("n,two,few,many,y\n1.5,yes,b,3,1\n,,,,2\n")
    X = ENCODING.encode(source, *next(source.pieces()))
    assert X.column_names == ["n", "two", "few=a", "few=b", "few=c", "many"]
    np.testing.assert_array_equal(np.asarray(X), [[1.5, 1, 0, 1, 0, 3], [np.nan, 0.5, 0, 0, 0, np.nan]])


def test_unknown_categories(table):
    source = table("n,two,few,many,y\n1,no,a,3,1\n1,maybe,d,3,1\n")
    first, piece = next(source.pieces())
    with pytest.raises(TableError) as caught:
        ENCODING.encode(source, first, piece)
    assert str(caught.value) == (
        "t.csv, row 2, column 'two': 'maybe' was not there in fit, which had 'no', 'yes'; "
        "correct it, or treat it as missing with --unknown missing"
    )
    X = ENCODING.encode(source, first, piece, None)
    assert np.asarray(X)[1].tolist() == [1, 0.5, 0, 0, 0, 3]


def test_whole_numbers_are_the_same_category_however_they_are_written(table, tmp_path):
    path = tmp_path / "t.parquet"
    numbers = [1, 20, None, 123456789012]
    parquet.write_table(pa.table({"i": numbers, "f": pa.array(numbers, pa.float64())}), path)
    typed = Source.of(path, "t.parquet")
    text = table("a,b,c\n1,1.0,1.\n20,20.00,20\n,NA,\n123456789012,123456789012.0,123456789012\n")
    cells = [cells_of(typed, name) for name in "if"] + [cells_of(text, name) for name in "abc"]
    for one in cells:
        assert set(one.spellings()) == {"1", "20", "123456789012"}
        for categories in (("20", "123456789012", "1"), ("20.0", "123456789012", "1.0")):
            assert one.codes(categories, "refused").tolist() == [2, 0, -1, 1]
    assert set(cells_of(table("a\n1.5\n1.0.0\n01\n"), "a").spellings()) == {"1.5", "1.0.0", "01"}


def test_spellings_are_those_that_came_first(table):
    cells = cells_of(table("a\nTRUE\n true \nFalse\n2.0\n2\nNA\n"), "a")
    assert cells.spellings() == {"true": "TRUE", "false": "False", "2": "2.0"}


def test_targets(table):
    source = table("y,c\n1.5,red\n,\n2,blue\n")
    first, piece = next(source.pieces())
    numbers, classes = Encoding((), "y"), Encoding((), "c", ("blue", "red"))
    for encoding, column in ((numbers, "y"), (classes, "c")):
        with pytest.raises(
            TableError, match=rf"row 2, column '{column}': the target is missing; fill it in, or add --skip"
        ):
            encoding.targets(source, first, piece, skip=False)
        _, there = encoding.targets(source, first, piece, skip=True)
        assert there.tolist() == [True, False, True]
    assert classes.targets(source, first, piece, skip=True)[0][[0, 2]].tolist() == ["red", "blue"]
    with pytest.raises(
        TableError, match=r"row 1, column 'c': 'red' was not there in fit, .* or fit again with all classes"
    ):
        Encoding((), "c", ("blue", "green")).targets(source, first, piece, skip=True)


def test_many_categories_are_put_in_the_order_of_their_mean_target():
    column = Column("c", tuple("abcdefghijklmnopqrstuvwxyz"))
    code = np.array([0, 0, 1, 25, 25, -1])
    target = np.array([9.0, 11, -5, 2, 4, 3])
    ordered = column.ordered(code, target)
    assert ordered.categories[0] == "b"
    assert ordered.categories[1] == "z"  # mean 3, all that were not seen have the mean of all, 4
    assert ordered.categories[-1] == "a"
    assert sorted(ordered.categories) == list(column.categories)
    few = Column("c", ("a", "b", "c"))
    assert few.ordered(code, target) is few


def test_intervals_in_words():
    number, two, few = Column("n"), Column("t", ("no", "yes")), Column("f", ("a", "b", "c"))
    assert number.covered([[(1.0, 2.0), (4.0, 9.0)]], (0, 9), 5) == "1 to 2 and 4 or more"
    assert number.covered([[(0.0, 9.0)]], (0, 9), 5) == "any value"
    assert number.covered([[(0.0, 2.5)]], (0, 9), 5) == "2.5 or less"
    assert two.covered([[(-0.1, 0.1)]], (0, 1), 0) == "no"
    assert two.covered([[(-0.1, 1.1)]], (0, 1), 0) == "no, yes, missing"
    low, high, both = [(-0.1, 0.1)], [(0.9, 1.1)], [(-0.1, 1.1)]
    assert few.covered([low, high, low], (0, 1), 0) == "b"
    assert few.covered([both, both, low], (0, 1), 0) == "a, b, missing"
    assert few.covered([high, high, low], (0, 1), 0) == "nowhere"


def test_an_encoding_comes_back_from_json():
    labels = (("no", "yes"), (False, True), (-1, 0, 7), (1.0, 2.0))
    for encoding in (ENCODING, *(Encoding((Column("n"),), "y", classes) for classes in labels)):
        assert Encoding.from_json(encoding.to_json()) == encoding


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "the table must be a JSON object, not None"),
        ({"columns": [], "target": "y"}, "'classes' of the table is missing"),
        ({"columns": [], "target": 1, "classes": None}, "'target' of the table must be a text, not 1"),
        ({"columns": [{}], "target": "y", "classes": None}, "'name' of a column of the table is missing"),
        (
            {"columns": [], "target": "y", "classes": ["a", "a"]},
            "'classes' of the table must be different texts",
        ),
        (
            {"columns": [], "target": "y", "classes": [1, True]},
            "'classes' of the table must be different texts, or numbers, or true and false",
        ),
        ({"columns": [], "target": "y", "classes": [[1], [2]]}, "'classes' of the table must be different"),
    ],
)
def test_a_wrong_encoding_is_refused(value, says):
    with pytest.raises(ValueError, match=says):
        Encoding.from_json(value)


# --- writing ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["out.csv", "out.tsv", "out.parquet"])
def test_tables_are_written_and_read_back(tmp_path, name):
    path = tmp_path / name
    with TableWriter(str(path)) as writer:
        for start in (0.0, 2.0):
            writer.write(pa.table({"x": [start, start + 1], 'a "b", c': ["plain", None]}))
            assert not path.exists()
        writer.write(pa.table({"x": [4.5], 'a "b", c': ['with "quotes", and\nlines']}))
    assert [file.name for file in tmp_path.iterdir()] == [name]
    if name == "out.tsv":
        assert path.read_bytes().startswith(b'x\t"a ""b"", c"\n0\tplain\n')
    source = Source.of(path)
    assert source.columns == ("x", 'a "b", c')
    rows = pa.concat_tables(piece for _, piece in source.pieces())
    assert [float(x) for x in rows["x"].to_pylist()] == [0, 1, 2, 3, 4.5]
    assert rows[1].to_pylist() == ["plain", None, "plain", None, 'with "quotes", and\nlines']


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_a_failure_leaves_what_was_there(tmp_path, name):
    path = tmp_path / name
    path.write_text("old")

    def half():
        with TableWriter(str(path)) as writer:
            writer.write(pa.table({"x": [1.0]}))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_table_that_cannot_be_written(tmp_path):
    with pytest.raises(
        TableError, match=r"out.csv cannot be written: No such file or directory; choose another"
    ):
        TableWriter(str(tmp_path / "nowhere" / "out.csv")).__enter__()
    with pytest.raises(TableError, match=r"out.doc must end in"):
        TableWriter(str(tmp_path / "out.doc"))
