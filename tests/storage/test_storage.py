import ast
import errno
import json
import os
import re
import subprocess
import sys
import textwrap
import threading
import tracemalloc
from pathlib import Path
from random import Random

import numpy as np
import pytest
import safetensors.numpy
from filelock import FileLock
from hypothesis import given, settings
from hypothesis import strategies as st
from mutations import (
    CARELESS,
    SEALED,
    File,
    outputs_of,
    rich_model,
    small_classifier,
    small_model,
    small_regressor,
)

from atlas_splines import Atlas, StorageError, load, save
from atlas_splines.files import archive as archives
from atlas_splines.files.archive import Archive, read_archive, write_archive
from atlas_splines.storage import estimators as estimator_archives
from atlas_splines.storage import models as model_archives
from atlas_splines.storage import saving as storage
from atlas_splines.storage.models import model_from_archive, model_to_archive
from atlas_splines.storage.saving import lock

GOLDEN = Path(__file__).parents[1] / "golden"
AGAIN = "; restore it from a copy, or save the model again"


def points_for(model, rows=200):
    low, high = model.domain.T
    return (low + (high - low) * np.random.default_rng(1).random((rows, model.inputs))).astype(model.dtype)


@pytest.fixture(scope="module", params=[("float32", 1), ("float64", 3)], ids=["float32", "float64-3"])
def rich(request):
    return rich_model(*request.param)


@pytest.fixture(scope="module")
def rich_bytes(tmp_path_factory):
    path = tmp_path_factory.mktemp("rich") / "model.atlas"
    save(rich_model(), path)
    return path.read_bytes()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.atlas"


@pytest.fixture
def refusal(path):
    """What `load` says of a wrong file; it must not take much more memory than the file."""

    def message(data):
        path.write_bytes(data)
        tracemalloc.start()
        try:
            with pytest.raises(StorageError) as caught:
                load(path)
            assert tracemalloc.get_traced_memory()[1] < 2**20 + 10 * len(data)
        finally:
            tracemalloc.stop()
        assert str(caught.value).startswith(f"{path} ")
        return str(caught.value).removeprefix(f"{path} ")

    return message


@pytest.fixture
def refusal_of_edit(rich_bytes, refusal):
    """What is wrong with a file that was edited and has the right checksum."""

    def message(edit):
        file = File.open(rich_bytes)
        edit(file)
        return refusal(file.seal()).removeprefix("cannot be loaded: ").removesuffix(AGAIN)

    return message


def header(file):
    return file.envelope["header"]["model"]


# --- what comes back ----------------------------------------------------------------------------------


def test_predictions_are_the_same_to_the_bit(rich, path):
    save(rich, path)
    loaded = load(path)
    X = points_for(rich)
    assert loaded(X).tobytes() == rich(X).tobytes()
    assert loaded.fingerprint() == rich.fingerprint()
    assert loaded.table.flags.writeable
    assert repr(loaded) == repr(rich)


def test_the_log_comes_back(rich, path):
    save(rich, path)
    for old, new in zip(rich.updates, load(path).updates, strict=True):
        assert type(old) is type(new)
        assert repr(old) == repr(new)
        assert (old.time, old.before, old.after, old.reverted) == (
            new.time,
            new.before,
            new.after,
            new.reverted,
        )
        if hasattr(old, "history"):
            assert old.history == new.history
            X = points_for(old.footprint)
            assert (old.footprint.contains(X) == new.footprint.contains(X)).all()
            assert old.footprint.volume == new.footprint.volume
            assert repr(old.footprint) == repr(new.footprint)


def test_a_loaded_model_goes_on_as_the_saved_one_would(path):
    from atlas_splines import update

    model = rich_model()
    save(model, path)
    loaded = load(path)
    X = points_for(model)
    for each in (model, loaded):
        update(each, 0.5 * X, X[:, 0], epochs=2, density=1, random_state=3)
        each.revert(6)
    assert loaded(X).tobytes() == model(X).tobytes()
    assert loaded.updates[-1].id == model.updates[-1].id


def test_every_option_of_the_model_comes_back(path):
    save(small_model(), path)
    loaded = load(path)
    assert (loaded.trainable, loaded.damping, loaded.terms) == ("all", 0.5, 1)
    assert loaded.fingerprint() == small_model().fingerprint()


def test_losses_that_overflowed_are_kept(path):
    model = rich_model()
    model.updates[0].error_before, model.updates[0].error_after = np.inf, np.nan
    save(model, path)
    update = load(path).updates[0]
    assert update.error_before == np.inf
    assert np.isnan(update.error_after)


