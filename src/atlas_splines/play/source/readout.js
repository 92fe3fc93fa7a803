/**
 * What the evidence of a file says of a point: its leverage on the readout, equations (29), (30) and (37).
 *
 * The readout is solved again from the exact sums in the file, as Python does when it is asked.
 */

import { numbersOf } from "./archive.js";
import { cellOfScaled, upTo, weightsAt } from "./coretables.js";
import { choleskyFactor, solveLower, solveUpper } from "./linear.js";
import { nonNegativeLeast, submatrix } from "./nonnegative.js";
import { basisCount, cellCount } from "./splines.js";

const LONGEST_LENGTH = 1e9; // of a bump: stands for one without end
const SUM_UNIT = 2 ** 32; // sums are whole multiples of its inverse
const LEAST_NOISE = 2 ** -32 / 12;
const LEAST_PRECISION_SHARE = 1e-9;
const MOST_PRECISION = 1e6;
const LINEAR = -1; // in place of a density
const PROBES = 8; // random signs for each group that estimate a trace

/** The evidence of a model or a chart, ready to be asked for leverages; null if it keeps no sums. */
export function readPool(archive, core) {
  const header = core.evidence;
  if (!header?.coarse) return null;
  const name = `${core.name}.evidence`;
  const features = readFeatures(archive, header, core, name);
  const precisions = numbersOf(archive, `${name}.precisions`, "F64", [features.sizes.length]);
  const sums = readSums(archive, header, features.count, core.outputs, name);
  const cone = core.monotone ? coneOf(features, core.monotone) : null;
  let readout = sums.readout(precisions, features.sizes, cone);
  for (let step = 0; step < header.steps; step++) {
    readout = sums.readout(uphill(readout, features.sizes, core.outputs), features.sizes, cone);
  }
  return { features, readout };
}

/** φᵀΛ⁻¹φ of a point: times the noise it is the variance of what is said there. */
export function leverageAt(pool, point) {
  const { factor, kept, pulled } = pool.readout;
  const phi = pulled(featuresAt(pool.features, point));
  const half = solveLower(factor, kept.length, kept.map((k) => phi[k]));
  return half.reduce((sum, value) => sum + value * value, 0);
}

// --- features ------------------------------------------------------------------------------------------

function readFeatures(archive, header, core, name) {
  const bumps = header.bumps.map((count, k) => ({
    count,
    centres: numbersOf(archive, `${name}.bumps.${k}.centres`, "F64", [count, core.inputs]),
    lengths: numbersOf(archive, `${name}.bumps.${k}.lengths`, "F64", [core.inputs]),
    sides: header.sides?.[k] ?? [],
  }));
  const linear = header.linear ?? []; // inputs whose one function is the coordinate itself
  const splines = [...header.coarse.map((j) => [j, 0]), ...linear.map((j) => [j, LINEAR]), ...header.fine];
  const fine = header.fine.map(([, density]) => basisCount(density));
  const lines = linear.length ? [linear.length] : [];
  const sizes = [1, 4 * header.coarse.length, ...lines, ...fine, ...header.bumps];
  return { splines, bumps, sizes, count: sizes.reduce((sum, size) => sum + size, 0) };
}

/** Features of a point; one beyond the unit cube has those of the nearest point in it. */
export function featuresAt(features, point) {
  const at = Float64Array.from(point, (value) => Math.min(Math.max(value, 0), 1));
  const values = new Float64Array(features.count);
  values[0] = 1;
  let begin = 1;
  for (const [j, density] of features.splines) {
    begin += splineFeatures(at[j], density, values.subarray(begin));
  }
  for (const group of features.bumps) {
    for (let k = 0; k < group.count; k++) values[begin + k] = bumpAt(group, k, at);
    begin += group.count;
  }
  return values;
}

/** Values of all basis functions of a density; returns how many. */
export function splineFeatures(coordinate, density, values) {
  if (density === LINEAR) {
    values[0] = coordinate;
    return 1;
  }
  const cells = cellCount(density);
  const cell = cellOfScaled(coordinate * cells, cells);
  const weights = [0, 0, 0, 0];
  weightsAt(coordinate * cells - cell, weights);
  weights.forEach((weight, k) => (values[cell + k] = weight));
  return basisCount(density);
}

