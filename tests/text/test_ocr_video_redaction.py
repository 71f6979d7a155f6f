"""Redacted videos: nothing of a text is left in any frame, and everything else is as in the source."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from matplotlib import font_manager
from PIL import Image, ImageDraw, ImageFont

import damaging
import media
import media_audio
import media_subtitles
from mediatensor.decoders import VideoDecoder
from mediatensor.encoders import VideoEncoder
from mediatensor.errors import (
    DecodeError,
    EncodeError,
    InvalidArgumentError,
    RedactionError,
    SizeChangeError,
    SourceTypeError,
)
from mediatensor.ocr import video_text_predictor
from mediatensor.ocr.video import Alternative, Place, TextTrack, VideoReading

REGION = (0.25, 0.25, 0.75, 0.5)
FPS = 20


def track(text: str, start: float, end: float, box: Any = ((0.3, 0.4), (0.6, 0.6)), **fields: Any) -> TextTrack:
    return TextTrack(text, "caption", start, end, round(start * FPS), round(end * FPS) - 1, box, 0.9, **fields)


def reading_of(path: Path, *tracks: TextTrack) -> VideoReading:
    metadata = VideoDecoder(path).metadata
    return VideoReading(path.name, metadata.height, metadata.width, len(VideoDecoder(path)), 0.0, 9.0, tracks)


def write_frames(path: Path, frames: np.ndarray) -> Path:
    VideoEncoder(torch.from_numpy(frames).permute(0, 3, 1, 2), frame_rate=FPS).to_file(path, codec="libx264", crf=10)
    return path


def read_frames(path: Path) -> np.ndarray:
    return VideoDecoder(path)[:].permute(0, 2, 3, 1).numpy()


def audio_packets(path: Path) -> list[tuple[int, float, bytes]]:
    with av.open(str(path)) as container:
        streams = [stream.index for stream in container.streams.audio]
        packets = [packet for packet in container.demux(*container.streams.audio) if packet.size]
    return [(streams.index(one.stream_index), float(one.pts * one.time_base), bytes(one)) for one in packets]


@pytest.fixture
def gray_clip(tmp_path: Path) -> Path:
    """Three seconds of gray."""
    return write_frames(tmp_path / "gray.mp4", np.full((60, 90, 160, 3), 150, np.uint8))


def black_frames(path: Path, x: float, y: float) -> list[int]:
    """The frames in which a point is black."""
    frames = read_frames(path)
    height, width = frames.shape[1:3]
    return np.nonzero(frames[:, int(y * height), int(x * width)].max(axis=1) < 20)[0].tolist()


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("anna  MEYER", [True, False]),  # over a line break
        ("Meier", [True, False]),  # an alternative
        (re.compile(r"\d{4}"), [False, True]),
        ("Call  Meyer", [False, False]),
        (re.compile("meyer"), [False, False]),
        (track("Call 1234", 1.5, 2.0, ((0.7, 0.8), (0.9, 0.9))), [False, True]),
    ],
)
def test_texts_are_covered_from_first_to_last_frame(
    gray_clip: Path, tmp_path: Path, text: Any, points: list[bool]
) -> None:
    name = track(
        "Anna\nMeyer", 1.0, 2.0, alternatives=(Alternative("Anna\nMeyer", 0.6), Alternative("Anna Meier", 0.4))
    )
    number = track("Call 1234", 1.5, 2.0, ((0.7, 0.8), (0.9, 0.9)))
    target = tmp_path / "redacted.mp4"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        covered = reading_of(gray_clip, name, number).redact(gray_clip, target, text)
    assert list(covered) == [one for one, is_covered in zip((name, number), points, strict=True) if is_covered]
    query = repr(getattr(text, "pattern", text))
    messages = [str(one.message).partition(",")[0] for one in caught]
    assert messages == ([] if any(points) else [f"Nothing matches {query}"])
    # 0.6 seconds before the first frame, and after the last.
    assert black_frames(target, 0.45, 0.5) == (list(range(8, 53)) if points[0] else [])
    assert black_frames(target, 0.8, 0.85) == (list(range(18, 53)) if points[1] else [])


@pytest.mark.parametrize("speed", [0.0, 0.8])
def test_no_frame_shows_a_text_that_was_read(tmp_path: Path, speed: float) -> None:
    """A text fades in and out over moving waves, and drifts, in pixels per frame. Its pixels differ from the waves."""
    y, x = np.mgrid[0:180, 0:400]
    waves = [110 + 60 * np.sin(x * 0.03 + y * 0.05 + number * 0.4) for number in range(60)]
    face = ImageFont.truetype(font_manager.findfont("DejaVu Sans:bold"), 20)
    shown = []
    for number, wave in enumerate(waves):
        mask = Image.new("L", (400, 180))
        place = (200 + speed * (number - 30), 150)
        ImageDraw.Draw(mask).text(place, "Call Anna Meyer", font=face, fill=255, anchor="mm")
        strength = np.clip(min((number - 8) / 10, (52 - number) / 10), 0, 1)
        shown.append(wave + (255 - wave) * np.asarray(mask) / 255 * strength)
    frames, clean = (np.repeat(np.round(one).astype(np.uint8)[..., None], 3, 3) for one in (shown, waves))
    clip, target = write_frames(tmp_path / "clip.mp4", frames), tmp_path / "redacted.mp4"
    predictor = video_text_predictor(pretrained=True)
    covered = predictor(clip).redact(clip, target, "anna meyer")
    assert {one.text for one in covered} == {"Call Anna Meyer"}
    assert any(one.places for one in covered) == bool(speed)
    redacted = read_frames(target)
    assert redacted[frames.astype(int) - clean > 2].max() < 40
    assert predictor(target).tracks == ()
    rest = redacted[:, :100].astype(float) - read_frames(clip)[:, :100]
    assert 10 * np.log10(255**2 / np.square(rest).mean()) > 40


def test_boxes_of_moving_texts_follow_them(tmp_path: Path) -> None:
    """A white square moves on a curve; a track has every fourth of its positions, but not the first and last four."""
    frames, places = np.full((40, 90, 160, 3), 150, np.uint8), []
    for number, frame in enumerate(frames):
        x, y = 10 + 3 * number, 60 - number + number**2 // 40
        frame[y : y + 12, x : x + 20] = 255
        if number % 4 == 0 and 4 <= number < 36:
            places.append(Place(number, number / FPS, ((x / 160, y / 90), ((x + 20) / 160, (y + 12) / 90))))
    clip, target = write_frames(tmp_path / "clip.mp4", frames), tmp_path / "redacted.mp4"
    moving = track("Meyer", 4 / FPS, 33 / FPS, places[0].geometry, places=tuple(places))
    reading_of(clip, moving).redact(clip, target, "Meyer")
    redacted = read_frames(target)
    assert redacted[frames == 255].max() < 20
    assert (redacted[:, :5] > 100).all()  # and not everything is covered


def test_only_frames_and_audio_are_written(tmp_path: Path) -> None:
    source, target = media_subtitles.write_mkv_with_everything(tmp_path / "all.mkv"), tmp_path / "redacted.mkv"
    with pytest.warns(UserWarning, match="subtitle streams and the chapters"):
        reading_of(source).redact(source, target, regions=[REGION])
    for hidden in (b"Zwei", "Grüße".encode(), b"Lesson", b"Commentaire"):
        assert hidden in source.read_bytes()
        assert hidden not in target.read_bytes()
    with av.open(str(target)) as container:
        assert [stream.type for stream in container.streams] == ["video", "audio"]
        assert container.streams[1].language == "eng"
    assert audio_packets(target) == audio_packets(source)


@pytest.mark.parametrize(
    ("name", "suffix"), [("av_mp4", "mp4"), ("av_mp4_late", "mov"), ("av_mkv_late", "mkv"), ("two_streams_mp4", "mp4")]
)
def test_audio_packets_are_copied(tmp_path: Path, name: str, suffix: str) -> None:
    source, target = media_audio.make(name, tmp_path), tmp_path / f"redacted.{suffix}"
    reading_of(source).redact(source, target, regions=[REGION])
    expected, copied = audio_packets(source), audio_packets(target)
    assert [(stream, data) for stream, _, data in sorted(copied)] == [
        (stream, data) for stream, _, data in sorted(expected)
    ]
    assert sorted(copied) == [(stream, pytest.approx(pts, abs=1e-6), data) for stream, pts, data in sorted(expected)]
    assert VideoDecoder(target).frame_index.pts_seconds.tolist() == pytest.approx(
        VideoDecoder(source).frame_index.pts_seconds.tolist(), abs=1e-6
    )


CLIPS = (
    "vfr_mp4", "vfr_mkv", "gaps_mp4", "late_start_mp4", "one_frame", "edit_list_both_ends", "equal_pts_mkv", "vfr_gif",
    "avi_b_frames", "raw_h264", "odd_size", "cropped", "sample_aspect_ratio", "rotated_90", "rotated_90_odd",
    "rotated_270_flipped", "colour_ycgco", "h264_10bit", "h264_444", "h264_rgb", "h264_gray", "hevc_422_12bit",
)  # fmt: skip


def paint_gradient(number: int, width: int, height: int) -> np.ndarray:
    y, x = np.mgrid[:height, :width]
    return np.stack([x * 2 + number, y * 3, x + y + number], axis=-1).astype(np.uint8)


@pytest.mark.parametrize("name", CLIPS)
def test_frames_keep_times_size_and_colours(tmp_path: Path, name: str) -> None:
    source, target = (
        media.make(name, tmp_path),
        tmp_path / "redacted.mkv" if "mkv" in name else tmp_path / "redacted.mp4",
    )
    if name == "h264_444":
        # x264 encodes the colours of 4:4:4 coarsely, so that noise next to the region changes colours in the region.
        media.write_spec(replace(media.CLIPS[name], paint=paint_gradient), source)
    reading_of(source).redact(source, target, regions=[REGION])
    before, after = VideoDecoder(source), VideoDecoder(target)
    expected, pts = before.frame_index.pts_seconds.numpy(), after.frame_index.pts_seconds.numpy()
    if name.startswith("equal_pts"):  # encoders do not accept equal times
        assert len(pts) == len(expected)
    else:
        np.testing.assert_allclose(pts, expected, rtol=0, atol=5.1e-4 if "mkv" in name else 1e-6)
    frames, redacted = (decoder[:].permute(0, 2, 3, 1).numpy().astype(float) for decoder in (before, after))
    height, width = frames.shape[1:3]
    assert redacted.shape == frames.shape
    inner = redacted[
        :, round(0.25 * height) + 2 : round(0.5 * height) - 2, round(0.25 * width) + 2 : round(0.75 * width) - 2
    ]
    assert inner.max() < 40
    far = np.ones((height, width), bool)
    far[int(0.25 * height) - 8 : int(0.5 * height) + 9, int(0.25 * width) - 8 : int(0.75 * width) + 9] = False
    error = np.square(frames - redacted)[:, far].mean()
    # The clips are noise. Conversion of RGB to 4:2:0 loses its colours.
    assert 10 * np.log10(255**2 / max(error, 1e-9)) > (18 if name in ("h264_rgb", "vfr_gif") else 35)
    one, other = before.metadata, after.metadata
    assert (one.height, one.width, one.pixel_aspect_ratio or 1) == (
        other.height,
        other.width,
        other.pixel_aspect_ratio or 1,
    )
    if name in ("rotated_90", "colour_ycgco", "h264_10bit", "h264_444", "h264_gray", "hevc_422_12bit"):
        stated = ("pixel_format", "color_space", "color_primaries", "rotation", "codec")
        assert [getattr(one, field) for field in stated] == [getattr(other, field) for field in stated]


def write_hdr(path: Path, pixel_format: str) -> Path:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", 25)
        stream.width, stream.height, stream.pix_fmt = 96, 64, pixel_format
        context = stream.codec_context
        context.color_trc, context.color_primaries = 16, 9  # PQ, BT.2020
        context.colorspace = 9 if pixel_format.startswith("yuv") else 0
        pixels = np.tile(np.linspace(0, 255, 96, dtype=np.uint8)[None, :, None], (64, 1, 3))
        for number in range(3):
            frame = av.VideoFrame.from_ndarray(pixels).reformat(format=pixel_format)
            frame.pts, frame.color_trc, frame.color_primaries = number, 16, 9
            frame.colorspace = context.colorspace
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def test_hdr_is_kept_or_its_loss_is_reported(tmp_path: Path) -> None:
    """Of the encoders, only that of HEVC accepts 12 bits, and none of them accepts RGB."""
    target = tmp_path / "redacted.mkv"

    def redact(source: Path, **options: Any) -> bool:
        with warnings.catch_warnings(record=True, action="always") as shown:
            reading_of(source).redact(VideoDecoder(source, **options), target, regions=[REGION])
        return any("does not have the HDR colours (PQ, smpte2084)" in str(one.message) for one in shown)

    assert not redact(write_hdr(tmp_path / "12bit.mkv", "yuv420p12le"))
    metadata = VideoDecoder(target).metadata
    assert (metadata.pixel_format, metadata.color_transfer_characteristic) == ("yuv420p12le", "smpte2084")
    source = write_hdr(tmp_path / "rgb.mkv", "gbrp10le")
    assert redact(source)
    assert not redact(source, tone_mapping="bt2390")


def test_result_is_read_again(gray_clip: Path, tmp_path: Path) -> None:
    """A predictor finds the text at another place in the first result, and no more in the second."""
    target, results = tmp_path / "redacted.mp4", []

    def predictor(path: Any) -> VideoReading:
        assert not target.exists()
        results.append(black_frames(path, 0.8, 0.85))
        again = [track("Call Meyer", 0.0, 3.0, ((0.7, 0.8), (0.9, 0.9)))] if len(results) == 1 else []
        return reading_of(gray_clip, *again)

    covered = reading_of(gray_clip, track("Meyer", 0.0, 3.0)).redact(gray_clip, target, "meyer", predictor=predictor)
    assert [one.text for one in covered] == ["Meyer", "Call Meyer"]
    assert results == [[], list(range(60))]
    assert black_frames(target, 0.8, 0.85) == list(range(60))


def test_result_is_read_again_only_to_search_for_texts(gray_clip: Path, tmp_path: Path) -> None:
    """Another track with the same text was not requested, and stays visible."""
    meyer, other = track("Meyer", 0.0, 3.0), track("Meyer", 0.0, 3.0, ((0.7, 0.8), (0.9, 0.9)))
    target, read = tmp_path / "redacted.mp4", []
    reading = reading_of(gray_clip, meyer, other)
    region = (0.0, 0.0, 0.1, 0.1)
    assert reading.redact(gray_clip, target, meyer, regions=[region], predictor=read.append) == (meyer,)
    assert not read
    assert black_frames(target, 0.45, 0.5) == black_frames(target, 0.05, 0.05) == list(range(60))
    assert black_frames(target, 0.8, 0.85) == []


def test_nothing_is_written_if_text_remains(gray_clip: Path, tmp_path: Path) -> None:
    reading = reading_of(gray_clip, track("Meyer", 0.0, 3.0))
    with pytest.raises(RedactionError, match=r"'Meyer' at 0\.000 s"):
        reading.redact(gray_clip, tmp_path / "redacted.mp4", "Meyer", predictor=lambda path: reading)
    assert sorted(tmp_path.iterdir()) == [gray_clip]


def test_damaged_frames_follow_the_decoder(tmp_path: Path) -> None:
    clip = media.make("mp4", tmp_path).read_bytes()
    source = tmp_path / "damaged.mp4"
    source.write_bytes(damaging.with_damage(clip, damaging.flipped, [4]))
    reading, target = reading_of(source), tmp_path / "redacted.mp4"
    with pytest.raises(DecodeError):
        reading.redact(VideoDecoder(source, on_error="raise"), target, regions=[REGION])
    assert not target.exists()
    skipping = VideoDecoder(source, on_error="skip")
    expected = skipping.get_frames_in_range(0, len(skipping)).pts_seconds.tolist()
    reading.redact(skipping, target, regions=[REGION])
    assert VideoDecoder(target).frame_index.pts_seconds.tolist() == pytest.approx(expected)
    assert len(expected) < len(skipping)


def test_frames_of_several_sizes_are_refused_or_scaled(tmp_path: Path) -> None:
    source, target = media.make("size_change_mpeg2_mkv", tmp_path), tmp_path / "redacted.mp4"
    reading = reading_of(source)
    with pytest.raises(SizeChangeError, match="on_size_change"):
        reading.redact(source, target, regions=[REGION])
    assert not target.exists()
    reading.redact(VideoDecoder(source, on_size_change="scale"), target, regions=[REGION])
    assert VideoDecoder(target)[:].shape[0] == len(VideoDecoder(source))


def test_frames_of_several_rotations_need_an_upright_copy(tmp_path: Path) -> None:
    source, target = tmp_path / "turning.ts", tmp_path / "redacted.mp4"
    gray = np.linspace(90, 210, 96).astype(np.uint8)[:, None, None]  # brighter at the bottom
    frame = torch.from_numpy(np.tile(gray, (1, 160, 3))).permute(2, 0, 1)
    plain, turned = tmp_path / "plain.ts", tmp_path / "turned.ts"
    VideoEncoder(frame.expand(10, -1, -1, -1), frame_rate=FPS).to_file(plain, codec="libx264")
    with av.open(str(plain)) as given, av.open(str(turned), "w") as output:
        stream = output.add_stream_from_template(given.streams.video[0])
        turn = av.BitStreamFilterContext("h264_metadata=display_orientation=insert:rotate=180", given.streams.video[0])
        for packet in given.demux(video=0):
            for changed in turn.filter(packet) if packet.size else []:
                changed.stream = stream
                output.mux(changed)
    source.write_bytes(plain.read_bytes() + turned.read_bytes())
    for given in (source, VideoDecoder(source, on_size_change="scale")):
        with pytest.raises(SizeChangeError, match=r"Frame 10 has another rotation .* upright copy"):
            reading_of(source).redact(given, target, regions=[REGION])
    assert not target.exists()
    copy = tmp_path / "copy.mp4"
    VideoEncoder(VideoDecoder(source, on_size_change="scale")[:], frame_rate=FPS).to_file(copy)
    reading_of(copy).redact(copy, target, regions=[REGION])
    redacted = read_frames(target).astype(int)
    with av.open(str(source)) as container:
        is_upright = [frame.rotation == 0 for frame in container.decode(video=0)]
    assert is_upright[:11] == [True] * 10 + [False]
    assert [frame[90].mean() > frame[5].mean() for frame in redacted] == is_upright
    assert redacted[:, 35, 80].max() < 20


def test_wrong_calls_are_refused(gray_clip: Path, tmp_path: Path) -> None:
    reading, target = reading_of(gray_clip, track("Meyer", 1.0, 2.0)), tmp_path / "redacted.mp4"
    data = gray_clip.read_bytes()
    for path, texts, regions, words in (
        (gray_clip, ["Meyer"], [], "a file that is read"),
        (tmp_path / "redacted.avi", ["Meyer"], [], "must be .mp4, .mov, .mkv or .webm"),
        (target, [], [], "nothing to redact"),
        (target, [" "], [], "is empty"),
        (target, [5], [], "5 is not a text"),
        (target, [re.compile(r"\d*")], [], "matches the empty text"),
        (target, [], [(0.2, 0.2, 0.1, 0.3)], "xmin < xmax"),
        (target, [], [(0.2, 0.2)], "xmin, ymin"),
        (target, [], 0.5, "regions must be a series of boxes"),
    ):
        with pytest.raises(InvalidArgumentError, match=re.escape(words)):
            reading.redact(gray_clip, path, *texts, regions=regions)
    with gray_clip.open("rb") as file, pytest.raises(InvalidArgumentError, match="a file that is read"):
        reading.redact(file, gray_clip, "Meyer")
    with pytest.raises(SourceTypeError, match="got 5"):
        reading.redact(gray_clip, 5, "Meyer")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="80x90"):
        replace(reading, width=80).redact(gray_clip, target, "Meyer")
    sounding = media_audio.make("av_mp4", tmp_path)
    with pytest.raises(EncodeError, match="aac"):
        reading_of(sounding).redact(sounding, tmp_path / "redacted.webm", regions=[REGION])
    assert gray_clip.read_bytes() == data
    assert not list(tmp_path.glob("redacted*"))
