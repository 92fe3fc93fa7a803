import copy
import dataclasses
import io
import pickle
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import oracle
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import functional_call, grad, jacrev, stack_module_state, vmap

from atlas_splines import Atlas, AtlasClassifier, AtlasRegressor, Trainer, update
from atlas_splines.core import splines
from atlas_splines.nn import module as neural
from atlas_splines.nn.module import (
    AtlasModule,
    AtlasNet,
    EstimatorModule,
    export_onnx,
    scatter,
    scatter_sparse,
)

# compiler and exporter use parts of PyTorch that PyTorch has deprecated
OWN_WARNINGS = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


def points(rows, inputs, seed=0, dtype=torch.float64):
    return torch.tensor(np.random.default_rng(seed).random((rows, inputs)), dtype=dtype)


def random_module(*args, seed=0, **options):
    """A module with random coefficients at its trained densities."""
    module = AtlasModule(*args, **options)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    return module


def charted_model(inputs=2, outputs=1, dtype="float64", **options):
    """A model with random coefficients at all densities, and two updates that overlap."""
    model = oracle.randomize(Atlas(inputs, outputs, 3, 2, dtype=dtype, **options))
    random = np.random.default_rng(1)
    for low in (0.2, 0.4):
        X = low + 0.4 * random.random((200, inputs))
        y = np.sin(9 * X[:, :1]).repeat(outputs, axis=1) + 3
        update(model, X, y, epochs=2, density=3, terms=2, random_state=0)
    return model


def charted_module(**options):
    """A module with a chart of random coefficients, and where that chart is."""
    module = random_module(2, 1, 3, 2, **options)
    X = 0.3 + 0.3 * points(300, 2, seed=7)
    chart = module.open_chart(X, density=2, terms=2)
    with torch.no_grad():
        for parameter in chart.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(3)).mul_(0.3)
    return module, X


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


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_charts_cross_the_bridge_both_ways(dtype):
    model = charted_model(outputs=2, dtype=dtype)
    X = np.random.default_rng(0).random((2000, 2)).astype(dtype)
    module = AtlasModule.from_model(model)
    tolerance = 1e-4 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(module(torch.tensor(X)).detach(), model(X), rtol=tolerance, atol=tolerance)
    back = module.to_model()
    assert back.fingerprint() == model.fingerprint()
    assert (back(X) == model(X)).all()
    model.revert(2)
    back.revert(2)
    assert (back(X) == model(X)).all()


def test_charts_of_a_module_become_charts_of_the_model():
    module, _ = charted_module(dtype=torch.float64)
    X = points(1000, 2)
    model = module.to_model()
    np.testing.assert_allclose(model(X.numpy()), module(X).detach(), rtol=1e-12, atol=1e-12)
    assert [(record.id, record.kind, record.rows) for record in model.updates] == [(1, "chart", 300)]
    model.revert(1)
    module.close_chart()
    np.testing.assert_allclose(model(X.numpy()), module(X).detach(), rtol=1e-12, atol=1e-12)


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
    np.testing.assert_allclose(ours.table, theirs.table, rtol=1e-10, atol=1e-13)
    assert not np.array_equal(ours.table, oracle.randomize(ours.copy()).table)


def extended_model(dtype="float64", **options):
    """A model whose domain was extended twice, at two densities, with charts from before and after."""
    model = charted_model(dtype=dtype, **options)
    model.extend([-0.3, 0], [1, 1.5]).expand(density=1, terms=1).extend([-0.3, 0], [1.2, 1.5])
    random = np.random.default_rng(5)
    model.table[:] += 0.1 * random.normal(size=model.table.shape) * (model.table != 0)
    X = np.array([0.9, 1.1]) + 0.3 * random.random((200, 2))
    update(model, X, 2 * X[:, :1], epochs=2, density=3, terms=2, random_state=0)
    return model


