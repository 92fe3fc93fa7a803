import dataclasses

import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atlas_splines import Atlas
from atlas_splines.model import splines
from atlas_splines.model.atlas import state_of, take_state
from atlas_splines.model.charts import Chart, Window, pack, visible_charts, window_around, within
from atlas_splines.model.kernels import MANY


def plain_window(window, X):
    """Equation (22), from the dense basis."""
    membership = np.ones(len(X))
    for j in range(X.shape[1]):
        basis = splines.basis(X[:, j].astype(float), window.density)
        membership *= basis[:, window.first[j] : window.last[j] + 1].sum(axis=1)
    return membership


def random_chart(model, seed, density=5):
    """A chart with random coefficients around a random box."""
    random = np.random.default_rng(seed)
    low = random.random(model.inputs) * 0.7
    corners = np.stack([low, low + 0.05 + 0.25 * random.random(model.inputs)]).astype(model.dtype)
    content = oracle.randomize(Atlas(model.inputs, model.outputs, 3, 2, dtype=model.dtype), seed)
    window = window_around(corners, density, "touch")
    replaces = seed % 2 == 1
    return Chart(seed, window, content, np.ones(model.outputs, model.dtype), replaces), content


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 4),
    st.integers(2, 8),
    st.sampled_from(["touch", "inside"]),
    st.sampled_from(["float32", "float64"]),
    st.integers(0, 999),
)
def test_a_window_is_one_on_its_data_and_zero_outside_its_box(inputs, density, cover, dtype, seed):
    random = np.random.default_rng(seed)
    low, width = random.random(inputs) * 0.5, 0.4 + 0.1 * random.random(inputs)
    if cover == "inside" and density < 5:
        density = 5  # enough cells for a support to fit in
    data = (low + width * random.random((50, inputs))).astype(dtype)
    window = window_around(data, density, cover)
    X = np.vstack([random.random((500, inputs)).astype(dtype), data])
    membership = window.membership(X)
    assert ((membership >= 0) & (membership <= 1 + 1e-6)).all()
    assert (membership[~window.contains(X)] == 0).all()
    np.testing.assert_allclose(membership, plain_window(window, X), atol=2e-2 if dtype == "float32" else 1e-9)
    if cover == "touch":
        assert (window.membership(data) == 1).all()
        reach = 4 / splines.cell_count(density)  # three cells beyond the cell of the data
        assert (window.box[:, 0] >= data.min(axis=0) - reach - 1e-6).all()
        assert (window.box[:, 1] <= data.max(axis=0) + reach + 1e-6).all()
    else:
        cell = 1 / splines.cell_count(density)
        assert (window.box[:, 0] >= data.min(axis=0) - cell - 1e-6).all()
        assert (window.box[:, 1] <= data.max(axis=0) + cell + 1e-6).all()


def test_a_window_reaches_the_faces_of_the_cube_from_inside():
    data = np.array([[0.0, 0.4], [1.0, 0.6]])
    window = window_around(data, 6, "inside")
    assert window.box[0].tolist() == [0, 1]
    assert window.membership(np.array([[0.0, 0.5], [1.0, 0.5]])).tolist() == [1, 1]


def test_inside_needs_room():
    with pytest.raises(
        ValueError, match=r"cover='inside' leaves nothing open along input 1, where the data spans 0"
    ):
        window_around(np.array([[0.1, 0.5], [0.9, 0.5]]), 6, "inside")


def test_the_volume_of_a_fence_is_that_of_its_box():
    window = Window(3, np.array([3, 7], np.int32), np.array([5, 9], np.int32))  # cells 0…5 and 4…9 of 29
    assert window.volume == pytest.approx(6 / 29 * 6 / 29)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.integers(1, 4), st.integers(1, 2), st.sampled_from(["float32", "float64"]), st.integers(1, 70))
