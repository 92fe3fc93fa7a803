/** The engine behind messages: it runs in a web worker, so that the page stays quick. */

import { fileHandlers } from "./fileengine.js";
import { lessonHandlers } from "./lessons.js";

/** What the page can ask for: each takes a payload and `report`, and returns an answer or a promise of one. */
const HANDLERS = { ...lessonHandlers, ...fileHandlers };

/** Answer messages of the page; in the worker this is called once. */
export function serveEngine() {
  self.onmessage = async ({ data: { id, kind, payload } }) => {
    const report = (progress) => self.postMessage({ id, progress });
    try {
      self.postMessage({ id, answer: await HANDLERS[kind](payload, report) });
    } catch (error) {
      self.postMessage({ id, error: error.message });
    }
  };
}
