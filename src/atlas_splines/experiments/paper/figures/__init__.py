"""Every figure of the paper, and ours beside them, in the paper's order.

Each is a short function and a record. Headlines state findings, and every number in them is computed from
what is drawn.
"""

from __future__ import annotations

from atlas_splines.experiments.paper.figures import appendix, charts, differences, main_experiment, theory

__all__ = ["DRAWINGS"]

DRAWINGS = [
    *theory.DRAWINGS,
    *main_experiment.DRAWINGS,
    *appendix.DRAWINGS,
    *theory.PROOFS,
    *charts.DRAWINGS,
    *differences.DRAWINGS,
]
