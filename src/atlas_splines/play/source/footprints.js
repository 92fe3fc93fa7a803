/**
 * The log of a file's model: its updates, and where each could change predictions.
 */

import { FileError, numbersOf } from "./archive.js";
import { limitsOfColumn, mayMiss, rawOf, unitOf, unitOfFill } from "./columns.js";
import { coreOfFence, fenceOf, windowOf } from "./coremodel.js";
import { cellOfScaled, upTo } from "./coretables.js";
import { cellCount } from "./splines.js";

const MEASURES = {
  auto: "RMSE",
  squared_error: "RMSE",
  quantile: "RMSE",
  absolute_error: "MAE",
  huber: "Huber loss",
  poisson: "deviance",
};
const MOST_EXACT_BOXES = 12; // whose union is measured exactly
const RANDOM_ROWS = 20_000; // that a share is measured with otherwise
const NEAR_EDGE = 1e-6; // of the unit cube: what reaches so near to an end goes on beyond it

/**
 * The log of a model, oldest entry first.
 *
 * @returns {Array<object>} `id`, `kind`, `time`, `rows`, `reverted`, `reason`, `message` and `author`; of updates
 *     also `measure`, `before` and `after` with the errors on their rows, held out if `isHeldOut`, and the `footprint`.
 */
export function updatesOf(model) {
  return model.log.map((entry, k) => {
    const { id = null, kind, time, rows, reverted = null, reason = "", message = "", author = "" } = entry;
    const shared = { id, kind, time, rows, reverted, reason, message, author };
    if (entry.type === "folded") return { ...shared, count: entry.count, last: entry.last, since: entry.since };
    if (entry.type !== "update") return shared;
    const heldOut = entry.assessed?.held_out ?? null;
    const losses = [entry.error_before, heldOut ? heldOut.error : entry.error_after];
    const [before, after] = losses.map((loss) => errorOf(model, loss));
    const errors = { measure: measureOf(model), before, after, isHeldOut: heldOut !== null };
    return { ...shared, ...errors, footprint: readFootprint(model, entry, k) };
  });
}

function measureOf(model) {
  if (model.kind !== "regressor") return model.labels ? "log loss" : "loss";
  const { loss } = model.parameters;
  return MEASURES[loss] + (model.scale.length === 1 && loss !== "huber" ? "" : " in standard deviations");
}

/** A loss of the model as an error in the units of the target. */
function errorOf(model, loss) {
  const value = Number(loss === "inf" ? Infinity : loss);
  const measure = model.kind === "regressor" ? MEASURES[model.parameters.loss] : null;
  const unit = model.scale.length === 1 ? model.scale[0] : 1;
  return { RMSE: unit * Math.sqrt(value), MAE: unit * value, deviance: unit ** 2 * value }[measure] ?? value;
}

function readFootprint(model, entry, k) {
  const { archive, core } = model;
  const { type, densities } = entry.footprint;
  const name = `model.updates.${k}`;
  const domain = numbersOf(archive, `${name}.domain`, "F64", [core.inputs, 2]);
  if (type === "cross") {
    const counts = Array.from(numbersOf(archive, `${name}.counts`, "I64", [core.inputs]), Number);
    const cells = Array.from(numbersOf(archive, `${name}.touched`, "I64", [null]), Number);
    let begin = 0;
    const touched = counts.map((count) => cells.slice(begin, (begin += count)));
    return { type, domain, cells: cellCount(densities[0]), touched };
  }
  if (!["boxes", "rest"].includes(type)) throw new FileError("The file is damaged: a footprint is of no known type.");
  const open = numbersOf(archive, `${name}.fences`, "I32", [densities.length, core.inputs, 2]);
  const width = 2 * core.inputs;
  const fences = densities.map((density, f) => fenceOf(density, open.subarray(f * width, (f + 1) * width), domain));
  return { type, domain, fences };
}

