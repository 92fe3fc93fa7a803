/** The tab "A model file". */

/**
 * Build the tab.
 * @param {HTMLElement} element where it goes
 * @param {{ask: Function, say: Function, fail: Function}} state questions to the engine, and how to tell something
 * @returns {{open: (file: Blob & {name: string}) => Promise<void>}}
 */
export function mountFileTab(element, state) {
  const line = document.createElement("p");
  line.textContent = "Drop a .atlas file on this page.";
  element.append(line);
  return {
    async open(file) {
      state.fail(`${file.name} cannot be read here.`);
    },
  };
}
