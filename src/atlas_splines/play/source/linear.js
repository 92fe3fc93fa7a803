/** Symmetric positive linear systems. */

/**
 * Cholesky's factor of a matrix with a ridge on its diagonal.
 * @param {Float64Array} gram (size, size), of which the lower half counts
 * @returns {Float64Array} (size, size) lower triangle L with L·Lᵀ = gram + ridge·I
 */
export function choleskyFactor(gram, size, ridge) {
  const factor = new Float64Array(size * size);
  for (let row = 0; row < size; row += 1) {
    const here = row * size;
    for (let column = 0; column <= row; column += 1) {
      const there = column * size;
      let sum = gram[here + column] + (row === column ? ridge : 0);
      for (let k = 0; k < column; k += 1) sum -= factor[here + k] * factor[there + k];
      factor[here + column] = row === column ? Math.sqrt(Math.max(sum, 1e-12)) : sum / factor[there + column];
    }
  }
  return factor;
}

/** @returns {Float64Array} L⁻¹·right */
export function solveLower(factor, size, right) {
  const solution = new Float64Array(size);
  for (let row = 0; row < size; row += 1) {
    let sum = right[row];
    for (let k = 0; k < row; k += 1) sum -= factor[row * size + k] * solution[k];
    solution[row] = sum / factor[row * size + row];
  }
  return solution;
}

/** @returns {Float64Array} L⁻ᵀ·right */
export function solveUpper(factor, size, right) {
  const solution = Float64Array.from(right);
  for (let row = size - 1; row >= 0; row -= 1) {
    solution[row] /= factor[row * size + row];
    for (let k = 0; k < row; k += 1) solution[k] -= factor[row * size + k] * solution[row];
  }
  return solution;
}

/** @returns {number} log det of L·Lᵀ */
export function logDeterminant(factor, size) {
  let sum = 0;
  for (let row = 0; row < size; row += 1) sum += 2 * Math.log(factor[row * size + row]);
  return sum;
}
