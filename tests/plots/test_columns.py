import numpy as np
import pytest
from pictures import axes, line

from atlas_splines import AtlasRegressor
from atlas_splines.plots import draw_shape
from atlas_splines.plots.inspection import inspection
from atlas_splines.plots.intervals import UNKNOWN_LABEL

RANDOM = np.random.default_rng(0)
MONTH, WIND = RANDOM.integers(1, 5, size=600), RANDOM.random(600)
X = np.column_stack([MONTH, WIND]).astype(float)
LATER = X[:300] + np.array([4, 0.5])  # months 5 to 8
DOMAIN = [(0.5, 4.5), (-0.1, 1.1)]
SMALL = {
    "members": 1,
    "terms": 1,
    "density": 0,
    "max_iter": 2,
    "features": 50,
    "domain": DOMAIN,
    "random_state": 0,
}


@pytest.fixture(scope="module")
def model():
    """A model of four months and four more, which were pooled."""
    model = AtlasRegressor(retention="pool", **SMALL).fit(X, MONTH + WIND)
    return model.partial_fit(LATER, LATER.sum(axis=1))


def drawn_values(drawn):
    """Middles of the bars of a column of whole numbers."""
    left, right, gap = np.reshape(line(drawn, "mean prediction")[0], (-1, 3)).T
    assert np.isnan(gap).all()
    return ((left + right) / 2).tolist()


def test_whole_numbers_are_bars_without_anything_in_between(model):
    drawn = draw_shape(axes(), model, 0, X=X)
    assert drawn_values(drawn) == [1, 2, 3, 4]
    assert all(tick == round(tick) for tick in drawn.get_xticks())
    _, heights = line(drawn, "mean prediction")
    for place, month in enumerate([1, 2, 3, 4]):
        changed = X[np.random.default_rng(0).permutation(len(X))[:200]].copy()
        changed[:, 0] = month
        assert heights[3 * place] == pytest.approx(model.predict(changed).mean(), rel=1e-5)
    assert UNKNOWN_LABEL not in drawn.get_legend_handles_labels()[1]


def test_axes_reach_all_rows_given_and_show_where_the_domain_ends(model):
    every = np.vstack([X, LATER])
    drawn = draw_shape(axes(), model, 0, X=every)
    assert drawn_values(drawn) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert line(drawn, "end of the domain")[0] == [4.5, 4.5]
    drawn = draw_shape(axes(), model, 1, X=every)
    x, heights = line(drawn, "mean prediction")
    assert x[-1] > 1.4
    changed = every[np.random.default_rng(0).permutation(len(every))[:200]]
    changed[:, 1] = x[-1]
    assert heights[-1] == pytest.approx(model.predict(changed).mean(), rel=1e-5)


def test_without_rows_the_sketch_says_which_whole_numbers_there_were_and_what_lies_beyond(model):
    above, _ = inspection(model).subfigs
    month, wind = above.axes
    assert drawn_values(month) == [1, 2, 3, 4, 5]  # five and more were counted in one place
    assert month.get_xlabel() == "column 0\n33% of rows at 5 or more"
    share = round(100 * np.mean(LATER[:, 1] > 1.06) / 3)
    assert wind.get_xlabel() == f"column 1\n{share}% of rows at 1.06 or more"
    fresh = AtlasRegressor(**SMALL).fit(X, MONTH + WIND)
    assert [panel.get_xlabel() for panel in inspection(fresh).subfigs[0].axes] == ["column 0", "column 1"]


def test_an_estimator_that_refuses_rows_beyond_is_drawn_in_its_domain():
    model = AtlasRegressor(extrapolation="error", **SMALL).fit(X, MONTH + WIND)
    every = np.vstack([X, LATER])
    assert drawn_values(draw_shape(axes(), model, 0, X=every)) == [1, 2, 3, 4]
    assert line(draw_shape(axes(), model, 1, X=every), "mean prediction")[0][-1] <= 1.1


def test_many_whole_numbers_are_a_line():
    rows = np.column_stack([RANDOM.integers(1000, size=300), RANDOM.random(300)]).astype(float)
    model = AtlasRegressor(**SMALL | {"domain": "data"}).fit(rows, rows[:, 1])
    for given in (rows, None):
        assert np.isfinite(line(draw_shape(axes(), model, 0, X=given), "mean prediction")[0]).all()
