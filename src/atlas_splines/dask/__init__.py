"""Tables larger than a machine: fit, update and predict on a Dask cluster, with the bits of one process.

May import `model` to `versions`, but neither `nn` nor `plots`. The only folder that imports Dask, besides the
experiments.
"""

try:
    import distributed  # noqa: F401
except ModuleNotFoundError as missing:
    if missing.name not in ("dask", "distributed"):
        raise
    raise ModuleNotFoundError(
        "atlas_splines.dask needs Dask; install it with: pip install 'atlas-splines[dask]'", name=missing.name
    ) from None

from atlas_splines.dask.estimators import DaskAtlasClassifier, DaskAtlasRegressor

__all__ = ["DaskAtlasClassifier", "DaskAtlasRegressor"]
