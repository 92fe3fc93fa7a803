/** The tab in which all learners are taught the same lessons. */

import { addressOf, asShared, stateOfAddress } from "./address.js";
import { LearnerCard, changeText, footprintShare, percent, sizeText } from "./cards.js";
import { newElement } from "./elements.js";
import { LessonBox } from "./lessonbox.js";
import { LEARNERS } from "./lessons.js";
import { CHOICES, KINDS, firstLesson, lessonValue, makeProblem } from "./targets.js";

const MOST_LESSONS = 7;

/** @returns {HTMLElement} the element with an id */
function byId(id) {
  return document.getElementById(id);
}

export class TeachTab {
  /** @param {{ask, say, fail, getTab, tabChanged}} page */
  constructor(page) {
    Object.assign(this, { page, say: page.say, state: null, problem: null, isStale: false });
    this.fillMenus();
    this.cards = LEARNERS.map((learner) => new LearnerCard(learner, byId("learners")));
    this.addLegend();
    this.box = new LessonBox(byId("truth"), this);
    this.listen();
  }

  fillMenus() {
    for (const [title, choices] of CHOICES) {
      const group = document.createElement("optgroup");
      group.label = title;
      for (const [id, name] of choices) group.append(new Option(name, id));
      byId("choice").append(group);
    }
    for (const [id, { title }] of Object.entries(KINDS)) byId("kind").append(new Option(title, id));
  }

  addLegend() {
    const legend = document.createElement("div");
    legend.className = "card legend";
    legend.innerHTML =
      '<h2>How to read this</h2><ul><li><i class="key region"></i> the lesson</li>' +
      '<li><i class="key footprint"></i> what it can change, known before</li>' +
      '<li><i class="key change"></i> what it changed elsewhere: the stronger, the more</li>' +
      '<li class="of-maps"><i class="key scale"></i> values, from low to high</li>' +
      '<li class="of-curves"><i class="key before"></i> before the lesson</li></ul>' +
      "<p>Predictions are counted bit for bit; sizes are means, as parts of the range of values. Nobody is shown the old rows again; neighbours and pooled sums keep theirs.</p>";
    byId("learners").append(legend);
  }

