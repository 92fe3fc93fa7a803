"""Versions of a model, an estimator, or a table model: their hash, and the model inside."""

from __future__ import annotations

import copy
from typing import Any

from atlas_splines.estimators.base import AtlasEstimator
from atlas_splines.estimators.table_model import Estimator, TableModel
from atlas_splines.files.archive import version_of
from atlas_splines.io.save_load import to_archive
from atlas_splines.model.atlas import Atlas

__all__ = ["Versioned", "estimator_of", "model_of", "version", "with_estimator", "with_model"]

Versioned = Atlas | Estimator | TableModel


def estimator_of(thing: Versioned) -> AtlasEstimator | None:
    """The estimator, if there is one."""
    inner = thing.estimator if isinstance(thing, TableModel) else thing
    return None if isinstance(inner, Atlas) else inner


def model_of(thing: Versioned) -> Atlas:
    """The model inside."""
    inner = thing.estimator if isinstance(thing, TableModel) else thing
    return inner if isinstance(inner, Atlas) else inner.model_


def with_model(thing: Versioned, model: Atlas) -> Versioned:
    """A copy with another model inside."""
    if isinstance(thing, Atlas):
        return model
    estimator = copy.copy(thing.estimator if isinstance(thing, TableModel) else thing)
    estimator.model_ = model
    return TableModel(estimator, thing.encoding) if isinstance(thing, TableModel) else estimator


def with_estimator(thing: Versioned, estimator: Any) -> Versioned:
    """A copy with another estimator, with the encoding of the table if there is one."""
    return thing.with_estimator(estimator) if isinstance(thing, TableModel) else estimator._taking_frames()


def version(thing: Versioned) -> str:
    """Hash of everything that is saved: coefficients, charts, memory, log, and the columns of an estimator.

    `verify` prints it for a file. `Atlas.fingerprint` covers only what predictions depend on.

    Examples
    --------
    >>> from atlas_splines import update
    >>> model = Atlas(inputs=1)
    >>> before = version(model)
    >>> done = update(model, [[0.5], [0.6]], [1.0, 1.0], epochs=1, random_state=0)
    >>> version(model.copy()) == version(model), version(model) == before
    (True, False)
    """
    archive = to_archive(thing)
    return version_of(archive.kind, archive.digests)
