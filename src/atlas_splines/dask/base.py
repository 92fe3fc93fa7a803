"""The base class of estimators on a cluster, and parallel updates in disjoint charts."""

from __future__ import annotations

import copy
import itertools
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import reduce
from operator import add
from typing import Any, ClassVar, TypeVar

import dask.array as da
import numpy as np
from distributed import Client, default_client
from numpy.typing import ArrayLike, NDArray

from atlas_splines.dask.clusters import digested, summed
from atlas_splines.dask.partitions import Partitions, Sample, Sketch, merged, tree
from atlas_splines.dask.partitions import each as each_part
from atlas_splines.dask.tasks import Scored, Sketching, errors_of, predicted, predictor, sketched, summed_rows
from atlas_splines.estimators.base import AtlasEstimator
from atlas_splines.estimators.classifier import AtlasClassifier
from atlas_splines.estimators.fit import LEAST_ROWS
from atlas_splines.estimators.footprints import ColumnFootprint
from atlas_splines.estimators.inputs import Parameters, holds_more_than_numbers
from atlas_splines.estimators.out_of_core import RowsToSum
from atlas_splines.memory.kept_rows import HeldRows
from atlas_splines.model.atlas import snapshot_of, state_of
from atlas_splines.model.charts import Window
from atlas_splines.model.checks import check_number, check_size
from atlas_splines.model.linear_algebra import ONE_THREAD_EACH
from atlas_splines.model.log import Record, next_id
from atlas_splines.model.state import State
from atlas_splines.tables.frames import as_categories
from atlas_splines.tables.sample import SAMPLE_RULES
from atlas_splines.updates.assess import warn_known, warn_of
from atlas_splines.updates.footprint import BoxFootprint
from atlas_splines.updates.log import Update
from atlas_splines.updates.partial_sums import Summer, add_to_newest_update, of_all_rows
from atlas_splines.updates.plan import POOLING
from atlas_splines.updates.refusal import UpdateRefused
from atlas_splines.updates.routing import memory_of
from atlas_splines.versions.merge import merge
from atlas_splines.versions.version import with_model

__all__ = ["DaskEstimator", "trained_apart", "waves", "windows_of"]

Array = NDArray[Any]
Rows = tuple[Array, Array, Array]  # inputs, targets and weights, checked


def windows_of(estimator: AtlasEstimator, X: Any) -> tuple[Window, ...] | None:
    """Boxes that an update with these inputs can change, or None if that is more than boxes in the domain."""
    if not estimator.in_domain(X).all():
        return None
    area = estimator.footprint(X).area
    return area.windows if isinstance(area, BoxFootprint) else None


def waves(footprints: Sequence[tuple[Window, ...] | None]) -> Iterator[list[int]]:
    """Waves of updates that can be trained in parallel, in their order."""
    wave: list[int] = []
    for k, windows in enumerate(footprints):
        if wave and not all(are_apart(windows, footprints[other]) for other in wave):
            yield wave
            wave = []
        wave.append(k)
    if wave:
        yield wave


def are_apart(one: Iterable[Window] | None, other: Iterable[Window] | None) -> bool:
    """Whether the boxes of the one are disjoint from those of the other."""
    if one is None or other is None:
        return False
    return all(is_apart(a.box, b.box) for a, b in itertools.product(one, other))


def is_apart(one: Array, other: Array) -> bool:
    """Whether two boxes, shape (inputs, 2), are apart along some input.

    Examples
    --------
    >>> import numpy as np
    >>> is_apart(np.array([[0.0, 0.2], [0, 1]]), np.array([[0.3, 0.4], [0, 1]]))
    True
    >>> is_apart(np.array([[0.0, 0.3], [0, 1]]), np.array([[0.3, 0.4], [0, 1]]))
    False
    """
    return bool(((one[:, 1] < other[:, 0]) | (other[:, 1] < one[:, 0])).any())


