"""`DocumentPages`: pages compared with Pillow and PDFium on the same files."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from dataset_samples import check_rows_anywhere, sample_of
from mediatensor.datasets import DocumentPages, Item, Sample, Skipped
from mediatensor.datasets._rows.recipe import OpenFiles
from mediatensor.errors import InvalidArgumentError, OpenError, OutOfRangeError, PageError

SIZE = (30, 40)


def picture(number: int) -> Image.Image:
    """A picture that is another for each number."""
    random = np.random.default_rng(number)
    return Image.fromarray(random.integers(0, 256, (*SIZE, 3), dtype=np.uint8))


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A TIFF of three pages, a PNG and a grey JPEG."""
    folder = tmp_path_factory.mktemp("documents")
    picture(0).save(folder / "a.tif", save_all=True, append_images=[picture(1), picture(2)])
    picture(3).save(folder / "b.png")
    picture(4).convert("L").save(folder / "c.jpg", quality=100)
    return [folder / "a.tif", folder / "b.png", folder / "c.jpg"]


@pytest.fixture(scope="module")
def pdf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two pages of different sizes."""
    pytest.importorskip("pypdfium2")
    path = tmp_path_factory.mktemp("pdf") / "d.pdf"
    picture(5).save(path, "PDF", save_all=True, append_images=[picture(6).resize((80, 50))], resolution=72)
    return path


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Not an image, an image that ends early, and none at all."""
    folder = tmp_path_factory.mktemp("broken")
    (folder / "text.png").write_text("not a picture")
    picture(7).save(folder / "cut.png")
    (folder / "cut.png").write_bytes((folder / "cut.png").read_bytes()[:500])
    return [folder / "text.png", folder / "cut.png", folder / "missing.tif"]


def pixels(image: Image.Image) -> Tensor:
    return torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1)


def image_of(sample: Sample) -> Tensor:
    assert sample.image is not None
    return sample.image


# Which pages are rows


def test_all_pages_are_rows(documents: list[Path]) -> None:
    rows = DocumentPages(documents)
    assert len(rows) == 5
    for row, (file, page) in enumerate([(0, 0), (0, 1), (0, 2), (1, 0), (2, 0)]):
        sample = sample_of(rows, row)
        image = Image.open(documents[file])
        image.seek(page)
        assert image_of(sample).dtype == torch.uint8
        assert image_of(sample).is_contiguous()
        assert torch.equal(image_of(sample), pixels(image))
        assert (sample.source, sample.extra) == (str(documents[file]), {"page_index": page})


def test_first_pages_are_rows(documents: list[Path]) -> None:
    rows = DocumentPages(documents[::-1], pages="first")
    assert len(rows) == 3
    assert torch.equal(image_of(sample_of(rows, 2)), pixels(picture(0)))


def test_random_pages_are_uniform(documents: list[Path]) -> None:
    """Chi-squared of three equally likely pages, 2 degrees of freedom: below 13.8 but once in a thousand."""
    rows = DocumentPages(documents[:1], pages="random", rows_per_file=300)
    counts = np.zeros(3)
    with OpenFiles(1) as files:
        for row, sample in enumerate(rows.__getitems__(range(300))):
            assert isinstance(sample, Sample)
            page = sample.extra["page_index"]
            assert torch.equal(image_of(sample), pixels(picture(page)))
            assert rows.spec(row).position(files) == page
            counts[page] += 1
    assert ((counts - 100) ** 2 / 100).sum() < 13.8


def test_pages_of_a_pdf_file_are_rendered(pdf: Path) -> None:
    pdfium = pytest.importorskip("pypdfium2")
    for dpi in (72, 144):
        rows = DocumentPages([pdf], dpi=dpi)
        assert len(rows) == 2
        document = pdfium.PdfDocument(pdf)
        for number in range(2):
            expected = pixels(document[number].render(scale=dpi / 72).to_pil())
            assert torch.equal(image_of(sample_of(rows, number)), expected)
        document.close()
    turned = DocumentPages([pdf.read_bytes()], dpi=72, pdf_options={"rotation": 90})
    assert image_of(sample_of(turned, 0)).shape == (3, SIZE[1], SIZE[0])


def test_a_column_of_page_counts_avoids_opening_documents(documents: list[Path], tmp_path: Path) -> None:
    rows = DocumentPages([Item(documents[0], label=1, extra={"num_pages": 4, "kind": "fax"})], on_error="skip")
    assert len(rows) == 4
    assert sample_of(rows, 2).extra == {"page_index": 2, "kind": "fax"}
    assert sample_of(rows, 2).label == 1
    assert isinstance(rows[3], Skipped)  # there are three
    missing = DocumentPages([Item(tmp_path / "missing.tif", extra={"num_pages": "2"})])
    assert len(missing) == 2
    for nothing in (None, "", math.nan):
        assert len(DocumentPages([Item(documents[0], extra={"num_pages": nothing})])) == 3
    for number in (0, "many", 1 << 40, math.inf, 2.5, True):
        with pytest.raises(InvalidArgumentError, match="num_pages"):
            DocumentPages([Item(documents[0], extra={"num_pages": number})])


