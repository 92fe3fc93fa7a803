"""Explanations in the units of columns and target: which column, which update, and which rows.

The mathematics is in `atlas_splines.explain`, where there are points and states alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from atlas_splines.estimators.ledger import Ledger
from atlas_splines.estimators.predict import Ends, continued
from atlas_splines.explain.background import (
    BACKGROUND_RULES,
    Background,
    InputKinds,
    Marginals,
    References,
    marginals_of_presence,
)
from atlas_splines.explain.bounds import BOUND_RULES
from atlas_splines.explain.explanation import Blame, Explanation, ResidualScale
from atlas_splines.explain.products import Products, products_of
from atlas_splines.explain.shapley import Game, Shares, enumerated, explained, interactions_of, sampled
from atlas_splines.explain.valuation import UpdateValues
from atlas_splines.memory.pool import Pool
from atlas_splines.model.atlas import state_of
from atlas_splines.model.evaluate import evaluate_anywhere
from atlas_splines.model.linear_algebra import ONE_THREAD_EACH
from atlas_splines.updates.intervals import error_model_of

if TYPE_CHECKING:
    from atlas_splines.estimators.base import AtlasEstimator
    from atlas_splines.estimators.bounded import Range

__all__ = ["Explained", "View"]

Array = NDArray[Any]


class Explained:
    """The part of an estimator that explains predictions."""

    def explain(
        self, X: ArrayLike, background: ArrayLike | None = None, *, scale: ResidualScale = "link"
    ) -> Explanation:
        """What each column adds to each prediction: exact Shapley values.

        A column is one player, whatever it has become: the inputs of its categories, the parts of its dates
        and whether its value is missing are taken together.

        Parameters
        ----------
        X
            Rows to explain, as for `predict`.
        background
            Rows, each of which is a reference: values are means over them. By default columns are compared
            with the marginals of the rows that the model holds, as if they were independent of each other.
        scale
            "link" explains what terms add up to: the target, log-odds of classes, roots of counts; with
            loss="quantile" what stands in the middle of the interval. "response" explains probabilities,
            counts or quantiles: of up to ten columns exactly, against rows; of more it is estimated from
            random orders of the columns, and `is_exact` is False.

        Returns
        -------
        Explanation
            Its values and base values add up to the prediction.

        Examples
        --------
        >>> import numpy as np
        >>> from atlas_splines import AtlasRegressor
        >>> X = np.random.default_rng(0).random((400, 2))
        >>> model = AtlasRegressor(random_state=0).fit(X, 3 * X[:, 0] - X[:, 1])
        >>> found = model.explain([[1.0, 0.5]], background=[[0.0, 0.5]])
        >>> found.values.round(1)
        array([[3., 0.]])
        >>> bool(np.allclose(found.predictions, model.predict([[1.0, 0.5]]), rtol=1e-9))
        True
        """
        view = View.of(self, X, background, scale)
        return view.explanation(view.shares(explained))

    def explain_interactions(self, X: ArrayLike, background: ArrayLike | None = None) -> Explanation:
        """What each pair of columns adds to each prediction: exact Shapley interactions, on the link's scale.

        Half of an interaction stands in either triangle, and on the diagonal what is left of the value of
        a column, so that rows sum to the values of `explain`.

        Parameters
        ----------
        X, background
            As in `explain`.

        Returns
        -------
        Explanation
            Its values have shape (rows, columns, columns).

        Examples
        --------
        >>> import numpy as np
        >>> from atlas_splines import AtlasRegressor
        >>> X = np.random.default_rng(0).random((400, 2))
        >>> model = AtlasRegressor(random_state=0).fit(X, 4 * X[:, 0] * X[:, 1])
        >>> model.explain_interactions([[1.0, 1.0]], background=[[0.0, 0.0]]).values.round(1) + 0.0
        array([[[0., 2.],
                [2., 0.]]])
        """
        view = View.of(self, X, background, "link")
        view.check_products("explain_interactions")
        return view.explanation(view.shares(interactions_of))

    def blame(self, X: ArrayLike) -> Blame:
        """What the fit and each update, and which rows, add to each prediction.

        Features, length scales, boxes and shares are taken as they are: it is how much each contribution
        adds, not what the prediction would be without it, which `revert` answers. Of classes it is that of
        scores.

        Parameters
        ----------
        X
            Rows, as for `predict`.

        Returns
        -------
        Blame
            Its values, what is not attributed and the base add up to the prediction.

        Examples
        --------
        >>> import numpy as np
        >>> from atlas_splines import AtlasRegressor
        >>> X = np.random.default_rng(0).random((300, 1))
        >>> model = AtlasRegressor(random_state=0).fit(X[:200], X[:200, 0]).partial_fit(X[200:], X[200:, 0])
        >>> found = model.blame([[0.9]])
        >>> found.names
        ('fit', 'update 1')
        >>> bool(np.allclose(found.predictions, model.predict([[0.9]]), rtol=1e-9))
        True
        """
        from atlas_splines.estimators.contributions import blame_of  # it needs this module

        now = cast("AtlasEstimator", self)._now()
        return blame_of(now, checked_points(now, X))

    @ONE_THREAD_EACH
    def value_of_updates(
        self, X: ArrayLike, y: ArrayLike, updates: Sequence[int] | None = None
    ) -> UpdateValues:
        """What each update did for the error on given rows: leave-one-out, and exact Shapley values.

        Every subset of the updates is derived anew, as `revert` does it: of ten updates there are 1,024.

        Parameters
        ----------
        X, y
            Rows that the error is of; none of them should have been learned.
        updates
            Numbers of the updates, at most ten; others stay. By default all that stand.

        Examples
        --------
        >>> import numpy as np
        >>> from atlas_splines import AtlasRegressor
        >>> X = np.random.default_rng(0).random((300, 1))
        >>> model = AtlasRegressor(random_state=0).fit(X[:50], X[:50, 0]).partial_fit(X[50:99], X[50:99, 0])
        >>> found = model.value_of_updates(X[200:], X[200:, 0])
        >>> bool(np.isclose(found.shapley.sum(), found.error_without - found.error))
        True
        """
        from atlas_splines.estimators.contributions import value_updates  # it needs this module

        return value_updates(cast("AtlasEstimator", self), X, y, updates)

    def range(self, box: Mapping[Any, Any], *, label: Any = None, seconds: float | None = None) -> Range:
        """Certified bounds of predictions over a box of rows, by branch and bound.

        Parameters
        ----------
        box
            By the name or number of a column: a value, two numbers (low, high), a list of categories, or
            None for missing. Other columns are free: within the domain, missing too if the model has learned
            that. With more than three free columns of numbers bounds are wide when time is up.
        label
            The class whose probability is bounded; of two classes the second by default.
        seconds
            Time for either bound, in seconds.

        Returns
        -------
        Range
            Its bounds hold whether time was up or not, and its gap is how close they are.

        Examples
        --------
        >>> import numpy as np
        >>> from atlas_splines import AtlasRegressor
        >>> X = np.random.default_rng(0).random((400, 2))
        >>> model = AtlasRegressor(random_state=0).fit(X, 3 * X[:, 0] - X[:, 1])
        >>> found = model.range({0: (0.2, 0.8), 1: 0.5})
        >>> round(found.low, 1), round(found.high, 1)
        (0.1, 1.9)
        """
        from atlas_splines.estimators.bounded import range_of  # it needs this module

        rules = BOUND_RULES if seconds is None else replace(BOUND_RULES, seconds=seconds)
        return range_of(cast("AtlasEstimator", self)._now(), box, label, rules)


@dataclass(frozen=True, eq=False)
class View:
    """Rows of an estimator as points of its model, and what they are compared with.

    Attributes
    ----------
    estimator
        The estimator of one moment.
    data
        The rows as they were given.
    points
        Their points, shape (rows, inputs).
    players
        Column of each input, shape (inputs,).
    background
        What stands for columns that are not known.
    scale
        As in `explain`.
    """

    estimator: AtlasEstimator
    data: NDArray[Any]
    points: Array
    players: NDArray[np.intp]
    background: Background
    scale: ResidualScale

    @classmethod
    def of(
        cls,
        estimator: Explained,
        X: ArrayLike,
        background: ArrayLike | Background | None,
        scale: ResidualScale,
    ) -> View:
        """Rows and background as users give them."""
        if scale not in ("link", "response"):
            raise ValueError(f"scale must be 'link' or 'response', not {scale!r}")
        now = cast("AtlasEstimator", estimator)._now()
        points = checked_points(now, X)
        if background is not None and not isinstance(background, Background):
            rows = checked_points(now, background)
            if not len(rows):
                raise ValueError("background has no row; give one or more, or leave it out")
            background = References(rows, f"{len(rows):,} row{'s' * (len(rows) > 1)} that were given")
        return cls.of_points(now, points, table_of(X), background, scale)

    @classmethod
    def of_points(
        cls,
        now: AtlasEstimator,
        points: Array,
        data: NDArray[Any],
        background: Background | None = None,
        scale: ResidualScale = "link",
    ) -> View:
        """Rows as points already; without a background they are compared with known rows."""
        players = column_of_points(now)
        found = known_background(now, players) if background is None else background
        if background is None and scale == "response" and is_curved(now):
            found = sampled_references(found)
        return cls(now, data, points, players, found, scale)

    @cached_property
    def products(self) -> Products:
        """The model as a sum of products."""
        state = state_of(self.estimator.model_)
        every = [self.points, self.background.points()]
        is_later = state.later is not None and any(state.later.includes(each).any() for each in every)
        return products_of(state, is_later)

    @property
    def is_continued(self) -> bool:
        """Whether linear extrapolation, which is no sum of products, has a say."""
        domain = self.estimator.model_.domain
        every = np.vstack([self.points, self.background.points()])
        is_outside = bool((every != every.clip(*domain.T)).any())
        return self.estimator.extrapolation == "linear" and is_outside

    @property
    def is_enumerated(self) -> bool:
        """Whether what is no sum of products is enumerated exactly."""
        few = int(self.players.max()) < BACKGROUND_RULES.most_players
        return few and isinstance(self.background, References)

    @property
    def is_exact(self) -> bool:
        """Whether all values are those of the definition."""
        is_curved_scale = self.scale == "response" and is_curved(self.estimator)
        return self.is_enumerated or not (is_curved_scale or self.is_continued)

    def check_products(self, what: str) -> None:
        """Refuse rows whose predictions are no sum of products."""
        if self.is_continued:
            raise ValueError(
                f"{what} is for rows within the domain where extrapolation='linear'; leave others out, or "
                "call set_params(extrapolation='constant') first"
            )

    def shares(self, method: Callable[[Products, NDArray[np.intp], Array, Background], Shares]) -> Shares:
        """Shapley values of the outputs, or on the scale of the response, by a method for products."""
        if self.scale == "response" and is_curved(self.estimator):
            return self.shares_of(lambda points: responses(self.estimator, points))
        found = method(self.products, self.players, self.points, self.background)
        linked = Shares(
            linked_changes(self.estimator, found.values), links(self.estimator, found.base[None])[0]
        )
        if not self.is_continued:
            return linked
        more = self.shares_of(lambda points: continuation(self.estimator, points))
        return linked + Shares(
            linked_changes(self.estimator, more.values), linked_changes(self.estimator, more.base)
        )

    def shares_of(self, function: Callable[[Array], Array]) -> Shares:
        """Shapley values of any function of points: enumerated, or estimated."""
        background = self.background
        rows = background if isinstance(background, References) else sampled_references(background)
        game = Game(function, self.players, rows.points())
        return (enumerated if self.is_enumerated else sampled)(game, self.points)

    def explanation(self, shares: Shares) -> Explanation:
        """Shapley values with the predictions that they add up to."""
        now = self.estimator
        curved = self.scale == "response" and is_curved(now)
        predicted = responses(now, self.points) if curved else links(now, now._outputs_at(self.points))
        axes = tuple(range(1, shares.values.ndim - 1))
        base = predicted - shares.values.sum(axis=axes)  # the mean, and the rounding of the prediction
        names = output_names(now)
        squeezed = len(names) == 1 and (hasattr(now, "classes_") or now._one_column)
        values = shares.values[..., 0] if squeezed else shares.values
        return Explanation(
            values,
            base[:, 0] if squeezed else base,
            self.data,
            list(now.column_names),
            () if squeezed else names,
            self.scale,
            unit_of(now, curved),
            self.background.text,
            self.is_exact,
        )


# --- rows as points -------------------------------------------------------------------------------------


def checked_points(estimator: AtlasEstimator, X: ArrayLike) -> Array:
    """Points of rows; those that the estimator refuses to predict are refused."""
    points = estimator.domain_.to_unit(estimator._inputs(X))
    if estimator.extrapolation == "error":
        estimator._refuse_outside(points, points.clip(*estimator.model_.domain.T))
    return np.asarray(points)


def column_of_points(estimator: AtlasEstimator) -> NDArray[np.intp]:
    """The user's column that each coordinate of a point belongs to."""
    return np.asarray(estimator._column_of_inputs[estimator.domain_.column_of_inputs], np.intp)