def trained_apart(client: Client, estimator: Any, updates: Sequence[Rows], accept: bool = False) -> Any:
    """The estimator with several updates, each trained on a worker, and merged as versions are.

    Warnings raised on workers do not reach the client, so they are raised here again.
    """
    if len(updates) == 1:
        return learned(estimator, updates[0], accept)
    base = client.submit(handed_on, estimator, pure=False)
    futures = [client.submit(learned, base, rows, accept, pure=False) for rows in updates]
    together, known = estimator, next_id(estimator.model_.updates)
    for future in futures:
        theirs = future.result()
        if next_id(theirs.model_.updates) == known:
            warn_of(
                "the rows of an update were known, and were not learned again; accept=True learns them twice"
            )
            continue
        if theirs.model_.updates[-1].warning:
            warn_of(theirs.model_.updates[-1].warning)
        theirs.model_.updates[-1].time = datetime.now(timezone.utc)  # of one clock, so that their order stays
        together = merge(estimator, together, theirs)
    return together


def handed_on(estimator: Any) -> Any:
    """The estimator as the result of a task, which can be computed again if a worker dies."""
    return estimator


def learned(estimator: Any, rows: Rows, accept: bool) -> Any:
    """A copy of an estimator after an update."""
    own: Any = with_model(estimator, snapshot_of(estimator.model_))
    return own._update(*rows, accept=accept)


Self = TypeVar("Self", bound="DaskEstimator")

TOLERANCE = 0.002  # relative increase of the error that is accepted for fewer features
OWN = ("client", "sample", "tolerance")  # parameters that estimators without Dask do not have
MOST_ROWS = 2**31 - 1  # that statistics hold the sums of
DECIDING_ROWS = 10_000  # of an update larger than a sample, by which it is decided what to do


