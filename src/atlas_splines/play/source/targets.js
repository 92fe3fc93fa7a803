/** What can be learned: functions of one or two inputs on the unit cube, tables, drawings; and lessons about them. */

import { evenPoints, normalNumbers, uniformNumbers } from "./random.js";
import { ACTIVE, activeWeights, basisCount } from "./splines.js";
import { TABLES } from "./tables.js";

const CENTRES = [0.1, 0.3, 0.5, 0.7, 0.9];
const ROWS = { 1: 600, 2: 2000 };
const LESSON_ROWS = { 1: 200, 2: 500 };
const MIDDLE = [[0.4, 0.6], [0.4, 0.6]];

/** @returns {(x: number, y?: number) => number} the paper's random radial functions */
function radialFunctions(inputs) {
  const uniform = uniformNumbers(20 + inputs);
  const normal = normalNumbers(30 + inputs);
  const terms = Array.from({ length: 1000 }, () => ({
    x: uniform(),
    y: inputs === 1 ? 0 : uniform(),
    steepness: -10 * Math.log(1 - uniform()),
    weight: normal(),
  }));
  return (x, y = 0) => {
    let sum = 0;
    for (const term of terms) {
      const distance = Math.sqrt((x - term.x) ** 2 + (y - term.y) ** 2);
      sum += term.weight * Math.exp(-term.steepness * distance);
    }
    return sum;
  };
}

/** @returns {Function} a costly function, as straight lines between its values on a lattice */
function tabulated(f, inputs) {
  const cells = inputs === 1 ? 1000 : 64;
  const side = cells + 1;
  const table = Float64Array.from({ length: side ** inputs }, (_, place) =>
    inputs === 1 ? f(place / cells) : f(Math.floor(place / side) / cells, (place % side) / cells),
  );
  const split = (x) => {
    const cell = Math.max(0, Math.min(cells - 1, Math.floor(x * cells)));
    return [cell, x * cells - cell];
  };
  const between = (at, share) => table[at] + share * (table[at + 1] - table[at]);
  return (x, y) => {
    const [column, across] = split(x);
    if (inputs === 1) return between(column, across);
    const [line, along] = split(y);
    const left = between(column * side + line, along);
    return left + across * (between((column + 1) * side + line, along) - left);
  };
}

/** The functions that one can choose. A box and a value are what the paper teaches second. */
const FORMULAS = {
  C: { inputs: 2, title: "Waves (the paper's experiment C)", low: 1, high: 3, f: (x, y) => 2 + Math.cos(20 * x - 10) * Math.cos(20 * y - 10) },
  A: {
    inputs: 2,
    title: "Spiral (the paper's experiment A)",
    low: 1,
    high: 3,
    f: (x, y) => 2 + Math.sin(30 * Math.hypot(x - 0.5, y - 0.5) + Math.atan2((x - 0.5) ** 2, (y - 0.5) ** 2)),
  },
  B: {
    inputs: 2,
    title: "Ridges (the paper's experiment B)",
    low: 0,
    high: 3,
    f: (x, y) => Math.cos(20 * x - 10) ** 2 + Math.cos(10 * y - 5) ** 2 + Math.exp(-((20 * x - 10) ** 2) - (20 * y - 10) ** 2),
  },
  D: {
    inputs: 2,
    title: "Soft waves (the paper's experiment D)",
    low: 2.25,
    high: 2.75,
    f: (x, y) => 2 + 1 / (1 + Math.exp(-Math.sin(2 * Math.PI * x) * Math.sin(2 * Math.PI * y))),
  },
  rbf2: { inputs: 2, title: "Random radial functions (the paper's main experiment)", make: () => tabulated(radialFunctions(2), 2) },
  peaks: {
    inputs: 1,
    title: "KAN's five peaks, one lesson each",
    low: -1,
    high: 1,
    f: () => 0,
    lessons: CENTRES.map((centre) => ({ box: [[centre - 0.1, centre + 0.1]], kind: "peak", level: 1 })),
  },
  rbf1: { inputs: 1, title: "Random radial functions (the paper's, one input)", make: () => tabulated(radialFunctions(1), 1) },
  sine: { inputs: 1, title: "A wave", low: -1, high: 1, f: (x) => Math.sin(4 * Math.PI * x) * (0.4 + 0.6 * x) },
};

