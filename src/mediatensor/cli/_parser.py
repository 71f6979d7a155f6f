"""The command's argument parser, with the options of the commands for media files and datasets.

This module imports neither torch nor FFmpeg, so that ``--help``, ``--version`` and usage errors are fast.
"""

from __future__ import annotations

import argparse
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .. import __version__
from ._arguments import (
    CommandParser,
    add_command,
    add_files,
    add_flag,
    add_folder,
    add_json,
    add_option,
    add_overwrite,
    fill,
    frame_indices,
    non_negative_int,
    picture_size,
    port_number,
    positive_int,
    positive_number,
    share_below_one,
    time_in_seconds,
)
from ._parser_text import add_evaluate, add_find, add_ocr, add_train


def build_parser() -> argparse.ArgumentParser:
    """Return the command's argument parser.

    In parsed arguments, the attribute ``command`` is the name of the command.
    """
    parser = CommandParser(
        prog="mediatensor",
        description=fill(
            "Look into media files, draw contact sheets, extract frames, audio and subtitles, read the text in pixels, "
            "check data sets, and prove that frames are decoded exactly."
        ),
        epilog=(
            "examples:\n"
            "  mediatensor demo                        show the library at work on a video\n"
            "  mediatensor probe talk.mp4              describe a file\n"
            "  mediatensor sheet talk.mp4 -o talk.png  draw sixteen frames in one picture\n"
            "  mediatensor scenes film.mp4             list the scenes of a video\n"
            "  mediatensor speech talk.mp4             list the times of speech\n"
            "  mediatensor extract talk.mp4 --fps 1    write frames, audio and subtitles\n"
            "  mediatensor ocr scan.pdf -o text        read a document\n"
            "  mediatensor ocr talk.mp4 -o text        read captions, as subtitles\n"
            "  mediatensor find 'error 503' *.mp4      find where a text is shown\n"
            "  mediatensor train recognition --help    train a reader on your lines\n"
            "  mediatensor evaluate recognition lines.jsonl\n"
            "  mediatensor verify talk.mp4             compare with a linear decode\n"
            "  mediatensor check videos/               find damaged and odd files\n"
            "  mediatensor doctor                      test this installation\n"
            "  mediatensor serve                       open a page in your browser\n"
            "\n"
            "- as a file is standard input, and -o - is standard output.\n"
            "\n"
            "exit codes:\n"
            "  0  done\n"
            "  1  verify or demo found a difference, check found a bad file, doctor found\n"
            "     a fault, or find found nothing\n"
            "  2  wrong usage, or a file or a page that cannot be read\n"
        ),
    )
    versions = f"mediatensor {__version__} (av {version('av')}, torch {version('torch')})"
    parser.add_argument("--version", action="version", version=versions, help="print the versions and exit")
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="command", required=True, parser_class=CommandParser
    )
    for add_command_to in (
        _add_probe, _add_sheet, _add_scenes, _add_speech, _add_extract, add_ocr, add_find, add_train, add_evaluate,
        _add_verify, _add_check, _add_doctor, _add_serve, _add_demo,
    ):  # fmt: skip
        add_command_to(commands)
    return parser


def _add_time_range(parser: argparse.ArgumentParser) -> None:
    add_option(
        parser, "--start TIME", time_in_seconds,
        "start time, such as 83.5, 1:23.5 or 0:01:23.5 (default: the start of the stream)",
    )  # fmt: skip
    add_option(parser, "--stop TIME", time_in_seconds, "stop time, not included (default: the end of the stream)")


def _add_stream(group: Any, name: str = "--stream", kind: str = "video") -> None:
    add_option(group, f"{name} N", non_negative_int, f"index of the {kind} stream in the file (default: the best)")


_PROBE_JSON = """\
The JSON of --json, an object for each file (a key is always there; null means
unknown; times in seconds; fractions as "a/b"):

  file, file_size_bytes, container, duration_seconds, bit_rate
  tags        tags of the container: {"title": "Lesson 1"}
  chapters[]  start_seconds, end_seconds, title, tags
  streams[]   every stream, by its header:
    index, media_type, codec, duration_seconds, bit_rate, width, height,
    average_fps, sample_rate, num_channels, channel_layout, language,
    disposition[], tags
  video       the chosen video stream; null if there is none that decodes:
    stream_index, codec, profile, pixel_format
    width, height                  of decoded frames, after rotation
    stored_width, stored_height    in the file, before rotation
    display_width, display_height  with the pixel aspect ratio applied
    pixel_aspect_ratio, rotation   rotation in degrees, counter-clockwise
    color_primaries, color_transfer, color_space, color_range
    scanned                        false with --no-scan: values of the header
    num_frames, average_fps, is_constant_frame_rate
    min_frame_step_seconds, max_frame_step_seconds
    num_key_frames, gop_length_min, gop_length_median, gop_length_max
    begin_seconds, end_seconds, duration_seconds
    anomalies[]                    sentences about irregularities of the stream
  audio       the chosen audio stream by its header, or null (the duration of
              joined FLAC, Ogg and WavPack files covers all their parts):
    stream_index, codec, profile, sample_rate, num_channels, channel_layout,
    sample_format, bit_rate, language, begin_seconds, duration_seconds
  subtitles   the chosen subtitle stream, or null:
    stream_index, codec, language
    is_text                        true for characters, false for pictures
    scanned, num_subtitles, begin_seconds, end_seconds, anomalies[]
  error       why there is no "video", or null"""


