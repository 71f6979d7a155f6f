"""Options of the commands that read text, and that train and evaluate models. Does not import torch."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ._arguments import (
    KINDS,
    add_command,
    add_folder,
    add_json,
    add_overwrite,
    format_names,
    kind_names,
    page_ranges,
    picture_side,
    positive_int,
    positive_number,
    region,
    share,
)


def add_ocr(commands: Any) -> None:
    parser = add_command(
        commands,
        "ocr",
        summary="read the text of images, PDF files and videos",
        description=(
            "Read the text in the pixels of images, PDF files, folders of them, or videos, and write a file for each. "
            "Pages are read one by one, so that a long document fits in memory. A page that cannot be read is "
            "reported, and the other pages are written. In a video, text is followed from its first frame to its last: "
            "captions become subtitles, and slides become pages. Needs the extra `ocr`."
        ),
        examples=(
            ("mediatensor ocr scan.pdf -o text", "text/scan.txt"),
            ("mediatensor ocr receipts/ -o read --format json --overlay", ""),
            ("mediatensor ocr scan.pdf --format pdf --dpi 200 --pages 1-20", ""),
            ("mediatensor ocr scan.pdf -o out --format txt,pdf", "scan.txt and scan.ocr.pdf"),
            ("mediatensor ocr report.pdf --layout --tables --format md,xlsx", ""),
            ("mediatensor ocr talk.mp4 -o text", "text/talk.srt: captions with times"),
            ("mediatensor ocr talk.mp4 -o text --format json,pdf", "all text; slides"),
            ("mediatensor ocr talk.mp4 --region 0,0.7,1,1 --format vtt", ""),
            ("mediatensor ocr talk.mp4 -o slides --every 10", "a frame every 10 seconds"),
            ("mediatensor ocr scans/ --export-lines lines", "pictures of lines, to train on"),
            ("scanimage | mediatensor ocr - -o - | less", ""),
        ),
        notes=(
            "formats: txt, json (as docTR exports it), md, adoc, html, hocr, alto, tsv (as tesseract writes it), pdf "
            "(pages with invisible text, to search and copy), csv and xlsx (tables). For videos: srt, vtt, ass "
            "(captions; ass keeps places), json, csv (all text with times, places and kinds), md, pdf (slides).\n\n"
            "Run the same command again to resume: pages that were read, and the progress in a video, are kept in a "
            "hidden folder next to the output until the document is complete. A complete document is read again only "
            "if the options or the file changed (a hidden file in the folder records both). An output that was written "
            "by something else, or edited since, is replaced only with --overwrite. If a file or a page could not be "
            "read, the exit code is 2; running again retries those pages.\n\n"
            "--export-lines cuts out every line that is found. FOLDER/lines.jsonl has an object for each line: file, "
            "text, confidence, source, page, box; the least certain lines come first. Correct the texts there, or in a "
            "browser with FOLDER/correct.html, and train on the result. Lines in the file stay as they are when "
            "documents are added; --overwrite cuts the lines of a document again."
        ),
    )
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="an image, a PDF file, a folder of these, a video, a URL, or -"
    )
    add_folder(parser, "read")
    parser.add_argument(
        "--format", type=format_names, action="extend", metavar="NAME,...",
        help="formats of the output, such as txt,pdf (default: txt; srt for videos)",
    )  # fmt: skip
    parser.add_argument(
        "--layout", action="store_true",
        help="find regions: headings, lists, captions, headers and footers, in reading order",
    )  # fmt: skip
    parser.add_argument("--tables", action="store_true", help="find tables (csv and xlsx always do)")
    parser.add_argument(
        "--fields", metavar="NAME", help="find keys with their values: invoice, receipt or all; written to json"
    )
    parser.add_argument(
        "--text-layer", action="store_true",
        help="take the words that a PDF file contains, and read only pages and pictures without them",
    )  # fmt: skip
    parser.add_argument(
        "--keep-look", action="store_true", help="keep the look of the pages in text files, with columns side by side"
    )
    parser.add_argument("--overlay", action="store_true", help="write pictures of the pages with the text found")
    parser.add_argument(
        "--export-lines", type=Path, metavar="FOLDER",
        help="write pictures of all lines, with texts to correct, instead of documents",
    )  # fmt: skip
    parser.add_argument("--overwrite", action="store_true", help="read everything again, and replace files that exist")
    pages = parser.add_argument_group("pages")
    pages.add_argument("--pages", type=page_ranges, metavar="1-3,7,10-", help="read these pages, counted from 1")
    pages.add_argument(
        "--dpi", type=positive_number, default=144.0, metavar="N",
        help="resolution of rendered PDF pages in dots per inch (default: 144)",
    )  # fmt: skip
    pages.add_argument("--password", metavar="TEXT", help="password of PDF files")
    pages.add_argument(
        "--page-timeout", type=positive_number, metavar="SECONDS",
        help="seconds to render a page of a PDF file (default: 60)",
    )  # fmt: skip
    pages.add_argument(
        "--every", type=positive_number, metavar="SECONDS",
        help="read videos as pages: the frame shown at each multiple of this time",
    )  # fmt: skip
    _add_video_options(parser.add_argument_group("videos"), "in subtitles (default: caption); other formats have all")
    models = parser.add_argument_group("models")
    _add_model_options(models)
    models.add_argument("--rotated", action="store_true", help="draw rotated boxes around rotated text")
    models.add_argument("--straighten", action="store_true", help="turn pages upright before reading them")


def _add_video_options(group: Any, purpose: str) -> None:
    group.add_argument(
        "--kinds", type=kind_names, metavar="NAME,...", help=f"kinds of text {purpose}: {', '.join(KINDS)}"
    )
    group.add_argument(
        "--region", type=region, metavar="X0,Y0,X1,Y1",
        help="part of the frame to read, in shares of its size; 0,0.7,1,1 is the lower third (default: all)",
    )  # fmt: skip
    group.add_argument(
        "--languages", type=lambda text: tuple(text.split(",")), metavar="NAME,...",
        help="languages whose letters are read, such as german,english (default: all)",
    )  # fmt: skip


def _add_model_options(group: Any) -> None:
    group.add_argument("--device", default="cpu", metavar="NAME", help="device, such as cuda (default: cpu)")
    group.add_argument("--det-arch", metavar="NAME", help="architecture or file of the detector (default: the best)")
    group.add_argument("--reco-arch", metavar="NAME", help="architecture or file of the recogniser (default: the best)")


def add_find(commands: Any) -> None:
    parser = add_command(
        commands,
        "find",
        summary="find where and when a text is shown in videos",
        description=(
            "Read the text in videos, and print where a text is shown: the file, the time at which it appears, its "
            "place, its kind, and the whole text. Case and line breaks are ignored. The exit code is 1 if the text is "
            "not found. Needs the extra `ocr`."
        ),
        examples=(
            ("mediatensor find 'error 503' *.mp4", ""),
            ("mediatensor find 'error 503' recording.mp4 --sheet found.png", ""),
            ("mediatensor find --regex 'error [45]\\d\\d' *.mp4 --json", ""),
        ),
        notes=(
            "Reading takes most of the time. To search often, read once:\n"
            "  mediatensor ocr *.mp4 -o read --format json\n"
            "  mediatensor find 'error 503' read/*.json\n\n"
            "The JSON of --json, an object for each place: file, text, kind, start_seconds, end_seconds, first_frame, "
            "last_frame, geometry ([[xmin, ymin], [xmax, ymax]], in shares of the frame), confidence, alternative (the "
            "other reading that matched, or null)."
        ),
    )
    parser.add_argument("text", metavar="TEXT", help="text to find")
    parser.add_argument("files", nargs="+", metavar="FILE", help="a video, a JSON file of `ocr`, a URL, or -")
    parser.add_argument("--regex", action="store_true", help="take TEXT as a regular expression of Python")
    parser.add_argument("--case", action="store_true", help="distinguish upper and lower case")
    parser.add_argument(
        "--sheet", type=Path, metavar="PATH",
        help="draw the frames with the text: into a picture, or for several files into a folder",
    )  # fmt: skip
    add_overwrite(parser)
    add_json(parser)
    _add_video_options(parser, "to search (default: all)")
    _add_model_options(parser.add_argument_group("models"))


class _TaskHelp(argparse.Action):
    """Prints only the options and examples of a task if ``--help`` follows the task's name."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: object, option: Any = None) -> None:
        task = getattr(namespace, "task", None)
        if task is not None:
            tasks = next(action.choices for action in parser._actions if action.dest == "task") or ()
            for action in parser._actions:
                if action.dest == "task" or task not in getattr(action, "tasks", (task,)):
                    action.help = argparse.SUPPRESS
                elif hasattr(action, "tasks") and action.help is not None:
                    action.help = action.help.partition(": ")[2]
            examples_of_others = [f"{parser.prog} {other} " for other in tasks if other != task]
            lines = (parser.epilog or "").split("\n")
            parser.epilog = "\n".join(line for line in lines if not any(one in line for one in examples_of_others))
            parser.prog = f"{parser.prog} {task}"
        parser.print_help()
        parser.exit()


