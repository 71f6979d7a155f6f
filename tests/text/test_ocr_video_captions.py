"""Read captions back from SubRip, WebVTT and ASS with FFmpeg and `SubtitleDecoder`."""

from __future__ import annotations

import io
import random
import re
import shutil
import subprocess
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import pytest

from mediatensor.decoders import SubtitleDecoder
from mediatensor.errors import InvalidArgumentError, WriteError
from mediatensor.ocr.video import Captions, Place, TextTrack, TrackLine

BOTTOM = ((0.3, 0.86), (0.7, 0.93))
FORMATS = {"srt": ("srt", 1000), "vtt": ("webvtt", 1000), "ass": ("ass", 100)}
JOINER = "\u2060"
HOSTILE = [
    "a --> b", "00:00:03,000 --> 00:00:04,000", "<i>slanted</i>", "1 < 2 > 0", "a < b & c > d", "<b", "x</b>y",
    "&lt;b&gt;", "&amp; & &", "{\\an8}top", "{y:i}", "{b} }{", "new\\Nline \\h \\n", "\\", "end\\", "12", "NOTE this",
    "STYLE", "WEBVTT", "Dialogue: 0,0:00:01.00,x", "a,b,,c", "[Events]", "; no", "日本語 — «ß» ✓", "שלום", "%s {0}",
    '"quoted"', "<00:03.000>", "<v Bob>", "<c.yellow>", "-- > --", "-->", "<\n>", "{\\\n}",
]  # fmt: skip


def track(text: str, start: float, end: float, box: Any = BOTTOM, **more: Any) -> TextTrack:
    first = max(0, round(start * 30))
    return TextTrack(text, "caption", start, end, first, max(first, round(end * 30) - 1), box, 0.9, **more)


def read_by_ffmpeg(rendered: str, format: str) -> list[tuple[Fraction, Fraction, str]]:
    """Return start, end and plain text of each subtitle, decoded by FFmpeg."""
    found = []
    with av.open(io.BytesIO(rendered.encode()), format=FORMATS[format][0]) as container:
        stream = container.streams.subtitles[0]
        for packet in container.demux(stream):
            if packet.pts is None:
                continue
            start, duration = packet.pts * packet.time_base, packet.duration * packet.time_base
            shown = stream.codec_context.decode2(packet)
            lines = [rect.ass.decode().split(",", 8)[8] for rect in shown]
            found.append((start, start + duration, "\n".join(map(plain_ass, lines))))
    return found


def plain_ass(line: str) -> str:
    """Return the text of an ASS line with line breaks, without override codes and word joiners."""
    line = re.sub(r"(?<!\\)\{[^}]*\}", "", line)
    return line.replace("\\N", "\n").replace("\\{", "{").replace("\\}", "}").replace(JOINER, "")


def read_by_decoder(rendered: str) -> list[tuple[float, float, str]]:
    with SubtitleDecoder(rendered.encode()) as decoder:
        return [
            (round(one.start_seconds, 6), round(one.end_seconds, 6), one.text.replace(JOINER, "")) for one in decoder
        ]


def random_tracks(generator: random.Random, rate: float, count: int) -> list[TextTrack]:
    """Return captions without gaps between them, some of a single frame."""
    words = ["Good", "evening", "we", "are", "not", "alone", "Grüße", "日本", "1 < 2", "R&D"]
    tracks, frame = [], generator.randrange(5)
    for _ in range(count):
        last = frame + generator.choice([0, 0, 1, 2, 7, 40, 90])
        lines = [" ".join(generator.choices(words, k=generator.randint(1, 5))) for _ in range(generator.randint(1, 3))]
        tracks.append(TextTrack("\n".join(lines), "caption", frame / rate, (last + 1) / rate, frame, last, BOTTOM, 0.9))
        frame = last + 1 + generator.choice([0, 0, 0, 1, 30])
    return tracks


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("rate", [24, 24000 / 1001, 30, 60, 120, 240, 1000 / 3])
def test_times_are_read_back(format: str, rate: float) -> None:
    tracks = random_tracks(random.Random(rate), rate, 60)
    units = FORMATS[format][1]
    rendered = Captions(tracks).render(format)
    found = read_by_ffmpeg(rendered, format)
    assert [text for _, _, text in found] == [track.text for track in tracks]
    assert [(float(start), float(end), text) for start, end, text in found] == read_by_decoder(rendered)
    for (start, end, _), track, following in zip(found, tracks, [*found[1:], None], strict=True):
        assert start < end
        if 1 / rate > 1 / units:  # a frame is longer than a unit: the subtitle is there in just its frames
            frames = range(track.first_frame - 2, track.last_frame + 3)
            with_it = [frame for frame in frames if start <= Fraction(frame / rate + 1e-7) < end]
            assert with_it == list(range(track.first_frame, track.last_frame + 1))
            assert (start, end) == (
                Fraction(int(track.start_seconds * units + 1e-3), units),
                Fraction(int(track.end_seconds * units + 1e-3), units),
            )
        if following is not None:
            assert following[0] >= end
    pairs = list(zip(pairwise(tracks), pairwise(found), strict=True))
    assert any(a.end_seconds == b.start_seconds for (a, b), _ in pairs)
    assert all(x[1] == y[0] for (a, b), (x, y) in pairs if a.end_seconds == b.start_seconds)


