"""Updates that were made apart come together with the same bits, whoever merges."""

import copy
from dataclasses import replace
from datetime import timedelta

import level_rows
import numpy as np
import pytest
from branches import branch, changed_rows, charted, fitted, rows
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from atlas_splines import Atlas, AtlasRegressor, consolidate, load, save, train, update
from atlas_splines.memory import initial_fit as design
from atlas_splines.model.atlas import state_of
from atlas_splines.versions import MergeConflict, PatchError, apply, forget, merge, patch, read_patch, version

QUICK = {"deadline": None, "derandomize": True, "suppress_health_check": list(HealthCheck)}


def pool_of(model):
    return state_of(model.model_).pooled


def merged_in_any_order(base, sides, random):
    """Merge branches two by two, in any order, into one."""
    sides = list(sides)
    while len(sides) > 1:
        random.shuffle(sides)
        one, other = sides.pop(), sides.pop()
        sides.append(merge(base, one, other))
    return sides[0]


@pytest.mark.slow
@settings(max_examples=12, **QUICK)
@given(
    retention=st.sampled_from(["pool", "auto"]),
    seeds=st.lists(st.lists(st.integers(0, 50), max_size=6), min_size=2, max_size=4),
    places=st.permutations([0, 1, 2, 3]),
    charts=st.lists(st.booleans(), min_size=4, max_size=4),
    random=st.randoms(use_true_random=False),
)
def test_any_tree_of_updates_gives_the_same_bits_in_any_order(retention, seeds, places, charts, random):
    base = fitted(retention)
    sides = [
        branch(base, *own, *([(place, 10 * k)] if opens else []))
        for k, (own, place, opens) in enumerate(zip(seeds, places, charts, strict=False))
    ]
    results = [merged_in_any_order(base, sides, random) for _ in range(3)]
    assert len({version(result) for result in results}) == 1


@settings(max_examples=3, **QUICK)
@given(places=st.permutations([0, 1, 2, 3]), cut=st.integers(1, 3), random=st.randoms(use_true_random=False))
def test_charts_of_plain_models_give_the_same_bits_in_any_order(places, cut, random):
    base = Atlas(inputs=2, density=0, terms=1)
    sides = [charted(base, *places[:cut]), charted(base, *places[cut:3]), charted(base, *places[3:])]
    results = [merged_in_any_order(base, sides, random) for _ in range(3)]
    assert len({version(result) for result in results}) == 1
    assert len(results[0].charts) == 4
    X = rows(200, 0)[0]
    for side in sides:
        inside = np.any([chart.window.contains(X) for chart in side.charts], axis=0) if side.charts else []
        assert (side(X)[inside] == results[0](X)[inside]).all()


@settings(max_examples=10, **QUICK)
@given(
    ours=st.lists(st.integers(0, 50), max_size=3),
    theirs=st.lists(st.integers(51, 99), min_size=1, max_size=3),
)
def test_a_patch_is_refused_on_any_other_parent(ours, theirs):
    base = fitted("pool")
    fix = patch(base, branch(base, *theirs))
    if ours:
        with pytest.raises(PatchError):
            apply(branch(base, *ours), fix)
    else:
        assert version(apply(base, fix)) == fix.result


@pytest.mark.parametrize("retention", ["pool", "auto"])
def test_three_branches_in_any_order(retention):
    base = fitted(retention)
    one, two, three = branch(base, 1, 2), branch(base, (0, 1), 3), branch(base, *range(4, 9), (3, 1))
    left = merge(base, merge(base, one, two), three)
    assert version(left) == version(merge(base, two, merge(base, three, one)))


def test_pooled_rows_of_both_sides_are_those_of_one_that_learned_all():
    base = fitted("pool")
    both = merge(base, branch(base, 1, 2), branch(base, 3))
    alone = branch(base, 1, 2, 3)
    assert pool_of(both).total == pool_of(alone).total
    assert both.model_.fingerprint() == alone.model_.fingerprint()
    assert [record.id for record in both.update_log_] == [1, 2, 3, 4, 5]


def test_recent_updates_of_a_merged_model_can_be_taken_back():
    base = fitted("pool")
    both = merge(base, branch(base, 1), branch(base, 3))
    rest = copy.deepcopy(both).revert(4)
    assert rest.model_.fingerprint() == branch(base, 1).model_.fingerprint()


def test_more_updates_than_are_kept_apart():
    base = fitted("pool")
    both = merge(base, branch(base, *range(6)), branch(base, *range(10, 17)))
    assert pool_of(both).total == pool_of(branch(base, *range(6), *range(10, 17))).total
    assert both.model_.fingerprint() == branch(base, *range(6), *range(10, 17)).model_.fingerprint()


def test_one_side_that_has_learned_nothing_is_passed_over():
    base = fitted("auto")
    other = branch(base, 1, (0, 2))
    assert merge(base, base, other) is other
    assert merge(base, other, base) is other
    assert merge(base, other, copy.deepcopy(other)) is other


