import pickle
import warnings

import numpy as np
import pytest

from atlas_splines import AtlasClassifier, AtlasRegressor, UpdateRefused, UpdateWarning, update
from atlas_splines.model.atlas import state_of
from atlas_splines.updates.refusal import Origin, refuse_faulty

CHEAP = {"members": 1, "terms": 0, "density": 0, "features": 80, "random_state": 0}
UNITS = np.array([30.0, 5.0, 1000.0])  # of the columns
RANDOM = np.random.default_rng(0)
X = RANDOM.random((1200, 3)) * UNITS
Y = 50 + 20 * np.sin(X[:, 0] / 6) + 8 * X[:, 1] + X[:, 2] / 50 + 2 * RANDOM.normal(size=1200)
LABELS = np.digitize(Y, np.quantile(Y[:600], [1 / 3, 2 / 3])).astype(int)
NEW = slice(900, 1100)


@pytest.fixture(scope="module")
def fitted():
    model = AtlasRegressor(**CHEAP).fit(X[:600], Y[:600])
    return model.partial_fit(X[600:750], Y[600:750]).partial_fit(X[750:900], Y[750:900])


@pytest.fixture(scope="module")
def sorted_out():
    return AtlasClassifier(**CHEAP).fit(X[:600], LABELS[:600]).partial_fit(X[600:900], LABELS[600:900])


def column(j, change):
    changed = X[NEW].copy()
    changed[:, j] = change(changed[:, j])
    return changed


@pytest.mark.parametrize(
    ("targets", "why"),
    [
        (10 * Y[NEW], "targets are about 10 times those predicted"),
        (0.1 * Y[NEW], "targets are about 0.1 times those predicted"),
        (1000 * Y[NEW], "targets are about 1000 times those predicted"),
        (-Y[NEW], "targets have the opposite sign of those predicted"),
        (Y[NEW] + 500, "targets are about 500 above those predicted"),
        (Y[NEW] - 300, "targets are about 300 below those predicted"),
        (np.zeros(200), "all targets are 0, where others were predicted"),
    ],
)
@pytest.mark.parametrize("retention", ["auto", "pool", "chart"])
def test_targets_that_are_faulty_as_a_whole_are_refused(fitted, targets, why, retention):
    model, before = pickle.loads(pickle.dumps(fitted)).set_params(retention=retention), fitted.predict(X)
    with pytest.raises(UpdateRefused) as refused:
        model.partial_fit(X[NEW], targets)
    assert refused.value.what.startswith(why[:30])
    assert str(refused.value).endswith("give accept=True to learn them all the same")
    assert len(model.update_log_) == 2
    assert model.model_.fingerprint() == fitted.model_.fingerprint()
    assert (model.predict(X) == before).all()


@pytest.mark.parametrize(
    ("inputs", "why"),
    [
        (column(0, lambda x: 10 * x), "column 0 seems to be about 10 times what it was"),
        (column(0, lambda x: x / 10), "column 0 seems to be about 0.1 times what it was"),
        (column(1, lambda x: 1000 * x), "column 1 seems to be about 1000 times what it was"),
        (column(0, lambda x: 1.8 * x + 32), "column 0 seems to be about 1.8 times plus 32 what it was"),
        (column(0, lambda x: x + 273.15), "column 0 seems to be about 1 times plus 273.1 what it was"),
        (column(0, lambda x: x - 50), "column 0 seems to be shifted by about -50"),
        (X[NEW][:, [1, 0, 2]], "column 0 and column 1 seem to be exchanged"),
    ],
)
def test_columns_that_are_faulty_are_refused(fitted, inputs, why):
    with pytest.raises(UpdateRefused) as refused:
        pickle.loads(pickle.dumps(fitted)).partial_fit(inputs, Y[NEW])
    assert refused.value.what[:24] == why[:24]


@pytest.mark.parametrize(
    ("inputs", "labels", "why"),
    [
        (X[NEW], np.ones(200, int), "all rows are of the class 1, where others were expected"),
        (X[NEW], (LABELS[NEW] + 1) % 3, "classes seem to be exchanged: 0 where 2 was predicted"),
        (column(1, lambda x: x / 100), LABELS[NEW], "column 1 seems to be about 0.01 times"),
        (X[NEW][:, [1, 0, 2]], LABELS[NEW], "column 0 and column 1 seem to be exchanged"),
    ],
)
def test_classes_and_their_columns_that_are_faulty_are_refused(sorted_out, inputs, labels, why):
    with pytest.raises(UpdateRefused) as refused:
        pickle.loads(pickle.dumps(sorted_out)).partial_fit(inputs, labels)
    assert refused.value.what.startswith(why)


def test_whatever_is_accepted_is_learned(fitted):
    model = pickle.loads(pickle.dumps(fitted))
    with pytest.warns(UpdateWarning):
        model.partial_fit(X[NEW], 10 * Y[NEW], accept=True)
    assert len(model.update_log_) == 3


def test_an_error_of_an_update_travels_between_processes():
    again = pickle.loads(pickle.dumps(UpdateRefused("columns seem to be exchanged")))
    assert (again.what, isinstance(again, ValueError)) == ("columns seem to be exchanged", True)


