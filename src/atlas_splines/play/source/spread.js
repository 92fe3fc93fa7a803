/**
 * How sure a file's model is: intervals, sets of classes and support, equations (38) to (41) of docs/math.md.
 */

import { numbersOf, tensorOf } from "./archive.js";
import { interpolate } from "./columns.js";
import { localPoint, windowOf } from "./coremodel.js";
import { upTo } from "./coretables.js";
import { leverageAt, readPool, splineFeatures } from "./readout.js";

const SCORE_BINS = 384;
const SCORE_EDGES = Float64Array.from({ length: SCORE_BINS + 1 }, (_, k) => Math.sinh(-12 + k / 16));
const LADDER = [0.5, 0.8, 0.9, 0.95, 0.99]; // coverages that are watched and adapted
const SCORE_HALF_LIFE = 500;
const COVERAGE_STEP = 0.002;
const LARGEST_SHIFT = 0.3;
const LARGEST_LOG_SCALE = 30;
const LEVEL_NODES = 65; // predictions at which quantiles of a monotone model are looked at
const NODES_BEYOND = 8; // more of them on either side
const SCALE_DENSITY = 2; // of the splines of the prediction
const PLACE_GRAIN = 1024; // shares of a row are multiples of 1/1024
const ENOUGH_ALONE = 5; // rows near a point; more make nothing surer
const ENOUGH_PAIRED = 20;
const USUAL_SHARE = 0.3; // of the known rows that have less than full support, in one view

// --- reading -------------------------------------------------------------------------------------------

/** What a model, or a chart, knows about its errors after all its updates; null if that was never watched. */
export function readSpread(archive, core) {
  const header = core.evidence;
  if (!header) return null;
  const name = `${core.name}.evidence`;
  let spread = header.spread ? spreadAt(archive, header.spread, core, `${name}.spread`) : null;
  (header.recent ?? []).forEach(({ seen }, k) => {
    if (!seen) return;
    const place = `${name}.recent.${k}.seen`;
    spread = spread ? spreadAfter(archive, spread, seen, place) : spreadAt(archive, seen, core, place);
  });
  return spread;
}

function spreadAt(archive, header, core, name) {
  const scales = header.scales.map((inputs, k) => {
    const knots = numbersOf(archive, `${name}.scales.${k}.knots`, "F64", [null]);
    const size = 1 + 4 * (inputs.length + 1) + 16;
    return { inputs, knots, weights: numbersOf(archive, `${name}.scales.${k}.weights`, "F64", [size]) };
  });
  const scores = upTo(scales.length || 1).map((k) => {
    const centres = numbersOf(archive, `${name}.scores.${k}.centres`, "F64", [null]);
    const counts = numbersOf(archive, `${name}.scores.${k}.counts`, "F64", [centres.length, SCORE_BINS]);
    const shift = numbersOf(archive, `${name}.scores.${k}.shift`, "F64", [LADDER.length]);
    return { centres, counts, shift, isOneSided: !scales.length };
  });
  const presence = header.presence ? presenceAt(archive, header.presence, core, `${name}.presence`) : null;
  return { scales, scores, presence };
}

function presenceAt(archive, header, core, name) {
  const inputs = header.inputs;
  const pairs = inputs.flatMap((_, i) => inputs.slice(i + 1).map((__, k) => [i, i + 1 + k]));
  const { shape, data: alone } = tensorOf(archive, `${name}.alone`, "F64", [core.inputs, null]);
  const paired = tensorOf(archive, `${name}.paired`, "F64", [pairs.length, null, null]);
  const usual = tensorOf(archive, `${name}.usual`, "F64", [null, 33]);
  return {
    inputs, pairs, alone, cells: shape[1], paired: paired.data, side: paired.shape[1] - 2, usual: usual.data,
    views: usual.shape[0],
  };
}

/** A spread after an update: older scores fade, coverages are adapted, rows are counted. */
function spreadAfter(archive, spread, seen, name) {
  const scores = spread.scores.map((each, k) => {
    const regions = each.centres.length;
    const counts = numbersOf(archive, `${name}.tallies.${k}.counts`, "F64", [regions, SCORE_BINS]);
    const covered = numbersOf(archive, `${name}.tallies.${k}.covered`, "F64", [LADDER.length]);
    return scoresAfter(each, counts, covered);
  });
  let presence = spread.presence;
  if (presence && seen.visits) {
    const { inputs, pairs, side, cells } = presence;
    const alone = numbersOf(archive, `${name}.alone`, "F64", [presence.alone.length / cells, cells]);
    const paired = numbersOf(archive, `${name}.paired`, "F64", [pairs.length, side + 2, side + 2]);
    const added = (old, more) => old.map((value, k) => value + more[k]);
    presence = { ...presence, inputs, alone: added(presence.alone, alone), paired: added(presence.paired, paired) };
  }
  return { ...spread, scores, presence };
}

