// The view of a document: thumbnails, the pages below each other with zoom and search, and a panel with the results.

import { announce, element, icon, iconButton, isTyping, place, scrollBehavior } from "./dom.js";
import { fieldsPanel, regionsPanel, tablesPanel, textPanel } from "./page_text.js";
import { findWords, indexWords } from "./search.js";
import { jobAddress } from "./server.js";
import { createSheet, selectedText } from "./sheet.js";
import { createTabs } from "./tabs.js";
import { count } from "./wording.js";

const ZOOM_STEP = 1.25;
const LARGEST_ZOOM = 6;
const SMALLEST_ZOOM = 0.2;
// A small picture is not enlarged to fill the screen.
const LARGEST_FIT = 1.5;
const GAP = 16;

/** A sentence that says what was found. */
export function pagesSummary(result) {
  const pages = result.pages;
  const sum = (name) => pages.reduce((total, page) => total + (page[name]?.length ?? 0), 0);
  const parts = [count(pages.length, "page"), count(sum("words"), "word")];
  if (sum("tables")) parts.push(count(sum("tables"), "table"));
  if (sum("fields")) parts.push(count(sum("fields"), "field"));
  return parts.join(", ");
}

/**
 * The view of a job whose result is pages.
 *
 * @param options {firstPage, preview, onPage}: the first page to show, from 0; a picture to show until the picture of the
 *                server has arrived, or null; a function that gets the number of the visible page, from 0
 */
