import numpy as np

from atlas_splines.memory.data_density import DataDensity
from atlas_splines.updates.synthetic_sample import draw_synthetic_sample, one_hot_groups


def drawn(points, count=4000):
    data_density = DataDensity.of(points, list(range(points.shape[1])))
    return data_density, draw_synthetic_sample(data_density, count, np.random.default_rng(1))


def test_lookalikes_have_the_counts_of_the_rows():
    random = np.random.default_rng(0)
    x = random.beta(2, 5, (3000, 1))
    points = np.hstack([x, 1 - x**2, random.random((3000, 1))])
    _, found = drawn(points)
    for q in (0.1, 0.5, 0.9):
        assert np.abs(np.quantile(found.points, q, axis=0) - np.quantile(points, q, axis=0)).max() < 0.03
    assert np.abs(np.corrcoef(found.points.T) - np.corrcoef(points.T)).max() < 0.1


def test_no_lookalike_has_two_categories():
    random = np.random.default_rng(0)
    size = random.random(2000)
    city = np.where(random.random(2000) < 0.7, (3 * size).astype(int), random.integers(3, size=2000))
    points = np.column_stack([size, 0.3 + 0.6 * (city[:, None] == np.arange(3)), random.random(2000) < 0.5])
    data_density, found = drawn(points)
    assert one_hot_groups(data_density.cell_counts.alone) == [[1, 2, 3]]
    upper = found.points[:, 1:4] > 0.6
    assert (upper.sum(axis=1) == 1).all()
    large = found.points[:, 0] > 0.7
    assert abs(upper[large, 2].mean() - (city[size > 0.7] == 2).mean()) < 0.1


def test_a_value_that_stands_alone_is_met_wherever_it_is_in_its_cell():
    points = np.random.default_rng(0).choice([0.101, 0.55, 0.9], (500, 1))
    _, found = drawn(points)
    near = (found.low <= 0.101) & (found.high >= 0.101)
    assert abs(near.mean() - (points == 0.101).mean()) < 0.03


def test_forgotten_rows_leave_something_to_draw():
    points = np.random.default_rng(0).random((200, 2))
    data_density = DataDensity.of(points, [0, 1])
    empty = data_density.forgotten(data_density.cell_counts)
    assert draw_synthetic_sample(empty, 10, np.random.default_rng(0)).points.shape == (10, 2)