def points_of_domain(model, rows=3000):
    """Random points, knots of every density, faces of the cube and of the domain."""
    low, high = model.domain.T
    random = np.random.default_rng(3)
    knots = [np.arange(-30, 60) / splines.cell_count(density) for density in range(model.density + 1)]
    special = random.choice(np.concatenate([*knots, [0, 1], low, high]), (rows, model.inputs))
    X = np.vstack([random.uniform(low, high, (rows, model.inputs)), special])
    return X.astype(model.dtype).clip(*model.domain.T.astype(model.dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_domain_beyond_the_unit_cube_crosses_the_bridge_both_ways(dtype):
    model = extended_model(dtype)
    X = points_of_domain(model)
    module = AtlasModule.from_model(model)
    tolerance = 1e-4 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(module(torch.tensor(X)).detach(), model(X), rtol=tolerance, atol=tolerance)
    back = module.to_model()
    assert back.fingerprint() == model.fingerprint()
    assert (back(X) == model(X)).all()
    for ours, theirs in zip(back.charts, model.charts, strict=True):
        assert (ours.fence.domain == theirs.fence.domain).all()
    assert "domain=[[-0.31, 1.207], [0.0, 1.538]]" in repr(module)
    far = torch.tensor([[-9.0, 0.3], [1.1, 9.0]], dtype=module.scale.dtype)
    low, high = torch.tensor(model.domain.T, dtype=far.dtype)
    assert torch.equal(module(far), module(far.clamp(low, high)))
    assert module(torch.full((1, 2), float("nan"), dtype=far.dtype)).isnan().all()


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
    fence = grown.charts[-1].fence
    assert (fence.domain == model.domain).all()
    outside = ~fence.contains(X.numpy())
    assert 0 < outside.sum() < len(X)
    assert torch.equal(module(X)[outside], before[outside])
    assert not torch.equal(module(X), before)
    with pytest.raises(ValueError, match=r"X\[0, 0\] is 2.0; inputs must lie in \[-0.3\d*, 1.2\d*\]"):
        module.open_chart(torch.full((10, 2), 2.0))
    huge = AtlasModule.from_model(Atlas(1, terms=0, density=4).extend([0], [900]))
    with pytest.raises(ValueError, match="input 0 cannot reach from 0 to 900 at density 14"):
        huge.expand(density=10)
    assert huge.density == 4


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
    assert (copy.deepcopy(module).bfloat16().to_model().charts[0].fence.domain == [0, 1]).all()


def test_a_chart_of_a_strange_domain_is_refused():
    model = charted_model()
    fence = model.charts[0].fence
    strange = dataclasses.replace(fence, domain=np.array([[0, np.pi], [0, 1.0]]))
    model.charts = [dataclasses.replace(model.charts[0], fence=strange)]
    with pytest.raises(ValueError, match="a chart was made in a domain that is not of whole cells"):
        AtlasModule.from_model(model)


# --- derivatives ------------------------------------------------------------------------------------------


def test_derivatives_of_first_and_second_order_are_right():
    module = random_module(2, 1, 1, 0, dtype=torch.float64)
    inside = 0.3 + 0.3 * points(300, 2, seed=7)
    chart = module.open_chart(inside, density=0, terms=1)
    with torch.no_grad():
        next(chart.parameters()).normal_(generator=torch.Generator().manual_seed(3))
    module.unfreeze()
    X = torch.cat([points(2, 2), inside[:2]]).requires_grad_()
    names, values = zip(*module.named_parameters(), strict=True)
    assert len(names) == 2  # the base and the chart

    def call(x, *parameters):
        return functional_call(module, dict(zip(names, parameters, strict=True)), x)

    assert torch.autograd.gradcheck(call, (X, *values), check_batched_grad=True)
    assert torch.autograd.gradgradcheck(call, (X, *values))


@pytest.mark.parametrize("rows", [1, 200])
def test_scattering_sums_row_by_row(rows):
    generator = torch.Generator().manual_seed(0)
    cells = (
        torch.randint(0, 13, (rows, 3), generator=generator, dtype=torch.int32) + 16 * torch.arange(3).int()
    )
    weights = torch.rand(rows, 4, 3, generator=generator, dtype=torch.float64)
    slopes = torch.randn(rows, 5, generator=generator, dtype=torch.float64)
    plain = torch.zeros(48, 5, dtype=torch.float64)
    for i in range(rows):
        for j in range(3):
            for d in range(4):
                plain[cells[i, j] + d] += weights[i, d, j] * slopes[i]
    torch.testing.assert_close(scatter(cells, weights, slopes, 48), plain)
    sparse = scatter_sparse(cells, weights, slopes, 48)
    torch.testing.assert_close(sparse.to_dense(), plain)
    assert set(sparse.coalesce().indices()[0].tolist()) == set(plain.any(1).nonzero()[:, 0].tolist())


def test_gradients_of_single_samples():
    module, _ = charted_module(dtype=torch.float64)
    X, parameters = points(20, 2), dict(module.named_parameters())

    def output(parameters, x):
        return functional_call(module, parameters, x).sum()

    together = vmap(grad(output), in_dims=(None, 0))(parameters, X)
    for name in parameters:
        one_by_one = torch.stack([grad(output)(parameters, x)[name] for x in X])
        torch.testing.assert_close(together[name], one_by_one)
    hessians = vmap(jacrev(jacrev(output, argnums=1), argnums=1), in_dims=(None, 0))(parameters, X)
    torch.testing.assert_close(hessians, hessians.mT)
    assert hessians.abs().max() > 0.1


def test_an_ensemble_in_one_call():
    modules = [random_module(2, 2, 2, 2, seed=seed, dtype=torch.float64) for seed in range(3)]
    parameters, buffers = stack_module_state(modules)
    X = points(10, 2)
    together = vmap(lambda p, b: functional_call(modules[0], (p, b), (X,)))(parameters, buffers)
    torch.testing.assert_close(together, torch.stack([module(X) for module in modules]))
    slopes = vmap(grad(lambda p, x: functional_call(modules[0], p, (x,)).sum()), in_dims=(0, None))(
        parameters, X
    )
    for k, module in enumerate(modules):
        expected = torch.autograd.grad(module(X).sum(), list(module.parameters()))[0]
        torch.testing.assert_close(slopes["tables.2.weight"][k], expected)


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
    with pytest.raises(ValueError, match=r"widths must name at least the inputs and the outputs, not \[2\]"):
        AtlasNet([2])
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


def train(module, X, y, optimizer, steps=1):
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(module(X), y).backward()
        optimizer.step()


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


# --- charts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sparse", [False, True])
def test_a_chart_changes_its_box_and_nothing_else(sparse):
    module = random_module(2, 1, 3, 3, sparse=sparse)
    X, new = points(4000, 2, dtype=torch.float32), 0.2 + 0.3 * points(500, 2, seed=1, dtype=torch.float32)
    before = module(X).detach()
    chart = module.open_chart(new, density=3, terms=2)
    assert torch.equal(module(X), before)
    assert {id(p) for p in module.parameters()} == {id(p) for p in chart.parameters()}
    kind = torch.optim.SparseAdam if sparse else torch.optim.Adam
    train(module, new, torch.full((500, 1), 2.0), kind(list(module.parameters()), lr=0.05), steps=40)
    fence = module.to_model().charts[0].fence
    outside = torch.tensor(~fence.contains(X.numpy()))
    assert 0 < outside.sum() < len(X)
    assert torch.equal(module(X)[outside], before[outside])
    assert not torch.equal(module(X)[~outside], before[~outside])
    assert (module(new) - 2).abs().mean() < 0.5 * (before.mean() - 2).abs()
    module.close_chart()
    assert torch.equal(module(X), before)
    assert list(module.parameters()) == []
    assert len(list(module.unfreeze().parameters())) == 1


def test_asking_for_gradients_does_not_thaw_what_is_frozen():
    module, _ = charted_module()
    module.expand()
    module.requires_grad_(True)
    assert all("charts.0" in name for name, _ in module.named_parameters())


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


# --- sparse gradients -------------------------------------------------------------------------------------


def test_sparse_gradients_are_the_dense_ones():
    dense = random_module(3, 2, 3, 3, dtype=torch.float64)
    sparse = random_module(3, 2, 3, 3, dtype=torch.float64, sparse=True)
    X = points(20, 3).requires_grad_()
    for module in (dense, sparse):
        slope = torch.autograd.grad(module(X).square().sum(), X, create_graph=True)[0]
        (module(X).sum() + slope.square().sum()).backward()  # through the inputs' derivatives too
    a, b = (next(module.parameters()).grad for module in (dense, sparse))
    assert b.is_sparse
    torch.testing.assert_close(b.to_dense(), a)
    assert b.coalesce().indices().shape[1] < len(a)


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


# --- deep networks ----------------------------------------------------------------------------------------


def test_a_network_learns_what_one_layer_cannot():
    torch.manual_seed(0)
    X = torch.rand(1000, 2)
    y = torch.sin(6 * X[:, :1] * X[:, 1:])
    net = AtlasNet([2, 4, 1], terms=1, density=2)
    lines = net.layers[0](X)
    assert lines.std() > 0.3
    torch.testing.assert_close(net.layers[0]((X + X.flip(0)) / 2), (lines + lines.flip(0)) / 2)  # linear
    train(net, X, y, torch.optim.Adam(net.parameters(), lr=0.05), steps=50)
    assert torch.nn.functional.mse_loss(net(X), y) < 0.1 * y.var()
    assert all(p.grad.abs().max() > 0 for p in net.parameters())


# --- export -----------------------------------------------------------------------------------------------


@OWN_WARNINGS
def test_the_exported_program_gives_the_same_outputs():
    module, _ = charted_module()
    rows = torch.export.Dim("rows")
    program = torch.export.export(module, (torch.rand(3, 2),), dynamic_shapes=({0: rows},))
    for count in (1, 100):
        X = points(count, 2, dtype=torch.float32)
        torch.testing.assert_close(program.module()(X), module(X), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["network", "charts beyond", "no terms"])
def test_onnxruntime_gives_the_same_outputs(kind, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    if kind == "charts beyond":
        model = oracle.randomize(Atlas(2, 1, 1, 0))
        X = 0.3 + 0.4 * points(100, 2, seed=3).numpy()
        update(model, X, 3 + X[:, :1], epochs=2, density=1, terms=1, random_state=0)
        module = AtlasModule.from_model(model.extend([-0.4, 0], [1, 1.4]))
    elif kind == "no terms":
        module = AtlasModule.from_model(oracle.randomize(Atlas(2, 2, terms=0, density=1)))
    else:
        module = AtlasNet([2, 3, 1], terms=2, density=2)
        module.layers[1] = random_module(3, 1, 2, 2).expand()
    mode, path = module.training, tmp_path / "model.onnx"
    export_onnx(module, path)
    assert module.training == mode
    session = onnxruntime.InferenceSession(path)
    for count in (1, 1000):
        X = 2 * points(count, 2, dtype=torch.float32) - 0.5
        (result,) = session.run(["y"], {"x": X.numpy()})
        np.testing.assert_allclose(result, module(X).detach(), rtol=1e-5, atol=1e-5)


# --- estimators -------------------------------------------------------------------------------------------

FAST = {"members": 1, "max_iter": 5, "density": 2, "terms": 2, "random_state": 0}


def rows_of_any_scale(rows=300, seed=0):
    random = np.random.default_rng(seed)
    X = np.column_stack([1e6 + random.random(rows), 100 * random.random(rows), random.normal(size=rows)])
    X[::17, 1] = np.nan
    return X


def fitted_regressor(**options):
    """A regressor on columns of different scale, with missing values."""
    X = rows_of_any_scale()
    y = 1000 + 50 * np.sin(3 * X[:, 2]) + np.nan_to_num(X[:, 1])
    return AtlasRegressor(missing="learn", **{**FAST, **options}).fit(X, y), X, y


def extended_regressor(**options):
    """The same with a chart beyond its first domain."""
    estimator, X, y = fitted_regressor(**options)
    new = X[:60] + np.array([0.5, 20, 1])
    estimator.partial_fit(new, y[:60] + 20)
    assert estimator.model_.is_extended
    assert estimator.model_.charts
    return estimator


def rows_far_and_near():
    X = rows_of_any_scale(400, seed=1)
    return np.vstack([X, X + np.array([0.5, 20, 1]), X - np.array([0.7, 30, 2])])


def in_float64(estimator):
    """The same estimator with a model that computes in float64."""
    twin, old = copy.deepcopy(estimator), estimator.model_
    model = Atlas(old.inputs, old.outputs, old.terms, old.density, old.trainable, old.damping, "float64")
    model.state = model.state.emptied(old.domain)
    model.table[:] = old.table[model.lattice.nearest_rows(old.lattice)]  # a face may round into one cell more
    model.charts = tuple(chart_in_float64(chart) for chart in old.charts)
    twin.model_ = model
    return twin


def chart_in_float64(chart):
    old = chart.content
    content = Atlas(old.inputs, old.outputs, old.terms, old.density, dtype="float64")
    content.table[:] = old.table
    return dataclasses.replace(chart, content=content, size=chart.size.astype(np.float64))


@pytest.mark.parametrize("options", [{}, {"domain": "data", "terms": 0}, {"extrapolation": "linear"}])
def test_a_module_predicts_what_the_regressor_does(options):
    estimator = extended_regressor(**options)
    X = rows_far_and_near()
    module = EstimatorModule(estimator)
    expected, scale = estimator.predict(X), estimator.target_scale_[0]
    result = module(torch.tensor(X)).detach().numpy()
    loss = 10 if options.get("extrapolation") == "linear" else 1  # slopes lose digits
    double = copy.deepcopy(module).double()(torch.tensor(X)).detach().numpy()
    np.testing.assert_allclose(double, in_float64(estimator).predict(X), rtol=0, atol=1e-10 * loss * scale)
    for answer in (result, double):
        error = np.abs(answer - expected) / (loss * scale)
        # where the exponentials of a chart are large and cancel, float32 loses digits
        assert np.quantile(error, 0.95) < 1e-5
        assert error.max() < 5e-5
    twin = pickle.loads(pickle.dumps(copy.deepcopy(module).double().float()))  # the map stays in float64
    assert (twin(torch.tensor(X)).detach().numpy() == result).all()
    knots = estimator.domain_.knots.T
    X = np.vstack([X, knots, knots[[-1]] + [[1, 0, 0]]])
    assert (module.to_unit(torch.tensor(X)).numpy() == estimator.domain_.to_unit(X)).all()


def test_a_module_predicts_what_the_classifier_does():
    X = rows_of_any_scale()[:, [0, 2]]
    estimator = AtlasClassifier(**FAST).fit(X, np.array(["a", "b", "c"])[np.digitize(X[:, 1], [-0.5, 0.5])])
    module, far = EstimatorModule(estimator), rows_far_and_near()[:, [0, 2]]
    np.testing.assert_allclose(module(torch.tensor(far)).detach(), estimator.predict_proba(far), atol=1e-5)
    assert module(torch.tensor([[np.nan, 0.0]])).isnan().all()  # the classifier refuses it


def test_several_targets_and_what_is_refused():
    X = rows_of_any_scale()[:, [0, 2]]
    estimator = AtlasRegressor(extrapolation="error", **FAST).fit(X, X * [1, 100])
    module = EstimatorModule(estimator)
    np.testing.assert_allclose(module(torch.tensor(X)).detach(), estimator.predict(X), rtol=1e-5, atol=1e-3)
    assert module(torch.tensor([[1e6 + 0.5, 99.0], [1e6 + 0.5, 0.0]])).isnan().tolist() == [[True] * 2, [False] * 2]  # fmt: skip
    with pytest.raises(ValueError, match=r"X has shape \(5, 3\); expected \(rows, 2\)"):
        module(torch.rand(5, 3))
    with pytest.raises(TypeError, match=r"X has dtype torch.int64; give it as floating-point numbers"):
        module(torch.zeros(5, 2, dtype=torch.int64))
    with pytest.raises(ValueError, match="the estimator is not fitted; call its fit first"):
        EstimatorModule(AtlasRegressor())
    with pytest.raises(TypeError, match="estimator is a Atlas; give an AtlasRegressor or an AtlasClassifier"):
        EstimatorModule(Atlas(2))


def test_onnxruntime_predicts_what_the_regressor_does(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    estimator, _, _ = fitted_regressor(extrapolation="linear", density=0)
    export_onnx(EstimatorModule(estimator), tmp_path / "model.onnx", metadata={"a": "b"})
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]
    assert b"nn.py" not in (tmp_path / "model.onnx").read_bytes()  # no traces of the machine
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    assert session.get_modelmeta().custom_metadata_map == {"a": "b"}
    X = rows_far_and_near()
    inside = (estimator.domain_.to_unit(X) == estimator.domain_.to_unit(X).clip(*estimator.model_.domain.T)).all(1)  # fmt: skip
    assert 300 < inside.sum() < 1000
    for rows, tolerance in ((X[:1], 2e-5), (X[inside], 2e-5), (X, 2e-4)):
        (result,) = session.run(["y"], {"x": rows})
        expected = estimator.predict(rows)
        np.testing.assert_allclose(result, expected, rtol=0, atol=tolerance * estimator.target_scale_[0])


def test_what_cannot_be_exported_is_named(tmp_path, monkeypatch):
    path = tmp_path / "model.onnx"
    monkeypatch.setattr(neural, "MOST_BYTES", 1000)
    with pytest.raises(ValueError, match=r"the module has 0\.0 GiB, but an ONNX file holds at most 2"):
        export_onnx(AtlasModule(2), path)
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'atlas-splines\[onnx\]'"):
        export_onnx(AtlasModule(2), path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["head", "charts", "physics"])
def test_examples_run(name, monkeypatch, capsys):
    script = Path(__file__).parents[2] / "examples" / f"torch_{name}.py"
    monkeypatch.setattr(sys, "argv", [str(script), "--steps", "20"])
    runpy.run_path(str(script), run_name="__main__")
    assert "error" in capsys.readouterr().out


def test_without_torch_there_is_one_clear_sentence():
    code = "import sys; sys.modules['torch'] = None; import atlas_splines.nn"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stderr.strip().splitlines()[-1] == (
        "ModuleNotFoundError: atlas_splines.nn needs PyTorch; install it with: pip install 'atlas-splines[torch]'"
    )
