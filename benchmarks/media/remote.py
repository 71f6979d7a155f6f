"""Requests and bytes for one clip of a large file on a web server: ``python -m benchmarks.media.remote``.

The server runs on this machine and counts the bytes that it hands to the network. This includes bytes that a client has
not read when it disconnects, up to the size of the system's buffers: a real network sends some of them as well.
"""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch

from mediatensor.decoders import VideoDecoder

from ..shared.options import make_parser
from ..shared.reports import markdown_table

FRAMES_PER_SECOND = 30
FRAMES_PER_GOP = 60
FRAMES_PER_CLIP = 16
WIDTH, HEIGHT = 640, 480


class Counts:
    """Number of requests, and bytes in response bodies."""

    def __init__(self) -> None:
        self.requests = 0
        self.num_bytes = 0


@contextmanager
def counting_server(path: Path) -> Iterator[tuple[str, Counts]]:
    """Yield (URL of the file, counts)."""
    counts, content = Counts(), path.read_bytes()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Silence."""

        def do_GET(self) -> None:
            counts.requests += 1
            match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            start = int(match[1]) if match else 0
            stop = min(int(match[2]) + 1 if match and match[2] else len(content), len(content))
            self.send_response(206 if match else 200)
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(content)}")
            self.send_header("Content-Length", str(stop - start))
            self.end_headers()
            for at in range(start, stop, 1 << 16):
                counts.num_bytes += self.wfile.write(content[at : min(at + (1 << 16), stop)])

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Clients hang up."""

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/{path.name}", counts
        finally:
            server.shutdown()


def write_files(folder: Path, seconds: int) -> list[Path]:
    """Write the same H.264 video of moving noise, about 2 MB a second, into several containers."""
    noise = np.random.default_rng(0).integers(0, 256, (HEIGHT * 3 // 2 + 64, WIDTH + 64), np.uint8)
    options = {"preset": "ultrafast", "crf": "38", "g": str(FRAMES_PER_GOP), "sc_threshold": "0"}
    original = folder / "moov at the end.mp4"
    with av.open(str(original), "w") as container:
        stream = container.add_stream("libx264", rate=FRAMES_PER_SECOND, options=options)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for number in range(seconds * FRAMES_PER_SECOND):
            top, left = number * 7 % 64, number * 13 % 64
            picture = np.ascontiguousarray(noise[top : top + HEIGHT * 3 // 2, left : left + WIDTH])
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="yuv420p")))
        container.mux(stream.encode(None))
    copies = [folder / "moov in front.mp4", folder / "cues at the end.mkv", folder / "no index.ts"]
    for copy in copies:
        remux(original, copy)
    return [copies[0], original, *copies[1:]]


def remux(original: Path, copy: Path) -> None:
    """Put the packets of a video into another container; into mp4 with the header in front."""
    options = {"movflags": "faststart"} if copy.suffix == ".mp4" else {}
    with av.open(str(original)) as source, av.open(str(copy), "w", options=options) as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.size:
                packet.stream = stream
                target.mux(packet)


def by_mediatensor(seek_mode: str) -> Callable[[str, range], torch.Tensor]:
    def decode(url: str, clip: range) -> torch.Tensor:
        with VideoDecoder(url, seek_mode=seek_mode) as decoder:
            return decoder.get_frames_at(clip).data

    return decode


def by_pyav(url: str, clip: range) -> torch.Tensor:
    """Seek by time and decode with PyAV, over FFmpeg's own HTTP client.

    In MPEG-TS, FFmpeg seeks to the next key frame. After the last key frame, the result is empty.
    """
    frames: list[torch.Tensor] = []
    with contextlib.suppress(av.EOFError), av.open(url) as container:
        stream = container.streams.video[0]
        seconds_per_tick = stream.time_base
        first = (stream.start_time or 0) + round(clip.start / FRAMES_PER_SECOND / seconds_per_tick)
        container.seek(first, stream=stream)
        for frame in container.decode(stream):
            if frame.pts >= first:
                frames.append(torch.from_numpy(frame.to_ndarray(format="rgb24")))
            if len(frames) == len(clip):
                break
    return torch.stack(frames).permute(0, 3, 1, 2) if frames else torch.empty(0)


def ways() -> dict[str, Callable[[str, range], torch.Tensor]]:
    """Return the available ways to read a clip from a URL, by name."""
    found = {
        "mediatensor, exact": by_mediatensor("exact"),
        "mediatensor, approximate": by_mediatensor("approximate"),
        "PyAV, seek and decode": by_pyav,
    }
    with contextlib.suppress(ImportError, RuntimeError, OSError):  # not there, or its FFmpeg is not
        import torchcodec.decoders as torchcodec

        for mode in ("exact", "approximate"):
            found[f"torchcodec, {mode}"] = lambda url, clip, mode=mode: (
                torchcodec.VideoDecoder(url, seek_mode=mode).get_frames_at(list(clip)).data
            )
    return found


def measure(path: Path, clip: range) -> list[dict[str, Any]]:
    """Measure each way and return its row."""
    with VideoDecoder(path) as decoder:
        expected = decoder.get_frames_at(clip).data
    rows = []
    for way, decode in ways().items():
        with counting_server(path) as (url, counts):
            data = decode(url, clip)
        close = data.shape == expected.shape and (data.int() - expected.int()).abs().float().mean() < 8
        rows.append(
            {
                "file": path.name,
                "file_bytes": path.stat().st_size,
                "way": way,
                "requests": counts.requests,
                "bytes": counts.num_bytes,
                "identical": torch.equal(data, expected),
                "same_frames": bool(close),
            }
        )
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    lines = []
    for row in rows:
        share = f"{100 * row['bytes'] / row['file_bytes']:.0f} %"
        identical = "yes" if row["identical"] else "rounded differently" if row["same_frames"] else "no"
        line = [row["file"], row["way"], str(row["requests"]), f"{row['bytes'] / 1e6:.1f}"]
        lines.append([*line, share, identical])
    return markdown_table(["file", "way", "requests", "MB", "of the file", "identical frames"], lines, 2)


def main() -> None:
    parser = make_parser("benchmarks.media.remote", __doc__)
    parser.add_argument("--seconds", type=int, default=30, help="length of the video (default 30)")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="also write the rows as JSON")
    arguments = parser.parse_args()
    start = arguments.seconds * FRAMES_PER_SECOND // 2 + FRAMES_PER_GOP // 6
    with tempfile.TemporaryDirectory() as folder:
        files = write_files(Path(folder), arguments.seconds)
        rows = [row for path in files for row in measure(path, range(start, start + FRAMES_PER_CLIP))]
    print(f"One clip of {FRAMES_PER_CLIP} frames, {FRAMES_PER_GOP} frames a GOP, {arguments.seconds} s:\n")
    print(table(rows))
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
