// The whole page: takes a file, follows the progress of its job, and shows the result. The address contains the job,
// so that a reload, a bookmark and the button "back" find it again.

import { announce, copyText, element, icon, toast } from "./dom.js";
import { createPagesView, pagesSummary } from "./pages_view.js";
import { ServerError, follow, forget, getBlob, getJob, getJson, jobAddress, lookUntilBack, patiently, upload, watchServer } from "./server.js";
import { createVideoView, videoSummary } from "./video_view.js";
import { duration, offeredDownloads, size, troubleTitle } from "./wording.js";

const SECTIONS = ["start", "work", "trouble", "result"];
const SECONDS_BETWEEN_ANNOUNCEMENTS = 4;
const SECONDS_OF_A_NOTICE = 8;

const part = (id) => document.getElementById(id);

let limits = {};
// The current state: the file (if it was given in this tab), the job, its view, and the function that ends it.
let current = { file: null, id: null, view: null, stopper: new AbortController() };

function show(name, title) {
  for (const section of SECTIONS) part(section).hidden = section !== name;
  part("another").hidden = name !== "result";
  part("file-name").textContent = name === "result" ? "" : (current.file?.name ?? "");
  document.body.dataset.section = name;
  document.title = title ? `${title} - mediatensor` : "mediatensor";
}

function begin(file, id) {
  current.stopper.abort();
  current.view?.stop();
  part("view").replaceChildren();
  part("forgotten").hidden = true;
  hidePreview();
  current = { file, id, view: null, stopper: new AbortController() };
  return current.stopper.signal;
}

// --- the address --------------------------------------------------------------------------------------------

function placeInAddress() {
  const values = new URLSearchParams(location.hash.slice(1));
  return { id: values.get("job"), page: Math.max(0, (Number.parseInt(values.get("page"), 10) || 1) - 1) };
}

function setAddress(id, page = 0, isNew = false) {
  const hash = id ? `#job=${encodeURIComponent(id)}${page ? `&page=${page + 1}` : ""}` : location.pathname + location.search;
  if (isNew) history.pushState(null, "", hash);
  else history.replaceState(null, "", hash);
}

function openAddress() {
  const { id, page } = placeInAddress();
  if (!id) openStart();
  else if (id !== current.id) openJob(id, page);
}

function openStart() {
  begin(null, null);
  show("start");
}

// --- from a file to a job --------------------------------------------------------------------------------------

// The options for reading pages, as the user chose them.
function chosenOptions() {
  const options = { task: "auto" };
  for (const field of part("choices").elements) options[field.name] = field.type === "checkbox" ? String(field.checked) : field.value;
  return options;
}

async function send(file) {
  const signal = begin(file, null);
  if (limits.max_upload_bytes && file.size > limits.max_upload_bytes) {
    const message = `${file.name} has ${size(file.size)}; this server takes up to ${size(limits.max_upload_bytes)}. It was not sent.`;
    showTrouble(new ServerError(413, "", message), false);
    return;
  }
  if (!file.size) {
    showTrouble(new ServerError(422, "", `${file.name} is empty: it has no bytes at all.`), false);
    return;
  }
  showWork(`Sending ${file.name}`, null, size(file.size));
  const options = chosenOptions();
  if (options.straighten !== "true") showPreview(file);
  try {
    const onProgress = (share) => showWork(`Sending ${file.name}`, share, `${size(share * file.size)} of ${size(file.size)}`);
    const job = await patiently(() => upload(file, options, onProgress, signal), signal);
    if (signal.aborted) {
      forget(job.id);
      return;
    }
    current.id = job.id;
    setAddress(job.id, 0, true);
    await see(job.id, 0, signal);
  } catch (error) {
    if (!signal.aborted) showTrouble(error);
  }
}

async function openJob(id, page) {
  const signal = begin(null, id);
  showWork("Looking for your file", null, "");
  try {
    await see(id, page, signal);
  } catch (error) {
    if (!signal.aborted) showTrouble(error);
  }
}

// Follow a job to its end and show its result.
async function see(id, page, signal) {
  const job = await follow(id, (now) => !signal.aborted && showJob(now), signal);
  if (signal.aborted) return;
  if (job.state === "cancelled") throw new ServerError(0, "cancelled", `The work on ${job.name} was cancelled.`);
  if (job.state === "failed") throw new ServerError(0, job.error?.type ?? "", job.error?.message ?? "The server gave no reason.");
  showWork(`Fetching what was read in ${job.name}`, null, "");
  const result = await patiently(() => getJson(jobAddress(id, "result"), signal), signal);
  if (!signal.aborted) showResult(job, result, page);
}