function bumpAt({ centres, lengths, sides }, k, point) {
  let exponent = 0;
  for (let j = 0; j < point.length; j++) {
    if (lengths[j] >= LONGEST_LENGTH) continue;
    const apart = (centres[k * point.length + j] - point[j]) / lengths[j];
    exponent -= sides[j] ? Math.max(sides[j] * apart, 0) ** 3 / 2 : (apart * apart) / 2;
  }
  return Math.exp(Math.max(exponent, -200));
}

// --- sums ----------------------------------------------------------------------------------------------

function readSums(archive, header, count, outputs, name) {
  const places = [`${name}.older`, ...header.recent.map((_, k) => `${name}.recent.${k}`)];
  const total = (part, shape) => totalOf(places.map((place) => numbersOf(archive, `${place}.${part}`, "I64", shape)));
  const upper = total("gram", [(count * (count + 1)) / 2]);
  const gram = new Float64Array(count * count);
  for (let i = 0, k = 0; i < count; i++) {
    for (let j = i; j < count; j++, k++) gram[i * count + j] = gram[j * count + i] = upper[k];
  }
  const moment = total("moment", [count, outputs]);
  const limbs = (part, shape) => places.map((place) => numbersOf(archive, `${place}.${part}`, "I64", shape));
  const square = upTo(outputs).map((p) => limbTotal(limbs("square", [outputs, 2]), 2 * p));
  const rows = Math.max(limbTotal(limbs("count", [2]), 0), 1);
  const sums = { gram, moment, square, rows, outputs };
  return { readout: (precisions, sizes, cone) => readoutOf(sums, precisions, sizes, cone) };
}

/** Sums of whole numbers of 64 bits in units, each rounded once. */
function totalOf(arrays) {
  const halves = arrays.map(({ buffer }) => [new Int32Array(buffer), new Uint32Array(buffer)]);
  return Float64Array.from({ length: arrays[0].length }, (_, k) => {
    let [high, low] = [0, 0];
    for (const [signed, unsigned] of halves) {
      high += signed[2 * k + 1];
      low += unsigned[2 * k];
    }
    return (high * SUM_UNIT + low) / SUM_UNIT;
  });
}

/** The sum of numbers of two limbs at a place. */
function limbTotal(arrays, place) {
  const total = arrays.reduce((sum, pair) => sum + (pair[place] << 62n) + pair[place + 1], 0n);
  return Number(total) / SUM_UNIT;
}

// --- the readout ---------------------------------------------------------------------------------------

function readoutOf(sums, precisions, sizes, cone) {
  const { gram, moment, square, rows, outputs } = sums;
  const size = gram.length ** 0.5;
  const within = precisions.map((each) => Math.min(Math.max(each, LEAST_PRECISION_SHARE * rows), MOST_PRECISION));
  const precision = Float64Array.from(gram);
  let feature = 0;
  sizes.forEach((count, g) => {
    for (let k = 0; k < count; k++, feature++) precision[feature * size + feature] += within[g];
  });
  const found = cone ? withinCone(precision, moment, size, outputs, cone) : freely(precision, moment, size, outputs);
  const noise = upTo(outputs).map((p) => {
    let left = square[p];
    for (let i = 0; i < size; i++) {
      let product = -2 * moment[i * outputs + p];
      for (let j = 0; j < size; j++) product += precision[i * size + j] * found.weights[j * outputs + p];
      left += found.weights[i * outputs + p] * product;
    }
    return Math.max(left / rows, LEAST_NOISE);
  });
  return { ...found, noise, precisions: within };
}

function freely(precision, moment, size, outputs) {
  const factor = choleskyFactor(precision, size, 0);
  const weights = new Float64Array(moment.length);
  for (let p = 0; p < outputs; p++) {
    const column = upTo(size).map((i) => moment[i * outputs + p]);
    const solved = solveUpper(factor, size, solveLower(factor, size, column));
    solved.forEach((value, i) => (weights[i * outputs + p] = value));
  }
  return { weights, factor, kept: upTo(size), pulled: (phi) => phi, cone: null };
}