/** Groups of choices, for a menu: id and title of each. */
export const CHOICES = [
  ["Maps: two inputs", ["C", "A", "B", "D", "rbf2"].map((id) => [id, FORMULAS[id].title])],
  ["Curves: one input", ["sine", "peaks", "rbf1"].map((id) => [id, FORMULAS[id].title])],
  ["Tables", ["diabetes", "wine", "iris", "homes"].map((id) => [id, TABLES[id].title])],
  ["Your own", [["map", "Draw a map"], ["curve", "Draw a curve"]]],
];

/** Coefficients along each input of a drawing, by inputs; and of a drawn lesson. */
const DRAWING_DENSITY = { 1: 4, 2: 2 };
const LESSON_DENSITY = { 1: 2, 2: 1 };
const DRAWN = new Float64Array(2 * ACTIVE);

/** @returns {number} the density of a drawing: of a whole function, or of a lesson */
export function drawingDensity(inputs, isLesson) {
  return (isLesson ? LESSON_DENSITY : DRAWING_DENSITY)[inputs];
}

/** @returns {number[]} a flat drawing */
export function blankDrawing(inputs, isLesson) {
  return new Array(basisCount(drawingDensity(inputs, isLesson)) ** inputs).fill(0);
}

/** @returns {number} a drawing at a point: a spline whose coefficients were drawn */
export function drawingValue(coefficients, inputs, density, x, y) {
  const column = activeWeights(x, density, DRAWN);
  let sum = 0;
  if (inputs === 1) {
    for (let k = 0; k < ACTIVE; k += 1) sum += DRAWN[k] * coefficients[column + k];
    return sum;
  }
  const line = activeWeights(y, density, DRAWN, ACTIVE);
  for (let i = 0; i < ACTIVE; i += 1)
    for (let j = 0; j < ACTIVE; j += 1)
      sum += DRAWN[i] * DRAWN[ACTIVE + j] * coefficients[(column + i) * basisCount(density) + line + j];
  return sum;
}

/** A problem from a table: rows in the unit cube, and a smooth mean of them to look at. */
function tableProblem(id) {
  const { title, columns, rows: text } = TABLES[id];
  const inputs = columns.length - 1;
  const rows = text.split(";").map((row) => row.split(" ").map(Number));
  const ranges = columns.map((_, column) => {
    const cells = rows.map((row) => row[column]);
    return [Math.min(...cells), Math.max(...cells)];
  });
  const points = Float64Array.from(
    rows.flatMap((row) => row.slice(0, inputs).map((cell, input) => (cell - ranges[input][0]) / (ranges[input][1] - ranges[input][0]))),
  );
  const [low, high] = ranges[inputs];
  const values = Float64Array.from(rows, (row) => (2 * row[inputs] - low - high) / (high - low));
  const mean = (x, y) => {
    let sum = 0;
    let total = 1e-30;
    for (let row = 0; row < values.length; row += 1) {
      const across = points[row * inputs] - x;
      const along = inputs === 1 ? 0 : points[row * inputs + 1] - y;
      const weight = Math.exp(-(across * across + along * along) / (2 * 0.06 ** 2)) + 1e-20;
      sum += weight * values[row];
      total += weight;
    }
    return sum / total;
  };
  const f = tabulated(mean, inputs);
  return { id, title, inputs, ranges: ranges.slice(0, inputs), columns, low, high, f, points, values, isTable: true, lessons: [] };
}

/** A problem from a function whose values go from low to high. */
function functionProblem(id, title, inputs, raw, low, high, lessons = []) {
  const f = (x, y) => (2 * raw(x, y) - low - high) / (high - low);
  const points = evenPoints(ROWS[inputs], inputs === 1 ? [[0, 1]] : [[0, 1], [0, 1]]);
  const values = Float64Array.from({ length: ROWS[inputs] }, (_, row) => f(points[row * inputs], points[row * inputs + 1]));
  const columns = inputs === 1 ? ["x", "y"] : ["x₁", "x₂", "y"];
  return { id, title, inputs, ranges: columns.slice(1).map(() => [0, 1]), columns, low, high, f, points, values, isTable: false, lessons };
}

