"""What users give an estimator: arrays, or data frames whose columns become numbers, and targets."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils import check_array, check_X_y
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from atlas_splines.core.checks import check_weight_sizes
from atlas_splines.estimators.column_map import DomainChoice, checked_limits, limits_of
from atlas_splines.estimators.directions import column_directions
from atlas_splines.estimators.parameters import Parameters
from atlas_splines.estimators.targets import name_of_target, plain_target

if TYPE_CHECKING:
    from atlas_splines.tables.encoding import Column, Encoding
    from atlas_splines.tables.survey import Elsewhere

__all__ = ["Inputs", "holds_more_than_numbers", "usable"]

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
    _table_columns: Sequence[Column] = ()  # of a table, while rows of it are learned as numbers

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
        elsewhere: Elsewhere | None = None,
    ) -> tuple[Array, Array, Array]:
        """Inputs, targets and weights as arrays; the first ones may be some of the rows of a frame."""
        X, y, target = usable(X), plain_target(y, self._is_numeric), name_of_target(y)
        if first:
            self._start_columns(X, y, target, elsewhere)
        else:
            X = self._completed(X)
        options = self._target_options
        checked: tuple[Array, Array]
        if hasattr(self, "encoding_"):
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
        X = usable(X)
        table: Array
        if hasattr(self, "encoding_"):
            self._check_columns(X)
            table = check_array(self._encoded(X), ensure_all_finite="allow-nan")
        else:
            table = validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")
        self._refuse_missing(table)
        return table

    def _check_columns(self, X: Any) -> None:
        """Refuse other columns than those of `fit`; rows are not needed."""
        check_is_fitted(self, "model_")
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

    def _start_columns(self, X: Any, y: Any, target: str, elsewhere: Elsewhere | None) -> None:
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

        X = usable(X)
        self._check_columns(X)
        draft = copy.copy(self)  # readers on other threads see new categories and what was learned at once
        draft.encoding_ = with_new_categories(X, self.encoding_)
        return draft

    def _knowing_texts(self: Self, elsewhere: Elsewhere) -> Self:
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
        X = usable(X)
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
        draft.n_features_in_ = len(draft.encoding_.columns)
        draft.feature_names_in_ = np.array(draft.encoding_.names, object)
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


def usable(X: Any) -> Any:
    """What users give, without an index of pandas that came as a column; a sparse matrix is refused."""
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
