/** The page: tabs, dropped files, what is said aloud. */

import { startEngine } from "./client.js";
import { mountFileTab } from "./filetab.js";
import { InsideTab } from "./insidetab.js";
import { TeachTab } from "./teachtab.js";

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

/** What tabs may ask of the page. */
function pageServices() {
  const live = document.getElementById("live");
  const error = document.getElementById("error");
  for (const act of ["pointerdown", "keydown", "drop", "change"])
    document.addEventListener(act, () => (error.hidden = true), { capture: true });
  return {
    ask: startEngine(),
    say(text) {
      live.textContent = text;
    },
    fail(text) {
      error.textContent = text;
      error.hidden = false;
    },
  };
}

/** Start the page. */
function startPage() {
  const page = pageServices();
  let tab = "teach";
  let written = "";
  const served = new URLSearchParams(location.hash.slice(1)).get("model");
  page.addressChanged = () => {
    const model = served !== null && tab === "file" ? `&model=${encodeURIComponent(served)}` : "";
    written = `#${teachTab.address(tab)}${model}`;
    history.replaceState(null, "", written);
  };
  const choose = (name) => {
    tab = name;
    showTab(name);
    page.addressChanged();
    drawTab();
  };
  const drawTab = () => {
    if (tab === "teach") teachTab.shown();
    if (tab === "inside") insideTab.draw();
  };
  const teachTab = new TeachTab(page);
  const insideTab = new InsideTab(page, teachTab);
  const fileTab = mountFileTab(document.getElementById("panel-file"), page);
  const openAddress = () => {
    const told = new URLSearchParams(location.hash.slice(1)).get("tab");
    tab = TABS.includes(told) ? told : "teach";
    showTab(tab);
    try {
      teachTab.openAddress(location.hash);
    } catch (problem) {
      teachTab.openAddress("");
      page.fail(problem.message);
    }
    drawTab();
  };
  mountTabs(choose);
  mountDrop((file) => {
    choose("file");
    fileTab.open(file).catch((problem) => page.fail(problem.message));
  });
  addEventListener("hashchange", () => {
    if (location.hash !== written) openAddress();
  });
  openAddress();
  if (served !== null) openServed(served, fileTab).catch((problem) => page.fail(problem.message));
}

/** Open the model file that `atlas play --file` serves. */
async function openServed(name, fileTab) {
  const answer = await fetch("model");
  if (!answer.ok) throw new Error(`${name} is not served any more; drop the file on this page.`);
  await fileTab.open(new File([await answer.blob()], name));
}

if (document.hidden) startPage();
else requestAnimationFrame(() => setTimeout(startPage, 0)); // after the first paint
