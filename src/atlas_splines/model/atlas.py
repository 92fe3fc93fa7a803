"""The model: configuration, predictions, expansion, the log, and weighted sums of models."""

from __future__ import annotations

import copy
import hashlib
import warnings
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from atlas_splines.model.charts import Chart, chart_densities, chart_layout, chart_table, on_top_of
from atlas_splines.model.checks import check_number, check_overflow, check_size
from atlas_splines.model.evaluate import evaluate, gradient_matrix
from atlas_splines.model.lattice import MAX_DENSITY, Domain, Lattice
from atlas_splines.model.log import NOT_APART, TRAINED, Record, UpdateWarning, shortened
from atlas_splines.model.resize import expanded, extended
from atlas_splines.model.state import State, Trainable

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

__all__ = [
    "Atlas",
    "Trainable",
    "average",
    "commit",
    "constant",
    "mixture",
    "model_in",
    "placed",
    "state_of",
    "take_state",
]

FINGERPRINT = "known fingerprint"  # key of a state's cached fingerprint, with the checksums of its tables


class Atlas:
    """A(x) = F(x) + Σ k⁻²(exp G_k(x) − exp H_k(x)) on the unit cube, equation (6).

    F, G_k and H_k are sums over the inputs of mixed-density cubic splines. All coefficients start at zero,
    and so does every output. `extend` takes the model beyond the unit cube, to ``domain``, an array of shape
    (inputs, 2).

    Parameters
    ----------
    inputs
        Number of input columns.
    outputs
        Number of output columns; outputs share no coefficients.
    terms
        Number M of positive and of negative exponentials for each output.
    density
        Finest density r: each input has 2^(r+2) basis functions at density r, and all coarser ones too.
    trainable
        "finest" trains density r only, which keeps the model's memory local. "all" trains every density:
        the paper's contrast model, without that guarantee.
    damping
        Each exponential is multiplied by exp(−damping). The paper's formula has none; its authors ran 10.
    dtype
        "float32" or "float64".

    Examples
    --------
    >>> import numpy as np
    >>> model = Atlas(inputs=2, terms=3, density=1)
    >>> model
    Atlas(inputs=2, outputs=1, terms=3, density=1, trainable='finest', damping=0.0, dtype='float32')
    with 168 coefficients, 112 of them trainable
    >>> model.f(1)[:] = 0.5
    >>> model(np.array([[0.2, 0.7], [1.0, 0.0]])).round(3)
    array([[1.],
           [1.]], dtype=float32)
    """

    def __init__(
        self,
        inputs: int,
        outputs: int = 1,
        terms: int = 10,
        density: int = 4,
        trainable: Trainable = "finest",
        damping: float = 0.0,
        dtype: DTypeLike = "float32",
    ) -> None:
        inputs, outputs, terms, density = check_sizes(inputs, outputs, terms, density)
        trainable, damping = check_options(trainable, damping)
        if np.dtype(dtype).name not in ("float32", "float64"):
            raise ValueError(f"dtype must be 'float32' or 'float64', not {np.dtype(dtype).name!r}")
        number: np.dtype[Any] = np.dtype(np.dtype(dtype).name)  # in this machine's byte order
        lattice = Lattice.of_unit_cube(inputs, density, number)
        self._state = State.zero(lattice, outputs, terms, trainable, damping)
        self.updates: list[Record] = []

    # --- configuration ------------------------------------------------------------------------------

    @property
    def inputs(self) -> int:
        """Number of input columns."""
        return self._state.lattice.inputs

    @property
    def outputs(self) -> int:
        """Number of output columns."""
        return self._state.outputs

    @property
    def terms(self) -> int:
        """Number of positive and of negative exponentials for each output."""
        return self._state.terms

    @property
    def density(self) -> int:
        """The finest density."""
        return self._state.density

    @property
    def trainable(self) -> Trainable:
        """Which densities are trained: "finest" or "all"."""
        return self._state.trainable

    @property
    def damping(self) -> float:
        """Each exponential is multiplied by exp(−damping)."""
        return self._state.damping

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """Dtype of coefficients and predictions."""
        return self._state.dtype

    @property
    def domain(self) -> Domain:
        """Lowest and highest coordinate of each input, shape (inputs, 2): the unit cube, or more."""
        return self._state.lattice.domain

    @property
    def is_extended(self) -> bool:
        """Whether the domain is more than the unit cube."""
        return self._state.lattice.is_extended

    # --- coefficients -------------------------------------------------------------------------------

    @property
    def charts(self) -> tuple[Chart, ...]:
        """Charts of updates, oldest first; outside their boxes they are exactly zero."""
        return self._state.charts

    def _blocks(self, density: int) -> NDArray[np.floating]:
        """View of a density as (outputs, 2M + 1, inputs, λ); the second axis is G, H and F."""
        check_size("density", density, least=0, most=self.density)
        if self.is_extended:
            raise ValueError(
                "f, g and h show models on the unit cube; this one was extended: look at a copy from before"
            )
        rows = self._state.rows_of(density)
        return rows.reshape(self.inputs, -1, self.outputs, self._state.width).transpose(2, 3, 0, 1)

    def f(self, rho: int) -> NDArray[np.floating]:
        """Coefficients of F at a density, a writable view of shape (outputs, inputs, λ).

        Views belong to the coefficients of the moment: take them again after `expand`. A model that was
        extended has none, for its inputs differ in the number of functions.

        Examples
        --------
        >>> Atlas(inputs=3, density=2).f(2).shape
        (1, 3, 16)
        """
        return self._blocks(rho)[:, -1]

    def g(self, rho: int) -> NDArray[np.floating]:
        """Coefficients of the positive exponentials, a writable view of shape (outputs, terms, inputs, λ).

        Examples
        --------
        >>> Atlas(inputs=3, terms=10, density=2).g(0).shape
        (1, 10, 3, 4)
        """
        return self._blocks(rho)[:, : self.terms]

    def h(self, rho: int) -> NDArray[np.floating]:
        """Coefficients of the negative exponentials, a writable view of shape (outputs, terms, inputs, λ).

        Examples
        --------
        >>> Atlas(inputs=3, terms=10, density=2).h(1).shape
        (1, 10, 3, 8)
        """
        return self._blocks(rho)[:, self.terms : 2 * self.terms]

    @property
    def n_parameters(self) -> int:
        """Number of coefficients of all densities, equation (9).

        Examples
        --------
        >>> Atlas(inputs=2, terms=10, density=4).n_parameters
        5208
        """
        state = self._state
        return state.lattice.row_count * state.outputs * state.width

    @property
    def n_trainable(self) -> int:
        """Number of trainable coefficients.

        Examples
        --------
        >>> Atlas(inputs=2, terms=10, density=4).n_trainable
        2688
        """
        state = self._state
        return (state.lattice.row_count - state.first_trained_row) * state.outputs * state.width

    @property
    def nbytes(self) -> int:
        """Bytes that the coefficients take in memory, with those of the charts.

        Examples
        --------
        >>> Atlas(inputs=2, terms=10, density=4).nbytes
        23808
        """
        state = self._state
        return state.table.nbytes + sum(chart_table(chart).nbytes for chart in state.charts)

    # --- predictions --------------------------------------------------------------------------------

    def __call__(self, X: ArrayLike) -> NDArray[np.floating]:
        """Evaluate the model.

        Parameters
        ----------
        X
            Points in the domain, shape (rows, inputs).

        Returns
        -------
        array of shape (rows, outputs)

        Examples
        --------
        >>> Atlas(inputs=2)([[0.1, 0.2]])
        array([[0.]], dtype=float32)
        """
        state = self._state
        out = evaluate(state, state.points(X))
        check_overflow(out)
        return out

    def gradient(self, X: ArrayLike) -> csr_matrix:
        """Gradient of each output with respect to the trainable coefficients, equation (10).

        Parameters
        ----------
        X
            Points in the domain, shape (rows, inputs).

        Returns
        -------
        scipy.sparse.csr_matrix of shape (rows·outputs, n_trainable)
            Row i·outputs + p is the gradient of output p at X[i]. Columns are, for each trained density,
            the entries of ``f``, then of ``g``, then of ``h``, each flattened in C order. In an extended
            model each spline has its functions from the lowest to the highest, input after input.

        Examples
        --------
        >>> gradient = Atlas(inputs=2, terms=1, density=1).gradient([[0.1, 0.2]])
        >>> gradient.shape, gradient.nnz
        ((1, 48), 24)
        """
        state = self._state
        return gradient_matrix(state, state.points(X))

    # --- updates ------------------------------------------------------------------------------------

    def fingerprint(self) -> str:
        """Content hash of everything that predictions depend on.

        Examples
        --------
        >>> Atlas(inputs=1).fingerprint() == Atlas(inputs=1).fingerprint()
        True
        """
        # computing it takes a tenth of the time of an update, which needs it five times
        state = self._state
        marks = [zlib.crc32(table.data) for table in _tables(state)]
        known: tuple[list[int], str] | None = vars(state).get(FINGERPRINT)
        if known is None or known[0] != marks:
            known = marks, self._content_hash()
            vars(state)[FINGERPRINT] = known
        return known[1]

    def _content_hash(self) -> str:
        """The fingerprint, computed without the cache."""
        state, domain = self._state, self._state.lattice.domain
        sizes = (state.lattice.inputs, state.outputs, state.terms, state.density)
        configuration = (*sizes, state.trainable, state.damping)
        digest = hashlib.sha256(repr((configuration, state.dtype.name)).encode())
        digest.update(_without_padding(state.table, state.outputs * state.width).data)
        for chart in state.charts:
            window = (chart.window.density, chart.window.first, chart.window.last)
            table = _without_padding(chart_table(chart), state.outputs * state_of(chart.content).width)
            for part in (*window, chart.replaces, chart_densities(chart), *chart_layout(chart), table):
                digest.update(np.asarray(part).tobytes())
        if state.offsets is not None:
            digest.update(state.offsets.keys.tobytes() + state.offsets.values.tobytes())
        for terms in state.local:
            digest.update(b"".join(part.tobytes() for part in terms.parts))
        if state.later is not None:
            digest.update(b"".join(part.tobytes() for part in state.later.parts))
            digest.update(model_in(state.later.state).fingerprint().encode())
        if state.lattice.is_extended:
            for part in (domain, *(chart.window.domain for chart in state.charts)):
                digest.update(np.broadcast_to(part, domain.shape).tobytes())
        return digest.hexdigest()

    def revert(self, id: int) -> Atlas:
        """Revert an update that opened charts, or one of the latest that were pooled.

        If it was the newest, predictions are restored bit for bit. If others were pooled later, the
        cumulative statistics are those of a life without it; expert weights are those of later updates. A
        chart below others that were trained on top of it is refused: revert these first.

        Returns
        -------
        the model itself

        Examples
        --------
        >>> Atlas(inputs=1).revert(1)
        Traceback (most recent call last):
        ...
        ValueError: update 1 cannot be reverted; of this model's updates, none can
        """
        revertible = [record for record in self.updates if self._can_revert(record)]
        record = next((record for record in revertible if record.id == id), None)
        if record is None:
            ids = ", ".join(str(record.id) for record in revertible) or "none"
            why = why_not(next((record for record in self.updates if record.id == id), None))
            raise ValueError(f"update {id} cannot be reverted{why}; of this model's updates, {ids} can")
        above = on_top_of(id, self.charts, self.domain)
        if above:
            raise ValueError(
                f"update {id} cannot be reverted by itself: charts of {listed(above)} were trained on top of "
                f"it; revert {'these' if len(above) > 1 else 'that'} first, the newest before others"
            )
        state, now = state_without(self._state, id), datetime.now(timezone.utc)
        above = [chart.update for chart in self.charts if chart.update > id and not chart.replaces]
        if above and self._state.has_contribution_of(id):
            warnings.warn(
                f"update {id} is reverted below charts of {listed(sorted(set(above)))}, which were "
                "trained on top of it and stay as they are",
                UpdateWarning,
                stacklevel=2,
            )
        taken_back = replace(record, reverted=now)
        log = [taken_back if entry is record else entry for entry in self.updates]
        self.__dict__.update(_state=state, updates=log)
        record.reverted = now  # for who still holds the old entry
        return self

    def _can_revert(self, record: Record) -> bool:
        """Whether the update of a record has charts or statistics of its own, and nothing else."""
        return can_revert(self._state, record)

    # --- growth -------------------------------------------------------------------------------------

    def expand(self, density: int = 1, terms: int = 2) -> Atlas:
        """Add capacity in place; every output stays exactly as it was, equation (8).

        Parameters
        ----------
        density
            How many finer densities to add; the former finest one is then frozen.
        terms
            How many pairs of exponentials to add.

        Returns
        -------
        the model itself

        Examples
        --------
        >>> model = Atlas(inputs=2, terms=0, density=0)
        >>> model.expand()
        Atlas(inputs=2, outputs=1, terms=2, density=1, trainable='finest', damping=0.0, dtype='float32')
        with 120 coefficients, 80 of them trainable
        """
        self._state = expanded(self._state, density, terms)
        return self

    def extend(self, low: ArrayLike, high: ArrayLike) -> Atlas:
        """Extend the domain in place; inside the old one every output stays exactly as it was.

        Beyond it each spline levels off within a few cells of the finest density, equation (28), so outputs
        are soon what they are at the nearest point of the old domain.

        Parameters
        ----------
        low, high
            How far each input shall reach, shape (inputs,), rounded outwards to whole cells of the finest
            density. A side that reaches further already stays as it is.

        Returns
        -------
        the model itself

        Examples
        --------
        >>> model = Atlas(inputs=2, density=1)
        >>> model.extend(low=[-0.3, 0], high=[1, 1.5]).domain
        array([[-0.4,  1. ],
               [ 0. ,  1.6]])
        >>> model([[-0.4, 1.6]])
        array([[0.]], dtype=float32)
        """
        self._state = extended(self._state, low, high)
        return self

    def copy(self) -> Atlas:
        """Return an independent copy.

        Examples
        --------
        >>> model = Atlas(inputs=1)
        >>> other = model.copy().expand()
        >>> other.density, model.density
        (5, 4)
        """
        return copy.deepcopy(self)

    def __getstate__(self) -> dict[str, Any]:
        return vars(snapshot_of(self))

    def __repr__(self) -> str:
        count = len(self.charts)
        charts = f", and {count} chart{'s' if count > 1 else ''}" if count else ""
        return (
            f"Atlas(inputs={self.inputs}, outputs={self.outputs}, terms={self.terms}, "
            f"density={self.density}, trainable={self.trainable!r}, damping={self.damping}, "
            f"dtype={self.dtype.name!r})\n"
            f"with {self.n_parameters:,} coefficients, {self.n_trainable:,} of them trainable" + charts
        )


