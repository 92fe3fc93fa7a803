/**
 * Local terms of a file: Laplace kernels around rows that the model keeps, each confined to the box of its centre,
 * equation (47), and the model that predicts beyond the end of a clock.
 *
 * All arithmetic is in float64, at points that are rounded to float32.
 */

import { FileError, numbersOf } from "./archive.js";
import { upTo } from "./coretables.js";

const DEEPEST = 200; // levels of a tree of boxes
const SEGMENTS = 9; // format version from which on points of one update are not merged with those of others
const GROWTH = 1.5; // of rows, until all of them are one segment
const ALL_BITS = 2n ** 64n - 1n;

/**
 * Read all local terms of a model.
 *
 * @param {object} archive
 * @param {string} name Name of the tensors, up to the number of the terms.
 * @param {number} count How many there are.
 * @param {{inputs: number, outputs: number}} size
 */
export function readLocal(archive, name, count, { inputs, outputs }) {
  return upTo(count).map((k) => {
    const own = `${name}.${k}`;
    const hasCentres = archive.tensors.has(`${own}.centres`);
    const centres = hasCentres ? numbersOf(archive, `${own}.centres`, "F32", [null, inputs]) : keptPoints(archive, inputs);
    const nodes = numbersOf(archive, `${own}.nodes`, "I32", [null, 3]);
    const cuts = numbersOf(archive, `${own}.cuts`, "F32", [nodes.length / 3]);
    const boxes = checkedBoxes(nodes, inputs);
    const rates = numbersOf(archive, `${own}.rates`, "F32", [inputs]);
    const weights = numbersOf(archive, `${own}.weights`, "F32", [centres.length / inputs, outputs]);
    const constants = numbersOf(archive, `${own}.constants`, "F32", [boxes, outputs]);
    const active = upTo(inputs).filter((j) => rates[j] > 0);
    const terms = { inputs, outputs, nodes, cuts, rates, centres, weights, constants, active };
    return { ...terms, members: membersOf(terms, boxes) };
  });
}

/** Number of boxes of a tree whose nodes lead to nodes, inputs and boxes that are there. */
function checkedBoxes(nodes, inputs) {
  const count = nodes.length / 3;
  const starts = upTo(count).map((node) => 3 * node);
  const boxes = starts.filter((at) => nodes[at] === -1).length;
  const isThere = (number, most) => number >= 0 && number < most;
  const fits = starts.every((at) => {
    if (nodes[at] === -1) return isThere(nodes[at + 1], boxes);
    return isThere(nodes[at], inputs) && isThere(nodes[at + 1], count) && isThere(nodes[at + 2], count);
  });
  if (!count || !fits) throw new FileError("The file is damaged: its boxes are not a tree.");
  return boxes;
}

/** Numbers of the terms of each box. */
function membersOf(terms, boxes) {
  const { centres, inputs } = terms;
  const members = upTo(boxes).map(() => []);
  for (let k = 0; k * inputs < centres.length; k++) {
    members[boxOf(terms, centres.subarray(k * inputs, (k + 1) * inputs))].push(k);
  }
  return members;
}

/** Number of the box of a point of the unit cube. */
function boxOf({ nodes, cuts }, point) {
  let node = 0;
  for (let level = 0; level <= DEEPEST; level++) {
    const input = nodes[3 * node];
    if (input < 0) return nodes[3 * node + 1];
    node = nodes[3 * node + (point[input] <= cuts[node] ? 1 : 2)];
  }
  throw new FileError("The file is damaged: its boxes are not a tree.");
}

/** Add local terms at a point to outputs; beyond the unit cube the nearest point of it counts. */
export function addLocal(terms, point, out) {
  const { inputs, outputs, rates, centres, weights, constants, active } = terms;
  const at = Float64Array.from(point, (value) => Math.fround(Math.min(Math.max(value, 0), 1)));
  const box = boxOf(terms, at);
  for (const k of terms.members[box]) {
    let distance = 0;
    for (const j of active) distance += rates[j] * Math.abs(at[j] - centres[k * inputs + j]);
    const kernel = Math.exp(-distance);
    for (let p = 0; p < outputs; p++) out[p] += kernel * weights[k * outputs + p];
  }
  for (let p = 0; p < outputs; p++) out[p] += constants[box * outputs + p];
}