def table_of(X: Any) -> NDArray[Any]:
    """Rows as they were given, shape (rows, columns)."""
    if not hasattr(X, "columns") and not hasattr(X, "column_names"):
        return np.array(X)
    from atlas_splines.tables.frames import columns_of  # it loads pyarrow

    columns = [
        column.to_pylist() if hasattr(column, "to_pylist") else list(column) for column in columns_of(X)
    ]
    table = np.empty((len(columns[0]), len(columns)), object)
    for j, column in enumerate(columns):
        table[:, j] = column
    return table


def known_background(estimator: AtlasEstimator, players: NDArray[np.intp]) -> Marginals:
    """Marginals of the rows that a model holds, or from counts along its inputs."""
    rows = known_points(estimator, BACKGROUND_RULES.marginal_rows)
    if rows is not None and len(rows):
        return Marginals.of_rows(rows, players, f"the marginals of {len(rows):,} known rows")
    error_model = error_model_of(state_of(estimator.model_))
    if error_model is None or error_model.data_density is None:
        raise ValueError(
            "this model holds no rows and no counts of them, so it has no background of its own; give "
            "some rows as background"
        )
    return marginals_of_presence(
        error_model.data_density, kinds_of(estimator, players), "the marginals of counted rows"
    )


def known_points(estimator: AtlasEstimator, most: int) -> Array | None:
    """Points of rows that are held, at most so many and evenly chosen; None if none are."""
    ledger = estimator._current_ledger
    if ledger is not None:
        return estimator.domain_.to_unit(known_inputs(ledger, most))
    pool = state_of(estimator.model_).pooled
    if not isinstance(pool, Pool) or pool.memory is None:
        return None
    rows = pool.memory.rows
    return np.asarray(rows.points[evenly(len(rows), most)].astype(np.float64))


