"""Tables in files: each distinct column once, bit for bit, and nothing else believed."""

import numpy as np
import pytest

from atlas_splines.files import compression as tables
from atlas_splines.files.compression import joined_tables, spread_tables

NAME = "model.table"
PARTS = {f"{NAME}.{part}" for part in ("cut", "level", "columns", "which")}


def shared_table(rows=150, columns=600, distinct=40, dtype="float32", seed=0):
    """Columns that are shared, but for a constant in the first four rows; some zeros are negative."""
    random = np.random.default_rng(seed)
    table = random.normal(size=(rows, distinct))[:, random.integers(distinct, size=columns)]
    table[:4] = random.normal(size=columns)
    table[:4, ::50] = random.normal(size=(4, columns // 50))
    table[5, ::7], table[:4, 3], table[rows // 2 :] = -0.0, -0.0, 0
    return table.astype(dtype)


def edited(part, change):
    parts = joined_tables({NAME: shared_table()})
    value = parts[f"{NAME}.{part}"].copy()
    parts[f"{NAME}.{part}"] = change(value)
    return parts


def put(index, value):
    def change(array):
        array.reshape(-1)[index] = value
        return array

    return change


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", [30, 128, 129, 400])
def test_a_table_comes_back_bit_for_bit(dtype, rows):
    table = shared_table(rows, dtype=dtype)
    parts = joined_tables({NAME: table, "other": np.arange(3)})
    assert parts.keys() == PARTS | {"other"}
    assert sum(part.nbytes for part in parts.values()) < table.nbytes / 2
    back = spread_tables(parts)
    assert back.keys() == {NAME, "other"}
    assert back[NAME].tobytes() == table.tobytes()
    assert back[NAME].shape == table.shape


@pytest.mark.parametrize(
    "table",
    [
        np.random.default_rng(0).normal(size=(100, 400)),
        shared_table(columns=63),
        shared_table(rows=20),
        np.zeros((2**15, 1), np.float32),
    ],
    ids=["different", "narrow", "small", "one column"],
)
def test_what_is_not_worth_it_stays_as_it_is(table):
    assert joined_tables({NAME: table}) == {NAME: table}


def test_tables_that_agree_are_written_once():
    first, other = shared_table(), np.random.default_rng(0).normal(size=(100, 400))
    tensors = {NAME: first, "a.table": other, "b.table": first.copy(), "c.table": other.copy()}
    parts = joined_tables(tensors)
    assert parts.keys() == PARTS | {"a.table", "b.table.same", "c.table.same"}
    back = spread_tables(parts)
    assert {name: array.tobytes() for name, array in back.items()} == {
        name: array.tobytes() for name, array in tensors.items()
    }


def test_minus_zero_is_another_table():
    one, other = shared_table(), shared_table()
    other[-1, -1] = -0.0
    assert "b.table.same" not in joined_tables({"a.table": one, "b.table": other})


def test_two_columns_of_one_hash_are_not_joined(monkeypatch):
    monkeypatch.setattr(
        tables, "_numbered", lambda block: (np.zeros(block.shape[1], np.int32), np.zeros(1, int))
    )
    table = shared_table()
    assert joined_tables({NAME: table}) == {NAME: table}


def test_tables_together_have_a_bound(monkeypatch):
    one, other = shared_table(), shared_table(seed=1)
    monkeypatch.setattr(tables, "MOST_INFLATED", one.nbytes + 1)
    parts = joined_tables({NAME: one, "other.table": other})
    assert parts.keys() == PARTS | {"other.table"}
    spread_tables(parts)
    monkeypatch.setattr(tables, "MOST_INFLATED", one.nbytes - 1)
    with pytest.raises(ValueError, match=r"its tables would take more than 359,999 bytes of memory"):
        spread_tables(parts)


def test_a_small_file_does_not_make_a_large_table():
    bomb = {
        f"{NAME}.cut": np.array([2**40, 0, 2**40]),
        f"{NAME}.level": np.zeros(1000, np.float32),
        f"{NAME}.columns": np.zeros(0, np.float32),
        f"{NAME}.which": np.zeros((1, 1000), np.int32),
    }
    with pytest.raises(ValueError, match="has more or fewer columns than are needed"):
        spread_tables(bomb)
    wide = bomb | {f"{NAME}.cut": np.array([2**20, 0, 2**20]), f"{NAME}.columns": np.zeros(2**20, np.float32)}
    with pytest.raises(ValueError, match=r"its tables would take more than 335,544,320 bytes of memory"):
        spread_tables(wide)


@pytest.mark.parametrize(
    ("part", "change", "what"),
    [
        ("cut", put(0, 300), "cut' does not cut 300 rows into 2 blocks"),
        ("cut", put(0, 0), "cut' does not cut 0 rows into 2 blocks"),
        ("cut", put(1, 129), "cut' does not cut"),
        ("cut", put(1, -1), "cut' does not cut"),
        ("cut", put(2, 0), "cut' does not cut"),
        ("cut", put(2, -64), "cut' does not cut"),
        ("cut", lambda cut: cut[:2], "do not fit together"),
        ("cut", lambda cut: cut.astype(np.int32), "do not fit together"),
        ("level", lambda level: level[1:], "which' must have a number"),
        ("level", lambda level: level.astype(np.float64), "do not fit together"),
        ("level", lambda level: level[:, None], "do not fit together"),
        ("columns", lambda columns: columns[1:], "more or fewer columns"),
        ("columns", lambda columns: columns.astype(np.int32), "do not fit together"),
        ("which", put(7, -1), "which' must have a number of at least 0"),
        ("which", put(7, 2**31 - 1), "more or fewer columns"),
        ("which", lambda which: which[:, :0], "which' must have a number"),
        ("which", lambda which: which[0], "do not fit together"),
    ],
)
def test_parts_that_do_not_fit_together(part, change, what):
    with pytest.raises(ValueError, match=what):
        spread_tables(edited(part, change))


def test_missing_parts_and_tables_that_are_there_twice():
    parts = joined_tables({NAME: shared_table()})
    with pytest.raises(ValueError, match="do not fit together"):
        spread_tables({name: array for name, array in parts.items() if not name.endswith("level")})
    with pytest.raises(ValueError, match="do not fit together"):
        spread_tables(parts | {NAME: shared_table()})


@pytest.mark.parametrize("other", ["none.table", "b.table", "a", "\xff"])
def test_the_same_as_no_table(other):
    same = np.frombuffer(other.encode("latin1"), np.uint8)
    with pytest.raises(ValueError, match=r"tensor 'b\.table' is said to be the same as"):
        spread_tables({"a.table": shared_table(), "a": np.zeros(3), "b.table.same": same})
