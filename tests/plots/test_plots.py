import numpy as np
import pytest
from matplotlib.colors import same_color
from matplotlib.figure import Figure
from oracle import randomize, sums

from atlas_splines import Atlas, AtlasClassifier, AtlasRegressor, History, footprint, train
from atlas_splines.plots import drawing as plots

X = np.random.default_rng(0).random((300, 3)) * [10, 1, 100]
PRODUCT = 50 + X[:, 0] * X[:, 1]


@pytest.fixture(scope="module")
def regressor():
    return AtlasRegressor(terms=4, density=1, members=2, max_iter=20, random_state=0).fit(X, PRODUCT)


@pytest.fixture(scope="module")
def updated(regressor):
    """Three updates: one reverted, one beyond the domain."""
    model = AtlasRegressor(terms=2, density=1, members=1, max_iter=5, random_state=0).fit(X, PRODUCT)
    model.partial_fit(X[:60] / 4, PRODUCT[:60])
    model.partial_fit(X[:60] / 2 + [6, 0, 0], PRODUCT[:60])
    model.partial_fit(X[:60] / 3, PRODUCT[:60])
    return model.revert(1)


def axes():
    return Figure().subplots()


def line(drawn, label):
    [found] = [line for line in drawn.lines if line.get_label() == label]
    return found.get_xdata(), found.get_ydata()


def bars(drawn):
    """(low, high) and colour of every bar, in the order of drawing."""
    for collection in drawn.collections:
        for path in collection.get_paths():
            (left, bottom), (right, top) = path.get_extents().get_points()
            yield left, right, (bottom + top) / 2, collection.get_facecolor()[0]


def test_a_map_shows_the_first_input_from_left_to_right():
    image = np.zeros((3, 3))
    image[2, 0] = 1  # x₁ large, x₂ small: lower right
    axes = plots.draw_map(Figure().subplots(), image, title="t", low=0, high=1)
    shown = axes.images[0]
    assert shown.get_array()[0, 2] == 1
    assert shown.origin == "lower"
    assert axes.get_title() == "t"
    assert axes.get_xlabel() == "$x_1$"


def test_maps_are_saved_with_the_box(tmp_path):
    path = tmp_path / "maps.png"
    image = np.random.default_rng(0).random((5, 5))
    plots.save_maps(path, {"a": image, "b": image}, {"c": image, "d": image}, ((0.1, 0.2), (0.3, 0.4)))
    assert path.stat().st_size > 5000


# --- shapes -------------------------------------------------------------------------------------------------


def test_the_thick_line_is_the_mean_prediction(regressor):
    rows = X[:150]
    x, y = line(plots.draw_shape(axes(), regressor, 1, X=rows), "mean prediction")
    for place in (0, 37, 100):
        changed = rows.copy()
        changed[:, 1] = x[place]
        assert y[place] == pytest.approx(regressor.predict(changed).mean(), rel=1e-5)


def test_the_band_holds_the_effect_for_most_points(regressor):
    drawn = plots.draw_shape(axes(), regressor, 1, X=X[:150])
    x, _ = line(drawn, "mean prediction")
    curves = np.array(
        [regressor.predict(np.column_stack([X[:150, 0], np.full(150, v), X[:150, 2]])) for v in x]
    )
    curves += curves.mean() - curves.mean(axis=0)
    band = drawn.collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == pytest.approx(np.percentile(curves, 10, axis=1).min(), rel=1e-4)
    assert band[:, 1].max() == pytest.approx(np.percentile(curves, 90, axis=1).max(), rel=1e-4)


def test_an_additive_model_has_no_band_and_is_its_additive_part():
    model = AtlasRegressor(terms=0, density=1, members=1, random_state=0).fit(X, X[:, 0] + X[:, 1] ** 2)
    drawn = plots.draw_shape(axes(), model, 1)
    (x, mean), (_, additive) = line(drawn, "mean prediction"), line(drawn, "additive part")
    np.testing.assert_allclose(additive, mean, rtol=1e-4)
    band = drawn.collections[0].get_paths()[0].vertices
    np.testing.assert_allclose(np.interp(band[:, 0], x, mean), band[:, 1], rtol=1e-4)


def test_a_shape_follows_charts_and_an_extended_domain(updated):
    rows = np.vstack([X[:100], X[:100] + np.array([1.5, 0, 0])])
    x, y = line(plots.draw_shape(axes(), updated, 0, X=rows), "mean prediction")
    assert x[-1] > 10.9  # the first data ended at 10
    for place in (5, 90, 100):
        changed = rows.copy()
        changed[:, 0] = x[place]
        assert y[place] == pytest.approx(updated.predict(changed).mean(), rel=1e-5)