class DaskEstimator(Parameters):
    """Base of both estimators.

    The client receives the sample, the model and sums of rows only: rows stay on the workers.
    """

    _kind: ClassVar[type[AtlasEstimator]]

    def __init__(
        self,
        *,
        client: Client | None = None,
        sample: int = SAMPLE_RULES.rows,
        tolerance: float = TOLERANCE,
        **parameters: Any,
    ) -> None:
        super().__init__(**parameters)
        self.client = client
        self.sample = sample
        self.tolerance = tolerance

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return sorted([*OWN, *cls._kind._get_param_names()])

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """The parameters that are not at their defaults, as scikit-learn prints them."""
        usual = type(self)().get_params(deep=False)
        given = {name: repr(value) for name, value in self.get_params(deep=False).items()}
        changed = [f"{name}={text}" for name, text in given.items() if text != repr(usual[name])]
        return f"{type(self).__name__}({', '.join(changed)})"[:N_CHAR_MAX]

    def __sklearn_tags__(self) -> Any:
        return self._estimator().__sklearn_tags__()

    def __sklearn_clone__(self: Self) -> Self:
        given = {name: getattr(self, name) for name in self._get_param_names() if name != "client"}
        return type(self)(client=self.client, **copy.deepcopy(given))  # a connection has no copies

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "client": None}  # a connection is of one process

    # --- here and there -------------------------------------------------------------------------------

    @property
    def client_(self) -> Client:
        """The given client, or else the current one."""
        if self.client is not None:
            return self.client
        try:
            return default_client()
        except ValueError:
            raise ValueError(
                "there is no Dask client; make one with distributed.Client(), or give client="
            ) from None

    def to_local(self) -> Any:
        """The fitted model as an estimator without Dask, to save, to inspect, or to go on with."""
        return copy.copy(self._estimator())

    def _estimator(self) -> Any:
        """The estimator without Dask, fitted or not, with the current parameters."""
        own = self.get_params(deep=False)
        for name in OWN:
            del own[name]
        if not hasattr(self, "_local"):
            return self._kind(**own)
        return copy.copy(self._local).set_params(**own)

    def _take(self: Self, local: AtlasEstimator) -> Self:
        self._local = local
        return self

    def __getattr__(self, name: str) -> Any:
        """Fitted attributes, such as `model_` or `classes_`, of the estimator without Dask."""
        if name.endswith("_") and not name.startswith("_"):
            return getattr(self._estimator(), name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    # --- learning -------------------------------------------------------------------------------------

    def fit(self: Self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from data: features from a sample of the rows, and their weights from all rows.

        The result is the same bit for bit for any number of workers, partitions and order of rows.

        Parameters
        ----------
        X
            Inputs, a Dask array of shape (rows, columns) or a Dask data frame.
        y
            Target of each row, a Dask array or series with the same partitions.
        sample_weight
            Weight of each row, likewise.

        Returns
        -------
        the estimator itself
        """
        return self._fit(X, y, sample_weight)

    def _fit(self: Self, X: Any, y: Any, sample_weight: Any, classes: ArrayLike | None = None) -> Self:
        local = self._kind(**self._estimator().get_params())
        self._check(local)
        data = Partitions(X, (y, sample_weight))
        of_cells = data.names is not None and bool(holds_more_than_numbers(data.without_rows) or self.dates)
        kept = self.max_rows if self.memory == "rows" else 0
        sketch = self._sketch(data, kept, self._kind is AtlasClassifier, of_cells)
        with ONE_THREAD_EACH:  # more threads may round differently
            return self._take(self._fitted(local, data, sketch, classes))

    def _check(self, local: Any) -> None:
        """Raise for parameters that a cluster cannot honour."""
        local._check_parameters()
        check_size("sample", self.sample, least=LEAST_ROWS)
        check_number("tolerance", self.tolerance, least=0)
        if local.validation not in ("auto", "random"):
            raise ValueError(
                f'validation="{local.validation}" needs an order or groups, which rows of partitions do not '
                'have; use "random"'
            )
        if not local.features:
            raise ValueError(
                "features=0 keeps no statistics, which are all that is learned of most rows; give some"
            )
        if local.warm_start:
            raise ValueError("warm_start=True trains on all rows at once; use partial_fit")

    def _size(self, data: Partitions) -> int:
        """Rows of a sample of the data."""
        return max(replace(SAMPLE_RULES, rows=self.sample).size(data.columns), LEAST_ROWS)

    def _sketch(self, data: Partitions, kept: int, of_classes: bool, of_cells: bool) -> Sketch:
        """The sketch of all rows, made where they are, of which so many are to be kept."""
        size = max(self._size(data), kept)
        seed = int(self.random_state) if isinstance(self.random_state, int | np.integer) else 0
        sketch = self._drawn(data, Sketching(size, seed, len(data), of_classes, of_cells))
        if not sketch.suffices(size):  # rows come many times, or partitions are of very different sizes
            sketch = self._drawn(data, Sketching(size, seed, None, of_classes, of_cells))
        if not sketch.rows:
            raise ValueError("X has no rows; give some")
        if sketch.rows > MOST_ROWS:  # raised before they are summed, which can take hours
            raise OverflowError(
                f"X has {sketch.rows:,} rows, and sums of more than {MOST_ROWS:,} do not fit into 64-bit "
                "integers; give a part of them"
            )
        return sketch

    def _drawn(self, data: Partitions, task: Sketching) -> Sketch:
        answers = data.map(sketched, task)
        return self._computed(tree(answers, lambda sketches: merged(sketches, task.size)))

    def _computed(self, answer: Any) -> Any:
        return self.client_.compute(answer, sync=True)

    def _fitted(self, local: Any, data: Partitions, sketch: Sketch, classes: ArrayLike | None) -> Any:
        sample, given = sketch.sample(self._size(data)), local.get_params()
        learned = sample if sample.is_whole else sample.take(~sample.assessment)
        local.set_params(validation="random")  # the order of hashes means nothing
        rows = (frame_of(learned, data), learned.y)
        tolerance, elsewhere = 0.0 if sample.is_whole else self.tolerance, sketch.elsewhere
        if isinstance(local, AtlasClassifier):
            announced = [] if classes is None else [np.asarray(classes)]
            every = np.concatenate([*announced, sketch.classes])
            local._fit_announced(*rows, every, learned.weights, tolerance=tolerance, elsewhere=elsewhere)
        else:
            local._fit(*rows, learned.weights, tolerance=tolerance, elsewhere=elsewhere)
        local.set_params(**given)
        if sample.is_whole:
            return local
        task = RowsToSum(local, confined=not isinstance(local.domain, str))
        sums = summed(self.client_, data.map(summed_rows, task)).sums
        assessment = sample.take(sample.assessment)
        assessed = local._rows(*self._checked(local, assessment, data))
        held = self._held(local, sketch, data)
        whole, out_of_sample = of_all_rows(state_of(local.model_), sums, assessed, local._loss, held)
        local._take_state(out_of_sample)._assess_by(
            frame_of(assessment, data), assessment.y, assessment.weights
        )
        return local._take_first(whole, sum(sums.rows.values()) - local.fit_record_.rows)

    def _held(self, local: Any, sketch: Sketch, data: Partitions) -> HeldRows | None:
        """Rows that the local memory of a model keeps, if it has one: a sample if there are too many."""
        state = state_of(local.model_)
        kept = rows_kept(state)
        if not kept:
            return None
        return Summer(state).held(local._rows(*self._checked(local, sketch.sample(kept), data)))

    def _checked(self, local: Any, sample: Sample, data: Partitions) -> tuple[Array, Array, Array]:
        checked: tuple[Array, Array, Array] = local._checked(frame_of(sample, data), sample.y, sample.weights)
        return checked

    # --- updates --------------------------------------------------------------------------------------

    def partial_fit(
        self: Self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        message: str = "",
        author: str = "",
        accept: bool = False,
    ) -> Self:
        """Learn new data without forgetting; the first call is a `fit`.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        message, author, accept
            As in `AtlasRegressor.partial_fit`.

        Returns
        -------
        the estimator itself
        """
        if not hasattr(self, "_local"):
            return self._fit(X, y, sample_weight)
        return self._update(X, y, sample_weight, accept, message=message, author=author)

    def _update(self: Self, X: Any, y: Any, sample_weight: Any, accept: bool = False, **notes: str) -> Self:
        """Learn new rows: a sample decides where they belong, then the sums of all rows are added."""
        data = Partitions(X, (y, sample_weight))
        local, sketch = self._knowing(self._estimator(), data)
        sample = sketch.sample(self._size(data))
        if not sample.is_whole:
            sample = sample.take(slice(0, DECIDING_ROWS))
        with ONE_THREAD_EACH:
            checked = self._checked(local, sample, data)
            local._update(*checked, accept=accept, **notes)
            if len(sample) < sample.of:
                known = self._add_others(local, data, sketch, checked, accept)
                if known is not None:
                    warn_known(known)
                    return self
        return self._take(local)

    def partial_fit_each(self: Self, updates: Sequence[tuple[Any, Any]], *, accept: bool = False) -> Self:
        """Learn several updates; disjoint charts are trained in parallel, and merged.

        That is for ``retention="chart"`` and updates no larger than a sample; others are sequential. The
        predictions are bit for bit those after `partial_fit` with each of them in this order.

        Parameters
        ----------
        updates
            Pairs (X, y), each as in `fit`.
        accept
            As in `AtlasRegressor.partial_fit`. If one is refused, none is learned.

        Returns
        -------
        the estimator itself
        """
        local = self._estimator()
        local._now()  # raises if it is not fitted
        if local.retention != "chart":
            kept = self._local
            try:
                for X, y in updates:
                    self._update(X, y, None, accept)
            except UpdateRefused:
                self._take(kept)
                raise
            return self
        every = [Partitions(X, (y, None)) for X, y in updates]
        tables = []
        for data in every:
            local, sketch = self._knowing(local, data)
            tables.append(sketch.sample(self._size(data)))
        pairs = list(zip(tables, every, strict=True))
        rows = [self._checked(local, sample, data) for sample, data in pairs]
        boxes = [windows_of(local, frame_of(sample, data)) for sample, data in pairs]
        for wave in waves(boxes):
            local = trained_apart(self.client_, local, [rows[k] for k in wave], accept)
        return self._take(local)

    def _knowing(self, local: Any, data: Partitions) -> tuple[Any, Sketch]:
        """The estimator with new categories, and the sketch of rows; other rows are known by their sums."""
        local._check_columns(data.without_rows)
        kept = rows_kept(state_of(local.model_))
        sketch = self._sketch(data, kept, of_classes=False, of_cells=hasattr(local, "encoding_"))
        if sketch.rows > self._size(data):
            self._need_memory(local)
        return local if sketch.elsewhere is None else local._knowing_texts(sketch.elsewhere), sketch

    def _need_memory(self, local: Any) -> None:
        by_evidence = local.retention in POOLING and state_of(local.model_).pooled is not None
        if not by_evidence:
            raise ValueError(
                f"retention={local.retention!r} learns all rows at once, and there are more than "
                f"sample={self.sample}; use 'auto' or 'pool', or a larger sample"
            )

    def _add_others(
        self,
        local: Any,
        data: Partitions,
        sketch: Sketch,
        checked: tuple[Array, Array, Array],
        accept: bool,
    ) -> Update | None:
        """Add all other rows than the sample to the newest update, or to an earlier one with these rows."""
        assessed, model = local._rows(*checked), local.model_
        every, digest = digested(self.client_, data.map(summed_rows, RowsToSum(local, hashed=True)))
        others, held = every.sums - Summer(state_of(model))(assessed), self._held(local, sketch, data)
        return add_to_newest_update(model, assessed, others, local._loss, digest, accept, held)

    # --- memory ---------------------------------------------------------------------------------------

    @property
    def update_log_(self) -> list[Record]:
        """What updates did since `fit`, oldest first; see `AtlasRegressor.update_log_`."""
        log: list[Record] = self._estimator().update_log_
        return log

    def footprint(self, X: Any) -> ColumnFootprint:
        """The predictions that `partial_fit` with inputs X could change, without any training.

        Parameters
        ----------
        X
            Inputs of the new data, a Dask array or data frame.
        """
        data = Partitions(X, (None, None))
        local, sketch = self._knowing(self._estimator(), data)  # what learns by sums can change everything
        area: ColumnFootprint = local.footprint(frame_of(sketch.sample(self._size(data)), data))
        return area

    def revert(self: Self, id: int) -> Self:
        """Revert the update of this number in `update_log_`, exactly; see `AtlasRegressor.revert`.

        Parameters
        ----------
        id
            Number of the update.
        """
        return self._take(self._estimator().revert(id))

    # --- prediction -----------------------------------------------------------------------------------

    def predict(self, X: Any) -> da.Array:
        """Predict the target, or the most probable class, of each row, lazily.

        Parameters
        ----------
        X
            Inputs, a Dask array or data frame.

        Returns
        -------
        Dask array of shape (rows,), or (rows, targets) if there were several
        """
        learned = self._learned(X)
        return self._lazily(learned, "predict", X, *self._kind_of_prediction(learned))

    @abstractmethod
    def _kind_of_prediction(self, learned: Any) -> tuple[tuple[int, ...], Any]:
        """Shape and dtype of the prediction for one row."""

    def _learned(self, X: Any) -> Any:
        """The fitted estimator without Dask and without sums, which predicts such inputs."""
        local = self._estimator()
        local._check_columns(Partitions(X).without_rows)
        return predictor(local)

    def _lazily(self, task: Any, method: str, X: Any, shape: tuple[int, ...], dtype: Any) -> da.Array:
        """Lazy results of a method of the estimator for all rows, computed on their workers."""
        return each_part(predicted, (task, method, shape, dtype), X, shape, dtype)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of the predictions, averaged over targets, or the accuracy of classes.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        """
        task = self._learned(X), self._kind is AtlasClassifier
        answers = Partitions(X, (y, sample_weight)).map(errors_of, task)
        return self._score_of(self._computed(tree(answers, added)))

    @abstractmethod
    def _score_of(self, scored: Scored) -> float:
        """The score of all rows."""


def added(answers: list[Any]) -> Any:
    """The sum of answers."""
    return reduce(add, answers)


def rows_kept(state: State) -> int:
    """Rows that the local memory of a model keeps at most; 0 without one."""
    memory = memory_of(state)
    return 0 if memory is None else memory.budget


def frame_of(sample: Sample, data: Partitions) -> Any:
    """Inputs of a sample, with the names of the columns if they have some."""
    if data.names is None:
        return sample.X
    if not isinstance(sample.X, np.ndarray):
        return as_categories(sample.X, data.categories)
    from pandas import DataFrame  # only those who have data frames need it

    return DataFrame(sample.X, columns=data.names)