def _add_probe(commands: Any) -> None:
    parser = add_command(
        commands,
        "probe",
        summary="describe a file: streams, exact frame count, chapters, tags",
        description=(
            "Print the contents of a media file. The video stream is scanned from its first packet to its last, so "
            "that the frame count, the frame rate and the key frames are exact, whatever the headers say. Subtitles "
            "are read and counted; audio is described by its header."
        ),
        examples=(
            ("mediatensor probe talk.mp4", ""),
            ("mediatensor probe *.mp4 --json | jq .video.num_frames", ""),
            ("mediatensor probe recording.mkv --stream 2", ""),
        ),
        notes=_PROBE_JSON,
    )
    add_files(parser, "media")
    add_json(parser)
    add_option(
        parser, "--stream N", non_negative_int, "index of the stream to describe (default: the best of each kind)"
    )
    add_flag(parser, "--no-scan", "read only the headers: fast, but not exact")


def _add_sheet(commands: Any) -> None:
    parser = add_command(
        commands,
        "sheet",
        summary="draw frames of a video in one picture, with their times",
        description=(
            "Draw frames that are spread evenly over a video into one picture. Each is labelled with its index and its "
            "time; a diamond marks key frames. Rotation and pixel aspect ratio are applied."
        ),
        examples=(
            ("mediatensor sheet talk.mp4 -o talk.png", ""),
            ("mediatensor sheet talk.mp4 -o minute.webp --start 1:00 --stop 2:00 --frames 30", ""),
            ("mediatensor sheet videos/*.mp4 -o sheets", "sheets/NAME.png for each"),
        ),
    )
    add_files(parser, "video")
    add_option(
        parser, "-o, --output PATH", Path,
        "picture to write: .png, .jpg or .webp (default: sheet.png), or - for a PNG to standard output; for several "
        "files, a folder (default: sheets)",
    )  # fmt: skip
    add_overwrite(parser)
    add_option(parser, "--frames N", positive_int, "number of frames", 16)
    add_option(parser, "--columns N", positive_int, "frames in a row (default: a balanced grid)")
    add_option(parser, "--width PX", positive_int, "width of a frame in pixels (default: the area of 320x180)")
    _add_time_range(parser)
    _add_stream(parser)


def _add_scenes(commands: Any) -> None:
    parser = add_command(
        commands,
        "scenes",
        summary="list the scenes of videos, as text, rows or pictures",
        description=(
            "Find the cuts of videos, and print the scenes between them. Cuts and fades through black are found to the "
            "frame; dissolves are not found. Frames that cannot be decoded are skipped."
        ),
        examples=(
            ("mediatensor scenes film.mp4", ""),
            ("mediatensor scenes film.mp4 --sheet scenes.png", "a frame of each scene"),
            ("mediatensor scenes videos/*.mp4 -o scenes.csv", "rows for VideoClips"),
        ),
        notes=(
            "The JSON of --json, an object for each scene: file, scene (its number), first_frame, last_frame, "
            "begin_seconds, end_seconds, score (how much its first frame differs from the one before it, in levels of "
            "255; null for the first scene)."
        ),
    )
    add_files(parser, "video")
    add_option(
        parser, "-o, --output PATH", Path,
        "write a row for each scene, .csv, .jsonl, or - for a CSV to standard output: path, start_seconds, "
        "end_seconds, first_frame, last_frame, score (empty for the first scene of a file)",
    )  # fmt: skip
    add_option(
        parser, "--sheet PATH", Path, "draw a frame of each scene: into a picture, or for several files into a folder"
    )
    add_overwrite(parser)
    add_option(parser, "--min-seconds S", positive_number, "length of the shortest scene in seconds", 0.5)
    add_option(parser, "--threshold N", positive_number, "smallest difference of a cut, in levels of 255", 20.0)
    add_flag(
        parser, "--key-frames-only",
        "decode only key frames: many times faster, but a cut is found at the next key frame",
    )  # fmt: skip
    add_json(parser)


