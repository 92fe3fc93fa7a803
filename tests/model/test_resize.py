"""Models whose domain reaches beyond the unit cube."""

import pickle

import numpy as np
import oracle
import pytest
from configurations import configurations, dtypes
from hypothesis import given, settings
from hypothesis import strategies as st

from atlas_splines import Atlas, Trainer, consolidate, footprint, train, update
from atlas_splines.analysis import gradient_bound, gradient_norm, overlap
from atlas_splines.model import splines
from atlas_splines.model.atlas import model_in, state_of, take_state
from atlas_splines.model.charts import Chart, window_around
from atlas_splines.model.losses import LOSSES
from atlas_splines.model.resize import reach, reaching, with_outputs

small_models = configurations(inputs=4, outputs=2, terms=5, density=5, dtype=dtypes)
seeds = st.integers(0, 9999)
TOLERANCE = {"float32": 2e-5, "float64": 1e-12}


def scramble(model, seed, size=0.3):
    """Random coefficients in every row, also in those beyond the unit cube."""
    used = model.outputs * (2 * model.terms + 1)
    rows = state_of(model).table.shape[0]
    state_of(model).table[:, :used] = np.random.default_rng(seed).normal(size=(rows, used), scale=size)
    return model


def extend(model, random, reach=1.5):
    """Extend some sides by random amounts."""
    low, high = model.domain.T
    further = reach * random.random((2, model.inputs)) * (random.random((2, model.inputs)) < 0.6)
    return model.extend(low - further[0], high + further[1])


def points_of(model, random, rows=200):
    """Points of the domain: anywhere, on knots of every lattice, on faces, and one float away from these."""
    low, high = model.domain.T
    anywhere = low + (high - low) * random.random((rows, model.inputs))
    knots = np.round(anywhere * splines.cell_count(model.density)) / splines.cell_count(model.density)
    coarse = np.round(anywhere * splines.cell_count(5)) / splines.cell_count(5)
    faces = random.choice([0.0, 1.0], (rows, model.inputs))
    ends = np.where(random.random((rows, model.inputs)) < 0.5, low, high)
    X = np.vstack([anywhere, knots, coarse, faces, ends]).astype(model.dtype)
    X = np.vstack([X, np.nextafter(X, model.dtype.type(9)), np.nextafter(X, model.dtype.type(-9))])
    return np.clip(X, *model.domain.T.astype(model.dtype))


def random_chart(model, seed):
    """A chart with random coefficients around a random box of the domain, often up to its faces."""
    random = np.random.default_rng(seed)
    low, high = model.domain.T
    corners = np.sort(
        low + (high - low) * np.clip(1.6 * random.random((2, model.inputs)) - 0.3, 0, 1), axis=0
    )
    content = oracle.randomize(Atlas(model.inputs, model.outputs, 2, 2, dtype=model.dtype), seed)
    window = window_around(corners.astype(model.dtype), 5 + seed % 3, "touch", model.domain)
    size = np.ones(model.outputs, model.dtype)
    return Chart(seed, window, content, size, bool(seed % 2)), content


def plain_window(window, X):
    """Equation (22), from the definition (2) of the open functions."""
    scaled = splines.cell_count(window.density) * X.astype(float)
    membership = np.ones(len(X))
    for j in range(X.shape[1]):
        i = np.arange(window.first[j], window.last[j] + 1) + 1
        membership *= splines.activation(scaled[:, j, None] + 4 - i).sum(axis=1)
    return membership


# --- predictions inside ------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(small_models, st.integers(0, 3), seeds)
def test_extensions_leave_every_bit_inside(configuration, charts, seed):
    random = np.random.default_rng(seed)
    model = oracle.randomize(Atlas(**configuration), seed)
    for _ in range(3):  # each time with charts and coefficients of the larger domain
        take_state(
            model,
            state_of(model).with_charts(
                (*model.charts, *(random_chart(model, seed + k)[0] for k in range(charts)))
            ),
        )
        X = points_of(model, random)
        before = model(X)
        extend(model, random)
        np.testing.assert_array_equal(model(X), before)
        X = points_of(model, random)
        before = model(X)
        model.expand(density=int(random.integers(2)), terms=int(random.integers(3)))
        np.testing.assert_array_equal(model(X), before)
        scramble(model, seed)


