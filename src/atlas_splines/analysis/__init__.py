"""The theory as functions: the paper's three properties, and the representation theorem as a program.

Imports `core` only.
"""

from atlas_splines.analysis.properties import (
    expected_off_target,
    gradient_bound,
    gradient_norm,
    orthogonality_distance,
    overlap,
    sparsity,
)

__all__ = [
    "expected_off_target",
    "gradient_bound",
    "gradient_norm",
    "orthogonality_distance",
    "overlap",
    "sparsity",
]