export function createPagesView(job, result, { firstPage, preview, onPage }) {
  // The size of a page that failed may be unknown. Such a page gets the size of a sheet of paper. Here, `page_idx` counts
  // the pages of the result, which may be some of the document; the address of the picture has the index in the document.
  const pages = result.pages.map((page, at) => ({ ...page, page_idx: at, picture: jobAddress(job.id, `pages/${page.page_idx}.png`), width: page.width || 800, height: page.height || 1131, words: page.words ?? [] }));
  const sheets = pages.map((page) => createSheet(page, page.picture, `Page ${page.page_idx + 1} of ${pages.length}`));
  if (preview) place(sheets[0].node, { "background-image": `url("${preview}")`, "background-size": "100% 100%" });
  const stack = element("div", { class: "stack" }, ...sheets.map((sheet) => sheet.node));
  const scroller = element("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": "Pages" }, stack);
  const pointed = element("div", { class: "pointed-word", hidden: true, "aria-hidden": "true" });
  const search = createSearch(sheets, reveal, () => scroller.focus({ preventScroll: true }));
  let zoom = 1;
  let current = 0;

  // --- zoom ----------------------------------------------------------------

  const zoomLabel = element("output", { class: "zoom-label", "aria-live": "off" }, "100 %");

  // At zoom 1, the widest page fits into the view.
  function fitScale() {
    const width = Math.max(...pages.map((page) => page.width));
    return Math.min(LARGEST_FIT, Math.max(0.05, (scroller.clientWidth - 2 * GAP) / width));
  }

  function applyZoom() {
    const scale = fitScale() * zoom;
    for (const sheet of sheets) sheet.setScale(scale);
    zoomLabel.textContent = `${Math.round(100 * zoom)} %`;
  }

  // The point in the middle of the view, or under the pointer, stays where it is.
  function setZoom(value, x = scroller.clientWidth / 2, y = scroller.clientHeight / 2) {
    const before = zoom;
    const [left, top] = [scroller.scrollLeft + x, scroller.scrollTop + y];
    zoom = Math.min(LARGEST_ZOOM, Math.max(SMALLEST_ZOOM, value));
    applyZoom();
    scroller.scrollTo({ left: (left * zoom) / before - x, top: (top * zoom) / before - y, behavior: "instant" });
  }

  scroller.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    const box = scroller.getBoundingClientRect();
    setZoom(zoom * Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });
  scroller.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "+" || event.key === "=") setZoom(zoom * ZOOM_STEP);
    else if (event.key === "-") setZoom(zoom / ZOOM_STEP);
    else if (event.key === "0") setZoom(1);
  });

  // --- which page is visible ------------------------------------------------------

  const thumbnails = pages.length > 1 ? createThumbnails(pages, goTo) : null;

  // Load the thumbnails after the first page.
  for (const name of ["load", "error"]) stack.addEventListener(name, () => thumbnails?.load(), { capture: true, once: true });

  function seePage(number) {
    current = number;
    thumbnails?.select(number);
    onPage(number);
    // The text follows, unless the user is working in it.
    const text = panel.node.querySelector(`.reading [data-page="${number}"]`);
    const scroller = text?.closest(".panel");
    if (scroller && !scroller.hidden && !side.matches(":hover, :focus-within")) scroller.scrollTo({ top: text.offsetTop - GAP, behavior: scrollBehavior() });
  }

  function goTo(number) {
    scroller.scrollTo({ top: sheets[number].node.offsetTop - GAP, behavior: scrollBehavior() });
    seePage(number);
  }

  const nearby = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) sheets[Number(entry.target.dataset.page)].draw();
  }, { root: scroller, rootMargin: "100% 0px" });
  for (const sheet of sheets) nearby.observe(sheet.node);

  scroller.addEventListener("scroll", () => {
    const middle = scroller.scrollTop + scroller.clientHeight / 3;
    const number = sheets.findLastIndex((sheet) => sheet.node.offsetTop <= middle);
    if (number >= 0 && number !== current) seePage(number);
  });

  /** Outlines boxes of a page in its picture, and scrolls to them if asked to. */
  function point(page, boxes, isWanted = false) {
    const sheet = sheets[page.page_idx];
    sheet.pointAt(boxes);
    if (isWanted && boxes.length) reveal(sheet, boxes[0]);
  }

  function reveal(sheet, box) {
    sheet.draw();
    const at = sheet.placeOf(box);
    const [left, top] = [sheet.node.offsetLeft + at.left, sheet.node.offsetTop + at.top];
    const [right, bottom] = [sheet.node.offsetLeft + at.right, sheet.node.offsetTop + at.bottom];
    const view = { left: scroller.scrollLeft, top: scroller.scrollTop, width: scroller.clientWidth, height: scroller.clientHeight };
    const isSeen = left >= view.left && right <= view.left + view.width && top >= view.top && bottom <= view.top + view.height;
    if (!isSeen) {
      scroller.scrollTo({ left: (left + right - view.width) / 2, top: (top + bottom - view.height) / 2, behavior: scrollBehavior() });
    }
  }

  // --- words under the pointer, and copying -----------------------------------------

  stack.addEventListener("pointerover", (event) => {
    const span = event.target.closest(".word");
    pointed.hidden = !span;
    if (!span) return;
    const word = pages[Number(span.closest(".sheet").dataset.page)].words[Number(span.dataset.word)];
    pointed.replaceChildren(element("strong", {}, word.text), ` sure to ${Math.round(100 * word.confidence)} %`);
  });
  stack.addEventListener("pointerleave", () => {
    pointed.hidden = true;
  });
  stack.addEventListener("copy", (event) => {
    const text = selectedText(sheets, getSelection());
    if (!text) return;
    event.clipboardData.setData("text/plain", text);
    event.preventDefault();
  });

  // --- the parts of the view --------------------------------------------------------------

  const eye = iconButton("eye", "Show or hide what was found", () => {
    const isShown = eye.getAttribute("aria-pressed") !== "true";
    eye.setAttribute("aria-pressed", String(isShown));
    stack.classList.toggle("bare", !isShown);
  }, { "aria-pressed": "true" });
  const toolbar = element("div", { class: "toolbar", role: "toolbar", "aria-label": "Search and zoom" },
    search.node,
    element("div", { class: "tool-group" },
      eye,
      iconButton("minus", "Zoom out", () => setZoom(zoom / ZOOM_STEP)),
      zoomLabel,
      iconButton("plus", "Zoom in", () => setZoom(zoom * ZOOM_STEP)),
      iconButton("fit", "Fit to width", () => setZoom(1))));

  const sum = (name) => pages.reduce((total, page) => total + (page[name]?.length ?? 0), 0);
  const tabs = [{ name: "text", label: "Text", make: () => textPanel(pages, point) }];
  if (sum("tables")) tabs.push({ name: "tables", label: "Tables", count: sum("tables"), make: () => tablesPanel(pages, point) });
  if (sum("fields")) tabs.push({ name: "fields", label: "Fields", count: sum("fields"), make: () => fieldsPanel(pages, point) });
  if (sum("regions")) tabs.push({ name: "regions", label: "Regions", count: sum("regions"), make: () => regionsPanel(pages, point) });
  // The open tab decides what is drawn over the pages.
  const panel = createTabs("What was found", tabs, (name) => {
    stack.dataset.marks = name === "text" ? "words" : name;
  });

  const viewer = element("div", { class: "viewer" }, toolbar, element("div", { class: "canvas" }, scroller, pointed));
  const side = element("aside", { class: "side", "aria-label": "What was found" }, panel.node);
  const node = element("div", { class: thumbnails ? "pages-view with-thumbnails" : "pages-view" }, thumbnails?.node, viewer, side);

  const resized = new ResizeObserver(applyZoom);

  function onKey(event) {
    if (event.key === "/" && !isTyping(event) && !event.ctrlKey && !event.metaKey) {
      search.focus();
      event.preventDefault();
    }
  }

  return {
    node,
    /** To be called when the view is in the document. */
    start() {
      applyZoom();
      resized.observe(scroller);
      document.addEventListener("keydown", onKey);
      if (firstPage > 0 && firstPage < pages.length) goTo(firstPage);
      else thumbnails?.select(0);
    },
    stop() {
      resized.disconnect();
      nearby.disconnect();
      document.removeEventListener("keydown", onKey);
    },
    /** The text of the whole document, as the server wrote it. */
    text: () => pages.map((page) => page.text ?? "").join("\n\n"),
  };
}

