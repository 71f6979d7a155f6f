"""Slides of videos: drawn lectures, whose pages are known to the frame."""

from __future__ import annotations

import pickle
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib import font_manager
from PIL import Image, ImageDraw, ImageFont

from mediatensor.encoders import VideoEncoder
from mediatensor.ocr import video_text_predictor
from mediatensor.ocr.models.video_predictor import VideoTextPredictor
from mediatensor.ocr.video import VideoReading

pytestmark = pytest.mark.usefixtures("features_remembered_in_module")

SIZE = (640, 360)
FPS = 12
FACE = font_manager.findfont("DejaVu Sans")
HEAT = ("Heat pumps", "They move warmth", "Even from cold air", "Three parts of four are free")
COST = ("What they cost", "Pumps need little power", "Houses need thick walls", "Pipes have to be wide")
END = ("In the end", "Ask your neighbours", "Measure the rooms first", "Then choose a small one")
Span = tuple[tuple[str, ...], int, int]  # lines, first frame, frame after the last


@cache
def drawn(lines: tuple[str, ...], caption: str | None = None) -> np.ndarray:
    image = Image.new("RGB", SIZE, "white")
    draw = ImageDraw.Draw(image)
    for number, line in enumerate(lines):
        face = ImageFont.truetype(FACE, 24 if number else 28)
        draw.text((50, 40 + 58 * number), line, font=face, fill=(20, 30, 60))
    if caption:
        face = ImageFont.truetype(FACE, 22)
        draw.text((320, 325), caption, font=face, fill="white", anchor="mm", stroke_width=3, stroke_fill="black")
    return np.asarray(image)


def encoded(path: Path, pictures: list[np.ndarray], frame_rate: int = FPS) -> Path:
    frames = torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2)
    VideoEncoder(frames, frame_rate=frame_rate).to_file(path, codec="libx264", crf=20, preset="ultrafast")
    return path


def lecture(
    path: Path, pages: list[Span], *, moving: bool = False, captions: tuple[tuple[str, int, int], ...] = ()
) -> Path:
    noise = np.random.default_rng(3)
    pictures = []
    for lines, first, end in pages:
        for number in range(first, end):
            said = next((text for text, begin, until in captions if begin <= number < until), None)
            picture = drawn(lines, said)
            if moving:
                picture = picture.copy()
                window = noise.integers(0, 255, (40, 40, 3), dtype=np.uint8)
                picture[190:350, 470:630] = window.repeat(4, 0).repeat(4, 1)
            pictures.append(picture)
    return encoded(path, pictures)


def spans(reading: VideoReading) -> list[tuple[int, int]]:
    return [(slide.first_frame, slide.last_frame + 1) for slide in reading.slides]


def texts(reading: VideoReading) -> list[list[str]]:
    return [slide.page.render().replace("\n\n", "\n").split("\n") for slide in reading.slides]


@pytest.fixture(scope="module")
def predictor() -> VideoTextPredictor:
    return video_text_predictor(pretrained=True)


TALK: list[Span] = [(HEAT, 0, 31), (COST, 31, 60), (END, 60, 90)]


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lecture(tmp_path_factory.mktemp("slides") / "talk.mp4", TALK)


@pytest.fixture(scope="module")
def reading(predictor: VideoTextPredictor, talk: Path) -> VideoReading:
    return predictor(talk)


def test_slides_are_exact_to_the_frame(reading: VideoReading) -> None:
    assert spans(reading) == [(first, end) for _, first, end in TALK]
    assert texts(reading) == [list(lines) for lines, _, _ in TALK]
    assert [slide.start_seconds for slide in reading.slides] == pytest.approx([0, 31 / FPS, 60 / FPS])
    assert [slide.end_seconds for slide in reading.slides] == pytest.approx([31 / FPS, 60 / FPS, 90 / FPS])
    assert {track.kind for track in reading.tracks} == {"slide"}
    for slide, (lines, _, _) in zip(reading.slides, TALK, strict=True):
        picture = np.asarray(slide.page.page)
        assert picture.shape == (SIZE[1], SIZE[0], 3)
        assert np.abs(picture.astype(int) - drawn(lines)).mean() < 4


def test_stream_yields_slides_and_resumes(predictor: VideoTextPredictor, talk: Path, reading: VideoReading) -> None:
    stream = predictor.stream(talk)
    tracks = [next(stream)]
    assert tuple(stream.slides) == reading.slides[:1]
    state = pickle.loads(pickle.dumps(stream.state_dict()))
    stream.close()
    again = predictor.stream(talk, state=state)
    tracks += list(again)
    assert tuple(again.slides) == reading.slides
    assert np.array_equal(np.asarray(again.slides[0].page.page), np.asarray(reading.slides[0].page.page))
    assert sorted(tracks, key=lambda track: (track.start_seconds, track.geometry[0][1])) == list(reading.tracks)


@pytest.mark.slow
def test_slide_may_have_a_moving_corner(predictor: VideoTextPredictor, tmp_path: Path) -> None:
    reading = predictor(lecture(tmp_path / "window.mp4", TALK[:2], moving=True))
    assert spans(reading) == [(first, end) for _, first, end in TALK[:2]]


