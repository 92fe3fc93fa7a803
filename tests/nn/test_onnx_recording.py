"""What is recorded gives in onnxruntime what estimators and models say in NumPy, for any number of rows."""

import numpy as np
import oracle
import pytest
import torch
from torch import nn

from atlas_splines import Atlas, AtlasClassifier, AtlasRegressor, update
from atlas_splines.nn import AtlasModule, EstimatorModule, export_onnx
from atlas_splines.nn.onnx import recorded

onnxruntime = pytest.importorskip("onnxruntime")

RANDOM = np.random.default_rng(0)
X = RANDOM.random((300, 3)) * [10, 1, 5]
Y = np.sin(X[:, 0]) + X[:, 1]
ROWS = RANDOM.uniform([-1, -0.2, 0], [12, 1.2, 5], (500, 3))  # beyond the domain too
SMALL = {"members": 1, "terms": 1, "density": 0, "max_iter": 2, "features": 30, "random_state": 0}


def session_of(module, path):
    export_onnx(module, path / "model.onnx")
    return onnxruntime.InferenceSession(path / "model.onnx")


def test_a_classifier_with_its_sets(tmp_path):
    labels = np.array(["a", "b", "c"])[np.digitize(Y, [0.3, 1.0])]
    model = AtlasClassifier(**SMALL).fit(X, labels)
    session = session_of(EstimatorModule(model, coverage=0.8, support=True), tmp_path)
    for rows in (ROWS, ROWS[:1]):
        y, sets, support = session.run(["y", "set", "support"], {"x": rows})
        np.testing.assert_allclose(y, model.predict_proba(rows), atol=1e-5)
        assert (sets == model.predict_set(rows, 0.8)).sum() >= 0.999 * sets.size
        np.testing.assert_allclose(support, model.support(rows), atol=1e-6)


def test_missing_values_monotone_bumps_and_several_targets(tmp_path):
    known = X.copy()
    known[::9, 1] = np.nan
    model = AtlasRegressor(**SMALL, missing="learn", monotonic_cst=[0, 0, 1])
    model.fit(known, np.column_stack([Y + X[:, 2], -10 * Y]))
    rows = ROWS.copy()
    rows[::7, 1] = np.nan
    session = session_of(EstimatorModule(model, coverage=0.9, support=True), tmp_path)
    found = session.run(None, {"x": rows})
    expected = [model.predict(rows), *model.predict_interval(rows, 0.9), model.support(rows)]
    for answer, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(answer, right, rtol=0, atol=5e-5 * model.target_scale_.max())


def test_counts(tmp_path):
    model = AtlasRegressor(**SMALL, loss="poisson").fit(X, RANDOM.poisson(np.exp(X[:, 1])))
    found = session_of(EstimatorModule(model, coverage=0.8), tmp_path).run(None, {"x": ROWS})
    for answer, right in zip(found, [model.predict(ROWS), *model.predict_interval(ROWS, 0.8)], strict=True):
        np.testing.assert_allclose(answer, right, rtol=1e-3, atol=1e-3)


def test_what_an_estimator_refuses_is_nan(tmp_path):
    model = AtlasRegressor(**SMALL, extrapolation="error").fit(X, Y)
    rows = ROWS.copy()
    rows[::7, 1] = np.nan
    (y,) = session_of(EstimatorModule(model), tmp_path).run(None, {"x": rows})
    known = ~np.isnan(rows).any(axis=1)
    known[known] = model.in_domain(rows[known])
    assert (np.isnan(y) == ~known).all()
    np.testing.assert_allclose(y[known], model.predict(rows[known]), atol=1e-4)


def test_a_model_with_a_chart_beyond_the_unit_cube(tmp_path):
    model = oracle.randomize(Atlas(2, 2, 9, 1)).extend([0, -0.5], [1, 1.2])
    points = RANDOM.random((60, 2)) * [0.3, 0.4] + [0.2, 0.7]
    update(model, points, np.ones((60, 2)), epochs=2, density=1, terms=1, random_state=0)
    session = session_of(AtlasModule.from_model(model), tmp_path)
    rows = RANDOM.uniform(*model.domain.T, (200, 2)).astype(np.float32)
    np.testing.assert_allclose(session.run(None, {"x": rows})[0], model(rows), rtol=1e-4, atol=1e-4)


def test_a_module_in_float64(tmp_path):
    module = AtlasModule(2, 2, 9, 1, dtype=torch.float64)
    chart = module.open_chart(torch.rand(9, 2) / 3, density=1, terms=2)
    for table in (module.tables["1"], chart.content.tables["1"]):
        nn.init.normal_(table.weight)
    rows = torch.rand(200, 2, dtype=torch.float64)
    (found,) = session_of(module, tmp_path).run(None, {"x": rows.numpy()})
    np.testing.assert_allclose(found, module(rows).detach(), rtol=1e-12, atol=1e-12)


def test_what_is_computed_twice_is_recorded_once():
    class Twice(nn.Module):
        def forward(self, x):
            return (x + 1).exp() - (x + 1).exp().sum(1, keepdim=True)

    graph = recorded(Twice(), torch.rand(3, 2), "x", ["y"]).graph
    assert [node.op_type for node in graph.node] == ["Add", "Exp", "ReduceSum", "Sub", "Identity"]


def test_what_is_not_known_is_named():
    class Strange(nn.Module):
        def forward(self, x):
            return torch.erf(x)

    with pytest.raises(NotImplementedError, match=r"^an ONNX file cannot be written yet with torch's erf$"):
        recorded(Strange(), torch.rand(3, 2), "x", ["y"])
