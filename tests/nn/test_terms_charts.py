import dataclasses

import numpy as np
import pytest
import torch
from sample_modules import charted_model, charted_module, cross_the_bridge, points, random_module, train

from atlas_splines.model.atlas import state_of, take_state
from atlas_splines.nn import AtlasModule


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_charts_cross_the_bridge_both_ways(dtype):
    model = charted_model(outputs=2, dtype=dtype)
    X = np.random.default_rng(0).random((2000, 2)).astype(dtype)
    _, back = cross_the_bridge(model, X)
    model.revert(2)
    back.revert(2)
    assert (back(X) == model(X)).all()


def test_charts_of_a_module_become_charts_of_the_model():
    module, _ = charted_module(dtype=torch.float64)
    X = points(1000, 2)
    model = module.to_model()
    np.testing.assert_allclose(model(X.numpy()), module(X).detach(), rtol=1e-12, atol=1e-12)
    assert [(record.id, record.kind, record.rows) for record in model.updates] == [(1, "chart", 300)]
    model.revert(1)
    module.close_chart()
    np.testing.assert_allclose(model(X.numpy()), module(X).detach(), rtol=1e-12, atol=1e-12)


def test_a_chart_of_a_strange_domain_is_refused():
    model = charted_model()
    window = model.charts[0].window
    strange = dataclasses.replace(window, domain=np.array([[0, np.pi], [0, 1.0]]))
    take_state(model, state_of(model).with_charts([dataclasses.replace(model.charts[0], window=strange)]))
    with pytest.raises(ValueError, match="a chart was made in a domain that is not of whole cells"):
        AtlasModule.from_model(model)


@pytest.mark.parametrize("sparse", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_chart_changes_its_box_and_nothing_else(sparse):
    module = random_module(2, 1, 3, 3, sparse=sparse)
    X, new = points(4000, 2, dtype=torch.float32), 0.2 + 0.3 * points(500, 2, seed=1, dtype=torch.float32)
    before = module(X).detach()
    chart = module.open_chart(new, density=3, terms=2)
    assert torch.equal(module(X), before)
    assert {id(p) for p in module.parameters()} == {id(p) for p in chart.parameters()}
    kind = torch.optim.SparseAdam if sparse else torch.optim.Adam
    train(module, new, torch.full((500, 1), 2.0), kind(list(module.parameters()), lr=0.05), steps=40)
    window = module.to_model().charts[0].window
    outside = torch.tensor(~window.contains(X.numpy()))
    assert 0 < outside.sum() < len(X)
    assert torch.equal(module(X)[outside], before[outside])
    assert not torch.equal(module(X)[~outside], before[~outside])
    assert (module(new) - 2).abs().mean() < 0.5 * (before.mean() - 2).abs()
    module.close_chart()
    assert torch.equal(module(X), before)
    assert list(module.parameters()) == []
    assert len(list(module.unfreeze().parameters())) == 1


def test_asking_for_gradients_does_not_thaw_what_is_frozen():
    module, _ = charted_module()
    module.expand()
    module.requires_grad_(True)
    assert all("charts.0" in name for name, _ in module.named_parameters())
