"""The options of the commands for reading text and for training and evaluating models. Does not import torch."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ._arguments import (
    KINDS,
    add_command,
    add_flag,
    add_folder,
    add_json,
    add_option,
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
            ("mediatensor ocr in.pdf --format pdf --redact Meyer --redact-pattern '\\d{4}'", ""),
            ("mediatensor ocr talk.mp4 -o text", "text/talk.srt: captions with times"),
            ("mediatensor ocr talk.mp4 -o text --format json,pdf", "all text; slides"),
            ("mediatensor ocr talk.mp4 --region 0,0.7,1,1 --format vtt", ""),
            ("mediatensor ocr talk.mp4 -o slides --every 10", "a frame every 10 seconds"),
            ("mediatensor ocr scans/ --export-lines lines", "pictures of lines, to train on"),
            ("scanimage | mediatensor ocr - -o - | less", ""),
        ),
        notes=(
            "formats: txt, json (as docTR exports it), md, adoc, html, hocr, alto, tsv (as tesseract writes it), pdf "
            "(pages with invisible text, to search and copy), csv and xlsx (tables), chunks (JSON Lines: parts of up "
            "to 512 tokens for retrieval, with pages and boxes). For videos: srt, vtt, ass "
            "(captions; ass keeps places), json, csv (all text with times, places and kinds), md, pdf (slides).\n\n"
            "Run the same command again to resume: pages that were read, and the progress in a video, are kept in a "
            "hidden folder next to the output until the document is complete. A complete document is read again only "
            "if the options or the file changed (a hidden file in the folder records both). An output that was written "
            "by something else, or edited since, is replaced only with --overwrite. If a file or a page could not be "
            "read, the exit code is 2; running again retries those pages.\n\n"
            "--redact and --redact-pattern ignore case, as `find` does. Each page is read again after redaction, and "
            "left out if the text can still be read. Text that was not read is not redacted: look at the result, and "
            "redact regions. "
            "Repeating the command reads everything again, because the texts are stored nowhere.\n\n"
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
    add_option(
        parser, "--format NAME,...", format_names,
        "formats of the output, such as txt,pdf (default: txt; srt for videos)", action="extend",
    )  # fmt: skip
    add_flag(parser, "--layout", "find regions: headings, lists, captions, headers and footers, in reading order")
    add_flag(parser, "--tables", "find tables (csv and xlsx always do)")
    add_flag(parser, "--join-tables", "join tables that continue on the next page, in csv, xlsx, md, adoc and html")
    add_flag(parser, "--values", "write numbers, amounts and dates of tables as plain values in csv, as xlsx does")
    add_option(parser, "--fields NAME", str, "find keys with their values: invoice, receipt or all; written to json")
    add_flag(
        parser, "--text-layer", "take the words that a PDF file contains, and read only pages and pictures without them"
    )
    add_flag(parser, "--keep-look", "keep the look of the pages in text files, with columns side by side")
    add_flag(parser, "--overlay", "write pictures of the pages with the text found")
    add_option(
        parser, "--redact TEXT", str, "black out a word or phrase, and leave it out of all outputs; repeatable",
        action="append",
    )  # fmt: skip
    add_option(
        parser, "--redact-pattern REGEX", str, "black out all matches of a regular expression of Python; repeatable",
        action="append",
    )  # fmt: skip
    add_option(
        parser, "--redact-region X0,Y0,X1,Y1", region,
        "black out a part of every page, in shares of its size, such as 0,0,1,0.1; repeatable", action="append",
    )  # fmt: skip
    add_option(
        parser, "--export-lines FOLDER", Path,
        "write pictures of all lines, with texts to correct, instead of documents",
    )  # fmt: skip
    add_flag(parser, "--overwrite", "read everything again, and replace files that exist")
    pages = parser.add_argument_group("pages")
    add_option(pages, "--pages 1-3,7,10-", page_ranges, "read these pages, counted from 1")
    add_option(pages, "--dpi N", positive_number, "resolution of rendered PDF pages in dots per inch", 144.0)
    add_option(pages, "--password TEXT", str, "password of PDF files")
    add_option(pages, "--page-timeout SECONDS", positive_number, "seconds to render a page of a PDF file (default: 60)")
    add_option(
        pages, "--every SECONDS", positive_number, "read videos as pages: the frame shown at each multiple of this time"
    )
    _add_video_options(parser.add_argument_group("videos"), "in subtitles (default: caption); other formats have all")
    models = parser.add_argument_group("models")
    _add_model_options(models)
    add_flag(models, "--rotated", "draw rotated boxes around rotated text")
    add_flag(models, "--straighten", "turn pages upright before reading them")


def _add_video_options(group: Any, purpose: str) -> None:
    add_option(group, "--kinds NAME,...", kind_names, f"kinds of text {purpose}: {', '.join(KINDS)}")
    add_option(
        group, "--region X0,Y0,X1,Y1", region,
        "part of the frame to read, in shares of its size; 0,0.7,1,1 is the lower third (default: all)",
    )  # fmt: skip
    add_option(
        group, "--languages NAME,...", lambda text: tuple(text.split(",")),
        "languages whose letters are read, such as german,english (default: all)",
    )  # fmt: skip


def _add_model_options(group: Any) -> None:
    add_option(group, "--device NAME", str, "device, such as cuda", "cpu")
    add_option(group, "--det-arch NAME", str, "architecture or file of the detector (default: the best)")
    add_option(group, "--reco-arch NAME", str, "architecture or file of the recogniser (default: the best)")


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
    add_flag(parser, "--regex", "take TEXT as a regular expression of Python")
    add_flag(parser, "--case", "distinguish upper and lower case")
    add_option(
        parser, "--sheet PATH", Path,
        "draw the frames with the text: into a picture, or for several files into a folder",
    )  # fmt: skip
    add_overwrite(parser)
    add_json(parser)
    _add_video_options(parser, "to search (default: all)")
    _add_model_options(parser.add_argument_group("models"))


class _TaskHelp(argparse.Action):
    """The option ``--help`` of commands that have several tasks.

    If it follows the name of a task, only the options and examples of this task are printed. If an option applies only
    to some tasks, its help text must start with their names.
    """

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: object, option: Any = None) -> None:
        task = getattr(namespace, "task", None)
        if task is not None:
            tasks = next(action.choices for action in parser._actions if action.dest == "task") or ()
            for action in parser._actions:
                names, _, rest = (action.help or "").partition(": ")
                is_for_some_tasks = set(names.split(", ")) <= set(tasks)
                if action.dest == "task" or (is_for_some_tasks and task not in names.split(", ")):
                    action.help = argparse.SUPPRESS
                elif is_for_some_tasks:
                    action.help = rest
            examples_of_others = [f"{parser.prog} {other} " for other in tasks if other != task]
            lines = (parser.epilog or "").split("\n")
            parser.epilog = "\n".join(line for line in lines if not any(one in line for one in examples_of_others))
            parser.prog = f"{parser.prog} {task}"
        parser.print_help()
        parser.exit()


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
    add_option(data, "--train DATA", Path, "training data")
    add_option(
        data, "--train-languages L,...", str, "languages of generated training data, such as de,en; instead of --train"
    )
    add_option(data, "--num-drawn N", positive_int, "number of rows to generate for each epoch", 1000)
    add_option(
        data, "--text-unit word|line", str,
        "detection: boxes on generated pages (default: as the detector of --start finds)",
    )  # fmt: skip
    add_option(
        data, "--validation DATA", Path,
        "validation data, which select the best weights (default with --train-languages: generated)",
    )  # fmt: skip
    add_option(data, "--keep DATA", Path, "rehearsal data, which the model must not forget")
    add_option(data, "--keep-languages L,...", str, "languages of generated rehearsal data; instead of --keep")
    add_option(
        data, "--on-error {raise,skip,replace}", str,
        "treatment of a row that cannot be read: raise (stop), skip or replace", "raise",
    )  # fmt: skip
    add_flag(data, "--no-augment", "leave the pictures as they are")
    add_option(model, "--start MODEL", str, "architecture or .pt file to start with (default: as for `ocr`)")
    add_flag(model, "--extend-vocab", "recognition: learn characters that the model does not know")
    add_flag(model, "--random-weights", "start with random weights")
    add_option(
        model, "--vocab CHARACTERS", str,
        "recognition: characters of a model with random weights (default: set by the architecture)",
    )  # fmt: skip
    add_option(
        model, "--page-size PIXELS", picture_side,
        "detection, orientation: side of the squares to which pages are scaled, in pixels, a multiple of 32 "
        "(default: set by the architecture)",
    )  # fmt: skip
    add_option(
        model, "--crop-size PIXELS", picture_side,
        "detection: side of squares cut out of the pages, in pixels, a multiple of 32 (default: whole pages)",
    )  # fmt: skip
    add_option(training, "-o, --output FILE", Path, "checkpoint to write, .pt", required=True)
    add_option(training, "--epochs N", positive_int, "number of epochs", 20)
    add_option(training, "--batch-size N", positive_int, "rows a step", 16)
    add_option(training, "--learning-rate X", float, "peak learning rate (default: 2e-4; 1e-3 with random weights)")
    add_option(training, "--blend X", share, "share of the trained weights in the written ones; less forgets less", 1.0)
    add_option(
        training, "--ema-decay X", float, "decay of the moving average of the weights; lower for few steps", 0.998
    )
    add_option(training, "--patience N", positive_int, "stop after N epochs without a better score (default: never)")
    add_option(training, "--seed N", int, "seed of all random choices", 0)
    add_option(training, "--device NAME", str, "device, such as cuda (default: cuda if there is one)")
    add_flag(training, "--half", "compute in half precision even on a CPU (default: only on CUDA)")
    add_option(training, "--workers N", int, "number of processes that load rows", 0)
    add_flag(training, "--no-resume", "start over, and replace the files of an earlier training")
    add_flag(training, "--overwrite", "start over, and replace files that exist, of any origin")


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
    add_option(parser, "--model MODEL", str, "architecture, or path of a model (default: as for `ocr`)")
    add_option(parser, "--device NAME", str, "device, such as cuda", "cpu")
    add_option(
        parser, "--images FOLDER", Path, "recognition: folder of the pictures of a manifest (default: next to it)"
    )
    add_option(parser, "--batch-size N", positive_int, "rows a call", 1)
    add_option(
        parser, "--iou X", share,
        "detection: smallest overlap of a box with a true one, as intersection over union", 0.5,
    )  # fmt: skip
    add_option(parser, "--json FILE", str, "write all scores as JSON; - prints them instead of the table")
    add_option(parser, "--picture FILE", Path, "draw the worst lines or pages: .png, .jpg or .webp")
    add_overwrite(parser)
    add_option(parser, "--worst N", positive_int, "number of lines or pages to draw", 20)
