"""Functional regularisation with Gaussian processes (Titsias, Schwarz, Matthews, Pascanu and Teh, 2020).

The function of a task is f(x) = wᵀφ(x), where φ are the last hidden units of a network that all tasks share
and w ~ N(0, I): a Gaussian process with kernel k(x, x') = φ(x)ᵀφ(x'). While a task is learned its weights
have a Gaussian q(w) = N(μ, LLᵀ). Afterwards only inducing points Z of its data are kept, and what q says of
the function there: q(u) = N(m, S), with m = Φμ and S = ΦLLᵀΦᵀ, where Φ = φ(Z). Task k goes up the bound

    Σ_rows E_q log p(y | f(x)) − KL(q(w) ‖ p(w)) − Σ_{i<k} KL(q(u_i) ‖ N(0, Φ_i Φ_iᵀ)),

whose last sum holds the shared features to what made the old functions likely. A task predicts by the mean
of its process given u: φ(x)ᵀ Φᵀ (ΦΦᵀ)⁻¹ m.

Departures: inducing points are chosen one after the other, each time the row whose variance is explained
least, where the article searches for the same criterion, the trace; the outputs of a classification share
one L; and since nobody tells which task a point belongs to, the boxes of the tasks' data do, as for
progressive networks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy, softplus

from atlas_splines.experiments.arena.methods.autograd import minimise, parameter_bytes
from atlas_splines.experiments.arena.methods.base import RATES, Method, Setup, likely_task, one_hot
from atlas_splines.experiments.arena.methods.mlp import WIDTH
from atlas_splines.experiments.arena.methods.network import draw_from
from atlas_splines.experiments.arena.tasks import Task

__all__ = ["FunctionalRegularisation", "gaussian_kl", "inducing_rows"]

Array = NDArray[np.floating]
JITTER = 1e-3  # on the diagonal of kernel matrices


@dataclass
class Summary:
    """What is kept of a task: M inducing points, and the Gaussian of the function there."""

    points: Array  # (M, inputs)
    mean: Array  # (M, outputs)
    covariance: Array  # (M, M), the same for all outputs
    box: Array  # (2, inputs), of all data of the task

    @property
    def nbytes(self) -> int:
        """Bytes of all four."""
        return sum(part.nbytes for part in (self.points, self.mean, self.covariance, self.box))

    def without(self, gone: NDArray[np.bool_]) -> Summary:
        """The Gaussian of the points that remain."""
        kept = np.flatnonzero(~gone)
        return replace(
            self,
            points=self.points[kept],
            mean=self.mean[kept],
            covariance=self.covariance[np.ix_(kept, kept)],
        )


class Head(torch.nn.Module):
    """q(w) of the task that is being learned, and the noise of its targets."""

    def __init__(self, features: int, outputs: int) -> None:
        super().__init__()
        self.mean = torch.nn.Parameter(torch.zeros(features, outputs))
        self.factor = torch.nn.Parameter(0.1 * torch.eye(features))
        self.noise = torch.nn.Parameter(torch.zeros(()))  # softplus of it is the standard deviation

    def misfit(self, phi: torch.Tensor, targets: torch.Tensor, classes: int) -> torch.Tensor:
        """Mean of −E_q log p(y | f) over a batch; by one draw of f for classes."""
        mean, variance = phi @ self.mean, (phi @ self.factor.tril()).square().sum(dim=1, keepdim=True)
        if classes:
            return cross_entropy(mean + variance.sqrt() * torch.randn_like(mean), targets)
        noise = softplus(self.noise) + 1e-2
        return (((targets - mean).square() + variance) / (2 * noise**2)).mean() + noise.log()


class FunctionalRegularisation(Method):
    """Shared features, and a Gaussian process for each task over them."""

    GRID = tuple({"rate": rate, "points": points} for points in (60, 20) for rate in RATES)

    def __init__(self, setup: Setup, rate: float, points: int) -> None:
        self.setup, self.rate, self.points = setup, rate, points
        torch.manual_seed(setup.seed)
        self.random = np.random.default_rng(setup.seed)
        self.network = torch.nn.Sequential(
            torch.nn.Linear(setup.inputs, WIDTH),
            torch.nn.ReLU(),
            torch.nn.Linear(WIDTH, WIDTH),
            torch.nn.Tanh(),
        )
        self.summaries: list[Summary] = []

    def features(self, X: torch.Tensor) -> torch.Tensor:
        """φ(x), whose last column is constant: (rows, WIDTH + 1)."""
        hidden = self.network(2 * X - 1)
        return torch.cat([hidden, torch.ones(len(X), 1)], dim=1)

    def fit(self, task: Task) -> None:
        """Learn features and the task's weights, then keep its inducing points instead of the weights."""
        remaining = [old.without(task.replaces(old.points)) for old in self.summaries]
        self.summaries = [old for old in remaining if len(old.points)]
        head = Head(WIDTH + 1, self.setup.outputs)
        draw = draw_from(task.X, one_hot(task.y, self.setup.classes), self.random)

        def loss() -> torch.Tensor:
            X, targets = map(torch.from_numpy, draw())
            fit = head.misfit(self.features(X), targets, self.setup.classes)
            return fit + (weight_kl(head) + self.function_kl()) / len(task.X)

        minimise([*self.network.parameters(), *head.parameters()], loss, self.setup.steps, self.rate)
        self.summaries.append(self.summary(task, head))

    def function_kl(self) -> torch.Tensor:
        """Σ_i KL(q(u_i) ‖ N(0, Φ_i Φ_iᵀ)) over the earlier tasks and all outputs."""
        total = torch.zeros(())
        for old in self.summaries:
            mean, covariance, points = map(torch.from_numpy, (old.mean, old.covariance, old.points))
            total = total + gaussian_kl(mean, covariance, kernel(self.features(points)))
        return total

    def summary(self, task: Task, head: Head) -> Summary:
        """Choose inducing points, and say what the task's weights say of them."""
        X = task.X.astype(np.float32)
        with torch.no_grad():
            phi = self.features(torch.from_numpy(X))
            rows = inducing_rows(phi.numpy(), self.points)
            mean, spread = phi[rows] @ head.mean, phi[rows] @ head.factor.tril()
            covariance = spread @ spread.T + JITTER * torch.eye(len(rows))
        box = np.stack([X.min(axis=0), X.max(axis=0)])
        return Summary(X[rows], mean.numpy(), covariance.numpy(), box)

    def predict(self, X: Array) -> Array:
        """Mean of the process that each point belongs to."""
        X = X.astype(np.float32)
        best = likely_task(X, [old.box for old in self.summaries])
        out = np.empty((len(X), self.setup.outputs), np.float32)
        with torch.no_grad():
            phi = self.features(torch.from_numpy(X))
            for k in np.unique(best):
                out[best == k] = (phi @ self.weights(self.summaries[k])).numpy()[best == k]
        return out

    def weights(self, old: Summary) -> torch.Tensor:
        """Φᵀ (ΦΦᵀ)⁻¹ m: the weights of a task's mean function, (features, outputs)."""
        phi = self.features(torch.from_numpy(old.points))
        return phi.T @ torch.linalg.solve(kernel(phi), torch.from_numpy(old.mean))

    @property
    def bytes_kept(self) -> int:
        """The network, and the inducing points of all tasks with their Gaussians."""
        return parameter_bytes(self.network) + sum(old.nbytes for old in self.summaries)


