"""Captions of clips: all sources, missing captions, and batches."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from dataset_samples import check_rows_anywhere, sample_of
from media_step import Film, write
from mediatensor import AudioSamples
from mediatensor.datasets import (
    ClipCaption,
    DataLoader,
    Item,
    Skipped,
    TarSamples,
    VideoAudioClips,
    VideoTextClips,
    pad,
    stack,
)
from mediatensor.decoders import AudioVideoDecoder, SubtitleDecoder
from mediatensor.errors import InvalidArgumentError, ReadError, StreamError, TooManyFailuresError
from mediatensor.ocr.video import TextTrack, VideoReading
from range_server import serve
from tar_files import tar_bytes

RATE, FPS = 8000, 25
FILM = Film("mkv", "ffv1", "pcm_s16le", rate=RATE, flashes=((20, 25), (50, 54)))
#: What both flashes are in a clip of the whole film.
WHOLE = [("flash 0", 20, 24, 6400, 8000), ("flash 1", 50, 53, 16_000, 17_280)]
OPTIONS: dict[str, Any] = {"seconds_per_clip": 3.0, "sample_rate": RATE}
BOX = ((0.3, 0.86), (0.7, 0.93))


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(FILM, tmp_path_factory.mktemp("film") / "film.mkv")


@pytest.fixture(scope="module")
def with_streams(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """With a stream of subtitles."""
    folder = tmp_path_factory.mktemp("streams")
    webm = Film("webm", "libvpx", "libopus", flashes=FILM.flashes, options={"deadline": "realtime", "cpu-used": "8"})
    vtt = "WEBVTT\n\n" + FILM.srt().replace(",", ".")
    return [write(FILM, folder / "a.mkv", FILM.srt()), write(webm, folder / "b.webm", vtt)]


def places(captions: Any) -> list[tuple[str, int, int, int, int]]:
    return [
        (one.text, one.first_frame, one.last_frame, one.start_sample, one.stop_sample)
        for one in captions
    ]  # fmt: skip


def reading() -> VideoReading:
    tracks = [
        TextTrack(f"flash {n}", "caption", first / FPS, stop / FPS, first, stop - 1, BOX, 0.9)
        for n, (first, stop) in enumerate(FILM.flashes)
    ]
    return VideoReading("film.mkv", 48, 80, 75, 0.0, 3.0, tuple(tracks))


# Where captions are


def test_a_column_has_captions_in_every_form(film: Path, tmp_path: Path) -> None:
    listed = FILM.captions()
    reading().save(tmp_path / "read.json")
    (tmp_path / "listed.json").write_text(json.dumps(listed))
    (tmp_path / "other.srt").write_text(FILM.srt())
    vtt = "WEBVTT\n\n" + FILM.srt().replace(",", ".")
    forms: list[Any] = [
        listed, tuple(listed), reading(), FILM.srt(), FILM.srt().encode(), vtt, "\ufeff" + vtt, json.dumps(listed),
        json.dumps({"text": "all of it", "language": "en", "segments": listed}),
        {name: [one[name] for one in listed] for name in listed[0]},
        [
            {"start_seconds": str(one["start"]), "end_seconds": f"0:0{one['end']}", "text": one["text"]}
            for one in listed
        ],
        tmp_path / "other.srt", str(tmp_path / "other.srt"), tmp_path / "read.json", tmp_path / "listed.json",
    ]  # fmt: skip
    for form in forms:
        rows = VideoAudioClips([{"path": film, "captions": form, "place": "Oslo"}], captions="column", **OPTIONS)
        sample = sample_of(rows)
        assert places(sample.captions) == WHOLE, form
        assert sample.extra == {"place": "Oslo", "silent_spans": ()}
        assert not any(caption.is_cut for caption in sample.captions)
    by_function = VideoAudioClips([film], captions=lambda item: reading(), **OPTIONS)
    assert [caption.geometry for caption in sample_of(by_function).captions] == [BOX, BOX]
    # Without a wish for captions, the column is one as any other.
    plain = sample_of(VideoAudioClips([{"path": film, "captions": "another column"}], **OPTIONS))
    assert (plain.captions, plain.extra["captions"]) == (None, "another column")


def test_every_source_gives_the_same_row(film: Path, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    folder = tmp_path / "folder"
    folder.mkdir()
    data, srt, listed = film.read_bytes(), FILM.srt(), FILM.captions()
    (folder / "a.mkv").write_bytes(data)
    (folder / "a.srt").write_text(srt)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.vtt").write_text("WEBVTT\n\n" + srt.replace(",", "."))
    (tmp_path / "paths.csv").write_text("path,captions\nfolder/a.mkv,texts/a.vtt\n")
    (tmp_path / "lists.jsonl").write_text(json.dumps({"path": "folder/a.mkv", "captions": listed}) + "\n")
    (tmp_path / "sidecar.tar").write_bytes(tar_bytes([("1.en.srt", srt.encode()), ("1.mkv", data)]))
    about = json.dumps({"captions": listed}).encode()
    (tmp_path / "within.tar").write_bytes(tar_bytes([("1.json", about), ("1.mkv", data)]))
    media = [{"bytes": data, "path": "a.mkv"}]
    for name, captions in (("lists", [listed]), ("texts", [srt])):
        table = pyarrow.table({"video": media, "captions": captions})
        parquet.write_table(table, tmp_path / f"{name}.parquet", compression="none")

    expected = sample_of(VideoAudioClips([film], captions=lambda item: listed, seed=3, **OPTIONS))
    assert places(expected.captions) == WHOLE
    # In whole milliseconds, as these times are, text is as exact as numbers.
    sources: list[Any] = [
        str(folder), [folder / "a.mkv"], *(str(tmp_path / name) for name in (
            "paths.csv", "lists.jsonl", "sidecar.tar", "within.tar", "lists.parquet", "texts.parquet",
        )),
    ]  # fmt: skip
    for source in sources:
        rows = VideoAudioClips(source, captions="any", seed=3, **OPTIONS)
        sample = sample_of(pickle.loads(pickle.dumps(rows)))
        assert sample.captions == expected.captions, source
        assert torch.equal(sample.frames.data, expected.frames.data)
        assert torch.equal(sample.audio.data, expected.audio.data)  # type: ignore[union-attr]
        assert VideoTextClips(source)[1].label == "flash 1"  # type: ignore[union-attr]
    recipe = VideoAudioClips([film], captions="any", **OPTIONS).recipe
    for shard in ("sidecar.tar", "within.tar"):
        (sample,) = TarSamples(str(tmp_path / shard), recipe)  # type: ignore[misc]
        assert places(sample.captions) == WHOLE


def test_rows_of_hugging_face_have_captions(film: Path) -> None:
    datasets = pytest.importorskip("datasets")
    media = {"bytes": film.read_bytes(), "path": None}
    rows = datasets.Dataset.from_list([{"video": media, "captions": FILM.captions()}])
    sample = sample_of(VideoAudioClips(rows, captions="column", **OPTIONS))
    assert places(sample.captions) == WHOLE


def test_subtitles_in_the_file_are_found(with_streams: list[Path]) -> None:
    rows = VideoAudioClips(with_streams, captions="subtitles", **OPTIONS)
    for row in range(2):
        assert places(sample_of(rows, row).captions) == WHOLE


def test_sidecars_of_a_video_have_an_order(film: Path, tmp_path: Path) -> None:
    data = film.read_bytes()
    for name in ("talk.mkv", "talk.two.mkv", "other.mkv"):
        (tmp_path / name).write_bytes(data)
    names = ["talk.two.srt", "talk.en.srt", "talk.de.VTT", "talk.zh-Hans.srt", "talks.srt", "talk.second part.srt"]
    for name in names:
        head = "WEBVTT\n\n" if name.endswith("VTT") else "1\n"
        (tmp_path / name).write_text(f"{head}00:00:01.000 --> 00:00:02.000\n{name}\n")

    def taken(path: str, **options: Any) -> str:
        (caption,) = sample_of(VideoAudioClips([tmp_path / path], captions="sidecar", **options, **OPTIONS)).captions
        return caption.text

    assert taken("talk.mkv") == "talk.en.srt"  # they all name a language: by name
    assert taken("talk.mkv", captions_language="en") == "talk.en.srt"
    assert taken("talk.mkv", captions_language=("fr", "ZH", "de")) == "talk.zh-Hans.srt"
    assert taken("talk.two.mkv") == "talk.two.srt"
    with pytest.raises(StreamError, match="there is no subtitle file next to it in fr"):
        taken("talk.mkv", captions_language="fr")
    (tmp_path / "talk.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\nplain\n")
    assert taken("talk.mkv") == "plain"
    assert taken("talk.mkv", captions_language="fr") == "plain"
    assert taken("talk.mkv", captions_language="de") == "talk.de.VTT"
    (tmp_path / "other.srt").mkdir()
    if hasattr(os, "mkfifo"):  # reading a pipe would never end
        os.mkfifo(tmp_path / "other.vtt")
    with pytest.raises(StreamError, match=r"other\.mkv' has no captions: there is no subtitle file next to it\."):
        taken("other.mkv")


def test_sidecars_are_not_searched_next_to_a_url(film: Path, tmp_path: Path) -> None:
    (tmp_path / "a.mkv").write_bytes(film.read_bytes())
    (tmp_path / "a.srt").write_text(FILM.srt())
    with serve(tmp_path) as server:
        with pytest.raises(StreamError, match="no subtitle files are searched for next to a URL"):
            VideoAudioClips([f"{server.url}/a.mkv"], captions="sidecar", **OPTIONS)[0]
        rows = [{"path": f"{server.url}/a.mkv", "captions": f"{server.url}/a.srt"}]
        assert places(sample_of(VideoAudioClips(rows, captions="any", **OPTIONS)).captions) == WHOLE


# Their places in a clip


def between(decoder: AudioVideoDecoder, start: float, stop: float, fps: float | None = None) -> Any:
    return decoder.get_played_in_range(start, stop, fps)


@pytest.mark.parametrize(
    ("start", "stop", "expected"),
    [
        (0.9, 2.04, [("flash 0", 0, 2, 0, 800, True), ("flash 1", 28, 28, 8800, 9120, True)]),
        (1.0, 2.0, []),  # they end and begin at these times
        (0.5, 1.5, [("flash 0", 8, 12, 2400, 4000, False)]),
        (0.85, 0.95, [("flash 0", 0, 2, 0, 800, True)]),
    ],
)
def test_captions_are_cut_to_the_clip(film: Path, start: float, stop: float, expected: list[Any]) -> None:
    sampler = partial(between, start=start, stop=stop)
    sample = sample_of(VideoAudioClips([film], sampler, captions=lambda item: FILM.captions()))
    assert [
        (*place, one.is_cut) for place, one in zip(places(sample.captions), sample.captions, strict=True)
    ] == expected
    for caption in sample.captions:
        assert start <= caption.start_seconds < caption.end_seconds <= stop


def test_captions_shorter_than_a_frame_and_over_each_other(film: Path) -> None:
    found = [
        {"start": 0.41, "end": 0.43, "text": "short", "speaker": "Ann"}, {"start": 0.0, "end": 3.0, "text": "all"},
        {"start": 1.0, "end": 1.0, "text": "no time"}, {"start": 1.0, "end": 2.0, "text": " \n"},
        {"start": 3.0, "end": 4.0, "text": "after"}, {"start": 2.9, "end": 9.0, "text": "last"},
    ]  # fmt: skip
    sample = sample_of(VideoAudioClips([film], captions=lambda item: found, **OPTIONS))
    assert places(sample.captions) == [
        ("all", 0, 74, 0, 24_000), ("short", 10, 10, 3280, 3440), ("last", 73, 74, 23_200, 24_000),
    ]  # fmt: skip
    assert [caption.speaker for caption in sample.captions] == [None, "Ann", None]


def test_padding_has_no_captions(film: Path) -> None:
    found = [*FILM.captions(), {"start": 2.5, "end": 9.0, "text": "to the end"}]
    options = {**OPTIONS, "seconds_per_clip": 4.0, "fps": 5, "captions": lambda item: found}
    # The frames at 2.6, 2.8 s, and then five times the last one; of the sound there is more than of the pictures.
    assert places(sample_of(VideoAudioClips([film], **options)).captions)[-1] == ("to the end", 13, 19, 20_000, 32_000)
    found[-1]["end"] = 3.1
    assert places(sample_of(VideoAudioClips([film], **options)).captions)[-1] == ("to the end", 13, 15, 20_000, 24_800)
    # A segment ends before the second flash, and its clips do not show later frames.
    segment = Item(str(film), start_seconds=0.6, end_seconds=1.8)
    assert places(sample_of(VideoAudioClips([segment], **options)).captions) == [("flash 0", 1, 1, 1600, 3200)]


def half_the_rate(sound: AudioSamples) -> AudioSamples:
    return AudioSamples(sound.data[:, ::2].clone(), sound.pts_seconds, sound.duration_seconds, sound.sample_rate // 2)


def test_places_of_captions_follow_transforms(film: Path, tmp_path: Path) -> None:
    late = write(
        Film("mkv", "ffv1", "pcm_s16le", rate=RATE, audio_begin_seconds=0.5, audio_end_seconds=2.5), tmp_path / "a.mkv"
    )
    rows = VideoAudioClips([late], captions=lambda item: FILM.captions(), audio_transform=half_the_rate, **OPTIONS)
    sample = sample_of(rows)
    assert [place[3:] for place in places(sample.captions)] == [(3200, 4000), (8000, 8640)]
    assert sample.extra["silent_spans"] == ((0, 2000), (10_000, 12_000))
    mask = sample.sample_mask
    assert mask is not None
    assert mask.nonzero().flatten().tolist() == list(range(2000, 10_000))
    batch = next(iter(DataLoader(rows, 1)))
    assert torch.equal(batch.sample_mask, mask[None])


# Missing captions and audio


@pytest.fixture(scope="module")
def mute(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(Film("mkv", "ffv1", ""), tmp_path_factory.mktemp("mute") / "mute.mkv")


def test_missing_sound_is_an_error_silence_or_left_out(film: Path, mute: Path) -> None:
    options = {**OPTIONS, "num_channels": 2, "fps": 5}
    with pytest.raises(StreamError, match="no audio stream"):
        VideoAudioClips([mute, film], **options)[0]
    rows = VideoAudioClips([mute, film], missing="pad", **options)
    batch = next(iter(DataLoader(rows, 2)))
    assert batch.audio.data.shape == (2, 2, 24_000)
    assert not batch.audio.data[0].any()
    assert batch.sample_mask.sum(dim=1).tolist() == [0, 24_000]
    assert batch.audio.num_valid_samples.tolist() == [0, 24_000]
    assert batch.extra["silent_spans"] == [((0, 24_000),), ()]
    skipping = VideoAudioClips([mute, film], missing="skip", **options)
    assert isinstance(skipping[0], Skipped)
    loader = DataLoader(skipping, 2)
    assert [batch.row.tolist() for batch in loader] == [[1]]
    ((failure,),) = [loader.failures.failures]
    assert (failure.source, failure.error, failure.action) == (str(mute), "StreamError", "skipped")
    # Only broken rows are replaced; a row that is left out is not.
    replacing = VideoAudioClips([mute, film], missing="skip", on_error="replace", **options)
    assert isinstance(replacing[0], Skipped)
    only_mute = VideoAudioClips([mute] * 30, missing="skip", on_error="skip", max_consecutive_failures=2, **options)
    assert all(isinstance(only_mute[row], Skipped) for row in range(30))


def test_a_mute_video_has_silent_segments_and_clips(mute: Path) -> None:
    rows = VideoAudioClips(
        [Item(str(mute), start_seconds=1.0, end_seconds=2.5)], seconds_per_clip=0.5, fps=10, num_clips=3,
        keep_clip_dimension=True, missing="pad", sample_rate=RATE, captions=lambda item: FILM.captions(),
    )  # fmt: skip
    sample = sample_of(rows)
    assert sample.audio.data.shape == (3, 1, 4000)  # type: ignore[union-attr]
    assert sample.sample_mask.shape == (3, 4000)  # type: ignore[union-attr]
    assert not sample.sample_mask.any()  # type: ignore[union-attr]
    assert len(sample.captions) == 3
    starts = sample.audio.pts_seconds.tolist()  # type: ignore[union-attr]
    assert [len(clip) for clip in sample.captions] == [int(start + 0.5 > 2.0) for start in starts]


@pytest.mark.parametrize("place", ["column", "sidecar", "subtitles", "any"])
def test_missing_captions_are_an_error_none_or_left_out(film: Path, place: Any) -> None:
    def rows(missing: Any, **options: Any) -> VideoAudioClips:
        return VideoAudioClips([film], captions=place, missing=missing, **options, **OPTIONS)

    with pytest.raises(StreamError, match=r"film\.mkv' has no captions: "):
        rows("error")[0]
    assert isinstance(rows("error", on_error="skip")[0], Skipped)
    assert sample_of(rows("pad")).captions == ()
    skipped = rows("skip")[0]
    assert isinstance(skipped, Skipped)
    assert skipped.failures[0].error == "StreamError"


HOSTILE: list[tuple[Any, str]] = [
    (7, "got 7"),
    ([7], "got 7"),
    ([{"start": 0.0, "text": "no end"}], "must have the attributes text"),
    ([{"start": 0.0, "end": float("nan"), "text": "a"}], "end_seconds must be a finite number"),
    ([{"start": "soon", "end": 1.0, "text": "a"}], "start_seconds must be"),
    ([{"start": 0.0, "end": 1.0, "text": 5}], "text of a caption must be a str"),
    ({"start": [0.0], "end": [1.0, 2.0], "text": ["a"]}, "captions must be"),
    ("[" * 100_000, "or be JSON"),
    ("two lines\nof prose", "or be JSON"),
    ('{"segments": 5}', "captions must be"),
    ("missing.srt", "missing.srt"),
    (b"\x00\x01\x02 nothing", "cannot be read"),
    ("1\n00:00:01,000 --> 00:00:02,000\n\udcff\n", "cannot be read"),
]


@pytest.mark.parametrize(("given", "message"), HOSTILE, ids=lambda value: str(value)[:20].replace("\n", " "))
def test_unreadable_captions_are_errors(film: Path, given: Any, message: str) -> None:
    rows = VideoAudioClips([{"path": film, "captions": given}], captions="column", missing="pad", **OPTIONS)
    with pytest.raises(ReadError, match=message) as raised:
        rows[0]
    assert str(raised.value).startswith(f"The captions of {str(film)!r} cannot be read: ")
    broken = VideoAudioClips(
        [{"path": film, "captions": given}] * 3,
        captions="column",
        on_error="skip",
        max_consecutive_failures=5,
        **OPTIONS,
    )
    assert isinstance(broken[0], Skipped)


def test_an_empty_subtitle_file_says_nothing(film: Path, tmp_path: Path) -> None:
    for number, text in enumerate(["", "\n \n", "WEBVTT\n"]):
        path = tmp_path / f"{number}.mkv"
        path.write_bytes(film.read_bytes())
        path.with_suffix(".vtt").write_text(text)
        assert sample_of(VideoAudioClips([path], captions="sidecar", **OPTIONS)).captions == ()


def test_wrong_arguments_are_refused(film: Path) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"captions": "srt"}, "captions must be one of any, column, sidecar, subtitles"),
        ({"captions": 5}, "captions"),
        ({"captions": "any", "captions_language": 5}, "captions_language"),
        ({"captions": "any", "captions_language": ["en", ""]}, "captions_language"),
        ({"missing": "silence"}, "missing"),
        ({"missing": "pad", "sample_rate": None}, "missing='pad' needs sample_rate"),
        ({"tokenizer": "words"}, "tokenizer"),
    ]
    for options, message in wrong:
        with pytest.raises(InvalidArgumentError, match=message):
            VideoAudioClips([film], **{**OPTIONS, **options})


# Batches


def letters(text: str) -> list[int]:
    return [ord(letter) for letter in text]


def test_batches_have_captions_side_by_side(film: Path) -> None:
    texts = [[], ["a"], ["bcd", "ef"]]
    rows = [
        {"path": film, "captions": [{"start": n, "end": n + 1, "text": text} for n, text in enumerate(of_row)]}
        for of_row in texts
    ]
    tokenizers: list[Callable[[str], Any]] = [
        letters, lambda text: {"input_ids": letters(text)}, lambda text: torch.tensor(letters(text)),
    ]  # fmt: skip
    for tokenizer in tokenizers:
        dataset = VideoAudioClips(rows, captions="column", tokenizer=tokenizer, fps=5, missing="pad", **OPTIONS)
        for collate in (stack, pad):
            batch = next(iter(DataLoader(dataset, 3, collate_fn=collate)))
            assert [[caption.text for caption in captions] for captions in batch.captions] == texts
            assert batch.num_captions.tolist() == [0, 1, 2]
            assert batch.caption_ids.tolist() == [
                [[0, 0, 0], [0, 0, 0]], [[97, 0, 0], [0, 0, 0]], [[98, 99, 100], [101, 102, 0]],
            ]  # fmt: skip
            assert batch.num_caption_ids.tolist() == [[0, 0], [1, 0], [3, 2]]
            assert torch.equal(batch.caption_mask, batch.caption_ids > 0)
            moved = pickle.loads(pickle.dumps(batch.to("cpu")))
            assert moved.captions == batch.captions
            assert torch.equal(moved.caption_mask, batch.caption_mask)
    plain = next(iter(DataLoader(VideoAudioClips(rows, captions="column", fps=5, missing="pad", **OPTIONS), 3)))
    assert (plain.caption_ids, plain.caption_mask) == (None, None)
    silent = next(iter(DataLoader(VideoAudioClips(rows, fps=5, **OPTIONS), 3)))
    assert (silent.captions, silent.num_captions) == (None, None)


def test_several_clips_have_captions_each(film: Path) -> None:
    dataset = VideoAudioClips(
        [film, film], seconds_per_clip=1.0, fps=5, num_clips=4, keep_clip_dimension=True, tokenizer=letters,
        captions=lambda item: FILM.captions(),
    )  # fmt: skip
    batch = next(iter(DataLoader(dataset, 2)))
    assert batch.caption_ids.shape[:2] == (2, 4)
    assert batch.num_captions.shape == (2, 4)
    for sample, clips in enumerate(batch.captions):
        for number, captions in enumerate(clips):
            assert batch.num_captions[sample, number] == len(captions)
            for place, caption in enumerate(captions):
                num_ids = int(batch.num_caption_ids[sample, number, place])
                assert batch.caption_ids[sample, number, place, :num_ids].tolist() == letters(caption.text)


@pytest.mark.parametrize("given", ["text", 5, [1.5], [None], {"ids": [1]}, [2**63]], ids=str)
def test_tokens_must_be_whole_numbers(film: Path, given: Any) -> None:
    rows = VideoAudioClips([film], captions=lambda item: FILM.captions(), tokenizer=lambda text: given, **OPTIONS)
    with pytest.raises(InvalidArgumentError, match="The tokenizer must return"):
        rows[0]


def test_rows_do_not_depend_on_their_reader(film: Path) -> None:
    rows = [{"path": film, "captions": FILM.captions()}] * 2
    dataset = VideoAudioClips(
        rows, seconds_per_clip=1.0, fps=5, captions="column", tokenizer=letters, rows_per_file=6, seed=2
    )
    assert sum(len(sample_of(dataset, row).captions) for row in range(12)) > 6
    check_rows_anywhere(dataset, 12)


def test_too_many_broken_captions_end_the_run(film: Path) -> None:
    rows = [{"path": film, "captions": "gone.srt", "number": number} for number in range(4)]
    copies = [{**row, "path": str(film)} for row in rows]
    dataset = VideoAudioClips(copies, captions="column", on_error="replace", max_consecutive_failures=2, **OPTIONS)
    with pytest.raises(TooManyFailuresError, match=r"gone\.srt"):
        dataset[0]


def test_a_decoder_of_subtitles_may_be_given(film: Path, tmp_path: Path) -> None:
    (tmp_path / "latin.srt").write_bytes(FILM.srt().replace("flash", "éclair").encode("cp1252"))

    def captions(item: Item) -> SubtitleDecoder:
        return SubtitleDecoder(tmp_path / "latin.srt", encoding="cp1252")

    sample = sample_of(VideoAudioClips([film], captions=captions, **OPTIONS))
    assert [caption.text for caption in sample.captions] == ["éclair 0", "éclair 1"]
    assert isinstance(sample.captions[0], ClipCaption)
    assert "captions: 2" in repr(sample)
