import numpy as np
import pytest
from local_models import local_model
from oracle import randomize, sums
from pictures import axes

from atlas_splines import Atlas
from atlas_splines.plots import draw_terms
from atlas_splines.plots.columns import PLACES
from atlas_splines.plots.shapes import term_factors


@pytest.mark.parametrize("extended", [False, True])
def test_factors_and_sizes_of_terms_are_those_of_the_model(extended):
    model = randomize(Atlas(inputs=2, terms=3, density=1, damping=0.5, dtype="float64"))
    if extended:
        model.extend([0, -0.5], [1.3, 1])
    factors, sizes = term_factors(model, 1, 0)
    low, high = model.domain.T
    grid = np.linspace(low, high, PLACES)  # (grid, inputs)
    points = np.stack(np.meshgrid(*grid.T, indexing="ij"), axis=-1).reshape(-1, 2)
    _, G, H = sums(model, points)
    scale = np.exp(-0.5) / np.array([1, 4, 9])
    terms = np.concatenate([scale * np.exp(G[:, 0]), scale * np.exp(H[:, 0])], axis=1)
    np.testing.assert_allclose(sizes, terms.mean(axis=0))
    along = terms.reshape(PLACES, PLACES, 6)[7]  # any place of the other input will do
    np.testing.assert_allclose(factors, along / along.mean(axis=0))


def test_the_strongest_terms_are_drawn_in_order():
    model = Atlas(inputs=2, terms=3, density=1)
    rise = np.linspace(0, 1, 8)
    model.g(1)[0, 0, 0] = rise
    model.h(1)[0, 0, 0] = 3 * rise
    model.g(1)[0, 2, 0] = rise  # k = 3: weight 1/9
    drawn = draw_terms(axes(), model, 0, most=2)
    dashed, solid = drawn.lines[:2]
    assert dashed.get_linestyle() == "--"
    assert solid.get_linestyle() == "-"
    assert dashed.get_color() == solid.get_color()
    assert [label[0] + label[-7:] for label in drawn.get_legend_handles_labels()[1]] == [
        "−(k = 1)",
        "+(k = 1)",
    ]
    assert drawn.get_xlabel() == "input 0"


def test_terms_of_an_estimator_are_in_raw_units(regressor):
    drawn = draw_terms(axes(), regressor, 0, most=1)
    x = drawn.lines[0].get_xdata()
    np.testing.assert_allclose(x[[0, -1]], regressor.domain_.knots[0, [0, -1]])
    factors, sizes = term_factors(regressor.model_, 0, 0)
    best = np.argmax(sizes * factors.std(axis=0))
    np.testing.assert_array_equal(drawn.lines[0].get_ydata(), factors[:, best])
    assert f"{sizes[best] * regressor.target_scale_[0]:.2g}" in drawn.lines[0].get_label()


def test_a_model_without_terms_draws_none():
    assert draw_terms(axes(), Atlas(inputs=1, terms=0), 0).get_legend_handles_labels() == ([], [])


def test_terms_of_a_model_with_local_terms_are_of_its_smooth_part():
    assert draw_terms(axes(), local_model(), 0).get_ylabel() == "factor, relative to its mean (smooth part)"
    assert draw_terms(axes(), Atlas(inputs=1), 0).get_ylabel() == "factor, relative to its mean"