# --- access to a model's state for other modules of the library: not public -------------------------------


def state_of(model: Atlas) -> State:
    """The state a model is in."""
    return model._state


def model_in(state: State, updates: Iterable[Record] = ()) -> Atlas:
    """A model in a state, with a log."""
    model = Atlas.__new__(Atlas)
    model._state, model.updates = state, list(updates)
    return model


def snapshot_of(model: Atlas) -> Atlas:
    """A snapshot of the model, unaffected by later changes: for reading while another thread writes.

    It costs next to nothing, for coefficients and charts are shared. Only `train` changes them in place.

    Examples
    --------
    >>> model = Atlas(inputs=1, density=1)
    >>> now = snapshot_of(model)
    >>> model.expand().density, now.density
    (2, 1)
    """
    while True:
        taken = vars(model).copy()  # state and log of one moment
        log = [copy.copy(record) for record in taken["updates"]]
        if state_of(model) is taken["_state"]:  # `revert` marks an old entry after it has changed the state
            return model_in(taken["_state"], log)


def take_state(model: Atlas, state: State) -> None:
    """Replace the state of a model; its log stays."""
    model._state = state


def commit(model: Atlas, state: State, record: Record) -> None:
    """Replace the state of a model and append a log entry, atomically.

    A long log is shortened: its oldest entries are merged into one, `Folded`, unless they can be reverted.
    """
    log = shortened([*model.updates, record], partial(is_held, state))
    model.__dict__.update(_state=state, updates=log)


