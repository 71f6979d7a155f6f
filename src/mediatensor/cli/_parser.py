"""The command line: the commands and their options.

This module reads no media, so that ``--help``, ``--version`` and wrong usage load neither torch nor FFmpeg.
"""

from __future__ import annotations

import argparse
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

from .. import __version__
from ._console.arguments import (
    KINDS,
    format_names,
    frame_indices,
    kind_names,
    non_negative_int,
    page_ranges,
    picture_size,
    port_number,
    positive_int,
    positive_number,
    region,
    share,
    time_in_seconds,
)
from ._console.output import EXIT_ERROR, emit_error

__all__ = ["build_parser"]


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line and name the help to read."""

    def error(self, message: str) -> NoReturn:
        emit_error(f"{message} (see `{self.prog} --help`)")
        self.exit(EXIT_ERROR)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as argparse does, but report an unknown argument as an error of its command, whose help explains it."""
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            getattr(parsed, "parser", self).error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed


def build_parser() -> argparse.ArgumentParser:
    """The parser of the arguments; ``command`` of its result is the name of the command."""
    parser = _Parser(
        prog="mediatensor",
        description=(
            "Look into a media file, draw a contact sheet of it, extract frames, sound and subtitles, read the text\n"
            "in its pixels, and prove that frames are decoded exactly."
        ),
        epilog=(
            "examples:\n"
            "  mediatensor demo                       make a video and show what the library does with it\n"
            "  mediatensor probe talk.mp4             what is in the file\n"
            "  mediatensor sheet talk.mp4 -o talk.png sixteen frames of it in one picture\n"
            "  mediatensor scenes film.mp4            where its scenes begin and end\n"
            "  mediatensor extract talk.mp4 --fps 1   frames as images; sound and subtitles as files, too\n"
            "  mediatensor ocr scan.pdf -o text       the text of a document\n"
            "  mediatensor ocr talk.mp4 -o text       the captions in a video, as subtitles\n"
            "  mediatensor find 'error 503' *.mp4     where and when a text is to be seen\n"
            "  mediatensor train recognition --train lines/ --validation others/ -o mine.pt   a reader of your lines\n"
            "  mediatensor evaluate recognition lines.jsonl   how well lines are read\n"
            "  mediatensor verify talk.mp4            is every frame that of a full linear decode?\n"
            "  mediatensor check videos/              which files of a data set are damaged, or not like the others?\n"
            "  mediatensor doctor                     does everything work here, and what would each extra bring?\n"
            "  mediatensor serve                      a page in your browser, and an HTTP interface for programs\n"
            "\n"
            "- as a file is standard input, as an output standard output.\n"
            "\n"
            "exit codes:\n"
            "  0  done\n"
            "  1  the answer is no: verify or demo found a difference, check a bad file, doctor a fault, find nothing\n"
            "  2  wrong usage, or a file or a page that cannot be read\n"
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    versions = f"mediatensor {__version__} (av {version('av')}, torch {version('torch')})"
    parser.add_argument("--version", action="version", version=versions, help="say which versions these are, and exit")
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="command", required=True, parser_class=_Parser
    )
    for add in (
        _add_probe,
        _add_sheet,
        _add_scenes,
        _add_extract,
        _add_ocr,
        _add_find,
        _add_train,
        _add_evaluate,
        _add_verify,
        _add_check,
        _add_doctor,
        _add_serve,
        _add_demo,
    ):
        add(commands)
    return parser


_JSON_HELP = """\
The JSON of --json, an object for each file (a key is always there; null means unknown; times in seconds; fractions
as "a/b"):

  file, file_size_bytes, container, duration_seconds, bit_rate
  tags        what the file says of itself: {"title": "Lesson 1"}; the names are the container's
  chapters[]  start_seconds, end_seconds, title, tags
  streams[]   index, media_type, codec, duration_seconds, bit_rate, width, height, average_fps,
              sample_rate, num_channels, channel_layout, language, disposition[], tags
                                                what the headers say of every stream
  video       the chosen video stream; null if there is none or it cannot be decoded:
    stream_index, codec, profile, pixel_format
    width, height                               of the frames you get, after rotation
    stored_width, stored_height                 as stored in the file, before rotation
    display_width, display_height               with the pixel aspect ratio applied
    pixel_aspect_ratio, rotation                rotation in degrees, counter-clockwise
    color_primaries, color_transfer, color_space, color_range
    scanned                                     false with --no-scan: the numbers below are the headers'
    num_frames, average_fps, is_constant_frame_rate, min_frame_step_seconds, max_frame_step_seconds
    num_key_frames, gop_length_min, gop_length_median, gop_length_max
    begin_seconds, end_seconds, duration_seconds
    anomalies[]                                 sentences about what is odd in the stream
  audio       the chosen audio stream by its header, or null:
    stream_index, codec, profile, sample_rate, num_channels, channel_layout, sample_format
    bit_rate, language, begin_seconds, duration_seconds
  subtitles   the chosen stream of subtitles, or null:
    stream_index, codec, language, is_text      is_text: characters (true) or pictures of them (false)
    scanned, num_subtitles, begin_seconds, end_seconds, anomalies[]
  error       why there is no "video", or null
"""


def _command(commands: Any, name: str, *, summary: str, description: str, epilog: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(parser=parser)
    return parser


def _add_probe(commands: Any) -> None:
    parser = _command(
        commands,
        "probe",
        summary="what is in a file: streams, exact frame count, key frames, audio, subtitles, chapters, tags",
        description=(
            "Print what is in a media file. The video stream is scanned from its first packet to its last, so the\n"
            "frame count, the frame rate and the key frames are those of the content, not what the headers claim.\n"
            "Subtitles are read and counted; of audio the header is shown."
        ),
        epilog=(
            "examples:\n"
            "  mediatensor probe talk.mp4\n"
            "  mediatensor probe *.mp4 --json | jq .video.num_frames\n"
            "  curl ... | mediatensor probe -\n"
            "  mediatensor probe recording.mkv --stream 2\n\n" + _JSON_HELP
        ),
    )
    _add_files(parser, "media")
    _add_json(parser)
    _add_stream(parser, what="index of a stream to describe, instead of the best of its kind")
    parser.add_argument(
        "--no-scan", action="store_true", help="read the headers only: quick, and no more exact than they are"
    )


def _add_sheet(commands: Any) -> None:
    parser = _command(
        commands,
        "sheet",
        summary="a contact sheet: frames spread over the video in one picture, with their times",
        description=(
            "Draw frames that are spread evenly over a video into one picture. Each is labelled with its index\n"
            "and its time; a diamond marks key frames. Rotation and pixel aspect ratio are applied."
        ),
        epilog=(
            "examples:\n"
            "  mediatensor sheet talk.mp4 -o talk.png\n"
            "  mediatensor sheet talk.mp4 -o minute.webp --start 1:00 --stop 2:00 --frames 30 --columns 6\n"
            "  mediatensor sheet videos/*.mp4 -o sheets        sheets/NAME.png of each\n"
        ),
    )
    _add_files(parser, "video")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="PATH",
        help="the picture to write: .png, .jpg or .webp (default: sheet.png), or - for a PNG to standard output; for "
        "several files a folder (default: sheets)",
    )  # fmt: skip
    _add_overwrite(parser)
    parser.add_argument("--frames", type=positive_int, default=16, metavar="N", help="how many frames (default: 16)")
    parser.add_argument("--columns", type=positive_int, metavar="N", help="frames in a row (default: a balanced grid)")
    parser.add_argument("--width", type=positive_int, metavar="PX", help="width of a frame in the sheet, in pixels")
    _add_time_range(parser)
    _add_stream(parser)


def _add_scenes(commands: Any) -> None:
    parser = _command(
        commands,
        "scenes",
        summary="where the scenes of videos begin and end; rows of them for training, and pictures",
        description=(
            "Find the cuts of videos, and print the scenes between them. Cuts are found to the frame, and so are\n"
            "fades through black; dissolves are not. Frames that cannot be decoded are passed over."
        ),
        epilog=(
            "examples:\n"
            "  mediatensor scenes film.mp4\n"
            "  mediatensor scenes film.mp4 --sheet scenes.png       a frame of each scene, in one picture\n"
            "  mediatensor scenes videos/*.mp4 -o scenes.csv        rows that VideoClips('scenes.csv') reads\n"
            "\n"
            "The JSON of --json, an object for each scene: file, scene (its number), first_frame, last_frame,\n"
            "begin_seconds, end_seconds, score (how much its first frame differs from the one before it, in levels\n"
            "of 255; null for the first scene).\n"
        ),
    )
    _add_files(parser, "video")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="PATH",
        help="write a row for each scene, .csv or .jsonl: path, start_seconds, end_seconds, first_frame, last_frame, "
        "score (empty for the first scene of a file)",
    )  # fmt: skip
    parser.add_argument(
        "--sheet", type=Path, metavar="PATH",
        help="also draw a frame of each scene: a picture, or for several files a folder of pictures",
    )  # fmt: skip
    _add_overwrite(parser)
    parser.add_argument(
        "--min-seconds", type=positive_number, default=0.5, metavar="S", help="the shortest scene (default: 0.5)"
    )
    parser.add_argument(
        "--threshold", type=positive_number, default=20.0, metavar="N",
        help="by how many levels of 255 a cut changes the picture at least (default: 20)",
    )  # fmt: skip
    parser.add_argument(
        "--key-frames-only", action="store_true",
        help="decode key frames alone: many times as quick, but a cut between two of them is found at the later one",
    )  # fmt: skip
    _add_json(parser)


