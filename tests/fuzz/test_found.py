"""What damaged files did once, each in the fewest bytes that show it."""

from __future__ import annotations

import contextlib
import io
import json
import os
from operator import attrgetter
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch

import media
import pdf_files
import wav_files
from media_surgery import replace_edit_list
from mediatensor._engine.pyav.opening import stream_info
from mediatensor._engine.pyav.whole_files import linear_decode
from mediatensor.datasets import as_items
from mediatensor.decoders import AudioDecoder, Demuxer, VideoDecoder
from mediatensor.encoders import JpegEncoder, VideoEncoder
from mediatensor.errors import DecodeError, EncodeError, InvalidArgumentError, OpenError, ReadError
from mediatensor.ocr.io import Document, Page, read_pdf

from .corpus import seed_file
from .corpus_datasets import row_loader, stream_loader


def test_frame_mappings_with_times_out_of_all_proportion_are_no_mappings(clip: Path) -> None:
    frame = {"pts": 1 << 63, "duration": 1, "key_frame": 1}
    with pytest.raises(InvalidArgumentError, match="Frame 0"):
        VideoDecoder(clip, custom_frame_mappings=json.dumps({"frames": [frame]}))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("pages", 3),
        ("blocks", None),
        ("layout", 1.5),
        ("page_idx", {}),
        ("dimensions", [1, 2, 3]),
        ("dimensions", "ab"),
        ("orientation", 0),
        ("geometry", [[0, 0], [0]]),
        ("geometry", [[0, 0], ["a", 1]]),
        ("geometry", [[0, 0], [float("nan"), 1]]),
        ("value", None),
        ("confidence", "high"),
    ],
)
def test_values_of_other_kinds_in_a_stored_document_are_named(key: str, value: Any, tmp_path: Path) -> None:
    export = json.loads(seed_file("exports", "document", tmp_path))
    Document.from_dict(export).export_as("tsv")
    page = export["pages"][0]
    word = page["blocks"][0]["lines"][0]["words"][0]
    place = next((place for place in (word, page) if key in place), page if key == "layout" else export)
    place[key] = value
    with pytest.raises(InvalidArgumentError, match=f"{key!r} = "):
        Document.from_dict(export)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc, as Linux has it")