def known_inputs(ledger: Ledger, most: int) -> Array:
    """Encoded inputs of rows of a ledger, at most so many and evenly chosen: shape (rows, inputs)."""
    parts = [each for each in ledger.contributions if each.kind in ("fit", "update")]
    numbers = evenly(sum(map(len, parts)), most)
    ends = np.cumsum([0, *map(len, parts)])
    found = []
    for begin, end, each in zip(ends[:-1], ends[1:], parts, strict=True):
        own = numbers[(numbers >= begin) & (numbers < end)] - begin
        if len(own):
            mask = np.zeros(len(each), np.bool_)
            mask[own] = True
            found.append(ledger.wide(each.take(mask)).X)
    return np.vstack(found)


def evenly(rows: int, most: int) -> NDArray[np.intp]:
    """Numbers of at most so many rows, evenly chosen.

    Examples
    --------
    >>> evenly(7, 4)
    array([0, 2, 4, 6])
    """
    return np.rint(np.linspace(0, rows - 1, min(rows, most))).astype(np.intp)


def kinds_of(estimator: AtlasEstimator, players: NDArray[np.intp]) -> InputKinds:
    """What the inputs of an estimator hold."""
    columns = estimator.domain_
    first = len(columns.knots)
    flags = {
        first + k: (int(j), columns.fill_unit(int(j))) for k, j in enumerate(columns.indicators.tolist())
    }
    categories: dict[int, tuple[float, float]] = {}
    if hasattr(estimator, "encoding_"):
        ends = columns.to_unit(np.array([np.zeros(first), np.ones(first)]))
        coded = [column.one_hot for column in estimator.encoding_.columns]
        for j in range(first):
            if coded[players[j]]:
                categories[j] = (float(ends[0, j]), float(ends[1, j]))
    return InputKinds(players, flags, categories)


