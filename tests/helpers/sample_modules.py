"""Modules, models and estimators to try `atlas_splines.nn` with."""

from __future__ import annotations

import numpy as np
import oracle
import pytest
import torch

from atlas_splines import Atlas, AtlasRegressor, update
from atlas_splines.model import splines
from atlas_splines.model.atlas import state_of
from atlas_splines.nn import AtlasModule

# compiler and exporter use parts of PyTorch that PyTorch has deprecated
OWN_WARNINGS = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
FAST = {"members": 1, "max_iter": 5, "density": 2, "terms": 2, "features": 0, "random_state": 0}


def points(rows, inputs, seed=0, dtype=torch.float64):
    return torch.tensor(np.random.default_rng(seed).random((rows, inputs)), dtype=dtype)


def random_module(*args, seed=0, **options):
    """A module with random coefficients at its trained densities."""
    module = AtlasModule(*args, **options)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    return module


def charted_model(inputs=2, outputs=1, dtype="float64", **options):
    """A model with random coefficients at all densities, and two updates that overlap."""
    model = oracle.randomize(Atlas(inputs, outputs, 3, 2, dtype=dtype, **options))
    random = np.random.default_rng(1)
    for low in (0.2, 0.4):
        X = low + 0.4 * random.random((200, inputs))
        y = np.sin(9 * X[:, :1]).repeat(outputs, axis=1) + 3
        update(model, X, y, epochs=2, density=3, terms=2, random_state=0)
    return model


def charted_module(**options):
    """A module with a chart of random coefficients, and where that chart is."""
    module = random_module(2, 1, 3, 2, **options)
    X = 0.3 + 0.3 * points(300, 2, seed=7)
    chart = module.open_chart(X, density=2, terms=2)
    with torch.no_grad():
        for parameter in chart.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(3)).mul_(0.3)
    return module, X


def extended_model(dtype="float64", **options):
    """A model whose domain was extended twice, at two densities, with charts from before and after."""
    model = charted_model(dtype=dtype, **options)
    model.extend([-0.3, 0], [1, 1.5]).expand(density=1, terms=1).extend([-0.3, 0], [1.2, 1.5])
    random = np.random.default_rng(5)
    state_of(model).table[:] += (
        0.1 * random.normal(size=state_of(model).table.shape) * (state_of(model).table != 0)
    )
    X = np.array([0.9, 1.1]) + 0.3 * random.random((200, 2))
    update(model, X, 2 * X[:, :1], epochs=2, density=3, terms=2, random_state=0)
    return model


def points_of_domain(model, rows=3000):
    """Random points, knots of every density, faces of the cube and of the domain."""
    low, high = model.domain.T
    random = np.random.default_rng(3)
    knots = [np.arange(-30, 60) / splines.cell_count(density) for density in range(model.density + 1)]
    special = random.choice(np.concatenate([*knots, [0, 1], low, high]), (rows, model.inputs))
    X = np.vstack([random.uniform(low, high, (rows, model.inputs)), special])
    return X.astype(model.dtype).clip(*model.domain.T.astype(model.dtype))


def cross_the_bridge(model, X):
    """A model as a module, and that as a model again: outputs agree, and the second model is the first."""
    module = AtlasModule.from_model(model)
    tolerance = 1e-4 if model.dtype == np.float32 else 1e-12
    np.testing.assert_allclose(module(torch.tensor(X)).detach(), model(X), rtol=tolerance, atol=tolerance)
    back = module.to_model()
    assert back.fingerprint() == model.fingerprint()
    assert (back(X) == model(X)).all()
    return module, back


def train(module, X, y, optimizer, steps=1):
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(module(X), y).backward()
        optimizer.step()


def rows_of_any_scale(rows=300, seed=0):
    random = np.random.default_rng(seed)
    X = np.column_stack([1e6 + random.random(rows), 100 * random.random(rows), random.normal(size=rows)])
    X[::17, 1] = np.nan
    return X


def rows_far_and_near():
    X = rows_of_any_scale(400, seed=1)
    return np.vstack([X, X + np.array([0.5, 20, 1]), X - np.array([0.7, 30, 2])])


def fitted_regressor(**options):
    """A regressor on columns of different scale, with missing values."""
    X = rows_of_any_scale()
    y = 1000 + 50 * np.sin(3 * X[:, 2]) + np.nan_to_num(X[:, 1])
    return AtlasRegressor(missing="learn", **{**FAST, **options}).fit(X, y), X, y
