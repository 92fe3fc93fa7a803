/** Adam, fresh for every lesson: parameters that never had a gradient stay where they are. */
export class Adam {
  /** @param {Float64Array} parameters changed in place by `step` */
  constructor(parameters, rate) {
    this.parameters = parameters;
    this.rate = rate;
    this.gradient = new Float64Array(parameters.length);
    this.mean = new Float64Array(parameters.length);
    this.square = new Float64Array(parameters.length);
    this.steps = 0;
  }

  /** Move the parameters against the gradient, and begin a new one. */
  step() {
    const { parameters, gradient, mean, square } = this;
    this.steps += 1;
    const rate = (this.rate * Math.sqrt(1 - 0.999 ** this.steps)) / (1 - 0.9 ** this.steps);
    for (let k = 0; k < parameters.length; k += 1) {
      mean[k] += 0.1 * (gradient[k] - mean[k]);
      square[k] += 0.001 * (gradient[k] * gradient[k] - square[k]);
      parameters[k] -= (rate * mean[k]) / (Math.sqrt(square[k]) + 1e-7);
    }
    gradient.fill(0);
  }
}
