"""Models of workers in processes of their own, which may die: the bits of one process."""

import pickle

import numpy as np
import pytest
from cluster_rows import in_chunks, killing, labels_of, rows_and_targets
from distributed import Client, LocalCluster

from atlas_splines.dask import DaskAtlasClassifier, DaskAtlasRegressor
from atlas_splines.versions import version

X, Y = rows_and_targets(2400)
NEW_X, NEW_Y = rows_and_targets(1001, seed=5)
OPTIONS = {"sample": 500, "features": 40, "members": 1, "random_state": 0}
KINDS = {
    DaskAtlasRegressor: (Y, NEW_Y),
    DaskAtlasClassifier: (labels_of(X, Y), labels_of(NEW_X, NEW_Y)),
}


def hashes_of(kind, client, first, new):
    """What a fit is to the bit, and the model, its errors and the digest of its data after an update."""
    model = kind(client=client, **OPTIONS).fit(*first)
    fitted = version(model.to_local())
    model.partial_fit(*new)
    (done,) = model.update_log_
    return fitted, model.model_.fingerprint(), done.before, done.data, done.rows


def dying(X, y, rows, flags):
    """The rows, of which the second partition kills its worker, as often as there are flags."""
    X, y = in_chunks(X, y, rows)
    return X.map_blocks(killing, flags, dtype=float), y


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_workers_do_not_matter_nor_do_partitions_order_or_death(client, tmp_path):
    order = np.random.default_rng(0).permutation(len(X))
    expected, found = {}, {kind: [] for kind in KINDS}
    for kind, (y, new_y) in KINDS.items():  # all rows in one partition, in this process
        expected[kind] = hashes_of(kind, client, in_chunks(X, y, 2400), in_chunks(NEW_X, new_y, 1001))
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as other,
    ):
        flags = []
        for kind, (y, new_y) in KINDS.items():  # a worker dies in the fit, and one in the update
            deaths = [[str(tmp_path / f"{kind.__name__}{k}")] for k in range(2)]
            flags += [*deaths[0], *deaths[1]]
            rows = dying(X, y, 700, deaths[0]), dying(NEW_X, new_y, 300, deaths[1])
            found[kind].append(hashes_of(kind, other, *rows))
        cluster.scale(5)
        other.wait_for_workers(5, timeout=60)
        for kind, (y, new_y) in KINDS.items():
            rows = in_chunks(X, y, 301, order), in_chunks(NEW_X, new_y, 100, slice(None, None, -1))
            found[kind].append(hashes_of(kind, other, *rows))
        copied = pickle.loads(pickle.dumps(DaskAtlasRegressor(client=other)))
    assert all((tmp_path / flag).exists() for flag in flags)
    assert copied.client is None
    for kind in KINDS:
        assert found[kind] == [expected[kind]] * 2
