"""A stream that moves to a part of its domain that the first rows never saw: what features that grow are good for.

    python benchmarks/growth.py [--seeds 2]

The target is that of Friedman 1 with a ripple; the first input goes from 0 to 0.5 in the first 1000 rows, and from 0.5 to 1 in
20 batches of 200 after them. Mean absolute errors ahead, in standard deviations of the target: of all batches, and of those
after the first, which nothing could foresee.
"""

import argparse
import copy

import numpy as np

from atlas_splines import AtlasRegressor
from atlas_splines.model.atlas import state_of
from atlas_splines.updates import incremental as pooling

FIRST, BATCH, BATCHES = 1000, 200, 20


def stream(seed):
    random = np.random.default_rng(seed)
    X = random.random((FIRST + BATCH * BATCHES, 5))
    X[:, 0] = 0.5 * X[:, 0] + 0.5 * (np.arange(len(X)) >= FIRST)
    friedman = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    ripple = 4 * np.sin(9 * X[:, 0]) * np.cos(6 * X[:, 1])
    return X, friedman + ripple + random.normal(size=len(X))


def follow(model, X, y):
    errors = []
    for begin in range(FIRST, len(y), BATCH):
        rows = slice(begin, begin + BATCH)
        errors.append(np.abs(model.predict(X[rows]) - y[rows]).mean() / y.std())
        if model.retention != "none":
            model.partial_fit(X[rows], y[rows])
    return np.array(errors)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=2)
    reserve = pooling.RESERVE
    for seed in range(parser.parse_args().seeds):
        X, y = stream(seed)
        fitted = AtlasRegressor(domain=[(0, 1)] * 5, members=2, random_state=0).fit(X[:FIRST], y[:FIRST])
        ways = {
            "never": ("none", 0),
            "pool": ("pool", 0),
            "auto, fixed": ("auto", -1),
            "auto": ("auto", reserve),
        }
        for name, (retention, pooling.RESERVE) in ways.items():
            model = copy.deepcopy(fitted).set_params(retention=retention)
            errors, features = follow(model, X, y), len(state_of(model.model_).pooled.features)
            print(
                f"seed {seed}, {name}: {errors.mean():.4f}, after the first {errors[1:].mean():.4f}, {features} features",
                flush=True,
            )


if __name__ == "__main__":
    main()
