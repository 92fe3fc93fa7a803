"""Pictures of models, estimators and their updates. Functions that draw take axes first and return them.

Imports `core`, `memory` and `estimators`. The only folder that imports matplotlib, besides the experiments.
"""

from atlas_splines.plots.drawing import (
    draw_box,
    draw_footprint,
    draw_history,
    draw_map,
    draw_shape,
    draw_terms,
    draw_updates,
    save_inspection,
    save_maps,
)

__all__ = [
    "draw_box",
    "draw_footprint",
    "draw_history",
    "draw_map",
    "draw_shape",
    "draw_terms",
    "draw_updates",
    "save_inspection",
    "save_maps",
]
