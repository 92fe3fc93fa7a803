"""Operations in combination: each after others, as a life has them. One test for each fault that was found."""

import copy

import numpy as np
import pandas as pd
import pytest

from atlas_splines import Atlas, AtlasClassifier, AtlasRegressor, load, save, update
from atlas_splines import versions as V
from atlas_splines.estimators.ledger import derive
from atlas_splines.model.atlas import state_of

FEW = {"members": 1, "features": 30, "random_state": 0}
MEMORIES = ["sums", "rows"]


def truth(X):
    return np.sin(4 * X[:, 0]) + X[:, 1]


def rows(count, seed, low=0.0, high=1.0, shift=0.0):
    X = np.random.default_rng(seed).uniform(low, high, (count, 2))
    return X, truth(X) + shift + 0.05 * np.random.default_rng(seed + 1000).normal(size=count)


def learn(model, retention, data):
    model.retention = retention
    model.partial_fit(*data, accept=True)
    return model


def fitted(memory, count=200, **options):
    return AtlasRegressor(memory=memory, **FEW | options).fit(*rows(count, 0))


GRID = np.random.default_rng(5).uniform(-0.5, 1.8, (300, 2))
INSIDE = np.random.default_rng(6).uniform(0, 1, (300, 2))


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("by_estimator", [False, True])
def test_rows_of_a_chart_are_in_no_sums_of_the_model(memory, by_estimator):
    never = learn(fitted(memory), "pool", rows(30, 2, 0.7))
    model, chart = fitted(memory), rows(60, 1, 0.2, 0.6, 2.0)
    learn(learn(model, "chart", chart), "pool", rows(30, 2, 0.7))  # none of these joins the chart
    model = model.forget(*chart) if by_estimator else V.forget(model, *chart)[0]
    assert not model.model_.charts
    assert state_of(model.model_).pooled.total == state_of(never.model_).pooled.total
    assert np.array_equal(model.predict(GRID), never.predict(GRID))


@pytest.mark.parametrize("memory", MEMORIES)
def test_rows_leave_the_owner_that_learned_them(memory):
    model, pooled = fitted(memory, 500), rows(40, 1, 0.4, 0.55)
    learn(model, "auto", pooled)
    learn(model, "auto", rows(300, 2, 0.4, 0.6, 5.0))
    assert len(model.model_.charts) == 1
    within = np.random.default_rng(3).uniform(0.45, 0.55, (200, 2))
    before = model.predict(within)
    model.forget(*pooled)
    assert state_of(model.model_).pooled.total.count == 500
    assert state_of(model.model_.charts[0].content).pooled.total.count == 300
    assert np.array_equal(model.predict(within), before)
    assert model.update_log_[0].reverted


def test_rows_that_a_chart_may_have_learned_are_refused():
    model = fitted("sums", 500)
    X, y = rows(40, 1, 0.4, 0.55)
    learn(learn(model, "auto", (X, y)), "auto", rows(300, 2, 0.4, 0.6, 5.0))
    before = V.version(model)
    with pytest.raises(
        ValueError, match="5 of the rows lie where update 2 has opened a chart, and sums do not"
    ):
        model.forget(X[:5], y[:5])
    assert V.version(model) == before


def test_rows_that_joined_a_chart_which_is_gone_are_refused():
    model, inside = fitted("sums", 500), rows(40, 3, 0.45, 0.55, 5.0)
    learn(learn(model, "auto", rows(300, 2, 0.4, 0.6, 5.0)), "auto", inside)
    assert "joined a chart" in model.update_log_[-1].reason
    model.revert(1)
    before = V.version(model)
    with pytest.raises(ValueError, match="rows of update 2 may have joined a chart of update 1"):
        model.forget(*inside)
    assert V.version(model) == before


