"""Axes to draw on, what was drawn on them, and the data of the pictures."""

import numpy as np
from matplotlib.figure import Figure

X = np.random.default_rng(0).random((300, 3)) * [10, 1, 100]
PRODUCT = 50 + X[:, 0] * X[:, 1]


def axes():
    return Figure().subplots()


def line(drawn, label):
    [found] = [line for line in drawn.lines if line.get_label() == label]
    return found.get_xdata(), found.get_ydata()


def bars(drawn):
    """(low, high) and colour of every bar, in the order of drawing."""
    for collection in drawn.collections:
        for path in collection.get_paths():
            (left, bottom), (right, top) = path.get_extents().get_points()
            yield left, right, (bottom + top) / 2, collection.get_facecolor()[0]