def test_a_pdf_file_that_is_refused_does_not_stay_open(tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2", reason="needs pypdfium2")
    path = tmp_path / "no_catalogue.pdf"
    path.write_bytes(pdf_files.document([b""]).replace(b"/Root 1 0 R", b"/Root 9 0 R"))
    for _ in range(2):
        before = os.listdir("/proc/self/fd")
        with pytest.raises(OpenError):
            read_pdf(path)
        assert len(os.listdir("/proc/self/fd")) == len(before)


def test_frame_mappings_that_are_nested_too_deeply_are_no_mappings(clip: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="custom frame mappings"):
        VideoDecoder(clip, custom_frame_mappings='{"frames": ' + "[" * 100_000)


def test_a_rate_out_of_all_proportion_makes_no_filter() -> None:
    # The filter for this ratio would take 2 GB, and seconds to compute.
    sound = wav_files.wav("pcm_s16le", wav_files.noise(400), rate=251_680_290)
    assert AudioDecoder(sound).get_all_samples().data.shape == (1, 400)
    with pytest.raises(InvalidArgumentError, match="251680290 samples per second"):
        AudioDecoder(sound, sample_rate=16_000).get_all_samples()


def _pcm_in_flv(*packets: tuple[int, int]) -> bytes:
    """A file of 16-bit mono PCM. Each packet, (milliseconds, 44100 or 22050), has 441 samples of 1/2."""
    data = b"FLV\1\4\0\0\0\x09" + bytes(4)
    for time, rate in packets:
        body = bytes([{22050: 0x3A, 44100: 0x3E}[rate]]) + (1 << 14).to_bytes(2, "little") * 441
        stamp = (time & 0xFFFFFF).to_bytes(3, "big") + bytes([time >> 24])
        tag = b"\x08" + len(body).to_bytes(3, "big") + stamp + bytes(3) + body
        data += tag + len(tag).to_bytes(4, "big")
    return data


@pytest.mark.parametrize("output_rate", [44100, 22050])
@pytest.mark.parametrize(
    "packets",
    [
        [(1_200_000_000, 44100), (1_200_000_010, 22050)],
        [(80, 22050), (1_200_000_000, 44100)],
        # More leaps in time than a call follows.
        [*((200 + 100 * number, 44100) for number in range(1000)), (1_200_000_000, 44100), (1_200_000_010, 22050)],
    ],
    ids=["before", "at the change", "after other gaps"],
)
def test_gap_near_a_change_of_the_sample_rate_is_not_filled(packets: list[tuple[int, int]], output_rate: int) -> None:
    packets = [*((10 * number, 44100) for number in range(8)), *packets]
    length = sum(441 * output_rate / rate for _, rate in packets)
    decoder = AudioDecoder(_pcm_in_flv(*packets), sample_rate=output_rate)
    samples = [[decoder.get_all_samples()]]
    if len(packets) < 1000:
        samples += [
            [decoder.get_samples_played_in_range(0.0)],
            decoder.get_samples_played_in_ranges([(0.0, 0.05), (0.05, None)]),
            list(decoder.chunks(1e6, sample_rate=output_rate)),
        ]
    for parts in samples:
        data = torch.cat([part.data for part in parts], 1)
        assert abs(data.shape[1] - length) <= (0 if output_rate == 44100 else 2 * len(packets))  # rounded at each gap
        assert (data > 0.25).all()  # silence is 0


class _BreaksHalfway(io.BytesIO):
    """A file whose second half cannot be read."""

    def read(self, size: int | None = -1) -> bytes:
        if self.tell() > len(self.getbuffer()) // 2:
            raise OSError("bad sector")
        return super().read(size)


def test_frames_that_a_codec_holds_back_are_part_of_a_plain_decode_that_fails(tmp_path: Path) -> None:
    data = media.make("mkv", tmp_path).read_bytes()
    decoder = VideoDecoder(_BreaksHalfway(data))
    frames = decoder.get_all_frames()
    assert any("reading stops" in anomaly for anomaly in decoder.frame_index.anomalies)
    times: list[Any] = []
    with pytest.raises(ReadError):
        times.extend(map(attrgetter("pts_seconds"), linear_decode(_BreaksHalfway(data))))
    assert times
    assert sorted(times) == frames.pts_seconds.tolist()


@pytest.mark.parametrize("sixteenths", [2, 8, 14])
def test_damage_of_a_hidden_key_frame_shows_in_frames_that_are_read_directly(sixteenths: int, tmp_path: Path) -> None:
    """The key frame of an edit list's second part is hidden, so its flag does not come out of the codec."""
    data = replace_edit_list((1600, 1024), (480, 25 * 512 + 1024))(media.make("mp4", tmp_path).read_bytes())
    packets = list(Demuxer(data, streams="video"))
    for number, place in ((24, 12), (26, sixteenths)):  # the key frame, and a frame to which B-frames before it refer
        packet = bytearray(packets[number].data)
        packet[len(packet) * place // 16] ^= 0xFF
        data = data.replace(packets[number].data, packet)
    plain = [frame.rgb for frame in linear_decode(data)]
    for number in range(38, 44):
        decoder = VideoDecoder(data, dimension_order="NHWC", on_error="raise", num_ffmpeg_threads=1)
        with decoder, contextlib.suppress(DecodeError):
            assert np.array_equal(decoder.get_frame_at(number).data.numpy(), plain[number]), number


@pytest.mark.parametrize(
    "changes",
    [
        {"epoch": -1},
        {"epoch": None},
        {"epoch": 1 << 70},
        {"num_ranks": []},
        {"rank": "first"},
        {"given": 0.5},
        {"given": [[3]]},
        {"given": [[5, 2]]},
        {"given_in_last_epoch": [[0, -1]]},
        {"num_rows": [[2, 1]]},
        {"num_rows": [[-1, 1]]},
        {"num_rows": [[0, 1 << 64]]},
    ],
)
def test_damaged_states_of_streams_are_refused_and_leave_the_loader_as_it_was(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    loader = stream_loader(tmp_path)
    state = loader.state_dict()
    for damaged in (state | changes, {name: value for name, value in state.items() if name not in changes}):
        with pytest.raises(InvalidArgumentError):
            loader.load_state_dict(damaged)
    assert loader.state_dict() == state
    assert sum(map(len, loader)) == 7


@pytest.mark.parametrize("state", [None, 3, "text", [1, 2], [None]])
def test_what_is_no_state_at_all_is_refused(state: Any, tmp_path: Path) -> None:
    for loader in (stream_loader(tmp_path), row_loader()):
        with pytest.raises(InvalidArgumentError):
            loader.load_state_dict(state)


def test_states_of_rows_with_numbers_beyond_all_bounds_are_refused() -> None:
    loader = row_loader()
    with pytest.raises(InvalidArgumentError, match="damaged"):
        loader.load_state_dict(loader.state_dict() | {"runs": [[float("inf"), 1, 1]]})


def _parquet(names: list[str], columns: list[list[Any]], path: Path) -> Path:
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    parquet.write_table(pyarrow.table([pyarrow.array(column) for column in columns], names=names), path)
    return path


def test_a_column_of_media_may_have_a_point_in_its_name(tmp_path: Path) -> None:
    path = _parquet(["video.bytes", "label"], [[b"first", b"second"], [1, 2]], tmp_path / "rows.parquet")
    items = as_items(path, kind="video", media_column="video.bytes")
    assert [(item.source, item.label) for item in items] == [(b"first", 1), (b"second", 2)]


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    path = _parquet(["video", "video"], [[{"bytes": b"x", "path": "a"}], [1]], tmp_path / "rows.parquet")
    with pytest.raises(InvalidArgumentError, match="'video' more than once"):
        as_items(path, kind="video")


def test_a_rate_of_nothing_by_nothing_is_no_rate() -> None:
    with pytest.raises(InvalidArgumentError, match="'0/0'"):
        VideoEncoder(torch.zeros(1, 3, 8, 8, dtype=torch.uint8), frame_rate="0/0")  # type: ignore[arg-type]


def test_sides_that_jpeg_cannot_have_take_no_memory() -> None:
    picture = torch.zeros(1, dtype=torch.uint8).expand(3, 1 << 31, 30)
    with pytest.raises(EncodeError, match="65500"):
        JpegEncoder(picture).to_tensor()


def test_pages_that_are_too_long_for_jpeg_are_stored_without_loss() -> None:
    pytest.importorskip("pypdfium2", reason="needs pypdfium2")
    page = Page(np.full((70_000, 2, 3), 255, np.uint8), [], 0, (70_000, 2))
    assert page.export_as_pdf()[:5] == b"%PDF-"


class _OfAnotherKind:
    """An audio stream that a transport stream declares as video, after its first packets."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    type = "video"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def test_a_stream_that_becomes_one_of_another_kind_is_described_as_far_as_that_goes() -> None:
    file = io.BytesIO(wav_files.wav("pcm_s16le", wav_files.noise(400)))
    with av.open(file) as container:
        info = stream_info(_OfAnotherKind(container.streams[0]))
    assert (info.media_type, info.codec, info.width) == ("video", "pcm_s16le", None)