def _add_extract(commands: Any) -> None:
    parser = _command(
        commands,
        "extract",
        summary="frames to images, sound to WAV, subtitles to SubRip",
        description=(
            "Write what is in a file as files of their own: frames as images (the default), sound as WAV, subtitles\n"
            "as SubRip. PNG images are the frames bit for bit. No file is replaced without --overwrite, and a file\n"
            "is whole or it is not there."
        ),
        epilog=(
            "examples:\n"
            "  mediatensor extract talk.mp4 -o frames --every 10      one image for each 10 seconds\n"
            "  mediatensor extract talk.mp4 -o frames --frames 0,10,-1\n"
            "  mediatensor extract talk.mp4 -o frames --images jpg --fps 1 --start 1:00 --stop 2:00 --size 320x180\n"
            "  mediatensor extract talk.mp4 -o sound --audio --sample-rate 16000 --num-channels 1\n"
            "  mediatensor extract talk.mkv -o talk --audio --subtitles --images png --fps 1\n"
            "  mediatensor extract talk.mkv -o - --audio | ffplay -   one file to standard output\n"
            "\n"
            "Images are named NAME_INDEX_TIMEs.png, so that sorting them by name sorts them by time; sound and\n"
            "subtitles NAME.wav and NAME.srt. WAV is 16 bit: samples are rounded to the nearest step, and clipped\n"
            "where they are beyond full scale. A WAV begins at --start, or where the sound begins; holes in the sound\n"
            "are closed. The times of subtitles are those of the file. A frame that does not decode is left out, and\n"
            "the exit code is 2.\n"
        ),
    )
    parser.add_argument("file", metavar="FILE", help="a media file, a URL, or - for standard input")
    _add_folder(parser, "extracted")
    _add_overwrite(parser)
    _add_time_range(parser)
    _add_image_options(parser.add_argument_group("images"))
    sound = parser.add_argument_group("sound")
    sound.add_argument("--audio", action="store_true", help="write NAME.wav")
    sound.add_argument("--sample-rate", type=positive_int, metavar="HZ", help="resample (default: as it is)")
    sound.add_argument(
        "--num-channels", type=positive_int, metavar="N", help="mix to the mean, or up (default: as it is)"
    )
    _add_stream(sound, "--audio-stream", "the stream's index (default: best)")
    subtitles = parser.add_argument_group("subtitles")
    subtitles.add_argument("--subtitles", action="store_true", help="write NAME.srt, as plain text")
    _add_stream(subtitles, "--subtitle-stream", "the stream's index (default: best)")
    subtitles.add_argument(
        "--encoding", metavar="NAME", help="of subtitles that are not UTF-8, such as cp1252 (default: utf-8)"
    )


