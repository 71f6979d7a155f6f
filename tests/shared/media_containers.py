"""Clips whose container, timing or streams are special; the pictures are plain H.264 where nothing else is needed."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np

from media_surgery import drop_ts_timestamps, replace_edit_list
from media_writing import (
    ClipSpec,
    Packets,
    Pipe,
    add_stream,
    assign,
    encode,
    encode_alone,
    mux_in_order,
    open_output,
    paint_picture,
    set_timestamps,
    write_clip,
    x264,
)

_OPTIONS = x264("b-adapt=0")
_NO_B_FRAMES = x264(bf="0")
_OPEN_GOP = x264("open-gop=1:b-adapt=0")
_INTRA_REFRESH = x264("intra-refresh=1", bf="0")
_MILLISECONDS = Fraction(1, 1000)
_FRAGMENTS = {"movflags": "frag_keyframe+empty_moov"}


def _h264(special: str, container: str = "mp4", extension: str = "", **changes: Any) -> ClipSpec:
    return replace(ClipSpec(special, "libx264", container, extension, options=_OPTIONS), **changes)


def _uneven_times(num_frames: int) -> list[int]:
    """Milliseconds with steps between 7 and 250."""
    return [0, *np.random.default_rng(7).integers(7, 250, num_frames - 1).cumsum().tolist()]


_GAPS = [40 * n + 1000 * (n // 15) for n in range(40)]


def _with_equal_pts(packets: Packets) -> Packets:
    """Every fifth picture has the time of the one before; decoding times of reordered packets stay as they are."""
    for packet in packets:
        packet.pts -= 40 * (packet.pts % 200 == 160)
        packet.dts = min(packet.dts, packet.pts)
    return packets


def _write_unseekable(spec: ClipSpec, path: Path) -> None:
    pipe = Pipe()
    write_plain_stream(spec, pipe)
    path.write_bytes(pipe.data)


def write_plain_stream(spec: ClipSpec, target: io.IOBase) -> None:
    with open_output(spec, target) as output:
        stream = add_stream(output, spec)
        output.mux(encode(stream, spec))


def _write_copy_from_mid_gop(spec: ClipSpec, path: Path) -> None:
    """What ``ffmpeg -ss 0.3 -c copy`` writes: pictures before the cut are kept, and trimmed by an edit list."""
    whole = io.BytesIO()
    write_plain_stream(replace(spec, container="nut", muxer_options={}), whole)
    whole.seek(0)
    with av.open(whole) as source, open_output(spec, path) as output:
        template = source.streams.video[0]
        stream = output.add_stream_from_template(template)
        cut = round(0.3 / template.time_base)
        packets = [packet for packet in source.demux(template) if packet.dts is not None]
        output.mux(assign(set_timestamps(lambda time: time - cut)(packets), stream))


def write_size_change(spec: ClipSpec, path: Path) -> None:
    """Two encodes of different sizes after each other in one stream, parameter sets in the packets."""
    second = replace(spec, size=(spec.size[0] * 2, spec.size[1] + 32))
    packets = encode_alone(spec) + set_timestamps(lambda time: time + spec.num_frames)(encode_alone(second))
    with open_output(spec, path) as output:
        stream = add_stream(output, spec)
        stream.codec_context.open()
        output.mux(assign(packets, stream))


def _write_concatenated(spec: ClipSpec, path: Path) -> None:
    """Two files after each other, byte by byte: time starts again in the middle."""
    parts = []
    for number in range(2):
        part = path.with_stem(f"part{number}")
        offset = number * spec.num_frames
        write_clip(replace(spec, paint=lambda n, *size, offset=offset: paint_picture(offset + n, *size)), part)
        parts.append(part.read_bytes())
    path.write_bytes(b"".join(parts))


def _write_with_audio(spec: ClipSpec, path: Path) -> None:
    with open_output(spec, path) as output:
        audio, video = add_audio_stream(output), add_stream(output, spec)
        mux_in_order(output, encode(video, spec) + encode_tone(audio, spec.num_frames / spec.rate))


def _write_audio_only(spec: ClipSpec, path: Path) -> None:
    with open_output(spec, path) as output:
        audio = add_audio_stream(output)
        output.mux(encode_tone(audio, 1.0))


def add_audio_stream(output: Any) -> Any:
    stream = output.add_stream("aac", rate=44100)
    stream.layout = "mono"
    return stream


def encode_tone(stream: Any, seconds: float) -> Packets:
    samples = np.sin(np.arange(int(seconds * 44100)) * 0.0627).astype(np.float32)[None]
    frame = av.AudioFrame.from_ndarray(samples, format="fltp", layout="mono")
    frame.sample_rate, frame.pts, frame.time_base = 44100, 0, Fraction(1, 44100)
    return [*stream.encode(frame), *stream.encode(None)]


def _write_streams_of_two_sizes(spec: ClipSpec, path: Path) -> None:
    small = replace(spec, size=(spec.size[0] // 2, spec.size[1] // 2), num_frames=spec.num_frames - 10)
    with open_output(spec, path) as output:
        streams = [(add_stream(output, each), each) for each in (small, spec)]
        mux_in_order(output, [packet for stream, each in streams for packet in encode(stream, each)])


def _write_cover_art(spec: ClipSpec, path: Path) -> None:
    cover = ClipSpec("", "mjpeg", pix_fmt="yuvj420p", size=(200, 160), num_frames=1, rate=spec.rate)
    with open_output(spec, path) as output:
        picture = add_stream(output, cover)
        picture.disposition = av.stream.Disposition.attached_pic
        video = add_stream(output, spec)
        mux_in_order(output, encode(picture, cover) + encode(video, spec))


def _write_cover_art_alone(spec: ClipSpec, path: Path) -> None:
    with open_output(spec, path) as output:
        audio = add_audio_stream(output)
        picture = add_stream(output, spec)
        picture.disposition = av.stream.Disposition.attached_pic
        mux_in_order(output, encode(picture, spec) + encode_tone(audio, 1.0))


def _rotated(degrees: float, **flips: bool) -> Callable[[Any], None]:
    return lambda stream: stream.set_display_rotation(degrees, **flips)


def _sample_aspect_ratio(stream: Any) -> None:
    stream.sample_aspect_ratio = Fraction(4, 3)


def _colour(matrix: int, colour_range: int) -> Callable[[Any], None]:
    def configure(stream: Any) -> None:
        stream.codec_context.colorspace, stream.codec_context.color_range = matrix, colour_range

    return configure


def _paint_tall(number: int, width: int, height: int) -> Any:
    """The usual picture with a bright corner, so that every turn and flip of it looks different."""
    rgb = paint_picture(number, width, height)
    rgb[-height // 4 :, : width // 3] = (250, 40, 40)
    return rgb


def _parts_kept(*edits: tuple[int, int]) -> ClipSpec:
    """An edit list over 40 frames at 25 fps; edits are (frames, first frame), in the order of showing.

    The muxer's track has 512 ticks a frame and the movie 1000 a second; pictures start one reordering delay late.
    """
    ticks = [(count * 40, first if first < 0 else first * 512 + 1024) for count, first in edits]
    kept = ", ".join(f"{count} from {first}" if first >= 0 else f"{count} empty" for count, first in edits)
    return _h264(f"an edit list keeps frames: {kept}", patch=replace_edit_list(*ticks))


CONTAINERS = {
    "mp4": _h264("plain"),
    "mp4_faststart": _h264("index before the data", muxer_options={"movflags": "faststart"}),
    "mp4_fragmented": _h264("no sample tables", muxer_options=_FRAGMENTS),
    "mp4_fragment_per_frame": _h264("no sample tables", muxer_options={"movflags": "frag_every_frame+empty_moov"}),
    "mp4_negative_composition_offsets": _h264(
        "no edit list", muxer_options={"movflags": "negative_cts_offsets"}
    ),
    "mov": _h264("QuickTime", "mov"),
    "mkv": _h264("no dts, milliseconds", "matroska", "mkv"),
    "ts": _h264("no index", "mpegts", "ts"),
    "m2ts": _h264("192-byte packets", "mpegts", "m2ts", muxer_options={"mpegts_m2ts_mode": "1"}),
    "mpg": _h264("H.264 in a program stream", "mpeg", "mpg"),
    "flv": _h264("milliseconds", "flv"),
    "avi": _h264("neither pts nor reordering", "avi", options=_NO_B_FRAMES),
    "avi_b_frames": _h264("B pictures without pts", "avi"),
    "nut": _h264("NUT", "nut"),
    "raw_h264": _h264("no pts, no dts", "h264"),
    "raw_h264_no_b_frames": _h264("no pts, no dts", "h264", options=_NO_B_FRAMES),
    "raw_h264_open_gop": _h264("no pts, no dts", "h264", options=_OPEN_GOP),
    "raw_h264_intra_refresh": _h264(
        "no pts, no clean entry", "h264", options=_INTRA_REFRESH
    ),
    "ts_open_gop": _h264("open GOP", "mpegts", "ts", options=_OPEN_GOP),
    "mkv_open_gop": _h264("open GOP", "matroska", "mkv", options=_OPEN_GOP),
    "ts_intra_refresh": _h264(
        "no clean entry", "mpegts", "ts", options=_INTRA_REFRESH
    ),
    "ts_concatenated": _h264("time starts again", "mpegts", "ts", num_frames=20, build=_write_concatenated),
    "raw_h264_concatenated": _h264("no times", "h264", num_frames=20, build=_write_concatenated),
    "mpg_concatenated": ClipSpec("time starts again", "mpeg2video", "vob", "mpg",
        options={"g": "12", "bf": "2", "b": "600k"}, num_frames=20, build=_write_concatenated),
    "live_webm": ClipSpec(
        "no duration, no cues", "libvpx-vp9", "webm", "webm", build=_write_unseekable,
        options={"deadline": "realtime", "cpu-used": "-5", "g": "12"},
    ),
    "live_mkv": _h264("no duration, no cues", "matroska", "mkv", build=_write_unseekable),
    "live_flv": _h264("no duration, no index", "flv", build=_write_unseekable),
    "one_frame": _h264("a single frame", num_frames=1),
    "two_frames": _h264("two frames", num_frames=2),
}  # fmt: skip

TIMING = {
    "vfr_mp4": _h264("steps of 7 to 250 ms", time_base=_MILLISECONDS, pts=_uneven_times(40)),
    "vfr_mkv": _h264("steps of 7 to 250 ms", "matroska", "mkv", time_base=_MILLISECONDS, pts=_uneven_times(40)),
    "vfr_ts": _h264("steps of 7 to 250 ms", "mpegts", "ts", time_base=_MILLISECONDS, pts=_uneven_times(40)),
    "vfr_gif": ClipSpec("delays of 2 to 25", "gif", "gif", "gif", pix_fmt="bgr8", time_base=Fraction(1, 100),
        pts=[2 * n + n * n // 8 for n in range(40)]),
    "vfr_apng": ClipSpec("uneven delays", "apng", "apng", "png", pix_fmt="rgb24", time_base=_MILLISECONDS,
        pts=_uneven_times(20), num_frames=20),
    "late_start_mp4": _h264("starts at 8 s (empty edit)", pts=range(200, 240)),
    "late_start_mkv": _h264("starts at 8 s", "matroska", "mkv", pts=range(200, 240)),
    "late_start_ts": _h264("starts at 8 s", "mpegts", "ts", pts=range(200, 240)),
    "late_start_fragmented": _h264("starts at 8 s", muxer_options={"movflags": "frag_keyframe+delay_moov"},
        pts=range(200, 240)),
    "negative_pts_ts": _h264(
        "the 33-bit clock wraps around after 20 frames, which FFmpeg undoes by starting before 0", "mpegts", "ts",
        time_base=Fraction(1, 90000), pts=range(2**33 - 20 * 3600, 2**33 + 20 * 3600, 3600),
    ),
    "edit_list_trims_key_frame": _h264("a stream copy cut in the middle of a GOP", build=_write_copy_from_mid_gop),
    "edit_list_trims_key_frame_mov": _h264("the same in QuickTime", "mov", build=_write_copy_from_mid_gop),
    "edit_list_trims_closed_gop": _h264(
        "the same without B pictures", options=_NO_B_FRAMES, build=_write_copy_from_mid_gop
    ),
    "edit_list_start": _parts_kept((33, 7)),
    "edit_list_end": _parts_kept((22, 0)),
    "edit_list_both_ends": _parts_kept((20, 7)),
    "edit_list_two_parts": _parts_kept((10, 0), (12, 25)),
    "edit_list_two_parts_with_pause": _parts_kept((10, 3), (15, -1), (12, 25)),
    "edit_list_repeats": _parts_kept((10, 3), (10, 3)),
    "edit_list_backwards": _parts_kept((10, 25), (10, 3)),
    "missing_pts_ts": _h264("every third picture has times", "mpegts", "ts", patch=drop_ts_timestamps),
    "missing_pts_ts_no_b_frames": _h264(
        "every third picture has times", "mpegts", "ts", options=_NO_B_FRAMES, patch=drop_ts_timestamps
    ),
    "equal_pts_mkv": _h264("pairs of equal times", "matroska", "mkv", options=_NO_B_FRAMES,
        time_base=_MILLISECONDS, rewrite=_with_equal_pts, pts=range(0, 1600, 40)),
    "equal_pts_b_frames_mkv": _h264("pairs of equal times, reordered", "matroska", "mkv",
        time_base=_MILLISECONDS, rewrite=_with_equal_pts, pts=range(0, 1600, 40)),
    "equal_pts_flv": _h264("pairs of equal times", "flv", options=_NO_B_FRAMES,
        time_base=_MILLISECONDS, rewrite=_with_equal_pts, pts=range(0, 1600, 40)),
    "all_equal_pts_mkv": _h264("all times are 0", "matroska", "mkv", options=_NO_B_FRAMES,
        rewrite=set_timestamps(lambda t: 0)),
    "gaps_mp4": _h264("gaps of a second", time_base=_MILLISECONDS, pts=_GAPS),
    "gaps_mkv": _h264("gaps of a second", "matroska", "mkv", time_base=_MILLISECONDS, pts=_GAPS),
    "gaps_ts": _h264("gaps of a second", "mpegts", "ts", time_base=_MILLISECONDS, pts=_GAPS),
}  # fmt: skip


PICTURE = {
    "odd_size": ClipSpec("161x121 in 4:2:0", "mpeg4", options={"g": "12", "bf": "2"}, size=(161, 121)),
    "cropped": _h264("size not divisible by 16", size=(102, 74)),
    "tall": _h264("higher than wide", size=(64, 96)),
    "tiny": _h264("16x16", size=(16, 16)),
    "sample_aspect_ratio": _h264("pixels of 4:3", configure=_sample_aspect_ratio),
    **{f"rotated_{angle}": _h264(f"display matrix of {angle} degrees", configure=_rotated(angle), paint=_paint_tall)
        for angle in (90, 180, 270)},
    "rotated_90_mkv": _h264("rotation in Matroska", "matroska", "mkv", configure=_rotated(90), paint=_paint_tall),
    "rotated_88": _h264("not quite a quarter turn", configure=_rotated(88), paint=_paint_tall),
    "flipped_horizontally": _h264("mirrored", configure=_rotated(0, hflip=True), paint=_paint_tall),
    "flipped_vertically": _h264("upside down", configure=_rotated(0, vflip=True), paint=_paint_tall),
    "rotated_90_flipped": _h264("mirrored and turned", configure=_rotated(90, hflip=True), paint=_paint_tall),
    "rotated_270_flipped": _h264("mirrored and turned", configure=_rotated(270, hflip=True), paint=_paint_tall),
    "transposed": _h264(
        "a matrix that swaps the axes", paint=_paint_tall,
        configure=lambda stream: stream.set_display_matrix((0, 65536, 0, 65536, 0, 0, 0, 0, 1 << 30)),
    ),
    "rotated_90_odd": ClipSpec(
        "turned, odd size", "mpeg4", options={"g": "12"}, size=(161, 121), configure=_rotated(90), paint=_paint_tall
    ),
    **{f"colour_{name}_{range_name}": _h264(f"tagged {name}, {range_name} range", configure=_colour(matrix, range_))
        for name, matrix in (("bt601", 6), ("bt709", 1), ("bt2020", 9))
        for range_name, range_ in (("limited", 1), ("full", 2))},
    "colour_smpte240m": _h264("tagged SMPTE 240M", configure=_colour(7, 1)),
    "colour_fcc": _h264("tagged FCC", configure=_colour(4, 1)),
    "colour_ycgco": _h264("tagged YCgCo, which swscale refuses", configure=_colour(8, 1)),
    "colour_bt2020_constant_luminance": _h264("tagged BT.2020 CL, which swscale refuses", configure=_colour(10, 1)),
}  # fmt: skip

STREAMS = {
    "audio_beside_video": _h264("the sound comes first", build=_write_with_audio),
    "audio_beside_video_ts": _h264("the sound comes first", "mpegts", "ts", build=_write_with_audio),
    "audio_beside_video_mkv": _h264("the sound comes first", "matroska", "mkv", build=_write_with_audio),
    "audio_only": ClipSpec("no video", build=_write_audio_only, expect="no video"),
    "two_video_streams": _h264("of different sizes and lengths", build=_write_streams_of_two_sizes),
    "two_video_streams_mkv": _h264(
        "of different sizes and lengths", "matroska", "mkv", build=_write_streams_of_two_sizes
    ),
    "cover_art_mp4": _h264("an image with the video", build=_write_cover_art),
    "cover_art_mkv": _h264("an image with the video", "matroska", "mkv", build=_write_cover_art),
    "cover_art_alone": ClipSpec("an image with audio", "mjpeg", "mp4", "m4a", pix_fmt="yuvj420p", num_frames=1,
        build=_write_cover_art_alone),
    "size_change_ts": _h264("the size changes midway", "mpegts", "ts", build=write_size_change, expect="sizes"),
    "size_change_mkv": _h264("the size changes midway", "matroska", "mkv", build=write_size_change, expect="sizes"),
    "size_change_raw": _h264("the size changes midway", "h264", build=write_size_change, expect="sizes"),
    "size_change_vp9": ClipSpec("the size changes midway", "libvpx-vp9", "webm", "webm", build=write_size_change,
        options={"deadline": "realtime", "cpu-used": "-5", "g": "12"}, expect="sizes"),
}  # fmt: skip

CONTAINER_CLIPS = {**CONTAINERS, **TIMING, **PICTURE, **STREAMS}