def test_an_update_is_forgotten_once():
    data = rows(40, 1)
    model = learn(learn(fitted("sums"), "pool", data), "pool", rows(40, 2))
    part = tuple(column[:15] for column in data)
    clean, _ = V.forget(model, *part, data=[data])
    with pytest.raises(ValueError, match="no update has exactly these rows"):
        V.forget(clean, *part, data=[data])
    left = tuple(column[15:] for column in data)
    clean, _ = V.forget(clean, *left)
    never = learn(fitted("sums"), "pool", rows(40, 2))
    assert np.array_equal(clean.predict(GRID), never.predict(GRID))


def test_rows_that_are_gone_are_not_forgotten_again():
    data = rows(40, 1)
    model = learn(learn(fitted("sums"), "pool", data), "pool", rows(40, 2)).revert(1)
    before = V.version(model)
    with pytest.raises(ValueError, match="the rows are those of update 1, which was reverted: they are gone"):
        model.forget(*data)
    assert V.version(model) == before


def growing(memory):
    """A model, and an update that lets its features grow; it has been taught others since."""
    for seed in range(40):
        random = np.random.default_rng(seed)
        X, new = random.random((60, 4)), random.random((100, 4))
        model = AtlasRegressor(memory=memory, **FEW).fit(X, X[:, 0] + 0.3 * random.normal(size=60))
        first, data = copy.deepcopy(model), (new, new[:, 0] + 0.3 * random.normal(size=100))
        model.partial_fit(*data)
        if "new features" in model.update_log_[-1].reason:
            return first, model, data, (random.random((40, 4)), random.random(40))
    raise AssertionError("no features grew")


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("later", [1, 6])
def test_features_of_forgotten_rows_are_gone(memory, later):
    first, model, data, (X, y) = growing(memory)
    never = copy.deepcopy(first)
    for k in range(later):
        for each in (model, never):
            learn(each, "pool", (X + k / 1000, y))
    clean, _ = V.forget(model, *data)
    one, other = (state_of(each.model_).pooled for each in (clean, never))
    centres = [np.vstack([group.centres for group in pool.features.radial_bases]) for pool in (one, other)]
    assert np.array_equal(*centres)
    assert one.total == other.total
    assert not one.grown


@pytest.mark.parametrize("memory", MEMORIES)
def test_a_domain_is_that_of_a_life_without_what_was_reverted(memory):
    never, model = fitted(memory), fitted(memory)
    learn(model, "chart", rows(60, 1, 1.1, 1.6, 9.0))
    for each in (never, model):
        for seed in (2, 3):
            learn(each, "pool", rows(30, seed))
    assert model.model_.domain.max() > 1
    model.revert(1)
    assert np.array_equal(model.model_.domain, never.model_.domain)
    assert np.array_equal(model.predict(GRID), never.predict(GRID))


@pytest.mark.parametrize("retention", ["pool", "auto"])
@pytest.mark.parametrize("memory", MEMORIES)
def test_a_merge_does_not_depend_on_who_has_reverted(memory, retention):
    base = fitted(memory)
    for seed in range(1, 5):
        learn(base, retention, rows(30, seed))
    ours, theirs = copy.deepcopy(base), copy.deepcopy(base)
    ours.revert(4)
    learn(theirs, retention, rows(30, 9))
    one, two = V.merge(base, ours, theirs), V.merge(base, theirs, ours)
    assert V.version(one) == V.version(two)
    assert np.array_equal(one.predict(GRID), two.predict(GRID))
    for each in (one, two):
        learn(each, "auto", rows(30, 10))
    assert np.array_equal(one.predict(GRID), two.predict(GRID))


@pytest.mark.parametrize("extrapolation", ["constant", "linear"])
@pytest.mark.parametrize("memory", MEMORIES)
def test_the_newest_is_reverted_after_charts_have_extended_the_domain_twice(memory, extrapolation):
    model = fitted(memory, 100, extrapolation=extrapolation)
    learn(model, "pool", rows(25, 1))
    learn(model, "chart", rows(40, 2, 1.1, 1.4, 3.0))
    inside = model.predict(np.clip(GRID, 0, 1.1))
    learn(model, "chart", rows(40, 3, 1.5, 1.8, 3.0))
    known = model.update_log_[-1].footprint.contains(np.clip(GRID, 0, 1.1))
    assert np.array_equal(model.predict(np.clip(GRID, 0, 1.1))[~known], inside[~known])
    before = model.predict(GRID)
    learn(model, "pool", rows(25, 4)).revert(4)
    assert np.array_equal(model.predict(GRID), before)


