import numpy as np
import pytest
from boxes import bump

from atlas_splines import Atlas, train, update


@pytest.fixture(scope="package")
def trained():
    """A model that knows a smooth function everywhere; copy it before changing it."""
    X = np.random.default_rng(0).random((4000, 2))
    model = Atlas(2)
    train(model, X, np.sin(4 * X[:, 0]) + X[:, 1], epochs=30, random_state=0)
    return model


@pytest.fixture(scope="package")
def charted(trained):
    """The same with a chart."""
    model = trained.copy()
    X = 0.3 + 0.3 * np.random.default_rng(1).random((2000, 2))
    update(model, X, bump(X), random_state=0)
    return model