def test_saving_twice_gives_the_same_bytes(rich, path, tmp_path):
    save(rich, path)
    save(load(path), tmp_path / "again.atlas")
    assert path.read_bytes() == (tmp_path / "again.atlas").read_bytes()


def test_any_safetensors_reader_can_read_it(rich, path):
    save(rich, path)
    tensors = safetensors.numpy.load_file(path)
    width = rich.outputs * (2 * rich.terms + 1)
    assert (tensors["model.table"] == rich.table[:, :width]).all()
    assert (tensors["model.domain"] == rich.domain).all()


@pytest.mark.parametrize("golden", sorted(GOLDEN.glob("*.atlas")), ids=lambda path: path.stem)
def test_files_of_every_version_load(golden):
    loaded, expected = load(golden), np.load(golden.with_suffix(".npz"))
    model = getattr(loaded, "model_", loaded)
    tolerance = 1e-5 if model.dtype == np.float32 else 1e-12  # another processor may round otherwise
    np.testing.assert_allclose(outputs_of(loaded), expected["outputs"], rtol=tolerance, atol=tolerance)
    assert model.table.tobytes() == expected["table"].tobytes()


@pytest.mark.parametrize("kind", ["regressor", "classifier"])
def test_the_first_name_of_retention_is_still_read(kind):
    path = GOLDEN / f"{kind}_v1.atlas"
    assert "memory" in read_archive(path).header["estimator"]["parameters"]
    assert load(path).retention == "chart"


def test_there_are_golden_files_of_every_version():
    versions = {path.stem.rpartition("_v")[2] for path in GOLDEN.glob("*.atlas")}
    assert versions == {str(version) for version in range(1, archives.VERSION + 1)}


# --- archives -----------------------------------------------------------------------------------------


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


def test_models_can_be_parts_of_an_archive(path):
    first, second = model_to_archive(small_model(), "first"), model_to_archive(rich_model(), "second")
    whole = Archive("pair", {**first.header, **second.header}, {**first.tensors, **second.tensors})
    write_archive(path, whole)
    archive = read_archive(path)
    assert model_from_archive(archive, "first").fingerprint() == small_model().fingerprint()
    X = points_for(rich_model())
    assert (model_from_archive(archive, "second")(X) == rich_model()(X)).all()
    archive.check_all_taken()
    with pytest.raises(StorageError, match="it is of an unknown kind, none of 'model'"):
        load(path)


def test_nothing_in_a_file_is_run():
    for module in (archives, model_archives, estimator_archives, storage):
        tree = ast.parse(Path(module.__file__).read_text(encoding="utf8"))
        names = {
            alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
        }
        names |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        called = {
            node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and hasattr(node.func, "id")
        }
        assert not {"pickle", "marshal", "shelve", "importlib", "joblib"} & names
        assert not {"eval", "exec", "compile", "__import__"} & called


# --- damaged files ------------------------------------------------------------------------------------


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
    file.envelope.update(version=2, checksum="of a kind not yet known")
    newer = "was written by a newer atlas-splines (format 2); this one reads up to 1: upgrade"
    assert refusal(file.seal()) == newer


@pytest.mark.parametrize("version", [0, -1, "1", None, True, 1.0])
def test_a_version_that_never_was(version, rich_bytes, path):
    file = File.open(rich_bytes)
    file.envelope["version"] = version
    path.write_bytes(file.seal())
    with pytest.raises(StorageError, match="'version' of the file must be"):
        load(path)


@pytest.mark.parametrize("size", [2**31, 2**40, 2**62, 2**70])
@pytest.mark.parametrize("key", ["inputs", "outputs", "terms"])
def test_a_configuration_of_terabytes(key, size, refusal_of_edit):
    what = refusal_of_edit(set_value("configuration", key, to=size))
    assert ("tensor" in what and "instead of" in what) if size < 2**53 else "must be at most" in what


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
    ],
    ids=["nested", "many", "NaN", "comma"],
)
def test_a_header_that_json_does_not_have(value, what, refusal):
    text = '{"__metadata__":{"atlas-splines":"' + value + '"}}'
    data = len(text).to_bytes(8, "little") + text.encode()
    assert refusal(data) == f"cannot be loaded: {what}{AGAIN}"


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


# --- files whose checksum is right, and whose content is wrong ----------------------------------------


def set_value(*keys, to):
    def edit(file):
        place = header(file)
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = to

    return edit


