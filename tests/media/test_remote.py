"""Remote files need few requests and bytes, and give the local file's frames, or errors and no wrong bytes."""

from __future__ import annotations

import os
import pickle
import random
import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
import pytest
import torch

from media_writing import remux
from mediatensor._engine.sources.http import has_ranges
from mediatensor._engine.sources.readers import Reader
from mediatensor._engine.sources.source import make_source
from mediatensor.decoders import VideoDecoder
from mediatensor.errors import OpenError, ReadError, SourceNotFoundError
from range_server import RangeServer, serve

NUM_FRAMES, GOP = 300, 30
CLIP = range(163, 179)  # from the middle of a GOP, without the start of another
BIG_FILES = ("front.mp4", "back.mp4", "big.mkv", "big.ts")


def _write_big_files(folder: Path) -> None:
    """Write the same noise in four containers of more than 20 MB each. No frame can be guessed from another."""
    noise = np.random.default_rng(0).integers(0, 256, (256 * 3 // 2 + 64, 320 + 64), np.uint8)
    options = {"preset": "ultrafast", "tune": "zerolatency", "qp": "21", "g": str(GOP), "sc_threshold": "0"}
    with av.open(str(folder / "back.mp4"), "w") as container:
        stream = container.add_stream("libx264", rate=30, options=options)
        stream.width, stream.height, stream.pix_fmt = 320, 256, "yuv420p"
        for number in range(NUM_FRAMES):
            dy, dx = number * 7 % 64, number * 13 % 64
            picture = np.ascontiguousarray(noise[dy : dy + 384, dx : dx + 320])
            frame = av.VideoFrame.from_ndarray(picture, format="yuv420p")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    for name in BIG_FILES:
        if name != "back.mp4":
            remux(folder / "back.mp4", folder / name, movflags="faststart")


@pytest.fixture(scope="module")
def big_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("big")
    _write_big_files(folder)
    assert all((folder / name).stat().st_size > 20e6 for name in BIG_FILES)
    return folder


@pytest.fixture(scope="module")
def expected_clip(big_files: Path) -> torch.Tensor:
    with VideoDecoder(big_files / "back.mp4") as decoder:
        return decoder.get_frames_at(CLIP).data


@pytest.fixture
def server(big_files: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RangeServer]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with serve(big_files) as running:
        yield running


@pytest.fixture
def small(clip: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RangeServer]:
    """Serve the small clip, and noise of three requests' length."""
    # Private values, so that tests do not wait half a minute for a silent server.
    monkeypatch.setattr("mediatensor._engine.sources.http.TIMEOUT_SECONDS", 1.0)
    monkeypatch.setattr("mediatensor._engine.sources.http._MIN_BYTES_PER_SECOND", 1_000_000)
    noise = clip.parent / "noise.bin"
    noise.write_bytes(random.Random(0).randbytes(600_001))
    with serve(clip.parent) as running:
        yield running


# Few requests, few bytes


@pytest.mark.parametrize(
    ("name", "seek_mode", "num_requests", "share"),
    [
        # A GOP is a tenth of the file. The header is read twice, for the demuxer and for the index.
        ("front.mp4", "exact", 12, 0.25),
        ("back.mp4", "exact", 12, 0.25),
        *((name, "approximate", 14, 0.4) for name in ("front.mp4", "back.mp4", "big.mkv")),
    ],
)
def test_clip_fetches_header_and_one_gop(
    server: RangeServer, expected_clip: torch.Tensor, name: str, seek_mode: Any, num_requests: int, share: float
) -> None:
    with VideoDecoder(f"{server.url}/{name}", seek_mode=seek_mode) as decoder:
        assert torch.equal(decoder.get_frames_at(CLIP).data, expected_clip)
        assert len(decoder) == NUM_FRAMES
    assert len(server.requests) <= num_requests
    assert server.num_bytes < (server.folder / name).stat().st_size * share


@pytest.mark.parametrize("name", ["big.mkv", "big.ts"])
def test_a_scan_reads_the_file_once_in_long_requests(
    server: RangeServer, expected_clip: torch.Tensor, name: str
) -> None:
    file_bytes = (server.folder / name).stat().st_size
    with VideoDecoder(f"{server.url}/{name}") as decoder:
        assert torch.equal(decoder.get_frames_at(CLIP).data, expected_clip)
        assert len(server.requests) <= 50
        # Finding the streams of a transport stream reads its beginning and its end beforehand.
        assert server.num_bytes < file_bytes * 2
        server.reset()
        decoder.get_frames_at(range(40, 50))
        assert server.num_bytes < file_bytes * 0.4


def test_one_connection_serves_a_handle(server: RangeServer) -> None:
    with VideoDecoder(f"{server.url}/front.mp4", seek_mode="approximate") as decoder:
        decoder.get_frames_at(CLIP)
    assert len(server.requests) > 2
    assert server.num_connections == 1


def _reader(url: str) -> Reader:
    reader = make_source(url).open()
    assert isinstance(reader, Reader)
    return reader


def test_path_is_requested_unchanged() -> None:
    # Keys of object stores can start with a slash. The standard library writes such paths in another way since 3.13.
    # Some servers redirect to paths that are not escaped.
    answers = [b"302 Found\r\nLocation: /\xc3\xbc/\xe2\x82\xac%20.mp4#x", b"404 Not Found"]
    lines: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer_all() -> None:
            for answer in 2 * answers:  # an address that has expired is asked for again
                connection, _ = server.accept()
                with connection, connection.makefile("rb") as file:
                    lines.append(file.readline())
                    connection.sendall(b"HTTP/1.1 " + answer + b"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")

        thread = threading.Thread(target=answer_all, daemon=True)
        thread.start()
        with pytest.raises(SourceNotFoundError):
            make_source(f"http://127.0.0.1:{server.getsockname()[1]}//folder//a b.mp4?key=x//y").open()
        thread.join(10)
    assert lines == 2 * [
        b"GET //folder//a%20b.mp4?key=x//y HTTP/1.1\r\n",
        b"GET /%C3%BC/%E2%82%AC%20.mp4 HTTP/1.1\r\n",
    ]


def test_announced_range_is_one_request(server: RangeServer) -> None:
    content = (server.folder / "front.mp4").read_bytes()
    reader = _reader(f"{server.url}/front.mp4")
    server.reset()
    reader.will_need(10_000_000, 12_000_000)
    reader.seek(10_000_000)
    data = b"".join(reader.read(32768) for _ in range(61))
    assert data == content[10_000_000 : 10_000_000 + 61 * 32768]
    assert len(server.requests) == 1
    assert server.num_bytes < 2_000_000 + 2 * 65536
    reader.close()


@pytest.mark.parametrize("name", ["front.mp4", "back.mp4"])
def test_server_without_ranges_serves_exact_frames(server: RangeServer, expected_clip: torch.Tensor, name: str) -> None:
    server.fault = "ignore ranges"
    with VideoDecoder(f"{server.url}/{name}") as decoder:
        assert torch.equal(decoder.get_frames_at(CLIP).data, expected_clip)


# URLs that are not read by ranges


def test_stream_of_unknown_length_is_left_to_ffmpeg(small: RangeServer, clip: Path) -> None:
    small.fault = "no length"
    url = f"{small.url}/{clip.name}"
    assert make_source(url).open() == url


def test_playlists_are_left_to_ffmpeg(small: RangeServer, clip_rgb: torch.Tensor, clip: Path) -> None:
    remux(clip, clip.parent / "list.m3u8")
    url = f"{small.url}/list.m3u8"
    assert make_source(url).open() == url
    assert torch.equal(VideoDecoder(url).get_frame_at(0).data, clip_rgb[0])


@pytest.mark.parametrize(
    "url", ["http://user:secret@h/a.mp4", "http://h/f%03d.png", "ftp://h/a.mp4", "http://[h/a.mp4"]
)
def test_urls_beyond_plain_get_are_left_to_ffmpeg(url: str) -> None:
    assert make_source(url).open() == url


def test_proxy_is_left_to_ffmpeg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    assert make_source("http://example.invalid/a.mp4").open() == "http://example.invalid/a.mp4"


# Faults of servers


def test_redirection_is_followed_once(small: RangeServer, clip: Path, clip_rgb: torch.Tensor) -> None:
    decoder = VideoDecoder(f"{small.url}/moved/moved/{clip.name}?a=b c\u00fc")
    assert torch.equal(decoder[3], clip_rgb[3])


@pytest.mark.parametrize("fault", [None, "hang up once"])
def test_redirection_to_no_host_is_open_error(small: RangeServer, fault: str | None) -> None:
    small.fault = fault
    with pytest.raises(OpenError, match="label empty"):
        VideoDecoder(f"{small.url}/moved//a..b/clip.mp4")


@pytest.mark.parametrize("fault", [404, 410])
def test_missing_file_raises(small: RangeServer, clip: Path, fault: int) -> None:
    small.fault = fault
    with pytest.raises(SourceNotFoundError, match=f"does not exist.*{fault}"):
        VideoDecoder(f"{small.url}/{clip.name}")


@pytest.mark.parametrize(
    "fault", [401, 403, 416, 429, 500, 503, "truncate", "stall", "trickle", "hang up", "encoded", "endless redirect"]
)
def test_failure_at_start_is_open_error(small: RangeServer, clip: Path, fault: str | int) -> None:
    small.fault = fault
    with pytest.raises(OpenError, match=rf"{clip.name}.*{fault if isinstance(fault, int) else ''}") as caught:
        VideoDecoder(f"{small.url}/{clip.name}")
    assert not isinstance(caught.value, SourceNotFoundError)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (404, "404"),
        (500, "500"),
        ("truncate", "Incomplete"),
        ("stall", "timed out"),
        ("trickle", "in time|timed out"),
        ("hang up", "closed|reset"),
        ("ignore ranges", "answered 200"),
        ("wrong range", "instead of"),
        ("no range", "which part"),
        ("encoded", "Content-Encoding 'gzip'"),
        ("other tag", "changed"),
        ("endless redirect", "redirections"),
    ],
)
def test_later_failure_is_read_error(small: RangeServer, fault: str | int, message: str) -> None:
    reader = _reader(f"{small.url}/noise.bin")
    content = (small.folder / "noise.bin").read_bytes()
    small.fault = fault
    reader.seek(300_000)
    with pytest.raises(ReadError, match=rf"noise.bin failed.*({message})"):
        reader.read(1000)
    small.fault = None
    assert reader.read(1000) == content[300_000:301_000], "the reader is as it was"


