"""The tree of a document that was read: construction, export, loading, next to what docTR stored."""

from __future__ import annotations

import copy
import json
import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch

from mediatensor.errors import InvalidArgumentError
from mediatensor.ocr.io import (
    Artefact,
    Block,
    Character,
    Document,
    Element,
    KIEDocument,
    KIEPage,
    LayoutElement,
    Line,
    Page,
    Prediction,
    Table,
    TableCell,
    Word,
)
from ocr_export_pages import SIZE, STRAIGHT, doctr_exports, empty_pages, noise, page_of, relative, turned_word, word


def through_json(exported: Any) -> Any:
    return json.loads(json.dumps(exported))


def document_class(case: str) -> type[Document]:
    return KIEDocument if case == "predictions" else Document


# What docTR stored


@pytest.mark.parametrize("case", doctr_exports("1.1.0"))
@pytest.mark.parametrize("key", ["stored", "json"])
def test_exports_of_doctr_load_and_are_exported_again(case: str, key: str) -> None:
    stored = doctr_exports("1.1.0")[case][key]

    document = document_class(case).from_dict(copy.deepcopy(stored))

    assert through_json(document.export(reading_order=False)) == stored


@pytest.mark.parametrize("case", doctr_exports("1.0.1"))
def test_exports_from_before_layouts_load(case: str) -> None:
    stored = doctr_exports("1.0.1")[case]["stored"]

    exported = through_json(document_class(case).from_dict(copy.deepcopy(stored)).export(reading_order=False))

    added = {"layout": []} if case == "predictions" else {"layout": [], "tables": []}
    assert exported == {"pages": [page | added for page in stored["pages"]]}


@pytest.mark.parametrize("case", ["columns", "right to left", "layout", "predictions"])
def test_export_in_reading_order_matches_doctr(case: str) -> None:
    recorded = doctr_exports("1.1.0")[case]

    assert through_json(document_class(case).from_dict(recorded["stored"]).export()) == recorded["json"]


def test_export_of_turned_text_is_that_of_doctr_but_for_its_rounding() -> None:
    recorded = doctr_exports("1.1.0")["rotated"]

    page = through_json(Document.from_dict(recorded["stored"]).export())["pages"][0]

    expected = recorded["json"]["pages"][0]
    for block, other in zip(page["blocks"], expected["blocks"], strict=True):
        # docTR computes the enclosing rectangle in float32, of coordinates times 1024.
        np.testing.assert_allclose(block["geometry"], other["geometry"], atol=1e-6)
        assert block["lines"] == other["lines"]


def test_missing_keys_are_named() -> None:
    exported = page_of(word("one", (0, 0, 10, 10))).export()
    del exported["blocks"][0]["lines"][0]["words"][0]["confidence"]

    with pytest.raises(InvalidArgumentError, match="Word has no 'confidence'"):
        Page.from_dict(exported)
    with pytest.raises(InvalidArgumentError, match="Document is a dictionary"):
        Document.from_dict([])  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="'error' = 5"):
        Page.from_dict(page_of().export() | {"error": 5})


@pytest.mark.parametrize("turn", [[32767, 1], "90", float("nan"), 10**400, True])
def test_a_stored_turn_is_a_number_of_degrees_or_none(turn: object) -> None:
    exported = page_of(word("one", (0, 0, 10, 10))).export()
    stored_word = exported["blocks"][0]["lines"][0]["words"][0]
    for owner, key in ((exported, "orientation"), (stored_word, "crop_orientation")):
        before, owner[key] = owner[key], {"value": turn, "confidence": None}
        with pytest.raises(InvalidArgumentError, match=key):
            Page.from_dict(exported)
        owner[key] = before
    Page.from_dict(exported)


# Construction


def test_elements_refuse_unknown_children() -> None:
    with pytest.raises(KeyError, match="sub_elements"):
        Element(sub_elements=[])
    with pytest.raises(NotImplementedError):
        Element().render()


def test_lines_and_blocks_enclose_straight_words() -> None:
    line = Line([word("a", (30, 40, 60, 60)), word("b", (66, 36, 90, 64), 0.5)])
    block = Block([line], [Artefact("logo", 0.5, relative([(300, 40), (330, 200)]))])

    assert line.geometry == relative([(30, 36), (90, 64)])
    assert block.geometry == relative([(30, 36), (330, 200)])
    assert line.objectness_score == block.objectness_score == pytest.approx(0.8)


