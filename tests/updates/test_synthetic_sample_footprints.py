import numpy as np
import pytest

from atlas_splines import Atlas, AtlasRegressor, footprint
from atlas_splines.model.atlas import state_of
from atlas_splines.updates.synthetic_sample import rows_near, synthetic_sample_of

CHEAP = {"members": 1, "terms": 0, "density": 0, "features": 60, "random_state": 0}


@pytest.fixture(scope="module")
def wide():
    """Eight columns that go together: little of the domain holds many rows."""
    random = np.random.default_rng(0)
    X = random.normal(size=(1500, 1)) + 0.3 * random.normal(size=(1500, 8))
    return X, AtlasRegressor(retention="chart", **CHEAP).fit(X, X.sum(axis=1))


def test_a_footprint_tells_which_share_of_the_known_rows_it_holds(wide):
    X, model = wide
    area = model.footprint(X[np.abs(X).max(axis=1) < 1])
    truth = area.contains(X).mean()
    assert area.volume < 0.01 < 0.2 < truth
    assert area.known_rows == pytest.approx(truth, abs=0.1)
    assert repr(area).startswith(f"<Footprint: {area.known_rows:.2g} of the known rows, ")


def test_everything_holds_all_and_a_model_without_counts_says_nothing(wide):
    X, model = wide
    assert model._footprint(X, retention="pool").known_rows == 1
    plain = footprint(Atlas(inputs=2), [[0.1, 0.1], [0.3, 0.3]])
    assert plain.known_rows is None
    assert "known" not in repr(plain)


def test_rows_of_charts_are_known_too():
    random = np.random.default_rng(0)
    X = random.random((400, 2))
    model = AtlasRegressor(domain=[(0, 2), (0, 1)], **CHEAP).fit(X, X[:, 0])
    assert (rows_near(state_of(model.model_), 0, np.array([0.25, 0.85])) > 0).tolist() == [True, False]
    beyond = [1.5, 0] + [0.4, 1] * random.random((400, 2))
    model.partial_fit(beyond, 9 - beyond[:, 0])
    assert model.update_log_[-1].kind == "chart"
    known = synthetic_sample_of(state_of(model.model_))
    share = (model.domain_.to_raw(0, known.points[:, 0]) > 1.45).mean()
    assert share == pytest.approx(0.5, abs=0.02)
    assert (rows_near(state_of(model.model_), 0, np.array([0.25, 0.85])) > 0).all()
