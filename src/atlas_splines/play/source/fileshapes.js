/**
 * Shapes of a file's model: what it says along one column or over two, with all others as in a chosen row.
 */

import { limitsOfColumn, rawOf, unitOf } from "./columns.js";
import { coreOfFence, gridOutputs } from "./coremodel.js";
import { upTo } from "./coretables.js";
import { fenceReaches, footprintIntervals, shortNumber } from "./footprints.js";
import { clippedPoint, intervalAt, predictedValues, supportOf } from "./model.js";

/**
 * What can be drawn along: columns, and parts of dates.
 *
 * @returns {Array<object>} `name`, `kind` ("number" or "category"), `inputs` that move, `low` and `high`, or
 *     `categories`, and `field`, the column of the table that is alone on it, or null.
 */
export function axesOf(model) {
  const { columns, core } = model;
  return columns.fields.flatMap((field, number) => {
    const inputs = upTo(field.size).map((k) => field.first + k);
    if (field.kind === "category") {
      const { name, kind, categories, oneHot } = field;
      return [{ name, kind, inputs, categories, oneHot, field: number }];
    }
    return inputs.map((j) => {
      const [low, high] = limitsOfColumn(columns, core.domain, j);
      const alone = field.kind === "date" ? null : number;
      return { name: columns.names[j], kind: "number", inputs: [j], low, high, field: alone };
    });
  });
}

/** Values along an axis: all categories, or so many numbers from end to end, or in the middles of even parts. */
export function valuesAlong(axis, count, inMiddles = false) {
  if (axis.kind === "category") return axis.categories;
  const [shift, parts] = inMiddles ? [0.5, count] : [0, count - 1];
  return upTo(count).map((k) => axis.low + ((k + shift) / parts) * (axis.high - axis.low));
}

/** Coordinates, by input, that a value of an axis gives to a point. */
function placeOnAxis(model, axis, value, k) {
  const { columns, core } = model;
  const clip = (unit, j) => Math.min(Math.max(unit, core.domain[2 * j]), core.domain[2 * j + 1]);
  const raw = (j) => (axis.kind === "number" ? value : axis.oneHot ? Number(j - axis.inputs[0] === k) : k);
  const place = new Map(axis.inputs.map((j) => [j, clip(unitOf(columns, j, raw(j)), j)]));
  columns.indicators.forEach((column, i) => {
    if (axis.inputs.includes(column)) place.set(columns.count + i, 0); // a value that is there is not missing
  });
  return place;
}

/** A point with some coordinates of others. */
function movedPoint(point, ...places) {
  const moved = Float64Array.from(point);
  for (const place of places) for (const [j, coordinate] of place) moved[j] = coordinate;
  return moved;
}

/**
 * What is said along an axis.
 *
 * @param {object} model
 * @param {object} axis One of `axesOf`.
 * @param {Float64Array} point Coordinates of the row that all others are like.
 * @param {{count: number, coverage: number}} options
 * @returns {object} `values` along the axis; `said`, a list for each target or class; `low` and `high` of intervals
 *     and `support`, or null where the model does not know them.
 */
export function shapeAlong(model, axis, point, { count, coverage }) {
  const values = valuesAlong(axis, count);
  const base = clippedPoint(model, point);
  const places = values.map((value, k) => placeOnAxis(model, axis, value, k));
  const outputs = gridOutputs(model.core, base, [places]);
  const points = places.map((place) => movedPoint(base, place));
  const width = model.core.outputs;
  const outputsOf = (k) => Array.from(outputs.subarray(k * width, (k + 1) * width));
  const said = points.map((at, k) => predictedValues(model, at, outputsOf(k)));
  const series = (rows) => upTo(width).map((p) => rows.map((row) => row[p]));
  const ends = model.doubt && !model.labels ? points.map((at) => intervalAt(model, at, coverage)) : null;
  return {
    values,
    said: series(said),
    low: ends && series(ends.map((end) => end.low)),
    high: ends && series(ends.map((end) => end.high)),
    support: model.doubt?.support ? points.map((at) => supportOf(model, at)) : null,
  };
}

/**
 * What is said over two axes.
 *
 * @returns {object} `xs` and `ys`, and `said` of one target or class, row by row from the lowest y on; `support`, on a
 *     coarser grid of `supportSize`, is null where the model does not know it.
 */