@pytest.mark.parametrize(
    ("edit", "what"),
    [
        (set_value("configuration", "inputs", to=0), "'inputs' of the configuration must be at least 1, not 0"),
        (set_value("configuration", "outputs", to="1"), "'outputs' of the configuration must be a whole number, not '1'"),
        (set_value("configuration", "terms", to=True), "'terms' of the configuration must be a whole number, not True"),
        (set_value("configuration", "density", to=21), "'density' of the configuration must be at most 20, not 21"),
        (set_value("configuration", "density", to=3), "tensor 'model.table' has shape (73, 7) instead of (160, 7)"),
        (set_value("configuration", "terms", to=4), "tensor 'model.table' has shape (73, 7) instead of (73, 9)"),
        (set_value("configuration", "dtype", to="float64"), "tensor 'model.table' has dtype float32 instead of float64"),
        (set_value("configuration", "dtype", to="object"), "'dtype' of the configuration must be one of 'float32', 'float64', not 'object'"),
        (set_value("configuration", "trainable", to="none"), "'trainable' of the configuration must be one of 'finest', 'all', not 'none'"),
        (set_value("configuration", "damping", to=-1), "'damping' of the configuration must be a number of at least 0, not -1"),
        (set_value("configuration", "extra", to=1), "'extra' has no place in the configuration"),
        (set_value("configuration", to=[]), "the configuration must be a JSON object, not []"),
        (set_value("charts", to={}), "'charts' of 'model' of the header must be a list, not {}"),
        (set_value("charts", 0, "update", to=99), "a chart belongs to update 99, which is not in the log or has no charts"),
        (set_value("charts", 0, "update", to=4), "a chart belongs to update 4, which is not in the log or has no charts"),
        (set_value("charts", 0, "update", to=7), "a chart belongs to update 7, which is not in the log or has no charts"),
        (set_value("charts", 0, "replaces", to=1), "'replaces' of model.charts.0 must be true or false, not 1"),
        (set_value("charts", 0, "filled", to=[1]), "'filled' of model.charts.0 must be the densities that have coefficients"),
        (set_value("charts", 0, "filled", to=[0, 0]), "'filled' of model.charts.0 must be the densities that have coefficients"),
        (set_value("charts", 0, "filled", to=[[]]), "'filled' of model.charts.0 must be the densities that have coefficients"),
        (set_value("charts", 0, "fence", to=0), "a fence of model.charts.0 leaves the functions of density 0"),
        (set_value("charts", 1, to=None), "model.charts.1 must be a JSON object, not None"),
        (set_value("updates", 0, "id", to=2), "two of its updates have the same id"),
        (set_value("updates", 0, "type", to="os.system"), "'seconds' has no place in model.updates.0"),
        (set_value("updates", 7, "type", to="os.system"), "'type' of model.updates.7 must be one of 'record', 'update', 'consolidation', not 'os.system'"),
        (set_value("updates", 0, "kind", to="consolidation"), "'kind' of model.updates.0 must be one of 'chart', 'rehearsal', 'both', 'none', not 'consolidation'"),
        (set_value("updates", 0, "time", to="today"), "'time' of model.updates.0 must be a time, not 'today'"),
        (set_value("updates", 0, "time", to="2024-01-01T00:00:00"), "'time' of model.updates.0 must be a time with its offset from UTC, not '2024-01-01T00:00:00'"),
        (set_value("updates", 0, "before", to="abc"), "'before' of model.updates.0 must be a text like [0-9a-f]{64}, not 'abc'"),
        (set_value("updates", 0, "rows", to=-5), "'rows' of model.updates.0 must be at least 0, not -5"),
        (set_value("updates", 0, "error_after", to=None), "'error_after' of model.updates.0 must be a finite number, not None"),
        (set_value("updates", 0, "footprint", "type", to="cross"), "the footprint of model.updates.0 is a cross, and needs one density"),
        (set_value("updates", 0, "footprint", "densities", to=[]), "the footprint of model.updates.0 needs densities from 0 to 20"),
        (set_value("updates", 0, "history", "best_epoch", to=9), "'best_epoch' of the history of model.updates.0 must be at most -1, not 9"),
        (set_value("updates", 0, "history", "stopped", to="power cut"), "'stopped' of the history of model.updates.0 must be one of 'epochs', 'patience', not 'power cut'"),
        (set_value("updates", 1, "worst", to=-1), "'worst' of model.updates.1 must be a number of at least 0, not -1"),
    ],
)  # fmt: skip
def test_a_wrong_header_is_refused(edit, what, refusal_of_edit):
    assert refusal_of_edit(edit) == what


