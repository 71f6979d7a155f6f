// Small functions for the document. Text is always inserted as text, never as markup.

/** An element with attributes, listeners (`onclick: f`) and children; children that are null or false are left out. */
export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  assign(node, attributes);
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** The same for SVG elements, which have their own namespace. */
export function svgElement(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  assign(node, attributes);
  node.append(...children);
  return node;
}

function assign(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
}

/** Sets properties of an element's style; the page's policy forbids style attributes, but not this. */
export function place(node, properties) {
  for (const [name, value] of Object.entries(properties)) node.style.setProperty(name, value);
  return node;
}

// Outlines of icons on a field of 24 by 24.
const OUTLINES = {
  back: "M15 5l-7 7 7 7",
  check: "M5 12.5l4.5 4.5L19 7.5",
  close: "M6 6l12 12M18 6L6 18",
  copy: "M9 9h10v11H9zM5 15V4h10",
  down: "M6 9l6 6 6-6",
  download: "M12 4v11m-4.5-4.5L12 15l4.5-4.5M5 20h14",
  eye: "M2.5 12s3.5-6.5 9.5-6.5S21.5 12 21.5 12 18 18.5 12 18.5 2.5 12 2.5 12zM12 9.5a2.5 2.5 0 100 5 2.5 2.5 0 000-5z",
  film: "M4 5h16v14H4zM8 5v14M16 5v14M4 9.7h4M4 14.3h4M16 9.7h4M16 14.3h4",
  fit: "M4 9V4h5M20 9V4h-5M4 15v5h5M20 15v5h-5",
  minus: "M5 12h14",
  muted: "M4 9.5v5h3.5L12 19V5L7.5 9.5zM16 10l5 5M21 10l-5 5",
  next: "M9 5l7 7-7 7",
  page: "M6 3h8l4 4v14H6zM14 3v4h4M9 12h6M9 16h6",
  pause: "M8 5v14M16 5v14",
  play: "M7 4.5l12 7.5-12 7.5z",
  plus: "M12 5v14M5 12h14",
  search: "M10.5 4a6.5 6.5 0 100 13 6.5 6.5 0 000-13zM15.5 15.5L20 20",
  sound: "M4 9.5v5h3.5L12 19V5L7.5 9.5zM15.5 9a4 4 0 010 6M18 6.5a8 8 0 010 11",
  up: "M6 15l6-6 6 6",
};

/** An icon. Its meaning is written beside it, or in the label of its button. */
export function icon(name) {
  const path = svgElement("path", { d: OUTLINES[name] });
  return svgElement("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" }, path);
}

/** A button that has only an icon. Screen readers read `label`, and it is shown as a tooltip. */
export function iconButton(name, label, onclick, attributes = {}) {
  return element("button", { type: "button", class: "icon-button", "aria-label": label, title: label, onclick, ...attributes }, icon(name));
}

/** Announces a change to users of screen readers, through the live region of the page. */
export function announce(text) {
  document.getElementById("announcement").textContent = text;
}

let toastTimer = 0;

/** A short message that disappears after a while. */
export function toast(text, seconds = 2.6) {
  const node = document.getElementById("toast");
  node.textContent = text;
  node.hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => {
    node.hidden = true;
  }, 1000 * seconds);
}

/** Copies a text to the clipboard, also at addresses where browsers give pages no access to it. */
export async function copyText(text, what) {
  let copied = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = element("textarea", { class: "visually-hidden", "aria-hidden": "true" });
    const focused = document.activeElement;
    field.value = text;
    document.body.append(field);
    field.select();
    copied = document.execCommand("copy");
    field.remove();
    focused?.focus?.();
  }
  toast(copied ? `Copied ${what}.` : "The browser did not allow copying.");
}

/** How the page scrolls to something: without animation for users who prefer reduced motion. */
export function scrollBehavior() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth";
}

/** Whether a key press belongs to a field in which the user is typing. */
export function isTyping(event) {
  return event.target.matches?.("input, textarea, select");
}
