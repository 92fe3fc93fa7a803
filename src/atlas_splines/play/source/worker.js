/** The engine behind messages: it runs in a web worker, so that the page stays quick. */

import { lessonHandlers } from "./lessons.js";

/** Answer messages of the page; in the worker this is called once. */
export function serveEngine() {
  self.onmessage = async ({ data: { id, kind, payload } }) => {
    const report = (progress) => self.postMessage({ id, progress });
    try {
      self.postMessage({ id, answer: await lessonHandlers[kind](payload, report) });
    } catch (error) {
      self.postMessage({ id, error: error.message });
    }
  };
}
