"""Data of two columns of very different scale, for estimators."""

import numpy as np

QUICK = {"members": 2, "terms": 4, "max_iter": 30, "retention": "chart", "features": 0, "random_state": 0}
# scikit-learn expects the same of its own estimators that hold rows out or draw them at random, such as
# HistGradientBoostingRegressor and BaggingClassifier
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": "a weight of two is not a row twice: rows are held out, and batches drawn, by row",
}


def plane(rows=400, seed=0):
    """Two columns of very different scale, and a product of them."""
    random = np.random.default_rng(seed)
    X = np.stack([random.uniform(-3e-3, 5e-3, rows), random.uniform(1e5, 3e5, rows)], axis=1)
    return X, 1e3 * X[:, 0] * X[:, 1] / 1e5 + 50


def corner(rows=300, seed=5):
    """Rows in one corner of the plane."""
    random = np.random.default_rng(seed)
    return np.stack([random.uniform(1e-3, 2e-3, rows), random.uniform(1.5e5, 2e5, rows)], axis=1)
