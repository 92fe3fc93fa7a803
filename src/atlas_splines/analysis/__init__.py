"""The theory as functions: the paper's three properties, the representation theorem, sources of variance.

Imports `core` only.
"""

from atlas_splines.analysis.polynomials import from_polynomial
from atlas_splines.analysis.properties import (
    expected_off_target,
    gradient_bound,
    gradient_norm,
    orthogonality_distance,
    overlap,
    sparsity,
)
from atlas_splines.analysis.variances import VarianceShares, variance_shares

__all__ = [
    "VarianceShares",
    "expected_off_target",
    "from_polynomial",
    "gradient_bound",
    "gradient_norm",
    "orthogonality_distance",
    "overlap",
    "sparsity",
    "variance_shares",
]
