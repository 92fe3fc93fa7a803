"use strict";
// The page of a model's life. Names, categories and messages come from tables of strangers: they become text
// nodes and attributes, never markup. All numbers are computed by the service.

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 420, HEIGHT = 170, SMALL_WIDTH = 290, SMALL_HEIGHT = 150, LEFT = 46, RIGHT = 12, TOP = 10, BOTTOM = 26;
const PAUSE = 250; // milliseconds between the last key and the question
const LOOK = 5000; // milliseconds between two looks for a new version
const MOST_BARS = 10;
const at = (id) => document.getElementById(id);
let model = null;
let asked = 0; // questions about rows: only the answer to the last one is shown

// --- making elements ------------------------------------------------------------------------------------

function make(tag, attributes = {}, ...content) {
  const found = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) found.setAttribute(name, value === true ? "" : value);
  }
  found.append(...content);
  return found;
}

function draw(tag, attributes = {}, ...content) {
  const found = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, value);
  found.append(...content);
  return found;
}

function short(number) {
  if (number === null || number === undefined) return "unknown";
  const size = Math.abs(number);
  if (size !== 0 && (size >= 1e7 || size < 1e-4)) return number.toExponential(2);
  return number.toLocaleString("en", { maximumSignificantDigits: size >= 1000 ? 6 : 4 });
}

function percent(share) {
  if (share > 0 && share < 0.001) return "under 0.1 %";
  if (share < 1 && share > 0.999) return "over 99.9 %";
  return `${(100 * share).toFixed(share === 0 || share === 1 ? 0 : 1)} %`;
}

function cut(text, most) {
  const letters = [...String(text)];
  return letters.length > most ? letters.slice(0, most - 1).join("") + "…" : letters.join("");
}

function day(time) {
  return String(time).slice(0, 16).replace("T", " ") + " UTC";
}

// --- asking ---------------------------------------------------------------------------------------------

async function ask(path, content, method) {
  const headers = {};
  const token = at("token").value.trim();
  if (token) headers.Authorization = `Bearer ${token}`;
  const options = { headers, method: method ?? (content === undefined ? "GET" : "POST") };
  if (content !== undefined) {
    headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(content);
  }
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error("the service does not answer; is it still running?");
  }
  const found = await answer.json().catch(() => ({ error: `the service answered ${answer.status}` }));
  if (answer.status === 401) at("token-form").hidden = false;
  if (!answer.ok) throw new Error(found.error);
  return found;
}

function complain(error) {
  const box = at("problem");
  box.hidden = !error;
  box.textContent = error ? error.message : "";
}

function say(text) {
  at("live").textContent = text;
}

// --- pictures -------------------------------------------------------------------------------------------

function scale(low, high, from, to) {
  const width = high - low || 1;
  return (value) => from + ((value - low) / width) * (to - from);
}

function frame(label, low, high, format, width = WIDTH, height = HEIGHT) {
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  const y = scale(low, high, height - BOTTOM, TOP);
  for (const value of [low, (low + high) / 2, high]) {
    svg.append(
      draw("line", { class: "axis", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }),
      draw("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, format(value)),
    );
  }
  return [svg, y];
}

function path(points) {
  return points.map(([x, y], k) => `${k ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
}

function lifeChart(box, entries, value, low, high, format, what, goal) {
  box.replaceChildren();
  const shown = entries.filter((entry) => value(entry) !== null && value(entry) !== undefined);
  if (!shown.length) {
    box.append(make("p", { class: "soft" }, "Nothing is known of it yet."));
    return;
  }
  const words = `${what}: ${shown.length} updates, from ${format(value(shown[0]))} to ${format(value(shown.at(-1)))}`;
  const [svg, y] = frame(words, low, high, format);
  svg.setAttribute("role", "group"); // it has links, whose names are read
  const x = scale(0, Math.max(shown.length - 1, 1), LEFT + 8, WIDTH - RIGHT - 8);
  if (goal !== undefined) svg.append(draw("line", { class: "goal", x1: LEFT, x2: WIDTH - RIGHT, y1: y(goal), y2: y(goal) }));
  const inside = (number) => Math.min(Math.max(number, low), high);
  svg.append(draw("path", { class: "line", d: path(shown.map((entry, k) => [x(k), y(inside(value(entry)))])) }));
  shown.forEach((entry, k) => {
    const text = `Update ${entry.id}: ${format(value(entry))}${entry.caution ? ", with a caution" : ""}`;
    const kind = `dot${entry.reverted ? " gone" : ""}${entry.caution ? " warned" : ""}`;
    const dot = draw("circle", { class: kind, cx: x(k), cy: y(inside(value(entry))), r: 5 }, draw("title", {}, text));
    svg.append(draw("a", { href: `#update-${entry.id}`, "aria-label": text }, dot));
  });
  const ends = shown.length > 1 ? [0, shown.length - 1] : [0];
  for (const k of ends) {
    svg.append(draw("text", { x: x(k), y: HEIGHT - 6, "text-anchor": k ? "end" : "start" }, String(shown[k].time).slice(0, 10)));
  }
  box.append(svg);
}