@pytest.mark.parametrize("format", FORMATS)
def test_hostile_texts_are_read_back(format: str) -> None:
    tracks = [track(text, 2.0 * number, 2.0 * number + 1.5) for number, text in enumerate(HOSTILE)]
    tracks += [track(f"{text}\nand more", 100 + 2.0 * n, 101.5 + 2.0 * n) for n, text in enumerate(HOSTILE)]
    rendered = Captions(tracks).render(format)
    assert [text for _, _, text in read_by_decoder(rendered)] == [track.text for track in tracks]
    found = [text for _, _, text in read_by_ffmpeg(rendered, format)]
    assert len(found) == len(tracks)
    if format == "ass":  # FFmpeg gives ASS as it is stored
        assert found == [track.text for track in tracks]
    # FFmpeg turns SubRip and WebVTT into ASS without escaping braces, so that only texts without them can be compared.
    kept = [(text, track.text) for text, track in zip(found, tracks, strict=True) if not set(track.text) & set("{\\")]
    assert len(kept) > 40
    assert [text for text, _ in kept] == [text for _, text in kept]


@pytest.mark.parametrize("format", FORMATS)
def test_plain_text_is_written_as_it_is(format: str) -> None:
    rendered = Captions([track("Isn't it 3 > 2?" if format != "vtt" else "Isn't it?", 0, 1)]).render(format)
    assert JOINER not in rendered
    assert "\\{" not in rendered


@pytest.mark.parametrize("format", FORMATS)
def test_blank_lines_and_control_characters_do_not_occur(format: str) -> None:
    text = "\u2028 one\r\n\r\n\x00\x07 \n\ttwo \x85\n\n\ud800three\ufeff\n"
    found = read_by_ffmpeg(Captions([track(text, 1, 2), track("four", 3, 4)]).render(format), format)
    assert [text for _, _, text in found] == ["one\ntwo\nthree", "four"]
    assert read_by_ffmpeg(Captions([track("\x07", 1, 2), track("four", 3, 4)]).render(format), format)[0][2] == "four"


@pytest.mark.parametrize("format", FORMATS)
def test_empty_captions_are_written(format: str) -> None:
    assert read_by_ffmpeg(Captions([]).render(format), format) == []


@pytest.mark.parametrize("format", FORMATS)
def test_simultaneous_captions_are_all_written(format: str) -> None:
    top = ((0.3, 0.05), (0.7, 0.12))
    found = read_by_ffmpeg(Captions([track("low", 1, 3), track("high", 1, 2, top)]).render(format), format)
    assert [(text, float(start), float(end)) for start, end, text in found] == [("high", 1, 2), ("low", 1, 3)]


def test_a_caption_without_a_duration_is_shown_for_a_moment() -> None:
    ((start, end, _),) = read_by_ffmpeg(Captions([track("flash", 1.0, 1.0)]).render("srt"), "srt")
    assert (start, end) == (1, Fraction(1001, 1000))


def test_offsets_move_all_times_and_none_is_before_zero() -> None:
    captions = Captions([track("a", -0.5, 0.5), track("b", 95_443.75, 95_445.25)])
    assert [one[:2] for one in read_by_ffmpeg(captions.render("srt"), "srt")] == [
        (0, Fraction(1, 2)),
        (Fraction(95_443_750, 1000), Fraction(95_445_250, 1000)),
    ]
    moved = read_by_ffmpeg(captions.render("ass", offset_seconds=-95_443.0), "ass")
    assert moved[1][:2] == (Fraction(3, 4), Fraction(9, 4))
    with pytest.raises(InvalidArgumentError, match="offset_seconds"):
        captions.render("srt", offset_seconds=float("nan"))


