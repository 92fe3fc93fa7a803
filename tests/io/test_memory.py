"""Evidence in files: after a round trip a model goes on as if there had been none."""

import json
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import level_rows
import numpy as np
import pytest
from command import SMALL, ok, write_csv
from mutations import (
    File,
    kept_classifier,
    of_table,
    outputs_of,
    places,
    pooled_regressor,
    set_value,
    small_classifier,
    small_regressor,
)

from atlas_splines import AtlasRegressor, load, save
from atlas_splines.files.writer import StorageError
from atlas_splines.io.models import model_from_archive, model_to_archive
from atlas_splines.memory.expert_weights import FARTHEST
from atlas_splines.memory.pool import Pool
from atlas_splines.model.atlas import Atlas, commit, model_in, state_of, take_state
from atlas_splines.model.state import Contribution
from atlas_splines.tables.encoding import Column, Encoding, frame

FORMAT = (Path(__file__).parents[2] / "docs" / "format.md").read_text(encoding="utf8")
MAKERS = {  # each makes its estimator once; tests that change one call its function themselves
    "pooled": cache(pooled_regressor),
    "charted": cache(small_regressor),
    "classes": cache(small_classifier),
}


@pytest.fixture(scope="module")
def pooled_file():
    return pooled_regressor()


@pytest.fixture(scope="module")
def pooled_bytes(pooled_file, tmp_path_factory):
    path = tmp_path_factory.mktemp("pooled") / "model.atlas"
    save(pooled_file, path)
    return path.read_bytes()


@pytest.fixture
def reloaded(path):
    def round_trip(model):
        save(model, path)
        return load(path)

    return round_trip


def new_rows(count=40, seed=5):
    """Rows of the world that the pooled regressor knows, some of them in its chart."""
    X = np.random.default_rng(seed).random((count, 2))
    inside = (abs(X - 0.4) < 0.1).all(axis=1)
    return X, np.where(inside, 5 + X[:, 0], np.sin(5 * X[:, 0]) + X[:, 1])


def pools_of(model):
    states = (state_of(model.model_), *(state_of(chart.content) for chart in model.model_.charts))
    return [state.pooled for state in states if isinstance(state.pooled, Pool)]


def same_pool(one, other):
    """Whether two pools are the same to the bit."""
    arrays = [
        (one.prior.precisions, other.prior.precisions),
        (one.experts.errors, other.experts.errors),
        (one.experts.products, other.experts.products),
        *((a.products, b.products) for a, b in zip(one.recent, other.recent, strict=True)),
        *(
            (a.centres, b.centres)
            for a, b in zip(one.features.radial_bases, other.features.radial_bases, strict=True)
        ),
        *(
            (a.lengths, b.lengths)
            for a, b in zip(one.features.radial_bases, other.features.radial_bases, strict=True)
        ),
    ]
    for a, b in zip(one.decayed, other.decayed, strict=True):
        arrays += [(a.gram, b.gram), (a.moment, b.moment), (a.square, b.square), (a.count, b.count)]
    if one.base is not None:
        arrays.append((one.base.table, other.base.table))
    plain = [
        [
            *(p.features.coarse, p.features.fine, p.prior.sizes, p.prior.steps, p.half_lives, p.experts.rows),
            *(p.output_mode, p.loss, p.dtype, p.weight_unit, p.base is None),
            [(batch.update, batch.grew, batch.before) for batch in p.recent],
        ]
        for p in (one, other)
    ]
    sums = [[p.older, *(batch.statistics for batch in p.recent)] for p in (one, other)]
    return plain[0] == plain[1] and sums[0] == sums[1] and all(np.array_equal(a, b) for a, b in arrays)


