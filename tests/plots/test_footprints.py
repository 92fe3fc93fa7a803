import numpy as np
import pytest
from matplotlib.colors import same_color
from pictures import PRODUCT, X, axes, bars

from atlas_splines import Atlas, AtlasRegressor, footprint
from atlas_splines.plots import draw_footprint, draw_updates
from atlas_splines.plots.footprints import LANE_GAP
from atlas_splines.plots.inspection import inspection
from atlas_splines.plots.style import ACCENT, REVERTED

NEW = np.array([[0.1, 0.2, 0.5], [0.3, 0.4, 0.6]])


def test_one_input_shows_the_intervals():
    area = footprint(Atlas(inputs=3), NEW)
    drawn = draw_footprint(axes(), area, [1])
    [(low, high, _, _)] = bars(drawn)
    [interval] = area.intervals(1)
    np.testing.assert_allclose((low, high), interval)
    assert drawn.get_xlabel() == "input 1"
    assert drawn.get_xlim() == (0, 1)


def test_two_inputs_show_projected_boxes():
    clusters = np.vstack([0.1 * np.random.default_rng(k).random((100, 3)) + 0.8 * k for k in (0, 1)])
    area = footprint(Atlas(inputs=3), clusters, charts=2)
    drawn = draw_footprint(axes(), area, [2, 0], points=clusters)
    for patch, window in zip(drawn.patches, area.windows, strict=True):
        corners = patch.get_bbox().get_points().T  # (low, high) of x, of y
        np.testing.assert_allclose(corners, window.box[[2, 0]])
    np.testing.assert_array_equal(drawn.lines[0].get_xydata(), clusters[:, [2, 0]])


def test_a_cross_shows_its_arms():
    area = footprint(Atlas(inputs=2), [[0.5, 0.5]], retention="none")
    drawn = draw_footprint(axes(), area, [0, 1])
    upright, flat = (patch.get_bbox() for patch in drawn.patches)
    assert (upright.y0, upright.y1, flat.x0, flat.x1) == (0, 1, 0, 1)
    np.testing.assert_allclose((upright.x0, upright.x1), area.intervals(0)[0])
    points = np.random.default_rng(0).random((500, 2))
    covered = [upright.contains(*point) or flat.contains(*point) for point in points]
    np.testing.assert_array_equal(covered, area.contains(points))


def test_a_footprint_of_an_estimator_is_in_raw_units(regressor):
    area = regressor.footprint(X[:50] / 2)
    box = draw_footprint(axes(), area, ["column 2", 0]).patches[0].get_bbox()
    for column, drawn in (("column 2", (box.x0, box.x1)), (0, (box.y0, box.y1))):
        [(low, high)] = area.intervals(column)  # with what is rounded into the box
        assert low < drawn[0] < drawn[1] < high
        np.testing.assert_allclose(drawn, (low, high), rtol=0, atol=1e-5 * (high - low))


def test_three_inputs_are_too_many():
    with pytest.raises(ValueError, match=r"^columns names 3 inputs; give one or two$"):
        draw_footprint(axes(), footprint(Atlas(inputs=3), NEW), [0, 1, 2])


def test_updates_show_each_footprint_in_its_lane(updated):
    drawn = draw_updates(axes(), updated, columns=[2, 0])
    shown = list(bars(drawn))
    expected = []
    for row, record in enumerate(updated.update_log_[:3]):  # the fourth entry is the revert of the first
        for lane, j in enumerate([2, 0]):
            low, high = updated.domain_.to_raw(j, updated.model_.domain[j])
            for part in record.footprint.intervals(j):
                shares = (np.array(part) - low) / (high - low)
                expected.append([*(lane + LANE_GAP + (1 - 2 * LANE_GAP) * shares), row])
    np.testing.assert_allclose([bar[:3] for bar in shown], expected)
    for *_, row, colour in shown:
        assert same_color(colour, REVERTED if row == 0 else ACCENT)
    labels = [label.get_text() for label in drawn.get_yticklabels()]
    assert labels == ["1: chart, 100 rows (reverted)", "2: chart, 100 rows", "3: chart, 100 rows"]


def updated_by(*updates):
    """A model after an update of each of these kinds."""
    model = AtlasRegressor(terms=0, density=0, members=1, max_iter=2, features=20, random_state=0)
    model.fit(X, PRODUCT)
    for retention in updates:
        is_new = retention != "pool"  # rows elsewhere, which need a chart that speaks alone
        rows, targets = X[:200] + np.array([12 * is_new, 0, 0]), PRODUCT[:200] - 50 * is_new
        model.set_params(retention=retention).partial_fit(rows, targets, accept=True)  # some come twice
    return model


def test_updates_that_can_change_everything_are_one_row_without_bars():
    model = updated_by("pool", "pool", "auto", "pool", "pool")
    drawn = draw_updates(axes(), model)
    labels = [label.get_text() for label in drawn.get_yticklabels()]
    assert labels == ["1-2: pool, 400 rows", "3: chart, 200 rows", "4-5: pool, 400 rows"]
    assert {round(bar[2]) for bar in bars(drawn)} == {1}  # the chart alone has a footprint to draw
    predicted = [(text.get_position()[1], text.get_text()) for text in drawn.texts]
    assert predicted == [
        (0, "can change every prediction"),
        (2, "can change every prediction outside of charts"),
    ]


def test_a_reverted_update_has_a_row_of_its_own():
    drawn = draw_updates(axes(), updated_by("pool", "pool", "pool").revert(2))
    labels = [label.get_text() for label in drawn.get_yticklabels()]
    assert labels == ["1: pool, 200 rows", "2: pool, 200 rows (reverted)", "3: pool, 200 rows"]


def test_an_inspection_says_in_a_line_that_updates_can_change_everything():
    _, below = inspection(updated_by("pool", "pool")).subfigs
    assert below.get_suptitle() == "Footprint of each update: every prediction (1-2: pool, 400 rows)"
    assert not below.axes
    _, below = inspection(updated_by("pool", "auto")).subfigs
    assert below.get_suptitle() == "Footprint of each update"
    assert len(below.axes[0].get_yticklabels()) == 2


@pytest.mark.slow
def test_a_consolidation_is_a_line(regressor):
    model = AtlasRegressor(terms=0, density=1, members=1, max_iter=2, features=0, random_state=0).fit(
        X, PRODUCT
    )
    model.partial_fit(X[:100] / 4, PRODUCT[:100]).consolidate(tolerance=100.0, samples=100, epochs=1)
    drawn = draw_updates(axes(), model)
    assert [bar[2] for bar in bars(drawn)] == [0, 0, 0]
    assert drawn.lines[0].get_ydata().tolist() == [1, 1]
