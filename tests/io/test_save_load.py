import ast
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mutations import (
    SEALED,
    kept_classifier,
    kept_regressor,
    monotone_regressor,
    outputs_of,
    pooled_regressor,
    rows_to_predict,
    small_classifier,
    small_model,
    small_regressor,
    small_table_model,
)

from atlas_splines import AtlasClassifier, StorageError, load, save
from atlas_splines.files import archive, compression, fields, writer
from atlas_splines.files import compression as tables
from atlas_splines.files import writer as errors
from atlas_splines.io import (
    bare_models,
    estimators,
    local_memory,
    logs,
    models,
)
from atlas_splines.io import (
    memory as pooled,
)
from atlas_splines.io import (
    save_load as saving,
)
from atlas_splines.io import (
    upgrade as upgrading,
)
from atlas_splines.model.atlas import state_of

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture(scope="module")
def all_bytes(rich_bytes, tmp_path_factory):
    """Files of each kind."""
    path, found = tmp_path_factory.getbasetemp() / "kind.atlas", [rich_bytes]
    things = small_regressor(), small_classifier(), small_table_model(), pooled_regressor()
    for thing in (*things, monotone_regressor(), kept_regressor(), kept_classifier()):
        save(thing, path)
        found.append(path.read_bytes())
    return found


@pytest.mark.parametrize("golden", sorted(GOLDEN.glob("*.atlas")), ids=lambda path: path.stem)
def test_files_of_every_version_load(golden):
    loaded, expected = load(golden), np.load(golden.with_suffix(".npz"))
    model = getattr(loaded, "model_", loaded)
    tolerance = 1e-5 if model.dtype == np.float32 else 1e-12  # another processor may round otherwise
    same = slice(None)
    if getattr(loaded, "extrapolation", "") == "linear":  # it goes less far than when these were written
        same = loaded.in_domain(rows_to_predict(loaded))
        assert same.sum() > 10
    outputs = outputs_of(loaded)[same]
    np.testing.assert_allclose(outputs, expected["outputs"][same], rtol=tolerance, atol=tolerance)
    assert state_of(model).table.tobytes() == expected["table"].tobytes()


def test_there_are_golden_files_of_every_version():
    versions = {path.stem.rpartition("_v")[2] for path in GOLDEN.glob("*.atlas")}
    assert versions == {str(version) for version in range(1, archive.VERSION + 1)}


def test_nothing_in_a_file_is_run():
    storage = (bare_models, estimators, pooled, local_memory, logs, models, saving, upgrading)
    for module in (archive, compression, errors, fields, tables, writer, *storage):
        tree = ast.parse(Path(module.__file__).read_text(encoding="utf8"))
        names = {
            alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
        }
        names |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        called = {
            node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and hasattr(node.func, "id")
        }
        assert not {"pickle", "marshal", "shelve", "importlib", "joblib"} & names
        assert not {"eval", "exec", "compile", "__import__"} & called


@pytest.mark.slow
@settings(max_examples=300)
@given(seed=st.integers(0, 2**32), mutate=st.sampled_from(SEALED), which=st.integers(0, 7))
def test_edited_files_are_refused_or_valid(seed, mutate, which, all_bytes, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "fuzz.atlas"
    path.write_bytes(mutate(Random(seed), all_bytes[which]))
    try:
        loaded = load(path)
    except StorageError:
        return
    before = outputs_of(loaded)
    save(loaded, path)
    np.testing.assert_array_equal(outputs_of(load(path)), before)


def test_a_model_that_could_not_be_loaded_is_not_written(path):
    save(small_model(), path)
    broken = small_model()
    state_of(broken).table[1, 1] = np.nan
    with pytest.raises(StorageError) as caught:
        save(broken, path)
    assert (
        str(caught.value) == f"{path} was not written: tensor 'model.table' holds nan; mend the model first"
    )
    assert load(path).fingerprint() == small_model().fingerprint()
    with pytest.raises(
        TypeError,
        match="save takes an Atlas, an AtlasRegressor or an AtlasClassifier, not dict",
    ):
        save({}, path)


def test_a_classifier_of_many_classes_is_of_the_size_of_what_it_knows(path):
    """Its table has a column for each class and radial basis function; the file has each of these once."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(400, 6)), np.arange(400) % 50
    model = AtlasClassifier(random_state=0).fit(X + 2 * random.normal(size=(50, 6))[y], y)
    save(model, path)
    assert state_of(model.model_).table.nbytes > 5e6
    assert path.stat().st_size < 4e6
    assert (load(path).predict_proba(X) == model.predict_proba(X)).all()
    updated = model.partial_fit(X[:50], y[:50])
    save(updated, path)
    assert path.stat().st_size < 8e6
    assert (load(path).predict_proba(X) == updated.predict_proba(X)).all()
