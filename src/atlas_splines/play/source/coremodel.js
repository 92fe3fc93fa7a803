/**
 * Models of a file: a coefficient table with local terms, and charts that speak over it inside their fences,
 * equations (22), (23) and (47).
 */

import { FileError, numbersOf } from "./archive.js";
import {
  addSums,
  cellOfScaled,
  outputsOfSums,
  readConfiguration,
  readTable,
  roundingOf,
  upTo,
  weightsAt,
} from "./coretables.js";
import { addLocal, isLater, readClocks, readLocal } from "./localterms.js";
import { cellCount } from "./splines.js";

/** Read the model of a file: its table, its charts, and what they keep of their data, still in the archive. */
export function readCore(archive) {
  const header = archive.header.model;
  const size = readConfiguration(header?.configuration);
  const domain = numbersOf(archive, "model.domain", "F64", [size.inputs, 2]);
  for (let j = 0; j < size.inputs; j++) {
    const isDomain = domain[2 * j] <= 0 && domain[2 * j + 1] >= 1;
    if (!isDomain) throw new FileError("The file is damaged: its domain is none.");
  }
  const charts = (header.charts ?? []).map((chart, k) => readChart(archive, chart, size, `model.charts.${k}`));
  const table = readTable(archive, "model.table", size, domain);
  const { evidence = null, monotone = null } = header;
  const offsets = readOffsets(archive, "model", size);
  const local = readLocal(archive, "model.local", header.local ?? 0, size);
  const later = header.later ? readLater(archive, header.later, size) : null;
  const round = roundingOf(size.dtype);
  return { ...size, name: "model", table, domain, offsets, local, later, charts, evidence, monotone, round };
}

/** What predicts beyond the end of a clock: another model on the unit cube. */
function readLater(archive, header, { inputs, outputs, dtype }) {
  const size = { ...readConfiguration(header.configuration), inputs, outputs, dtype };
  const unit = Float64Array.from({ length: 2 * inputs }, (_, k) => k % 2);
  const table = readTable(archive, "model.later.table", size, unit);
  const offsets = readOffsets(archive, "model.later", size);
  const local = readLocal(archive, "model.later.local", header.local ?? 0, size);
  return readClocks(archive, { table, offsets, local, later: null }, size);
}

/** Offsets of levels, equation (44): for each input that has some, those of each exact coordinate. */
function readOffsets(archive, name, { inputs, outputs, dtype }) {
  const offsets = new Map();
  if (!archive.tensors.has(`${name}.offsets.keys`)) return offsets;
  const keys = numbersOf(archive, `${name}.offsets.keys`, "I64", [null]);
  const shape = [keys.length, outputs];
  const values = numbersOf(archive, `${name}.offsets.values`, dtype === "float32" ? "F32" : "F64", shape);
  const view = new DataView(new ArrayBuffer(4));
  keys.forEach((key, k) => {
    const input = Number(key >> 32n);
    if (!(input >= 0 && input < inputs)) throw new FileError("The file is damaged: an offset is of no input.");
    view.setUint32(0, Number(key & 0xffffffffn));
    if (!offsets.has(input)) offsets.set(input, new Map());
    offsets.get(input).set(view.getFloat32(0), values.subarray(k * outputs, (k + 1) * outputs));
  });
  return offsets;
}

/** Add the offsets of the levels that a point has. */
function addOffsets(core, point, out) {
  for (const [input, levels] of core.offsets) {
    levels.get(Math.fround(point[input]))?.forEach((value, p) => (out[p] += value));
  }
}

function readChart(archive, header, size, name) {
  const inside = { ...size, terms: header.terms, density: header.density, damping: 0 };
  readConfiguration(inside);
  const unit = Float64Array.from({ length: 2 * size.inputs }, (_, k) => k % 2);
  const table = readTable(archive, `${name}.table`, inside, unit);
  const slope = numbersOf(archive, `${name}.slope`, size.dtype === "float32" ? "F32" : "F64", [table.channels]);
  const fence = readFence(archive, name, header.fence, size.inputs);
  const { update, replaces } = header;
  const sizes = upTo(size.outputs).map((p) => slope[p * (2 * inside.terms + 1) + 2 * inside.terms]); // that of F
  return { ...inside, name, update, replaces, table, fence, sizes, evidence: header.evidence ?? null, charts: [] };
}

