/** The page's side of the worker. */

/**
 * Start the engine in a worker made of the script that is in the page already.
 * @returns {(kind: string, payload: object, onProgress?: (progress: object) => void) => Promise<object>}
 */
export function startEngine() {
  const text = document.getElementById("engine").textContent;
  const address = URL.createObjectURL(new Blob([text, "\nserveEngine();"], { type: "text/javascript" }));
  const worker = new Worker(address);
  const waiting = new Map();
  let count = 0;
  worker.onmessage = ({ data: { id, progress, answer, error } }) => {
    const question = waiting.get(id);
    if (progress !== undefined) {
      question.onProgress?.(progress);
      return;
    }
    waiting.delete(id);
    if (error === undefined) question.resolve(answer);
    else question.reject(new Error(error));
  };
  return (kind, payload, onProgress) =>
    new Promise((resolve, reject) => {
      count += 1;
      waiting.set(count, { resolve, reject, onProgress });
      worker.postMessage({ id: count, kind, payload });
    });
}
