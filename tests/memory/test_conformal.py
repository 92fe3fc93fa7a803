import numpy as np
import pytest

from atlas_splines.memory.conformal import BINS, EDGES, LADDER, ConformalScores


def normal(rows, seed=0, size=1.0):
    random = np.random.default_rng(seed)
    return random.random(rows), size * random.normal(size=rows)


@pytest.mark.parametrize("coverage", [0.05, 0.5, 0.9, 0.99])
def test_ends_are_quantiles(coverage):
    predicted, scores = normal(20_000)
    low, high = ConformalScores.of(predicted, scores).ends(np.array([0.5]), coverage)[0]
    tail = (1 - coverage) / 2
    assert (low, high) == pytest.approx(tuple(np.quantile(scores, [tail, 1 - tail])), abs=0.1)


def test_few_rows_have_wider_ends():
    predicted, scores = normal(19)
    low, high = ConformalScores.of(predicted, scores).ends(np.array([0.5]), 0.9)[0]
    assert low <= scores.min()
    assert high >= scores.max()


def test_regions_differ():
    predicted, scores = normal(8000)
    low, high = ConformalScores.of(predicted, (1 + 4 * predicted) * scores).ends(np.array([0.1, 0.9]), 0.9).T
    assert (high - low)[1] > 2 * (high - low)[0]


def test_predictions_of_few_values_have_regions_with_rows():
    predicted = np.repeat([0.0, 1.0], [4000, 100])
    scores = ConformalScores.of(predicted, normal(4100)[1])
    assert (scores.counts.sum(axis=1) > 0).all()


def test_wild_scores_are_counted_at_the_ends():
    scores = ConformalScores.of(np.zeros(3), np.array([-np.inf, 0.0, 1e300]))
    assert scores.counts[0, [0, -1]].tolist() == [1, 1]
    assert scores.ends(np.zeros(1), 0.99).tolist() == [[EDGES[0], EDGES[-1]]]


def test_coverage_is_adapted_and_rises_with_what_is_asked():
    scores = ConformalScores.of(*normal(2000))
    for seed in range(5):
        scores = scores.after(scores.histogram(*normal(200, seed, size=3.0)))
    asked = np.linspace(0.01, 0.999, 50)
    adapted = [scores.adapted(coverage) for coverage in asked]
    assert (np.diff(adapted) >= 0).all()
    assert scores.adapted(0.9) > 0.9
    held = scores.histogram(*normal(5000, seed=9, size=3.0)).covered
    assert held[LADDER == 0.9] == pytest.approx(0.9, abs=0.05)


def test_more_of_the_first_rows_make_one_histogram():
    predicted, values = normal(2000)
    whole = ConformalScores.of(predicted, values)
    part = ConformalScores(whole.centres, np.zeros_like(whole.counts), whole.shift, whole.sizes)
    some = part.joined(whole.histogram(predicted[:500], values[:500])).joined(
        whole.histogram(predicted[500:], values[500:])
    )
    assert (some.counts == whole.counts).all()
    assert (some.shift == 0).all()


def test_tallies_of_one_update_join():
    predicted, values = normal(300)
    scores = ConformalScores.of(*normal(500, seed=1))
    whole = scores.histogram(predicted, values)
    both = scores.histogram(predicted[:100], values[:100]).joined(
        scores.histogram(predicted[100:], values[100:])
    )
    assert (both.counts == whole.counts).all()
    assert both.covered == pytest.approx(whole.covered)


def test_a_score_of_classes_has_an_upper_end_alone():
    scores = ConformalScores.of(
        np.zeros(1000), np.random.default_rng(0).exponential(size=1000), is_one_sided=True
    )
    low, high = scores.ends(np.zeros(1), 0.9)[0]
    assert low == EDGES[0]
    assert high == pytest.approx(np.log(10), abs=0.3)


def test_weights_count():
    predicted, values = np.zeros(200), np.repeat([0.0, 10.0], 100)
    scores = ConformalScores.of(predicted, values, np.repeat([1.0, 1e-6], 100))
    assert scores.ends(np.zeros(1), 0.9)[0, 1] < 1
    assert scores.counts.shape == (1, BINS)


def test_a_deviation_is_the_root_of_the_mean_square():
    predicted, values = normal(20_000, size=2.0)
    assert ConformalScores.of(predicted, values).deviation(np.array([0.5]))[0] == pytest.approx(2, abs=0.1)
