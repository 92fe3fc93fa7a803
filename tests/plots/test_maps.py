import numpy as np
import pytest
from pictures import axes

from atlas_splines.plots import draw_map, save_maps


def test_a_map_shows_the_first_input_from_left_to_right():
    image = np.zeros((3, 3))
    image[2, 0] = 1  # x₁ large, x₂ small: lower right
    drawn = draw_map(axes(), image, title="t", low=0, high=1)
    shown = drawn.images[0]
    assert shown.get_array()[0, 2] == 1
    assert shown.origin == "lower"
    assert drawn.get_title() == "t"
    assert drawn.get_xlabel() == "$x_1$"


@pytest.mark.slow
def test_maps_are_saved_with_the_box(tmp_path):
    path = tmp_path / "maps.png"
    image = np.random.default_rng(0).random((5, 5))
    save_maps(path, {"a": image, "b": image}, {"c": image, "d": image}, ((0.1, 0.2), (0.3, 0.4)))
    assert path.stat().st_size > 5000
