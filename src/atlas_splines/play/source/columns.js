/**
 * Columns of a file's model: how numbers, categories, dates and missing values become points of its domain.
 */

import { FileError, numbersOf, tensorOf } from "./archive.js";
import { upTo } from "./coretables.js";
import { calendarParts } from "./dates.js";

const MISSING_TEXTS = ["", "#N/A", "N/A", "n/a", "NA", "NULL", "null", "NaN", "nan", "-NaN", "-nan", "None"];
const MOST_ONE_HOT = 20; // categories that get an input each; more share one, along which they are placed
const LATER = 2 ** 20; // number of the first category that came with an update
const LEVEL_STEPS = 2 ** 21; // of the unit interval: later categories are one apart
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;

/**
 * The columns of a model.
 *
 * @returns {object} `count` columns of numbers go to inputs of the model by `knots`; `fields` are the columns that
 *     users see, each with the numbers of its first column and of how many there are.
 */
export function readColumns(archive, core) {
  const estimator = archive.header.estimator;
  if (!estimator) return bareColumns(core);
  const { shape, data: knots } = tensorOf(archive, "domain.knots", "F64", [null, null]);
  const [count, knotCount] = shape;
  const fill = numbersOf(archive, "domain.fill", "F64", [count]);
  const indicators = Array.from(numbersOf(archive, "domain.indicators", "I64", [null]), Number);
  const names = estimator.feature_names ?? upTo(count).map((j) => `column ${j}`);
  const table = estimator.table ?? null;
  const columns = { count, knots, knotCount, fill, indicators, names, dialect: table?.dialect ?? null };
  columns.levels = new Map(upTo(count).filter((j) => archive.tensors.has(`domain.levels.${j}`)).map(
    (j) => [j, numbersOf(archive, `domain.levels.${j}`, "F64", [null])]));
  columns.missing = estimator.parameters?.missing === "learn";
  columns.fields = table ? tableFields(table) : names.map((name, first) => ({ name, kind: "number", first, size: 1 }));
  const size = columns.fields.reduce((sum, field) => sum + field.size, 0);
  if (knotCount < 2 || size !== count || count + indicators.length !== core.inputs) {
    throw new FileError("The file is damaged: its columns are not those of its model.");
  }
  return columns;
}

/** A bare model has inputs of the unit cube and beyond. */
function bareColumns(core) {
  const count = core.inputs;
  const names = upTo(count).map((j) => `input ${j}`);
  const fields = names.map((name, first) => ({ name, kind: "number", first, size: 1 }));
  const knots = Float64Array.from({ length: 2 * count }, (_, k) => k % 2);
  const fill = new Float64Array(count).fill(0.5);
  const levels = new Map();
  return { count, knots, knotCount: 2, fill, indicators: [], levels, names, dialect: null, missing: false, fields };
}

function tableFields(table) {
  let first = 0;
  return table.columns.map(({ name, categories, calendar, others }) => {
    const kind = calendar ? "date" : categories ? "category" : "number";
    const oneHot = Boolean(categories && categories.length > 2 && categories.length <= MOST_ONE_HOT);
    const size = oneHot ? categories.length : calendar ? calendar.parts.length : 1;
    const field = { name, kind, categories, calendar, others: others ?? [], oneHot, first, size };
    first += size;
    return field;
  });
}

/** Whether a cell of a column may be empty: categories have inputs that can tell, up to some number of them. */
export function mayMiss(columns, { kind, categories }) {
  return columns.missing || (kind === "category" && categories.length <= MOST_ONE_HOT);
}

/** Lowest and highest value of a column of numbers in the domain of the model. */
export function limitsOfColumn(columns, domain, j) {
  return [rawOf(columns, j, domain[2 * j]), rawOf(columns, j, domain[2 * j + 1])];
}

/**
 * Numbers that the model's columns have in a row.
 *
 * @param {object} columns
 * @param {Array | object} row Cells in the order of the fields, or by their names: numbers, texts, or null.
 * @returns {Float64Array} NaN is a missing one.
 */
export function encodeRow(columns, row) {
  const cells = Array.isArray(row) ? row : columns.fields.map((field) => row[field.name]);
  if (cells.length !== columns.fields.length) {
    throw new FileError(`A row has ${cells.length} cells, and the model has ${columns.fields.length} columns.`);
  }
  const values = columns.fields.flatMap((field, k) => encodeCell(field, cells[k], columns.dialect));
  const missing = values.findIndex(Number.isNaN);
  if (missing >= 0 && !columns.missing) {
    throw new FileError(`${columns.names[missing]} is missing, and this model was not fitted for that; fill it in.`);
  }
  return Float64Array.from(values);
}

function encodeCell(field, cell, dialect) {
  if (field.kind === "number" && typeof cell === "number") return [cell];
  const text = trimmedText(cell, dialect);
  if (field.kind === "date") return calendarParts(text, field.calendar);
  if (field.kind === "number") return [text === null ? NaN : numberOf(field.name, text, dialect)];
  const place = categoryPlace(field, text);
  if (field.oneHot) return field.categories.map((_, k) => (k === 0 && place >= LATER ? place : Number(k === place)));
  return [place >= 0 ? place : field.categories.length > 2 ? NaN : 0.5];
}

