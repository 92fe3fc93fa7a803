import numpy as np
import pytest
from frames import QUICK, homes_frame
from matplotlib.figure import Figure
from mutations import of_table
from pictures import PRODUCT, X, line

from atlas_splines import AtlasRegressor
from atlas_splines.plots import draw_shape, save_inspection
from atlas_splines.plots.inspection import inspection, most_influential
from atlas_splines.plots.shapes import sample_points
from atlas_splines.tables.encoded_rows import EncodedRows
from atlas_splines.tables.encoding import Column, Encoding, frame


@pytest.mark.slow
def test_an_inspection_shows_columns_and_updates(updated, tmp_path):
    figure = inspection(updated)
    above, below = figure.subfigs
    assert [panel.get_xlabel() for panel in above.axes] == ["column 0", "column 1", "column 2"]
    assert [panel.get_ylabel() for panel in above.axes] == ["prediction", "", ""]
    assert len(below.axes[0].get_yticklabels()) == 3
    for suffix in (".png", ".svg", ".pdf"):
        save_inspection(tmp_path / f"out{suffix}", updated)
        assert (tmp_path / f"out{suffix}").stat().st_size > 5000


def test_without_updates_there_are_shapes_only(regressor):
    assert len(inspection(regressor).subfigs) == 1


@pytest.mark.slow
def test_of_many_columns_the_influential_ones_are_shown():
    rows = np.random.default_rng(0).random((300, 15))
    target = rows @ np.r_[np.ones(5), np.zeros(3), np.ones(7)]
    model = AtlasRegressor(terms=0, density=0, members=1, features=0, random_state=0).fit(rows, target)
    figure = inspection(model)
    assert figure.subfigs[0].get_suptitle() == (
        "Effect of the 12 most influential of 15 columns, over random points of the domain"
    )
    shown = [panel.get_xlabel() for panel in figure.subfigs[0].axes]
    assert shown == [f"column {j}" for j in range(15) if j not in (5, 6, 7)]


def test_a_constant_column_is_not_influential():
    rows = np.random.default_rng(0).random((300, 15))
    rows[:, [2, 4, 6, 8]] = [0, 1, -3, 1e6]
    model = AtlasRegressor(terms=0, density=0, members=1, max_iter=2, features=0, random_state=0).fit(
        rows, rows[:, 0]
    )
    model.model_.f(0)[:, [2, 4, 6, 8]] += np.arange(4)
    shown = most_influential(model, list(range(15)), None, sample_points(model, None), output=0)
    assert shown == [j for j in range(15) if j not in (2, 4, 6, 8)]


def test_a_narrow_peak_is_not_cut_off():
    model = AtlasRegressor(terms=0, density=6, members=1, max_iter=1, features=0, random_state=0).fit(
        X, PRODUCT
    )
    model.model_.f(6)[0, 1, 100] = 50
    panels = inspection(model).subfigs[0].axes
    assert max(line(panels[1], "mean prediction")[1]) < panels[1].get_ylim()[1]


def test_only_pictures_are_written(regressor, tmp_path):
    with pytest.raises(ValueError, match=r"out.gif: a picture ends in .png, .svg or .pdf$"):
        save_inspection(tmp_path / "out.gif", regressor)
    assert list(tmp_path.iterdir()) == []


def test_an_estimator_of_a_frame_is_drawn_by_its_inputs(tmp_path):
    frame, price = homes_frame(rows=60)
    frame = frame[["size", "city"]]
    model = AtlasRegressor(**QUICK).fit(frame, price).partial_fit(frame[:20], price[:20])
    axes = draw_shape(Figure().subplots(), model, "city=Cadiz", X=frame)
    assert axes.get_xlabel() == "city=Cadiz"
    with pytest.raises(
        ValueError,
        match="there is no column 'city'; the columns are size, city=Aarhus, city=Bergen, city=Cadiz",
    ):
        draw_shape(Figure().subplots(), model, "city", X=frame)
    save_inspection(tmp_path / "model.png", model)
    assert (tmp_path / "model.png").stat().st_size > 10_000


def test_categories_are_bars_over_rows_that_can_be():
    random = np.random.default_rng(0)
    city = random.integers(3, size=300)
    rows = np.column_stack([random.random(300), city[:, None] == np.arange(3)]).astype(float)
    encoding = Encoding((Column("size"), Column("city", ("a", "b", "c"))), target="y")
    X = frame(encoding.inputs, list(rows.T))
    model = AtlasRegressor(terms=0, density=1, members=1, features=40, random_state=0)
    table = of_table(model.fit(X, rows[:, 0] + 5 * (city == 1)), encoding)
    for given, over in ((None, "points like the rows learned"), (EncodedRows(rows), "rows of data")):
        above = inspection(table, given).subfigs[0]
        assert above.get_suptitle() == f"Effect of each column, over {over}"
        size, bars = above.axes
        assert [label.get_text() for label in bars.get_xticklabels()] == ["a", "b", "c"]
        a, b, c = line(bars, "mean prediction")[1]
        assert [b - a, c - a] == pytest.approx([5, 0], abs=0.3)
        _, along = line(size, "mean prediction")
        assert 0.5 < along[-1] - along[0] < 1.5
        assert along.mean() == pytest.approx(0.5 + 5 / 3, abs=0.5)  # no row is of no city, or of two
