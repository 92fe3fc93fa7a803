import json
import re
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from mutations import File, places, rich_model, small_model

from atlas_splines import Atlas, StorageError, load, save, update
from atlas_splines.files.archive import VERSION, Archive, FileLimits, read_archive, write_archive
from atlas_splines.io import models
from atlas_splines.io.models import model_from_archive, model_to_archive
from atlas_splines.model.atlas import state_of

GOLDEN = Path(__file__).parents[1] / "golden"


def points_for(model, rows=200):
    low, high = model.domain.T
    return (low + (high - low) * np.random.default_rng(1).random((rows, model.inputs))).astype(model.dtype)


@pytest.fixture(scope="module", params=[("float32", 1), ("float64", 3)], ids=["float32", "float64-3"])
def rich(request):
    return rich_model(*request.param)


def header(file):
    return file.envelope["header"]["model"]


def set_value(*keys, to):
    def edit(file):
        place = header(file)
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = to

    return edit


def test_predictions_are_the_same_to_the_bit(rich, path):
    save(rich, path)
    loaded = load(path)
    X = points_for(rich)
    assert loaded(X).tobytes() == rich(X).tobytes()
    assert loaded.fingerprint() == rich.fingerprint()
    assert state_of(loaded).table.flags.writeable
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
    assert (tensors["model.table"] == state_of(rich).table[:, :width]).all()
    assert (tensors["model.domain"] == rich.domain).all()


@pytest.mark.slow
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


@pytest.mark.parametrize("size", [2**31, 2**40, 2**62, 2**70])
@pytest.mark.parametrize("key", ["inputs", "outputs", "terms"])
def test_a_configuration_of_terabytes(key, size, refusal_of_edit):
    what = refusal_of_edit(set_value("configuration", key, to=size))
    assert ("tensor" in what and "instead of" in what) if size < 2**53 else "must be at most" in what


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
        (set_value("charts", 0, "fence", to=0), "a window of model.charts.0 leaves the functions of density 0"),
        (set_value("charts", 1, to=None), "model.charts.1 must be a JSON object, not None"),
        (set_value("updates", 0, "id", to=2), "two of its updates have the same id"),
        (set_value("updates", 0, "type", to="os.system"), "'seconds' has no place in model.updates.0"),
        (set_value("updates", 7, "type", to="os.system"), "'type' of model.updates.7 must be one of 'record', 'update', 'consolidation', not 'os.system'"),
        (set_value("updates", 0, "kind", to="consolidation"), "'kind' of model.updates.0 must be one of 'pool', 'chart', 'rehearsal', 'both', 'none', not 'consolidation'"),
        (set_value("updates", 0, "time", to="today"), "'time' of model.updates.0 must be a time, not 'today'"),
        (set_value("updates", 0, "time", to="2024-01-01T00:00:00"), "'time' of model.updates.0 must be a time with its offset from UTC, not '2024-01-01T00:00:00'"),
        (set_value("updates", 0, "before", to="abc"), "'before' of model.updates.0 must be a string like [0-9a-f]{64}, not 'abc'"),
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
        ("model.charts.0.fence", -9999, "a window of model.charts.0 leaves the functions of density 6"),
        ("model.charts.0.fence", 9999, "a window of model.charts.0 leaves the functions of density 6"),
        ("model.updates.0.fences", -1, "a window of model.updates.0 leaves the functions of density 8"),
        ("model.updates.0.loss", -np.inf, "tensor 'model.updates.0.loss' holds -inf"),
        ("model.updates.3.touched", 9, "tensor 'model.updates.3.touched' must hold rising cells near the domain"),
        ("model.updates.3.touched", -99, "tensor 'model.updates.3.touched' must hold rising cells near the domain"),
        ("model.updates.3.counts", -1, "tensor 'model.updates.3.counts' does not add up to the touched cells"),
    ],
)  # fmt: skip
def test_wrong_numbers_are_refused(name, number, what, refusal_of_edit):
    def edit(file):
        file.values(name)[0] = number

    assert refusal_of_edit(edit) == what


@pytest.mark.parametrize(("low", "high"), [(0, 900), (-900, 1)])
def test_a_fence_that_the_kernels_could_not_count(low, high):
    model = Atlas(inputs=1).extend([low], [high])
    with pytest.raises(ValueError, match="a window of part is too fine for the domain"):
        models._read_window(20, np.zeros((1, 2), np.int32), model.domain, model, "part")


