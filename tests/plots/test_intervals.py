import numpy as np
import pytest
from matplotlib.colors import to_rgba
from pictures import axes, line
from sklearn.base import clone

from atlas_splines import AtlasClassifier, AtlasRegressor
from atlas_splines.plots import draw_shape
from atlas_splines.plots.inspection import inspection
from atlas_splines.plots.intervals import INTERVAL_LABEL, UNKNOWN_LABEL
from atlas_splines.plots.style import QUIET

RANDOM = np.random.default_rng(0)
X = RANDOM.random((500, 2)) * [10, 1]
X = X[(X[:, 0] < 4) | (X[:, 0] > 6)]  # nothing is known in between
Y = X[:, 1] + (0.05 + 0.1 * X[:, 0]) * RANDOM.normal(size=len(X))
SMALL = {"members": 1, "terms": 1, "density": 0, "max_iter": 2, "features": 50, "random_state": 0}


@pytest.fixture(scope="module")
def model():
    return AtlasRegressor(**SMALL).fit(X, Y)


def drawn_as(drawn, label):
    return [band for band in drawn.collections if band.get_label() == label]


def dimmed(drawn):
    """Lowest and highest value of each dimmed range."""
    return [
        path.get_extents().intervalx for band in drawn_as(drawn, UNKNOWN_LABEL) for path in band.get_paths()
    ]


def test_the_interval_is_around_the_mean_prediction(model):
    drawn = draw_shape(axes(), model, 0, X=X)
    (band,) = drawn_as(drawn, INTERVAL_LABEL)
    assert tuple(band.get_facecolor()[0][:3]) == to_rgba(QUIET)[:3]
    corners = band.get_paths()[0].vertices
    x, mean = line(drawn, "mean prediction")
    widths = []
    for place in (10, 140):
        here = corners[np.isclose(corners[:, 0], x[place]), 1]
        assert here.min() < mean[place] < here.max()
        widths.append(np.ptp(here))
    assert widths[1] > 1.5 * widths[0]  # the noise grows


@pytest.mark.parametrize("rows", [X, None])
def test_what_is_not_known_is_dimmed(model, rows):
    ranges = dimmed(draw_shape(axes(), model, 0, X=rows))
    ((low, high),) = [(low, high) for low, high in ranges if 3 < low < 7]
    assert 3.9 < low < 4.8  # cells at the ends of the gap have rows too
    assert 5 < high < 6.1


def test_between_rounded_values_nothing_is_dimmed():
    rows = np.column_stack([RANDOM.integers(26, size=1500) / 25, RANDOM.random(1500)])
    model = AtlasRegressor(**SMALL).fit(rows, rows[:, 1])
    assert (model.support([[0.5, 0.5], [0.52, 0.5]]) > 0).tolist() == [False, True]
    for given in (rows, None):
        assert not dimmed(draw_shape(axes(), model, 0, X=given))


def test_a_chart_knows_its_rows(model):
    taught = clone(model).set_params(retention="chart").fit(X, Y)
    between = RANDOM.random((200, 2)) * [0.8, 1] + [4.6, 0]
    taught.partial_fit(between, between[:, 1])
    assert dimmed(draw_shape(axes(), model, 0))
    assert not dimmed(draw_shape(axes(), taught, 0))


def test_classes_have_no_intervals_but_support():
    model = AtlasClassifier(**SMALL).fit(X, X[:, 1] > 0.5)
    drawn = draw_shape(axes(), model, 0, X=X)
    assert not drawn_as(drawn, INTERVAL_LABEL)
    assert dimmed(drawn)


def test_a_model_that_does_not_know_its_errors_has_neither(regressor):
    assert not {INTERVAL_LABEL, UNKNOWN_LABEL} & {
        c.get_label() for c in draw_shape(axes(), regressor, 0).collections
    }


def test_an_inspection_has_room_for_intervals_and_one_legend(model):
    part = inspection(model).subfigs[0]
    texts = [text.get_text() for text in part.legends[0].get_texts()]
    assert texts.count(INTERVAL_LABEL) == texts.count(UNKNOWN_LABEL) == 1
    low, high = part.axes[0].get_ylim()
    heights = drawn_as(part.axes[0], INTERVAL_LABEL)[0].get_paths()[0].vertices[:, 1]
    assert np.mean((heights > low) & (heights < high)) > 0.95
