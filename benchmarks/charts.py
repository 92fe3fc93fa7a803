"""Cost of many charts at prediction: rows outside all of them, rows inside one, against the base model.

python benchmarks/charts.py
"""

from __future__ import annotations

import numba
import numpy as np
from step import best_times

from atlas_splines import Atlas
from atlas_splines.model.atlas import state_of, take_state
from atlas_splines.model.charts import Chart, window_around

INPUTS, ROWS = 8, 10_000


def charted(count: int) -> Atlas:
    """A model with charts of the default size, in small boxes over half of the domain."""
    random = np.random.default_rng(0)
    model = Atlas(INPUTS)
    trained = state_of(model).table[state_of(model).first_trained_row :, :21]
    trained[:] = random.normal(size=trained.shape)
    charts = []
    for k in range(count):
        low = 0.1 + 0.3 * random.random(INPUTS)
        corners = np.stack([low, low + 0.1]).astype(model.dtype)
        content = Atlas(INPUTS, density=3)
        state_of(content).table[state_of(content).first_trained_row :, :21] = 0.01
        charts.append(
            Chart(k, window_around(corners, 9, "touch"), content, np.ones(1, model.dtype), replaces=False)
        )
    take_state(model, state_of(model).with_charts(charts))
    return model


def main() -> None:
    numba.set_num_threads(1)
    random = np.random.default_rng(1)
    base, outside = charted(0), random.random((ROWS, INPUTS)).astype(np.float32)
    outside[:, 0] = 0.6 + 0.4 * outside[:, 0]  # no chart reaches there along the first input
    print("n = 8, M = 10, r = 4, charts of density 3, float32, one thread; time over that of the base model")
    print(f"{'charts':>7} {'outside, first input':>21} {'outside, last input':>20} {'inside one':>11}")
    for count in (1, 10, 100, 1000):
        model = charted(count)
        late = random.random((ROWS, INPUTS)).astype(np.float32)
        late[:, :-1] = 0.25  # every chart is near, until the last input rules all out
        late[:, -1] = 0.6 + 0.4 * late[:, -1]
        low, high = model.charts[0].window.box.T
        inside = (low + (high - low) * random.random((ROWS, INPUTS))).astype(np.float32)
        runs = [
            lambda X=X, m=m: m.evaluate(X)
            for m, X in (
                (base, outside),
                (model, outside),
                (base, late),
                (model, late),
                (base, inside),
                (model, inside),
            )
        ]
        times = best_times(runs, rounds=15)
        ratios = [times[i + 1] / times[i] for i in (0, 2, 4)]
        print(f"{count:7d} {ratios[0]:21.2f} {ratios[1]:20.2f} {ratios[2]:11.2f}")


if __name__ == "__main__":
    main()
