"""Storage: a model or an estimator in one file, with its charts and its log.

docs/format.md describes the file. No pickle, and no name in a file is ever imported.
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

__all__ = ["content_of", "from_archive", "load", "save", "to_archive"]

KINDS = ("model", "regressor", "classifier")


def save(model: Atlas | AtlasRegressor | AtlasClassifier, path: str | os.PathLike[str]) -> None:
    """Save a model or a fitted estimator, with its charts and its log, to one file.

    The file appears all at once: if saving fails, or the machine does, what was there before is still there.
    A stream, such as /dev/null or a pipe, is written into, as by any other program, and not replaced.

    Parameters
    ----------
    model
        The model or estimator.
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
    model: Atlas | AtlasRegressor | AtlasClassifier, path: str | os.PathLike[str]
) -> tuple[bytes, memoryview]:
    """What `save` writes to a file of this name, in two parts; what could not be loaded is not saved."""
    if not isinstance(model, Atlas):
        from atlas_splines.io.estimators import check_estimator  # bare models do without scikit-learn

        check_estimator(model)
    try:
        archive = to_archive(model)
        from_archive(archive)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise StorageError(f"{path} was not written: {error}; mend the model first") from error
    return sealed(path, archive)


def load(path: str | os.PathLike[str]) -> Atlas | AtlasRegressor | AtlasClassifier:
    """Load what `save` wrote; its predictions are the same to the bit.

    Everything is checked first. A file that is damaged, or that was made to do harm, gets a `StorageError`:
    no code in it runs, and it takes no more memory than docs/security.md says.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    Atlas, AtlasRegressor or AtlasClassifier
        What was saved. An estimator takes what it was fitted to. For a file that the command `atlas` wrote
        that is the table, as a data frame of pandas, polars or pyarrow or as a list of dictionaries: columns
        go by their names, and that of the target may be among them.

    Examples
    --------
    >>> from atlas_splines import load
    >>> load("missing.atlas")
    Traceback (most recent call last):
    ...
    FileNotFoundError: missing.atlas does not exist; check the name
    """
    archive = read_archive(path)
    with naming(path):
        if archive.kind not in KINDS:
            raise ValueError(f"it is of an unknown kind, none of {', '.join(map(repr, KINDS))}")
        upgrade(archive)
        loaded = from_archive(archive)
        archive.check_all_taken()
        return loaded


def to_archive(model: Atlas | AtlasRegressor | AtlasClassifier) -> Archive:
    """Take apart whatever can be saved."""
    if isinstance(model, Atlas):
        return model_to_archive(model)
    from atlas_splines.io.estimators import estimator_to_archive

    return estimator_to_archive(model)


def from_archive(archive: Archive) -> Atlas | AtlasRegressor | AtlasClassifier:
    """Put it together again, or raise a ValueError that says what is wrong with it."""
    if archive.kind == "model":
        return model_from_archive(archive)
    from atlas_splines.io.estimators import estimator_from_archive

    return estimator_from_archive(archive)
