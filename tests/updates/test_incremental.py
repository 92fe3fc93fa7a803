"""Updates by evidence: what is pooled, what gets a chart, and what can be taken back."""

import json
from dataclasses import replace

import numpy as np
import pytest

from atlas_splines import Atlas, AtlasClassifier, AtlasRegressor, footprint, load, save, train, update
from atlas_splines.io.bare_models import table_tensors
from atlas_splines.io.memory import pool_header, pool_tensors
from atlas_splines.memory import initial_fit as design
from atlas_splines.memory.pool import RECENT
from atlas_splines.model.atlas import state_of
from atlas_splines.updates.change_detection import CHARTED, DRIFT, NOISE
from atlas_splines.updates.footprint import BoxFootprint, RestFootprint
from atlas_splines.updates.incremental import POOLED
from atlas_splines.updates.routing import memory_in

MOVES = [(600, 0, 0.0), *((200, seed, 0.6) for seed in range(1, 6))]  # rows, seed and shift
GRID = np.random.default_rng(99).random((400, 2))


def world(X):
    return np.sin(6 * X[:, 0]) + X[:, 1] ** 2


def rows(count, seed, low=0.0, high=1.0, noise=0.1, target=world):
    random = np.random.default_rng(seed)
    X = low + (high - low) * random.random((count, 2))
    return X, target(X) + noise * random.normal(size=count)


def changed(X):
    return 3 - 2 * X[:, 0]


def fitted(**options):
    settings = {"members": 1, "terms": 4, "features": 80, "max_iter": 30, "random_state": 0}
    return AtlasRegressor(**{**settings, **options}).fit(*rows(600, 0))


@pytest.fixture(scope="module")
def pooled():
    return fitted(retention="pool")


def copy_of(model):
    import copy

    return copy.deepcopy(model)


def test_a_fit_speaks_for_itself_until_there_is_an_update():
    with_memory, without = fitted(), fitted(features=0)
    assert np.array_equal(with_memory.predict(GRID), without.predict(GRID))
    assert memory_in(state_of(without.model_)) is None


def test_more_of_the_same_is_pooled_and_helps():
    model = fitted()
    errors = [np.abs(model.predict(GRID) - world(GRID)).mean()]
    for seed in range(1, 9):
        model.partial_fit(*rows(150, seed))
        assert model.model_.updates[-1].reason == NOISE
        errors.append(np.abs(model.predict(GRID) - world(GRID)).mean())
    assert errors[-1] < errors[0]
    assert not model.model_.charts
    assert isinstance(model.model_.updates[-1].footprint, RestFootprint)


@pytest.mark.slow
def test_a_change_in_one_place_opens_a_chart_and_nothing_else_changes():
    model = fitted()
    before = model.predict(GRID)
    model.partial_fit(*rows(300, 1, 0.2, 0.5, target=changed))
    (entry,) = model.model_.updates
    assert (entry.kind, entry.reason) == ("chart", CHARTED)
    assert isinstance(entry.footprint, BoxFootprint)
    inside = model.update_log_[0].footprint.contains(GRID)
    assert 0.05 < inside.mean() < 0.2
    assert np.array_equal(model.predict(GRID)[~inside], before[~inside])
    core = ((GRID > 0.22) & (GRID < 0.48)).all(axis=1)
    assert np.abs(model.predict(GRID)[core] - changed(GRID)[core]).mean() < 0.1
    assert np.array_equal(model.revert(1).predict(GRID), before)


@pytest.mark.slow
def test_rows_that_agree_with_a_chart_join_it_and_others_get_a_new_one():
    model = fitted().partial_fit(*rows(300, 1, 0.2, 0.5, target=changed))
    outside = ~model.update_log_[0].footprint.contains(GRID)
    before = model.predict(GRID)
    model.partial_fit(*rows(200, 2, 0.25, 0.45, target=changed))
    assert len(model.model_.charts) == 1
    assert "200 rows joined a chart" in model.model_.updates[-1].reason
    assert np.array_equal(model.predict(GRID)[outside], before[outside])
    assert np.array_equal(copy_of(model).revert(2).predict(GRID), before)
    model.partial_fit(*rows(300, 3, 0.25, 0.45, target=lambda X: -5 + X[:, 1]))
    assert len(model.model_.charts) == 2
    assert np.abs(model.predict([[0.35, 0.35]]) + 4.65) < 0.2


