/**
 * Dates and times in the texts of a table, as numbers for a model: the parts of the calendar that it knows.
 */

import { FileError } from "./archive.js";

const DAY = 86_400_000; // milliseconds
const DAY_OF_CLOCKS = Date.UTC(1900, 0, 1); // that times of day alone are read on, as strptime does
const ISO_LAYOUT = "%Y-%m-%d";
const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DATE_FIELDS = {
  "%Y": "(?<year>\\d{4})",
  "%y": "(?<short>\\d{2})",
  "%m": "(?<month>\\d{1,2})",
  "%d": "(?<day>\\d{1,2})",
  "%b": "(?<name>[A-Za-z]{3,9})",
};
const CLOCK = "(?<hours>\\d{1,2}):(?<minutes>\\d{2})(?::(?<seconds>\\d{2}))?(?: (?<half>[AaPp][Mm]))?";
const TIMED = "^(?:(.*\\w)[T ]+)?(\\d{1,2}:\\d{2}(?::\\d{2})?)(?:[.,]\\d+)?(?: ?([AaPp][Mm]))?";
const ZONED = "(?: ?(?:Z|UTC|GMT|[+-]\\d{2}(?::?\\d{2})?))?";
const OFFSET = /:\d{2}(?:[.,]\d+)? ?(?<sign>[+-])(?<hours>\d{2}):?(?<minutes>\d{2})?$/;

/**
 * Parts of the calendar of a date.
 *
 * @param {string | null} text A trimmed text, or null if it is missing.
 * @param {{parts: string[], layout: string, start: string, zone: string | null}} calendar
 * @returns {number[]} One number for each part; NaN if the date is missing.
 */
export function calendarParts(text, calendar) {
  if (text === null) return calendar.parts.map(() => NaN);
  const moment = readMoment(text, calendar);
  const days = (moment - Date.parse(`${calendar.start}T00:00:00Z`)) / DAY;
  const date = new Date(moment);
  const parts = {
    hour: () => positiveRest(24 * days, 24),
    weekday: () => (date.getUTCDay() + 6) % 7, // 0 is Monday
    yearday: () => Math.floor((moment - Date.UTC(date.getUTCFullYear(), 0, 1)) / DAY) + 1,
    trend: () => days,
  };
  return calendar.parts.map((part) => parts[part]());
}

/** Milliseconds since 1970 on the clock of the calendar's zone. */
function readMoment(text, calendar) {
  let moment = momentOfLayout(text, calendar.layout);
  if (moment === null && calendar.layout) moment = momentOfLayout(text, ISO_LAYOUT); // always clear
  if (moment === null) {
    const example = calendar.layout ? "a date like 2024-12-31 12:30" : "a time like 12:30";
    throw new FileError(`"${text}" is not ${example}; correct it or leave it empty.`);
  }
  const ahead = calendar.zone === null ? null : minutesAhead(text);
  return ahead === null ? moment : inZone(moment - ahead * 60_000, calendar.zone);
}

/** The moment that the clock of a text shows, or null if it is of another layout or no date. */
function momentOfLayout(text, layout) {
  const timed = new RegExp(`${TIMED}${layout ? ZONED : ""}$`);
  const plain = text.replace(timed, (_, date = "", time = "", half = "") => `${date} ${time} ${half}`).trim();
  const found = shapeOfLayout(layout).exec(plain)?.groups;
  if (!found) return null;
  const clock = clockOf(found);
  if (clock === null) return null;
  if (!layout) return DAY_OF_CLOCKS + clock;
  const year = found.year ? Number(found.year) : Number(found.short) + (Number(found.short) < 69 ? 2000 : 1900);
  const month = found.name ? MONTHS.indexOf(found.name.slice(0, 3).toLowerCase()) : Number(found.month) - 1;
  const date = new Date(0);
  date.setUTCFullYear(year, month, Number(found.day));
  // a day too many would go on in the next month
  const isDate = month >= 0 && date.getUTCMonth() === month && date.getUTCDate() === Number(found.day);
  return isDate ? date.getTime() + clock : null;
}

function shapeOfLayout(layout) {
  if (!layout) return new RegExp(`^${CLOCK}$`);
  const digits = layout === "%Y%m%d" ? "(?<year>\\d{4})(?<month>\\d{2})(?<day>\\d{2})" : null;
  const shape = digits ?? layout.replaceAll(".", "\\.").replace(/%[Yymdb]/g, (field) => DATE_FIELDS[field]);
  return new RegExp(`^${shape}(?: ${CLOCK})?$`);
}

/** Milliseconds since midnight; null if the clock has no such time. */
function clockOf({ hours, minutes = "0", seconds = "0", half }) {
  if (hours === undefined) return 0;
  let hour = Number(hours);
  if (half) {
    if (hour < 1 || hour > 12) return null;
    hour = (hour % 12) + (half.toLowerCase() === "pm" ? 12 : 0);
  }
  if (hour > 23 || Number(minutes) > 59 || Number(seconds) > 59) return null;
  return ((hour * 60 + Number(minutes)) * 60 + Number(seconds)) * 1000;
}

/** Minutes that the clock of a text is ahead of UTC; null if it does not say. */
function minutesAhead(text) {
  if (/\d ?(Z|UTC|GMT)$/.test(text)) return 0;
  const found = OFFSET.exec(text)?.groups;
  if (!found) return null;
  return (found.sign === "-" ? -1 : 1) * (Number(found.hours) * 60 + Number(found.minutes ?? 0));
}

/** What the clock of a zone, a name or an offset, shows at a moment of UTC. */
function inZone(moment, zone) {
  const offset = /^([+-])(\d{2}):?(\d{2})$/.exec(zone);
  if (offset) return moment + (offset[1] === "-" ? -1 : 1) * (Number(offset[2]) * 60 + Number(offset[3])) * 60_000;
  const options = { timeZone: zone, hourCycle: "h23", year: "numeric", month: "numeric", day: "numeric",
    hour: "numeric", minute: "numeric", second: "numeric" };
  const parts = new Intl.DateTimeFormat("en-US", options).formatToParts(moment);
  const { year, month, day, hour, minute, second } = Object.fromEntries(parts.map((p) => [p.type, Number(p.value)]));
  return Date.UTC(year, month - 1, day, hour, minute, second);
}

/** Rest of a division that is never negative. */
function positiveRest(value, divisor) {
  const rest = value % divisor;
  return rest < 0 ? rest + divisor : rest;
}