def kernel(phi: torch.Tensor) -> torch.Tensor:
    """ΦΦᵀ, with a little on the diagonal so that it can be inverted."""
    return phi @ phi.T + JITTER * torch.eye(len(phi))


def weight_kl(head: Head) -> torch.Tensor:
    """KL(q(w) ‖ N(0, I)), summed over the outputs."""
    factor, outputs = head.factor.tril(), head.mean.shape[1]
    logarithm = factor.diagonal().square().clamp(min=1e-12).log().sum()
    return (head.mean.square().sum() + outputs * (factor.square().sum() - len(factor) - logarithm)) / 2


def gaussian_kl(mean: torch.Tensor, covariance: torch.Tensor, prior: torch.Tensor) -> torch.Tensor:
    """KL(N(m, S) ‖ N(0, K)), summed over the columns of m.

    Examples
    --------
    >>> import torch
    >>> one = torch.ones(1, 1)
    >>> gaussian_kl(2 * one, one, one).item()  # of equal variances, half the squared distance
    2.0
    """
    outputs = mean.shape[1]
    root = torch.linalg.cholesky(prior)
    explained = torch.linalg.solve_triangular(root, mean, upper=False).square().sum()
    trace = torch.cholesky_solve(covariance, root).diagonal().sum()
    volume = 2 * root.diagonal().log().sum() - torch.logdet(covariance)
    return (explained + outputs * (trace - len(mean) + volume)) / 2


def inducing_rows(phi: Array, count: int) -> NDArray[np.intp]:
    """Rows that explain the others: each has the most variance that those before it leave unexplained.

    Examples
    --------
    >>> inducing_rows(np.array([[1.0, 0.0], [3.0, 0.0], [0.0, 2.0], [2.9, 0.1]]), 2)
    array([1, 2])
    """
    rest, rows = phi.astype(np.float64), []
    for _ in range(min(count, len(phi))):
        variances = np.square(rest).sum(axis=1)
        row = int(variances.argmax())
        if variances[row] <= 1e-12:  # the others follow from those that were chosen
            break
        rows.append(row)
        direction = rest[row] / math.sqrt(variances[row])
        rest = rest - np.outer(rest @ direction, direction)
    return np.array(rows, np.intp)