def can_revert(state: State, record: Record) -> bool:
    """Whether all of an update can be removed from a state: charts of some of its rows are not enough."""
    is_apart = NOT_APART not in getattr(record, "reason", "")
    return record.kind in ("chart", "pool") and is_apart and is_held(state, record.id)


def is_held(state: State, update: int) -> bool:
    """Whether an update can be removed from a state: it has charts, or statistics that are kept apart."""
    states = (state, *(state_of(chart.content) for chart in state.charts))
    is_charted = any(chart.update == update for chart in state.charts)
    return is_charted or any(each.has_contribution_of(update) for each in states)


def state_without(state: State, update: int) -> State:
    """The state without an update."""
    others = [chart for chart in state.charts if chart.update != update]
    remaining = state.with_charts(chart_without(chart, update) for chart in others)
    if state.pooled is None or not state.has_contribution_of(update):
        return remaining
    return state.pooled.revert(update, remaining)


def chart_without(chart: Chart, update: int) -> Chart:
    """A chart without an update that joined it."""
    state = state_of(chart.content)
    if not state.has_contribution_of(update):
        return chart
    return replace(chart, content=model_in(state_without(state, update)))


def why_not(record: Record | None) -> str:
    """Why an update cannot be reverted, as far as its log entry has a reason."""
    if record is not None and record.kind in TRAINED:
        return ", since it trained the coefficients themselves and no copy is kept"
    if NOT_APART in getattr(record, "reason", "") and record is not None and record.reverted is None:
        return ", since sums of its rows are not kept apart: forget the rows instead"
    return ""