function readFence(archive, name, density, inputs) {
  const open = numbersOf(archive, `${name}.fence`, "I32", [inputs, 2]);
  return fenceOf(density, open, numbersOf(archive, `${name}.domain`, "F64", [inputs, 2]));
}

/** A fence, of open functions (first, last) of each input on the lattice of a density. */
export function fenceOf(density, open, domain) {
  if (!(Number.isInteger(density) && density >= 0 && density <= 20)) {
    throw new FileError("The file is damaged: a fence has no density.");
  }
  const cells = cellCount(density);
  const clipped = (value, j) => Math.min(Math.max(value, domain[2 * j]), domain[2 * j + 1]);
  const box = new Float64Array(open.length);
  for (let j = 0; 2 * j < open.length; j++) {
    box[2 * j] = clipped((open[2 * j] - 3) / cells, j);
    box[2 * j + 1] = clipped((open[2 * j + 1] + 1) / cells, j);
  }
  return { density, cells, open, domain, box };
}

/** Where the window of a fence is one, in a domain: pairs of each input, empty if the lower is not below. */
export function coreOfFence(fence, domain) {
  return Float64Array.from(fence.open, (open, k) => {
    const edge = (k % 2 ? open - 2 : open) / fence.cells;
    return Math.min(Math.max(edge, domain[k - (k % 2)]), domain[k - (k % 2) + 1]);
  });
}

/** Window along one input: exactly 0 outside the box, exactly 1 where all four functions are open. */
export function windowAlong(fence, j, coordinate) {
  const scaled = coordinate * fence.cells;
  const cell = cellOfScaled(scaled, fence.cells);
  const [first, last] = [fence.open[2 * j], fence.open[2 * j + 1]];
  if (cell + 3 < first || cell > last) return 0;
  if (cell >= first && cell + 3 <= last) return 1;
  const weights = [0, 0, 0, 0];
  weightsAt(scaled - cell, weights);
  return weights.reduce((sum, weight, k) => (first <= cell + k && cell + k <= last ? sum + weight : sum), 0);
}

/** Window of a fence at a point, equation (22). */
export function windowOf(fence, point) {
  let window = 1;
  for (let j = 0; j < point.length && window; j++) window *= windowAlong(fence, j, point[j]);
  return window;
}

/** Coordinates in which the box of a fence is the unit cube. */
export function localPoint(fence, point) {
  return Float64Array.from(point, (value, j) => {
    const [low, high] = [fence.box[2 * j], fence.box[2 * j + 1]];
    return Math.min(Math.max((value - low) * (1 / (high - low)), 0), 1);
  });
}

/**
 * Outputs of a model at a point of its domain.
 *
 * @param {object} core A model of `readCore`.
 * @param {Float64Array} point As many coordinates as it has inputs; rounded as the model's dtype asks.
 * @returns {Float64Array}
 */
export function coreOutputs(core, point) {
  const at = Float64Array.from(point, core.round);
  const out = tableOutputs(core.table, at);
  completeOutputs(core, at, out);
  for (const chart of core.charts) {
    const window = windowOf(chart.fence, at);
    if (window) speak(chart, window, tableOutputs(chart.table, localPoint(chart.fence, at)), out);
  }
  return out;
}

/** Complete the outputs of the table: offsets, local terms, or another model beyond the end of a clock. */
function completeOutputs(core, point, out) {
  if (core.later && isLater(core.later, point)) {
    const inside = point.map((value) => Math.min(Math.max(value, 0), 1));
    out.set(tableOutputs(core.later.core.table, inside));
    completeOutputs(core.later.core, inside, out);
    return;
  }
  addOffsets(core, point, out);
  for (const terms of core.local) addLocal(terms, point, out);
}

function tableOutputs(table, point) {
  const [sums, out] = [new Float64Array(table.channels), new Float64Array(table.outputs)];
  addSums(table, point, upTo(table.inputs), sums);
  outputsOfSums(table, sums, out);
  return out;
}

/** Let a chart speak over what was said before, equation (23). */
function speak(chart, window, said, out) {
  const keep = 1 - (chart.replaces ? window : 0);
  for (let p = 0; p < out.length; p++) out[p] = keep * out[p] + window * chart.sizes[p] * said[p];
}

