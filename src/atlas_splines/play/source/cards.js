/** A card for each learner: its picture, and one number. */

import { drawCurve, drawFootprint, drawMap, drawRegion, howMuch, pageColours } from "./drawing.js";

/** @returns {string} a share as percent, never rounded to 0 or 100 unless it is that */
export function percent(share) {
  if (share === 0 || share === 1) return `${100 * share}\u00a0%`;
  if (share < 1e-4) return "under 0.01\u00a0%";
  if (share > 1 - 1e-4) return "over 99.99\u00a0%";
  const digits = share < 0.01 || share > 0.99 ? 2 : share < 0.1 || share > 0.9 ? 1 : 0;
  return `${(100 * share).toFixed(digits)}\u00a0%`;
}

/** @returns {number} the share of the domain that a footprint covers */
export function footprintShare({ kind, box }) {
  if (kind === "all") return 1;
  const sides = box.map(([low, high]) => high - low);
  if (kind === "box") return sides.reduce((product, side) => product * side, 1);
  return 1 - sides.reduce((product, side) => product * (1 - side), 1);
}

/** @returns {string} the number under a picture */
export function changeText({ changedCount, elsewhere }) {
  if (changedCount === 0) return `0 of ${elsewhere.toLocaleString("en")} predictions`;
  return percent(changedCount / elsewhere);
}

/** @returns {string} a size as percent of the range of the function, with two digits */
function ofRange(size) {
  if (size > 0 && size < 1e-4) return "under 0.01\u00a0%";
  return `${+(100 * size).toPrecision(2)}\u00a0%`;
}

/** @returns {string} by how much predictions changed elsewhere, on average */
export function sizeText({ changedCount, meanChange }) {
  return changedCount ? `by ${ofRange(meanChange)} of the range` : "not by a bit";
}

/** @returns {string} how well the lesson was learned */
function detailText({ error, errorBefore }) {
  return `Lesson ${ofRange(error)} off, ${ofRange(errorBefore)} before.`;
}

/** @returns {string} how far intervals reach on average, if they are shown */
function doubtText({ halfWidth }) {
  if (!halfWidth) return "";
  const mean = halfWidth.reduce((sum, width) => sum + width, 0) / halfWidth.length;
  return ` Intervals (90\u00a0%): ±${ofRange(mean / 2)} of the range.`;
}

export class LearnerCard {
  constructor(learner, parent) {
    this.learner = learner;
    this.element = document.createElement("figure");
    this.element.className = "card learner";
    this.element.id = `learner-${learner.id}`;
    this.element.innerHTML =
      '<div class="frame"><canvas role="img"></canvas></div>' +
      '<figcaption><h2></h2><p class="lead"></p><p class="number"></p><p class="size"></p><p class="detail soft"></p></figcaption>';
    this.canvas = this.element.querySelector("canvas");
    this.element.querySelector("h2").textContent = learner.name;
    this.element.title = learner.about;
    this.element.setAttribute("aria-labelledby", `name-${learner.id}`);
    this.element.querySelector("h2").id = `name-${learner.id}`;
    if (learner.name.startsWith("ATLAS")) this.element.classList.add("ours");
    parent.append(this.element);
    this.wait();
  }

  write(lead, number, size, detail) {
    for (const [part, text] of Object.entries({ lead, number, size, detail }))
      this.element.querySelector(`.${part}`).textContent = text;
    this.canvas.setAttribute("aria-label", `${this.learner.name}: ${lead} ${number} ${size}`.trim());
  }

  /** Nothing is known yet of what it will say. */
  wait() {
    this.element.classList.add("busy");
    this.element.classList.remove("kept", "promise");
    this.write("", "learning …", "", this.learner.about);
  }

  /** Show what the learner says while it learns; who wants little motion sees the first picture and the last. */
  showFrame(frame, page) {
    this.wait();
    if (this.picture && matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    this.picture = { values: frame };
    this.draw(page);
  }

  /** Show what it says now, and what the lesson changed. */
  showResult(result, page) {
    this.picture = result;
    this.element.classList.remove("busy");
    this.draw(page);
    this.tell(page);
  }

  /** Write the number: what changed, or before a lesson what could change. */
  tell(page) {
    const { picture } = this;
    if (!picture || this.element.classList.contains("busy")) return;
    this.element.classList.toggle("kept", picture.changedCount === 0);
    this.element.classList.toggle("promise", !picture.changed);
    if (picture.changed) {
      this.element.style.setProperty("--much", howMuch(2 * picture.meanChange));
      this.write("Changed elsewhere:", changeText(picture), sizeText(picture), detailText(picture) + doubtText(picture));
    } else {
      const share = footprintShare(this.footprint(page, page.state.draft));
      const detail = this.learner.about + doubtText(picture);
      this.write("The lesson can change:", share === 1 ? "everything" : percent(share), "", detail);
    }
  }

  /** @returns {object} what a lesson can change */
  footprint({ problem }, { box }) {
    return this.learner.footprint(box, problem.values.length);
  }

  draw(page) {
    if (!this.picture || this.canvas.clientWidth === 0) return;
    const { inputs } = page.problem;
    const colours = pageColours();
    if (inputs === 1) drawCurve(this.canvas, this.picture, page.range);
    else drawMap(this.canvas, this.picture);
    const taught = page.lessonShown();
    drawFootprint(this.canvas, this.footprint(page, taught ?? page.state.draft), inputs, colours.region);
    if (taught) drawRegion(this.canvas, taught.box, colours.region);
  }
}