/** MacKay's fixed point, one step: precisions of the groups. */
function uphill(readout, sizes, outputs) {
  const features = readout.weights.length / outputs;
  const starts = sizes.map((_, g) => sizes.slice(0, g).reduce((sum, size) => sum + size, 0));
  const traces = readout.cone ? exactTraces(readout, sizes, starts, features) : probedTraces(readout, sizes, starts);
  const isKept = new Uint8Array(features);
  readout.kept.forEach((k) => (isKept[k] = 1));
  return Float64Array.from(sizes, (size, g) => {
    const group = upTo(size).map((k) => starts[g] + k);
    const free = readout.cone ? group.filter((k) => isKept[k]).length : size;
    if (!free) return readout.precisions[g];
    const determined = Math.min(Math.max(free - readout.precisions[g] * traces[g], 1e-3 * free), free);
    let energy = 0;
    for (const k of group) {
      for (let p = 0; p < outputs; p++) energy += readout.weights[k * outputs + p] ** 2 / readout.noise[p];
    }
    return (outputs * determined) / Math.max(energy, 1e-12);
  });
}

/** Traces of Λ⁻¹ over each group, by random signs that are always the same. */
function probedTraces({ factor }, sizes, starts) {
  const features = factor.length ** 0.5;
  const signs = randomSigns(features * PROBES);
  return sizes.map((size, g) => {
    let sum = 0;
    for (let probe = 0; probe < PROBES; probe++) {
      const chosen = new Float64Array(features);
      for (let k = starts[g]; k < starts[g] + size; k++) chosen[k] = signs[k * PROBES + probe];
      sum += solveLower(factor, features, chosen).reduce((total, value) => total + value * value, 0);
    }
    return sum / PROBES;
  });
}

/** The first signs of NumPy's generator with seed 0: the highest bits of halves of PCG64's numbers. */
function randomSigns(count) {
  const mask = (1n << 128n) - 1n;
  let state = 35399562948360463058890781895381311971n;
  const signs = new Float64Array(count);
  for (let k = 0; k < count; k += 2) {
    state = (state * 47026247687942121848144207491837523525n + 87136372517582989555478159403783844777n) & mask;
    const folded = (state >> 64n) ^ (state & 0xffffffffffffffffn);
    const turn = state >> 122n;
    const number = ((folded >> turn) | (folded << (64n - turn))) & 0xffffffffffffffffn;
    signs[k] = number & 0x80000000n ? 1 : -1;
    if (k + 1 < count) signs[k + 1] = number >> 63n ? 1 : -1;
  }
  return signs;
}

// --- weights that make a model monotone ----------------------------------------------------------------

/** Which weights are allowed: signs of the steps of splines, and of bumps, for each output. */
function coneOf(features, monotone) {
  const outputs = monotone.length;
  const ranges = [];
  const signs = new Int8Array(features.count * outputs);
  let begin = 1;
  for (const [j, density] of features.splines) {
    const end = begin + (density === LINEAR ? 1 : basisCount(density));
    if (density === LINEAR) {
      monotone.forEach((ways, p) => (signs[begin * outputs + p] = ways[j]));
    } else if (monotone.some((ways) => ways[j])) {
      ranges.push([begin, end]);
      for (let k = begin + 1; k < end; k++) monotone.forEach((ways, p) => (signs[k * outputs + p] = ways[j]));
    }
    begin = end;
  }
  for (const { count, sides } of features.bumps) {
    const j = sides.findIndex(Boolean); // all of them agree
    for (let k = begin; k < begin + count && j >= 0; k++) {
      monotone.forEach((ways, p) => (signs[k * outputs + p] = sides[j] * ways[j]));
    }
    begin += count;
  }
  return { ranges, signs };
}

/** Slopes with respect to steps, of slopes with respect to weights. */
function pulledBack(cone, slopes) {
  const pulled = Float64Array.from(slopes);
  for (const [begin, end] of cone.ranges) {
    for (let k = end - 2; k >= begin; k--) pulled[k] += pulled[k + 1];
  }
  return pulled;
}

