// Shows a video: the browser plays the file if it can. Otherwise, the server decodes the frames.

import { element } from "./dom.js";
import { jobAddress } from "./server.js";

/**
 * @param clockBegin the time of the file at which the clock of the browser is 0, in seconds
 * @param onChange   is called when the time changed, or playing started or stopped
 */
export function createPlayer(job, result, clockBegin, onChange) {
  const node = element("div", { class: "picture" });
  const end = clockBegin + (result.duration_seconds ?? job.duration_seconds ?? 0);
  let inner = browserPlayer();
  node.append(inner.node);

  function browserPlayer() {
    const video = element("video", { src: jobAddress(job.id, "media"), preload: "auto", playsinline: true, "aria-label": "The video" });
    const giveUp = () => {
      if (inner.node !== video) return;
      const seconds = inner.seconds;
      inner = framePlayer();
      node.replaceChildren(inner.node);
      video.removeAttribute("src");
      inner.seek(seconds);
      onChange();
    };
    video.addEventListener("error", giveUp);
    // If the browser cannot decode the pictures of a video, it plays only the sound.
    video.addEventListener("loadedmetadata", () => (video.videoWidth ? onChange() : giveUp()));
    for (const name of ["timeupdate", "seeked", "play", "pause", "volumechange"]) video.addEventListener(name, onChange);
    if (video.requestVideoFrameCallback) {
      const onFrame = () => {
        onChange();
        video.requestVideoFrameCallback(onFrame);
      };
      video.requestVideoFrameCallback(onFrame);
    }
    return {
      node: video,
      plays: "browser",
      get seconds() {
        return video.currentTime + clockBegin;
      },
      get isPaused() {
        return video.paused;
      },
      get isMuted() {
        return video.muted;
      },
      seek(seconds) {
        video.currentTime = Math.max(0, seconds - clockBegin);
      },
      play: () => video.play().catch(() => {}),
      pause: () => video.pause(),
      mute() {
        video.muted = !video.muted;
      },
    };
  }

  // One frame is fetched at a time. If playing is faster than that, frames are skipped.
  function framePlayer() {
    const picture = element("img", { class: "frame", alt: "A frame of the video" });
    let seconds = clockBegin;
    let shown = null;
    let isPaused = true;
    let isBusy = false;
    let startedAt = 0;

    function load() {
      if (isBusy || shown === seconds) return;
      isBusy = true;
      picture.classList.add("loading");
      shown = seconds;
      picture.src = jobAddress(job.id, `frame.jpg?seconds=${seconds.toFixed(6)}`);
    }
    function loaded() {
      isBusy = false;
      picture.classList.remove("loading");
      if (!isPaused) {
        seconds = Math.min(end, (performance.now() - startedAt) / 1000);
        if (seconds >= end) isPaused = true;
      }
      load();
      onChange();
    }
    picture.addEventListener("load", loaded);
    picture.addEventListener("error", loaded);
    return {
      node: picture,
      plays: "frames",
      get seconds() {
        return seconds;
      },
      get isPaused() {
        return isPaused;
      },
      isMuted: true,
      seek(value) {
        seconds = value;
        startedAt = performance.now() - 1000 * seconds;
        load();
        onChange();
      },
      play() {
        if (seconds >= end - 0.01) seconds = clockBegin;
        startedAt = performance.now() - 1000 * seconds;
        isPaused = false;
        shown = null;
        load();
        onChange();
      },
      pause() {
        isPaused = true;
        onChange();
      },
      mute() {},
    };
  }

  return {
    node,
    get seconds() {
      return inner.seconds;
    },
    get isPaused() {
      return inner.isPaused;
    },
    get isMuted() {
      return inner.isMuted;
    },
    /** "browser" or "frames". */
    get plays() {
      return inner.plays;
    },
    seek: (seconds) => inner.seek(Math.min(Math.max(seconds, clockBegin), end)),
    toggle: () => (inner.isPaused ? inner.play() : inner.pause()),
    pause: () => inner.pause(),
    mute: () => inner.mute(),
  };
}
