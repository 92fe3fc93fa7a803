"""The Cholesky factor of a covariance matrix that grows by rows, with the bits of one made from scratch.

Rows come in blocks of a fixed size, counted from the first row, and a block is factored when it comes
(left-looking block Cholesky; Golub and Van Loan 2013, section 4.2.9). Complete blocks never change; the last,
incomplete one is factored again when rows join it. So the factor of given rows in a given order has the same
bits however many of them came at once, which a library routine does not promise. It takes as long as LAPACK's
for 1,000 rows, and forty more rows take a tenth of that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dtrtri

__all__ = ["BLOCK", "NO_ROWS", "Cholesky"]

Array = NDArray[np.float64]

BLOCK = 64  # rows; with 32 or 128 the factor of 300 to 1,000 rows takes up to a tenth longer


@dataclass(frozen=True, eq=False)
class Cholesky:
    """The lower factor L of a covariance matrix LLᵀ; never changed in place.

    Attributes
    ----------
    panels
        Rows of L, a block each, up to and with the diagonal: shapes (rows of the block, rows so far).
    inverses
        Inverses of the diagonal blocks, shapes (rows of the block, rows of the block).

    Examples
    --------
    >>> matrix = np.eye(100) + 1
    >>> whole = NO_ROWS.grown(matrix)
    >>> parts = NO_ROWS.grown(matrix[:90, :90])
    >>> parts = parts.grown(matrix[parts.settled :])
    >>> all(bool((a == b).all()) for a, b in zip(whole.panels, parts.panels))
    True
    >>> bool(np.allclose(matrix @ whole.solve(np.ones((100, 1))), 1))
    True
    """

    panels: tuple[Array, ...]
    inverses: tuple[Array, ...]

    def __len__(self) -> int:
        """Number of rows."""
        return self.panels[-1].shape[1] if self.panels else 0

    @property
    def settled(self) -> int:
        """Rows in complete blocks, which stay as they are."""
        return len(self) // BLOCK * BLOCK

    @property
    def nbytes(self) -> int:
        """Bytes of the factor."""
        return sum(panel.nbytes for panel in self.panels)

    def grown(self, covariance: Array) -> Cholesky:
        """The factor of more rows.

        Parameters
        ----------
        covariance
            Rows of the covariance matrix from the first that is not `settled` on, shape (rows − settled,
            rows). Only its lower triangle is read.
        """
        blocks, settled = self.settled // BLOCK, self.settled
        panels, inverses = list(self.panels[:blocks]), list(self.inverses[:blocks])
        for begin in range(0, len(covariance), BLOCK):
            start, end = settled + begin, settled + min(begin + BLOCK, len(covariance))
            panel = np.array(covariance[begin : end - settled, :end])
            at = 0
            for above, inverse in zip(panels, inverses, strict=True):
                own = slice(at, above.shape[1])
                if at:
                    panel[:, own] -= panel[:, :at] @ above[:, :at].T
                panel[:, own] = panel[:, own] @ inverse.T
                at = above.shape[1]
            corner = panel[:, start:] - panel[:, :start] @ panel[:, :start].T
            panel[:, start:] = _factored(corner)
            panels.append(panel)
            inverses.append(np.ascontiguousarray(dtrtri(panel[:, start:], lower=1)[0]))
        return Cholesky(tuple(panels), tuple(inverses))

    def solve(self, targets: Array) -> Array:
        """(LLᵀ)⁻¹ times targets, shape (rows, outputs)."""
        solved, at = np.array(targets), 0
        for panel, inverse in zip(self.panels, self.inverses, strict=True):
            own = slice(at, panel.shape[1])
            solved[own] = inverse @ (solved[own] - panel[:, :at] @ solved[:at])
            at = panel.shape[1]
        for panel, inverse in zip(self.panels[::-1], self.inverses[::-1], strict=True):
            at = panel.shape[1] - len(panel)
            own = slice(at, panel.shape[1])
            solved[own] = inverse.T @ solved[own]
            solved[:at] -= panel[:, :at].T @ solved[own]
        return solved

    @property
    def dense(self) -> Array:
        """L as one array of shape (rows, rows), with zeros above its diagonal."""
        found = np.zeros((len(self), len(self)))
        for panel in self.panels:
            end = panel.shape[1]
            found[end - len(panel) : end, :end] = panel
        return found


NO_ROWS = Cholesky((), ())


def _factored(corner: Array) -> Array:
    try:
        return np.asarray(np.linalg.cholesky(corner), np.float64)  # reads the lower triangle alone
    except np.linalg.LinAlgError as failed:
        raise ArithmeticError(
            "the covariance of a box is not positive definite; its rows are not numbers"
        ) from failed
