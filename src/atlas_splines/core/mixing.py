"""Mixing: the weighted sum of some models, as one model.

Equation numbers refer to docs/math.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from atlas_splines.core.model import Atlas, model_in, state_of

__all__ = ["average", "constant", "mixture", "placed"]


def average(models: Sequence[Atlas]) -> Atlas:
    """The mean of some models without charts, as one model.

    Examples
    --------
    >>> constant = Atlas(inputs=1, terms=1, density=0)
    >>> constant.g(0)[:] = np.log(3)
    >>> average([constant, Atlas(inputs=1, terms=2, density=1)])([[0.5]]).round(4)
    array([[1.]], dtype=float32)
    """
    return mixture(models, [len(models)] * len(models))


def mixture(models: Sequence[Atlas], divisors: Sequence[float]) -> Atlas:
    """The sum of some models on the unit cube and without charts, each divided by a positive number.

    A constant c added to all coefficients of one input adds c to the sum, for the weights sum to one,
    equation (4); so a term k⁻²·exp G of a model divided by d is k'⁻²·exp(G + log(k'²/(d·k²))) in the mixture,
    with a number k' of its own. The mixture has the damping of the first model; that of another adds the
    difference to its exponents. Local terms are scaled likewise; at most one model has another part for later
    rows, with which the others are mixed there.

    Examples
    --------
    >>> one, two = Atlas(inputs=1, terms=0, density=0), Atlas(inputs=1, terms=0, density=0)
    >>> one.f(0)[:], two.f(0)[:] = 1, 2
    >>> mixture([one, two], [1, 4])([[0.5]])
    array([[1.5]], dtype=float32)
    """
    first, density = models[0], max(model.density for model in models)
    terms = sum(model.terms for model in models)
    mixed = Atlas(first.inputs, first.outputs, terms, density, first.trainable, first.damping, first.dtype)
    numbers = term_numbers([model.terms for model in models])
    for model, divisor, new in zip(models, divisors, numbers, strict=True):
        own = np.arange(1, model.terms + 1)
        shift = np.log((new + 1) ** 2 / (divisor * own**2)) + (mixed.damping - model.damping)
        for rho in state_of(model).filled_densities(list(range(model.density + 1))).tolist():
            mixed.f(rho)[:] += model.f(rho) / divisor
            mixed.g(rho)[:, new] = model.g(rho)
            mixed.h(rho)[:, new] = model.h(rho)
        mixed.g(0)[:, new, 0] += shift[:, None]
        mixed.h(0)[:, new, 0] += shift[:, None]
    parts = list(zip((state_of(model) for model in models), divisors, strict=True))
    local = tuple(terms.scaled(1 / divisor) for part, divisor in parts for terms in part.local)
    later = next((part.later.scaled(1 / divisor) for part, divisor in parts if part.later is not None), None)
    if later is not None:
        beyond = [part if part.later is None else part.later.state for part, _ in parts]
        later = replace(later, state=state_of(mixture([model_in(each) for each in beyond], divisors)))
    return model_in(replace(state_of(mixed), local=local, later=later)) if local or later else mixed


def placed(model: Atlas, inputs: NDArray[np.intp], of: int) -> Atlas:
    """A model of some inputs as one of more inputs, on which it does not depend.

    Examples
    --------
    >>> line = Atlas(inputs=1, terms=0, density=0)
    >>> line.f(0)[0, 0] = [-1, 0, 1, 2]
    >>> placed(line, np.array([1]), of=2)([[0.9, 0.25]]).round(4)
    array([[0.25]], dtype=float32)
    """
    wider = Atlas(of, model.outputs, model.terms, model.density, model.trainable, model.damping, model.dtype)
    for rho in range(model.density + 1):
        wider.f(rho)[:, inputs] = model.f(rho)
        wider.g(rho)[:, :, inputs] = model.g(rho)
        wider.h(rho)[:, :, inputs] = model.h(rho)
    return wider


def constant(values: NDArray[np.floating], inputs: int) -> Atlas:
    """A model with the same outputs, shape (outputs,), wherever it is evaluated.

    Examples
    --------
    >>> constant(np.array([3.0, -1.0]), inputs=2)([[0.1, 0.9]]).round(4)
    array([[ 3., -1.]], dtype=float32)
    """
    model = Atlas(inputs, len(values), terms=0, density=0)
    model.f(0)[:, 0] = values[:, None]  # the weights of one input's functions sum to one, (4)
    return model


def term_numbers(counts: Sequence[int]) -> list[NDArray[np.intp]]:
    """Zero-based numbers of each model's terms in the mixture: the first terms of all models come first.

    Examples
    --------
    >>> [numbers.tolist() for numbers in term_numbers([1, 3])]
    [[0], [1, 2, 3]]
    """
    owners = [(k, i) for i, count in enumerate(counts) for k in range(count)]
    place = {owner: number for number, owner in enumerate(sorted(owners))}
    return [np.array([place[k, i] for k in range(count)], np.intp) for i, count in enumerate(counts)]
