/**
 * Models of `.atlas` files: what they are, and what they say of rows.
 *
 * The arithmetic is that of Python in float64, of points that are rounded as the model's dtype asks.
 */

import { asFileError, FileError, numbersOf, readArchive } from "./archive.js";
import { encodeRow, limitsOfColumn, mayMiss, rawOf, readColumns, unitPoint } from "./columns.js";
import { coreOutputs, readCore } from "./coremodel.js";
import { upTo } from "./coretables.js";
import { isLater } from "./localterms.js";
import { readDoubt } from "./spread.js";

const COUNT_SHIFT = 0.375; // of Anscombe's root 2·√(y + 3/8) of counts
const ROOT_OF_ZERO = 2 * Math.sqrt(COUNT_SHIFT);
const LEAST_COUNT_SHARE = 0.005; // of the mean count: no prediction is lower
const SLOPE_STEPS = [0.25, 1]; // parts of the unit cube that linear extrapolation takes slopes over
const STRAIGHT = 0.75; // widths of the first domain, over which a slope goes on before it levels off

/**
 * Read the model of a file.
 *
 * @param {ArrayBuffer} buffer All bytes of the file.
 * @returns {Promise<object>} A model for the functions below.
 */
export async function readModel(buffer) {
  const archive = await readArchive(buffer);
  try {
    return modelOfArchive(archive);
  } catch (error) {
    throw asFileError(error);
  }
}

/** A model of an archive that was checked; whatever does not fit together there throws. */
function modelOfArchive(archive) {
  const core = readCore(archive);
  const columns = readColumns(archive, core);
  const estimator = archive.header.estimator ?? null;
  const labels = archive.kind === "classifier" ? estimator.labels.values : null;
  if (labels && labels.length !== core.outputs) {
    throw new FileError("The file is damaged: its classes are not those of its model.");
  }
  const parameters = estimator?.parameters ?? {};
  const ofTargets = (part) => numbersOf(archive, `target.${part}`, "F64", [core.outputs]);
  const isScaled = archive.kind === "regressor";
  const mean = isScaled ? ofTargets("mean") : new Float64Array(core.outputs);
  const scale = isScaled ? ofTargets("scale") : new Float64Array(core.outputs).fill(1);
  const dispersion = parameters.loss === "poisson" ? ofTargets("dispersion") : null;
  const { kind, version, checksum } = archive;
  return {
    kind, version, checksum, core, columns, labels, mean, scale, dispersion, parameters,
    extrapolation: estimator ? parameters.extrapolation : "error",
    target: estimator?.table?.target ?? null,
    fit: estimator?.fit ?? null,
    log: archive.header.model.updates ?? [],
    doubt: readDoubt(archive, core),
    archive,
  };
}

/**
 * The columns of a model, in the order of the cells of a row.
 *
 * @returns {Array<object>} `name`, `kind` ("number", "category" or "date"), `low` and `high` of numbers,
 *     `categories`, and `canMiss`, whether a cell may be empty.
 */
export function columnsOf(model) {
  const { columns, core } = model;
  return columns.fields.map((field) => {
    const { name, kind, categories = null, calendar = null, first } = field;
    const canMiss = mayMiss(columns, field);
    const [low, high] = kind === "number" ? limitsOfColumn(columns, core.domain, first) : [null, null];
    return { name, kind, categories, calendar, canMiss, low, high };
  });
}

/**
 * Predictions of rows.
 *
 * @param {object} model
 * @param {Array<Array | object>} rows Cells in the order of `columnsOf`, or by the names of columns: numbers, texts,
 *     or null for a missing one.
 * @returns {Array<object>} For each row `outputs` of the model; `values` of the targets, or the `label` and the
 *     `probabilities` of classes; and `isInside`, whether it lies in the domain.
 */
export function predictRows(model, rows) {
  return rows.map((row) => predictionAt(model, unitPoint(model.columns, encodeRow(model.columns, row))));
}

/** Prediction at coordinates, in the domain or not. */
export function predictionAt(model, point) {
  const outputs = outputsAt(model, point);
  const isInside = clippedPoint(model, point).every((value, j) => value === point[j]);
  if (!model.labels) return { outputs, values: predictedValues(model, point, outputs), isInside };
  const label = model.labels[outputs.indexOf(Math.max(...outputs))];
  return { outputs, probabilities: predictedValues(model, point, outputs), label, isInside };
}

/** What is predicted where the model has these outputs: values of the targets, or probabilities of the classes. */
export function predictedValues(model, point, outputs) {
  if (model.labels) return logProbabilities(outputs).map(Math.exp);
  const values = unscaled(model, shifted(model, point, outputs));
  return model.dispersion ? values.map((root, p) => meanCount(model, root, p)) : values;
}

/**
 * Intervals, or sets of classes, of rows.
 *
 * @returns {Array<object> | null} For each row `low` and `high` of each target, or the `classes` of a set; null if
 *     the model does not know how far off it is.
 */
export function predictInterval(model, rows, coverage = 0.9) {
  if (!model.doubt) return null;
  return rows.map((row) => intervalAt(model, unitPoint(model.columns, encodeRow(model.columns, row)), coverage));
}

/** The interval, or the set of classes, at coordinates. */
export function intervalAt(model, point, coverage) {
  const outputs = outputsAt(model, point);
  const at = roundedPoint(model, point);
  if (model.labels) {
    const most = model.doubt.mostSurprise(at, coverage);
    const [logs, largest] = [logProbabilities(outputs), Math.max(...outputs)];
    return { classes: model.labels.filter((_, k) => -logs[k] <= most || outputs[k] === largest) };
  }
  const ends = model.doubt.ends(at, outputs, coverage); // low and high of each output in turn
  const side = (end) => unscaled(model, outputs.map((value, p) => value + ends[2 * p + end]));
  if (!model.dispersion) return { low: side(0), high: side(1) };
  const means = unscaled(model, outputs).map((root, p) => meanCount(model, root, p)); // above the count of a root
  return { low: side(0).map(countOfRoot), high: side(1).map((root, p) => Math.max(countOfRoot(root), means[p])) };
}

