"""Files that were altered are found, and it is said where."""

import re
from random import Random

import numpy as np
import pytest
from mutations import CARELESS, File, rich_model, small_model

from atlas_splines import load, save, versions
from atlas_splines.files.archive import digests_of
from atlas_splines.versions import verify, version

FLIPPED = "its checksum is wrong, so some of its bytes have changed"


def test_a_file_as_it_was_written(rich_path):
    found = verify(rich_path)
    assert found
    assert found.updates == len(rich_model().updates)
    assert found.version == version(load(rich_path))
    assert verify(rich_path, expect=found.version)
    other = verify(rich_path, expect="0" * 64)
    assert other.problems == [f"its version is {found.version}, not the expected one"]


@pytest.fixture
def rich_path(path, rich_bytes):
    path.write_bytes(rich_bytes)
    return path


@pytest.mark.parametrize(
    ("tensor", "where"),
    [
        ("model.table", "the coefficients were altered"),
        ("model.domain", "the domain was altered"),
        ("model.updates.2.domain", "update 3 was altered"),
        ("model.charts.0.table", "chart 1 was altered"),
    ],
)
@pytest.mark.parametrize("sealed", [False, True])
def test_a_number_that_was_altered_is_located(tensor, where, sealed, rich_path):
    file = File.open(rich_path.read_bytes())
    file.values(tensor)[0] += 0.125
    rich_path.write_bytes(file.seal() if sealed else rich_path.read_bytes()[: -len(file.body)] + file.body)
    problems = verify(rich_path).problems
    assert where in problems
    assert (FLIPPED in problems) is not sealed


@pytest.mark.parametrize(
    "edit",
    [
        lambda update: update.update(message="another"),
        lambda update: update.update(error_after=0.0),
        lambda update: update.update(reverted="2024-01-01T00:00:00+00:00"),
        lambda update: update["settings"].update(random_state=7),
    ],
)
def test_an_entry_that_was_altered_and_sealed_again_is_located(edit, rich_path):
    file = File.open(rich_path.read_bytes())
    edit(file.envelope["header"]["model"]["updates"][2])
    rich_path.write_bytes(file.seal())
    assert "update 3 was altered" in verify(rich_path).problems


def test_an_entry_that_was_left_out_is_noticed(rich_path):
    file = File.open(rich_path.read_bytes())
    file.envelope["header"]["model"]["updates"].pop()
    rich_path.write_bytes(file.seal())
    assert not verify(rich_path)


@pytest.mark.parametrize(("field", "value"), [("version", 2), ("version", 1), ("kind", "regressor")])
def test_what_stands_beside_the_header_is_checked_too(field, value, rich_path):
    file = File.open(rich_path.read_bytes())
    file.envelope[field] = value
    rich_path.write_bytes(file.seal())
    assert "the version or the kind was altered" in verify(rich_path).problems


def test_files_without_parts_are_verified_by_their_checksum(path):
    save(small_model(), path)
    file = File.open(path.read_bytes())
    del file.envelope["parts"]
    path.write_bytes(file.seal())
    assert verify(path)
    assert not verify(path).has_parts
    data = bytearray(file.seal())
    data[-1] ^= 1
    path.write_bytes(data)
    assert verify(path).problems == [FLIPPED]


@pytest.mark.parametrize("parts", [None, [], {"a": "b"}, {"a": 1}])
def test_wrong_parts_are_refused(parts, path, refusal_of_sealed):
    save(small_model(), path)

    def edit(file):
        file.envelope["parts"] = parts

    assert "parts" in refusal_of_sealed(path.read_bytes(), edit)


def test_altered_files_are_found_every_one(path, rich_bytes):
    random, found = Random(0), 0
    tries = 150
    for _ in range(tries):
        data = random.choice(CARELESS)(random, rich_bytes)
        while data == rich_bytes:
            data = random.choice(CARELESS)(random, rich_bytes)
        path.write_bytes(data)
        found += not verify(path)
    assert found == tries


def test_a_missing_file_is_no_altered_one(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no\.atlas does not exist; check the name"):
        verify(tmp_path / "no.atlas")


def test_what_is_saved_has_the_version_of_what_is_loaded(path):
    model = rich_model()
    save(model, path)
    assert version(load(path)) == version(model)
    assert re.fullmatch("[0-9a-f]{64}", version(model))


def test_parts_cover_every_tensor():
    tensors = {"a.b": np.zeros(1), "a.c.0.d": np.zeros(1), "e": np.zeros((0, 2))}
    assert list(digests_of({"a": {"c": [1, 2], "d": []}}, tensors)) == ["a.b", "a.c.0", "a.c.1", "a.d", "e"]
    assert versions.verify is verify