// --- rows that are kept ----------------------------------------------------------------------------------

/** The different points of each segment of the rows that a model keeps, by their hashes: centres of its terms. */
function keptPoints(archive, inputs) {
  if (!archive.tensors.has("model.evidence.memory.points")) {
    throw new FileError("The model keeps so many rows that its file has them as columns alone, which this page does not read.");
  }
  const { budget } = archive.header.model.evidence.memory;
  const runs = numbersOf(archive, "model.evidence.memory.updates", "I64", [null, 2]);
  const points = numbersOf(archive, "model.evidence.memory.points", "F32", [inputs, null]);
  const rows = points.length / inputs;
  const starts = archive.version < SEGMENTS || rows > budget ? [Math.max(rows - budget, 0)] : segmentStarts(runs);
  archive.keptPoints ??= differentPoints(points, inputs, starts);
  return archive.keptPoints;
}

/** Where segments start: all rows up to the last time that they had grown by half, then those of each update. */
function segmentStarts(runs) {
  const ends = [];
  for (let k = 0; 2 * k < runs.length; k++) ends.push((ends[k - 1] ?? 0) + Number(runs[2 * k + 1]));
  let first = 0;
  ends.forEach((end, k) => {
    if (end > GROWTH * ends[first]) first = k;
  });
  return [0, ...ends.slice(first, -1)];
}

/** Different points of each segment of rows; rows before the first segment are there to undo updates. */
function differentPoints(columns, inputs, starts) {
  const rows = columns.length / inputs;
  const hashes = new BigUint64Array(rows);
  for (let j = 0; j < inputs; j++) {
    const bits = new BigUint64Array(Float64Array.from(columns.subarray(j * rows, (j + 1) * rows), (x) => x + 0).buffer);
    for (let row = 0; row < rows; row++) hashes[row] = mixed(hashes[row], bits[row]);
  }
  const first = starts.flatMap((start, k) => {
    const order = upTo(rows).slice(start, starts[k + 1] ?? rows);
    order.sort((a, b) => (hashes[a] < hashes[b] ? -1 : Number(hashes[a] > hashes[b])));
    return order.filter((row, place) => !place || hashes[row] !== hashes[order[place - 1]]);
  });
  const points = new Float32Array(first.length * inputs);
  first.forEach((row, place) => {
    for (let j = 0; j < inputs; j++) points[place * inputs + j] = columns[j * rows + row];
  });
  return points;
}

/** A hash that goes on by the bits of one more number. */
function mixed(hash, bits) {
  let h = ((hash + 0x9e3779b97f4a7c15n) & ALL_BITS) ^ bits;
  h = ((h ^ (h >> 30n)) * 0xbf58476d1ce4e5b9n) & ALL_BITS;
  h = ((h ^ (h >> 27n)) * 0x94d049bb133111ebn) & ALL_BITS;
  return h ^ (h >> 31n);
}

// --- beyond the end of a clock ---------------------------------------------------------------------------

/** Clocks, their ends and the slopes beyond the domain; the model that predicts there is `core`. */
export function readClocks(archive, core, { inputs, outputs }) {
  const clocks = Array.from(numbersOf(archive, "model.later.clocks", "I64", [null]), Number);
  if (!clocks.length || clocks.some((j) => !(j >= 0 && j < inputs))) {
    throw new FileError("The file is damaged: a clock is of no input.");
  }
  const signs = numbersOf(archive, "model.later.signs", "I32", [clocks.length]);
  const ends = numbersOf(archive, "model.later.ends", "F32", [clocks.length]);
  return { core, clocks, signs, ends, slopes: numbersOf(archive, "model.later.slopes", "F32", [inputs, outputs]) };
}

/** Whether a point lies beyond the end of a clock. */
export function isLater({ clocks, signs, ends }, point) {
  return clocks.some((j, k) => (Math.fround(point[j]) - ends[k]) * signs[k] > 0);
}
