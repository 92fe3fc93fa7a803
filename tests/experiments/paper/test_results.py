import numpy as np
import pytest

from atlas_splines.experiments.boxes import WIDTHS
from atlas_splines.experiments.paper.results import fit_off_target, mean_errors, outside


@pytest.mark.parametrize("inputs", [2, 8])
def test_the_fit_recovers_known_coefficients(inputs):
    width = np.array(WIDTHS)
    fit = fit_off_target(width, 1.5 - 4 * (width - width**inputs), inputs)
    np.testing.assert_allclose(fit, (1.5, -4, 1, -1), rtol=1e-9)
    np.testing.assert_allclose(fit(width, inputs), 1.5 - 4 * (width - width**inputs))


def test_the_fit_measures_agreement():
    width, random = np.array(WIDTHS), np.random.default_rng(0)
    error = 2 + 3 * (width - width**2) + 0.2 * random.normal(size=width.size)
    fit = fit_off_target(width, error, 2)
    assert 0 < fit.r2 < 1
    assert fit.r2 == pytest.approx(fit.correlation**2)  # as for every line with an offset


@pytest.mark.parametrize(
    ("width", "error", "inputs"),
    [(WIDTHS, np.arange(9.0), 1), ([0.3, 0.7], [1.0, 3.0], 2), ([0.1, 0.2, 0.3], [2.0, 2.0, 2.0], 2)],
)
def test_a_fit_without_meaning_is_a_constant(width, error, inputs):
    fit = fit_off_target(np.array(width), np.array(error), inputs)
    assert fit.offset == np.mean(error)
    assert fit.slope == 0
    assert np.isnan([fit.r2, fit.correlation]).all()


def test_means_do_not_depend_on_how_a_width_is_rounded(results):
    chosen = (results["inputs"] == 2) & (results["model"] == "finest") & (results["experiment"] == "main")
    means = mean_errors(results[chosen][:2].assign(width=[0.3, 0.1 * 3]))
    assert list(means["count"]) == [2]


def test_outside_leaves_out_the_box():
    apart = outside(np.array([[0.2, 0.5], [0.6, 0.9]]), 100)
    assert not apart[30, 70]
    assert apart[70, 30]
    assert (~apart).sum() == 30 * 30
