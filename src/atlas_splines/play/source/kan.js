/**
 * A Kolmogorov–Arnold network: a spline on every edge, trained by Adam.
 * For two inputs it is [2, 6, 1]; for one input a single spline, [1, 1], as in KAN's own experiment with five peaks.
 */

import { normalNumbers } from "./random.js";
import { ACTIVE, activeSlopes, activeWeights, basisCount, reachOf } from "./splines.js";
import { FEW_ROWS, LEARNED, descend } from "./training.js";

const HIDDEN = 6;
const REACH = 3; // hidden values from −REACH to REACH are told apart
const BATCH_OF_KAN = 32;

/** @returns {number} the density of all splines; 1 is KAN's usual grid of five cells */
function kanDensity(inputs, rows) {
  if (inputs === 1) return rows < FEW_ROWS ? 2 : 5;
  return rows < FEW_ROWS ? 1 : 3;
}

/** @returns {number} where the splines of hidden unit `unit` begin in the parameters */
function outerStart(density, unit) {
  return (2 * HIDDEN + unit) * basisCount(density);
}

/** @returns {object} a network with small random splines */
function freshKan(inputs, rows) {
  const normal = normalNumbers(5);
  const density = kanDensity(inputs, rows);
  const count = basisCount(density);
  const parameters = new Float64Array(inputs === 1 ? count : outerStart(density, HIDDEN));
  if (inputs === 1) return { inputs, density, parameters };
  for (let edge = 0; edge < 2 * HIDDEN; edge += 1) {
    const slope = 1.5 * normal();
    for (let k = 0; k < count; k += 1) parameters[edge * count + k] = slope * (k / count - 0.5) + 0.1 * normal();
  }
  for (let k = outerStart(density, 0); k < parameters.length; k += 1) parameters[k] = 0.1 * normal();
  return { inputs, density, parameters };
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
function kanOutput({ inputs, density, parameters }, points, at, space) {
  const { weights, cells, outer, outerCells, slopes, isInside } = space;
  if (inputs === 1) {
    cells[0] = activeWeights(points[at], density, weights);
    let single = 0;
    for (let k = 0; k < ACTIVE; k += 1) single += weights[k] * parameters[cells[0] + k];
    return single;
  }
  cells[0] = activeWeights(points[at], density, weights);
  cells[1] = activeWeights(points[at + 1], density, weights, ACTIVE);
  let output = 0;
  for (let unit = 0; unit < HIDDEN; unit += 1) {
    let hidden = 0;
    for (let input = 0; input < 2; input += 1) {
      const first = (2 * unit + input) * basisCount(density) + cells[input];
      for (let k = 0; k < ACTIVE; k += 1) hidden += weights[input * ACTIVE + k] * parameters[first + k];
    }
    const place = (hidden + REACH) / (2 * REACH);
    isInside[unit] = place > 0 && place < 1 ? 1 : 0;
    const clipped = Math.max(0, Math.min(1, place));
    outerCells[unit] = activeWeights(clipped, density, outer, unit * ACTIVE);
    activeSlopes(clipped, density, slopes, unit * ACTIVE);
    for (let k = 0; k < ACTIVE; k += 1)
      output += outer[unit * ACTIVE + k] * parameters[outerStart(density, unit) + outerCells[unit] + k];
  }
  return output;
}

/** Add the gradient of half the squared error at the point that was last computed. */
function addKanGradient({ inputs, density, parameters }, error, space, gradient) {
  const { weights, cells, outer, outerCells, slopes, isInside } = space;
  if (inputs === 1) {
    for (let k = 0; k < ACTIVE; k += 1) gradient[cells[0] + k] += error * weights[k];
    return;
  }
  for (let unit = 0; unit < HIDDEN; unit += 1) {
    let slope = 0;
    const start = outerStart(density, unit) + outerCells[unit];
    for (let k = 0; k < ACTIVE; k += 1) {
      gradient[start + k] += error * outer[unit * ACTIVE + k];
      slope += slopes[unit * ACTIVE + k] * parameters[start + k];
    }
    if (!isInside[unit]) continue;
    const inner = (error * slope) / (2 * REACH);
    for (let input = 0; input < 2; input += 1) {
      const first = (2 * unit + input) * basisCount(density) + cells[input];
      for (let k = 0; k < ACTIVE; k += 1) gradient[first + k] += inner * weights[input * ACTIVE + k];
    }
  }
}

/** Train a network in place; yields it after each epoch. */
function* trainKan(network, points, values, plan) {
  const space = scratch();
  const whole = { rows: values.length, batch: BATCH_OF_KAN, rate: 0.02, seed: 4, ...plan };
  yield* descend(network, network.parameters, whole, (row, gradient) => {
    const error = kanOutput(network, points, row * network.inputs, space) - values[row];
    addKanGradient(network, error, space, gradient);
    return error;
  });
}

export const kanLearner = {
  id: "kan",
  name: "KAN",
  about: "Splines on the edges of a network: local along one input, not through two layers.",
  footprint: (box, rows) => (box.length === 1 ? { kind: "box", box: reachOf(box, kanDensity(1, rows)) } : { kind: "all" }),
  *fit(points, values, inputs) {
    const network = freshKan(inputs, values.length);
    yield* trainKan(network, points, values, { epochs: 100 });
    return network;
  },
  *learn(network, lesson) {
    const learned = { ...network, parameters: Float64Array.from(network.parameters) };
    yield* trainKan(learned, lesson.points, lesson.values, { epochs: 40, enough: LEARNED });
    return learned;
  },
  predict(network, points) {
    const space = scratch();
    return Float64Array.from({ length: points.length / network.inputs }, (_, place) =>
      kanOutput(network, points, place * network.inputs, space),
    );
  },
};