/** How much evidence stands behind predictions of rows, from 0 to 1; null if the model has not counted its rows. */
export function support(model, rows) {
  if (!model.doubt?.support) return null;
  return rows.map((row) => supportOf(model, unitPoint(model.columns, encodeRow(model.columns, row))));
}

/** Support at coordinates. */
export function supportOf(model, point) {
  const inside = clippedPoint(model, point);
  return inside.every((value, j) => value === point[j]) ? model.doubt.support(roundedPoint(model, point)) : 0;
}

/** Outputs of the model at coordinates, in the domain or not. */
function outputsAt(model, point) {
  const inside = clippedPoint(model, point);
  const away = upTo(point.length).filter((j) => point[j] !== inside[j]);
  if (away.length && model.extrapolation === "error") {
    throw new FileError(`${inputName(model, away[0])} lies outside the domain of this model; choose a value inside.`);
  }
  const edge = coreOutputs(model.core, inside);
  addLaterSlopes(model.core, point, inside, edge);
  const out = Float64Array.from(edge);
  for (const j of model.extrapolation === "linear" ? away : []) {
    const beyond = point[j] - inside[j];
    const slopes = SLOPE_STEPS.map((step) => slopesAlong(model, inside, edge, j, step * Math.sign(beyond)));
    const room = (model.doubt?.openEnd(j, beyond > 0) ?? 1) * levelled(lengthAlong(model, j, inside[j], point[j]));
    for (let p = 0; p < out.length; p++) out[p] += room * agreed(slopes.map((each) => each[p]));
  }
  if (!out.every(Number.isFinite)) throw new FileError("The model overflows there: its prediction is no number.");
  return Array.from(out);
}

/** Let the slopes of a model beyond the end of a clock go on beyond the domain. */
function addLaterSlopes({ later, outputs }, point, inside, out) {
  if (!later || !isLater(later, point)) return;
  for (let j = 0; j < point.length; j++) {
    const beyond = point[j] - inside[j];
    const far = Math.sign(beyond) * levelled(Math.abs(beyond));
    for (let p = 0; p < outputs; p++) out[p] += far * later.slopes[j * outputs + p];
  }
}

/** Slopes of the outputs from a point at the edge of the domain inwards, counted outwards. */
function slopesAlong(model, inside, edge, j, step) {
  const inward = Float64Array.from(inside);
  inward[j] -= step;
  const before = coreOutputs(model.core, inward);
  const length = lengthAlong(model, j, inside[j], inward[j]);
  return edge.map((value, p) => (value - before[p]) / length);
}

/** Distance of two coordinates of an input in its column, in widths of that over the first domain. */
function lengthAlong({ columns }, j, one, other) {
  const [from, to, low, high] = [one, other, 0, 1].map((unit) => rawOf(columns, j, unit));
  return Math.abs(to - from) / (high - low);
}

/** The flattest of slopes, or 0 if they disagree. */
function agreed(slopes) {
  return Math.max(Math.min(...slopes), 0) + Math.min(Math.max(...slopes), 0);
}

/** A distance that goes straight on at first and levels off at 1. */
function levelled(beyond) {
  const near = Math.min(beyond, 2 - STRAIGHT);
  return near - Math.max(near - STRAIGHT, 0) ** 2 / (4 * (1 - STRAIGHT));
}

/** Name of the column that an input of the model tells of. */
export function inputName(model, j) {
  const { columns } = model;
  return columns.names[j < columns.count ? j : columns.indicators[j - columns.count]];
}

/** Outputs, or the quantile that was asked for instead of the mean. */
function shifted(model, point, outputs) {
  if (model.parameters.loss !== "quantile") return outputs;
  const more = model.doubt.level(roundedPoint(model, point), outputs, model.parameters.quantile ?? 0.5);
  return outputs.map((value, p) => value + more[p]);
}

/** Outputs in units of what the model has learned: targets, or roots of counts. */
function unscaled(model, outputs) {
  return outputs.map((value, p) => value * model.scale[p] + model.mean[p]);
}

/** The count that has a root, 0 for smaller ones than any has. */
function countOfRoot(root) {
  return Math.max(Math.max(root, ROOT_OF_ZERO) ** 2 / 4 - COUNT_SHIFT, 0);
}

/** Mean count of a mean root of target p, equation (42). */
function meanCount({ mean, scale, dispersion }, root, p) {
  const ratio = ROOT_OF_ZERO / Math.max(root, ROOT_OF_ZERO);
  const variance = 1 + ratio - (11 / 3) * ratio ** 2 + (5 / 3) * ratio ** 3;
  const least = LEAST_COUNT_SHARE * Math.max((mean[p] ** 2 + scale[p] ** 2) / 4 - COUNT_SHIFT, 0);
  return Math.max(countOfRoot(root) + (dispersion[p] * variance) / 4, least);
}

function logProbabilities(scores) {
  const largest = Math.max(...scores);
  const total = Math.log(scores.reduce((sum, score) => sum + Math.exp(score - largest), 0));
  return scores.map((score) => score - largest - total);
}

/** The nearest point of the domain. */
export function clippedPoint(model, point) {
  const { domain } = model.core;
  return Float64Array.from(point, (value, j) => Math.min(Math.max(value, domain[2 * j]), domain[2 * j + 1]));
}

function roundedPoint(model, point) {
  return clippedPoint(model, point).map(model.core.round);
}