def test_every_opening_compares_file_version(small: RangeServer, clip: Path) -> None:
    path = small.folder / "changing.mp4"
    path.write_bytes(clip.read_bytes())
    decoder = VideoDecoder(f"{small.url}/changing.mp4")
    assert len(decoder) == len(VideoDecoder(clip))
    pickled = pickle.dumps(decoder)
    path.write_bytes(clip.read_bytes() + bytes(8))  # the old file's index fits, but leads to wrong frames
    with pytest.raises(ReadError, match="changed since it was opened"):
        pickle.loads(pickled)[0]
    assert len(VideoDecoder(f"{small.url}/changing.mp4")) == len(decoder)


def test_changed_file_size_is_detected(small: RangeServer) -> None:
    noise = small.folder / "noise.bin"
    for size in (600_002, 400_000, 10):
        noise.write_bytes(bytes(600_001))
        reader = _reader(f"{small.url}/noise.bin")
        noise.write_bytes(bytes(size))
        reader.seek(300_000)
        with pytest.raises(ReadError, match=r"noise\.bin failed"):
            reader.read(1000)


def test_a_decoder_reports_what_the_server_did(server: RangeServer) -> None:
    with VideoDecoder(f"{server.url}/front.mp4") as decoder:
        assert len(decoder) == NUM_FRAMES
        server.fault = 503
        with pytest.raises(ReadError, match="503"):
            decoder.get_frames_at(CLIP)


