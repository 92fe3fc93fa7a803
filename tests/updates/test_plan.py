"""What an update promises is what it does."""

import numpy as np
import oracle
import pytest
from boxes import box_data

from atlas_splines import (
    Atlas,
    footprint,
    update,
)
from atlas_splines.updates import plan as plans


@pytest.mark.parametrize("retention", ["chart", "none"])
def test_footprints_are_the_same_before_and_after(retention):
    model, (X, y) = oracle.randomize(Atlas(2)), box_data(2, 0)
    before = footprint(model, X, retention=retention)
    after = update(model, X, y, retention=retention, epochs=2, random_state=0).footprint
    assert repr(before) == repr(after)


def test_only_charts_need_room_inside_the_data(trained):
    X = np.stack([np.full(150, 0.5), np.random.default_rng(0).random(150)], axis=1)
    refused = "cover='inside' leaves nothing open along input 0"
    for retention in ("none", "rehearsal"):
        done = update(
            trained.copy(), X, np.ones(150), retention=retention, cover="inside", epochs=1, random_state=0
        )
        assert done.kind == retention
        with pytest.raises(ValueError, match="cover must be 'touch' or 'inside', not 'all'"):
            footprint(trained, X, retention=retention, cover="all")
        with pytest.raises(ValueError, match="charts must be at least 1, not 0"):
            footprint(trained, X, retention=retention, charts=0)
    for retention in ("chart", "both"):
        with pytest.raises(ValueError, match=refused):
            footprint(trained, X, retention=retention, cover="inside")


@pytest.mark.parametrize("cover", ["touch", "inside"])
@pytest.mark.parametrize("retention", ["chart", "rehearsal", "both", "none"])
def test_the_data_is_split_once(trained, retention, cover, monkeypatch):
    """Promise and deed have the same fences, for they are planned once."""
    model, (X, y) = trained.copy(), box_data(2, 0)
    calls, honest = [], plans.split_points
    monkeypatch.setattr(plans, "split_points", lambda *given: calls.append(1) or honest(*given))
    done = update(model, X, y, retention=retention, cover=cover, epochs=1, random_state=0)
    assert len(calls) == (0 if retention == "none" else 1)
    if retention == "chart":
        assert [chart.window for chart in model.charts] == list(done.footprint.windows)
