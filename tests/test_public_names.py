"""What users see: the names of the package, and the members of what it gives them."""

import dataclasses

import numpy as np
import pytest

import atlas_splines
from atlas_splines import Atlas, AtlasClassifier, AtlasRegressor, ColumnFootprint, Footprint, analysis
from atlas_splines.dask import DaskAtlasClassifier, DaskAtlasRegressor
from atlas_splines.model.charts import Chart

SCIKIT_LEARN = {
    *("fit", "partial_fit", "predict", "score", "get_params", "set_params", "get_metadata_routing"),
    *("set_fit_request", "set_partial_fit_request", "set_score_request"),
}
ESTIMATOR = SCIKIT_LEARN | {
    *("fit_more", "forget", "revert", "consolidate", "footprint", "update_log_", "column_names", "in_domain"),
    *("reach", "feature_importances_", "interaction_strengths", "support"),
}
DASK_ESTIMATOR = SCIKIT_LEARN | {
    "client_",
    "to_local",
    "partial_fit_each",
    "revert",
    "footprint",
    "update_log_",
}
MEMBERS = {
    Atlas: {
        *("inputs", "outputs", "terms", "density", "trainable", "damping", "dtype", "domain", "is_extended"),
        *("f", "g", "h", "n_parameters", "n_trainable", "nbytes", "charts", "gradient", "fingerprint"),
        *("revert", "expand", "extend", "copy"),
    },
    Chart: {"update", "window", "content", "size", "replaces"},
    Footprint: {"domain", "dtype", "inputs", "contains", "intervals", "volume", "share", "known_rows"},
    ColumnFootprint: {
        *("domain", "dtype", "inputs", "contains", "intervals", "volume", "share", "known_rows"),
        *("area", "columns", "names", "known"),
    },
    AtlasRegressor: ESTIMATOR | {"predict_interval", "set_predict_request"},
    AtlasClassifier: ESTIMATOR
    | {"decision_function", "predict_proba", "predict_log_proba", "add_classes", "predict_set"},
    DaskAtlasRegressor: DASK_ESTIMATOR | {"predict_interval"},
    DaskAtlasClassifier: DASK_ESTIMATOR | {"predict_proba"},
}


def public(names):
    return {name for name in names if not name.startswith("_")}


@pytest.mark.parametrize("thing", MEMBERS, ids=lambda thing: thing.__name__)
def test_members(thing):
    fields = {field.name for field in dataclasses.fields(thing)} if dataclasses.is_dataclass(thing) else set()
    assert public(dir(thing)) | fields == MEMBERS[thing]


def test_attributes_of_a_model():
    assert public(vars(Atlas(inputs=1))) == {"updates"}


@pytest.mark.parametrize(
    ("kind", "learned"),
    [(AtlasRegressor, {"target_mean_", "target_scale_"}), (AtlasClassifier, {"classes_"})],
)
def test_attributes_of_an_estimator(kind, learned):
    model = kind(members=1, terms=0, density=0, max_iter=1, features=0)
    assert public(vars(model)) == set(model.get_params())
    model.fit(np.eye(4), [0, 1, 0, 1])
    learned = learned | {"model_", "domain_", "n_features_in_", "n_iter_", "validation_loss_", "fit_record_"}
    learned.add("ledger_")
    assert public(vars(model)) == set(model.get_params()) | learned


def test_names_of_the_package():
    assert set(atlas_splines.__all__) == {
        *("Atlas", "train", "Trainer", "History", "TrainingDiverged"),
        *("update", "footprint", "consolidate", "Update", "Consolidation", "Footprint", "ColumnFootprint"),
        *("Folded", "export_log", "UpdateRefused", "UpdateWarning"),
        *("AtlasRegressor", "AtlasClassifier"),
        *("save", "load", "lock", "StorageError"),
    }
    assert set(analysis.__all__) == {
        *("sparsity", "gradient_norm", "gradient_bound", "orthogonality_distance", "overlap"),
        *("expected_off_target", "from_polynomial", "variance_shares", "VarianceShares"),
    }