@pytest.mark.parametrize("memory", ["sums", "rows"])
def test_the_footprint_holds_after_a_domain_was_extended_for_nothing(memory):
    found = 0
    for seed in range(20):
        random = np.random.default_rng(seed)
        model = fitted(memory, 100)
        X = 1.0 + 0.4 * random.random((25, 2))
        learn(model, "chart", (X, model.predict(X) + 0.01 * random.normal(size=25)))
        if "none was opened" not in model.update_log_[-1].reason:
            continue
        found += 1
        before = model.predict(GRID)
        X = 1.0 + 0.4 * random.random((60, 2)) * [1, 0.3]
        learn(model, "chart", (X, truth(X) + 3))
        changed = model.predict(GRID) != before
        assert changed.any()
        assert not (changed & ~model.update_log_[-1].footprint.contains(GRID)).any()
        if found == 2:
            return
    raise AssertionError("each update has opened a chart")


@pytest.mark.parametrize("memory", MEMORIES)
def test_the_first_fit_is_found_again_below_a_chart(memory):
    model = fitted(memory)
    deeds = [
        ("pool", rows(50, 1)),
        ("chart", rows(100, 2, 0.2, 0.4, 1.0)),
        ("pool", rows(50, 3)),
    ]
    for retention, data in deeds:
        learn(model, retention, data)
    data = [each for _, each in deeds]
    assert V.replay(model, data)
    clean, receipt = V.forget(model, *(column[:5] for column in data[0]), data=data)
    assert [(taken.update, taken.rows) for taken in receipt.taken] == [(1, 5)]
    routes = [clean.model_, *(chart.content for chart in clean.model_.charts)]
    assert sum(state_of(owner).pooled.total.count for owner in routes) == 395


def on_top():
    model = Atlas(inputs=2, density=1, terms=1)
    X = np.random.default_rng(0).random((60, 2)) / 2
    for k, shift in enumerate((1000.0, 0.0)):
        update(model, X, X[:, 0] + shift, epochs=3, random_state=k)
    return model


def test_a_chart_below_others_is_refused():
    model = on_top()
    before = model.fingerprint()
    with pytest.raises(
        ValueError,
        match="update 1 cannot be reverted by itself: charts of update 2 were trained on top of it; revert that",
    ):
        model.revert(1)
    assert model.fingerprint() == before
    assert not model.revert(2).revert(1).charts


def test_a_chart_beside_others_is_reverted():
    model = on_top()
    X = 0.8 + np.random.default_rng(1).random((60, 2)) / 10
    update(model, X, X[:, 0], epochs=3, random_state=2)
    assert [chart.update for chart in model.revert(2).revert(1).charts] == [3]


@pytest.mark.parametrize("undo", [1, 3, 6])
def test_as_many_updates_as_asked_for_can_be_undone(undo, path):
    from atlas_splines import load, save

    model = fitted("sums", undo=undo)
    for seed in range(1, 8):
        learn(model, "pool", rows(30, seed))
    save(model, path)
    model = load(path)
    assert model.undo == undo
    learn(model, "pool", rows(30, 8))
    for id in range(8, 8 - undo, -1):
        model.revert(id)
    with pytest.raises(ValueError, match="of this model's updates, none can"):
        model.revert(8 - undo)
    never = fitted("sums")
    for seed in range(1, 9 - undo):
        learn(never, "pool", rows(30, seed))
    assert np.array_equal(model.predict(GRID), never.predict(GRID))


@pytest.mark.parametrize("undo", [0, -1, 2.5])
def test_undo_is_a_number_of_updates(undo):
    with pytest.raises((ValueError, TypeError), match="undo"):
        fitted("sums", undo=undo)


