"""`save` and `load`: a model or an estimator in one file, with its charts and its log.

docs/format.md describes the file. It has no pickle, and no name in it is ever imported.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from atlas_splines.files.archive import Archive, read_archive, sealed
from atlas_splines.files.writer import StorageError, naming, replace_file
from atlas_splines.io.models import model_from_archive, model_to_archive
from atlas_splines.io.upgrade import upgrade
from atlas_splines.model.atlas import Atlas

if TYPE_CHECKING:
    from atlas_splines.estimators.classifier import AtlasClassifier
    from atlas_splines.estimators.regressor import AtlasRegressor
    from atlas_splines.estimators.table_model import TableModel

__all__ = ["content_of", "from_archive", "load", "load_with_table", "save", "to_archive"]

KINDS = ("model", "regressor", "classifier")


def save(model: Atlas | AtlasRegressor | AtlasClassifier | TableModel, path: str | os.PathLike[str]) -> None:
    """Save a model or a fitted estimator, with its charts and its log, to one file.

    The file is replaced atomically: if saving fails, or the machine does, the old file is still there. A
    stream, such as /dev/null or a pipe, is written to and not replaced.

    Parameters
    ----------
    model
        The model or estimator, or an estimator with the encoding of its table.
    path
        The file, by custom with the ending ``.atlas``; a file of that name is replaced.

    Examples
    --------
    >>> import tempfile
    >>> from atlas_splines import Atlas, load, save
    >>> path = tempfile.mkdtemp() + "/model.atlas"
    >>> save(Atlas(inputs=2), path)
    >>> load(path)
    Atlas(inputs=2, outputs=1, terms=10, density=4, trainable='finest', damping=0.0, dtype='float32')
    with 5,208 coefficients, 2,688 of them trainable
    """
    replace_file(path, *content_of(model, path))


def content_of(
    model: Atlas | AtlasRegressor | AtlasClassifier | TableModel, path: str | os.PathLike[str]
) -> tuple[bytes, memoryview]:
    """The bytes of a file of this name, in two parts; raise if they could not be loaded again."""
    if not isinstance(model, Atlas):
        from atlas_splines.io.estimators import check_estimator  # bare models do without scikit-learn

        check_estimator(model)
    try:
        archive = to_archive(model)
        from_archive(archive)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise StorageError(f"{path} was not written: {error}; mend the model first") from error
    return sealed(path, archive)


def load(path: str | os.PathLike[str]) -> Atlas | AtlasRegressor | AtlasClassifier | TableModel:
    """Load a saved model; its predictions are the same bit for bit.

    Everything is checked first. A damaged or malicious file raises a `StorageError`: no code in it runs, and
    it takes no more memory than docs/security.md states.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    Atlas, AtlasRegressor, AtlasClassifier or TableModel
        The saved object. For a file of the command `atlas` it is a `TableModel`: its ``estimator`` predicts
        from numbers, and its ``encoding`` maps the columns of a table to these numbers.

    Examples
    --------
    >>> from atlas_splines import load
    >>> load("missing.atlas")
    Traceback (most recent call last):
    ...
    FileNotFoundError: missing.atlas does not exist; check the name
    """
    loaded = load_with_table(path)
    if isinstance(loaded, Atlas) or not hasattr(loaded, "encoding") or not loaded.encoding.of_frame:
        return loaded
    return loaded.for_frames()


def load_with_table(path: str | os.PathLike[str]) -> Atlas | AtlasRegressor | AtlasClassifier | TableModel:
    """`load` for the command: an estimator that was fitted to a data frame is a `TableModel` too."""
    archive = read_archive(path)
    with naming(path):
        if archive.kind not in KINDS:
            raise ValueError(f"it is of an unknown kind, none of {', '.join(map(repr, KINDS))}")
        upgrade(archive)
        loaded = from_archive(archive)
        archive.check_all_taken()
        return loaded


def to_archive(model: Atlas | AtlasRegressor | AtlasClassifier | TableModel) -> Archive:
    """A model, an estimator or a table model as an archive."""
    if isinstance(model, Atlas):
        return model_to_archive(model)
    from atlas_splines.io.estimators import estimator_to_archive

    return estimator_to_archive(model)


def from_archive(archive: Archive) -> Atlas | AtlasRegressor | AtlasClassifier | TableModel:
    """The content of an archive; raise a ValueError if it is invalid."""
    if archive.kind == "model":
        return model_from_archive(archive)
    from atlas_splines.io.estimators import estimator_from_archive

    return estimator_from_archive(archive)
