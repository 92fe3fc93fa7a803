"""Models in MLflow: saved, logged and loaded as a flavour of their own, and every update as a run.

Needs the extra ``mlflow``. What MLflow keeps is the model's one file, with its log and its rows, so that a
version that was registered can be updated, reverted and forgotten from like any other.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mlflow
import mlflow.pyfunc
import numpy as np
from mlflow.models import Model, ModelSignature
from mlflow.models.model import MLMODEL_FILE_NAME, ModelInfo
from mlflow.models.utils import _save_example
from mlflow.tracking.artifact_utils import _download_artifact_from_uri
from mlflow.types import ColSpec, DataType, ParamSchema, ParamSpec, Schema, TensorSpec
from mlflow.utils.environment import _mlflow_conda_env
from mlflow.utils.file_utils import write_to

import atlas_splines
from atlas_splines.estimators.classifier import AtlasClassifier
from atlas_splines.estimators.table_model import Estimator, TableModel
from atlas_splines.io.log_export import log_lines
from atlas_splines.io.save_load import load, save
from atlas_splines.versions import version

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FLAVOUR", "load_model", "log_model", "log_updates", "save_model", "signature_of"]

FLAVOUR = "atlas_splines"
FILE = "model.atlas"
REQUIREMENTS = "requirements.txt"

# What a request to a served model may ask besides predictions. A coverage of 0 asks for no interval.
PARAMS = ParamSchema(
    [ParamSpec("interval", DataType.double, 0.0), ParamSpec("support", DataType.boolean, False)]
)

# Figures of an entry of the log that are metrics of its run, and texts that are tags.
METRICS = ("error_before", "error_after", "seconds", "known_rows", "volume", "rows")
TAGS = ("kind", "author", "message", "reason", "caution", "measure", "before", "after", "data", "reverted")
LONGEST_TAG = 4000  # characters


def save_model(
    model: Estimator | TableModel,
    path: str | Path,
    *,
    mlflow_model: Model | None = None,
    signature: ModelSignature | None = None,
    input_example: Any = None,
    pip_requirements: list[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Save a fitted estimator as an MLflow model, which `mlflow.pyfunc` loads as well.

    Parameters
    ----------
    model
        An `AtlasRegressor`, an `AtlasClassifier`, or what the command has fitted.
    path
        The folder, which must be new or empty.
    mlflow_model
        The description to be completed.
    signature
        Types of the columns; by default as `signature_of` finds them.
    input_example
        Some rows, such as the first of the table.
    pip_requirements
        What has to be installed; by default this version of atlas-splines with what its tables need.
    metadata
        Whatever shall be kept with the description.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np, pandas as pd
    >>> from atlas_splines import AtlasRegressor
    >>> X = pd.DataFrame({"size": np.linspace(30, 200, 60)})
    >>> model = AtlasRegressor(members=1, random_state=0).fit(X, 2 * X["size"])
    >>> path = tempfile.mkdtemp() + "/homes"
    >>> save_model(model, path)
    >>> bool((mlflow.pyfunc.load_model(path).predict(X) == model.predict(X)).all())
    True
    """
    folder = Path(path)
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty; give a new folder")
    estimator = frames_of(model)
    folder.mkdir(parents=True, exist_ok=True)
    save(model, folder / FILE)
    described = Model() if mlflow_model is None else mlflow_model
    described.signature = signature_of(model) if signature is None else signature
    if input_example is not None:
        _save_example(described, input_example, str(folder))
    if metadata is not None:
        described.metadata = dict(metadata)
    described.add_flavor(
        FLAVOUR,
        data=FILE,
        atlas_splines_version=atlas_splines.__version__,
        model_version=version(model),
        kind=type(estimator).__name__,
        code=None,
    )
    needs = default_requirements() if pip_requirements is None else pip_requirements
    mlflow.pyfunc.add_to_model(
        described, loader_module=__name__, data=FILE, python_env=None, conda_env="conda.yaml"
    )
    _mlflow_conda_env(str(folder / "conda.yaml"), additional_pip_deps=needs)
    write_to(str(folder / REQUIREMENTS), "".join(f"{line}\n" for line in needs))
    described.save(str(folder / MLMODEL_FILE_NAME))


def default_requirements() -> list[str]:
    """What a model needs to be loaded and to predict."""
    return [f"atlas-splines=={atlas_splines.__version__}", "mlflow-skinny", "pandas>=2.0"]


def log_model(
    model: Estimator | TableModel,
    name: str = "model",
    *,
    registered_model_name: str | None = None,
    **options: Any,
) -> ModelInfo:
    """Log a fitted estimator to the active run, and maybe register it.

    Parameters
    ----------
    model
        As in `save_model`.
    name
        What the model is called in the run.
    registered_model_name
        Under which name it becomes a version in the registry.
    options
        As in `save_model`.

    Returns
    -------
    mlflow.models.model.ModelInfo
        Where it is; ``model_uri`` is what `load_model` takes.
    """
    flavour = sys.modules[__name__]
    return Model.log(
        artifact_path=None,
        name=name,
        flavor=flavour,
        registered_model_name=registered_model_name,
        model=model,
        **options,
    )


def load_model(model_uri: str, dst_path: str | None = None) -> Any:
    """Load a model that `save_model` or `log_model` wrote, with its log: it can be updated and reverted.

    Parameters
    ----------
    model_uri
        Where it is, such as ``models:/homes/3`` or a folder.
    dst_path
        Folder to load it into, if it has to be fetched.

    Returns
    -------
    AtlasRegressor, AtlasClassifier or TableModel
        What was saved.
    """
    folder = Path(_download_artifact_from_uri(artifact_uri=model_uri, output_path=dst_path))
    flavours = Model.load(str(folder / MLMODEL_FILE_NAME)).flavors
    if FLAVOUR not in flavours:
        raise ValueError(f"{model_uri} is no model of atlas-splines; it has {', '.join(flavours)}")
    return load(folder / flavours[FLAVOUR]["data"])