@pytest.mark.parametrize(
    ("name", "number", "what"),
    [
        ("model.table", np.nan, "tensor 'model.table' holds nan"),
        ("model.domain", 0.5, "tensor 'model.domain' leaves out a part of the unit cube"),
        ("model.domain", -1e308, "tensor 'model.domain' reaches too far"),
        ("model.domain", -0.5, "tensor 'model.table' has shape (73, 7) instead of (77, 7)"),
        ("model.charts.0.domain", -0.6, "tensor 'model.charts.0.domain' reaches too far"),
        ("model.charts.1.table", np.inf, "tensor 'model.charts.1.table' holds inf"),
        ("model.charts.1.slope", -1, "tensor 'model.charts.1.slope' does not fall like 1/k² from a positive size"),
        ("model.charts.0.fence", -9999, "a fence of model.charts.0 leaves the functions of density 6"),
        ("model.charts.0.fence", 9999, "a fence of model.charts.0 leaves the functions of density 6"),
        ("model.updates.0.fences", -1, "a fence of model.updates.0 leaves the functions of density 8"),
        ("model.updates.0.loss", -np.inf, "tensor 'model.updates.0.loss' holds -inf"),
        ("model.updates.3.touched", 9, "tensor 'model.updates.3.touched' must hold rising cells near the domain"),
        ("model.updates.3.touched", -99, "tensor 'model.updates.3.touched' must hold rising cells near the domain"),
        ("model.updates.3.counts", -1, "tensor 'model.updates.3.counts' does not add up to the cells that were touched"),
    ],
)  # fmt: skip
def test_wrong_numbers_are_refused(name, number, what, refusal_of_edit):
    def edit(file):
        file.values(name)[0] = number

    assert refusal_of_edit(edit) == what


@pytest.mark.parametrize(("low", "high"), [(0, 900), (-900, 1)])
def test_a_fence_that_the_kernels_could_not_count(low, high):
    model = Atlas(inputs=1).extend([low], [high])
    with pytest.raises(ValueError, match="a fence of part is too fine for the domain"):
        model_archives._read_fence(20, np.zeros((1, 2), np.int32), model.domain, model, "part")


def test_a_fence_without_any_extent():
    # rounded to float32, this face lies a little within a cell more
    cell = next(m for m in range(30, 90) if np.float32(m / 29) * np.float32(29) > m)
    domain, beyond = np.array([[0, cell / 29]]), np.full((1, 2), cell + 3, np.int32)
    with pytest.raises(ValueError, match="a fence of part is empty"):
        model_archives._read_fence(3, beyond, domain, Atlas(inputs=1), "part")


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


# --- fuzz ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def all_bytes(rich_bytes, tmp_path_factory):
    """Files of each kind."""
    path, found = tmp_path_factory.getbasetemp() / "kind.atlas", [rich_bytes]
    for thing in (small_regressor(), small_classifier()):
        save(thing, path)
        found.append(path.read_bytes())
    return found


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


