"""Rows for tests of clusters: in any order and any partitions, and one partition whose worker is killed."""

import os
import signal

import dask.array as da
import numpy as np

ROWS = 6000


def rows_and_targets(rows=ROWS, seed=0):
    random = np.random.default_rng(seed)
    X = random.random((rows, 3))
    y = np.sin(6 * X[:, 0]) * X[:, 1] + X[:, 2] + 0.05 * random.normal(size=rows)
    return X, y


def labels_of(X, y):
    """Classes of rows, one of which is rare."""
    return np.array(["high", "low", "rare"])[np.where(X[:, 0] < 1e-3, 2, (y < 0.5).astype(int))]


def in_chunks(X, y, rows, order=slice(None)):
    return da.from_array(X[order], chunks=(rows, X.shape[1])), da.from_array(y[order], chunks=rows)


def killing(block, flags, block_info=None):
    """The block; but who computes the second one kills itself, as often as there are flags."""
    if block_info is not None and block_info[0]["chunk-location"][0] == 1:
        for flag in flags:
            if not os.path.exists(flag):
                with open(flag, "x"):
                    pass
                os.kill(os.getpid(), signal.SIGKILL)
    return block