def signature_of(model: Estimator | TableModel) -> ModelSignature:
    """Types of the columns and of the predictions, and what may be asked besides.

    Columns may be left out, or hold missing values, if the model takes these.
    """
    estimator = frames_of(model)
    is_classifier = isinstance(estimator, AtlasClassifier)
    classes = estimator.classes_ if isinstance(estimator, AtlasClassifier) else None
    kind = DataType.double
    if classes is not None:
        kinds = {"b": DataType.boolean, "i": DataType.long, "u": DataType.long, "f": DataType.double}
        kind = kinds.get(classes.dtype.kind, DataType.string)
    if not hasattr(estimator, "feature_names_in_"):
        inputs = Schema([TensorSpec(np.dtype(np.float64), (-1, estimator.n_features_in_))])
        # MLflow takes no parameters beside tensors of classes of texts
        return ModelSignature(inputs, Schema([ColSpec(kind)]), None if is_classifier else PARAMS)
    required = estimator.missing != "learn"
    columns = [ColSpec(_type_of(estimator, name), name, required=required) for name in estimator.column_names]
    return ModelSignature(Schema(columns), Schema([ColSpec(kind)]), PARAMS)


def _type_of(estimator: Estimator, name: str) -> DataType:
    """Type of a column, as MLflow has it; dates come as texts too."""
    if not hasattr(estimator, "encoding_"):
        return DataType.double
    column = next(each for each in estimator.encoding_.columns if each.name == name)
    is_number = column.categories is None and column.calendar is None
    return DataType.double if is_number else DataType.string


def log_updates(model: Estimator | TableModel, *, after: int = 0) -> list[str]:
    """Log every update in a model's log as a run of the active experiment; returns the new runs.

    Its tags are the versions before and after, the digest of its rows, who made it and why, what was done,
    and a caution if there was one; its metrics are the errors, rows and footprint. A run of the same update
    is not made twice.

    Parameters
    ----------
    model
        As in `save_model`.
    after
        Only updates with a larger number.
    """
    runs = []
    for line in log_lines(model, after):
        entry = json.loads(line)
        if entry["id"] == 0:  # the oldest ones, folded into one
            continue
        same = f"tags.`atlas.update` = '{entry['id']}' and tags.`atlas.after` = '{entry['after']}'"
        known = mlflow.search_runs(filter_string=same, output_format="list", max_results=1)
        if not known:
            runs.append(_log_entry(entry))
    return runs


def _log_entry(entry: Mapping[str, Any]) -> str:
    """One entry of the log as a run."""
    tags = {"atlas.update": str(entry["id"])}
    tags |= {f"atlas.{name}": str(entry[name])[:LONGEST_TAG] for name in TAGS if entry.get(name)}
    found = {name: float(entry[name]) for name in METRICS if entry.get(name) is not None}
    held_out = entry.get("held_out")
    if held_out:
        found |= {f"held_out_{name}": float(held_out[name]) for name in ("error", "baseline", "score")}
    name = f"update {entry['id']}" if entry.get("footprint") else f"{entry['kind']} {entry['id']}"
    is_nested = mlflow.active_run() is not None
    with mlflow.start_run(run_name=name, tags=tags, nested=is_nested) as run:
        mlflow.log_metrics(found)
        if entry.get("footprint"):
            mlflow.log_dict(dict(entry["footprint"]), "footprint.json")
        return str(run.info.run_id)


def frames_of(model: Estimator | TableModel) -> Estimator:
    """The estimator that takes the columns of the user."""
    return model.for_frames() if isinstance(model, TableModel) else model


# --- pyfunc -----------------------------------------------------------------------------------------------


class ServedModel:
    """What `mlflow.pyfunc` calls.

    Parameters
    ----------
    model
        What a file holds.
    """

    def __init__(self, model: Estimator | TableModel) -> None:
        self.model = model
        self._estimator = frames_of(model)

    def predict(self, X: Any, params: Mapping[str, Any] | None = None) -> Any:
        """Predictions; as columns of a frame with intervals or support, if these are asked for."""
        asked = params or {}
        coverage, support = float(asked.get("interval") or 0), bool(asked.get("support"))
        estimator, rows = self._estimator, self._completed(X)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            predictions = estimator.predict(rows)
            if not (coverage or support):
                return predictions
            return self._frame(rows, predictions, coverage, support)

    def _completed(self, X: Any) -> Any:
        """A frame with the columns of the model, in their order; those that it lacks are missing."""
        estimator = self._estimator
        if estimator.missing != "learn" or not hasattr(X, "reindex"):
            return X
        return X.reindex(columns=list(estimator.column_names))

    def _frame(self, rows: Any, predictions: Any, coverage: float, support: bool) -> pd.DataFrame:
        import pandas as pd

        columns: dict[str, Any] = {"prediction": predictions}
        estimator = self._estimator
        if coverage and isinstance(estimator, AtlasClassifier):
            sets = estimator.predict_set(rows, coverage)
            columns["set"] = [list(estimator.classes_[held]) for held in sets]
        elif coverage:
            columns["low"], columns["high"] = estimator.predict_interval(rows, coverage)
        if support:
            columns["support"] = estimator.support(rows)
        return pd.DataFrame(columns)


def _load_pyfunc(path: str) -> ServedModel:
    """What MLflow asks a flavour for."""
    file = Path(path)
    loaded: Any = load(file / FILE if file.is_dir() else file)
    return ServedModel(loaded)