function shapeChart(shape, here, label) {
  const width = SMALL_WIDTH, height = SMALL_HEIGHT;
  const all = [...shape.values, ...(shape.low ?? []), ...(shape.high ?? []), ...(shape.other ?? [])];
  let [low, high] = [Math.min(...all), Math.max(...all)];
  if (high - low < 1e-9 * Math.max(Math.abs(high), 1)) [low, high] = [low - 0.5, high + 0.5];
  const numeric = typeof shape.places[0] === "number";
  const what = `${label} along ${shape.name}: from ${short(shape.values[0])} at ${shape.places[0]} to ${short(shape.values.at(-1))} at ${shape.places.at(-1)}`;
  const [svg, y] = frame(what, low, high, short, width, height);
  const count = shape.places.length;
  const x = numeric
    ? scale(shape.places[0], shape.places.at(-1), LEFT + 4, width - RIGHT - 4)
    : scale(-0.5, count - 0.5, LEFT, width - RIGHT);
  const place = (k) => x(numeric ? shape.places[k] : k);
  if (numeric) {
    if (shape.low) {
      const upper = shape.high.map((value, k) => [place(k), y(value)]);
      const lower = shape.low.map((value, k) => [place(k), y(value)]).reverse();
      svg.append(draw("path", { class: "band", d: path([...upper, ...lower]) + "Z" }));
    }
    if (shape.other) svg.append(draw("path", { class: "line other", d: path(shape.other.map((v, k) => [place(k), y(v)])) }));
    svg.append(draw("path", { class: "line", d: path(shape.values.map((v, k) => [place(k), y(v)])) }));
    if (typeof here === "number" && here >= shape.places[0] && here <= shape.places.at(-1)) {
      svg.append(draw("line", { class: "here", x1: x(here), x2: x(here), y1: TOP, y2: height - BOTTOM }));
    }
    [0, count - 1].forEach((k, end) => {
      svg.append(draw("text", { x: place(k), y: height - 8, "text-anchor": end ? "end" : "start" }, short(shape.places[k])));
    });
    return svg;
  }
  const step = Math.abs(place(1) - place(0)) || width - LEFT - RIGHT;
  shape.values.forEach((value, k) => {
    if (shape.low) {
      const top = y(shape.high[k]);
      svg.append(draw("rect", { class: "band", x: place(k) - step / 4, width: step / 2, y: top, height: Math.max(y(shape.low[k]) - top, 1) }));
    }
    const half = step / 4;
    if (shape.other) {
      svg.append(draw("path", { class: "line other", d: path([[place(k) - half, y(shape.other[k])], [place(k) + half, y(shape.other[k])]]) }));
    }
    const name = `${shape.places[k]}: ${short(value)}`;
    svg.append(draw("circle", { class: "dot", cx: place(k), cy: y(value), r: shape.places[k] === here ? 6 : 4 }, draw("title", {}, name)));
    if (count <= 8) {
      svg.append(draw("text", { x: place(k), y: height - 8, "text-anchor": "middle" }, cut(shape.places[k], Math.floor(step / 7))));
    }
  });
  return svg;
}

// --- the life -------------------------------------------------------------------------------------------

