import numpy as np
import pytest

from atlas_splines.memory.data_density import DataDensity


@pytest.fixture(scope="module")
def points():
    return np.random.default_rng(0).random((3000, 3))


def test_counts_add_up_in_any_order(points):
    data_density = DataDensity.of(points, [0, 1, 2])
    whole = data_density.cell_counts_of(points)
    pieces = data_density.cell_counts_of(points[2000:]) + data_density.cell_counts_of(points[:2000])
    assert (pieces.alone == whole.alone).all()
    assert (pieces.paired == whole.paired).all()
    assert whole.paired.sum() == 3 * len(points)
    rest = whole.without(data_density.cell_counts_of(points[:1000]))
    assert (rest.paired == data_density.cell_counts_of(points[1000:]).paired).all()


def test_a_gap_of_one_input_has_no_support(points):
    known = points[(points[:, 1] < 0.4) | (points[:, 1] > 0.6)]
    support = DataDensity.of(known, [0, 1, 2]).support(np.array([[0.5, 0.5, 0.5], [0.5, 0.2, 0.5]]), None)
    assert support[0] == 0
    assert support[1] > 0.5


def test_a_gap_of_a_pair_has_no_support(points):
    known = points[(np.abs(points[:, :2] - 0.5) > 0.2).any(axis=1)]
    support = DataDensity.of(known, [0, 1, 2]).support(np.array([[0.5, 0.5, 0.5], [0.5, 0.1, 0.5]]), None)
    assert support[0] < 0.05
    assert support[1] > 0.3


def test_more_rows_fill_a_gap(points):
    known = points[points[:, 0] < 0.5]
    data_density = DataDensity.of(known, [0, 1, 2])
    place = np.array([[0.8, 0.5, 0.5]])
    assert data_density.support(place, None) == 0
    assert data_density.after(data_density.cell_counts_of(points)).support(place, None) > 0.5


def test_a_large_leverage_takes_support_away(points):
    some = np.arange(100)
    data_density = DataDensity.of(points, [0, 1, 2], some, np.linspace(0.01, 0.1, 100))
    assert data_density.counts_leverage
    place = points[:2]
    assert data_density.support(place, np.array([0.5, 0.6])).max() == 0
    assert data_density.support(place, np.array([0.01, 0.01])).max() > 0.5


def test_one_input_has_no_pairs():
    data_density = DataDensity.of(np.linspace(0, 1, 500)[:, None], [0])
    assert data_density.support(np.array([[0.5], [1.5]]), None).tolist() == [1, 0]