def test_every_knot_of_the_cube_keeps_its_bits():
    model = oracle.randomize(Atlas(1, terms=3, density=6))
    X = (np.arange(254) / 253).astype(np.float32)[:, None]
    before = model(X)
    model.extend([-0.5], [1.5])
    np.testing.assert_array_equal(model(X), before)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_extended_model_goes_on_smoothly_to_a_constant(dtype):
    model = oracle.randomize(Atlas(1, terms=2, density=3, dtype=dtype)).extend([-4], [5])
    for face in (0, 1):
        across = model(face + np.linspace(-1e-3, 1e-3, 101)[:, None])
        assert np.abs(np.diff(across, axis=0)).max() < 1e-3
    for start, end in ((-4, -2), (3, 5)):  # the coarsest cells have width 1, and four functions
        far = model(np.linspace(start, end, 50)[:, None])
        np.testing.assert_allclose(far, np.full_like(far, far[0, 0]), rtol=1e-5)


def test_new_coarse_coefficients_are_those_of_the_edge():
    model = oracle.randomize(Atlas(2, terms=1, density=1))
    old = {(d, j): theta.copy() for d, j, _, theta in oracle.families(model)}
    model.extend([-0.5, 0.2], [0.9, 2.0])
    for density, j, first, theta in oracle.families(model):
        functions = first + np.arange(len(theta))
        last = len(old[density, j]) - 1
        same = (functions >= 0) & (functions <= last) if density else np.ones_like(functions, bool)
        np.testing.assert_array_equal(theta[same], old[density, j][np.clip(functions[same], 0, last)])


@pytest.mark.parametrize("density", [1, 2, 3, 5])
def test_an_extended_model_says_what_it_said_at_the_nearest_point_of_the_old_domain(density):
    model = oracle.randomize(Atlas(2, terms=2, density=density, dtype="float64"))
    inside = np.random.default_rng(0).random((500, 2))
    error_model = np.ptp(model(inside))
    model.extend([-2, 0], [3, 1.6])
    first_cells = 3 / splines.cell_count(density)
    beyond = inside.copy()
    beyond[:, 0] = np.where(inside[:, 0] < 0.5, -2 + (2 - first_cells) * 2 * inside[:, 0], 1 + first_cells)
    change = np.abs(model(beyond) - model(beyond.clip(0, 1))).max()
    assert change < 2e-3 * error_model
    model.extend([-3, -1], [3, 3])  # and so on when it is extended again
    beyond = beyond + np.where(beyond < 0, -0.9, 0)
    assert np.abs(model(beyond) - model(beyond.clip(0, 1))).max() < 4e-3 * error_model


# --- the domain --------------------------------------------------------------------------------------


def test_the_domain_grows_by_whole_cells_and_never_shrinks():
    model = Atlas(3, density=4)
    assert model.domain.tolist() == [[0, 1]] * 3
    assert model.extend([-0.001, 0.3, -3 / 61], [1, 0.5, 64 / 61]) is model
    assert model.domain.tolist() == [[-1 / 61, 1], [0, 1], [-3 / 61, 64 / 61]]
    table = state_of(model).table
    model.extend([0, 0, -2 / 61], [0.5, 1, 1])
    assert state_of(model).table is table
    model.extend([0, 2, 0], [1, 2.5, 1])  # a box beside the domain
    assert model.domain[1].tolist() == [0, 153 / 61]


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.integers(0, 12), st.floats(0, 20), st.integers(0, 2000), st.sampled_from(["float32", "float64"]))
def test_the_domain_holds_what_was_asked_for(density, reach, cells, dtype):
    width = splines.cell_count(density)
    model = Atlas(1, terms=0, density=density, dtype=dtype).extend([-reach], [1 + reach])
    assert model([[-reach], [1 + reach], *model.domain.T.tolist()]).shape == (4, 1)
    assert model.domain[0, 0] > -reach - 1.001 / width
    assert Atlas(1, density=0).extend([-cells / 10], [1]).domain[0, 0] == -np.ceil(cells / 10)
    assert splines.whole_cells(np.array([cells / width]), density) == cells


