/** ATLAS as in the paper: splines and pairs of exponentials, of which the finest density is trained by Adam. */

import { ACTIVE, activeWeights, basisCount, reachOf } from "./splines.js";
import { LEARNED, descend } from "./training.js";

const FINEST = 4;
const MORE_TERMS = 2; // at each expansion
const BATCH = 50;

/** @returns {object} a model with a finer density and more terms, all zero: it says the same */
export function expanded(model, terms) {
  const channels = 2 * terms + 1;
  const old = 2 * model.terms + 1;
  const tables = model.tables.map((table) => {
    const larger = new Float64Array((table.length / old) * channels);
    for (let row = 0; row < table.length / old; row += 1)
      for (let channel = 0; channel < old; channel += 1)
        larger[row * channels + channel] = table[row * old + channel];
    return larger;
  });
  tables.push(new Float64Array(model.inputs * basisCount(tables.length) * channels));
  return { inputs: model.inputs, terms, tables };
}

/** Add what one density says at a point to the channels F, G₁, H₁, G₂, H₂, … from place `to` on. */
function addDensity(model, density, points, at, sums, to, weights) {
  const channels = 2 * model.terms + 1;
  const table = model.tables[density];
  for (let input = 0; input < model.inputs; input += 1) {
    const cell = activeWeights(points[at + input], density, weights);
    const first = (input * basisCount(density) + cell) * channels;
    for (let k = 0; k < ACTIVE; k += 1)
      for (let channel = 0; channel < channels; channel += 1)
        sums[to + channel] += weights[k] * table[first + k * channels + channel];
  }
}

/** @returns {number} the output of channels: F and the differences of exponentials, equation (6) */
function outputOf(sums, terms, slopes) {
  let output = sums[0];
  slopes[0] = 1;
  for (let term = 1; term <= terms; term += 1) {
    const scale = 1 / (term * term);
    const up = scale * Math.exp(sums[2 * term - 1]);
    const down = scale * Math.exp(sums[2 * term]);
    slopes[2 * term - 1] = up;
    slopes[2 * term] = -down;
    output += up - down;
  }
  return output;
}

/** @returns {Float64Array} predictions at points */
export function plainPredictions(model, points) {
  const channels = 2 * model.terms + 1;
  const sums = new Float64Array(channels);
  const slopes = new Float64Array(channels);
  const weights = new Float64Array(ACTIVE);
  return Float64Array.from({ length: points.length / model.inputs }, (_, place) => {
    sums.fill(0);
    for (let density = 0; density < model.tables.length; density += 1)
      addDensity(model, density, points, place * model.inputs, sums, 0, weights);
    return outputOf(sums, model.terms, slopes);
  });
}

/** @returns {Float32Array[]} what F and each pair of exponentials say at points, of the coarsest densities only */
export function plainParts(model, points, densities) {
  const { inputs, terms } = model;
  const sums = new Float64Array(2 * terms + 1);
  const slopes = new Float64Array(2 * terms + 1);
  const weights = new Float64Array(ACTIVE);
  const parts = Array.from({ length: terms + 1 }, () => new Float32Array(points.length / inputs));
  for (let place = 0; place < points.length / inputs; place += 1) {
    sums.fill(0);
    for (let density = 0; density < densities; density += 1)
      addDensity(model, density, points, place * inputs, sums, 0, weights);
    outputOf(sums, terms, slopes);
    parts[0][place] = sums[0];
    for (let term = 1; term <= terms; term += 1) parts[term][place] = slopes[2 * term - 1] + slopes[2 * term];
  }
  return parts;
}

/** What the frozen densities say at points does not change in training: (points, channels). */
function frozenSums(model, points) {
  const channels = 2 * model.terms + 1;
  const count = points.length / model.inputs;
  const sums = new Float64Array(count * channels);
  const weights = new Float64Array(ACTIVE);
  for (let place = 0; place < count; place += 1)
    for (let density = 0; density < model.tables.length - 1; density += 1)
      addDensity(model, density, points, place * model.inputs, sums, place * channels, weights);
  return sums;
}

/** Train the finest density of a model in place, on absolute errors; yields it after each epoch. */
function* trainFinest(model, points, values, plan) {
  const { inputs, terms } = model;
  const density = model.tables.length - 1;
  const channels = 2 * terms + 1;
  const frozen = frozenSums(model, points);
  const sums = new Float64Array(channels);
  const slopes = new Float64Array(channels);
  const weights = new Float64Array(ACTIVE);
  const whole = { rows: values.length, batch: BATCH, rate: 0.05, seed: density + 1, ...plan };
  yield* descend(model, model.tables[density], whole, (row, gradient) => {
    for (let channel = 0; channel < channels; channel += 1) sums[channel] = frozen[row * channels + channel];
    addDensity(model, density, points, row * inputs, sums, 0, weights);
    const error = outputOf(sums, terms, slopes) - values[row];
    for (let input = 0; input < inputs; input += 1) {
      const cell = activeWeights(points[row * inputs + input], density, weights);
      const first = (input * basisCount(density) + cell) * channels;
      for (let k = 0; k < ACTIVE; k += 1)
        for (let channel = 0; channel < channels; channel += 1)
          gradient[first + k * channels + channel] += Math.sign(error) * weights[k] * slopes[channel];
    }
    return error;
  });
}

/** Every so many rows, one is held out: it tells whether a finer density helps. */
const HELD_OUT = 8;

/** @returns {number} the absolute error of a model on some rows */
function errorOn(model, points, values) {
  return plainPredictions(model, points).reduce((sum, value, row) => sum + Math.abs(value - values[row]), 0);
}

/** @returns {{points: Float64Array, values: Float64Array}} the rows whose number passes */
function someRows(points, values, inputs, passes) {
  return { points: points.filter((_, at) => passes(Math.floor(at / inputs))), values: values.filter((_, row) => passes(row)) };
}

export const plainLearner = {
  id: "plain",
  name: "ATLAS, as in the paper",
  about: "Adam on the finest splines: whatever shares one coordinate with the lesson changes too.",
  footprint: (box) => ({ kind: "cross", box: reachOf(box, FINEST) }),
  *fit(points, values, inputs) {
    const shown = someRows(points, values, inputs, (row) => row % HELD_OUT !== 0);
    const held = someRows(points, values, inputs, (row) => row % HELD_OUT === 0);
    let model = { inputs, terms: 0, tables: [] };
    for (let density = 0; density <= FINEST; density += 1) {
      model = expanded(model, MORE_TERMS * density);
      const before = errorOn(model, held.points, held.values);
      yield* trainFinest(model, shown.points, shown.values, { epochs: 24 });
      if (errorOn(model, held.points, held.values) > before) model.tables[density].fill(0); // it would follow noise
    }
    return model;
  },
  *learn(model, lesson) {
    const tables = [...model.tables.slice(0, -1), Float64Array.from(model.tables.at(-1))];
    const learned = { ...model, tables };
    yield* trainFinest(learned, lesson.points, lesson.values, { epochs: 30, enough: LEARNED });
    return learned;
  },
  predict: plainPredictions,
};
