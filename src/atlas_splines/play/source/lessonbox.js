/** The picture of what is true: a region is brushed on it, and values are drawn. */

import { drawCurve, drawMap, drawRegion, drawRows, pageColours } from "./drawing.js";
import { basisCount, cellCount } from "./splines.js";
import { blankDrawing, drawingDensity, lessonValue, truthAfter } from "./targets.js";

const STEP = 0.02; // of an arrow key
const LEAST = 0.04; // width of a region
const SNAP = 200; // corners are multiples of 1/SNAP
const TRUTH_SIDE = { 1: 400, 2: 100 };
const STROKE_WIDTH = 0.09; // of a brush that draws maps

const HELP = {
  brush: "Drag a region, or move it with the arrow keys and resize it with Shift; Enter teaches.",
  values: "Draw inside the region. With keys: arrows move the pen, Space sets the value.",
  function: "Draw anywhere. With keys: arrows move the pen, Space sets the value.",
};

/** @returns {number[]} a side of a region from two places, at least LEAST wide and within 0 and 1 */
function sideBetween(one, other) {
  let low = Math.max(0, Math.min(one, other));
  let high = Math.min(1, Math.max(one, other));
  if (high - low < LEAST) [low, high] = [low, low + LEAST];
  if (high > 1) [low, high] = [1 - (high - low), 1];
  return [Math.round(low * SNAP) / SNAP, Math.round(high * SNAP) / SNAP];
}

/** Draw with a pen into coefficients: at a place of the unit cube they go to a value. */
function penStroke(drawing, inputs, density, place, value, width) {
  const count = basisCount(density);
  const near = (index, coordinate) => (index - 1) / cellCount(density) - coordinate;
  if (inputs === 1) {
    const nearest = Math.max(0, Math.min(count - 1, Math.round(place[0] * cellCount(density)) + 1));
    drawing[nearest] = value;
    if (nearest === 1) drawing[0] = value;
    if (nearest === count - 2) drawing[count - 1] = value;
    return;
  }
  for (let i = 0; i < count; i += 1) {
    for (let j = 0; j < count; j += 1) {
      const distance = (near(i, place[0]) ** 2 + near(j, place[1]) ** 2) / (2 * width * width);
      drawing[i * count + j] += 0.5 * Math.exp(-distance) * (value - drawing[i * count + j]);
    }
  }
}

export class LessonBox {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {object} page its `state`, and what happens: `onDraft(isFinal)`, `onDrawing(isFinal)`, `onTeach()`
   */
  constructor(canvas, page) {
    Object.assign(this, { canvas, page, pen: [0.5, 0.5], start: null });
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("pointermove", (event) => this.drag(event));
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => this.release());
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  get inputs() {
    return this.page.problem.inputs;
  }

  /** @returns {number[]} where a pointer is, from 0 to 1 */
  placeOf(event) {
    const { left, top, width, height } = this.canvas.getBoundingClientRect();
    const within = (share) => Math.max(0, Math.min(1, share));
    return [within((event.clientX - left) / width), within(1 - (event.clientY - top) / height)];
  }

  press(event) {
    if (event.button !== 0) return;
    try {
      this.canvas.setPointerCapture(event.pointerId);
    } catch {
      // a pointer that is gone already cannot be captured, and need not be
    }
    this.start = this.placeOf(event);
    this.drag(event);
  }

  drag(event) {
    if (this.start === null) return;
    const place = this.placeOf(event);
    if (this.page.state.mode === "brush") {
      const moved = Math.max(...place.slice(0, this.inputs).map((value, k) => Math.abs(value - this.start[k])));
      if (moved < 0.01) return;
      this.setBox(Array.from({ length: this.inputs }, (_, k) => sideBetween(this.start[k], place[k])), false);
    } else {
      this.drawAt(place, this.inputs === 1 ? this.valueAt(place[1]) : this.page.state.draft.level, false);
    }
  }

  release() {
    if (this.start === null) return;
    this.start = null;
    if (this.page.state.mode === "brush") this.page.onDraft(true);
    else this.page.onDrawing(true);
  }

  /** @returns {number} the value at a height of the picture, in one dimension */
  valueAt(height) {
    const [low, high] = this.page.range;
    return Math.max(-2, Math.min(2, low + (high - low) * height));
  }

  setBox(box, isFinal) {
    const { draft } = this.page.state;
    this.page.state.draft = { ...draft, box };
    this.page.onDraft(isFinal);
  }

