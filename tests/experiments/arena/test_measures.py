import numpy as np
import pytest

from atlas_splines.experiments.arena.figures import cliques, matrix_figure, mean_matrix
from atlas_splines.experiments.arena.measures import Diverged, confidence, evaluate, scores
from atlas_splines.experiments.arena.ranking import Results, critical_difference, ranks, table
from atlas_splines.experiments.arena.report import measures_html
from atlas_splines.experiments.arena.tasks import Problem, Task

NAN = float("nan")


class Constant:
    """Says the mean of the last task, everywhere or only right of a half."""

    bytes_kept = 8

    def __init__(self, local=False):
        self.local, self.left, self.right = local, 0.0, 0.0

    def fit(self, task):
        self.right = task.y.mean()
        self.left = self.left if self.local and task.X.min() > 0.5 else self.right

    def predict(self, X):
        return np.where(X[:, :1] > 0.5, self.right, self.left)


def halves():
    """Task 1 is 1 everywhere; task 2 makes the right half 3."""
    everywhere, right = np.array([[0.1], [0.2], [0.7], [0.8]]), np.array([[0.6], [0.9]])
    first = Task(everywhere, np.ones(4), everywhere, np.ones(4))
    second = Task(right, np.full(2, 3.0), right, np.full(2, 3.0), lambda X: X[:, 0] > 0.5)
    return Problem(1, [first, second])


def test_errors_of_a_method_that_forgets_by_hand():
    record = evaluate(halves(), Constant())
    # after task 1 it says 1: right on task 1, off by 2 on task 2. After task 2 it says 3: off by 2 on the left half
    assert record["R"] == [[0.0, 2.0], [2.0, 0.0]]
    assert record["S"] == [[0.0, 2.0], [2.0, 0.0]]
    assert record["untrained"] == [1.0, 3.0]
    assert record["changed"] == [1.0]
    measured = scores(record)
    assert measured["final"] == 1
    assert (measured["inside"], measured["outside"]) == (0, 2)
    assert measured["backward"] == -2  # negative: the old task got worse
    assert measured["forgetting"] == 2
    assert measured["forward"] == 1  # saying 1 was better than saying 0


def test_errors_of_a_method_that_does_not():
    record = evaluate(halves(), Constant(local=True))
    assert record["changed"] == [0.0]  # the right half is no longer old truth
    assert scores(record)["final"] == 0
    assert scores(record)["forgetting"] == 0


def test_a_task_that_is_replaced_altogether_has_no_error():
    first, second = halves().tasks
    gone = Task(second.X, second.y, second.test_X, second.test_y, lambda X: np.ones(len(X), bool))
    record = evaluate(Problem(1, [first, gone]), Constant())
    assert np.isnan(record["R"][1][0])
    assert scores(record)["final"] == 0
    assert np.isnan(scores(record)["forgetting"])


def test_forgetting_is_measured_from_the_best_there_was():
    S = [[0.5, NAN, NAN], [0.2, 0.3, NAN], [0.6, 0.1, 0.1]]
    measured = scores({"R": S, "S": S, "untrained": [1, 1, 1], "changed": [0.0, 0.5]})
    assert measured["forgetting"] == pytest.approx(((0.6 - 0.2) + (0.1 - 0.3)) / 2)
    assert measured["backward"] == pytest.approx(((0.5 - 0.6) + (0.3 - 0.1)) / 2)
    assert measured["changed"] == 0.25


def test_predictions_that_are_not_finite_are_a_failure():
    method = Constant()
    method.predict = lambda X: np.full((len(X), 1), np.inf)
    with pytest.raises(Diverged, match="predictions are not finite after task 1"):
        evaluate(halves(), method)


def test_the_interval_is_students():
    from scipy.stats import ttest_1samp

    values = [0.3, 0.5, 0.1, 0.9]
    centre, half = confidence(values)
    low, high = ttest_1samp(values, 0).confidence_interval(0.95)
    assert (centre - half, centre + half) == pytest.approx((low, high))
    assert np.isnan(confidence([1.0])[1])