def test_counting_shows_progress_on_a_terminal(documents: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    watched = []

    class Bar:
        def __new__(cls, items: Any, desc: str, **options: Any) -> Any:
            watched.append((desc, len(items)))
            return items

    tqdm = pytest.importorskip("tqdm")
    monkeypatch.setattr(tqdm, "tqdm", Bar)
    DocumentPages(documents)
    assert not watched
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    DocumentPages(documents)
    assert watched == [("counting pages", 3)]


# Documents that cannot be read


def test_documents_that_cannot_be_opened_have_one_row(documents: list[Path], broken: list[Path]) -> None:
    rows = DocumentPages([*broken, *documents], on_error="skip")
    assert len(rows) == 8
    samples = rows.__getitems__(range(8))
    assert [isinstance(sample, Skipped) for sample in samples] == [True] * 3 + [False] * 5
    assert [sample.failures[0].source for sample in samples[:3]] == [str(path) for path in broken]
    raising = DocumentPages(broken)
    for row, error in enumerate([OpenError, PageError, OpenError]):
        with pytest.raises(error):
            raising[row]


def test_one_damaged_page_does_not_affect_other_pages(documents: list[Path], tmp_path: Path) -> None:
    data = documents[0].read_bytes()
    (tmp_path / "cut.tif").write_bytes(data[: len(data) - len(data) // 8])
    rows = DocumentPages([tmp_path / "cut.tif"], on_error="skip")
    assert torch.equal(image_of(sample_of(rows, 0)), pixels(picture(0)))
    assert isinstance(rows[len(rows) - 1], Skipped)


def test_pages_that_are_too_large_fail(documents: list[Path], pdf: Path) -> None:
    rows = DocumentPages([documents[1], pdf], max_pixels=SIZE[0] * SIZE[1] - 1, dpi=72)
    for row in range(2):
        with pytest.raises(PageError, match="max_pixels"):
            rows[row]
    assert image_of(sample_of(DocumentPages(documents, max_pixels=SIZE[0] * SIZE[1]), 3)).shape == (3, *SIZE)


def test_documents_of_too_many_pages_fail(documents: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mediatensor._text_data.documents.MAX_PAGES", 2)
    rows = DocumentPages(documents)
    assert len(rows) == 3
    with pytest.raises(OpenError, match="3 pages"):
        rows[0]


# Rows


def noisy(image: Tensor) -> Tensor:
    return image ^ torch.randint(0, 2, image.shape, dtype=torch.uint8)


def test_rows_do_not_depend_on_their_reader(documents: list[Path], pdf: Path) -> None:
    files = [*documents, pdf]
    check_rows_anywhere(DocumentPages(files, pages="random", rows_per_file=3, transform=noisy, seed=1), 12)


def test_bytes_are_documents(documents: list[Path]) -> None:
    rows = DocumentPages([Item(path.read_bytes(), name=path.name) for path in documents])
    assert torch.equal(image_of(sample_of(rows, 2)), pixels(picture(2)))
    assert sample_of(rows, 2).source == "a.tif"


def test_files_are_closed(documents: list[Path], pdf: Path) -> None:
    rows = DocumentPages([*documents, pdf], max_open_files=1)
    first = [image_of(sample_of(rows, row)) for row in range(len(rows))]
    rows.close()
    assert all(torch.equal(image_of(sample_of(rows, row)), image) for row, image in enumerate(first))


@pytest.mark.parametrize(
    "options",
    [{"pages": "last"}, {"rows_per_file": 2}, {"dpi": 0}, {"dpi": "72"}, {"max_pixels": 0}, {"max_pixels": 1.5}],
    ids=str,
)
def test_wrong_arguments_are_refused(documents: list[Path], options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(options))):
        DocumentPages(documents, **options)


def test_a_transform_gives_a_picture(documents: list[Path]) -> None:
    halves = DocumentPages(documents, transform=lambda image: image[:, ::2].float())
    assert image_of(sample_of(halves, 3)).shape == (3, SIZE[0] // 2, SIZE[1])
    with pytest.raises(InvalidArgumentError, match="must return a tensor"):
        DocumentPages(documents, transform=lambda image: image[0])[0]


def test_a_page_that_is_not_there_is_out_of_range(documents: list[Path]) -> None:
    with pytest.raises(OutOfRangeError):
        DocumentPages([Item(documents[1], extra={"num_pages": 2})])[1]
