"""Everything that may be a page gives the same words, regardless of other pages read before it or at once."""

from __future__ import annotations

import gc
import io
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

import pdf_files
from mediatensor.decoders import VideoDecoder
from mediatensor.errors import InvalidArgumentError, OpenError, SourceNotFoundError
from mediatensor.frames import Frame, FrameBatch
from mediatensor.ocr.io import DocumentFile
from mediatensor.ocr.models import detection_predictor, kie_predictor, ocr_predictor, recognition_predictor
from ocr_onnx_sessions import needs_weights
from ocr_reading import LINES, reader, text_page, words_of

pytestmark = needs_weights

PAGE_LINES = LINES[1:]
PAGE = text_page(*PAGE_LINES).image
CHANNELS_FIRST = torch.from_numpy(PAGE).permute(2, 0, 1)
FORMS: dict[str, Callable[[], Any]] = {
    "tuple": lambda: (PAGE,),
    "generator": lambda: (page for page in [PAGE]),
    "array batch": lambda: PAGE[None],
    "read-only array": lambda: [np.broadcast_to(PAGE, PAGE.shape)],
    "reversed view": lambda: [np.ascontiguousarray(PAGE[::-1, :, ::-1])[::-1, :, ::-1]],
    "Fortran order": lambda: [np.asfortranarray(PAGE)],
    "tensor (3, H, W)": lambda: [CHANNELS_FIRST.contiguous()],
    "tensor (H, W, 3)": lambda: [torch.from_numpy(PAGE)],
    "view (3, H, W)": lambda: [CHANNELS_FIRST],
    "tensor batch": lambda: CHANNELS_FIRST[None],
    "tensor batch, channels last": lambda: torch.from_numpy(PAGE)[None],
    "frame": lambda: [Frame(CHANNELS_FIRST, 0.0, 0.04)],
    "picture of Pillow": lambda: Image.fromarray(PAGE),
    "pictures of Pillow": lambda: [Image.fromarray(PAGE).convert("RGBA")],
    "frame batch": lambda: FrameBatch(CHANNELS_FIRST[None], torch.zeros(1), torch.zeros(1)),
}


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return content(reader()([PAGE]))


def content(document: Any, page: int = 0) -> dict[str, Any]:
    """Return the words of a page, with all their numbers."""
    exported: dict[str, Any] = document.pages[page].export(characters=True)
    return {**exported, "page_idx": None}


@pytest.mark.usefixtures("features_remembered_in_test")
@pytest.mark.parametrize("form", FORMS)
def test_all_forms_of_a_page_give_the_same_words(form: str, expected: dict[str, Any]) -> None:
    assert content(reader()(FORMS[form]())) == expected


FILES: dict[str, Callable[[Path], Any]] = {
    "path": lambda path: path,
    "text": str,
    "bytes": lambda path: path.read_bytes(),
    "list": lambda path: [str(path)],
}


@pytest.mark.usefixtures("features_remembered_in_test")
@pytest.mark.parametrize("form", FILES)
def test_file_gives_its_pages(form: str, tmp_path: Path, expected: dict[str, Any]) -> None:
    Image.fromarray(PAGE).save(tmp_path / "page.png")
    assert content(reader()(FILES[form](tmp_path / "page.png"))) == expected


@pytest.mark.usefixtures("features_remembered_in_test")
def test_list_may_mix_files_and_images(tmp_path: Path, expected: dict[str, Any]) -> None:
    Image.fromarray(PAGE).save(tmp_path / "page.png")
    Image.fromarray(PAGE).save(tmp_path / "pages.tif", save_all=True, append_images=[Image.fromarray(PAGE)])
    for sources, num_pages in (
        ([tmp_path / "page.png", tmp_path / "pages.tif"], 3),
        ([PAGE, DocumentFile.from_images(tmp_path / "pages.tif"), Image.fromarray(PAGE)], 4),
    ):
        document = reader()(sources)
        assert [content(document, i) for i in range(len(document.pages))] == [expected] * num_pages


