import pytest
from pieces import cells_of, survey

from atlas_splines.tables import source as reading
from atlas_splines.tables.encoding import Column
from atlas_splines.tables.inference import MOST_CATEGORIES
from atlas_splines.tables.source import TableError


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
            ["2024-01-31", "2024-02-31"],
            "row 2, column 'a': '2024-02-31' is not a recognised date or time",
        ),
        (
            ["31.12.2024 10:00 o'clock"],
            "row 1, column 'a': \"31.12.2024 10:00 o'clock\" is not a recognised date or time",
        ),
        (["12:30-14:00", "1:00-2:00"], "row 1, column 'a': '12:30-14:00' is not a recognised date or time"),
        (
            ["3", "NA", "3,5"],
            "row 3, column 'a': '3,5' has a comma; write numbers without commas and with a decimal point, such as "
            "3.5, or add --decimal ',', or add --category a",
        ),
        (["-3,5", "2,25"], "row 1, column 'a': '-3,5' has a comma; write numbers without commas"),
    ],
)
def test_mixtures_and_dates_are_refused(table, cells, says):
    with pytest.raises(TableError) as caught:
        survey(table("a;b\n" + ";\n".join(cells) + ";\n"), "a")
    assert str(caught.value).startswith(f"t.csv, {says}")


def test_mixtures_across_pieces_are_refused(table, monkeypatch):
    monkeypatch.setattr(reading, "BLOCK", 100)
    words, digits = ["word"] * 100, ["12.5"] * 100
    with pytest.raises(TableError, match=r"row 101, column 'a': 'word' is not a number, as other cells are"):
        survey(table("a\n" + "\n".join(digits + words) + "\n"), "a")
    with pytest.raises(
        TableError, match=r"row 101, column 'a': '12.5' is a number among strings; .* --category a"
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
        TableError, match=r"column 'a': there are more than 10,000 distinct strings; leave the column"
    ):
        survey(source, "a")


@pytest.mark.parametrize(
    ("first", "second", "is_joined"),
    [
        (["1", ""], ["2", "3.5"], True),
        (["", "NA"], ["b", "a"], True),
        (["b", "True"], ["a", ""], True),
        (["31.12.2024", "01.02.2024"], ["2.1.2023"], True),
        (["01/02/2024"], ["31/12/2024"], True),  # day first, as the second part tells
        (["1", "2"], ["a"], False),
        (["a"], ["1"], False),
        (["a"], ["2024-12-31"], False),
        (["2024-12-31"], ["31.12.2024"], False),
        (["a", "1,5"], ["1,6", "b"], False),  # it depends on what came before
    ],
)
def test_surveys_that_were_made_apart_are_joined_or_made_again(table, first, second, is_joined):
    parts = [
        table("a;b\n" + ";\n".join(cells) + ";\n", f"{k}.csv") for k, cells in enumerate((first, second))
    ]
    one, other = (survey(part, "a") for part in parts)
    assert one.merge(other) == is_joined
    if is_joined:
        whole = survey(table("a;b\n" + ";\n".join([*first, *second]) + ";\n"), "a")
        assert one.column("a") == whole.column("a")
        assert one.categories == whole.categories


def test_forced_categories_are_joined_however_they_look(table):
    one, other = (survey(table(f"a\n{cell}\n", f"{cell}.csv"), "a", category=True) for cell in ("x", "1"))
    assert one.merge(other)
    assert one.column("a").categories == ("1", "x")