@pytest.mark.parametrize("degrees", [0, 20, 80, 100, 170, -170, -100, -30])
def test_lines_enclose_turned_words_in_reading_direction(degrees: float) -> None:
    size = 40 / SIZE[1], 10 / SIZE[1]  # on a square page, where a rectangle stays one
    angle = math.radians(degrees)
    along, down = np.array([math.cos(angle), -math.sin(angle)]), np.array([math.sin(angle), math.cos(angle)])
    start = np.array([0.5, 0.5])

    def quad(offset: float) -> tuple[tuple[float, ...], ...]:
        corner = start + along * offset
        corners = [corner, corner + along * size[0], corner + along * size[0] + down * size[1], corner + down * size[1]]
        return tuple(tuple(point.tolist()) for point in corners)

    line = Line([Word("w", 1.0, quad(offset), 1.0, dict(STRAIGHT)) for offset in (0.0, 0.1)])

    expected = [*quad(0.0)[:1], *quad(0.1)[1:3], *quad(0.0)[3:]]
    np.testing.assert_allclose(line.geometry, expected, atol=1e-7)
    assert isinstance(line.geometry, tuple)
    assert isinstance(line.geometry[0][0], float)


def test_enclosing_geometry_of_arrays_is_an_array() -> None:
    quads = [turned_word("a", (100, y), (30, 20), 45).geometry for y in (100, 140)]

    line = Line([word_of(np.array(quad, np.float32)) for quad in quads])

    assert isinstance(line.geometry, np.ndarray)
    assert isinstance(line.export()["geometry"], tuple)
    np.testing.assert_allclose(line.geometry, Line([word_of(quad) for quad in quads]).geometry, atol=1e-6)


def word_of(geometry: Any) -> Word:
    return Word("a", 1.0, geometry, 1.0, dict(STRAIGHT))


def test_enclosing_geometry_of_nothing_has_no_extent() -> None:
    for element in (Line([]), Block(), Block([Line([])])):
        assert element.geometry == ((0.0, 0.0), (0.0, 0.0))
        assert element.objectness_score == 0.0


def test_a_block_does_not_share_its_children_with_others() -> None:
    Block().lines.append(Line([]))

    assert Block().lines == []


def test_grid_of_a_table_has_spanning_cells_once() -> None:
    box = ((0.0, 0.0), (1.0, 1.0))
    cells = [TableCell("wide", 0.9, box, 0, 0, 0, 1), TableCell("tall", 0.8, box, 0, 1, 2, 2)]
    table = Table([*cells, TableCell("outside", 0.8, box, 5, 5, 0, 0)], 2, 3, box)

    assert (cells[0].row_span, cells[0].col_span, cells[1].row_span) == (1, 2, 2)
    assert table.to_grid() == [["wide", "", "tall"], ["", "", ""]]
    assert table.render(col_break="|") == "wide||tall\n||"
    assert through_json(Table.from_dict(table.export()).export()) == through_json(table.export())


def test_words_of_a_cell_come_back_with_their_places() -> None:
    upright = {"value": 0, "confidence": None}
    letters = [Character(letter, 1.0, ((0.1 + 0.1 * k, 0.1), (0.2 + 0.1 * k, 0.2))) for k, letter in enumerate("tea")]
    words = [
        Word("Green", 0.9, ((0.0, 0.1), (0.1, 0.2)), 0.8, upright),
        Word("tea", 0.7, ((0.1, 0.1), (0.4, 0.2)), 0.8, upright, characters=letters),
    ]
    cell = TableCell("Green tea", 0.8, ((0.0, 0.0), (1.0, 1.0)), 0, 0, 0, 0, words=words)
    exported = through_json(cell.export(characters=True))
    restored = TableCell.from_dict(exported)
    assert [word.value for word in restored.words] == ["Green", "tea"]
    assert [np.ravel(word.geometry).tolist() for word in restored.words] == [[0, 0.1, 0.1, 0.2], [0.1, 0.1, 0.4, 0.2]]
    assert [letter.value for letter in restored.words[1].characters] == list("tea")
    assert through_json(restored.export(characters=True)) == exported
    assert "characters" not in cell.export()["words"][1]

    # Exports of docTR and of earlier versions have no words, and cells without words have no such key.
    old = {key: value for key, value in exported.items() if key != "words"}
    assert list(old) == ["geometry", "value", "confidence", "row_start", "row_end", "col_start", "col_end"]
    assert TableCell.from_dict(old).words == []
    assert through_json(TableCell.from_dict(old).export()) == old
    for key, value in (("words", "Green tea"), ("is_header", "yes")):
        with pytest.raises(InvalidArgumentError, match=key):
            TableCell.from_dict({**old, key: value})
    head = TableCell("Tea", 0.8, cell.geometry, 0, 0, 0, 0, is_header=1)  # type: ignore[arg-type]
    assert TableCell.from_dict(head.export()).is_header is True


def test_table_refuses_too_many_positions() -> None:
    with pytest.raises(InvalidArgumentError, match="1000000000"):
        Table([], 10**9, 10**9, ((0.0, 0.0), (1.0, 1.0))).to_grid()


# Export


