"""Regions of pages: kinds, order and headings on drawn pages with their truth, and odd pages."""

from __future__ import annotations

import random
import time
from dataclasses import replace

import numpy as np
import pytest

from mediatensor.ocr.drawing import DrawnPage, draw_random_page
from mediatensor.ocr.structure import (
    REGION_KINDS,
    FoundRegion,
    FoundTable,
    PageContent,
    content_of_picture,
    find_regions,
    find_structure,
    mend_hyphenation,
)
from mediatensor.ocr.utils.metrics import box_iou
from ocr_field_pages import content_of_words

Box = tuple[float, float, float, float]


def page_of(
    lines: list[tuple[float, float, str]],
    *,
    size: float = 10.0,
    width: float = 600,
    height: float = 800,
    **given: object,
) -> PageContent:
    """A page of lines (x, y, text) in a font whose letters are half as wide as high."""
    boxes, texts, ids, bold = [], [], [], []
    for number, (x, y, text) in enumerate(lines):
        for word in text.replace("**", "").split():
            boxes.append((x, y, x + 0.5 * size * len(word), y + size))
            texts.append(word)
            ids.append(number)
            bold.append(text.startswith("**"))
            x += 0.5 * size * (len(word) + 1)
    return content_of_words(width, height, boxes, texts, ids, is_bold=np.array(bold, bool), **given)


def box_of(polygon: np.ndarray) -> Box:
    left, top, right, bottom = *polygon.min(axis=0), *polygon.max(axis=0)
    return float(left), float(top), float(right), float(bottom)


def found_on(page: DrawnPage) -> tuple[PageContent, list[FoundRegion]]:
    words = [(word, number) for number, line in enumerate(page.lines) for word in line.words]
    content = content_of_picture(
        page.image,
        np.array([box_of(word.polygon) for word, _ in words]).reshape(-1, 4),
        [word.text for word, _ in words],
        [number for _, number in words],
        np.ones(len(words)),
    )
    tables = [FoundTable(box_of(region.polygon), 1, 1, ()) for region in page.regions if region.kind == "Table"]
    return content, find_regions(content, tables)


def kendall(order: list[int]) -> float:
    """Kendall's tau of an order with 0, 1, 2 and so on."""
    ranks = np.argsort(order)
    discordant = sum(int((ranks[index + 1 :] < rank).sum()) for index, rank in enumerate(ranks))
    return 1 - 4 * discordant / (len(ranks) * (len(ranks) - 1))


def text_of(content: PageContent, region: FoundRegion) -> str:
    return " ".join(content.texts[word] for word in region.words)


@pytest.fixture(scope="module")
def drawn() -> list[tuple[DrawnPage, PageContent, list[FoundRegion]]]:
    kinds = ("columns", "slide", "report", "report", "report")
    pages = [
        draw_random_page(random.Random(seed), kind=kind, style="clean", size=(850, 1100))
        for seed, kind in enumerate(kinds)
    ]
    return [(page, *found_on(page)) for page in pages]


def test_regions_of_generated_pages_are_in_reading_order(
    drawn: list[tuple[DrawnPage, PageContent, list[FoundRegion]]],
) -> None:
    for page, _, regions in drawn:
        order = [word for region in regions for word in region.words]
        assert sorted(order) == list(range(len(page.words)))
        assert kendall(order) > 0.95


def test_regions_of_generated_pages_have_their_kinds(
    drawn: list[tuple[DrawnPage, PageContent, list[FoundRegion]]],
) -> None:
    right = wrong = 0
    for page, _, regions in drawn:
        truths = [box_of(truth.polygon) for truth in page.regions]
        ious = box_iou(np.array(truths), np.array([region.box for region in regions]))
        for truth, shared in zip(page.regions, ious, strict=True):
            if shared.max() > 0.5:
                is_right = regions[shared.argmax()].kind == truth.kind
                right += is_right
                wrong += not is_right
    assert right > 20
    assert right > 9 * wrong


PROSE = [
    "Text of some length that fills its column to the",
    "very end of it, line after line, as text does on",
    "most pages of this kind, until it ends in a line",
    "that is short.",
]


def column(x: float, y: float, indent: float = 0.0) -> list[tuple[float, float, str]]:
    return [(x + (indent if row == 0 else 0), y + 12 * row, text) for row, text in enumerate(PROSE)]


def paper() -> PageContent:
    lines = [
        (40, 20, "Journal of Pages"),
        (530, 20, "17"),
        *column(40, 60),
        *column(40, 108, indent=10),
        (40, 190, "**2.1 Of methods"),
        *column(40, 210),
        (40, 270, "\u2022 An item of a list that is longer than one"),
        (50, 282, "line of it"),
        (40, 296, "\u2022 Another item"),
        *column(330, 60),
        (380, 130, "E = m c + 2"),
        (560, 130, "(3)"),
        *column(330, 160),
        (330, 420, "Figure 3: The picture."),
        *column(330, 450),
        (300, 780, "17"),
    ]
    pictures = np.array([[330.0, 230.0, 560.0, 410.0]])
    return page_of(lines, pictures=pictures)