def _add_speech(commands: Any) -> None:
    parser = add_command(
        commands,
        "speech",
        summary="list the times of speech, as text or rows",
        description="Find the segments of files that contain speech, with the network of Silero VAD.",
        examples=(
            ("mediatensor speech talk.mp4", ""),
            ("mediatensor speech talks/*.mp4 -o speech.csv", "rows for AudioClips"),
            ("mediatensor speech talk.mp4 --min-pause-seconds 2", "join speech across short pauses"),
        ),
        notes=(
            "The JSON of --json, an object for each segment: file, start_seconds, end_seconds, probability (the mean "
            "probability of speech in it)."
        ),
    )
    add_files(parser, "media")
    add_option(
        parser, "-o, --output PATH", Path,
        "write a row for each segment, .csv, .jsonl, or - for a CSV to standard output: path, start_seconds, "
        "end_seconds, probability",
    )  # fmt: skip
    add_overwrite(parser)
    add_option(parser, "--threshold P", share_below_one, "smallest probability of speech, below 1", 0.5)
    add_option(parser, "--min-speech-seconds S", time_in_seconds, "length of the shortest segment", 0.25)
    add_option(parser, "--min-pause-seconds S", time_in_seconds, "length of the shortest pause between segments", 0.1)
    add_option(parser, "--pad-seconds S", time_in_seconds, "time added before and after each segment", 0.03)
    add_json(parser)


def _add_extract(commands: Any) -> None:
    parser = add_command(
        commands,
        "extract",
        summary="write frames as images, audio as WAV, subtitles as SubRip",
        description=(
            "Write the contents of a media file as separate files: frames as images (the default), audio as WAV, "
            "subtitles as SubRip. PNG images are the frames bit for bit. Every file is written whole or not at all."
        ),
        examples=(
            ("mediatensor extract talk.mp4 -o frames --every 10", "an image every 10 seconds"),
            ("mediatensor extract talk.mp4 -o frames --frames 0,10,-1", ""),
            ("mediatensor extract talk.mp4 --images jpg --fps 1 --stop 2:00 --size 320x180", ""),
            ("mediatensor extract talk.mp4 --audio --sample-rate 16000 --num-channels 1", ""),
            ("mediatensor extract talk.mkv --audio --subtitles --images png --fps 1", ""),
            ("mediatensor extract talk.mkv -o - --audio | ffplay -", ""),
        ),
        notes=(
            "Images are named NAME_INDEX_TIMEs.png, so that they sort by time; audio and subtitles NAME.wav and "
            "NAME.srt. WAV has 16 bits: samples are rounded to the nearest step, and clipped beyond full scale. A WAV "
            "starts at --start, or where the audio starts; gaps in the audio are closed. Subtitles keep the times of "
            "the file. A frame that does not decode is left out, and the exit code is 2."
        ),
    )
    parser.add_argument("file", metavar="FILE", help="a media file, a URL, or - for standard input")
    add_folder(parser, "extracted")
    add_overwrite(parser)
    _add_time_range(parser)
    _add_image_options(parser.add_argument_group("images"))
    audio = parser.add_argument_group("audio")
    add_flag(audio, "--audio", "write NAME.wav")
    add_option(audio, "--sample-rate HZ", positive_int, "sample rate in hertz (default: unchanged)")
    add_option(audio, "--num-channels N", positive_int, "number of channels; fewer are the mean (default: unchanged)")
    _add_stream(audio, "--audio-stream", "audio")
    subtitles = parser.add_argument_group("subtitles")
    add_flag(subtitles, "--subtitles", "write NAME.srt, as plain text")
    _add_stream(subtitles, "--subtitle-stream", "subtitle")
    add_option(subtitles, "--encoding NAME", str, "encoding of the subtitles, such as cp1252 (default: utf-8)")


def _add_image_options(group: Any) -> None:
    add_option(
        group, "--images png|jpg", str,
        "format of the images (default: png); with --audio or --subtitles, write images as well",
    )  # fmt: skip
    which = group.add_mutually_exclusive_group()
    add_option(which, "--every SECONDS", positive_number, "write the frame shown at each multiple of this time")
    add_option(which, "--fps RATE", positive_number, "write this many frames a second")
    add_option(
        which, "--frames I,J,...", frame_indices,
        "write these frames; negative ones count from the end (--frames=-2,-1)",
    )  # fmt: skip
    add_option(group, "--size WxH", picture_size, "size of the images in pixels (default: unchanged)")
    _add_stream(group)


