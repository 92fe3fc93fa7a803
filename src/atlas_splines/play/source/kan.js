/**
 * A Kolmogorov–Arnold network: a spline on every edge, trained by Adam.
 * For two inputs it is [2, 6, 1]; for one input a single spline, [1, 1], as in KAN's own experiment with five peaks.
 */

import { Adam } from "./adam.js";
import { normalNumbers, shuffledOrder, uniformNumbers } from "./random.js";
import { ACTIVE, activeSlopes, activeWeights, basisCount, reachOf } from "./splines.js";

const HIDDEN = 6;
const INNER = 3; // density of splines of the inputs
const OUTER = 3; // density of splines of the hidden values
const SINGLE = 5; // density of the only spline of one input
const REACH = 3; // hidden values from −REACH to REACH are told apart
const BATCH_OF_KAN = 32;

/** @returns {number} where the splines of hidden unit `unit` begin in the parameters */
function outerStart(unit) {
  return 2 * HIDDEN * basisCount(INNER) + unit * basisCount(OUTER);
}

/** @returns {object} a network with small random splines */
function freshKan(inputs) {
  const normal = normalNumbers(5);
  const size = inputs === 1 ? basisCount(SINGLE) : outerStart(HIDDEN);
  const parameters = new Float64Array(size);
  if (inputs === 1) return { inputs, parameters };
  for (let edge = 0; edge < 2 * HIDDEN; edge += 1) {
    const slope = 1.5 * normal();
    for (let k = 0; k < basisCount(INNER); k += 1)
      parameters[edge * basisCount(INNER) + k] = slope * (k / basisCount(INNER) - 0.5) + 0.1 * normal();
  }
  for (let k = outerStart(0); k < size; k += 1) parameters[k] = 0.1 * normal();
  return { inputs, parameters };
}

/** Scratch space for one point. */
function scratch() {
  return {
    weights: new Float64Array(2 * ACTIVE),
    cells: [0, 0],
    outer: new Float64Array(HIDDEN * ACTIVE),
    slopes: new Float64Array(HIDDEN * ACTIVE),
    outerCells: new Int32Array(HIDDEN),
    isInside: new Uint8Array(HIDDEN),
  };
}

/** @returns {number} the output at a point; leaves in `space` what the gradient needs */
function kanOutput({ inputs, parameters }, points, at, space) {
  const { weights, cells, outer, outerCells, slopes, isInside } = space;
  if (inputs === 1) {
    cells[0] = activeWeights(points[at], SINGLE, weights);
    let single = 0;
    for (let k = 0; k < ACTIVE; k += 1) single += weights[k] * parameters[cells[0] + k];
    return single;
  }
  cells[0] = activeWeights(points[at], INNER, weights);
  cells[1] = activeWeights(points[at + 1], INNER, weights, ACTIVE);
  let output = 0;
  for (let unit = 0; unit < HIDDEN; unit += 1) {
    let hidden = 0;
    for (let input = 0; input < 2; input += 1) {
      const first = (2 * unit + input) * basisCount(INNER) + cells[input];
      for (let k = 0; k < ACTIVE; k += 1) hidden += weights[input * ACTIVE + k] * parameters[first + k];
    }
    const place = (hidden + REACH) / (2 * REACH);
    isInside[unit] = place > 0 && place < 1 ? 1 : 0;
    const clipped = Math.max(0, Math.min(1, place));
    outerCells[unit] = activeWeights(clipped, OUTER, outer, unit * ACTIVE);
    activeSlopes(clipped, OUTER, slopes, unit * ACTIVE);
    for (let k = 0; k < ACTIVE; k += 1)
      output += outer[unit * ACTIVE + k] * parameters[outerStart(unit) + outerCells[unit] + k];
  }
  return output;
}

/** Add the gradient of half the squared error at the point that was last computed. */
function addKanGradient({ inputs, parameters }, error, space, gradient) {
  const { weights, cells, outer, outerCells, slopes, isInside } = space;
  if (inputs === 1) {
    for (let k = 0; k < ACTIVE; k += 1) gradient[cells[0] + k] += error * weights[k];
    return;
  }
  for (let unit = 0; unit < HIDDEN; unit += 1) {
    let slope = 0;
    const start = outerStart(unit) + outerCells[unit];
    for (let k = 0; k < ACTIVE; k += 1) {
      gradient[start + k] += error * outer[unit * ACTIVE + k];
      slope += slopes[unit * ACTIVE + k] * parameters[start + k];
    }
    if (!isInside[unit]) continue;
    const inner = (error * slope) / (2 * REACH);
    for (let input = 0; input < 2; input += 1) {
      const first = (2 * unit + input) * basisCount(INNER) + cells[input];
      for (let k = 0; k < ACTIVE; k += 1) gradient[first + k] += inner * weights[input * ACTIVE + k];
    }
  }
}

/** Train a network in place; yields after each epoch. */
function* trainKan(network, points, values, epochs, rate) {
  const adam = new Adam(network.parameters, rate);
  const space = scratch();
  const uniform = uniformNumbers(4);
  for (let epoch = 0; epoch < epochs; epoch += 1) {
    adam.rate = rate * (1 - epoch / epochs);
    for (const [turn, place] of shuffledOrder(values.length, uniform).entries()) {
      const error = kanOutput(network, points, place * network.inputs, space) - values[place];
      addKanGradient(network, error, space, adam.gradient);
      if (turn % BATCH_OF_KAN === BATCH_OF_KAN - 1 || turn === values.length - 1) adam.step();
    }
    yield network;
  }
}

export const kanLearner = {
  id: "kan",
  name: "KAN",
  about: "Splines on the edges of a network: local along one input, not through two layers.",
  footprint: (box) => (box.length === 1 ? { kind: "box", box: reachOf(box, SINGLE) } : { kind: "all" }),
  *fit(points, values, inputs) {
    const network = freshKan(inputs);
    yield* trainKan(network, points, values, 100, 0.02);
    return network;
  },
  *learn(network, lesson) {
    const learned = { inputs: network.inputs, parameters: Float64Array.from(network.parameters) };
    yield* trainKan(learned, lesson.points, lesson.values, 40, 0.02);
    return learned;
  },
  predict(network, points) {
    const space = scratch();
    return Float64Array.from({ length: points.length / network.inputs }, (_, place) =>
      kanOutput(network, points, place * network.inputs, space),
    );
  },
};