function withinCone(precision, moment, size, outputs, cone) {
  const turned = inSteps(cone, precision, size);
  const wanted = upTo(outputs).map((p) => pulledBack(cone, upTo(size).map((i) => moment[i * outputs + p])));
  const isBound = upTo(size).map((k) => upTo(outputs).some((p) => cone.signs[k * outputs + p]));
  const [free, bound] = [upTo(size).filter((k) => !isBound[k]), upTo(size).filter((k) => isBound[k])];
  const order = [...free, ...bound];
  const factor = choleskyFactor(submatrix(turned, size, order), size, 0);
  const freeFactor = submatrix(factor, size, upTo(free.length));
  const steps = wanted.map((column, p) => {
    const half = solveLower(factor, size, order.map((k) => column[k]));
    const signs = bound.map((k) => cone.signs[k * outputs + p]);
    const found = boundSteps(factor, size, free.length, half, signs);
    const rest = half.slice(0, free.length);
    found.forEach((step, i) => {
      for (let k = 0; k < free.length; k++) rest[k] -= factor[(free.length + i) * size + k] * step;
    });
    const solved = solveUpper(freeFactor, free.length, rest);
    const all = new Float64Array(size);
    free.forEach((k, i) => (all[k] = solved[i]));
    bound.forEach((k, i) => (all[k] = found[i]));
    return all;
  });
  const kept = upTo(size).filter((k) => !isBound[k] || steps.some((each) => each[k]));
  const weights = new Float64Array(size * outputs);
  steps.forEach((each, p) => weightsOfSteps(cone, each).forEach((value, k) => (weights[k * outputs + p] = value)));
  const onFace = choleskyFactor(submatrix(turned, size, kept), kept.length, 0);
  return { weights, factor: onFace, kept, pulled: (phi) => pulledBack(cone, phi), cone };
}

/** A quadratic form of weights as one of steps. */
function inSteps(cone, matrix, size) {
  const half = new Float64Array(matrix.length);
  for (let i = 0; i < size; i++) half.set(pulledBack(cone, matrix.subarray(i * size, (i + 1) * size)), i * size);
  const turned = new Float64Array(matrix.length);
  for (let j = 0; j < size; j++) {
    const column = pulledBack(cone, upTo(size).map((i) => half[i * size + j]));
    column.forEach((value, i) => (turned[i * size + j] = value));
  }
  return turned;
}

/** Steps of one sign each, once the free ones are eliminated: the corner of the factor tells of no others. */
function boundSteps(factor, size, free, half, signs) {
  const count = signs.length;
  const matrix = new Float64Array(count * count);
  const b = new Float64Array(count);
  for (let i = 0; i < count; i++) {
    for (let j = 0; j < count; j++) {
      let sum = 0;
      for (let k = 0; k <= Math.min(i, j); k++) {
        sum += factor[(free + i) * size + free + k] * factor[(free + j) * size + free + k];
      }
      matrix[i * count + j] = signs[i] * signs[j] * sum;
    }
    for (let k = 0; k <= i; k++) b[i] += signs[i] * factor[(free + i) * size + free + k] * half[free + k];
  }
  return nonNegativeLeast(matrix, count, b).map((value, i) => value * signs[i]);
}

function weightsOfSteps(cone, steps) {
  const weights = Float64Array.from(steps);
  for (const [begin, end] of cone.ranges) {
    for (let k = begin + 1; k < end; k++) weights[k] += weights[k - 1];
  }
  return weights;
}

/** Traces of Λ⁻¹ over the features of each group, on the face of the cone. */
function exactTraces({ factor, kept, pulled }, sizes, starts, features) {
  return sizes.map((size, g) => {
    let sum = 0;
    for (let feature = starts[g]; feature < starts[g] + size; feature++) {
      const unit = new Float64Array(features);
      unit[feature] = 1;
      const row = pulled(unit);
      const half = solveLower(factor, kept.length, kept.map((k) => row[k]));
      sum += half.reduce((total, value) => total + value * value, 0);
    }
    return sum;
  });
}