@pytest.mark.slow
def test_a_change_everywhere_is_followed_by_shorter_memories():
    model = fitted()
    for seed in range(1, 13):
        model.partial_fit(*rows(60, seed, target=lambda X, shift=0.3 * seed: world(X) + shift))
    assert model.model_.updates[4].reason == DRIFT
    assert not model.model_.charts
    assert memory_in(state_of(model.model_)).expert_shares[2] > 0.79  # all that the past leaves
    assert np.abs(model.predict(GRID) - world(GRID) - 3.6).mean() < 1.5  # the exact memory is at 2.4


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [4, 2, 0, 3, 1]])
def test_pooling_depends_on_no_order_and_no_pieces(pooled, order):
    X, y = rows(500, 1)
    whole, pieces = copy_of(pooled).partial_fit(X, y), copy_of(pooled)
    parts = np.array_split(np.arange(500), 5)
    for k in order:
        pieces.partial_fit(X[parts[k]], y[parts[k]])
    assert whole.model_.updates[-1].reason == POOLED
    assert np.array_equal(whole.predict(GRID), pieces.predict(GRID))
    assert memory_in(state_of(whole.model_)).total == memory_in(state_of(pieces.model_)).total


def test_rows_that_do_not_fit_into_memory_are_pooled_piece_by_piece(pooled):
    X, y = rows(500, 1)
    whole, pieces = copy_of(pooled).partial_fit(X, y).model_, copy_of(pooled)
    model, points, targets = pieces.model_, pieces.domain_.to_unit(X), pieces._targets(y)
    parts = np.array_split(np.arange(150, 500), 3)
    done = update(
        model,
        points[:150],
        targets[:150],
        retention="pool",
        loss="mse",
        rest=((points[part], targets[part]) for part in parts),
    )
    assert (done.rows, done.after) == (500, whole.fingerprint())
    rest = [(points, targets)]
    with pytest.raises(ValueError, match="retention='chart' learns all rows at once; give them as X and y"):
        update(model, points, targets, retention="chart", rest=rest)


def kept_of(model):
    """All that a file keeps of a model besides its log, and so all that it will ever say."""
    state = state_of(model.model_)
    tensors = table_tensors(model.model_, "model") | pool_tensors(state.pooled, "evidence")
    for k, chart in enumerate(state.charts):
        tensors |= pool_tensors(state_of(chart.content).pooled, f"charts.{k}")
    header = json.dumps(pool_header(state.pooled)), model.model_.fingerprint()
    return header, {name: array.tobytes() for name, array in tensors.items()}


def classified(**options):
    settings = {"members": 1, "terms": 0, "density": 0, "features": 40, "random_state": 0}
    return AtlasClassifier(**{**settings, **options}).fit(*class_rows(200, 0))


def class_rows(count, seed):
    X, y = rows(count, seed)
    return X, np.digitize(y, [0.0, 0.8])


KINDS = {"regressor": (fitted, rows), "classifier": (classified, class_rows)}
kinds = pytest.mark.parametrize(("make", "draw"), KINDS.values(), ids=KINDS)
retentions = pytest.mark.parametrize("retention", ["pool", "auto"])


@kinds
@retentions
@pytest.mark.parametrize(
    "weigh", [np.random.default_rng(0).random, lambda count: None], ids=["weighted", "plain"]
)
def test_updates_are_taken_back_one_after_the_other_to_the_bit(make, draw, retention, weigh, path):
    model, kept, predicted = make(retention=retention), [], []
    for seed in range(1, RECENT + 1):
        kept, predicted = [*kept, kept_of(model)], [*predicted, model._outputs(GRID)]
        model.partial_fit(*draw(80, seed), sample_weight=weigh(80))
        assert model.model_.updates[-1].kind == "pool"
    for seed in range(RECENT, 0, -1):
        save(model, path)
        model = load(path).revert(seed)
        assert np.array_equal(model._outputs(GRID), predicted.pop())
        assert kept_of(model) == kept.pop()
        assert model.model_.fingerprint() == model.model_.updates[seed - 1].before


@kinds
@retentions
def test_the_newest_of_many_updates_is_taken_back_to_the_bit(make, draw, retention):
    model = make(retention=retention)
    for seed in range(1, RECENT + 3):
        before, fingerprint = model._outputs(GRID), model.model_.fingerprint()
        model.partial_fit(*draw(100, seed))
    assert not np.array_equal(model._outputs(GRID), before)
    assert np.array_equal(model.revert(RECENT + 2)._outputs(GRID), before)
    assert model.model_.fingerprint() == fingerprint