function showLife() {
  at("name").textContent = model.name;
  document.title = `${model.name} – the life of a model`;
  const fit = model.fit ? `Fitted to ${model.fit.rows.toLocaleString("en")} rows on ${model.fit.date}. ${model.fit.text}. ` : "";
  at("about").textContent = `Predicts ${model.target}. ${fit}Version ${model.version.slice(0, 12)}.`;
  const updates = model.entries.filter((entry) => entry.error_before !== undefined);
  const errors = updates.map((entry) => entry.error_before).filter((value) => value !== null);
  const highest = Math.max(...errors, 0) || 1;
  const measure = updates.at(-1)?.measure ?? "error";
  lifeChart(at("error-chart"), updates, (entry) => entry.error_before, 0, highest, short, measure);
  const covered = updates.filter((entry) => entry.coverage !== null);
  const least = Math.min(0.5, ...covered.map((entry) => entry.coverage));
  lifeChart(at("coverage-chart"), updates, (entry) => entry.coverage, least, 1, percent, "coverage", model.promised);
  at("updates").replaceChildren(...model.entries.toReversed().map(showEntry));
  at("no-updates").hidden = model.entries.length > 0;
  const undoable = updates.filter((entry) => entry.undoable).map((entry) => entry.id);
  const chosen = at("without").value;
  const options = undoable.toReversed().map((id) => make("option", { value: id }, `the model without update ${id}`));
  at("without").replaceChildren(make("option", { value: "" }, "nothing"), ...options);
  if (undoable.map(String).includes(chosen)) at("without").value = chosen;
}

function titleOf(entry) {
  const rows = `${entry.rows.toLocaleString("en")} ${entry.rows === 1 ? "row" : "rows"}`;
  if (entry.count) return `${entry.count} older updates, ${rows}`;
  if (entry.kind === "revert") return `${entry.id} · undid update ${entry.updates.join(", ")}`;
  if (entry.kind === "forget") return `${entry.id} · forgot ${rows}`;
  if (entry.kind === "consolidation") return `${entry.id} · consolidated`;
  return `${entry.id} · learned ${rows}`;
}

function showEntry(entry) {
  const text = make("div", {}, make("h3", {}, titleOf(entry)));
  const author = entry.author ? ` · ${entry.author}` : "";
  const gone = entry.reverted ? ` · undone ${day(entry.reverted)}` : "";
  text.append(make("p", { class: "soft" }, `${day(entry.time)}${author}${gone}`));
  if (entry.message) text.append(make("p", {}, entry.message));
  if (entry.error_before !== undefined) {
    const held = entry.held_out ? `, ${short(entry.held_out.error)} after` : "";
    const inside = entry.coverage === null ? "" : ` · ${percent(entry.coverage)} of targets in their 90 % intervals`;
    text.append(make("p", { class: "soft" }, `${entry.measure} ${short(entry.error_before)} before${held}${inside}`));
  }
  if (entry.caution) text.append(make("p", { class: "caution" }, `Caution: ${entry.caution}.`));
  if (entry.footprint) text.append(footprint(entry));
  const item = make("li", { id: `update-${entry.id}`, class: entry.reverted ? "gone" : null, tabindex: "-1" }, text);
  if (entry.undoable && !model.read_only) {
    const button = make("button", { type: "button", "aria-label": `Undo update ${entry.id}` }, "Undo…");
    button.addEventListener("click", () => askUndo(entry));
    item.append(button);
  }
  return item;
}

function footprint(entry) {
  const share = entry.known_rows === null ? "" : `, ${percent(entry.known_rows)} of the known rows`;
  const known = entry.volume === 1 ? "It could change every prediction" : `It could change ${percent(entry.volume ?? 0)} of the domain${share}`;
  const reason = entry.reason ? `${entry.reason[0].toUpperCase()}${entry.reason.slice(1)}. ` : "";
  const list = make("ul", {});
  if (entry.volume !== 1) {
    for (const [name, parts] of Object.entries(entry.footprint)) {
      const words = parts.map(([low, high]) => `${short(low)} to ${short(high)}`).join(" and ");
      list.append(make("li", {}, `${name}: ${words || "nowhere"}`));
    }
  }
  return make("details", {}, make("summary", {}, "What it did, and could change"), make("p", {}, `${reason}${known}.`), list);
}

// --- undoing --------------------------------------------------------------------------------------------

let undoing = null;

async function askUndo(entry) {
  undoing = entry;
  at("undo-title").textContent = `Undo update ${entry.id}?`;
  const message = entry.message ? ` (“${entry.message}”)` : "";
  at("undo-what").textContent = `The model becomes what it would be if the ${entry.rows.toLocaleString("en")} rows of update ${entry.id}${message} had never come.`;
  at("undo-change").textContent = "Finding out what that changes…";
  at("undo-yes").disabled = true;
  at("undo-change").after(at("token-form")); // what stands outside cannot be reached while it is open
  at("undo").showModal();
  at("undo-no").focus();
  try {
    const change = await ask(`/undo/${entry.id}`);
    if (undoing !== entry) return;
    at("undo-change").textContent = changeText(change);
    at("undo-yes").disabled = false;
  } catch (error) {
    at("undo-change").textContent = `It cannot be undone: ${error.message}`;
  }
}

