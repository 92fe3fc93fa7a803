/** Uniform cubic B-splines on the unit interval, as in sections 1 and 7 of the mathematics. */

/** How many basis functions are positive in a cell. */
export const ACTIVE = 4;

/** @returns {number} basis functions of a density */
export function basisCount(density) {
  return 2 ** (density + 2);
}

/** @returns {number} cells of a density */
export function cellCount(density) {
  return basisCount(density) - 3;
}

/** @returns {number} the cell that a coordinate lies in; 1 belongs to the last one */
export function cellOf(x, density) {
  const cells = cellCount(density);
  return Math.max(0, Math.min(Math.floor(cells * x), cells - 1));
}

/**
 * Weights of the four functions that are positive at a coordinate.
 * @param {Float64Array} weights filled with four weights, from place `at` on
 * @returns {number} the cell, which is the number of the first function too, counted from zero
 */
export function activeWeights(x, density, weights, at = 0) {
  const cell = cellOf(x, density);
  const t = cellCount(density) * x - cell;
  const s = 1 - t;
  weights[at] = (s * s * s) / 6;
  weights[at + 1] = ((3 * t - 6) * t * t + 4) / 6;
  weights[at + 2] = (((-3 * t + 3) * t + 3) * t + 1) / 6;
  weights[at + 3] = (t * t * t) / 6;
  return cell;
}

/** Slopes of the same four functions, by x: filled as `activeWeights` fills weights. */
export function activeSlopes(x, density, slopes, at = 0) {
  const cells = cellCount(density);
  const cell = cellOf(x, density);
  const t = cells * x - cell;
  slopes[at] = (-(1 - t) * (1 - t) * cells) / 2;
  slopes[at + 1] = ((3 * t - 4) * t * cells) / 2;
  slopes[at + 2] = (((-3 * t + 2) * t + 1) * cells) / 2;
  slopes[at + 3] = (t * t * cells) / 2;
  return cell;
}

/** @returns {number[][]} for each side of a box, how far functions reach that are positive somewhere on it */
export function reachOf(box, density) {
  const cells = cellCount(density);
  return box.map(([low, high]) => [
    Math.max(0, (cellOf(low, density) - 3) / cells),
    Math.min(1, (cellOf(high, density) + 4) / cells),
  ]);
}