@kinds
@pytest.mark.parametrize("order", [(1, 2, 3), (2, 1, 3), (3, 2, 1), (2, 3, 1)])
def test_the_fit_speaks_again_when_all_updates_are_taken_back_in_any_order(make, draw, order):
    model = make(retention="pool")
    kept = kept_of(model)
    for seed in (1, 2, 3):
        model.partial_fit(*draw(60, seed))
    for id in order:
        model.revert(id)
    assert kept_of(model) == kept


@pytest.mark.parametrize("asked", [("pool", "auto"), ("auto", "pool"), ("pool", "auto", "pool")])
def test_who_spoke_before_an_update_speaks_again_without_it(asked):
    model, kept = fitted(), []
    for seed, retention in enumerate(asked, 1):
        kept.append(kept_of(model))
        model.set_params(retention=retention).partial_fit(*rows(80, seed))
    for id in range(len(asked), 0, -1):
        assert kept_of(model.revert(id)) == kept.pop()


def test_who_speaks_without_an_older_update_is_asked_by_those_that_stay():
    model, never = fitted(), fitted(retention="pool").partial_fit(*rows(80, 2))
    model.partial_fit(*rows(80, 1)).set_params(retention="pool").partial_fit(*rows(80, 2)).revert(1)
    assert np.array_equal(model.predict(GRID), never.predict(GRID))
    assert memory_in(state_of(model.model_)).output_mode == "cumulative"


@retentions
def test_evidence_of_a_fit_that_speaks_does_so_again(retention):
    model = fitted(retention=retention).fit_more(*rows(200, 7))
    kept = kept_of(model)
    assert kept_of(model.partial_fit(*rows(80, 1)).revert(1)) == kept


@retentions
def test_a_fit_with_a_half_life_speaks_again(retention):
    model = fitted(retention=retention, half_life=50)
    kept, fingerprints = kept_of(model), []
    for seed in (1, 2):
        fingerprints.append(model.model_.fingerprint())
        model.partial_fit(*rows(100, seed, target=changed))
    assert model.revert(2).model_.fingerprint() == fingerprints[1]
    assert kept_of(model.revert(1)) == kept


def test_an_update_whose_rows_all_get_a_chart_changes_nobody_else_who_speaks():
    model = fitted(retention="pool").partial_fit(*rows(100, 1)).set_params(retention="auto")
    kept, predicted = kept_of(model), model.predict(GRID)
    X, y = rows(300, 2, 0.2, 0.5, target=changed)
    area = model.partial_fit(X, y).update_log_[-1].footprint
    assert model.model_.updates[-1].kind == "chart"
    assert np.array_equal(model.predict(GRID)[~area.contains(GRID)], predicted[~area.contains(GRID)])
    assert kept_of(model.revert(2)) == kept


def test_any_recent_update_is_taken_back_whatever_came_after_it(pooled):
    batches = [rows(80, seed) for seed in range(1, RECENT + 1)]
    for gone in range(RECENT):
        model, never = copy_of(pooled), copy_of(pooled)
        for k, batch in enumerate(batches):
            model.partial_fit(*batch)
            never = never if k == gone else never.partial_fit(*batch)
        assert np.array_equal(model.revert(gone + 1).predict(GRID), never.predict(GRID))
        assert model.update_log_[gone].reverted is not None


def test_older_updates_are_taken_back_by_their_rows(pooled):
    batches = [rows(50, seed) for seed in range(1, RECENT + 4)]
    model, never = copy_of(pooled), copy_of(pooled)
    model.ledger_ = never.ledger_ = None  # as if there were more rows than are kept
    for k, batch in enumerate(batches):
        model.partial_fit(*batch)
        never = never if k == 0 else never.partial_fit(*batch)
    with pytest.raises(
        ValueError, match="update 1 cannot be reverted; of this model's updates, 4, 5, 6, 7 can"
    ):
        model.revert(1)
    assert np.array_equal(model.forget(*batches[0]).predict(GRID), never.predict(GRID))
    with pytest.raises(ValueError, match="never been added"):
        model.forget(*rows(5000, 9, noise=9))
    with pytest.raises(ValueError, match="5,000 of the rows are not among those that the model has learned"):
        pooled.forget(*rows(5000, 9, noise=9))