function scoresAfter(scores, tally, covered) {
  const rows = regionRows(tally);
  const all = rows.reduce((sum, each) => sum + each, 0);
  const counts = scores.counts.map((value, k) => {
    return 0.5 ** (rows[Math.floor(k / SCORE_BINS)] / SCORE_HALF_LIFE) * value + tally[k];
  });
  const shift = scores.shift.map((value, k) => {
    const moved = value + (1 - Math.exp(-COVERAGE_STEP * all)) * (LADDER[k] - covered[k]);
    return Math.min(Math.max(moved, -LARGEST_SHIFT), 1 - LADDER[k]);
  });
  return { ...scores, counts, shift };
}

function regionRows(counts) {
  const rows = new Array(counts.length / SCORE_BINS).fill(0);
  counts.forEach((value, k) => (rows[Math.floor(k / SCORE_BINS)] += value));
  return rows;
}

// --- scores --------------------------------------------------------------------------------------------

/** The coverage to ask of the histograms so that rows to come get this one. */
function adaptedCoverage({ shift }, coverage) {
  let most = 0;
  const reached = LADDER.map((level, k) => (most = Math.max(most, Math.min(Math.max(level + shift[k], 0), 1))));
  const values = [0, ...reached, 1];
  return interpolate(coverage, [0, ...LADDER, 1], (k) => values[k]);
}

/** Quantile of each region; with `outwards` of 1 or −1 corrected for a finite number of rows. */
function scoreQuantiles({ counts }, level, outwards) {
  return upTo(counts.length / SCORE_BINS).map((region) => {
    const bins = counts.subarray(region * SCORE_BINS, (region + 1) * SCORE_BINS);
    const sums = new Float64Array(SCORE_BINS + 1);
    bins.forEach((value, k) => (sums[k + 1] = sums[k] + value));
    const all = sums[SCORE_BINS];
    const more = outwards === 1 ? level / all : outwards === -1 ? (level - 1) / all : 0;
    const first = bins.findIndex((value) => value > 0);
    const last = bins.findLastIndex((value) => value > 0);
    const within = sums.subarray(first, last + 2);
    return interpolate((level + more) * all, within, (k) => SCORE_EDGES[first + k]);
  });
}

/** Lowest and highest score of an interval, for each region of predictions; it holds the prediction. */
function scoreEnds(scores, coverage) {
  const tail = 1 - adaptedCoverage(scores, coverage);
  if (scores.isOneSided) return [null, scoreQuantiles(scores, 1 - tail, 1)];
  const [low, high] = [scoreQuantiles(scores, tail / 2, -1), scoreQuantiles(scores, 1 - tail / 2, 1)];
  return [low.map((end) => Math.min(end, 0)), high.map((end) => Math.max(end, 0))];
}

function betweenRegions(scores, said, quantiles) {
  return interpolate(said, scores.centres, (k) => quantiles[k]);
}

/** The usual size of errors at a point of which something is said. */
function scaleAt({ inputs, knots, weights }, point, said) {
  const place = interpolate(said, knots, (k) => k / (knots.length - 1));
  const values = new Float64Array(weights.length);
  values[0] = 1;
  let begin = 1;
  for (const coordinate of [...inputs.map((j) => point[j]), place]) {
    begin += splineFeatures(Math.min(Math.max(coordinate, 0), 1), 0, values.subarray(begin));
  }
  splineFeatures(place, SCALE_DENSITY, values.subarray(begin));
  const logarithm = values.reduce((sum, value, k) => sum + value * weights[k], 0);
  return Math.exp(Math.min(Math.max(logarithm, -LARGEST_LOG_SCALE), LARGEST_LOG_SCALE));
}

// --- what is asked -------------------------------------------------------------------------------------

/**
 * Who can be asked how sure a model is.
 *
 * Each function takes a point of the model's domain, in the model's rounding, and returns numbers in the units of
 * its outputs; inside charts their own errors speak, faded in as their predictions are.
 *
 * @returns {object | null} `ends(point, said, coverage)` less what is said, `level(point, said, quantile)`,
 *     `mostSurprise(point, coverage)` of classes, `support(point)`, which is null if it is not known, and
 *     `openEnd(input, isUpper)`, how far the slope at an end of an input goes on beyond it, from 0 to 1.
 */