def _add_for_tasks(group: Any, tasks: tuple[str, ...], option: str, *, help: str, **settings: Any) -> None:
    """Add an option that applies to some tasks; its help starts with their names."""
    group.add_argument(option, help=f"{', '.join(tasks)}: {help}", **settings).tasks = tasks


def _add_task(parser: argparse.ArgumentParser, tasks: tuple[str, ...]) -> None:
    parser.add_argument(
        "-h", "--help", action=_TaskHelp, nargs=0, help="show this help, or the help of a task, and exit"
    )
    names = f"{', '.join(tasks[:-1])} or {tasks[-1]}"
    parser.add_argument(
        "task", choices=tasks, metavar="TASK", help=f"{names}; `{parser.prog} TASK --help` shows the options of one"
    )


def add_train(commands: Any) -> None:
    parser = add_command(
        commands,
        "train",
        add_help=False,
        summary="train a model on your lines or pages",
        description=(
            "Train a model on your lines or pages, and keep the weights that do best on validation data. Run the same "
            "command again to resume an interrupted training. Needs the extra `ocr`."
        ),
        examples=(
            ("mediatensor train recognition --train a.jsonl --validation b.jsonl -o m.pt", ""),
            ("mediatensor train recognition ... --keep-languages de,en -o m.pt", ""),
            ("mediatensor train detection --train a.jsonl --validation b.jsonl -o m.pt", ""),
            ("mediatensor train detection --train-languages en,de --crop-size 512 -o m.pt", ""),
            ("torchrun --nproc-per-node 2 -m mediatensor train ...", "on two GPUs"),
        ),
        notes=(
            "Lines and pages are given as for `evaluate`; orientation takes upright lines. Next to m.pt are written "
            "the log m.jsonl, the curves m.png, and until the training is done m.state.pt.\n\n"
            "Use the model: mediatensor evaluate recognition ... --model m.pt, mediatensor ocr ... --reco-arch m.pt."
        ),
    )
    _add_task(parser, ("recognition", "detection", "orientation"))
    data = parser.add_argument_group("data")
    model = parser.add_argument_group("model")
    training = parser.add_argument_group("training")
    data.add_argument("--train", type=Path, metavar="DATA", help="training data")
    data.add_argument(
        "--train-languages", metavar="L,...",
        help="languages of generated training data, such as de,en; instead of --train",
    )  # fmt: skip
    data.add_argument(
        "--num-drawn", type=positive_int, default=1000, metavar="N",
        help="number of rows to generate for each epoch (default: 1000)",
    )  # fmt: skip
    _add_for_tasks(
        data, ("detection",), "--text-unit", choices=("word", "line"), metavar="word|line",
        help="boxes on generated pages (default: as the detector of --start finds)",
    )  # fmt: skip
    data.add_argument(
        "--validation", type=Path, metavar="DATA",
        help="validation data, which select the best weights (default with --train-languages: generated)",
    )  # fmt: skip
    data.add_argument("--keep", type=Path, metavar="DATA", help="rehearsal data, which the model must not forget")
    data.add_argument(
        "--keep-languages", metavar="L,...", help="languages of generated rehearsal data; instead of --keep"
    )
    data.add_argument(
        "--on-error", choices=("raise", "skip", "replace"), default="raise",
        help="treatment of a row that cannot be read: raise (stop), skip or replace (default: raise)",
    )  # fmt: skip
    data.add_argument("--no-augment", action="store_true", help="leave the pictures as they are")
    model.add_argument(
        "--start", metavar="MODEL", help="architecture or .pt file to start with (default: as for `ocr`)"
    )
    _add_for_tasks(
        model, ("recognition",), "--extend-vocab", action="store_true",
        help="learn characters that the model does not know",
    )  # fmt: skip
    model.add_argument("--random-weights", action="store_true", help="start with random weights")
    _add_for_tasks(
        model, ("recognition",), "--vocab", metavar="CHARACTERS",
        help="characters of a model with random weights (default: set by the architecture)",
    )  # fmt: skip
    _add_for_tasks(
        model, ("detection", "orientation"), "--page-size", type=picture_side, metavar="PIXELS",
        help="side of the squares to which pages are scaled, in pixels, a multiple of 32 "
        "(default: set by the architecture)",
    )  # fmt: skip
    _add_for_tasks(
        model, ("detection",), "--crop-size", type=picture_side, metavar="PIXELS",
        help="side of squares cut out of the pages, in pixels, a multiple of 32 (default: whole pages)",
    )  # fmt: skip
    training.add_argument("-o", "--output", required=True, type=Path, metavar="FILE", help="checkpoint to write, .pt")
    training.add_argument("--epochs", type=positive_int, default=20, metavar="N", help="number of epochs (default: 20)")
    training.add_argument("--batch-size", type=positive_int, default=16, metavar="N", help="rows a step (default: 16)")
    training.add_argument(
        "--learning-rate", type=float, metavar="X",
        help="peak learning rate (default: 2e-4; 1e-3 with random weights)",
    )  # fmt: skip
    training.add_argument(
        "--blend", type=share, default=1.0, metavar="X",
        help="share of the trained weights in the written ones; less forgets less (default: 1)",
    )  # fmt: skip
    training.add_argument(
        "--ema-decay", type=float, default=0.998, metavar="X",
        help="decay of the moving average of the weights; lower for few steps (default: 0.998)",
    )  # fmt: skip
    training.add_argument(
        "--patience", type=positive_int, metavar="N", help="stop after N epochs without a better score (default: never)"
    )
    training.add_argument("--seed", type=int, default=0, metavar="N", help="seed of all random choices (default: 0)")
    training.add_argument("--device", metavar="NAME", help="device, such as cuda (default: cuda if there is one)")
    training.add_argument(
        "--half", action="store_true", help="compute in half precision even on a CPU (default: only on CUDA)"
    )
    training.add_argument(
        "--workers", type=int, default=0, metavar="N", help="number of processes that load rows (default: 0)"
    )
    training.add_argument(
        "--no-resume", action="store_true", help="start over, and replace the files of an earlier training"
    )
    training.add_argument(
        "--overwrite", action="store_true", help="start over, and replace files that exist, of any origin"
    )