  listen() {
    byId("choice").addEventListener("change", (event) => this.open({ id: event.target.value }));
    byId("kind").addEventListener("change", (event) => this.setKind(event.target.value));
    byId("level").addEventListener("input", (event) => this.setLevel(Number(event.target.value)));
    byId("teach").addEventListener("click", () => this.onTeach());
    byId("teach-all").addEventListener("click", () => this.teachAll());
    byId("moment").addEventListener("input", (event) => this.goTo(Number(event.target.value)));
    byId("share").addEventListener("click", () => this.share());
    byId("doubt").addEventListener("change", (event) => {
      this.state.doubt = event.target.checked;
      this.refresh();
    });
    for (const radio of byId("modes").querySelectorAll("input"))
      radio.addEventListener("change", () => {
        this.state.mode = radio.value;
        this.writeControls();
        this.box.draw();
      });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.drawAll());
    new ResizeObserver(() => this.drawAll()).observe(byId("panel-teach"));
  }

  /** Open the state of an address; where it tells nothing, the first function. */
  openAddress(hash) {
    const told = stateOfAddress(hash, (choice) => makeProblem(choice).inputs);
    this.open(told.choice ?? { id: CHOICES[0][1][0][0] }, told);
  }

  /** Begin with a function. */
  open(choice, { lessons = [], position = lessons.length, draft, doubt = this.state?.doubt ?? false } = {}) {
    this.problem = makeProblem(choice);
    this.state = { choice, lessons, position, doubt, mode: this.state?.mode ?? "brush" };
    this.state.draft = draft ?? this.nextLesson();
    byId("doubt").checked = doubt;
    this.refresh();
  }

  /** @returns {object} the lesson to begin with, or the one after those that were taught */
  nextLesson() {
    const { lessons } = this.problem;
    return lessons[Math.min(this.state.lessons.length, lessons.length - 1)] ?? firstLesson(this.problem);
  }

  /** Draw the function anew, from a drawing; lessons stay. */
  redraw(choice) {
    this.problem = makeProblem(choice);
    this.state.choice = choice;
  }

  /** @returns {object|undefined} the lesson whose effect is shown */
  lessonShown() {
    return this.state.lessons[this.state.position - 1];
  }

  /** @returns {number[]} lowest and highest value that curves show */
  get range() {
    const lessons = [...this.state.lessons, this.state.draft];
    const levels = lessons.flatMap((lesson) => {
      const [left, right] = lesson.box[0];
      return [0, 0.25, 0.5, 0.75, 1].map((share) => lessonValue(this.problem, lesson, left + share * (right - left), 0.5));
    });
    return [Math.min(-1.3, ...levels.map((level) => level - 0.3)), Math.max(1.3, ...levels.map((level) => level + 0.3))];
  }

  /** @returns {string} a region in the units of the columns */
  regionText(box) {
    return box
      .map(([low, high], input) => {
        const [least, most] = this.problem.ranges[input];
        const value = (share) => +(least + share * (most - least)).toPrecision(3);
        return `${this.problem.columns[input]} ${value(low)}–${value(high)}`;
      })
      .join(", ");
  }

  /** @returns {string} a scaled value in the units of the function */
  valueText(level, isDifference) {
    const { low, high } = this.problem;
    const value = isDifference ? (level * (high - low)) / 2 : low + ((level + 1) * (high - low)) / 2;
    return `${isDifference && value > 0 ? "+" : ""}${+value.toPrecision(3)}`;
  }

  setKind(kind) {
    const { draft } = this.state;
    const drawn = kind === "drawn" ? { drawn: draft.drawn ?? this.box.drawingOf(true) } : {};
    this.state.draft = { ...draft, kind, ...drawn };
    if (kind === "drawn") byId("modes").querySelector('[value="values"]').click();
    this.onDraft(true);
  }

  setLevel(level) {
    this.state.draft = { ...this.state.draft, level };
    this.onDraft(false);
  }

  /** The lesson at hand has changed. */
  onDraft(isFinal) {
    this.writeControls();
    this.box.draw();
    for (const card of this.cards) {
      card.tell(this);
      card.draw(this);
    }
    if (isFinal) {
      this.say(`Region ${this.regionText(this.state.draft.box)}.`);
      this.page.addressChanged();
    }
  }

  /** Something was drawn; what it is about is learned when the pen is lifted. */
  onDrawing(isFinal) {
    this.box.draw();
    this.writeControls();
    if (!isFinal) return;
    const { choice, draft } = this.state;
    if (draft.drawn) this.state.draft = { ...draft, drawn: asShared(draft.drawn) };
    if (this.state.mode === "function") this.redraw({ ...choice, drawn: asShared(choice.drawn) });
    this.refresh();
  }

  onTeach() {
    if (this.state.lessons.length >= MOST_LESSONS) {
      this.page.fail(`There are ${MOST_LESSONS} lessons already; undo one of them first.`);
      return;
    }
    this.setLessons([...this.state.lessons, this.state.draft]);
    if (this.problem.lessons.length) this.state.draft = this.nextLesson();
    this.refresh();
    const { top } = byId("verdict").getBoundingClientRect();
    if (top > 0.6 * innerHeight) byId("verdict").scrollIntoView(); // on phones all results lie below
  }

  /** Teach all lessons that belong to a function, one after the other. */
  async teachAll() {
    for (const lesson of this.problem.lessons) {
      this.setLessons([...this.state.lessons, lesson].slice(0, MOST_LESSONS));
      this.state.draft = lesson;
      const isDone = await this.refresh();
      if (!isDone) return;
    }
  }

  setLessons(lessons) {
    this.state.lessons = lessons;
    this.state.position = lessons.length;
  }

  /** Take a lesson back: all others are as if it had never been. */
  undo(place) {
    this.setLessons(this.state.lessons.filter((_, other) => other !== place));
    this.refresh();
    const others = byId("lessons").querySelectorAll("button");
    (others[Math.min(place, others.length - 1)] ?? byId("teach")).focus(); // the button that was pressed is gone
  }

  goTo(position) {
    this.state.position = position;
    this.refresh();
  }

  async share() {
    try {
      await navigator.clipboard.writeText(location.href);
      this.say("The address is copied.");
      byId("share").textContent = "Copied";
    } catch {
      this.page.fail("The address could not be copied; copy it from the address bar.");
    }
  }

  /** Write controls, pictures and the address anew, and let the engine learn what is missing. */
  async refresh() {
    this.writeControls();
    this.drawAll();
    this.page.addressChanged();
    this.isStale = byId("panel-teach").hidden; // nobody looks: the engine is free for other tabs
    if (this.isStale) return false;
    const { choice, lessons, position, doubt } = this.state;
    const payload = { choice, lessons: lessons.slice(0, position), doubt };
    byId("learners").setAttribute("aria-busy", "true");
    this.writeVerdict(true);
    const onProgress = ({ id, frame, result }) => {
      const card = this.cards.find(({ learner }) => learner.id === id);
      if (frame) card.showFrame(frame, this);
      else card.showResult(result, this);
    };
    try {
      const { isCurrent } = await this.page.ask("show", payload, onProgress);
      if (isCurrent) this.tellResults();
      return isCurrent;
    } catch (problem) {
      this.page.fail(problem.message);
      return false;
    }
  }

  /** Say in a sentence what to do, what is going on, or what was seen. */
  writeVerdict(isBusy) {
    const { lessons, position } = this.state;
    const picture = this.problem.inputs === 1 ? "curve" : "map";
    const lesson = this.lessonShown();
    const words = lesson
      ? this.lessonWords(lesson, picture, isBusy)
      : isBusy
        ? [`Seven models learn the same ${picture} …`]
        : [`Seven models know this ${picture}. `, newElement("strong", {}, "Press Teach"), ": all of them learn new values for the region in the frame, "
          + "from rows of that region only. What will each of them change elsewhere?"];
    if (lesson && lessons.length > 1) words.unshift(`Lesson ${position} of ${lessons.length}. `);
    byId("verdict").replaceChildren(...words);
  }

  /** @returns {(string|Node)[]} the lesson that is shown in words, and what it changed */
  lessonWords({ box }, picture, isBusy) {
    const about = `All of them ${isBusy ? "are" : "were"} taught ${percent(footprintShare({ kind: "box", box }))} of the ${picture}`;
    if (isBusy) return [`${about} …`];
    const [charts, network] = ["charts", "mlp"].map((id) => this.cards.find(({ learner }) => learner.id === id).picture);
    return [
      `${about}. Elsewhere, ATLAS with charts changed `,
      newElement("strong", { className: charts.changedCount ? "changed" : "kept" }, changeText(charts)),
      ", and the neural network ",
      newElement("strong", { className: "changed" }, changeText(network)),
      `, ${sizeText(network)} on average.`,
    ];
  }

  tellResults() {
    byId("learners").setAttribute("aria-busy", "false");
    this.writeVerdict(false);
    const taught = this.lessonShown();
    if (!taught) return this.say("All have learned the function. Brush a region and teach them.");
    const parts = this.cards.map(({ learner, picture }) => `${learner.name} ${changeText(picture)}`);
    return this.say(`Changed elsewhere: ${parts.join("; ")}.`);
  }

  /** Write the controls from the state. */
  writeControls() {
    const { choice, lessons, position, draft, mode } = this.state;
    const { columns, inputs } = this.problem;
    byId("choice").value = choice.id;
    byId("kind").value = draft.kind;
    byId("level").value = draft.level;
    const isDifference = draft.kind === "shift" || draft.kind === "waves" || draft.kind === "peak";
    byId("level-value").textContent = this.valueText(draft.level, isDifference);
    byId("level-row").hidden = draft.kind === "mirror" && mode === "brush";
    byId("axis-x").textContent = `${columns[0]} →`;
    byId("axis-y").textContent = `${columns[1]} →`;
    byId("teach-all").hidden = this.problem.lessons.length === 0;
    byId("learners").classList.toggle("curves", inputs === 1);
    byId("panel-teach").classList.toggle("curves", inputs === 1);
    byId("panel-teach").classList.toggle("taught", position > 0);
    byId("share").textContent = "Copy address";
    byId("history").hidden = lessons.length === 0;
    byId("moment").max = lessons.length;
    byId("moment").value = position;
    byId("moment-value").textContent = position === 0 ? "before all lessons" : `after lesson ${position}`;
    byId("lessons").replaceChildren(...lessons.map((lesson, place) => this.lessonItem(lesson, place)));
  }

  lessonItem(lesson, place) {
    const item = document.createElement("li");
    const text = document.createElement("span");
    text.textContent = `${KINDS[lesson.kind].title}: ${this.regionText(lesson.box)}`;
    const button = document.createElement("button");
    button.textContent = "Undo";
    button.setAttribute("aria-label", `Undo lesson ${place + 1}`);
    button.addEventListener("click", () => this.undo(place));
    item.className = place < this.state.position ? "" : "later";
    item.append(text, button);
    return item;
  }

  /** The tab is looked at again. */
  shown() {
    if (this.isStale) this.refresh();
    else this.drawAll();
  }

  drawAll() {
    if (!this.state || byId("panel-teach").hidden) return;
    this.box.draw();
    for (const card of this.cards) card.draw(this);
  }

  /** @returns {string} the state as part of an address */
  address(tab) {
    return addressOf({ ...this.state, tab });
  }
}
