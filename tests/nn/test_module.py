import copy
import io
import pickle

import numpy as np
import oracle
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_modules import (
    OWN_WARNINGS,
    charted_model,
    charted_module,
    cross_the_bridge,
    extended_model,
    points,
    points_of_domain,
    random_module,
    train,
)
from torch.func import functional_call, jacrev

from atlas_splines import Atlas, Trainer
from atlas_splines.model.atlas import state_of
from atlas_splines.nn import AtlasModule

# --- the same function as the NumPy model -----------------------------------------------------------------


@settings(max_examples=30)
@given(
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(0, 4),
    st.integers(0, 3),
    st.sampled_from(["finest", "all"]),
    st.sampled_from([0.0, 1.5]),
    st.sampled_from(["float32", "float64"]),
)
def test_outputs_agree_with_the_numpy_model(inputs, outputs, terms, density, trainable, damping, dtype):
    model = oracle.randomize(Atlas(inputs, outputs, terms, density, trainable, damping, dtype))
    X = np.vstack(
        [np.random.default_rng(0).random((50, inputs)), np.zeros((1, inputs)), np.ones((1, inputs))]
    )
    module = AtlasModule.from_model(model)
    result = module(torch.tensor(X, dtype=getattr(torch, dtype))).detach().numpy()
    tolerance = 2e-5 if dtype == "float32" else 1e-13
    np.testing.assert_allclose(result, model(X), rtol=tolerance, atol=tolerance)
    assert result.dtype == model.dtype
    assert module.to_model().fingerprint() == model.fingerprint()
    assert sum(p.numel() for p in module.parameters()) == model.n_trainable


def columns_of_gradient(model, table_gradients):
    """Gradients of the tables, (rows·outputs, rows of table, channels) each, in the order of `Atlas.gradient`."""
    columns = []
    for jacobian in table_gradients:
        blocks = jacobian.unflatten(1, (model.inputs, -1)).unflatten(3, (model.outputs, -1))
        blocks = blocks.permute(0, 3, 4, 1, 2)  # (rows·outputs, outputs, 2M + 1, inputs, λ)
        M = model.terms
        columns += [
            blocks[:, :, -1].flatten(1),
            blocks[:, :, :M].flatten(1),
            blocks[:, :, M : 2 * M].flatten(1),
        ]
    return torch.cat(columns, dim=1)