def test_fault_while_scanning_is_not_end_of_file(server: RangeServer) -> None:
    with VideoDecoder(f"{server.url}/big.mkv") as decoder:
        server.fault = 503
        with pytest.raises((OpenError, ReadError), match="503"):
            len(decoder)


def test_closed_idle_connection_is_reopened(small: RangeServer) -> None:
    reader = _reader(f"{small.url}/noise.bin")
    small.fault = "hang up once"
    reader.seek(-1000, os.SEEK_END)
    assert reader.read(2000) == (small.folder / "noise.bin").read_bytes()[-1000:]
    assert reader.read(1) == b""
    assert small.num_connections == 2


# Workers


def test_remote_decoder_survives_pickle_threads_and_forks(
    small: RangeServer, clip: Path, clip_rgb: torch.Tensor
) -> None:
    decoder = pickle.loads(pickle.dumps(VideoDecoder(f"{small.url}/{clip.name}")))
    indices = list(range(len(clip_rgb))) * 2
    with ThreadPoolExecutor(4) as pool:
        for index, frame in zip(indices, pool.map(decoder.get_frame_at, indices), strict=True):
            assert torch.equal(frame.data, clip_rgb[index])
    if sys.platform != "linux":
        return
    with get_context("fork").Pool(2, initializer=_keep, initargs=(decoder,)) as processes:
        sums = processes.map_async(_sum_of_frame, range(10)).get(60)
    assert sums == [int(frame.sum()) for frame in clip_rgb[:10]]


def _keep(decoder: VideoDecoder) -> None:
    global _decoder
    _decoder = decoder


def _sum_of_frame(index: int) -> int:
    return int(_decoder[index].sum())


def test_a_forked_reader_has_its_own_connection(small: RangeServer) -> None:
    reader = _reader(f"{small.url}/noise.bin")
    context = get_context("fork" if sys.platform == "linux" else "spawn")
    if context.get_start_method() != "fork":
        pytest.skip("needs fork")
    content = (small.folder / "noise.bin").read_bytes()
    reader.seek(300_000)
    with context.Pool(1, initializer=_keep, initargs=(reader,)) as processes:
        assert processes.apply_async(_read_in_child).get(60) == content[300_000:301_000]
    assert reader.read(1000) == content[300_000:301_000]
    assert small.num_connections == 2


