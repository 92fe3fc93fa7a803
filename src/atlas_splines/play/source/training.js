/** What learners that descend have in common: batches in random order, a rate that falls, and when a lesson is learned. */

import { Adam } from "./adam.js";
import { shuffledOrder, uniformNumbers } from "./random.js";

/** The mean error at which a lesson ends, 1 % of the range of values: who trains on would forget more. */
export const LEARNED = 0.02;

/** Learners that could follow the noise of tables are coarser with fewer rows than this. */
export const FEW_ROWS = 500;

/**
 * Train a model in place by Adam; yields it after each epoch.
 * @param {object} model what is yielded
 * @param {Float64Array} parameters of the model
 * @param {{rows: number, batch: number, epochs: number, rate: number, seed: number, enough?: number}} plan
 * @param {(row: number, gradient: Float64Array) => number} addGradient adds the gradient of a row, and returns its error
 */
export function* descend(model, parameters, { rows, batch, epochs, rate, seed, enough = 0 }, addGradient) {
  const adam = new Adam(parameters, rate);
  const uniform = uniformNumbers(seed);
  for (let epoch = 0; epoch < epochs; epoch += 1) {
    adam.rate = rate * (1 - epoch / epochs);
    let total = 0;
    for (const [turn, row] of shuffledOrder(rows, uniform).entries()) {
      total += Math.abs(addGradient(row, adam.gradient));
      if (turn % batch === batch - 1 || turn === rows - 1) adam.step();
    }
    yield model;
    if (total / rows < enough) return;
  }
}