def twice(first):
    """A model that keeps sums, two updates, and a row that is in both."""
    X, y = rows(40, 1)
    other = tuple(
        np.concatenate([column[:1], more]) for column, more in zip((X, y), rows(30, 2), strict=True)
    )
    return learn(learn(copy.deepcopy(first), "pool", (X, y)), "pool", other), (X, y), other


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_row_of_two_updates_is_forgotten_once_and_by_the_latest(is_made_again):
    first = fitted("sums")
    model, older, newer = twice(first)
    row = tuple(column[:1] for column in older)
    clean, receipt = V.forget(model, *row, data=[older, newer], first=first if is_made_again else None)
    assert [(taken.update, taken.rows) for taken in receipt.taken] == [(2, 1)]
    never = learn(learn(copy.deepcopy(first), "pool", older), "pool", tuple(column[1:] for column in newer))
    assert state_of(clean.model_).pooled.total == state_of(never.model_).pooled.total
    again, receipt = V.forget(clean, *row, data=[older, tuple(column[1:] for column in newer)])
    assert [(taken.update, taken.rows) for taken in receipt.taken] == [(1, 1)]
    assert len(receipt.remaining) == 2
    assert state_of(again.model_).pooled.total.count == 200 + 39 + 30


def test_an_update_with_exactly_the_rows_loses_them_though_a_later_one_has_them_too():
    first = fitted("sums")
    data = rows(25, 1)
    more = tuple(np.concatenate([a, b]) for a, b in zip(data, rows(20, 2), strict=True))
    model = learn(learn(copy.deepcopy(first), "pool", data), "pool", more)
    _, receipt = V.forget(model, *data, data=[data, more], first=first)
    assert [(taken.update, taken.rows) for taken in receipt.taken] == [(1, 25)]


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("size", [{}, {"terms": 0, "density": 1}])
def test_a_small_model_is_saved_after_a_consolidation(memory, size, tmp_path):
    model = fitted(memory, **size)
    learn(model, "chart", rows(60, 1, 0.2, 0.6, 2.0))
    assert model.consolidate(tolerance=1000).replaced
    save(model, tmp_path / "m.atlas")
    assert V.version(load(tmp_path / "m.atlas")) == V.version(model)


def test_a_domain_that_was_reached_between_updates_is_replayed_in_its_turn():
    model = learn(fitted("rows"), "pool", rows(30, 1))
    model.reach([[1.6, 1.6]])
    learn(model, "pool", rows(30, 2, 0.5, 1.6))
    assert V.replay(model, [])
    assert [step.id for step in V.replay(model, []).steps] == [1, 2]


def test_a_patch_gives_what_it_was_applied_to(tmp_path):
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"a": random.random(90), "c": random.choice(["red", "green"], 90)})
    model = AtlasRegressor(**FEW).fit(frame[:60], frame.a[:60])
    later = copy.deepcopy(model)
    frame.loc[70:, "c"] = "blue"  # so that the encoding changes too
    later.partial_fit(frame[60:], frame.a[60:], accept=True)
    applied = V.apply(model, V.patch(model, later))
    assert np.array_equal(applied.predict(frame), later.predict(frame))


def test_a_domain_reached_by_hand_outlives_a_chart(tmp_path):
    model = fitted("sums").reach(np.array([[1.5, 0.5]]))
    reached, predicted = model.in_domain(GRID), model.predict(GRID)
    learn(model, "chart", rows(60, 1, 1.2, 1.8, shift=4))
    save(model, tmp_path / "model.atlas")
    model = load(tmp_path / "model.atlas").revert(1)
    assert (model.in_domain(GRID) == reached).all()
    assert (model.predict(GRID) == predicted).all()


@pytest.mark.parametrize("way", ["forget", "revert"])
def test_a_domain_reached_by_hand_outlives_an_update_that_goes(way):
    model = learn(fitted("sums"), "pool", rows(60, 1))
    model.reach(np.array([[1.5, 0.5]]))
    reached = model.in_domain(GRID)
    if way == "forget":
        model.forget(*rows(60, 1))
    else:
        model.revert(1)
    assert (model.in_domain(GRID) == reached).all()