@pytest.mark.parametrize("mode", ["LA", "RGBA", "RGBa"])
def test_transparent_parts_of_pillow_images_are_white(mode: str) -> None:
    image = Image.new("RGBA", (40, 30), (0, 0, 0, 0))
    image.paste((0, 0, 0, 255), (10, 10, 20, 20))
    expected = np.full((30, 40, 3), 255, np.uint8)
    expected[10:20, 10:20] = 0
    np.testing.assert_array_equal(reader()([image.convert(mode)]).pages[0].page, expected)


def test_pillow_images_with_an_unknown_range_of_values_are_rejected() -> None:
    with pytest.raises(InvalidArgumentError, match="mode 'F'"):
        reader()([Image.new("F", (40, 30), 1.0)])


def test_pdf_is_recognised_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "document"
    Image.fromarray(PAGE).save(path, "PDF", resolution=144)
    assert content(reader()(path)) == content(reader()(DocumentFile.from_pdf(path)))


def test_missing_file_and_other_file_raise(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("This is a letter and no page.")
    with pytest.raises(SourceNotFoundError, match="missing"):
        reader()(tmp_path / "missing.png")
    with pytest.raises(OpenError, match="notes"):
        reader()([tmp_path / "notes.txt"])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_floats_from_0_to_1_are_read(dtype: torch.dtype) -> None:
    page = (torch.from_numpy(PAGE) / 255).to(dtype)
    document = reader()([page])
    if dtype != torch.bfloat16:
        assert content(reader()([page.numpy()])) == content(document)
    assert document.render() == "\n".join(PAGE_LINES)
    ours, theirs = (np.array([word.geometry for word in words_of(one)]) for one in (document, reader()([PAGE])))
    np.testing.assert_allclose(ours, theirs, atol=0.02)


def test_inputs_are_not_changed() -> None:
    page = PAGE.copy()
    tensor = CHANNELS_FIRST.clone()
    ocr_predictor(pretrained=True, ignore_regions=[(0, 0, 1, 0.5)], shorter_side=192)([page, tensor])
    np.testing.assert_array_equal(page, PAGE)
    assert torch.equal(tensor, CHANNELS_FIRST)


def test_detection_and_recognition_take_the_same_forms() -> None:
    detector, recogniser = (
        detection_predictor(pretrained=True, shorter_side=192),
        recognition_predictor(pretrained=True),
    )
    boxes = detector([PAGE])[0]["words"]
    crop = text_page("word").image[20:60]
    read = recogniser([crop])
    for convert in (torch.from_numpy, lambda page: torch.from_numpy(page).permute(2, 0, 1)):
        np.testing.assert_array_equal(detector([convert(PAGE)])[0]["words"], boxes)
        assert recogniser([convert(crop)]) == read
        np.testing.assert_array_equal(detector(convert(PAGE)[None])[0]["words"], boxes)


def test_frames_of_a_video_are_pages(clip: Path) -> None:
    decoder = VideoDecoder(clip)
    batch = decoder.get_frames_at([0, 3])
    document = reader()(batch)
    assert [page.dimensions for page in document.pages] == [tuple(batch.data.shape[2:])] * 2
    assert content(reader()([decoder.get_frame_at(3)])) == content(document, 1)


def test_documents_are_read_page_by_page(tmp_path: Path) -> None:
    others = [text_page("another page").image, PAGE]
    images = [Image.fromarray(page) for page in others]
    tiff = io.BytesIO()
    images[0].save(tiff, "TIFF", save_all=True, append_images=images[1:])
    document = reader()(DocumentFile.from_images(tiff.getvalue()))
    assert [page.render() for page in document.pages] == ["another page", "\n".join(PAGE_LINES)]
    assert content(document, 1) == content(reader()([PAGE]))
    np.testing.assert_array_equal(document.pages[1].page, PAGE)


def test_pages_of_a_pdf_are_read() -> None:
    pytest.importorskip("pypdfium2")
    contents = [pdf_files.text_page((40, 700, f"Page number {number}")) for number in range(3)]
    pages = DocumentFile.from_pdf(pdf_files.document(contents, box="0 620 320 760"), dpi=100)
    document = reader()(pages)
    assert [page.render() for page in document.pages] == [f"Page number {number}" for number in range(3)]
    assert [page.page_idx for page in document.pages] == [0, 1, 2]
    np.testing.assert_array_equal(document.pages[2].page, pages[2])


@pytest.mark.parametrize(("det_bs", "straight"), [(4, True), (3, False)])
def test_page_reads_the_same_in_any_batch(det_bs: int, straight: bool) -> None:
    alone = content(reader(assume_straight_pages=straight)([PAGE]))
    predictor = reader(assume_straight_pages=straight, det_bs=det_bs)
    blank, other = np.full_like(PAGE, 255), np.ascontiguousarray(PAGE[::-1])
    document = predictor([blank, PAGE, text_page("another page").image, other, PAGE])
    for position in (1, 4):
        assert content(document, position) == alone


def test_the_batch_size_of_the_recogniser_changes_nothing(expected: dict[str, Any]) -> None:
    assert content(ocr_predictor(pretrained=True, reco_bs=1, shorter_side=192)([PAGE])) == expected


@pytest.mark.slow
def test_threads_share_a_predictor() -> None:
    pages = [text_page(f"thread {number}", "reads a page").image for number in range(4)]
    alone = [content(reader()([page])) for page in pages]
    barrier = threading.Barrier(4)

    def read(number: int) -> list[dict[str, Any]]:
        barrier.wait(60)
        return [content(reader()([pages[number]])) for _ in range(2)]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(read, range(4))) == [[one] * 2 for one in alone]


