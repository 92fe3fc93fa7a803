"""Online learning: ATLAS as a model of river, which learns one row after the other.

May import `model` to `estimators`. The only folder that imports river, besides the experiments.
"""

try:
    import river  # noqa: F401
except ModuleNotFoundError as missing:
    if missing.name != "river":
        raise
    raise ModuleNotFoundError(
        "atlas_splines.river needs river; install it with: pip install 'atlas-splines[river]'", name="river"
    ) from None

from atlas_splines.river.models import RiverAtlasClassifier, RiverAtlasRegressor

__all__ = ["RiverAtlasClassifier", "RiverAtlasRegressor"]
