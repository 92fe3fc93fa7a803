"""Versions of models that keep rows: each is a function of the rows it has learned."""

import copy
import pickle
from functools import cache

import level_rows
import numpy as np
import pytest
from branches import branch, changed_rows, rows
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from atlas_splines import AtlasClassifier, AtlasRegressor
from atlas_splines.model.atlas import state_of
from atlas_splines.versions import PatchError, apply, diff, forget, merge, patch, read_patch, replay, version

QUICK = {"deadline": None, "derandomize": True, "suppress_health_check": list(HealthCheck)}
FEW = {"features": 24, "random_state": 0}
X = rows(300, 50)[0]


def pool_of(model):
    return state_of(model.model_).pooled


def coverage_of(model):
    return pool_of(model).memory.rows


def part(data, *cut):
    return tuple(column[slice(*cut)] for column in data)


def rest_of(data, *cut):
    return tuple(np.delete(column, slice(*cut), 0) for column in data)


@cache
def kept(retention="pool", **options):
    """A regressor that keeps its rows; not to be changed."""
    model = AtlasRegressor(retention=retention, **FEW, **options).fit(*rows(200, 0))
    assert state_of(model.model_).local
    return model


def clocked(seed=0, count=200, begin=0.0):
    """Rows in the order of their second column."""
    X, _ = rows(count, seed)
    X[:, 1] = begin + 0.3 * np.sort(X[:, 1])
    return X, np.sin(5 * X[:, 0]) + 3 * X[:, 1]


def same_bits(one, other):
    return one.model_.fingerprint() == other.model_.fingerprint()


# --- merge ----------------------------------------------------------------------------------------------


@settings(max_examples=6, **QUICK)
@given(
    ours=st.lists(st.integers(1, 9), min_size=1, max_size=6), theirs=st.lists(st.integers(10, 19), max_size=6)
)
def test_a_merge_is_the_model_of_all_rows_whoever_merges(ours, theirs):
    base = kept()
    one, other = branch(base, *ours), branch(base, *theirs)
    both = merge(base, one, other)
    assert version(both) == version(merge(base, other, one))
    assert same_bits(both, branch(base, *ours, *theirs))
    assert np.array_equal(coverage_of(both).hashes, coverage_of(branch(base, *ours, *theirs)).hashes)


def test_three_branches_with_charts_come_together_in_any_order():
    base = kept("auto")
    sides = branch(base, 1, (0, 1)), branch(base, 2, 3), branch(base, (3, 2), *range(4, 9))
    assert sum(len(side.model_.charts) for side in sides) == 2
    left = merge(base, merge(base, *sides[:2]), sides[2])
    right = merge(base, sides[1], merge(base, sides[2], sides[0]))
    assert version(left) == version(right)
    assert len(left.model_.charts) == 2


def test_rows_beyond_the_budget_are_the_oldest_whoever_merges():
    base = kept(max_rows=210)
    sides = branch(base, *range(1, 7)), branch(base, 8, 9, 10)
    both = merge(base, *sides)
    assert same_bits(both, merge(base, *sides[::-1]))
    assert same_bits(both, branch(base, *range(1, 7), 8, 9, 10))
    assert len(pool_of(both).memory.newest) == 210


def test_a_part_beyond_the_end_of_a_clock_is_merged():
    base = AtlasRegressor(retention="pool", **FEW).fit(*clocked())
    assert state_of(base.model_).later is not None
    ours = copy.deepcopy(base).partial_fit(*clocked(1, 20, 0.3))
    theirs = copy.deepcopy(base).partial_fit(*clocked(2, 20, 0.6))
    both = merge(base, ours, theirs)
    assert version(both) == version(merge(base, theirs, ours))
    ends = [float(state_of(model.model_).later.ends[0]) for model in (base, ours, both)]
    assert ends[0] <= ends[1] <= ends[2]
    assert "the model beyond the end of a clock" in diff(base, both).parts


def test_levels_of_two_sides():
    base = level_rows.fitted("pool")
    if pool_of(base).memory is None:
        base = level_rows.with_levels(AtlasRegressor(retention="pool", **FEW), *level_rows.known_rows(300, 0))
    ours, theirs = (copy.deepcopy(base).partial_fit(*level_rows.both(40, seed)) for seed in (1, 2))
    both = merge(base, ours, theirs)
    assert version(both) == version(merge(base, theirs, ours))
    clean, receipt = forget(both, *level_rows.both(40, 2))
    assert [taken.update for taken in receipt.taken] == [2]
    assert same_bits(clean, ours)
    first = level_rows.known_rows(300, 0)
    clean, _ = forget(clean, *part(first, 5))
    assert len(coverage_of(clean)) == len(coverage_of(ours)) - 5
    assert np.abs(clean.predict(first[0]) - ours.predict(first[0])).mean() < 0.05


