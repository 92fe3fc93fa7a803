/** What the tab of model files says in words. */

import { percent } from "./cards.js";
import { newElement } from "./elements.js";

const MOST_CLASSES = 8; // whose probabilities are shown

/** A number as people read it. */
export function shownNumber(value) {
  if (!Number.isFinite(value)) return String(value);
  if (value !== 0 && Math.abs(value) < 1e-6) return value.toExponential(1);
  return value.toLocaleString("en", { maximumSignificantDigits: 5 });
}

/** One sentence or two on what a file holds. */
export function fileFacts(name, { kind, target, fit, size, version, checksum }) {
  const what = { model: "a bare model", regressor: "a regressor", classifier: "a classifier" }[kind];
  const held = fit && `held-out ${fit.measure} ${shownNumber(Number(fit.error))}`;
  const made = fit ? `, fitted ${fit.date} to ${fit.rows.toLocaleString("en")} rows (${held})` : "";
  const charts = `${size.charts} chart${size.charts === 1 ? "" : "s"}`;
  const parts = `${size.coefficients.toLocaleString("en")} coefficients, density ${size.density}, ${charts}`;
  return `${name}: ${what}${target ? ` of ${target}` : ""}${made}. ${parts}; format ${version}, checksum ${checksum}.`;
}

/** When an entry of the log was made, what it did, and why. */
export function entryNotes({ time, measure, before, after, isHeldOut, share, reason, message, author, reverted }) {
  const on = isHeldOut ? "held out" : "on the rows learned";
  const errors = measure && `${measure} ${shownNumber(before)} before, ${shownNumber(after)} after, ${on}`;
  const signed = message ? `“${message}”${author ? `, ${author}` : ""}` : author;
  const taken = reverted && `taken back ${reverted.slice(0, 10)}`;
  const place = share && `can change ${share}`;
  return [time.slice(0, 16).replace("T", " "), errors, place, reason, signed, taken].filter(Boolean).join(" · ");
}

/** A number on the page, with all of its digits for whoever reads the page by program. */
function dataOf(value, text = shownNumber(value)) {
  return newElement("data", { value: String(value) }, text);
}

function paragraph(className, ...children) {
  return newElement("p", { className }, ...children);
}

/** Show what is said of the chosen row. */
export function showPrediction(element, description, said, coverage) {
  const { values, probabilities, isInside, interval, support } = said;
  const lines = probabilities
    ? classLines(description, said, coverage)
    : values.flatMap((value, p) => valueLines(description, value, p, interval, coverage));
  if (!isInside) lines.push(paragraph("soft", "The row lies outside the domain of the model."));
  if (support !== null) {
    const meter = newElement("meter", { min: 0, max: 1, low: 0.5, value: support, "aria-label": "support" });
    const number = dataOf(support, support.toFixed(2));
    lines.push(paragraph("soft file-support", "Support ", meter, " ", number, `: ${supportWords(support)}`));
  }
  element.replaceChildren(...lines);
}

function valueLines({ targets }, value, p, interval, coverage) {
  const name = targets.length > 1 || targets[p] !== "prediction" ? `${targets[p]}: ` : "";
  const line = paragraph("file-value", name, dataOf(value));
  if (!interval) return [line];
  const ends = [dataOf(interval.low[p]), " to ", dataOf(interval.high[p])];
  return [line, paragraph("soft file-interval", `${100 * coverage} % of rows like this: `, ...ends)];
}

function classLines({ labels }, { label, probabilities, interval }, coverage) {
  const order = labels.map((_, k) => k).sort((a, b) => probabilities[b] - probabilities[a]);
  const items = order.slice(0, MOST_CLASSES).map((k) => {
    const chance = dataOf(probabilities[k], percent(probabilities[k]));
    const item = newElement("li", {}, `${labels[k]} `, chance);
    item.style.setProperty("--share", probabilities[k]);
    return item;
  });
  const list = newElement("ul", { className: "file-classes" }, ...items);
  const lines = [paragraph("file-value", String(label)), list];
  if (interval) lines.push(paragraph("soft", `In the set of ${100 * coverage} %: ${interval.classes.join(", ")}.`));
  return lines;
}

function supportWords(support) {
  if (support >= 0.5) return "as much as known rows have";
  return support > 0 ? "less than most known rows have" : "no known row is like this";
}

/** @returns {number[]} the lowest and highest value that a map has colours for */
export function shownRange({ labels }, { said }) {
  return labels ? [0, 1] : [Math.min(...said), Math.max(...said)];
}

/** A picture in words: a label for those who do not see it, and a caption for all. */
export function describeShape(description, axes, shape, { output, lines, coverage, areas }) {
  const names = axes.map(({ name }) => name).join(" and ");
  const of = description.targets[output];
  const others = description.axes.length > axes.length ? ", all other columns as in the row" : "";
  const outlined = footprintWords(areas);
  const grey = shape.support ? " Grey: little support." : "";
  if (axes.length > 1) {
    const [low, high] = shownRange(description, shape).map(shownNumber);
    const what = description.labels ? `Probability of ${of}` : of;
    const label = `Map of ${what} over ${names}, from ${low} to ${high}.${outlined}`;
    return { label, caption: `${what} over ${names}${others}.${grey}${outlined}` };
  }
  const parts = lines.map((p) => {
    const said = shape.said[p];
    const ends = [said[0], said[said.length - 1], Math.min(...said), Math.max(...said)].map(shownNumber);
    return `${description.targets[p]} begins at ${ends[0]}, ends at ${ends[1]}, lowest ${ends[2]}, highest ${ends[3]}`;
  });
  const band = shape.low ? ` The band has ${100 * coverage} % of rows.` : "";
  const what = description.labels ? "Probabilities" : of;
  const label = `Curve along ${names}: ${parts.join("; ")}.${outlined}`;
  return { label, caption: `${what} along ${names}${others}.${band}${grey}${outlined}` };
}

function footprintWords(areas) {
  if (!areas.length) return "";
  if (areas.some(({ isHole }) => isHole)) return " Outlined: the footprint; nothing changes in the dashed parts.";
  if (areas.some(({ isHere }) => isHere)) return " Outlined: the footprint.";
  return " Dashed: the footprint, which this row is outside of in other columns.";
}