class ReadPages(torch.utils.data.Dataset[str]):
    def __init__(self, predictor: Any, pages: list[np.ndarray]) -> None:
        self.predictor, self.pages = predictor, pages

    def __len__(self) -> int:
        return len(self.pages)

    def __getitem__(self, index: int) -> str:
        return str(self.predictor([self.pages[index]]).render())


@pytest.mark.parametrize(("num_workers", "context"), [(2, "fork"), pytest.param(1, "spawn", marks=pytest.mark.slow)])
def test_workers_of_a_data_loader_read_pages(num_workers: int, context: str) -> None:
    # The parent has read before: what it holds must not keep a forked child from reading.
    assert reader()([PAGE]).render() == "\n".join(PAGE_LINES)
    pages = [text_page(f"page {number}").image for number in range(4)]
    options = {"num_workers": num_workers, "multiprocessing_context": context, "timeout": 120}
    loader = DataLoader(ReadPages(reader(), pages), batch_size=None, **options)
    assert list(loader) == [f"page {number}" for number in range(4)]


@pytest.mark.slow
@pytest.mark.parametrize("hooked", [False, True])
def test_images_of_long_documents_are_not_kept(hooked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = DocumentFile.from_images([png(text_page(f"page {number}").image) for number in range(6)])
    alive: list[weakref.ref[Any]] = []
    most = 0
    original = type(pages).__getitem__

    def reading(self: Any, index: Any) -> Any:
        nonlocal most
        page = original(self, index)
        alive.append(weakref.ref(page))
        most = max(most, sum(reference() is not None for reference in alive))
        return page

    monkeypatch.setattr(type(pages), "__getitem__", reading)
    predictor = ocr_predictor(pretrained=True, shorter_side=160, det_bs=2)
    if hooked:
        predictor.add_hook(lambda boxes: boxes)
    document = predictor(pages)
    assert len(document.pages) == 6
    # A batch, and the one before it.
    assert most <= 4
    gc.collect()
    assert not any(reference() is not None for reference in alive)
    assert document.pages[5].page.shape == text_page("page 5").image.shape


def png(page: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(page).save(file, "PNG")
    return file.getvalue()


def test_key_information_takes_documents_too() -> None:
    document = kie_predictor(pretrained=True, shorter_side=192)(DocumentFile.from_images([png(PAGE)]))
    assert {word.value for word in document.pages[0].predictions["words"]} == set(" ".join(PAGE_LINES).split())
