"""What is known about errors, in files; round trips are in tests/estimators/test_predict_uncertainty.py."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from mutations import pooled_regressor, set_value

from atlas_splines import AtlasRegressor, load, save
from atlas_splines.memory.error_model import ErrorModel
from atlas_splines.model.atlas import state_of

SPREAD = "model.evidence.spread"


@pytest.fixture(scope="module")
def pooled_bytes(tmp_path_factory):
    path = tmp_path_factory.mktemp("pooled") / "model.atlas"
    save(pooled_regressor(), path)
    return path.read_bytes()


@pytest.fixture
def refusal_of_spread(pooled_bytes, refusal_of_sealed):
    """What is wrong with a file of the pooled regressor after an edit."""
    return partial(refusal_of_sealed, pooled_bytes)


@pytest.mark.parametrize(
    ("edit", "what"),
    [
        (set_value("spread", to=3), "model.evidence.spread must be a JSON object, not 3"),
        (set_value("spread", "more", to=1), "'more' has no place in model.evidence.spread"),
        (set_value("spread", "scales", to=[]),
         "'scales' of model.evidence.spread must be one for each output, and none for classes"),
        (set_value("spread", "scales", to=[[0, 0]]), "model.evidence.spread.scales.0 must be different inputs"),
        (set_value("spread", "scales", to=[[2]]), "model.evidence.spread.scales.0 must be different inputs"),
        (set_value("spread", "presence", "inputs", to=[1, 0]),
         "'inputs' of model.evidence.spread.presence must be at most 8 rising inputs"),
        (set_value("recent", 0, "seen", to={"visits": 1}),
         "'visits' of model.evidence.recent.0.seen must be true or false, not 1"),
        (set_value("recent", 0, "seen", to={"visits": False}),
         "'visits' of model.evidence.recent.0.seen must be true where the density of rows is counted, and false "
         "elsewhere"),
    ],
)  # fmt: skip
def test_wrong_fields_are_refused(edit, what, refusal_of_spread):
    assert refusal_of_spread(edit) == what


@pytest.mark.parametrize(
    ("name", "number", "what"),
    [
        ("spread.scales.0.knots", 1e9, f"tensor '{SPREAD}.scales.0.knots' must be rising"),
        ("spread.scales.0.weights", 1e9, f"tensor '{SPREAD}.scales.0.weights' must be at most 1e+06 in size"),
        ("spread.scores.0.counts", -1, f"tensor '{SPREAD}.scores.0.counts' must be at least 0, and more for each centre"),
        ("spread.scores.0.counts", np.nan, f"tensor '{SPREAD}.scores.0.counts' holds nan"),
        ("spread.scores.0.shift", 2, f"tensor '{SPREAD}.scores.0.shift' must be from -1 to 1"),
        ("spread.presence.alone", -1, f"the counts of {SPREAD}.presence must be at least 0"),
        ("spread.presence.paired", -1, f"the counts of {SPREAD}.presence must be at least 0"),
        ("spread.presence.usual", 9, f"tensor '{SPREAD}.presence.usual' must be two or three rows of rising quantiles"),
        ("recent.0.seen.tallies.0.covered", 2, "the tally model.evidence.recent.0.seen.tallies.0 must be of counts of "
         "at least 0 and shares from 0 to 1"),
        ("recent.0.seen.alone", -1, "the counts of model.evidence.recent.0.seen must be at least 0"),
    ],
)  # fmt: skip
def test_wrong_numbers_are_refused(name, number, what, refusal_of_spread):
    def edit(file):
        file.values(f"model.evidence.{name}")[0] = number

    assert refusal_of_spread(edit) == what


def test_a_chart_keeps_what_it_knows(tmp_path):
    random = np.random.default_rng(0)
    X = random.random((300, 2))
    model = AtlasRegressor(members=1, features=30, retention="chart", max_iter=2, random_state=0).fit(
        X, X[:, 0]
    )
    model.partial_fit(0.4 + 0.2 * X[:100], 5 + random.normal(size=100))
    save(model, tmp_path / "m.atlas")
    twin = load(tmp_path / "m.atlas")
    (chart,) = twin.model_.charts
    assert isinstance(state_of(chart.content).pooled.combined_error_model, ErrorModel)
    assert all(map(np.array_equal, twin.predict_interval(X), model.predict_interval(X)))


def test_an_old_file_has_intervals_after_an_update(tmp_path):
    model = load(Path(__file__).parents[1] / "golden" / "pooled_v3.atlas")
    X = np.random.default_rng(0).random((150, 2))
    with pytest.raises(ValueError, match="this model has no error model: fit it again"):
        model.predict_interval(X)
    model.partial_fit(X, np.sin(5 * X[:, 0]) + X[:, 1])
    save(model, tmp_path / "m.atlas")
    twin = load(tmp_path / "m.atlas")
    assert all(map(np.array_equal, twin.predict_interval(X), model.predict_interval(X)))
    with pytest.raises(ValueError, match="did not count the density of rows: fit it again"):
        twin.support(X)
