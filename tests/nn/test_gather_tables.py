import numpy as np
import pytest
import torch

from atlas_splines.model import splines
from atlas_splines.model.lattice import Lattice
from atlas_splines.nn.gather import Table, locate, locate_beyond


@pytest.mark.parametrize("density", [0, 3])
def test_points_have_the_cells_and_weights_of_the_plain_splines(density):
    knots = np.arange(-9, 40) / splines.cell_count(density)
    everywhere = np.concatenate([knots, np.random.default_rng(0).uniform(-2, 3, 100)])
    inside = everywhere[(everywhere >= 0) & (everywhere <= 1)]
    for find, x in ((locate_beyond, everywhere), (locate, inside)):
        cells, weights = find(torch.tensor(x)[:, None], splines.cell_count(density))
        expected_cells, expected_weights = splines.active(x, density)
        np.testing.assert_array_equal(cells[:, 0], expected_cells)
        np.testing.assert_allclose(weights[:, :, 0], expected_weights, rtol=0, atol=1e-14)


def test_limits_hold_every_cell():
    limits = torch.tensor([[-1], [5]], dtype=torch.int32)
    x = torch.tensor([[-9.0], [0.5], [9.0], [float("nan")]])
    cells, _ = locate_beyond(x, splines.cell_count(1), limits)
    assert cells[:3, 0].tolist() == [-1, 2, 5]
    assert -1 <= cells[3, 0] <= 5


def test_a_table_on_another_lattice_repeats_the_nearest_rows():
    narrow = Lattice.of_unit_cube(1, 1, np.dtype("float64"))
    wide = Lattice(np.array([[-0.2, 1.4]]), 1, np.dtype("float64"))
    table = Table(torch.arange(8.0)[:, None], narrow, trained=True, sparse=False)
    assert table.rows_for(narrow)[:, 0].tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert table.rows_for(wide)[:, 0].tolist() == [0, 0, 1, 2, 3, 4, 5, 6, 7, 7, 7]