@settings(max_examples=300)
@given(seed=st.integers(0, 2**32), mutate=st.sampled_from(SEALED), which=st.integers(0, 2))
def test_edited_files_are_refused_or_valid(seed, mutate, which, all_bytes, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "fuzz.atlas"
    path.write_bytes(mutate(Random(seed), all_bytes[which]))
    try:
        loaded = load(path)
    except StorageError:
        return
    before = outputs_of(loaded)
    save(loaded, path)
    np.testing.assert_array_equal(outputs_of(load(path)), before)


# --- writing ------------------------------------------------------------------------------------------


def test_a_model_that_could_not_be_loaded_is_not_written(path):
    save(small_model(), path)
    broken = small_model()
    broken.table[1, 1] = np.nan
    with pytest.raises(StorageError) as caught:
        save(broken, path)
    assert (
        str(caught.value) == f"{path} was not written: tensor 'model.table' holds nan; mend the model first"
    )
    assert load(path).fingerprint() == small_model().fingerprint()
    with pytest.raises(
        TypeError, match="save takes an Atlas, an AtlasRegressor or an AtlasClassifier, not dict"
    ):
        save({}, path)


def test_a_header_that_could_not_be_loaded_is_not_written(path):
    with pytest.raises(StorageError, match=r"was not written: its header would be too long; shorten the log"):
        write_archive(path, Archive("thing", {"many": [0] * 700_001}, {}))
    assert not path.exists()


def test_a_full_disk_leaves_the_old_file(path, monkeypatch):
    save(small_model(), path)
    before = path.read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError) as caught:
        save(Atlas(inputs=3), path)
    text = "could not be written: No space left on device; make room or choose another folder"
    assert str(caught.value) == f"{path} {text}"
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_an_interrupt_leaves_the_old_file(path, monkeypatch):
    save(small_model(), path)
    before = path.read_bytes()

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save(Atlas(inputs=3), path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_folders_that_cannot_be_written_to(tmp_path):
    with pytest.raises(StorageError, match="could not be written: No such file or directory"):
        save(small_model(), tmp_path / "nowhere" / "model.atlas")
    with pytest.raises(StorageError, match="could not be written: Is a directory"):
        save(small_model(), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is forbidden here")
def test_a_read_only_folder(path):
    path.parent.chmod(0o500)
    with pytest.raises(StorageError, match="could not be written: Permission denied"):
        save(small_model(), path)


def test_what_cannot_be_read(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.atlas does not exist; check the name"):
        load(tmp_path / "none.atlas")
    with pytest.raises(StorageError, match="is not a file; check the name"):
        load(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(StorageError, match="is not a file; check the name"):
            load(tmp_path / "pipe")


def test_permissions_are_kept(path):
    save(small_model(), path)
    usual = path.parent / "usual"
    usual.touch()
    assert path.stat().st_mode == usual.stat().st_mode
    path.chmod(0o640)
    save(small_model(), path)
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_symbolic_link_stays_one(path, tmp_path):
    (tmp_path / "there").mkdir()
    target = tmp_path / "there" / "real.atlas"
    path.symlink_to(target)
    save(small_model(), path)
    save(small_model(), path)
    assert path.is_symlink()
    assert load(target).fingerprint() == small_model().fingerprint()
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_kill_at_any_moment_leaves_a_whole_file(path):
    """Children that save one model after the other are killed twenty times."""
    code = """
        import os, random, signal, sys, time
        import numpy as np
        from atlas_splines import Atlas, load, save
        path, random = sys.argv[1], random.Random(0)
        models = [Atlas(inputs=2, density=8) for _ in range(2)]
        models[1].f(8)[:] = 1.0
        whole = {model.fingerprint() for model in models}
        save(models[0], path)
        leftovers = 0
        for _ in range(20):
            child = os.fork()
            if child == 0:
                while True:
                    for model in models:
                        save(model, path)
            time.sleep(0.01 + 0.05 * random.random())
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            assert load(path).fingerprint() in whole
            leftovers = len([name for name in os.listdir(os.path.dirname(path)) if name.endswith(".tmp")])
        print(leftovers)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0, "no child was killed while it wrote"


def test_reading_while_another_writes(path):
    models = [small_model(), Atlas(inputs=1, density=6)]
    whole = {model.fingerprint() for model in models}
    save(models[0], path)
    stop = threading.Event()

    def write():
        while not stop.is_set():
            for model in models:
                save(model, path)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert all(load(path).fingerprint() in whole for _ in range(200))
    finally:
        stop.set()
        writer.join()


# --- locks --------------------------------------------------------------------------------------------


def test_a_lock_keeps_others_out(path, tmp_path):
    link = tmp_path / "link.atlas"
    link.symlink_to(path)
    with lock(path):
        for name in (path, link):
            with (
                pytest.raises(
                    StorageError, match=r"another process is updating .*; try again, or wait longer"
                ),
                lock(name, timeout=0),
            ):
                pass
        assert (tmp_path / ".model.atlas.lock").exists()
    with lock(link, timeout=0):
        pass


def test_a_lock_is_freed_by_an_error(path):
    with pytest.raises(KeyError), lock(path):
        raise KeyError
    with lock(path, timeout=0):
        pass


def test_a_lock_waits_for_its_turn(path):
    holder = FileLock(path.with_name(".model.atlas.lock"), thread_local=False)
    holder.acquire()
    timer = threading.Timer(0.1, holder.release)
    timer.start()
    with lock(path):
        assert not holder.is_locked
    timer.join()


def test_a_lock_in_a_folder_that_is_not_there(tmp_path):
    with (
        pytest.raises(StorageError, match=r"cannot be locked: there is no folder .*none; check the name"),
        lock(tmp_path / "none" / "model.atlas"),
    ):
        pass


def test_the_format_is_as_documented(rich_bytes):
    """Sealing by the documented rule gives a file with the documented parts."""
    file = File.open(rich_bytes)
    assert list(file.envelope) == ["format", "version", "sha256", "kind", "header"]
    assert (file.envelope["format"], file.envelope["version"], file.envelope["kind"]) == (
        "atlas-splines",
        1,
        "model",
    )
    documented = (Path(__file__).parents[2] / "docs" / "format.md").read_text(encoding="utf8")
    for parent, key in places_of(header(file)):
        assert isinstance(parent, list) or f"`{key}`" in documented, key
    for name in file.entries:
        assert f"`{'.'.join('k' if part.isdigit() else part for part in name.split('.'))}`" in documented, (
            name
        )


def places_of(value):
    from mutations import places

    return places(json.loads(json.dumps(value)))
