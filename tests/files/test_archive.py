import os
import re

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from mutations import AGAIN, CARELESS, File, small_model

from atlas_splines import StorageError, load, save
from atlas_splines.files.archive import (
    VERSION,
    Archive,
    FileLimits,
    altered_parts,
    parse,
    read_archive,
    write_archive,
)


def test_an_archive_holds_any_header_and_tensors(path):
    tensors = {
        "a": np.arange(6).reshape(2, 3),
        "b": np.array([True, False]),
        "none": np.zeros((0, 4), np.float32),
    }
    write_archive(path, Archive("thing", {"text": 'Grüße " \\ \0 🙂', "sha256": "0" * 64}, tensors))
    archive = read_archive(path)
    assert (archive.kind, archive.header) == ("thing", {"text": 'Grüße " \\ \0 🙂', "sha256": "0" * 64})
    assert archive.tensors.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert archive.tensors[name].dtype == tensor.dtype
        assert (archive.tensors[name] == tensor).all()


def test_a_header_that_could_not_be_loaded_is_not_written(path):
    with pytest.raises(
        StorageError,
        match=r"was not written: its header would be too long; remove its charts with consolidate",
    ):
        write_archive(path, Archive("thing", {"many": [0] * 700_001}, {}))
    assert not path.exists()


def test_a_flipped_bit_in_any_byte_is_noticed(path):
    save(small_model(), path)
    data = path.read_bytes()
    for k in range(len(data)):
        flipped = bytearray(data)
        flipped[k] ^= 1 << (k % 8)
        path.write_bytes(flipped)
        with pytest.raises(StorageError):
            load(path)


def test_every_cut_is_noticed(path):
    save(small_model(), path)
    data = path.read_bytes()
    for size in range(len(data)):
        path.write_bytes(data[:size])
        with pytest.raises(StorageError):
            load(path)


def test_cut_and_changed_bytes_get_a_sentence(rich_bytes, refusal):
    size, comma = len(rich_bytes), rich_bytes.index(b"[0,") + 2
    for data, what in [
        (rich_bytes[:1000], "it was cut off within its header, at 1,000 bytes"),
        (rich_bytes[:-1], f"it should have {size:,} bytes but has {size - 1:,}"),
        (rich_bytes + b"0", f"it should have {size:,} bytes but has {size + 1:,}"),
        (rich_bytes[:-1] + b"\7", "its checksum is wrong, so some of its bytes have changed"),
        (
            rich_bytes[:comma] + b";" + rich_bytes[comma + 1 :],
            f"its header is not JSON at character {comma - 8}",
        ),
    ]:
        assert refusal(data) == f"cannot be loaded: {what}{AGAIN}"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"a,b\n1,2\n" * 100,
        b"\xff" * 100,
        safetensors.numpy.save({"a": np.zeros(3)}),
        safetensors.numpy.save({"a": np.zeros(3)}, {"format": "pt"}),
        b"\2\0\0\0\0\0\0\0[]",
        (2**40).to_bytes(8, "little") + b"{}",
        bytes(8) + b"{}" * 1000,
    ],
)
def test_other_files_are_told_apart(data, refusal):
    assert refusal(data) == "is not an atlas-splines file; check the name"


def test_a_newer_file_asks_for_an_upgrade(rich_bytes, refusal):
    file = File.open(rich_bytes)
    file.envelope.update(version=VERSION + 1, checksum="of a kind not yet known")
    newer = f"was written by a newer atlas-splines (format {VERSION + 1}); this one reads up to {VERSION}: upgrade"
    assert refusal(file.seal()) == newer


@pytest.mark.parametrize("version", [0, -1, "1", None, True, 1.0])
def test_a_version_that_never_was(version, rich_bytes, path):
    file = File.open(rich_bytes)
    file.envelope["version"] = version
    path.write_bytes(file.seal())
    with pytest.raises(StorageError, match="'version' of the file must be"):
        load(path)


@pytest.mark.parametrize("size", [2**31, 2**40, 2**62, 2**70])
def test_a_tensor_of_terabytes(size, refusal_of_edit):
    def claim(file):
        file.entries["model.table"].update(shape=[size, 7], data_offsets=[0, 28 * size])

    assert re.fullmatch("it should have [0-9,]* bytes but has [0-9,]*", refusal_of_edit(claim))


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("[" * 500_000, "its header is nested too deep"),
        ("[]," * 400_000, "its header has more than 700,000 values"),
        ("NaN", "its header holds NaN"),
        ("[1,]", "its header is not JSON at character 3"),
        ("1" + "0" * 400, "its header holds a number of 401 digits"),
        ("1e999", "its header holds a number that is too large"),
        ('{\\"version\\":2,\\"a\\":1,\\"version\\":3}', "its header has 'version' twice in one object"),
    ],
    ids=["nested", "many", "NaN", "comma", "long", "large", "twice"],
)
def test_a_header_that_json_does_not_have(value, what, refusal):
    text = '{"__metadata__":{"atlas-splines":"' + value + '"}}'
    data = len(text).to_bytes(8, "little") + text.encode()
    assert refusal(data) == f"cannot be loaded: {what}{AGAIN}"


