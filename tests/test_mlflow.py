"""Models in MLflow, with a local store of files."""

import json
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
from command import homes

from atlas_splines import AtlasClassifier, AtlasRegressor
from atlas_splines.versions import version

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"  # tests tell nobody anything
pd = pytest.importorskip("pandas")
with warnings.catch_warnings():  # MLflow warns of its own types when it is imported
    warnings.simplefilter("ignore")
    mlflow = pytest.importorskip("mlflow", reason="needs the extra mlflow")
    from atlas_splines import mlflow as flavour

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore", "error:::atlas_splines"),  # MLflow has many of its own
]
KNOWN = ["size", "age", "city", "garden"]


def frame(rows=150, seed=0):
    table = pd.DataFrame(homes(rows, seed=seed), columns=[*KNOWN, "price"])
    return table.assign(age=pd.to_numeric(table["age"]).astype(float))


@pytest.fixture(scope="module")
def table():
    return frame()


@pytest.fixture(scope="module")
def model(table):
    return AtlasRegressor(missing="learn", random_state=0).fit(table[KNOWN], table["price"])


@pytest.fixture(autouse=True)
def apart(tmp_path, monkeypatch):
    """What MLflow writes beside what it is told to goes where the files of the test are."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def tracking(tmp_path, monkeypatch):
    """A store of its own."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    mlflow.set_experiment("homes")
    yield tmp_path
    mlflow.set_tracking_uri(before)


def test_a_model_comes_back_whole(model, table, tmp_path):
    flavour.save_model(model, tmp_path / "m", input_example=table[KNOWN].head(3))
    again = flavour.load_model(str(tmp_path / "m"))
    assert version(again) == version(model)
    served = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    assert (served.predict(table[KNOWN]) == model.predict(table[KNOWN])).all()
    assert [column.name for column in served.metadata.get_input_schema()] == KNOWN
    assert served.metadata.flavors["atlas_splines"]["model_version"] == version(model)
    (line, *_) = (tmp_path / "m" / "requirements.txt").read_text().splitlines()
    assert line.startswith("atlas-splines==")
    with pytest.raises(FileExistsError, match="is not empty; give a new folder"):
        flavour.save_model(model, tmp_path / "m")


def test_what_else_is_asked_comes_as_columns(model, table, tmp_path):
    flavour.save_model(model, tmp_path / "m")
    served = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    some = table[KNOWN].head(5)
    found = served.predict(some, params={"interval": 0.9, "support": True})
    low, high = model.predict_interval(some, 0.9)
    assert list(found.columns) == ["prediction", "low", "high", "support"]
    assert (found["low"] == low).all()
    assert (found["high"] == high).all()
    assert (found["support"] == model.support(some)).all()


def test_missing_values_and_columns_are_predicted_as_such(model, table, tmp_path):
    flavour.save_model(model, tmp_path / "m")
    served = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    some = table[KNOWN].head(5)
    blank = some.assign(city=None)
    assert (served.predict(some.drop(columns="city")) == model.predict(blank)).all()


def test_what_the_command_fitted_is_a_model_too(table, tmp_path):
    from command import ok

    from atlas_splines import TableModel, load

    table.to_csv(tmp_path / "homes.csv", index=False)
    ok("fit", tmp_path / "homes.csv", "-t", "price", "-o", tmp_path / "homes.atlas")
    loaded = load(tmp_path / "homes.atlas")
    flavour.save_model(loaded, tmp_path / "m")
    again = flavour.load_model(str(tmp_path / "m"))
    assert isinstance(again, TableModel)
    served = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    assert (served.predict(table[KNOWN]) == loaded.for_frames().predict(table[KNOWN])).all()


def test_arrays_and_classes_have_signatures(tmp_path):
    random = np.random.default_rng(0)
    X = random.random((80, 2))
    numbers = AtlasRegressor(random_state=0).fit(X, X[:, 0])
    classes = AtlasClassifier(random_state=0).fit(X, np.where(X[:, 0] > 0.5, "high", "low"))
    for name, model in (("numbers", numbers), ("classes", classes)):
        flavour.save_model(model, tmp_path / name)
        served = mlflow.pyfunc.load_model(str(tmp_path / name))
        assert (served.predict(X) == model.predict(X)).all()
    frame = pd.DataFrame(X, columns=["a", "b"])
    named = AtlasClassifier(random_state=0).fit(frame, np.where(X[:, 0] > 0.5, "high", "low"))
    flavour.save_model(named, tmp_path / "named")
    found = mlflow.pyfunc.load_model(str(tmp_path / "named")).predict(frame.head(2), params={"interval": 0.9})
    assert found["set"].map(list).tolist() == [
        [label for label, held in zip(["high", "low"], row, strict=True) if held]
        for row in named.predict_set(frame.head(2), 0.9)
    ]


def test_other_models_are_refused(tmp_path):
    mlflow.pyfunc.save_model(
        str(tmp_path / "m"), python_model=lambda model_input: model_input, pip_requirements=[]
    )
    with pytest.raises(ValueError, match="is no model of atlas-splines; it has python_function"):
        flavour.load_model(str(tmp_path / "m"))


def test_a_model_and_its_updates_are_logged(model, table, tracking):
    taught = flavour.load_model(save(model, tracking / "first"))
    new = frame(40, seed=1)
    taught.partial_fit(new[KNOWN], new["price"], author="Ada", message="May", assess=True)
    taught.revert(1)
    with mlflow.start_run() as run:
        found = flavour.log_model(taught, "homes", input_example=table[KNOWN].head(2))
    assert version(flavour.load_model(found.model_uri)) == version(taught)
    runs = flavour.log_updates(taught)
    assert len(runs) == 2
    assert flavour.log_updates(taught) == []  # they are there already
    first = mlflow.get_run(runs[0])
    record = taught.update_log_[0]
    assert first.data.tags["atlas.author"] == "Ada"
    assert first.data.tags["atlas.message"] == "May"
    assert first.data.tags["atlas.before"] == record.before
    assert first.data.tags["atlas.data"] == record.data
    assert first.data.metrics["error_before"] == record.error_before
    assert first.data.metrics["held_out_error"] == record.held_out.error
    assert mlflow.get_run(runs[1]).data.tags["atlas.kind"] == "revert"
    assert run.info.run_id not in runs


def save(model, path):
    flavour.save_model(model, path)
    return str(path)


def test_the_command_of_mlflow_predicts(model, table, tmp_path):
    flavour.save_model(model, tmp_path / "m")
    some = table[KNOWN].dropna().head(3)
    (tmp_path / "rows.json").write_text(json.dumps({"dataframe_split": some.to_dict(orient="split")}))
    command = [
        sys.executable,
        "-m",
        "mlflow",
        "models",
        "predict",
        "-m",
        str(tmp_path / "m"),
        "--env-manager",
        "local",
    ]
    done = subprocess.run(
        [*command, "-i", str(tmp_path / "rows.json"), "-o", str(tmp_path / "out.json")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads((tmp_path / "out.json").read_text())["predictions"] == model.predict(some).tolist()
