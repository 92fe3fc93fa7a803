"""A physics-informed fit: solve −Δu = 2π² sin(πx) sin(πy) on the unit square, u = 0 on its edge.

There is no data: the loss is the residual of the equation, from second derivatives of the module with respect to
its inputs. Cubic splines have two continuous ones.

    python examples/torch_physics.py
"""

import argparse
import math

import torch

from atlas_splines.nn import AtlasModule


def solution(X: torch.Tensor) -> torch.Tensor:
    return torch.sin(math.pi * X).prod(dim=-1, keepdim=True)


def laplacian(module: AtlasModule, X: torch.Tensor) -> torch.Tensor:
    X = X.requires_grad_()
    (slope,) = torch.autograd.grad(module(X).sum(), X, create_graph=True)
    second = [torch.autograd.grad(slope[:, j].sum(), X, create_graph=True)[0][:, j] for j in range(X.shape[1])]
    return sum(second)[:, None]


def edge_points(count: int) -> torch.Tensor:
    X = torch.rand(count, 2)
    X[torch.arange(count), torch.randint(2, (count,))] = torch.randint(2, (count,)).float()
    return X


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1500)
    steps = parser.parse_args().steps
    torch.manual_seed(0)
    module = AtlasModule(2, terms=4, density=2)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        X = torch.rand(500, 2)
        residual = laplacian(module, X) + 2 * math.pi**2 * solution(X)
        loss = residual.square().mean() + 100 * module(edge_points(200)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    X = torch.rand(2000, 2)
    error = (module(X) - solution(X)).abs().mean()
    print(f"mean error {error:.4f}, where the solution has mean {solution(X).mean():.2f}")


if __name__ == "__main__":
    main()
