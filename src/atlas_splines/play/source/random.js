/** Numbers that look random and are the same every time, so that a shared picture is the same picture. */

/** @returns {() => number} uniform numbers from 0 to 1 (mulberry32) */
export function uniformNumbers(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

/** @returns {() => number} normal numbers with mean 0 and deviation 1 (Box and Muller) */
export function normalNumbers(seed) {
  const uniform = uniformNumbers(seed);
  return () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
}

/** @returns {Int32Array} 0 … count−1 in random order */
export function shuffledOrder(count, uniform) {
  const order = Int32Array.from({ length: count }, (_, place) => place);
  for (let last = count - 1; last > 0; last -= 1) {
    const other = Math.floor(uniform() * (last + 1));
    [order[last], order[other]] = [order[other], order[last]];
  }
  return order;
}

/**
 * Points that fill a box evenly (Kronecker's sequence).
 * @param {number[][]} box lowest and highest coordinate of each input
 * @returns {Float64Array} (count, inputs)
 */
export function evenPoints(count, box) {
  const inputs = box.length;
  const steps = inputs === 1 ? [0.6180339887498949] : [0.7548776662466927, 0.5698402909980532];
  const points = new Float64Array(count * inputs);
  for (let row = 0; row < count; row += 1) {
    for (let input = 0; input < inputs; input += 1) {
      const place = (0.5 + steps[input] * (row + 1)) % 1;
      points[row * inputs + input] = box[input][0] + (box[input][1] - box[input][0]) * place;
    }
  }
  return points;
}
