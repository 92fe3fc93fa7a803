/** A multilayer perceptron with two hidden layers, trained by Adam. */

import { Adam } from "./adam.js";
import { normalNumbers, shuffledOrder, uniformNumbers } from "./random.js";

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

/** @returns {object} a network with random weights */
function freshNetwork(inputs) {
  const layout = layoutOf(inputs);
  const normal = normalNumbers(7);
  const parameters = new Float64Array(layout.size);
  for (let k = 0; k < layout.firstBias; k += 1) parameters[k] = 4 * normal();
  for (let k = layout.firstBias; k < layout.second; k += 1) parameters[k] = 2 * normal();
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

/** Train a network in place; yields after each epoch. */
function* trainNetwork(network, points, values, epochs, rate) {
  const { inputs } = network.layout;
  const adam = new Adam(network.parameters, rate);
  const one = new Float64Array(WIDTH);
  const two = new Float64Array(WIDTH);
  const back = new Float64Array(WIDTH);
  const uniform = uniformNumbers(3);
  for (let epoch = 0; epoch < epochs; epoch += 1) {
    adam.rate = rate * (1 - epoch / epochs);
    for (const [turn, place] of shuffledOrder(values.length, uniform).entries()) {
      const error = forwardPass(network, points, place * inputs, one, two) - values[place];
      backwardPass(network, points, place * inputs, one, two, back, error, adam.gradient);
      if (turn % BATCH_OF_NETWORK === BATCH_OF_NETWORK - 1 || turn === values.length - 1) adam.step();
    }
    yield network;
  }
}

export const perceptronLearner = {
  id: "mlp",
  name: "Neural network (MLP)",
  about: "Two hidden layers of 32, trained by Adam: all weights serve all points.",
  footprint: () => ({ kind: "all" }),
  *fit(points, values, inputs) {
    const network = freshNetwork(inputs);
    yield* trainNetwork(network, points, values, 90, 0.01);
    return network;
  },
  *learn(network, lesson) {
    const learned = { layout: network.layout, parameters: Float64Array.from(network.parameters) };
    yield* trainNetwork(learned, lesson.points, lesson.values, 30, 0.005);
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
