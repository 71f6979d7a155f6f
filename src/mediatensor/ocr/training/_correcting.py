"""The page on which the texts of lines are corrected in a browser, beside their pictures; it works without a server."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["PAGE_BEGIN", "correcting_page"]

_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Correct the texts of lines</title>
<style>
body { font: 16px/1.4 system-ui, sans-serif; margin: 0 auto; max-width: 75rem; padding: 0 1rem 4rem }
header { position: sticky; top: 0; background: #fff; padding: .7rem 0; border-bottom: 1px solid #ccd }
button { font: inherit; padding: .3rem 1rem }
li { list-style: none; margin: 1.2rem 0 }
ol { padding: 0 }
img { display: block; max-width: 100%; min-height: 2.5rem; max-height: 6rem; background: #eee }
input[type=text] { font: 1.3rem/1.5 serif; width: 100%; box-sizing: border-box; padding: .1rem .3rem }
.changed input[type=text] { background: #eef7e8 }
.out img, .out input[type=text] { opacity: .3 }
small { color: #667 }
</style>
</head>
<body>
<header>
<button id="save">Save lines.jsonl</button>
<span id="state"></span>
</header>
<p>Write in each field what stands in its picture, as it stands there. Enter goes to the next one. Untick what is no
line of text. The lines that are most likely wrong come first. This page remembers what you wrote; at the end, save
lines.jsonl and put it in the place of the one beside this page.</p>
<ol id="lines"></ol>
<script type="application/json" id="rows">@ROWS@</script>
<script>
"use strict";
const rows = JSON.parse(document.getElementById("rows").textContent);
const list = document.getElementById("lines");
const key = "mediatensor lines " + location.pathname;
let kept = {};
try { kept = JSON.parse(localStorage.getItem(key)) || {}; } catch (error) { /* not every browser keeps for files */ }

function text_of(row) {
  // What was kept holds for the text that it was written over, and for no other that came since.
  const edit = kept[row.file];
  return edit && edit.over === row.text ? edit : { over: row.text, text: row.text || "", is_line: true };
}

function show_state() {
  const edits = rows.map(text_of);
  const changed = edits.filter(edit => edit.text !== (edit.over || "")).length;
  const out = edits.filter(edit => !edit.is_line).length;
  document.getElementById("state").textContent =
    `${rows.length} lines, ${changed} corrected, ${out} left out`;
}

for (const row of rows) {
  const item = document.createElement("li");
  const picture = document.createElement("img");
  const field = document.createElement("input");
  const box = document.createElement("input");
  const label = document.createElement("label");
  const note = document.createElement("small");
  picture.src = row.file.split("/").map(encodeURIComponent).join("/");
  picture.loading = "lazy";
  picture.alt = "";
  field.type = "text";
  field.dir = "auto";
  field.spellcheck = false;
  field.autocomplete = "off";
  box.type = "checkbox";
  label.append(box, " text");
  const parts = [row.source, row.page ? `page ${row.page}` : "", row.unread || ""];
  if (typeof row.confidence === "number") parts.push(`${Math.round(100 * row.confidence)} % sure`);
  note.textContent = " " + parts.filter(Boolean).join(", ");
  const edit = text_of(row);
  field.value = edit.text;
  box.checked = edit.is_line;
  const update = () => {
    kept[row.file] = { over: row.text, text: field.value, is_line: box.checked };
    try { localStorage.setItem(key, JSON.stringify(kept)); } catch (error) { /* saving works without */ }
    item.className = box.checked ? (field.value !== (row.text || "") ? "changed" : "") : "out";
    show_state();
  };
  item.className = edit.is_line ? (edit.text !== (row.text || "") ? "changed" : "") : "out";
  field.addEventListener("input", update);
  box.addEventListener("change", update);
  field.addEventListener("keydown", event => {
    const next = item.nextElementSibling;
    if (event.key === "Enter" && next) next.querySelector("input[type=text]").focus();
  });
  item.append(picture, field, label, note);
  list.append(item);
}
show_state();

document.getElementById("save").addEventListener("click", () => {
  const lines = rows.filter(row => text_of(row).is_line)
    .map(row => JSON.stringify({ ...row, text: text_of(row).text }) + "\\n");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(lines, { type: "application/jsonl" }));
  link.download = "lines.jsonl";
  link.click();
  URL.revokeObjectURL(link.href);
});
</script>
</body>
</html>
"""


#: By this a page is known for one of these.
PAGE_BEGIN = _PAGE.partition("<style>")[0]


def correcting_page(rows: Sequence[str]) -> str:
    """The page for some lines.

    Args:
        rows: The objects of ``lines.jsonl`` as JSON; their files are relative to the page.
    """
    # A text may hold the end of a script. Outside of texts, JSON has no such sign.
    return _PAGE.replace("@ROWS@", f"[{','.join(rows)}]".replace("<", "\\u003c"))
