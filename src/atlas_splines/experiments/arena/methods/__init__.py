"""Every method of the arena, by name. To add one: a class as in `base`, and a line here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import NamedTuple

from atlas_splines.experiments.arena.methods.base import Method

__all__ = ["METHODS", "STREAM_METHODS", "Entry", "MissingPackage", "check_names", "find", "imported"]

FOLDER = "atlas_splines.experiments.arena.methods"


class Entry(NamedTuple):
    """Where a method is, what the table calls it, and whether it keeps all data."""

    label: str
    module: str
    class_name: str
    keeps_all: bool = False


METHODS = {
    "atlas-auto": Entry("ATLAS, automatic", "pooled", "Auto"),
    "atlas-pool": Entry("ATLAS, pooled", "pooled", "Pool"),
    "atlas-charts": Entry("ATLAS, charts", "atlas", "Charts"),
    "atlas-rehearsal": Entry("ATLAS, rehearsal", "atlas", "Rehearsal"),
    "atlas-both": Entry("ATLAS, both", "atlas", "Both"),
    "atlas-paper": Entry("ATLAS as in the paper", "atlas", "Paper"),
    "atlas-lazy": Entry("ATLAS, lazy Adam", "atlas", "Lazy"),
    "atlas-without": Entry("ATLAS without the guarantee", "atlas", "WithoutGuarantee"),
    "mlp": Entry("MLP", "mlp", "MLP"),
    "mlp-ewc": Entry("MLP, EWC", "ewc", "EWC"),
    "mlp-online-ewc": Entry("MLP, online EWC", "ewc", "OnlineEWC"),
    "mlp-rehearsal": Entry("MLP, rehearsal of 1000", "replay", "Reservoir"),
    "mlp-pseudo-rehearsal": Entry("MLP, pseudo-rehearsal", "replay", "PseudoRehearsal"),
    "mlp-ogd": Entry("MLP, OGD", "ogd", "OGD"),
    "mlp-pca-ogd": Entry("MLP, PCA-OGD", "ogd", "PCAOGD"),
    "mlp-dynamic-programming": Entry("MLP, dynamic programming", "dynamic", "DynamicProgramming"),
    "functional": Entry("functional regularisation", "functional", "FunctionalRegularisation"),
    "spline-activations": Entry("MLP, spline activations", "spline_activations", "SplineNetwork"),
    "progressive": Entry("progressive network", "progressive", "Progressive"),
    "pruning": Entry("MLP, graceful pruning", "pruning", "Pruning"),
    "linear": Entry("linear model", "stored", "Linear"),
    "lookup": Entry("lookup table", "lookup", "Lookup"),
    "pi-sigma": Entry("pi-sigma network", "pi_sigma", "PiSigma"),
    "spline-additive": Entry("spline additive model", "atlas", "SplineAdditive"),
    "kasam": Entry("KASAM", "kasam", "KASAM"),
    "kasam-pseudo-rehearsal": Entry("KASAM, pseudo-rehearsal", "kasam", "RehearsedKASAM"),
    "kan": Entry("KAN", "kan", "KAN"),
    "knn": Entry("k-nearest neighbours", "stored", "NearestNeighbours", keeps_all=True),
    "boosting": Entry("gradient boosting", "stored", "Boosting", keeps_all=True),
    "atlas-retrained": Entry("ATLAS, retrained", "stored", "RetrainedAtlas", keeps_all=True),
    "mlp-retrained": Entry("MLP, retrained", "stored", "RetrainedMLP", keeps_all=True),
}
STREAM_METHODS = {  # on streams only; there the methods above may run too
    "never": Entry("ATLAS, never updated", "pooled", "Never"),
    "atlas-sums": Entry("ATLAS, sums alone", "pooled", "Sums"),
    "river-amf": Entry("aggregated Mondrian forest", "river", "MondrianForest"),
    "river-forest": Entry("adaptive random forest", "river", "AdaptiveForest"),
    "river-tree": Entry("Hoeffding adaptive tree", "river", "HoeffdingTree"),
    "mlp-partial-fit": Entry("MLP, partial_fit", "online", "SteppedMLP"),
    "boosting-reservoir": Entry("boosting on a reservoir of 2000", "online", "ReservoirBoosting"),
    "boosting-window": Entry("boosting on a window of 3000", "online", "WindowBoosting"),
    "lightgbm-continued": Entry("LightGBM, continued", "lightgbm", "ContinuedLightGBM"),
    "catboost": Entry("CatBoost, refitted", "catboost", "RefittedCatBoost", keeps_all=True),
    "splines-forgetting": Entry("ridge on splines, forgetting", "splines", "ForgettingSplines"),
}


class MissingPackage(ImportError):
    """A method needs a package that is not installed."""


def check_names(names: Sequence[str], known: Mapping[str, Entry]) -> None:
    """Raise one clear sentence for a method that is not there."""
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"there is no method {unknown[0]!r}; there are {', '.join(known)}")


def find(name: str) -> type[Method]:
    """The class of a method.

    Examples
    --------
    >>> find("mlp-ewc").__name__
    'EWC'
    """
    entry = (METHODS | STREAM_METHODS)[name]
    try:
        method: type[Method] = getattr(import_module(f"{FOLDER}.{entry.module}"), entry.class_name)
    except ModuleNotFoundError as error:
        raise missing(error, "arena") from error
    return method


def imported(package: str, extra: str) -> ModuleType:
    """A package that only one method needs, and that comes with an extra of this one."""
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        raise missing(error, extra) from error


def missing(error: ModuleNotFoundError, extra: str) -> MissingPackage:
    """What is not installed, and how it is."""
    return MissingPackage(f"no module {error.name!r}: pip install 'atlas-splines[{extra}]'")