def test_lines_cover_the_data_or_else_the_domain(regressor):
    x, _ = line(plots.draw_shape(axes(), regressor, 1, X=X), "mean prediction")
    np.testing.assert_allclose(x[[0, -1]], np.percentile(X[:, 1], [0.5, 99.5]), rtol=1e-2)
    for rows in (None, X[:1]):  # a single row covers nothing
        x, _ = line(plots.draw_shape(axes(), regressor, 1, X=rows), "mean prediction")
        np.testing.assert_allclose(x[[0, -1]], regressor.domain_.knots[1, [0, -1]])


def test_a_classifier_shows_the_probability_of_a_class():
    labels = np.where(X[:, 0] > 5, "high", "low")
    model = AtlasClassifier(terms=0, density=0, members=1, max_iter=5, random_state=0).fit(X, labels)
    drawn = plots.draw_shape(axes(), model, 0, X=X[:50], output=1)
    x, y = line(drawn, "mean prediction")
    changed = X[:50].copy()
    changed[:, 0] = x[20]
    assert y[20] == pytest.approx(model.predict_proba(changed)[:, 1].mean(), abs=1e-5)
    assert drawn.get_ylabel() == "probability of low"
    band = drawn.collections[0].get_paths()[0].vertices[:, 1]
    assert 0 <= band.min() < band.max() <= 1
    assert "additive part" not in drawn.get_legend_handles_labels()[1]


def test_the_density_counts_rows(regressor):
    rows = X[:100].copy()
    rows[:, 1] = np.repeat([0.2, 0.4], [25, 75])
    drawn = plots.draw_shape(axes(), regressor, 1, X=rows)
    heights = [path.vertices[1, 1] for path in drawn.collections[1].get_paths()]
    assert heights[1] == 3 * heights[0] == plots.RUG
    assert drawn.get_ylim()[0] > 0  # the bars stand on the axis, and do not stretch it


def test_missing_values_are_averaged_over_but_not_drawn():
    rows = X.copy()
    rows[::3, 1] = np.nan
    model = AtlasRegressor(terms=0, density=0, members=1, missing="learn", random_state=0).fit(
        rows, PRODUCT + 100 * np.isnan(rows[:, 1])
    )
    x, y = line(plots.draw_shape(axes(), model, 1, X=rows[:100]), "mean prediction")
    changed = rows[:100].copy()
    changed[:, 1] = x[50]
    assert y[50] == pytest.approx(model.predict(changed).mean(), rel=1e-5)


def test_columns_have_names():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["wind", "sun", "rain"])
    model = AtlasRegressor(terms=0, density=0, members=1, max_iter=2, random_state=0).fit(frame, PRODUCT)
    assert plots.draw_shape(axes(), model, "sun", X=frame).get_xlabel() == "sun"
    with pytest.raises(ValueError, match=r"^there is no column 'snow'; the columns are wind, sun, rain$"):
        plots.draw_shape(axes(), model, "snow")


def test_bad_requests_are_refused(regressor, tmp_path):
    with pytest.raises(ValueError, match=r"^column must be at most 2, not 3$"):
        plots.draw_shape(axes(), regressor, 3)
    with pytest.raises(ValueError, match=r"^output must be at most 0, not 1$"):
        plots.draw_shape(axes(), regressor, 0, output=1)
    with pytest.raises(
        ValueError, match=r"^X has shape \(5, 2\); expected rows of the estimator's 3 columns$"
    ):
        plots.draw_shape(axes(), regressor, 0, X=X[:5, :2])
    with pytest.raises(ValueError, match=r"^the estimator has learned nothing yet; call fit first$"):
        plots.draw_shape(axes(), AtlasRegressor(), 0)
    with pytest.raises(ValueError, match=r"out.gif: a picture ends in .png, .svg or .pdf$"):
        plots.save_inspection(tmp_path / "out.gif", regressor)
    assert list(tmp_path.iterdir()) == []


# --- terms --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("extended", [False, True])
def test_factors_and_sizes_of_terms_are_those_of_the_model(extended):
    model = randomize(Atlas(inputs=2, terms=3, density=1, damping=0.5, dtype="float64"))
    if extended:
        model.extend([0, -0.5], [1.3, 1])
    factors, sizes = plots.term_factors(model, 1, 0)
    low, high = model.domain.T
    grid = np.linspace(low, high, plots.GRID)  # (grid, inputs)
    points = np.stack(np.meshgrid(*grid.T, indexing="ij"), axis=-1).reshape(-1, 2)
    _, G, H = sums(model, points)
    scale = np.exp(-0.5) / np.array([1, 4, 9])
    terms = np.concatenate([scale * np.exp(G[:, 0]), scale * np.exp(H[:, 0])], axis=1)
    np.testing.assert_allclose(sizes, terms.mean(axis=0))
    along = terms.reshape(plots.GRID, plots.GRID, 6)[7]  # any place of the other input will do
    np.testing.assert_allclose(factors, along / along.mean(axis=0))


