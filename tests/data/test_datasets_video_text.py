"""`VideoTextClips`: captions from all sources, compared with a decoder's frames at their times."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from dataset_samples import check_rows_anywhere
from media_subtitles import write_mkv_with_everything
from mediatensor._engine.pyav.encoding import write_test_pattern
from mediatensor.datasets import Item, Sample, Skipped, VideoTextClips
from mediatensor.decoders import Subtitle, SubtitleDecoder, VideoDecoder
from mediatensor.errors import InvalidArgumentError, OutOfRangeError, ReadError
from mediatensor.ocr.video import Captions, TextTrack, VideoReading
from mediatensor.samplers import clips_at_random_indices

FPS, NUM_FRAMES = 30, 90
BOX = ((0.3, 0.86), (0.7, 0.93))


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("videos")
    paths = [folder / "a.mp4", folder / "b.mp4"]
    for path in paths:
        write_test_pattern(path, width=96, height=64, num_frames=NUM_FRAMES, fps=FPS)
    return paths


def reading(*spans: tuple[int, int], kind: Any = "caption") -> VideoReading:
    """The reading of a video: a text in each span of frames [first, stop), named after it."""
    tracks = [
        TextTrack(f"{first} to {stop}", kind, first / FPS, stop / FPS, first, stop - 1, BOX, 0.9)
        for first, stop in spans
    ]
    return VideoReading("a.mp4", 64, 96, NUM_FRAMES, 0.0, NUM_FRAMES / FPS, tuple(tracks))


def row(dataset: VideoTextClips, number: int) -> Sample:
    sample = dataset[number]
    assert isinstance(sample, Sample)
    return sample


def test_frames_are_spread_over_the_time_of_each_caption(videos: list[Path]) -> None:
    spans = [(0, 8), (30, 60), (60, 61), (70, 90)]
    dataset = VideoTextClips(videos[:1], captions=lambda item: reading(*spans), num_frames_per_clip=4)
    assert len(dataset) == 4
    with VideoDecoder(videos[0]) as decoder:
        for number, expected in enumerate([[1, 3, 5, 7], [33, 41, 48, 56], [60] * 4, [72, 77, 82, 87]]):
            sample, (first, stop) = row(dataset, number), spans[number]
            assert sample.label == f"{first} to {stop}"
            assert sample.frame_indices is not None
            assert sample.frames is not None
            assert sample.frame_indices.tolist() == expected
            assert torch.equal(sample.frames.data, decoder.get_frames_at(expected).data)
            assert sample.extra == {
                "caption_index": number,
                "caption_start_seconds": first / FPS,
                "caption_end_seconds": stop / FPS,
                "caption_geometry": BOX,
            }


def test_captions_come_from_everywhere_they_are_kept(videos: list[Path], tmp_path: Path) -> None:
    read = reading((0, 15), (30, 60))
    for suffix in ("srt", "vtt", "ass", "json"):
        read.save(tmp_path / f"talk.{suffix}")
    plain = [Subtitle("0 to 15", 0.0, 0.5), Subtitle("30 to 60", 1.0, 2.0)]
    given: list[Any] = [read, read.captions, Captions(read.tracks), plain]
    given += [tmp_path / "talk.srt", str(tmp_path / "talk.vtt"), tmp_path / "talk.ass", tmp_path / "talk.json"]
    with SubtitleDecoder(tmp_path / "talk.srt") as decoder:
        given.append(decoder)
        for captions in given:
            by_column = VideoTextClips([{"path": str(videos[0]), "captions": captions, "place": "Oslo"}])
            by_function = VideoTextClips(videos[:1], captions=lambda item, captions=captions: captions)
            for dataset in (by_column, by_function):
                samples = [row(dataset, number) for number in range(len(dataset))]
                assert [sample.label for sample in samples] == ["0 to 15", "30 to 60"]
                assert [sample.frame_indices[0] for sample in samples] == [0, 30]  # type: ignore[index]
            assert samples[0].extra.keys() == {
                "caption_index", "caption_start_seconds", "caption_end_seconds", "caption_geometry",
            }  # fmt: skip
            assert row(by_column, 0).extra["place"] == "Oslo"
            assert "captions" not in row(by_column, 0).extra


def test_subtitles_within_the_video_are_the_default(tmp_path: Path) -> None:
    path = write_mkv_with_everything(tmp_path / "lesson.mkv")  # ten frames a second
    dataset = VideoTextClips([path], num_frames_per_clip=5)
    samples = [row(dataset, number) for number in range(len(dataset))]
    assert [sample.label for sample in samples] == ["Eins", "Zwei"]
    assert [sample.frame_indices.tolist() for sample in samples] == [[5, 6, 7, 8, 9], [13, 14, 15, 16, 17]]  # type: ignore[union-attr]
    assert samples[0].extra["caption_geometry"] is None
    french = VideoTextClips([path], captions=lambda item: SubtitleDecoder(item.source, stream_index=3))
    assert [row(french, 0).label, len(french)] == ["Un", 1]


def test_logos_and_blank_or_timeless_texts_are_not_captions(videos: list[Path]) -> None:
    logo = reading((0, 90), kind="overlay").tracks[0]
    read = reading((0, 15))
    mixed = VideoReading("a.mp4", 64, 96, NUM_FRAMES, 0.0, 3.0, (logo, *read.tracks))
    assert len(VideoTextClips(videos[:1], captions=lambda item: mixed)) == 1
    assert len(VideoTextClips(videos[:1], captions=lambda item: mixed.tracks)) == 2
    odd = [Subtitle(" \n", 0.0, 1.0), Subtitle("flash", 1.0, 1.0), Subtitle("said", 1.0, 2.0)]
    dataset = VideoTextClips(videos[:1], captions=lambda item: odd)
    assert (len(dataset), row(dataset, 0).label) == (1, "said")


def test_context_widens_clips_and_segments_bound_them(videos: list[Path]) -> None:
    read = reading((0, 15), (30, 45), (75, 90))

    def frames(item: Item, context_seconds: float) -> list[tuple[int, int]]:
        dataset = VideoTextClips(
            [item], lambda decoder: decoder.get_frames_at(range(len(decoder))), captions=lambda item: read,
            context_seconds=context_seconds,
        )  # fmt: skip
        indices = [row(dataset, number).frame_indices for number in range(len(dataset))]
        return [(int(one[0]), int(one[-1])) for one in indices if one is not None]

    path = str(videos[0])
    assert frames(Item(path), 0.0) == [(0, 14), (30, 44), (75, 89)]
    assert frames(Item(path), 0.2) == [(0, 20), (24, 50), (69, 89)]
    assert frames(Item(path, start_seconds=0.9, end_seconds=1.2), 0.2) == [(27, 35)]
    with pytest.raises(InvalidArgumentError, match="context_seconds must be 0 or more"):
        frames(Item(path), -0.1)


def test_videos_without_captions_have_no_row_and_unreadable_ones_one_that_fails(
    videos: list[Path], tmp_path: Path
) -> None:
    (tmp_path / "broken.json").write_text("{")
    columns: list[Any] = [
        [], reading((0, 15)), tmp_path / "missing.srt", tmp_path / "broken.json", "video.txt", 5, [7],
    ]  # fmt: skip
    rows = [{"path": str(videos[0]), "captions": captions} for captions in columns]
    dataset = VideoTextClips(rows, on_error="skip")
    assert len(dataset) == 6
    samples = [dataset[number] for number in range(6)]
    assert [isinstance(sample, Skipped) for sample in samples] == [False, *[True] * 5]
    messages = [sample.failures[0].message for sample in samples if isinstance(sample, Skipped)]
    assert all(message.startswith(f"The captions of {str(videos[0])!r} cannot be read: ") for message in messages)
    for message, part in zip(messages, ["missing.srt", "not JSON", "video.txt", "got 5", "got 7"], strict=True):
        assert part in message
    with pytest.raises(ReadError, match=r"missing\.srt"):
        VideoTextClips(rows)[1]
    with pytest.raises(InvalidArgumentError, match=r"No captions were found in 1 files.*captions="):
        VideoTextClips(rows[:1])
    with pytest.raises(ReadError, match="there is no subtitle file next to it; it has no text subtitle stream"):
        VideoTextClips(videos[:1])[0]
    late = VideoTextClips(videos[:1], captions=lambda item: [Subtitle("late", 50.0, 51.0)])
    with pytest.raises(OutOfRangeError, match="50"):
        late[0]
    with pytest.raises(InvalidArgumentError, match="captions must be one of any, column, sidecar, subtitles"):
        VideoTextClips(videos, captions="a.srt")  # type: ignore[arg-type]


def test_rows_do_not_depend_on_their_reader(videos: list[Path]) -> None:
    spans = [(first, first + 15) for first in range(0, 90, 15)]
    sampler = partial(clips_at_random_indices, num_frames_per_clip=4, num_indices_between_frames=2)
    dataset = VideoTextClips([{"path": str(videos[0]), "captions": reading(*spans)}], sampler, seed=1)
    assert [row(dataset, number).label for number in range(6)] == [f"{first} to {stop}" for first, stop in spans]
    check_rows_anywhere(dataset, 6)
