/**
 * Gradient boosting: small trees, each fitted to what those before it left; a lesson adds more of them.
 * All cuts are at edges of bins, so a sum of trees is a table with a value for each cell of bins.
 */

import { FEW_ROWS, LEARNED } from "./training.js";

const DEPTH = 5;
const SHRINKAGE = 0.15;
const BINS = 64;
const LEAST_ROWS = 3; // in a leaf
const LEAST_OF_FEW = 20; // the same where there are few rows in all, as LightGBM has it

/** @returns {number} the bin of a coordinate */
function binOf(x) {
  return Math.min(BINS - 1, Math.floor(x * BINS));
}

/** @returns {{input: number, edge: number, gain: number}|null} the best cut of some rows into two parts */
function bestCut({ points, inputs, least }, residuals, rows) {
  let best = null;
  const sums = new Float64Array(BINS);
  const counts = new Int32Array(BINS);
  for (let input = 0; input < inputs; input += 1) {
    sums.fill(0);
    counts.fill(0);
    let total = 0;
    for (const row of rows) {
      const bin = binOf(points[row * inputs + input]);
      sums[bin] += residuals[row];
      counts[bin] += 1;
      total += residuals[row];
    }
    let left = 0;
    let leftCount = 0;
    for (let bin = 0; bin < BINS - 1; bin += 1) {
      left += sums[bin];
      leftCount += counts[bin];
      const rightCount = rows.length - leftCount;
      if (leftCount < least || rightCount < least) continue;
      const gain = left ** 2 / leftCount + (total - left) ** 2 / rightCount - total ** 2 / rows.length;
      if (gain > 1e-9 && (best === null || gain > best.gain)) best = { input, edge: (bin + 1) / BINS, gain };
    }
  }
  return best;
}

/** @returns {object} a tree over some rows: a cut with two trees, or a value */
function grownTree(data, residuals, rows, depth) {
  const cut = depth > 0 ? bestCut(data, residuals, rows) : null;
  if (cut === null) {
    let sum = 0;
    for (const row of rows) sum += residuals[row];
    return { value: (SHRINKAGE * sum) / rows.length };
  }
  const isLeft = (row) => data.points[row * data.inputs + cut.input] < cut.edge;
  const part = (side) => grownTree(data, residuals, rows.filter((row) => isLeft(row) === side), depth - 1);
  return { input: cut.input, edge: cut.edge, left: part(true), right: part(false) };
}

/** @returns {number} what a tree says at a point */
function treeValue(tree, points, at) {
  let node = tree;
  while (node.value === undefined) node = points[at + node.input] < node.edge ? node.left : node.right;
  return node.value;
}

/** @returns {Float64Array} the sum of trees at points */
function boostedPredictions({ inputs, cells }, points) {
  return Float64Array.from({ length: points.length / inputs }, (_, place) => {
    const first = binOf(points[place * inputs]);
    return cells[inputs === 1 ? first : first * BINS + binOf(points[place * inputs + 1])];
  });
}

/** @returns {Float64Array} a table of cells, with a tree added */
function withTree(cells, tree, inputs) {
  const middle = (bin) => (bin + 0.5) / BINS;
  const point = new Float64Array(inputs);
  return cells.map((value, cell) => {
    point[0] = middle(inputs === 1 ? cell : Math.floor(cell / BINS));
    if (inputs === 2) point[1] = middle(cell % BINS);
    return value + treeValue(tree, point, 0);
  });
}

/** Add trees to a model, until the mean error is small enough; yields after every few of them. */
function* moreTrees(model, points, values, count, enough = 0) {
  const { inputs, least } = model;
  let grown = model;
  const residuals = boostedPredictions(grown, points).map((value, row) => values[row] - value);
  const rows = Int32Array.from(values, (_, row) => row);
  for (let number = 1; number <= count; number += 1) {
    const tree = grownTree({ points, inputs, least }, residuals, rows, DEPTH);
    for (let row = 0; row < residuals.length; row += 1) residuals[row] -= treeValue(tree, points, row * inputs);
    grown = { ...model, cells: withTree(grown.cells, tree, inputs) };
    if (number % 8 === 0) yield grown;
    if (residuals.reduce((sum, value) => sum + Math.abs(value), 0) < enough * residuals.length) break;
  }
  return grown;
}

export const boostingLearner = {
  id: "boosting",
  name: "Gradient boosting",
  about: "New trees for the new rows; their outermost leaves reach to the edges.",
  footprint: () => ({ kind: "all" }),
  *fit(points, values, inputs) {
    const least = values.length < FEW_ROWS ? LEAST_OF_FEW : LEAST_ROWS;
    return yield* moreTrees({ inputs, least, cells: new Float64Array(BINS ** inputs) }, points, values, 128);
  },
  *learn(model, lesson) {
    return yield* moreTrees(model, lesson.points, lesson.values, 64, LEARNED);
  },
  predict: boostedPredictions,
};
