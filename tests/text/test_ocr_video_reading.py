"""The reading of a video as data, files and images; other programs read the files back."""

from __future__ import annotations

import copy
import csv
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import pdf_files
from mediatensor.decoders import SubtitleDecoder
from mediatensor.errors import InvalidArgumentError, ReadError, SourceTypeError, WriteError
from mediatensor.ocr.drawing import find_faces
from mediatensor.ocr.io import Block, Line, Page, Word
from mediatensor.ocr.video import Alternative, Captions, Place, Slide, TextTrack, TrackLine, VideoReading

BOX = ((0.3, 0.86), (0.7, 0.93))
TEXTS = [
    "Good evening",
    'say "hi", she said',
    "a;b,c\td",
    "=1+1",
    "日本",
    "two\nlines",
    "-->",
    "\\N {x} <i>",
    " spaced ",
]
BLUE, ORANGE, GREEN, PURPLE = (47, 111, 193), (176, 93, 12), (47, 125, 79), (125, 79, 160)


def a_track(**changes: Any) -> TextTrack:
    return replace(TextTrack("Good evening", "caption", 1.0, 2.5, 30, 74, BOX, 0.97), **changes)


def a_slide(number: int = 1, words: str = "Heat pumps") -> Slide:
    picture = np.full((180, 320, 3), 40 * number, np.uint8)
    upright = {"value": 0, "confidence": None}
    line = [
        Word(word, 0.9, ((0.1 + 0.3 * n, 0.1), (0.35 + 0.3 * n, 0.2)), 0.9, upright)
        for n, word in enumerate(words.split())
    ]
    page = Page(picture, [Block([Line(line)])], number - 1, (180, 320))
    return Slide(number, 300 * number - 300, 300 * number - 1, 10.0 * number - 10, 10.0 * number, page)


def random_reading(seed: int) -> VideoReading:
    generator = random.Random(seed)

    def box() -> Any:
        left, top = generator.random() / 2, generator.random() / 2
        return ((left, top), (left + generator.random() / 2, top + generator.random() / 2))

    def track() -> TextTrack:
        lines = tuple(
            TrackLine(generator.choice(TEXTS), box(), generator.random()) for _ in range(generator.randint(0, 3))
        )
        text = "\n".join(line.text for line in lines) or generator.choice(TEXTS)
        first = generator.randrange(200)
        last = first + generator.randrange(50)
        return TextTrack(
            text,
            generator.choice(["caption", "overlay", "scene", "slide"]),
            first / 29.97,
            (last + 1) / 29.97,
            first,
            last,
            box(),
            generator.random(),
            lines,
            tuple(Alternative(generator.choice(TEXTS), generator.random()) for _ in range(generator.randint(0, 2))),
            generator.choice(["at once", "word by word"]),
            tuple(Place(first + n, (first + n) / 29.97, box()) for n in range(generator.choice([0, 0, 3]))),
        )

    slides = tuple(a_slide(number + 1) for number in range(generator.randint(0, 2)))
    tracks = tuple(track() for _ in range(generator.randint(0, 12)))
    problems = ("Frames 250 to 259 do not decode.",) * generator.randint(0, 1)
    return VideoReading("talk.mp4", 720, 1280, 300, 0.0, 300 / 29.97, tracks, slides, problems)


@pytest.mark.parametrize("seed", range(20))
def test_json_is_read_back_equal(seed: int, tmp_path: Path) -> None:
    reading = random_reading(seed)
    reading.save(tmp_path / "talk.json")
    stored = json.loads((tmp_path / "talk.json").read_text(encoding="utf-8"))
    assert stored == json.loads(json.dumps(reading.export()))
    restored = VideoReading.from_dict(stored)
    assert restored == reading
    assert json.dumps(restored.export()) == json.dumps(reading.export())
    if reading.slides:
        pictures = [np.asarray(slide.page.page) for slide in reading.slides]
        again = VideoReading.from_dict(stored, pictures)
        assert all((slide.page.page == picture).all() for slide, picture in zip(again.slides, pictures, strict=True))
        with pytest.raises(InvalidArgumentError, match="0 pictures"):
            VideoReading.from_dict(stored, [])


