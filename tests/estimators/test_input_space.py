"""Domains: maps of raw columns to the unit cube."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas_splines.estimators.input_space import FAR, MARGIN, ColumnMap, bulk_of, piecewise


def columns(seed, rows=200):
    random = np.random.default_rng(seed)
    return np.stack(
        [random.normal(50, 10, rows), random.integers(0, 3, rows), random.exponential(1e6, rows)], axis=1
    )


@pytest.mark.slow
@pytest.mark.parametrize("choice", ["data", "quantiles"])
@given(seed=st.integers(0, 100))
def test_maps_increase_and_can_be_inverted(choice, seed):
    X = columns(seed)
    domain = ColumnMap.of(X, choice)
    wide = np.linspace(X.min(axis=0) - 3 * np.ptp(X, axis=0), X.max(axis=0) + 3 * np.ptp(X, axis=0), 500)
    units = domain.to_unit(wide)
    assert (np.diff(units, axis=0) > 0).all()
    for j in range(X.shape[1]):
        np.testing.assert_allclose(domain.to_raw(j, units[:, j]), wide[:, j], rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("choice", ["data", "quantiles"])
def test_the_fast_map_is_the_plain_one_to_the_bit(choice):
    X = columns(1, rows=3000)
    domain = ColumnMap.of(X, choice)
    some = np.vstack([X, 5 * X, -X, domain.knots.T, np.nextafter(domain.knots.T, np.inf)])
    some[7, 1] = np.nan
    filled = np.where(np.isnan(some), domain.fill, some)
    knots = np.linspace(0, 1, domain.knots.shape[1])
    plain = np.stack([piecewise(filled[:, j], domain.knots[j], knots) for j in range(3)], axis=1)
    assert np.array_equal(domain.to_unit(some), plain)
    assert np.array_equal(domain.to_unit(np.asfortranarray(some)), plain)


@pytest.mark.parametrize("choice", ["data", "quantiles"])
def test_the_data_lies_inside_with_a_margin(choice):
    X = columns(0)
    units = ColumnMap.of(X, choice).to_unit(X)
    assert units.min() > 0
    assert units.max() < 1


def test_data_is_mapped_linearly():
    X = np.array([[0.0], [100.0]])
    units = ColumnMap.of(X, "data").to_unit(np.array([[0.0], [50.0], [100.0]]))[:, 0]
    edge = MARGIN / (1 + 2 * MARGIN)
    np.testing.assert_allclose(units, [edge, 0.5, 1 - edge])


def test_quantiles_give_crowded_values_more_room():
    crowded = np.concatenate([np.linspace(0, 1, 900), np.linspace(1, 100, 100)])[:, None]
    ends = np.array([[0.0], [1.0]])
    even = np.diff(ColumnMap.of(crowded, "data").to_unit(ends)[:, 0])[0]
    bent = np.diff(ColumnMap.of(crowded, "quantiles").to_unit(ends)[:, 0])[0]
    assert even < 0.011
    assert 0.43 < bent < 0.47


@pytest.mark.parametrize("choice", ["data", "quantiles"])
@pytest.mark.parametrize("constant", [0.0, -7.0, 1e9])
def test_a_constant_column_has_room_on_both_sides(choice, constant):
    domain = ColumnMap.of(np.full((10, 1), constant), choice)
    unit = domain.to_unit(np.array([[constant]]))[0, 0]
    assert 0 < unit < 1
    assert domain.to_unit(np.array([[constant + max(abs(constant), 1) / 10]]))[0, 0] > unit


@pytest.mark.parametrize("choice", ["data", "quantiles"])
@pytest.mark.parametrize("far", [[1e9], [-1e12], [-1e300, 1e9, 1e10]], ids=["above", "below", "both"])
def test_outliers_leave_the_bulk_its_room(choice, far):
    column = np.random.default_rng(0).normal(size=1000)
    column[: len(far)] = far
    domain, clean = (ColumnMap.of(values[:, None], choice) for values in (column, column[len(far) :]))
    bulk = np.linspace(-2, 2, 50)[:, None]
    assert (np.diff(domain.knots) > 0).all()
    np.testing.assert_allclose(domain.to_unit(bulk), clean.to_unit(bulk), atol=0.07)
    units = domain.to_unit(column[:, None])
    assert units.min() > 0  # outliers are in the domain, too
    assert units.max() < 1


@pytest.mark.parametrize("choice", ["data", "quantiles"])
def test_heavy_tails_and_many_zeros_are_no_outliers(choice):
    random = np.random.default_rng(0)
    amounts = np.exp(2 * random.normal(size=20_000))
    for column in (amounts, np.where(random.random(20_000) < 0.95, 0, np.sqrt(amounts)), np.eye(1, 900)[0]):
        low, high = column.min() - MARGIN * np.ptp(column), column.max() + MARGIN * np.ptp(column)
        knots = ColumnMap.of(column[:, None], choice).knots[0]
        assert (knots[0], knots[-1]) == (low, high)
        assert bulk_of(column, FAR[choice]).size == column.size


def test_a_flag_with_an_outlier_keeps_its_two_values_apart():
    column = np.where(np.arange(1000) % 20 == 0, 1.0, 0.0)
    column[7] = 1e9
    no, yes, _ = ColumnMap.of(column[:, None], "quantiles").to_unit(np.array([[0.0], [1.0], [1e9]]))[:, 0]
    assert yes - no > 0.3


def test_missing_values_take_the_median_and_an_indicator():
    X = np.array([[1.0, 1.0], [2.0, np.nan], [9.0, 3.0]])
    domain = ColumnMap.of(X, [(0, 10), (0, 4)])
    assert domain.inputs == 3
    np.testing.assert_allclose(domain.to_unit(X), [[0.1, 0.25, 0], [0.2, 0.5, 1], [0.9, 0.75, 0]])
    # a column that had none before: the median, and nothing that says so
    np.testing.assert_allclose(domain.to_unit(np.array([[np.nan, 1.0]])), [[0.2, 0.25, 0]])


def test_a_column_without_any_value_is_a_constant():
    domain = ColumnMap.of(np.full((5, 1), np.nan), "quantiles")
    assert np.isfinite(domain.to_unit(np.array([[np.nan], [3.0]]))).all()


def test_rounding_is_no_range():
    domain = ColumnMap.of(np.array([[0.3], [0.1 + 0.2], [0.3]]), "quantiles")
    assert (np.diff(domain.knots) > 0).all()


@pytest.mark.parametrize("choice", ["data", "quantiles"])
@given(
    first=st.sampled_from([0.3, 1e15, 1.7e18, -1e13, 2.0**40 - 2.0**-10]),
    places=st.lists(st.integers(0, 5000), min_size=2, max_size=40),
)
def test_neighbouring_floats_are_told_apart(choice, first, places):
    values = np.unique(first + np.array(places) * np.spacing(abs(first)))
    domain = ColumnMap.of(values[:, None], choice)
    units = domain.to_unit(values[:, None])[:, 0]
    assert (np.diff(domain.knots) > 0).all()
    assert (np.diff(units.astype(np.float32)) > 0).all()
    assert units.min() > 0
    assert units.max() < 1
    assert domain.constant[0] == (len(values) == 1)


def test_limits_are_checked():
    X = np.zeros((3, 2))
    with pytest.raises(
        ValueError, match=r"domain has 1 pairs but X has 2 columns; give \(low, high\) for each"
    ):
        ColumnMap.of(X, [(0, 1)])
    for pair in [(1, 0), (0, 0), (0, np.nan), (0, 1, 2), 1]:
        with pytest.raises(
            ValueError, match=r"domain\[1\] is .*; give two finite numbers, the lower one first"
        ):
            ColumnMap.of(X, [(0, 1), pair])


def test_a_column_too_wide_for_its_map():
    with pytest.raises(ValueError, match="column 1 spans more than a float can hold; rescale it"):
        ColumnMap.of(np.array([[0.0, -1e308], [1.0, 1.7e308]]), "data")


@pytest.mark.parametrize("choice", ["data", "quantiles", [(0, 1), (0, 1e-310)]])
def test_a_column_too_narrow_for_its_map(choice):
    X = np.linspace([0, 0], [1, 1e-310], 50)
    with pytest.raises(ValueError, match="column 1 spans less than a float can divide by; rescale it"):
        ColumnMap.of(X, choice)


@pytest.mark.parametrize("choice", ["data", "quantiles"])
def test_constant_columns_are_known(choice):
    columns = [np.full(9, 0.0), np.full(9, -7.3), np.arange(9), np.where(np.arange(9) < 4, np.nan, 2.0)]
    domain = ColumnMap.of(np.stack(columns, axis=1), choice)
    assert domain.constant.tolist() == [True, True, False, True]