def test_short_rows_do_not_take_many_times_the_file(path, monkeypatch):
    narrow = Atlas(inputs=1, terms=0, density=6)
    save(narrow, path)
    monkeypatch.setattr("atlas_splines.files.archive.LIMITS", FileLimits(allowance=0))
    with pytest.raises(
        StorageError, match=r"cannot be loaded: it would take 16,256 bytes of memory, far more"
    ):
        load(path)
    with pytest.raises(
        StorageError, match=r"was not written: it would take 16,256 bytes of memory, far more"
    ):
        save(narrow, path)
    wide = Atlas(inputs=1, terms=1, density=6)
    update(wide, np.linspace(0.4, 0.6, 50)[:, None], np.ones(50), terms=1, density=4, epochs=1)
    save(wide, path)
    assert load(path).fingerprint() == wide.fingerprint()


@pytest.mark.parametrize(
    "keys",
    [
        ("configuration", "damping"),
        ("configuration", "inputs"),
        ("updates", 0, "seconds"),
        ("updates", 0, "error_before"),
        ("updates", 1, "worst"),
        ("updates", 0, "history", "seconds"),
    ],
)
@pytest.mark.parametrize("number", [10**400, -(10**400)])
def test_a_number_that_no_float_holds_is_refused(keys, number, refusal_of_edit):
    assert refusal_of_edit(set_value(*keys, to=number)) == "its header holds a number of 401 digits"


def test_a_fence_without_any_extent():
    # rounded to float32, this face lies a little within a cell more
    cell = next(m for m in range(30, 90) if np.float32(m / 29) * np.float32(29) > m)
    domain, beyond = np.array([[0, cell / 29]]), np.full((1, 2), cell + 3, np.int32)
    with pytest.raises(ValueError, match="a window of part is empty"):
        models._read_window(3, beyond, domain, Atlas(inputs=1), "part")


def test_the_format_is_as_documented(rich_bytes):
    """Sealing by the documented rule gives a file with the documented parts."""
    file = File.open(rich_bytes)
    assert list(file.envelope) == ["format", "version", "sha256", "kind", "header", "parts"]
    assert (file.envelope["format"], file.envelope["version"], file.envelope["kind"]) == (
        "atlas-splines",
        VERSION,
        "model",
    )
    documented = (Path(__file__).parents[2] / "docs" / "format.md").read_text(encoding="utf8")
    told = re.findall(r"describes format version (\d+) |^\| `version` \| `(\d+)`;", documented, re.MULTILINE)
    assert [int(one or other) for one, other in told] == [VERSION, VERSION]
    older = documented.partition("\n## Older versions\n")[2].partition("\n## ")[0]
    assert [int(k) for k in re.findall(r"^Files of version (\d+) ", older, re.MULTILINE)] == [
        *range(VERSION)
    ][:0:-1]
    for parent, key in places(json.loads(json.dumps(header(file)))):
        assert isinstance(parent, list) or f"`{key}`" in documented, key
    for name in file.entries:
        assert f"`{'.'.join('k' if part.isdigit() else part for part in name.split('.'))}`" in documented, (
            name
        )


@pytest.fixture(scope="module")
def monotone_archive():
    return lambda: model_to_archive(load(GOLDEN / "monotone_v4.atlas").model_)


@pytest.mark.parametrize(
    "ways", [None, [], [[1]], [[2, 0]], [[1.0, 0]], [[0, 0]], [[1, 0], [1, 0]], [{"0": 1}], "10"], ids=str
)
def test_ways_that_are_none(ways, monotone_archive):
    archive = monotone_archive()
    archive.header["model"]["monotone"] = ways
    with pytest.raises(ValueError, match="'monotone' of 'model' of the header must be "):
        model_from_archive(archive)


@pytest.mark.parametrize("name", ["model.table", "model.charts.0.table"])
def test_coefficients_that_do_not_go_their_way(name, monotone_archive):
    archive = monotone_archive()
    archive.tensors[name] = archive.tensors[name].copy()
    archive.tensors[name][0, -1] += 9  # of F, along the first input
    with pytest.raises(ValueError, match="the coefficients of model or of its charts do not follow"):
        model_from_archive(archive)