def test_regions_of_a_paper_have_their_kinds() -> None:
    content = paper()
    regions = find_regions(content)
    kinds = [(region.kind, text_of(content, region)[:14]) for region in regions]
    assert kinds == [
        ("Page-header", "Journal of Pag"),
        ("Text", "Text of some l"),
        ("Text", "Text of some l"),
        ("Section-header", "2.1 Of methods"),
        ("Text", "Text of some l"),
        ("List-item", "\u2022 An item of a"),
        ("List-item", "\u2022 Another item"),
        ("Text", "Text of some l"),
        ("Formula", "E = m c + 2 (3"),
        ("Text", "Text of some l"),
        ("Picture", ""),
        ("Caption", "Figure 3: The "),
        ("Text", "Text of some l"),
        ("Page-footer", "17"),
    ]
    assert [region.level for region in regions if region.kind == "Section-header"] == [2]
    assert all(region.level == 0 for region in regions if region.kind != "Section-header")


def test_right_to_left_page_is_read_as_mirror_image() -> None:
    content = paper()
    boxes = content.boxes
    flipped = np.stack([content.width - boxes[:, 2], boxes[:, 1], content.width - boxes[:, 0], boxes[:, 3]], axis=1)
    hebrew = tuple("\u05d0" * len(text) if text[0].isalpha() else text for text in content.texts)
    mirrored = replace(content, boxes=flipped, texts=hebrew, pictures=np.zeros((0, 4)))
    order = [word for region in find_regions(mirrored) for word in region.words]
    first, second = order.index(6), order.index(content.texts.index("E"))
    assert sorted(order) == list(range(len(content.texts)))
    assert first < second


@pytest.mark.parametrize("left", [57.3, 57.4, 57.5])
def test_region_of_a_table_on_a_right_to_left_page_has_the_box_of_the_table(left: float) -> None:
    content = page_of([(left, 140, "\u05d0\u05d1 \u05d2\u05d3"), (left, 152, "\u05d4\u05d5 \u05d6\u05d7")])
    table = FoundTable((left, 138.1, 300.7, 164.0), 2, 2, (), 0.75)
    (region,) = find_regions(content, [table])
    assert (region.kind, region.box) == ("Table", table.box)


def test_words_of_tables_belong_to_them() -> None:
    content = page_of([*column(40, 60), (40, 140, "one two"), (40, 152, "three four"), *column(40, 200)])
    table = FoundTable((35.0, 138.0, 300.0, 164.0), 2, 2, (), 0.75)
    regions = find_regions(content, [table])
    assert [region.kind for region in regions] == ["Text", "Table", "Text"]
    assert text_of(content, regions[1]) == "one two three four"
    assert regions[1].confidence == 0.75


def test_words_of_overlapping_tables_belong_to_one_of_them() -> None:
    # The last rows of the wide table are below the narrow one, so its box is around the narrow table.
    wide = [(x, 50 + 20 * row, text) for row in range(4) for x, text in ((50, f"item{row}"), (150, f"1{row}"))]
    narrow = [(x, 62 + 20 * row, text) for row in range(3) for x, text in ((350, f"name{row}"), (450, "513"[row]))]
    wide += [(x, 130, f"sum{x}") for x in (50, 150, 250, 350, 450)] + [(50, 150, "item9"), (150, 150, "19")]
    content = page_of([*wide, *narrow], size=8.0)
    found = find_structure(content)
    words = [[content.texts[word] for cell in table.cells for word in cell.words] for table in found.tables]
    assert words == [[text for _, _, text in wide], [text for _, _, text in narrow]]
    assert [set(region.words) for region in found.regions] == [
        {word for cell in table.cells for word in cell.words} for table in found.tables
    ]


def test_gutter_splits_a_line() -> None:
    lines = [(40 + 270 * side, 60 + 12 * row, PROSE[row % 3][:46]) for row in range(12) for side in range(2)]
    # Each line of the left column reaches to within a letter of the right one.
    content = page_of([(x, y, text + "xxxxx") for x, y, text in lines])
    regions = find_regions(content)
    assert [region.kind for region in regions] == ["Text", "Text"]
    assert max(regions[0].words) - min(regions[0].words) > len(regions[0].words)


def odd_pages() -> dict[str, PageContent]:
    grid = [(float(5 + 58 * (place % 10)), float(2 + 0.4 * place), "word") for place in range(2000)]
    heap = [(100.0, 100.0, "heap")] * 700
    return {
        "empty": page_of([]),
        "one word": page_of([(100, 100, "word")]),
        "a picture": page_of([], pictures=np.array([[0.0, 0.0, 600.0, 800.0]])),
        "no height": page_of([(100, 100, "a b c d")], size=0.0),
        "slanted rows": page_of(grid, size=4),
        "a heap": page_of(heap),
        "only marks": page_of([(40, 12.0 * row, "\u2022") for row in range(40)]),
        "rules": page_of(
            [(100, 100, "word")], horizontal_rules=np.tile([[0.0, 100.0, 600.0, 101.0]], (3000, 1)),
            vertical_rules=np.tile([[100.0, 0.0, 101.0, 800.0]], (3000, 1)),
            pictures=np.tile([[100.0, 0.0, 101.0, 800.0]], (3000, 1)),
        ),
        "outside": page_of([(-5000, -5000, "far out"), (9000, 9000, "and far")]),
    }  # fmt: skip