def test_rows_of_a_chart_are_forgotten_by_the_chart():
    X, y = rows(300, 1, 0.2, 0.5, target=changed)
    more = rows(100, 2, 0.25, 0.45, target=changed)
    model = fitted().partial_fit(X, y)
    before = memory_in(state_of(model.model_.charts[0].content)).total
    model.partial_fit(*more).forget(*more)
    assert memory_in(state_of(model.model_.charts[0].content)).total == before


def test_weights_count_as_rows_do(pooled):
    X, y = rows(100, 1)
    weighted = copy_of(pooled).partial_fit(X, y, np.repeat([1.0, 0.0], 50))
    assert np.array_equal(weighted.predict(GRID), copy_of(pooled).partial_fit(X[:50], y[:50]).predict(GRID))


def test_a_half_life_forgets():
    model = fitted(retention="pool", half_life=50)
    model.partial_fit(*rows(500, 1, target=changed))
    assert np.abs(model.predict(GRID) - changed(GRID)).mean() < 0.15


def test_more_rows_of_the_fit_make_the_model_of_all_rows():
    X, y = rows(900, 0)
    some = AtlasRegressor(members=1, terms=0, features=60, random_state=0).fit(X[:300], y[:300])
    one, other = copy_of(some), copy_of(some)
    one.fit_more(X[300:], y[300:])
    for part in (slice(700, 900), slice(300, 700)):
        other.fit_more(X[part], y[part])
    assert np.array_equal(one.predict(GRID), other.predict(GRID))
    assert one.update_log_ == []
    assert np.array_equal(one._use_initial_model().predict(GRID), some.predict(GRID))


def test_size_does_not_grow_with_updates():
    model = fitted(retention="pool")
    sizes = []
    for seed in range(12):
        model.partial_fit(*rows(20, seed))
        state = state_of(model.model_)
        sizes.append((len(memory_in(state).recent), state.lattice.row_count))
    assert len(set(sizes[RECENT:])) == 1


def test_far_rows_and_wild_targets_do_no_harm():
    model = fitted()
    before = np.abs(model.predict(GRID) - world(GRID)).mean()
    X, y = rows(40, 1)
    X[0], y[0] = 1e6, 1e9
    model.partial_fit(X, y)
    assert np.isfinite(model.predict(GRID)).all()
    assert np.array_equal(model.model_.domain, [[0, 1], [0, 1]])
    assert np.abs(model.revert(1).predict(GRID) - world(GRID)).mean() == before


def test_training_parts_a_model_from_its_evidence():
    model = fitted().model_
    train(model, GRID, np.zeros(len(GRID)), epochs=1)
    assert state_of(model).pooled is None
    with pytest.raises(ValueError, match="this model has no memory to add rows to; fit it again"):
        update(model, GRID, np.zeros(len(GRID)), retention="pool", loss="mse")
    assert update(model, 0.2 * GRID, np.ones(len(GRID)), retention="auto", epochs=2).kind == "chart"


def test_the_footprint_of_pooling_is_all_but_the_charts_it_leaves_alone():
    model = fitted().partial_fit(*rows(300, 1, 0.2, 0.5, target=changed))
    far, near = rows(50, 2, 0.7, 0.9)[0], rows(50, 3, 0.3, 0.4)[0]
    assert not model.footprint(far).contains([[0.35, 0.35]])[0]
    assert model.footprint(far).contains([[0.8, 0.1]])[0]
    assert model.footprint(near).contains([[0.35, 0.35]])[0]
    inside = ~model.footprint(far).contains(GRID)
    before = model.predict(GRID)
    model.partial_fit(far, np.full(50, 0.5))
    assert np.array_equal(model.predict(GRID)[inside], before[inside])
    assert repr(footprint(Atlas(1), [[0.5]], retention="rehearsal")) == "<Footprint: everything>"


def ridged(X):
    return np.sin(15 * X[:, 0]) * np.cos(12 * X[:, 1])  # which needs narrow bumps


@pytest.fixture
def narrow_bumps(monkeypatch):
    monkeypatch.setattr(design, "RULES", replace(design.RULES, widths=((0.2, 0.2, 0.2),)))


