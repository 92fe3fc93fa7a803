"""Members and folds on several threads, with the bits of one."""

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from atlas_splines import AtlasClassifier, AtlasRegressor
from atlas_splines.estimators import base
from atlas_splines.estimators import inputs as threads
from atlas_splines.estimators import predict as uncertainty
from atlas_splines.estimators.inputs import free_cores, run_in_threads
from atlas_splines.model.linear_algebra import ONE_THREAD_EACH
from atlas_splines.updates import update as updates


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


@pytest.fixture
def two_threads():
    with threadpool_limits(2, user_api="blas"):
        yield


def test_linear_algebra_takes_no_more_threads(two_threads):
    assert run_in_threads(lambda _: blas_threads(), [0, 1], 2) == [{1}, {1}]
    with ONE_THREAD_EACH:
        with ONE_THREAD_EACH:
            pass
        assert blas_threads() == {1}  # the first one is still inside
    assert blas_threads() == {2}


def test_fits_updates_and_doubt_are_of_one_thread(two_threads, monkeypatch):
    seen = []

    def watched(module, name):
        function = getattr(module, name)

        def watching(*given, **named):
            seen.append(blas_threads())
            return function(*given, **named)

        monkeypatch.setattr(module, name, watching)

    watched(base, "fit_model")
    watched(updates, "pool_rows")
    watched(uncertainty, "support_of")
    X = np.random.default_rng(0).random((200, 2))
    model = AtlasRegressor(features=20, members=1, random_state=0).fit(X, X[:, 0])
    model.partial_fit(X, X[:, 0]).support(X)
    assert len(seen) > 3  # the fit is judged by others like it
    assert seen == [{1}] * len(seen)
    assert blas_threads() == {2}


@pytest.mark.parametrize("kind", [AtlasRegressor, AtlasClassifier])
def test_a_fit_does_not_depend_on_its_threads(kind):
    random = np.random.default_rng(0)
    X = random.random((120, 2))
    y = np.sin(5 * X[:, 0]) + X[:, 1] + 0.1 * random.normal(size=120)
    target = y if kind is AtlasRegressor else y > y.mean()
    fits = [kind(features=20, n_jobs=n, random_state=0).fit(X, target) for n in (1, 2, None)]
    assert len({fit.model_.fingerprint() for fit in fits}) == 1
    assert len({fit.fit_record_ for fit in fits}) == 1
