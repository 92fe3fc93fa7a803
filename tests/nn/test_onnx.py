import sys

import level_rows
import numpy as np
import oracle
import pytest
import torch
from sample_modules import (
    OWN_WARNINGS,
    charted_module,
    fitted_regressor,
    points,
    random_module,
    rows_far_and_near,
)

from atlas_splines import Atlas, update
from atlas_splines.nn import AtlasModule, AtlasNet, EstimatorModule, export_onnx
from atlas_splines.nn import onnx as exporting


@pytest.mark.slow
@OWN_WARNINGS
def test_the_exported_program_gives_the_same_outputs():
    module, _ = charted_module()
    rows = torch.export.Dim("rows")
    program = torch.export.export(module, (torch.rand(3, 2),), dynamic_shapes=({0: rows},))
    for count in (1, 100):
        X = points(count, 2, dtype=torch.float32)
        torch.testing.assert_close(program.module()(X), module(X), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["network", "charts beyond", "no terms"])
def test_onnxruntime_gives_the_same_outputs(kind, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    if kind == "charts beyond":
        model = oracle.randomize(Atlas(2, 1, 1, 0))
        X = 0.3 + 0.4 * points(100, 2, seed=3).numpy()
        update(model, X, 3 + X[:, :1], epochs=2, density=1, terms=1, random_state=0)
        module = AtlasModule.from_model(model.extend([-0.4, 0], [1, 1.4]))
    elif kind == "no terms":
        module = AtlasModule.from_model(oracle.randomize(Atlas(2, 2, terms=0, density=1)))
    else:
        module = AtlasNet([2, 3, 1], terms=2, density=2)
        module.layers[1] = random_module(3, 1, 2, 2).expand()
    mode, path = module.training, tmp_path / "model.onnx"
    export_onnx(module, path)
    assert module.training == mode
    session = onnxruntime.InferenceSession(path)
    for count in (1, 1000):
        X = 2 * points(count, 2, dtype=torch.float32) - 0.5
        (result,) = session.run(["y"], {"x": X.numpy()})
        np.testing.assert_allclose(result, module(X).detach(), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_onnxruntime_predicts_what_the_regressor_does(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    estimator, _, _ = fitted_regressor(extrapolation="linear", density=0)
    export_onnx(EstimatorModule(estimator), tmp_path / "model.onnx", metadata={"a": "b"})
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]
    assert b".py" not in (tmp_path / "model.onnx").read_bytes()  # no traces of the machine
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    assert session.get_modelmeta().custom_metadata_map == {"a": "b"}
    X = rows_far_and_near()
    inside = estimator.in_domain(X)
    assert 300 < inside.sum() < 1000
    for rows, tolerance in ((X[:1], 2e-5), (X[inside], 2e-5), (X, 2e-4)):
        (result,) = session.run(["y"], {"x": rows})
        expected = estimator.predict(rows)
        np.testing.assert_allclose(result, expected, rtol=0, atol=tolerance * estimator.target_scale_[0])


def test_what_cannot_be_exported_is_named(tmp_path, monkeypatch):
    path = tmp_path / "model.onnx"
    monkeypatch.setattr(exporting, "MAX_BYTES", 1000)
    with pytest.raises(ValueError, match=r"the module has 0\.0 GiB, but an ONNX file holds at most 2"):
        export_onnx(AtlasModule(2), path)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'atlas-splines\[onnx\]'"):
        export_onnx(AtlasModule(2), path)
    assert list(tmp_path.iterdir()) == []


def test_offsets_of_levels_are_exported(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    estimator = level_rows.fitted().partial_fit(*level_rows.both(100, 1))
    export_onnx(EstimatorModule(estimator), tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    X = np.vstack([level_rows.both(50, 2)[0], level_rows.new_rows(20, 3)[0] + [0, 2**-20]])
    (result,) = session.run(["y"], {session.get_inputs()[0].name: X})
    np.testing.assert_allclose(result, estimator.predict(X), atol=1e-4)