def _add_verify(commands: Any) -> None:
    parser = add_command(
        commands,
        "verify",
        summary="compare frames fetched at random with a linear decode",
        description=(
            "Decode a video once from its first packet to its last, without a seek or an index, in one thread. Then "
            "fetch frames out of order - one by one, by time, in pairs, in batches, in clips, backwards - and compare "
            "each with the linear decode, bit for bit. The exit code is 1 if anything differs. Frames that differ even "
            "between two linear decodes count as undetermined: data are missing, and the codec leaves old memory there."
        ),
        examples=(
            ("mediatensor verify talk.mp4", ""),
            ("mediatensor verify talk.mp4 --all", "slow for long videos"),
            ("mediatensor verify talk.mp4 --json | jq .identical", ""),
        ),
        notes=(
            "The JSON of --json, an object for each file: file, stream_index, seed, num_frames_at_open, num_frames, "
            "num_frames_linear, checks[] (kind, num_requests, num_frames, num_mismatches, num_undetermined), "
            "identical, num_mismatches, num_undetermined, mismatches[] (the first ones: kind, frame_index, "
            "expected_pts_seconds, pts_seconds, max_abs_difference, is_frame, reason; null means unknown)."
        ),
    )
    add_files(parser, "video")
    amount = parser.add_mutually_exclusive_group()
    add_option(
        amount, "--frames N", positive_int,
        "number of frames to fetch one by one; the other ways fetch about as many", 300,
    )  # fmt: skip
    add_flag(amount, "--all", "fetch every frame one by one")
    add_option(parser, "--seed S", int, "seed of the random order", 0)
    _add_stream(parser)
    add_json(parser)


def _add_check(commands: Any) -> None:
    parser = add_command(
        commands,
        "check",
        summary="find damaged, odd and duplicate files of a data set",
        description=(
            "Open every file of a data set, decode all of it, and report problems: files that cannot be read or are "
            "cut off, damaged frames and audio, fewer frames than the header declares, gaps in time, frozen and black "
            "stretches, lost frames, silence and clipping, audio, cameras and tables that drift apart, wrong labels, "
            "copies, and files that are unlike the rest. The exit code is 1 if a file or a table is bad. The data set "
            "itself is never changed."
        ),
        examples=(
            ("mediatensor check videos/", ""),
            ("mediatensor check train.csv --fix good.csv --html report.html", ""),
            ("mediatensor check 'train-{000..099}.tar' --state check.state", "can be resumed"),
            ("mediatensor check videos/ --bad frozen --bad duplicate --json", ""),
        ),
        notes=(
            "Bad: unreadable, nothing-decodes, no-video, no-sound, cut-off, corrupt, corrupt-sound, frame-count, "
            "table-rows, table-times, segment-outside, wrong-label.\n\n"
            "Worth a look, and bad with --bad: repeated-times, gap, sound-gap, first-frame-not-key, sparse-key-frames, "
            "frozen, black, dropped-frames, sound-length, sound-drift, camera-drift, clipped, silent, duplicate, "
            "near-duplicate, two-labels, missing-label, rare-label, label-gap, table-facts, segment-cut, odd-size, "
            "odd-rotation, odd-rate, odd-sound. Notes: odd-codec, variable-rate, repeated-frames.\n\n"
            "The JSON of --json, one object: num_files, num_bad, is_in_order, bad_kinds[], counts{kind: files}, "
            "label_counts{label: rows}, good_episodes[], findings[] (of the whole data set), files[] (row, name, "
            "is_bad, findings[] (kind, severity, message, advice, start_seconds, end_seconds, start_frame, end_frame, "
            "episode, row), facts (num_frames, average_fps, longest_gop, random_access_frames, ...); null means "
            "unknown)."
        ),
    )
    parser.add_argument(
        "files", nargs="+", metavar="DATASET",
        help="a folder, a manifest (.csv, .tsv, .jsonl, .json, .parquet), tar shards, or media files",
    )  # fmt: skip
    add_option(
        parser, "--kind {video,audio}", str,
        "kind of files to find in a folder, and of the stream that each must have", "video",
    )  # fmt: skip
    add_option(parser, "--media-column NAME", str, "column of a manifest with the files (default: found by its name)")
    add_option(parser, "--label-column NAME", str, "column of a manifest with the labels (default: found by its name)")
    add_option(
        parser, "--classes N", positive_int,
        "number of classes: report labels that are not whole numbers from 0 to N - 1",
    )  # fmt: skip
    add_option(
        parser, "--bad KIND", str,
        "kind of finding that also makes a file bad; may be repeated", action="append", default=[],
    )  # fmt: skip
    add_flag(parser, "--no-decode", "read only headers and packets: faster, but finds less")
    add_option(
        parser, "--workers N", non_negative_int,
        "number of worker processes; 0 checks in this one (default: one a core)",
    )  # fmt: skip
    add_option(parser, "--timeout SECONDS", positive_number, "seconds after which a file counts as unreadable", 600.0)
    add_option(parser, "--state FILE", str, "file that keeps the results, to resume from")
    add_option(parser, "--html FILE", str, "write a page with a picture of each reported file")
    add_option(parser, "--fix FILE", str, "write a manifest of the rows that are not bad, .csv or .jsonl")
    add_overwrite(parser)
    add_json(parser)


