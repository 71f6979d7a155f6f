"""Test the correction of uncertain characters."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from mediatensor.ocr.models._lines.characters import (
    correct_spelling,
    correct_words,
    ctc_best_path,
    doubts_of,
    is_spelled,
    spell_degrees,
    spellings,
)
from mediatensor.ocr.models._lines.cutting import cut_lines, network_input
from mediatensor.ocr.models._lines.reading import read_lines
from mediatensor.ocr.utils.metrics import edit_distance
from ocr_reading import reader


def decided(line: str, doubts: dict[int, dict[str, float]]) -> str:
    """Return ``line`` after correction. ``doubts`` has probabilities at some places; all others are 0.99."""
    confidences = [doubts[place][value] if place in doubts else 0.99 for place, value in enumerate(line)]
    likely = {
        place: {other: math.log(share / own[line[place]]) for other, share in own.items() if other != line[place]}
        for place, own in doubts.items()
    }
    return "".join(correct_spelling(list(line), confidences, likely))


@pytest.mark.parametrize(
    ("line", "place", "other", "meant"),
    [
        ("messago", 6, "e", "message"),
        ("INVDICE NO", 3, "O", "INVOICE NO"),
        ("ltem", 0, "I", "Item"),
        ("Fotal 3", 0, "T", "Total 3"),
        ("Tax<RM)", 3, "(", "Tax(RM)"),
        ("Total: 1O4.50", 8, "0", "Total: 104.50"),
        ("12.0l.2024", 4, "1", "12.01.2024"),
        ("G5T ID", 1, "S", "GST ID"),
        ("AVENuE", 4, "U", "AVENUE"),
        ("möglichkcit", 8, "e", "möglichkeit"),
        ("CTS40o", 5, "0", "CTS400"),
    ],
)
def test_uncertain_character_is_replaced_to_fit_its_word(line: str, place: int, other: str, meant: str) -> None:
    assert decided(line, {place: {line[place]: 0.5, other: 0.35}}) == meant
    # Confident characters stay, and improbable ones are not chosen.
    assert decided(line, {place: {line[place]: 0.92, other: 0.07}}) == line
    assert decided(line, {place: {line[place]: 0.8, other: 0.002}}) == line


@pytest.mark.parametrize(
    ("line", "place", "other"),
    [
        ("A0O1", 2, "0"),  # a part number has letters and digits
        ("X5S", 2, "5"),
        ("Mo100o", 5, "0"),
        ("anna1@example.com", 4, "l"),  # an address
        ("O", 0, "0"),  # the word has no other character
        ("U.S", 1, ","),  # either mark fits
        ("漢字O", 2, "0"),  # there are no counts for these letters
    ],
)
def test_ambiguous_words_are_not_changed(line: str, place: int, other: str) -> None:
    assert decided(line, {place: {line[place]: 0.5, other: 0.45}}) == line


def test_several_uncertain_characters_are_decided_together() -> None:
    assert decided("lnvolce", {0: {"l": 0.5, "I": 0.4}, 5: {"c": 0.6, "o": 0.3}, 4: {"l": 0.5, "i": 0.4}}) == "Invoice"


def test_only_latin_letters_digits_and_common_signs_are_spelled() -> None:
    assert all(map(is_spelled, "aZéßł09$%&"))
    assert not any(map(is_spelled, ["\u041e", "Σ", "漢", "\uff1a", " ", "→", "ab"]))


def test_degrees_are_spelled_in_lines_without_east_asian_letters() -> None:
    matplotlib = pytest.importorskip("matplotlib", reason="its fonts are used")
    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    for face, size in (("DejaVuSans", 20), ("DejaVuSans", 14), ("DejaVuSerif", 18)):
        font = ImageFont.truetype(str(fonts / f"{face}.ttf"), size)
        line = Image.new("RGB", (200, 44), "white")
        ImageDraw.Draw(line).text((12, 30), "(80\u00b0C)", font=font, fill=40, anchor="ls")
        ((text, _),) = reader().reco_predictor([np.array(line)])
        assert text == "(80\u00b0C)"
    assert spell_degrees("25\u2103\u4ee5\u4e0b") == list("25\u2103\u4ee5\u4e0b")


def test_crosses_between_numbers_are_read_as_x() -> None:
    matplotlib = pytest.importorskip("matplotlib", reason="its fonts are used")
    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    read = []
    for face in ("DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSerif-Italic"):
        for size in (20, 24, 28):
            font = ImageFont.truetype(str(fonts / f"{face}.ttf"), size)
            line = Image.new("RGB", (int(font.getlength("1920\u00d71080")) + 2 * size, 2 * size), "white")
            ImageDraw.Draw(line).text((size, 1.4 * size), "1920\u00d71080", font=font, fill=40, anchor="ls")
            read.append(reader().reco_predictor([np.array(line)])[0][0])
    assert read == ["1920x1080"] * 9


ENGLISH = ["please", "return", "this", "message", "with", "number", "date", "total", "amount", "received", "before"]
GERMAN = ["bitte", "senden", "diese", "Nachricht", "zurück", "unter", "Angabe", "Ihrer", "Rechnung"]


def corrected(word: str, place: int, other: str, score: float, page: list[str]) -> str:
    """Return ``word`` after correction on a page of sure words, if ``other`` is likely at ``place``."""
    first, second = other[:1], other[1:]
    steps = [{word[place]: 0.0} if second else {word[place]: 0.0, first: score}, {"": 0.0}]
    if second:
        steps[1][second] = score
    return corrected_steps(word, {place: steps}, page)


def corrected_steps(word: str, doubts: dict[int, list[dict[str, float]]], page: list[str]) -> str:
    """Return ``word`` after correction on a page of sure words, from the steps of its uncertain characters."""
    confidences = [[0.99] * len(text) for text in page] + [
        [0.6 if place in doubts else 0.99 for place in range(len(word))]
    ]
    return "".join(correct_words([*page, word], confidences, [*({} for _ in page), doubts])[-1][0])


@pytest.mark.parametrize(
    ("word", "place", "other", "meant", "page"),
    [
        ("Praduct", 2, "o", "Product", ENGLISH),
        ("Suppller:", 5, "i", "Supplier:", ENGLISH),
        ("(APPROYAL)", 6, "V", "(APPROVAL)", ENGLISH),
        ("EXP!RATION", 3, "I", "EXPIRATION", ENGLISH),
        ("wil1", 3, "l", "will", ENGLISH),
        ("lst", 0, "1", "1st", ENGLISH),
        ("Qklahoma", 0, "O", "Oklahoma", ENGLISH),  # a name
        ("Departent", 5, "tm", "Department", ENGLISH),  # a dropped letter
        ("Produc", 5, "ct", "Product", ENGLISH),  # at the end
        ("managemment", 6, "", "management", ENGLISH),  # a letter that was read twice
        ("Lorilland", 7, "r", "Lorillard", [*GERMAN, "LORILLARD"]),
        ("6ST", 0, "G", "GST", [*GERMAN, "GST", "GST"]),
    ],
)
def test_uncertain_words_become_known_words(word: str, place: int, other: str, meant: str, page: list[str]) -> None:
    assert corrected(word, place, other, -1.5, page) == meant
    assert corrected(word, place, other, -7.5, page) == word  # too improbable


@pytest.mark.parametrize(
    ("word", "place", "other", "page"),
    [
        ("Praduct", 2, "o", GERMAN),  # English words are only known on English pages
        ("DEPT", 3, "P", ENGLISH),  # too short for a name
        ("Haug", 3, "s", ["Haus", *GERMAN, "Haug"]),  # both are words of the page
        ("date", 3, "a", ["data", *ENGLISH]),
        ("B164", 1, "l", ["Bl", *ENGLISH]),  # a code of letters and digits
        ("sale@praduct.com", 7, "o", ENGLISH),  # an address
        ("Sept", 0, "Sl", ENGLISH),  # too short for a dropped letter
        ("Summone", 6, "", ENGLISH),  # the last letter may be another one
        ("is", 1, "n", ["in", *GERMAN]),  # a chance match is too likely
        ("Total:", 5, "s", ["totals", "total", *ENGLISH]),  # a sign at the end
        ("PRaDUCT", 2, "o", ENGLISH),  # no usual case
    ],
)
def test_words_that_may_be_right_are_not_changed(word: str, place: int, other: str, page: list[str]) -> None:
    assert corrected(word, place, other, -0.5, page) == word


def test_several_characters_of_a_known_word_may_differ() -> None:
    doubts = {4: [{"m": 0.0, "r": -1.0}, {"": 0.0, "n": -1.5}, {"": 0.0}]}
    assert corrected_steps("govemed", doubts, ENGLISH) == "governed"
    assert corrected_steps("govemed", doubts, GERMAN) == "govemed"
    doubts = {0: [{"n": 0.0, "s": -1.5}], 1: [{"o": 0.0, "e": -1.5}]}
    assert corrected_steps("norvice,", doubts, ENGLISH) == "service,"
    # The more characters differ, the less does the rest of the word show.
    assert corrected_steps("norv", {0: doubts[0], 1: doubts[1]}, [*ENGLISH, "serv"]) == "norv"


def test_case_of_a_sure_word_stays() -> None:
    assert corrected_steps("Taiwan", {0: [{"T": 0.0}, {"t": 0.0, "T": -0.1}]}, ENGLISH) == "Taiwan"


def test_word_that_cannot_have_been_read_stays() -> None:
    assert corrected_steps("Praduct", {2: [{"x": 0.0}]}, ENGLISH) == "Praduct"


@pytest.mark.parametrize("share", [math.nan, 0.0, 1.0, 0.6])
@pytest.mark.parametrize("score", [math.nan, -math.inf, 0.0])
def test_steps_of_any_probabilities_have_a_character(share: float, score: float) -> None:
    best = np.array([[share] * 3], dtype=np.float32), np.array([[1, 0, 2]])
    found = ctc_best_path((torch.from_numpy(best[0]), torch.from_numpy(best[1])), 0).sequence(0)
    scores = np.full((3, 2), score, dtype=np.float16)
    doubts = doubts_of(found, "ab", best[0][0], best[1][0], scores, np.array([[1, 2]] * 3))
    assert all(steps and all(steps) for steps in doubts.values())
    assert "".join(correct_words(["ab"], [[0.5, 0.5]], [doubts])[0][0]) == "ab"


def test_added_and_removed_characters_keep_the_others_in_place() -> None:
    def texts(word: str, doubts: dict[int, list[dict[str, float]]]) -> tuple[str, ...]:
        sure = [[0.99] * len(text) for text in ENGLISH]
        own = [0.99] * len(word)
        text, confidences = correct_words([*ENGLISH, word], [*sure, own], [*({} for _ in ENGLISH), doubts])[-1]
        assert [share != 0.99 for share in confidences] == [a != b for a, b in zip(text, word, strict=True)]
        return text

    assert texts("Departent", {5: [{"t": 0.0}, {"": 0.0, "m": -1.5}]}) == (*"Depart", "me", *"nt")
    assert texts("managemment", {7: [{"m": 0.0, "": -1.5}, {"": 0.0}]}) == (*"managem", "", *"ent")


def test_decoding_with_known_words_equals_a_search_of_all_paths() -> None:
    random = np.random.default_rng(0)
    words = ["abba", "baab", "babab", "aabb", "ababa", "bbaab"]
    for _ in range(60):
        shares = random.dirichlet([0.5] * 3, 7)
        steps = [{name: math.log(share) for name, share in zip(("", "a", "b"), row, strict=True)} for row in shares]
        best: dict[str, float] = {}
        for path in itertools.product(("", "a", "b"), repeat=len(steps)):
            text = "".join(one for one, _ in itertools.groupby(path))
            score = sum(step[one] for step, one in zip(steps, path, strict=True))
            best[text] = max(best.get(text, -math.inf), score)
        found = spellings("", steps, lambda start: any(word.startswith(start) for word in words))
        likely = {word: best[word] for word in words if word in best}
        likeliest = max(likely, key=likely.__getitem__)
        assert max(words, key=lambda word: found.get(word, -math.inf)) == likeliest
        others = {word: score - found[likeliest] for word, score in found.items() if word in words}
        assert others == pytest.approx({word: best[word] - best[likeliest] for word in others})


_STARTS, _ENDS = ("Quan", "Ves", "Holm", "Brix", "Tar", "Elling", "Mor", "Sund"), (
    "delor", "perion", "garde", "worth", "vendale", "rove", "caster", "field", "minor", "stead",
)  # fmt: skip


def test_english_pages_without_sure_accents_have_none() -> None:
    assert corrected("J\u00c1YA", 1, "A", -3.0, ENGLISH) == "JAYA"
    assert corrected("J\u00c1YA", 1, "A", -3.0, [*ENGLISH, "Caf\u00e9"]) == "J\u00c1YA"
    assert corrected("J\u00c1YA", 1, "A", -3.0, GERMAN) == "J\u00c1YA"


@pytest.mark.parametrize(
    ("word", "place", "other", "meant"),
    [
        ("12OML", 2, "0", "120ML"),
        ("EW-100O-1L", 6, "0", "EW-1000-1L"),
        ("RMO.40", 2, "0", "RM0.40"),
        ("RMS.60", 2, "5", "RM5.60"),
        *((word, word.index("O"), "0", word) for word in ("NO.40", "OML", "H2O", "B2O5", "Fe2O3", "12OZ", "A0O1")),
        ("10o'clock", 2, "0", "10o'clock"),
        ("5I1L", 1, "1", "5I1L"),
        ("12OML", 2, "Q", "12OML"),
    ],
)
def test_letters_in_numbers_are_digits(word: str, place: int, other: str, meant: str) -> None:
    assert corrected(word, place, other, -1.5, GERMAN) == meant
    assert corrected(word, place, other, -2.5, GERMAN) == word


def test_a_last_letter_may_be_an_exclamation_mark() -> None:
    assert corrected("Againl", 5, "!", -3.0, ENGLISH) == "Again!"
    assert corrected("Againl", 5, "!", -3.0, GERMAN) == "Againl"
    assert corrected("Total", 4, "!", -1.0, ENGLISH) == "Total"


def test_pages_without_sure_ideographs_have_none() -> None:
    assert corrected("\u5bb6", 0, "*", -2.0, GERMAN) == "*"
    assert corrected("\u5bb6", 0, "*", -4.5, GERMAN) == "\u5bb6"
    assert corrected("\u738b", 0, "E", -2.0, GERMAN) == "\u738b"  # only signs
    assert corrected("\u5bb6", 0, "*", -2.0, [*GERMAN, "\u5317\u4eac\u5e02"]) == "\u5bb6"


def test_words_of_a_page_help_to_read_faint_ones() -> None:
    matplotlib = pytest.importorskip("matplotlib", reason="its fonts are used")
    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    font = ImageFont.truetype(str(fonts / "DejaVuSansMono.ttf"), 14)
    chosen = np.random.default_rng(0).permutation(np.array([a + b for a in _STARTS for b in _ENDS])).tolist()
    names, others = chosen[:32], chosen[32:64]

    def rows_of(words: list[str], blur: float) -> np.ndarray:
        image = Image.new("L", (420, 30 * len(words) // 2), 255)
        for row in range(len(words) // 2):
            text = "   ".join(words[2 * row : 2 * row + 2])
            ImageDraw.Draw(image).text((20, 30 * row + 22), text, font=font, fill=60, anchor="ls")
        return np.array(image.filter(ImageFilter.GaussianBlur(blur)))

    def num_right(first: list[str]) -> int:
        """Return how many of the faint names are read below sharp ones."""
        page = np.concatenate([rows_of(first, 0), rows_of(names, 1.9)])
        (found,) = reader()([np.stack([page] * 3, axis=2)]).pages
        words = [word for block in found.blocks for line in block.lines for word in line.words]
        return sum(word.value in names for word in words if word.geometry[0][1] > 0.5)

    assert num_right(others) + 3 <= num_right(names)


def test_letters_that_touch_are_read_in_known_words() -> None:
    matplotlib = pytest.importorskip("matplotlib", reason="its fonts are used")
    font = ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSerif.ttf"), 16)
    text = """Government Modern Internal Determine Concern Journal Attorney Corner Northern Information Management
        Statement Adjustment Payment Document Commission Addressee Committee Individual Description Western
        Return Pattern"""
    image = Image.new("L", (760, 260), 255)
    for number, word in enumerate(text.split()):
        ImageDraw.Draw(image).text((20 + number % 4 * 185, 20 + number // 4 * 40), word, font=font, fill=60)
    page = np.array(image.filter(ImageFilter.GaussianBlur(1.6)).convert("RGB"))
    assert {"Concern", "Northern"} <= set(reader()([page]).render().split())  # otherwise Concem and Northem


def test_faint_last_letter_is_read_in_known_words() -> None:
    matplotlib = pytest.importorskip("matplotlib", reason="its fonts are used")
    font = ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"), 14)
    text = """Product Manager Analyst Chemist Report Department Management Statement Adjustment Physical Returnable
        Payment Document Equipment Investment Government Development Commission Addressee Correction Committee"""
    image = Image.new("L", (700, 620), 255)
    draw = ImageDraw.Draw(image)
    for number, word in enumerate(text.split()):
        x, y = 40 + number % 3 * 220, 20 + number // 3 * 45
        draw.text((x, y), word, font=font, fill=0)
        end = x + draw.textlength(word, font=font)
        draw.ellipse((end - 9, y + 2, end - 5, y + 8), fill=255)
    page = np.array(image.filter(ImageFilter.GaussianBlur(0.5)).convert("RGB"))
    assert "Commission" in reader()([page]).render().split()


SENTENCES = (
    "Total amount due on delivery",
    "The recipient of the products",
    "Payable within thirty days",
    "The machine was cleaned once more",
    "INVOICE NUMBER AND DATE",
    "Please return the original message",
)
CODES = ("A0O1 X5S8B 7L3Z-OI1", "5O2 8B0 GH10S", "no.reply1@example.com")


def both_readings(text: str, face: str, blur: float) -> tuple[str, str]:
    """Read a line with only the network, and with the library."""
    matplotlib = pytest.importorskip("matplotlib", reason="its fonts are used")
    font = ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{face}.ttf"), 14)
    width = int(font.getlength(text)) + 16
    image = Image.new("L", (width, 30), 255)
    ImageDraw.Draw(image).text((8, 20), text, font=font, fill=90, anchor="ls")
    page = torch.from_numpy(np.array(image.filter(ImageFilter.GaussianBlur(blur)))).expand(3, -1, -1)
    quads = np.array([[(4, 3), (width - 4, 3), (width - 4, 28), (4, 28)]], dtype=np.float64)
    model = reader().reco_predictor.model
    (cut,) = cut_lines(page, quads, 48, 4096)
    with torch.inference_mode():
        alone = model(network_input(cut.data, model.cfg["mean"], model.cfg["std"], model.head.weight))["preds"][0][0]
        (reading,) = read_lines(model, page, quads)
    return alone, " ".join(word.value for word in reading.words)


@pytest.mark.parametrize(
    "face", ["DejaVuSans", *(pytest.param(f"DejaVuS{face}", marks=pytest.mark.slow) for face in ("erif", "ansMono"))]
)
def test_spelling_correction_improves_faint_lines(face: str) -> None:
    readings = [(text, *both_readings(text, face, blur)) for text in SENTENCES for blur in (2.2, 2.5)]
    alone = sum(edit_distance(text, read) for text, read, _ in readings)
    ours = sum(edit_distance(text, read) for text, _, read in readings)
    assert alone >= 4  # the lines are hard enough
    assert ours < alone


@pytest.mark.parametrize("text", CODES)
@pytest.mark.parametrize("blur", [0.0, 1.5])
def test_spelling_correction_leaves_codes_and_addresses(text: str, blur: float) -> None:
    alone, ours = both_readings(text, "DejaVuSans", blur)
    assert ours.replace(" ", "") == alone.replace(" ", "")