function changeText(change) {
  if (!change.points) return "How much changes is not known: the model has not counted where its rows were.";
  if (!change.share) return "No prediction of points like the known rows changes.";
  const gone = change.columns_gone.length ? ` The columns ${change.columns_gone.join(", ")} go with it.` : "";
  return `Of points like the known rows ${percent(change.share)} get another prediction: ${short(change.mean)} on average, ${short(change.largest)} at most (in ${change.unit}).${gone}`;
}

async function undo() {
  at("undo-yes").disabled = true;
  try {
    await ask(`/revert/${undoing.id}`, undefined, "POST");
    at("undo").close();
    say(`Update ${undoing.id} was undone.`);
    await load();
    at(`update-${undoing.id}`)?.focus();
  } catch (error) {
    at("undo-change").textContent = `It was not undone: ${error.message}`;
    at("undo-yes").disabled = false;
  }
}

// --- a row ----------------------------------------------------------------------------------------------

function showForm() {
  const before = at("row").children.length ? rowOf() : Object.create(null);
  at("row").replaceChildren(...model.columns.map((column, k) => {
    const value = column.name in before ? before[column.name] : model.row[column.name];
    let input;
    if (column.kind === "category") {
      const options = column.categories.map((name) => make("option", { value: name }, name));
      input = make("select", {}, make("option", { value: "" }, "(missing)"), ...options);
    } else {
      input = make("input", column.kind === "number" ? { type: "number", step: "any" } : { type: "text" });
    }
    input.dataset.column = k;
    input.value = value ?? "";
    input.addEventListener("input", later);
    return make("label", { class: "field" }, column.name, input);
  }));
}

function rowOf() {
  const row = Object.create(null); // a column may be called __proto__
  for (const input of at("row").querySelectorAll("[data-column]")) {
    const column = model.columns[input.dataset.column];
    const text = input.value;
    row[column.name] = text === "" ? null : column.kind === "number" ? Number(text) : text;
  }
  return row;
}

let waiting;
function later() {
  clearTimeout(waiting);
  waiting = setTimeout(tryRow, PAUSE);
}

async function tryRow() {
  const number = ++asked;
  const without = at("without").value === "" ? null : Number(at("without").value);
  const row = rowOf();
  at("answers").setAttribute("aria-busy", "true");
  try {
    const found = await ask("/try", { row, without });
    if (number !== asked) return;
    complain(null);
    showAnswer(found, without);
    showShapes(found, row);
    askWhy(row, number);
  } catch (error) {
    if (number === asked) complain(error);
  } finally {
    if (number === asked) at("answers").removeAttribute("aria-busy");
  }
}

function answerBox(title, answer, label, other) {
  const box = make("div", { class: other ? "answer other" : "answer" }, make("h3", {}, title));
  const value = label === null ? short(answer.value) : `${percent(answer.value)} ${label}`;
  box.append(make("p", { class: "value" }, value));
  if (answer.interval) box.append(make("p", {}, `90 % of such targets lie from ${short(answer.interval[0])} to ${short(answer.interval[1])}`));
  if (answer.set) box.append(make("p", {}, `90 % set: ${answer.set.join(", ")}`));
  if (answer.support !== null) {
    const name = `Support ${answer.support.toFixed(2)}`;
    box.append(make("p", { class: "soft" }, name), make("meter", { min: 0, max: 1, low: 0.1, value: answer.support, "aria-label": name }));
  }
  return box;
}

function showAnswer(found, without) {
  const boxes = [answerBox(`${model.target}, now`, found.now, found.label, false)];
  if (found.other) boxes.push(answerBox(`without update ${without}`, found.other, found.label, true));
  at("answers").replaceChildren(...boxes);
  at("notes").replaceChildren(...found.notes.map((note) => make("li", {}, note)));
  say(boxes.map((box) => [...box.children].map((each) => each.textContent).join(": ")).join("; "));
}

