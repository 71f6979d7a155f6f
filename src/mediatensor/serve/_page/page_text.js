// The panel beside the pages: text in reading order, tables, fields and regions. Pointing at one outlines it in the picture.

import { copyText, element, icon } from "./dom.js";
import { count } from "./wording.js";

const HEADINGS = new Set(["Title", "Section-header"]);

function centre([left, top, right, bottom]) {
  return [(left + right) / 2, (top + bottom) / 2];
}

function isInside([x, y], [left, top, right, bottom]) {
  return x >= left && x <= right && y >= top && y <= bottom;
}

function area([left, top, right, bottom]) {
  return (right - left) * (bottom - top);
}

/** The words of a page by region, in reading order: [{type, words, number, box}]. Words outside of all regions come by block. */
function passages(page) {
  const regions = [...(page.regions ?? [])].sort((one, other) => one.order - other.order);
  const found = new Map(regions.map((region) => [region, { type: region.type, number: region.order + 1, words: [], box: region.box }]));
  const result = [...found.values()];
  let other = null;
  for (const word of page.words) {
    const holders = regions.filter((region) => isInside(centre(word.box), region.box));
    if (holders.length) {
      found.get(holders.reduce((one, next) => (area(next.box) < area(one.box) ? next : one))).words.push(word);
      continue;
    }
    if (other?.block !== word.block) {
      other = { type: "Text", words: [], block: word.block };
      result.push(other);
    }
    other.words.push(word);
  }
  return result;
}

function linesOf(words) {
  const lines = new Map();
  for (const word of words) {
    if (!lines.has(word.line)) lines.set(word.line, []);
    lines.get(word.line).push(word);
  }
  return [...lines.values()];
}

function tableAt(page, box) {
  return (page.tables ?? []).find((table) => isInside(centre(table.box), box));
}

/** The text of a page, as headings, paragraphs and tables. `point(page, boxes)` outlines boxes in the picture. */
export function textPanel(pages, point) {
  const node = element("div", { class: "reading" });
  for (const page of pages) {
    if (pages.length > 1) node.append(element("h3", { class: "page-mark", "data-page": page.page_idx }, `Page ${page.page_idx + 1}`));
    if (page.error) {
      node.append(element("p", { class: "note" }, page.error.message));
      continue;
    }
    if (page.unread?.length) node.append(element("p", { class: "note" }, `${count(page.unread.length, "line")} found and not read, framed in red.`));
    if (!page.words.length) node.append(element("p", { class: "note" }, "No words were found on this page."));
    for (const passage of passages(page)) {
      const table = passage.type === "Table" ? tableAt(page, passage.box) : null;
      if (table) node.append(element("div", { class: "table-scroll" }, tableNode(page, table, point)));
      else if (passage.words.length) node.append(passageNode(page, passage, point));
    }
  }
  return node;
}

// Lines of running text, except the last, are as wide as their paragraph. Lines of an address or a list are not.
function isRunning(lines, page) {
  const widths = lines.map((line) => (line.at(-1).box[2] - line[0].box[0]) * page.width);
  const widest = Math.max(...widths);
  return (lines.length > 2 || widest > 0.45 * page.width) && widths.slice(0, -1).every((width) => width > 0.8 * widest);
}

function passageNode(page, passage, point) {
  const tag = HEADINGS.has(passage.type) ? "h4" : "p";
  const lines = linesOf(passage.words);
  const node = element(tag, { class: `passage passage-${passage.type.toLowerCase()}${isRunning(lines, page) ? " running" : ""}` });
  for (const line of lines) {
    const text = line.map((word) => word.text).join(" ");
    node.append(element("span", { class: "line", ...pointing(page, line.map((word) => word.box), point) }, text), "\n");
  }
  return node;
}

function pointing(page, boxes, point) {
  return {
    onpointerenter: () => point(page, boxes),
    onpointerleave: () => point(page, []),
    onclick: () => {
      if (getSelection().isCollapsed) point(page, boxes, true);
    },
  };
}

function tableNode(page, table, point, onChoose = null) {
  const rows = [];
  for (const cell of [...table.cells].sort((one, other) => one.row - other.row || one.column - other.column)) {
    rows[cell.row] ??= element("tr");
    const attributes = { rowspan: cell.row_span > 1 && cell.row_span, colspan: cell.column_span > 1 && cell.column_span };
    const node = element(cell.is_header ? "th" : "td", { ...attributes, ...pointing(page, cell.box ? [cell.box] : [], point) }, cell.text);
    if (onChoose) makeChoosable(node, cell, onChoose);
    rows[cell.row].append(node);
  }
  return element("table", { class: "found-table" }, element("tbody", {}, ...rows.filter(Boolean)));
}

// The Tab key stops once at the table; arrow keys move from cell to cell.
function makeChoosable(node, cell, onChoose) {
  node.tabIndex = -1;
  const choose = () => onChoose(node, cell);
  node.addEventListener("focus", choose);
  node.addEventListener("click", () => node.focus());
}

