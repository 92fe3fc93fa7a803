/** Pictures of a file's model: curves and maps with axes, intervals, support and footprints. */

import { colourOf, pageColours, sharpCanvas } from "./drawing.js";

const MARGIN = { left: 66, right: 14, top: 12, bottom: 40 }; // in pixels of the page
const LINE_COLOURS = ["#1f77b4", "#d9730d", "#2f8f5b", "#b0417e", "#7a5bc7", "#8c6d31", "#4aa3a2", "#c0392b"];
const LITTLE_SUPPORT = 0.5;

/** Numbers that are easy to read, from low to high: about so many. */
export function easyNumbers(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= rough);
  const numbers = [];
  for (let k = Math.ceil(low / step); k * step <= high + 1e-9 * step; k++) {
    numbers.push(Number((k * step).toPrecision(12)));
  }
  return numbers;
}

/** Colour of one of several lines. */
export function lineColour(k, isAlone) {
  return isAlone ? pageColours().main : LINE_COLOURS[k % LINE_COLOURS.length];
}

/** Where the values of an axis are, as shares of it: numbers along it, categories in even parts. */
function sharesOf(axis) {
  if (axis.kind === "number") return (value) => (value - axis.low) / (axis.high - axis.low);
  return (value) => (axis.categories.indexOf(value) + 0.5) / axis.categories.length;
}

/** Parts of an axis, as shares of it, that an area has there. */
function partsOfSide(axis, side) {
  if (axis.kind === "number") return [side.map(sharesOf(axis)).map((share) => Math.min(Math.max(share, 0), 1))];
  return side.map((place) => [place / axis.categories.length, (place + 1) / axis.categories.length]);
}

/** Prepare a canvas: a frame inside its margins, with shares of the frame for coordinates. */
function startPicture(canvas) {
  const { context, width, height, ratio } = sharpCanvas(canvas);
  context.scale(ratio, ratio);
  const frame = {
    left: MARGIN.left,
    top: MARGIN.top,
    width: Math.max(width / ratio - MARGIN.left - MARGIN.right, 10),
    height: Math.max(height / ratio - MARGIN.top - MARGIN.bottom, 10),
  };
  const X = (share) => frame.left + share * frame.width;
  const Y = (share) => frame.top + (1 - share) * frame.height;
  return { context, frame, X, Y, colours: pageColours() };
}

function drawAxes({ context, frame, X, Y, colours }, horizontal, vertical) {
  context.font = "12px system-ui, sans-serif";
  context.strokeStyle = colours.line;
  context.lineWidth = 1;
  context.strokeRect(frame.left, frame.top, frame.width, frame.height);
  context.fillStyle = colours.soft;
  context.textAlign = "center";
  context.textBaseline = "top";
  const across = marksOf(horizontal, Math.max(Math.floor(frame.width / 60), 3));
  const bottom = frame.top + frame.height;
  for (const { share, text } of across) context.fillText(text, X(share), bottom + 5, frame.width / across.length);
  context.fillText(horizontal.name, X(0.5), bottom + 21, frame.width);
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const { share, text } of marksOf(vertical, 5)) {
    context.fillText(text, frame.left - 6, Y(share), MARGIN.left - 24);
  }
  context.save();
  context.translate(9, Y(0.5));
  context.rotate(-Math.PI / 2);
  context.textAlign = "center";
  context.fillText(vertical.name, 0, 0, frame.height);
  context.restore();
}

function marksOf(axis, count) {
  const shares = sharesOf(axis);
  if (axis.kind === "number") {
    return easyNumbers(axis.low, axis.high, count).map((value) => ({ share: shares(value), text: String(value) }));
  }
  const step = Math.ceil(axis.categories.length / (2 * count));
  return axis.categories.filter((_, k) => k % step === 0).map((text) => ({ share: shares(text), text }));
}

