"""Footprints in the units of the columns."""

import numpy as np
import pytest
from planes import corner

from atlas_splines import Atlas, Footprint, footprint
from atlas_splines.estimators.footprints import seen_through
from atlas_splines.estimators.input_space import ColumnMap


def test_footprints_name_what_is_wrong(model):
    area = model.footprint(corner())
    with pytest.raises(ValueError, match=r"X has shape \(1, 3\); expected \(rows, 2\)"):
        area.contains([[1, 2, 3]])
    with pytest.raises(ValueError, match="there is no column 'x'; there are column 0, column 1"):
        area.intervals("x")


@pytest.mark.slow
@pytest.mark.parametrize(
    "ends", [(4e-3, 5e-3), (2.6e-3, 3.4e-3), (-3.396e-3, -2.3e-3)], ids=["edge", "near", "far"]
)
def test_linear_extrapolation_is_in_the_footprint_too(model, ends):
    model.set_params(extrapolation="linear", retention="chart")
    edge = np.random.default_rng(9).uniform((ends[0], 1e5), (ends[1], 3e5), (200, 2))
    outside = np.stack([np.linspace(5e-3, 9e-3, 300), np.linspace(0.5e5, 4e5, 300)], axis=1)
    area, before = model.footprint(edge), model.predict(outside)
    model.partial_fit(edge, np.full(len(edge), 500.0))  # slopes turn round
    changed = model.predict(outside) != before
    assert changed.any()
    assert not (changed & ~area.contains(outside)).any()


def test_a_footprint_of_columns_is_a_footprint(model):
    area = model.footprint(corner())
    assert isinstance(area, Footprint)
    assert area.inputs == 2
    low, high = area.domain.T
    np.testing.assert_allclose([low[0], high[0]], [-3.4e-3, 5.4e-3], rtol=0.02)
    [(first, last)] = area.intervals(0)
    assert low[0] < first < last < high[0]
    assert area.contains(corner()).all()
    assert area.volume == area.area.volume
    with pytest.raises(ValueError, match="input must be at most 1, not 2"):
        area.intervals(2)


@pytest.mark.parametrize("retention", ["chart", "none"])
@pytest.mark.parametrize("limits", [(1.69e9, 1.71e9), (-3.0, 5.0), (1e6, 1e6 + 1e-3)])
def test_no_value_outside_the_intervals_is_in_the_footprint(limits, retention):
    model, columns = Atlas(inputs=1), ColumnMap.of(np.array([[limits[0]], [limits[1]]]), [limits])
    X = np.random.default_rng(0).uniform(0.3, 0.4, (200, 1))
    area = seen_through(columns, footprint(model, X, retention=retention), ("time",), model.domain)
    [(low, high)] = area.intervals("time")
    steps = np.geomspace(1e-16, 1e-5, 400) * (limits[1] - limits[0])
    outside = np.concatenate([low - steps, high + steps])
    outside = outside[(outside < low) | (outside > high)][:, None]
    assert not area.contains(outside).any()
    first, last = map(float, repr(area).rstrip(">").split("  ")[-1].split(" to "))
    assert first <= low
    assert high <= last
    assert last - first < high - low + 1e-3 * (limits[1] - limits[0])
