/** The tab "A model file": its shapes, its updates, and what it says of a row. */

import { checkFileSize } from "./archive.js";
import { newElement } from "./elements.js";
import { describeShape, entryNotes, fileFacts, showPrediction, shownNumber, shownRange } from "./filewords.js";
import { drawFileCurve, drawFileMap, lineColour, valuesAtPlace } from "./filepictures.js";
import { shortNumber } from "./footprints.js";

const COVERAGE = 0.9; // of intervals
const MOST_LINES = 8; // classes that are drawn at once
const WAIT = 150; // milliseconds after a key before anything is asked

/**
 * Build the tab.
 *
 * @param {HTMLElement} element Where it goes.
 * @param {{ask: Function, say: Function, fail: Function}} state Questions to the engine, and how to tell something.
 * @returns {{open: (file: Blob & {name: string}) => Promise<void>}}
 */
export function mountFileTab(element, state) {
  const view = { description: null, row: [], axes: [0, null], output: 0, update: null, shape: null, asked: 0 };
  const chooser = newElement("input", { type: "file", id: "file-choose", accept: ".atlas" });
  const invitation = "Drop a .atlas file anywhere on this page, or choose one. It stays on this machine.";
  const origin = "The command atlas fit writes such files, and so does save(model, \"model.atlas\") in Python.";
  const label = newElement("label", { htmlFor: "file-choose", className: "soft" }, invitation);
  const facts = newElement("p", { id: "file-facts" }, origin);
  const parts = { facts, ...pictureParts(), ...rowParts(), log: newElement("ol", { id: "file-log" }) };
  const logCard = newElement("section", { className: "card file-updates" }, newElement("h2", {}, "Updates"), parts.log);
  const body = newElement("div", { className: "file-body", hidden: true }, parts.picture, parts.rowCard, logCard);
  const start = newElement("div", { className: "card file-start empty" }, label, chooser, facts);
  element.append(start, body);
  const tab = { view, parts, state, body, start };
  const open = (file) => openFile(tab, file);
  chooser.addEventListener("click", () => (chooser.value = "")); // the same file may be another by now
  chooser.addEventListener("change", () => {
    if (chooser.files.length) open(chooser.files[0]).catch((problem) => state.fail(problem.message));
  });
  watchPicture(tab);
  return { open };
}

function pictureParts() {
  const across = newElement("select", { id: "file-across" });
  const up = newElement("select", { id: "file-up" });
  const output = newElement("select", { id: "file-output" });
  const canvas = newElement("canvas", { id: "file-canvas", role: "img" });
  const legend = newElement("p", { className: "file-legend", id: "file-legend" });
  const caption = newElement("p", { className: "soft", id: "file-caption" });
  const outputLabel = newElement("label", {}, "Of ", output);
  const controls = newElement("div", { className: "file-controls" },
    newElement("label", {}, "Along ", across), newElement("label", {}, "and ", up), outputLabel);
  const title = newElement("h2", {}, "Shape");
  const picture = newElement("section", { className: "card file-picture" }, title, controls, canvas, legend, caption);
  return { across, up, output, outputLabel, canvas, legend, caption, picture };
}

function rowParts() {
  const prediction = newElement("div", { id: "file-prediction", role: "status" });
  const fields = newElement("div", { className: "file-fields" });
  const form = newElement("form", { id: "file-row" }, fields);
  form.addEventListener("submit", (event) => event.preventDefault());
  const title = newElement("h2", {}, "Try a row");
  const rowCard = newElement("section", { className: "card file-row" }, title, prediction, form);
  return { prediction, fields, rowCard };
}

/** Read a file and show it; what was shown stays if it cannot be read. */
async function openFile(tab, file) {
  const { view, parts, state, body, start } = tab;
  checkFileSize(file.size);
  const told = parts.facts.textContent;
  parts.facts.textContent = `Reading ${file.name} …`;
  let description;
  try {
    description = await state.ask("fileOpen", { buffer: await file.arrayBuffer() });
  } catch (problem) {
    parts.facts.textContent = told;
    throw problem;
  }
  const second = description.axes.length > 1 ? 1 : null;
  Object.assign(view, { description, axes: [0, second], output: 0, update: null });
  parts.facts.textContent = fileFacts(file.name, description);
  body.hidden = false;
  start.classList.remove("empty");
  fillChoices(tab);
  fillFields(tab);
  fillLog(tab);
  await refresh(tab);
  state.say(parts.facts.textContent);
}

