"""Parameters of estimators, and the arrays and data frames that they are given."""

from __future__ import annotations

import copy
import os
import re
from abc import ABC
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_X_y
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from threadpoolctl import threadpool_info

from atlas_splines.estimators.fit import VALIDATIONS, Auto, FitOptions, Validation
from atlas_splines.estimators.input_space import DomainChoice, checked_limits, column_directions, limits_of
from atlas_splines.estimators.targets import name_of_target, plain_target
from atlas_splines.memory.pool import RECENT
from atlas_splines.model.checks import check_number, check_size, check_weight_sizes
from atlas_splines.model.lattice import MAX_DENSITY
from atlas_splines.model.linear_algebra import ONE_THREAD_EACH
from atlas_splines.model.state import Monotonic
from atlas_splines.tables.encoded_rows import EncodedRows
from atlas_splines.updates.initial_memory import FEATURES
from atlas_splines.updates.plan import RETENTIONS, Retention

if TYPE_CHECKING:
    from atlas_splines.tables.encoding import Column, Encoding
    from atlas_splines.tables.inference import Remote

__all__ = ["ClassWeight", "Inputs", "Parameters", "holds_more_than_numbers", "run_in_threads", "usable"]

Result = TypeVar("Result")


def run_in_threads(
    function: Callable[[int], Result], numbers: Iterable[int], n_jobs: int | None
) -> list[Result]:
    """Map a function over numbers; the result does not depend on the number of threads.

    Parameters
    ----------
    function, numbers
        What to call, and with what.
    n_jobs
        Threads, as scikit-learn counts them; None takes all cores that OpenMP would take, as boosting does.

    Examples
    --------
    >>> run_in_threads(lambda k: k**2, range(4), n_jobs=2)
    [0, 1, 4, 9]
    """
    numbers = list(numbers)
    threads = min(free_cores() if n_jobs is None else counted_jobs(n_jobs), len(numbers))
    with ONE_THREAD_EACH:  # for one thread too: sums of linear algebra are rounded as its threads share them
        if threads <= 1:
            return [function(k) for k in numbers]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(function, numbers))


def counted_jobs(n_jobs: int) -> int:
    """Threads for a number as scikit-learn has it: -1 is all cores, -2 all but one.

    Examples
    --------
    >>> counted_jobs(3), counted_jobs(-1) == os.cpu_count()
    (3, True)
    """
    return n_jobs if n_jobs > 0 else max((os.cpu_count() or 1) + 1 + n_jobs, 1)


