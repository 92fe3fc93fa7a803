"""Headers and arrays as compressed bytes."""

import json
import zlib

import numpy as np
import pytest

from atlas_splines.files.archive import Archive, FileLimits
from atlas_splines.files.compression import planes
from atlas_splines.versions import packing
from atlas_splines.versions.packing import pack, unpack


def test_what_is_packed_comes_back():
    header = {"a": [1, 2.5, None], "b": {"c": "ä"}}
    tensors = {
        "ints": np.arange(-5, 7).reshape(3, 4),
        "floats": np.array([0.1, -0.0, 1e300]),
        "small": np.array([1.5], np.float32),
        "none": np.zeros((0, 3)),
        "flags": np.array([True, False]),
    }
    back = unpack(Archive("patch", {}, dict(pack(header, tensors))), "model")
    assert (back.kind, back.header, list(back.tensors)) == ("model", header, list(tensors))
    for name, array in tensors.items():
        assert back.tensors[name].dtype == array.dtype
        assert back.tensors[name].shape == array.shape
        assert back.tensors[name].tobytes() == array.tobytes()


@pytest.mark.parametrize("rows", [0, 1, 3, 5, 30])
def test_sums_of_few_rows_are_kept_as_few_rows(rows):
    phi = np.random.default_rng(rows).integers(0, 65536, (rows, 40))
    phi[:, 3:9] = 0
    triangle = (phi.T @ phi)[np.triu_indices(40)]
    parts = pack({}, {"a.gram": triangle})
    assert rows > 5 or parts["tensors"].size < 6 * 40 * rows + 100
    back = unpack(Archive("patch", {}, dict(parts)), "model")
    assert np.array_equal(back.tensors["a.gram"], triangle)


def packed(text, body=b""):
    parts = {"header": zlib.compress(text), "tensors": zlib.compress(body)}
    return Archive("patch", {}, {name: np.frombuffer(data, np.uint8) for name, data in parts.items()})


@pytest.mark.parametrize(
    ("archive", "what"),
    [
        (packed(b"[]"), "its packed header is not one"),
        (packed(b'{"header":{},"tensors":{"a":["float64",[1],null]}}'), "more or less than they should be"),
        (packed(b'{"header":{},"tensors":{"a.gram":["int64",[3],[0,1]]}}'), "packed tensor 'a.gram' has no dtype and shape"),
        (packed(b'{"header":{},"tensors":{"a.gram":["int64",[37],[0]]}}'), "packed tensor 'a.gram' has no dtype and shape"),
        (packed(b'{"header":{},"tensors":{"a.gram":["int64",[36],[8]]}}'), "packed tensor 'a.gram' has no dtype and shape"),
        (packed(b'{"header":{},"tensors":{"a.gram":["int64",[36],[0]]}}', bytes(64)), "depend on each other"),
        (packed(b'{"header":[],"tensors":{}}'), "do not fit together"),
        (packed(b'{"header":{},"tensors":{}}', b"more"), "more or less than they should be"),
        (packed(b'{"header":{},"tensors":{"a":["float16",[1],null]}}'), "packed tensor 'a' has no dtype and shape"),
        (packed(b'{"header":{},"tensors":{"a":["float64",[-1],null]}}'), "packed tensor 'a' has no dtype and shape"),
        (packed(b'{"header":{},"tensors":{"a":["float64",[99999999999],null]}}'), "bytes of memory, far more than its size"),
    ],
)  # fmt: skip
def test_what_was_not_packed_is_refused(archive, what):
    with pytest.raises(ValueError, match=what):
        unpack(archive, "model")


def test_a_header_that_swells_is_stopped(monkeypatch):
    monkeypatch.setattr(packing, "MOST_TEXT", 1000)
    with pytest.raises(ValueError, match="more or less than they should be"):
        unpack(packed(b'{"header":{},"tensors":{}}' + b" " * 1000), "model")


def test_a_few_bytes_do_not_ask_for_hours_of_work():
    """Rows that are nearly all zero shrink to nothing, and a matrix that follows from them takes long."""
    features, count = 2000, 250
    rows = np.eye(count, features, dtype=np.int64)
    places = {"a.gram": ["int64", [features * (features + 1) // 2], list(range(count))]}
    archive = packed(json.dumps({"header": {}, "tensors": places}).encode(), planes(rows))
    assert archive.held < 10_000
    with pytest.raises(ValueError, match="would take far more time than a file of its size should"):
        unpack(archive, "model")


def test_what_would_be_too_much_work_is_packed_as_it_is(monkeypatch):
    """Whatever is written can be read: the budget of the reader is that of the writer."""
    monkeypatch.setattr(packing, "MOST_WORK", 5000)
    phi = np.random.default_rng(0).integers(0, 65536, (3, 40))
    triangle = (phi.T @ phi)[np.triu_indices(40)]
    parts = pack({}, {"a.gram": triangle, "b.gram": triangle})  # each takes 3 · 40² units
    content = json.loads(zlib.decompress(parts["header"].tobytes()))
    assert [rows for _, _, rows in content["tensors"].values()] == [[0, 1, 2], None]
    back = unpack(Archive("patch", {}, dict(parts)), "model")
    assert all(np.array_equal(back.tensors[name], triangle) for name in ("a.gram", "b.gram"))


def test_memory_is_measured_by_the_bytes_of_the_file(monkeypatch):
    """What was packed has no claim to more memory because it swells."""
    monkeypatch.setattr("atlas_splines.files.archive.LIMITS", FileLimits(allowance=20_000_000))
    back = unpack(Archive("patch", {}, dict(pack({}, {"zeros": np.zeros(1_000_000)}))), "model")
    with pytest.raises(ValueError, match="it would take 24,000,000 bytes of memory, far more than its size"):
        back.reserve(8_000_000)
