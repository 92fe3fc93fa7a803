/** Features that a model is linear in: a constant, splines of single inputs, and bumps on a lattice. */

import { ACTIVE, activeWeights, basisCount } from "./splines.js";

const WEIGHTS = new Float64Array(ACTIVE);

/**
 * A set of features of points in the unit cube.
 * @param {number} density of the splines
 * @param {number} side bumps along each input; each is as long as the distance of its neighbours
 */
export function featureSet(inputs, density, side) {
  const splines = inputs * basisCount(density);
  return { inputs, density, side, splines, count: 1 + splines + side ** inputs, sides: new Float64Array(2 * side) };
}

/** Write how far each bump reaches to a coordinate of each input into the set's own space. */
function writeSides({ inputs, side, sides }, points, at) {
  for (let input = 0; input < inputs; input += 1) {
    for (let centre = 0; centre < side; centre += 1) {
      const distance = points[at + input] * (side - 1) - centre;
      sides[input * side + centre] = Math.exp(-0.5 * distance * distance);
    }
  }
}

/** Write the features of the point at `points[at…]` into `row`. */
export function writeFeatures(set, points, at, row) {
  const { inputs, density, side, splines, sides } = set;
  row.fill(0, 0, 1 + splines);
  row[0] = 1;
  for (let input = 0; input < inputs; input += 1) {
    const first = 1 + input * basisCount(density) + activeWeights(points[at + input], density, WEIGHTS);
    for (let k = 0; k < ACTIVE; k += 1) row[first + k] = WEIGHTS[k];
  }
  writeSides(set, points, at);
  let place = 1 + splines;
  for (let first = 0; first < side; first += 1) {
    if (inputs === 1) row[place++] = sides[first];
    else for (let second = 0; second < side; second += 1) row[place++] = sides[first] * sides[side + second];
  }
}

/** @returns {number} the sum of the features of a point, times weights; quicker than writing them first */
export function weightedSum(set, weights, points, at) {
  const { inputs, density, side, splines, sides } = set;
  let sum = weights[0];
  for (let input = 0; input < inputs; input += 1) {
    const first = 1 + input * basisCount(density) + activeWeights(points[at + input], density, WEIGHTS);
    for (let k = 0; k < ACTIVE; k += 1) sum += WEIGHTS[k] * weights[first + k];
  }
  writeSides(set, points, at);
  const start = 1 + splines;
  for (let first = 0; first < side; first += 1) {
    let inner = inputs === 1 ? weights[start + first] : 0;
    if (inputs === 2)
      for (let second = 0; second < side; second += 1)
        inner += weights[start + first * side + second] * sides[side + second];
    sum += sides[first] * inner;
  }
  return sum;
}