@pytest.mark.parametrize(
    ("low", "high", "error", "message"),
    [
        ([0], [1, 1], ValueError, r"low has shape \(1,\); expected \(2,\), one number for each input"),
        ([0, 0], 1.5, ValueError, r"high has shape \(1,\); expected \(2,\), one number for each input"),
        ([0, np.nan], [1, 1], ValueError, r"low\[1\] is nan; remove or fill"),
        (["a", "b"], [1, 1], TypeError, "low has dtype <U1"),
        ([0, -5e6], [1, 1], ValueError, r"input 1 cannot reach from -5e\+06 to 1 at density 4: that is more"),
        (
            [0, 0],
            [1, 1002],
            ValueError,
            "1000 times the unit width or 4,194,304 basis functions; leave out far",
        ),
    ],
)
def test_a_failed_extension_is_explained_and_changes_nothing(low, high, error, message):
    model = oracle.randomize(Atlas(2))
    before = model.fingerprint()
    with pytest.raises(error, match=message):
        model.extend(low, high)
    assert model.fingerprint() == before


def test_an_extended_model_cannot_get_too_many_functions():
    model = Atlas(2, terms=0, density=0).extend([0, 0], [1, 900])
    before = repr(model)
    with pytest.raises(ValueError, match="input 1 cannot reach from 0 to 900 at density 12"):
        model.expand(density=12)
    with pytest.raises(ValueError, match="input 0 cannot reach from 0 to 1"):
        Atlas(1, terms=0, density=20).extend([0], [1.1])
    assert repr(model) == before


def test_points_outside_the_domain_are_named():
    model = Atlas(2, density=1).extend([-0.3, 0], [1, 1.5])
    with pytest.raises(
        ValueError, match=r"X\[1, 0\] is -0\.5; inputs must lie in \[-0\.4, 1\], so rescale colu"
    ):
        model([[0.1, 1.6], [-0.5, 0.2]])
    with pytest.raises(
        ValueError, match=r"X\[0, 1\] is -0\.5; inputs must lie in \[0, 1\.6\], so rescale column"
    ):
        footprint(model, [[0.1, 0.1]]).contains([[0.1, -0.5]])


def test_views_are_for_the_unit_cube_only():
    model = Atlas(2).extend([0, 0], [1, 1.1])
    for view in (model.f, model.g, model.h):
        with pytest.raises(
            ValueError,
            match="f, g and h show models on the unit cube; this one was extended: look at a copy from before",
        ):
            view(0)


# --- the fast path against the plain one -------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(small_models, seeds)
def test_outputs_agree_with_the_oracle(configuration, seed):
    random = np.random.default_rng(seed)
    model = scramble(extend(Atlas(**configuration), random, reach=4), seed)
    X = points_of(model, random, rows=30)
    expected = oracle.evaluate(model, X)
    scale = np.abs(expected).max() + np.exp(np.abs(oracle.sums(model, X)[1]).max(initial=0))
    np.testing.assert_allclose(model(X), expected, atol=10 * TOLERANCE[configuration["dtype"]] * scale)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.integers(1, 3), st.sampled_from(["float32", "float64"]), st.integers(1, 70), seeds)
def test_charts_agree_with_numpy(inputs, dtype, count, seed):
    random = np.random.default_rng(seed)
    model = scramble(extend(Atlas(inputs, 1, 2, 2, dtype=dtype), random), seed)
    pairs = [random_chart(model, k) for k in range(count)]
    if seed % 2:  # the charts were made first
        extend(model, random)
    take_state(model, state_of(model).with_charts([chart for chart, _ in pairs]))
    X = points_of(model, random, rows=20)
    expected = oracle.evaluate(model, X)
    for chart, content in pairs:
        membership = plain_window(chart.window, X)[:, None]
        assert (membership[~chart.window.contains(X)] < 1e-9).all()
        local = chart.window.to_local(X)
        expected = (1 - membership * chart.replaces) * expected + membership * oracle.evaluate(content, local)
    np.testing.assert_allclose(model(X), expected, atol=2e-3 * count if dtype == "float32" else 1e-9 * count)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(small_models, seeds)
