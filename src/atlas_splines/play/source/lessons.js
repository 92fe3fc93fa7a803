/** All learners, taught the same lessons at the same time; what each of them changed, counted on predictions. */

import { boostingLearner } from "./boosting.js";
import { chartedLearner } from "./charted.js";
import { kanLearner } from "./kan.js";
import { neighboursLearner } from "./neighbours.js";
import { perceptronLearner } from "./perceptron.js";
import { plainLearner, plainParts } from "./plain.js";
import { pooledLearner } from "./pooled.js";
import { isInBox, lessonRows, lessonValue, makeProblem } from "./targets.js";

export const LEARNERS = [
  chartedLearner,
  pooledLearner,
  plainLearner,
  perceptronLearner,
  kanLearner,
  boostingLearner,
  neighboursLearner,
];

/** Points along each input at which predictions are counted, and at which pictures in between are drawn. */
export const SIDE = { 1: 4000, 2: 200 };
export const SMALL_SIDE = { 1: 250, 2: 50 };
const FRAME_MILLISECONDS = 70;
const KEPT = 60; // models that are remembered, for all learners together

/** @returns {Float64Array} (side ** inputs, inputs) the middles of equal cells; the first input varies slowest */
export function gridPoints(inputs, side) {
  const middle = (place) => (place + 0.5) / side;
  if (inputs === 1) return Float64Array.from({ length: side }, (_, place) => middle(place));
  return Float64Array.from({ length: 2 * side * side }, (_, place) =>
    place % 2 === 0 ? middle(Math.floor(place / 2 / side)) : middle((place >> 1) % side),
  );
}

/** @returns {Uint8Array} where numbers differ in some bit, of places outside */
export function changedPlaces(before, after, inside) {
  const one = new Uint32Array(before.buffer); // two for each number
  const other = new Uint32Array(after.buffer);
  return Uint8Array.from(inside, (isInside, place) => {
    const isSame = one[2 * place] === other[2 * place] && one[2 * place + 1] === other[2 * place + 1];
    return isInside || isSame ? 0 : 1;
  });
}

/** What one learner says, and what the last lesson changed. */
function resultOf(after, before, lesson, problem, points) {
  if (lesson === undefined) return { values: Float32Array.from(after) };
  const { inputs } = problem;
  const inside = new Uint8Array(after.length);
  let [error, errorBefore] = [0, 0];
  for (let place = 0; place < after.length; place += 1) {
    const x = points[place * inputs];
    const y = points[place * inputs + 1];
    if (!isInBox(lesson.box, x, y)) continue;
    const truth = lessonValue(problem, lesson, x, y);
    inside[place] = 1;
    error += Math.abs(after[place] - truth);
    errorBefore += Math.abs(before[place] - truth);
  }
  const changed = changedPlaces(before, after, inside);
  const insideCount = inside.reduce((sum, flag) => sum + flag, 0);
  const moved = after.reduce((sum, value, place) => sum + (changed[place] ? Math.abs(value - before[place]) : 0), 0);
  const elsewhere = after.length - insideCount;
  return {
    values: Float32Array.from(after),
    before: Float32Array.from(before),
    changed,
    elsewhere,
    changedCount: changed.reduce((sum, flag) => sum + flag, 0),
    meanChange: moved / Math.max(1, elsewhere) / 2,
    error: error / Math.max(1, insideCount) / 2,
    errorBefore: errorBefore / Math.max(1, insideCount) / 2,
  };
}

const memory = { problemKey: "", problem: null, models: new Map(), training: new Map(), newest: 0 };

/** @returns {object} the problem of a choice; models of another one are forgotten */
function openProblem(choice) {
  const key = JSON.stringify(choice);
  if (key !== memory.problemKey) {
    Object.assign(memory, { problemKey: key, problem: makeProblem(choice), models: new Map(), training: new Map() });
  }
  return memory.problem;
}