export function readDoubt(archive, core) {
  const spread = readSpread(archive, core);
  if (!spread) return null;
  const parts = core.charts.map((chart) => ({ chart, spread: readSpread(archive, chart) }));
  const speaking = parts.filter((part) => part.spread);
  const remembered = new Map(); // quantiles do not depend on the point
  const quantiles = (scores, kind, level) => {
    if (!remembered.has(scores)) remembered.set(scores, new Map());
    const known = remembered.get(scores);
    const key = `${kind} ${level}`;
    if (!known.has(key)) known.set(key, kind === "ends" ? scoreEnds(scores, level) : scoreQuantiles(scores, level, 0));
    return known.get(key);
  };
  const sized = (point, said, ask) => blended(core, spread, speaking, point, said, ask, true);
  const knows = [spread, ...speaking.map((part) => part.spread)].every((each) => each.presence);
  const level = (point, said, quantile) => sized(point, said, (own, _, at, told) =>
    own.scales.map((scale, k) => {
      const found = quantiles(own.scores[k], "level", quantile);
      return scaleAt(scale, at, told[k]) * betweenRegions(own.scores[k], told[k], found);
    }));
  const nodes = core.monotone && spread.scales.length ? predictionNodes(core, spread, speaking) : [];
  // along constrained inputs a quantile depends on the prediction alone, and never falls as that rises
  const risingLevel = (point, said, quantile) => {
    const held = point.map((value, j) => (core.monotone.some((ways) => ways[j]) ? 0.5 : value));
    const levels = nodes[0].map((_, k) => level(held, nodes.map((own) => own[k]), quantile)); // (nodes, outputs)
    return said.map((value, p) => {
      const even = evenlyRising(nodes[p].map((node, k) => node + levels[k][p]));
      return interpolate(value, nodes[p], (k) => even[k] - nodes[p][k]);
    });
  };
  const pools = new Map();
  const poolOf = (owner) => {
    if (!pools.has(owner)) pools.set(owner, readPool(archive, owner));
    return pools.get(owner);
  };
  return {
    isOfClasses: !spread.scales.length,
    ends: (point, said, coverage) => sized(point, said, (own, _, at, told) =>
      own.scales.flatMap((scale, k) => {
        const [size, scores] = [scaleAt(scale, at, told[k]), own.scores[k]];
        return quantiles(scores, "ends", coverage).map((end) => size * betweenRegions(scores, told[k], end));
      })),
    level: (point, said, quantile) => core.monotone ? risingLevel(point, said, quantile) : level(point, said, quantile),
    mostSurprise: (point, coverage) => blended(core, spread, speaking, point, null, (own) =>
      [betweenRegions(own.scores[0], 0, quantiles(own.scores[0], "ends", coverage)[1])], false)[0],
    support: knows
      ? (point) => blended(core, spread, speaking, point, null, (own, owner, at) =>
          [supportAt(own.presence, at, own.presence.views > 2 ? poolOf(owner) : null)], false)[0]
      : null,
    openEnd: (j, isUpper) => (spread.presence ? openEndOf(spread.presence, j, isUpper) : 1),
  };
}

/** Predictions of each output at which quantiles of a monotone model are looked at, rising. */
function predictionNodes(core, spread, speaking) {
  const evenly = upTo(LEVEL_NODES).map((k) => k / (LEVEL_NODES - 1));
  const resampled = (values) => evenly.map((place) => {
    return interpolate(place, values.map((_, k) => k / (values.length - 1)), (k) => values[k]);
  });
  return spread.scales.map((scale, p) => {
    const charts = speaking.map(({ chart, spread: own }) => {
      return Array.from(own.scales[p].knots, (knot) => knot * chart.sizes[p]);
    });
    const inner = resampled([Array.from(scale.knots), ...charts].flatMap(resampled).sort((a, b) => a - b));
    const width = Math.max(inner[LEVEL_NODES - 1] - inner[0], 1e-9);
    const rising = inner.map((value, k) => value + evenly[k] * (1e-9 * width)); // no two are the same
    const beyond = upTo(NODES_BEYOND).map((k) => (width * (k + 1)) / NODES_BEYOND);
    const [low, high] = [rising[0], rising[LEVEL_NODES - 1]];
    return [...beyond.map((far) => low - far).reverse(), ...rising, ...beyond.map((far) => high + far)];
  });
}