def test_gradient_agrees_with_finite_differences(configuration, seed):
    random = np.random.default_rng(seed)
    model = scramble(extend(Atlas(**configuration | {"dtype": "float64"}), random), seed)
    X = points_of(model, random, rows=2)
    direction = random.normal(size=model.n_trainable)
    slope = oracle.slope_along(model, X, direction).ravel()
    np.testing.assert_allclose(model.gradient(X) @ direction, slope, atol=1e-6 * (np.abs(slope).max() + 1))
    norm = np.asarray(abs(model.gradient(X)).sum(axis=1)).reshape(-1, model.outputs)
    np.testing.assert_allclose(gradient_norm(model, X), norm)
    assert (norm <= gradient_bound(model) * (1 + 1e-9)).all()


@pytest.mark.parametrize("optimizer", ["lazy-adam", "adam", "sgd"])
@pytest.mark.parametrize("trainable", ["finest", "all"])
def test_training_steps_agree_with_plain_numpy(optimizer, trainable):
    random = np.random.default_rng(5)
    model = Atlas(3, outputs=2, terms=3, density=2, trainable=trainable, dtype="float64")
    model = scramble(model.extend([-0.7, 0, -1.1], [1, 1.4, 2.2]), seed=1)
    plain = model.copy()
    X, y = points_of(model, random, rows=12)[:60], random.normal(size=(60, 2))
    Trainer(model, optimizer=optimizer, batch_size=13, random_state=3).run(X, y, epochs=3)

    order, adam = np.random.default_rng(3), oracle.PlainAdam(plain, 0.01, lazy=optimizer == "lazy-adam")
    for _ in range(3):
        shuffled = order.permutation(60)
        for batch in (shuffled[i : i + 13] for i in range(0, 60, 13)):
            if optimizer == "sgd":
                slope = LOSSES["mae"].gradient(oracle.evaluate(plain, X[batch]), y[batch]) / len(batch)
                gradient = plain.gradient(X[batch]).T @ slope.ravel()
                oracle.assign(plain, oracle.gather(plain) - 0.01 * gradient)
            else:
                adam.step(X[batch], y[batch], "mae", np.ones(len(batch)))
    np.testing.assert_allclose(state_of(model).table, state_of(plain).table, atol=1e-9)


# --- training and growth -----------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.integers(1, 3), st.integers(1, 4), st.sampled_from(["float32", "float64"]), seeds)
def test_training_in_the_new_part_changes_nothing_at_a_distance(inputs, density, dtype, seed):
    random = np.random.default_rng(seed)
    model = oracle.randomize(Atlas(inputs, terms=2, density=density, dtype=dtype), seed)
    model.extend([-1.0] * inputs, [2.0] * inputs)
    far = 4 / splines.cell_count(density) + 1e-5
    X = points_of(model, random)
    X = X[X.max(axis=1) < 1.5 - far]
    new = 1.5 + 0.5 * random.random((50, inputs))
    before = model(X)
    train(model, new, random.normal(size=50), epochs=3, random_state=seed)
    np.testing.assert_array_equal(model(X), before)
    assert not overlap(model, X[:20], new[:20]).any()


def test_the_new_part_can_be_learned():
    random = np.random.default_rng(0)
    model = Atlas(2).extend([-1, -1], [2, 2])
    X = -1 + 3 * random.random((4000, 2))
    y = np.sin(2 * X[:, 0]) * X[:, 1]
    train(model, X, y, epochs=40, random_state=0)
    assert np.abs(model(X)[:, 0] - y).mean() < 0.15 * np.abs(y).mean()