  /** Draw a value at a place: into the lesson, or into the function itself. */
  drawAt(place, value, isFinal) {
    const { state, problem } = this.page;
    this.pen = place;
    if (state.mode === "values") {
      const { box } = state.draft;
      const local = box.map(([low, high], k) => (place[k] - low) / (high - low));
      if (local.some((share) => share < 0 || share > 1)) return;
      const density = drawingDensity(this.inputs, true);
      const drawn = state.draft.kind === "drawn" ? [...state.draft.drawn] : this.drawingOf(true);
      penStroke(drawn, this.inputs, density, local, value, 0.25);
      state.draft = { ...state.draft, kind: "drawn", drawn };
    } else {
      const drawn = problem.drawn ? [...problem.drawn] : this.drawingOf(false);
      penStroke(drawn, this.inputs, drawingDensity(this.inputs, false), place, value, STROKE_WIDTH);
      this.page.redraw({ id: this.inputs === 1 ? "curve" : "map", drawn });
    }
    this.page.onDrawing(isFinal);
  }

  /** @returns {number[]} what is there now as a drawing, to go on from */
  drawingOf(isLesson) {
    const { problem, state } = this.page;
    const density = drawingDensity(this.inputs, isLesson);
    const count = basisCount(density);
    const middle = (index) => Math.max(0, Math.min(1, (index - 1) / cellCount(density)));
    const box = isLesson ? state.draft.box : [[0, 1], [0, 1]];
    const across = (share, k) => box[k][0] + share * (box[k][1] - box[k][0]);
    return blankDrawing(this.inputs, isLesson).map((_, place) => {
      const x = across(middle(this.inputs === 1 ? place : Math.floor(place / count)), 0);
      const y = this.inputs === 1 ? undefined : across(middle(place % count), 1);
      return isLesson ? lessonValue(problem, state.draft, x, y) : problem.f(x, y);
    });
  }

  key(event) {
    const { state } = this.page;
    const move = { ArrowLeft: [-STEP, 0], ArrowRight: [STEP, 0], ArrowDown: [0, -STEP], ArrowUp: [0, STEP] }[event.key];
    if (event.key === "Enter") this.page.onTeach();
    else if (event.key === " " && state.mode !== "brush") this.drawAt(this.pen, state.draft.level, true);
    else if (move === undefined) return;
    else if (state.mode !== "brush") {
      this.pen = this.pen.map((value, k) => Math.max(0, Math.min(1, value + move[k])));
      this.draw();
      this.page.say(`Pen at ${this.pen.slice(0, this.inputs).map((value) => value.toFixed(2)).join(", ")}.`);
    } else this.setBox(state.draft.box.map((side, k) => this.movedSide(side, move[k], event.shiftKey)), true);
    event.preventDefault();
  }

  movedSide([low, high], step, isResize) {
    if (isResize) return sideBetween(low, Math.max(low + LEAST, high + step));
    const moved = Math.max(-low, Math.min(1 - high, step));
    return sideBetween(low + moved, high + moved);
  }

  /** Draw what is true after the lessons shown, with the lesson at hand in its region. */
  draw() {
    const { state, problem, range } = this.page;
    const { canvas, inputs } = this;
    const colours = pageColours();
    const lessons = [...state.lessons.slice(0, state.position), state.draft];
    const side = TRUTH_SIDE[inputs];
    const values = Float32Array.from({ length: side ** inputs }, (_, place) =>
      inputs === 1
        ? truthAfter(problem, lessons, (place + 0.5) / side)
        : truthAfter(problem, lessons, (Math.floor(place / side) + 0.5) / side, ((place % side) + 0.5) / side),
    );
    if (inputs === 1) drawCurve(canvas, { values }, range);
    else drawMap(canvas, { values });
    if (problem.isTable) drawRows(canvas, problem, range, colours);
    drawRegion(canvas, state.draft.box, colours.region);
    if (state.mode !== "brush") this.drawPen(colours);
    canvas.setAttribute("aria-label", `What is true, and the next lesson: ${this.page.regionText(state.draft.box)}`);
    document.getElementById("truth-help").textContent = HELP[state.mode];
  }

  drawPen(colours) {
    const context = this.canvas.getContext("2d");
    const { width, height } = this.canvas;
    const across = this.pen[0] * width;
    const up = (1 - (this.inputs === 1 ? 0.5 : this.pen[1])) * height;
    context.save();
    context.strokeStyle = colours.region;
    context.lineWidth = 2 * (window.devicePixelRatio || 1);
    context.beginPath();
    context.arc(across, up, 0.02 * width, 0, 2 * Math.PI);
    context.stroke();
    context.restore();
  }
}