def test_fading_memories_start_again_where_both_sides_pooled():
    base = fitted("auto")
    both = merge(base, branch(base, 1), branch(base, 2))
    assert pool_of(both).output_mode == "cumulative"
    only_charts = merge(base, branch(base, 1), branch(base, (0, 2)))
    assert pool_of(only_charts).output_mode == "ensemble"
    later = branch(both, 5, 6)
    assert pool_of(later).output_mode == "ensemble"


def test_rows_that_joined_a_chart_on_both_sides():
    base = branch(fitted("auto"), (0, 1))
    assert len(base.model_.charts) == 1
    ours, theirs = branch(base, (0, 2)), branch(base, (0, 3), 9)
    both = merge(base, ours, theirs)
    assert version(both) == version(merge(base, theirs, ours))
    count = sum(
        pool.total.count for pool in (state_of(m.model_.charts[0].content).pooled for m in (ours, theirs))
    )
    inside = state_of(both.model_.charts[0].content).pooled
    assert inside.total.count == count - state_of(base.model_.charts[0].content).pooled.total.count


def test_an_update_that_one_side_took_back():
    base = fitted("pool")
    ours, theirs = branch(base, 1).revert(2), branch(base, 3)
    both = merge(base, ours, theirs)
    assert version(both) == version(merge(base, theirs, ours))
    assert [record.id for record in both.update_log_ if record.reverted] == [2]
    expected = branch(fitted("pool", 1), 1, 3)
    assert both.model_.fingerprint() == expected.model_.fingerprint()


def test_a_domain_that_one_side_extended(path):
    base = Atlas(inputs=2, density=3, terms=1)
    ours, theirs = charted(base, 0), charted(base.copy().extend([0, 0], [1, 1.3]), 3)
    both = merge(base, ours, theirs)
    assert version(both) == version(merge(base, theirs, ours))
    assert both.domain[1, 1] > 1.2
    save(both, path)
    assert version(load(path)) == version(both)


def test_overlapping_charts_are_a_conflict():
    base = Atlas(inputs=2, density=0, terms=1)
    ours, theirs = charted(base, 0, 1), charted(base, 1, 2)
    with pytest.raises(
        MergeConflict, match="updates of both sides overlap in one place; choose ours or theirs"
    ) as caught:
        merge(base, ours, theirs)
    (conflict,) = caught.value.conflicts
    assert (conflict.ours.id, conflict.theirs.id) == (2, 1)
    X = changed_rows(1, 1)[0]
    assert conflict.area.contains(X).all()
    one = merge(base, ours, theirs, prefer="ours")
    assert (one(X) == ours(X)).all()
    other = merge(base, ours, theirs, prefer="theirs")
    assert (other(X) == theirs(X)).all()
    assert version(one) == version(merge(base, theirs, ours, prefer="theirs"))
    assert sum(record.reverted is not None for record in one.updates) == 1
    assert len(one.charts) == 3


def test_rows_settle_a_conflict():
    base = Atlas(inputs=2, density=0, terms=1)
    ours, theirs = charted(base, 1), charted(base, 1, 2)
    X, _ = changed_rows(1, 7, 200)
    both = merge(base, ours, theirs, rows=(np.vstack([X, rows(50, 0)[0] * [1, 0.04]]), np.full(250, -3.0)))
    assert abs(both(X).mean() + 3) < 0.3
    assert [record.reverted is not None for record in both.updates] == [True, True, False, False]
    with pytest.raises(ValueError, match="none of the rows lies where the sides have a conflict"):
        merge(base, ours, theirs, rows=([[0.01, 0.99]], [0.0]))


def test_a_chart_that_adds_to_what_the_other_side_pooled():
    base = fitted("pool")
    ours, theirs = copy.deepcopy(base), branch(base, 1)
    X, _ = changed_rows(0, 0, 40)
    update(ours.model_, X, ours.model_(X)[:, 0] + 0.5, epochs=5, density=0, terms=1, random_state=0)
    (chart,) = ours.model_.charts
    if chart.replaces:
        assert len(merge(base, ours, theirs).model_.charts) == 1
        return
    with pytest.raises(MergeConflict) as caught:
        merge(base, theirs, ours)
    assert caught.value.conflicts[0].ours is None
    assert len(merge(base, ours, theirs, prefer="ours").model_.charts) == 1
    assert len(merge(base, ours, theirs, prefer="theirs").model_.charts) == 0


def trained(model):
    train(model, *rows(20, 0), epochs=1, random_state=0)


def consolidated(model):
    consolidate(model, tolerance=1e6, samples=50, epochs=1, random_state=0)


@pytest.mark.parametrize(
    ("deed", "what"),
    [
        (trained, "ours cannot be merged: its coefficients were trained since"),
        (
            consolidated,
            r"ours cannot be merged: its update 2 \(consolidation\) has changed coefficients of the base",
        ),
    ],
)
def test_what_is_more_than_an_addition_is_refused(deed, what):
    base = charted(Atlas(inputs=2, density=0, terms=1), 0)
    ours, theirs = base.copy(), charted(base, 1)
    deed(ours)
    with pytest.raises(ValueError, match=what):
        merge(base, ours, theirs)


