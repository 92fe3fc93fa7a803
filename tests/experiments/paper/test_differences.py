import numpy as np

from atlas_splines import Atlas
from atlas_splines.analysis import gradient_norm
from atlas_splines.experiments.paper.differences import gradient_sizes, optimizer_reach
from atlas_splines.model.atlas import state_of


def test_bounds_are_in_order_for_any_coefficients():
    random = np.random.default_rng(0)
    model, X = Atlas(2, density=1, dtype="float64"), random.random((500, 2))
    state_of(model).table[:] = 0.3 * random.normal(size=state_of(model).table.shape)
    sizes = gradient_sizes(model, X)
    assert sizes.exact == gradient_norm(model, X).max()
    assert sizes.exact <= sizes.bound <= sizes.paper / 16


def test_dense_adam_leaves_its_reach_and_lazy_adam_does_not():
    _, dense, far = optimizer_reach("adam")
    _, lazy, _ = optimizer_reach("lazy-adam")
    assert dense[far].max() > 0.001
    assert not lazy[far].any()
    assert lazy[~far].max() > 0.5