/** Whether an update could change the prediction at a point, in the model's rounding. */
export function footprintContains(footprint, point) {
  const cellAlong = (j, cells) => cellOfScaled(point[j] * cells, cells);
  if (footprint.type === "cross") {
    return footprint.touched.some((cells, j) => cells.includes(cellAlong(j, footprint.cells)));
  }
  if (footprint.type === "rest") return footprint.fences.every((fence) => windowOf(fence, point) !== 1);
  return footprint.fences.some((fence) => upTo(point.length).every((j) => fenceReaches(fence, j, point[j])));
}

/** Whether the box of a fence has a coordinate along an input. */
export function fenceReaches(fence, j, coordinate) {
  const cell = cellOfScaled(coordinate * fence.cells, fence.cells);
  return cell >= fence.open[2 * j] - 3 && cell <= fence.open[2 * j + 1];
}

/** Parts of one input that a footprint projects to, rising, as pairs of coordinates. */
export function footprintIntervals(footprint, j) {
  const [low, high] = footprint.domain.subarray(2 * j, 2 * j + 2);
  if (footprint.type === "rest") return [[low, high]];
  const cells = footprint.cells;
  const parts = footprint.type === "cross"
    ? footprint.touched[j].map((cell) => [Math.max(cell / cells, low), Math.min((cell + 1) / cells, high)])
    : footprint.fences.map(({ box }) => [box[2 * j], box[2 * j + 1]]);
  return mergedIntervals(parts.filter(([begin, end]) => begin < end));
}

function mergedIntervals(intervals) {
  const merged = [];
  for (const [low, high] of [...intervals].sort((a, b) => a[0] - b[0])) {
    const last = merged[merged.length - 1];
    if (last && low <= last[1]) last[1] = Math.max(last[1], high);
    else merged.push([low, high]);
  }
  return merged;
}

// --- in words ------------------------------------------------------------------------------------------

/** For each column where a footprint is, in the column's own values. */
export function footprintLines(model, footprint) {
  const { columns } = model;
  return columns.fields.flatMap((field) => {
    const parts = upTo(field.size).map((k) => footprintIntervals(footprint, field.first + k));
    if (field.kind === "category") return [{ name: field.name, text: coveredCategories(columns, field, parts) }];
    return parts.map((intervals, k) => {
      const j = field.first + k;
      const [low, high] = footprint.domain.subarray(2 * j, 2 * j + 2);
      const [lowest, highest] = limitsOfColumn(columns, footprint.domain, j);
      const words = intervals.map(([begin, end]) => {
        const [from, to] = [begin, end].map((unit) => shortNumber(rawOf(columns, j, unit), highest - lowest));
        const [goesDown, goesUp] = [begin <= low + NEAR_EDGE, end >= high - NEAR_EDGE];
        if (goesDown && goesUp) return "any value";
        return goesDown ? `${to} or less` : goesUp ? `${from} or more` : `${from} to ${to}`;
      });
      const missing = missingIsIn(columns, footprint, j) ? ", or missing" : "";
      return { name: columns.names[j], text: (words.join(" and ") || "nowhere") + missing };
    });
  });
}

function isWithin(unit, intervals) {
  return intervals.some(([low, high]) => low <= unit + NEAR_EDGE && unit - NEAR_EDGE <= high);
}

/** Whether rows without this number can change too: they are read as its median, and marked as missing. */
function missingIsIn(columns, footprint, j) {
  if (!columns.missing || !isWithin(unitOfFill(columns, j), footprintIntervals(footprint, j))) return false;
  const mark = columns.indicators.indexOf(j);
  return mark < 0 || isWithin(1, footprintIntervals(footprint, columns.count + mark));
}

function coveredCategories(columns, field, parts) {
  const has = (k, value) => isWithin(unitOf(columns, field.first + k, value), parts[k]);
  const found = field.categories.filter((_, k) =>
    field.oneHot ? parts.every((__, other) => has(other, Number(other === k))) : has(0, k));
  const isMissingIn = field.oneHot ? parts.every((_, k) => has(k, 0))
    : field.categories.length > 2 ? isWithin(unitOfFill(columns, field.first), parts[0]) : has(0, 0.5);
  const more = found.length > 8 ? [`${found.length - 8} more`] : [];
  if (mayMiss(columns, field) && isMissingIn) more.push("missing");
  return [...found.slice(0, 8), ...more].join(", ") || "nowhere";
}

