/** Least squares with weights that are not negative; matrices stand row by row. */

import { choleskyFactor, solveLower, solveUpper } from "./linear.js";

/** Some rows and columns of a matrix. */
export function submatrix(matrix, size, chosen) {
  const part = new Float64Array(chosen.length ** 2);
  chosen.forEach((row, i) => chosen.forEach((column, j) => {
    part[i * chosen.length + j] = matrix[row * size + column];
  }));
  return part;
}

/**
 * Numbers x of at least 0 that minimise xᵀAx/2 − xᵀb, by the active sets of Lawson and Hanson.
 *
 * @param {Float64Array} matrix A, positive.
 * @param {number} size
 * @param {Float64Array} b
 */
export function nonNegativeLeast(matrix, size, b) {
  let x = new Float64Array(size);
  let chosen = [];
  const tolerance = 1e-14 * b.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  for (let pivots = 0; pivots < 30 * size; pivots++) {
    const slope = (i) => chosen.reduce((sum, j) => sum - matrix[i * size + j] * x[j], b[i]);
    let best = -1;
    let steepest = tolerance;
    for (let i = 0; i < size; i++) {
      const found = chosen.includes(i) ? 0 : slope(i);
      if (found > steepest) [best, steepest] = [i, found];
    }
    if (best < 0) break;
    chosen = [...chosen, best];
    for (;;) {
      const wanted = solveChosen(matrix, size, b, chosen);
      const negative = chosen.filter((_, k) => wanted[k] <= 0);
      if (!negative.length) {
        chosen.forEach((i, k) => (x[i] = wanted[k]));
        break;
      }
      // go as far as all stay positive, and let go of those that have reached zero
      const steps = chosen.map((i, k) => (wanted[k] <= 0 ? x[i] / (x[i] - wanted[k]) : 1));
      const step = Math.min(...steps);
      chosen.forEach((i, k) => (x[i] += step * (wanted[k] - x[i])));
      const left = chosen.filter((i, k) => !(wanted[k] <= 0 && steps[k] <= step));
      const kept = new Float64Array(size);
      for (const i of left) kept[i] = x[i];
      [x, chosen] = [kept, left];
    }
  }
  return x;
}

function solveChosen(matrix, size, b, chosen) {
  const factor = choleskyFactor(submatrix(matrix, size, chosen), chosen.length, 0);
  const half = solveLower(factor, chosen.length, chosen.map((i) => b[i]));
  return solveUpper(factor, chosen.length, half);
}