def _read_in_child() -> bytes:
    return _decoder.read(1000)  # type: ignore[attr-defined]


# File systems of fsspec


@pytest.fixture
def store() -> SimpleNamespace:
    """Make an fsspec file system in memory; return its files, the requested ranges, and an error to raise."""
    fsspec = pytest.importorskip("fsspec")

    class CountingFileSystem(fsspec.AbstractFileSystem):  # type: ignore[misc,name-defined]
        protocol = "counting"
        cachable = False

        def info(self, path: str, **_: Any) -> dict[str, Any]:
            state.num_infos += 1
            name = self._strip_protocol(path)
            if name not in state.files:
                raise FileNotFoundError(name)
            return {"name": name, "size": len(state.files[name]), "type": "file"}

        def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
            if state.fault is not None:
                raise state.fault
            data = state.files[self._strip_protocol(path)][start:end]
            state.requests.append((start or 0, (start or 0) + len(data)))
            return data

        def _open(self, *_: Any, **__: Any) -> Any:
            raise AssertionError("opened, though it serves ranges")

    state = SimpleNamespace(files={}, requests=[], num_infos=0, fault=None)
    fsspec.register_implementation("counting", CountingFileSystem, clobber=True)
    return state


def test_file_system_with_ranges_is_read_by_ranges(
    store: SimpleNamespace, big_files: Path, expected_clip: torch.Tensor
) -> None:
    content = (big_files / "back.mp4").read_bytes()
    store.files["big.mp4"] = content
    with VideoDecoder("counting://big.mp4") as decoder:
        assert torch.equal(decoder.get_frames_at(CLIP).data, expected_clip)
    assert len(store.requests) <= 12
    assert sum(stop - start for start, stop in store.requests) < len(content) * 0.25


def test_file_system_faults_are_reported(store: SimpleNamespace, clip: Path) -> None:
    with pytest.raises(SourceNotFoundError, match=r"missing\.mp4"):
        VideoDecoder("counting://missing.mp4")
    store.files["clip.mp4"] = random.Random(0).randbytes(600_000)
    store.num_infos = 0
    reader = _reader("counting://clip.mp4")
    assert store.num_infos == 1
    store.fault = KeyError("token")
    with pytest.raises(ReadError, match=r"counting://clip.mp4 failed: .*token"):
        reader.read(10)
    store.fault = None
    store.files["clip.mp4"] = b"short"
    with pytest.raises(ReadError, match="may have changed"):
        reader.read(10)


@pytest.mark.parametrize("scheme", ["counting", "memory"])
def test_every_opening_compares_file_system_version(scheme: str, store: SimpleNamespace, clip: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    content = clip.read_bytes()

    def write(data: bytes) -> None:
        store.files["changing.mp4"] = data
        fsspec.filesystem("memory").pipe_file("/changing.mp4", data)

    write(content)
    url = f"{scheme}://changing.mp4"
    decoder = VideoDecoder(url)
    pickled = pickle.dumps(decoder)
    write(content + bytes(8))
    with pytest.raises(ReadError, match="changed since it was opened"):
        pickle.loads(pickled)[0]
    assert len(VideoDecoder(url)) == len(VideoDecoder(clip))


def test_file_systems_without_ranges_are_read_by_file_object(
    clip: Path, clip_rgb: torch.Tensor, tmp_path: Path
) -> None:
    pytest.importorskip("fsspec")
    import zipfile

    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(clip, "inside.mp4")
    for url in (f"zip://inside.mp4::{tmp_path / 'a.zip'}", f"simplecache::file://{clip}"):
        assert torch.equal(VideoDecoder(url)[5], clip_rgb[5]), url


@pytest.mark.parametrize(
    ("protocol", "expected"), [("memory", True), ("file", False), ("filecache", False), ("blockcache", False)]
)
def test_has_ranges_recognises_file_systems(protocol: str, expected: bool) -> None:
    fsspec = pytest.importorskip("fsspec")
    options = {"target_protocol": "memory"} if protocol.endswith("cache") else {}
    assert has_ranges(fsspec.filesystem(protocol, **options)) == expected


def test_unreadable_fsspec_urls_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    with pytest.raises(OpenError, match="nosuchprotocol"):
        VideoDecoder("nosuchprotocol://a.mp4")
    with pytest.raises(OpenError, match="directory"):
        VideoDecoder(f"dir://.::file://{tmp_path}")
