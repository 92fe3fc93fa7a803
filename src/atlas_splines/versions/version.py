"""What versions are of: a model or an estimator."""

from __future__ import annotations

import copy

from atlas_splines.estimators.base import AtlasEstimator
from atlas_splines.estimators.classifier import AtlasClassifier
from atlas_splines.estimators.regressor import AtlasRegressor
from atlas_splines.files.archive import version_of
from atlas_splines.io.save_load import to_archive
from atlas_splines.model.atlas import Atlas

__all__ = ["Versioned", "estimator_of", "model_of", "version", "with_model"]

Versioned = Atlas | AtlasRegressor | AtlasClassifier


def estimator_of(thing: Versioned) -> AtlasEstimator | None:
    """The estimator, if it is one."""
    return None if isinstance(thing, Atlas) else thing


def model_of(thing: Versioned) -> Atlas:
    """The model inside."""
    return thing if isinstance(thing, Atlas) else thing.model_


def with_model(thing: Versioned, model: Atlas) -> Versioned:
    """The same with another model inside; what was there stays as it is."""
    if isinstance(thing, Atlas):
        return model
    estimator = copy.copy(thing)
    estimator.model_ = model
    return estimator


def version(thing: Versioned) -> str:
    """Hash of all that a model is: coefficients, charts, evidence, log, and the columns of an estimator.

    It is what `verify` prints for its file. `Atlas.fingerprint` covers what predictions depend on, this one
    everything that is saved.

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