/** Outline areas: solid where the chosen row is inside, dashed where it is elsewhere in other columns. */
function drawAreas({ context, X, Y, colours }, areas, axes) {
  for (const { sides, isHere, isHole } of areas) {
    const [across, up] = axes.map((axis, k) => (axis ? partsOfSide(axis, sides[k]) : [[0, 1]]));
    for (const [left, right] of across) {
      for (const [low, high] of up) {
        context.strokeStyle = isHole ? colours.soft : colours.region;
        context.lineWidth = 2;
        context.setLineDash(isHere && !isHole ? [] : [6, 4]);
        context.strokeRect(X(left) + 1, Y(high) + 1, X(right) - X(left) - 2, Y(low) - Y(high) - 2);
        if (isHere && !isHole) {
          context.globalAlpha = 0.1;
          context.fillStyle = colours.region;
          context.fillRect(X(left), Y(high), X(right) - X(left), Y(low) - Y(high));
          context.globalAlpha = 1;
        }
      }
    }
  }
  context.setLineDash([]);
}

/**
 * Draw what is said along an axis.
 *
 * @param {HTMLCanvasElement} canvas
 * @param {object} axis
 * @param {object} shape Of `shapeAlong`, with only the `lines` that are shown: numbers of targets or classes.
 * @param {{lines: number[], areas: Array, here: number | string | null, name: string, isShare: boolean}} options
 */
export function drawFileCurve(canvas, axis, shape, { lines, areas, here, name, isShare }) {
  const picture = startPicture(canvas);
  const { context, X, Y, colours } = picture;
  const shown = lines.flatMap((p) => [shape.said[p], shape.low?.[p], shape.high?.[p]].filter(Boolean)).flat();
  const range = isShare ? [0, 1] : widened(Math.min(...shown), Math.max(...shown));
  const vertical = { kind: "number", name, low: range[0], high: range[1] };
  const [along, up] = [sharesOf(axis), sharesOf(vertical)];
  const places = shape.values.map((value) => X(along(value)));
  shadeLittleSupport(picture, axis, shape, places);
  drawAxes(picture, axis, vertical);
  drawAreas(picture, areas, [axis, null]);
  for (const p of lines) {
    const colour = lineColour(p, lines.length === 1);
    const heights = (numbers) => numbers.map((value) => Y(up(value)));
    if (shape.low) drawBand(context, axis, places, heights(shape.low[p]), heights(shape.high[p]), colour);
    drawLine(context, axis, places, heights(shape.said[p]), colour);
  }
  if (here !== null) drawHere(picture, along(here), null, colours);
}

function widened(low, high) {
  const more = 0.05 * (high - low) || Math.abs(high) * 0.05 || 1;
  return [low - more, high + more];
}

function drawLine(context, axis, places, heights, colour) {
  context.strokeStyle = context.fillStyle = colour;
  context.lineWidth = 2;
  context.beginPath();
  if (axis.kind === "number") {
    places.forEach((x, k) => context.lineTo(x, heights[k]));
    context.stroke();
  } else {
    places.forEach((x, k) => {
      context.moveTo(x, heights[k]);
      context.arc(x, heights[k], 4, 0, 2 * Math.PI);
    });
    context.fill();
  }
}

function drawBand(context, axis, places, lows, highs, colour) {
  context.globalAlpha = 0.18;
  context.fillStyle = context.strokeStyle = colour;
  context.beginPath();
  if (axis.kind === "number") {
    places.forEach((x, k) => context.lineTo(x, lows[k]));
    for (let k = places.length - 1; k >= 0; k--) context.lineTo(places[k], highs[k]);
    context.fill();
  } else {
    context.lineWidth = 10;
    places.forEach((x, k) => {
      context.moveTo(x, lows[k]);
      context.lineTo(x, highs[k]);
    });
    context.stroke();
  }
  context.globalAlpha = 1;
}