def _add_doctor(commands: Any) -> None:
    parser = add_command(
        commands,
        "doctor",
        summary="test this installation, and show what each extra adds",
        description=(
            "Print versions, codecs and GPUs; write a small video and read it back exactly; load a batch in two worker "
            "processes; read a line of text; and warn of too little shared memory, too few open files, and a quota of "
            "cores. All of it runs in a separate process, so that a package that crashes is found as well. The exit "
            "code is 1 if something that is installed does not work."
        ),
        examples=(("mediatensor doctor", ""), ("mediatensor doctor --json > doctor.json", "for a bug report")),
    )
    add_flag(parser, "--json", "print a JSON object")


def _add_serve(commands: Any) -> None:
    parser = add_command(
        commands,
        "serve",
        summary="open a page in your browser, and an HTTP interface",
        description=(
            "Serve this library for images, PDF files and videos: a page for browsers, and an interface for programs, "
            "which /openapi.json describes. Uploads are read in separate processes with limits on time and memory, and "
            "are deleted with their jobs. Only this machine can connect, unless you name another --host; then clients "
            "need a token. Needs the extra `serve`."
        ),
        examples=(
            ("mediatensor serve", "then open http://127.0.0.1:8000/"),
            ("mediatensor serve --port 9000 --jobs 4 --max-upload-bytes 200000000", ""),
            ("MEDIATENSOR_TOKEN=... mediatensor serve --host 0.0.0.0", ""),
        ),
        notes=(
            "Without --token and without the variable MEDIATENSOR_TOKEN, a token is made and printed if one is needed. "
            "The connection is not encrypted: if someone else can listen, put a server with TLS in front of it."
        ),
    )
    add_option(parser, "--host ADDRESS", str, "address to listen on", "127.0.0.1")
    add_option(parser, "--port N", port_number, "port; 0 for any free one", 8000)
    add_option(parser, "--token TEXT", str, "token that clients must send; safer in MEDIATENSOR_TOKEN")
    add_option(
        parser, "--allow-host NAME", str,
        "host name under which clients may call, in addition to this machine's; may be repeated",
        action="append", default=[],
    )  # fmt: skip
    limits = parser.add_argument_group("limits")
    add_option(limits, "--max-upload-bytes N", positive_int, "size of the largest upload in bytes", 1 << 30)
    add_option(limits, "--timeout SECONDS", positive_number, "seconds to work on one upload", 600.0)
    add_option(
        limits, "--max-memory-bytes N", positive_int, "memory for reading in bytes, in addition to the models", 4 << 30
    )
    add_option(limits, "--jobs N", positive_int, "uploads read at the same time", 2)
    add_option(
        limits, "--keep SECONDS", positive_number, "seconds to keep uploads and results of finished jobs", 1800.0
    )
    add_option(limits, "--folder FOLDER", Path, "folder of uploads and results (default: a temporary one)")


def _add_demo(commands: Any) -> None:
    parser = add_command(
        commands,
        "demo",
        summary="show the library at work on a video, checked and timed",
        description=(
            "Open a video, fetch frames by index and by time, sample clips, load batches in worker processes, and "
            "check each against a plain decode. Without FILE, make an H.264 video with B-frames and a page first, and "
            "read the text in both. The exit code is 1 if a check fails."
        ),
        examples=(("mediatensor demo", ""), ("mediatensor demo talk.mp4 -o talk-demo", "")),
        notes=(
            "The output folder gets sheet.png, a contact sheet. Without FILE it also gets clip.mp4, page.png, "
            "page-read.png, frame-read.png and timeline.png. Reading text needs the extra `ocr`."
        ),
    )
    parser.add_argument("file", nargs="?", metavar="FILE", help="your video (default: make one)")
    add_option(parser, "--files DIR", Path, "only write the files that the documentation uses into DIR")
    add_folder(parser, "mediatensor-demo", or_standard=False)
    add_overwrite(parser)