def test_rows_that_one_side_has_forgotten():
    base = branch(kept(), 1)
    ours = copy.deepcopy(base).forget(*part(rows(12, 1), 2)).partial_fit(*rows(12, 2))
    theirs = branch(base, 3)
    both = merge(base, ours, theirs)
    assert version(both) == version(merge(base, theirs, ours))
    never = copy.deepcopy(kept()).partial_fit(*part(rows(12, 1), 2, None))
    assert same_bits(both, branch(never, 2, 3))


# --- patches --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("retention", ["pool", "auto"])
def test_a_patch_carries_rows(retention, path):
    base = kept(retention)
    new = branch(base, 1, 2)
    fix = patch(base, new)
    assert (fix.content, fix.rows) == ("contributions", 24)
    fix.save(path)
    found = apply(base, read_patch(path))
    assert version(found) == version(new)
    assert same_bits(found, new)
    assert np.array_equal(coverage_of(found).hashes, coverage_of(new).hashes)
    assert np.array_equal(coverage_of(found).updates, coverage_of(new).updates)
    other = branch(base, 3)
    assert version(apply(other, read_patch(path), merge=True)) == version(merge(base, other, new))


def test_a_patch_of_one_kind_is_refused_by_the_other():
    with_rows, sums = kept(), AtlasRegressor(retention="pool", memory="sums", **FEW).fit(*rows(200, 0))
    assert patch(sums, branch(sums, 1)).rows is None
    with pytest.raises(PatchError, match="the patch carries rows, and the model keeps sums alone"):
        apply(sums, patch(with_rows, branch(with_rows, 1)), merge=True)
    # features of the two kinds differ, which may be found first
    with pytest.raises(PatchError, match=r"the model keeps rows|changes more than updates add"):
        apply(with_rows, patch(sums, branch(sums, 1)), merge=True)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("inputs", lambda array: np.nan * array),
        ("inputs", lambda array: array[:, 1:]),
        ("targets", lambda array: np.inf * array),
        ("contributions", lambda array: array[::-1]),
        ("contributions", lambda array: array - 2),
        ("contributions", lambda array: array + 2**60),
        ("contributions", lambda array: array[:0]),
    ],
)
def test_rows_of_an_edited_patch_are_checked(name, change):
    base = kept()
    fix = patch(base, branch(base, 1, 2))
    tensors = fix.inner.tensors
    tensors[f"delta.{name}"] = change(tensors[f"delta.{name}"])
    with pytest.raises(PatchError, match="damaged"):
        apply(base, fix)


# --- diff -----------------------------------------------------------------------------------------------


def test_what_differs_is_told():
    base = kept("auto")
    found = diff(base, branch(base, 1))
    assert found.parts[:2] == ("the coefficients", "the local terms")
    assert found.parts[-1] == "the kept rows (0 only in the first, 12 only in the second)"
    assert diff(base, branch(base, (0, 1))).parts == ("the charts",)
    assert diff(base, copy.deepcopy(base)).parts == ()
    other = branch(base, 1).revert(1)
    assert diff(base, other).same
    assert not diff(base, other).parts


# --- forget ---------------------------------------------------------------------------------------------


def holds(model, data):
    """Whether any coordinate or target of rows is in a model, in float32 or float64, anywhere."""
    content = pickle.dumps(model.model_)
    known = model._rows(*model._checked(*data, None))
    numbers = np.concatenate([known.points.ravel(), known.targets.ravel()])
    return [
        number
        for number in numbers.tolist()
        if np.float32(number).tobytes() in content or np.float64(np.float32(number)).tobytes() in content
    ]


@pytest.mark.parametrize("options", [{}, {"features": 150}])
def test_no_number_of_a_forgotten_row_is_left(options):
    fit, later = rows(200, 0), rows(60, 1)
    model = AtlasRegressor(retention="auto", **FEW | options).fit(*fit).partial_fit(*later)
    assert holds(model, part(fit, 3))
    assert holds(model, part(later, 3))
    for data, cut in ((fit, (3, 9)), (later, (3, 9))):
        clean, _ = forget(model, *part(data, *cut))
        assert not holds(clean, part(data, *cut))
        assert not holds(copy.deepcopy(model).forget(*part(data, *cut)), part(data, *cut))