def moved(retention="auto"):
    """A model of the left part of an announced domain, and batches from the right part."""
    parts = [rows(count, seed)[0] * [0.4, 1] + [shift, 0] for count, seed, shift in MOVES]
    model = AtlasRegressor(
        members=1, terms=0, features=150, domain=[(0, 1), (0, 1)], retention=retention, random_state=0
    )
    first, *others = [(X, ridged(X)) for X in parts]
    return model.fit(*first), others


@pytest.mark.slow
def test_features_grow_where_rows_come_to_lie_that_none_reaches(narrow_bumps):
    model, batches = moved()
    before, start = model.predict(GRID), len(memory_in(state_of(model.model_)).features)
    model.partial_fit(*batches[0])
    added = len(memory_in(state_of(model.model_)).features) - start
    assert 0 < added <= 187 - start
    assert model.update_log_[0].reason.endswith(f"; {added} new features where none had reached")
    assert np.array_equal(copy_of(model).revert(1).predict(GRID), before)
    for batch in batches[1:]:
        model.partial_fit(*batch)
    assert len(memory_in(state_of(model.model_)).features) <= 187
    fixed, batches = moved("pool")
    for batch in batches:
        fixed.partial_fit(*batch)
    assert len(memory_in(state_of(fixed.model_)).features) == start
    X, y = batches[-1]
    assert np.abs(model.predict(X) - y).mean() < 0.9 * np.abs(fixed.predict(X) - y).mean()


def test_classes_are_pooled_and_none_is_forgotten():
    random = np.random.default_rng(0)
    X = random.random((900, 2))
    y = (3 * X[:, 0]).astype(int)
    model = AtlasClassifier(  # the domain is announced as the classes are
        members=1, terms=0, density=0, features=60, domain=[(0, 1), (0, 1)], random_state=0
    )
    for label in range(3):  # one class after the other
        first = {"classes": [0, 1, 2]} if label == 0 else {}
        model.partial_fit(X[y == label], y[y == label], **first)
    assert model.score(X, y) > 0.93
    probability = model.predict_proba(X)
    assert np.log(probability[np.arange(900), y]).mean() > -0.35


@pytest.mark.slow
def test_rows_from_a_new_place_get_a_chart_there_and_the_old_place_keeps_its_bits():
    random = np.random.default_rng(3)
    model = fitted()
    before = model.predict(GRID)
    X = np.array([1.2, 0]) + random.random((300, 2))  # beyond all that was seen
    y = np.sin(6 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * random.normal(size=300)
    model.partial_fit(X[:250], y[:250], accept=True)  # a period of the sine beside it, as if X were shifted
    assert model.model_.updates[-1].kind == "chart"
    assert model.model_.is_extended
    assert np.abs(model.predict(X[250:]) - y[250:]).mean() < 0.2
    assert np.array_equal(model.predict(GRID), before)


@pytest.mark.slow
@retentions
def test_updates_after_the_domain_grew_are_taken_back_to_the_bit(retention):
    random = np.random.default_rng(3)
    X = np.array([1.2, 0]) + random.random((300, 2))
    beyond = 3 * GRID - 1
    for model in (fitted(), fitted(retention="pool").partial_fit(*rows(100, 2)).set_params(retention="auto")):
        kept, predicted = kept_of(model), model.predict(beyond)
        id = model.partial_fit(X, world(X), accept=True).model_.updates[-1].id
        assert model.model_.is_extended
        wide, told = kept_of(model), model.predict(beyond)
        model.set_params(retention=retention).partial_fit(*rows(100, 1)).revert(id + 1)
        assert np.array_equal(model.predict(beyond), told)
        assert kept_of(model) == wide
        assert np.array_equal(model.revert(id).predict(beyond), predicted)
        assert kept_of(model) == kept


@pytest.mark.slow
def test_further_rows_from_a_new_place_join_the_chart_there():
    random = np.random.default_rng(3)
    X = np.array([1.2, 0]) + random.random((400, 2))
    y = np.sin(6 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * random.normal(size=400)
    model = fitted()
    known = memory_in(state_of(model.model_)).total
    model._update(*model._checked(X[:250], y[:250], None), rest=[(X[250:], y[250:])], accept=True)
    (entry,), (chart,) = model.update_log_, model.model_.charts
    assert (entry.kind, entry.rows) == ("chart", 400)
    assert entry.reason.endswith("decided on a sample of 250 of 400 rows, all learned")
    joined = memory_in(state_of(chart.content)).total.count
    assert joined > 390
    assert joined + memory_in(state_of(model.model_)).total.count == known.count + 400