def _add_image_options(group: Any) -> None:
    group.add_argument(
        "--images", choices=("png", "jpg"), metavar="png|jpg",
        help="format of the images (default: png); with --audio or --subtitles, asks for images, too",
    )  # fmt: skip
    which = group.add_mutually_exclusive_group()
    which.add_argument(
        "--every", type=positive_number, metavar="SECONDS", help="the frame shown every so often, from the start on"
    )
    which.add_argument("--fps", type=positive_number, metavar="RATE", help="as many frames per second")
    which.add_argument(
        "--frames",
        type=frame_indices,
        metavar="I,J,...",
        help="these frames; negative ones count from the end (--frames=-2,-1)",
    )
    group.add_argument("--size", type=picture_size, metavar="WxH", help="scale to this size in pixels")
    _add_stream(group)


def _add_ocr(commands: Any) -> None:
    parser = _command(
        commands,
        "ocr",
        summary="read the text of images, PDF files and videos",
        description=(
            "Read the text in the pixels of images, PDF files, folders of them, or videos, and write a file for\n"
            "each. Pages are read one by one, so that a long document fits in memory. A page that cannot be read is\n"
            "reported, and the others come through. In a video, text is followed from its first frame to its last:\n"
            "captions become subtitles, and slides pages. Needs the extra `ocr`."
        ),
        epilog=(
            "examples:\n"
            "  mediatensor ocr scan.pdf -o text                        text/scan.txt\n"
            "  mediatensor ocr receipts/ -o read --format json --overlay\n"
            "  mediatensor ocr scan.pdf -o searchable --format pdf --dpi 200 --pages 1-20\n"
            "  mediatensor ocr scan.pdf -o out --format txt,pdf        out/scan.txt and out/scan.ocr.pdf\n"
            "  mediatensor ocr report.pdf --layout --tables --format md,xlsx\n"
            "  mediatensor ocr talk.mp4 -o text                        text/talk.srt: its captions, with times\n"
            "  mediatensor ocr talk.mp4 -o text --format json,pdf      everything in it, and its slides as pages\n"
            "  mediatensor ocr talk.mp4 --region 0,0.7,1,1 --format vtt\n"
            "  mediatensor ocr talk.mp4 -o slides --every 10           the text of a frame each 10 seconds\n"
            "  mediatensor ocr scans/ --export-lines lines             lines/images/*.png and lines/lines.jsonl\n"
            "  scanimage | mediatensor ocr - -o - | less               from standard input to standard output\n"
            "\n"
            "formats: txt, json (as docTR exports it), md, adoc, html, hocr, alto, tsv (as tesseract writes it), pdf\n"
            "(the pages with invisible text, to search and to copy from), csv and xlsx (the tables). Of videos: srt,\n"
            "vtt, ass (captions; ass has them in their places), json, csv (all text with times, places and kinds),\n"
            "md, pdf (slides).\n"
            "\n"
            "Run the same command again to continue where it was stopped: pages that were read, and how far a video\n"
            "was read, are kept in a hidden folder beside the output until all is complete. A complete document is\n"
            "not read again unless the options or the file have changed since (a hidden file in the folder records\n"
            "both). An output that this command did not write, or that was edited since, is replaced only with\n"
            "--overwrite. The exit code is 2 if a file or a page could not be read; running again tries those pages\n"
            "anew.\n"
            "\n"
            "--export-lines cuts out every line that is found. FOLDER/lines.jsonl has an object for each line:\n"
            "file, text, confidence, source, page, box; the least certain lines come first. Correct the texts there,\n"
            "or in a browser with FOLDER/correct.html, and train on it. Lines that are in the file stay as they are\n"
            "when documents are added; --overwrite cuts those of a document anew.\n"
        ),
    )
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="an image, a PDF file, a folder of these, a video, a URL, or -"
    )
    _add_folder(parser, "read")
    parser.add_argument(
        "--format", type=format_names, action="extend", metavar="NAME,...",
        help="of the output, one or several, such as txt,pdf (default: txt, of videos srt)",
    )  # fmt: skip
    parser.add_argument(
        "--layout",
        action="store_true",
        help="find regions: headings, lists, captions, headers and footers, in reading order",
    )
    parser.add_argument("--tables", action="store_true", help="find tables (csv and xlsx always do)")
    parser.add_argument(
        "--fields",
        metavar="NAME",
        help="find keys with their values: those of an invoice or a receipt, or all; they are in json",
    )
    parser.add_argument(
        "--text-layer",
        action="store_true",
        help="take the words that a PDF file itself has, and read only pictures and pages without such",
    )
    parser.add_argument(
        "--keep-look",
        action="store_true",
        help="keep the look of the pages in text files, columns side by side",
    )
    parser.add_argument(
        "--overlay",
        action="store_true",
        help="write pictures of pages with what was read in them",
    )
    parser.add_argument(
        "--export-lines", type=Path, metavar="FOLDER",
        help="write pictures of all lines, with their texts to correct, to train on; instead of documents",
    )  # fmt: skip
    parser.add_argument(
        "--overwrite", action="store_true", help="read again what has been read, and replace what is there"
    )
    pages = parser.add_argument_group("pages")
    pages.add_argument("--pages", type=page_ranges, metavar="1-3,7,10-", help="only these, counted from 1")
    pages.add_argument(
        "--dpi", type=positive_number, default=144.0, metavar="N", help="of rendered PDF pages (default: 144)"
    )
    pages.add_argument("--password", metavar="TEXT", help="of PDF files")
    pages.add_argument(
        "--page-timeout",
        type=positive_number,
        metavar="SECONDS",
        help="give up a page of a PDF file that takes longer to render (default: 60)",
    )
    pages.add_argument(
        "--every", type=positive_number, metavar="SECONDS", help="the files are videos; read a frame every so often"
    )
    _add_video_text(parser.add_argument_group("videos"), "subtitles have (default: caption); other formats have all")
    models = parser.add_argument_group("models")
    _add_models(models)
    models.add_argument("--rotated", action="store_true", help="frame turned text with turned boxes")
    models.add_argument("--straighten", action="store_true", help="turn pages upright before they are read")


