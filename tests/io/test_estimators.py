"""Estimators in files, with or without the encoding of a table."""

import copy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from mutations import of_table

from atlas_splines import Atlas, AtlasClassifier, AtlasRegressor, StorageError, load, save
from atlas_splines.files.archive import Archive, read_archive, write_archive
from atlas_splines.model.atlas import state_of
from atlas_splines.tables.encoding import Column, Encoding, frame

GOLDEN = Path(__file__).parents[1] / "golden"

SMALL = {"density": 1, "terms": 2, "members": 2, "max_iter": 20, "features": 30, "random_state": 0}


def data(rows=150, seed=0):
    X = 100 * np.random.default_rng(seed).random((rows, 3))
    X[::7, 1] = np.nan
    return X, X[:, 0] + np.nan_to_num(X[:, 1])


@pytest.fixture(scope="module")
def regressor():
    X, y = data()
    model = AtlasRegressor(missing="learn", **SMALL).fit(X, y)
    model.set_params(retention="chart").partial_fit(X[:60] * 0.2 + 90, y[:60])  # beyond the domain too
    return model.set_params(retention="auto")


@pytest.fixture(scope="module")
def classifier():
    X, y = data()
    return AtlasClassifier(missing="learn", **SMALL).fit(
        X, np.array(["low", "mid", "high"])[np.digitize(y, [60, 110])]
    )


@pytest.mark.slow
def test_a_regressor_comes_back_to_the_bit_and_goes_on(regressor, path):
    save(regressor, path)
    twin = load(path)
    X, y = data(seed=1)
    assert (twin.predict(X) == regressor.predict(X)).all()
    assert twin.get_params() == regressor.get_params()
    assert twin.n_iter_ == regressor.n_iter_
    assert twin.validation_loss_ == regressor.validation_loss_
    assert twin.fit_record_ == regressor.fit_record_
    assert twin.n_features_in_ == 3
    assert not hasattr(twin, "feature_names_in_")
    assert isinstance(twin, AtlasRegressor)
    again = load(path)
    for model in (twin, again):
        model.partial_fit(X[:50], y[:50])
    assert (twin.predict(X) == again.predict(X)).all()
    before = regressor.predict(X)
    assert (twin.revert(2).predict(X) == before).all()
    save(twin, path)
    assert [(record.kind, record.reverted is None) for record in load(path).update_log_] == [
        ("chart", True),
        ("pool", False),
        ("revert", True),
    ]


def test_a_classifier_comes_back_to_the_bit(classifier, path):
    save(classifier, path)
    twin = load(path)
    X, _ = data(seed=1)
    assert (twin.predict_proba(X) == classifier.predict_proba(X)).all()
    assert (twin.predict(X) == classifier.predict(X)).all()
    assert twin.classes_.dtype.kind == "U"


@pytest.mark.parametrize(
    "labels",
    [
        [False, True],
        [0, 7],
        np.array([3, 250], np.uint8),
        [2.0, 5.0],
        ["a", "b"],
        np.array(["a", "bc"], object),
    ],
    ids=["bool", "int", "uint8", "float", "str", "object"],
)
def test_classes_keep_their_type(path, labels):
    X, y = data()
    model = AtlasClassifier(missing="learn", **SMALL)
    model.partial_fit(X, np.asarray(labels)[(y > 90).astype(int)], classes=labels)
    save(model, path)
    assert load(path).classes_.dtype == model.classes_.dtype
    assert load(path).classes_.tolist() == model.classes_.tolist()


def test_names_limits_and_several_targets_come_back(path):
    pandas = pytest.importorskip("pandas")
    X, y = data()
    X = np.nan_to_num(X)
    model = AtlasRegressor(
        **SMALL, domain=[(0, 100), (-5, 100), (0, 200)], loss="huber", learning_rate=np.float64(0.02)
    )
    model.fit(pandas.DataFrame(X, columns=list("abc")), np.column_stack([y, -y]))
    save(model, path)
    twin = load(path)
    assert twin.feature_names_in_.tolist() == ["a", "b", "c"]
    assert twin.domain == [(0, 100), (-5, 100), (0, 200)]
    frame = pandas.DataFrame(X, columns=list("abc"))
    assert (twin.predict(frame) == model.predict(frame)).all()
    assert twin.predict(frame).shape == (150, 2)


@pytest.fixture(scope="module")
def table_model():
    X, y = data()
    columns = tuple(Column(name) for name in "abc")
    model = AtlasRegressor(missing="learn", **SMALL).fit(frame("abc", list(X.T)), y)
    return of_table(model, Encoding(columns, "target"))


def test_an_estimator_of_a_table_comes_back(table_model, path, tmp_path):
    save(table_model, path)
    twin = load(path)
    assert twin.encoding_ == table_model.encoding_
    X = frame("abc", list(data(seed=1)[0].T))
    assert (twin.predict(X) == table_model.predict(X)).all()
    save(twin, tmp_path / "again.atlas")
    assert (tmp_path / "again.atlas").read_bytes() == path.read_bytes()


