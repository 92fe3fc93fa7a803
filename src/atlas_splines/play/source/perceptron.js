/** A multilayer perceptron with two hidden layers, trained by Adam. */

import { normalNumbers, uniformNumbers } from "./random.js";
import { LEARNED, descend } from "./training.js";

const WIDTH = 32;
const BATCH_OF_NETWORK = 32;

/** Places of weights and biases in one array of parameters. */
function layoutOf(inputs) {
  const first = 0;
  const firstBias = first + WIDTH * inputs;
  const second = firstBias + WIDTH;
  const secondBias = second + WIDTH * WIDTH;
  const last = secondBias + WIDTH;
  return { inputs, first, firstBias, second, secondBias, last, size: last + WIDTH + 1 };
}

/** @returns {object} a network with random weights: first units are steep, and bend somewhere in the square */
function freshNetwork(inputs) {
  const layout = layoutOf(inputs);
  const normal = normalNumbers(7);
  const uniform = uniformNumbers(8);
  const parameters = new Float64Array(layout.size);
  for (let k = 0; k < layout.firstBias; k += 1) parameters[k] = 8 * normal();
  for (let unit = 0; unit < WIDTH; unit += 1)
    for (let input = 0; input < inputs; input += 1)
      parameters[layout.firstBias + unit] -= parameters[unit * inputs + input] * (2 * uniform() - 1);
  for (let k = layout.second; k < layout.secondBias; k += 1) parameters[k] = normal() / Math.sqrt(WIDTH);
  for (let k = layout.last; k < layout.size - 1; k += 1) parameters[k] = normal() / Math.sqrt(WIDTH);
  return { layout, parameters };
}

/** @returns {number} the output at a point; leaves the hidden values in `one` and `two` */
function forwardPass({ layout, parameters }, points, at, one, two) {
  const { inputs, first, firstBias, second, secondBias, last } = layout;
  for (let unit = 0; unit < WIDTH; unit += 1) {
    let sum = parameters[firstBias + unit];
    for (let input = 0; input < inputs; input += 1)
      sum += parameters[first + unit * inputs + input] * (2 * points[at + input] - 1);
    one[unit] = Math.tanh(sum);
  }
  let output = parameters[last + WIDTH];
  for (let unit = 0; unit < WIDTH; unit += 1) {
    let sum = parameters[secondBias + unit];
    const row = second + unit * WIDTH;
    for (let k = 0; k < WIDTH; k += 1) sum += parameters[row + k] * one[k];
    two[unit] = Math.tanh(sum);
    output += parameters[last + unit] * two[unit];
  }
  return output;
}

/** Add the gradient of half the squared error at a point, by backpropagation. */
function backwardPass({ layout, parameters }, points, at, one, two, back, slope, gradient) {
  const { inputs, first, firstBias, second, secondBias, last } = layout;
  back.fill(0);
  gradient[last + WIDTH] += slope;
  for (let unit = 0; unit < WIDTH; unit += 1) {
    gradient[last + unit] += slope * two[unit];
    const inner = slope * parameters[last + unit] * (1 - two[unit] * two[unit]);
    gradient[secondBias + unit] += inner;
    const row = second + unit * WIDTH;
    for (let k = 0; k < WIDTH; k += 1) {
      gradient[row + k] += inner * one[k];
      back[k] += inner * parameters[row + k];
    }
  }
  for (let unit = 0; unit < WIDTH; unit += 1) {
    const inner = back[unit] * (1 - one[unit] * one[unit]);
    gradient[firstBias + unit] += inner;
    for (let input = 0; input < inputs; input += 1)
      gradient[first + unit * inputs + input] += inner * (2 * points[at + input] - 1);
  }
}

/** Train a network in place; yields it after each epoch. */
function* trainNetwork(network, points, values, plan) {
  const { inputs } = network.layout;
  const one = new Float64Array(WIDTH);
  const two = new Float64Array(WIDTH);
  const back = new Float64Array(WIDTH);
  const whole = { rows: values.length, batch: BATCH_OF_NETWORK, seed: 3, ...plan };
  yield* descend(network, network.parameters, whole, (row, gradient) => {
    const error = forwardPass(network, points, row * inputs, one, two) - values[row];
    backwardPass(network, points, row * inputs, one, two, back, error, gradient);
    return error;
  });
}

export const perceptronLearner = {
  id: "mlp",
  name: "Neural network (MLP)",
  about: "Two hidden layers of 32, trained by Adam: all weights serve all points.",
  footprint: () => ({ kind: "all" }),
  *fit(points, values, inputs) {
    const network = freshNetwork(inputs);
    yield* trainNetwork(network, points, values, { epochs: 90, rate: 0.02 });
    return network;
  },
  *learn(network, lesson) {
    const learned = { layout: network.layout, parameters: Float64Array.from(network.parameters) };
    yield* trainNetwork(learned, lesson.points, lesson.values, { epochs: 40, rate: 0.01, enough: LEARNED });
    return learned;
  },
  predict(network, points) {
    const { inputs } = network.layout;
    const one = new Float64Array(WIDTH);
    const two = new Float64Array(WIDTH);
    return Float64Array.from({ length: points.length / inputs }, (_, place) =>
      forwardPass(network, points, place * inputs, one, two),
    );
  },
};