def listed(updates: Sequence[int]) -> str:
    """Numbers of updates in words."""
    return f"update{'s' if len(updates) > 1 else ''} {' and '.join(map(str, updates))}"


def _tables(state: State) -> list[NDArray[np.floating]]:
    """All coefficient tables of a state, its only mutable parts."""
    below = [] if state.later is None else _tables(state.later.state)
    charts = (table for chart in state.charts for table in _tables(state_of(chart.content)))
    return [np.ascontiguousarray(state.table), *below, *charts]


def _without_padding(table: NDArray[np.floating], width: int) -> NDArray[np.floating]:
    """A table with zeros in its padding channels, whose values files do not hold."""
    clean = np.zeros(table.shape, table.dtype)
    clean[:, :width] = table[:, :width]
    return clean


def check_sizes(inputs: int, outputs: int, terms: int, density: int) -> tuple[int, int, int, int]:
    """Return the sizes of a model, or raise for the first that is out of range."""
    return (
        check_size("inputs", inputs, least=1),
        check_size("outputs", outputs, least=1),
        check_size("terms", terms, least=0),
        check_size("density", density, least=0, most=MAX_DENSITY),
    )


def check_options(trainable: Trainable, damping: float) -> tuple[Trainable, float]:
    """Return the other hyperparameters of a model, or raise for the first that is invalid."""
    if trainable not in ("finest", "all"):
        raise ValueError(f"trainable must be 'finest' or 'all', not {trainable!r}")
    return trainable, check_number("damping", damping, least=0)


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
    routes = [(k, i) for i, count in enumerate(counts) for k in range(count)]
    place = {owner: number for number, owner in enumerate(sorted(routes))}
    return [np.array([place[k, i] for k in range(count)], np.intp) for i, count in enumerate(counts)]
