"""Explanations in the units of columns and target: what all coalitions of whole columns give."""

import copy
from pathlib import Path

import float64_arithmetic
import numpy as np
import pandas as pd
import pytest
from frames import homes_frame
from level_rows import known_rows, new_rows

from atlas_splines import AtlasClassifier, AtlasRegressor, load
from atlas_splines.estimators import contributions, explained
from atlas_splines.explain.shapley import coalitions_of, shapley_of_table
from atlas_splines.model.atlas import state_of
from atlas_splines.updates.intervals import error_model_of

GOLDEN = Path(__file__).parents[1] / "golden"
ROWS = {"members": 1, "random_state": 0, "features": 30}


def link(model, X):
    """Predictions on the scale of the link, as users get them."""
    if hasattr(model, "classes_"):
        return model.decision_function(X)
    return model.predict(X)


def mixed(row, rows, coalition):
    """Background rows with the columns of a coalition taken from a row."""
    if isinstance(rows, pd.DataFrame):
        taken = [rows.columns[p] for p in np.flatnonzero(coalition)]
        one = row.iloc[np.zeros(len(rows), int)].set_axis(rows.index)
        return rows.assign(**{name: one[name] for name in taken})
    return np.where(coalition, row, rows)


def assert_explained(model, X, background, scale="link", predict=link):
    """Every value is that of the definition, and all add up to the prediction."""
    with float64_arithmetic.float64_arithmetic():
        found = model.explain(X, background, scale=scale)
        np.testing.assert_allclose(found.predictions, predict(model, X), rtol=1e-9, atol=1e-9)
        for row in range(len(X)):
            one = X.iloc[row : row + 1] if isinstance(X, pd.DataFrame) else X[row : row + 1]
            worth = [
                predict(model, mixed(one, background, coalition)).mean(axis=0)
                for coalition in coalitions_of(len(model.column_names))
            ]
            expected = shapley_of_table(np.array(worth).reshape(len(worth), -1))
            values = found.values[row].reshape(expected.shape)
            size = max(np.abs(expected).max(), np.abs(found.predictions).max(), 1e-3)
            np.testing.assert_allclose(values, expected, rtol=0, atol=1e-9 * size)
    assert found.is_exact
    return found


@pytest.fixture(scope="module")
def homes():
    """A regressor of a frame with columns of every kind, and an update."""
    X, y = homes_frame(260)
    model = AtlasRegressor(**ROWS, missing="learn").fit(X[:220], y[:220])
    return model.partial_fit(X[220:], y[220:]), X, y


def test_columns_of_every_kind(homes):
    model, X, _ = homes
    later = X[100:102].assign(size=[400.0, 90.0])  # one beyond the domain
    found = assert_explained(model, later, X[30:33])
    assert found.feature_names == list(X.columns)
    assert found.data[0, 0] == 400.0


def test_rows_with_missing_values(homes):
    model, X, _ = homes
    assert X[0:8:4].isna().any(axis=None)
    assert_explained(model, X[0:8:4], X[40:42])


def test_marginals_of_known_rows(homes):
    """A column that all known rows share is one that a row with that value owes nothing to."""
    model, X, _ = homes
    found = model.explain(X[50:53])
    assert found.background == "the marginals of 260 known rows"
    np.testing.assert_allclose(found.predictions, model.predict(X[50:53]), rtol=1e-9)
    assert np.ptp(found.base_values) < 1e-3 * np.abs(found.base_values).max()


@pytest.fixture(scope="module")
def numbers():
    random = np.random.default_rng(0)
    X = random.random((300, 4))
    return X, np.sin(5 * X[:, 0]) * X[:, 1] + np.abs(X[:, 2] - 0.5) + 0.05 * random.normal(size=300)


@pytest.mark.parametrize("memory", ["rows", "sums"])
def test_charts_that_replace(numbers, memory):
    X, y = numbers
    model = AtlasRegressor(**ROWS, memory=memory).fit(X, y)
    new = 0.4 * np.random.default_rng(1).random((80, 4))
    model.partial_fit(new, np.full(80, 9.0), accept=True)
    model.set_params(retention="chart").partial_fit(new + 0.2, np.zeros(80), accept=True)
    assert model.model_.charts
    assert_explained(model, np.vstack([new[:2], new[:1] + 0.2, 2 * X[:1] - 0.5]), X[:4])


