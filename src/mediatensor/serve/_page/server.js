// Calls of the server. All addresses are relative, so that the page talks only to the server that it came from.

/** An error that the server answered with. */
export class ServerError extends Error {
  constructor(status, type, message, retrySeconds = null) {
    super(message);
    this.status = status;
    this.type = type;
    this.retrySeconds = retrySeconds;
  }
}

/** There was no answer. */
export class UnreachableError extends Error {}

/** The answer to a GET request, as JSON. */
export async function getJson(address, signal) {
  const response = await get(address, signal);
  try {
    return await response.json();
  } catch {
    throw new UnreachableError("The answer of the server broke off.");
  }
}

/** The answer to a GET request, as bytes with a media type. */
export async function getBlob(address, signal) {
  const response = await get(address, signal);
  try {
    return await response.blob();
  } catch {
    throw new UnreachableError("The answer of the server broke off.");
  }
}

async function get(address, signal) {
  let response;
  try {
    response = await fetch(address, { signal, cache: "no-store" });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new UnreachableError("The server does not answer.");
  }
  if (response.ok) return response;
  throw errorOf(response.status, await response.text().catch(() => ""), response.headers.get("Retry-After"));
}

function errorOf(status, text, retryAfter) {
  let error = {};
  try {
    const answer = JSON.parse(text);
    error = answer.error ?? { message: typeof answer.detail === "string" ? answer.detail : undefined };
  } catch {
    // Another program answered, for example a proxy.
  }
  const message = error.message || `The server answered with status ${status}.`;
  return new ServerError(status, error.type ?? "", message, Number.parseFloat(retryAfter) || null);
}

// The server serves its clients in turn, and each tab counts as a client.
const CLIENT = [...crypto.getRandomValues(new Uint8Array(8))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** Sends a file and returns the job that the server made of it; `onProgress` gets shares from 0 to 1. */
export function upload(file, options, onProgress, signal) {
  return new Promise((resolve, reject) => {
    const form = new FormData();
    for (const [name, value] of Object.entries(options)) form.append(name, value);
    form.append("file", file, file.name || "pasted.png");
    const request = new XMLHttpRequest();
    request.open("POST", "jobs");
    request.setRequestHeader("X-Client", CLIENT);
    request.upload.addEventListener("progress", (event) => {
      if (event.lengthComputable) onProgress(event.loaded / event.total);
    });
    request.addEventListener("load", () => {
      if (request.status >= 200 && request.status < 300) resolve(JSON.parse(request.responseText));
      else reject(errorOf(request.status, request.responseText, request.getResponseHeader("Retry-After")));
    });
    request.addEventListener("error", () => reject(new UnreachableError("The server does not answer.")));
    request.addEventListener("abort", () => reject(new DOMException("cancelled", "AbortError")));
    signal.addEventListener("abort", () => request.abort());
    request.send(form);
  });
}

/** The current state of a job. */
export function getJob(id, signal) {
  return getJson(`jobs/${encodeURIComponent(id)}`, signal);
}

/** The addresses of the parts of a job. */
export function jobAddress(id, part) {
  return `jobs/${encodeURIComponent(id)}/${part}`;
}

/** Cancels a job, and makes the server delete its file. */
export async function forget(id) {
  await fetch(`jobs/${encodeURIComponent(id)}`, { method: "DELETE" }).catch(() => {});
}

export function hasEnded(job) {
  return ["done", "failed", "cancelled"].includes(job.state);
}

/** Follows a job to its end, and calls `onChange` with it at every change. */
export async function follow(id, onChange, signal) {
  for (;;) {
    const job = await patiently(() => getJob(id, signal), signal);
    onChange(job);
    if (hasEnded(job)) return job;
    const last = await listen(id, onChange, signal);
    if (last) return last;
  }
}

// The job after its end, or null if the connection ended first.
function listen(id, onChange, signal) {
  return new Promise((resolve) => {
    const source = new EventSource(jobAddress(id, "events"));
    const finish = (job) => {
      source.close();
      resolve(job);
    };
    const take = (event) => {
      const job = JSON.parse(event.data);
      onChange(job);
      if (hasEnded(job)) finish(job);
    };
    for (const name of ["progress", "done", "failed", "cancelled"]) source.addEventListener(name, take);
    source.addEventListener("error", () => setTimeout(() => finish(null), 300));
    signal?.addEventListener("abort", () => finish(null));
  });
}

// --- whether the server answers ---------------------------------------------------------------------------------

const SECONDS_BETWEEN_LOOKS = 5;
let isReachable = true;
let onReachable = () => {};

/** Calls a function with true or false when the server starts or stops to answer; checks while the page is visible. */
export function watchServer(onChange) {
  onReachable = onChange;
  setInterval(() => {
    if (document.visibilityState === "visible" && isReachable) isAlive();
  }, 1000 * SECONDS_BETWEEN_LOOKS);
}

async function isAlive() {
  try {
    await getJson("health");
    tell(true);
  } catch (error) {
    tell(!(error instanceof UnreachableError));
  }
  if (!isReachable) lookUntilBack();
  return isReachable;
}

function tell(value) {
  if (value === isReachable) return;
  isReachable = value;
  onReachable(value);
}

let looking = null;

/** Waits until the server answers. */
export function lookUntilBack() {
  tell(false);
  looking ??= (async () => {
    for (let wait = 0.5; ; wait = Math.min(1.5 * wait, 4)) {
      await new Promise((resolve) => setTimeout(resolve, 1000 * wait));
      try {
        await getJson("health");
      } catch (error) {
        if (error instanceof UnreachableError) continue;
      }
      looking = null;
      tell(true);
      return;
    }
  })();
  return looking;
}

/** Calls a function that asks the server. If there is no answer, waits for the server and calls it again. */
export async function patiently(action, signal) {
  for (;;) {
    try {
      return await action();
    } catch (error) {
      if (!(error instanceof UnreachableError)) throw error;
      await Promise.race([lookUntilBack(), aborted(signal)]);
      signal?.throwIfAborted();
    }
  }
}

function aborted(signal) {
  return new Promise((resolve) => {
    if (signal?.aborted) resolve();
    signal?.addEventListener("abort", resolve, { once: true });
  });
}