def places_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in nested dictionaries and lists."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (*path, key)
        yield from places_in(item, (*path, key))


def test_damaged_exports_are_refused() -> None:
    stored = json.loads(json.dumps(random_reading(7).export()))
    generator = random.Random(0)
    paths = [path for path in places_in(stored) if "page" not in path[:-1]]
    refused = 0
    for path in generator.sample(paths, min(len(paths), 150)):
        for damage in (None, "x", -7, [], {}, float("nan"), True):
            damaged = copy.deepcopy(stored)
            holder = damaged
            for key in path[:-1]:
                holder = holder[key]
            holder[path[-1]] = damage
            try:
                VideoReading.from_dict(damaged)
            except InvalidArgumentError:
                refused += 1
    assert refused > 500


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema": "other"}, "schema is 'other'"),
        ({"version": 2}, "version 2.*up to 1"),
        ({"tracks": None}, "list of tracks"),
        ({"tracks": [{}]}, "list of lines"),
        ({"height": -1}, "height"),
    ],
)
def test_other_exports_are_rejected_by_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        VideoReading.from_dict({**random_reading(1).export(), **changes})


def test_from_dict_rejects_other_types() -> None:
    with pytest.raises(InvalidArgumentError, match="a dictionary"):
        VideoReading.from_dict([])  # type: ignore[arg-type]
    without_name = random_reading(1).export()
    del without_name["name"]
    with pytest.raises(InvalidArgumentError, match="no 'name'"):
        VideoReading.from_dict(without_name)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"text": " \n"}, "text must be a str that is not blank"),
        ({"kind": "title"}, "kind must be one of.*'title'"),
        ({"end_seconds": 0.5}, "end_seconds must not be before start_seconds"),
        ({"start_seconds": float("nan")}, "start_seconds must be a finite number"),
        ({"last_frame": 3}, "last_frame must not be before first_frame"),
        ({"first_frame": -1}, "first_frame must be a whole number from 0 on"),
        ({"confidence": 1.5}, "confidence must be a number from 0 to 1"),
        ({"geometry": ((0.5, 0.5), (0.4, 0.6))}, "geometry must be"),
        ({"geometry": (0.5, 0.5, 0.6, 0.6)}, "geometry must be"),
        ({"appears": "slowly"}, "appears must be one of.*'slowly'"),
        ({"lines": (TrackLine("Good", BOX, 1.0),)}, "text must be the texts of the lines"),
        ({"alternatives": ("Good",)}, "alternatives must be a series of Alternative"),
        ({"places": 5}, "places must be a series of Place"),
    ],
)
def test_impossible_tracks_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        a_track(**changes)


def test_numpy_numbers_become_python_numbers() -> None:
    track = a_track(
        start_seconds=np.float64(1), first_frame=np.int64(30), confidence=np.float32(0.5), geometry=np.array(BOX)
    )
    assert track == a_track(confidence=0.5)
    assert json.loads(json.dumps(VideoReading("a", 1, 1, 1, 0, 1, (track,)).export()))


def test_tracks_are_in_order_and_chosen_by_kind() -> None:
    kinds = ["slide", "overlay", "caption", "scene", "caption"]
    tracks = [a_track(kind=kind, start_seconds=1 - n / 10, text=f"{n}") for n, kind in enumerate(kinds)]
    reading = VideoReading("talk.mp4", 720, 1280, 300, 0.0, 10.0, tuple(tracks))
    assert [track.text for track in reading.tracks] == ["4", "3", "2", "1", "0"]
    assert reading.captions == Captions([tracks[2], tracks[4]], height=720, width=1280)
    assert [track.text for track in reading.of_kind("slide", "scene")] == ["3", "0"]
    with pytest.raises(InvalidArgumentError, match="'subtitle'"):
        reading.of_kind("subtitle")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="got none"):
        reading.of_kind()