@pytest.mark.parametrize("name", list(odd_pages()))
def test_odd_pages_have_regions(name: str) -> None:
    content = odd_pages()[name]
    regions = find_regions(content)
    words = [word for region in regions for word in region.words]
    assert sorted(words) == list(range(len(content.texts)))
    assert {region.kind for region in regions} <= set(REGION_KINDS)
    assert all(0 <= region.confidence <= 1 for region in regions)


@pytest.mark.parametrize(
    ("lines", "context", "mended"),
    [
        (["an exam-", "ple"], "", "an example"),
        (["by Navier-", "Stokes"], "", "by Navier-Stokes"),
        (["from 2010-", "2011"], "", "from 2010-2011"),
        (["a well-", "known fact"], "it is well-known", "a well-known fact"),
        (["a long-", "term plan"], "of long and short term", "a long-term plan"),
        (["the out-", "come"], "one outcome of many", "the outcome"),
        (["state-of-the-", "art"], "", "state-of-the-art"),
        (["soft\u00ad", "ware"], "", "software"),
        (["a dash -", "and more"], "", "a dash - and more"),
        (["", "alone", ""], "", "alone"),
        ([], "", ""),
    ],
)
def test_hyphenated_words_are_joined(lines: list[str], context: str, mended: str) -> None:
    assert mend_hyphenation(lines, context) == mended


@pytest.mark.parametrize(
    ("lines", "mended"),
    [(["a" * 20_000, "b"], "a" * 20_000 + " b"), (["ab-"] * 20_000 + ["c"], "ab" * 20_000 + "c")],
    ids=["one long word", "many lines of one word"],
)
def test_unbroken_words_are_joined_in_linear_time(lines: list[str], mended: str) -> None:
    before = time.process_time()
    assert mend_hyphenation(lines) == mended
    # It takes milliseconds. Quadratic time would be ten seconds for the one word, and more for the many lines.
    assert time.process_time() - before < 2


def test_hyphens_at_the_start_of_a_long_word_count() -> None:
    """A word with another hyphen keeps the hyphen at its end, even if many lines are between the two hyphens."""
    assert mend_hyphenation(["one-Two" + "x" * 99 + "-", "art"]) == "one-Two" + "x" * 99 + "-art"
    assert mend_hyphenation(["one-", "Two" + "x" * 99 + "-", "art-", "less"]) == "one-Two" + "x" * 99 + "-art-less"
    assert mend_hyphenation(["a-Bx", "y" * 99 + "-", "art"]) == "a-Bx " + "y" * 99 + "art"


def test_bullets_below_an_introduction_are_items() -> None:
    """Three indented lines with a hyphen each, close below a line of text, and a line that continues after them."""
    lines = [
        "For the next year we plan",
        "- a second boat",
        "- tickets for all lines",
        "- a warm room",
        "and nothing else.",
    ]
    content = page_of(
        [(130 if line.startswith("-") else 100, 100 + 30 * number, line) for number, line in enumerate(lines)],
        size=20,
        width=1000,
        height=1200,
    )
    found = [(region.kind, text_of(content, region)) for region in find_regions(content)]
    assert found[1:4] == [("List-item", line) for line in lines[1:4]]
    assert [text for _, text in found] == lines


def test_sideways_text_is_a_separate_region() -> None:
    paragraph = [(100.0, 100.0 + 14 * row, "some words of a line of this paragraph") for row in range(20)]
    upright = page_of(paragraph)
    # A note along each margin: one reads upwards, the other one downwards.
    up, down = ["filed", "in", "room", "twelve"], ["seen", "by", "the", "clerk"]
    boxes = [(20, 300 - 40 * number, 30, 330 - 40 * number) for number in range(4)]
    boxes += [(560, 120 + 40 * number, 570, 150 + 40 * number) for number in range(4)]
    content = content_of_words(
        upright.width, upright.height, [*upright.boxes, *boxes], (*upright.texts, *up, *down),
        [*upright.line_ids, *[90] * 4, *[91] * 4],
        turns=np.array([0] * len(upright.texts) + [270] * 4 + [90] * 4),
    )  # fmt: skip
    *body, left, right = find_regions(content)
    assert [region.words for region in body] == [region.words for region in find_regions(upright)]
    assert [content.texts[word] for word in left.words] == up
    assert [content.texts[word] for word in right.words] == down
    assert (left.kind, left.box) == ("Text", (20, 180, 30, 330))
    assert (right.kind, right.box) == ("Text", (560, 120, 570, 270))