function showJob(job) {
  const isWaiting = job.state === "queued";
  showWork(`${isWaiting ? "Waiting to read" : "Reading"} ${job.name}`, isWaiting ? null : job.progress, job.message ?? "");
}

async function cancel() {
  const { id, file } = current;
  begin(null, null);
  setAddress(null);
  show("start");
  announce("Cancelled.");
  part("file").focus();
  if (id) await forget(id);
  if (file) announce(`Cancelled: the server has forgotten ${file.name}.`);
}

// --- while a job runs ----------------------------------------------------------------------------------------------

let announcedAt = 0;

function showWork(title, share, message) {
  if (part("work").hidden) {
    show("work", title);
    part("work-title").textContent = title;
    part("work-title").focus();
  }
  part("work-title").textContent = title;
  part("work-message").textContent = message;
  const bar = part("progress");
  if (typeof share === "number") bar.value = share;
  else bar.removeAttribute("value");
  if (message && performance.now() - announcedAt > 1000 * SECONDS_BETWEEN_ANNOUNCEMENTS) {
    announcedAt = performance.now();
    announce(`${title}: ${message}`);
  }
}

function showPreview(file) {
  if (!/^image\/(png|jpeg|webp|gif|avif)$/.test(file.type)) return;
  const picture = part("preview-picture");
  picture.onload = () => {
    part("preview").hidden = false;
  };
  picture.src = URL.createObjectURL(file);
}

// If the browser can show the file itself, do so: it is available before the picture from the server.
function previewOf(result) {
  const picture = part("preview-picture");
  const [page] = result.pages;
  const isSame = result.pages.length === 1 && picture.naturalWidth === page.width && picture.naturalHeight === page.height;
  return isSame ? picture.src : null;
}

function hidePreview() {
  const picture = part("preview-picture");
  part("preview").hidden = true;
  if (picture.src) URL.revokeObjectURL(picture.src);
  picture.removeAttribute("src");
}

// --- the result -----------------------------------------------------------------------------------------------------

function showTrouble(error, canRepeat = true) {
  const title = error.type === "cancelled" ? "Cancelled" : troubleTitle(error.status, error.type);
  show("trouble", title);
  part("trouble-title").textContent = title;
  let message = error.message || "The page met something that it did not expect.";
  if (error.status === 401) message = "Open the address that the server printed when it was started; it has the token in it.";
  if (error.status === 404) message = "The server forgets files after a while, and when it is started again. Give it the file once more.";
  if (error.retrySeconds) message += ` Try again in ${duration(error.retrySeconds)}.`;
  part("trouble-message").textContent = message;
  part("again").hidden = !canRepeat || (error.status === 404 && !current.file);
  part("trouble-title").focus();
}

function showResult(job, result, page) {
  const isVideo = job.kind === "video";
  const options = { firstPage: page, preview: isVideo ? null : previewOf(result), onPage: (number) => setAddress(job.id, number) };
  const view = isVideo ? createVideoView(job, result) : createPagesView(job, result, options);
  current.view = view;
  show("result", job.name);
  part("result-title").textContent = job.name;
  part("summary").textContent = isVideo ? videoSummary(result) : pagesSummary(result);
  const copy = element("button", { type: "button", class: "button", onclick: () => copyText(view.text(), isVideo ? "the captions" : "the text") }, icon("copy"), "Copy text");
  const links = offeredDownloads(job.downloads ?? []).map(([name, label], at) =>
    element("a", { class: at ? "button" : "button primary", href: jobAddress(job.id, `download/${name}`), download: true, "data-download": name, onclick: download }, icon("download"), label));
  part("downloads").replaceChildren(...links, copy);
  part("view").replaceChildren(view.node);
  view.start();
  part("result-title").focus({ preventScroll: true });
  announce(`${job.name} was read: ${part("summary").textContent}.`);
}

// Browsers show no error when the server refuses a download, so the page asks first.
async function download(event) {
  const link = event.currentTarget;
  event.preventDefault();
  const { href } = link;
  if (!href) return;
  const { id } = current;
  try {
    await getJob(id);
  } catch (error) {
    if (current.id !== id) return;
    if (error instanceof ServerError) showLost(error);
    else lookUntilBack();
    return;
  }
  element("a", { href, download: true }).click();
}

