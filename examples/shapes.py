"""Draw docs/shapes.png: what drives the number of rented bikes.

The data is `hour.csv` of UCI's Bike Sharing: python examples/shapes.py hour.csv shapes.png
"""

import sys

import numpy as np
from matplotlib.figure import Figure

from atlas_splines import AtlasRegressor
from atlas_splines.plots import draw_shape

COLUMNS = {
    "hour of the day": 5,
    "temperature (scaled)": 10,
    "humidity (scaled)": 12,
    "working day: no or yes": 8,
}
TARGET = 16


def main(source: str, picture: str) -> None:
    """Fit the data and save the shapes of all columns."""
    table = np.loadtxt(source, delimiter=",", skiprows=1, usecols=[*COLUMNS.values(), TARGET])
    X, y = table[:, :-1], table[:, -1]
    model = AtlasRegressor(members=2, random_state=0).fit(X, y)
    figure = Figure(figsize=(11, 3.1), layout="constrained")
    panels = figure.subplots(1, len(COLUMNS), sharey=True)
    for column, (axes, name) in enumerate(zip(panels, COLUMNS, strict=True)):
        draw_shape(axes, model, column, X=X).set(xlabel=name, ylabel="")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set(ylabel="bikes in an hour", xticks=range(0, 25, 6))
    panels[-1].set(xticks=[0, 1])
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    main(*sys.argv[1:])