/** A cell as a text without space around it; null if it is missing. */
function trimmedText(cell, dialect) {
  if (cell === null || cell === undefined || Number.isNaN(cell)) return null;
  const text = String(cell).trim();
  return MISSING_TEXTS.includes(text) || dialect?.missing.includes(text) ? null : text;
}

function numberOf(name, text, dialect) {
  const plain = dialect?.decimal === "," ? withPoint(name, text) : text;
  const value = NUMBER.test(plain) ? Number(plain) : NaN;
  if (!Number.isFinite(value) || Math.abs(value) > 1e150) {
    throw new FileError(`${name}: "${text}" is not a number; correct it or leave it empty.`);
  }
  return value;
}

/** A number with a decimal comma, and perhaps with points between thousands, with a decimal point instead. */
function withPoint(name, text) {
  const plain = /^[+-]?\d{1,3}(\.\d{3})+(,\d*)?$/.test(text) ? text.replaceAll(".", "") : text;
  if (plain.includes(".")) {
    throw new FileError(`${name}: "${text}" has a point, and the decimal mark is a comma; correct it.`);
  }
  return plain.replace(",", ".");
}

/** Number of a category: its place in the list of the fit, or in that of later ones; −1 if it is missing. */
function categoryPlace(field, text) {
  if (text === null) return -1;
  const name = nameOfCategory(text);
  const place = field.categories.findIndex((category) => nameOfCategory(category) === name);
  if (place >= 0) return place;
  const later = field.others.findIndex((other) => nameOfCategory(other) === name);
  if (later < 0) {
    const known = "was not there when the model was fitted; choose another, or leave it empty";
    throw new FileError(`${field.name}: "${text}" ${known}.`);
  }
  return LATER + later;
}

/** Categories in one spelling: true and false in small letters, whole numbers without a point. */
function nameOfCategory(text) {
  const name = text.trim().replace(/^([+-]?\d+)\.0*$/, "$1");
  return ["True", "TRUE", "False", "FALSE"].includes(name) ? name.toLowerCase() : name;
}

/** Coordinates of a row of numbers, in the domain or not. */
export function unitPoint(columns, values) {
  const point = new Float64Array(columns.count + columns.indicators.length);
  for (let j = 0; j < columns.count; j++) {
    point[j] = Number.isNaN(values[j]) ? unitOfFill(columns, j) : unitOf(columns, j, values[j]);
  }
  columns.indicators.forEach((j, k) => (point[columns.count + k] = Number(Number.isNaN(values[j]))));
  return point;
}

/** Coordinate of a value of a column, or of the number of a category. */
export function unitOf(columns, j, value) {
  const [later, ...known] = columns.levels.get(j) ?? [];
  if (later !== undefined && value >= LATER) return later + (value - LATER) / LEVEL_STEPS;
  if (known.length) return known[value];
  const unit = plainUnit(columns, j, value);
  return later === undefined ? unit : besideLevels(unit);
}

/** A coordinate that is that of no level, and nearly the same. */
function besideLevels(unit) {
  return (Math.floor(unit * 4 * LEVEL_STEPS) + 0.5) / (4 * LEVEL_STEPS);
}

/** Coordinate of a missing value of a column. */
export function unitOfFill(columns, j) {
  const unit = plainUnit(columns, j, columns.fill[j]);
  return columns.levels.has(j) ? besideLevels(unit) : unit;
}

function plainUnit(columns, j, value) {
  const knots = columns.knots.subarray(j * columns.knotCount, (j + 1) * columns.knotCount);
  const last = columns.knotCount - 1;
  const k = intervalOf(knots, value);
  return k / last + ((value - knots[k]) / (knots[k + 1] - knots[k])) / last;
}

/** Value of a column at a coordinate. */
export function rawOf(columns, j, unit) {
  const last = columns.knotCount - 1;
  const k = Math.min(Math.max(Math.floor(unit * last), 0), last - 1);
  const [low, high] = columns.knots.subarray(j * columns.knotCount + k);
  return low + (high - low) * (unit * last - k);
}

/** Number of the interval of rising knots that a value is in, or is nearest to. */
function intervalOf(knots, value) {
  let [low, high] = [0, knots.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (knots[middle] <= value) low = middle;
    else high = middle;
  }
  return low;
}

/** Piecewise linear interpolation, constant beyond the first and last knot; `at(k)` is the value of knot k. */
export function interpolate(value, knots, at) {
  const last = knots.length - 1;
  if (value < knots[0]) return at(0);
  if (value >= knots[last]) return at(last);
  const k = intervalOf(knots, value);
  return at(k) + ((at(k + 1) - at(k)) / (knots[k + 1] - knots[k])) * (value - knots[k]);
}