def test_the_strongest_terms_are_drawn_in_order():
    model = Atlas(inputs=2, terms=3, density=1)
    rise = np.linspace(0, 1, 8)
    model.g(1)[0, 0, 0] = rise
    model.h(1)[0, 0, 0] = 3 * rise
    model.g(1)[0, 2, 0] = rise  # k = 3: weight 1/9
    drawn = plots.draw_terms(axes(), model, 0, most=2)
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
    drawn = plots.draw_terms(axes(), regressor, 0, most=1)
    x = drawn.lines[0].get_xdata()
    np.testing.assert_allclose(x[[0, -1]], regressor.domain_.knots[0, [0, -1]])
    factors, sizes = plots.term_factors(regressor.model_, 0, 0)
    best = np.argmax(sizes * factors.std(axis=0))
    np.testing.assert_array_equal(drawn.lines[0].get_ydata(), factors[:, best])
    assert f"{sizes[best] * regressor.target_scale_[0]:.2g}" in drawn.lines[0].get_label()


def test_a_model_without_terms_draws_none():
    assert plots.draw_terms(axes(), Atlas(inputs=1, terms=0), 0).get_legend_handles_labels() == ([], [])


# --- footprints ---------------------------------------------------------------------------------------------

NEW = np.array([[0.1, 0.2, 0.5], [0.3, 0.4, 0.6]])


def test_one_input_shows_the_intervals():
    area = footprint(Atlas(inputs=3), NEW)
    drawn = plots.draw_footprint(axes(), area, [1])
    [(low, high, _, _)] = bars(drawn)
    [interval] = area.intervals(1)
    np.testing.assert_allclose((low, high), interval)
    assert drawn.get_xlabel() == "input 1"
    assert drawn.get_xlim() == (0, 1)


def test_two_inputs_show_projected_boxes():
    clusters = np.vstack([0.1 * np.random.default_rng(k).random((100, 3)) + 0.8 * k for k in (0, 1)])
    area = footprint(Atlas(inputs=3), clusters, charts=2)
    drawn = plots.draw_footprint(axes(), area, [2, 0], points=clusters)
    for patch, fence in zip(drawn.patches, area.fences, strict=True):
        corners = patch.get_bbox().get_points().T  # (low, high) of x, of y
        np.testing.assert_allclose(corners, fence.box[[2, 0]])
    np.testing.assert_array_equal(drawn.lines[0].get_xydata(), clusters[:, [2, 0]])


def test_a_cross_shows_its_arms():
    area = footprint(Atlas(inputs=2), [[0.5, 0.5]], retention="none")
    drawn = plots.draw_footprint(axes(), area, [0, 1])
    upright, flat = (patch.get_bbox() for patch in drawn.patches)
    assert (upright.y0, upright.y1, flat.x0, flat.x1) == (0, 1, 0, 1)
    np.testing.assert_allclose((upright.x0, upright.x1), area.intervals(0)[0])
    points = np.random.default_rng(0).random((500, 2))
    covered = [upright.contains(*point) or flat.contains(*point) for point in points]
    np.testing.assert_array_equal(covered, area.contains(points))


def test_a_footprint_of_an_estimator_is_in_raw_units(regressor):
    area = regressor.footprint(X[:50] / 2)
    box = plots.draw_footprint(axes(), area, ["column 2", 0]).patches[0].get_bbox()
    np.testing.assert_allclose((box.x0, box.x1), area.intervals("column 2")[0])
    np.testing.assert_allclose((box.y0, box.y1), area.intervals(0)[0])


def test_three_inputs_are_too_many():
    with pytest.raises(ValueError, match=r"^columns names 3 inputs; give one or two$"):
        plots.draw_footprint(axes(), footprint(Atlas(inputs=3), NEW), [0, 1, 2])


# --- histories ----------------------------------------------------------------------------------------------


def test_a_history_shows_every_epoch_and_the_best():
    points = np.random.default_rng(0).random((200, 1))
    history = train(
        Atlas(inputs=1, terms=0), points, points, epochs=8, validation=(points, points), random_state=0
    )
    drawn = plots.draw_history(axes(), history)
    epochs, losses = line(drawn, "training")
    assert (epochs.tolist(), losses.tolist()) == (list(range(1, 9)), history.loss)
    assert line(drawn, "validation")[1].tolist() == history.validation
    [best], [least] = line(drawn, "best epoch")
    assert (best, least) == (history.best_epoch + 1, min(history.validation))


def test_the_scale_is_logarithmic_over_decades_only():
    assert plots.draw_history(axes(), History(loss=[1.0, 0.5])).get_yscale() == "linear"
    assert plots.draw_history(axes(), History(loss=[1.0, 0.05])).get_yscale() == "log"
    assert plots.draw_history(axes(), History(loss=[1.0, 0.0])).get_yscale() == "linear"