def sampled_references(background: Background) -> References:
    """Rows of a background."""
    if isinstance(background, References):
        return background
    assert isinstance(background, Marginals)
    rows = BACKGROUND_RULES.response_rows
    drawn = background.sample(rows, BACKGROUND_RULES.seed)
    return References(drawn, f"{rows} rows drawn from {background.text}")


# --- outputs in the units of the target -----------------------------------------------------------------


def is_curved(estimator: AtlasEstimator) -> bool:
    """Whether predictions are another function of the outputs than their scale."""
    return hasattr(estimator, "classes_") or estimator.loss in ("poisson", "quantile")


def links(estimator: Any, outputs: Array) -> Array:
    """Outputs, shape (rows, outputs), on the scale of the link."""
    if not hasattr(estimator, "classes_"):
        return np.asarray(estimator._unscaled(outputs))
    return outputs[:, 1:] - outputs[:, :1] if outputs.shape[1] == 2 else outputs


def linked_changes(estimator: Any, changes: Array) -> Array:
    """Changes of outputs, which are the last axis, on the scale of the link."""
    if not hasattr(estimator, "classes_"):
        return np.asarray(changes * estimator.target_scale_)
    return changes[..., 1:] - changes[..., :1] if changes.shape[-1] == 2 else changes


def responses(estimator: Any, points: Array) -> Array:
    """Predictions at points: targets, or probabilities (of two classes that of the second)."""
    outputs = estimator._outputs_at(points)
    if not hasattr(estimator, "classes_"):
        values = estimator._values(estimator._shifted(points, outputs))
        return np.asarray(values)
    values = estimator._values(outputs)
    return values[:, 1:] if values.shape[1] == 2 else values


def continuation(estimator: AtlasEstimator, points: Array) -> Array:
    """What linear extrapolation adds to the outputs at points."""
    state = state_of(estimator.model_)
    inside = points.clip(*state.lattice.domain.T)
    edge = evaluate_anywhere(state, points)
    return continued(state, Ends.of(state, estimator.domain_), edge, points, inside)


def output_names(estimator: Any) -> tuple[str, ...]:
    """Names of the outputs on the scale of the link."""
    if not hasattr(estimator, "classes_"):
        count = len(estimator.target_scale_)
        return tuple(f"target {k}" for k in range(count))
    names = [str(label) for label in estimator.classes_.tolist()]
    return tuple(names[1:] if len(names) == 2 else names)


def unit_of(estimator: Any, is_response: bool) -> str:
    """What values are in."""
    if hasattr(estimator, "classes_"):
        names = output_names(estimator)
        of = f" of {names[0]!r}" if len(names) == 1 else ""
        return f"{'probability' if is_response else 'log-odds' if of else 'score'}{of}"
    if estimator._counts:
        return "count" if is_response else "root of the count"
    return "target"
