import numpy as np
import pytest
from frames import QUICK, homes_frame

from atlas_splines import AtlasRegressor
from atlas_splines.estimators.footprints import footprint_lines
from atlas_splines.model.checks import outwards

FRAME, PRICE = homes_frame()
X = FRAME[["size", "city", "garden", "when"]]


@pytest.fixture(scope="module")
def model():
    return AtlasRegressor(**QUICK, retention="chart").fit(X, PRICE)


def test_a_footprint_speaks_of_the_columns(model):
    new = X[(X["city"] == "Cadiz") & (X["size"] > 100)].assign(garden=True)
    area = model.footprint(new)
    size, city, garden, hour, *_ = repr(area).splitlines()[1:]
    assert size.startswith("  size          ")
    assert city == "  city          Cadiz"
    assert garden == "  garden        true"
    assert hour.startswith("  when.hour     ")
    assert area.contains(new).all()
    assert not area.contains(X[X["city"] == "Bergen"]).any()
    assert 0 < area.share.size < 0.2
    assert area.volume == area.share.size
    ((low, _),) = area.intervals("size")
    assert 80 < low < 101


def test_slopes_from_inside_reach_beyond_the_domain(model):
    size = X["size"]
    near = size.max() - 0.25 * (size.max() - size.min())
    area = model.footprint(X[(size > near - 20) & (size < near + 15)])
    constant, linear = (footprint_lines(area, model.encoding_, is_linear)[0] for is_linear in (False, True))
    end = area.domain[0, 1]
    assert "or more" not in constant
    assert linear == f"{constant} and {outwards((end, end), np.ptp(area.domain[0]))[0]} or more"


def test_what_is_outside_keeps_its_bits(model):
    new = X[X["city"] == "Cadiz"].assign(garden=True)
    area, before = model.footprint(new), model.predict(X)
    model.partial_fit(new, np.full(len(new), 999.0))
    outside = ~area.contains(X)
    assert outside.any()
    assert (model.predict(X) == before)[outside].all()
    assert repr(model.update_log_[0].footprint) == repr(area)
