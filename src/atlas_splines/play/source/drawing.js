/** Pictures on canvases: maps, curves, what changed, footprints. Values are scaled so that most lie from −1 to 1. */

/** Colours of maps, from low to high values; what changed has one colour that is none of them. */
const SCALE = [
  [19, 38, 66],
  [33, 84, 121],
  [74, 140, 158],
  [150, 192, 185],
  [243, 236, 214],
];
const SHOWN = 1.25; // values beyond ±SHOWN have the colour of the end

/** @returns {Record<string, string>} the colours of the page, light or dark */
export function pageColours() {
  const style = getComputedStyle(document.documentElement);
  const names = ["ink", "soft", "line", "card", "main", "change", "region"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

/** @returns {number[]} red, green and blue of a colour such as #d6336c */
function partsOf(colour) {
  return [1, 3, 5].map((place) => parseInt(colour.slice(place, place + 2), 16));
}

/** @returns {number[]} red, green and blue of a value */
function colourOf(value) {
  const place = Math.max(0, Math.min(0.9999, (value + SHOWN) / (2 * SHOWN))) * (SCALE.length - 1);
  const step = Math.floor(place);
  return SCALE[step].map((part, channel) => part + (place - step) * (SCALE[step + 1][channel] - part));
}

/** Fit a canvas to the pixels it is shown with. @returns {{context, width, height, ratio}} */
export function sharpCanvas(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const { clientWidth, clientHeight } = canvas;
  const [width, height] = [Math.max(1, Math.round(clientWidth * ratio)), Math.max(1, Math.round(clientHeight * ratio))];
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  const context = canvas.getContext("2d");
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height, ratio };
}

/** @returns {HTMLCanvasElement} a square of pixels; x grows to the right and y upwards */
function pixels(side, colourAt) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [side, side];
  const context = canvas.getContext("2d");
  const image = context.createImageData(side, side);
  for (let x = 0; x < side; x += 1) {
    for (let y = 0; y < side; y += 1) {
      const at = 4 * ((side - 1 - y) * side + x);
      const [red, green, blue, alpha = 255] = colourAt(x * side + y);
      image.data[at] = red;
      image.data[at + 1] = green;
      image.data[at + 2] = blue;
      image.data[at + 3] = alpha;
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

/** @returns {number} the size of a change from 0 to 1, where an eighth of the range of values counts two thirds */
export function howMuch(change) {
  return 1 - Math.exp(-Math.abs(change) / 0.25);
}

/** Maps as pixels, by their values: they are drawn again whenever a region moves. */
const IMAGES = new WeakMap();

/** @returns {HTMLCanvasElement} a map, and in one colour what changed */
function mapImage({ values, before, changed }, changeColour) {
  const known = IMAGES.get(values);
  if (known?.changeColour === changeColour) return known.image;
  const change = partsOf(changeColour);
  const image = pixels(Math.round(Math.sqrt(values.length)), (place) => {
    const colour = colourOf(values[place]);
    if (!changed?.[place]) return colour;
    const much = 0.14 + 0.72 * howMuch(values[place] - before[place]);
    return colour.map((part, channel) => part + much * (change[channel] - part));
  });
  IMAGES.set(values, { changeColour, image });
  return image;
}

/** Draw a map. @param {{values, before?, changed?, halfWidth?, support?}} picture */
export function drawMap(canvas, picture) {
  const { context, width, height } = sharpCanvas(canvas);
  const { halfWidth, support } = picture;
  context.imageSmoothingEnabled = true;
  context.drawImage(mapImage(picture, pageColours().change), 0, 0, width, height);
  if (support) shadeUnknown(context, halfWidth, support, width, height);
}

/** Veil a map where little is known: the more, the less support there is and the wider intervals are. */
function shadeUnknown(context, halfWidth, support, width, height) {
  const side = Math.round(Math.sqrt(support.length));
  const paper = partsOf(pageColours().card);
  const known = (place) => support[place] * (1 - 0.35 * Math.min(1, halfWidth[place])); // 1: half the range of values
  const veil = pixels(side, (place) => [...paper, Math.round(235 * (1 - known(place)))]);
  context.drawImage(veil, 0, 0, width, height);
}

/** Where a footprint is: rectangles as shares of the picture; a cross is drawn along its outer edge. */
export function drawFootprint(canvas, footprint, inputs, colour) {
  const context = canvas.getContext("2d");
  const { width, height } = canvas;
  const unit = window.devicePixelRatio || 1;
  context.save();
  context.strokeStyle = colour;
  context.lineWidth = 2 * unit;
  context.setLineDash([5 * unit, 4 * unit]);
  context.beginPath();
  const [[left, right], [low, high] = [0, 1]] = footprint.box ?? [[0, 1], [0, 1]];
  const inset = unit;
  const X = (x) => Math.max(inset, Math.min(width - inset, x * width));
  const Y = (y) => Math.max(inset, Math.min(height - inset, (1 - y) * height));
  if (footprint.kind === "cross" && inputs === 2) {
    const corners = [
      [left, 1], [right, 1], [right, high], [1, high], [1, low], [right, low],
      [right, 0], [left, 0], [left, low], [0, low], [0, high], [left, high],
    ];
    for (const [x, y] of corners) context.lineTo(X(x), Y(y));
    context.closePath();
  } else {
    context.rect(X(left), Y(high), X(right) - X(left), Y(low) - Y(high));
  }
  context.stroke();
  context.restore();
}

/** Outline a region with a solid line. */
export function drawRegion(canvas, box, colour) {
  const context = canvas.getContext("2d");
  const { width, height } = canvas;
  const [[left, right], [low, high] = [0, 1]] = box;
  context.save();
  context.strokeStyle = colour;
  context.lineWidth = 2.5 * (window.devicePixelRatio || 1);
  context.strokeRect(left * width, (1 - high) * height, (right - left) * width, (high - low) * height);
  context.restore();
}

/** Where a value is in a picture of curves, from the top. */
export function curveHeight(value, range, height) {
  return height * (1 - (value - range[0]) / (range[1] - range[0]));
}

/** Stroke values at even places from left to right. */
export function strokeCurve(context, values, range, width, height, colour, thickness) {
  context.save();
  context.strokeStyle = colour;
  context.lineWidth = thickness;
  context.lineJoin = "round";
  context.beginPath();
  const step = Math.max(1, Math.floor(values.length / (2 * width)));
  for (let place = 0; place < values.length; place += step)
    context.lineTo(((place + 0.5) / values.length) * width, curveHeight(values[place], range, height));
  context.stroke();
  context.restore();
}

/** Draw curves: before, after, what changed, and intervals. */
export function drawCurve(canvas, { values, before, changed, halfWidth, support }, range) {
  const { context, width, height, ratio } = sharpCanvas(canvas);
  const colours = pageColours();
  context.strokeStyle = colours.line;
  context.lineWidth = ratio;
  context.beginPath();
  context.moveTo(0, curveHeight(0, range, height));
  context.lineTo(width, curveHeight(0, range, height));
  context.stroke();
  if (halfWidth) shadeInterval(context, values, halfWidth, support, range, width, height, colours.main);
  if (changed) paintChange(context, values, before, changed, range, width, height, ratio, colours);
  strokeCurve(context, values, range, width, height, colours.ink, 1.8 * ratio);
}

/** Shade intervals of 90 %, fainter where there is less support. */
function shadeInterval(context, values, halfWidth, support, range, width, height, colour) {
  const count = halfWidth.length;
  context.save();
  context.fillStyle = colour;
  for (let place = 0; place < count; place += 1) {
    const value = values[Math.floor(((place + 0.5) / count) * values.length)];
    const top = curveHeight(value + halfWidth[place], range, height);
    const bottom = curveHeight(value - halfWidth[place], range, height);
    const left = Math.round((place / count) * width); // at whole pixels: seams would show
    const right = Math.round(((place + 1) / count) * width);
    context.globalAlpha = 0.06 + 0.24 * support[place];
    context.fillRect(left, top, right - left, Math.max(1, bottom - top));
  }
  context.restore();
}

/** Fill what lies between before and after where it changed elsewhere, with a strip along the bottom. */
function paintChange(context, values, before, changed, range, width, height, ratio, colours) {
  const count = values.length;
  context.save();
  context.fillStyle = colours.change;
  for (let column = 0; column < width; column += 1) {
    const first = Math.floor((column / width) * count);
    const last = Math.max(first + 1, Math.floor(((column + 1) / width) * count));
    const isChanged = changed.subarray(first, last).some((flag) => flag === 1);
    if (!isChanged) continue;
    const one = curveHeight(values[first], range, height);
    const other = curveHeight(before[first], range, height);
    context.globalAlpha = 0.45;
    context.fillRect(column, Math.min(one, other), 1, Math.abs(one - other));
    context.globalAlpha = 0.2 + 0.8 * howMuch(values[first] - before[first]);
    context.fillRect(column, height - 5 * ratio, 1, 5 * ratio);
  }
  context.restore();
  context.save();
  context.setLineDash([3 * ratio, 3 * ratio]);
  strokeCurve(context, before, range, width, height, colours.soft, 1.2 * ratio);
  context.restore();
}

/** Draw rows of a table as dots. */
export function drawRows(canvas, problem, range, colours) {
  const context = canvas.getContext("2d");
  const { width, height } = canvas;
  const ratio = window.devicePixelRatio || 1;
  const { inputs, points, values } = problem;
  context.save();
  context.lineWidth = 0.8 * ratio;
  for (let row = 0; row < values.length; row += 1) {
    const x = points[row * inputs] * width;
    const y = inputs === 1 ? curveHeight(values[row], range, height) : (1 - points[row * inputs + 1]) * height;
    context.beginPath();
    context.arc(x, y, 2.6 * ratio, 0, 2 * Math.PI);
    context.fillStyle = inputs === 1 ? colours.main : `rgb(${colourOf(values[row]).map(Math.round).join(" ")})`;
    context.strokeStyle = inputs === 1 ? colours.card : colours.ink;
    context.fill();
    context.stroke();
  }
  context.restore();
}
