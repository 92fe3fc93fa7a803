/** The tab that shows what the model is made of: basis functions, densities, exponentials, fences. */

import { fenceInside, fenceWindow } from "./charted.js";
import { curveHeight, drawCurve, drawMap, pageColours, sharpCanvas, strokeCurve } from "./drawing.js";
import { SMALL_SIDE, changedPlaces } from "./lessons.js";
import { choleskyFactor, solveLower, solveUpper } from "./linear.js";
import { ACTIVE, activeWeights, basisCount, cellCount } from "./splines.js";

const FUNCTION_RANGE = [-0.04, 1.05]; // of pictures of basis functions
const SHOWN_DENSITY = 3; // of the fence that is drawn
const STEP_POINTS = 4000;
const STEPS = 5; // densities that are added one after the other

/** @returns {Float64Array} a basis function at even places; no number where it is zero, so that nothing is drawn */
function basisCurve(density, number, count) {
  const weights = new Float64Array(ACTIVE);
  return Float64Array.from({ length: count }, (_, place) => {
    const cell = activeWeights((place + 0.5) / count, density, weights);
    return number >= cell && number < cell + ACTIVE ? weights[number - cell] : NaN;
  });
}

/** Draw all basis functions of a density, those from first to last in colour. */
function drawBasisFunctions(canvas, density, first, last) {
  const context = canvas.getContext("2d");
  const ratio = window.devicePixelRatio || 1;
  const colours = pageColours();
  const numbers = Array.from({ length: basisCount(density) }, (_, number) => number);
  const isChosen = (number) => number >= first && number <= last;
  for (const number of [...numbers.filter((n) => !isChosen(n)), ...numbers.filter(isChosen)]) {
    const curve = basisCurve(density, number, 600);
    const [colour, thickness] = isChosen(number) ? [colours.main, 2] : [colours.line, 1.4];
    strokeCurve(context, curve, FUNCTION_RANGE, canvas.width, canvas.height, colour, thickness * ratio);
  }
}

/** @returns {Float64Array} what a spline of one density says at even places */
function splineCurve(coefficients, density, count) {
  const weights = new Float64Array(ACTIVE);
  return Float64Array.from({ length: count }, (_, place) => {
    const cell = activeWeights((place + 0.5) / count, density, weights);
    let sum = 0;
    for (let k = 0; k < ACTIVE; k += 1) sum += weights[k] * coefficients[cell + k];
    return sum;
  });
}

/** @returns {Float64Array} the coefficients of one density that come nearest to values at even places */
function bestSpline(values, density) {
  const size = basisCount(density);
  const gram = new Float64Array(size * size);
  const moment = new Float64Array(size);
  const weights = new Float64Array(ACTIVE);
  values.forEach((value, place) => {
    const cell = activeWeights((place + 0.5) / values.length, density, weights);
    for (let i = 0; i < ACTIVE; i += 1) {
      moment[cell + i] += weights[i] * value;
      for (let j = 0; j <= i; j += 1) gram[(cell + i) * size + cell + j] += weights[i] * weights[j];
    }
  });
  const factor = choleskyFactor(gram, size, 1e-6);
  return solveUpper(factor, size, solveLower(factor, size, moment));
}

/**
 * A curve learned density by density: states before and after the training of each, with what changed.
 * @param {Float64Array} target values at even places
 */
export function densitySteps(target) {
  const steps = [];
  let sum = new Float64Array(target.length);
  for (let density = 0; density < STEPS; density += 1) {
    const zeros = new Float64Array(basisCount(density));
    const trained = bestSpline(target.map((value, place) => value - sum[place]), density);
    for (const [isTrained, coefficients] of [[false, zeros], [true, trained]]) {
      const own = splineCurve(coefficients, density, target.length);
      const values = sum.map((value, place) => value + own[place]);
      const changed = changedPlaces(sum, values, new Uint8Array(target.length)).reduce((total, flag) => total + flag, 0);
      const error = values.reduce((total, value, place) => total + Math.abs(value - target[place]), 0) / target.length / 2;
      steps.push({ density, isTrained, values, own, changed, error });
      if (isTrained) sum = values;
    }
  }
  return steps;
}

