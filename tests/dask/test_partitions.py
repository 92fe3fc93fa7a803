import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from atlas_splines.dask.partitions import Partitions, as_numbers, each, tree

FRAME = pd.DataFrame({"a": np.arange(10.0), "b": np.arange(10.0) ** 2})


def told(X, y, weights=None, *, task):
    return [task, np.asarray(X).sum(), np.asarray(y).sum(), weights is None]


def added(answers):
    return [sum(answer[k] for answer in answers) for k in range(4)]


def computed(partitions, task=1):
    return dask.compute(tree(partitions.map(told, task), added), scheduler="synchronous")[0]


@pytest.mark.parametrize("chunks", [(3, 1), (10, 2), (1, 2)])
def test_each_block_of_rows_is_asked_once(chunks):
    X, y = da.from_array(FRAME.to_numpy(), chunks=chunks), da.from_array(np.arange(10.0), chunks=4)
    task, inputs, targets, _ = computed(Partitions(X, (y, None)))
    assert (inputs, targets) == (45 + 285, 45)
    assert task >= len(Partitions(X))  # blocks of y begin elsewhere


@pytest.mark.parametrize("parts", [1, 3, 10])
def test_each_partition_of_a_frame_is_asked_once(parts):
    frame = dd.from_pandas(FRAME, npartitions=parts)
    partitions = Partitions(frame, (frame["b"], None))
    assert computed(partitions) == [parts, 45 + 285, 285, parts]
    assert partitions.names == ["a", "b"]
    assert partitions.columns == 2


def test_parts_of_unknown_size():
    frame = dd.from_pandas(FRAME, npartitions=3)
    partitions = Partitions(frame.to_dask_array(), (frame["b"].to_dask_array(), None))
    assert computed(partitions) == [3, 45 + 285, 285, 3]


def test_what_does_not_match_is_refused():
    frame, array = dd.from_pandas(FRAME, npartitions=3), da.from_array(FRAME.to_numpy(), chunks=(5, 2))
    with pytest.raises(TypeError, match=r"numpy\.ndarray is not a Dask array or data frame; make one of it"):
        Partitions(FRAME.to_numpy())
    with pytest.raises(
        ValueError, match="X, y and sample_weight have 3 and 2 partitions; they must have the"
    ):
        Partitions(frame, (array[:, 0],))
    with pytest.raises(ValueError, match="have 3 and 2 partitions; they must have the same"):
        Partitions(frame, (dd.from_pandas(FRAME["a"], npartitions=2),))
    with pytest.raises(ValueError, match="have 10 and 9 rows; they must have the same"):
        Partitions(array, (array[1:, 0],))
    with pytest.raises(ValueError, match="X has 1 dimensions; give rows and columns"):
        Partitions(array[:, 0]).columns  # noqa: B018


def doubled(X, *, task):
    return task * np.asarray(X)


def test_lazy_arrays_of_what_is_said_of_rows():
    X = da.from_array(FRAME.to_numpy(), chunks=(3, 1))
    found = each(doubled, 2, X, (2,), np.float64)
    assert found.chunks == ((3, 3, 3, 1), (2,))
    assert np.array_equal(found.compute(scheduler="synchronous"), 2 * FRAME)
    found = each(doubled, 2, dd.from_pandas(FRAME, npartitions=3), (2,), np.float64)
    assert np.array_equal(found.compute(scheduler="synchronous"), 2 * FRAME)


def test_missing_values_of_frames_are_nan():
    frame = pd.DataFrame({"a": pd.array([1, None], "Int64")})
    assert np.array_equal(as_numbers(frame), [[1.0], [np.nan]], equal_nan=True)


@pytest.mark.parametrize("columns", [2, 40])
def test_files_are_asked_once_each_however_few_columns_are_read(tmp_path, columns):
    table = pd.DataFrame(np.arange(60.0 * columns).reshape(60, columns)).add_prefix("x").assign(y=1.0)
    for k in range(6):
        table[10 * k : 10 * (k + 1)].to_parquet(tmp_path / f"{k}.parquet")
    lazy = dd.read_parquet(tmp_path)
    X = lazy[[f"x{j}" for j in range(columns)]]
    found = computed(Partitions(X, (lazy["y"], None)))
    assert found[1:3] == [table.drop(columns="y").to_numpy().sum(), 60]
    few = computed(Partitions(X[["x0"]], (lazy["y"], None)))
    assert few[1:3] == [table["x0"].sum(), 60]
