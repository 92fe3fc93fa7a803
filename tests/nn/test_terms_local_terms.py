import copy
import pickle

import numpy as np
import pytest
import torch
from local_models import local_model, local_terms, points_near
from sample_modules import OWN_WARNINGS

from atlas_splines import AtlasRegressor
from atlas_splines.model.atlas import state_of
from atlas_splines.model.local_terms import Boxes, BoxRules, LocalTerms
from atlas_splines.nn import AtlasModule, EstimatorModule, export_onnx
from atlas_splines.nn import terms as chunks
from atlas_splines.nn.terms import LocalModule


def close(found, expected, tolerance=1e-5):
    """Whether outputs agree, relative to how far they are spread."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.std(expected))


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_local_terms_cross_the_bridge_both_ways(later, dtype):
    model = local_model(outputs=2, later=later, dtype=dtype)
    X = points_near(model)
    module = AtlasModule.from_model(model)
    close(module(torch.tensor(X)).detach(), model(X))
    back = module.to_model()
    assert back.fingerprint() == model.fingerprint()
    assert (back(X) == model(X)).all()


def test_a_point_finds_the_box_of_the_kernels_in_any_dtype():
    terms = local_terms(rows=3000, most_rows=20)
    module, X = LocalModule(terms), points_near(local_model())
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        assert (module.to(dtype).find(torch.tensor(X)).numpy() == terms.boxes.find(X)).all()
    assert module.depth >= 7


def test_no_change_of_dtype_rounds_them_and_a_checkpoint_has_them():
    model = local_model(later=True)
    X = torch.tensor(points_near(model))
    module = AtlasModule.from_model(model)
    half = copy.deepcopy(module).bfloat16()
    sets = [state_of(each.to_model()).local for each in (half, module)]
    for ours, theirs in zip(*sets, strict=True):
        assert all((a == b).all() for a, b in zip(ours.parts, theirs.parts, strict=True))
    assert half(X).dtype == torch.bfloat16
    cleared = copy.deepcopy(module)
    cleared.reset_parameters()
    assert (cleared(X) == 0).all()
    cleared.load_state_dict(pickle.loads(pickle.dumps(module.state_dict())))
    assert (cleared(X) == module(X)).all()
    assert not list(module.later.parameters())  # frozen, as charts are


def test_a_checkpoint_of_a_deeper_tree_is_walked_to_its_leaves():
    ones, points = np.ones(1, np.float32), np.array([[0.1], [0.3], [0.5], [0.7]], np.float32)
    even = Boxes.of(points, ones, BoxRules(most_rows=1))
    chain = [[0, 1, 2], [-1, 0, -1], [0, 3, 4], [-1, 1, -1], [0, 5, 6], [-1, 2, -1], [-1, 3, -1]]
    deep = Boxes(np.array(chain, np.int32), np.array([0.2, 0, 0.4, 0, 0.6, 0, 0], np.float32))
    weights = np.ones((4, 1), np.float32)
    first, second = (LocalModule(LocalTerms(boxes, ones, points, weights, weights)) for boxes in (even, deep))
    assert (first.depth, second.depth) == (2, 3)
    first.load_state_dict(second.state_dict())
    assert first.find(torch.tensor(points)).tolist() == [0, 1, 2, 3]


def test_rows_in_pieces_give_the_same_outputs_and_derivatives(monkeypatch):
    module = AtlasModule.from_model(local_model(outputs=2, later=True, dtype="float64"))
    X = torch.tensor(points_near(local_model(later=True, dtype="float64"), 300), requires_grad=True)

    def derivatives():
        out = module(X)
        (slopes,) = torch.autograd.grad((out**2).sum(), X, create_graph=True)
        (second,) = torch.autograd.grad((slopes**2).sum(), X)
        return out.detach(), slopes.detach(), second

    whole = derivatives()
    monkeypatch.setattr(chunks, "MOST_NUMBERS", 2000)
    for ours, theirs in zip(derivatives(), whole, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_derivatives_are_those_of_the_outputs():
    module = AtlasModule.from_model(local_model(later=True, dtype="float64"))
    X = torch.rand(30, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.autograd.gradcheck(module, X.requires_grad_())


@pytest.mark.slow
@OWN_WARNINGS
def test_compiled_and_exported_programs_give_the_same_outputs():
    module = AtlasModule.from_model(local_model(later=True))
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend="aot_eager")
    rows = torch.export.Dim("rows")
    program = torch.export.export(module, (torch.rand(3, 3),), dynamic_shapes=({0: rows},)).module()
    for count in (2, 500):
        X = torch.rand(count, 3, generator=torch.Generator().manual_seed(0))
        for fast in (compiled, program):
            torch.testing.assert_close(fast(X), module(X), rtol=1e-5, atol=1e-5)


def test_onnxruntime_gives_the_same_outputs(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    model = local_model(outputs=2, later=True)
    export_onnx(AtlasModule.from_model(model), tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    X = points_near(model)
    for rows in (X, X[:1]):
        (result,) = session.run(["y"], {"x": rows})
        np.testing.assert_allclose(result, model(rows), rtol=0, atol=1e-5 * np.std(model(X)))


def rows_in_time(rows=800, seed=0):
    """Rows sorted by a clock, and what rises with it."""
    random = np.random.default_rng(seed)
    X = np.column_stack([np.arange(rows), random.random((rows, 2))])
    return X, 0.02 * X[:, 0] + np.sin(9 * X[:, 1]) + np.abs(X[:, 2] - 0.5) + random.normal(size=rows)


@pytest.mark.parametrize("extrapolation", ["constant", "linear"])
def test_an_estimator_predicts_the_same_as_a_module_and_an_onnx_file(extrapolation, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    X, y = rows_in_time()
    estimator = AtlasRegressor(extrapolation=extrapolation, random_state=0).fit(X, y)
    state = state_of(estimator.model_)
    assert state.local
    assert state.later is not None
    assert state.later.slopes.any()
    X = np.vstack([X[::7] + np.array(step) for step in ([0, 0, 0], [900, 0, 0], [-300, -2, 0])])
    module = EstimatorModule(estimator, coverage=0.8, support=True)
    export_onnx(module, tmp_path / "model.onnx")
    exported = onnxruntime.InferenceSession(tmp_path / "model.onnx").run(None, {"x": X})
    wanted = [estimator.predict(X), *estimator.predict_interval(X, 0.8), estimator.support(X)]
    # Local terms are summed in float32, in another order there: with long length scales and little noise large
    # weights cancel, here to 2e-5 of the spread. Slopes of a linear continuation are differences of outputs over
    # short steps, and lose more digits.
    tolerance = 3e-5 if extrapolation == "constant" else 1e-3
    for ours, theirs, expected in zip(module(torch.tensor(X)), exported, wanted, strict=True):
        close(ours.detach(), expected, tolerance)
        close(theirs, expected, tolerance)
