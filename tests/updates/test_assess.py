import numpy as np
import pytest

from atlas_splines import AtlasClassifier, AtlasRegressor, load, save
from atlas_splines.model.atlas import state_of

RANDOM = np.random.default_rng(0)
X = RANDOM.random((1200, 3))
Y = np.sin(5 * X[:, 0]) + X[:, 1] + 0.3 * RANDOM.normal(size=1200)
CHEAP = {"members": 1, "terms": 0, "density": 0, "random_state": 0}


@pytest.mark.parametrize("retention", ["pool", "auto"])
def test_pooled_rows_are_judged_by_what_has_not_learned_them(retention):
    model = AtlasRegressor(retention=retention, features=200, **CHEAP).fit(X[:60], Y[:60])
    done = model.partial_fit(X[60:360], Y[60:360], assess=True).update_log_[-1]
    fresh = np.sqrt(np.mean((model.predict(X[360:]) - Y[360:]) ** 2))
    assert (done.held_out.rows, done.held_out.cross_validated) == (300, True)
    assert done.error_after < 0.97 * done.held_out.error
    assert done.held_out.error == pytest.approx(fresh, rel=0.1)
    assert done.held_out.baseline == pytest.approx(Y[60:360].std(), rel=1e-5)
    assert done.held_out.score == pytest.approx(1 - (done.held_out.error / done.held_out.baseline) ** 2)
    assert "after, cross-validated" in repr(done)


@pytest.mark.parametrize("retention", ["pool", "auto"])
def test_kept_rows_are_judged_by_the_others(retention):
    model = AtlasRegressor(retention=retention, features=60, random_state=0).fit(X[:200], Y[:200])
    assert state_of(model.model_).local
    done = model.partial_fit(X[200:500], Y[200:500], assess=True).update_log_[-1]
    fresh = np.sqrt(np.mean((model.predict(X[500:]) - Y[500:]) ** 2))
    assert (done.held_out.rows, done.held_out.cross_validated) == (300, True)
    assert done.held_out.error == pytest.approx(fresh, rel=0.1)


def test_kept_rows_of_classes_are_judged_by_the_model_before():
    labels = (X[:, 0] + 0.2 * RANDOM.normal(size=len(X)) > 0.5).astype(int)
    model = AtlasClassifier(retention="pool", features=60, random_state=0).fit(X[:300], labels[:300])
    before = (model.predict(X[300:500]) == labels[300:500]).mean()
    done = model.partial_fit(X[300:500], labels[300:500], assess=True).update_log_[-1]
    assert done.held_out.score == pytest.approx(before)


def test_rows_that_join_a_chart_are_judged_by_the_others_there():
    model = AtlasRegressor(features=100, **CHEAP).fit(X[:600], Y[:600])
    box = (X > 0.5).all(axis=1)
    new, value = X[box], 20 + 5 * X[box, 0] + 0.3 * RANDOM.normal(size=box.sum())
    first = model.partial_fit(new[::2], value[::2], assess=True).update_log_[-1]
    assert first.kind == "chart"
    inner = (new[1::2] > 0.55).all(axis=1)  # where the chart speaks alone
    second = model.partial_fit(new[1::2][inner], value[1::2][inner], assess=True).update_log_[-1]
    assert "joined a chart" in second.reason
    for done in (first, second):
        assert 0.25 < done.held_out.error < 0.45


def test_classes_are_judged_by_their_log_loss_and_by_right_ones():
    labels = (X[:, 0] + 0.2 * RANDOM.normal(size=len(X)) > 0.5).astype(int)
    model = AtlasClassifier(retention="pool", features=100, **CHEAP).fit(X[:200], labels[:200])
    done = model.partial_fit(X[200:500], labels[200:500], assess=True).update_log_[-1]
    fresh = (model.predict(X[500:]) == labels[500:]).mean()
    assert done.held_out.score == pytest.approx(fresh, abs=0.06)
    assert done.held_out.error < done.held_out.baseline == pytest.approx(np.log(2), abs=0.02)
    assert (done.measure, done.unit) == ("log loss", "nats")


def test_trained_charts_hold_rows_out_and_files_keep_what_that_told(tmp_path):
    model = AtlasRegressor(retention="chart", features=60, max_iter=5, **CHEAP).fit(X[:300], Y[:300])
    few, one = X[300:330], X[330:331]
    for rows in (few, one):
        model.partial_fit(rows, np.full(len(rows), 7.0), accept=True)  # a constant
    first, second = model.update_log_
    assert first.held_out.cross_validated
    assert first.held_out.rows >= len(few)
    assert second.held_out is None  # what would a single row be judged by?
    assert "after, on rows just learned" in repr(second)
    save(model, tmp_path / "m.atlas")
    again = load(tmp_path / "m.atlas").update_log_
    assert [(r.held_out, r.warning, r.footprint.known_rows) for r in again] == [
        (r.held_out, r.warning, r.footprint.known_rows) for r in model.update_log_
    ]


def test_training_that_has_seen_all_rows_is_not_called_held_out():
    model = AtlasRegressor(retention="none", features=0, max_iter=2, **CHEAP).fit(X[:100], Y[:100])
    assert model.partial_fit(X[:100], Y[:100]).update_log_[-1].held_out is None
