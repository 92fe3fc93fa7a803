/** The page: tabs, and what is said aloud. */

import { startEngine } from "./client.js";
import { InsideTab } from "./insidetab.js";
import { TeachTab } from "./teachtab.js";

const TABS = ["teach", "inside"];

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

/** What tabs may ask of the page. */
function pageServices() {
  const live = document.getElementById("live");
  const error = document.getElementById("error");
  for (const act of ["pointerdown", "keydown", "change"])
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
  page.addressChanged = () => {
    written = `#${teachTab.address(tab)}`;
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
  addEventListener("hashchange", () => {
    if (location.hash !== written) openAddress();
  });
  openAddress();
}

if (document.hidden) startPage();
else requestAnimationFrame(() => setTimeout(startPage, 0)); // after the first paint
