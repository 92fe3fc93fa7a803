"""Pictures of models, estimators and their updates. Functions that draw take axes first and return them.

May import `model` to `estimators`. The only folder that imports matplotlib, besides the experiments.
"""

from atlas_splines.plots.explanations import draw_beeswarm, draw_dependence, draw_waterfall
from atlas_splines.plots.footprints import draw_footprint, draw_updates
from atlas_splines.plots.history import draw_history
from atlas_splines.plots.inspection import save_inspection
from atlas_splines.plots.maps import draw_box, draw_map, save_maps
from atlas_splines.plots.shapes import draw_shape, draw_terms

__all__ = [
    "draw_beeswarm",
    "draw_box",
    "draw_dependence",
    "draw_footprint",
    "draw_history",
    "draw_map",
    "draw_shape",
    "draw_terms",
    "draw_updates",
    "draw_waterfall",
    "save_inspection",
    "save_maps",
]