/** The rows of a table as text with tabs between cells. A cell that spans several places is written in the first. */
export function tabSeparated(table) {
  const grid = [];
  for (const cell of table.cells) {
    grid[cell.row] ??= [];
    grid[cell.row][cell.column] = cell.text.replace(/\s+/g, " ").trim();
  }
  const numColumns = Math.max(0, ...table.cells.map((cell) => cell.column + cell.column_span));
  return Array.from(grid, (row) => Array.from({ length: numColumns }, (_, column) => row?.[column] ?? "").join("\t")).join("\n");
}

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/** All tables, each with a button that copies the table, and one that copies the chosen cell. */
export function tablesPanel(pages, point) {
  const node = element("div", { class: "tables" });
  let number = 0;
  for (const page of pages) {
    for (const table of page.tables ?? []) {
      number += 1;
      node.append(tableFigure(page, table, `Table ${number}`, pages.length > 1, point));
    }
  }
  return node;
}

function tableFigure(page, table, name, hasPages, point) {
  let chosen = null;
  const copyCell = element("button", { type: "button", class: "quiet", disabled: true, onclick: () => copyText(chosen.text, "the cell") }, icon("copy"), "Copy cell");
  const copyAll = element("button", { type: "button", class: "quiet", onclick: () => copyText(tabSeparated(table), "the table; paste it into a spreadsheet") }, icon("copy"), "Copy table");
  const choose = (cellNode, cell) => {
    for (const other of grid.querySelectorAll("[tabindex='0']")) other.tabIndex = -1;
    cellNode.tabIndex = 0;
    chosen = cell;
    copyCell.disabled = false;
    point(page, cell.box ? [cell.box] : [], true);
  };
  const grid = tableNode(page, table, point, choose);
  grid.setAttribute("aria-label", name);
  const first = grid.querySelector("td, th");
  if (first) first.tabIndex = 0;
  grid.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "c" && chosen && getSelection().isCollapsed) {
      copyText(chosen.text, "the cell");
      event.preventDefault();
    }
    const step = STEPS[event.key];
    if (!step || event.ctrlKey || event.altKey || event.metaKey) return;
    nextCell(grid, event.target.closest("td, th"), step)?.focus();
    event.preventDefault();
  });
  const numRows = Math.max(0, ...table.cells.map((cell) => cell.row + cell.row_span));
  const numColumns = Math.max(0, ...table.cells.map((cell) => cell.column + cell.column_span));
  const where = hasPages ? `, page ${page.page_idx + 1}` : "";
  const caption = element("figcaption", {}, element("strong", {}, name), ` ${count(numRows, "row")}, ${count(numColumns, "column")}${where}`);
  return element("figure", { class: "table-figure" }, caption, element("div", { class: "table-scroll" }, grid), element("div", { class: "buttons" }, copyAll, copyCell));
}

// The neighbouring cell is found by positions on the screen, which also works for cells that span several places.
function nextCell(grid, cell, [rows, columns]) {
  if (!cell) return null;
  const from = cell.getBoundingClientRect();
  const x = columns ? (columns > 0 ? from.right + 4 : from.left - 4) : from.left + 4;
  const y = rows ? (rows > 0 ? from.bottom + 4 : from.top - 4) : from.top + 4;
  return [...grid.querySelectorAll("td, th")].find((other) => {
    const to = other.getBoundingClientRect();
    return x >= to.left && x < to.right && y >= to.top && y < to.bottom;
  });
}

/** Keys and their values. */
export function fieldsPanel(pages, point) {
  const list = element("dl", { class: "fields" });
  for (const page of pages) {
    for (const field of page.fields ?? []) {
      const boxes = [field.key_box, field.value_box].filter(Boolean);
      const copy = element("button", { type: "button", class: "icon-button", "aria-label": `Copy ${field.value}`, title: "Copy", onclick: () => copyText(field.value, "the value") }, icon("copy"));
      const name = (field.key || field.name || "").replace(/\s*:$/, "");
      list.append(element("div", { class: "field", ...pointing(page, boxes, point) }, element("dt", {}, name), element("dd", {}, element("span", {}, field.value), copy)));
    }
  }
  return list;
}

/** The regions of the pages, in reading order. */
export function regionsPanel(pages, point) {
  const list = element("ol", { class: "regions" });
  for (const page of pages) {
    if (pages.length > 1 && page.regions?.length) list.append(element("li", { class: "page-mark" }, `Page ${page.page_idx + 1}`));
    for (const passage of passages(page)) {
      if (!passage.box) continue;
      const excerpt = passage.words.slice(0, 14).map((word) => word.text).join(" ");
      const choose = () => point(page, [passage.box], true);
      const button = element("button", { type: "button", class: "region", onclick: choose, onpointerenter: () => point(page, [passage.box]), onpointerleave: () => point(page, []) },
        element("span", { class: "region-type", "data-type": passage.type }, `${passage.number} `, passage.type.replace("-", " ")), element("span", { class: "excerpt" }, excerpt));
      list.append(element("li", {}, button));
    }
  }
  return list;
}