/** @returns {string} where the model of a learner after some lessons is remembered */
function placeOf(learner, lessons) {
  return `${learner.id} ${JSON.stringify(lessons)}`;
}

/** @returns {Iterator} the training that goes on where another question had ended it, or begins */
function trainingAt(place, begin) {
  if (!memory.training.has(place)) memory.training.set(place, begin());
  return memory.training.get(place);
}

/** The model of a learner after lessons, and its predictions; trained step by step where it is not known yet. */
function* modelAfter(learner, problem, lessons, grid) {
  const place = placeOf(learner, lessons);
  if (!memory.models.has(place)) {
    let model;
    if (lessons.length === 0) model = yield* trainingAt(place, () => learner.fit(problem.points, problem.values, problem.inputs));
    else {
      const before = yield* modelAfter(learner, problem, lessons.slice(0, -1), grid);
      model = yield* trainingAt(place, () => learner.learn(before.model, lessonRows(problem, lessons.at(-1))));
    }
    memory.training.delete(place);
    memory.models.set(place, { model, predictions: learner.predict(model, grid) });
  }
  const known = memory.models.get(place);
  memory.models.delete(place);
  memory.models.set(place, known); // the newest is last, and the first is the one to forget
  if (memory.models.size > KEPT) memory.models.delete(memory.models.keys().next().value);
  return known;
}

/** The model before the last lesson, if there is one, and after it. */
function* modelsAround(learner, problem, lessons, grid) {
  const before = lessons.length ? yield* modelAfter(learner, problem, lessons.slice(0, -1), grid) : undefined;
  return { before, after: yield* modelAfter(learner, problem, lessons, grid) };
}

/** Let messages in. */
function pause() {
  return new Promise((resolve) => setTimeout(resolve, 0));
}

/**
 * Teach all learners, side by side. Reports pictures in between and each result; a newer question ends this one.
 * @param {{choice: object, lessons: object[], doubt: boolean}} payload
 */
async function showLessons({ choice, lessons, doubt }, report) {
  memory.newest += 1;
  const turn = memory.newest;
  const problem = openProblem(choice);
  const grid = gridPoints(problem.inputs, SIDE[problem.inputs]);
  const small = gridPoints(problem.inputs, SMALL_SIDE[problem.inputs]);
  const tasks = LEARNERS.map((learner) => ({ learner, steps: modelsAround(learner, problem, lessons, grid) }));
  while (tasks.length) {
    for (const task of [...tasks]) {
      const begin = performance.now();
      let step = task.steps.next();
      while (!step.done && performance.now() - begin < FRAME_MILLISECONDS) step = task.steps.next();
      if (step.done) {
        tasks.splice(tasks.indexOf(task), 1);
        report(finished(task.learner, problem, lessons, step.value, grid, small, doubt));
      } else {
        report({ id: task.learner.id, frame: Float32Array.from(task.learner.predict(step.value, small)) });
      }
      await pause();
      if (memory.newest !== turn) return { isCurrent: false };
    }
  }
  return { isCurrent: true };
}

/** The result of a learner that has learned everything. */
function finished(learner, problem, lessons, { before, after }, grid, small, doubt) {
  const result = resultOf(after.predictions, before?.predictions, lessons.at(-1), problem, grid);
  if (doubt && learner.doubt) Object.assign(result, learner.doubt(after.model, small));
  return { id: learner.id, result };
}

/** The paper's model after some lessons, taken apart: what F and each pair of exponentials say. */
function showParts({ choice, lessons, densities }) {
  const problem = openProblem(choice);
  const grid = gridPoints(problem.inputs, SIDE[problem.inputs]);
  const small = gridPoints(problem.inputs, SMALL_SIDE[problem.inputs]);
  const steps = modelAfter(plainLearner, problem, lessons, grid);
  let step = steps.next();
  while (!step.done) step = steps.next();
  return { parts: plainParts(step.value.model, small, densities) };
}

export const lessonHandlers = { show: showLessons, parts: showParts };
