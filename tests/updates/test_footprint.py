from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas_splines import Atlas, footprint
from atlas_splines.model.charts import window_around
from atlas_splines.updates.footprint import BoxFootprint, merge


def cloud(low, high, rows=200, seed=0):
    low, high = np.asarray(low, float), np.asarray(high, float)
    return low + (high - low) * np.random.default_rng(seed).random((rows, low.size))


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted).map(tuple)))
def test_merged_intervals_are_apart_and_cover_the_same(intervals):
    merged = merge(intervals)
    assert all(a[1] < b[0] for a, b in pairwise(merged))
    for low, high in intervals:
        assert any(a <= low and high <= b for a, b in merged)


def test_a_chart_has_a_box_and_plain_training_a_cross():
    model, X = Atlas(2), cloud([0.2, 0.6], [0.3, 0.8])
    box, cross = footprint(model, X), footprint(model, X, retention="none")
    queries = [[0.25, 0.7], [0.25, 0.1], [0.9, 0.7], [0.9, 0.1]]
    assert box.contains(queries).tolist() == [True, False, False, False]
    assert cross.contains(queries).tolist() == [True, True, True, False]
    assert box.volume < 0.025 < 0.4 < cross.volume < 0.6


@pytest.mark.parametrize("retention", ["rehearsal", "both"])
def test_rehearsal_can_change_everything(retention):
    area = footprint(Atlas(3), cloud([0.4] * 3, [0.5] * 3), retention=retention)
    assert area.volume == 1
    assert area.contains(np.random.default_rng(0).random((50, 3))).all()


def test_all_densities_trained_reach_everywhere():
    assert footprint(Atlas(2, trainable="all"), [[0.5, 0.5]], retention="none").volume == 1


@pytest.mark.parametrize("retention", ["chart", "none"])
def test_volume_is_the_share_of_points_inside(retention):
    area = footprint(Atlas(3), cloud([0.1, 0.4, 0.7], [0.4, 0.6, 0.9]), retention=retention)
    inside = area.contains(np.random.default_rng(1).random((200_000, 3)))
    assert area.volume == pytest.approx(inside.mean(), abs=0.004)


def test_clusters_get_a_chart_each():
    X = np.vstack([cloud([0.1, 0.1], [0.2, 0.2]), cloud([0.7, 0.8], [0.8, 0.9], seed=1)])
    area = footprint(Atlas(2), X)
    assert len(area.windows) == 2
    assert len(area.intervals(0)) == 2
    assert area.volume < 0.025
    assert area.contains(X).all()
    assert footprint(Atlas(2), X, charts=1).volume > 0.4


def test_a_box_gets_one_chart_and_a_diagonal_several():
    assert len(footprint(Atlas(2), cloud([0.2, 0.2], [0.8, 0.8], rows=2000)).windows) == 1
    assert len(footprint(Atlas(8), cloud([0.2] * 8, [0.8] * 8, rows=2000)).windows) == 1
    diagonal = np.repeat(np.random.default_rng(0).random((2000, 1)), 2, axis=1)
    area = footprint(Atlas(2), diagonal)
    assert len(area.windows) == 8
    assert area.volume < 0.2


def test_the_number_of_charts_can_be_given():
    X = cloud([0.2, 0.2], [0.8, 0.8], rows=1000)
    assert len(footprint(Atlas(2), X, charts=4).windows) == 4
    assert footprint(Atlas(2), X, charts=4).contains(X).all()
    few = np.vstack([cloud([0.1, 0.1], [0.2, 0.2], rows=40), cloud([0.7, 0.8], [0.8, 0.9], rows=40)])
    assert footprint(Atlas(2), few, charts=2).volume < 0.03


def test_repr_is_readable():
    text = repr(footprint(Atlas(2), cloud([0.2, 0.6], [0.3, 0.8])))
    assert text.startswith("<Footprint: a box, 0.02")
    assert "input 0: 0.199" in text
    assert repr(footprint(Atlas(2), [[0.5, 0.5]], retention="none")).startswith("<Footprint: a cross")
    assert repr(footprint(Atlas(2), [[0.5, 0.5]], retention="rehearsal")) == "<Footprint: everything>"
    assert "and 2 more inputs" in repr(footprint(Atlas(10), cloud([0.4] * 10, [0.5] * 10)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"retention": "charts"},
            "retention must be one of auto, pool, chart, rehearsal, both, none, not 'charts'",
        ),
        ({"cover": "all"}, "cover must be 'touch' or 'inside', not 'all'"),
        ({"cover": "all", "retention": "none"}, "cover must be 'touch' or 'inside', not 'all'"),
        ({"charts": 0}, "charts must be at least 1, not 0"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        footprint(Atlas(2), cloud([0.2, 0.6], [0.3, 0.8]), **options)


def test_bad_queries_are_named():
    area = footprint(Atlas(2), [[0.5, 0.5]])
    with pytest.raises(ValueError, match="X has 3 columns but the model has 2 inputs"):
        area.contains([[0.1, 0.2, 0.3]])
    with pytest.raises(ValueError, match="input must be at most 1, not 2"):
        area.intervals(2)


@pytest.mark.slow
@pytest.mark.parametrize("retention", ["chart", "none", "rehearsal"])
def test_two_thousand_inputs_have_a_footprint(retention):
    X = cloud([0.2] * 2000, [0.6] * 2000, rows=60)
    area = footprint(Atlas(2000, terms=0, density=0), X, retention=retention)
    assert area.contains(X).all()
    assert 0 <= area.volume <= 1
    assert "and 1992 more inputs" in repr(area) or area.volume == 1


@pytest.mark.slow
def test_an_estimated_volume_says_so():
    windows = tuple(window_around(cloud([0.1] * 8, [0.9] * 8, 3, seed), 5, "touch") for seed in range(64))
    area = BoxFootprint(np.tile([0.0, 1.0], (8, 1)), np.dtype(np.float32), windows)
    points = np.random.default_rng(0).random((4000, 8))
    assert area.volume == pytest.approx(area.contains(points).mean(), abs=area.share.error + 0.03)
    assert f"{area.volume:.3g} ± 0.0" in repr(area)


def test_a_footprint_is_not_printed_narrower_than_it_is():
    for seed in range(20):
        area = footprint(Atlas(1), cloud([0.2001], [0.3003], rows=30, seed=seed))
        [(low, high)] = area.intervals(0)
        first, last = map(float, repr(area).rstrip(">").split("input 0: ")[1].split(" to "))
        assert first <= low
        assert high <= last