@pytest.mark.parametrize("extrapolation", ["constant", "linear"])
def test_rows_beyond_the_domain(numbers, extrapolation):
    X, y = numbers
    model = AtlasRegressor(**ROWS, extrapolation=extrapolation).fit(X, y)
    far = np.array([[1.4, 0.5, -0.2, 0.3], [0.2, 0.4, 0.5, 1.2]])
    with pytest.MonkeyPatch.context() as patched:  # what continues is rounded to float32 too
        patched.setattr(explained, "evaluate_anywhere", float64_arithmetic.evaluate_anywhere)
        assert_explained(model, far, np.vstack([X[:3], [[-0.3, 0.1, 0.2, 0.9]]]))
    if extrapolation == "linear":
        assert not model.explain(far).is_exact
        np.testing.assert_allclose(model.explain(far).predictions, model.predict(far), rtol=1e-9)
        with pytest.raises(ValueError, match="explain_interactions is for rows within the domain"):
            model.explain_interactions(far)


def test_rows_that_are_not_predicted_are_not_explained(numbers):
    X, y = numbers
    model = AtlasRegressor(**ROWS, extrapolation="error").fit(X, y)
    with pytest.raises(ValueError, match="row 0 of X lies outside the domain"):
        model.explain(X[:1] + 3)


@pytest.mark.parametrize("classes", [2, 3])
def test_classes(numbers, classes):
    X, y = numbers
    labels = np.array(["a", "b", "c"])[np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))]
    model = AtlasClassifier(**ROWS).fit(X, labels)
    found = assert_explained(model, X[:2], X[5:8])
    assert found.values.shape == (2, 4) if classes == 2 else (2, 4, 3)
    assert found.unit == ("log-odds of 'b'" if classes == 2 else "score")
    chances = assert_explained(
        model,
        X[:2],
        X[5:8],
        "response",
        lambda model, X: model.predict_proba(X)[:, 1] if classes == 2 else model.predict_proba(X),
    )
    assert chances.output_names == (() if classes == 2 else ("a", "b", "c"))
    assert (model.explain(X[:2], scale="response").background).startswith("50 rows drawn from the marginals")


def test_counts_and_quantiles(numbers):
    X, y = numbers
    counts = np.random.default_rng(0).poisson(np.exp(1 + y))
    model = AtlasRegressor(**ROWS, loss="poisson").fit(X, counts)
    assert_explained(model, X[:2], X[5:8], "response")
    found = model.explain(X[:3])
    assert found.unit == "root of the count"
    root = model._unscaled(model._now()._outputs(X[:3]))[:, 0]
    np.testing.assert_allclose(found.predictions, root, rtol=1e-9)
    quantile = AtlasRegressor(**ROWS, loss="quantile", quantile=0.9).fit(X, y)
    assert_explained(quantile, X[:2], X[5:8], "response")


def test_several_targets(numbers):
    X, y = numbers
    model = AtlasRegressor(**ROWS).fit(X, np.column_stack([y, 5 * X[:, 3]]))
    found = assert_explained(model, X[:2], X[5:8])
    assert found.output_names == ("target 0", "target 1")
    second = found.of_output("target 1")
    assert np.abs(second.values).argmax(axis=1).tolist() == [3, 3]
    with pytest.raises(ValueError, match="there is no output 'price'; these are target 0, target 1"):
        found.of_output("price")


def test_more_columns_than_are_enumerated(numbers):
    random = np.random.default_rng(0)
    X = random.random((200, 12))
    model = AtlasClassifier(**ROWS).fit(X, X[:, 0] + X[:, 1] * X[:, 2] > 0.7)
    found = model.explain(X[:2], X[5:15], scale="response")
    assert not found.is_exact
    assert "estimated" in repr(found)
    np.testing.assert_allclose(found.predictions, model.predict_proba(X[:2])[:, 1], rtol=1e-9)
    assert model.explain(X[:2], X[5:15]).is_exact


def test_interactions_add_up(numbers):
    X, y = numbers
    model = AtlasRegressor(**ROWS).fit(X, y)
    pairs, alone = model.explain_interactions(X[:3], X[5:9]), model.explain(X[:3], X[5:9])
    np.testing.assert_allclose(pairs.of_alone().values, alone.values, atol=1e-10)
    np.testing.assert_allclose(pairs.predictions, model.predict(X[:3]), rtol=1e-9)
    strongest = np.abs(np.triu(pairs.values[0], 1)).argmax()
    assert divmod(strongest, 4) == (0, 1)