/** A number with as many digits as matter in something of a width. */
export function shortNumber(value, width) {
  if (!Number.isFinite(value)) return String(value);
  const digits = Math.min(Math.max(3 - Math.floor(Math.log10(width || 1)), 0), 12);
  const text = value.toFixed(digits);
  return (text.includes(".") ? text.replace(/\.?0+$/, "") : text).replace(/^-0$/, "0");
}

// --- shares --------------------------------------------------------------------------------------------

/**
 * Share of the domain of then that an update could change, in words.
 *
 * Each category counts as much as the others, so with categories it is the share of random rows.
 */
export function shareInWords(model, footprint) {
  const isPlain = model.columns.fields.every((field) => field.kind !== "category");
  const exact = isPlain ? exactShare(footprint) : null;
  const share = exact ?? sampledShare(model, footprint);
  if (share >= 1) return "all of the domain";
  if (share < 0.0001) return "less than 0.01 % of the domain";
  return `${exact === null ? `about ${(100 * share).toFixed(1)}` : (100 * share).toFixed(2)} % of the domain`;
}

function exactShare(footprint) {
  const { domain } = footprint;
  const width = (j) => domain[2 * j + 1] - domain[2 * j];
  if (footprint.type === "cross") {
    return 1 - footprint.touched.reduce((missed, _, j) => {
      const length = footprintIntervals(footprint, j).reduce((sum, [low, high]) => sum + high - low, 0);
      return missed * (1 - length / width(j));
    }, 1);
  }
  if (footprint.fences.length > MOST_EXACT_BOXES) return null;
  const boxes = footprint.fences.map((fence) => (footprint.type === "rest" ? coreOfFence(fence, domain) : fence.box));
  const union = unionShare(boxes, domain);
  return footprint.type === "rest" ? 1 - union : union;
}

/** Share of a union of boxes, by inclusion and exclusion. */
function unionShare(boxes, domain) {
  let total = 0;
  const visit = (begin, low, high, sign) => {
    for (let k = begin; k < boxes.length; k++) {
      const from = low.map((value, j) => Math.max(value, boxes[k][2 * j]));
      const to = high.map((value, j) => Math.min(value, boxes[k][2 * j + 1]));
      const share = (j) => Math.max(to[j] - from[j], 0) / (domain[2 * j + 1] - domain[2 * j]);
      const volume = from.reduce((product, _, j) => product * share(j), 1);
      if (volume <= 0) continue;
      total += sign * volume;
      visit(k + 1, from, to, -sign);
    }
  };
  visit(0, Array.from(domain).filter((_, k) => k % 2 === 0), Array.from(domain).filter((_, k) => k % 2), 1);
  return total;
}

function sampledShare(model, footprint) {
  const { columns, core } = model;
  const random = evenNumbers(1);
  const { domain } = footprint;
  let found = 0;
  for (let row = 0; row < RANDOM_ROWS; row++) {
    const point = new Float64Array(core.inputs); // no value is missing
    for (const field of columns.fields) {
      const chosen = field.kind === "category" ? Math.floor(random() * field.categories.length) : 0;
      for (let j = field.first; j < field.first + field.size; j++) {
        if (field.kind !== "category") point[j] = domain[2 * j] + random() * (domain[2 * j + 1] - domain[2 * j]);
        else point[j] = unitOf(columns, j, field.oneHot ? Number(j - field.first === chosen) : chosen);
      }
    }
    found += footprintContains(footprint, point.map(core.round));
  }
  return found / RANDOM_ROWS;
}

/** Numbers from 0 to 1 that look random and are always the same: mulberry32. */
function evenNumbers(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
