// One page: its picture, the words over it as text that can be selected, and the outlines of what was found.

import { element, place, svgElement } from "./dom.js";

const ruler = document.createElement("canvas").getContext("2d");
const FONT = "Helvetica, Arial, sans-serif";

/** The width of a text at font size 1. */
function widthOf(text) {
  ruler.font = `100px ${FONT}`;
  return ruler.measureText(text).width / 100;
}

/** The corners of a word in pixels of the page, clockwise from the top left of its text. */
function cornersOf(word, page) {
  const [left, top, right, bottom] = word.box;
  const corners = word.polygon ?? [[left, top], [right, top], [right, bottom], [left, bottom]];
  return corners.map(([x, y]) => [x * page.width, y * page.height]);
}

function points(corners) {
  return corners.map((corner) => corner.map((value) => value.toFixed(1)).join(",")).join(" ");
}

function boxPoints([left, top, right, bottom], page) {
  return points([[left, top], [right, top], [right, bottom], [left, bottom]].map(([x, y]) => [x * page.width, y * page.height]));
}

/**
 * A page that is drawn when it is first needed.
 *
 * @param page    the page of the result
 * @param address the address of its picture
 * @param label   "Page 1 of 3"
 */
export function createSheet(page, address, label) {
  const node = element("div", { class: "sheet", role: "group", "aria-label": label, "data-page": page.page_idx });
  let spans = [];
  let shapes = null;
  let hits = new Set();
  let current = [];
  let scale = 1;

  /** Draws the picture and the words, if they are not drawn yet. */
  function draw() {
    if (shapes) return;
    const picture = element("img", { src: address, alt: "", draggable: "false", onerror: () => tell(page.error?.message ?? "The picture of this page could not be fetched.") });
    shapes = {
      words: svgElement("g", { class: "marks-words" }),
      tables: svgElement("g", { class: "marks-tables" }),
      fields: svgElement("g", { class: "marks-fields" }),
      regions: svgElement("g", { class: "marks-regions" }),
      pointed: svgElement("g", { class: "marks-pointed" }),
    };
    const marks = svgElement("svg", { class: "marks", viewBox: `0 0 ${page.width} ${page.height}`, "aria-hidden": "true" }, ...Object.values(shapes));
    drawMarks();
    node.append(picture, marks, textLayer());
    for (const number of hits) spans[number].classList.add("hit");
    for (const number of current) spans[number].classList.add("current");
    if (page.error) tell(page.error.message);
  }

  function tell(message) {
    node.querySelector(".sheet-error")?.remove();
    node.append(element("p", { class: "sheet-error" }, message));
  }

  function drawMarks() {
    for (const word of page.words) {
      const unsure = word.confidence < 0.5 ? "word-mark unsure" : "word-mark";
      shapes.words.append(svgElement("polygon", { class: unsure, points: points(cornersOf(word, page)) }));
    }
    for (const table of page.tables ?? []) {
      for (const cell of table.cells) {
        if (cell.box) shapes.tables.append(svgElement("polygon", { class: cell.is_header ? "cell-mark header" : "cell-mark", points: boxPoints(cell.box, page) }));
      }
    }
    for (const field of page.fields ?? []) {
      if (field.key_box) shapes.fields.append(svgElement("polygon", { class: "key-mark", points: boxPoints(field.key_box, page) }));
      if (field.value_box) shapes.fields.append(svgElement("polygon", { class: "value-mark", points: boxPoints(field.value_box, page) }));
    }
    for (const region of page.regions ?? []) {
      const number = svgElement("text", { class: "region-number", x: region.box[0] * page.width, y: region.box[1] * page.height });
      number.textContent = String(region.order + 1);
      shapes.regions.append(svgElement("polygon", { class: "region-mark", "data-type": region.type, points: boxPoints(region.box, page) }), number);
    }
    for (const line of page.unread ?? []) {
      shapes.words.append(svgElement("polygon", { class: "word-mark unread", points: boxPoints(line.box, page) }));
    }
  }

  // The layer has the size of the page in pixels and is scaled as a whole, so that zooming moves no word.
  function textLayer() {
    const layer = element("div", { class: "text-layer", lang: languageOf(page) });
    place(layer, { width: `${page.width}px`, height: `${page.height}px` });
    spans = page.words.map((word, number) => {
      const [start, end, , bottom] = cornersOf(word, page);
      const width = Math.hypot(end[0] - start[0], end[1] - start[1]);
      const height = Math.hypot(bottom[0] - start[0], bottom[1] - start[1]);
      const size = Math.max(1, 0.86 * height);
      const stretch = width / Math.max(0.01, size * widthOf(word.text));
      const angle = Math.atan2(end[1] - start[1], end[0] - start[0]);
      const span = element("span", { class: "word", "data-word": number }, word.text);
      return place(span, {
        left: `${start[0].toFixed(1)}px`,
        top: `${start[1].toFixed(1)}px`,
        "font-size": `${size.toFixed(1)}px`,
        "line-height": `${height.toFixed(1)}px`,
        transform: `rotate(${angle.toFixed(4)}rad) scaleX(${stretch.toFixed(4)})`,
      });
    });
    spans.forEach((span, number) => {
      const ends = page.words[number + 1]?.line !== page.words[number].line;
      layer.append(span, ends ? "\n" : " ");
    });
    return layer;
  }

  return {
    node,
    page,
    draw,
    /** The number of screen pixels for each pixel of the page. */
    setScale(value) {
      scale = value;
      place(node, { width: `${page.width * scale}px`, height: `${page.height * scale}px`, "--scale": scale });
    },
    /** Marks the words that a search found, by their numbers. */
    setHits(found) {
      for (const number of hits) if (!found.has(number)) spans[number]?.classList.remove("hit");
      for (const number of found) if (!hits.has(number)) spans[number]?.classList.add("hit");
      hits = found;
    },
    /** Marks the words of the current search result. */
    setCurrent(numbers) {
      for (const number of current) spans[number]?.classList.remove("current");
      for (const number of numbers) spans[number]?.classList.add("current");
      current = numbers;
    },
    /** Outlines boxes or words to which the user points elsewhere. Coordinates are relative to the page. */
    pointAt(boxes) {
      draw();
      shapes.pointed.replaceChildren(...boxes.map((box) => svgElement("polygon", { class: "pointed-mark", points: boxPoints(box, page) })));
    },
    /** The position of a box within the sheet in screen pixels; the box is relative to the page. */
    placeOf([left, top, right, bottom]) {
      const [width, height] = [page.width * scale, page.height * scale];
      return { left: left * width, top: top * height, right: right * width, bottom: bottom * height };
    },
  };
}

/** The language of the text for screen readers, if the server found one. */
function languageOf(page) {
  const found = typeof page.language === "object" ? page.language?.value : page.language;
  return /^[a-z]{2,3}(-[a-z]+)?$/i.test(found ?? "") ? found : null;
}

/** The selected words as text: words of a line with spaces, lines with line ends, blocks with an empty line. */
export function selectedText(sheets, selection) {
  if (selection.isCollapsed || !selection.rangeCount) return "";
  const range = selection.getRangeAt(0);
  let text = "";
  let last = null;
  for (const { node, page } of sheets) {
    if (!range.intersectsNode(node)) continue;
    for (const span of node.querySelectorAll(".word")) {
      if (!range.intersectsNode(span)) continue;
      const part = partOf(span.firstChild, range);
      if (!part) continue;
      const word = page.words[Number(span.dataset.word)];
      if (last) text += last.block !== word.block || last.page !== page ? "\n\n" : last.line !== word.line ? "\n" : " ";
      text += part;
      last = { page, block: word.block, line: word.line };
    }
  }
  return text;
}

function partOf(text, range) {
  const from = range.startContainer === text ? range.startOffset : 0;
  const to = range.endContainer === text ? range.endOffset : text.length;
  return text.data.slice(from, to);
}