def free_cores() -> int:
    """Cores of this process, or fewer if OMP_NUM_THREADS or a parallel search around it says so."""
    pools = (pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp")
    return min(pools, default=os.cpu_count() or 1)


ClassWeight = Mapping[Any, float] | Literal["balanced"] | None

LOSSES = {
    "squared_error": "mse",
    "absolute_error": "mae",
    "huber": "huber",
    "quantile": "mse",  # of which errors on held-out rows tell the quantile
    "poisson": "mse",  # of the roots of counts
    "log_loss": "cross-entropy",
}
CHOICES = {
    "extrapolation": ("constant", "linear", "error"),
    "missing": ("error", "learn"),
    "memory": ("rows", "sums"),
    "retention": RETENTIONS,
    "validation": VALIDATIONS,
}


class Parameters(BaseEstimator, ABC):
    """The parameters that regressor and classifier share; `AtlasRegressor` describes them."""

    _losses: tuple[str, ...]

    def __init__(
        self,
        *,
        density: Auto = "auto",
        terms: Auto = "auto",
        members: int = 2,
        domain: DomainChoice = "quantiles",
        extrapolation: Literal["constant", "linear", "error"] = "constant",
        missing: Literal["error", "learn"] = "learn",
        retention: Retention = "auto",
        features: int = FEATURES,
        memory: Literal["rows", "sums"] = "rows",
        max_rows: int = 100_000,
        undo: int = RECENT,
        half_life: float | None = None,
        monotonic_cst: ArrayLike | Mapping[str, int] | None = None,
        loss: str = "auto",
        quantile: float = 0.5,
        class_weight: ClassWeight = None,
        dates: Mapping[str, str] | None = None,
        learning_rate: float = 0.01,
        max_iter: int = 200,
        batch_size: int = 100,
        early_stopping: bool = True,
        validation_fraction: float = 0.1,
        validation: Validation = "auto",
        n_iter_no_change: Auto = "auto",
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.density = density
        self.terms = terms
        self.members = members
        self.domain = domain
        self.extrapolation = extrapolation
        self.missing = missing
        self.retention = retention
        self.features = features
        self.memory = memory
        self.max_rows = max_rows
        self.undo = undo
        self.half_life = half_life
        self.monotonic_cst = monotonic_cst
        self.loss = loss
        self.quantile = quantile
        self.class_weight = class_weight
        self.dates = dates
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.validation = validation
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _check_parameters(self) -> None:
        """Raise one clear sentence if a parameter is not what it should be."""
        for name, most in (("density", MAX_DENSITY), ("terms", None), ("n_iter_no_change", None)):
            value = getattr(self, name)
            if not (isinstance(value, str) and value == "auto"):
                check_size(name, value, least=0 if name != "n_iter_no_change" else 1, most=most)
        for name in ("members", "max_iter", "batch_size"):
            check_size(name, getattr(self, name), least=1)
        check_size("features", self.features, least=0)
        check_size("max_rows", self.max_rows, least=1)
        check_size("undo", self.undo, least=1)
        if self.half_life is not None:
            check_number("half_life", self.half_life, least=1)
        check_number("learning_rate", self.learning_rate, least=1e-300)
        if not 0 < check_number("validation_fraction", self.validation_fraction, least=0) <= 0.5:
            raise ValueError(f"validation_fraction must be in (0, 0.5], not {self.validation_fraction}")
        if not 0 < check_number("quantile", self.quantile, least=0) < 1:
            raise ValueError(f"quantile must lie between 0 and 1, such as 0.9, not {self.quantile}")
        if self.loss == "quantile" and not self.features:
            raise ValueError(
                "loss='quantile' needs features of at least 1: errors are kept with the evidence"
            )
        choices = {**CHOICES, "loss": ("auto", *self._losses)}
        if isinstance(self.domain, str):
            choices["domain"] = ("data", "quantiles")
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, not {getattr(self, name)!r}")
        self._check_class_weight()
        self._check_dates()
        if self.monotonic_cst is not None and self.extrapolation == "linear":
            raise ValueError(
                "monotonic_cst does not go with extrapolation='linear', whose slopes along other columns "
                "could turn predictions around; use 'constant' or 'error'"
            )

    def _check_dates(self) -> None:
        """Refuse what tells no parts of dates."""
        if self.dates is not None and not is_texts_by_name(self.dates):
            raise ValueError(
                "dates must be a dict of parts by column, such as {'sold': 'hour,trend'}, "
                f"not {self.dates!r}"
            )

    def _check_class_weight(self) -> None:
        """Refuse what tells no weights of classes."""
        if self.class_weight is None:
            return
        if "log_loss" not in self._losses:
            raise ValueError("class_weight is for classes; give the rows of numbers a sample_weight")
        if isinstance(self.class_weight, Mapping):
            for label, weight in self.class_weight.items():
                check_number(f"class_weight of {label!r}", weight, least=1e-30)
        elif self.class_weight != "balanced":
            raise ValueError(
                "class_weight must be 'balanced', or a dict with the weights of classes, "
                f"not {self.class_weight!r}"
            )

    @property
    def _loss(self) -> str:
        """Name of the loss in the core."""
        return LOSSES[self._losses[0] if self.loss == "auto" else self.loss]

    def _fit_options(self, outputs: int, monotonic: Monotonic = ()) -> FitOptions:
        """How `fit` trains, for so many outputs, and which way these have to go."""
        return FitOptions(
            outputs=outputs,
            loss=self._loss,
            density=self.density,
            terms=self.terms,
            epochs=self.max_iter,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            held_out=self.validation_fraction,
            validation=self.validation,
            patience=self.n_iter_no_change if self.early_stopping else None,
            verbose=bool(self.verbose),
            monotonic=monotonic,
            members=self.members,
            max_rows=self.max_rows if self.memory == "rows" else 0,
        )


def is_texts_by_name(value: object) -> bool:
    """Whether something is a dict of texts."""
    return isinstance(value, Mapping) and all(isinstance(text, str) for text in (*value, *value.values()))


Array = NDArray[Any]
Self = TypeVar("Self", bound="Inputs")

UNNAMED_INDEX = re.compile(r"__index_level_\d+__")  # a column in which pandas stores an index in Parquet
NUMBERS = re.compile(r"u?int\d+|half_?float|float|double|bool|decimal.*")  # types of pyarrow
UNKNOWN = 'correct it, learn it with partial_fit, or fit with missing="learn", which reads it as missing'


class Inputs(Parameters):
    """The part of an estimator that knows its columns, and makes numbers of what they hold.

    A frame of numbers is an array with names. For one with texts, categories or dates `fit` learns an
    `encoding_`, as the command does: the columns become inputs, and all else knows these only.
    """

    encoding_: Encoding
    _came = 0  # columns that came after the fit

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns, or "column 0" and so on.

        Examples
        --------
        >>> import numpy as np
        >>> from atlas_splines import AtlasRegressor
        >>> AtlasRegressor(terms=0, density=0).fit(np.eye(3), np.ones(3)).column_names
        ('column 0', 'column 1', 'column 2')
        """
        check_is_fitted(self, "n_features_in_")
        if hasattr(self, "encoding_"):
            return tuple(self.encoding_.names)
        names = getattr(self, "feature_names_in_", [f"column {j}" for j in range(self.n_features_in_)])
        return tuple(map(str, names))

    @property
    def _known_classes(self) -> Array | None:
        """Classes of a classifier; None for numbers."""
        return None

    @property
    def _table(self) -> Encoding | None:
        """The encoding of its table with the classes that its target has by now; None for an array."""
        if not hasattr(self, "encoding_"):
            return None
        classes = self._known_classes
        return replace(self.encoding_, classes=None if classes is None else tuple(classes.tolist()))

    def _name_columns(self, names: Sequence[str]) -> None:
        self.n_features_in_, self.feature_names_in_ = len(names), np.array(names, object)

    @property
    def _input_names(self) -> tuple[str, ...]:
        """Names of the numbers that the columns become."""
        return tuple(self.encoding_.inputs) if hasattr(self, "encoding_") else self.column_names

    @property
    def _column_of_inputs(self) -> NDArray[np.int64]:
        """Number of the column that each of these tells of."""
        if hasattr(self, "encoding_"):
            return self.encoding_.column_of_inputs
        return np.arange(self.n_features_in_)

    def _called(self, j: int) -> str:
        """What messages call an input."""
        return repr(self._input_names[j]) if hasattr(self, "encoding_") else str(j)

    # --- checks ---------------------------------------------------------------------------------------

    def _checked(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        first: bool = False,
        elsewhere: Remote | None = None,
        encoding: Encoding | None = None,
    ) -> tuple[Array, Array, Array]:
        """Inputs, targets and weights as arrays; the first ones may be some of the rows of a table.

        Rows that are encoded bring the `encoding` of their table to a fit.
        """
        X = usable(X) if first else self._usable(X)
        y, target = plain_target(y, self._is_numeric), name_of_target(y)
        if first and encoding is not None:
            self.encoding_, self._came = replace(encoding, classes=None), 0
            self._name_columns(encoding.names)
        elif first:
            self._start_columns(X, y, target, elsewhere)
        else:
            X = self._completed(X)
        options = self._target_options
        checked: tuple[Array, Array]
        if isinstance(X, EncodedRows):
            checked = check_X_y(self._own_inputs(X), y, estimator=self, **options)
        elif hasattr(self, "encoding_"):
            validate_data(self, X, y, reset=first, skip_check_array=True)
            checked = check_X_y(self._encoded(X), y, estimator=self, **options)
        else:
            checked = validate_data(self, X, y, reset=first, **options)
        self._refuse_missing(checked[0])
        # those of a fit are divided by their mean before they are rounded
        kind = np.float64 if first else np.float32
        weights = _check_sample_weight(sample_weight, checked[0], dtype=kind, ensure_non_negative=True)
        check_weight_sizes("sample_weight", weights.astype(np.float32))
        return *checked, weights

    @property
    def _is_numeric(self) -> bool:
        """Whether targets are numbers, and not classes."""
        return "squared_error" in self._losses

    @property
    def _target_options(self) -> dict[str, Any]:
        """How scikit-learn shall check inputs and targets."""
        numeric = {"multi_output": self._is_numeric, "y_numeric": self._is_numeric}
        return {"dtype": np.float64, "ensure_all_finite": "allow-nan", **numeric}

    def _inputs(self, X: ArrayLike) -> Array:
        """Inputs as an array."""
        X = self._usable(X)
        table: Array
        if isinstance(X, EncodedRows):
            table = check_array(self._own_inputs(X), ensure_all_finite="allow-nan")
        elif hasattr(self, "encoding_"):
            self._check_columns(X)
            table = check_array(self._encoded(X), ensure_all_finite="allow-nan")
        else:
            table = validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")
        self._refuse_missing(table)
        return table

    def _own_inputs(self, rows: EncodedRows) -> Array:
        """Numbers of encoded rows, shape (rows, inputs)."""
        if rows.values.shape[1:] != (len(self._input_names),):
            raise ValueError(
                f"X is encoded as {rows.values.shape[1]} inputs, and the model has {len(self._input_names)}; "
                "encode it with its encoding_"
            )
        return rows.values

    def _usable(self, X: Any) -> Any:
        """Rows in any form that is taken: of a table in a file by the names of its columns."""
        known = getattr(self, "feature_names_in_", np.zeros(0, object)).tolist()
        X = usable(X, known, self.missing == "learn")
        if not hasattr(self, "encoding_") or self.encoding_.of_frame or isinstance(X, EncodedRows):
            return X
        names, beside = names_of(X), {self.encoding_.target, *self.encoding_.left_out}
        there = [name for name in known if name in names]
        wanted = there + [name for name in names if name not in known and name not in beside]
        if not there or wanted == names or len({*names}) < len(names):
            return X
        from atlas_splines.tables.frames import chosen

        return chosen(X, wanted)

    def _check_columns(self, X: Any) -> None:
        """Refuse other columns than those of `fit`; rows are not needed."""
        check_is_fitted(self, "model_")
        if not isinstance(X, EncodedRows):
            validate_data(self, X, reset=False, skip_check_array=True)

    def _refuse_missing(self, X: Array) -> None:
        if self.missing != "learn" and np.isnan(X).any():
            row, j = np.argwhere(np.isnan(X))[0].tolist()
            self._fail_missing(row, self._called(j))

    def _fail_missing(self, row: int, column: str) -> None:
        raise ValueError(
            f'X contains NaN, in row {row} of column {column}; fill it in, or fit with missing="learn"'
        )

    # --- frames ---------------------------------------------------------------------------------------

    def _start_columns(self, X: Any, y: Any, target: str, elsewhere: Remote | None) -> None:
        """Learn how the columns of a frame become inputs, if some hold more than numbers."""
        self.__dict__.pop("encoding_", None)  # of an earlier fit
        self._came = 0
        self._check_dates()
        if not holds_more_than_numbers(X) and not (self.dates and names_of(X)):
            return
        from atlas_splines.tables.frames import learn_encoding  # it loads pyarrow, which numbers do without

        check_X_y(np.zeros((X.shape[0], 1)), y, estimator=self, **self._target_options)
        found = learn_encoding(X, names_of(X), target, self.dates or {}, elsewhere)
        if found is not None:
            self.encoding_ = found

    def _encoded(self, X: Any) -> Array:
        """A frame as numbers, shape (rows, inputs)."""
        from atlas_splines.tables.frames import encode_frame, first_missing

        if self.missing == "learn":
            return encode_frame(X, self.encoding_, None)
        missing = first_missing(X, self.encoding_)
        if missing is not None:
            self._fail_missing(missing[0], repr(missing[1]))
        return encode_frame(X, self.encoding_, UNKNOWN)

    def _knowing(self: Self, X: Any) -> Self:
        """The estimator itself, or a draft that knows the new categories of a frame."""
        if not hasattr(self, "encoding_"):
            return self
        from atlas_splines.tables.frames import with_new_categories

        X = self._usable(X)
        if isinstance(X, EncodedRows):
            return self
        self._check_columns(X)
        draft = copy.copy(self)  # readers on other threads see new categories and what was learned at once
        draft.encoding_ = with_new_categories(X, self.encoding_)
        return draft

    def _knowing_texts(self: Self, elsewhere: Remote) -> Self:
        """The estimator itself, or a draft that knows the new categories of rows that are elsewhere."""
        if not hasattr(self, "encoding_"):
            return self
        from atlas_splines.tables.frames import with_texts_of

        draft = copy.copy(self)
        draft.encoding_ = with_texts_of(elsewhere, self.encoding_)
        return draft

    # --- columns that come, or no longer come -----------------------------------------------------------

    def _completed(self, X: Any) -> Any:
        """A frame, or one with the columns that it lacks: their values are missing."""
        names, known = names_of(X), getattr(self, "feature_names_in_", np.zeros(0, object)).tolist()
        gone = [name for name in known if name not in names]
        if not gone or len(gone) == len(known) or {*names} - {*known}:
            return X  # all columns are there, or the check of names says what is wrong
        if self.missing != "learn":
            raise ValueError(
                f"X lacks the column {', '.join(map(repr, gone))}, which missing={self.missing!r} refuses; "
                'give it, or call set_params(missing="learn") first, by which it counts as missing'
            )
        from atlas_splines.tables.encoding import frame
        from atlas_splines.tables.frames import completed, encode_frame

        draft = self._with_encoding()
        whole = completed(X, names, draft.encoding_)
        if hasattr(self, "encoding_"):
            return whole
        return frame(known, list(encode_frame(whole, draft.encoding_, None).T))

    def _new_columns(self, X: Any, allowed: bool) -> tuple[Any, tuple[Column, ...]]:
        """A frame without the columns that are not known, and how these become inputs.

        They are refused unless that is allowed. One that holds nothing is left out.
        """
        X = self._usable(X)
        names, known = names_of(X), getattr(self, "feature_names_in_", np.zeros(0, object)).tolist()
        new = [name for name in names if name not in known]
        if not known or not new or len(new) == len(names):
            return self._completed(X), ()
        if not allowed:
            what, them = ("column", "it") if len(new) == 1 else ("columns", "them")
            raise ValueError(
                f"X has the {what} {', '.join(map(repr, new))}, which the model has not seen; learn {them} "
                f"with new_columns=True, or leave {them} out"
            )
        from atlas_splines.tables.frames import chosen, survey_new

        columns = survey_new(chosen(X, new), new, self._with_encoding().encoding_)
        return self._completed(chosen(X, [name for name in names if name in known])), columns

    def _with_encoding(self: Self) -> Self:
        """The estimator itself, or a draft with the encoding of a frame of numbers, which had none."""
        if hasattr(self, "encoding_"):
            return self
        from atlas_splines.tables.encoding import Column, Encoding
        from atlas_splines.tables.frames import unused_name

        draft, names = copy.copy(self), list(self.column_names)
        draft.encoding_ = Encoding(tuple(map(Column, names)), unused_name("target", names), of_frame=True)
        return draft

    def _grown_by(self: Self, columns: Sequence[Column]) -> Self:
        """A draft that knows more columns of a frame, and has learned nothing of them."""
        draft = copy.copy(self)
        draft.encoding_ = replace(self.encoding_, columns=(*self.encoding_.columns, *columns))
        draft._name_columns(draft.encoding_.names)
        return draft

    def _become(self: Self, draft: Self) -> Self:
        """Let the estimator be what a draft has become."""
        self.__dict__ = draft.__dict__
        return self

    def _limits(self, X: Array) -> DomainChoice:
        """The domain that was asked for; limits of columns of numbers, and of other inputs as they are."""
        if isinstance(self.domain, str) or not hasattr(self, "encoding_"):
            return self.domain
        of_fit = self.n_features_in_ - self._came
        given = [*checked_limits(self.domain, of_fit), *[None] * self._came]
        columns = [self.encoding_.columns[k] for k in self._column_of_inputs]
        return [
            given[k] or limits_of(X[~np.isnan(X[:, j]), j])
            if column.categories is None and column.calendar is None
            else limits_of(X[:, j])
            for j, (k, column) in enumerate(zip(self._column_of_inputs, columns, strict=True))
        ]

    def _directions(self) -> NDArray[np.int8]:
        """Which way predictions have to go along each input, of `monotonic_cst`."""
        asked, names = self.monotonic_cst, getattr(self, "feature_names_in_", None)
        if asked is None or not hasattr(self, "encoding_"):
            return column_directions(asked, self.n_features_in_, None if names is None else list(names))
        if not isinstance(asked, Mapping):
            ways = column_directions(asked, self.n_features_in_ - self._came, None).tolist()
            asked = {name: way for name, way in zip(self.column_names, ways, strict=not self._came) if way}
        for column in self.encoding_.columns:
            if column.categories is not None and not asked.keys().isdisjoint([column.name, *column.inputs]):
                raise ValueError(
                    f"monotonic_cst names {column.name!r}, whose categories have no order; leave it out"
                )
            if column.calendar is not None and column.name in asked:
                raise ValueError(
                    f"monotonic_cst names {column.name!r}, a date; name a part of it, such as "
                    f"{column.inputs[-1]!r}"
                )
        return column_directions(asked, len(self._input_names), self._input_names)


def usable(X: Any, known: Sequence[str] = (), completed: bool = False) -> Any:
    """What users give, without an index of pandas that came as a column; a sparse matrix is refused.

    Rows as dictionaries become a frame, with columns in the order of those that are `known`; if it is to be
    `completed`, with all of these.
    """
    if isinstance(X, list | tuple) and len(X) and all(isinstance(row, Mapping) for row in X):
        from atlas_splines.tables.frames import frame_of_rows

        there = dict.fromkeys(key for row in X for key in row)
        return frame_of_rows(
            X, [key for key in known if completed or key in there] + [k for k in there if k not in known]
        )
    if sparse.issparse(X):
        size = 8 * np.prod(X.shape, dtype=float) / 1e6
        raise TypeError(
            f"X is a sparse matrix, and dense data is needed; give X.toarray(), which takes {size:,.0f} MB, "
            "or fewer columns, such as those of TruncatedSVD"
        )
    if not type(X).__module__.startswith(("polars", "pyarrow")):  # pandas itself makes an index of it
        return X
    index = [name for name in names_of(X) if UNNAMED_INDEX.fullmatch(name)]
    return X.drop(index) if index else X


def names_of(X: Any) -> list[str]:
    """Names of the columns of a frame; of others there are none."""
    return list(map(str, getattr(X, "column_names", getattr(X, "columns", ()))))


def holds_more_than_numbers(X: Any) -> bool:
    """Whether something is a frame with columns of texts, categories, dates, or missing truth values."""
    library = type(X).__module__.partition(".")[0]
    if library == "pandas" and hasattr(X, "columns"):
        flags = X.columns[[dtype.kind == "b" for dtype in X.dtypes]]
        return any(dtype.kind not in "biufc" for dtype in X.dtypes) or bool(X[flags].isna().any(axis=None))
    if library == "polars" and hasattr(X, "get_columns"):
        return any(
            column.null_count() > 0 if str(column.dtype) == "Boolean" else not column.dtype.is_numeric()
            for column in X.get_columns()
        )
    if library == "pyarrow" and hasattr(X, "schema"):
        return not all(NUMBERS.fullmatch(str(kind)) for kind in X.schema.types)
    return False
