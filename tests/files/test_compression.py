"""Tensors that are compressed: every bit comes back, and no small file makes a large one."""

import zlib

import numpy as np
import pytest
from mutations import File, small_model

from atlas_splines import StorageError, load, save
from atlas_splines.files import compression
from atlas_splines.files.archive import altered_parts, read_archive
from atlas_splines.files.compression import compressed, decompressed, from_planes, planes
from atlas_splines.model.atlas import Atlas, state_of


def packed(array):
    return np.frombuffer(zlib.compress(planes(array)), np.uint8)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("shape", [(40_000,), (200, 200), (20, 20, 100), (40_000, 1)])
def test_every_bit_comes_back(dtype, shape):
    array = (np.arange(40_000) % 7 - 3).astype(dtype).reshape(shape)
    if dtype[0] == "f":
        array.flat[3] = -0.0
    small, shapes = compressed({"a": array, "b": np.ones(3)})
    assert shapes == {"a": [dtype, list(shape)]}
    assert small["a"].nbytes < array.nbytes / 10
    found = decompressed(small, shapes)
    assert found["a"].tobytes() == array.tobytes()
    assert (found["a"].dtype, found["a"].shape) == (array.dtype, shape)
    assert found["b"] is small["b"]


def test_a_transposed_table_comes_back():
    table = np.tile(np.arange(300.0), (100, 1)).T
    small, shapes = compressed({"a": table})
    np.testing.assert_array_equal(decompressed(small, shapes)["a"], table)


@pytest.mark.parametrize(
    "array",
    [
        np.random.default_rng(0).random(50_000).astype(np.float32),  # noise
        np.zeros(1000),  # too short
        np.zeros(100_000, np.uint8),
        np.zeros(100_000, np.bool_),
        np.append(np.random.default_rng(0).random(2**16), np.zeros(100)),  # noise at its beginning
    ],
)
def test_what_gains_nothing_stays_as_it_is(array):
    small, shapes = compressed({"a": array})
    assert small["a"] is array
    assert not shapes


def test_all_of_them_together_have_a_bound(monkeypatch):
    arrays = {"a": np.zeros(20_000), "b": np.ones(20_000)}
    monkeypatch.setattr(compression, "MOST_COMPRESSED", 200_000)
    small, shapes = compressed(arrays)
    assert [*shapes] == ["a"]
    decompressed(small, shapes)
    monkeypatch.setattr(compression, "MOST_COMPRESSED", 100_000)
    with pytest.raises(ValueError, match=r"its compressed tensors would take more than 100,000 bytes"):
        decompressed(small, shapes)
    assert not compressed(arrays, room=100_000)[1]


@pytest.mark.parametrize(
    ("tensor", "shape", "what"),
    [
        (None, ["float64", [10]], "tensor 'a' is not compressed bytes"),
        (np.zeros(3), ["float64", [10]], "tensor 'a' is not compressed bytes"),
        (np.zeros((1, 3), np.uint8), ["float64", [10]], "tensor 'a' is not compressed bytes"),
        (packed(np.zeros(10)), None, "compressed tensor 'a' has no dtype and shape"),
        (packed(np.zeros(10)), ["float64"], "compressed tensor 'a' has no dtype and shape"),
        (packed(np.zeros(10)), ["float16", [10]], "compressed tensor 'a' has no dtype and shape"),
        (packed(np.zeros(10)), [[], [10]], "compressed tensor 'a' has no dtype and shape"),
        (packed(np.zeros(10)), ["float64", 10], "compressed tensor 'a' has no dtype and shape"),
        (packed(np.zeros(10)), ["float64", [-1]], "compressed tensor 'a' has no dtype and shape"),
        (packed(np.zeros(10)), ["float64", [True]], "compressed tensor 'a' has no dtype and shape"),
        (packed(np.zeros(10)), ["float64", [1] * 4], "compressed tensor 'a' has no dtype and shape"),
        (packed(np.zeros(10)), ["float64", [2**39]], "would take more than"),
        (packed(np.zeros(10)), ["float64", [9]], "tensor 'a': its packed bytes are more or less"),
        (packed(np.zeros(10)), ["float64", [11]], "tensor 'a': its packed bytes are more or less"),
        (packed(np.zeros(10))[:-1], ["float64", [10]], "tensor 'a': its packed bytes are more or less"),
        (np.append(packed(np.zeros(10)), np.uint8(0)), ["float64", [10]], "its packed bytes are more or less"),
        (np.arange(50, dtype=np.uint8), ["float64", [10]], "tensor 'a': its packed bytes are damaged"),
    ],
)  # fmt: skip
def test_wrong_bytes_get_a_sentence(tensor, shape, what):
    with pytest.raises(ValueError, match=what):
        decompressed({} if tensor is None else {"a": tensor}, {"a": shape})


def test_nothing_and_no_rows_come_back():
    found = decompressed({"a": packed(np.zeros((0, 4)))}, {"a": ["float64", [0, 4]]})
    assert found["a"].shape == (0, 4)
    assert from_planes(planes(np.zeros(0)), np.dtype("float64")).size == 0


@pytest.fixture
def large_path(path):
    """A file with a tensor that is compressed."""
    model = Atlas(inputs=3, terms=30, density=4)
    state_of(model).table[:] = np.arange(len(state_of(model).table))[:, None] % 5
    save(model, path)
    assert [*File.open(path.read_bytes()).envelope["packed"]] == ["model.table"]
    return path


def test_a_file_has_them(large_path):
    table = state_of(load(large_path)).table
    assert large_path.stat().st_size < table.nbytes / 10
    assert (table[:, :61] == (np.arange(len(table)) % 5)[:, None]).all()
    assert read_archive(large_path).stored < table.nbytes / 10


def test_files_without_any_do_not_mention_it(path):
    save(small_model(), path)
    assert "packed" not in File.open(path.read_bytes()).envelope


def test_an_altered_one_is_named(large_path):
    data = bytearray(large_path.read_bytes())
    file = File.open(bytes(data))
    start = len(data) - len(file.body) + file.entries["model.table"]["data_offsets"][0]
    for place in (start, start + 40):
        altered = data.copy()
        altered[place] ^= 0xFF
        large_path.write_bytes(altered)
        assert altered_parts(large_path) == ["model.table"]
        with pytest.raises(StorageError, match="its checksum is wrong"):
            load(large_path)


def test_one_that_was_altered_and_sealed_again_is_refused(large_path, refusal):
    file = File.open(large_path.read_bytes())
    file.values("model.table")[40] ^= 0xFF
    assert "tensor 'model.table': its packed bytes are" in refusal(file.seal())


@pytest.mark.parametrize("version", [1, 5])
def test_older_versions_have_none(version, large_path, refusal):
    file = File.open(large_path.read_bytes())
    file.envelope["version"] = version
    assert "'packed' has no place in the file" in refusal(file.seal())


@pytest.mark.parametrize("value", [None, 3, [], "x", {"model.domain": ["float64", [3, 2]]}])
def test_a_wrong_list_of_them_is_refused(value, large_path, refusal):
    file = File.open(large_path.read_bytes())
    file.envelope["packed"] = value
    refusal(file.seal())
