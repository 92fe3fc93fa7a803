/** ATLAS, pooled: all rows ever seen as exact sums, and the weights that follow from them. */

import { addRow, addedSums, leverage, noSums, quantise, readout } from "./evidence.js";
import { featureSet, weightedSum, writeFeatures } from "./features.js";

/** How many standard deviations an interval of 90 % reaches. */
export const NINETY = 1.645;

/** @returns {object} the sums of some rows */
function sumsOf(set, points, values) {
  const sums = noSums(set.count);
  const row = new Float64Array(set.count);
  for (let place = 0; place < values.length; place += 1) {
    writeFeatures(set, points, place * set.inputs, row);
    quantise(row);
    addRow(sums, row, values[place]);
  }
  return sums;
}

/** @returns {Float64Array} predictions at points */
export function pooledPredictions({ set, weights }, points) {
  return Float64Array.from({ length: points.length / set.inputs }, (_, place) =>
    weightedSum(set, weights, points, place * set.inputs),
  );
}

/** First pools by the values that they were made of: two learners begin with the same. */
const POOLS = new WeakMap();

/** @returns {object} the pooled model of the first rows */
export function firstPool(points, values, inputs) {
  if (!POOLS.has(values)) {
    const set = inputs === 1 ? featureSet(1, 4, 16) : featureSet(2, 2, 18);
    const sums = sumsOf(set, points, values);
    POOLS.set(values, { set, sums, ...readout(sums) });
  }
  return POOLS.get(values);
}

/** How sure a pooled model is: half the width of intervals of 90 %, and support from 0 to 1, at points. */
export function pooledDoubt({ set, factor, ridge, noise }, points) {
  const count = points.length / set.inputs;
  const row = new Float64Array(set.count);
  const halfWidth = new Float64Array(count);
  const support = new Float64Array(count);
  for (let place = 0; place < count; place += 1) {
    writeFeatures(set, points, place * set.inputs, row);
    const variance = leverage(factor, set.count, row);
    const before = row.reduce((sum, value) => sum + value * value, 0) / ridge;
    halfWidth[place] = NINETY * Math.sqrt(noise * (1 + variance));
    support[place] = Math.max(0, 1 - variance / before);
  }
  return { halfWidth, support };
}

export const pooledLearner = {
  id: "pooled",
  name: "ATLAS, pooled",
  about: "Counts old and new rows alike, as exact sums; any of them can be taken away again.",
  footprint: () => ({ kind: "all" }),
  *fit(points, values, inputs) {
    return firstPool(points, values, inputs);
  },
  *learn(model, lesson) {
    const sums = addedSums(model.sums, sumsOf(model.set, lesson.points, lesson.values));
    return { set: model.set, sums, ...readout(sums, [model.ridge]) };
  },
  predict: pooledPredictions,
  doubt: pooledDoubt,
};
