"""Rows that are kept, and local terms, in files: what is loaded goes on as if it had never been saved."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import level_rows
import numpy as np
import pytest
from mutations import (
    File,
    clock_rows,
    kept_classifier,
    kept_regressor,
    outputs_of,
    places,
    rows_to_predict,
    set_value,
)

from atlas_splines import AtlasClassifier, AtlasRegressor, load, save, train
from atlas_splines.files.archive import read_archive
from atlas_splines.io.models import model_from_archive, model_to_archive
from atlas_splines.memory.kept_rows import Distinct
from atlas_splines.model.atlas import model_in, state_of
from atlas_splines.versions import forget

FORMAT = (Path(__file__).parents[2] / "docs" / "format.md").read_text(encoding="utf8")


def table_rows(rows, seed):
    """Rows of a world with kinks, which local terms are needed for."""
    random = np.random.default_rng(seed)
    X = random.random((rows, 2))
    return X, np.abs(X[:, 0] - 0.5) + (X[:, 1] > 0.3) + 0.02 * random.normal(size=rows)


def plain_regressor():
    """A regressor whose state is the model of its rows: nothing was learned since the fit."""
    return AtlasRegressor(features=20, random_state=0).fit(*table_rows(100, 0))


def grown_regressor():
    """A regressor with updates beyond its first domain, whose exact memory speaks."""
    model = AtlasRegressor(features=20, retention="pool", random_state=0).fit(*table_rows(100, 0))
    X, y = table_rows(40, 1)
    return model.partial_fit(1.2 * X, y, accept=True)


def charted_regressor():
    """A regressor with a chart, where the world has changed."""
    model = AtlasRegressor(features=20, random_state=0).fit(*table_rows(200, 0))
    X = 0.6 + 0.2 * np.random.default_rng(3).random((60, 2))
    model.partial_fit(X, np.full(60, 5.0), accept=True)
    assert model.model_.charts
    return model.partial_fit(*table_rows(30, 4))


def level_regressor():
    """A regressor with levels that have effects."""
    options = {"domain": [(0, 1)] * 2, "features": 30, "random_state": 0}
    model = level_rows.with_levels(AtlasRegressor(**options), *level_rows.known_rows(150, 0))
    return model.partial_fit(*level_rows.both(15, 1))


def sums_regressor():
    """A regressor that keeps no rows."""
    X, y = table_rows(100, 0)
    return AtlasRegressor(features=20, memory="sums", random_state=0).fit(X, y).partial_fit(X[:30], y[:30])


MAKERS = {
    "clock": kept_regressor,
    "classes": kept_classifier,
    "pooled classes": lambda: kept_classifier(retention="pool"),
    "plain": plain_regressor,
    "grown": grown_regressor,
    "charted": charted_regressor,
    "levels": level_regressor,
    "sums": sums_regressor,
}
made = cache(lambda name: MAKERS[name]())  # tests that change one call its function themselves


def memory_of(model):
    return state_of(model.model_).pooled.memory


def more_rows(model, seed=7, rows=25):
    """Rows to learn, of the world of a model."""
    if isinstance(model, AtlasClassifier):
        X = np.random.default_rng(seed).random((rows, 2))
        return X, np.array(["even", "odd"])[(np.floor(4 * X).sum(axis=1) % 2).astype(int)]
    if model.n_features_in_ == 3:
        return clock_rows(rows, seed, 40)[:2]
    return level_rows.both(rows, seed) if model.domain_.levels else table_rows(rows, seed)


@pytest.fixture
def reloaded(path):
    def round_trip(model):
        save(model, path)
        return load(path)

    return round_trip


@pytest.fixture(scope="module")
def kept_bytes(tmp_path_factory):
    path = tmp_path_factory.mktemp("kept") / "model.atlas"
    save(made("clock"), path)
    return path.read_bytes()


def boxed_model(box_rows=20):
    """A model whose rows lie in several boxes."""
    state = state_of(made("plain").model_)
    pool = replace(state.pooled, memory=replace(state.pooled.memory, box_rows=box_rows))
    model = model_in(pool.state_like(state))
    assert len(state_of(model).local[0].boxes) > 4
    return model


# --- round trips --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MAKERS)
def test_predictions_and_rows_come_back_to_the_bit(name, reloaded):
    model = made(name)
    twin = reloaded(model)
    assert outputs_of(twin).tobytes() == outputs_of(model).tobytes()
    assert twin.model_.fingerprint() == model.model_.fingerprint()
    assert (twin.memory, twin.max_rows) == (model.memory, model.max_rows)
    one, other = memory_of(model), memory_of(twin)
    assert (one is None) == (other is None) == (name == "sums")
    if one is not None:
        for part in ("points", "targets", "weights", "updates"):
            assert getattr(one.rows, part).tobytes() == getattr(other.rows, part).tobytes()
            assert getattr(one.rows, part).dtype == getattr(other.rows, part).dtype
        assert (one.clocks, one.box_rows, one.budget) == (other.clocks, other.box_rows, other.budget)


@pytest.mark.parametrize("name", MAKERS)
def test_intervals_and_support_come_back(name, reloaded):
    model = made(name)
    twin, X = reloaded(model), rows_to_predict(model)
    assert twin.support(X).tobytes() == model.support(X).tobytes()
    ask = "predict_set" if isinstance(model, AtlasClassifier) else "predict_interval"
    assert np.asarray(getattr(twin, ask)(X)).tobytes() == np.asarray(getattr(model, ask)(X)).tobytes()


@pytest.mark.parametrize("name", MAKERS)
def test_saving_twice_gives_the_same_bytes(name, path, tmp_path):
    save(made(name), path)
    save(load(path), tmp_path / "again.atlas")
    assert path.read_bytes() == (tmp_path / "again.atlas").read_bytes()


@pytest.mark.parametrize("name", MAKERS)
def test_a_loaded_model_learns_on_and_takes_back_as_the_saved_one_would(name, reloaded):
    model = MAKERS[name]()
    twin = reloaded(model)
    for seed in (7, 8):
        X, y = more_rows(model, seed)
        for each in (model, twin):
            each.partial_fit(X, y, accept=True)
        assert outputs_of(twin).tobytes() == outputs_of(model).tobytes()
        assert twin.update_log_[-1].reason == model.update_log_[-1].reason
        twin = reloaded(twin)
    for each in (model, twin):
        each.revert(each.update_log_[-2].id)
    assert outputs_of(twin).tobytes() == outputs_of(model).tobytes()
    assert outputs_of(reloaded(twin)).tobytes() == outputs_of(model).tobytes()


@pytest.mark.parametrize("name", ["plain", "classes", "grown", "sums"])
def test_a_loaded_model_forgets_as_the_saved_one_would(name, reloaded):
    model = MAKERS[name]()
    twin = reloaded(model)
    X, y = more_rows(model, 9)
    for each in (model, twin):
        each.partial_fit(X, y, accept=True)
    (one, _), (other, _) = (forget(each, X, y) for each in (model, reloaded(twin)))
    assert memory_of(one) is None or len(memory_of(one).rows) == len(memory_of(other).rows)
    assert outputs_of(one).tobytes() == outputs_of(other).tobytes()


@pytest.mark.parametrize("name", ["plain", "grown", "pooled classes"])
def test_the_model_of_all_rows_need_not_be_derived_again(name, reloaded):
    model = made(name)
    twin = reloaded(model)
    pool, other = (state_of(each.model_).pooled for each in (model, twin))
    assert pool.base_share == 1
    loaded = vars(other)["base"]
    fresh = replace(other).base  # derived again
    for base in (pool.base, fresh):
        assert (loaded.density, loaded.terms) == (base.density, base.terms)
        assert loaded.table.tobytes() == base.table.tobytes()
        for one, two in zip(loaded.local, base.local, strict=True):
            assert [part.tobytes() for part in one.parts] == [part.tobytes() for part in two.parts]


def test_later_rows_are_predicted_as_before(reloaded):
    model = made("clock")
    state = state_of(reloaded(model).model_)
    later = state_of(model.model_).later
    assert state.later.state.local
    for part in ("clocks", "directions", "ends", "slopes"):
        assert getattr(state.later, part).tobytes() == getattr(later, part).tobytes()
        assert getattr(state.later, part).dtype == getattr(later, part).dtype
    X = clock_rows(30, 5, 80)[0]
    assert later.includes(model.domain_.to_unit(X)).sum() == 20
    assert reloaded(model).predict(X).tobytes() == model.predict(X).tobytes()


def test_boxes_come_back():
    model = boxed_model()
    twin = model_from_archive(model_to_archive(model))
    X = np.random.default_rng(0).random((500, 2)).astype(np.float32)
    assert twin(X).tobytes() == model(X).tobytes()
    assert twin.fingerprint() == model.fingerprint()


def test_local_terms_without_their_rows_come_back(path):
    """Training drops the evidence, and with it the rows; the centres stay."""
    X, y = table_rows(50, 3)
    model = plain_regressor().model_.copy()
    train(model, X, y[:, None], epochs=1, random_state=0)
    assert state_of(model).pooled is None
    save(model, path)
    assert "model.local.0.centres" in File.open(path.read_bytes()).entries
    assert load(path)(X).tobytes() == model(X).tobytes()


def test_two_zeros_are_two_points_of_one_place():
    """−0 and 0 are merged; which of them is the centre depends on the rows alone."""
    state = state_of(made("plain").model_)
    points = state.pooled.memory.rows.points.copy()
    points[:3] = [[0.0, 0.5], [-0.0, 0.5], [0.0, 0.5]]
    rows = replace(state.pooled.memory.rows, points=points)
    pool = replace(state.pooled, memory=replace(state.pooled.memory, rows=rows))
    model = model_in(pool.state_like(state))
    archive = model_to_archive(model)
    assert "model.local.0.centres" not in archive.tensors
    twin = model_from_archive(archive)
    assert state_of(twin).local[0].centres.tobytes() == Distinct.of(rows).points.tobytes()


# --- what a file holds --------------------------------------------------------------------------------


def test_rows_are_in_a_file_once(kept_bytes):
    file, rows = File.open(kept_bytes), len(memory_of(made("clock")).rows)
    sizes = {name: np.prod(entry["shape"]) for name, entry in file.entries.items()}
    centres = [name for name in sizes if name.endswith(".centres") and ".local." in name]
    # of a recent local regression, for all rows and for later ones: others have the rows
    assert centres == ["model.later.local.0.centres", "model.local.0.centres"]
    assert not any(".base." in name for name in sizes)
    of_rows = sum(size for name, size in sizes.items() if rows in file.entries[name]["shape"])
    state = state_of(made("clock").model_)
    local = len(state.local) + len(state.later.state.local)
    # as the model has them: inputs, target, weight, and weights of local terms; as they came: columns and target
    assert of_rows == rows * (4 + 1 + 1 + local) + rows * (3 + 1 + 1) + 2 * rows * 4


def test_weights_that_are_all_one_take_no_room():
    assert "model.evidence.memory.weights" in model_to_archive(made("clock").model_).tensors
    assert "model.evidence.memory.weights" not in model_to_archive(made("plain").model_).tensors


def test_columns_of_few_values_take_less_room(path):
    random = np.random.default_rng(0)
    X = random.integers(0, 2, (2000, 30)).astype(float)
    model = AtlasRegressor(features=20, random_state=0).fit(X, X[:, 0] + random.random(2000))
    save(model, path)
    file = File.open(path.read_bytes())
    assert file.envelope["packed"]["model.evidence.memory.points"] == ["float32", [30, 2000]]
    start, end = file.entries["model.evidence.memory.points"]["data_offsets"]
    assert end - start < 4 * 60_000 / 5
    assert load(path).predict(X).tobytes() == model.predict(X).tobytes()


def test_the_format_is_as_documented(kept_bytes):
    file = File.open(kept_bytes)
    for parent, key in places(json.loads(json.dumps(file.envelope["header"]["model"]))):
        assert isinstance(parent, list) or f"`{key}`" in FORMAT, key
    for name in file.entries:
        known = ".".join("k" if part.isdigit() else part for part in name.split("."))
        assert f"`{known}`" in FORMAT, name


# --- wrong files --------------------------------------------------------------------------------------

MEMORY = "model.evidence.memory"


@pytest.mark.parametrize(
    ("edit", "what"),
    [
        (set_value("memory", to=None), f"{MEMORY} must be a JSON object, not None"),
        (set_value("memory", "more", to=1), f"'more' has no place in {MEMORY}"),
        (set_value("memory", "rows", to=149), f"tensor '{MEMORY}.points' has shape (4, 150) instead of (4, 149)"),
        (set_value("memory", "rows", to=2**53), f"tensor '{MEMORY}.points' has shape (4, 150) instead of (4, {2**53})"),
        (set_value("memory", "clocks", to=[4]), f"'clocks' of {MEMORY} must be different inputs"),
        (set_value("memory", "clocks", to=[0, 0]), f"'clocks' of {MEMORY} must be different inputs"),
        (set_value("memory", "clocks", to=[True]), f"'clocks' of {MEMORY} must be different inputs"),
        (set_value("memory", "clocks", to=[]), f"'later' of {MEMORY} must be there if there are clocks, and only then"),
        (set_value("memory", "later", to=None), f"'later' of {MEMORY} must be there if there are clocks, and only then"),
        (set_value("memory", "known", to=None), f"{MEMORY}.known must be a JSON object, not None"),
        (set_value("memory", "box_rows", to=0), f"'box_rows' of {MEMORY} must be at least 1, not 0"),
        (set_value("memory", "box_rows", to=20_001), f"'box_rows' of {MEMORY} must be at most 20000, not 20001"),
        (set_value("memory", "budget", to=0), f"'budget' of {MEMORY} must be at least 1, not 0"),
        (set_value("memory", "budget", to=149), "tensor 'model.local.1.weights' has shape (150, 1) instead of (149, 1)"),
        (set_value("memory", "known", "smooth", to="1"), f"'smooth' of {MEMORY}.known must be a finite number, not '1'"),
        (set_value("memory", "known", "components", to=[{}] * 65), f"'components' of {MEMORY}.known are 65, and at most 64 are allowed"),
        (set_value("memory", "known", "components", 0, "of", to="it"), f"'of' of {MEMORY}.known.0 must be one of 'target', 'smooth', 'linear', not 'it'"),
        (set_value("memory", "known", "components", 0, "noise", to=0), f"'noise' of {MEMORY}.known.0 must be a number of at least 1e-09, not 0"),
        (set_value("memory", "later", "components", 1, "share", to=None), f"'share' of {MEMORY}.later.1 must be a finite number, not None"),
        (set_value("memory", "later", "components", to=[]), f"tensor '{MEMORY}.later.0.rates' has no place in it"),
    ],
)  # fmt: skip
def test_a_wrong_header_is_refused(edit, what, kept_bytes, refusal_of_sealed):
    assert refusal_of_sealed(kept_bytes, edit) == what


@pytest.mark.parametrize(
    ("name", "place", "number", "what"),
    [
        (f"{MEMORY}.points", 3, np.nan, f"tensor '{MEMORY}.points' holds nan"),
        (f"{MEMORY}.points", 3, 1.5, f"tensor '{MEMORY}.points' leaves the unit cube"),
        (f"{MEMORY}.points", 3, -0.5, f"tensor '{MEMORY}.points' leaves the unit cube"),
        (f"{MEMORY}.targets", 3, np.inf, f"tensor '{MEMORY}.targets' holds inf"),
        (f"{MEMORY}.weights", 3, 0, f"tensor '{MEMORY}.weights' must be above 0 and at most 65536"),
        (f"{MEMORY}.weights", 3, 1e6, f"tensor '{MEMORY}.weights' must be above 0 and at most 65536"),
        (f"{MEMORY}.updates", 2, -1, f"tensor '{MEMORY}.updates' must be updates and their numbers of rows, 150 in all"),
        (f"{MEMORY}.updates", 2, 9, "kept rows belong to update 9, which is not in the log"),
        (f"{MEMORY}.updates", 3, 2**62, f"tensor '{MEMORY}.updates' must be updates and their numbers of rows, 150 in all"),
        (f"{MEMORY}.updates", 3, 0, f"tensor '{MEMORY}.updates' must be updates and their numbers of rows, 150 in all"),
        (f"{MEMORY}.known.0.rates", 0, -1, f"tensor '{MEMORY}.known.0.rates' must be numbers of at least 0"),
        ("model.local.0.rates", 0, -1, "tensor 'model.local.0.rates' must be numbers of at least 0"),
        ("model.local.0.nodes", 0, 4, "tensor 'model.local.0.nodes' is not a tree of boxes"),
        ("model.local.0.nodes", 1, 1, "tensor 'model.local.0.nodes' is not a tree of boxes"),
        ("model.local.0.weights", 0, np.inf, "tensor 'model.local.0.weights' holds inf"),
        ("model.local.0.constants", 0, np.nan, "tensor 'model.local.0.constants' holds nan"),
        ("model.later.local.1.nodes", 0, 0, "tensor 'model.later.local.1.nodes' is not a tree of boxes"),
        ("model.later.clocks", 0, 4, "tensor 'model.later.clocks' must be different inputs"),
        ("model.later.clocks", 0, -1, "tensor 'model.later.clocks' must be different inputs"),
        ("model.later.signs", 0, 0, "tensor 'model.later.signs' must be 1 or -1"),
        ("model.later.ends", 0, 2, "tensor 'model.later.ends' leaves the unit cube"),
        ("model.later.slopes", 0, np.nan, "tensor 'model.later.slopes' holds nan"),
        ("model.later.table", 0, np.nan, "tensor 'model.later.table' holds nan"),
        ("model.later.domain", 1, 2, "model.later reaches beyond the unit cube"),
    ],
)  # fmt: skip
def test_wrong_numbers_are_refused(name, place, number, what, kept_bytes, refusal_of_sealed):
    def edit(file):
        file.values(name)[place] = number

    found = refusal_of_sealed(kept_bytes, edit)
    assert found == what or (name.endswith("domain") and "instead of" in found)


def test_a_row_has_one_class(path, refusal_of_sealed):
    save(made("classes"), path)

    def edit(file):
        file.values(f"{MEMORY}.targets")[0] = 0.5

    what = f"tensor '{MEMORY}.targets' must have one class for each row"
    assert refusal_of_sealed(path.read_bytes(), edit) == what


@pytest.mark.parametrize(
    ("field", "value", "what"),
    [
        ("local", -1, "'local' of 'local' of model must be at least 0, not -1"),
        ("local", 65, "'local' of 'local' of model must be at most 64, not 65"),
        ("local", 9, "tensor 'model.local.{}.nodes' is missing"),  # the first that is not there
        ("local", 0, "its coefficients are not those that its log ends with"),
        ("later", None, "model.later must be a JSON object, not None"),
        ("later", {}, "'configuration' of model.later is missing"),
    ],
)
def test_wrong_fields_of_a_model_are_refused(field, value, what, kept_bytes, refusal_of_sealed):
    def edit(file):
        file.envelope["header"]["model"][field] = value

    assert refusal_of_sealed(kept_bytes, edit) == what.format(len(state_of(made("clock").model_).local))


def test_a_fitted_model_has_no_place_beside_rows(kept_bytes, refusal_of_sealed):
    def edit(file):
        file.envelope["header"]["model"]["evidence"]["base"] = file.envelope["header"]["model"][
            "configuration"
        ]
        for part in ("table", "domain"):
            file.entries[f"model.evidence.base.{part}"] = file.entries[f"model.{part}"]

    found = refusal_of_sealed(kept_bytes, edit)
    assert "has no place beside rows that are kept" in found or "do not fit together" in found


def tree_edits():
    """Edits of the nodes of a tree with several boxes, by what is wrong with them."""

    def child_of_itself(nodes):
        nodes[0, 1] = 0

    def cycle(nodes):
        inner = np.flatnonzero(nodes[:, 0] >= 0)[1]
        nodes[0, 1:], nodes[inner, 1:] = nodes[inner, 1:].copy(), [inner, inner]

    def apart_from_the_root(nodes):
        """Two inner nodes are children of each other."""
        one, two = np.flatnonzero(nodes[:, 0] >= 0)[1:3]
        parents = [np.argwhere(nodes[:, 1:] == k)[0] for k in (one, two)]
        lost = nodes[one, 1], nodes[two, 1]
        nodes[one, 1], nodes[two, 1] = two, one
        for (node, side), child in zip(parents, lost, strict=True):
            if node not in (one, two):
                nodes[node, 1 + side] = child

    def unknown_input(nodes):
        nodes[0, 0] = 2

    def negative_input(nodes):
        nodes[0, 0] = -2

    def unknown_child(nodes):
        nodes[0, 2] = len(nodes)

    def same_child(nodes):
        nodes[0, 1] = nodes[0, 2]

    def same_box(nodes):
        leaves = np.flatnonzero(nodes[:, 0] == -1)
        nodes[leaves[0], 1] = nodes[leaves[1], 1]

    def leaf_with_child(nodes):
        nodes[np.flatnonzero(nodes[:, 0] == -1)[0], 2] = 0

    return [
        *(child_of_itself, cycle, apart_from_the_root, unknown_input, negative_input),
        *(unknown_child, same_child, same_box, leaf_with_child),
    ]


@pytest.mark.parametrize("edit", tree_edits(), ids=lambda edit: edit.__name__)
def test_what_is_no_tree_is_refused(edit):
    archive = model_to_archive(boxed_model())
    nodes = archive.tensors["model.local.0.nodes"].copy()
    edit(nodes)
    archive.tensors["model.local.0.nodes"] = nodes
    with pytest.raises(ValueError, match=r"tensor 'model\.local\.0\.nodes' is not a tree of boxes"):
        model_from_archive(archive)


def test_an_empty_tree_is_refused():
    archive = model_to_archive(boxed_model())
    archive.tensors["model.local.0.nodes"] = np.zeros((0, 3), np.int32)
    archive.tensors["model.local.0.cuts"] = np.zeros(0, np.float32)
    with pytest.raises(ValueError, match="is not a tree of boxes"):
        model_from_archive(archive)


def test_a_tree_that_is_too_deep_is_refused():
    """Each prediction would go all the way down."""
    archive, depth = model_to_archive(made("plain").model_), 300
    inner = [[0, k + 1, depth + k] for k in range(depth)]
    inner[-1][1] = 2 * depth
    leaves = [[-1, k, -1] for k in range(depth + 1)]
    archive.tensors |= {
        "model.local.0.nodes": np.array(inner + leaves, np.int32),
        "model.local.0.cuts": np.zeros(2 * depth + 1, np.float32),
        "model.local.0.constants": np.zeros((depth + 1, 1), np.float32),
    }
    with pytest.raises(ValueError, match="is not a tree of boxes"):
        model_from_archive(archive)


def test_a_monotone_model_has_no_local_terms():
    archive = model_to_archive(made("plain").model_)
    archive.header["model"] |= {"monotone": [[1, 0]], "evidence": None}
    archive.tensors = {name: array for name, array in archive.tensors.items() if ".evidence." not in name}
    archive.tensors["model.table"] = np.zeros_like(archive.tensors["model.table"])
    with pytest.raises(ValueError, match="so it cannot have local terms"):
        model_from_archive(archive)


def test_a_chart_with_local_terms_is_not_written(path):
    state = state_of(made("charted").model_)
    chart = state.charts[0]
    content = model_in(replace(state_of(chart.content), local=state.local))
    model = model_in(state.with_charts([replace(chart, content=content)]), made("charted").model_.updates)
    with pytest.raises(ValueError, match="a chart has local terms, which have no place in a file"):
        save(model, path)


def test_files_of_older_versions_keep_no_rows():
    golden = Path(__file__).parents[1] / "golden"
    for name in ("regressor_v5", "pooled_v5", "classifier_v1", "table_v4"):
        loaded = load(golden / f"{name}.atlas")
        estimator = getattr(loaded, "estimator", loaded)
        pool = state_of(estimator.model_).pooled
        assert (estimator.memory, estimator.max_rows) == ("sums", 100_000)
        assert pool is None or (pool.memory is None and pool.base is pool.initial)
        assert read_archive(golden / f"{name}.atlas").version < 6