def test_a_patch_that_takes_back_tells_of_errors_as_the_merge_does():
    base = learn(fitted("sums"), "pool", rows(30, 1, 0.2, 0.9, shift=3))
    ours, theirs = copy.deepcopy(base).revert(1), copy.deepcopy(base)
    learn(ours, "pool", rows(40, 2))
    learn(theirs, "pool", rows(15, 3))
    merged = V.merge(base, ours, theirs)
    assert V.version(V.apply(theirs, V.patch(base, ours), merge=True)) == V.version(merged)


@pytest.mark.parametrize("memory", MEMORIES)
def test_intervals_inside_a_chart_do_not_depend_on_how_many_rows_are_asked_about(memory):
    model = learn(fitted(memory, terms=0, density=1), "chart", rows(60, 1, 0.2, 0.7, shift=4))
    whole = np.stack([*model.predict_interval(INSIDE, 0.9), model.support(INSIDE)])
    for count in (1, 7, 61, 250):
        part = np.stack([*model.predict_interval(INSIDE[:count], 0.9), model.support(INSIDE[:count])])
        assert (part == whole[:, :count]).all()


def test_intervals_hold_the_prediction_where_all_errors_lean_to_one_side():
    X, y = rows(400, 0)
    model = learn(AtlasRegressor(**FEW).fit(X, y), "pool", (X[:300], y[:300] + 2))
    low, high = model.predict_interval(GRID, [0.1, 0.5])
    predicted = model.predict(GRID)[:, None]
    assert ((low <= predicted) & (predicted <= high)).all()
    counts = np.random.default_rng(0).poisson(np.exp(X[:, 0]))
    model = AtlasRegressor(**FEW, loss="poisson").fit(X, counts)
    low, high = model.predict_interval(GRID, [0.01, 0.5])
    predicted = model.predict(GRID)[:, None]
    assert ((low <= predicted) & (predicted <= high)).all()


@pytest.mark.filterwarnings("ignore:y has new classes")
def test_classes_that_come_above_a_chart_leave_announced_ones_in_their_place():
    def labelled(count, seed, highest=1):
        X, y = rows(count, seed)
        return X, np.digitize(y, [0.8]) + (X[:, 0] > 0.7) * (highest - 1)

    model = AtlasClassifier(**FEW).fit(*labelled(150, 0))
    learn(model, "pool", labelled(60, 1))
    model.add_classes([2])
    learn(model, "pool", labelled(60, 2, 2))
    learn(model, "chart", labelled(40, 3, 2))
    learn(model, "pool", labelled(60, 4, 3))  # brings class 3, and has rows of class 2
    assert V.replay(model, [])


def test_known_levels_are_never_far():
    numbers = np.arange(150) % 30
    frame = pd.DataFrame({"a": np.linspace(0, 1, 150), "shop": [f"shop {k:02}" for k in numbers]})
    model = AtlasRegressor(**FEW).fit(frame, frame.a - 0.3 * numbers)
    learn(model, "chart", (frame[:40], frame.a[:40] + 3))
    assert model.model_.updates[-1].kind == "chart"


def test_a_category_that_no_row_was_of_is_missing_where_a_domain_is_reached():
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"a": random.random(90), "c": random.choice(["red", "green"], 90)})
    model = AtlasRegressor(missing="learn", **FEW).fit(frame, frame["a"])
    model.partial_fit(frame[:20].assign(c="blue"), np.ones(20))
    model.reach(pd.DataFrame({"a": [1.7], "c": ["never seen"]}))
    reached = model.ledger_.contributions[-1]
    assert not reached.columns
    assert model.in_domain(pd.DataFrame({"a": [1.6], "c": ["red"]})).all()
    again = derive(model, model.ledger_, afresh=True)
    assert again.model_.fingerprint() == model.model_.fingerprint()
