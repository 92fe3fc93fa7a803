/** Data as sums that add up exactly, and the weights that follow from them: section 9 of the mathematics. */

import { choleskyFactor, logDeterminant, solveLower, solveUpper } from "./linear.js";

/** Features and targets are whole multiples of 1/QUANTA, so that no sum of their products rounds. */
const QUANTA = 65536;
const RIDGES = [1e-4, 1e-3, 1e-2, 0.1, 1, 10];

/** @returns {object} the sums of no rows at all */
export function noSums(size) {
  return { size, gram: new Float64Array(size * size), moment: new Float64Array(size), square: 0, count: 0 };
}

/** Round numbers to multiples of the quantum, in place. */
export function quantise(numbers) {
  for (let k = 0; k < numbers.length; k += 1) numbers[k] = Math.round(numbers[k] * QUANTA) / QUANTA;
}

/** Add a row of quantised features and its target to sums, in place. */
export function addRow(sums, row, target) {
  const { size, gram, moment } = sums;
  const rounded = Math.round(target * QUANTA) / QUANTA;
  for (let i = 0; i < size; i += 1) {
    const value = row[i];
    if (value === 0) continue;
    const here = i * size;
    for (let j = 0; j <= i; j += 1) gram[here + j] += value * row[j];
    moment[i] += value * rounded;
  }
  sums.square += rounded * rounded;
  sums.count += 1;
}

/** @returns {object} the sums of both, to the bit whatever the order */
export function addedSums(one, other) {
  return {
    size: one.size,
    gram: one.gram.map((value, place) => value + other.gram[place]),
    moment: one.moment.map((value, place) => value + other.moment[place]),
    square: one.square + other.square,
    count: one.count + other.count,
  };
}

/**
 * The weights that sums speak for, with the ridge that makes the data most likely, equations (30) and (31).
 * @param {number[]} ridges to choose from
 * @returns {{weights: Float64Array, factor: Float64Array, ridge: number, noise: number}}
 */
export function readout(sums, ridges = RIDGES) {
  let best = null;
  for (const ridge of ridges) {
    const { size, gram, moment, square, count } = sums;
    const factor = choleskyFactor(gram, size, ridge);
    const half = solveLower(factor, size, moment);
    const explained = half.reduce((sum, value) => sum + value * value, 0);
    const noise = Math.max((square - explained) / count, 1e-9);
    const likelihood = size * Math.log(ridge) - logDeterminant(factor, size) - count * Math.log(noise);
    if (best === null || likelihood > best.likelihood) best = { likelihood, factor, half, ridge, noise };
  }
  const { factor, half, ridge, noise } = best;
  return { weights: solveUpper(factor, sums.size, half), factor, ridge, noise };
}

/** @returns {number} φᵀΛ⁻¹φ, by which the noise is multiplied to give the variance of a prediction */
export function leverage(factor, size, row) {
  return solveLower(factor, size, row).reduce((sum, value) => sum + value * value, 0);
}