// Show that the server no longer has the job, or does not give it to this browser.
function showLost(error) {
  const { file } = current;
  const notice = part("forgotten");
  const reason = {
    401: "The server was started again and wants another token; open the address that it printed.",
    404: "The server has forgotten this file: its time was over, it was deleted, or the server was started again.",
  }[error.status] ?? error.message;
  notice.replaceChildren(`${reason} What was read stays here; pictures and downloads do not. `);
  if (file && error.status === 404) notice.append(element("button", { type: "button", class: "link", onclick: () => send(file) }, "Send it again"));
  notice.hidden = false;
  for (const link of part("downloads").querySelectorAll("a")) {
    link.removeAttribute("href");
    link.setAttribute("role", "link");
    link.setAttribute("aria-disabled", "true");
  }
}

// --- the server comes and goes ---------------------------------------------------------------------------------------------

function showConnection(isReachable) {
  const banner = part("connection");
  banner.hidden = isReachable;
  banner.replaceChildren(isReachable ? "" : "The server does not answer. This page goes on by itself when it does.");
  if (isReachable) recover();
}

// When the server is back: check that it still knows the job that is shown.
async function recover() {
  if (!limits.max_upload_bytes) loadLimits();
  const { id, view } = current;
  if (!id || !view) {
    announce("The server answers again.");
    return;
  }
  try {
    await getJob(id);
  } catch (error) {
    if ([401, 404].includes(error.status) && current.id === id) showLost(error);
  }
}

// --- how files are given -----------------------------------------------------------------------------------------------------------------

function take(files) {
  const [file, ...others] = files;
  if (!file) return;
  send(file);
  if (others.length) toast(`One file at a time: ${file.name}. Left out: ${others.map((other) => other.name).join(", ")}.`, SECONDS_OF_A_NOTICE);
}

async function sendExample(name) {
  const signal = begin(null, null);
  showWork("Fetching the example", null, "");
  try {
    const blob = await patiently(() => getBlob(`examples/${name}`, signal), signal);
    send(new File([blob], name, { type: blob.type }));
  } catch (error) {
    if (!signal.aborted) showTrouble(error, false);
  }
}

function listen() {
  for (const input of document.querySelectorAll(".file-input")) {
    input.addEventListener("change", () => {
      take(input.files);
      input.value = "";
    });
  }
  for (const button of document.querySelectorAll("[data-example]")) button.addEventListener("click", () => sendExample(button.dataset.example));
  part("choices").addEventListener("submit", (event) => event.preventDefault());
  part("cancel").addEventListener("click", cancel);
  part("again").addEventListener("click", () => {
    if (current.file) send(current.file);
    else openJob(current.id, 0);
  });
  document.querySelector(".brand").addEventListener("click", (event) => {
    event.preventDefault();
    setAddress(null, 0, true);
    openStart();
  });
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    part("main").focus();
  });
  window.addEventListener("popstate", openAddress);
  window.addEventListener("hashchange", openAddress);

  let depth = 0;
  const isFile = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  window.addEventListener("dragenter", (event) => {
    if (!isFile(event)) return;
    depth += 1;
    part("veil").hidden = false;
  });
  window.addEventListener("dragleave", (event) => {
    if (!isFile(event)) return;
    depth -= 1;
    if (depth <= 0) part("veil").hidden = true;
  });
  window.addEventListener("dragover", (event) => {
    if (isFile(event)) event.preventDefault();
  });
  window.addEventListener("drop", (event) => {
    if (!isFile(event)) return;
    event.preventDefault();
    depth = 0;
    part("veil").hidden = true;
    take(event.dataTransfer.files);
  });
  window.addEventListener("paste", (event) => {
    if (event.clipboardData?.files.length) take(event.clipboardData.files);
  });
}

async function loadLimits() {
  try {
    limits = await getJson("limits");
  } catch (error) {
    if (error instanceof ServerError && error.status === 401) showTrouble(error, false);
    else if (!(error instanceof ServerError)) lookUntilBack();
    return;
  }
  if (limits.max_upload_bytes) part("limits").textContent = `Images, PDF files and videos, up to ${size(limits.max_upload_bytes)}`;
  if (limits.keep_seconds) {
    part("privacy").textContent = `They stay between you and this server, which forgets them after ${duration(limits.keep_seconds)}. Nothing is sent anywhere else.`;
  }
  part("examples").hidden = !limits.examples?.length;
}

part("curl").textContent = `curl -F file=@page.png ${new URL("ocr", location.href).href.split("#")[0]}`;
listen();
watchServer(showConnection);
openAddress();
loadLimits();