/**
 * Outputs of a model on a grid of points that differ in some inputs only.
 *
 * Sums of inputs add up, so those of the other inputs, and those along each side, are found once.
 *
 * @param {object} core
 * @param {Float64Array} point The point that all others are like.
 * @param {Array<Array<Map<number, number>>>} sides For each side of the grid the coordinates that replace some of
 *     the point's at each of its places, by input.
 * @returns {Float64Array} Outputs of all points, those along the last side next to each other.
 */
export function gridOutputs(core, point, sides) {
  const rounded = sides.map((places) => places.map((place) => new Map([...place].map(([j, x]) => [j, core.round(x)]))));
  const at = Float64Array.from(point, core.round);
  const counts = sides.map((places) => places.length);
  const out = new Float64Array(core.outputs * counts.reduce((product, count) => product * count, 1));
  const hasMore = core.offsets.size || core.local.length || core.later;
  eachOfGrid(core.table, at, rounded, (k, said) => {
    out.set(said, k * core.outputs);
    if (!hasMore) return;
    completeOutputs(core, pointOfGrid(at, rounded, k), out.subarray(k * core.outputs, (k + 1) * core.outputs));
  });
  for (const chart of core.charts) {
    const windows = rounded.map((places) => places.map((place) => windowAlongAll(chart.fence, place)));
    const moved = new Set(sides.flatMap((places) => [...places[0].keys()]));
    const still = upTo(core.inputs).filter((j) => !moved.has(j));
    const rest = still.reduce((product, j) => product * windowAlong(chart.fence, j, at[j]), 1);
    if (!rest || windows.some((along) => !along.some(Boolean))) continue;
    const local = rounded.map((places) => places.map((place) => localPlace(chart.fence, place)));
    eachOfGrid(chart.table, localPoint(chart.fence, at), local, (k, said) => {
      let [window, left] = [rest, k];
      for (let side = counts.length - 1; side >= 0; side--) {
        window *= windows[side][left % counts[side]];
        left = Math.floor(left / counts[side]);
      }
      if (window) speak(chart, window, said, out.subarray(k * core.outputs, (k + 1) * core.outputs));
    });
  }
  return out;
}

/** A point of a grid, by its number. */
function pointOfGrid(point, sides, number) {
  const [place, left] = [Float64Array.from(point), { number }];
  for (const places of [...sides].reverse()) {
    for (const [j, coordinate] of places[left.number % places.length]) place[j] = coordinate;
    left.number = Math.floor(left.number / places.length);
  }
  return place;
}

function windowAlongAll(fence, place) {
  return [...place].reduce((product, [j, coordinate]) => product * windowAlong(fence, j, coordinate), 1);
}

function localPlace(fence, place) {
  return new Map([...place].map(([j, x]) => {
    const [low, high] = [fence.box[2 * j], fence.box[2 * j + 1]];
    return [j, Math.min(Math.max((x - low) * (1 / (high - low)), 0), 1)];
  }));
}

/** Call `tell` with the number and the outputs of a table at each point of a grid, as `gridOutputs`. */
function eachOfGrid(table, point, sides, tell) {
  const moved = new Set(sides.flatMap((places) => [...places[0].keys()]));
  const fixed = new Float64Array(table.channels);
  addSums(table, point, upTo(table.inputs).filter((j) => !moved.has(j)), fixed);
  const along = sides.map((places) => places.map((place) => {
    const [sums, at] = [new Float64Array(table.channels), Float64Array.from(point)];
    for (const [j, coordinate] of place) at[j] = coordinate;
    addSums(table, at, [...place.keys()], sums);
    return sums;
  }));
  const [sums, out] = [new Float64Array(table.channels), new Float64Array(table.outputs)];
  const count = sides.reduce((product, places) => product * places.length, 1);
  for (let k = 0; k < count; k++) {
    sums.set(fixed);
    let left = k;
    for (let side = sides.length - 1; side >= 0; side--) {
      const more = along[side][left % sides[side].length];
      left = Math.floor(left / sides[side].length);
      for (let c = 0; c < sums.length; c++) sums[c] += more[c];
    }
    outputsOfSums(table, sums, out);
    tell(k, out);
  }
}