def _add_video_text(group: Any, what_for: str) -> None:
    """``--kinds``, ``--region`` and ``--languages``."""
    group.add_argument(
        "--kinds", type=kind_names, metavar="NAME,...", help=f"{', '.join(KINDS)}: the kinds of text that {what_for}"
    )
    group.add_argument(
        "--region", type=region, metavar="X0,Y0,X1,Y1",
        help="only text in this part of the picture, in shares of it: 0,0.7,1,1 is the lower third",
    )  # fmt: skip
    group.add_argument(
        "--languages",
        type=lambda text: tuple(text.split(",")),
        metavar="NAME,...",
        help="read only letters of these, such as german,english (default: all)",
    )


def _add_models(group: Any) -> None:
    """``--device`` and the architectures."""
    group.add_argument("--device", default="cpu", metavar="NAME", help="such as cuda (default: cpu)")
    group.add_argument("--det-arch", metavar="NAME", help="the detector (default: that of ocr_predictor)")
    group.add_argument("--reco-arch", metavar="NAME", help="the recogniser (default: that of ocr_predictor)")


def _add_find(commands: Any) -> None:
    parser = _command(
        commands,
        "find",
        summary="where and when a text is to be seen in videos",
        description=(
            "Read the text in videos, and print where a text stands: the file, the time from which it is shown, its\n"
            "place, its kind, and what it says. Capitals and line breaks make no difference. The exit code is 1 if it\n"
            "is nowhere. Needs the extra `ocr`."
        ),
        epilog=(
            "examples:\n"
            "  mediatensor find 'error 503' *.mp4\n"
            "  mediatensor find 'error 503' recording.mp4 --sheet found.png   the frames with it, in one picture\n"
            "  mediatensor find --regex 'error [45]\\d\\d' *.mp4 --json | jq .start_seconds\n"
            "\n"
            "Reading takes most of the time. To search often, read once and search what was stored:\n"
            "  mediatensor ocr *.mp4 -o read --format json\n"
            "  mediatensor find 'error 503' read/*.json\n"
            "\n"
            "The JSON of --json, an object for each place: file, text, kind, start_seconds, end_seconds, first_frame,\n"
            "last_frame, geometry ([[xmin, ymin], [xmax, ymax]], in shares of the picture), confidence,\n"
            "alternative (the other reading in which it was found, or null).\n"
        ),
    )
    parser.add_argument("text", metavar="TEXT", help="what to look for")
    parser.add_argument("files", nargs="+", metavar="FILE", help="a video, a JSON file of `ocr`, a URL, or -")
    parser.add_argument("--regex", action="store_true", help="TEXT is a regular expression, as Python has them")
    parser.add_argument("--case", action="store_true", help="capitals make a difference")
    parser.add_argument(
        "--sheet", type=Path, metavar="PATH",
        help="also draw the frames with it: a picture, or for several files a folder of pictures",
    )  # fmt: skip
    _add_overwrite(parser)
    _add_json(parser)
    _add_video_text(parser, "count (default: all)")
    _add_models(parser.add_argument_group("models"))