# --- round trips --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_evidence_comes_back_to_the_bit(maker, reloaded):
    model = maker()
    twin = reloaded(model)
    assert pools_of(model)
    for one, other in zip(pools_of(model), pools_of(twin), strict=True):
        assert same_pool(one, other)
        assert one.weights.tobytes() == other.weights.tobytes()
        assert one.expert_shares.tobytes() == other.expert_shares.tobytes()
    assert outputs_of(twin).tobytes() == outputs_of(model).tobytes()
    assert twin.model_.fingerprint() == model.model_.fingerprint()


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_saving_twice_gives_the_same_bytes(maker, path, tmp_path):
    save(maker(), path)
    save(load(path), tmp_path / "again.atlas")
    assert path.read_bytes() == (tmp_path / "again.atlas").read_bytes()


def test_the_files_hold_all_kinds_of_evidence(pooled_file):
    pool, chart = pools_of(pooled_file)
    assert pool.base is not None
    assert pool.experts.rows > 0
    assert [batch.update for batch in pool.recent] == [4, 5, 8]
    assert all(sums.count < pool.older.count for sums in pool.decayed)
    assert chart.base is None
    assert [batch.update for batch in chart.recent] == [8]
    assert [record.kind for record in pooled_file.update_log_] == ["pool"] * 6 + ["chart", "pool"]


