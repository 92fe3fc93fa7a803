import numpy as np
import pytest
from pictures import PRODUCT, X, axes, line

from atlas_splines import AtlasClassifier, AtlasRegressor
from atlas_splines.plots import draw_shape
from atlas_splines.plots.columns import has_local_terms
from atlas_splines.plots.style import RUG_HEIGHT


def test_the_thick_line_is_the_mean_prediction(regressor):
    rows = X[:150]
    x, y = line(draw_shape(axes(), regressor, 1, X=rows), "mean prediction")
    for place in (0, 37, 100):
        changed = rows.copy()
        changed[:, 1] = x[place]
        assert y[place] == pytest.approx(regressor.predict(changed).mean(), rel=1e-5)


def test_the_band_holds_the_effect_for_most_points(regressor):
    drawn = draw_shape(axes(), regressor, 1, X=X[:150])
    x, _ = line(drawn, "mean prediction")
    curves = np.array(
        [regressor.predict(np.column_stack([X[:150, 0], np.full(150, v), X[:150, 2]])) for v in x]
    )
    curves += curves.mean() - curves.mean(axis=0)
    band = drawn.collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == pytest.approx(np.percentile(curves, 10, axis=1).min(), rel=1e-4)
    assert band[:, 1].max() == pytest.approx(np.percentile(curves, 90, axis=1).max(), rel=1e-4)


def test_an_additive_model_has_no_band_and_is_its_additive_part():
    model = AtlasRegressor(terms=0, density=1, members=1, features=0, random_state=0).fit(
        X, X[:, 0] + X[:, 1] ** 2
    )
    drawn = draw_shape(axes(), model, 1)
    (x, mean), (_, additive) = line(drawn, "mean prediction"), line(drawn, "additive part")
    np.testing.assert_allclose(additive, mean, rtol=1e-4)
    band = drawn.collections[0].get_paths()[0].vertices
    np.testing.assert_allclose(np.interp(band[:, 0], x, mean), band[:, 1], rtol=1e-4)


def test_local_terms_are_in_the_mean_prediction_and_not_in_the_additive_part():
    model = AtlasRegressor(random_state=0).fit(X, np.abs(X[:, 0] - 5) + X[:, 1])
    assert has_local_terms(model.model_)
    drawn = draw_shape(axes(), model, 0, X=X[:50])
    x, mean = line(drawn, "mean prediction")
    changed = X[:50].copy()
    changed[:, 0] = x[75]
    assert mean[75] == pytest.approx(model.predict(changed).mean(), rel=1e-5)
    assert len(line(drawn, "additive part of the smooth part")[0]) == len(x)


def test_a_shape_follows_charts_and_an_extended_domain(updated):
    rows = np.vstack([X[:100], X[:100] + np.array([1.5, 0, 0])])
    x, y = line(draw_shape(axes(), updated, 0, X=rows), "mean prediction")
    assert x[-1] > 10.9  # the first data ended at 10
    for place in (5, 90, 100):
        changed = rows.copy()
        changed[:, 0] = x[place]
        assert y[place] == pytest.approx(updated.predict(changed).mean(), rel=1e-5)


def test_lines_cover_the_data_or_else_the_domain(regressor):
    x, _ = line(draw_shape(axes(), regressor, 1, X=X), "mean prediction")
    np.testing.assert_allclose(x[[0, -1]], np.percentile(X[:, 1], [0.5, 99.5]), rtol=1e-2)
    for rows in (None, X[:1]):  # a single row covers nothing
        x, _ = line(draw_shape(axes(), regressor, 1, X=rows), "mean prediction")
        np.testing.assert_allclose(x[[0, -1]], regressor.domain_.knots[1, [0, -1]])


def test_a_classifier_shows_the_probability_of_a_class():
    labels = np.where(X[:, 0] > 5, "high", "low")
    model = AtlasClassifier(terms=0, density=0, members=1, max_iter=5, features=0, random_state=0).fit(
        X, labels
    )
    drawn = draw_shape(axes(), model, 0, X=X[:50], output=1)
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
    drawn = draw_shape(axes(), regressor, 1, X=rows)
    heights = [path.vertices[1, 1] for path in drawn.collections[1].get_paths()]
    assert heights[1] == 3 * heights[0] == RUG_HEIGHT
    assert drawn.get_ylim()[0] > 0  # the bars stand on the axis, and do not stretch it


def test_missing_values_are_averaged_over_but_not_drawn():
    rows = X.copy()
    rows[::3, 1] = np.nan
    model = AtlasRegressor(terms=0, density=0, members=1, missing="learn", features=0, random_state=0).fit(
        rows, PRODUCT + 100 * np.isnan(rows[:, 1])
    )
    x, y = line(draw_shape(axes(), model, 1, X=rows[:100]), "mean prediction")
    changed = rows[:100].copy()
    changed[:, 1] = x[50]
    assert y[50] == pytest.approx(model.predict(changed).mean(), rel=1e-5)


def test_columns_have_names():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["wind", "sun", "rain"])
    model = AtlasRegressor(terms=0, density=0, members=1, max_iter=2, features=0, random_state=0).fit(
        frame, PRODUCT
    )
    assert draw_shape(axes(), model, "sun", X=frame).get_xlabel() == "sun"
    with pytest.raises(ValueError, match=r"^there is no column 'snow'; the columns are wind, sun, rain$"):
        draw_shape(axes(), model, "snow")


def test_bad_requests_are_refused(regressor):
    with pytest.raises(ValueError, match=r"^column must be at most 2, not 3$"):
        draw_shape(axes(), regressor, 3)
    with pytest.raises(ValueError, match=r"^output must be at most 0, not 1$"):
        draw_shape(axes(), regressor, 0, output=1)
    with pytest.raises(
        ValueError, match=r"^X has shape \(5, 2\); expected rows of the estimator's 3 columns$"
    ):
        draw_shape(axes(), regressor, 0, X=X[:5, :2])
    with pytest.raises(ValueError, match=r"^the estimator has learned nothing yet; call fit first$"):
        draw_shape(axes(), AtlasRegressor(), 0)