def test_bad_input_is_one_sentence(numbers):
    X, y = numbers
    model = AtlasRegressor(**ROWS).fit(X, y)
    with pytest.raises(ValueError, match="scale must be 'link' or 'response', not 'log'"):
        model.explain(X, scale="log")
    with pytest.raises(ValueError, match=r"Found array with 0 sample|background has no row"):
        model.explain(X, X[:0])
    with pytest.raises(ValueError, match="X has 3 features"):
        model.explain(X[:, :3])


def test_a_trained_model_asks_for_a_background(numbers):
    X, y = numbers
    size = {"density": 1, "terms": 1, "max_iter": 2, "features": 0}
    model = AtlasRegressor(members=1, random_state=0, memory="sums", **size).fit(X, y)
    with pytest.raises(ValueError, match=r"holds no rows and no counts of them.* give some rows"):
        model.explain(X[:1])
    assert_explained(model, X[:2], X[5:8])


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.atlas")), ids=lambda path: path.stem)
def test_files_of_every_version(path):
    """Models of older versions are explained as they predict, against their own rows where they know any."""
    model = load(path)
    model = model.estimator if hasattr(model, "estimator") else model
    if not hasattr(model, "domain_") or hasattr(model, "encoding_"):
        return  # a bare model, which has no columns, or one of frames
    rows = np.random.default_rng(0).uniform(*model.domain_.knots[:, [0, -1]].T, (4, len(model.domain_.knots)))
    names = getattr(model, "feature_names_in_", None)
    X = rows if names is None else pd.DataFrame(rows, columns=names)
    assert_explained(model, X[:1], X[1:])
    if model._current_ledger is None and error_model_of(state_of(model.model_)) is None:
        with pytest.raises(ValueError, match="give some rows as background"):
            model.explain(X[:1])
        return
    found = model.explain(X[:1])
    np.testing.assert_allclose(found.predictions, link(model, X[:1]), rtol=1e-9, atol=1e-9)


# --- blame -------------------------------------------------------------------------------------------------


def updated(memory="rows", kind=AtlasRegressor, **options):
    """A model of three updates, the last of which contradicts what was known."""
    random = np.random.default_rng(3)
    X = random.random((320, 3))
    y = np.sin(5 * X[:, 0]) * X[:, 1] + np.abs(X[:, 2] - 0.5) + 0.1 * random.normal(size=320)
    if kind is AtlasClassifier:
        y = np.where(y > np.median(y), "high", "low")
    model = kind(**ROWS, memory=memory, **options).fit(X[:200], y[:200])
    for begin in (200, 240):
        model.partial_fit(X[begin : begin + 40], y[begin : begin + 40])
    if kind is AtlasRegressor:
        model.partial_fit(0.4 * X[280:], 5 + y[280:], accept=True)
    return model, X, y


@pytest.mark.parametrize("memory", ["rows", "sums"])
@pytest.mark.parametrize("kind", [AtlasRegressor, AtlasClassifier])
def test_blame_adds_up(memory, kind):
    model, X, _ = updated(memory, kind)
    rows = np.vstack([X[:4], 0.4 * X[280:284]])
    found = model.blame(rows)
    np.testing.assert_allclose(found.predictions, link(model, rows), rtol=1e-9, atol=1e-9)
    assert found.updates == ((0, 1, 2, 3) if kind is AtlasRegressor else (0, 1, 2))
    # scores of classes stop a little before their optimum
    assert np.abs(found.rest).max() < (1e-4 if kind is AtlasRegressor else 1e-3)
    assert np.abs(found.values[:, 1]).max() > 1e-3
    if kind is AtlasRegressor:  # the chart took the place of what was there
        assert np.abs(found.values[4:, 3]).min() > 1
        assert np.abs(found.values[4:, :3]).max() < 1


def test_blame_of_a_row_follows_its_target():
    """With shares as they are, predictions are linear in targets: one that is larger says so much more."""
    random = np.random.default_rng(0)
    X = random.random((120, 2))
    y = X[:, 0] + 0.1 * random.normal(size=120)
    model = AtlasRegressor(**ROWS).fit(X, y)
    found = model.blame(X[7:8])
    best = found.row_values[0].argmax()
    assert found.row_values.shape == (1, 20)
    assert (np.diff(found.row_values[0]) <= 0).all()
    assert (found.row_updates == 0).all()
    number = found.row_numbers[0, best]
    assert y[number] > y.mean()
    assert any("of the fit" in line for line in found.lines())