def _add_train(commands: Any) -> None:
    parser = _command(
        commands,
        "train",
        summary="teach a model your lines or pages",
        description=(
            "Train a model on your lines or pages, and keep the weights that do best on others. A training that was\n"
            "stopped goes on when it is called again. Needs the extra `ocr`."
        ),
        epilog=(
            "examples:\n"
            "  mediatensor train recognition --train lines/train.jsonl --validation lines/validation.jsonl \\\n"
            "      --keep-languages de,en -o fraktur.pt\n"
            "  mediatensor train detection --train pages.jsonl --validation others.jsonl -o finder.pt\n"
            "  mediatensor train detection --start linknet_resnet18 --random-weights --train-languages en,de \\\n"
            "      --crop-size 512 -o own.pt   from nothing, on drawn pages\n"
            "  torchrun --nproc-per-node 2 -m mediatensor train recognition ...   on two GPUs\n"
            "\n"
            "Lines and pages are given as for `evaluate`; orientation takes lines that are upright. Beside fraktur.pt\n"
            "stand the log fraktur.jsonl, the curves fraktur.png, and until it is done fraktur.state.pt.\n"
            'Then: mediatensor evaluate recognition ... --model fraktur.pt; ocr_predictor(reco_arch="fraktur.pt").\n'
        ),
    )
    parser.add_argument(
        "task", choices=("recognition", "detection", "orientation"), metavar="TASK",
        help="recognition, detection or orientation",
    )  # fmt: skip
    data = parser.add_argument_group("data")
    data.add_argument("--train", type=Path, metavar="DATA", help="what is learnt")
    data.add_argument(
        "--train-languages", metavar="L,...",
        help="draw lines, or pages, in these languages, such as de,en, and learn them instead of --train",
    )  # fmt: skip
    data.add_argument(
        "--num-drawn", type=positive_int, default=1000, metavar="N",
        help="how many are drawn for each epoch, other ones each time (default: 1000)",
    )  # fmt: skip
    data.add_argument(
        "--text-unit", choices=("word", "line"), metavar="word|line",
        help="what has a box on drawn pages (default: what the detector of --start marks)",
    )  # fmt: skip
    data.add_argument(
        "--validation", type=Path, metavar="DATA",
        help="what decides which weights are best (default with --train-languages: drawn, too)",
    )  # fmt: skip
    data.add_argument("--keep", type=Path, metavar="DATA", help="what is known, and shall not be forgotten")
    data.add_argument(
        "--keep-languages", metavar="L,...",
        help="draw lines, or pages, in these languages, and use them as --keep",
    )  # fmt: skip
    data.add_argument(
        "--on-error", choices=("raise", "skip", "replace"), default="raise",
        help="what to do with a row that cannot be read (default: raise)",
    )  # fmt: skip
    data.add_argument("--no-augment", action="store_true", help="do not change pictures at random")
    model = parser.add_argument_group("model")
    model.add_argument("--start", metavar="MODEL", help="an architecture or a .pt file (default: the reader's)")
    model.add_argument("--extend-vocab", action="store_true", help="learn characters that the model does not know")
    model.add_argument("--random-weights", action="store_true", help="begin with weights that know nothing")
    model.add_argument("--vocab", metavar="CHARACTERS", help="what a model with random weights shall read")
    model.add_argument(
        "--page-size", type=positive_int, metavar="PIXELS", help="bring pages to squares of this size, here and later"
    )
    model.add_argument("--crop-size", type=positive_int, metavar="PIXELS", help="learn squares cut out of these pages")
    training = parser.add_argument_group("training")
    training.add_argument("-o", "--output", required=True, type=Path, metavar="FILE", help="the checkpoint, .pt")
    training.add_argument("--epochs", type=positive_int, default=20, metavar="N", help="(default: 20)")
    training.add_argument("--batch-size", type=positive_int, default=16, metavar="N", help="(default: 16)")
    training.add_argument("--learning-rate", type=float, metavar="X", help="(default: 2e-4; 1e-3 for random weights)")
    training.add_argument(
        "--blend", type=share, default=1.0, metavar="X",
        help="the share of the learnt weights in those that are written; less forgets less (default: 1)",
    )  # fmt: skip
    training.add_argument(
        "--ema-decay", type=float, default=0.998, metavar="X",
        help="how much of the average of weights stays in a step; less for few steps (default: 0.998)",
    )  # fmt: skip
    training.add_argument("--patience", type=positive_int, metavar="N", help="end after N epochs that were no better")
    training.add_argument("--seed", type=int, default=0, metavar="N", help="(default: 0)")
    training.add_argument("--device", metavar="NAME", help="such as cuda (default: cuda where there is one)")
    training.add_argument("--half", action="store_true", help="compute in half precision on a CPU, too")
    training.add_argument("--workers", type=int, default=0, metavar="N", help="processes that read rows (default: 0)")
    training.add_argument(
        "--no-resume", action="store_true", help="begin anew, and replace the files of an earlier training"
    )
    training.add_argument(
        "--overwrite", action="store_true", help="begin anew, and replace files that exist, whoever wrote them"
    )


