import io

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas_splines.tables import bodies
from atlas_splines.tables.bodies import BodyLimits, BodyRefused, BodyTooLarge, RowEncoder
from atlas_splines.tables.dialects import Dialect
from atlas_splines.tables.encoding import Column, Encoding
from atlas_splines.tables.wording import TableError

ENCODING = Encoding(
    (
        Column("size"),
        Column("garden", ("no", "yes")),
        Column("city", ("Aarhus", "Bergen", "Cadiz"), others=("Dublin",)),
        Column("shop", tuple(f"s{k:02}" for k in range(30))),
    ),
    "price",
)
CELLS = {
    "size": st.none() | st.floats(-1e6, 1e6) | st.integers(-1000, 1000),
    "garden": st.none() | st.sampled_from(["no", "yes"]),
    "city": st.none() | st.sampled_from(["Aarhus", "Bergen", "Cadiz", "Dublin"]),
    "shop": st.none() | st.sampled_from(["s00", "s07", "s29"]),
}


@given(st.lists(st.fixed_dictionaries(CELLS), min_size=1, max_size=5))
def test_rows_are_encoded_as_their_table(rows):
    slow = bodies.encoded(bodies.of_rows(rows), ENCODING, True)
    fast = RowEncoder(ENCODING, missing=True)(rows)
    assert fast.tobytes() == slow.tobytes()


@pytest.mark.parametrize(
    "change",
    [
        {"size": "30"},
        {"size": True},
        {"size": 1e200},
        {"garden": " yes"},
        {"garden": True},
        {"city": "Oslo"},
        {"city": 3},
        {"more": 1},
    ],
    ids=str,
)
def test_odd_cells_are_left_to_the_table(change):
    row = {"size": 30.0, "garden": "no", "city": "Cadiz", "shop": "s00"}
    encoder = RowEncoder(ENCODING, missing=True)
    assert encoder([row]) is not None
    assert encoder([row, row | change]) is None
    assert encoder([{name: value for name, value in row.items() if name != "city"}]) is None


def test_missing_cells_are_left_to_the_table_where_they_are_refused():
    row = {"size": 30.0, "garden": "no", "city": "Cadiz", "shop": "s00"}
    encoder = RowEncoder(ENCODING, missing=False)
    assert encoder([row]) is not None
    assert encoder([row | {"size": None}]) is None
    assert encoder([row | {"city": None}]) is None


def test_csv_is_read_in_the_dialect_of_the_model():
    table = bodies.of_csv(b"a\tb\n1,5\tx\n-\t?\n", Dialect("\t", missing=("?", "-"), decimal=","))
    assert table.to_pylist() == [{"a": "1.5", "b": "x"}, {"a": None, "b": None}]
    assert bodies.of_csv(b"a,b\n", Dialect()).num_rows == 0
    with pytest.raises(TableError, match=r"the body, row 1 has 3 cells instead of 2; correct that row"):
        bodies.of_csv(b"a,b\n1,2,3\n", Dialect())


def test_tables_larger_than_the_limits_are_refused():
    limits = BodyLimits(rows=3, columns=4, cells=6, texts=10)
    with pytest.raises(BodyTooLarge, match="the body has more than 3 rows; send fewer at a time"):
        bodies.of_rows([{"a": 1}] * 4, limits=limits)
    with pytest.raises(BodyTooLarge, match="more than 4 columns"):
        bodies.of_rows([{str(k): 1 for k in range(5)}], limits=limits)
    with pytest.raises(BodyTooLarge, match="more than 6 cells"):
        bodies.of_rows([{"a": 1}, {"b": 1}, {"c": 1}], limits=limits)
    with pytest.raises(BodyTooLarge, match="more than 4 columns"):
        bodies.of_csv(b"a,b,c,d,e\n", Dialect(), limits)
    with pytest.raises(BodyTooLarge, match="more than 3 rows"):
        bodies.of_arrow(bodies.to_arrow(pa.table({"a": [1, 2, 3, 4]})), limits)
    texts = pa.table({"a": pa.array(["12345678", "12345678"]).dictionary_encode()})
    with pytest.raises(BodyTooLarge, match="column 'a': its texts are too long"):
        bodies.of_arrow(bodies.to_arrow(texts), limits)


def stream(table, **options):
    content = io.BytesIO()
    with pa.ipc.new_stream(content, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return content.getvalue()


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
@pytest.mark.parametrize(
    "values", [[1.0, 2.0], pa.array(["x", "y"]).dictionary_encode()], ids=["numbers", "texts"]
)
def test_compressed_streams_are_refused(compression, values):
    with pytest.raises(
        BodyRefused, match="the body is a compressed Arrow stream; write it without compression"
    ):
        bodies.of_arrow(stream(pa.table({"a": values}), compression=compression))


def test_wrong_streams_are_refused_whatever_is_wrong():
    right = stream(pa.table({"a": [1.0, 2.5], "b": pa.array(["x", "y"]).dictionary_encode()}))
    random = np.random.default_rng(0)
    refused = 0
    for _ in range(1000):
        wrong = bytearray(right)
        for place in random.integers(len(right), size=3):
            wrong[place] = random.integers(256)
        try:
            bodies.of_arrow(bytes(wrong))
        except TableError:
            refused += 1
    assert refused > 500
    with pytest.raises(BodyRefused, match="the body is not an Arrow stream"):
        bodies.of_arrow(b"hello")


def test_columns_of_one_name_are_refused():
    batch = pa.record_batch([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(TableError, match="the body has two columns 'a'; rename one"):
        bodies.of_arrow(bodies.to_arrow(pa.Table.from_batches([batch])))


@pytest.mark.parametrize("values", [[1, "x"], [10**30, 1], [[1], {"a": 2}], ["\ud800"]], ids=repr)
def test_columns_of_several_kinds_are_named(values):
    with pytest.raises(TableError, match="the body, column 'a': its values are not of one kind"):
        bodies.of_rows([{"a": value} for value in values])


def test_targets_are_numbers_or_classes_and_may_be_new():
    table = pa.table({"price": [1.0, None]})
    with pytest.raises(TableError, match=r"row 2, column 'price': the target is missing; send it, or leave"):
        bodies.targets_of(table, ENCODING)
    with pytest.raises(TableError, match="the body has no column 'price', the target; it has 'a'"):
        bodies.targets_of(pa.table({"a": [1]}), ENCODING)
    classes = Encoding((Column("size"),), "kind", classes=("cat", "dog"))
    found = bodies.targets_of(pa.table({"kind": ["dog", "cow", "cat"]}), classes)
    assert found.tolist() == ["dog", "cow", "cat"]
    numbers = Encoding((Column("size"),), "kind", classes=(0, 1))
    assert bodies.targets_of(pa.table({"kind": [1, 2, 0]}), numbers).tolist() == [1, 2, 0]


def test_a_table_comes_back_as_it_went():
    table = pa.table({"a": [1.5, 2.0], "b": ["x,y", 'say "no"']})
    assert bodies.of_arrow(bodies.to_arrow(table)).equals(table)
    assert bodies.of_csv(bodies.to_csv(table), Dialect()).column("b").to_pylist() == table["b"].to_pylist()
    with pytest.raises(TableError, match="the body has a column 'a' already; rename it"):
        bodies.with_columns(table, {"a": [1, 2]})
