import json
import subprocess
import sys
import textwrap

import numpy as np
import oracle
import pytest
from command import HEADER, SMALL, estimator_of, files, homes, inputs_of, ok, records, refused, write_csv
from local_models import local_model

from atlas_splines import Atlas, AtlasRegressor, load, save
from atlas_splines.cli import export


def session_of(path):
    return pytest.importorskip("onnxruntime").InferenceSession(path)


def encoded(path, data):
    """Inputs of a model, as ONNX takes them, for a table."""
    frame = inputs_of(path, data)
    return np.column_stack([frame[name].to_numpy() for name in frame.column_names])


@pytest.mark.slow
def test_an_exported_regressor_predicts_the_same(work):
    write_csv("far.csv", HEADER, homes(60, 150, 260, factor=3, seed=2))
    assert "Domain: size is now" in ok("update", "m.atlas", "far.csv", "--retention", "chart").output
    before = files(work)
    output = ok("export", "m.atlas", "m.onnx").output
    assert output.splitlines()[:-1] == [
        "Input X (rows, 6), float64; output y, float64: the predicted 'price'.",
        "X[:, 0]  size         the number; NaN if missing",
        "X[:, 1]  age          the number; NaN if missing",
        "X[:, 2]  city=Aarhus  1 for 'Aarhus', or else 0",
        "X[:, 3]  city=Bergen  1 for 'Bergen', or else 0",
        "X[:, 4]  city=Cadiz   1 for 'Cadiz', or else 0",
        "X[:, 5]  garden       0 for 'no', 1 for 'yes'; 0.5 if missing",
    ]
    after = files(work)
    size = len(after.pop("m.onnx"))
    assert output.splitlines()[-1] == (
        f"m.onnx has {size:,} bytes; its metadata: 'columns', 'encoding', 'target'."
    )
    assert after == before
    session, model = session_of("m.onnx"), estimator_of("m.atlas")
    metadata = session.get_modelmeta().custom_metadata_map
    assert metadata["target"] == "price"
    assert json.loads(metadata["columns"]) == model.feature_names_in_.tolist()
    assert json.loads(metadata["encoding"]) == load("m.atlas").encoding_.to_json()
    for name in ("homes.csv", "new.csv", "far.csv"):
        ok("predict", "m.atlas", name, "-o", "out.csv")
        expected = np.array([float(row["price_predicted"]) for row in records("out.csv")])
        X = encoded("m.atlas", name)
        (result,) = session.run(["y"], {"X": X})
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5 * model.target_scale_[0])
        (one,) = session.run(["y"], {"X": X[:1]})
        assert one == pytest.approx(result[:1], rel=1e-6)


@pytest.mark.slow
def test_an_exported_classifier_gives_the_same_probabilities(work):
    ok("fit", "homes.csv", "--target", "city", "-o", "c.atlas", "--extrapolation", "error", *SMALL)
    output = ok("export", "c.atlas", "c.onnx").output
    assert "for each class of 'city' its probability, in the order 'Aarhus', 'Bergen', 'Cadiz'.\n" in output
    assert "\nOutside the domain y is NaN.\n" in output
    session = session_of("c.onnx")
    assert json.loads(session.get_modelmeta().custom_metadata_map["classes"]) == ["Aarhus", "Bergen", "Cadiz"]
    ok("predict", "c.atlas", "homes.csv", "-o", "out.csv", "--probabilities")
    expected = [[float(row[f"city={c}"]) for c in ("Aarhus", "Bergen", "Cadiz")] for row in records("out.csv")]  # fmt: skip
    X = encoded("c.atlas", "homes.csv")
    np.testing.assert_allclose(session.run(["y"], {"X": X})[0], expected, atol=1e-5)
    X[0, 0] = 1e4
    assert np.isnan(session.run(["y"], {"X": X})[0]).any(axis=1).tolist() == [True] + [False] * (len(X) - 1)


@pytest.mark.slow
def test_an_exported_bare_model_computes_the_same(work):
    model = oracle.randomize(Atlas(2, terms=1, density=1)).extend([0, 0], [1, 1.5])
    save(model, "bare.atlas")
    assert ok("export", "bare.atlas", "bare.onnx").output.splitlines()[:-1] == [
        "Input X (rows, 2), float32; output y (rows, 1), float32.",
        "X[:, 0]  0 to 1",
        "X[:, 1]  0 to 1.6",
        "Beyond these ends the nearest point counts.",
    ]
    X = (np.random.default_rng(0).random((50, 2)) * [1, 1.6]).astype(np.float32)
    (result,) = session_of("bare.onnx").run(["y"], {"X": X})
    np.testing.assert_allclose(result, model(X), rtol=1e-5, atol=1e-5)