@pytest.mark.slow
def test_an_estimator_without_a_table_is_loaded_without_tables(regressor, path):
    save(regressor, path)
    code = f"import sys; from atlas_splines import load, save; save(load({str(path)!r}), {str(path)!r}); "
    code += "print('atlas_splines.tables' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "False\n"


def test_what_has_no_place_in_a_file(path):
    X, y = data()
    model = AtlasRegressor(missing="learn", **SMALL).fit(X, y)
    model.set_params(random_state=np.random.RandomState(0))
    with pytest.raises(
        StorageError, match="random_state is a RandomState, which has no place in a file: set a number"
    ):
        save(model, path)
    model.set_params(random_state=None, n_jobs=object())
    with pytest.raises(StorageError, match="n_jobs is a object, which has no place in a file"):
        save(model, path)
    with pytest.raises(ValueError, match="this AtlasRegressor has learned nothing yet; call fit first"):
        save(AtlasRegressor(), path)
    assert not path.exists()


def drop_label(header, tensors):
    header["estimator"]["labels"]["values"].pop()


@pytest.mark.parametrize(
    ("kind", "edit", "says"),
    [
        ("regressor", lambda h, t: h["estimator"].pop("n_iter"), "'n_iter' of 'estimator' of the header is missing"),
        ("regressor", lambda h, t: h.update(more=1), "'more' has no place in the header"),
        ("regressor", lambda h, t: h["estimator"]["parameters"].update(density=-1), "density must be at least 0, not -1"),
        ("regressor", lambda h, t: h["estimator"]["parameters"].update(density="x"), "density must be a whole number"),
        ("regressor", lambda h, t: h["estimator"]["parameters"].update(retention="x"), "retention must be one of"),
        ("regressor", lambda h, t: h["estimator"]["parameters"].update(memory="chart"), "memory must be one of"),
        ("regressor", lambda h, t: h["estimator"]["parameters"].update(max_rows=0), "max_rows must be at least 1, not 0"),
        ("regressor", lambda h, t: h["estimator"]["parameters"].update(features=-1), "features must be at least 0, not -1"),
        ("regressor", lambda h, t: h["estimator"]["parameters"].pop("features"), "'features' of the parameters is missing"),
        ("regressor", lambda h, t: h["estimator"]["parameters"].update(half_life=0), "half_life must be a finite number of at least 1, not 0"),
        ("regressor", lambda h, t: h["estimator"]["parameters"].update(n_jobs="x"), "'n_jobs' of the parameters must be a whole number"),
        ("regressor", lambda h, t: h["estimator"]["parameters"].update(domain=[[1]]), "'domain' of the parameters must be pairs of numbers"),
        ("regressor", lambda h, t: h["estimator"]["parameters"].update(monotonic_cst=[3]), "'monotonic_cst' of the parameters must be -1, 0 or 1 for columns"),
        ("regressor", lambda h, t: h["estimator"]["parameters"].update(monotonic_cst=1), "'monotonic_cst' of the parameters must be -1, 0 or 1 for columns"),
        ("regressor", lambda h, t: h["estimator"]["parameters"].update(loss=[]), "one of the parameters is not a single value"),
        ("regressor", lambda h, t: h["estimator"].update(feature_names=["a"]), "'feature_names' must be 3 texts"),
        ("regressor", lambda h, t: h["estimator"]["fit"].update(rows=-1), "'rows' of the fit must be at least 0"),
        ("regressor", lambda h, t: h["estimator"]["fit"].update(date="x"), "'date' of the fit must be a text like"),
        ("regressor", lambda h, t: h["estimator"]["fit"].update(error="x"), "'error' of the fit must be a finite number"),
        ("regressor", lambda h, t: h["estimator"]["fit"].update(measure="a\n"), "'measure' of the fit must be a text like"),
        ("regressor", lambda h, t: h["estimator"].update(fit={}), "'date' of the fit is missing"),
        ("regressor", lambda h, t: h["estimator"].update(validation_loss=[["x"]]), "'validation_loss' must be lists of numbers"),
        ("regressor", lambda h, t: h["estimator"].update(table=[]), "'table' of 'estimator' of the header must be a JSON object"),
        ("table", lambda h, t: h["estimator"]["table"].update(target=1), "'target' of the table must be a text, not 1"),
        ("table", lambda h, t: h["estimator"]["table"]["columns"].pop(), "its table does not go with its model"),
        ("table", lambda h, t: h["estimator"].update(feature_names=None), "its table does not go with its model"),
        ("regressor", lambda h, t: t.update({"domain.knots": t["domain.knots"][:, ::-1].copy()}), "tensor 'domain.knots' must have rising"),
        ("regressor", lambda h, t: t.update({"domain.indicators": np.array([5])}), "tensor 'domain.indicators' must be rising numbers"),
        ("regressor", lambda h, t: t.update({"domain.indicators": np.array([], np.int64)}), "the model and the domain have different numbers"),
        ("regressor", lambda h, t: t.update({"target.scale": np.array([0.0])}), "tensor 'target.scale' must be positive"),
        ("regressor", lambda h, t: t.update({"target.mean": np.array([1.0, 2.0])}), "tensor 'target.scale' has shape (1,) instead of (2)"),
        ("regressor", lambda h, t: t.update({"target.scale": np.array([1e155])}), "tensor 'target.scale' must be positive, and 1e+154 at most"),
        ("regressor", lambda h, t: t.update({"domain.knots": np.array([[-1e308, 1e308]] * 3)}), "tensor 'domain.knots' must have rising values"),
        ("regressor", lambda h, t: t.update({"domain.knots": np.arange(6).reshape(3, 2) * 5e-324}), "tensor 'domain.knots' must have rising values"),
        ("regressor", lambda h, t: h["estimator"]["parameters"].update(learning_rate=10**400), "its header holds a number of 401 digits"),
        ("regressor", lambda h, t: h["estimator"]["parameters"].update(domain=[[0, 10**400]] * 3), "its header holds a number of 401 digits"),
        ("regressor", lambda h, t: h["estimator"].update(validation_loss=[[10**400]]), "its header holds a number of 401 digits"),
        ("regressor", lambda h, t: t.update(extra=np.zeros(1)), "tensor 'extra' has no place in it"),
        ("classifier", drop_label, "tensor 'estimator.ledger.targets' must be places of classes"),
        ("classifier", lambda h, t: h["estimator"]["labels"].update(values=["b", "a", "c"]), "must be sorted classes"),
        ("classifier", lambda h, t: h["estimator"]["labels"].update(values=[1, 2, 3]), "must all be of type str"),
        ("classifier", lambda h, t: h["estimator"]["labels"].update(dtype="int8", values=[1, 2, 300]), "do not fit into int8"),
        ("classifier", lambda h, t: h["estimator"]["labels"].update(dtype="complex64"), "'dtype' of the labels must be one of"),
    ],
)  # fmt: skip
def test_wrong_files_are_refused(kind, edit, says, path, regressor, classifier, table_model):
    save({"regressor": regressor, "classifier": classifier, "table": table_model}[kind], path)
    archive = read_archive(path)
    edit(archive.header, archive.tensors)
    write_archive(path, Archive(archive.kind, archive.header, archive.tensors))
    with pytest.raises(StorageError) as caught:
        load(path)
    assert says in str(caught.value)
    assert str(caught.value).startswith(f"{path} cannot be loaded: ")