export class InsideTab {
  /** @param {object} page its `ask` and `fail` @param {object} teach the first tab, whose function is looked into */
  constructor(page, teach) {
    Object.assign(this, { page, teach, steps: [], stepsOf: null });
    this.element = document.getElementById("panel-inside");
    this.element.addEventListener("input", () => this.draw());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.element);
    this.at("steps-step").max = 2 * STEPS - 1;
  }

  at(id) {
    return document.getElementById(id);
  }

  number(id) {
    return Number(this.at(id).value);
  }

  draw() {
    if (this.element.hidden) return;
    this.drawBasis();
    this.drawSteps();
    this.drawProduct();
    this.drawFence();
    this.drawParts().catch((problem) => this.page.fail(problem.message));
  }

  drawBasis() {
    const density = this.number("basis-density");
    const x = this.number("basis-place");
    const weights = new Float64Array(ACTIVE);
    const cell = activeWeights(x, density, weights);
    const { context, width, height, ratio } = sharpCanvas(this.at("basis"));
    const colours = pageColours();
    drawBasisFunctions(this.at("basis"), density, cell, cell + ACTIVE - 1);
    context.fillStyle = colours.region;
    context.fillRect(x * width - ratio, 0, 2 * ratio, height);
    for (const weight of weights) {
      context.beginPath();
      context.arc(x * width, curveHeight(weight, FUNCTION_RANGE, height), 4 * ratio, 0, 2 * Math.PI);
      context.fill();
    }
    this.at("basis-density-value").textContent = density;
    this.at("basis-place-value").textContent = x.toFixed(2);
    this.at("basis-text").textContent =
      `${basisCount(density)} functions on ${cellCount(density)} cells. Four are positive at ${x.toFixed(2)}, in cell ${cell + 1}: ` +
      `${[...weights].map((weight) => weight.toFixed(3)).join(" + ")} = 1. A lesson there moves only their coefficients.`;
    this.at("basis").setAttribute("aria-label", `Basis functions of density ${density}`);
  }

  /** @returns {Float64Array} the function of the first tab, or a cut through the middle of it */
  target() {
    const { problem } = this.teach;
    return Float64Array.from({ length: STEP_POINTS }, (_, place) => problem.f((place + 0.5) / STEP_POINTS, 0.5));
  }

  drawSteps() {
    const { problem } = this.teach;
    if (this.stepsOf !== problem) {
      this.stepsOf = problem;
      this.curve = this.target();
      this.steps = densitySteps(this.curve);
    }
    const { density, isTrained, values, own, changed, error } = this.steps[this.number("steps-step")];
    const canvas = this.at("steps");
    const { context, width, height, ratio } = sharpCanvas(canvas);
    const colours = pageColours();
    strokeCurve(context, this.curve, [-1.6, 1.6], width, height, colours.soft, 4 * ratio);
    strokeCurve(context, own, [-1.6, 1.6], width, height, colours.region, 1.4 * ratio);
    strokeCurve(context, values, [-1.6, 1.6], width, height, colours.main, 2.2 * ratio);
    this.at("steps-step-value").textContent = `${isTrained ? "train" : "add"} ${density}`;
    this.at("steps-text").textContent = isTrained
      ? `Density ${density} learned what was left: the sum of densities 0 to ${density} is ${(100 * error).toPrecision(2)} % of the range off. Thin line: this density alone.`
      : `Density ${density} was added with zeros: ${changed} of ${values.length.toLocaleString("en")} predictions changed, bit for bit. Thick: the function; blue: the sum of densities.`;
    canvas.setAttribute("aria-label", `The function of the first tab, and the sum of densities up to ${density}`);
  }

  drawProduct() {
    const side = 80;
    const [first, second, width] = ["product-first", "product-second", "product-width"].map((id) => this.number(id));
    const exponent = (x, centre) => -((x - centre) ** 2) / (2 * width * width);
    const middle = (place) => (place + 0.5) / side;
    const values = Float32Array.from({ length: side * side }, (_, place) => {
      const [x, y] = [middle(Math.floor(place / side)), middle(place % side)];
      return Math.exp(exponent(x, first) + exponent(y, second)) - Math.exp(exponent(x, 0.85) + exponent(y, 0.15));
    });
    const canvas = this.at("product");
    drawMap(canvas, { values });
    const context = canvas.getContext("2d");
    const [across, down] = [canvas.width, canvas.height];
    const colours = pageColours();
    const curve = (centre) => Float64Array.from({ length: 200 }, (_, place) => exponent((place + 0.5) / 200, centre));
    const thickness = 2.5 * (window.devicePixelRatio || 1);
    context.setTransform(1, 0, 0, 1, 0, 0.75 * down);
    strokeCurve(context, curve(first), [-8, 0.5], across, down / 4, colours.region, thickness);
    context.setTransform(0, -1, 1, 0, 0, down);
    strokeCurve(context, curve(second), [0.5, -8], down, across / 4, colours.region, thickness);
    context.setTransform(1, 0, 0, 1, 0, 0);
    canvas.setAttribute("aria-label", "A map of e to the power G minus e to the power H");
  }

  drawFence() {
    const low = this.number("fence-low");
    const high = Math.max(low + 0.3, this.number("fence-high"));
    const fence = fenceInside([[low, high]], SHOWN_DENSITY);
    const [first, last] = fence.open[0];
    const canvas = this.at("fence");
    const { context, width, height, ratio } = sharpCanvas(canvas);
    const colours = pageColours();
    drawBasisFunctions(canvas, SHOWN_DENSITY, first, last);
    const places = Float64Array.from({ length: 1000 }, (_, place) => (place + 0.5) / 1000);
    const heights = places.map((_, place) => fenceWindow(fence, places, place));
    strokeCurve(context, heights, FUNCTION_RANGE, width, height, colours.region, 2.6 * ratio);
    const zeros = heights.reduce((count, value, place) => count + (value === 0 && !(places[place] >= low && places[place] <= high) ? 1 : 0), 0);
    const outside = places.reduce((count, x) => count + (x >= low && x <= high ? 0 : 1), 0);
    this.at("fence-text").textContent =
      `Open are the ${last - first + 1} functions that are zero outside ${low.toFixed(2)}–${high.toFixed(2)}. Their sum is 1 in the middle and exactly 0 outside: at ${zeros} of ${outside} points there. A chart counts times this.`;
    canvas.setAttribute("aria-label", `The window of a chart from ${low} to ${high}`);
  }

  async drawParts() {
    const { choice, lessons, position } = this.teach.state;
    const densities = this.number("parts-density");
    this.at("parts-density-value").textContent = densities === 1 ? "0" : `0 to ${densities - 1}`;
    const { parts } = await this.page.ask("parts", { choice, lessons: lessons.slice(0, position), densities });
    const whole = parts[0].map((_, place) => parts.reduce((sum, part) => sum + part[place], 0));
    const titles = ["F", ...parts.slice(1).map((_, k) => `pair ${k + 1}`), "sum A"];
    const parent = this.at("parts");
    if (parent.children.length !== titles.length) parent.replaceChildren(...titles.map(pictureWithTitle));
    for (const [place, values] of [...parts, whole].entries()) {
      const canvas = parent.children[place].firstChild;
      if (values.length === SMALL_SIDE[1]) drawCurve(canvas, { values }, [-1.6, 1.6]);
      else drawMap(canvas, { values });
    }
  }
}

/** @returns {HTMLElement} a canvas with its name below */
function pictureWithTitle(title) {
  const figure = document.createElement("figure");
  const canvas = document.createElement("canvas");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", title);
  const caption = document.createElement("figcaption");
  caption.textContent = title;
  figure.append(canvas, caption);
  return figure;
}
