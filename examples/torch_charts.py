"""Tasks one after the other: each gets a chart, and what was learned before keeps every bit outside it.

python examples/torch_charts.py
"""

import argparse

import torch

from atlas_splines.nn import AtlasModule


def fit(module: AtlasModule, X: torch.Tensor, y: torch.Tensor, steps: int) -> None:
    """Train whatever the module has open, by lazy Adam."""
    optimizer = torch.optim.SparseAdam(list(module.parameters()), lr=0.02)
    for _ in range(steps):
        batch = torch.randint(len(X), (200,))
        optimizer.zero_grad()
        torch.nn.functional.l1_loss(module(X[batch]), y[batch]).backward()
        optimizer.step()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=600)
    steps = parser.parse_args().steps
    torch.manual_seed(0)
    everywhere = torch.rand(5000, 2)
    module = AtlasModule(2, sparse=True)
    fit(module, everywhere, torch.sin(6 * everywhere[:, :1]) + everywhere[:, 1:], steps)
    for number, low in enumerate([0.1, 0.4, 0.6], start=1):
        X = low + 0.3 * torch.rand(2000, 2)
        y = number + X[:, :1] * X[:, 1:]
        before = module(everywhere).detach()
        module.open_chart(X, density=3)  # its parameters are now the only ones
        error = (module(X) - y).abs().mean()
        fit(module, X, y, steps)
        same = (module(everywhere) == before).float().mean()
        print(
            f"task {number}: error {error:.3f} before and {(module(X) - y).abs().mean():.3f} after; "
            f"{same:.0%} of the domain has kept every bit"
        )


if __name__ == "__main__":
    main()