def test_the_kernel_adds_what_numpy_says(inputs, outputs, dtype, count):
    model = oracle.randomize(Atlas(inputs, outputs, 2, 2, dtype=dtype))
    X = np.random.default_rng(count).random((300, inputs)).astype(dtype)
    expected = oracle.evaluate(model, X)
    charts = []
    for seed in range(count):
        chart, content = random_chart(model, seed)
        inside = chart.window.contains(X)
        local = chart.window.to_local(X[inside])
        membership = plain_window(chart.window, X[inside])[:, None]
        kept = 1 - membership if chart.replaces else 1
        expected[inside] = kept * expected[inside] + membership * oracle.evaluate(content, local)
        charts.append(chart)
    take_state(model, state_of(model).with_charts(charts))
    np.testing.assert_allclose(model(X), expected, atol=5e-4 * count if dtype == "float32" else 1e-9)


def test_charts_are_found_through_the_index():
    model = Atlas(2)
    charts = [random_chart(model, seed)[0] for seed in range(130)]
    packed = pack(charts)
    X = np.random.default_rng(0).random((2000, 2)).astype(np.float32)
    buckets = np.minimum((X * 256).astype(int), 255)
    for k, chart in enumerate(charts):
        bits = packed.index[np.arange(2), buckets, k // 64]
        found = ((bits >> np.uint64(k % 64)) & np.uint64(1)).all(axis=1)
        assert found[chart.window.contains(X)].all()  # none is missed
        assert found.mean() < 2 * chart.window.volume + 0.05  # and few are found in vain


def test_threads_and_batches_do_not_change_a_bit():
    model = oracle.randomize(Atlas(2))
    take_state(model, state_of(model).with_charts([random_chart(model, seed)[0] for seed in range(20)]))
    X = np.random.default_rng(0).random((MANY + 17, 2)).astype(np.float32)
    together = model(X)
    np.testing.assert_array_equal(
        np.vstack([model(X[i : i + 7]) for i in range(0, 5000, 7)]), together[:5005]
    )
    np.testing.assert_array_equal(np.vstack([model(X[:9000]), model(X[9000:])]), together)


def test_a_chart_wholly_under_a_newer_one_is_no_longer_evaluated():
    model = oracle.randomize(Atlas(2, dtype="float64"))
    size = np.ones(1)
    boxes = {"small": (0.4, 0.5), "large": (0.2, 0.8), "beside": (0.7, 0.9)}
    charts = {
        name: Chart(
            k,
            window_around(np.array([[low, low], [high, high]]), 6, "touch"),
            oracle.randomize(Atlas(2, 1, 2, 1, dtype="float64"), seed=k),
            size,
            replaces=True,
        )
        for k, (name, (low, high)) in enumerate(boxes.items())
    }
    X = np.random.default_rng(0).random((2000, 2))
    take_state(model, state_of(model).with_charts([charts["large"]]))
    expected = model(X)
    take_state(model, state_of(model).with_charts([charts["small"], charts["large"]]))
    assert state_of(model).packed.window.size == 1
    assert np.array_equal(model(X), expected)
    take_state(model, state_of(model).with_charts([charts["large"], charts["small"], charts["beside"]]))
    assert state_of(model).packed.window.size == 3
    take_state(
        model,
        state_of(model).with_charts([charts["small"], dataclasses.replace(charts["large"], replaces=False)]),
    )
    assert state_of(model).packed.window.size == 2


def test_charts_that_change_nothing_are_those_wholly_where_a_newer_one_speaks_alone():
    random = np.random.default_rng(0)
    domain = np.array([[0.0, 1.0]] * 2)
    charts = []
    for replaces in random.random(60) < 0.5:
        corner, width = random.random(2), random.choice([0.05, 0.5])
        points = (corner + width * random.random((20, 2))).clip(0, 1)
        window = window_around(points, 5, "touch")
        charts.append(Chart(1, window, Atlas(inputs=2, terms=0, density=0), np.ones(1), bool(replaces)))
    hidden = [
        chart
        for k, chart in enumerate(charts)
        if any(
            newer.replaces and within(chart.window.box_in(domain), newer.window.core_in(domain))
            for newer in charts[k + 1 :]
        )
    ]
    assert 0 < len(hidden) < 60
    assert visible_charts(charts, domain) == [chart for chart in charts if chart not in hidden]
    assert visible_charts([], domain) == []