def test_rows_of_the_fit_are_forgotten_as_any_others():
    fit = rows(200, 0)
    model = branch(kept(), 1, 2)
    clean, receipt = forget(model, *part(fit, 4, 9))
    assert [(taken.update, taken.rows) for taken in receipt.taken] == [(0, 5)]
    assert "length scales were chosen again without them" in receipt.taken[0].how
    assert same_bits(clean, copy.deepcopy(model).forget(*part(fit, 4, 9)))
    never = branch(AtlasRegressor(retention="pool", **FEW).fit(*rest_of(fit, 4, 9)), 1, 2)
    assert same_bits(clean, never)
    assert clean.fit_record_ == never.fit_record_
    for one, other in zip(clean.predict_interval(X), never.predict_interval(X), strict=True):
        assert np.array_equal(one, other)


def test_rows_of_the_fit_and_of_updates_together():
    fit, first, second = rows(200, 0), rows(12, 1), rows(12, 2)
    gone = [np.concatenate(columns) for columns in zip(part(fit, 3), part(second, 4), first, strict=True)]
    clean, receipt = forget(branch(kept(), 1, 2, 3), *gone)
    assert [(taken.update, taken.rows) for taken in receipt.taken] == [(0, 3), (1, 12), (2, 4)]
    less = copy.deepcopy(kept()).forget(*part(fit, 3)).partial_fit(*rest_of(second, 4))
    assert same_bits(clean, branch(less, 3))


def test_some_rows_of_an_update_are_found_without_its_data():
    clean, _ = forget(branch(kept(), 1, 2, 3), *part(rows(12, 2), 4, 9))
    never = branch(kept(), 1).partial_fit(*rest_of(rows(12, 2), 4, 9))
    assert same_bits(clean, branch(never, 3))
    assert same_bits(clean.revert(3), never)
    assert same_bits(clean.revert(2), branch(kept(), 1))


def test_equal_rows_of_two_updates_are_told_apart():
    once = rows(12, 1)
    model = branch(kept(), 1, 2)
    model.partial_fit(np.vstack([once[0][:3], rows(5, 9)[0]]), np.append(once[1][:3], rows(5, 9)[1]))
    clean, receipt = forget(model, *part(once, 3))
    assert [taken.update for taken in receipt.taken] == [3]
    assert same_bits(clean.revert(3), branch(kept(), 1, 2))
    twice, _ = forget(model, *(np.concatenate([column[:3]] * 2) for column in once))
    assert not holds(twice, part(once, 3))


def test_rows_that_were_never_learned_are_refused():
    for deed in (lambda model, *data: model.forget(*data), forget):
        with pytest.raises(ValueError, match="5 of the rows are not among those that the model has learned"):
            deed(branch(kept(), 1), *rows(5, 77))
    small = AtlasRegressor(retention="pool", **FEW).fit(*rows(40, 0))
    with pytest.raises(ValueError, match="no row of the fit would be left"):
        small.forget(*rows(40, 0))


def test_rows_under_a_later_chart_are_those_of_the_model():
    model = branch(kept("auto"), (0, 1))
    (chart,) = model.model_.charts
    fit = rows(200, 0)
    inside = chart.window.contains(model._points_inside(fit[0]))
    assert inside.any()
    gone = fit[0][inside], fit[1][inside]
    never = AtlasRegressor(retention="auto", **FEW).fit(fit[0][~inside], fit[1][~inside])
    never = branch(never, (0, 1))
    for clean in (forget(model, *gone)[0], copy.deepcopy(model).forget(*gone)):
        assert len(coverage_of(clean)) == len(coverage_of(model)) - inside.sum()
        assert same_bits(clean, never)


def test_with_all_data_rows_of_the_fit_are_dropped_too():
    fit, data = rows(200, 0), [changed_rows(0, 1), rows(12, 2)]
    model = branch(kept("auto"), (0, 1), 2)
    gone = [np.concatenate(columns) for columns in zip(part(fit, 3), part(data[0], 6), strict=True)]
    clean, receipt = forget(model, *gone, data=data, first=kept("auto"))
    assert [(taken.update, taken.rows) for taken in receipt.taken] == [(0, 3), (1, 6)]
    never = copy.deepcopy(kept("auto")).forget(*part(fit, 3))
    never = never.partial_fit(*part(data[0], 6, None)).partial_fit(*data[1])
    assert same_bits(clean, never)


def test_weights_of_a_fit_are_found_again():
    fit, weights = rows(200, 0), np.random.default_rng(1).uniform(0.1, 7, 200)
    model = AtlasRegressor(retention="pool", **FEW).fit(*fit, sample_weight=weights)
    clean = copy.deepcopy(model).forget(*part(fit, 5), sample_weight=weights[:5])
    assert len(coverage_of(clean)) == 195
    with pytest.raises(ValueError, match="5 of the rows are not among"):
        model.forget(*part(fit, 5), sample_weight=2 * weights[:5])


