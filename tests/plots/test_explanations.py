"""Pictures of explanations."""

import numpy as np
import pytest
from pictures import axes

from atlas_splines.explain.explanation import Explanation
from atlas_splines.plots import draw_beeswarm, draw_dependence, draw_waterfall
from atlas_splines.plots.explanations import save_explanation

NAMES = ["size", "city", "age"]
DATA = np.array([[50.0, "Cadiz", 3.0], [80.0, "Oslo", None], [60.0, "Cadiz", 9.0]], object)
VALUES = np.array([[3.0, -1.0, 0.5], [1.0, 2.0, -0.1], [0.0, 0.1, 0.2]])
FOUND = Explanation(VALUES, np.full(3, 10.0), DATA, NAMES)


def test_bars_of_a_waterfall_lead_from_the_mean_to_the_prediction():
    drawn = draw_waterfall(axes(), FOUND, row=0, most=2)
    bars = [(patch.get_x(), patch.get_width()) for patch in drawn.patches]
    ends = sorted(start + width for start, width in bars) + sorted(start for start, _ in bars)
    assert [width for _, width in bars] == [3.0, -1.0, 0.5]
    assert max(ends) == 12.5
    assert bars[0][0] + bars[0][1] == 12.5  # the largest ends at the prediction
    assert bars[-1][0] == 10.0  # and the smallest begins at the mean
    labels = [text.get_text() for text in drawn.get_yticklabels()]
    assert labels == ["size = 50", "city = Cadiz", "1 other columns"]


def test_a_swarm_has_a_point_for_each_row_and_column():
    drawn = draw_beeswarm(axes(), FOUND)
    offsets = np.vstack([points.get_offsets() for points in drawn.collections])
    assert sorted(offsets[:, 0].round(6)) == sorted(VALUES.ravel())
    assert [text.get_text() for text in drawn.get_yticklabels()] == ["size", "city", "age"]


def test_dependence_of_numbers_and_of_categories():
    drawn = draw_dependence(axes(), FOUND, "size")
    np.testing.assert_allclose(drawn.collections[0].get_offsets(), np.c_[[50, 80, 60], VALUES[:, 0]])
    drawn = draw_dependence(axes(), FOUND, 1)
    assert [text.get_text() for text in drawn.get_xticklabels()] == ["Cadiz", "Oslo"]
    with pytest.raises(ValueError, match="there is no column 'town'; these are size, city, age"):
        draw_dependence(axes(), FOUND, "town")


def test_several_outputs_are_panels(tmp_path):
    several = Explanation(np.stack([VALUES, -VALUES], axis=2), np.zeros((3, 2)), DATA, NAMES, ("a", "b"))
    save_explanation(tmp_path / "e.png", several)
    assert (tmp_path / "e.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="the explanation has several outputs; choose one with of_output"):
        draw_waterfall(axes(), several)