@pytest.mark.slow
def test_a_loaded_model_learns_on_as_the_saved_one_would(reloaded):
    model = pooled_regressor()
    twin = reloaded(model)
    for seed in range(3):
        X, y = new_rows(seed=seed)
        for each in (model, twin):
            each.partial_fit(X, y)
        assert twin.predict(X).tobytes() == model.predict(X).tobytes()
        assert twin.update_log_[-1].reason == model.update_log_[-1].reason
        twin = reloaded(twin)
    assert all(same_pool(*pair) for pair in zip(pools_of(model), pools_of(twin), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("update", [4, 7, 8])
def test_a_loaded_model_takes_updates_back(update, reloaded):
    model = pooled_regressor()
    twin = reloaded(model)
    X, y = new_rows()
    for each in (model, twin):
        each.revert(update)
    assert twin.predict(X).tobytes() == model.predict(X).tobytes()
    twin = reloaded(twin)
    for each in (model, twin):
        each.partial_fit(X, y)
    assert twin.predict(X).tobytes() == model.predict(X).tobytes()


def test_an_older_update_cannot_be_taken_back_after_loading_either(pooled_file, reloaded):
    twin = reloaded(pooled_file)
    with pytest.raises(ValueError, match="update 1 cannot be reverted; of this model's updates, 4, 5, 7, 8"):
        twin.revert(1)


def test_the_log_comes_back(pooled_file, reloaded):
    twin = reloaded(pooled_file)
    for old, new in zip(pooled_file.model_.updates, twin.model_.updates, strict=True):
        assert (repr(old), old.reason) == (repr(new), new.reason)
        X = np.random.default_rng(0).random((200, 2))
        assert (old.footprint.contains(X) == new.footprint.contains(X)).all()
        assert repr(old.footprint) == repr(new.footprint)
    assert {type(record.footprint).__name__ for record in twin.model_.updates} == {
        "RestFootprint",
        "BoxFootprint",
    }


@pytest.mark.parametrize("output_mode", ["mixture", "exact", "fading"])
def test_every_voice_comes_back(output_mode, pooled_file):
    pool = replace(state_of(pooled_file.model_).pooled, output_mode=output_mode)
    model = model_in(replace(state_of(pooled_file.model_), pooled=pool))
    model.updates = pooled_file.model_.updates
    assert state_of(model_from_archive(model_to_archive(model))).pooled.output_mode == output_mode


@pytest.mark.parametrize("output_mode", ["mixture", "exact", "fading"])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_file_that_does_not_say_who_spoke_before_updates_most_likely_had_a_fit_that_did(
    output_mode, is_first, pooled_file
):
    pool = state_of(pooled_file.model_).pooled
    experts = replace(pool.experts, rows=0.0) if is_first else pool.experts
    state = replace(
        state_of(pooled_file.model_), pooled=replace(pool, output_mode=output_mode, experts=experts)
    )
    archive = model_to_archive(model_in(state, pooled_file.model_.updates))
    for batch in archive.header["model"]["evidence"]["recent"]:
        del batch["before"]
    first, *others = (batch.before for batch in state_of(model_from_archive(archive)).pooled.recent)
    assert first == ("mixture" if output_mode == "exact" and is_first else output_mode)
    assert others == [output_mode, output_mode]


def test_weights_half_lives_and_several_targets(reloaded):
    random = np.random.default_rng(0)
    X, weights = random.random((90, 2)), random.random(90) + 0.1
    y = np.column_stack([X[:, 0], -X[:, 1]])
    model = AtlasRegressor(terms=0, density=1, members=1, max_iter=5, features=24, random_state=0)
    model.set_params(half_life=200).fit(X[:60], y[:60], weights[:60])
    state = state_of(model.model_)
    # the mixture of an exact memory, one that fades, and the first model
    take_state(model.model_, replace(state, pooled=replace(state.pooled, output_mode="mixture")))
    twin = reloaded(model)
    assert (twin.features, twin.half_life) == (24, 200)
    for each in (model, twin):
        each.partial_fit(X[60:], y[60:], weights[60:])
    assert twin.predict(X).tobytes() == model.predict(X).tobytes()
    assert same_pool(*(state_of(each.model_).pooled for each in (model, twin)))


def test_files_with_squares_of_errors_alone_are_read_as_if_errors_were_alike(pooled_file):
    archive = model_to_archive(model_in(state_of(pooled_file.model_), pooled_file.model_.updates))
    pooled = archive.header["model"]["evidence"]
    pooled["track"] = {"errors": [4.0, 1.0, 2.0, "inf"], "rows": 30.0}
    for batch in pooled["recent"]:
        del batch["products"]
        batch["errors"] = [0.0, 1, 4, "inf"]
    pool = state_of(model_from_archive(archive)).pooled
    assert pool.experts.errors.tolist() == [4, 1, 2, FARTHEST**2]
    assert pool.experts.products[0, 1] == pytest.approx(30 * 2)
    assert pool.recent[0].products[:3, :3].tolist() == [[0, 0, 0], [0, 1, 2], [0, 2, 4]]
    assert pool.expert_shares[3] == 0


def test_features_that_have_grown_come_back_and_go_with_their_update(pooled_file, reloaded):
    model = reloaded(pooled_file)
    pool, centres = state_of(model.model_).pooled, [np.array([[0.5, 0.9]]), *[np.zeros((0, 2))] * 2]
    (X, y), grew = new_rows(60), tuple(map(len, centres))
    grown = pool.widened(centres).learned(9, model.domain_.to_unit(X), model._targets(y), grew=grew)
    state = grown.state_like(state_of(model.model_))
    commit(model.model_, state, replace(model.model_.updates[-1], id=9, rows=60))
    twin = reloaded(model)
    assert state_of(twin.model_).pooled.recent[-1].grew == grew
    assert same_pool(state_of(twin.model_).pooled, state_of(model.model_).pooled)
    assert len(state_of(twin.revert(9).model_).pooled.features) == len(pool.features)
    assert twin.predict(X).tobytes() == model.revert(9).predict(X).tobytes()


def test_inputs_that_do_not_matter_come_back(reloaded):
    X = np.random.default_rng(0).random((90, 100))
    model = AtlasRegressor(members=1, terms=0, density=0, max_iter=2, random_state=0).fit(X, X[:, 0])
    twin = reloaded(model)
    for one, other in zip(pools_of(model), pools_of(twin), strict=True):
        assert same_pool(one, other)
        assert any(np.isinf(group.lengths).any() for group in other.features.radial_bases)
    np.testing.assert_array_equal(
        twin.partial_fit(X, 2 * X[:, 1]).predict(X), model.partial_fit(X, 2 * X[:, 1]).predict(X)
    )


def test_an_estimator_of_a_table_goes_on(reloaded):
    X, y = new_rows(120)
    options = {"terms": 0, "density": 1, "members": 1, "max_iter": 5, "features": 30, "random_state": 0}
    estimator = AtlasRegressor(**options).fit(frame("ab", list(X[:80].T)), y[:80])
    model = of_table(estimator, Encoding((Column("a"), Column("b")), "y"))
    twin = reloaded(model)
    for each in (model, twin):
        each.partial_fit(frame("ab", list(X[80:].T)), y[80:])
    table = frame("ab", list(X.T))
    assert twin.predict(table).tobytes() == model.predict(table).tobytes()
    again = reloaded(twin)
    for each in (model, again):
        each.revert(1)
    assert again.predict(table).tobytes() == model.predict(table).tobytes()


def test_a_model_of_the_command_goes_on(tmp_path):
    tables = [tmp_path / f"{name}.csv" for name in ("first", "second")]
    for seed, table in enumerate(tables):
        X, y = new_rows(100, seed)
        write_csv(table, ["a", "b", "y"], np.column_stack([X, y]).tolist())
    one, other = tmp_path / "one.atlas", tmp_path / "other.atlas"
    ok("fit", tables[0], "--target", "y", "-o", one, *SMALL)
    assert load(one).encoding_.target == "y"
    save(load(one), other)
    assert one.read_bytes() == other.read_bytes()
    for path in (one, other):
        ok("update", path, tables[1], "--seed", "0")
    twins = [load(path) for path in (one, other)]
    assert same_pool(*(state_of(twin.model_).pooled for twin in twins))
    assert twins[0].model_.updates[0].kind == "pool"
    assert outputs_of(twins[0]).tobytes() == outputs_of(twins[1]).tobytes()


def test_memories_that_have_not_faded_take_no_room(path):
    X, y = new_rows(100)
    model = AtlasRegressor(terms=0, density=0, members=1, max_iter=2, features=40, random_state=0).fit(X, y)
    save(model, path)
    names = File.open(path.read_bytes()).entries
    assert "model.evidence.older.gram" in names
    assert not any(".faded." in name for name in names)
    assert all(sums.count == 100 for sums in state_of(load(path).model_).pooled.decayed)


class Diary(Contribution):
    def holds(self, update):
        return False

    def revert(self, update, state):
        return state


def test_other_evidence_has_no_place_in_a_file(path):
    model = Atlas(inputs=1)
    take_state(model, replace(state_of(model), pooled=Diary()))
    with pytest.raises(StorageError, match="evidence of type Diary has no place in a file"):
        save(model, path)


def test_the_format_is_as_documented(pooled_bytes):
    file = File.open(pooled_bytes)
    for parent, key in places(json.loads(json.dumps(file.envelope["header"]["model"]))):
        assert isinstance(parent, list) or f"`{key}`" in FORMAT, key
    for name in file.entries:
        known = ".".join("k" if part.isdigit() else part for part in name.split("."))
        known = known.replace("model.charts.k.evidence", "model.evidence")
        assert f"`{known}`" in FORMAT, name


# --- wrong files --------------------------------------------------------------------------------------


@pytest.fixture
def refusal_of_pool(pooled_bytes, refusal_of_sealed):
    """What is wrong with a file of the pooled regressor after an edit."""
    return partial(refusal_of_sealed, pooled_bytes)


GREW = "'grew' of a recent update of model.evidence must count bumps of each group, not all of them"


@pytest.mark.parametrize(
    ("edit", "what"),
    [
        (set_value("more", to=1), "'more' has no place in model.evidence"),
        (set_value("linear", to=[0]), "'coarse' and 'linear' of model.evidence must be different inputs"),
        (set_value("coarse", to=[0, 0]), "'coarse' of model.evidence must be different inputs"),
        (set_value("coarse", to=[0, 2]), "'coarse' of model.evidence must be different inputs"),
        (set_value("coarse", to=[0, True]), "'coarse' of model.evidence must be different inputs"),
        (set_value("coarse", to=[[]]), "'coarse' of model.evidence must be different inputs"),
        (set_value("coarse", to=[0]), "tensor 'model.evidence.older.gram' has shape (465,) instead of (351)"),
        (set_value("fine", to=[0]), "'fine' of model.evidence must be pairs of an input and a density"),
        (set_value("fine", to=[[0, 1], [0, 2]]), "'fine' of model.evidence must be of different inputs"),
        (set_value("fine", to=[[0, 0]]), "'fine' of model.evidence needs densities from 1 to 6"),
        (set_value("fine", to=[[0, 7]]), "'fine' of model.evidence needs densities from 1 to 6"),
        (set_value("bumps", 0, to=0), "'bumps' of model.evidence must be whole numbers of at least 1"),
        (set_value("bumps", 0, to=2**40), f"tensor 'model.evidence.bumps.0.centres' has shape (7, 2) instead of ({2**40}, 2)"),
        (set_value("bumps", to=[]), "tensor 'model.evidence.older.gram' has shape (465,) instead of (45)"),
        (set_value("steps", to=101), "'steps' of model.evidence must be at most 100, not 101"),
        (set_value("half_lives", to=[1000, 0]), "'half_lives' of model.evidence must be positive numbers"),
        (set_value("half_lives", to=[1000, "1"]), "'half_lives' of model.evidence must be positive numbers"),
        (set_value("half_lives", to=[1000] * 17), "'half_lives' of model.evidence are 17, and 16 at most have a place"),
        (set_value("half_lives", to=[1000]), "'products' of model.evidence.recent.0 must be those of errors of 3 candidates"),
        (set_value("faded", to=[True]), "'faded' of model.evidence must be true or false for each of the half-lives"),
        (set_value("faded", to=[1, 1]), "'faded' of model.evidence must be true or false for each of the half-lives"),
        (set_value("faded", to=[True, False]), "tensor 'model.evidence.faded.1.count' has no place in it"),
        (set_value("track", "errors", to=[0, 0, 0]), "'errors' of the track of model.evidence must be 4 numbers of at least 0"),
        (set_value("track", "errors", 0, to=-1), "'errors' of the track of model.evidence must be 4 numbers of at least 0"),
        (set_value("track", "errors", 0, to="nan"), "'errors' of the track of model.evidence must be 4 numbers of at least 0"),
        (set_value("track", "products", 0, 1, to=7), "'products' of the track of model.evidence must be those of errors of 4 candidates"),
        (set_value("track", "products", 0, 0, to="1"), "'products' of the track of model.evidence must be those of errors of 4 candidates"),
        (set_value("track", "rows", to=-1), "'rows' of the track of model.evidence must be a number of at least 0, not -1"),
        (set_value("recent", 0, "update", to=99), "'recent' of model.evidence must be rising updates"),
        (set_value("recent", 2, "update", to=99), "evidence belongs to update 99, which is not in the log or has none there"),
        (set_value("recent", 2, "update", to=6), "evidence belongs to update 6, which is not in the log or has none there"),
        (set_value("recent", 0, "update", to=0), "'update' of model.evidence.recent.0 must be at least 1, not 0"),
        (set_value("recent", 0, "grew", to=[1, -1]), GREW),
        (set_value("recent", 0, "grew", to=[1] * 9), GREW),
        (set_value("recent", 0, "grew", to=[7, 0, 0]), GREW),
        (set_value("recent", 0, "grew", to=[2**80, 0, 0]), GREW),
        (set_value("recent", 0, "grew", to=["1", 0, 0]), GREW),
        (set_value("recent", 0, "grew", to=1), "'grew' of model.evidence.recent.0 must be a list, not 1"),
        (set_value("recent", 0, "before", to="choir"), "'before' of model.evidence.recent.0 must be one of 'mixture', 'exact', 'fading', not 'choir'"),
        (set_value("recent", to=None), "'recent' of model.evidence must be a list, not None"),
        (set_value("base", "inputs", to=3), "tensor 'model.evidence.base.domain' has shape (2, 2) instead of (3, 2)"),
        (set_value("base", "terms", to=2**40), f"tensor 'model.evidence.base.table' has shape (24, 5) instead of (24, {2**41 + 1})"),
        (set_value("base", "density", to=21), "'density' of 'base' of model.evidence must be at most 20, not 21"),
        (set_value("base", to=None), "'products' of model.evidence.recent.0 must be those of errors of 3 candidates"),
        (set_value("voice", to="choir"), "'voice' of model.evidence must be one of 'mixture', 'exact', 'fading', not 'choir'"),
        (set_value("loss", to="0-1"), "'loss' of model.evidence must be one of 'mae', 'mse', 'huber', 'cross-entropy', not '0-1'"),
        (set_value("weight_unit", to=0), "'weight_unit' of model.evidence must be more than 0"),
    ],
)  # fmt: skip
def test_a_wrong_header_is_refused(edit, what, refusal_of_pool):
    assert refusal_of_pool(edit) == what


@pytest.fixture(scope="module")
def class_bytes(tmp_path_factory):
    path = tmp_path_factory.mktemp("classes") / "model.atlas"
    save(kept_classifier(), path)
    return path.read_bytes()


FORM = "'log_loss' of model.evidence.recent.0 must be a convex form of {} candidates"


@pytest.mark.parametrize(
    "edit",
    [
        set_value("recent", 0, "log_loss", "slope", to=[1.0]),
        set_value("recent", 0, "log_loss", "slope", 0, to="1"),
        set_value("recent", 0, "log_loss", "slope", 0, to=1e300),
        set_value("recent", 0, "log_loss", "curvature", 0, 1, to=7.0),
        set_value("recent", 0, "log_loss", "curvature", 0, 0, to=-1e6),
        set_value("recent", 0, "log_loss", "curvature", 0, to=[]),
    ],
)
def test_a_log_loss_that_none_can_have_is_refused(edit, class_bytes, refusal_of_sealed):
    candidates = state_of(kept_classifier().model_).pooled.candidates
    assert refusal_of_sealed(class_bytes, edit) == FORM.format(candidates)


def test_numbers_have_no_log_loss(refusal_of_pool):
    form = {"curvature": np.eye(4).tolist(), "slope": [0] * 4}
    what = "'log_loss' of model.evidence has no place beside targets that are numbers"
    assert refusal_of_pool(set_value("log_loss", to=form)) == what


POOL = "model.evidence"
NO_DATA = "the sums of model.evidence.{} are not those of any data"


@pytest.mark.parametrize(
    ("name", "place", "number", "what"),
    [
        ("bumps.0.centres", 0, np.nan, "tensor 'model.evidence.bumps.0.centres' holds nan"),
        ("bumps.0.centres", 0, 3, "tensor 'model.evidence.bumps.0.centres' leaves the unit cube"),
        ("bumps.0.lengths", 0, 0, "tensor 'model.evidence.bumps.0.lengths' must be from 1e-09 to 1e+09"),
        ("bumps.0.lengths", 0, -1, "tensor 'model.evidence.bumps.0.lengths' must be from 1e-09 to 1e+09"),
        ("precisions", 0, 0, "tensor 'model.evidence.precisions' must be positive"),
        ("older.gram", 0, -1, NO_DATA.format("older")),
        ("older.gram", 0, 2**62, NO_DATA.format("older")),
        ("older.gram", 1, 2**62, NO_DATA.format("older")),
        ("older.gram", 1, -(2**63), NO_DATA.format("older")),
        ("older.gram", -1, 2**62, NO_DATA.format("older")),
        ("older.moment", 3, 2**62, NO_DATA.format("older")),
        ("older.moment", 3, -(2**63), NO_DATA.format("older")),
        ("older.square", 1, -1, "tensor 'model.evidence.older.square' must be a number of at least 0 in two parts"),
        ("older.square", 1, 2**62, "tensor 'model.evidence.older.square' must be a number of at least 0 in two parts"),
        ("older.square", 0, 2**62, "the sums of model.evidence do not fit into 64 bits"),
        ("older.count", 0, -1, "tensor 'model.evidence.older.count' must be a number of at least 0 in two parts"),
        ("older.count", 0, 2**62, NO_DATA.format("older")),
        ("recent.1.gram", 5, 2**62, NO_DATA.format("recent.1")),
        ("faded.1.gram", 0, np.inf, "tensor 'model.evidence.faded.1.gram' holds inf"),
        ("faded.1.gram", 0, 1e9, NO_DATA.format("faded.1")),
        ("faded.1.gram", 40, -1e9, NO_DATA.format("faded.1")),
        ("faded.1.moment", 0, 1e9, NO_DATA.format("faded.1")),
        ("faded.1.square", 0, -1, NO_DATA.format("faded.1")),
        ("faded.1.square", 0, 1e300, "model.evidence.faded.1 holds more than what it has faded from"),
        ("faded.1.count", 0, -1, NO_DATA.format("faded.1")),
        ("base.table", 0, np.inf, "tensor 'model.evidence.base.table' holds inf"),
        ("base.domain", 0, -1, "tensor 'model.evidence.base.table' has shape (24, 5) instead of (30, 5)"),
    ],
)  # fmt: skip
def test_wrong_numbers_are_refused(name, place, number, what, refusal_of_pool):
    def edit(file):
        file.values(f"{POOL}.{name}")[place] = number

    assert refusal_of_pool(edit) == what


def test_the_first_model_must_be_like_the_model_on_the_unit_cube(pooled_file):
    pool = state_of(pooled_file.model_).pooled
    for base, what in (
        (Atlas(inputs=2, outputs=2), "'base' of model.evidence has other inputs, outputs or another dtype"),
        (Atlas(inputs=2).extend([0, 0], [2, 1]), "'base' of model.evidence reaches beyond the unit cube"),
    ):
        model = model_in(replace(state_of(pooled_file.model_), pooled=replace(pool, fitted=state_of(base))))
        model.updates = pooled_file.model_.updates
        with pytest.raises(ValueError, match=what):
            model_from_archive(model_to_archive(model))


def test_a_memory_must_fade_to_speak(pooled_file):
    def edit(file):
        pool = file.envelope["header"]["model"]["charts"][0]["evidence"]
        pool |= {"half_lives": [], "faded": [], "voice": "fading", "recent": []}
        pool["track"] |= {"errors": [0], "products": [[0]]}

    archive = model_to_archive(pooled_file.model_)
    edit(File({}, {"header": archive.header}, bytearray()))
    with pytest.raises(
        ValueError, match=r"'voice' of model.charts.0.evidence is 'fading', but no memory fades"
    ):
        model_from_archive(archive)


def test_a_memory_must_fade_to_have_spoken(pooled_file):
    archive = model_to_archive(pooled_file.model_)
    pool = archive.header["model"]["charts"][0]["evidence"]
    pool |= {"half_lives": [], "faded": []}
    pool["track"] |= {"errors": [0], "products": [[0]]}
    pool["recent"][0]["products"] = [[0]]
    pool["recent"][0]["before"] = "fading"
    with pytest.raises(
        ValueError, match=r"'before' of model.charts.0.evidence.recent.0 is 'fading', but no memory fades"
    ):
        model_from_archive(archive)


def test_evidence_of_an_update_that_was_taken_back_is_refused(refusal_of_pool):
    def edit(file):
        updates = file.envelope["header"]["model"]["updates"]
        updates[3]["reverted"] = updates[3]["time"]

    assert refusal_of_pool(edit) == "evidence belongs to update 4, which is not in the log or has none there"


@pytest.mark.parametrize("update", [3, 6, 7, 9])
def test_the_evidence_of_a_chart_is_checked_too(update, refusal_of_pool):
    def edit(file):
        file.envelope["header"]["model"]["charts"][0]["evidence"]["recent"][0]["update"] = update

    what = f"evidence belongs to update {update}, which is not in the log or has none there"
    assert refusal_of_pool(edit) == what


def test_evidence_of_an_update_that_kept_none_is_refused(refusal_of_pool):
    def edit(file):
        file.envelope["header"]["model"]["updates"][7]["kind"] = "none"

    what = "evidence belongs to update 8, which is not in the log or has none there"
    assert refusal_of_pool(edit) == what


def test_linear_functions_are_the_same_after_a_round_trip(reloaded):
    X = np.random.default_rng(0).random((200, 2))
    X[:, 1] = X[:, 1] > 0.5
    model = AtlasRegressor(members=1, features=30, random_state=0).fit(X, X.sum(axis=1))
    again = reloaded(model)
    features = state_of(again.model_).pooled.features
    assert (features.coarse, features.linear) == ((0,), (1,))
    for each in (model, again):
        each.partial_fit(X[:50] / 2, X[:50].sum(axis=1) / 2)
    assert again.model_.fingerprint() == model.model_.fingerprint()


def with_levels():
    model = level_rows.fitted()
    for seed in range(1, 7):  # more than are recent
        model.partial_fit(*level_rows.both(30, seed))
    return model


def test_levels_are_the_same_after_a_round_trip(reloaded):
    model = with_levels()
    again = reloaded(model)
    X = np.vstack([level_rows.both(50, 99)[0], level_rows.new_rows(50, 98)[0]])
    assert again.model_.fingerprint() == model.model_.fingerprint()
    assert (again.predict(X) == model.predict(X)).all()
    for each in (model, again):
        each.partial_fit(*level_rows.both(30, 50)).revert(6)
    assert again.model_.fingerprint() == model.model_.fingerprint()
    assert (again.predict(X) == model.predict(X)).all()


@pytest.mark.parametrize(
    ("tensor", "change", "message"),
    [
        (
            "evidence.older.levels.keys",
            lambda a: a[::-1],
            "must be rising levels of the inputs that have some",
        ),
        (
            "evidence.older.levels.keys",
            lambda a: a + (1 << 32),
            "must be rising levels of the inputs that have",
        ),
        ("evidence.older.levels.pairs", lambda a: a + 10_000, "must be rising pairs of levels"),
        ("evidence.older.levels.pairs", lambda a: a[:, ::-1] - 1, "must be rising pairs of levels"),
        ("evidence.older.levels.counts", lambda a: -a, "are not those of any data"),
        ("evidence.older.levels.counts", lambda a: 1000 * a, "are not those of any data"),
        ("evidence.older.levels.cross", lambda a: 2 * a, "are not those of any data"),
        ("evidence.older.levels.moment", lambda a: a + (1 << 60), "are not those of any data"),
        ("evidence.faded.0.levels.counts", lambda a: 1000 * a, "are not those of any data"),
        ("offsets.keys", lambda a: a[::-1], "must be rising levels of inputs of the model"),
        ("offsets.keys", lambda a: a + (9 << 32), "must be rising levels of inputs of the model"),
    ],
)
def test_levels_that_no_data_has_are_refused(tensor, change, message):
    archive = model_to_archive(with_levels().model_)
    name = f"model.{tensor}"
    archive.tensors[name] = np.ascontiguousarray(change(archive.tensors[name]))
    with pytest.raises(ValueError, match=message):
        model_from_archive(archive)