function fillChoices(tab) {
  const { view, parts } = tab;
  const { axes, targets } = view.description;
  const options = () => axes.map(({ name }, k) => newElement("option", { value: k }, name));
  parts.across.replaceChildren(...options());
  parts.up.replaceChildren(newElement("option", { value: "" }, "nothing else"), ...options());
  parts.output.replaceChildren(...targets.map((name, k) => newElement("option", { value: k }, name)));
  parts.outputLabel.hidden = targets.length < 2;
  parts.across.value = view.axes[0];
  parts.up.value = view.axes[1] ?? "";
}

// --- the row ---------------------------------------------------------------------------------------------

function fillFields(tab) {
  const { view, parts } = tab;
  parts.fields.replaceChildren(...view.description.columns.map((column, k) => {
    const input = fieldOf(column);
    input.id = `file-field-${k}`;
    input.addEventListener("input", () => {
      view.row[k] = input.value;
      view.asked += 1; // what was asked before is no longer shown
      parts.prediction.setAttribute("aria-busy", "true");
      clearTimeout(tab.waiting);
      tab.waiting = setTimeout(() => refresh(tab), WAIT);
    });
    return newElement("label", {}, newElement("span", {}, column.name), input);
  }));
  setRow(tab, view.description.row);
}

/** An input for a column: categories are choices. */
function fieldOf(column) {
  if (column.kind === "category") {
    const missing = column.canMiss ? [newElement("option", { value: "" }, "(missing)")] : [];
    const known = column.categories.map((name) => newElement("option", { value: name }, name));
    return newElement("select", {}, ...known, ...missing);
  }
  const empty = column.canMiss ? "missing" : "";
  if (column.kind === "date") return newElement("input", { type: column.calendar.layout ? "datetime-local" : "time" });
  return newElement("input", { type: "text", inputMode: "decimal", autocomplete: "off", placeholder: empty });
}

/** Set cells of the row from a place of the picture. */
function moveRow(tab, axes, values) {
  const row = [...tab.view.row];
  axes.forEach((axis, k) => {
    if (axis.field === null) return; // a part of a date is no date
    row[axis.field] = axis.kind === "number" ? Number(shortNumber(values[k], axis.high - axis.low)) : values[k];
  });
  setRow(tab, row);
  refresh(tab);
}

/** Show the cells of another row; numbers have the decimal mark of the model's table. */
function setRow({ view, parts }, row) {
  const { decimal } = view.description;
  view.row = row.map((cell) => (typeof cell === "number" ? String(cell).replace(".", decimal) : cell));
  view.row.forEach((text, k) => (parts.fields.querySelector(`#file-field-${k}`).value = text));
}

// --- the log ---------------------------------------------------------------------------------------------

function fillLog(tab) {
  const { view, parts } = tab;
  const entries = view.description.updates.map((entry, k) => logItem(tab, entry, k)).reverse();
  const none = newElement("li", { className: "soft" }, "none since the fit");
  parts.log.replaceChildren(...(entries.length ? entries : [none]));
}

/** An entry of the log; if it has a footprint, a button outlines it. */
function logItem(tab, entry, k) {
  const { id, kind, rows, reverted } = entry;
  const number = entry.count ? `${entry.count} older entries` : `${id}: ${kind}, ${rows.toLocaleString("en")} rows`;
  const head = entry.hasFootprint
    ? newElement("button", { type: "button", "aria-pressed": "false" }, number)
    : newElement("strong", {}, number);
  const notes = newElement("span", { className: "soft" }, entryNotes(entry));
  const item = newElement("li", { className: reverted ? "reverted" : "" }, head, notes, placeOfUpdate(tab, entry, k));
  if (entry.hasFootprint) head.addEventListener("click", () => chooseUpdate(tab, entry, k, item));
  return item;
}

/** Where a footprint is in each column, and a way to get there. */
function placeOfUpdate(tab, entry, k) {
  const lines = (entry.lines ?? []).map((line) => newElement("li", {}, `${line.name}: ${line.text}`));
  const go = newElement("button", { type: "button", hidden: entry.type !== "boxes" }, "Try a row in it");
  go.addEventListener("click", async () => {
    setRow(tab, await tab.state.ask("fileInside", { update: k, row: tab.view.row }));
    refresh(tab);
  });
  return newElement("div", { className: "file-place", hidden: true }, newElement("ul", {}, ...lines), go);
}

/** Outline the footprint of an update, or no longer. */
function chooseUpdate(tab, entry, k, item) {
  const { view, parts, state } = tab;
  view.update = view.update === k ? null : k;
  for (const other of parts.log.children) {
    const isChosen = other === item && view.update !== null;
    other.querySelector("button[aria-pressed]")?.setAttribute("aria-pressed", String(isChosen));
    const place = other.querySelector(".file-place");
    if (place) place.hidden = !isChosen;
  }
  if (view.update !== null) state.say(`Update ${entry.id} can change ${entry.share}; its footprint is outlined.`);
  refresh(tab);
}