def add_evaluate(commands: Any) -> None:
    parser = add_command(
        commands,
        "evaluate",
        add_help=False,
        summary="measure how well a model reads lines or finds text",
        description=(
            "Read every line of a dataset, or find the text on every page, and compare with the truth. For lines: the "
            "share read exactly, character and word error rates (CER, WER), both by length of line, and which "
            "characters are confused. For pages: recall, precision and overlap of boxes. For both: the time of a call. "
            "Needs the extra `ocr`."
        ),
        examples=(
            ("mediatensor evaluate recognition lines.jsonl", ""),
            ("mediatensor evaluate recognition lines.jsonl --model m.pt --picture worst.png", ""),
            ("mediatensor evaluate detection pages/ --json scores.json", ""),
        ),
        notes=(
            "Lines are a manifest (.jsonl, .csv, ...) with the columns file and text, a folder of pictures with "
            "NAME.txt or NAME.gt.txt next to them, or docTR's labels.json. Pages are a manifest with the columns file "
            "and boxes, or docTR's labels.json with polygons next to a folder images. The boxes are around lines for a "
            "detector that finds lines, such as the default one, and around words for one that finds words.\n\n"
            "Texts are compared in Unicode's composed form (NFC), without further normalisation. Rows are read one by "
            "one, so that times are of single calls; --batch-size 32 is faster on a GPU, but gives no times. If "
            "a row could not be read, the exit code is 2."
        ),
    )
    _add_task(parser, ("recognition", "detection"))
    parser.add_argument("data", metavar="DATA", help="a manifest, a folder, or docTR's labels.json")
    parser.add_argument("--model", metavar="MODEL", help="architecture, or path of a model (default: as for `ocr`)")
    parser.add_argument("--device", default="cpu", metavar="NAME", help="device, such as cuda (default: cpu)")
    _add_for_tasks(
        parser, ("recognition",), "--images", type=Path, metavar="FOLDER",
        help="folder of the pictures of a manifest (default: next to it)",
    )  # fmt: skip
    parser.add_argument("--batch-size", type=positive_int, default=1, metavar="N", help="rows a call (default: 1)")
    _add_for_tasks(
        parser, ("detection",), "--iou", type=share, default=0.5, metavar="X",
        help="smallest overlap of a box with a true one, as intersection over union (default: 0.5)",
    )  # fmt: skip
    parser.add_argument("--json", metavar="FILE", help="write all scores as JSON; - prints them instead of the table")
    parser.add_argument(
        "--picture", type=Path, metavar="FILE", help="draw the worst lines or pages: .png, .jpg or .webp"
    )
    add_overwrite(parser)
    parser.add_argument(
        "--worst", type=positive_int, default=20, metavar="N", help="number of lines or pages to draw (default: 20)"
    )
