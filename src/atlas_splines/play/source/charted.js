/** ATLAS with charts: each lesson gets a small model of its own, behind a fence: section 7 of the mathematics. */

import { addRow, noSums, quantise, readout } from "./evidence.js";
import { featureSet, weightedSum, writeFeatures } from "./features.js";
import { NINETY, firstPool, pooledDoubt, pooledPredictions } from "./pooled.js";
import { ACTIVE, activeWeights, cellCount, cellOf } from "./splines.js";

/** Density of the lattice that fences stand on. */
const FENCE_DENSITY = 9;
const OPEN = new Float64Array(ACTIVE);

/**
 * The fence inside a box: the basis functions that are zero outside it are open, the others closed.
 * @returns {{density: number, cells: number[][], open: number[][]}} first and last, for each input
 */
export function fenceInside(box, density = FENCE_DENSITY) {
  const all = cellCount(density);
  const cells = box.map(([low, high]) => [Math.ceil(low * all - 1e-9), Math.floor(high * all + 1e-9) - 1]);
  const open = cells.map(([first, last]) => [first === 0 ? 0 : first + 3, last === all - 1 ? last + 3 : last]);
  return { density, cells, open };
}

/** @returns {number} the window of a fence at a point: exactly 0 outside its cells, 1 where all is open */
export function fenceWindow(fence, points, at) {
  let product = 1;
  for (const [input, [first, last]] of fence.open.entries()) {
    const cell = cellOf(points[at + input], fence.density);
    if (cell > last || cell + 3 < first) return 0;
    if (cell >= first && cell + 3 <= last) continue;
    activeWeights(points[at + input], fence.density, OPEN);
    let sum = 0;
    for (let k = 0; k < ACTIVE; k += 1) if (cell + k >= first && cell + k <= last) sum += OPEN[k];
    product *= sum;
  }
  return product;
}

/** Write the place of a point within the cells of a fence, from 0 to 1, into `local`. */
function writeLocal(fence, points, at, local) {
  const all = cellCount(fence.density);
  for (const [input, [first, last]] of fence.cells.entries()) {
    const place = (points[at + input] * all - first) / (last + 1 - first);
    local[input] = Math.max(0, Math.min(1, place));
  }
}

/** Train the content of a chart, which is added to the old model or takes its place. */
function chartOf(fence, set, lesson, old, replaces) {
  const sums = noSums(set.count);
  const row = new Float64Array(set.count);
  const local = new Float64Array(set.inputs);
  for (let place = 0; place < lesson.values.length; place += 1) {
    const window = fenceWindow(fence, lesson.points, place * set.inputs);
    if (window === 0) continue;
    writeLocal(fence, lesson.points, place * set.inputs, local);
    writeFeatures(set, local, 0, row);
    for (let k = 0; k < row.length; k += 1) row[k] *= window;
    quantise(row);
    addRow(sums, row, lesson.values[place] - (replaces ? 1 - window : 1) * old[place]);
  }
  const { weights, noise } = readout(sums);
  return { fence, set, weights, noise, replaces };
}

/** @returns {Float64Array} predictions; outside its cells a chart is skipped, so bits stay */
function chartedPredictions({ base, charts }, points) {
  const inputs = base.set.inputs;
  const values = pooledPredictions(base, points);
  const local = new Float64Array(inputs);
  for (const { fence, set, weights, replaces } of charts) {
    for (let place = 0; place < values.length; place += 1) {
      const window = fenceWindow(fence, points, place * inputs);
      if (window === 0) continue;
      writeLocal(fence, points, place * inputs, local);
      const content = weightedSum(set, weights, local, 0);
      values[place] = (replaces ? (1 - window) * values[place] : values[place]) + window * content;
    }
  }
  return values;
}

/** How sure the model is: its base, and inside fences the charts. */
function chartedDoubt({ base, charts }, points) {
  const doubt = pooledDoubt(base, points);
  for (const { fence, noise } of charts) {
    for (let place = 0; place < doubt.support.length; place += 1) {
      const window = fenceWindow(fence, points, place * base.set.inputs);
      doubt.halfWidth[place] += window * (NINETY * Math.sqrt(noise) - doubt.halfWidth[place]);
      doubt.support[place] += window * (1 - doubt.support[place]);
    }
  }
  return doubt;
}

export const chartedLearner = {
  id: "charts",
  name: "ATLAS, with charts",
  about: "Each lesson gets a chart behind a fence; outside it no bit can change.",
  footprint: (box) => ({ kind: "box", box }),
  *fit(points, values, inputs) {
    return { base: firstPool(points, values, inputs), charts: [] };
  },
  *learn(model, lesson) {
    const inputs = model.base.set.inputs;
    const set = inputs === 1 ? featureSet(1, 3, 8) : featureSet(2, 1, 8);
    const fence = fenceInside(lesson.box);
    const old = chartedPredictions(model, lesson.points);
    const [added, replacing] = [false, true].map((replaces) => chartOf(fence, set, lesson, old, replaces));
    const chart = added.noise <= replacing.noise ? added : replacing;
    return { base: model.base, charts: [...model.charts, chart] };
  },
  predict: chartedPredictions,
  doubt: chartedDoubt,
};
