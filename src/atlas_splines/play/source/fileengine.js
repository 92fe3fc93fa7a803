/**
 * The opened file behind messages: what the tab of model files asks the worker for.
 */

import { asFileError, FileError } from "./archive.js";
import { encodeRow, unitPoint } from "./columns.js";
import { areasOf, axesOf, rowInside, shapeAlong, shapeOver } from "./fileshapes.js";
import { footprintLines, shareInWords, shortNumber, updatesOf } from "./footprints.js";
import { columnsOf, intervalAt, predictionAt, readModel, supportOf } from "./model.js";

const CURVE_POINTS = 201;
const MAP_POINTS = 64; // along each side
const SUPPORT_POINTS = 16;
const MOST_MAP_WORK = 2e8; // exponentials in a map: larger models get a coarser one

const openedFile = { model: null, axes: null, updates: null };

/** What the page can ask for; each takes a payload and returns an answer, or a promise of one. */
export const fileHandlers = {
  fileOpen: guarded(openModel),
  fileRow: guarded(predictRow),
  fileCurve: guarded(drawAlong),
  fileMap: guarded(drawOver),
  fileAreas: guarded(outlineUpdate),
  fileInside: guarded(goInside),
};

/** Whatever fails says so in one sentence. */
function guarded(handler) {
  return async (payload) => {
    try {
      return await handler(payload);
    } catch (error) {
      throw asFileError(error);
    }
  };
}

async function openModel({ buffer }) {
  const model = await readModel(buffer);
  const opened = { model, axes: axesOf(model), updates: updatesOf(model) };
  const description = descriptionOf(opened);
  Object.assign(openedFile, opened);
  return description;
}

function predictRow({ row, coverage }) {
  const { model } = neededFile();
  const point = pointOf(model, row);
  const { values = null, probabilities = null, label = null, isInside } = predictionAt(model, point);
  const interval = model.doubt ? intervalAt(model, point, coverage) : null;
  const support = model.doubt?.support ? supportOf(model, point) : null;
  return { values, probabilities, label, isInside, interval, support };
}

function drawAlong({ axis, row, coverage }) {
  const { model, axes } = neededFile();
  return shapeAlong(model, axes[axis], pointOf(model, row), { count: CURVE_POINTS, coverage });
}

function drawOver({ axes: chosen, row, output }) {
  const { model, axes } = neededFile();
  const work = model.core.table.channels * MAP_POINTS ** 2;
  const count = Math.max(Math.floor(MAP_POINTS / Math.sqrt(Math.max(work / MOST_MAP_WORK, 1))), 24);
  const options = { output, count, supportCount: SUPPORT_POINTS };
  return shapeOver(model, chosen.map((k) => axes[k]), pointOf(model, row), options);
}

function outlineUpdate({ update, axes: chosen, row }) {
  const { model, axes, updates } = neededFile();
  return areasOf(model, updates[update].footprint, chosen.map((k) => axes[k]), pointOf(model, row));
}

function goInside({ update, row }) {
  const { model, updates } = neededFile();
  return rowInside(model, updates[update].footprint, row);
}

function neededFile() {
  if (!openedFile.model) throw new FileError("No file is open; drop one on this page.");
  return openedFile;
}

function pointOf(model, row) {
  return unitPoint(model.columns, encodeRow(model.columns, row));
}

/** All that the tab shows before anything is asked. */
function descriptionOf({ model, axes, updates }) {
  const { core, kind, version, checksum, labels, target, fit } = model;
  const { inputs, outputs, terms, density, charts } = core;
  return {
    kind, version, checksum, labels, target, fit, axes,
    targets: labels ? labels.map(String) : outputs === 1 ? [target ?? "prediction"] : axisNames(outputs),
    size: { inputs, outputs, terms, density, coefficients: core.table.table.length, charts: charts.length },
    columns: columnsOf(model),
    decimal: model.columns.dialect?.decimal ?? ".",
    row: typicalRow(model),
    hasInterval: Boolean(model.doubt),
    hasSupport: Boolean(model.doubt?.support),
    updates: updates.map(({ footprint, ...entry }) => {
      if (!footprint) return { ...entry, hasFootprint: false };
      const place = { share: shareInWords(model, footprint), lines: footprintLines(model, footprint) };
      return { ...entry, ...place, type: footprint.type, hasFootprint: true };
    }),
  };
}

function axisNames(count) {
  return Array.from({ length: count }, (_, k) => `target ${k}`);
}

/** A row of medians, and of the first categories, as cells. */
function typicalRow(model) {
  const { columns } = model;
  return columnsOf(model).map((column, k) => {
    const { first, calendar } = columns.fields[k];
    if (column.kind === "category") return column.categories[0];
    if (column.kind === "number") return Number(shortNumber(columns.fill[first], column.high - column.low));
    return typicalDate(calendar, (part) => columns.fill[first + calendar.parts.indexOf(part)]);
  });
}

/** The date in the middle of those that the model has seen, as the page's input for dates writes it. */
function typicalDate(calendar, fillOf) {
  const has = (part) => calendar.parts.includes(part);
  const hour = has("hour") ? fillOf("hour") : 12;
  const clock = `${String(Math.floor(hour)).padStart(2, "0")}:${String(Math.floor((hour % 1) * 60)).padStart(2, "0")}`;
  if (!calendar.layout) return clock;
  const day = new Date(`${calendar.start}T00:00:00Z`);
  day.setUTCDate(day.getUTCDate() + (has("trend") ? Math.floor(fillOf("trend")) : 0));
  return `${day.toISOString().slice(0, 10)}T${clock}`;
}
