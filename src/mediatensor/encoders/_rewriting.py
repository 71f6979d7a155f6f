"""Encode a video again with black boxes in its frames, and copy its audio (`rewrite_video`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, nullcontext, suppress
from fractions import Fraction
from itertools import chain
from typing import Any

from .._engine.common.messages import progress, warn_user
from .._engine.pyav.demuxer import Demuxer
from .._engine.pyav.encoding import Muxer, format_of_path
from .._engine.pyav.encoding_video import VideoSettings, VideoTrack, accepts_frames
from .._engine.pyav.frame_edits import Box, fill_boxes
from .._engine.video.batch import DecodedPicture
from ..decoders import VideoDecoder
from ..decoders._access import access_to
from ..errors import DecodeError, InvalidArgumentError, SizeChangeError
from ._session import NOMINAL_FRAME_RATE, even_frame_rate, mean_frame_rate
from ._target import FileTarget

# Containers that store the time of each frame.
_CONTAINERS = frozenset(("matroska", "mov", "mp4", "webm"))

# The encoder for each codec of a source, with its quality options. Other sources are encoded with the first codec that
# the container can store.
_ENCODERS = {
    "h264": ("libx264", {"crf": "18"}),
    "vp9": ("libvpx-vp9", {"crf": "18", "b": "0", "deadline": "good", "cpu-used": "4", "row-mt": "1"}),
    "hevc": ("libx265", {"crf": "18"}),
    "av1": ("libsvtav1", {"crf": "20", "preset": "8"}),
}
# For frames whose stored format an encoder does not accept. The first format has even sizes only.
_CONVERTED_FORMATS = ("yuv420p", "yuv444p")


def rewrite_video(
    decoder: VideoDecoder,
    destination: str | os.PathLike[str],
    boxes_at: Callable[[float], Sequence[Box]],
    check: Callable[[str], None] = lambda path: None,
) -> None:
    """Encode the frames of a video with black boxes, at their times, and copy the packets of its audio streams.

    Frames are encoded one by one as they are decoded. The file appears when it is complete. A warning lists other
    contents of the source, which are dropped.

    Args:
        decoder: The video. Its ``on_error`` and ``on_size_change`` apply, but not its transforms.
        destination: Path of the file, whose suffix selects the container.
        boxes_at: Function that returns the boxes of the frame at a time in seconds. The times do not decrease.
        check: Function that gets the path of the complete file before it appears under its name. If it raises an error,
            the file is discarded.

    Raises:
        InvalidArgumentError: if the suffix is not accepted.
        DecodeError: if no frame can be decoded, or if a frame is damaged and ``on_error`` is ``"raise"``.
        SizeChangeError: if frames have different orientations or, unless ``on_size_change="scale"``, different sizes.
        EncodeError: if the container cannot store the audio, or encoding fails.
        WriteError: if the file cannot be written.
    """
    path = os.fsdecode(destination)
    container = format_of_path(path)
    if container not in _CONTAINERS:
        raise InvalidArgumentError(
            f"The suffix of {path!r} selects FFmpeg's format {container!r}, which may not store the time of each "
            "frame. The suffix must be .mp4, .mov, .mkv or .webm."
        )
    with closing(access_to(decoder).pictures(obeys_policy=True)) as pictures, _open_audio(decoder) as demuxer:
        first = next(pictures, None)
        if first is None:
            name = access_to(decoder).video.name
            raise DecodeError(f"No frame of {name} can be decoded, so there is nothing to write.")
        target, muxer = FileTarget(path), None
        try:
            muxer = Muxer(target.opened, container)
            settings = _settings(decoder, first, muxer)
            muxer.add_video(settings)
            audio = _AudioCopy(demuxer, muxer)
            muxer.start()
            shown = progress(chain([first], pictures), f"writing {os.path.basename(path)}", total=len(decoder))
            _write(muxer, settings, shown, audio, lambda one: _cover(decoder, first, settings, one, boxes_at))
            muxer.finish()
            check(target.name)
            target.commit()
        except BaseException:
            target.discard()
            if muxer is not None:
                muxer.abandon()
            raise
    _warn_of_omissions(decoder, path)
    transfer = access_to(decoder).video.hdr_transfer
    if transfer is not None and settings.colour is None:
        warn_user(
            f"{path!r} does not have the HDR colours ({transfer}) of the source, because no encoder for it accepts its "
            "pixel format and frame size. Pass a VideoDecoder(..., tone_mapping='bt2390') to convert them to SDR."
        )


def _write(
    muxer: Muxer,
    settings: VideoSettings,
    pictures: Any,
    audio: _AudioCopy,
    cover: Callable[[DecodedPicture], Any],
) -> None:
    (track,) = muxer.tracks
    assert isinstance(track, VideoTrack)
    tick = None
    for picture in pictures:
        audio.write_until(picture.pts_seconds)
        time = round(picture.pts_seconds / settings.time_base)
        tick = time if tick is None else max(time, tick + 1)  # encoders reject equal times
        pixels = cover(picture)
        duration = max(1, round(picture.duration_seconds / settings.time_base))
        with muxer.reporting(f"the {track.codec_name} encoder rejected data"):
            packets = track.encode(pixels, tick, duration)
        muxer.write(packets)
    with muxer.reporting(f"the {track.codec_name} encoder could not finish"):
        packets = track.flush()
    muxer.write(packets)
    audio.write_until(None)


def _settings(decoder: VideoDecoder, first: DecodedPicture, muxer: Muxer) -> VideoSettings:
    """Return the encoder and its pixel format: the format of the source or, if it cannot be kept, one for RGB."""
    video = access_to(decoder).video
    stream = video.stream_info
    stored, ratio = first.stored_format(), stream.pixel_aspect_ratio

    def keeps_format(encoder: str) -> bool:
        return stored is not None and accepts_frames(encoder, stored["pixel_format"], *first.size)

    codecs = [codec for codec in (stream.codec, *_ENCODERS) if codec in _ENCODERS and muxer.can_store(codec)]
    encoders = [_ENCODERS[codec] for codec in codecs]
    if video.hdr_transfer is not None:  # HDR is lost in a format of 8 bits
        encoders.sort(key=lambda encoder: not keeps_format(encoder[0]))
    codec, options = encoders[0]
    rate, mean_rate = None, stream.frame_rate or NOMINAL_FRAME_RATE
    with suppress(InvalidArgumentError):  # in approximate mode there is no index
        index = decoder.frame_index
        pts, durations = index.pts_seconds.numpy(), index.duration_seconds.numpy()
        rate, mean_rate = even_frame_rate(pts, durations), mean_frame_rate(pts)
    common: dict[str, Any] = {
        "frame_rate": rate or mean_rate,
        "time_base": stream.time_base or Fraction(1, 90_000),
        "is_variable": rate is None,
        "codec": codec,
        "options": options,
    }
    if stored is not None and keeps_format(codec):
        return VideoSettings(**common, **stored, pixel_aspect_ratio=ratio)
    height, width = first.orientation.size(*first.size)
    fitting = [name for name in _CONVERTED_FORMATS if accepts_frames(codec, name, height, width)]
    if ratio is not None and first.orientation.transposed:
        ratio = 1 / ratio
    return VideoSettings(
        **common,
        height=height,
        width=width,
        pixel_format=(fitting or _CONVERTED_FORMATS)[0],
        pixel_aspect_ratio=ratio,
    )


def _cover(
    decoder: VideoDecoder,
    first: DecodedPicture,
    settings: VideoSettings,
    picture: DecodedPicture,
    boxes_at: Callable[[float], Sequence[Box]],
) -> Any:
    """Return a frame with boxes for the encoder. It must have the size and orientation of the ``first`` frame."""
    if picture.orientation != first.orientation:
        raise SizeChangeError(
            f"Frame {picture.frame} has another rotation than the first frame, but a file stores one rotation for "
            "all frames. Write an upright copy, with the frames of VideoDecoder(..., on_size_change='scale') and "
            "VideoEncoder, then read and redact the copy."
        )
    if picture.size != first.size and access_to(decoder).video.options.on_size_change != "scale":
        raise SizeChangeError(
            f"Frame {picture.frame} is {picture.size[1]}x{picture.size[0]} (width x height), but the first frame "
            f"is {first.size[1]}x{first.size[0]}. Pass a VideoDecoder(..., on_size_change='scale') to scale the "
            "frames to the size of the first frame."
        )
    boxes = boxes_at(picture.pts_seconds)
    if settings.colour is not None:
        assert settings.pixel_format is not None
        return picture.covered(boxes, height=settings.height, width=settings.width, pixel_format=settings.pixel_format)
    pixels = picture.rgb((settings.height, settings.width))
    fill_boxes(pixels, boxes, 0)
    return pixels.transpose(2, 0, 1)


def _open_audio(decoder: VideoDecoder) -> Any:
    """Return a context manager that yields a `Demuxer` of the audio streams, or None if there are none."""

    def choose(container: Any) -> list[Any]:
        return [stream for stream in container.streams if stream.type == "audio" and stream.codec_context is not None]

    video = access_to(decoder).video
    has_audio = any(stream.media_type == "audio" and stream.codec for stream in video.container_info.streams)
    return closing(Demuxer(video.spec.source, choose)) if has_audio else nullcontext()


class _AudioCopy:
    """Adds the audio streams of ``demuxer`` to ``muxer``, and writes their packets in step with the frames."""

    def __init__(self, demuxer: Demuxer | None, muxer: Muxer) -> None:
        self._muxer = muxer
        streams = () if demuxer is None else demuxer.streams
        self._copies = {stream.index: muxer.add_copy(stream) for stream in streams}
        self._packets: Iterator[Any] = iter(()) if demuxer is None else iter(demuxer.read_packet, None)
        self._next: Any = next(self._packets, None)

    def write_until(self, seconds: float | None) -> None:
        """Write the next packets up to a time; with ``None``, write all."""
        while (packet := self._next) is not None:
            ticks = packet.pts if packet.dts is None else packet.dts
            if seconds is not None and ticks is not None and ticks * packet.time_base > seconds:
                return
            packet.stream = self._copies[packet.stream_index]
            self._muxer.write([packet])
            self._next = next(self._packets, None)


def _warn_of_omissions(decoder: VideoDecoder, path: str) -> None:
    info = access_to(decoder).video.container_info
    kinds = {
        stream.media_type
        for stream in info.streams
        if stream.media_type != "audio" and stream.index != decoder.stream_index
    }
    names = [f"the other {kind} streams" if kind == "video" else f"the {kind} streams" for kind in sorted(kinds)] + [
        "the chapters"
    ] * bool(info.chapters)
    if names:
        warn_user(f"{path!r} does not have {' and '.join(names)} of the source, because text in them is not redacted.")
