"""Members and folds on several threads, with the bits of one."""

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from atlas_splines import AtlasClassifier, AtlasRegressor
from atlas_splines.estimators import threads
from atlas_splines.estimators.threads import ONE_THREAD_EACH, free_cores, run_in_threads


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.mark.parametrize("n_jobs", [1, 2, -1, None])
def test_results_come_in_order(n_jobs):
    assert run_in_threads(lambda k: k**2, [3, 1, 2], n_jobs) == [9, 1, 4]
    assert run_in_threads(lambda k: k, [], n_jobs) == []


def test_by_default_there_is_a_thread_for_each_core(monkeypatch):
    monkeypatch.setattr(threads, "free_cores", lambda: 3)
    meeting = threading.Barrier(3, timeout=60)  # which nobody passes alone
    run_in_threads(lambda _: meeting.wait(), range(3), None)
    names = run_in_threads(lambda _: threading.current_thread().name, [0], None)
    assert names == [threading.current_thread().name]  # one number needs no other thread


def test_the_environment_says_how_many_cores_there_are(monkeypatch):
    pools = [{"user_api": "openmp", "num_threads": 2}, {"user_api": "blas", "num_threads": 1}]
    monkeypatch.setattr(threads, "threadpool_info", lambda: pools)
    assert free_cores() == 2


def test_linear_algebra_takes_no_more_threads():
    before = blas_threads()
    assert run_in_threads(lambda _: blas_threads(), [0, 1], 2) == [{1}, {1}]
    with ONE_THREAD_EACH:
        with ONE_THREAD_EACH:
            pass
        assert blas_threads() == {1}  # the first one is still inside
    assert blas_threads() == before


@pytest.mark.parametrize("kind", [AtlasRegressor, AtlasClassifier])
def test_a_fit_does_not_depend_on_its_threads(kind):
    random = np.random.default_rng(0)
    X = random.random((120, 2))
    y = np.sin(5 * X[:, 0]) + X[:, 1] + 0.1 * random.normal(size=120)
    target = y if kind is AtlasRegressor else y > y.mean()
    fits = [kind(features=20, n_jobs=n, random_state=0).fit(X, target) for n in (1, 2, None)]
    assert len({fit.model_.fingerprint() for fit in fits}) == 1
    assert len({fit.fit_record_ for fit in fits}) == 1
