import pytest
import torch
from sample_modules import train

from atlas_splines.nn import AtlasNet


def test_a_network_learns_what_one_layer_cannot():
    torch.manual_seed(0)
    X = torch.rand(1000, 2)
    y = torch.sin(6 * X[:, :1] * X[:, 1:])
    net = AtlasNet([2, 4, 1], terms=1, density=2)
    lines = net.layers[0](X)
    assert lines.std() > 0.3
    torch.testing.assert_close(net.layers[0]((X + X.flip(0)) / 2), (lines + lines.flip(0)) / 2)  # linear
    train(net, X, y, torch.optim.Adam(net.parameters(), lr=0.05), steps=50)
    assert torch.nn.functional.mse_loss(net(X), y) < 0.1 * y.var()
    assert all(p.grad.abs().max() > 0 for p in net.parameters())


def test_a_network_needs_inputs_and_outputs():
    with pytest.raises(ValueError, match=r"widths must name at least the inputs and the outputs, not \[2\]"):
        AtlasNet([2])
