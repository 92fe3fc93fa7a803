import pickle

import numpy as np
import pytest
from cluster_rows import in_chunks, rows_and_targets

from atlas_splines.dask import DaskAtlasRegressor
from atlas_splines.dask import base as disjoint
from atlas_splines.dask.base import waves, windows_of

X, Y = rows_and_targets(1000)


@pytest.fixture(scope="module")
def fitted(client):
    model = DaskAtlasRegressor(
        retention="chart", members=1, terms=0, density=1, features=30, domain=[(0, 1)] * 3, random_state=0
    )
    return model.fit(*in_chunks(X, Y, 500))


def box(low, value, rows=120, seed=0):
    inputs = low + 0.1 * np.random.default_rng(seed).random((rows, 3))
    return inputs, np.full(rows, float(value))


def copy_of(model):
    return pickle.loads(pickle.dumps(model))


BOXES = [box(0.1, 4), box(0.5, 5), box(0.8, 6), box(0.52, 7), box(0.2, 3)]


def test_updates_in_boxes_that_do_not_meet_go_together(fitted):
    local = fitted.to_local()
    footprints = [windows_of(local, inputs) for inputs, _ in BOXES]
    assert list(waves(footprints)) == [[0, 1, 2], [3, 4]]
    outside = windows_of(local, box(0.95, 1)[0])
    assert outside is None  # the domain would grow
    assert list(waves([footprints[0], outside, footprints[1]])) == [[0], [1], [2]]
    assert windows_of(local.set_params(retention="pool"), BOXES[0][0]) is None


@pytest.mark.slow
def test_the_result_is_that_of_one_after_the_other(fitted, monkeypatch):
    lazy = [in_chunks(*rows, 50) for rows in (*BOXES[:2], BOXES[3])]
    alone = copy_of(fitted)
    for pair in lazy:
        alone.partial_fit(*pair)
    merged, really = [], disjoint.merge

    def noted(*arguments):
        merged.append(arguments)
        return really(*arguments)

    monkeypatch.setattr(disjoint, "merge", noted)
    together = copy_of(fitted).partial_fit_each(lazy)
    assert len(merged) == 2  # the third one waits for the second, and is trained here
    assert together.model_.fingerprint() == alone.model_.fingerprint()
    logs = [
        [(done.id, done.kind, done.rows, done.error_after, done.data) for done in model.update_log_]
        for model in (together, alone)
    ]
    assert logs[0] == logs[1]
    assert [done.id for done in together.update_log_] == [1, 2, 3]
    before = [done.before for done in together.update_log_]
    assert before[0] == before[1] == fitted.model_.fingerprint()  # both were made from it, as versions are
    assert together.revert(2).model_.fingerprint() == alone.revert(2).model_.fingerprint()


def test_evidence_takes_turns(fitted):
    model = copy_of(fitted).set_params(retention="pool")
    model.partial_fit_each([in_chunks(*rows, 60) for rows in BOXES[:2]])
    assert [done.kind for done in model.update_log_] == ["pool", "pool"]