def test_the_table_is_read_back_by_the_csv_module(tmp_path: Path) -> None:
    reading = random_reading(3)
    reading.save(tmp_path / "talk.csv")
    data = (tmp_path / "talk.csv").read_bytes()
    assert data.count(b"\r\n") == len(reading.tracks) + 1  # line breaks within texts are single
    with open(tmp_path / "talk.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, strict=True))
    assert len(rows) == len(reading.tracks) > 5
    for row, track in zip(rows, reading.tracks, strict=True):
        assert (row["text"], row["kind"], row["appears"]) == (track.text, track.kind, track.appears)
        assert (int(row["first_frame"]), int(row["last_frame"])) == (track.first_frame, track.last_frame)
        assert (float(row["start_seconds"]), float(row["end_seconds"])) == (track.start_seconds, track.end_seconds)
        assert ((float(row["xmin"]), float(row["ymin"])), (float(row["xmax"]), float(row["ymax"]))) == track.geometry
        assert float(row["confidence"]) == track.confidence


@pytest.mark.parametrize("suffix", ["srt", "vtt", "ass"])
def test_subtitles_have_only_captions(suffix: str, tmp_path: Path) -> None:
    reading = VideoReading(
        "talk.mp4", 720, 1280, 300, 0.0, 10.0, (a_track(), a_track(text="ONE", kind="overlay", start_seconds=0.0))
    )
    reading.save(tmp_path / f"talk.{suffix}")
    with SubtitleDecoder(tmp_path / f"talk.{suffix}") as decoder:
        assert [(one.text, one.start_seconds, one.end_seconds) for one in decoder] == [("Good evening", 1.0, 2.5)]


def test_slides_become_a_document(tmp_path: Path) -> None:
    slides = (a_slide(1, "Heat pumps"), a_slide(2, "Thank you"))
    reading = VideoReading("talk.mp4", 180, 320, 600, 0.0, 20.0, slides=slides)
    assert reading.slides_document().render().split() == ["Heat", "pumps", "Thank", "you"]
    reading.save(tmp_path / "talk.md")
    assert (tmp_path / "talk.md").read_text(encoding="utf-8") == (
        "*Slide 1, 0:00 to 0:10*\n\nHeat pumps\n\n---\n\n*Slide 2, 0:10 to 0:20*\n\nThank you\n"
    )
    reading.save(tmp_path / "talk.pdf")
    text = pdf_files.poppler_text((tmp_path / "talk.pdf").read_bytes(), "-layout")
    assert [page.split() for page in text.split("\f")] == [["Heat", "pumps"], ["Thank", "you"], []]
    assert a_slide(1, "Heat pumps") == slides[0] != a_slide(1, "Heat sinks")
    without_pictures = VideoReading.from_dict(reading.export())
    with pytest.raises(InvalidArgumentError, match="no image"):
        without_pictures.save(tmp_path / "none.pdf")
    for suffix in ("pdf", "md"):
        with pytest.raises(InvalidArgumentError, match="has none"):
            replace(reading, slides=()).save(tmp_path / f"none.{suffix}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["talk.md", "talk.pdf"]


def test_pictures_of_slides_may_be_read_on_access(tmp_path: Path) -> None:
    reads = []

    def picture() -> NDArray[np.uint8]:
        reads.append(1)
        return np.full((180, 320, 3), 200, np.uint8)

    slides = tuple(a_slide(number) for number in (1, 2, 3))
    for slide in slides:
        slide.page.page = picture
    reading = VideoReading("talk.mp4", 180, 320, 900, 0.0, 30.0, slides=slides)
    assert VideoReading.from_dict(reading.export()) == reading
    reading.save(tmp_path / "talk.md")
    assert len(reads) == 0
    assert (reading.synthesize_slides(num_columns=3)[20:200, 20:340][1:-1, 1:-1] == 200).all()
    reading.save(tmp_path / "talk.pdf")
    assert len(reads) == 6


def test_formats_and_destinations_are_checked(tmp_path: Path) -> None:
    reading = random_reading(2)
    with pytest.raises(InvalidArgumentError, match=r"srt, vtt, ass, json, csv, md, pdf.*talk\.doc"):
        reading.save(tmp_path / "talk.doc")
    with pytest.raises(WriteError):
        reading.save(tmp_path / "nowhere" / "talk.json")
    with pytest.raises(SourceTypeError, match="got 5"):
        VideoReading.load(5)  # type: ignore[arg-type]
    with pytest.raises(ReadError, match="null"):
        VideoReading.load("talk\0.json")
    reading.save(tmp_path / "talk.doc", "csv")
    assert (tmp_path / "talk.doc").read_bytes().startswith(b"kind,start_seconds,")


def bars(picture: NDArray[np.uint8], color: tuple[int, int, int]) -> list[tuple[int, int, int]]:
    """Top row, first column and last column of each bar of a colour, found on its upper edge, from the top."""
    is_bar = (picture == np.array(color, np.uint8)).all(axis=2)
    found = []
    for row in range(1, len(is_bar)):
        edge = is_bar[row] & ~is_bar[row - 1]
        starts = np.flatnonzero(edge & ~np.roll(edge, 1))
        stops = np.flatnonzero(edge & ~np.roll(edge, -1))
        found += [(row, int(a), int(b)) for a, b in zip(starts, stops, strict=True) if b - a > 8]
    # The edges of letters are within a bar, which began above.
    return [one for one in found if not any(row < one[0] < row + 22 and a <= one[1] <= b for row, a, b in found)]


def test_the_time_line_has_a_bar_from_start_to_end_in_a_lane_for_each_kind() -> None:
    tracks = (
        a_track(start_seconds=10.0, end_seconds=20.0),
        a_track(start_seconds=20.0, end_seconds=50.0),
        a_track(start_seconds=30.0, end_seconds=55.0),  # at the same time as the one before: below it
        a_track(kind="overlay", start_seconds=0.0, end_seconds=60.0),
        a_track(kind="slide", start_seconds=45.0, end_seconds=90.0),  # continues after the end of the image
    )
    reading = VideoReading("talk.mp4", 720, 1280, 1800, 0.0, 60.0, tracks)
    picture = reading.synthesize_timeline(width=1000)
    assert (picture.dtype, picture.shape[1:]) == (np.uint8, (1000, 3))
    captions, overlays, slides = bars(picture, BLUE), bars(picture, ORANGE), bars(picture, PURPLE)
    assert bars(picture, GREEN) == []
    (_, left, right), (top, slide_left, slide_right) = overlays[0], slides[0]
    assert len(overlays) == len(slides) == 1
    per_second = (right - left) / 60
    expected = [(10, 20), (20, 50), (30, 55)]
    found = [((a - left) / per_second, (b - left) / per_second) for _, a, b in captions]
    assert np.abs(np.array(found) - expected).max() < 0.5
    assert captions[0][0] == captions[1][0] < captions[2][0] < overlays[0][0] < top
    assert (slide_left - left) / per_second == pytest.approx(45, abs=0.5)
    assert slide_right == right
    # A part of the video fills the width.
    part = reading.synthesize_timeline(start_seconds=10.0, stop_seconds=20.0, width=1000)
    assert [(a, b) for _, a, b in bars(part, BLUE)] == [(left, right)]


def test_text_is_written_on_bars_that_have_room() -> None:
    texts = ["word", "日本", "Grüße, Łódź"]
    # A machine without a font for a text has nothing to write it with.
    for text in [text for text in texts if any(face.has(text) for face in find_faces())]:
        tracks = (a_track(text=text, start_seconds=0.0, end_seconds=5.0), a_track(start_seconds=6.0, end_seconds=6.1))
        picture = VideoReading("v", 720, 1280, 300, 0.0, 10.0, tracks).synthesize_timeline(width=800)
        assert (picture.min(axis=2) > 240)[:, 130:400].any()
        row, left, right = bars(picture, BLUE)[0]
        on_bar = picture[row + 1 : row + 21, left + 1 : right]
        assert (on_bar > 240).all(axis=2).sum() > 20


def test_long_and_odd_videos_have_a_time_line() -> None:
    def height(seconds: float) -> int:
        tracks = tuple(a_track(start_seconds=n * seconds / 9, end_seconds=(n + 1) * seconds / 9) for n in range(9))
        return len(VideoReading("v", 720, 1280, 300, 0.0, seconds, tracks).synthesize_timeline())

    heights = [height(seconds) for seconds in (0.5, 60, 300, 7200, 1e6)]
    assert heights[0] == heights[1] < heights[2] < heights[3] == heights[4] < 2000
    # Strips of a minute each: the bar continues in the second one.
    going_on = VideoReading("v", 720, 1280, 300, 0.0, 120.0, (a_track(start_seconds=30.0, end_seconds=90.0),))
    (top, left, right), (below, again, stop) = bars(going_on.synthesize_timeline(), BLUE)
    assert top < below
    assert right - left == pytest.approx(stop - again, abs=3)
    assert (left - again) == pytest.approx(right - stop, abs=3)
    empty = VideoReading("nothing.mp4", 0, 0, 0, 0.0, 0.0)
    assert empty.synthesize_timeline(width=400).shape[1] == 400
    # Texts at the same time are in rows below each other, of which there are at most six.
    many = tuple(a_track(start_seconds=0.0, end_seconds=1.0 + n) for n in range(50))
    readings = [VideoReading("v", 720, 1280, 300, 0.0, 60.0, many[:count]) for count in (5, 6, 50)]
    heights = [len(reading.synthesize_timeline()) for reading in readings]
    assert heights[0] < heights[1] == heights[2] < 400
    with pytest.raises(InvalidArgumentError, match="start_seconds must be before stop_seconds"):
        empty.synthesize_timeline(start_seconds=5.0, stop_seconds=4.0)
    with pytest.raises(InvalidArgumentError, match="width"):
        empty.synthesize_timeline(width=10)


def test_the_sheet_has_every_slide() -> None:
    reading = VideoReading("talk.mp4", 180, 320, 900, 0.0, 30.0, slides=tuple(a_slide(n) for n in (1, 2, 3)))
    sheet = reading.synthesize_slides(num_columns=2, tile_width=160)
    # Left to right, then down: tiles of 160x90 with 12 pixels between them, and captions of 24.
    middles = [(20 + 45, 20 + 80), (20 + 45, 20 + 172 + 80), (20 + 90 + 24 + 12 + 45, 20 + 80)]
    assert [tuple(sheet[y, x]) for y, x in middles] == [(40,) * 3, (80,) * 3, (120,) * 3]
    with pytest.raises(InvalidArgumentError, match="no slides"):
        replace(reading, slides=()).synthesize_slides()
    with pytest.raises(InvalidArgumentError, match="num_columns"):
        reading.synthesize_slides(num_columns=0)


def test_show_and_notebooks_draw_the_time_line(monkeypatch: pytest.MonkeyPatch) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    monkeypatch.setattr(pyplot, "show", lambda: None)
    reading = random_reading(4)
    reading.show(width=700)
    shown = pyplot.gcf().axes[0].images[0].get_array()
    pyplot.close("all")
    assert np.array_equal(shown, reading.synthesize_timeline(width=700))
    assert Image.fromarray(reading.synthesize_timeline(width=1000)).size[0] == 1000
    assert repr(replace(reading, slides=(), problems=("Frame 7 does not decode.",))) == (
        f"VideoReading('talk.mp4', 1280x720, num_frames=300, tracks={len(reading.tracks)}, slides=0, problems=1)"
    )
