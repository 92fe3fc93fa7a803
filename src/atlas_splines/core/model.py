"""The ATLAS model: configuration, coefficient tables, evaluation, expansion.

Equation numbers refer to docs/math.md.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from atlas_splines.core import kernels, splines
from atlas_splines.core.charts import Chart, Record, pack
from atlas_splines.core.checks import check_inputs, check_number, check_numbers, check_overflow, check_size
from atlas_splines.core.lattice import MAX_DENSITY, Domain, Lattice, check_reach

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

__all__ = ["Atlas"]

Trainable = Literal["finest", "all"]


class Atlas:
    """A(x) = F(x) + Σ k⁻²(exp G_k(x) − exp H_k(x)) on the unit cube, equation (6).

    F, G_k and H_k are sums over the inputs of mixed-density cubic splines. All coefficients start at zero,
    and so does every output. `extend` takes the model beyond the unit cube: ``domain``, an array of shape
    (inputs, 2), says how far.

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
        self.inputs, self.outputs, self.terms, self.density = check_sizes(inputs, outputs, terms, density)
        self.trainable, self.damping = check_options(trainable, damping)
        if np.dtype(dtype).name not in ("float32", "float64"):
            raise ValueError(f"dtype must be 'float32' or 'float64', not {np.dtype(dtype).name!r}")
        self.dtype: np.dtype[Any] = np.dtype(np.dtype(dtype).name)  # in this machine's byte order
        self.lattice = Lattice.of_unit_cube(self.inputs, self.density, self.dtype)
        self.table = self._zero_table()
        self.charts = ()
        self.updates: list[Record] = []

    @property
    def domain(self) -> Domain:
        """Lowest and highest coordinate of each input, shape (inputs, 2): the unit cube, or more."""
        return self.lattice.domain

    # --- coefficients -------------------------------------------------------------------------------

    @property
    def channels(self) -> int:
        """Length of a table row: 2M + 1 for each output, padded to whole vectors."""
        return -(-self.outputs * (2 * self.terms + 1) // kernels.LANES) * kernels.LANES

    def _zero_table(self) -> NDArray[np.floating]:
        return np.zeros((self.lattice.row_count, self.channels), self.dtype)

    def restart(self, domain: NDArray[np.float64]) -> None:
        """Take up a domain, with all coefficients zero and no charts: a file is read into such a model."""
        self.lattice = Lattice(domain, self.density, self.dtype)
        self.table = self._zero_table()
        self.charts = ()

    def _channels(self, density: int) -> NDArray[np.floating]:
        """View of a density as (rows, outputs, 2M + 1); along the last axis stand G, H and F."""
        width = 2 * self.terms + 1
        return self.table[self.lattice.rows(density), : self.outputs * width].reshape(-1, self.outputs, width)

    def _blocks(self, density: int) -> NDArray[np.floating]:
        """View of a density as (outputs, 2M + 1, inputs, λ); along the second axis stand G, H and F."""
        check_size("density", density, least=0, most=self.density)
        if self.is_extended:
            raise ValueError(
                "f, g and h show models on the unit cube; this one was extended, so see its table instead"
            )
        width = 2 * self.terms + 1
        return self._channels(density).reshape(self.inputs, -1, self.outputs, width).transpose(2, 3, 0, 1)

    def f(self, rho: int) -> NDArray[np.floating]:
        """Coefficients of F at a density, a writable view of shape (outputs, inputs, λ).

        Views belong to the table of the moment: take them again after `expand`. A model that was extended
        has none, for its inputs differ in the number of functions.

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
    def trained_densities(self) -> list[int]:
        """Densities whose coefficients training may change.

        Examples
        --------
        >>> Atlas(inputs=1, density=2).trained_densities
        [2]
        """
        return [self.density] if self.trainable == "finest" else list(range(self.density + 1))

    @property
    def first_trained_row(self) -> int:
        """Training changes the table from this row on.

        Examples
        --------
        >>> Atlas(inputs=2, density=1).first_trained_row
        8
        """
        return self.lattice.rows(self.trained_densities[0]).start

    @property
    def n_parameters(self) -> int:
        """Number of coefficients of all densities, equation (9).

        Examples
        --------
        >>> Atlas(inputs=2, terms=10, density=4).n_parameters
        5208
        """
        return self.table.shape[0] * self.outputs * (2 * self.terms + 1)

    @property
    def n_trainable(self) -> int:
        """Number of coefficients that training may change.

        Examples
        --------
        >>> Atlas(inputs=2, terms=10, density=4).n_trainable
        2688
        """
        rows = self.table.shape[0] - self.first_trained_row
        return rows * self.outputs * (2 * self.terms + 1)

    # --- evaluation ---------------------------------------------------------------------------------

    @property
    def layout(self) -> kernels.Layout:
        """What the kernels must know besides the table; `slope` is dA/dsum over the sum's exponential."""
        # kernels load whole lanes, and may look beyond the last channel
        slope = np.zeros(self.channels + kernels.LANES, self.dtype)[: self.channels]
        scale = np.exp(-self.damping) / np.arange(1, self.terms + 1) ** 2  # equation (7)
        one_output = np.concatenate([scale, -scale, [1.0]])  # G, H, F
        slope[: self.outputs * one_output.size] = np.tile(one_output, self.outputs)
        origins = self.lattice.origins if self.is_extended else self.lattice.origins[:0]
        return kernels.Layout(self.inputs, self.outputs, self.terms, slope, origins)

    @property
    def is_extended(self) -> bool:
        """Whether the domain is more than the unit cube: then there are more rows than in equation (9)."""
        return self.lattice.is_extended

    @property
    def frozen_densities(self) -> list[int]:
        """Densities whose coefficients training leaves alone."""
        return [d for d in range(self.density + 1) if d not in self.trained_densities]

    @property
    def active_densities(self) -> NDArray[np.int64]:
        """Densities that an evaluation needs: the trained ones, and frozen ones that are not all zero."""
        return np.concatenate([self.filled(self.frozen_densities), self.trained_densities]).astype(np.int64)

    @property
    def is_bounded(self) -> bool:
        """Whether no exponential can overflow anywhere in the domain."""
        return bool((self.ceilings < (80 if self.dtype == np.float32 else 700)).all())

    @property
    def ceilings(self) -> NDArray[np.float64]:
        """No sum in a channel exceeds these, anywhere in the domain: shape (channels,).

        A spline stays below its largest coefficient, equation (4), so the largest of each input add up.
        """
        return np.maximum.reduceat(self.table, self.lattice.starts[:-1]).sum(axis=0, dtype=np.float64)

    def filled(self, densities: list[int]) -> NDArray[np.int64]:
        """Those of the densities that have a coefficient other than zero; the rest add exactly nothing."""
        return np.array([d for d in densities if self.table[self.lattice.rows(d)].any()], np.int64)

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
        out = self.evaluate(self.points(X))
        check_overflow(out)
        return out

    def points(self, X: ArrayLike, name: str = "X") -> NDArray[np.floating]:
        """Return X checked, contiguous and in the model's dtype, as the kernels take it."""
        return check_inputs(X, self.domain, self.dtype, name)

    def evaluate(self, points: NDArray[np.floating]) -> NDArray[np.floating]:
        """Evaluate at checked points of the model's dtype; an overflow shows as inf or NaN."""
        out = np.empty((points.shape[0], self.outputs), self.dtype)
        kernels.predict(self.table, self.layout, self.active_densities, points, out)
        self.add_charts(points, out)
        return out

    @property
    def charts(self) -> tuple[Chart, ...]:
        """What updates have added, oldest first; outside their boxes they add exactly nothing."""
        return self._charts

    @charts.setter
    def charts(self, charts: Iterable[Chart]) -> None:
        self._charts = tuple(charts)
        self._packed = pack(self._charts, self.domain) if self._charts else None

    def add_charts(self, points: NDArray[np.floating], out: NDArray[np.floating]) -> None:
        """Let the charts speak over the outputs of the coefficient table, equation (23)."""
        if self._packed is not None:
            kernels.add_charts(self._packed, points, out)

    def kept(self, points: NDArray[np.floating]) -> NDArray[np.floating]:
        """Share of the coefficient table's output that charts leave in the prediction, shape (rows,)."""
        keep = np.ones(points.shape[0], self.dtype)
        for chart in self.charts:
            if chart.replaces:
                keep *= 1 - chart.fence.window(points)
        return keep

    def adopt(self, other: Atlas) -> None:
        """Take over size, coefficients and charts of another model, all at once."""
        names = ("terms", "density", "lattice", "table", "_charts", "_packed")
        self.__dict__.update({name: other.__dict__[name] for name in names})

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
        from scipy.sparse import csr_matrix

        points = self.points(X)
        slopes = self.slopes(points)  # (rows, outputs, 2M + 1), as F, G, H
        values, columns, before = [], [], 0
        for density in self.trained_densities:
            cells, weights = splines.active(points, density)  # (rows, inputs), (rows, inputs, 4)
            value = slopes[:, :, :, None, None] * weights[:, None, None]
            column = before + self._columns(density)[:, :, None, None] + self._functions(cells, density)
            values.append(value.reshape(points.shape[0] * self.outputs, -1))
            columns.append(np.broadcast_to(column, value.shape).reshape(values[-1].shape))
            before += self._channels(density).size
        value, column = np.hstack(values), np.hstack(columns)
        starts = np.arange(value.shape[0] + 1) * value.shape[1]
        return csr_matrix((value.ravel(), column.ravel(), starts), shape=(value.shape[0], self.n_trainable))

    def slopes(self, points: NDArray[np.floating]) -> NDArray[np.floating]:
        """Derivative of each output with respect to its sums F, G_k, H_k: shape (rows, outputs, 2M + 1)."""
        sums = self.sums(points)
        sums[:, :, -1] = 0.0  # exp(0) = 1, the slope of F
        scale = self.layout.slope[: 2 * self.terms + 1]
        with np.errstate(over="ignore"):
            slopes = np.exp(sums) * scale * self.kept(points)[:, None, None]
        check_overflow(slopes.reshape(points.shape[0], -1))
        return np.concatenate([slopes[:, :, -1:], slopes[:, :, :-1]], axis=2)

    def sums(self, points: NDArray[np.floating]) -> NDArray[np.floating]:
        """G_k, H_k and F of the coefficient table, without charts: shape (rows, outputs, 2M + 1)."""
        sums = np.zeros((points.shape[0], self.channels), self.dtype)
        kernels.frozen_sums(self.table, self.layout, self.active_densities, points, sums)
        width = 2 * self.terms + 1
        return sums[:, : self.outputs * width].reshape(-1, self.outputs, width)

    def _columns(self, density: int) -> NDArray[np.intp]:
        """First gradient column of each output's F, G_k and H_k: shape (outputs, 2M + 1)."""
        outputs, terms = np.arange(self.outputs)[:, None], np.arange(2 * self.terms)
        positive, k = terms < self.terms, terms % max(self.terms, 1)
        g = self.outputs + outputs * self.terms + k
        exponentials = np.where(positive, g, g + self.outputs * self.terms)
        return np.hstack([outputs, exponentials]) * len(self._channels(density))

    def _functions(self, cells: NDArray[np.intp], density: int) -> NDArray[np.intp]:
        """Position of the four active functions within a spline family: (rows, 1, 1, inputs, 4)."""
        first = cells + self.lattice.origins[density] - self.lattice.rows(density).start
        return (first[:, :, None] + np.arange(splines.ACTIVE))[:, None, None]

    # --- updates ------------------------------------------------------------------------------------

    def fingerprint(self) -> str:
        """Content hash of everything that predictions depend on.

        Examples
        --------
        >>> Atlas(inputs=1).fingerprint() == Atlas(inputs=1).fingerprint()
        True
        """
        configuration = (self.inputs, self.outputs, self.terms, self.density, self.trainable, self.damping)
        digest = hashlib.sha256(repr((configuration, self.dtype.name)).encode())
        digest.update(self.table.tobytes())
        for chart in self.charts:
            fence = (chart.fence.density, chart.fence.first, chart.fence.last)
            for part in (*fence, chart.replaces, chart.densities, *chart.layout, chart.table):
                digest.update(np.asarray(part).tobytes())
        if self.is_extended:
            for domain in (self.domain, *(chart.fence.domain for chart in self.charts)):
                digest.update(np.broadcast_to(domain, self.domain.shape).tobytes())
        return digest.hexdigest()

    def revert(self, id: int) -> None:
        """Take back an update of kind "chart".

        If it was the newest, every prediction has again the bits it had before. If others came later, they
        stay as they are: they were fitted on top of this one, and what it had added is missing under them.

        Examples
        --------
        >>> Atlas(inputs=1).revert(1)
        Traceback (most recent call last):
        ...
        ValueError: update 1 cannot be reverted; of this model's updates, none can
        """
        charted = {chart.update for chart in self.charts}
        revertible = [record for record in self.updates if record.kind == "chart" and record.id in charted]
        record = next((record for record in revertible if record.id == id), None)
        if record is None:
            ids = ", ".join(str(record.id) for record in revertible) or "none"
            raise ValueError(f"update {id} cannot be reverted; of this model's updates, {ids} can")
        self.charts = tuple(chart for chart in self.charts if chart.update != id)
        record.reverted = datetime.now(timezone.utc)

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
        density = check_size("density", density, least=0, most=MAX_DENSITY - self.density)
        terms = check_size("terms", terms, least=0)
        check_reach(self.domain, self.density + density)
        larger = copy.copy(self)
        larger.terms, larger.density = self.terms + terms, self.density + density
        larger.lattice = Lattice(self.domain, larger.density, self.dtype)
        larger.table = larger._zero_table()
        for rho in range(self.density + 1):
            new_rows, old_rows = larger._channels(rho), self._channels(rho)
            new_rows[:, :, : self.terms] = old_rows[:, :, : self.terms]
            new_rows[:, :, larger.terms : larger.terms + self.terms] = old_rows[:, :, self.terms : -1]
            new_rows[:, :, -1] = old_rows[:, :, -1]
        self.adopt(larger)
        return self

    def extend(self, low: ArrayLike, high: ArrayLike) -> Atlas:
        """Let the domain reach further, in place; inside the old one every output stays exactly as it was.

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
        width = splines.cell_count(self.density)
        lowest = -splines.whole_cells(-self._edge("low", low), self.density) / width
        highest = splines.whole_cells(self._edge("high", high), self.density) / width
        wanted = np.stack([lowest, highest], axis=1)
        further = np.sign(wanted - self.domain) == (-1, 1)
        if not further.any():
            return self
        larger = copy.copy(self)
        larger.lattice = Lattice(np.where(further, wanted, self.domain), self.density, self.dtype)
        check_reach(larger.domain, self.density)
        larger.table = self.table[larger.lattice.nearest_rows(self.lattice)]
        larger._level_off(self)
        larger.charts = self.charts
        self.adopt(larger)
        return self

    def _edge(self, name: str, values: ArrayLike) -> NDArray[np.floating]:
        edge = check_numbers(name, values, np.dtype(np.float64))
        if edge.shape != (self.inputs,):
            raise ValueError(
                f"{name} has shape {edge.shape}; expected ({self.inputs},), one number for each input"
            )
        return edge

    def _level_off(self, old: Atlas) -> None:
        """Let new functions of the finest density take each spline to its value at the old face, (28)."""
        *coarser, finest = range(self.density + 1)
        step = 1 / splines.cell_count(finest)
        for j, faces in enumerate(old.domain):
            rows = self.lattice.input_rows(finest, j)
            known = old.lattice.input_rows(finest, j) + self.lattice.shift(old.lattice, finest, j)
            for face, new in zip(faces, (rows < known[0], rows > known[-1]), strict=True):
                level = old._along(j, np.array([face]), [*coarser, finest])
                centres = (rows[new] - self.lattice.origins[finest, j] - 1) * step
                left, middle, right = (
                    level - self._along(j, centres + k * step, coarser) for k in (-1, 0, 1)
                )  # (functions, channels) each
                self.table[rows[new]] = (8 * middle - left - right) / 6  # reproduces cubic polynomials

    def _along(self, j: int, x: NDArray[np.float64], densities: list[int]) -> NDArray[np.float64]:
        """Splines of input j summed over densities, (points, channels); outside they go on as in (28)."""
        total = np.zeros((x.size, self.channels))
        for density in densities:
            cells, weights = splines.active(x, density)
            rows = cells[:, None] + self.lattice.origins[density, j] + np.arange(splines.ACTIVE)
            family = self.lattice.input_rows(density, j)
            total += np.einsum("pa,pac->pc", weights, self.table[rows.clip(family[0], family[-1])])
        return total

    def copy(self) -> Atlas:
        """Return an independent copy.

        Examples
        --------
        >>> model = Atlas(inputs=1)
        >>> model.copy().table is model.table
        False
        """
        return copy.deepcopy(self)

    def __repr__(self) -> str:
        count = len(self.charts)
        charts = f", and {count} chart{'s' if count > 1 else ''}" if count else ""
        return (
            f"Atlas(inputs={self.inputs}, outputs={self.outputs}, terms={self.terms}, "
            f"density={self.density}, trainable={self.trainable!r}, damping={self.damping}, "
            f"dtype={self.dtype.name!r})\n"
            f"with {self.n_parameters:,} coefficients, {self.n_trainable:,} of them trainable" + charts
        )


def check_sizes(inputs: int, outputs: int, terms: int, density: int) -> tuple[int, int, int, int]:
    """Return the sizes of a model, or say what is wrong with them."""
    return (
        check_size("inputs", inputs, least=1),
        check_size("outputs", outputs, least=1),
        check_size("terms", terms, least=0),
        check_size("density", density, least=0, most=MAX_DENSITY),
    )


def check_options(trainable: Trainable, damping: float) -> tuple[Trainable, float]:
    """Return what else defines a model, or say what is wrong with it."""
    if trainable not in ("finest", "all"):
        raise ValueError(f"trainable must be 'finest' or 'all', not {trainable!r}")
    return trainable, check_number("damping", damping, least=0)
