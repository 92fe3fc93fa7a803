import pytest

from atlas_splines.tables.dialects import PLAIN, Dialect
from atlas_splines.tables.source import TableError


def test_options_replace_those_of_a_dialect():
    known = PLAIN.with_options(separator=";", header=False, missing=["?", " ? ", "-"], decimal=",")
    assert known == Dialect(";", False, ("?", "-"), ",")
    assert known.with_options() == known
    assert known.with_options(header=True, missing=["x"]) == Dialect(";", True, ("x",), ",")
    for spelled, separator in {"tab": "\t", r"\t": "\t", "blank": " ", " ": " ", "#": "#"}.items():
        assert PLAIN.with_options(separator=spelled).separator == separator


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"separator": "ab"}, "--separator must be one character, tab or blank, not 'ab'; correct it"),
        ({"decimal": "'"}, '--decimal must be a point or a comma, not "\'"; correct it'),
        (
            {"decimal": ",", "separator": ","},
            "',' cannot be separator and decimal mark at once; correct one",
        ),
    ],
)
def test_invalid_options_are_refused(options, message):
    with pytest.raises(TableError) as caught:
        PLAIN.with_options(**options)
    assert str(caught.value) == message


def test_a_dialect_comes_back_from_json():
    for dialect in (PLAIN, Dialect("\t", False, ("?",), ",")):
        assert Dialect.from_json(dialect.to_json()) == dialect
    with pytest.raises(ValueError, match="'missing' of the dialect of the table must be strings"):
        Dialect.from_json(PLAIN.to_json() | {"missing": [1]})
    with pytest.raises(ValueError, match="'header' of the dialect of the table must be true or false, not 1"):
        Dialect.from_json(PLAIN.to_json() | {"header": 1})
    with pytest.raises(ValueError, match="--separator must be one character"):
        Dialect.from_json(PLAIN.to_json() | {"separator": "abc"})