def test_webvtt_has_places_of_unusual_captions() -> None:
    boxes = {
        "usual": BOTTOM,
        "top": ((0.3, 0.05), (0.7, 0.12)),
        "left": ((0.05, 0.86), (0.25, 0.93)),
        "right": ((0.7, 0.5), (0.95, 0.6)),
    }
    tracks = [track(name, number, number + 0.5, box) for number, (name, box) in enumerate(boxes.items())]
    cues = [line for line in Captions(tracks).render("vtt").splitlines() if "-->" in line]
    assert [cue.split(" ")[3:] for cue in cues] == [
        [],
        ["line:5%"],
        ["line:86%", "position:5%", "align:left"],
        ["line:50%", "position:95%", "align:right"],
    ]


def test_ass_has_places_and_sizes_in_pixels_of_the_video() -> None:
    left = (
        TrackLine("- No.", ((0.2, 0.80), (0.3, 0.85)), 0.9),
        TrackLine("- Yes, it is.", ((0.2, 0.87), (0.5, 0.92)), 0.9),
    )
    right = TrackLine("one,", ((0.6, 0.1), (0.8, 0.15)), 0.9), TrackLine("two, three", ((0.4, 0.17), (0.8, 0.22)), 0.9)
    moving = tuple(Place(n, n / 30, ((0.1 + n / 10, 0.3), (0.2 + n / 10, 0.4))) for n in range(3))
    tracks = [
        track("middle", 0, 1),
        track("- No.\n- Yes, it is.", 1, 2, ((0.2, 0.80), (0.5, 0.92)), lines=left),
        track("one,\ntwo, three", 2, 3, ((0.4, 0.1), (0.8, 0.22)), lines=right),
        track("goes", 3, 4, moving[0].geometry, places=moving),
    ]
    rendered = Captions(tracks, height=500, width=1000).render("ass")
    assert "PlayResX: 1000\nPlayResY: 500\n" in rendered
    events = [line.split(",", 9)[9] for line in rendered.splitlines() if line.startswith("Dialogue")]
    assert events == [
        "{\\an2\\pos(500,465)\\fs29}middle",
        "{\\an1\\pos(200,460)}- No.\\N- Yes, it is.",
        "{\\an9\\pos(800,50)}one,\\Ntwo, three",
        "{\\an8\\move(150,150,350,150)\\fs41}goes",
    ]
    assert "Style: caption,Arial,20," in rendered


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="needs the ffmpeg program")
@pytest.mark.parametrize("format", FORMATS)
def test_the_ffmpeg_program_reads_the_file(format: str, tmp_path: Path) -> None:
    tracks = random_tracks(random.Random(5), 25, 20)
    path = tmp_path / f"talk.{format}"
    Captions(tracks).save(path)
    run = subprocess.run(
        ["ffmpeg", "-v", "error", "-i", str(path), "-f", "ass", "-"], capture_output=True, check=True, timeout=60
    )
    assert run.stderr == b""
    assert [text for _, _, text in read_by_decoder(run.stdout.decode())] == [track.text for track in tracks]
    assert [time for *time, _ in read_by_decoder(run.stdout.decode())] == [
        [track.start_seconds, track.end_seconds] for track in tracks
    ]


def test_save_takes_the_suffix_or_the_format(tmp_path: Path) -> None:
    captions = Captions([track("Grüße", 1, 2)])
    captions.save(tmp_path / "talk.VTT")
    captions.save(tmp_path / "talk.txt", "srt")
    assert (tmp_path / "talk.VTT").read_text(encoding="utf-8") == captions.render("vtt")
    assert (tmp_path / "talk.txt").read_bytes() == captions.render("srt").encode()
    with pytest.raises(InvalidArgumentError, match=r"srt, vtt, ass.*talk\.txt"):
        captions.save(tmp_path / "talk.txt")
    with pytest.raises(InvalidArgumentError, match="'sub'"):
        captions.save(tmp_path / "talk.srt", "sub")  # type: ignore[arg-type]
    with pytest.raises(WriteError):
        captions.save(tmp_path / "nowhere" / "talk.srt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["talk.VTT", "talk.txt"]


def test_captions_are_ordered_by_start() -> None:
    tracks = [track("b", 2, 3), track("a", 0, 1), track("c", 4, 5)]
    captions = Captions(tracks)
    assert [one.text for one in captions] == ["a", "b", "c"]
    assert captions[-1].text == "c"
    assert captions[1:] == Captions(tracks[::2])
    assert captions == Captions(tracks[::-1])
    assert captions != Captions(tracks, height=5)
    assert captions != tracks
    with pytest.raises(InvalidArgumentError, match="'a line'"):
        Captions(["a line"])  # type: ignore[list-item]
    with pytest.raises(InvalidArgumentError, match="height"):
        Captions([], height=0)
    with pytest.raises(InvalidArgumentError, match="'text'"):
        captions.render("text")  # type: ignore[arg-type]