/** @returns {number[]} the lowest and highest value of a function, on some points */
function rangeOf(f, inputs) {
  const points = evenPoints(1000, inputs === 1 ? [[0, 1]] : [[0, 1], [0, 1]]);
  let [low, high] = [Infinity, -Infinity];
  for (let row = 0; row < 1000; row += 1) {
    const value = f(points[row * inputs], points[row * inputs + 1]);
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return [low, high];
}

/**
 * What is to be learned first. Values are scaled so that most lie from −1 to 1.
 * @param {{id: string, drawn?: number[]}} choice
 */
export function makeProblem({ id, drawn }) {
  if (id in TABLES) return tableProblem(id);
  if (id === "map" || id === "curve") {
    const inputs = id === "map" ? 2 : 1;
    const density = drawingDensity(inputs, false);
    const coefficients = drawn ?? blankDrawing(inputs, false);
    const f = (x, y) => drawingValue(coefficients, inputs, density, x, y);
    return { ...functionProblem(id, "Your own", inputs, f, -1, 1), drawn: coefficients };
  }
  if (!(id in FORMULAS)) throw new Error(`There is no function named ${id}; choose one from the list.`);
  const { title, inputs, f, make, low, high, lessons } = FORMULAS[id];
  const raw = f ?? make();
  const [lowest, highest] = low === undefined ? rangeOf(raw, inputs) : [low, high];
  return functionProblem(id, title, inputs, raw, lowest, highest, lessons);
}

/** Kinds of lessons: new values in a box, by the place (u, v) in it and the old value. */
export const KINDS = {
  flat: { title: "one value", value: ({ level }) => level },
  shift: { title: "higher or lower", value: ({ level }, u, v, old) => old + level },
  mirror: { title: "upside down", value: (_, u, v, old) => -old },
  waves: { title: "waves", value: ({ level }, u, v) => level * Math.cos(3 * Math.PI * u) * Math.cos(2 * Math.PI * (v ?? 0)) },
  peak: {
    title: "a peak",
    value: ({ level, box }, u, v) =>
      level * Math.exp(-1200 * (((u - 0.5) * (box[0][1] - box[0][0])) ** 2 + (v === undefined ? 0 : ((v - 0.5) * (box[1][1] - box[1][0])) ** 2))),
  },
  drawn: {
    title: "drawn by you",
    value: ({ drawn, box }, u, v) => drawingValue(drawn, box.length, drawingDensity(box.length, true), u, v),
  },
};

/** @returns {boolean} whether a point is in a box */
export function isInBox(box, x, y) {
  return x >= box[0][0] && x <= box[0][1] && (box.length === 1 || (y >= box[1][0] && y <= box[1][1]));
}

/** @returns {number} what a lesson says at a point of its box */
export function lessonValue(problem, lesson, x, y) {
  const [[left, right], side] = lesson.box;
  const u = Math.max(0, Math.min(1, (x - left) / (right - left)));
  const v = side && Math.max(0, Math.min(1, (y - side[0]) / (side[1] - side[0])));
  return KINDS[lesson.kind].value(lesson, u, v, problem.f(x, y));
}

/** @returns {number} what holds at a point after some lessons */
export function truthAfter(problem, lessons, x, y) {
  const last = lessons.findLast(({ box }) => isInBox(box, x, y));
  return last === undefined ? problem.f(x, y) : lessonValue(problem, last, x, y);
}

/** @returns {{box: number[][], points: Float64Array, values: Float64Array}} the rows of a lesson */
export function lessonRows(problem, lesson) {
  const { inputs } = problem;
  const points = evenPoints(LESSON_ROWS[inputs], lesson.box);
  const values = Float64Array.from({ length: LESSON_ROWS[inputs] }, (_, row) =>
    lessonValue(problem, lesson, points[row * inputs], points[row * inputs + 1]),
  );
  return { box: lesson.box, points, values };
}

/** @returns {object} the lesson that is at hand when a problem is opened */
export function firstLesson(problem) {
  if (problem.lessons.length) return problem.lessons[0];
  const nothing = (-problem.low - problem.high) / (problem.high - problem.low); // where the value is 0
  const isPapers = problem.inputs === 2 && problem.id.length === 1;
  return { box: MIDDLE.slice(0, problem.inputs), kind: isPapers ? "flat" : "shift", level: isPapers ? Math.max(-2, nothing) : 1 };
}