/** The mean of the lowest rising function above some values and of the highest one below them. */
function evenlyRising(values) {
  let [most, least] = [-Infinity, Infinity];
  const above = values.map((value) => (most = Math.max(most, value)));
  const below = [...values].reverse().map((value) => (least = Math.min(least, value))).reverse();
  return above.map((value, k) => (value + below[k]) / 2);
}

/** What the spread of a model says, and inside charts theirs; `sized` if in units of the target. */
function blended(core, spread, speaking, point, said, ask, sized) {
  const values = ask(spread, core, point, said);
  for (const { chart, spread: own } of speaking) {
    const window = windowOf(chart.fence, point);
    if (!window) continue;
    const told = said && said.map((value, p) => value / chart.sizes[p]);
    const found = ask(own, chart, localPoint(chart.fence, point), told);
    const perOutput = sized ? values.length / chart.sizes.length : 1;
    found.forEach((value, k) => {
      const size = sized ? chart.sizes[Math.floor(k / perOutput)] : 1;
      values[k] = (1 - window) * values[k] + window * value * size;
    });
  }
  return values;
}

// --- support -------------------------------------------------------------------------------------------

/** How much stands behind a point, of what known rows have: from 0 to 1, equation (41). */
function supportAt(presence, point, pool) {
  if (point.some((value) => value < 0 || value > 1)) return 0;
  const views = [aloneAt(presence, point), pairedAt(presence, point)];
  if (pool) views.push(-Math.log(Math.max(leverageAt(pool, point), 1e-300)));
  const shares = views.map((view, k) => {
    const usual = presence.usual.subarray(33 * k, 33 * (k + 1));
    return view < usual[0] ? 0 : interpolate(view, usual, (quantile) => quantile / 32);
  });
  return Math.min(Math.min(...shares) / USUAL_SHARE, 1);
}

/** How few rows lie at an end of an input: usual ones over those there, up to 1. */
function openEndOf({ alone, cells }, j, isUpper) {
  const counts = alone.subarray(j * cells, (j + 1) * cells);
  const usual = counts.reduce((sum, value) => sum + value, 0) / cells;
  return Math.min((usual + 0.5) / (counts[isUpper ? cells - 1 : 0] + 0.5), 1);
}

/** Rows along each input, over what is enough: the smallest of all inputs, as a logarithm. */
function aloneAt({ alone, cells }, point) {
  let least = 1;
  for (let j = 0; j < point.length; j++) {
    const counts = alone.subarray(j * cells, (j + 1) * cells);
    const near = counts[Math.min(Math.floor(point[j] * cells), cells - 1)];
    const enough = Math.min(counts.reduce((sum, value) => sum + value, 0) / cells, ENOUGH_ALONE);
    least = Math.min(least, (near + 0.5) / (enough + 0.5));
  }
  return Math.log(least);
}

/** Rows in each pair of inputs, over what independent inputs would have there, or enough: the smallest. */
function pairedAt({ inputs, pairs, paired, side }, point) {
  const width = side + 2;
  const places = inputs.map((j) => {
    const place = point[j] * side + 0.5;
    const cell = Math.floor(place);
    return { cell, upper: roundedToEven((place - cell) * PLACE_GRAIN) / PLACE_GRAIN };
  });
  let least = 1;
  pairs.forEach(([first, second], k) => {
    const table = paired.subarray(k * width * width, (k + 1) * width * width);
    const [rows, columns] = [new Float64Array(width), new Float64Array(width)];
    table.forEach((value, at) => {
      rows[Math.floor(at / width)] += value;
      columns[at % width] += value;
    });
    const all = Math.max(rows.reduce((sum, value) => sum + value, 0), 1);
    let [near, expected] = [0, 0];
    for (const a of [0, 1]) {
      for (const b of [0, 1]) {
        const [row, column] = [places[first].cell + a, places[second].cell + b];
        const along = (place, end) => (end ? place.upper : 1 - place.upper);
        const share = along(places[first], a) * along(places[second], b);
        near += share * table[row * width + column];
        expected += share * rows[row] * columns[column];
      }
    }
    least = Math.min(least, (near + 0.5) / (Math.min(expected / all, ENOUGH_PAIRED) + 0.5));
  });
  return Math.log(least);
}

/** The nearest whole number; of two that are as near, the even one. */
function roundedToEven(value) {
  const floor = Math.floor(value);
  if (value - floor !== 0.5) return Math.round(value);
  return floor % 2 ? floor + 1 : floor;
}