def test_rows_are_found_after_the_frame_was_chosen_anew():
    random = np.random.default_rng(0)
    X = random.random((1300, 2))
    y = np.sin(4 * X[:, 0]) + X[:, 1]
    model = (
        AtlasRegressor(members=1, random_state=0, features=20)
        .fit(X[:500], y[:500])
        .partial_fit(X[500:], y[500:])
    )
    assert "chosen anew" in model.model_.updates[-1].reason
    found = model.blame(X[900:903])
    assert found.updates == (0, 1)
    np.testing.assert_allclose(found.predictions, model.predict(X[900:903]), rtol=1e-9)
    assert (found.row_updates[0] == 1).any()
    assert np.abs(found.rest).max() < 1e-3


def test_blame_of_a_trained_model_is_that_of_its_fit(numbers):
    X, y = numbers
    model = AtlasRegressor(density=1, terms=1, members=1, max_iter=2, features=0, random_state=0).fit(X, y)
    found = model.blame(X[:3])
    assert found.names == ("fit",)
    assert found.row_values is None
    np.testing.assert_allclose(found.predictions, model.predict(X[:3]), rtol=1e-9)


def test_blame_with_effects_of_levels():
    X, y = known_rows(300, 0)
    model = AtlasRegressor(members=1, random_state=0, features=40, domain=[(0, 1)] * 2).fit(X, y)
    model.partial_fit(*new_rows(60, 1))
    rows = np.vstack([X[:3], new_rows(3, 2)[0]])
    found = model.blame(rows)
    np.testing.assert_allclose(found.predictions, model.predict(rows), rtol=1e-9)


def test_rows_beyond_the_end_of_a_clock():
    """There another mixture of the same rows predicts, whose linear part goes on beyond the domain."""
    random = np.random.default_rng(0)
    X = np.column_stack([np.arange(500) / 500, random.random((500, 2))])
    y = 3 * X[:, 0] + np.sin(5 * X[:, 1]) + 0.1 * random.normal(size=500)
    model = AtlasRegressor(members=1, random_state=0, features=30).fit(X, y)
    assert state_of(model.model_).later is not None
    rows = np.column_stack([[0.5, 1.01, 1.3], random.random((3, 2))])
    found = model.blame(rows)
    np.testing.assert_allclose(found.predictions, model.predict(rows), rtol=1e-9)
    assert np.abs(found.rest).max() < 1e-3
    assert_explained(model, rows, np.vstack([X[:2], rows[1:2]]))
    assert model.explain(rows).is_exact


# --- values of updates ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", ["rows", "sums"])
def test_updates_are_valued_as_revert_takes_them_back(memory):
    model, X, y = updated(memory)
    rows = X[:50], y[:50]
    before = model.model_.fingerprint()
    found = model.value_of_updates(*rows)
    assert model.model_.fingerprint() == before
    assert found.updates == (1, 2, 3)
    np.testing.assert_allclose(found.shapley.sum(), found.error_without - found.error, rtol=1e-9)

    def error(version):
        return float(np.sqrt(np.mean((version.predict(rows[0]) - rows[1]) ** 2)))

    np.testing.assert_allclose(found.error, error(model), rtol=1e-5)
    for k, number in enumerate(found.updates):
        rest = copy.deepcopy(model).revert(number)
        np.testing.assert_allclose(found.leave_one_out[k], error(rest) - found.error, atol=1e-5)


def test_a_model_without_an_update_is_the_reverted_one_to_the_bit():
    model, X, _ = updated()
    seen = []
    ledger = model._current_ledger
    contributions.errors_of_subsets(
        model, ledger, [2], lambda version: float(seen.append(version.predict(X)) or 0)
    )
    np.testing.assert_array_equal(seen[0], model.revert(2).predict(X))


def test_what_cannot_be_valued():
    model, X, y = updated()
    with pytest.raises(ValueError, match="update 9 cannot be left out; of this model's updates, 1, 2, 3 can"):
        model.value_of_updates(X, y, updates=[9])
    with pytest.raises(ValueError, match="there is no update to value"):
        model.value_of_updates(X, y, updates=[])