@pytest.mark.parametrize("trainable", ["finest", "all"])
def test_gradients_agree_with_the_numpy_model(trainable):
    model = charted_model(outputs=2, trainable=trainable)
    module, X = AtlasModule.from_model(model), points(40, 2)
    jacobians = jacrev(lambda parameters: functional_call(module, parameters, X).flatten())(
        dict(module.named_parameters())
    )
    ours = columns_of_gradient(model, jacobians.values())
    np.testing.assert_allclose(ours.detach(), model.gradient(X.numpy()).toarray(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("trainable", ["finest", "all"])
def test_one_step_of_sgd_gives_the_same_coefficients(trainable, sparse):
    model = charted_model(trainable=trainable)
    module, X = AtlasModule.from_model(model, sparse=sparse), points(100, 2)
    y = torch.sin(5 * X[:, :1])
    Trainer(model, loss="mse", optimizer="sgd", learning_rate=0.1, batch_size=100).run(
        X.numpy(), y.numpy(), epochs=1
    )
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    torch.nn.functional.mse_loss(module(X), y).backward()
    optimizer.step()
    assert all(p.grad.is_sparse == sparse for p in module.parameters())
    ours, theirs = module.to_model(), model
    np.testing.assert_allclose(state_of(ours).table, state_of(theirs).table, rtol=1e-10, atol=1e-13)
    assert not np.array_equal(state_of(ours).table, state_of(oracle.randomize(ours.copy())).table)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_domain_beyond_the_unit_cube_crosses_the_bridge_both_ways(dtype):
    model = extended_model(dtype)
    X = points_of_domain(model)
    module, back = cross_the_bridge(model, X)
    for ours, theirs in zip(back.charts, model.charts, strict=True):
        assert (ours.window.domain == theirs.window.domain).all()
    assert "domain=[[-0.31, 1.207], [0.0, 1.538]]" in repr(module)
    far = torch.tensor([[-9.0, 0.3], [1.1, 9.0]], dtype=module.scale.dtype)
    low, high = torch.tensor(model.domain.T, dtype=far.dtype)
    assert torch.equal(module(far), module(far.clamp(low, high)))
    assert module(torch.full((1, 2), float("nan"), dtype=far.dtype)).isnan().all()


@pytest.mark.slow
def test_gradients_agree_beyond_the_unit_cube():
    model = extended_model()
    module, X = AtlasModule.from_model(model), torch.tensor(points_of_domain(model, 20))
    (jacobian,) = jacrev(lambda parameters: functional_call(module, parameters, X).flatten())(
        dict(module.named_parameters())
    ).values()  # (points, rows, 2M + 1)
    ours = jacobian[:, :, [2 * model.terms, *range(2 * model.terms)]].transpose(1, 2).flatten(1)
    np.testing.assert_allclose(ours.detach(), model.gradient(X.numpy()).toarray(), rtol=1e-10, atol=1e-12)
    inner = 1.05 + 0.01 * points(5, 2)
    assert torch.autograd.gradcheck(module, inner.requires_grad_())


def test_growth_beyond_the_unit_cube():
    model = extended_model("float32")
    module, X = AtlasModule.from_model(model), torch.tensor(points_of_domain(model))
    before = module(X).detach()
    module.expand(density=1, terms=2)
    assert torch.equal(module(X), before)
    assert module.to_model().fingerprint() == model.copy().expand(1, 2).fingerprint()
    new = torch.tensor([1.0, 1.2]) + 0.2 * points(200, 2, dtype=torch.float32)
    chart = module.open_chart(new, density=2, terms=1)
    with torch.no_grad():
        next(chart.parameters()).normal_(generator=torch.Generator().manual_seed(0))
    grown = module.to_model()
    np.testing.assert_allclose(module(X).detach(), grown(X.numpy()), rtol=1e-4, atol=1e-4)
    window = grown.charts[-1].window
    assert (window.domain == model.domain).all()
    outside = ~window.contains(X.numpy())
    assert 0 < outside.sum() < len(X)
    assert torch.equal(module(X)[outside], before[outside])
    assert not torch.equal(module(X), before)
    with pytest.raises(ValueError, match=r"X\[0, 0\] is 2.0; inputs must lie in \[-0.3\d*, 1.2\d*\]"):
        module.open_chart(torch.full((10, 2), 2.0))
    huge = AtlasModule.from_model(Atlas(1, terms=0, density=4).extend([0], [900]))
    with pytest.raises(ValueError, match="input 0 cannot reach from 0 to 900 at density 14"):
        huge.expand(density=10)
    assert huge.density == 4


@pytest.mark.slow
def test_copies_and_conversions_beyond_the_unit_cube():
    model = extended_model()
    module, X = AtlasModule.from_model(model), torch.tensor(points_of_domain(model))
    expected = module(X).detach()
    shell = copy.deepcopy(module).to("meta")
    assert shell(X.to("meta")).shape == expected.shape
    real = shell.to_empty(device="cpu")
    real.load_state_dict(module.state_dict())
    other = AtlasModule.from_model(model)
    other.charts[0].frame.zero_()
    other.load_state_dict(module.state_dict())  # fences and their frames come from the checkpoint
    for twin in (real, other, pickle.loads(pickle.dumps(module))):
        assert torch.equal(twin(X), expected)
        assert twin.to_model().fingerprint() == model.fingerprint()
    single = copy.deepcopy(module).float()
    torch.testing.assert_close(single(X), expected.float(), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(single.to_model()(X.numpy()), expected, rtol=1e-3, atol=1e-3)
    assert (single.to_model().domain == model.domain).all()
    assert (copy.deepcopy(module).bfloat16().to_model().charts[0].window.domain == [0, 1]).all()


# --- inputs -----------------------------------------------------------------------------------------------


def test_leading_dimensions_are_kept():
    module, X = random_module(2, 3, dtype=torch.float64), points(24, 2)
    flat = module(X)
    torch.testing.assert_close(module(X.reshape(2, 3, 4, 2)), flat.reshape(2, 3, 4, 3))
    torch.testing.assert_close(module(X[0]), flat[0])
    assert module(X[:0]).shape == (0, 3)


def test_outside_the_unit_cube_the_nearest_point_counts():
    module = random_module(2, dtype=torch.float64)
    X = torch.tensor([[-0.5, 0.3], [1.5, 0.3], [float("inf"), -float("inf")]], dtype=torch.float64)
    torch.testing.assert_close(module(X), module(X.clamp(0, 1)), rtol=0, atol=0)
    assert module(torch.tensor([[float("nan"), 0.5]], dtype=torch.float64)).isnan().all()


def test_bad_arguments_are_named():
    module = AtlasModule(2)
    with pytest.raises(ValueError, match=r"x has shape \(5, 3\); expected \(…, 2\)"):
        module(torch.rand(5, 3))
    with pytest.raises(TypeError, match=r"x has dtype torch.int64; give it as floating-point numbers"):
        module(torch.zeros(5, 2, dtype=torch.int64))
    with pytest.raises(ValueError, match="inputs must be at least 1, not 0"):
        AtlasModule(0)
    with pytest.raises(ValueError, match="trainable must be 'finest' or 'all', not 'some'"):
        AtlasModule(1, trainable="some")
    with pytest.raises(
        TypeError, match=r"dtype must be a floating type such as torch.float32, not torch.int32"
    ):
        AtlasModule(1, dtype=torch.int32)
    with pytest.raises(ValueError, match=r"inputs must lie in \[0, 1\]"):
        module.open_chart(torch.full((10, 2), 2.0))
    with pytest.raises(ValueError, match="the module has no chart to close"):
        module.close_chart()
    assert len(module.charts) == 0
    assert len(list(module.parameters())) == 1


# --- growth -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("outputs", [1, 2, 5])
def test_expansion_changes_no_bit(outputs, dtype):
    module = random_module(3, outputs, 7, 1, dtype=dtype)
    X = points(500, 3, dtype=torch.float32)
    expected = module(X).detach()
    for density, terms in [(0, 1), (1, 2), (2, 0), (0, 5), (1, 11)]:
        module.expand(density, terms)
        assert torch.equal(module(X), expected)
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
        assert not torch.equal(module(X), expected)
        expected = module(X).detach()
    assert module.terms == 26
    assert module.density == 5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_expanded_module_keeps_its_bits_across_the_bridge(dtype):
    module = random_module(3, 2, 3, 1, dtype=dtype)
    for density, terms in [(1, 2), (0, 5), (1, 11)]:
        module.expand(density, terms)
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
    X, again = points(500, 3, dtype=dtype), AtlasModule.from_model(module.to_model())
    assert torch.equal(again(X), module(X))
    loaded = copy.deepcopy(again)
    loaded.reset_parameters()
    loaded.load_state_dict(module.state_dict())
    assert torch.equal(loaded(X), module(X))


@pytest.mark.parametrize("trainable", ["finest", "all"])
def test_an_expansion_hands_the_optimiser_its_parameters(trainable):
    X = points(100, 2)
    y = torch.sin(8 * X[:, :1])
    module = AtlasModule(2, terms=2, density=1, trainable=trainable, dtype=torch.float64)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    train(module, X, y, optimizer, steps=3)
    moments = {name: optimizer.state[p]["exp_avg"].clone() for name, p in module.named_parameters()}
    module.expand(density=1, terms=3, optimizer=optimizer)
    held = [p for group in optimizer.param_groups for p in group["params"]]
    assert {id(p) for p in held} == {id(p) for p in module.parameters()}
    assert len(held) == len(module.trained_densities)
    for name, p in module.named_parameters():
        if name in moments and p in optimizer.state:
            kept = optimizer.state[p]["exp_avg"].unflatten(-1, (1, 11))
            expected = moments[name].unflatten(-1, (1, 5))
            assert torch.equal(kept[..., :2], expected[..., :2])
            assert torch.equal(kept[..., 5:7], expected[..., 2:4])
            assert torch.equal(kept[..., -1], expected[..., -1])
            assert optimizer.state[p]["step"] == 3
    frozen = {name: b.clone() for name, b in module.named_buffers()}
    before = torch.nn.functional.mse_loss(module(X), y).item()
    train(module, X, y, optimizer, steps=100)
    assert torch.nn.functional.mse_loss(module(X), y).item() < before / 2
    for name, buffer in module.named_buffers():
        assert torch.equal(buffer, frozen[name])
    assert len(optimizer.state) == len(held)


def test_expansion_by_terms_goes_on_as_if_they_had_been_there():
    X = points(100, 2)
    y = torch.sin(8 * X[:, :1])
    early, late = (AtlasModule(2, terms=terms, density=2, dtype=torch.float64) for terms in (3, 1))
    with torch.no_grad():  # terms that do not move, so that both have the same past
        optimizers = [torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9) for module in (early, late)]
    late.expand(density=0, terms=2, optimizer=optimizers[1])
    for module, optimizer in zip((early, late), optimizers, strict=True):
        train(module, X, y, optimizer, steps=5)
    torch.testing.assert_close(early(X), late(X))


def test_an_optimiser_of_another_module_is_refused():
    module, other = AtlasModule(2), AtlasModule(2)
    optimizer = torch.optim.Adam(other.parameters())
    with pytest.raises(
        ValueError, match=r"the optimizer does not train this module; make it with module.parameters"
    ):
        module.expand(optimizer=optimizer)
    assert (module.density, module.terms) == (4, 10)


# --- a good citizen ---------------------------------------------------------------------------------------


def test_copies_are_the_same_and_independent():
    module, _ = charted_module()
    module.expand()
    X = points(50, 2, dtype=torch.float32)
    expected = module(X)
    twin = AtlasModule(2, 1, 3, 2)
    twin.open_chart(torch.rand(10, 2), density=2, terms=2)  # the fence comes from the checkpoint
    twin.expand()
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    twin.load_state_dict(torch.load(file, weights_only=True))
    copies = [copy.deepcopy(module), pickle.loads(pickle.dumps(module)), twin]
    assert all(torch.equal(other(X), expected) for other in copies)
    with torch.no_grad():
        next(module.parameters()).add_(1)
    assert all(torch.equal(other(X), expected) for other in copies)
    assert not torch.equal(module(X), expected)


def test_on_the_meta_device_and_back():
    module, _ = charted_module()
    shell = copy.deepcopy(module).to("meta")
    assert shell(torch.rand(7, 2, device="meta")).shape == (7, 1)
    shell(torch.rand(7, 2, device="meta", requires_grad=True)).sum().backward()
    assert AtlasModule(3, 2, device="meta")(torch.rand(7, 3, device="meta")).device.type == "meta"
    real = shell.to_empty(device="cpu")
    real.load_state_dict(module.state_dict())
    X = points(50, 2, dtype=torch.float32)
    assert torch.equal(real(X), module(X))
    real.reset_parameters()
    assert torch.equal(real(X), torch.zeros(50, 1))


def test_conversion_keeps_constants_exact():
    module = random_module(2, dtype=torch.float32).double()
    torch.testing.assert_close(
        module.scale, 1 / torch.arange(1, 11, dtype=torch.float64) ** 2, rtol=0, atol=0
    )


def test_bfloat16_is_close_and_trains():
    module, _ = charted_module()
    X = points(200, 2, dtype=torch.float32)
    half = copy.deepcopy(module).to(torch.bfloat16)
    result = half(X)
    assert result.dtype == torch.bfloat16
    torch.testing.assert_close(result.float(), module(X), rtol=0.05, atol=0.05)
    assert half.to_model().dtype == np.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(module(X), copy.deepcopy(module)(X))
        assert module(X).dtype == torch.float32
    half = AtlasModule(2, density=2, dtype=torch.bfloat16)
    y = (X[:, :1] - X[:, 1:]).to(torch.bfloat16)
    train(half, X, y, torch.optim.Adam(half.parameters(), lr=0.02), steps=100)
    assert (half(X) - y).abs().mean() < 0.05


def gradients(call, module, X):
    """Outputs, and gradients with respect to inputs and coefficients."""
    x = X.clone().requires_grad_()
    module.zero_grad()
    out = call(x)
    out.square().sum().backward()
    return [out.detach(), x.grad, *(p.grad.clone() for p in module.parameters())]


@pytest.mark.slow
@OWN_WARNINGS
@pytest.mark.parametrize(
    ("kind", "backend"), [("plain", "inductor"), ("charts", "aot_eager"), ("beyond", "aot_eager")]
)
def test_compiled_it_is_one_graph_with_the_same_results(kind, backend):
    if kind == "charts":
        module = charted_module(dtype=torch.float64)[0].unfreeze()
    elif kind == "beyond":
        model = oracle.randomize(Atlas(2, 1, 2, 1, dtype="float64")).extend([-0.5, 0], [1, 1.5])
        module = AtlasModule.from_model(model)
    else:
        module = random_module(2, 1, 2, 2, dtype=torch.float64)
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend=backend)
    for rows in (30, 50):
        X = 1.5 * points(rows, 2)
        for fast, eager in zip(gradients(compiled, module, X), gradients(module, module, X), strict=True):
            torch.testing.assert_close(fast, eager, rtol=1e-10, atol=1e-10)


def test_the_lazy_optimiser_leaves_far_outputs_alone():
    module = random_module(2, 1, 3, 4, sparse=True)
    optimizer = torch.optim.SparseAdam(list(module.parameters()), lr=0.01)
    everywhere = points(1000, 2, dtype=torch.float32)
    train(module, everywhere, torch.ones(1000, 1), optimizer, steps=3)
    near = 0.1 * points(100, 2, seed=1, dtype=torch.float32)
    far = 0.1 + 4 / 61 + 0.01 + 0.8 * points(300, 2, seed=2, dtype=torch.float32)
    before = module(far).detach()
    train(module, near, torch.zeros(100, 1), optimizer, steps=20)
    assert torch.equal(module(far.clamp(max=1)), before)
    dense = AtlasModule.from_model(module.to_model())
    optimizer = torch.optim.Adam(dense.parameters(), lr=0.01)
    train(dense, everywhere, torch.ones(1000, 1), optimizer)
    before = dense(far).detach()
    train(dense, near, torch.zeros(100, 1), optimizer)
    assert not torch.equal(dense(far), before)  # momentum moves what has no gradient
