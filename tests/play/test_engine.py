"""The learners of the playground, compared with the library and with slow formulas: their functions are names of the page."""

import numpy as np
import pytest
from oracle import evaluate, randomize

from atlas_splines import Atlas
from atlas_splines.model.charts import Window

pytestmark = pytest.mark.slow

NUMERIC = """
const slopes = (parameters, output) => Array.from(parameters, (value, k) => {
  const at = (moved) => { parameters[k] = moved; const said = output(); parameters[k] = value; return said; };
  return (at(value + 1e-5) - at(value - 1e-5)) / 2e-5;
});
"""


@pytest.fixture(scope="module")
def engine(page):
    page.open("#tab=inside")
    return page


def test_the_papers_model_is_that_of_the_library(engine):
    model = randomize(Atlas(2, terms=3, density=2, dtype=np.float64))
    tables = []
    for density in range(3):  # (inputs, functions, channels), with the channels F, G1, H1, G2, ...
        channels = [model.f(density)[0]]
        for g, h in zip(model.g(density)[0], model.h(density)[0], strict=True):
            channels += [g, h]
        tables.append(np.stack(channels, axis=-1).ravel().tolist())
    X = np.random.default_rng(1).random((50, 2))
    X[0] = 0, 1
    code = """
        const [tables, points] = arguments;
        const model = {inputs: 2, terms: 3, tables: tables.map((table) => Float64Array.from(table))};
        const wider = expanded(model, 5);
        const parts = plainParts(model, points, 3);
        const sum = (place) => parts.reduce((total, part) => total + part[place], 0);
        return [plainPredictions(model, points), plainPredictions(wider, points), points.slice(50).map((_, k) => sum(k))]
          .map((values) => Array.from(values));
    """
    predicted, after_expansion, in_parts = engine.script(code, tables, X.ravel().tolist())
    np.testing.assert_allclose(predicted, evaluate(model, X)[:, 0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(predicted, model(X).ravel(), rtol=1e-12, atol=1e-12)
    assert after_expansion == predicted
    np.testing.assert_allclose(in_parts, predicted, rtol=1e-5, atol=1e-5)


def test_a_fence_is_that_of_the_library_and_zero_outside_its_box(engine):
    box = [[0.3, 0.555], [0.0, 0.2]]
    X = np.random.default_rng(2).random((4000, 2)) * [0.4, 0.25] + [0.2, 0]
    code = """
        const [box, points] = arguments;
        const fence = fenceInside(box);
        return [fence.density, fence.open, points.slice(points.length / 2).map((_, k) => fenceWindow(fence, points, 2 * k))];
    """
    density, is_open, membership = engine.script(code, box, X.ravel().tolist())
    first, last = np.array(is_open, np.int32).T
    np.testing.assert_allclose(membership, Window(density, first, last).membership(X), rtol=1e-12, atol=1e-12)
    low, high = np.array(box).T
    inside = ((low <= X) & (high >= X)).all(axis=1)
    assert (np.array(membership)[~inside] == 0).all()
    assert np.mean(np.array(membership)[inside] == 1) > 0.9


def test_pooled_sums_are_exact_and_give_least_squares(engine):
    code = """
        const problem = makeProblem({id: "iris"});
        const set = featureSet(1, 1, 4);
        const rows = Array.from(problem.values, (_, k) => k);
        const sumsFor = (some) => sumsOf(set, some.map((k) => problem.points[k]), some.map((k) => problem.values[k]));
        const all = sumsFor(rows), other = addedSums(sumsFor(rows.slice(60)), sumsFor(rows.slice(0, 60).reverse()));
        const same = all.gram.every((value, k) => value === other.gram[k]) && all.moment.every((value, k) => value === other.moment[k]);
        const taken = addedSums(addedSums(all, sumsFor([3, 5])), {...sumsFor([3, 5]),
          gram: sumsFor([3, 5]).gram.map((value) => -value), moment: sumsFor([3, 5]).moment.map((value) => -value)});
        const back = taken.gram.every((value, k) => value === all.gram[k]);
        const features = rows.map((k) => { const row = new Float64Array(set.count); writeFeatures(set, problem.points, k, row); return Array.from(row); });
        const {weights, ridge} = readout(all);
        const direct = rows.map((k) => weightedSum(set, weights, problem.points, k));
        return [same, back, features, Array.from(problem.values), Array.from(weights), ridge, direct];
    """
    same, back, features, y, weights, ridge, direct = engine.script(code)
    assert same
    assert back
    phi, y = np.array(features), np.array(y)
    expected = np.linalg.solve(phi.T @ phi + ridge * np.eye(phi.shape[1]), phi.T @ y)
    np.testing.assert_allclose(phi @ weights, phi @ expected, atol=1e-4)  # features are rounded to 1/65536
    np.testing.assert_allclose(direct, phi @ weights, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("inputs", [1, 2])
def test_networks_descend_along_their_gradient(engine, inputs):
    code = (
        NUMERIC
        + """
        const [inputs] = arguments;
        const point = [0.31, 0.72].slice(0, inputs);
        const network = freshNetwork(inputs), one = new Float64Array(32), two = new Float64Array(32);
        const gradient = new Float64Array(network.parameters.length);
        forwardPass(network, point, 0, one, two);
        backwardPass(network, point, 0, one, two, new Float64Array(32), 1, gradient);
        const kan = freshKan(inputs, 600), space = scratch(), kanGradient = new Float64Array(kan.parameters.length);
        kan.parameters.forEach((_, k) => { kan.parameters[k] += Math.sin(k) / 9; });
        kanOutput(kan, point, 0, space);
        addKanGradient(kan, 1, space, kanGradient);
        return [gradient, slopes(network.parameters, () => forwardPass(network, point, 0, one, two)),
          kanGradient, slopes(kan.parameters, () => kanOutput(kan, point, 0, scratch()))].map((values) => Array.from(values));
    """
    )
    network, network_slopes, kan, kan_slopes = engine.script(code, inputs)
    np.testing.assert_allclose(network, network_slopes, atol=1e-8)
    np.testing.assert_allclose(kan, kan_slopes, atol=1e-8)


def test_neighbours_are_the_nearest_and_trees_lower_the_error(engine):
    random = np.random.default_rng(3)
    X, y, asked = random.random((300, 2)), random.random(300), random.random((40, 2))
    code = """
        const [points, values, asked] = arguments;
        const drained = (steps) => { let step = steps.next(); while (!step.done) step = steps.next(); return step.value; };
        const near = drained(neighboursLearner.fit(points, values, 2));
        const problem = makeProblem({id: "C"});
        const trees = drained(boostingLearner.fit(problem.points, problem.values, 2));
        const said = boostingLearner.predict(trees, problem.points);
        const error = said.reduce((sum, value, k) => sum + Math.abs(value - problem.values[k]), 0) / said.length;
        return [Array.from(neighboursLearner.predict(near, asked)), error];
    """
    means, error = engine.script(code, X.ravel().tolist(), y.tolist(), asked.ravel().tolist())
    nearest = np.argsort(np.square(asked[:, None] - X).sum(axis=2), axis=1)[:, :5]
    np.testing.assert_allclose(means, y[nearest].mean(axis=1), rtol=1e-12)
    assert error < 0.1


def test_each_learner_knows_tables_from_a_part_of_their_rows_and_learns_a_lesson_well(engine):
    code = """
        const drained = (steps) => { let step = steps.next(); while (!step.done) step = steps.next(); return step.value; };
        const problem = makeProblem({id: "diabetes"}), {points, values} = problem;
        const isSeen = (row) => row % 4 !== 0;
        const some = (passes) => [points.filter((_, at) => passes(at >> 1)), values.filter((_, row) => passes(row))];
        const [seen, seenValues] = some(isSeen), [others, truth] = some((row) => !isSeen(row));
        const lesson = lessonRows(problem, firstLesson(problem));
        return LEARNERS.map((learner) => {
          const model = drained(learner.fit(seen, seenValues, 2));
          const taught = drained(learner.learn(model, lesson));
          return [learner.id, Array.from(learner.predict(model, others)), Array.from(truth),
            Array.from(learner.predict(taught, lesson.points)), Array.from(lesson.values)];
        });
    """
    for learner, predicted, truth, after, lesson in engine.script(code):
        truth = np.array(truth)
        assert np.square(predicted - truth).mean() < 0.8 * truth.var(), learner
        keeps_old_rows = learner in ("pooled", "neighbours")
        assert np.abs(np.subtract(after, lesson)).mean() / 2 < (0.1 if keeps_old_rows else 0.012), learner