def test_a_tensor_that_is_there_twice(rich_bytes, refusal):
    name = b'"model.domain":'
    start = rich_bytes.index(name)
    entry = rich_bytes[start : rich_bytes.index(b"}", start) + 1] + b","
    size = int.from_bytes(rich_bytes[:8], "little") + len(entry)
    twice = size.to_bytes(8, "little") + rich_bytes[8:start] + entry + rich_bytes[start:]
    assert refusal(twice) == f"cannot be loaded: its header has 'model.domain' twice in one object{AGAIN}"


def test_a_number_of_too_many_digits(refusal):
    text = '{"__metadata__":{"atlas-splines":"' + "1" * 5000 + '"}}'
    assert "cannot be loaded: " in refusal(len(text).to_bytes(8, "little") + text.encode())


def test_a_sparse_file_of_terabytes(path):
    text = File({"a": {"dtype": "F64", "shape": [2**40], "data_offsets": [0, 2**43]}}, {}, bytearray())
    envelope = {"format": "atlas-splines", "version": 1, "sha256": "0" * 64, "kind": "model", "header": {}}
    head = text.head(envelope)
    path.write_bytes(head)
    try:
        os.truncate(path, len(head) + 2**43)
    except OSError:
        pytest.skip("no sparse files here")
    with pytest.raises(StorageError, match="does not fit into memory; load it on a larger machine"):
        load(path)


def test_a_tensor_too_many_or_too_few_is_refused(refusal_of_edit):
    def rename(file):
        file.entries["model.tables"] = file.entries.pop("model.table")

    def add(file):
        file.entries["spare"] = {
            "dtype": "BOOL",
            "shape": [1],
            "data_offsets": [len(file.body), len(file.body) + 1],
        }
        file.body.append(0)

    def add_neither_true_nor_false(file):
        add(file)
        file.body[-1] = 2

    def overlap(file):
        file.entries["spare"] = file.entries["model.table"]

    def other_dtype(file):
        file.entries["model.table"]["dtype"] = "C64"

    assert refusal_of_edit(rename) == "tensor 'model.table' is missing"
    assert refusal_of_edit(add) == "tensor 'spare' has no place in it"
    assert refusal_of_edit(add_neither_true_nor_false) == "tensor 'spare' holds more than true and false"
    assert refusal_of_edit(overlap).startswith("its tensors do not fit together")
    names = "'F32', 'F64', 'I32', 'I64', 'U8', 'BOOL'"
    wrong = f"'dtype' of tensor 'model.table' must be one of {names}, not 'C64'"
    assert refusal_of_edit(other_dtype) == wrong


@pytest.mark.slow
@settings(max_examples=300)
@given(random=st.randoms(use_true_random=False), mutate=st.sampled_from(CARELESS))
def test_changed_bytes_are_always_refused(random, mutate, rich_bytes, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "fuzz.atlas"
    data = mutate(random, rich_bytes)
    path.write_bytes(data)
    if data == rich_bytes:
        load(path)
    else:
        with pytest.raises(StorageError):
            load(path)


def test_what_cannot_be_read(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.atlas does not exist; check the name"):
        load(tmp_path / "none.atlas")
    with pytest.raises(StorageError, match="is not a file; check the name"):
        load(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(StorageError, match="is not a file; check the name"):
            load(tmp_path / "pipe")


def test_what_is_made_of_a_file_may_not_be_far_larger(monkeypatch):
    archive = Archive("thing", {}, {"a": np.zeros(1000)})
    archive.reserve(4000)
    archive.reserve(4 * 320 * 2**20 + 6 * 8000 - 4000)
    with pytest.raises(
        ValueError, match=r"it would take 1,342,225,281 bytes of memory, far more than its size"
    ):
        archive.reserve(1)
    monkeypatch.setattr("atlas_splines.files.archive.LIMITS", FileLimits(allowance=0))
    archive = Archive("thing", {}, {"a": np.zeros(1000)})
    archive.reserve(48_000)
    with pytest.raises(ValueError, match=r"it would take 48,001 bytes of memory, far more than its size"):
        archive.reserve(1)


def test_a_name_that_is_there_twice_among_very_many():
    """Found in one pass: one for each name before it would take hours."""
    names = [f'"{k}":0' for k in range(400_000)]
    with pytest.raises(ValueError, match="its header has '399999' twice in one object"):
        parse("{" + ",".join([*names, names[-1]]) + "}")


def test_a_tensor_with_a_name_of_very_many_words(path):
    save(small_model(), path)
    file = File.open(path.read_bytes())
    file.entries["." * 4_000_000] = {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}
    path.write_bytes(file.seal())
    for read in (load, altered_parts):
        with pytest.raises(
            StorageError, match=r"cannot be loaded: tensor '\.+\.' has a name of more than 200 letters"
        ):
            read(path)


def test_the_bytes_of_all_tensors_are_added_up_once():
    """A file full of charts asks for memory at each of them."""

    class Counted(dict):
        passes = 0

        def values(self):
            self.passes += 1
            return super().values()

    tensors = Counted(a=np.zeros(10))
    archive = Archive("thing", {}, tensors)
    for _ in range(3):
        archive.reserve(10)
    assert (archive.reserved, tensors.passes) == (30, 1)
