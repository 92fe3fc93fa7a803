/**
 * Coefficient tables of a file, and what they say at points: equations (2) to (7) and (26) of docs/math.md.
 *
 * All arithmetic is in float64, whatever the coefficients are stored as.
 */

import { FileError, numbersOf } from "./archive.js";
import { cellCount } from "./splines.js";

/** Cell of a scaled coordinate on the lattice that goes on beyond the unit cube. */
export function cellOfScaled(scaled, cells) {
  return scaled < cells ? Math.floor(scaled) : Math.ceil(scaled) - 1;
}

/** Weights of the four functions that are active at t in a cell, into `weights`. */
export function weightsAt(t, weights) {
  const u = 1 - t;
  weights[0] = (u * u * u) / 6;
  weights[1] = (t * t * (3 * t - 6) + 4) / 6;
  weights[2] = (u * u * (3 * u - 6) + 4) / 6;
  weights[3] = (t * t * t) / 6;
}

/** Rounds numbers as a model of that dtype does. */
export function roundingOf(dtype) {
  return dtype === "float32" ? Math.fround : (number) => number;
}

/**
 * A coefficient table with what is needed to read it.
 *
 * @param {object} archive
 * @param {string} name Name of the tensor.
 * @param {{inputs: number, outputs: number, terms: number, density: number, damping: number, dtype: string}} size
 * @param {Float64Array} domain Lowest and highest coordinate of each input, one pair after the other.
 */
export function readTable(archive, name, size, domain) {
  const { inputs, outputs, terms, density, damping, dtype } = size;
  const channels = outputs * (2 * terms + 1);
  const families = familiesOf(inputs, density, domain, roundingOf(dtype));
  const last = families[families.length - 1];
  const rows = last.start + last.highest - last.lowest + 4;
  const table = numbersOf(archive, name, dtype === "float32" ? "F32" : "F64", [rows, channels]);
  const scale = Float64Array.from({ length: terms }, (_, k) => Math.exp(-damping) / (k + 1) ** 2);
  const filled = [];
  for (let d = 0; d <= density; d++) {
    const begin = families[d * inputs].start * channels;
    const end = d < density ? families[(d + 1) * inputs].start * channels : table.length;
    if (table.subarray(begin, end).some((value) => value !== 0)) filled.push(d);
  }
  return { inputs, outputs, terms, channels, table, families, filled, scale };
}

/** For each density and input: its lowest and highest cell in the domain, and its first row. */
function familiesOf(inputs, density, domain, round) {
  const families = [];
  let start = 0;
  for (let d = 0; d <= density; d++) {
    const cells = cellCount(d);
    for (let j = 0; j < inputs; j++) {
      const [lowest, highest] = [0, 1].map((end) => cellOfScaled(round(round(domain[2 * j + end]) * cells), cells));
      families.push({ start, lowest, highest });
      start += highest - lowest + 4;
    }
  }
  return families;
}

/** Add what some inputs of a point contribute to the sums G, H and F of all outputs. */
export function addSums(core, point, inputs, sums) {
  const { table, channels } = core;
  const weights = [0, 0, 0, 0];
  for (const density of core.filled) {
    const cells = cellCount(density);
    for (const j of inputs) {
      const { start, lowest, highest } = core.families[density * core.inputs + j];
      const scaled = point[j] * cells;
      const cell = Math.min(Math.max(cellOfScaled(scaled, cells), lowest), highest);
      weightsAt(scaled - cell, weights);
      const [w0, w1, w2, w3] = weights;
      const first = (start + cell - lowest) * channels;
      const [second, third, fourth] = [first + channels, first + 2 * channels, first + 3 * channels];
      for (let c = 0; c < channels; c++) {
        sums[c] += w0 * table[first + c] + w1 * table[second + c] + (w2 * table[third + c] + w3 * table[fourth + c]);
      }
    }
  }
}

/** Outputs of the sums at a point, equation (6), into `out`. */
export function outputsOfSums(core, sums, out) {
  const { terms, scale } = core;
  for (let p = 0; p < core.outputs; p++) {
    const g = p * (2 * terms + 1);
    let total = sums[g + 2 * terms];
    for (let k = 0; k < terms; k++) total += scale[k] * (Math.exp(sums[g + k]) - Math.exp(sums[g + terms + k]));
    out[p] = total;
  }
}

/** Numbers from 0 to `count` − 1. */
export function upTo(count) {
  return Array.from({ length: count }, (_, k) => k);
}

/** Read a configuration as files have it, or say that it is none. */
export function readConfiguration(value) {
  const { inputs, outputs, terms, density, dtype } = value ?? {};
  const sizes = [inputs, outputs].every((size) => Number.isInteger(size) && size >= 1);
  const more = [terms, density].every((size) => Number.isInteger(size) && size >= 0) && density <= 20;
  if (!sizes || !more || !["float32", "float64"].includes(dtype)) {
    throw new FileError("The file is damaged: the configuration of its model is not one.");
  }
  return { inputs, outputs, terms, density, dtype, damping: value.damping ?? 0 };
}
