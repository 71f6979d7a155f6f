"""Test how lines are split into words with boxes, on lines of block letters and on generated pages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mediatensor.ocr.models._lines.ink import ink_map
from mediatensor.ocr.models._lines.words import LineCharacters, LineWord, boxes_between_gaps, split_line
from mediatensor.ocr.utils.metrics import box_iou
from ocr_onnx_sessions import require_weights
from ocr_pages import RenderedPage, render_page
from ocr_reading import geometries, reader, words_of

HEIGHT = 48
#: A letter has 12 columns of ink and 4 empty columns. Its ink is in rows 12 to 35.
LETTER, INK, TOP, BOTTOM = 16, 12, 12, 36


def drawn(text: str, margin: int = 16, space: int = LETTER) -> tuple[LineCharacters, np.ndarray, list[tuple[int, int]]]:
    """Draw a line of block letters. Return its characters, its ink, and the columns of each character."""
    width = 2 * margin + sum(space if character == " " else LETTER for character in text)
    ink = np.zeros((HEIGHT, width), bool)
    columns, x = [], margin
    for character in text:
        extent = space if character == " " else LETTER
        if character != " ":
            ink[TOP:BOTTOM, x + 2 : x + 2 + INK] = True
        columns.append((x, x + extent))
        x += extent
    places = np.array(columns, float).reshape(-1, 2) / width
    line = LineCharacters(text, places[:, 0], places[:, 1], np.linspace(0.5, 1, len(text)))
    return line, ink, columns


def extents(words: list[LineWord], width: int) -> list[tuple[float, float]]:
    return [(word.box[0] * width, word.box[2] * width) for word in words]


@pytest.mark.parametrize("text", ["word", "two words", "a b c", "1 22 333 4444", "x"])
def test_word_boxes_have_a_small_margin_around_the_ink(text: str) -> None:
    line, ink, columns = drawn(text)
    words = split_line(line, ink)
    assert [word.value for word in words] == text.split()
    position = 0
    for word, (left, right) in zip(words, extents(words, ink.shape[1]), strict=True):
        first, last = columns[position], columns[position + len(word.value) - 1]
        # At most a sixteenth of the height is left around the ink.
        assert first[0] + 2 - 3 <= left <= first[0] + 2
        assert last[1] - 2 <= right <= last[1] - 2 + 3
        assert 0 < word.box[1] * HEIGHT <= TOP
        assert BOTTOM <= word.box[3] * HEIGHT < HEIGHT
        position += len(word.value) + 1


def test_characters_keep_their_confidences() -> None:
    line, ink, _ = drawn("ab cd")
    words = split_line(line, ink)
    assert [word.confidences for word in words] == [
        tuple(line.confidences[:2].tolist()),
        tuple(line.confidences[3:].tolist()),
    ]


def assert_consistent(words: list[LineWord]) -> None:
    """Check that boxes are inside the line, characters inside their word, and both in order."""
    for word in words:
        left, top, right, bottom = word.box
        assert 0 <= left <= right <= 1
        assert 0 <= top < bottom <= 1
        assert len(word.boxes) == len(word.confidences) == len(word.value)
        edges = [edge for box in word.boxes for edge in (box[0], box[2])]
        assert edges == sorted(edges)
        assert edges[0] == pytest.approx(left)
        assert edges[-1] == pytest.approx(right)
        assert {(box[1], box[3]) for box in word.boxes} == {(top, bottom)}
    assert [word.box[0] for word in words] == sorted(word.box[0] for word in words)


def test_character_boxes_meet_halfway_between_centers() -> None:
    line, ink, columns = drawn("abc de")
    words = split_line(line, ink)
    assert_consistent(words)
    cuts = [box[0] * ink.shape[1] for word in words for box in word.boxes[1:]]
    assert cuts == pytest.approx([columns[1][0], columns[2][0], columns[5][0]])


@pytest.mark.parametrize("text", ["", " ", "   "])
def test_line_of_spaces_has_no_words(text: str) -> None:
    line, ink, _ = drawn(text)
    assert split_line(line, ink) == []


def test_repeated_spaces_separate_words_once() -> None:
    line, ink, columns = drawn("  a   b ")
    words = split_line(line, ink)
    assert [word.value for word in words] == ["a", "b"]
    assert extents(words, ink.shape[1])[0] == pytest.approx((columns[2][0] + 2, columns[2][1] - 2), abs=3)
    assert extents(words, ink.shape[1])[1] == pytest.approx((columns[6][0] + 2, columns[6][1] - 2), abs=3)


def spread(text: str, gap: int, places: tuple[int, ...]) -> tuple[LineCharacters, np.ndarray]:
    """Draw a line of block letters with a gap, but no space, before the characters at some places."""
    _, ink, columns = drawn(text)
    shifts = [gap * sum(place <= index for place in places) for index in range(len(text))]
    wider = np.zeros((HEIGHT, ink.shape[1] + gap * len(places)), bool)
    edges = []
    for (left, right), shift in zip(columns, shifts, strict=True):
        wider[:, left + shift : right + shift] = ink[:, left:right]
        edges.append((left + shift, right + shift))
    found = np.array(edges, float) / wider.shape[1]
    return LineCharacters(text, found[:, 0], found[:, 1], np.ones(len(text))), wider


def test_wide_gap_ends_a_word_without_a_space() -> None:
    assert [word.value for word in split_line(*spread("Date12.05", 32, (4,)))] == ["Date", "12.05"]
    assert [word.value for word in split_line(*spread("abcdefghi", 32, (3, 6)))] == ["abc", "def", "ghi"]
    # Narrow gaps, gaps before a full stop, and gaps between widely spaced letters do not end a word.
    assert [word.value for word in split_line(*spread("Date12.05", 8, (4,)))] == ["Date12.05"]
    assert [word.value for word in split_line(*spread("Total.", 32, (5,)))] == ["Total."]
    assert [word.value for word in split_line(*spread("TOTAL", 32, (1, 2, 3, 4)))] == ["TOTAL"]


def test_rule_in_a_wide_gap_does_not_join_words() -> None:
    line, ink = spread("Nameabcde", 160, (4,))
    ink[34:37, 84:236] = True
    assert [word.value for word in split_line(line, ink)] == ["Name", "abcde"]


def test_words_without_a_gap_are_cut_at_the_recognised_space() -> None:
    line, ink, columns = drawn("ab cd")
    ink[TOP + 8 : TOP + 10] = True
    words = split_line(line, ink)
    assert [word.value for word in words] == ["ab", "cd"]
    (_, first), (second, _) = extents(words, ink.shape[1])
    assert columns[1][1] - LETTER <= first <= columns[3][0] + LETTER
    assert columns[1][0] <= second <= columns[3][1]


def test_boxes_without_ink_are_at_the_characters() -> None:
    line, ink, columns = drawn("ab cd")
    words = split_line(line, np.zeros_like(ink))
    assert [word.value for word in words] == ["ab", "cd"]
    assert_consistent(words)
    for (left, right), (a, b) in zip(extents(words, ink.shape[1]), [(0, 1), (3, 4)], strict=True):
        assert left == pytest.approx(columns[a][0], abs=LETTER / 2)
        assert right == pytest.approx(columns[b][1], abs=LETTER / 2)


def test_boxes_stay_inside_a_line_full_of_ink() -> None:
    line, ink, _ = drawn("ab cd")
    words = split_line(line, np.ones_like(ink))
    assert [word.value for word in words] == ["ab", "cd"]
    assert_consistent(words)


@pytest.mark.parametrize(
    ("text", "options", "specks"),
    [
        ("ab cd", {"margin": 80}, [np.s_[20:26, 4:8], np.s_[20:26, -8:-4]]),  # far from the characters
        # Specks and the side of a frame between words; the widest gap is next to them.
        ("ab cdef", {"space": 64}, [np.s_[16:36, x : x + 3] for x in (66, 78, 90)]),
        # The descender of the line above, and an accent of the line below.
        ("abcdefgh", {}, [np.s_[:4, 40:42], np.s_[-4:, 60:62]]),
    ],
    ids=["far", "between", "above and below"],
)
def test_specks_do_not_change_words(text: str, options: dict[str, int], specks: list[Any]) -> None:
    line, ink, _ = drawn(text, **options)
    clean = split_line(line, ink)
    for speck in specks:
        ink[speck] = True
    assert split_line(line, ink) == clean


@pytest.mark.parametrize("sign", list("□☐☑☒"))
def test_check_box_is_a_separate_word(sign: str) -> None:
    line, ink, columns = drawn(f"{sign}Yes {sign}No")
    words = split_line(line, ink)
    assert [word.value for word in words] == [sign, "Yes", sign, "No"]
    assert_consistent(words)
    places = [(columns[a][0] + 2, columns[b][1] - 2) for a, b in ((0, 0), (1, 3), (5, 5), (6, 7))]
    np.testing.assert_allclose(extents(words, ink.shape[1]), places, atol=3)


def test_box_of_a_dash_is_nearly_as_high_as_its_line() -> None:
    line, ink, columns = drawn("ab - cd")
    ink[:, columns[3][0] : columns[3][1]] = False
    ink[23:26, columns[3][0] + 2 : columns[3][1] - 2] = True
    first, dash, _ = split_line(line, ink)
    heights = [HEIGHT * (word.box[3] - word.box[1]) for word in (first, dash)]
    assert 0.6 * heights[0] <= heights[1] < heights[0]
    assert dash.box[1] * HEIGHT < 23
    assert dash.box[3] * HEIGHT > 26


def test_vertical_rule_does_not_change_the_height_of_words() -> None:
    line, ink, columns = drawn("abcdefgh ijkl")
    clean = split_line(line, ink)
    # The frame of a table's cell.
    ink[:, columns[8][0] + 8] = True
    ruled = split_line(line, ink)
    assert [word.value for word in ruled] == ["abcdefgh", "ijkl"]
    for word, other in zip(ruled, clean, strict=True):
        assert word.box[1::2] == other.box[1::2]


def test_rule_below_a_line_hardly_changes_words() -> None:
    line, ink, _ = drawn("ab cd")
    clean = split_line(line, ink)
    ink[44:46] = True
    ruled = split_line(line, ink)
    assert [word.value for word in ruled] == ["ab", "cd"]
    np.testing.assert_allclose([word.box for word in ruled], [word.box for word in clean], atol=0.03)


@pytest.mark.parametrize("slope", [0, 1 / 80])
@pytest.mark.parametrize("row", [2, 9, 34, 38, 43])
def test_long_rule_does_not_belong_to_words(row: int, slope: float) -> None:
    line, ink, _ = drawn("ab cdefg hi", margin=60)
    clean, width = split_line(line, ink), ink.shape[1]
    # The rule is above or below the letters, or through their tops or feet. It is three pixels thick.
    for column in range(width):
        first = row + int(column * slope)
        ink[first : first + 3, column] = True
    ruled = split_line(line, ink)
    assert [word.value for word in ruled] == ["ab", "cdefg", "hi"]
    for word, other in zip(ruled, clean, strict=True):
        size = np.array([width, HEIGHT, width, HEIGHT])
        np.testing.assert_allclose(word.box * size, other.box * size, atol=4)


def test_underline_does_not_change_word_boxes() -> None:
    line, ink, columns = drawn("ab cdefg hi")
    clean = split_line(line, ink)
    ink[39:42, columns[3][0] - 6 : columns[7][1] + 6] = True
    np.testing.assert_allclose([word.box for word in split_line(line, ink)], [word.box for word in clean], atol=1e-6)


def test_frame_of_a_cell_does_not_change_word_boxes() -> None:
    line, ink, _ = drawn("abc de", margin=24)
    clean = split_line(line, ink)
    ink[:4], ink[44:], ink[:, 8:11], ink[:, -12:-9] = True, True, True, True
    np.testing.assert_allclose([word.box for word in split_line(line, ink)], [word.box for word in clean], atol=1e-6)


@pytest.mark.parametrize("stroke", [3, 5])
def test_word_of_dashes_keeps_its_box(stroke: int) -> None:
    line, ink, columns = drawn("ab ---------- cd")
    ink[:, columns[3][0] : columns[12][1]] = False
    ink[24 : 24 + stroke, columns[3][0] : columns[12][1]] = True
    words = split_line(line, ink)
    assert [word.value for word in words] == ["ab", "----------", "cd"]
    assert extents(words, ink.shape[1])[1] == pytest.approx((columns[3][0], columns[12][1]), abs=LETTER / 2)


@pytest.mark.parametrize("shift", [-5, 5])
def test_character_positions_may_be_off_by_half_a_character(shift: int) -> None:
    line, ink, _ = drawn("abc def")
    width = ink.shape[1]
    moved = LineCharacters(line.values, line.starts + shift / width, line.stops + shift / width, line.confidences)
    np.testing.assert_allclose(extents(split_line(moved, ink), width), extents(split_line(line, ink), width))


@pytest.mark.parametrize("stroke", [3, 4])
def test_dot_of_an_i_is_in_the_box(stroke: int) -> None:
    line, ink, columns = drawn("iii")
    ink[:] = False
    for left, right in columns:
        ink[16:36, left + 6 : right - 6] = True
        ink[10 : 10 + stroke, left + 6 : right - 6] = True
    (word,) = split_line(line, ink)
    assert word.box[1] * HEIGHT <= 10


@given(
    text=st.text("ab ", max_size=12),
    seed=st.integers(0, 10_000),
    height=st.integers(1, 60),
    width=st.integers(1, 200),
    density=st.floats(0, 1),
)
def test_boxes_are_ordered_for_any_ink(text: str, seed: int, height: int, width: int, density: float) -> None:
    generator = np.random.default_rng(seed)
    edges = np.sort(generator.random(2 * len(text)))
    line = LineCharacters(text, edges[::2], edges[1::2], generator.random(len(text)))
    words = split_line(line, generator.random((height, width)) < density)
    # A wide gap without ink may part a word.
    assert "".join(word.value for word in words) == "".join(text.split())
    assert len(words) >= len(text.split())
    assert_consistent(words)
    for left, top, right, bottom in boxes_between_gaps(generator.random((height, width)) < density):
        assert 0 <= left < right <= 1
        assert 0 <= top < bottom <= 1


def test_unread_lines_are_cut_at_wide_gaps() -> None:
    _, ink, columns = drawn("ab cde f")
    found = np.array(boxes_between_gaps(ink))[:, [0, 2]] * ink.shape[1]
    expected = [(columns[a][0] + 2, columns[b][1] - 2) for a, b in ((0, 1), (3, 5), (7, 7))]
    np.testing.assert_allclose(found, expected, atol=3)
    assert boxes_between_gaps(np.zeros((48, 100), bool)) == [(0.0, 0.0, 1.0, 1.0)]


@pytest.mark.parametrize("paper", [1.0, 0.8, 0.0, 0.3])
def test_ink_differs_from_the_paper(paper: float) -> None:
    _, ink, _ = drawn("some text")
    pen = 0.0 if paper > 0.5 else 1.0
    gray = np.where(ink, pen, paper)
    np.testing.assert_array_equal(ink_map(gray), ink)
    grain = np.random.default_rng(0).normal(0, 0.02, gray.shape)
    assert (ink_map(gray + grain) == ink).mean() > 0.999


@pytest.mark.parametrize("gray", [0.0, 0.5, 1.0])
def test_plain_paper_has_no_ink(gray: float) -> None:
    plain = np.full((48, 300), gray)
    assert not ink_map(plain).any()
    assert not ink_map(plain + np.random.default_rng(0).normal(0, 0.008, plain.shape)).any()


def truth(page: RenderedPage) -> np.ndarray:
    """Return boxes of words as people draw them: as wide as the ink of the word, and as high as its line."""
    boxes, position = page.boxes().copy(), 0
    for line in page.lines:
        count = len(line.text.split())
        boxes[position : position + count, 1::2] = line.quad[:, 1].min(), line.quad[:, 1].max()
        position += count
    assert position == len(boxes)
    return boxes


def assert_words_are_placed(page: RenderedPage, share: float = 0.95, **options: Any) -> None:
    words = words_of(reader(**options)([page.image]))
    size = np.array(page.image.shape[1::-1])
    ious = box_iou(truth(page), (geometries(words) * size).reshape(-1, 4))
    assert (ious.max(axis=1) >= 0.5).mean() >= share
    same = [words[place].value == word.text for place, word in zip(ious.argmax(axis=1), page.words, strict=True)]
    assert np.mean(same) >= share


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"inverted": True}, {"noise": 8, "blur": 0.5}, {"contrast": 0.3}])
def test_receipt_words_have_the_right_boxes(options: dict[str, Any]) -> None:
    require_weights()
    assert_words_are_placed(render_page("receipt", 3, size=(3.5, 4), **options))


@pytest.mark.parametrize("rotation", [0.0, pytest.param(0.6, marks=pytest.mark.slow)])
def test_words_on_rules_have_the_right_boxes(rotation: float) -> None:
    require_weights()
    assert_words_are_placed(render_page("ruled", 4, rotation=rotation, size=(5, 5)), 0.98, shorter_side=500)


@pytest.mark.parametrize(
    ("kind", "seed", "size"),
    [
        ("letter", 0, (5, 4)),
        ("columns", 0, (5, 3)),
        pytest.param("form", 1, None, marks=pytest.mark.slow),
        pytest.param("receipt", 1, None, marks=pytest.mark.slow),
    ],
)
def test_page_words_have_the_right_boxes(kind: str, seed: int, size: tuple[float, float] | None) -> None:
    require_weights()
    assert_words_are_placed(render_page(kind, seed, size=size, noise=6, blur=0.4), shorter_side=500 if size else 960)