def test_classes():
    X, y = rows(300, 0)
    classes = np.where(y > 1, "high", "low")
    model = AtlasClassifier(**FEW).fit(X[:200], classes[:200])
    assert pool_of(model).memory is not None
    sides = [copy.deepcopy(model).partial_fit(X[a:b], classes[a:b]) for a, b in ((200, 230), (230, 260))]
    both = merge(model, *sides)
    assert version(both) == version(merge(model, *sides[::-1]))
    assert version(apply(model, patch(model, sides[0]))) == version(sides[0])
    clean, _ = forget(both, X[230:260], classes[230:260])
    assert same_bits(clean, sides[0])
    clean, _ = forget(both, X[:5], classes[:5])
    assert len(coverage_of(clean)) == 255


# --- revert and replay ----------------------------------------------------------------------------------


def test_a_reverted_update_gives_back_the_rows_that_it_took_the_place_of():
    model = kept(max_rows=205)
    for seeds in ((1,), (1, 2, 3), (1, 2, 3, 4, 5, 6)):
        longer = branch(model, *seeds, 9)
        assert len(pool_of(longer).memory.newest) == 205
        assert same_bits(longer.revert(len(seeds) + 1), branch(model, *seeds))


def test_an_update_is_reverted_after_charts():
    base = kept("auto")
    assert same_bits(branch(base, 1, (0, 1), 2).revert(3), branch(base, 1, (0, 1)))
    assert same_bits(branch(base, (0, 1), 1, (3, 1)).revert(2), branch(base, (0, 1), (3, 1)))


@pytest.mark.parametrize("retention", ["pool", "auto"])
def test_a_model_is_built_again_from_its_data(retention):
    deeds = [1, (0, 2), 3]
    model = branch(kept(retention), *deeds)
    data = [rows(12, 1), changed_rows(0, 2), rows(12, 3)]
    assert replay(model, data).same
    assert replay(model, data, first=kept(retention)).same


# --- all of it in any order -----------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(st.sampled_from(["pool", "pool", "revert", "forget", "merge", "chart"]), st.integers(0, 99)),
    min_size=2,
    max_size=6,
)


def unless_refused(why, deed, *data):
    """What a deed gives, or None if it is refused for this reason."""
    try:
        return deed(*data)
    except ValueError as error:
        if why not in str(error):
            raise
        return None


def beside_charts(model, data):
    """The rows that the model learns itself: others would join a chart, and be kept there as sums."""
    points = model.domain_.to_unit(data[0]).astype(np.float32)
    joins = np.any([chart.window.membership(points) == 1 for chart in model.model_.charts], axis=0)
    return tuple(column[~np.broadcast_to(joins, len(points))] for column in data)


@settings(max_examples=8, **QUICK)
@given(steps=STEPS)
def test_any_sequence_leaves_the_model_of_the_rows_that_remain(steps):
    """Of pooled rows to the bit; with charts the kept rows and sums are those of a model without the others."""
    base = kept()
    model, alive, charts = copy.deepcopy(base), {}, 0
    for k, (deed, seed) in enumerate(steps):
        seed = 1000 * k + seed
        if deed == "pool":
            data = beside_charts(model, rows(12, seed))
            model.partial_fit(*data)
            alive[model.update_log_[-1].id] = [seed, data]
        elif deed == "chart":
            model._update(
                *model._checked(*changed_rows(seed % 4, seed), None), retention="chart", accept=True
            )
            charts += 1
        elif deed == "revert" and any(pool_of(model).holds(update) for update in alive):
            update = max(update for update in alive if pool_of(model).holds(update))
            model.revert(update)
            del alive[update]
        elif deed == "forget" and alive:
            update = sorted(alive)[seed % len(alive)]
            name, data = alive[update]
            found = unless_refused("later charts were fitted on top", forget, model, *part(data, 3))
            if found is None:
                continue
            model = found[0]
            alive[update] = [name, part(data, 3, None)]
            if not len(alive[update][1][0]):
                del alive[update]
        elif deed == "merge":
            found = unless_refused("overlap in", merge, base, model, branch(base, seed))
            if found is None:
                continue
            model = found
            alive[max(record.id for record in model.update_log_)] = [seed, rows(12, seed)]
    never = copy.deepcopy(base)
    for _, data in (alive[update] for update in sorted(alive)):
        never.partial_fit(*data)
    assert np.array_equal(coverage_of(model).hashes, coverage_of(never).hashes)
    assert pool_of(model).total == pool_of(never).total
    if not charts:
        assert (model.predict(X) == never.predict(X)).all()
    if not charts and alive:
        assert same_bits(model, never)