def test_the_lines_of_an_estimator_without_a_table():
    X = np.random.default_rng(0).random((60, 2))
    model = AtlasRegressor(members=1, max_iter=1, density=0, terms=0).fit(X, X[:, 0])
    assert export.estimator_lines(model, None) == [
        "Input X (rows, 2), float64; output y, float64: the predicted target.",
        "X[:, 0]  column 0  the number",
        "X[:, 1]  column 1  the number",
    ]
    assert export.onnx_metadata(model, None) == {"columns": '["column 0", "column 1"]'}


def test_an_export_of_a_model_that_holds_rows_says_so():
    assert export.held_lines(Atlas(2)) == []
    for later in (False, True):
        assert export.held_lines(local_model(later=later)) == [
            "Training data is in the file: 300 points, which are rows as they go into X, mapped to the unit "
            "cube, and weights that depend on their targets. A model fitted with memory='sums' has none."
        ]


def test_what_cannot_be_exported_is_refused(work, monkeypatch):
    before = files(work)
    assert refused("export", "m.atlas", "m.txt") == (
        "m.txt cannot be written: the name of an ONNX file ends in .onnx"
    )
    assert refused("export", "x.atlas", "m.onnx") == "x.atlas does not exist or is not a file; check the name"
    assert refused("export", "m.atlas", "no/m.onnx") == (
        "no/m.onnx cannot be written: there is no folder no; check the name"
    )
    (work / "m.atlas").rename("m.onnx")
    assert "m.onnx is the model itself" in refused("export", "m.onnx", "m.onnx")
    (work / "m.onnx").rename("m.atlas")
    needs = "writing ONNX needs more packages; install them with: pip install 'atlas-splines[onnx]'"
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert refused("export", "m.atlas", "m.onnx") == needs
    assert files(work) == before


@pytest.mark.slow
def test_without_torch_an_export_is_refused(work):
    code = textwrap.dedent("""
        import sys
        class NoTorch:
            def find_spec(self, name, *rest):
                if name == "torch":
                    raise ModuleNotFoundError("No module named 'torch'", name="torch")
        sys.meta_path.insert(0, NoTorch())
        from atlas_splines.cli.app import app
        app()
    """)
    arguments = [sys.executable, "-c", code, "export", "m.atlas", "m.onnx"]
    result = subprocess.run(arguments, capture_output=True, text=True)
    assert result.returncode == 2
    needs = "writing ONNX needs more packages; install them with: pip install 'atlas-splines[onnx]'"
    assert result.stderr == f"atlas: {needs}\n"


@pytest.mark.slow
def test_intervals_and_support_are_further_outputs(work):
    output = ok("export", "m.atlas", "m.onnx", "--interval", "0.9", "--support").output
    assert output.splitlines()[-3:-1] == [
        "Outputs low and high, float64: between them lies the target of 90% of rows.",
        "Output support, float64: how much evidence stands behind each row, from 0 to 1.",
    ]
    ok("predict", "m.atlas", "homes.csv", "-o", "out.csv", "--interval", "0.9", "--support")
    names = ["price_predicted", "price_low_0.9", "price_high_0.9", "support"]
    expected = np.array([[float(row[name]) for name in names] for row in records("out.csv")])
    found = session_of("m.onnx").run(["y", "low", "high", "support"], {"X": encoded("m.atlas", "homes.csv")})
    scale = estimator_of("m.atlas").target_scale_[0]
    np.testing.assert_allclose(np.column_stack(found), expected, rtol=1e-5, atol=1e-5 * scale)


def test_doubt_that_cannot_be_exported_is_refused(work):
    assert refused("export", "m.atlas", "m.onnx", "--interval", "90") == (
        "coverage must lie between 0 and 1, such as 0.9, not 90.0"
    )
    save(Atlas(inputs=2), "bare.atlas")
    assert refused("export", "bare.atlas", "m.onnx", "--support") == (
        "bare.atlas is a bare model; only a regressor or a classifier knows how sure it is"
    )