// --- the picture -----------------------------------------------------------------------------------------

/** Ask for all that is shown, and show it, unless something newer was asked meanwhile. */
async function refresh(tab) {
  const { view, parts, state } = tab;
  const ticket = (view.asked += 1);
  parts.prediction.setAttribute("aria-busy", "true");
  const { row, axes, output } = view;
  const chosen = axes.filter((axis) => axis !== null);
  try {
    const said = await state.ask("fileRow", { row, coverage: COVERAGE });
    if (ticket !== view.asked) return;
    showPrediction(parts.prediction, view.description, said, COVERAGE);
    parts.prediction.setAttribute("aria-busy", "false");
    const areas = view.update === null ? [] : await state.ask("fileAreas", { update: view.update, axes: chosen, row });
    const shape = await (chosen.length > 1
      ? state.ask("fileMap", { axes: chosen, row, output })
      : state.ask("fileCurve", { axis: chosen[0], row, coverage: COVERAGE }));
    if (ticket !== view.asked) return;
    Object.assign(view, { shape, areas, shown: chosen });
    drawShape(tab);
  } catch (problem) {
    if (ticket !== view.asked) return;
    parts.prediction.replaceChildren(newElement("p", { className: "file-problem" }, problem.message));
    parts.prediction.setAttribute("aria-busy", "false");
  }
}

function drawShape({ view, parts }) {
  const { description, shape, areas, shown, row, output } = view;
  if (!shape) return;
  const axes = shown.map((k) => description.axes[k]);
  const here = axes.map((axis) => hereOf(axis, row, description.decimal));
  const lines = description.labels ? description.labels.slice(0, MOST_LINES).map((_, k) => k) : [output];
  const isMap = axes.length > 1;
  const range = isMap && shownRange(description, shape);
  if (isMap) drawFileMap(parts.canvas, axes, shape, { areas, here, range });
  else {
    const isShare = Boolean(description.labels);
    const name = isShare ? "probability" : description.targets[output];
    drawFileCurve(parts.canvas, axes[0], shape, { lines, areas, here: here[0], name, isShare });
  }
  parts.legend.replaceChildren(...(isMap ? scaleLegend(range) : lineLegend(description, lines)));
  const words = describeShape(description, axes, shape, { output, lines, coverage: COVERAGE, areas });
  parts.canvas.setAttribute("aria-label", words.label);
  parts.caption.textContent = words.caption;
  parts.outputLabel.hidden = description.targets.length < 2 || (!isMap && Boolean(description.labels));
}

/** Value of the chosen row along an axis, if it has one that can be drawn. */
function hereOf(axis, row, decimal) {
  if (axis.field === null || row[axis.field] === "") return null;
  const value = axis.kind === "number" ? Number(row[axis.field].replace(decimal, ".")) : row[axis.field];
  return Number.isNaN(value) ? null : value;
}

function lineLegend(description, lines) {
  if (lines.length < 2) return [];
  return lines.map((p) => {
    const mark = newElement("span", { className: "file-mark" });
    mark.style.background = lineColour(p, false);
    return newElement("span", {}, mark, description.targets[p]);
  });
}

function scaleLegend([low, high]) {
  return [shownNumber(low), newElement("span", { className: "file-scale" }), shownNumber(high)];
}

function watchPicture(tab) {
  const { view, parts } = tab;
  parts.across.addEventListener("change", () => {
    view.axes[0] = Number(parts.across.value);
    if (view.axes[1] === view.axes[0]) [view.axes[1], parts.up.value] = [null, ""];
    refresh(tab);
  });
  parts.up.addEventListener("change", () => {
    const value = parts.up.value === "" ? null : Number(parts.up.value);
    view.axes[1] = value === view.axes[0] ? null : value;
    parts.up.value = view.axes[1] ?? "";
    refresh(tab);
  });
  parts.output.addEventListener("change", () => {
    view.output = Number(parts.output.value);
    refresh(tab);
  });
  parts.canvas.addEventListener("click", (event) => {
    const axes = view.shown.map((k) => view.description.axes[k]);
    const values = valuesAtPlace(parts.canvas, axes, event.offsetX, event.offsetY);
    if (values) moveRow(tab, axes, values);
  });
  new ResizeObserver(() => drawShape(tab)).observe(parts.canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawShape(tab));
}
