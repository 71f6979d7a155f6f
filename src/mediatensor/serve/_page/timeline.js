// The texts of a video on a time line, with a lane for each kind. It is a slider; its keys work in the whole view.

import { element, place } from "./dom.js";
import { clock, wholeClock } from "./wording.js";

const LANES = [
  ["caption", "Captions"],
  ["slide", "Slides"],
  ["overlay", "Overlays"],
  ["scene", "In the scene"],
];
const MOST_ROWS = 4;
// Distances between ticks, in seconds.
const TICKS = [0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600];
const MOST_TICKS = 9;
// Zoom: the seconds that are visible at first, and at least; the highest zoom, and the factor of a step.
const FIRST_SECONDS = 60;
const FEWEST_SECONDS = 10;
const MOST_ZOOM = 200;
const ZOOM_STEP = 2;

/** The row of each text, chosen so that no text covers another. */
export function rowsOf(tracks) {
  const ends = [];
  return tracks.map((track) => {
    let row = ends.findIndex((end) => end <= track.begin_seconds + 1e-6);
    if (row < 0) row = ends.length < MOST_ROWS ? ends.length : ends.indexOf(Math.min(...ends));
    ends[row] = track.end_seconds;
    return row;
  });
}

/**
 * @param span {begin, end} in seconds
 * @param go   {toTime(seconds), toTrack(track), byFrames(number)}
 */
export function createTimeline(tracks, span, go) {
  const length = Math.max(1e-6, span.end - span.begin);
  const share = (seconds) => (100 * (seconds - span.begin)) / length;
  const head = element("div", { class: "playhead" });
  const field = element("div", { class: "timeline-field" });
  const bars = new Map();
  const captions = tracks.filter((track) => track.kind === "caption");
  let seconds = span.begin;
  let lit = new Set();
  let zoom = 1;

  const names = element("div", { class: "lane-names", "aria-hidden": "true" });
  for (const [kind, label] of LANES) {
    const ofKind = tracks.filter((track) => track.kind === kind);
    if (!ofKind.length) continue;
    const rows = rowsOf(ofKind);
    const lane = element("div", { class: `lane lane-${kind}` });
    const height = { "--rows": Math.max(...rows) + 1 };
    ofKind.forEach((track, number) => {
      const bar = element("div", { class: "bar", title: track.text }, element("span", {}, track.text.replace(/\s+/g, " ")));
      place(bar, { left: `${share(track.begin_seconds)}%`, width: `${share(track.end_seconds) - share(track.begin_seconds)}%`, "--row": rows[number] });
      bar.addEventListener("click", () => go.toTrack(track));
      bars.set(track, bar);
      lane.append(bar);
    });
    field.append(place(lane, height));
    names.append(place(element("div", { class: "lane-name" }, label), height));
  }
  let scale = element("div");
  field.append(scale, head);

  const slider = element("div", {
    class: "timeline", role: "slider", tabindex: "0", "aria-label": "Time", "aria-valuemin": span.begin.toFixed(3), "aria-valuemax": span.end.toFixed(3),
  }, field);
  const node = element("div", { class: "timeline-frame" }, names, slider);
  const largest = Math.min(MOST_ZOOM, Math.max(1, length / FEWEST_SECONDS));

  // The playhead stays where it is.
  function setZoom(value) {
    const x = (share(seconds) / 100) * field.clientWidth - slider.scrollLeft;
    zoom = Math.min(largest, Math.max(1, value));
    place(field, { width: `${100 * zoom}%` });
    const drawn = ticks(span, share, zoom);
    scale.replaceWith(drawn);
    scale = drawn;
    slider.scrollLeft = (share(seconds) / 100) * field.clientWidth - x;
  }
  setZoom(length / FIRST_SECONDS);

  function keepHeadInSight() {
    if (zoom === 1 || slider.matches(":active")) return;
    const x = (share(seconds) / 100) * field.clientWidth - slider.scrollLeft;
    if (x < 0 || x > slider.clientWidth) slider.scrollLeft += x - slider.clientWidth / 8;
  }

  function secondsAt(event) {
    const box = field.getBoundingClientRect();
    return span.begin + Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)) * length;
  }

  field.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.target.closest(".bar")) return;
    field.setPointerCapture(event.pointerId);
    go.toTime(secondsAt(event));
  });
  field.addEventListener("pointermove", (event) => {
    if (field.hasPointerCapture(event.pointerId)) go.toTime(secondsAt(event));
  });

  // The action of a key (arrows, Page Up and Down, Home, End), if it has one.
  function moveOf(event) {
    const moves = {
      ArrowLeft: () => (event.shiftKey ? go.toTime(seconds - 1) : go.byFrames(-1)),
      ArrowRight: () => (event.shiftKey ? go.toTime(seconds + 1) : go.byFrames(1)),
      Home: () => go.toTime(span.begin),
      End: () => go.toTime(span.end),
      PageUp: () => jump(captions.findLast((track) => track.end_seconds <= seconds)),
      PageDown: () => jump(captions.find((track) => track.begin_seconds > seconds)),
    };
    return moves[event.key];
  }

  function jump(track) {
    if (track) go.toTrack(track);
  }

  return {
    node,
    moveOf,
    focus: () => slider.focus({ preventScroll: true }),
    /** Whether the video is long enough to zoom in. */
    canZoom: largest > 1,
    zoomIn: () => setZoom(zoom * ZOOM_STEP),
    zoomOut: () => setZoom(zoom / ZOOM_STEP),
    /** Moves the playhead, and highlights the texts that are visible at this time. */
    show(now, seen) {
      seconds = now;
      place(head, { left: `${Math.min(100, Math.max(0, share(now)))}%` });
      keepHeadInSight();
      for (const track of lit) if (!seen.has(track)) bars.get(track)?.classList.remove("seen");
      for (const track of seen) if (!lit.has(track)) bars.get(track)?.classList.add("seen");
      lit = seen;
      const said = [...seen].filter((track) => track.kind === "caption").map((track) => track.text);
      slider.setAttribute("aria-valuenow", now.toFixed(3));
      slider.setAttribute("aria-valuetext", [clock(now), ...said].join(", "));
    },
    /** Fades the texts that a search did not find. Without a search, no text is faded. */
    mark(found) {
      for (const [track, bar] of bars) bar.classList.toggle("faded", found !== null && !found.has(track));
    },
  };
}

function ticks(span, share, zoom) {
  const node = element("div", { class: "ticks", "aria-hidden": "true" });
  const shown = (span.end - span.begin) / zoom;
  const distance = TICKS.find((seconds) => shown / seconds <= MOST_TICKS) ?? 3600 * Math.ceil(shown / 3600 / MOST_TICKS);
  for (let at = Math.ceil(span.begin / distance - 1e-6) * distance; at <= span.end - 0.04 * shown; at += distance) {
    node.append(place(element("span", { class: "tick" }, distance < 1 ? at.toFixed(1) : wholeClock(at)), { left: `${share(at)}%` }));
  }
  return node;
}
