// The view of the text in a video: the picture with outlines of its texts, a time line, and a list of captions.

import { announce, element, icon, iconButton, isTyping, place, scrollBehavior, svgElement } from "./dom.js";
import { createPlayer } from "./player.js";
import { fold } from "./search.js";
import { createTabs } from "./tabs.js";
import { createTimeline } from "./timeline.js";
import { clock, count, wholeClock } from "./wording.js";

const KINDS = { caption: "caption", overlay: "overlay", scene: "in the scene", slide: "slide" };

/** A sentence that says what was found. */
export function videoSummary(result) {
  const tracks = result.tracks ?? [];
  const captions = tracks.filter((track) => track.kind === "caption").length;
  const parts = [wholeClock(result.duration_seconds ?? 0), count(captions, "caption")];
  if (tracks.length > captions) parts.push(count(tracks.length - captions, "other text"));
  return parts.join(", ");
}

/** The view of a job whose result is the text of a video. */
export function createVideoView(job, result) {
  const tracks = [...(result.tracks ?? [])].sort((one, other) => one.begin_seconds - other.begin_seconds);
  const begin = result.begin_seconds ?? 0;
  const span = { begin, end: begin + (result.duration_seconds ?? job.duration_seconds ?? 0) };
  const step = 1 / (result.fps || job.fps || 25);
  const rows = new Map();
  let query = "";

  const player = createPlayer(job, result, begin, update);
  const boxes = svgElement("svg", { class: "marks", viewBox: "0 0 1 1", preserveAspectRatio: "none", "aria-hidden": "true" });
  const stage = element("div", { class: "stage" }, player.node, boxes);
  place(stage, { "--ratio": String((job.width || result.width || 16) / (job.height || result.height || 9)) });
  stage.addEventListener("click", () => player.toggle());

  const timeline = createTimeline(tracks, span, { toTime: (seconds) => player.seek(seconds), toTrack: seekTo, byFrames: stepBy });

  // Use the middle of a frame, so that rounding in the browser does not lead to the previous frame.
  function seekTo(track) {
    player.pause();
    player.seek(track.begin_seconds + Math.min(step, track.end_seconds - track.begin_seconds) / 2);
  }

  // --- controls -----------------------------------------------------------------------

  const playButton = iconButton("play", "Play", () => player.toggle());
  const muteButton = iconButton("sound", "Mute", () => player.mute());
  const time = element("output", { class: "time", "aria-live": "off" });
  const note = element("p", { class: "note", hidden: true }, "This browser cannot play the file: you see frames that the server decodes.");
  const controls = element("div", { class: "controls", role: "toolbar", "aria-label": "Playing" },
    playButton,
    iconButton("back", "A frame back", () => stepBy(-1)),
    iconButton("next", "A frame on", () => stepBy(1)),
    time,
    muteButton,
    timeline.canZoom && iconButton("minus", "Show more of the time line", timeline.zoomOut),
    timeline.canZoom && iconButton("plus", "Look nearer at the time line", timeline.zoomIn));

  function stepBy(frames) {
    player.pause();
    const number = Math.floor((player.seconds - begin) / step + 0.01) + frames;
    player.seek(begin + (number + 0.5) * step);
  }

  // --- lists ------------------------------------------------------------------------------

  function list(shown, hasKinds) {
    const node = element("ol", { class: "texts" });
    for (const track of shown) {
      const row = element("button", { type: "button", class: "text-row", onclick: () => seekTo(track) },
        element("span", { class: "when" }, clock(track.begin_seconds)),
        element("span", { class: "what" }, track.text, hasKinds && element("span", { class: `kind kind-${track.kind}` }, KINDS[track.kind] ?? track.kind)));
      row.title = `Frames ${track.first_frame} to ${track.last_frame}, ${clock(track.begin_seconds)} to ${clock(track.end_seconds)}`;
      rows.set(row, track);
      node.append(element("li", {}, row));
    }
    if (!shown.length) return element("p", { class: "note" }, tracks.length ? "No captions were found in this video." : "No text was found in this video.");
    return node;
  }

  const captions = tracks.filter((track) => track.kind === "caption");
  const tabs = [{ name: "captions", label: "Captions", count: captions.length, make: () => list(captions, false) }];
  if (tracks.length > captions.length) tabs.push({ name: "all", label: "All texts", count: tracks.length, make: () => list(tracks, true) });
  const panel = createTabs("What was found", tabs, () => queueMicrotask(showFound));
  if (!captions.length && tracks.length) panel.open("all");

  // --- search --------------------------------------------------------------------------------

  const state = element("output", { class: "search-state", for: "search" });
  const field = element("input", { type: "search", id: "search", placeholder: "Find a word", "aria-label": "Find a word", autocomplete: "off", spellcheck: "false" });
  const up = iconButton("up", "Previous place", () => goToFound(-1), { disabled: true });
  const down = iconButton("down", "Next place", () => goToFound(1), { disabled: true });
  field.addEventListener("input", () => {
    query = fold(field.value);
    showFound();
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") goToFound(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") {
      field.value = query = "";
      showFound();
      timeline.focus();
    } else return;
    event.preventDefault();
  });

  function found() {
    return tracks.filter((track) => query && fold(track.text).includes(query));
  }

  function showFound() {
    const hits = new Set(found());
    timeline.mark(query ? hits : null);
    for (const [row, track] of rows) row.classList.toggle("hit", hits.has(track));
    up.disabled = down.disabled = !hits.size;
    state.textContent = !query ? "" : hits.size ? `${hits.size} found` : "not found";
  }

  // Search forwards or backwards from the current time, and continue at the other end.
  function goToFound(direction) {
    const hits = found();
    if (!hits.length) return;
    const now = player.seconds;
    const target = direction > 0
      ? (hits.find((track) => track.begin_seconds > now) ?? hits[0])
      : (hits.findLast((track) => track.begin_seconds < now - step) ?? hits.at(-1));
    seekTo(target);
    announce(`${clock(target.begin_seconds)}, ${target.text}`);
  }

  // --- what is visible now ---------------------------------------------------------------------------

  let lastSeen = "";

  function update() {
    const now = player.seconds;
    const seen = new Set(tracks.filter((track) => track.begin_seconds <= now + 1e-6 && now + 1e-6 < track.end_seconds));
    timeline.show(now, seen);
    time.textContent = `${clock(now)} / ${clock(span.end)}`;
    setIcon(playButton, player.isPaused ? "play" : "pause", player.isPaused ? "Play" : "Pause");
    setIcon(muteButton, player.isMuted ? "muted" : "sound", player.isMuted ? "Unmute" : "Mute");
    note.hidden = player.plays !== "frames";
    muteButton.hidden = player.plays === "frames";
    const key = [...seen].map((track) => tracks.indexOf(track)).join();
    if (key === lastSeen) return;
    lastSeen = key;
    boxes.replaceChildren(...[...seen].map(frameOf));
    for (const [row, track] of rows) {
      const isSeen = seen.has(track);
      if (isSeen) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
      if (isSeen && track.kind === "caption") bringIntoPanel(row);
    }
  }

  function frameOf(track) {
    const [left, top, right, bottom] = track.box;
    return svgElement("rect", { class: `text-mark text-mark-${track.kind}`, x: left, y: top, width: right - left, height: bottom - top });
  }

  function bringIntoPanel(row) {
    const scroller = row.closest(".panel");
    if (!scroller || scroller.hidden || scroller.scrollHeight <= scroller.clientHeight) return;
    scroller.scrollTo({ top: row.offsetTop - scroller.clientHeight / 2, behavior: scrollBehavior() });
  }

  const problems = (result.problems ?? []).map((problem) => element("p", { class: "note problem" }, problem));
  const toolbar = element("div", { class: "toolbar" }, element("div", { class: "search", role: "search" }, icon("search"), field, state, up, down));
  const node = element("div", { class: "video-view" },
    element("div", { class: "viewer" }, toolbar, stage, controls, note, timeline.node, ...problems),
    element("aside", { class: "side", "aria-label": "What was found" }, panel.node));

  function onKey(event) {
    if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") {
      field.focus();
      field.select();
    } else if (event.key === " " && !event.target.closest("button, a, summary")) player.toggle();
    else {
      // Tabs and their panels use these keys themselves.
      const move = event.target.closest("[role='tab']") || event.target.matches(".panel") ? null : timeline.moveOf(event);
      if (!move) return;
      move();
    }
    event.preventDefault();
  }

  return {
    node,
    start() {
      document.addEventListener("keydown", onKey);
      update();
      // Many videos begin with a black picture.
      if (tracks.length) seekTo(captions[0] ?? tracks[0]);
    },
    stop() {
      document.removeEventListener("keydown", onKey);
      player.pause();
    },
    text: () => captions.map((track) => track.text).join("\n"),
  };
}

function setIcon(button, name, label) {
  if (button.dataset.icon === name) return;
  button.dataset.icon = name;
  button.replaceChildren(icon(name));
  button.setAttribute("aria-label", label);
  button.title = label;
}
