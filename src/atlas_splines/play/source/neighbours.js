/** Nearest neighbours: the mean of the five nearest rows. It keeps every row it ever saw. */

const NEAREST = 5;
const BUCKETS = 24; // along each input

/** @returns {object} rows, sorted into buckets of the unit cube */
function inBuckets(inputs, points, values) {
  const buckets = Array.from({ length: BUCKETS ** inputs }, () => []);
  for (let row = 0; row < values.length; row += 1) buckets[bucketOf(inputs, points, row * inputs)].push(row);
  return { inputs, points, values, buckets };
}

/** @returns {number} the bucket of a point along one input */
function bucketAlong(x) {
  return Math.max(0, Math.min(BUCKETS - 1, Math.floor(x * BUCKETS)));
}

function bucketOf(inputs, points, at) {
  const first = bucketAlong(points[at]);
  return inputs === 1 ? first : first * BUCKETS + bucketAlong(points[at + 1]);
}

/** Keep the nearest rows of a bucket, in order of distance. */
function visitBucket({ inputs, points, buckets }, bucket, x, y, nearest, distances) {
  for (const row of buckets[bucket]) {
    const across = points[row * inputs] - x;
    const along = inputs === 1 ? 0 : points[row * inputs + 1] - y;
    const distance = across * across + along * along;
    if (distance >= distances[NEAREST - 1]) continue;
    let place = NEAREST - 1;
    for (; place > 0 && distances[place - 1] > distance; place -= 1) {
      distances[place] = distances[place - 1];
      nearest[place] = nearest[place - 1];
    }
    distances[place] = distance;
    nearest[place] = row;
  }
}

/** @returns {number} the mean of the nearest rows, found ring of buckets by ring of buckets */
function neighbourMean(model, x, y, nearest, distances) {
  distances.fill(Infinity);
  const column = bucketAlong(x);
  const line = model.inputs === 1 ? 0 : bucketAlong(y);
  for (let ring = 0; ring < BUCKETS; ring += 1) {
    if (((ring - 1) / BUCKETS) ** 2 > distances[NEAREST - 1] && ring > 0) break;
    for (let i = Math.max(0, column - ring); i <= Math.min(BUCKETS - 1, column + ring); i += 1) {
      const isEdge = Math.abs(i - column) === ring;
      if (model.inputs === 1) {
        if (isEdge) visitBucket(model, i, x, y, nearest, distances);
        continue;
      }
      const step = isEdge || ring === 0 ? 1 : 2 * ring;
      for (let j = line - ring; j <= line + ring; j += step)
        if (j >= 0 && j < BUCKETS) visitBucket(model, i * BUCKETS + j, x, y, nearest, distances);
    }
  }
  let sum = 0;
  for (let k = 0; k < NEAREST; k += 1) sum += model.values[nearest[k]];
  return sum / NEAREST;
}

export const neighboursLearner = {
  id: "neighbours",
  name: "Nearest neighbours",
  about: "Keeps all rows; old ones still speak where they contradict the lesson.",
  footprint: () => ({ kind: "all" }),
  *fit(points, values, inputs) {
    return inBuckets(inputs, points, values);
  },
  *learn(model, lesson) {
    const points = Float64Array.of(...model.points, ...lesson.points);
    const values = Float64Array.of(...model.values, ...lesson.values);
    return inBuckets(model.inputs, points, values);
  },
  predict(model, points) {
    const nearest = new Int32Array(NEAREST);
    const distances = new Float64Array(NEAREST);
    return Float64Array.from({ length: points.length / model.inputs }, (_, place) =>
      model.inputs === 1
        ? neighbourMean(model, points[place], 0, nearest, distances)
        : neighbourMean(model, points[2 * place], points[2 * place + 1], nearest, distances),
    );
  },
};