def test_members_have_a_line_each(regressor):
    drawn = plots.draw_history(axes(), regressor.validation_loss_)
    assert line(drawn, "member 2, held-out rows")[1].tolist() == regressor.validation_loss_[1]
    assert drawn.get_legend_handles_labels()[1].count("best epoch") == 1


def test_an_estimator_shows_its_members(regressor):
    drawn = plots.draw_history(axes(), regressor)
    for k, losses in enumerate(regressor.validation_loss_):
        assert line(drawn, f"member {k + 1}, held-out rows")[1].tolist() == losses
    with pytest.raises(ValueError, match="the estimator has learned nothing yet; call fit first"):
        plots.draw_history(axes(), AtlasRegressor())


def test_an_empty_history_is_refused():
    with pytest.raises(
        ValueError, match=r"^the history has no losses to draw; it takes an epoch, or rows that"
    ):
        plots.draw_history(axes(), [[], []])


# --- inspection ---------------------------------------------------------------------------------------------


def test_updates_show_each_footprint_in_its_lane(updated):
    drawn = plots.draw_updates(axes(), updated, columns=[2, 0])
    shown = list(bars(drawn))
    expected = []
    for row, record in enumerate(updated.update_log_):
        for lane, j in enumerate([2, 0]):
            low, high = updated.domain_.to_raw(j, updated.model_.domain[j])
            for part in record.footprint.intervals(j):
                shares = (np.array(part) - low) / (high - low)
                expected.append([*(lane + plots.GAP + (1 - 2 * plots.GAP) * shares), row])
    np.testing.assert_allclose([bar[:3] for bar in shown], expected)
    for *_, row, colour in shown:
        assert same_color(colour, plots.PALE if row == 0 else plots.ACCENT)
    labels = [label.get_text() for label in drawn.get_yticklabels()]
    assert labels == ["1: chart, 60 rows (reverted)", "2: chart, 60 rows", "3: chart, 60 rows"]


def test_a_consolidation_is_a_line(regressor):
    model = AtlasRegressor(terms=0, density=1, members=1, max_iter=2, random_state=0).fit(X, PRODUCT)
    model.partial_fit(X[:60] / 4, PRODUCT[:60]).consolidate(tolerance=100.0, samples=100, epochs=1)
    drawn = plots.draw_updates(axes(), model)
    assert [bar[2] for bar in bars(drawn)] == [0, 0, 0]
    assert drawn.lines[0].get_ydata().tolist() == [1, 1]


def test_an_inspection_shows_columns_and_updates(updated, tmp_path):
    figure = plots.inspection(updated)
    above, below = figure.subfigs
    assert [panel.get_xlabel() for panel in above.axes] == ["column 0", "column 1", "column 2"]
    assert [panel.get_ylabel() for panel in above.axes] == ["prediction", "", ""]
    assert len(below.axes[0].get_yticklabels()) == 3
    for suffix in (".png", ".svg", ".pdf"):
        plots.save_inspection(tmp_path / f"out{suffix}", updated)
        assert (tmp_path / f"out{suffix}").stat().st_size > 5000


def test_without_updates_there_are_shapes_only(regressor):
    assert len(plots.inspection(regressor).subfigs) == 1


def test_of_many_columns_the_influential_ones_are_shown():
    rows = np.random.default_rng(0).random((300, 15))
    target = rows @ np.r_[np.ones(5), np.zeros(3), np.ones(7)]
    model = AtlasRegressor(terms=0, density=0, members=1, random_state=0).fit(rows, target)
    figure = plots.inspection(model)
    assert figure.subfigs[0].get_suptitle() == (
        "Effect of the 12 most influential of 15 columns, over random points of the domain"
    )
    shown = [panel.get_xlabel() for panel in figure.subfigs[0].axes]
    assert shown == [f"column {j}" for j in range(15) if j not in (5, 6, 7)]


def test_a_constant_column_is_not_influential():
    rows = np.random.default_rng(0).random((300, 15))
    rows[:, [2, 4, 6, 8]] = [0, 1, -3, 1e6]
    model = AtlasRegressor(terms=0, density=0, members=1, max_iter=2, random_state=0).fit(rows, rows[:, 0])
    model.model_.f(0)[:, [2, 4, 6, 8]] += np.arange(4)
    assert plots.most_influential(model, output=0) == [j for j in range(15) if j not in (2, 4, 6, 8)]


def test_a_narrow_peak_is_not_cut_off():
    model = AtlasRegressor(terms=0, density=6, members=1, max_iter=1, random_state=0).fit(X, PRODUCT)
    model.model_.f(6)[0, 1, 100] = 50
    panels = plots.inspection(model).subfigs[0].axes
    assert max(line(panels[1], "mean prediction")[1]) < panels[1].get_ylim()[1]