def _add_evaluate(commands: Any) -> None:
    parser = _command(
        commands,
        "evaluate",
        summary="how well a model reads lines, or finds text on pages",
        description=(
            "Read every line of a dataset, or search every page, and compare with what is true. Of lines: how many\n"
            "are read exactly, characters and words wrong (CER, WER), by length of line, and which characters are\n"
            "read as what. Of pages: recall, precision and overlap of boxes. Of both: how long one takes. Needs the\n"
            "extra `ocr`."
        ),
        epilog=(
            "examples:\n"
            "  mediatensor evaluate recognition lines.jsonl\n"
            "  mediatensor evaluate recognition lines.jsonl --model fraktur.pt --picture worst.png\n"
            "  mediatensor evaluate detection pages/ --json scores.json\n"
            "\n"
            "Lines are a manifest (.jsonl, .csv, ...) with the columns file and text, a folder of pictures with\n"
            "NAME.txt or NAME.gt.txt beside them, or docTR's labels.json. Pages are a manifest with the columns file\n"
            "and boxes, or docTR's labels.json with polygons beside a folder images; the boxes are those of lines\n"
            "where the detector finds lines, as the default one does, and those of words where it finds words.\n"
            "\n"
            "Texts are compared in Unicode's composed form (NFC), and nothing else is normalised. Rows are read one\n"
            "by one, so that times are those of single calls; --batch-size 32 is faster on a GPU, and has none. The\n"
            "exit code is 2 if a row could not be read.\n"
        ),
    )
    parser.add_argument("task", choices=("recognition", "detection"), metavar="TASK", help="recognition or detection")
    parser.add_argument("data", metavar="DATA", help="a manifest, a folder, or docTR's labels.json")
    parser.add_argument(
        "--model", metavar="MODEL", help="an architecture, or the path of a model (default: that of ocr_predictor)"
    )
    parser.add_argument("--device", default="cpu", metavar="NAME", help="such as cuda (default: cpu)")
    parser.add_argument("--images", type=Path, metavar="FOLDER", help="where the pictures of a manifest of lines are")
    parser.add_argument(
        "--batch-size", type=positive_int, default=1, metavar="N", help="rows read at once (default: 1)"
    )
    parser.add_argument(
        "--iou", type=share, default=0.5, metavar="X",
        help="the overlap from which on a found box is a true one (default: 0.5)",
    )  # fmt: skip
    parser.add_argument("--json", metavar="FILE", help="write all scores as JSON; - prints them instead of the table")
    parser.add_argument(
        "--picture", type=Path, metavar="FILE", help="draw the worst lines, or pages: .png, .jpg, .webp"
    )
    _add_overwrite(parser)
    parser.add_argument(
        "--worst", type=positive_int, default=20, metavar="N", help="how many of them to draw (default: 20)"
    )


def _add_verify(commands: Any) -> None:
    parser = _command(
        commands,
        "verify",
        summary="is every frame, fetched at random, that of a full linear decode?",
        description=(
            "Decode a video once from its first packet to its last, with no seek, no index and one thread. Then fetch\n"
            "frames out of order - one by one, by time, in pairs, in batches, in clips, backwards - and compare each\n"
            "with the linear decode, bit for bit. The exit code is 1 if anything differs."
        ),
        epilog=(
            "examples:\n"
            "  mediatensor verify talk.mp4\n"
            "  mediatensor verify talk.mp4 --all             every frame one by one (slow for long videos)\n"
            "  mediatensor verify talk.mp4 --json | jq .identical\n"
            "\n"
            "The JSON of --json, an object for each file: file, stream_index, seed, num_frames_at_open, num_frames,\n"
            "num_frames_linear, checks[] (kind, num_requests, num_frames, num_mismatches), identical, num_mismatches,\n"
            "mismatches[] (the first ones: kind, frame_index, expected_pts_seconds, pts_seconds,\n"
            "max_abs_difference, is_frame, reason; null means unknown).\n"
        ),
    )
    _add_files(parser, "video")
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument(
        "--frames", type=positive_int, default=300, metavar="N",
        help="how many frames to fetch one by one; the other ways fetch about as many (default: 300)",
    )  # fmt: skip
    amount.add_argument("--all", action="store_true", help="fetch every frame one by one")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the random order (default: 0)")
    _add_stream(parser)
    _add_json(parser)