def test_rows_that_were_forgotten_since_the_base():
    base = fitted("pool")
    ours = copy.deepcopy(base).forget(*(column[:5] for column in rows(12, 101)))
    with pytest.raises(
        ValueError, match="rows that the base had were forgotten; merge first, and forget afterwards"
    ):
        merge(base, ours, branch(base, 3))


def test_models_of_another_family_are_refused():
    base = fitted("pool")
    with pytest.raises(
        ValueError, match="theirs is not a version of the base: its columns, target or parameters differ"
    ):
        merge(base, branch(base, 1), fitted("auto"))
    stranger = Atlas(inputs=2, density=0, terms=1)
    one = charted(stranger, 0)
    with pytest.raises(ValueError, match="its log does not continue that of the base"):
        merge(charted(stranger, 1), one, charted(one, 2))
    with pytest.raises(ValueError, match="both sides have an update in common since the base"):
        merge(stranger, charted(one, 1), charted(one, 2))


def ridged(seed, shift, count=150):
    """Rows of a strip, of a target that needs narrow bumps."""
    X = np.random.default_rng(seed).random((count, 2)) * [0.4, 1] + [shift, 0]
    return X, np.sin(15 * X[:, 0]) * np.cos(12 * X[:, 1])


@pytest.mark.slow
def test_features_that_grew_on_one_side_and_on_both(monkeypatch, path):
    monkeypatch.setattr(design, "RULES", replace(design.RULES, widths=((0.2, 0.2, 0.2),)))
    options = {"members": 1, "terms": 0, "features": 100, "domain": [(0, 1), (0, 1)], "random_state": 0}
    base = AtlasRegressor(**options).fit(*ridged(0, 0, 600))
    grown = copy.deepcopy(base).partial_fit(*ridged(1, 0.5))
    other = copy.deepcopy(base).partial_fit(*ridged(2, 0, 60))
    sizes = [len(pool_of(model).features) for model in (base, grown, other)]
    assert sizes[0] == sizes[2] < sizes[1]
    both = merge(base, grown, other)
    assert version(both) == version(merge(base, other, grown))
    assert len(pool_of(both).features) == sizes[1]
    assert pool_of(both).total.count == pool_of(grown).total.count + 60
    patch(base, grown).save(path)
    assert version(apply(other, read_patch(path), merge=True)) == version(both)
    patch(base, other).save(path)
    assert version(apply(grown, read_patch(path), merge=True)) == version(both)
    grown_too = copy.deepcopy(base).partial_fit(*ridged(3, 0.6))
    assert version(merge(base, grown, grown_too)) == version(merge(base, grown_too, grown))
    base.ledger_ = grown.ledger_ = grown_too.ledger_ = None  # as if there were more rows than are kept
    with pytest.raises(ValueError, match="features were added on both sides, for rows that none had reached"):
        merge(base, grown, grown_too)


def test_updates_are_numbered_by_their_time():
    base = Atlas(inputs=2, density=0, terms=1)
    ours, theirs = charted(base, 0), charted(base, 1)
    theirs.updates[0].time = ours.updates[0].time - timedelta(days=1)
    both = merge(base, ours, theirs)
    assert [record.after for record in both.updates] == [theirs.updates[0].after, ours.updates[0].after]


@pytest.mark.slow
def test_models_that_know_their_errors_keep_intervals(path):
    base = AtlasRegressor(features=40, members=1, random_state=0).fit(*rows(500, 0))
    sides = [branch(base, 1, 2), branch(base, 3), branch(base, *range(4, 10))]
    assert pool_of(base).error_model is not None
    both = merge(base, merge(base, sides[0], sides[1]), sides[2])
    assert version(both) == version(merge(base, sides[1], merge(base, sides[2], sides[0])))
    low, high = both.predict_interval(rows(50, 20)[0])
    assert (low < high).all()
    fix = patch(base, sides[1])
    fix.save(path)
    assert version(apply(base, read_patch(path))) == version(sides[1])
    assert version(apply(sides[0], read_patch(path), merge=True)) == version(merge(base, *sides[:2]))
    clean, _ = forget(sides[0], *rows(12, 1))
    assert clean.model_.fingerprint() == forget(sides[0], *rows(12, 1))[0].model_.fingerprint()
    assert (np.diff(clean.predict_interval(rows(50, 20)[0]), axis=0) > 0).all()


def test_levels_that_two_sides_have_learned_come_together():
    base = level_rows.fitted("pool")
    ours, theirs, both = (copy.deepcopy(base) for _ in range(3))
    ours.partial_fit(*level_rows.both(60, 1))
    theirs.partial_fit(*level_rows.both(60, 2))
    both.partial_fit(*level_rows.both(60, 1)).partial_fit(*level_rows.both(60, 2))
    one, other = merge(base, ours, theirs), merge(base, theirs, ours)
    assert version(one) == version(other)
    assert pool_of(one).total == pool_of(both).total
    assert one.model_.fingerprint() == both.model_.fingerprint()
    assert level_rows.effect_of(one) == pytest.approx(level_rows.EFFECT, abs=0.2)