def test_columns_of_frames_go_by_their_names():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["temperature", "wind", "pressure"])
    model = AtlasRegressor(**CHEAP).fit(frame[:600], Y[:600]).partial_fit(frame[600:900], Y[600:900])
    with pytest.raises(UpdateRefused, match="column 'temperature' and column 'wind' seem to be exchanged"):
        model.partial_fit(
            frame[NEW].rename(columns={"temperature": "wind", "wind": "temperature"})[frame.columns], Y[NEW]
        )


@pytest.mark.parametrize(
    ("inputs", "targets"),
    [
        (X[NEW], Y[NEW]),
        (X[NEW], Y[NEW] + 8),  # drift
        (X[NEW], 1.3 * Y[NEW]),  # growth
        (0.4 * UNITS + 0.2 * X[NEW], np.full(200, 200.0)),  # one place, where all is other now
        (0.4 * UNITS + 0.2 * X[NEW], Y[NEW] + 500),
        (X[NEW] * [1, 1, 0.1], Y[NEW] + 500),  # a slab of one column
        (X[NEW] + [40, 0, 0], Y[NEW][::-1]),  # new land, where other things hold
    ],
)
def test_changes_of_the_world_are_not_refused(fitted, inputs, targets):
    model = pickle.loads(pickle.dumps(fitted))
    model.partial_fit(inputs, targets)
    assert len(model.update_log_) == 3


def test_columns_exchanged_are_found_although_one_has_grown(fitted):
    inputs, drawn = X[NEW].copy(), np.random.default_rng(1)
    inputs[:, 2] = drawn.uniform(500, 1500, 200)  # half of it where it never was
    known = inputs.clip(None, UNITS)
    targets = 50 + 20 * np.sin(known[:, 0] / 6) + 8 * known[:, 1] + known[:, 2] / 50
    refuse_faulty(state_of(fitted.model_), fitted._origin(inputs, targets))
    with pytest.raises(UpdateRefused, match="column 1 and column 2 seem to be exchanged"):
        refuse_faulty(state_of(fitted.model_), fitted._origin(inputs[:, [0, 2, 1]], targets))


def test_a_level_that_changes_and_stays_is_learned(fitted):
    model = pickle.loads(pickle.dumps(fitted))
    for begin in (750, 900, 1050):
        rows = slice(begin, begin + 150)
        model.partial_fit(X[rows], Y[rows] + 2 * Y.std())
    assert len(model.update_log_) == 5


@pytest.mark.parametrize("retention", ["auto", "pool"])
def test_a_random_walk_of_the_targets_is_never_refused(retention):
    """Charts and sums are off by more and more: neither the targets nor the column of time are faulty."""
    refused = []
    for seed in range(5):
        random = np.random.default_rng(seed)
        inputs = np.column_stack([random.normal(size=(2800, 2)), np.arange(2800)])
        targets = inputs[:, 0] + np.cumsum(random.normal(size=2800)) / 10
        model = AtlasRegressor(random_state=0, members=1).fit(inputs[:800], targets[:800])
        model.set_params(retention=retention)
        for begin in range(800, 2800, 200):
            rows = slice(begin, begin + 200)
            try:
                model.partial_fit(inputs[rows], targets[rows])
            except UpdateRefused as fault:
                refused.append((seed, begin, fault.what))
    assert refused == []


def test_charts_that_were_asked_for_in_one_place_learn_anything(fitted):
    model = pickle.loads(pickle.dumps(fitted)).set_params(retention="chart", max_iter=2)
    place = 0.4 * UNITS + 0.2 * X[NEW]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.partial_fit(place, 10 * fitted.predict(place))
    assert model.update_log_[-1].kind == "chart"
    assert not [each for each in told if "contradict" in str(each.message)]


def test_few_rows_and_models_without_a_record_learn_anything(fitted):
    model = pickle.loads(pickle.dumps(fitted)).partial_fit(X[900:915], 10 * Y[900:915])
    assert len(model.update_log_) == 3
    bare = AtlasRegressor(**{**CHEAP, "features": 0, "max_iter": 2}).fit(X[:600], Y[:600])
    bare.set_params(retention="none").partial_fit(X[NEW], 10 * Y[NEW])
    assert len(bare.update_log_) == 1


def test_rows_in_the_units_of_a_model(fitted):
    points = fitted.domain_.to_unit(X[NEW])
    targets = fitted._targets(Y[NEW])
    model = fitted.model_.copy()
    with pytest.raises(UpdateRefused, match="input 0 and input 1 seem to be exchanged"):
        update(model, points[:, [1, 0, 2]], targets, retention="pool", loss="mse", random_state=0)
    assert model.fingerprint() == fitted.model_.fingerprint()
    refuse_faulty(state_of(model), Origin.of_points(points, targets, "mse"))


def test_counts_and_several_targets():
    counts = np.random.default_rng(1).poisson(np.maximum(Y, 1))
    model = AtlasRegressor(loss="poisson", **CHEAP).fit(X[:600], counts[:600])
    with pytest.raises(UpdateRefused, match="targets are about 10 times those predicted"):
        model.partial_fit(X[NEW], 10 * counts[NEW])
    both = np.column_stack([Y, X[:, 1] - X[:, 0]])
    model = AtlasRegressor(**CHEAP).fit(X[:600], both[:600])
    with pytest.raises(UpdateRefused, match="targets of column 1 are about 100 times those predicted"):
        model.partial_fit(X[NEW], both[NEW] * [1, 100])
