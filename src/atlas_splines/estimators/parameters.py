"""Parameters of the estimators: their defaults, their checks, and what follows from them."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from atlas_splines.core.checks import check_number, check_size
from atlas_splines.core.lattice import MAX_DENSITY
from atlas_splines.core.state import Signs
from atlas_splines.estimators.column_map import DomainChoice
from atlas_splines.estimators.fitting import VALIDATIONS, Auto, FitOptions, Validation
from atlas_splines.evidence.pool import RECENT
from atlas_splines.memory.first_rows import FEATURES
from atlas_splines.memory.plans import RETENTIONS, Retention

__all__ = ["ClassWeight", "Parameters"]

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
        missing: Literal["error", "learn"] = "error",
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

    def _fit_options(self, outputs: int, signs: Signs = ()) -> FitOptions:
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
            signs=signs,
            members=self.members,
            max_rows=self.max_rows if self.memory == "rows" else 0,
        )


def is_texts_by_name(value: object) -> bool:
    """Whether something is a dict of texts."""
    return isinstance(value, Mapping) and all(isinstance(text, str) for text in (*value, *value.values()))
