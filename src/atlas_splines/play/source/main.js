/** The page: tabs, dropped files, what is said aloud. */

import { startEngine } from "./client.js";
import { mountFileTab } from "./filetab.js";

const TABS = ["teach", "inside", "file"];

/** Show one tab and hide the others. */
function showTab(name) {
  for (const tab of TABS) {
    const button = document.getElementById(`tab-${tab}`);
    button.setAttribute("aria-selected", String(tab === name));
    button.tabIndex = tab === name ? 0 : -1;
    document.getElementById(`panel-${tab}`).hidden = tab !== name;
  }
}

/** Let tabs be chosen by pointer and by arrow keys. */
function mountTabs(choose) {
  for (const [place, tab] of TABS.entries()) {
    const button = document.getElementById(`tab-${tab}`);
    button.addEventListener("click", () => choose(tab));
    button.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step === undefined) return;
      const next = TABS[(place + step + TABS.length) % TABS.length];
      choose(next);
      document.getElementById(`tab-${next}`).focus();
    });
  }
}

/** Take files that are dropped anywhere on the page. */
function mountDrop(open) {
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    document.body.classList.add("dropping");
  });
  document.addEventListener("dragleave", () => document.body.classList.remove("dropping"));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    document.body.classList.remove("dropping");
    if (event.dataTransfer.files.length) open(event.dataTransfer.files[0]);
  });
}

/** Start the page. */
function startPage() {
  const ask = startEngine();
  const live = document.getElementById("live");
  const error = document.getElementById("error");
  const state = {
    ask,
    say(text) {
      error.hidden = true;
      live.textContent = text;
    },
    fail(text) {
      error.textContent = text;
      error.hidden = false;
    },
  };
  mountTabs(showTab);
  const fileTab = mountFileTab(document.getElementById("panel-file"), state);
  mountDrop((file) => {
    showTab("file");
    fileTab.open(file).catch((problem) => state.fail(problem.message));
  });
  showTab("teach");
}

startPage();