def test_a_fence_that_ends_along_a_monotone_input(monotone_archive):
    archive = monotone_archive()
    window = archive.tensors["model.charts.0.fence"].copy()
    window[0, 0] += 1
    archive.tensors["model.charts.0.fence"] = window
    with pytest.raises(ValueError, match="the coefficients of model or of its charts do not follow"):
        model_from_archive(archive)


@pytest.mark.parametrize(
    ("sides", "what"),
    [
        ([], "'sides' of model.evidence must be -1, 0 or 1 for each input of each group of functions"),
        ([[3, 0]], "'sides' of model.evidence must be -1, 0 or 1 for each input of each group of functions"),
        ([[0, 0]], r"tensor 'model.evidence.bumps.1.centres' leaves the unit cube"),
        ([[1, 1]], "'bumps' of model.evidence do not follow the monotone directions of its model"),
    ],
)
def test_sides_that_bumps_cannot_have(sides, what, monotone_archive):
    archive = monotone_archive()
    pooled = archive.header["model"]["evidence"]
    sided = next(k for k, each in enumerate(pooled["sides"]) if any(each))
    pooled["sides"] = pooled["sides"][:sided] + sides + pooled["sides"][sided + 1 :] if sides else []
    with pytest.raises(ValueError, match=what):
        model_from_archive(archive)


def test_a_first_model_that_does_not_go_its_way(monotone_archive):
    archive = monotone_archive()
    name = "model.evidence.base.table"
    archive.tensors[name] = archive.tensors[name].copy()
    archive.tensors[name][0, -1] += 9
    with pytest.raises(
        ValueError, match=r"'base' of model.evidence does not follow the monotone directions of its model"
    ):
        model_from_archive(archive)


def monotone_with_a_chart_beyond(opened):
    """A model whose newest update planned a chart beyond the domain, and opened it or not; nothing remains."""
    model = load(GOLDEN / "monotone_v4.atlas")
    random = np.random.default_rng(0)
    X = 1.2 + 0.3 * random.random((60, 2))
    noise = model.predict(X) + random.normal(size=60)  # nothing that a chart could learn
    model.set_params(retention="chart").partial_fit(X, np.full(60, 3.0) if opened else noise)
    assert len(model.model_.charts) == 1 + opened
    return model.revert(model.update_log_[-1].id) if opened else model


@pytest.mark.parametrize("opened", [True, False])
def test_a_fence_beyond_a_domain_that_was_given_back(opened, path):
    """Fences in the log are those of then; along monotone inputs those of charts follow the model."""
    model = monotone_with_a_chart_beyond(opened)
    assert (model.model_.updates[-1].footprint.domain[:, 1] > model.model_.domain[:, 1]).all()
    save(model, path)
    X = np.random.default_rng(1).random((50, 2))
    np.testing.assert_array_equal(load(path).predict(X), model.predict(X))


def test_a_table_with_too_few_rows_for_its_inputs(path, refusal):
    """Counting the functions of very many inputs takes memory, for which there is no table."""
    archive = model_to_archive(small_model())
    archive.header["model"]["configuration"] |= {"inputs": 200_000, "density": 18}
    ends = 1 + np.random.default_rng(0).random(200_000)  # which cannot be compressed to nothing
    archive.tensors["model.domain"] = np.stack([1 - ends, ends], axis=1)
    write_archive(path, archive)
    what = "cannot be loaded: tensor 'model.table' has 4 rows, too few for its inputs and densities"
    assert refusal(path.read_bytes()).startswith(what)


@pytest.mark.parametrize(
    ("version", "names"),
    [
        (3, ["fit", "parts", "spread", "settings", "data"]),
        (2, ["chain", "validation"]),
        (1, ["evidence", "reason", "features"]),
    ],
)
def test_what_files_of_older_versions_lack_is_told(version, names):
    """The page on the format names it, files of that version lack it, and those of the next have it."""
    texts = [
        json.dumps(File.open((GOLDEN / f"regressor_v{number}.atlas").read_bytes()).envelope)
        for number in (version, version + 1)
    ]
    documented = (Path(__file__).parents[2] / "docs" / "format.md").read_text(encoding="utf8")
    told = documented.partition(f"\nFiles of version {version} ")[2].partition("\n\n")[0]
    for name in names:
        assert [f'"{name}":' in text for text in texts] == [False, True]
        assert f"`{name}`" in told
