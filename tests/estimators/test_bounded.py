"""Bounds in the units of columns and target."""

import numpy as np
import pandas as pd
import pytest
from frames import homes_frame

from atlas_splines import AtlasClassifier, AtlasRegressor

ROWS = {"members": 1, "random_state": 0, "features": 30}
FLAT = {
    **{"size": (60, 90), "city": "Cadiz", "garden": True, "zone": 10, "kind": "flat"},
    **{"when": "2020-05-01T10:00", "street": "street 3"},
}


@pytest.fixture(scope="module")
def homes():
    X, y = homes_frame(200)
    return AtlasRegressor(**ROWS, missing="learn").fit(X, y), X


def frame_of(X, sizes, **changed):
    row = {**FLAT, **changed}
    frame = pd.DataFrame([row] * len(sizes)).assign(
        size=sizes, when=pd.Timestamp(row["when"]), zone=pd.Categorical([row["zone"]] * len(sizes))
    )
    return frame[list(X.columns)]


def test_a_box_of_a_frame(homes):
    model, X = homes
    found = model.range(FLAT, seconds=20)
    predicted = model.predict(frame_of(X, np.linspace(60, 90, 400)))
    assert found.low <= predicted.min()
    assert found.high >= predicted.max()
    assert found.is_done
    assert not found.is_relaxed
    assert found.high - predicted.max() < 0.05 * model.target_scale_[0]
    assert found.at_high["city"] == "Cadiz"
    assert 60 - 1e-3 <= found.at_high["size"] <= 90 + 1e-3
    both = model.range({**FLAT, "city": ["Aarhus", "Cadiz"]}, seconds=20)
    other = model.predict(frame_of(X, np.linspace(60, 90, 400), city="Aarhus"))
    assert both.low <= min(predicted.min(), other.min()) + 1e-6
    assert both.low < found.low


def test_missing_values_and_free_categories_are_in_the_box(homes):
    model, X = homes
    free = {name: value for name, value in FLAT.items() if name != "city"} | {"size": None}
    found = model.range(free, seconds=20)
    row = frame_of(X, [np.nan], city=None)
    assert found.low <= model.predict(row)[0] <= found.high
    assert found.at_low["size"] is None


def test_probabilities(homes):
    _, X = homes
    y = homes_frame(200)[1] > 250
    model = AtlasClassifier(**ROWS, missing="learn").fit(X, y)
    found = model.range(FLAT, seconds=20)
    chances = model.predict_proba(frame_of(X, np.linspace(60, 90, 200)))[:, 1]
    assert found.low <= chances.min()
    assert chances.max() <= found.high
    other = model.range(FLAT, label=False, seconds=20)
    np.testing.assert_allclose([other.low, other.high], [1 - found.high, 1 - found.low], atol=1e-6)


def test_three_classes_and_counts():
    random = np.random.default_rng(0)
    X = random.random((250, 3))
    labels = np.array(["a", "b", "c"])[(3 * X[:, 0]).astype(int)]
    model = AtlasClassifier(**ROWS).fit(X, labels)
    rows = np.column_stack([np.linspace(0.1, 0.9, 200), np.full(200, 0.5), np.full(200, 0.2)])
    found = model.range({0: (0.1, 0.9), 1: 0.5, 2: 0.2}, label="b", seconds=5)
    chances = model.predict_proba(rows)[:, 1]
    assert found.low <= chances.min()
    assert chances.max() <= found.high
    with pytest.raises(ValueError, match="there are 3 classes; say which with label"):
        model.range({})
    counts = AtlasRegressor(**ROWS, loss="poisson").fit(X, random.poisson(5 * X[:, 0]))
    found = counts.range({0: (0.1, 0.9), 1: 0.5, 2: 0.2}, seconds=5)
    predicted = counts.predict(rows)
    assert found.low <= predicted.min()
    assert predicted.max() <= found.high


@pytest.mark.parametrize(
    ("box", "says"),
    [
        ({"town": 1}, "box names 'town', which is not a column; these are size, city"),
        ({"city": "Oslo"}, "box has 'Oslo' for column 'city', which knows Aarhus, Bergen, Cadiz; correct it"),
        ({"size": (9, 3)}, r"box has \(9, 3\) for column 'size'; give the lower end first"),
        ({"size": "large"}, "box has 'large' for column 'size'; give a number"),
        ({"when": "May"}, "box has 'May' for column 'when'; give a date such as 2024-05-01"),
    ],
)
def test_boxes_that_are_none(homes, box, says):
    with pytest.raises(ValueError, match=says):
        homes[0].range(box)


def test_a_box_beyond_a_domain_that_goes_on():
    X = np.random.default_rng(0).random((100, 1))
    model = AtlasRegressor(**ROWS, extrapolation="linear").fit(X, X[:, 0])
    with pytest.raises(ValueError, match="the box reaches beyond the domain"):
        model.range({0: (0.5, 3.0)})
    with pytest.raises(TypeError, match="box must be a dict of columns"):
        model.range([0, 1])