def _add_check(commands: Any) -> None:
    parser = _command(
        commands,
        "check",
        summary="which files of a data set are damaged, odd or twice there? before a training meets them",
        description=(
            "Open every file of a data set, decode all of it, and say what was found: files that cannot be read or\n"
            "are cut off, damaged frames and sound, frames that the header promises and that are not there, gaps\n"
            "in time, frozen and black stretches, frames that were lost, silence and clipping, sound, cameras and\n"
            "tables that grow apart, wrong labels, copies, and files that are not like the others.\n"
            "The exit code is 1 if a file or a table is bad. Files are only read."
        ),
        epilog=(
            "examples:\n"
            "  mediatensor check videos/\n"
            "  mediatensor check train.csv --fix good.csv --html report.html\n"
            "  mediatensor check 'train-{000..099}.tar' --workers 8 --state check.state   goes on when interrupted\n"
            "  mediatensor check videos/ --bad frozen --bad duplicate --json | jq '.files[] | select(.is_bad) .name'\n"
            "\n"
            "Bad are: unreadable, nothing-decodes, no-video, no-sound, cut-off, corrupt, corrupt-sound,\n"
            "frame-count, table-rows, table-times, segment-outside, wrong-label.\n"
            "Worth a look, and bad with --bad: repeated-times, gap, sound-gap, first-frame-not-key,\n"
            "sparse-key-frames, frozen, black, dropped-frames, sound-length,\n"
            "sound-drift, camera-drift, clipped, silent, duplicate, near-duplicate, two-labels, missing-label,\n"
            "rare-label, label-gap, table-facts, segment-cut, odd-size, odd-rotation, odd-rate, odd-sound. Notes:\n"
            "odd-codec, variable-rate, repeated-frames.\n"
            "\n"
            "The JSON of --json, one object: num_files, num_bad, is_in_order, bad_kinds[], counts{kind: files},\n"
            "label_counts{label: rows}, good_episodes[], findings[] of all together, files[] (row, name, is_bad,\n"
            "findings[] (kind, severity, message, advice, start_seconds, end_seconds, start_frame, end_frame,\n"
            "episode, row), facts (num_frames, average_fps, longest_gop, random_access_frames, ...); null means\n"
            "unknown).\n"
        ),
    )
    parser.add_argument(
        "files", nargs="+", metavar="DATASET",
        help="a folder, a manifest (.csv, .tsv, .jsonl, .json, .parquet), tar shards, or media files",
    )  # fmt: skip
    parser.add_argument(
        "--kind",
        choices=("video", "audio"),
        default="video",
        help="which files a folder is searched for, and what each must have (default: video)",
    )
    parser.add_argument("--media-column", metavar="NAME", help="the column of a manifest that has the files")
    parser.add_argument("--label-column", metavar="NAME", help="the column of a manifest that has the labels")
    parser.add_argument(
        "--classes", type=positive_int, metavar="N", help="labels are whole numbers below this; others are wrong"
    )
    parser.add_argument(
        "--bad",
        action="append",
        default=[],
        metavar="KIND",
        help="a finding that makes a file bad, too; may be repeated",
    )
    parser.add_argument(
        "--no-decode", action="store_true", help="read only headers and packets: quicker, and finds less"
    )
    parser.add_argument(
        "--workers", type=non_negative_int, metavar="N",
        help="files at a time, each in a process of its own; 0 for none (default: the cores)",
    )  # fmt: skip
    parser.add_argument(
        "--timeout", type=positive_number, default=600.0, metavar="SECONDS",
        help="a file that takes longer is unreadable (default: 600)",
    )  # fmt: skip
    parser.add_argument("--state", metavar="FILE", help="keep what is done there, and go on from it")
    parser.add_argument("--html", metavar="FILE", help="write a page with a picture of each file that is named")
    parser.add_argument("--fix", metavar="FILE", help="write a manifest of the rows that are not bad (.csv or .jsonl)")
    _add_overwrite(parser)
    _add_json(parser)