def test_a_trainer_starts_fresh_after_an_extension():
    trainer = Trainer(Atlas(1, terms=0), random_state=0)
    trainer.run([[0.5]], [1.0], epochs=1)
    trainer.model.extend([0], [1.5])
    assert trainer.run([[1.2]], [1.0], epochs=1).state == "fresh"
    assert trainer.run([[1.2]], [1.0], epochs=1).state == "carried"


def test_copies_pickles_and_fingerprints_know_the_domain():
    model = oracle.randomize(Atlas(2, density=2))
    plain = model.fingerprint()
    model.extend([-0.2, 0], [1, 1.3])
    take_state(model, state_of(model).with_charts([random_chart(model, 4)[0]]))
    X = points_of(model, np.random.default_rng(0))
    for twin in (model.copy(), pickle.loads(pickle.dumps(model))):
        assert twin.domain.tolist() == model.domain.tolist()
        assert twin.fingerprint() == model.fingerprint() != plain
        np.testing.assert_array_equal(twin(X), model(X))
        twin.extend([-1, 0], [1, 1])
        assert twin.fingerprint() != model.fingerprint()
        np.testing.assert_array_equal(twin(X), model(X))


def test_the_fingerprint_of_a_model_on_the_unit_cube_is_what_it_always_was():
    expected = "766341fd16ff606570310157b5ee62c82b7a7fdce75899394bf07d0fffdad884"
    assert Atlas(2, outputs=2, terms=3, density=2).fingerprint() == expected


# --- charts and memory -------------------------------------------------------------------------------


def test_a_chart_at_the_old_face_fades_out_beyond_it():
    model = Atlas(1, density=2)
    update(model, np.linspace(0.8, 1.0, 200)[:, None], np.ones(200), random_state=0)
    (chart,) = model.charts
    frame = chart.window.local_map(model.dtype)
    X = np.linspace(0, 1, 2001)[:, None]
    before = model(X)
    model.extend([0], [1.5])
    np.testing.assert_array_equal(model(X), before)
    assert chart.window.local_map(model.dtype) == frame
    cell = 1 / splines.cell_count(chart.window.density)
    rim = model(1 + cell * np.linspace(0, 3, 50)[:, None])[:, 0]
    assert rim[0] == pytest.approx(1, abs=0.1)
    assert (np.diff(rim) <= 1e-6).all()
    assert not model([[1 + 3.01 * cell], [1.4]]).any()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("cover", ["touch", "inside"])
def test_an_update_beyond_the_cube_keeps_every_bit_outside_its_footprint(cover, dtype):
    random = np.random.default_rng(0)
    model = oracle.randomize(Atlas(2, terms=2, density=2, dtype=dtype))
    old = update(model, 0.6 + 0.4 * random.random((300, 2)), random.normal(size=300), random_state=0)
    model.extend([-0.8, 0], [1.7, 2])
    X, y = np.array([0.9, 1.2]) + [0.5, 0.8] * random.random((300, 2)), random.normal(size=300)
    queries = points_of(model, random, rows=1000)
    before = model(queries)
    area = footprint(model, X, cover=cover)
    done = update(model, X, y, cover=cover, random_state=0)
    outside = ~area.contains(queries)
    assert 0 < outside.sum() < len(queries)
    np.testing.assert_array_equal(model(queries)[outside], before[outside])
    assert (model(queries) != before).any()
    assert done.error_after < done.error_before

    later, extended = model(queries), model.copy().extend([-2, -2], [3, 3])
    np.testing.assert_array_equal(extended(queries), later)
    extended.revert(done.id)
    np.testing.assert_array_equal(extended(queries), before)
    extended.revert(old.id)
    assert not extended.charts


@pytest.mark.parametrize("retention", ["rehearsal", "both", "none"])
def test_every_kind_of_update_learns_beyond_the_cube(retention):
    random = np.random.default_rng(0)
    model = Atlas(2).extend([-1, 0], [2, 1])
    train(model, points_of(model, random), np.zeros(len(points_of(model, random))), epochs=1, random_state=0)
    X = np.array([1.2, 0.1]) + [0.5, 0.5] * random.random((400, 2))
    done = update(model, X, np.full(400, 2.0), retention=retention, epochs=30, random_state=0)
    assert done.error_after < 0.1 * done.error_before
    assert done.footprint.contains(X).all()