def test_a_critical_difference_is_demsars():
    # Demšar (2006), table 5: q is 2.569 for four methods, 3.164 for ten
    assert critical_difference(4, 14) == pytest.approx(2.569 * (4 * 5 / (6 * 14)) ** 0.5, rel=1e-3)
    assert critical_difference(10, 30) == pytest.approx(3.164 * (10 * 11 / (6 * 30)) ** 0.5, rel=1e-3)


def test_a_failure_ranks_last_and_ties_share():
    np.testing.assert_array_equal(ranks(np.array([[NAN, 1, 0, 1]])), [[4, 2.5, 1, 2.5]])
    assert cliques([1, 2, 3, 9], 2) == [(0, 2)]


def record(method, error, cell="a", seed=0, status="ok"):
    R = [[error, error], [error, error]]
    return {
        "protocol": 1, "cell": cell, "method": method, "seed": seed, "status": status, "R": R, "S": R,
        "untrained": [1.0, 1.0], "changed": [0.5], "bytes": 2000, "train_seconds": 1.0, "predict_microseconds": 2.0,
    }  # fmt: skip


def test_the_table_by_hand():
    errors = {
        "mlp": (0.2, 0.4),
        "kan": (0.1, 0.8),
        "atlas-retrained": (0.1, 0.4),
        "mlp-retrained": (0.4, 0.2),
    }
    records = [record(m, e, cell) for m, pair in errors.items() for cell, e in zip("ab", pair, strict=True)]
    records.append(record("atlas-charts", 0.05, "a"))
    records.append(record("atlas-charts", 0, "b", status="crashed: Oops: it broke"))
    rows = {row.method: row for row in table(Results(records))}
    assert list(rows)[-2:] == ["atlas-retrained", "mlp-retrained"]  # what keeps all data comes last
    assert rows["mlp"].rank == (3 + 1) / 2
    assert rows["kan"].rank == (2 + 2) / 2
    assert rows["atlas-charts"].rank == (1 + 3) / 2  # a failure is last
    assert rows["mlp"].ratio == pytest.approx((2 * 2) ** 0.5)  # over the better of the two retrained
    assert rows["kan"].worst_ratio == pytest.approx(4)
    assert rows["kan"].kilobytes == 2
    assert rows["atlas-charts"].note == "1 of 2 runs crashed: Oops: it broke"
    assert np.isnan(rows["atlas-retrained"].rank)


def test_intervals_are_over_seeds_of_the_mean_over_cells():
    errors = {("a", 0): 0.1, ("b", 0): 0.3, ("a", 1): 0.5, ("b", 1): 0.7}
    results = Results([record("mlp", error, cell, seed) for (cell, seed), error in errors.items()])
    assert results.mean_interval("mlp", "final") == pytest.approx(confidence([0.2, 0.6]))
    assert results.mean_interval("mlp", "backward")[0] == 0
    page = measures_html(results)
    assert "0.400 ± " in page
    assert "negative where old tasks got worse" in page


def test_the_error_matrix_is_that_of_the_longest_sequence():
    short, long = record("mlp", 0.5, "short"), record("mlp", 0.5, "long")
    long["R"] = long["S"] = [[0.1, NAN, 0.9], [0.2, 0.3, 0.9], [0.4, 0.3, 0.2]]
    long["untrained"] = [1.0, 1.0, 1.0]
    other = record("mlp", 0.5, "long", seed=1)
    other["R"] = other["S"] = [[0.3, NAN, 0.9], [0.4, 0.3, 0.9], [0.6, 0.3, 0.2]]
    other["untrained"] = [1.0, 1.0, 1.0]
    results = Results([short, long, other])
    np.testing.assert_allclose(
        mean_matrix(results, "mlp", "long")[:, :2], [[0.2, NAN], [0.3, 0.3], [0.5, 0.3]]
    )
    assert "long" in matrix_figure(results).get_suptitle()


@pytest.mark.parametrize("status", ["ok", "crashed: Oops: it broke"])
def test_an_error_matrix_needs_no_certain_method(status):
    results = Results([record("linear", 0.5, status=status)])
    title = matrix_figure(results).get_suptitle()
    assert title.startswith("Errors on all tasks" if status == "ok" else "No method went through")