function createThumbnails(pages, onChoose) {
  const pictures = [];
  const buttons = pages.map((page) => {
    const picture = element("img", { alt: "", loading: "lazy" });
    pictures.push(place(picture, { "aspect-ratio": `${page.width} / ${page.height}` }));
    return element("button", { type: "button", class: "thumbnail", "aria-label": `Page ${page.page_idx + 1}`, onclick: () => onChoose(page.page_idx) }, picture, element("span", {}, String(page.page_idx + 1)));
  });
  const node = element("nav", { class: "thumbnails", "aria-label": "Pages" }, ...buttons);
  return {
    node,
    /** Fetches the visible thumbnails. */
    load() {
      pictures.forEach((picture, at) => {
        picture.src ||= `${pages[at].picture}?max_width=160`;
      });
    },
    select(number) {
      buttons.forEach((button, at) => {
        if (at === number) button.setAttribute("aria-current", "page");
        else button.removeAttribute("aria-current");
      });
      const button = buttons[number];
      const isBeside = node.scrollHeight > node.clientHeight;
      if (isBeside) node.scrollTop = button.offsetTop - node.clientHeight / 2;
      else node.scrollLeft = button.offsetLeft - node.clientWidth / 2;
    },
  };
}

function createSearch(sheets, reveal, leave) {
  let indexes = null;
  let hits = [];
  let at = -1;
  const state = element("output", { class: "search-state", for: "search" });
  const field = element("input", { type: "search", id: "search", placeholder: "Find a word", "aria-label": "Find a word", autocomplete: "off", spellcheck: "false", oninput: () => run(), onkeydown: onKey });
  const buttons = [iconButton("up", "Previous place", () => go(at - 1), { disabled: true }), iconButton("down", "Next place", () => go(at + 1), { disabled: true })];

  function run() {
    indexes ??= sheets.map((sheet) => indexWords(sheet.page.words));
    hits[at]?.sheet.setCurrent([]);
    hits = [];
    indexes.forEach((index, number) => {
      const found = findWords(index, field.value);
      sheets[number].setHits(new Set(found.flatMap(wordsOf)));
      for (const words of found) hits.push({ sheet: sheets[number], words });
    });
    for (const button of buttons) button.disabled = !hits.length;
    at = -1;
    state.textContent = field.value.trim() ? "not found" : "";
    go(0);
  }

  function go(number) {
    if (!hits.length) return;
    hits[at]?.sheet.setCurrent([]);
    at = (number + hits.length) % hits.length;
    const { sheet, words } = hits[at];
    sheet.setCurrent(wordsOf(words));
    reveal(sheet, sheet.page.words[words[0]].box);
    state.textContent = `${at + 1} of ${hits.length.toLocaleString("en")}`;
    announce(`${state.textContent}, page ${sheet.page.page_idx + 1}`);
  }

  function onKey(event) {
    if (event.key === "Enter") go(event.shiftKey ? at - 1 : at + 1);
    else if (event.key === "Escape") {
      field.value = "";
      run();
      leave();
    } else return;
    event.preventDefault();
  }

  return {
    node: element("div", { class: "search", role: "search" }, icon("search"), field, state, ...buttons),
    focus() {
      field.focus();
      field.select();
    },
  };
}

function wordsOf([first, last]) {
  return Array.from({ length: last - first + 1 }, (_, at) => first + at);
}
