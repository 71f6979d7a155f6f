"""Files with subtitles, chapters and tags: texts written by hand, and a Matroska file around them."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np

from media_writing import ClipSpec, add_stream, assign, encode, mux_in_order, subtitle_packets, x264

#: (start, end, plain text) of the files below, read by hand.
SUBRIP_EXPECTED = [
    (1.0, 2.5, "Hello world\nsecond line"),
    (2.0, 4.0, "Red & bold, 1 < 2, {kept}"),
    (60.25, 61.0, "Grüße 日本"),
]

SUBRIP = """\
1
00:00:01,000 --> 00:00:02,500
Hello <i>world</i>
second line

2
00:00:02,000 --> 00:00:04,000
<font color="#ff0000">Red</font> & {\\an8}<b>bold</b>, 1 < 2, {kept}

3
00:01:00,250 --> 00:01:01,000
Grüße 日本
"""

WEBVTT_EXPECTED = [
    (1.0, 2.5, "Hello world\nsecond & line <3"),
    (2.0, 4.0, "Yellow karaoke"),
    (3600.0, 3601.0, "An hour later"),
]

WEBVTT = """\
WEBVTT

NOTE this is not shown

intro
00:01.000 --> 00:02.500 align:start position:10%
<v Bob Smith>Hello <i>world</i></v>
second &amp; line &lt;3

00:02.000 --> 00:04.000
<c.yellow>Yellow</c> <00:03.000>karaoke

01:00:00.000 --> 01:00:01.000
<v.loud Ann>An hour</v> <v Bob>later</v>
"""

ASS_EXPECTED = [
    (1.0, 2.5, "Hello world\nsecond, line"),
    (2.0, 4.0, "top soft\N{NO-BREAK SPACE}hard after {braces}"),
]

ASS = """\
[Script Info]
ScriptType: v4.00+

[V4+ Styles]
Format: Name, Fontname, Fontsize, PrimaryColour, Bold, Italic, Alignment, MarginL, MarginR, MarginV, Encoding
Style: Default,Arial,20,&H00FFFFFF,0,0,2,10,10,10,1
Style: Alt,Arial,20,&H00FFFFFF,0,0,2,10,10,10,1

[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
Dialogue: 0,0:00:01.00,0:00:02.50,Default,Bob,0,0,0,,Hello {\\i1}world{\\i0}\\Nsecond, line
Comment: 0,0:00:01.50,0:00:02.50,Default,,0,0,0,,not shown
Dialogue: 0,0:00:01.60,0:00:02.50,Default,,0,0,0,,{\\p1}m 0 0 l 100 0 100 100{\\p0}
Dialogue: 1,0:00:02.00,0:00:04.00,Alt,,0,0,0,,{\\an8}top\\nsoft\\hhard {\\p1}m 0 0 l 100 0{\\p0}after \\{braces\\}
"""


def write_mkv_with_everything(path: Path) -> Path:
    """Two seconds of video, sound, German and French subtitles, two chapters and tags.

    Streams: 0 video, 1 audio (eng), 2 subtitles (deu), 3 subtitles (fra, "Commentaire", forced).
    """
    german = "1\n00:00:00,500 --> 00:00:01,000\nEins\n\n2\n00:00:01,250 --> 00:00:01,750\nZwei\n"
    french = "1\n00:00:00,750 --> 00:00:01,500\nUn\n"
    spec = ClipSpec("", options=x264(), num_frames=20, rate=10)
    with av.open(str(path), "w", format="matroska", options={"fflags": "bitexact"}) as output:
        output.metadata["title"] = "Lesson"
        video = add_stream(output, spec)
        sound = output.add_stream("pcm_s16le", rate=8000, layout="mono")
        sound.metadata["language"] = "eng"
        packets = assign(encode(video, spec), video) + assign(_sound_packets(sound, 16_000), sound)
        for text, tags in ((german, {"language": "deu"}), (french, {"language": "fra", "title": "Commentaire"})):
            packets += subtitle_packets(text, output)
            packets[-1].stream.metadata.update(tags)
        packets[-1].stream.disposition = av.stream.Disposition.forced
        output.set_chapters([_chapter(1, 0, 1000, "Opening"), _chapter(2, 1000, 2000, "Grüße")])
        mux_in_order(output, packets)
    return path


def write_subtitle_streams(path: Path, streams: Iterable[tuple[str, str, int | None]]) -> Path:
    """A Matroska file of streams of subtitles, each of one at 0 and one at 2 seconds, with an exclamation mark.

    A stream is (text or ``"pictures"``, name of a disposition or ``""``, duration in milliseconds or ``None`` to state
    none).
    """
    with av.open(str(path), "w", format="matroska", options={"fflags": "bitexact"}) as output:
        packets = []
        for text, disposition, duration in streams:
            if text == "pictures":
                stream = output.add_stream("dvdsub")
                stream.time_base = Fraction(1, 1000)
            else:
                stream = subtitle_packets(SUBRIP, output)[0].stream
            stream.disposition = av.stream.Disposition[disposition] if disposition else av.stream.Disposition(0)
            for start, data in ((0, text), (2000, f"{text}!")):
                packet = av.Packet(data.encode())
                packet.stream, packet.pts, packet.dts, packet.time_base = stream, start, start, Fraction(1, 1000)
                packet.duration = duration or 0
                packets.append(packet)
        mux_in_order(output, packets)
    return path


def _chapter(number: int, start: int, end: int, title: str) -> Any:
    return {
        "id": number, "start": start, "end": end, "time_base": Fraction(1, 1000), "metadata": {"title": title}
    }  # fmt: skip


def _sound_packets(stream: Any, num_samples: int) -> list[Any]:
    wave = np.sin(np.arange(num_samples) / 8000 * 2 * np.pi * 440)
    frame = av.AudioFrame.from_ndarray((wave * 10_000).astype(np.int16)[None], format="s16", layout="mono")
    frame.sample_rate, frame.pts, frame.time_base = 8000, 0, Fraction(1, 8000)
    return [*stream.encode(frame), *stream.encode(None)]