def test_exports_are_plain() -> None:
    words = [
        Word("numpy", np.float32(0.5), np.array([[0.1, 0.1], [0.2, 0.2]]), np.float64(0.5), {"value": np.int64(0)}),
        Word("torch", torch.tensor(0.5), torch.tensor([[0.1, 0.3], [0.2, 0.4]]), 0.5, {0: {1}}),  # type: ignore[arg-type,dict-item]
    ]

    first, second = (item.export() for item in words)

    assert first["geometry"] == ((0.1, 0.1), (0.2, 0.2))
    assert first["confidence"] == second["confidence"] == 0.5
    assert second["crop_orientation"] == {"0": [1]}
    assert through_json(first)["value"] == "numpy"


def test_characters_are_exported_when_asked_for() -> None:
    characters = [Character(value, 0.5, relative([(0, 0), (5, 10)])) for value in "ab"]
    page = page_of(word("ab", (0, 0, 10, 10), characters=characters))

    assert "characters" not in str(page.export())
    for exported in (page.export(characters=True), Document([page]).export(characters=True)["pages"][0]):
        restored = Page.from_dict(exported).blocks[0].lines[0].words[0]
        assert [(item.render(), item.confidence) for item in restored.characters] == [("a", 0.5), ("b", 0.5)]


@pytest.mark.parametrize("make", [page_of, lambda **kwargs: KIEPage(noise(), {}, 0, SIZE, **kwargs)])
def test_unreadable_pages_export_their_reason(make: Any) -> None:
    page = make(error="damaged")

    assert "error" not in make().export()
    assert page.export()["error"] == "damaged"
    assert type(page).from_dict(page.export()).error == "damaged"
    assert "error='damaged'" in repr(page)


def test_pages_get_their_images_back() -> None:
    document = Document([page_of(image=noise())])

    restored = Document.from_dict(document.export(), pages=[noise()])

    assert np.array_equal(restored.pages[0].page, noise())
    assert Document.from_dict(document.export()).pages[0].page.size == 0
    with pytest.raises(InvalidArgumentError, match="1 pages, but 2 images"):
        Document.from_dict(document.export(), pages=[noise(), noise()])


@pytest.mark.parametrize("case", list(empty_pages()))
def test_nearly_empty_pages_survive_export_and_loading(case: str) -> None:
    element = empty_pages()[case]

    exported = element.export()

    assert repr(type(element).from_dict(exported).export()) == repr(exported)


# Rendering and repr


def test_elements_render_their_text() -> None:
    line = Line([word("two", (0, 0, 30, 20)), word("words", (40, 0, 90, 20))])

    assert line.render() == "two words"
    assert Block([line, line]).render(line_break="|") == "two words|two words"
    assert Artefact("qr_code", 0.5, ((0, 0), (1, 1))).render() == "<[QR_CODE]>"
    assert LayoutElement("Title", 0.5, ((0, 0), (1, 1))).render() == "<[TITLE]>"


def test_repr_nests() -> None:
    page = Page(noise(), [Block([Line([word("a", (0, 0, 9, 9)), word("b", (9, 0, 18, 9), 1)])])], 0, SIZE)

    assert repr(Document([page])).splitlines() == [
        "Document(",
        "  (pages): [Page(",
        "    dimensions=(400, 600)",
        "    (blocks): [Block(",
        "      (lines): [Line(",
        "        (words): [",
        "          Word(value='a', confidence=0.9),",
        "          Word(value='b', confidence=1.0),",
        "        ]",
        "      )]",
        "      (artefacts): []",
        "    )]",
        "    (layout): []",
        "    (tables): []",
        "  )]",
        ")",
    ]
    prediction = Prediction("x", 0.25, ((0, 0), (1, 1)), 0.5, dict(STRAIGHT))
    assert repr(prediction) == "Prediction(value='x', confidence=0.25, bounding_box=((0, 0), (1, 1)))"


def test_documents_can_be_pickled() -> None:
    document = Document([page_of(turned_word("a", (100, 100), (30, 20), 45))])

    assert pickle.loads(pickle.dumps(document)).export() == document.export()


# Pictures


@pytest.mark.parametrize("image", [noise(), torch.from_numpy(noise()).permute(2, 0, 1)], ids=["array", "tensor"])
def test_pages_are_shown(image: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="needs matplotlib")
    shown: list[dict[str, Any]] = []
    monkeypatch.setattr(pyplot, "show", lambda **kwargs: shown.append(kwargs))
    page = page_of(word("one", (10, 10, 60, 30)), image=image)

    Document([page, page]).show(interactive=False, words_only=True, block=False)
    pictures = [pyplot.figure(number).axes[0].images[0].get_array() for number in pyplot.get_fignums()]
    pyplot.close("all")

    assert shown == [{"block": False}] * 2
    assert np.array_equal(pictures[-1], noise())


def test_pages_are_synthesized() -> None:
    page = page_of(word("one", (10, 10, 60, 30)))

    (picture,) = Document([page]).synthesize()

    assert picture.shape == (*SIZE, 3)
    assert picture[10:30, 10:60].min() < 128 <= picture[200:].min()


def test_a_page_without_an_image_cannot_be_shown() -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib")

    with pytest.raises(InvalidArgumentError, match="no image"):
        Page.from_dict(page_of().export()).show()