@pytest.mark.slow
def test_slide_with_added_content_is_one_slide(predictor: VideoTextPredictor, tmp_path: Path) -> None:
    pages: list[Span] = [(HEAT[:2], 0, 24), (HEAT[:3], 24, 48), (HEAT, 48, 72), (COST, 72, 100)]
    reading = predictor(lecture(tmp_path / "bullets.mp4", pages))
    assert spans(reading) == [(0, 72), (72, 100)]
    assert texts(reading) == [list(HEAT), list(COST)]


@pytest.mark.parametrize("moving", [pytest.param(False, marks=pytest.mark.slow), True])
def test_returning_slide_is_not_repeated(predictor: VideoTextPredictor, tmp_path: Path, moving: bool) -> None:
    pages: list[Span] = [(HEAT, 0, 30), (COST, 30, 60), (HEAT, 60, 90)]
    reading = predictor(lecture(tmp_path / "back.mp4", pages, moving=moving))
    assert spans(reading) == [(0, 30), (30, 60)]
    assert {track.kind for track in reading.tracks} == {"slide"}


def test_captions_over_slides_are_captions(predictor: VideoTextPredictor, tmp_path: Path) -> None:
    said = (("Can you hear me?", 8, 22), ("Then let us begin.", 40, 56))
    reading = predictor(lecture(tmp_path / "said.mp4", TALK[:2], captions=said))
    assert spans(reading) == [(first, end) for _, first, end in TALK[:2]]
    assert [(track.text, track.first_frame, track.last_frame + 1) for track in reading.captions] == list(said)
    assert texts(reading) == [list(lines) for lines, _, _ in TALK[:2]]


def one_line(path: Path, text: str, y: int, em: int = 34) -> Path:
    """A line, by default a large one, that is shown from frame 10 to frame 39."""
    image = Image.fromarray(drawn(()).copy())
    ImageDraw.Draw(image).text((320, y), text, font=ImageFont.truetype(FACE, em), fill=0, anchor="mm")
    shown = np.asarray(image)
    return encoded(path, [shown if 10 <= number < 40 else drawn(()) for number in range(50)])


@pytest.mark.parametrize(("y", "em"), [(270, 34), (36, 25)])
def test_caption_over_a_still_picture_is_not_a_slide(
    predictor: VideoTextPredictor, tmp_path: Path, y: int, em: int
) -> None:
    """A caption low in the frame may be as large as the title of a slide; one at the top is smaller."""
    reading = predictor(one_line(tmp_path / "film.mp4", "Nobody is here", y, em))
    assert [(track.text, track.kind) for track in reading.tracks] == [("Nobody is here", "caption")]
    assert reading.slides == ()


def test_large_title_is_a_slide(predictor: VideoTextPredictor, tmp_path: Path) -> None:
    reading = predictor(one_line(tmp_path / "talk.mp4", "Heat pumps", 150))
    assert spans(reading) == [(10, 40)]
    assert texts(reading) == [["Heat pumps"]]
    assert len(reading.captions) == 0


def test_film_has_no_slides(predictor: VideoTextPredictor, tmp_path: Path) -> None:
    y, x = np.mgrid[0 : SIZE[1], 0 : SIZE[0]]
    pictures = []
    face = ImageFont.truetype(FACE, 24)
    for number in range(40):
        waves = 110 + 60 * np.sin(x * 0.03 + y * 0.02 + number * 0.4)
        image = Image.fromarray(waves.round().astype(np.uint8)).convert("RGB")
        for row, line in enumerate(HEAT):  # words that stay make no slide of a picture that moves
            ImageDraw.Draw(image).text(
                (50, 40 + 58 * row), line, font=face, fill="white", stroke_width=2, stroke_fill=0
            )
        pictures.append(np.asarray(image))
    assert predictor(encoded(tmp_path / "film.mp4", pictures)).slides == ()


def turned(path: Path, pages: list[tuple[str, ...]], still: int, between: int, *, kind: str) -> Path:
    """A lecture whose pages fade or are wiped into one another, over some frames."""
    pictures: list[np.ndarray] = []
    before: np.ndarray | None = None
    for lines in pages:
        page = drawn(lines)
        for number in range(1, between if before is not None else 0):
            if kind == "fade":
                share = number / between
                pictures.append(np.uint8(np.round(before * (1 - share) + page * share)))
            else:
                picture, edge = before.copy(), SIZE[0] * number // between
                picture[:, :edge] = page[:, :edge]
                pictures.append(picture)
        pictures += [page] * still
        before = page
    return encoded(path, pictures, frame_rate=25)


@pytest.mark.parametrize(("kind", "between"), [("fade", 25), pytest.param("wipe", 20, marks=pytest.mark.slow)])
def test_slowly_turning_pages_are_found(predictor: VideoTextPredictor, tmp_path: Path, kind: str, between: int) -> None:
    still = 70
    reading = predictor(turned(tmp_path / "talk.mp4", [HEAT, COST], still, between, kind=kind))
    assert texts(reading) == [list(HEAT), list(COST)]
    for number, (first, end) in enumerate(spans(reading)):
        begin = number * (still + between - 1)
        assert begin - between < first <= begin
        assert begin + still <= end < begin + still + between
    for slide, page in zip(reading.slides, (HEAT, COST), strict=True):
        assert np.abs(slide.page.page.astype(float) - drawn(page)).mean() < 2  # no picture of two pages
    assert {track.kind for track in reading.tracks} == {"slide"}
    found = sorted(line.text for track in reading.tracks for line in track.lines)
    assert found == sorted(HEAT + COST)  # no piece of a line is one
