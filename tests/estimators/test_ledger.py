"""An estimator that keeps rows is a function of its contributions, however they came to be."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest

from atlas_splines import AtlasClassifier, AtlasRegressor, UpdateWarning, load, save
from atlas_splines.estimators import ledger
from atlas_splines.estimators.ledger import FrameRules, derive, framed_rows

FEW = {"features": 24, "random_state": 0}


def rows(count, seed, shift=0.0):
    random = np.random.default_rng(seed)
    X = random.random((count, 2))
    return X, np.sin(5 * X[:, 0]) + X[:, 1] + shift + 0.05 * random.normal(size=count)


PROBES = np.random.default_rng(99).uniform(-0.3, 1.3, (200, 2))


def predicted(model):
    return [model.predict(PROBES), *model.predict_interval(PROBES, [0.5, 0.9]), model.support(PROBES)]


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(predicted(one), predicted(other), strict=True))


def life(*seeds, **options):
    model = AtlasRegressor(**FEW | options).fit(*rows(120, 0))
    for seed in seeds:
        model.partial_fit(*rows(25, seed))
    return model


@pytest.mark.parametrize("options", [{}, {"terms": 0, "density": 1}, {"monotonic_cst": [0, 1]}])
def test_a_model_is_what_is_derived_from_its_ledger(options):
    model = life(1, 2, 3, **options)
    again = derive(model, model.ledger_, afresh=True)
    assert same(again, model)
    assert again.model_.fingerprint() == model.ledger_.fingerprint == model.model_.fingerprint()


@pytest.mark.parametrize("number", [1, 2, 3])
def test_whatever_is_reverted_the_life_is_one_without_it(number, path):
    model = life(1, 2, 3)
    save(model, path)
    for each in (model, copy.deepcopy(model), pickle.loads(pickle.dumps(model)), load(path)):
        each.revert(number)
        assert same(each, life(*(k for k in (1, 2, 3) if k != number)))
        assert each.ledger_.numbers == [k for k in (1, 2, 3) if k != number]
        with pytest.raises(ValueError, match=f"update {number} cannot be reverted; of this model's updates"):
            each.revert(number)


def test_states_are_remembered_at_even_distances_and_a_revert_goes_on_from_the_nearest(monkeypatch):
    monkeypatch.setattr(ledger, "FRAME_RULES", FrameRules(recent_states=1, spaced_states=3))
    model = life(*range(1, 10))
    remembered = [k for k, key in enumerate(model.ledger_.keys) if key in model.ledger_.states]
    assert remembered == [0, 4, 8, 9]
    shorter = model.ledger_.without(6)
    steps = []
    next_one = ledger.derived_next
    monkeypatch.setattr(ledger, "derived_next", lambda *given: steps.append(1) or next_one(*given))
    found = derive(model, shorter)
    assert len(steps) == 4  # updates 5, 7, 8 and 9
    assert same(found, derive(model, shorter, afresh=True))
    assert [k for k, key in enumerate(shorter.keys) if key in found.ledger_.states] == [0, 4, 8]


def test_changes_behind_its_back_leave_the_ledger_behind(path):
    model = life(1)
    model.model_._state.table[:] += 1
    assert model._current_ledger is None
    save(model, path)
    assert load(path).ledger_ is None


def test_arrays_of_the_caller_may_change_afterwards():
    X, y = rows(120, 0)
    model = AtlasRegressor(**FEW).fit(X, y)
    X_new, y_new = rows(25, 1)
    model.partial_fit(X_new, y_new).partial_fit(*rows(25, 2))
    for array in (X, y, X_new, y_new):
        array[:] = 0
    assert same(model.revert(2), life(1))


def test_more_rows_of_a_fit_are_a_part_of_it():
    X, y = rows(120, 0)
    model = AtlasRegressor(**FEW).fit(X[:80], y[:80]).partial_fit(*rows(25, 1))
    model.fit_more(X[80:100], y[80:100], rest=[(X[100:], y[100:])])
    assert len(model.ledger_.fit) == 120
    assert model.ledger_.fit.fitted == 80
    other = AtlasRegressor(**FEW).fit(X[:80], y[:80]).fit_more(X[80:], y[80:]).partial_fit(*rows(25, 1))
    assert same(model, other)


def test_a_frame_is_chosen_from_the_smallest_hashes(monkeypatch):
    rules = FrameRules(most_rows=60)
    monkeypatch.setattr(ledger.framed_rows, "__defaults__", (rules,))
    X, y = rows(120, 0)
    model = AtlasRegressor(**FEW).fit(X, y)
    framed = framed_rows(model.ledger_.fit, rules)
    assert framed.sum() == 60
    assert model.fit_record_.rows == 120
    outside, inside = np.flatnonzero(~framed)[0], np.flatnonzero(framed)[0]
    for gone, stays in ((outside, True), (inside, False)):
        clean = copy.deepcopy(model).forget(X[[gone]], y[[gone]])
        assert (clean.domain_.knots == model.domain_.knots).all() == stays
        never = AtlasRegressor(**FEW).fit(np.delete(X, gone, 0), np.delete(y, gone))
        assert same(clean, never)


def test_rows_beyond_the_budget_end_the_ledger():
    model = life(1, max_rows=160)
    assert model.ledger_.rows == 145
    model.partial_fit(*rows(25, 2))
    assert model.ledger_ is None
    with pytest.raises(ValueError, match="cannot be reverted"):
        model.revert(99)


def test_an_update_that_is_decided_again_is_named():
    model = AtlasRegressor(**FEW).fit(*rows(200, 0))
    X = 0.3 + 0.3 * np.random.default_rng(5).random((120, 2))
    model.partial_fit(X, np.full(120, 9.0), accept=True)
    assert model.model_.charts
    model.partial_fit(X[:60] + 0.01, np.full(60, 9.0), accept=True)  # these join the chart
    assert {chart.update for chart in model.model_.charts} == {1}
    with pytest.warns(UpdateWarning, match="update 2 was decided again without these rows: it opens a chart"):
        model.revert(1)
    assert {chart.update for chart in model.model_.charts} == {2}


def test_new_classes_need_no_announcement():
    X, y = rows(150, 0)
    labels = np.where(y > 1, "high", "low")
    model = AtlasClassifier(**FEW).fit(X, labels)
    with pytest.warns(UpdateWarning, match="y has new classes, 'odd': they are learned"):
        model.partial_fit(X[:60] + 1, np.full(60, "odd"), accept=True)
    assert model.classes_.tolist() == ["high", "low", "odd"]
    assert (model.predict(X[:60] + 1) == "odd").mean() > 0.9
    assert model.revert(1).classes_.tolist() == ["high", "low"]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda h, t: t.update({"estimator.ledger.contributions": t["estimator.ledger.contributions"][::-1]}), "begin with the fit"),
        (lambda h, t: t["estimator.ledger.contributions"].__setitem__((1, 3), 9), "of no kind"),
        (lambda h, t: t["estimator.ledger.contributions"].__setitem__((2, 1), 0), "in the order of their clocks"),
        (lambda h, t: t["estimator.ledger.contributions"].__setitem__((1, 2), -1), "must have rows"),
        (lambda h, t: t["estimator.ledger.contributions"].__setitem__((0, 5), 0), "at least one row"),
        (lambda h, t: t["estimator.ledger.contributions"].__setitem__((2, 0), 1), "numbers of their own"),
        (lambda h, t: h["estimator"]["ledger"].update(fingerprint="0" * 64), "not the one of its ledger"),
        (lambda h, t: h["estimator"]["ledger"]["kinds"][0].__setitem__(0, "gift"), "kinds with their options"),
        (lambda h, t: h["estimator"]["ledger"]["kinds"][1][1].update(retention="magic"), "'retention' of an update"),
        (lambda h, t: h["estimator"]["ledger"]["kinds"][0][1].update(seeds=[]), "'seeds' of the fit"),
    ],
)  # fmt: skip
def test_wrong_ledgers_are_refused(change, what):
    from atlas_splines.io.save_load import from_archive, to_archive

    archive = to_archive(life(1, 2))
    archive.tensors = {name: np.array(tensor) for name, tensor in archive.tensors.items()}
    change(archive.header, archive.tensors)
    with pytest.raises(ValueError, match=what):
        from_archive(replace(archive, taken=set()))


def with_charts():
    """A classifier with a chart, and rows of a class that it does not know."""
    X = np.random.default_rng(0).random((200, 2))
    y = (X[:, 0] > 0.5).astype(int)
    model = AtlasClassifier(**FEW, retention="chart").fit(X[:140], y[:140])
    model.partial_fit(X[:60] * 0.3, 1 - y[:60], accept=True)
    assert model.model_.charts
    return model, (X[140:], np.where(y[140:], 5, 0))


@pytest.mark.filterwarnings("ignore::atlas_splines.UpdateWarning")
def test_classes_go_with_the_update_that_brought_them():
    model, strange = with_charts()
    before = model.predict_proba(PROBES)
    model.partial_fit(*strange, accept=True)
    model.add_classes([7])
    assert model.classes_.tolist() == [0, 1, 5, 7]
    assert (
        derive(model, model.ledger_, afresh=True).predict_proba(PROBES) == model.predict_proba(PROBES)
    ).all()
    never = with_charts()[0].add_classes([7])
    assert (model.revert(2).predict_proba(PROBES) == never.predict_proba(PROBES)).all()
    assert model.classes_.tolist() == [0, 1, 7]
    model, strange = with_charts()
    assert (model.partial_fit(*strange, accept=True).revert(2).predict_proba(PROBES) == before).all()
    model, strange = with_charts()
    model.partial_fit(*strange, accept=True).add_classes([5])
    assert model.revert(2).classes_.tolist() == [0, 1, 5]


def test_a_consolidation_keeps_classes_without_rows():
    model, _ = with_charts()
    done = model.add_classes([7]).consolidate(tolerance=100)
    assert done.replaced
    assert model.classes_.tolist() == [0, 1, 7]
    left = model.ledger_.fit
    assert model.forget(left.X[:3], left.y[:3]).classes_.tolist() == [0, 1, 7]