export function shapeOver(model, axes, point, { output, count, supportCount }) {
  const base = clippedPoint(model, point);
  const grids = axes.map((axis) => valuesAlong(axis, count, true));
  const [xPlaces, yPlaces] = axes.map((axis, side) =>
    grids[side].map((value, k) => placeOnAxis(model, axis, value, k)));
  const outputs = gridOutputs(model.core, base, [yPlaces, xPlaces]);
  const width = model.core.outputs;
  const said = new Float64Array(xPlaces.length * yPlaces.length);
  for (let k = 0; k < said.length; k++) {
    const at = movedPoint(base, yPlaces[Math.floor(k / xPlaces.length)], xPlaces[k % xPlaces.length]);
    said[k] = predictedValues(model, at, Array.from(outputs.subarray(k * width, (k + 1) * width)))[output];
  }
  const [xs, ys] = grids;
  return { xs, ys, said, support: supportOver(model, axes, base, supportCount) };
}

function supportOver(model, axes, base, count) {
  if (!model.doubt?.support) return null;
  const [xs, ys] = axes.map((axis) =>
    valuesAlong(axis, count, true).map((value, k) => placeOnAxis(model, axis, value, k)));
  const values = ys.flatMap((y) => xs.map((x) => supportOf(model, movedPoint(base, y, x))));
  return { values: Float64Array.from(values), width: xs.length, height: ys.length };
}

/**
 * Where a footprint is in a picture along one axis or over two.
 *
 * @returns {Array<object>} Areas: `sides`, for each axis a [low, high] of numbers or a list of places of categories;
 *     `isHere`, whether the chosen row lies in it in all other columns; and `isHole`, whether nothing changes there.
 */
export function areasOf(model, footprint, axes, point) {
  const base = clippedPoint(model, point).map(model.core.round);
  const moving = new Set(axes.flatMap((axis) => axis.inputs));
  const still = upTo(model.core.inputs).filter((j) => !moving.has(j));
  const whole = axes.map((axis) => (axis.kind === "number" ? [axis.low, axis.high] : upTo(axis.categories.length)));
  if (footprint.type === "cross") return crossAreas(model, footprint, axes, base, still, whole);
  const isRest = footprint.type === "rest"; // all but where some charts speak alone
  const boxes = footprint.fences.map((fence) => ({
    sides: axes.map((axis) => sideOf(model, axis, isRest ? coreOfFence(fence, footprint.domain) : fence.box)),
    isHere: still.every((j) => fenceReaches(fence, j, base[j])),
    isHole: isRest,
  }));
  const drawn = boxes.filter(({ sides }) => sides.every((side) => side.length));
  return isRest ? [{ sides: whole, isHere: true, isHole: false }, ...drawn] : drawn;
}

/** A row in the middle of the first box of a footprint, as cells; its dates are those of another row. */
export function rowInside(model, footprint, row) {
  const inside = [...row];
  for (const axis of footprint.type === "boxes" ? axesOf(model) : []) {
    const side = sideOf(model, axis, footprint.fences[0].box);
    if (axis.field === null || !side.length) continue;
    const [low, high] = side;
    const isNumber = axis.kind === "number";
    inside[axis.field] = isNumber ? Number(shortNumber((low + high) / 2, high - low)) : axis.categories[low];
  }
  return inside;
}

/** The part of an axis that a box has. */
function sideOf(model, axis, box) {
  const { columns } = model;
  if (axis.kind === "number") {
    const [j] = axis.inputs;
    const ends = [box[2 * j], box[2 * j + 1]].map((unit) => rawOf(columns, j, unit));
    return ends[0] < ends[1] ? ends : [];
  }
  const has = (j, value) => {
    const unit = unitOf(columns, j, value);
    return box[2 * j] <= unit && unit <= box[2 * j + 1];
  };
  const first = axis.inputs[0];
  return upTo(axis.categories.length).filter((k) =>
    axis.oneHot ? axis.inputs.every((j) => has(j, Number(j - first === k))) : has(first, k));
}

/** A cross is a band along each axis; it is everything if the chosen row shares another coordinate with it. */
function crossAreas(model, footprint, axes, base, still, whole) {
  const isEverywhere = still.some((j) =>
    footprintIntervals(footprint, j).some(([low, high]) => low <= base[j] && base[j] <= high));
  if (isEverywhere) return [{ sides: whole, isHere: true, isHole: false }];
  return axes.flatMap((axis, side) => axis.inputs.flatMap((j) =>
    footprintIntervals(footprint, j).map(([low, high]) => {
      const box = Float64Array.from(footprint.domain);
      [box[2 * j], box[2 * j + 1]] = [low, high];
      const sides = whole.map((all, k) => (k === side ? sideOf(model, axis, box) : all));
      return { sides, isHere: true, isHole: false };
    }))).filter(({ sides }) => sides.every((side) => side.length));
}
