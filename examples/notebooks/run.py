"""Run the notebooks of this folder, and store their outputs in them.

    python examples/notebooks/run.py                        all of them
    python examples/notebooks/run.py pages_to_data.ipynb

The last picture of each is also saved in ``examples/images``.

Nothing of the machine is stored: no times, no paths, no names. Pictures get fewer colours, so that files stay small.

Needs nbclient and ipykernel (the extra ``test``).
"""

from __future__ import annotations

import argparse
import base64
import io
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from PIL import Image

HERE = Path(__file__).parent
NUM_COLOURS = 64
# What people see in a notebook, the best one first; a pandas frame is HTML, and so is a document with its pictures.
SHOWN = ("image/png", "text/html", "text/plain")
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def executed(path: Path, folder: Path) -> NotebookNode:
    """Run a notebook in a folder, in a new kernel, and return it.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell failed; the message has its traceback.
    """
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=200,
        startup_timeout=200,
        kernel_name="python3",
        record_timing=False,
        # A slow machine sends the lines that a cell prints in several messages.
        coalesce_streams=True,
    )
    client.execute(cwd=str(folder))
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = [_plain(output) for output in cell.outputs]
    notebook.metadata = METADATA
    return notebook


def _plain(output: NotebookNode) -> NotebookNode:
    output.pop("metadata", None)
    if "data" in output:
        shown = next(kind for kind in SHOWN if kind in output.data)
        output.data = {shown: output.data[shown]}
        output.metadata = {}
        if shown == "image/png":
            output.data[shown] = with_fewer_colours(output.data[shown])
    return output


def with_fewer_colours(png: str) -> str:
    """A PNG file, in base64, as a smaller one."""
    small = io.BytesIO()
    picture = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    picture.quantize(NUM_COLOURS, dither=Image.Dither.NONE).save(small, "png", optimize=True)
    return base64.b64encode(small.getvalue()).decode()


def last_picture(notebook: NotebookNode) -> bytes:
    """The PNG file that a notebook shows last."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    pictures = [output.data["image/png"] for output in outputs if "image/png" in output.get("data", {})]
    return base64.b64decode(pictures[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebooks", nargs="*", type=Path, default=sorted(HERE.glob("*.ipynb")))
    for path in parser.parse_args().notebooks:
        with tempfile.TemporaryDirectory() as folder:
            notebook = executed(path, Path(folder))
        nbformat.write(notebook, path)
        (HERE.parent / "images" / f"{path.stem}.png").write_bytes(last_picture(notebook))
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
