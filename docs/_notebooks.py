"""Notebooks as pages of the site: their text, their code, and their outputs."""

from __future__ import annotations

import base64
import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple


class NotebookPage(NamedTuple):
    """Markdown, and the pictures that it shows: PNG files by name, next to the page."""

    markdown: str
    pictures: dict[str, bytes]


@cache
def notebook_page(path: Path) -> NotebookPage:
    """A notebook as it is stored; nothing is run."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(text)
            if len(parts) == 1:
                download = f'<a href="{path.name}" download><code>{path.name}</code></a>'
                parts.append(f"This page shows the notebook {download}, as the tests run it.")
            continue
        parts.append(f"```python\n{text}\n```")
        for output in cell["outputs"]:
            parts.append(_shown(output, f"{path.stem}-{len(pictures) + 1}.png", pictures))
    return NotebookPage("\n\n".join(parts) + "\n", pictures)


def _shown(output: dict[str, Any], picture_name: str, pictures: dict[str, bytes]) -> str:
    data = output.get("data", {"text/plain": output.get("text", "")})
    if "image/png" in data:
        pictures[picture_name] = base64.b64decode("".join(data["image/png"]))
        return f"![Output of the cell above]({picture_name})"
    if "text/html" in data:
        # A blank line would end a block of HTML.
        lines = "".join(data["text/html"]).splitlines()
        return "\n".join(line for line in lines if line.strip())
    return f"```text\n{''.join(data['text/plain']).rstrip()}\n```"