async function askWhy(row, number) {
  at("why").setAttribute("aria-busy", "true");
  try {
    const found = await ask("/why", { row });
    if (number === asked) showWhy(found);
  } catch (error) {
    if (number === asked) at("why").replaceChildren(make("p", { class: "soft" }, `Why is not known: ${error.message}`));
  } finally {
    if (number === asked) at("why").removeAttribute("aria-busy");
  }
}

function showWhy({ explanation, blame, problem }) {
  const parts = [];
  if (explanation) {
    const estimated = explanation.is_exact ? "" : " (estimated)";
    const named = explanation.names.map((name, k) => [name, explanation.values[k]]);
    parts.push(bars("Which columns", `${short(explanation.base)} on average over ${explanation.background}, and what each column adds to ${unitOf(explanation)}${estimated}.`, named));
  } else {
    parts.push(make("p", { class: "soft" }, problem));
  }
  const named = blame.updates.map((id, k) => [id ? `update ${id}` : "the fit", blame.values[k]]);
  const start = blame.base === 0 ? "" : `From ${short(blame.base)}, the constant of the fit: `;
  const left = Math.abs(blame.rest) > 1e-3 * Math.max(...blame.values.map(Math.abs)) ? ` ${signed(blame.rest)} is not attributed.` : "";
  const text = `${start}what the fit and each update add to ${unitOf(blame)}, with all else as it is.${left} What a prediction would be without an update is another question: compare.`;
  const which = bars("Which updates", text[0].toUpperCase() + text.slice(1), named);
  if (blame.rows.length) {
    const rows = blame.rows.map((each) => make("li", {}, `${signed(each.value)}: ${rowName(each)}`));
    which.append(make("details", {}, make("summary", {}, "The rows with most weight"), make("ul", {}, ...rows)));
  }
  parts.push(which);
  at("why").replaceChildren(...parts);
}

function unitOf({ unit }) {
  return unit === "target" ? model.target : `the ${unit}`;
}

function rowName({ update, row }) {
  const whole = update ? `update ${update}` : "the fit";
  return row > 0 ? `row ${row} of ${whole}` : `a row of ${whole}`;
}

function signed(number) {
  return `${number < 0 ? "−" : "+"}${short(Math.abs(number))}`;
}

function bars(title, text, named) {
  const box = make("div", { class: "bars" }, make("h3", {}, title), make("p", { class: "soft" }, text));
  const order = named.toSorted((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
  const most = Math.abs(order[0]?.[1] ?? 0) || 1;
  for (const [name, value] of order.slice(0, MOST_BARS)) {
    const fill = make("span", { class: value < 0 ? "fill down" : "fill" });
    const width = (50 * Math.abs(value)) / most;
    fill.style.left = `${value < 0 ? 50 - width : 50}%`;
    fill.style.width = `${width}%`;
    box.append(make("div", { class: "bar" }, make("span", {}, name), make("span", { class: "track" }, fill), make("span", { class: "number" }, signed(value))));
  }
  const rest = order.slice(MOST_BARS);
  if (rest.length) box.append(make("p", { class: "soft" }, `${rest.length} others add ${signed(rest.reduce((sum, each) => sum + each[1], 0))}.`));
  return box;
}

function showShapes(found, row) {
  const label = found.label === null ? model.target : `probability of ${found.label}`;
  at("shapes").replaceChildren(...found.shapes.map((shape) =>
    make("div", { class: "shape" }, make("h3", {}, shape.name), shapeChart(shape, row[shape.name], label))));
}

// --- beginning ------------------------------------------------------------------------------------------

async function load() {
  try {
    const columns = model && JSON.stringify(model.columns);
    model = await ask("/life");
    complain(null);
    showLife();
    if (columns !== JSON.stringify(model.columns)) showForm();
    await tryRow();
  } catch (error) {
    complain(error);
  }
}

async function look() {
  if (document.hidden || !model || at("undo").open) return;
  const ready = await ask("/ready").catch(() => null);
  if (ready && ready.version !== model.version) {
    await load();
    say("The model has changed.");
  }
}

at("row").addEventListener("submit", (event) => event.preventDefault());
at("without").addEventListener("change", tryRow);
at("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  if (!model) load();
});
at("token").addEventListener("change", () => { if (!model) load(); });
at("undo").addEventListener("close", () => document.querySelector("header").append(at("token-form")));
at("undo-no").addEventListener("click", () => at("undo").close());
at("undo-yes").addEventListener("click", undo);
setInterval(look, LOOK);
load();