@pytest.mark.parametrize("kind", ["regressor", "classifier"])
def test_the_first_name_of_retention_is_still_read(kind):
    path = GOLDEN / f"{kind}_v1.atlas"
    assert "memory" in read_archive(path).header["estimator"]["parameters"]
    assert load(path).retention == "chart"


@pytest.mark.parametrize("kind", ["regressor", "classifier"])
def test_what_version_1_did_not_know_is_at_its_default(kind):
    assert read_archive(GOLDEN / f"{kind}_v1.atlas").version == 1
    model = load(GOLDEN / f"{kind}_v1.atlas")
    default = type(model)()
    assert (model.features, model.half_life) == (default.features, default.half_life)
    assert state_of(model.model_).pooled is None
    assert all(state_of(chart.content).pooled is None for chart in model.model_.charts)
    assert [record.reason for record in model.update_log_] == [""] * len(model.model_.updates)


def test_a_prediction_that_no_float_holds_is_not_returned(regressor):
    X, _ = data()
    for scale, mean in ((1e308, 0.0), (1.0, 1.7e308)):
        broken = copy.deepcopy(regressor)
        broken.model_ = Atlas(broken.model_.inputs, dtype="float64", terms=0, density=0)
        broken.model_.f(0)[:] = 1e307
        broken.target_scale_, broken.target_mean_ = np.array([scale]), np.array([mean])
        with pytest.raises(OverflowError, match="row 0 is predicted beyond what a float can hold; fit again"):
            broken.predict(X)


def test_one_long_label_does_not_make_all_of_them_long(path, monkeypatch):
    """An array of texts has room for the longest in each place."""
    monkeypatch.setattr("atlas_splines.files.archive.ALLOWANCE", 0)
    save(load(GOLDEN / "classifier_v4.atlas"), path)
    archive = read_archive(path)
    values = archive.header["estimator"]["labels"]["values"]
    archive.header["estimator"]["labels"] |= {
        "dtype": "str",
        "values": [*"abcdefgh"[: len(values) - 1], "z" * 1_000_000],
    }
    write_archive(path, archive)
    with pytest.raises(StorageError, match="bytes of memory, far more than its size"):
        load(path)
