"""The content that PDF files draw on pages, compared with what was written and with poppler's words."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import pdf_files
from mediatensor.ocr.io import DocumentFile, read_pdf
from mediatensor.ocr.structure import PageContent
from processes import find_program

pytest.importorskip("pypdfium2", reason="needs pypdfium2")

FONTS = "/Font<</F 3 0 R/B<</Type/Font/Subtype/Type1/BaseFont/Helvetica-Bold>>>>"
PICTURE = b"q 120 0 0 80 400 600 cm BI /W 2 /H 2 /CS /G /BPC 8 ID \x00\xff\xff\x00 EI Q"


def content_of(drawing: bytes, **options: str) -> PageContent:
    return read_pdf(pdf_files.document([drawing], **options)).page_content(0)


def test_lines_rectangles_and_edges_are_rules() -> None:
    content = content_of(
        b"2 w 100 700 m 300 700 l S 1 w 50 650 m 50 400 l S "
        b"100 500 200 1.5 re f 400 300 100 60 re S 0.8 g 100 100 300 40 re f 1 g 100 200 300 40 re f"
    )
    across = sorted(map(tuple, content.horizontal_rules.round(2).tolist()), key=lambda box: box[1])
    assert across == [
        (100, 91, 300, 93), (100, 290.5, 300, 292), (400, 431.5, 500, 432.5), (400, 491.5, 500, 492.5),
        (100, 651.5, 400, 652.5), (100, 691.5, 400, 692.5),
    ]  # fmt: skip
    down = sorted(map(tuple, content.vertical_rules.round(2).tolist()))
    assert down == [
        (49.5, 142, 50.5, 392), (99.5, 652, 100.5, 692), (399.5, 432, 400.5, 492), (399.5, 652, 400.5, 692),
        (499.5, 432, 500.5, 492),
    ]  # fmt: skip


def test_bands_of_one_colour_have_no_edge_between_them() -> None:
    content = content_of(b"0.8 g 100 600 200 20 re f 100 580 200 20 re f 0.9 g 100 560 200 20 re f")
    assert sorted(content.horizontal_rules[:, [1, 3]].mean(axis=1).round().tolist()) == [172, 212, 232]
    assert content.vertical_rules.round().tolist() == [[100, 172, 100, 232], [300, 172, 300, 232]]


def test_content_has_type_and_lines_of_text() -> None:
    content = content_of(
        b"BT /F 1 Tf 12 0 0 12 72 700 Tm (one two) Tj ET BT /B 18 Tf 72 650 Td (Heading) Tj ET "
        b"BT /F 10 Tf 2 Tr 72 600 Td (thickened) Tj ET BT /F 10 Tf 0 Tr 72 550 Td (near) Tj 40 0 Td (far) Tj ET",
        resources=FONTS,
    )
    assert content.texts == ("one", "two", "Heading", "thickened", "near", "far")
    assert content.font_sizes.tolist() == pytest.approx([12, 12, 18, 10, 10, 10])
    assert content.is_bold.tolist() == [False, False, True, True, False, False]
    assert content.line_ids.tolist() == [0, 0, 1, 2, 3, 4]
    assert (content.width, content.height) == pytest.approx((612, 792))


@pytest.mark.parametrize("entries", pdf_files.TURNS)
@pytest.mark.parametrize("options", [{}, {"rotation": 90}, {"crop": (20, 30, 40, 60)}])
def test_content_is_where_it_is_rendered(entries: str, options: dict[str, object]) -> None:
    drawing = b"0 0 1 rg 1 0 0 RG 4 w 150 400 m 350 400 l S BT /F 24 Tf 200 500 Td (Hello world) Tj ET " + PICTURE
    pages = read_pdf(pdf_files.document([drawing], entries=entries), scale=2, **options)
    content, picture = pages.page_content(0), pages[0]
    assert (content.width * 2, content.height * 2) == pytest.approx(picture.shape[1::-1], abs=1e-6)
    is_red = (picture[..., 0] > 200) & (picture[..., 1] < 80)
    is_blue = (picture[..., 2] > 200) & (picture[..., 1] < 80)
    rules = np.concatenate([content.horizontal_rules, content.vertical_rules])
    for found, drawn in ((rules, is_red), (content.boxes, is_blue)):
        rows, columns = np.nonzero(drawn)
        expected = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
        around = (*found[:, :2].min(axis=0), *found[:, 2:].max(axis=0))
        assert np.array(around) * 2 == pytest.approx(expected, abs=3)
    assert content.line_ids.tolist() == [0, 0]
    assert content.font_sizes.tolist() == pytest.approx([24, 24])
    x0, y0, x1, y1 = (content.pictures[0] * 2).round().astype(int)
    part = picture[y0 + 6 : y1 - 6, x0 + 6 : x1 - 6]
    assert part.min() < 60
    assert part.max() > 200


def test_words_match_the_text_layer() -> None:
    lines = ((72, 700, "Hello brave world"), (300, 400, "12.50 \u20ac"), (600, 90, "edge"), (900, 90, "beyond"))
    pages = read_pdf(pdf_files.document([pdf_files.text_page(*lines)], entries="/Rotate 90"))
    content, words = pages.page_content(0), pages.text_layer(0)
    assert list(content.texts) == [word.value for word in words]
    relative = content.boxes / np.tile([content.width, content.height], 2)
    assert relative == pytest.approx(np.array([np.ravel(word.geometry) for word in words]))


def test_separate_process_gives_the_same_content(tmp_path: Path) -> None:
    drawing = (
        b"100 700 m 300 700 l S 0 0 m 50 50 90 100 200 300 c S " + pdf_files.text_page((72, 500, "Hello")) + PICTURE
    )
    file = pdf_files.document([drawing, b""])
    for number in (0, 1):
        one = read_pdf(file).page_content(number)
        other = read_pdf(file, timeout_seconds=60).page_content(number)
        for name, value in vars(one).items():
            assert np.array_equal(value, getattr(other, name)), name


def test_images_have_no_content(tmp_path: Path) -> None:
    Image.new("RGB", (20, 30)).save(tmp_path / "page.png")
    assert DocumentFile.from_images(tmp_path / "page.png").page_content(0) is None


def test_drawings_in_forms_are_in_place() -> None:
    inner = b"1 w 10 10 m 60 10 l S BT /F 10 Tf 10 20 Td (Inside) Tj ET"
    form = b"/Type/XObject/Subtype/Form/BBox[0 0 100 100]/Resources<</Font<</F 5 0 R>>>>"
    file = pdf_files.assembled([
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 6 0 R/Resources<</XObject<</X 4 0 R>>>>>>",
        pdf_files.stream(inner, form),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        pdf_files.stream(b"q 2 0 0 2 100 300 cm /X Do Q"),
    ])  # fmt: skip
    content = read_pdf(file).page_content(0)
    assert content.font_sizes == pytest.approx([20])
    assert content.horizontal_rules == pytest.approx(np.array([(120, 792 - 321, 220, 792 - 319)]))


def test_type_matches_poppler(tmp_path: Path) -> None:
    path = tmp_path / "page.pdf"
    lines = [(9, "F", "small"), (12, "F", "plain"), (12, "B", "heavy"), (30, "B", "Title"), (17, "F", "middle")]
    shown = [f"BT /{font} {size} Tf 72 {700 - 50 * n} Td ({text}) Tj ET" for n, (size, font, text) in enumerate(lines)]
    path.write_bytes(pdf_files.document(["\n".join(shown).encode()], resources=FONTS))
    command = [find_program("pdftohtml"), "-xml", "-i", "-stdout", "-zoom", "1", str(path)]
    xml = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    sizes = {name: float(size) for name, size in re.findall(r'<fontspec id="(\d+)" size="(-?\d+)"', xml)}
    theirs = {
        re.sub("<.*?>", "", text): (sizes[font], "<b>" in text)
        for font, text in re.findall(r'<text [^>]*font="(\d+)">(.*?)</text>', xml)
    }
    content = read_pdf(path).page_content(0)
    ours = zip(content.texts, zip(content.font_sizes.tolist(), content.is_bold.tolist(), strict=True), strict=True)
    assert dict(ours) == theirs


def test_scanned_page_is_not_its_own_picture() -> None:
    assert len(content_of(b"q 612 0 0 792 0 0 cm BI /W 2 /H 2 /CS /G /BPC 8 ID \x00\xff\xff\x00 EI Q").pictures) == 0


@pytest.mark.parametrize(
    "drawing", [b"", b"q Q Q Q 1 2 3 m l S", b"0 0 m 1e30 1e30 l S 1e30 0 0 1e30 0 0 cm 0 0 9 9 re f"]
)
def test_odd_pages_have_content(drawing: bytes) -> None:
    content = content_of(drawing)
    assert content.texts == ()
    for boxes in (content.horizontal_rules, content.vertical_rules, content.pictures):
        assert np.isfinite(boxes).all()
