// Numbers, times and errors in plain words.

/** "1 page", "12 pages", "1,024 words". */
export function count(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

/** "824 bytes", "79 kB", "2.1 MB", "2 GB". */
export function size(bytes) {
  if (bytes < 1000) return count(bytes, "byte");
  const steps = ["kB", "MB", "GB", "TB"];
  let value = bytes / 1000;
  let step = 0;
  while (value >= 999.5 && step < steps.length - 1) {
    value /= 1000;
    step += 1;
  }
  return `${value < 9.95 ? Number(value.toFixed(1)) : Math.round(value)} ${steps[step]}`;
}

/** "0:07.25", "1:02:03.50": in hundredths of a second, rounded down so that it never names the next frame. */
export function clock(seconds) {
  const hundredths = Math.max(0, Math.floor(seconds * 100 + 1e-6));
  return `${wholeClock(Math.floor(hundredths / 100))}.${String(hundredths % 100).padStart(2, "0")}`;
}

/** "0:07", "1:02:03". */
export function wholeClock(seconds) {
  const whole = Math.floor(seconds);
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const end = `${String(rest).padStart(2, "0")}`;
  return hours ? `${hours}:${String(minutes).padStart(2, "0")}:${end}` : `${minutes}:${end}`;
}

/** "45 seconds", "60 minutes", "24 hours". */
export function duration(seconds) {
  if (seconds < 120) return count(Math.round(seconds), "second");
  if (seconds < 7200) return count(Math.round(seconds / 60), "minute");
  return count(Math.round(seconds / 3600), "hour");
}

const TITLES = {
  401: "This server wants a token",
  403: "This server did not accept the request",
  404: "This file is no longer there",
  408: "It took too long",
  413: "This file is too large",
  415: "This is no page and no video",
  422: "This file could not be read",
  429: "The server is busy",
  503: "The server is busy",
  504: "It took too long",
};

/** A heading that says what went wrong. */
export function troubleTitle(status, type = "") {
  if (TITLES[status]) return TITLES[status];
  if (/timeout/i.test(type)) return "It took too long";
  if (/limit|toolarge/i.test(type)) return "This file goes beyond a limit";
  if (/memory/i.test(type)) return "This file needs too much memory";
  return status >= 500 ? "Something went wrong in the server" : "This file could not be read";
}

// In the order in which the page offers them.
const DOWNLOADS = {
  "searchable.pdf": "Searchable PDF",
  "captions.srt": "SRT",
  "captions.vtt": "WebVTT",
  "slides.pdf": "Slides as PDF",
  "text.md": "Markdown",
  "text.txt": "Text",
  "tables.csv": "CSV",
  "tables.xlsx": "Excel",
  "result.json": "JSON",
};

/** The files of a job that the page offers for download, as [name, label]. */
export function offeredDownloads(downloads) {
  const names = new Set(downloads.map(({ name }) => name));
  return Object.entries(DOWNLOADS).filter(([name]) => names.has(name));
}
