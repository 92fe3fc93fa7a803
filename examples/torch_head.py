"""An ATLAS layer as the head of a small CNN.

The images show a bright spot and noise. The CNN finds where the spot is, and the head learns a function of
the position: both are trained together, with gradients through the splines.

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
    noisy = images + 0.1 * torch.randn_like(images)
    return noisy[:, None], (torch.sin(8 * x) * torch.cos(5 * y))[:, 0]


class Position(nn.Module):
    """Mean position of the brightness, in the unit square: (count, 2)."""

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Weigh the pixels by a softmax."""
        weights = (20 * features).flatten(1).softmax(dim=1).unflatten(1, features.shape[-2:])
        pixels = torch.linspace(0, 1, features.shape[-1])
        return torch.stack([(weights.sum(1) * pixels).sum(1), (weights.sum(2) * pixels).sum(1)], dim=1)


def network(head: nn.Module) -> nn.Module:
    """A CNN that looks for a position, and a head on top of it."""
    body = [nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1), Position()]
    return nn.Sequential(*body, head)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
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
