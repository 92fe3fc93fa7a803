/** The state of the page in its address, so that a picture can be shared. */

import { KINDS, blankDrawing } from "./targets.js";

const MOST = 2; // drawn values go from −MOST to MOST

/** @returns {string} numbers as letters, a byte each */
function packed(numbers) {
  const bytes = numbers.map((value) => Math.round((255 * (Math.max(-MOST, Math.min(MOST, value)) + MOST)) / (2 * MOST)));
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** @returns {number[]} what `packed` made letters of; nothing for other texts */
function unpacked(text) {
  if (!/^[\w-]*$/.test(text) || text.length % 4 === 1) return [];
  const letters = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Array.from(letters, (letter) => (letter.charCodeAt(0) * 2 * MOST) / 255 - MOST);
}

/** @returns {number[]} a drawing as the address will give it back, so that everyone sees the same */
export function asShared(drawing) {
  return unpacked(packed(drawing));
}

/** @returns {string} a lesson as text */
function lessonText({ box, kind, level, drawn }) {
  const numbers = box.flat().map((side) => +side.toFixed(3));
  return [kind, ...numbers, +level.toFixed(2), ...(kind === "drawn" ? [packed(drawn)] : [])].join("~");
}

/** @returns {object} the lesson of a text, or an error in one sentence */
function lessonOf(text, inputs) {
  const [kind, ...parts] = text.split("~");
  const numbers = parts.slice(0, 2 * inputs + 1).map(Number);
  const box = Array.from({ length: inputs }, (_, input) => numbers.slice(2 * input, 2 * input + 2));
  const level = numbers[2 * inputs];
  const isFine = Object.hasOwn(KINDS, kind) && numbers.length === 2 * inputs + 1 && numbers.every(Number.isFinite) &&
    box.every(([low, high]) => low >= 0 && high <= 1 && high - low >= 0.03) && Math.abs(level) <= 2;
  const drawn = isFine && kind === "drawn" ? unpacked(parts[2 * inputs + 1] ?? "") : undefined;
  if (!isFine || (drawn && drawn.length !== blankDrawing(inputs, true).length))
    throw new Error("The address has a lesson that cannot be read; choose a function to begin anew.");
  return { box, kind, level, ...(drawn && { drawn }) };
}

/** @returns {string} the part of the address after # */
export function addressOf({ tab, choice, lessons, position, draft, doubt }) {
  const parts = new Map([["f", choice.id]]);
  if (choice.drawn) parts.set("d", packed(choice.drawn));
  if (lessons.length) parts.set("l", lessons.map(lessonText).join("!"));
  if (position < lessons.length) parts.set("at", position);
  parts.set("n", lessonText(draft));
  if (doubt) parts.set("s", 1);
  if (tab !== "teach") parts.set("tab", tab);
  return [...parts].map(([name, value]) => `${name}=${value}`).join("&");
}

/**
 * The state that an address tells of; what it leaves out is undefined.
 * @param {(choice: object) => number} inputsOf how many inputs a choice has
 */
export function stateOfAddress(hash, inputsOf) {
  const parts = new Map(hash.replace(/^#/, "").split("&").map((part) => part.split(/=(.*)/s).slice(0, 2)));
  const state = { tab: parts.get("tab"), doubt: parts.get("s") === "1", lessons: [] };
  if (!parts.get("f")) return state;
  state.choice = { id: parts.get("f") };
  const inputs = inputsOf(state.choice);
  if (parts.get("d")) state.choice.drawn = unpacked(parts.get("d"));
  if (state.choice.drawn && state.choice.drawn.length !== blankDrawing(inputs, false).length)
    throw new Error("The address has a drawing that cannot be read; choose a function to begin anew.");
  if (parts.get("l")) state.lessons = parts.get("l").split("!").map((text) => lessonOf(text, inputs));
  const at = Number(parts.get("at") ?? state.lessons.length);
  state.position = Number.isInteger(at) ? Math.max(0, Math.min(at, state.lessons.length)) : state.lessons.length;
  if (parts.get("n")) state.draft = lessonOf(parts.get("n"), inputs);
  return state;
}
