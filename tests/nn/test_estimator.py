import copy
import dataclasses
import pickle

import level_rows
import numpy as np
import pytest
import torch
from sample_modules import FAST, fitted_regressor, rows_far_and_near, rows_of_any_scale

from atlas_splines import Atlas, AtlasClassifier, AtlasRegressor
from atlas_splines.estimators.predict import Ends
from atlas_splines.model.atlas import model_in, state_of
from atlas_splines.nn import EstimatorModule


def extended_regressor(**options):
    """The same with a chart beyond its first domain."""
    estimator, X, y = fitted_regressor(**options)
    new = X[:60] + np.array([0.5, 20, 1])
    estimator.partial_fit(new, y[:60] + 500)
    assert estimator.model_.is_extended
    assert estimator.model_.charts
    return estimator


def in_float64(estimator):
    """The same estimator with a model that computes in float64."""
    twin, old = copy.deepcopy(estimator), estimator.model_
    model = Atlas(old.inputs, old.outputs, old.terms, old.density, old.trainable, old.damping, "float64")
    state, known = state_of(model).emptied(old.domain), state_of(old)
    # a face may round into one cell more
    state.table[:] = known.table[state.lattice.nearest_rows(known.lattice)]
    twin.model_ = model_in(state.with_charts(chart_in_float64(chart) for chart in old.charts))
    return twin


def chart_in_float64(chart):
    old = chart.content
    content = Atlas(old.inputs, old.outputs, old.terms, old.density, dtype="float64")
    state_of(content).table[:] = state_of(old).table
    return dataclasses.replace(chart, content=content, size=chart.size.astype(np.float64))


@pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param({"domain": "data", "terms": 0}, marks=pytest.mark.slow),
        pytest.param({"extrapolation": "linear"}, marks=pytest.mark.slow),
    ],
)
def test_a_module_predicts_what_the_regressor_does(options):
    estimator = extended_regressor(**options)
    X = rows_far_and_near()
    module = EstimatorModule(estimator)
    expected, scale = estimator.predict(X), estimator.target_scale_[0]
    result = module(torch.tensor(X)).detach().numpy()
    loss = 10 if options.get("extrapolation") == "linear" else 1  # slopes lose digits
    double = copy.deepcopy(module).double()(torch.tensor(X)).detach().numpy()
    np.testing.assert_allclose(double, in_float64(estimator).predict(X), rtol=0, atol=1e-10 * loss * scale)
    for answer in (result, double):
        error = np.abs(answer - expected) / (loss * scale)
        # where the exponentials of a chart are large and cancel, float32 loses digits
        assert np.quantile(error, 0.95) < 1e-5
        assert error.max() < 5e-5
    twin = pickle.loads(pickle.dumps(copy.deepcopy(module).double().float()))  # the map stays in float64
    assert (twin(torch.tensor(X)).detach().numpy() == result).all()
    knots = estimator.domain_.knots.T
    X = np.vstack([X, knots, knots[[-1]] + [[1, 0, 0]]])
    assert (module.to_unit(torch.tensor(X)).numpy() == estimator.domain_.to_unit(X)).all()


def test_a_module_knows_where_rows_beyond_the_domain_were_learned():
    estimator, X, y = fitted_regressor(extrapolation="linear", retention="pool", features=40)
    estimator.partial_fit(X + np.array([100, 0, 0]), y)
    assert Ends.of(state_of(estimator.model_), estimator.domain_).room.min() < 0.2
    far = rows_far_and_near()
    result = EstimatorModule(estimator)(torch.tensor(far)).detach().numpy()
    np.testing.assert_allclose(result, estimator.predict(far), rtol=0, atol=1e-4 * estimator.target_scale_[0])


def test_a_module_predicts_counts():
    X = np.random.default_rng(0).uniform(-1, 1, (400, 2))
    y = np.random.default_rng(1).poisson(np.exp(3 * X[:, 0]))
    estimator = AtlasRegressor(loss="poisson", random_state=0).fit(X, y)
    predicted, low, high = EstimatorModule(estimator, coverage=0.8)(torch.tensor(X))
    np.testing.assert_allclose(predicted.detach().numpy(), estimator.predict(X), rtol=1e-4, atol=1e-4)
    for ours, theirs in zip((low, high), estimator.predict_interval(X, 0.8), strict=True):
        np.testing.assert_allclose(ours.detach().numpy(), theirs, rtol=1e-3, atol=1e-3)


def test_a_module_predicts_what_the_classifier_does():
    X = rows_of_any_scale()[:, [0, 2]]
    estimator = AtlasClassifier(**FAST).fit(X, np.array(["a", "b", "c"])[np.digitize(X[:, 1], [-0.5, 0.5])])
    module, far = EstimatorModule(estimator), rows_far_and_near()[:, [0, 2]]
    np.testing.assert_allclose(module(torch.tensor(far)).detach(), estimator.predict_proba(far), atol=1e-5)
    assert module(torch.tensor([[np.nan, 0.0]])).isnan().all()  # the classifier refuses it


def test_several_targets_and_what_is_refused():
    X = rows_of_any_scale()[:, [0, 2]]
    estimator = AtlasRegressor(extrapolation="error", **FAST).fit(X, X * [1, 100])
    module = EstimatorModule(estimator)
    np.testing.assert_allclose(module(torch.tensor(X)).detach(), estimator.predict(X), rtol=1e-5, atol=1e-3)
    assert module(torch.tensor([[1e6 + 0.5, 99.0], [1e6 + 0.5, 0.0]])).isnan().tolist() == [[True] * 2, [False] * 2]  # fmt: skip
    with pytest.raises(ValueError, match=r"X has shape \(5, 3\); expected \(rows, 2\)"):
        module(torch.rand(5, 3))
    with pytest.raises(TypeError, match=r"X has dtype torch.int64; give it as floating-point numbers"):
        module(torch.zeros(5, 2, dtype=torch.int64))
    with pytest.raises(ValueError, match="the estimator is not fitted; call its fit first"):
        EstimatorModule(AtlasRegressor())
    with pytest.raises(TypeError, match="estimator is a Atlas; give an AtlasRegressor or an AtlasClassifier"):
        EstimatorModule(Atlas(2))


def test_offsets_of_levels_are_added(tmp_path):
    estimator = level_rows.fitted().partial_fit(*level_rows.both(100, 1))
    X = np.vstack([level_rows.both(50, 2)[0], level_rows.new_rows(20, 3)[0] + [0, 2**-20]])
    module = EstimatorModule(estimator)
    np.testing.assert_allclose(module(torch.tensor(X)).detach(), estimator.predict(X), atol=1e-4)
    inner = module.model
    again = inner.to_model()
    assert again.fingerprint() == model_in(state_of(estimator.model_)).fingerprint()
    wide = copy.deepcopy(inner).to(torch.float64)
    np.testing.assert_allclose(wide(torch.tensor(X)).detach(), inner(torch.tensor(X)).detach(), atol=1e-4)
    assert "offsets.values" in inner.state_dict()
