import pytest
import torch
from sample_modules import charted_module, points, random_module
from torch.func import functional_call, grad, jacrev, stack_module_state, vmap

from atlas_splines.nn.gather import scatter, scatter_sparse


@pytest.mark.slow
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
