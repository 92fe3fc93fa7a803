"""A physics-informed fit: a stationary temperature, Δu = 0 on the unit square, given on its edge only.

Inside there is no data: the loss is the residual of the equation, from second derivatives of the module with
respect to its inputs. Cubic splines have two continuous ones.

    python examples/torch_physics.py
"""

import argparse

import torch

from atlas_splines.nn import AtlasModule


def solution(X: torch.Tensor) -> torch.Tensor:
    """The exact temperature, shape (points, 1)."""
    return torch.exp(2 * X[:, :1]) * torch.sin(2 * X[:, 1:])


def laplacian(module: AtlasModule, X: torch.Tensor) -> torch.Tensor:
    """Sum of the second derivatives, shape (points, 1)."""
    X = X.requires_grad_()
    (slope,) = torch.autograd.grad(module(X).sum(), X, create_graph=True)
    second = [
        torch.autograd.grad(slope[:, j].sum(), X, create_graph=True)[0][:, j] for j in range(X.shape[1])
    ]
    return sum(second)[:, None]


def edge_points(count: int) -> torch.Tensor:
    """Random points of the edge."""
    X = torch.rand(count, 2)
    X[torch.arange(count), torch.randint(2, (count,))] = torch.randint(2, (count,)).float()
    return X


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=1000)
    steps = parser.parse_args().steps
    torch.manual_seed(0)
    module = AtlasModule(2, terms=4, density=1)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.03)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        X = torch.rand(500, 2)
        edge = edge_points(200)
        misfit = torch.nn.functional.mse_loss(module(edge), solution(edge))
        loss = 0.01 * laplacian(module, X).square().mean() + misfit
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    X = torch.rand(2000, 2)
    error = (module(X) - solution(X)).abs().mean()
    print(f"mean error {error:.4f}, where the temperature has mean {solution(X).mean():.2f}")


if __name__ == "__main__":
    main()
