"""Errors of decoding blocks: wrong order of calls, other threads and processes, closed blocks, damage."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

import media
from mediatensor.decoders import (
    AudioPacketDecoder,
    AudioStream,
    ColorConverter,
    Demuxer,
    FrameIndex,
    Packet,
    RawFrame,
    VideoDecoder,
    VideoPacketDecoder,
    VideoStream,
    get_container_metadata,
)
from mediatensor.errors import (
    ClosedError,
    DecodeError,
    InvalidArgumentError,
    SourceNotFoundError,
    SourceTypeError,
    StreamError,
)
from places import in_child, needs_fork, needs_proc, open_files


@pytest.fixture(scope="module")
def path(folder: Path) -> Path:
    return media.make("audio_beside_video", folder)


@pytest.mark.parametrize(
    ("streams", "error", "words"),
    [
        ((), InvalidArgumentError, "streams is empty"),
        (("all", "video"), InvalidArgumentError, "'all' can only be used on its own"),
        ("foo", InvalidArgumentError, "Invalid stream selector 'foo'"),
        (1.5, InvalidArgumentError, "Invalid stream selector 1.5"),
        (True, InvalidArgumentError, "Invalid stream selector True"),
        (None, InvalidArgumentError, "Invalid stream selector None"),
        (torch.tensor([0.5, 1.5]), InvalidArgumentError, "Invalid stream selector Tensor"),
        (40, StreamError, "The stream index 40 is not a valid stream"),
        (-1, StreamError, "The stream index -1 is not a valid stream"),
        (("video", "video"), StreamError, "is already being demuxed"),
    ],
)
def test_wrong_streams(streams: Any, error: type[Exception], words: str, path: Path) -> None:
    with pytest.raises(error, match=words) as raised:
        Demuxer(path, streams=streams)
    assert isinstance(raised.value, ValueError)  # as torchcodec raises


def test_missing_streams(path: Path, folder: Path) -> None:
    with pytest.raises(StreamError, match="No valid audio stream found"):
        Demuxer(media.make("h264_b_pyramid", folder), streams="audio")
    with pytest.raises(StreamError, match="No valid video stream found"):
        Demuxer(media.make("audio_only", folder))
    with pytest.raises(SourceNotFoundError, match="does not exist"):
        Demuxer(folder / "missing.mp4")
    with pytest.raises(SourceTypeError, match="Unknown source type"):
        Demuxer(3)


def test_header_metadata(path: Path) -> None:
    demuxer, container = Demuxer(path, streams=("video", "audio")), get_container_metadata(path)
    for name in ("duration_seconds_from_header", "best_video_stream_index", "best_audio_stream_index"):
        assert getattr(demuxer.metadata, name) == getattr(container, name)
    assert [stream.metadata for stream in demuxer.streams] == [container.streams[s.index] for s in demuxer.streams]
    assert repr(demuxer.streams[0]) == f"VideoStream(index={demuxer.streams[0].index})"


@pytest.mark.parametrize(
    "kind",
    [VideoPacketDecoder, AudioPacketDecoder, VideoStream, AudioStream, Packet, RawFrame],
    ids=lambda k: k.__name__,
)
def test_blocks_cannot_be_instantiated(kind: Callable[..., Any]) -> None:
    for arguments in ((), (1, 2)):
        with pytest.raises(RuntimeError, match="cannot be instantiated directly"):
            kind(*arguments)


def test_handles_are_neither_pickled_nor_copied(path: Path) -> None:
    demuxer = Demuxer(path)
    decoder = demuxer.streams[0].make_decoder()
    packet = next(demuxer)
    frames = decoder.decode(packet) + decoder.drain()
    for handle in (demuxer, demuxer.streams[0], decoder, packet, frames[0], ColorConverter()):
        for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match=f"{type(handle).__name__} cannot be pickled, copied"):
                attempt(handle)


def test_order_of_calls(path: Path) -> None:
    demuxer = Demuxer(path, streams=("video", "audio"))
    video, audio = (stream.make_decoder() for stream in demuxer.streams)
    packets = list(demuxer)
    pictures = [packet for packet in packets if packet.stream_index == demuxer.streams[0].index]
    with pytest.raises(InvalidArgumentError, match="decodes packets of stream"):
        audio.decode(pictures[0])
    with pytest.raises(InvalidArgumentError, match="must be a Packet"):
        video.decode(None)
    count = len(video.decode(pictures[0])) + len(video.drain())
    assert (count, video.drain()) == (1, [])
    with pytest.raises(RuntimeError, match="has been drained"):
        video.decode(pictures[1])
    demuxer.seek(0.0)
    late = [packet for packet in demuxer if packet.stream_index == demuxer.streams[0].index]
    video.reset()
    video.decode(pictures[0])
    with pytest.raises(RuntimeError, match="seeked since"):
        video.decode(late[0])
    video.reset()
    frames = [frame for packet in late for frame in video.decode(packet)] + video.drain()
    assert len(frames) == len(VideoDecoder(path))


def test_packets_of_two_demuxers_do_not_follow_each_other(path: Path) -> None:
    with Demuxer(path) as first, Demuxer(path) as second, first.streams[0].make_decoder() as decoder:
        decoder.decode(next(first))
        with pytest.raises(InvalidArgumentError, match="another demuxer"):
            decoder.decode(next(second))
        second.seek(0.0)
        decoder.reset()
        raw = [raw for packet in second for raw in decoder.decode(packet)] + decoder.drain()
        assert len(raw) == len(VideoDecoder(path))
        with pytest.raises(InvalidArgumentError, match="one of this demuxer's streams"):
            first.seek(0.0, stream=second.streams[0])


def test_a_drained_decoder_reports_that_it_is_closed(path: Path) -> None:
    with Demuxer(path) as demuxer:
        decoder, packet = demuxer.streams[0].make_decoder(), next(demuxer)
    decoder.drain()
    decoder.close()
    for call in (decoder.drain, decoder.reset, lambda: decoder.decode(packet)):
        with pytest.raises(ClosedError, match="closed"):
            call()


def test_arguments_of_decoders_and_converters(path: Path) -> None:
    stream = Demuxer(path).streams[0]
    assert isinstance(stream, VideoStream)
    for num_threads in (None, -1, 1.5):
        with pytest.raises(ValueError, match="num_ffmpeg_threads"):
            stream.make_decoder(num_ffmpeg_threads=num_threads)
    with pytest.raises(RuntimeError, match="device"):
        stream.make_decoder("bogus")
    with pytest.raises(ValueError, match="Invalid output_dtype"):
        ColorConverter(output_dtype=torch.float16)
    with pytest.raises(InvalidArgumentError, match="must be a RawFrame"):
        ColorConverter().convert(None)


def test_closed_blocks_raise_closed_error(path: Path) -> None:
    demuxer = Demuxer(path)
    stream, packet = demuxer.streams[0], next(demuxer)
    decoder = stream.make_decoder()
    demuxer.close()
    demuxer.close()
    for call in (lambda: next(demuxer), lambda: demuxer.seek(0.0), stream.make_decoder, stream.scan):
        with pytest.raises(ClosedError, match="demuxer is closed"):
            call()
    assert len(decoder.decode(packet) + decoder.drain()) == 1
    decoder.close()
    for call in (lambda: decoder.decode(packet), decoder.reset):
        with pytest.raises(ClosedError, match="closed"):
            call()


@needs_proc
def test_unclosed_blocks_release_their_file(path: Path) -> None:
    gc.disable()  # there must be no cycles
    try:
        demuxer = Demuxer(path)
        decoder = demuxer.streams[0].make_decoder(num_ffmpeg_threads=2)
        frames = decoder.decode(next(demuxer))
        assert len(open_files(path)) == 1
        del demuxer
        assert open_files(path) == []
        del decoder, frames
    finally:
        gc.enable()


@needs_fork
def test_forked_process_must_make_its_own_blocks(path: Path, tmp_path: Path) -> None:
    demuxer = Demuxer(path)
    decoder = demuxer.streams[0].make_decoder(num_ffmpeg_threads=2)
    packet = next(demuxer)
    decoder.decode(packet)

    def use_what_the_parent_made() -> None:
        for call in (lambda: next(demuxer), lambda: demuxer.seek(0.0), lambda: decoder.decode(packet), decoder.drain):
            with pytest.raises(ClosedError, match="belongs to the process that made it"):
                call()

    in_child(tmp_path, use_what_the_parent_made)
    assert len([*decoder.drain()]) == 1  # the parent's decoder continues


def test_packets_after_damage_still_decode(folder: Path, tmp_path: Path) -> None:
    whole = media.make("prores", folder)
    data = bytearray(whole.read_bytes())
    packets = list(Demuxer(whole))
    place = bytes(data).index(packets[3].data[:64])
    data[place : place + 64] = bytes(64)
    damaged = tmp_path / "damaged.mov"
    damaged.write_bytes(data)
    with Demuxer(damaged) as demuxer, demuxer.streams[0].make_decoder() as decoder:
        outcomes = []
        for packet in demuxer:
            try:
                outcomes.append(len(decoder.decode(packet)))
            except DecodeError as error:
                outcomes.append(str(error).partition(" (")[0])
    expected = [1, 1, 1, f"The packet at {packets[3].pts_seconds} s of stream 0 could not be decoded"]
    assert outcomes == expected + [1] * (len(packets) - 4)


def test_three_threads_share_the_work(path: Path) -> None:
    """Demuxing, decoding and converting, each in its own thread, with seeks in between."""
    expected = VideoDecoder(path)
    demuxer = Demuxer(path)
    decoder, converter = demuxer.streams[0].make_decoder(), ColorConverter()
    frames: list[Any] = []

    def work() -> None:
        try:
            for _ in range(20):
                demuxer.seek(0.0)
                packets = [packet for packet in demuxer if packet.is_key_frame]
                decoder.reset()
                frames.extend(converter.convert(frame) for frame in decoder.decode(packets[0]) + decoder.drain())
        except (InvalidArgumentError, IndexError):
            pass  # another thread seeked or drained in between, which is reported

    with ThreadPoolExecutor(3) as threads:
        for done in [threads.submit(work) for _ in range(3)]:
            done.result()
    assert all(frame.data.shape == expected[0].shape for frame in frames)


def test_index_has_low_level_names(path: Path) -> None:
    index = Demuxer(path).streams[0].scan()
    assert isinstance(index, FrameIndex)
    metadata = VideoDecoder(path).metadata
    assert index.num_frames_from_content == metadata.num_frames_from_content
    assert index.begin_stream_seconds_from_content == metadata.begin_stream_seconds_from_content
    assert index.end_stream_seconds_from_content == metadata.end_stream_seconds_from_content
    assert index.average_fps_from_content == metadata.average_fps
    pts, ends = index.pts_seconds, index.pts_seconds + index.duration_seconds
    times = torch.linspace(float(pts[0]) - 1, float(ends[-1]) + 1, 200, dtype=torch.float64)
    by_hand = [next((i for i in range(len(index)) if ends[: i + 1].max() > t), len(index) - 1) for t in times]
    assert index.index_at(times.reshape(2, 100)).tolist() == torch.tensor(by_hand).reshape(2, 100).tolist()
    assert [index.index_at(float(t)) for t in times[:5]] == by_hand[:5]
    keys = pts[index.is_key_frame]
    for t in times[::9].tolist():
        before = keys[keys <= t]
        assert index.key_frame_seconds_for(t) == float(before[-1] if len(before) else pts[0])
