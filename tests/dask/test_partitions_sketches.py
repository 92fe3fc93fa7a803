import numpy as np
import pytest

from atlas_splines.dask.partitions import EVERY, hashed, merged, sketch_of

WHOLE = {"size": 50, "limit": EVERY, "seed": 0, "of_classes": False}


def sketched(X, y, weights=None, **options):
    return sketch_of(X, y, np.ones(len(X)) if weights is None else weights, **{**WHOLE, **options})


def same(one, other):
    names = ("hashes", "X", "y", "weights", "counts")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


@pytest.fixture
def rows():
    random = np.random.default_rng(0)
    X = random.random((900, 3))
    return X, X[:, 0] + random.normal(size=900)


@pytest.mark.parametrize("parts", [2, 7, 300])
def test_parts_and_order_do_not_matter(rows, parts):
    X, y = rows
    order = np.random.default_rng(parts).permutation(len(X))
    pieces = [sketched(X[part], y[part]) for part in np.array_split(order, parts)]
    found = merged(pieces, 50)
    assert same(found, sketched(X, y))
    assert found.rows == 900
    assert same(merged([merged(pieces[:1], 50), merged(pieces[1:], 50)], 50), found)


def test_a_limit_leaves_out_what_is_not_in_the_sample(rows):
    X, y = rows
    few = sketched(X, y, limit=EVERY // 9)
    assert len(few) == 50  # of about 100 below the limit
    assert same(few, sketched(X, y))
    mixed = merged([sketched(X[:400], y[:400], limit=EVERY // 8), sketched(X[400:], y[400:])], 50)
    assert mixed.suffices(50)
    assert same(mixed, few)
    assert not sketched(X, y, limit=EVERY // 900).suffices(50)
    assert sketched(X[:3], y[:3]).suffices(50)


def test_hashes_are_those_of_the_plain_way(rows):
    X, y = rows[0].copy(), rows[1]
    X[0, 1], X[1, 1], X[2, 2] = np.nan, -np.nan, -0.0
    hashes = np.full(len(X), 5, np.uint64)
    for column in [*(X + 0.0).T, y, np.ones(len(X))]:
        numbers = np.where(np.isnan(column), np.nan, column)
        hashes = (hashes + np.uint64(0x9E3779B97F4A7C15)) ^ numbers.view(np.uint64)
        hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        hashes ^= hashes >> np.uint64(31)
    assert np.array_equal(hashed([X, y[:, None], np.ones((len(X), 1))], 5), hashes)


def test_another_seed_is_another_sample(rows):
    assert not np.array_equal(sketched(*rows).X, sketched(*rows, seed=1).X)


def test_the_sample_is_a_fair_one():
    X = np.linspace(0, 1, 20_000)[:, None]
    sample = sketched(X, X[:, 0], size=2000).sample(2000)
    assert abs(sample.X.mean() - 0.5) < 0.02
    assert sample.assessment.sum() == 200
    assert len(np.unique(sample.X)) == len(sample) == 2000
    assert not sample.is_whole


def test_equal_rows_are_counted_and_come_as_often_as_their_share_is():
    X = np.repeat([[0.0], [1.0], [2.0]], [100, 200, 700], axis=0)
    found = merged([sketched(part, part[:, 0]) for part in np.array_split(X[::-1], 6)], 50)
    assert sorted(zip(found.X[:, 0].tolist(), found.counts.tolist(), strict=True)) == [
        (0, 100),
        (1, 200),
        (2, 700),
    ]
    sample = found.sample(100)
    assert np.abs(np.bincount(sample.X[:, 0].astype(int)) - [10, 20, 70]).max() <= 1
    assert found.sample(5000).is_whole


def test_signs_of_zero_and_kinds_of_nan_do_not_matter():
    other = np.array([np.nan]).view(np.uint64) | np.uint64(1)
    one = sketched(np.array([[0.0], [np.nan]]), np.zeros(2))
    assert np.array_equal(one.hashes, sketched(np.array([[-0.0], [*other.view(float)]]), np.zeros(2)).hashes)


@pytest.mark.parametrize("labels", [["a", "b"], [True, False], [3, 7]])
def test_labels_and_all_classes(labels):
    y = np.array(labels)[[0, 1, 0, 0]]
    X = np.ones((4, 1))
    parts = [sketched(X[k : k + 1], y[k : k + 1], size=1, of_classes=True) for k in range(4)]
    found = merged(parts, 1)
    assert found.classes.tolist() == sorted(labels)
    assert sketched(X, y).counts.tolist() in ([3, 1], [1, 3])


def test_weights_tell_rows_apart():
    assert len(sketched(np.ones((3, 1)), np.ones(3), np.array([1.0, 2.0, 2.0]))) == 2


def test_an_empty_part():
    nothing = sketched(np.empty((0, 2)), np.empty(0))
    some = sketched(np.ones((3, 2)), np.ones(3))
    assert same(merged([nothing, some], 50), some)
    assert len(merged([nothing, nothing], 50)) == 0
