import copy
import pickle

import numpy as np
import pytest
import torch

from atlas_splines import AtlasClassifier, AtlasRegressor
from atlas_splines.model.atlas import state_of
from atlas_splines.nn import EstimatorModule, export_onnx
from atlas_splines.nn.estimator import interpolated

RANDOM = np.random.default_rng(0)
X = RANDOM.random((300, 2)) * [10, 1]
X = X[(X[:, 0] < 4) | (X[:, 0] > 6)]  # nothing is known in between
Y = np.sin(X[:, 0]) + X[:, 1] + 0.1 * RANDOM.normal(size=len(X))
ROWS = RANDOM.uniform([-1, -0.2], [12, 1.2], (1000, 2))  # beyond the domain too
SMALL = {"members": 1, "terms": 1, "density": 0, "max_iter": 2, "features": 30, "random_state": 0}


def charted_regressor():
    """A regressor with a chart by evidence, and one that was trained."""
    model = AtlasRegressor(**SMALL).fit(X, Y)
    model.partial_fit(X[:60] / 4, Y[:60] + 5)
    model.set_params(retention="chart").partial_fit(X[60:120] / 4 + [8, 0], Y[60:120] + 3)
    assert len(model.model_.charts) == 2
    return model


def answers(module, rows):
    with torch.no_grad():
        return [answer.numpy() for answer in module(torch.tensor(rows))]


def check(answers, expected, scale):
    """All agree to float32 rounding, of outputs and of the windows of charts."""
    for answer, right in zip(answers[:-1], expected[:-1], strict=True):
        np.testing.assert_allclose(answer, right, rtol=0, atol=5e-5 * scale)
    np.testing.assert_allclose(answers[-1], expected[-1], rtol=0, atol=1e-6)
    assert 0.1 < (expected[-1] == 0).mean() < 0.9


def test_a_module_is_as_sure_as_the_regressor():
    model = charted_regressor()
    module = EstimatorModule(model, coverage=0.8, support=True)
    assert module.output_names == ["y", "low", "high", "support"]
    expected = [model.predict(ROWS), *model.predict_interval(ROWS, 0.8), model.support(ROWS)]
    check(answers(module, ROWS), expected, model.target_scale_[0])
    twin = pickle.loads(pickle.dumps(copy.deepcopy(module).double().float()))  # constants stay in float64
    for answer, other in zip(answers(module, ROWS), answers(twin, ROWS), strict=True):
        assert (answer == other).all()


def test_each_output_can_be_asked_for_alone():
    model = AtlasRegressor(**SMALL).fit(X, Y)
    y, low, high = answers(EstimatorModule(model, coverage=0.5), ROWS)
    assert (low < y).all()
    assert (y < high).all()
    _, support = answers(EstimatorModule(model, support=True), ROWS)
    np.testing.assert_allclose(support, model.support(ROWS), atol=1e-9)


def test_an_input_with_two_values_counts():
    flagged = np.column_stack([X, X[:, 1] > 0.5])
    model = AtlasRegressor(**SMALL).fit(flagged, Y + flagged[:, 2])
    assert state_of(model.model_).pooled.features.linear == (2,)
    rows = np.column_stack([ROWS, ROWS[:, 1] > 0.5])
    _, support = answers(EstimatorModule(model, support=True), rows)
    np.testing.assert_allclose(support, model.support(rows), atol=1e-9)


def test_several_targets_each_have_an_interval():
    model = AtlasRegressor(**SMALL).fit(X, np.column_stack([Y, -10 * Y]))
    _, low, high = answers(EstimatorModule(model, coverage=0.9), ROWS)
    for answer, right in zip((low, high), model.predict_interval(ROWS, 0.9), strict=True):
        np.testing.assert_allclose(answer, right, rtol=0, atol=5e-5 * model.target_scale_.max())


def test_an_extended_domain_counts():
    model = AtlasRegressor(**SMALL).fit(X, Y)
    model.set_params(retention="chart").partial_fit(X[:60] / 4 + [10.5, 0], Y[:60])
    assert model.model_.is_extended
    module = EstimatorModule(model, coverage=0.9, support=True)
    expected = [model.predict(ROWS), *model.predict_interval(ROWS, 0.9), model.support(ROWS)]
    check(answers(module, ROWS), expected, model.target_scale_[0])


def test_a_module_has_the_sets_of_the_classifier():
    labels = np.array(["a", "b", "c"])[np.digitize(Y, [0.3, 1.0])]
    model = AtlasClassifier(**SMALL).fit(X, labels)
    module = EstimatorModule(model, coverage=0.9, support=True)
    assert module.output_names == ["y", "set", "support"]
    _, sets, support = answers(module, ROWS)
    assert sets.dtype == bool
    assert (sets == model.predict_set(ROWS, 0.9)).mean() > 0.999
    assert 1 < sets.sum(axis=1).mean() < 3
    np.testing.assert_allclose(support, model.support(ROWS), atol=1e-9)


def test_what_cannot_be_told_is_refused():
    model = AtlasRegressor(**SMALL).fit(X, Y)
    with pytest.raises(ValueError, match=r"^coverage must lie between 0 and 1, such as 0\.9, not 90$"):
        EstimatorModule(model, coverage=90)
    blind = AtlasRegressor(**{**SMALL, "features": 0}).fit(X, Y)
    assert state_of(blind.model_).pooled is None
    for wanted in ({"coverage": 0.9}, {"support": True}):
        with pytest.raises(ValueError, match=r"^this model has no error model: "):
            EstimatorModule(blind, **wanted)


def test_interpolation_is_that_of_numpy():
    knots, values = np.array([0.0, 1.0, 1.0, 3.0]), np.array([5.0, 6.0, 8.0, 4.0])
    x = np.array([-1, 0, 0.5, 1, 2, 3, 4])
    found = interpolated(*map(torch.tensor, (x, knots, values)))
    assert (found.numpy() == np.interp(x, knots, values)).all()
    assert (interpolated(*map(torch.tensor, (x, knots[:1], values[:1]))) == 5).all()


@pytest.mark.slow
def test_onnxruntime_is_as_sure_as_the_regressor(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    model = charted_regressor()
    export_onnx(EstimatorModule(model, coverage=0.9, support=True), tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    assert [output.name for output in session.get_outputs()] == ["y", "low", "high", "support"]
    for rows in (ROWS, ROWS[:1]):
        found = session.run(None, {"x": rows})
        expected = [model.predict(rows), *model.predict_interval(rows, 0.9), model.support(rows)]
        for answer, right in zip(found, expected, strict=True):
            np.testing.assert_allclose(answer, right, rtol=0, atol=5e-5 * model.target_scale_[0])