@pytest.mark.parametrize("retention", ["chart", "none"])
def test_volume_is_the_share_of_points_inside(retention):
    model = Atlas(3, density=3).extend([-0.5, 0, -1], [1, 1.25, 2])
    X = np.array([-0.5, 0.4, 1.2]) + [0.4, 0.5, 0.6] * np.random.default_rng(0).random((200, 3))
    area = footprint(model, X, retention=retention)
    low, high = model.domain.T
    inside = area.contains(low + (high - low) * np.random.default_rng(1).random((200_000, 3)))
    assert area.volume == pytest.approx(inside.mean(), abs=0.004)
    everything = footprint(model, X, retention="rehearsal")
    assert everything.volume == 1
    assert repr(everything) == "<Footprint: everything>"
    assert everything.contains(points_of(model, np.random.default_rng(0))).all()


def test_plain_training_keeps_every_bit_outside_its_cross():
    random = np.random.default_rng(0)
    model = oracle.randomize(Atlas(2, terms=2, density=3)).extend([-1, -1], [2, 2])
    X = 1.2 + 0.3 * random.random((100, 2))
    queries = points_of(model, random, rows=1000)
    area, before = footprint(model, X, retention="none"), model(queries)
    update(model, X, np.ones(100), retention="none", epochs=3, random_state=0)
    outside = ~area.contains(queries)
    assert outside.sum() > 100
    np.testing.assert_array_equal(model(queries)[outside], before[outside])


def test_data_up_to_a_face_of_the_domain_gets_a_chart_up_to_that_face():
    model = Atlas(1).extend([-1], [2])
    area = footprint(model, 1.5 + 0.499 * np.random.default_rng(0).random((300, 1)))
    assert area.intervals(0)[0][1] == model.domain[0, 1] == 2
    area = footprint(model, 0.499 * np.random.default_rng(0).random((300, 1)))
    assert area.intervals(0)[0][0] < 0  # the cube's face is none of the domain


@pytest.mark.slow
def test_charts_beyond_the_cube_are_folded_in():
    random = np.random.default_rng(0)
    X = -0.8 + 0.6 * random.random((400, 1))
    model = Atlas(1).extend([-1], [1.5])
    update(model, X, np.sin(5 * X), random_state=0)
    before = model(X)
    done = consolidate(model, X, tolerance=0.1, samples=4000, epochs=20, random_state=0)
    assert done.replaced
    assert not model.charts
    assert np.abs(model(X) - before).mean() < 0.1
    assert model.domain.tolist() == [[-1, 1.5081967213114753]]


def test_the_reach_of_points_is_the_domain_of_the_state_that_reaches_them():
    model = scramble(Atlas(inputs=2, terms=2, density=1), 0)
    points = np.array([[-0.7, 0.5], [0.3, 2.2]])
    larger = reaching(state_of(model), points)
    assert np.array_equal(reach(state_of(model), points), larger.lattice.domain)
    assert larger.density == 3
    inside = np.random.default_rng(0).random((50, 2)).astype(np.float32)
    assert np.array_equal(model_in(larger)(inside), model(inside))
    assert reaching(state_of(model), inside) is state_of(model)
    assert reach(larger, np.array([[-0.7, 2.2]])) is larger.lattice.domain


@pytest.mark.parametrize("is_extended", [False, True])
def test_more_outputs_are_constant_and_the_others_keep_their_bits(is_extended):
    random = np.random.default_rng(0)
    model = Atlas(inputs=2, outputs=2, terms=2, density=1)
    state_of(model).table[:, :10] = random.normal(size=(24, 10))
    if is_extended:
        model.extend([-1, 0], [1, 3])
    points = random.random((50, 2))
    wider = model_in(with_outputs(state_of(model), np.array([2, 0]), 4, -20.0))(points)
    np.testing.assert_array_equal(wider[:, [2, 0]], model(points))
    np.testing.assert_allclose(wider[:, [1, 3]], -20)
