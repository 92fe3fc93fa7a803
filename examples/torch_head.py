"""An ATLAS layer as the head of a small CNN.

The images show one bright spot. The CNN finds where it is, and the ATLAS head learns a function of the position
that a linear head cannot: both are trained together, with gradients through the splines.

    python examples/torch_head.py
"""

import argparse

import torch
from torch import nn

from atlas_splines.nn import AtlasModule

SIZE = 12  # pixels along an edge


def spots(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Images of a spot, (count, 1, SIZE, SIZE), and a wavy function of its position, (count, 1)."""
    x, y = torch.rand(2, count, 1, 1)
    pixels = torch.linspace(0, 1, SIZE)
    images = torch.exp(-60 * ((pixels - x) ** 2 + (pixels[:, None] - y) ** 2))
    return images[:, None], (torch.sin(8 * x) * torch.cos(5 * y))[:, 0]


def network(head: nn.Module) -> nn.Module:
    body = [nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * (SIZE - 2) ** 2, 2)]
    return nn.Sequential(*body, nn.Sigmoid(), head)  # the sigmoid brings the features into the unit cube


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=600)
    steps = parser.parse_args().steps
    test_images, test_values = spots(1000)
    for name, head in {"linear": nn.Linear(2, 1), "ATLAS": AtlasModule(2, terms=4, density=2)}.items():
        torch.manual_seed(0)
        net = network(head)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
        for _ in range(steps):
            images, values = spots(100)
            optimizer.zero_grad()
            nn.functional.mse_loss(net(images), values).backward()
            optimizer.step()
        with torch.no_grad():
            error = (net(test_images) - test_values).abs().mean()
        print(f"{name} head: mean error {error:.3f}")


if __name__ == "__main__":
    main()