def _add_doctor(commands: Any) -> None:
    parser = _command(
        commands,
        "doctor",
        summary="what is installed, what each extra would bring, and whether it all works on this machine",
        description=(
            "Say which versions, codecs and GPUs are there; write a small video and read it again, exactly; load a\n"
            "batch in two worker processes; read a line of text; and say what is likely to hurt later: little shared\n"
            "memory, few files, a quota of cores. All of it happens in a process of its own, so that a package that\n"
            "crashes is found, too.\n"
            "The exit code is 1 if something that is installed does not work."
        ),
        epilog=("examples:\n  mediatensor doctor\n  mediatensor doctor --json > doctor.json    for a bug report\n"),
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object")


def _add_serve(commands: Any) -> None:
    parser = _command(
        commands,
        "serve",
        summary="a page in your browser, and an HTTP interface for programs",
        description=(
            "Serve what this library reads in images, PDF files and videos: a page for browsers, and an interface for\n"
            "programs, which /openapi.json describes. Uploads are read in processes of their own, with limits of time\n"
            "and memory, and are deleted with their jobs. Only this machine can reach it, unless you name another\n"
            "--host; then a token is needed. Needs the extra `serve`."
        ),
        epilog=(
            "examples:\n"
            "  mediatensor serve                                  then open http://127.0.0.1:8000/\n"
            "  mediatensor serve --port 9000 --jobs 4 --max-upload-bytes 200000000\n"
            "  MEDIATENSOR_TOKEN=... mediatensor serve --host 0.0.0.0 --allow-host read.example.org\n"
            "  curl -F file=@scan.pdf -F answer=text http://127.0.0.1:8000/ocr\n"
            "\n"
            "Without --token, and without the variable MEDIATENSOR_TOKEN, a token is made and printed where one is\n"
            "needed. The connection is not encrypted: put a server with TLS in front of it where others can listen.\n"
        ),
    )
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="where to listen (default: 127.0.0.1)")
    parser.add_argument(
        "--port", type=port_number, default=8000, metavar="N", help="(default: 8000; 0 for any that is free)"
    )
    parser.add_argument("--token", metavar="TEXT", help="let in only who knows it; better in MEDIATENSOR_TOKEN")
    parser.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME",
        help="a name under which the server may be called, beside those of this machine; may be repeated",
    )  # fmt: skip
    limits = parser.add_argument_group("limits")
    limits.add_argument(
        "--max-upload-bytes", type=positive_int, default=1 << 30, metavar="N",
        help="the largest upload (default: 1073741824)",
    )  # fmt: skip
    limits.add_argument(
        "--timeout", type=positive_number, default=600.0, metavar="SECONDS",
        help="how long one upload is worked on (default: 600)",
    )  # fmt: skip
    limits.add_argument(
        "--max-memory-bytes", type=positive_int, default=4 << 30, metavar="N",
        help="the memory that reading may take, beside the models (default: 4294967296)",
    )  # fmt: skip
    limits.add_argument(
        "--jobs", type=positive_int, default=2, metavar="N", help="how many uploads are read at once (default: 2)"
    )
    limits.add_argument(
        "--keep", type=positive_number, default=1800.0, metavar="SECONDS",
        help="how long uploads and results are kept when a job has ended (default: 1800)",
    )  # fmt: skip
    limits.add_argument(
        "--folder", type=Path, metavar="FOLDER", help="where they are kept (default: the system's temporary files)"
    )


def _add_demo(commands: Any) -> None:
    parser = _command(
        commands,
        "demo",
        summary="make a video and show what the library does with it, checked and timed",
        description=(
            "Show the library at work: open a video, fetch frames by index and by time, sample clips, load batches\n"
            "in worker processes, and check each against a plain decode. Without FILE it makes an H.264 video with\n"
            "B-frames first, and a page, and reads the text in both. The exit code is 1 if a check fails."
        ),
        epilog=(
            "examples:\n"
            "  mediatensor demo\n"
            "  mediatensor demo talk.mp4 -o talk-demo\n"
            "\n"
            "The output folder gets sheet.png, a contact sheet. Without FILE it gets clip.mp4, the video, page.png,\n"
            "the page, and page-read.png, frame-read.png and timeline.png, what was read in them. Reading needs the\n"
            "extra `ocr`.\n"
        ),
    )
    parser.add_argument("file", nargs="?", metavar="FILE", help="your own video (default: generate one)")
    parser.add_argument(
        "--files", type=Path, metavar="DIR", help="only write the files that the documentation uses into DIR"
    )
    _add_folder(parser, "mediatensor-demo", or_standard=False)
    _add_overwrite(parser)


def _add_files(parser: argparse.ArgumentParser, kind: str) -> None:
    """``FILE ...``: what is read; ``kind`` is ``"media"`` or ``"video"``."""
    parser.add_argument("files", nargs="+", metavar="FILE", help=f"a {kind} file, a URL, or - for standard input")


def _add_folder(parser: argparse.ArgumentParser, default: str, *, or_standard: bool = True) -> None:
    """``--output``: a folder for what is written, or standard output."""
    standard = "; - is standard output" if or_standard else ""
    parser.add_argument(
        "-o", "--output", type=Path, default=Path(default), metavar="FOLDER",
        help=f"where the files go; made if it is not there{standard} (default: {default})",
    )  # fmt: skip


def _add_time_range(parser: argparse.ArgumentParser) -> None:
    """``--start`` and ``--stop``."""
    parser.add_argument(
        "--start", type=time_in_seconds, metavar="TIME", help="from this time (83.5, 1:23.5 or 0:01:23.5)"
    )
    parser.add_argument("--stop", type=time_in_seconds, metavar="TIME", help="up to this time")


def _add_stream(group: Any, name: str = "--stream", what: str = "the video stream's index (default: best)") -> None:
    """A stream by its index in the file."""
    group.add_argument(name, type=non_negative_int, metavar="N", help=what)


def _add_overwrite(parser: Any) -> None:
    """``--overwrite``."""
    parser.add_argument("--overwrite", action="store_true", help="replace files that exist")


def _add_json(parser: argparse.ArgumentParser) -> None:
    """``--json``; the description of what it prints is the command's own."""
    parser.add_argument("--json", action="store_true", help="print JSON (described below)")