/** Grey where few rows stand behind what is said. */
function shadeLittleSupport({ context, frame, X, colours }, axis, { support }, places) {
  if (!support) return;
  const half = frame.width / (axis.kind === "number" ? places.length - 1 : places.length) / 2;
  context.fillStyle = colours.soft;
  context.globalAlpha = 0.16;
  for (let first = 0; first < support.length; first++) {
    if (support[first] >= LITTLE_SUPPORT) continue;
    let last = first; // a run of them is one rectangle: seams would show
    while (support[last + 1] < LITTLE_SUPPORT) last++;
    const [left, right] = [Math.max(places[first] - half, X(0)), Math.min(places[last] + half, X(1))];
    context.fillRect(left, frame.top, right - left, frame.height);
    first = last;
  }
  context.globalAlpha = 1;
}

/** Mark the chosen row. */
function drawHere({ context, frame, X, Y }, across, up, colours) {
  const inside = (share) => share >= 0 && share <= 1;
  context.strokeStyle = colours.ink;
  context.lineWidth = 1;
  context.setLineDash([2, 3]);
  context.beginPath();
  if (inside(across)) {
    context.moveTo(X(across), frame.top);
    context.lineTo(X(across), frame.top + frame.height);
  }
  if (up !== null && inside(up)) {
    context.moveTo(frame.left, Y(up));
    context.lineTo(frame.left + frame.width, Y(up));
  }
  context.stroke();
  context.setLineDash([]);
}

/**
 * Draw what is said over two axes.
 *
 * @param {HTMLCanvasElement} canvas
 * @param {object[]} axes Across, and up.
 * @param {object} shape Of `shapeOver`.
 * @param {{areas: Array, here: Array, range: number[]}} options
 */
export function drawFileMap(canvas, axes, shape, { areas, here, range }) {
  const picture = startPicture(canvas);
  const { context, frame, colours } = picture;
  const [low, high] = range;
  const place = (value) => 1.25 * ((2 * (value - low)) / (high - low || 1) - 1); // colours end there
  const image = pixelsOf(shape.xs.length, shape.ys.length, (k) => [...colourOf(place(shape.said[k])), 255]);
  context.imageSmoothingEnabled = axes.every((axis) => axis.kind === "number");
  context.drawImage(image, frame.left, frame.top, frame.width, frame.height);
  if (shape.support) {
    const { values, width, height } = shape.support;
    const dimness = (k) => Math.round(150 * Math.max(1 - values[k] / LITTLE_SUPPORT, 0));
    const veil = pixelsOf(width, height, (k) => [128, 128, 128, dimness(k)]);
    context.drawImage(veil, frame.left, frame.top, frame.width, frame.height);
  }
  drawAxes(picture, ...axes);
  drawAreas(picture, areas, axes);
  const shares = here.map((value, k) => (value === null ? -1 : sharesOf(axes[k])(value)));
  drawHere(picture, ...shares, { ...colours, ink: "#ffffff" });
}

/** A small picture, a pixel for each number, row by row from the lowest. */
function pixelsOf(width, height, colourAt) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width, height];
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  for (let k = 0; k < width * height; k++) {
    const row = height - 1 - Math.floor(k / width);
    image.data.set(colourAt(k), 4 * (row * width + (k % width)));
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

/** The value of each axis at a place of the canvas, in pixels of the page; null beyond the frame. */
export function valuesAtPlace(canvas, axes, x, y) {
  const width = canvas.clientWidth - MARGIN.left - MARGIN.right;
  const height = canvas.clientHeight - MARGIN.top - MARGIN.bottom;
  const shares = [(x - MARGIN.left) / width, 1 - (y - MARGIN.top) / height];
  if (shares.some((share) => share < 0 || share > 1)) return null;
  return axes.map((axis, k) => {
    if (axis.kind === "number") return axis.low + shares[k] * (axis.high - axis.low);
    return axis.categories[Math.min(Math.floor(shares[k] * axis.categories.length), axis.categories.length - 1)];
  });
}
