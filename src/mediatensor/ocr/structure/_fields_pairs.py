"""Find the keys and values of any form, without rules for its fields, by pairing neighbouring phrases.

Two phrases are neighbours if they are side by side or one above the other. Each pair gets a score, which is a weighted
sum of features. The score estimates the log odds that the phrases are a key and its value. Pairs are chosen in order of
descending score. A phrase that was chosen as a key is not used as a value, and vice versa.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ._field_rules import plain, value_pattern
from ._page import Box, FoundField, PageContent
from ._text_lines import Phrase, box_of_words, phrases_of, rows_of, text_of_words

# Words that forms ask for, in a few languages. A phrase with one of them is probably a key.
_KEY_WORDS = re.compile(
    r"\b(?:name|date|address|street|city|state|zip|country|phone|telephone|tel|fax|e-?mail|number|no|nr|num|signature|"
    r"signed|title|subject|from|to|cc|re|attn|total|amount|price|cost|quantity|qty|code|id|type|department|dept|company|"
    r"account|period|time|page|pages|remarks|comments|description|approved|requested|submitted|brand|product|location|"
    r"age|sex|birth|nationality|occupation|reference|ref|order|invoice|"
    r"vorname|nachname|datum|anschrift|adresse|strasse|ort|plz|telefon|nummer|betrag|unterschrift|betreff|geburtsdatum|"
    r"nom|prenom|ville|rue|numero|montant|objet|fecha|nombre|apellido|apellidos|direccion|ciudad|firma|importe)\b"
)
_EMPTY_BOX = "\u2610"
_MARKS = re.compile(r"^\W*[xX✓✔☒☑√]\W*$|^\[\s?[xX]\s?\]$|^[☒☑✓✔☐]$")
# Leaders separate phrases.
_LEADER = re.compile(r"^[\s._\-=~:\u2013\u2014\u2026\u00b7]{2,}$|^[_.|\u2026\u00b7]+$")
_FORMS = [pattern for kind in ("date", "amount", "phone", "email", "iban") for pattern in value_pattern(kind)]
# The largest distance of a value from its key, below and to the right, in heights of the key.
_MAX_BELOW, _MAX_RIGHT = 4.5, 45.0
_WINDOW = 250
_MIN_SCORE = 0.5
# Half the usual height of words, as a share of the page.
_SLACK = 0.01


@dataclass(frozen=True)
class _Part:
    """A phrase, with scores for how likely it is to be a key, and how likely it is to be a value.

    ``cell`` is the box formed by the nearest rules (straight lines) around the phrase; a side without a rule is
    infinite. ``height`` is the height of the phrase's words.
    """

    words: tuple[int, ...]
    box: Box
    text: str
    row: int
    as_key: float
    as_value: float
    has_colon: bool
    has_digits: bool
    is_mark: bool
    cell: Box
    height: float

    @property
    def middle(self) -> float:
        return (self.box[1] + self.box[3]) / 2


def find_fields(content: PageContent) -> list[FoundField]:
    """Find the keys and values of a form. Each value is to the right of its key or below it.

    Args:
        content: The words of a page.

    Returns:
        A list with a field for each pair of a key and a value, ordered by key from top to bottom. A column head is the
        key of every value below it. ``name`` is empty in all fields. ``confidence`` is the estimated probability that
        key and value belong together; it does not depend on how well their words were recognised.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.structure import PageContent, find_fields
        >>> boxes = np.array([[10.0, 10, 50, 20], [60, 10, 90, 20], [95, 10, 130, 20], [10, 40, 50, 50]])
        >>> page = PageContent(
        ...     200, 100, boxes, ("Name:", "Ada", "Lovelace", "Signed:"), np.array([0, 0, 0, 1]), np.ones(4),
        ...     np.full(4, np.nan), np.zeros(4, bool),
        ... )
        >>> [(field.key, field.value) for field in find_fields(page)]
        [('Name:', 'Ada Lovelace')]
    """
    parts = _parts_of(content)
    if len(parts) < 2:
        return []
    below = _parts_below(parts)
    tables, in_body, in_head = _pairs_in_columns(parts, below)
    apart = in_body | in_head
    beside = _pairs_beside(content, parts, apart)
    others = tables + beside + _pairs_in_cells(parts, apart) + _pairs_below(parts, below, beside, apart)
    # The text beside a mark is no value of a heading above it.
    pairs = _choose_pairs(_pairs_of_marks(parts), others)
    keys = {key for _, key, _ in pairs}
    values = {value for _, _, value in pairs}
    lines = _find_further_lines(content, parts, keys | values)
    # A text beside an empty box is neither a value nor the next line of another text.
    pairs = [pair for pair in pairs if _EMPTY_BOX not in (parts[pair[1]].text, parts[pair[2]].text)]
    found = []
    for score, key, value in sorted(pairs, key=lambda pair: (parts[pair[1]].row, pair[1], parts[pair[2]].row, pair[2])):
        key_words = _words_of(parts, key, lines)
        value_words = _words_of(parts, value, lines)
        found.append(
            FoundField(
                "", text_of_words(content, key_words), text_of_words(content, value_words), key_words, value_words,
                round(1 / (1 + math.exp(-score)), 4),
            )
        )  # fmt: skip
    return found


def _parts_of(content: PageContent) -> list[_Part]:
    """Split the page into phrases that can be keys or values, without leaders (dots or lines between them)."""
    phrases = []
    for phrase in phrases_of(content, gap=0.9):
        phrases += _split_phrase(content, phrase)
    lines = _parts_in_rows(content, phrases, is_last=False)
    return _parts_in_rows(content, _join_lines(content, lines), is_last=True)


def _join_lines(content: PageContent, parts: Sequence[_Part]) -> list[Phrase]:
    """Join each phrase with the phrase on the next line if the text continues there.

    The text continues if both phrases are in the same cell, or if they are close together and have no neighbours in
    their rows.
    """
    below = _parts_below(parts)
    owners = list(range(len(parts)))
    members = {at: [at] for at in owners}
    taken: set[int] = set()
    for upper in sorted(below, key=lambda at: parts[at].box[1]):
        lower = below[upper]
        if lower in taken or not _continues(content, parts, upper, lower):
            continue
        taken.add(lower)
        owner = owners[upper]
        for at in members.pop(owners[lower]):
            owners[at] = owner
            members[owner].append(at)
    joined = []
    for group in members.values():
        words = tuple(word for at in group for word in parts[at].words)
        joined.append(Phrase(words, box_of_words(content, words)))
    return joined


def _continues(content: PageContent, parts: Sequence[_Part], upper: int, lower: int) -> bool:
    first, second = parts[upper], parts[lower]
    height = max(1e-6, min(first.height, second.height))
    gap = (second.box[1] - first.box[3]) / height
    if first.has_colon or first.is_mark or gap > 0.8 or max(first.height, second.height) > 1.7 * height:
        return False
    if _misalignment(first, second) > 1.2 or _is_ruled_between(content, first, second):
        return False
    if (
        math.isfinite(first.cell[0] + first.cell[2])
        and first.cell == second.cell
        and first.cell[3] - first.cell[1] < 5 * height
    ):
        return True
    is_long = min(len(first.words), len(second.words)) > 4
    beside = [
        any(0 <= other < len(parts) and parts[other].row == parts[at].row for other in (at - 1, at + 1))
        for at in (upper, lower)
    ]
    # Lines with neighbours are rows of a list or a table.
    if all(beside) and not is_long:
        return False
    return gap < 0.6 and not (second.has_colon and beside[1])


def _parts_in_rows(content: PageContent, phrases: Sequence[Phrase], is_last: bool) -> list[_Part]:
    parts: list[_Part] = []
    for number, row in enumerate(rows_of(content, phrases)):
        for at, phrase in enumerate(row.phrases):
            words = phrase.words
            following = row.phrases[at + 1].words[0] if at + 1 < len(row.phrases) else None
            # A colon may be part of the value or a separate word.
            colon = following is not None and content.texts[following].strip().startswith(":")
            if is_last and content.texts[words[0]].strip() == ":":
                words = words[1:]
            if words:
                parts.append(_make_part(content, words, number, colon))
    return parts


def _split_phrase(content: PageContent, phrase: Phrase) -> list[Phrase]:
    groups: list[list[int]] = [[]]
    for word in phrase.words:
        text = content.texts[word].strip()
        if _LEADER.match(text) and text != ":":
            groups.append([])
            continue
        is_at_end = word in (phrase.words[0], phrase.words[-1])
        if _MARKS.match(text) and len(phrase.words) > 1 and (is_at_end or text == _EMPTY_BOX):
            groups += [[word], []]
            continue
        groups[-1].append(word)
        # "Name: Ada": a new phrase starts after a colon.
        if text.endswith(":"):
            groups.append([])
    whole: list[Phrase] = []
    for at, group in enumerate(groups):
        if not group:
            continue
        for piece in _split_at_gap(content, group) if at and content.texts[group[-1]].endswith(":") else [group]:
            whole.append(Phrase(tuple(piece), box_of_words(content, piece)))
    return whole


def _split_at_gap(content: PageContent, words: list[int]) -> list[list[int]]:
    """Split a value from the key that follows it, as in ``"Ada Date:"``, at the widest gap between the words."""
    if len(words) < 2:
        return [words]
    gaps = [content.boxes[second, 0] - content.boxes[first, 2] for first, second in pairwise(words)]
    at = int(np.argmax(gaps)) + 1
    return [words[:at], words[at:]]


def _make_part(content: PageContent, words: tuple[int, ...], row: int, colon_follows: bool) -> _Part:
    text, box = text_of_words(content, words), box_of_words(content, words)
    flat = plain(text)
    size = max(1, len(flat.replace(" ", "")))
    digits = sum(map(str.isdigit, flat)) / size
    has_colon = colon_follows or bool(re.search(r":[ _.]*$", text))
    num_words = len(re.findall(r"\S+", text))
    has_form = any(pattern.search(text) for pattern in _FORMS)
    asked = bool(_KEY_WORDS.search(flat))
    bold = float(np.mean(content.is_bold[list(words)]))
    as_key = (
        2.2 * has_colon + 0.7 * asked + 0.5 * bold - 2.4 * (digits > 0.4) - 1.2 * (has_form and not has_colon)
        - 1.5 * (num_words > 9) - 0.5 * (text[:1].islower()) - 0.8 * (size < 3)
    )  # fmt: skip
    as_value = (
        -3.0 * has_colon + 0.9 * (digits > 0.3) + 0.6 * has_form - 0.9 * (asked and digits < 0.1) - 0.5 * bold
        - 0.8 * (num_words > 14)
    )  # fmt: skip
    is_mark = _MARKS.match(text) is not None
    heights = content.boxes[list(words), 3] - content.boxes[list(words), 1]
    return _Part(
        words, box, text, row, as_key, as_value, has_colon, digits > 0.3, is_mark, _cell_of_rules(content, box),
        float(np.median(heights)),
    )  # fmt: skip


def _cell_of_rules(content: PageContent, box: Box) -> Box:
    """Return the box formed by the nearest rules (straight lines) around ``box``. A side without a rule is infinite."""
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    slack = 0.3 * min(box[3] - box[1], 2 * _SLACK * content.height)
    vertical, horizontal = content.vertical_rules, content.horizontal_rules
    xs = vertical[(vertical[:, 1] <= y) & (vertical[:, 3] >= y)][:, ::2].mean(axis=1)
    ys = horizontal[(horizontal[:, 0] <= x) & (horizontal[:, 2] >= x)][:, 1::2].mean(axis=1)
    return (
        float(xs[xs <= box[0] + slack].max(initial=-math.inf)),
        float(ys[ys <= box[1] + slack].max(initial=-math.inf)),
        float(xs[xs >= box[2] - slack].min(initial=math.inf)),
        float(ys[ys >= box[3] - slack].min(initial=math.inf)),
    )


# (score, index of the key, index of the value).
_Pair = tuple[float, int, int]


def _pairs_beside(content: PageContent, parts: Sequence[_Part], apart: set[int]) -> list[_Pair]:
    near = []
    in_row = Counter(part.row for part in parts)
    for at in range(len(parts) - 1):
        key, value = parts[at], parts[at + 1]
        height = max(1e-6, min(key.height, value.height))
        if key.row == value.row and value.box[0] - key.box[2] <= _MAX_RIGHT * height and not {at, at + 1} <= apart:
            near.append(at)
    # Keys in one column with values in the next column form a list.
    unit = max(1e-6, float(np.median([part.height for part in parts])))
    places = Counter(_place_in_grid(parts, at, unit) for at in near)
    pairs = []
    for at in near:
        key, value = parts[at], parts[at + 1]
        gap = (value.box[0] - key.box[2]) / max(1e-6, min(key.height, value.height))
        left, right = _place_in_grid(parts, at, unit)
        alike = sum(places[left + x, right + y] for x in (-1, 0, 1) for y in (-1, 0, 1))
        score = 0.4 + key.as_key + value.as_value - 0.05 * max(0.0, gap - 3)
        if alike > 2 or key.as_key > 0.2:
            score += 0.5 * min(3, alike - 1)
        score -= 2.0 * _is_blank_between(content, key, value)
        score -= 1.0 * (key.as_key < 0.3 and gap > 12)
        # A row of three or more phrases without colons or digits is probably a table head.
        score -= 0.6 * (in_row[key.row] > 2 and not key.has_colon and not value.has_digits)
        pairs.append((score, at, at + 1))
    return pairs


def _place_in_grid(parts: Sequence[_Part], at: int, unit: float) -> tuple[int, int]:
    return round(parts[at].box[0] / unit), round(parts[at + 1].box[0] / unit)


def _is_blank_between(content: PageContent, key: _Part, value: _Part) -> bool:
    """Return whether there is a blank line to write on between key and value, as in an empty form."""
    rules, height = content.horizontal_rules, key.height
    near = (rules[:, 1] > key.box[1] + 0.3 * height) & (rules[:, 3] < key.box[3] + 0.8 * height)
    near &= (rules[:, 0] > key.box[2] - 0.5 * height) & (rules[:, 2] < value.box[0] + 0.3 * height)
    return bool(np.any(near & (rules[:, 2] - rules[:, 0] > 1.5 * height)))


def _parts_below(parts: Sequence[_Part]) -> dict[int, int]:
    order = sorted(range(len(parts)), key=lambda at: parts[at].box[1])
    below: dict[int, int] = {}
    for place, at in enumerate(order):
        upper = parts[at]
        for other in order[place + 1 : place + 1 + _WINDOW]:
            lower = parts[other]
            if lower.box[1] > upper.box[3] + _MAX_BELOW * upper.height:
                break
            shared = min(upper.box[2], lower.box[2]) - max(upper.box[0], lower.box[0])
            if shared > 0 and lower.box[1] >= upper.middle:
                below[at] = other
                break
    return below


def _misalignment(upper: _Part, lower: _Part) -> float:
    """Return the smallest offset of left ends, right ends or middles of two phrases, in word heights."""
    left, right = lower.box[0] - upper.box[0], lower.box[2] - upper.box[2]
    return min(abs(left), abs(right), abs(left + right) / 2) / max(1e-6, min(upper.height, lower.height))


def _pairs_in_columns(parts: Sequence[_Part], below: dict[int, int]) -> tuple[list[_Pair], set[int], set[int]]:
    """Find columns in which a head is above several values, as in tables.

    Return the pairs of a head and a value, the indices of all values, and the indices of all heads.
    """
    rows: dict[int, list[int]] = defaultdict(list)
    for at, part in enumerate(parts):
        rows[part.row].append(at)
    pairs: list[_Pair] = []
    body: set[int] = set()
    heads: set[int] = set()
    for members in rows.values():
        columns = {
            at: _values_below_head(parts, below, at)
            for at in members
            if at not in body and not parts[at].has_colon and not parts[at].has_digits and not parts[at].is_mark
        }
        columns = {at: column for at, column in columns.items() if column}
        shared = Counter(parts[at].row for column in columns.values() for at in column)
        whole = [row for row, count in shared.items() if count >= 2]
        numbers = any(parts[at].has_digits for column in columns.values() for at in column)
        if len(columns) < max(2, 0.7 * len(members)) or not whole or not numbers or not _is_head(parts, columns):
            continue
        # Two columns may be a column of keys and a column of values.
        if len(columns) == 2 and (len(whole) < 2 or len(members) > 2):
            continue
        for at, column in columns.items():
            heads.add(at)
            body.update(column)
            pairs += [(1.4 + 0.2 * parts[at].as_key, at, value) for value in column]
    return pairs, body, heads


def _is_head(parts: Sequence[_Part], columns: dict[int, list[int]]) -> bool:
    """Return whether phrases above columns of text look like column heads rather than the first lines of paragraphs.

    The keys of ``columns`` are the indices of these phrases; each value has the indices of the phrases below.
    """
    gaps = [(parts[column[0]].box[1] - parts[at].box[3]) / parts[at].height for at, column in columns.items()]
    return float(np.median(gaps)) > 0.35 and (len(columns) > 2 or all(parts[at].as_key > 0.3 for at in columns))


def _values_below_head(parts: Sequence[_Part], below: dict[int, int], head: int) -> list[int]:
    """Return the values below a column head: evenly spaced phrases that are aligned with the head."""
    column: list[int] = []
    last, step = head, math.inf
    while (current := below.get(last)) is not None and len(column) < 100:
        upper, lower = parts[last], parts[current]
        distance = lower.box[1] - upper.box[1]
        if lower.has_colon or distance > 1.8 * step or _misalignment(parts[head], lower) >= 2.5:
            break
        # A sentence below the table ends the column.
        if len(lower.words) > 14:
            break
        column.append(current)
        # The gap below the head may be larger.
        step = distance if len(column) > 1 else max(2.5 * upper.height, distance)
        last = current
    return column


def _pairs_below(
    parts: Sequence[_Part], below: dict[int, int], beside: Sequence[_Pair], apart: set[int]
) -> list[_Pair]:
    right = {key: score for score, key, _ in beside}
    left = {value: score for score, _, value in beside}
    pairs: list[_Pair] = []
    for at, other in below.items():
        key, value = parts[at], parts[other]
        if {at, other} <= apart:
            continue
        height = max(1e-6, min(key.height, value.height))
        gap = max(0.0, value.box[1] - key.box[3]) / height
        same_cell = all(math.isclose(a, b) for a, b in zip(key.cell, value.cell, strict=True))
        enclosed = math.isfinite(key.cell[1] + key.cell[3])
        score = -0.2 + key.as_key + value.as_value - 0.35 * gap - 0.25 * _misalignment(key, value)
        score += 0.7 * (same_cell and enclosed) - 0.5 * (key.cell[3] <= value.middle)
        # A part with a neighbour on its left or right is more likely that neighbour's key or value.
        score -= 0.5 * max(0.0, min(2.0, right.get(other, 0.0))) + 0.3 * max(0.0, min(2.0, left.get(other, 0.0)))
        score -= 0.3 * max(0.0, min(2.0, right.get(at, 0.0)))
        pairs.append((score, at, other))
    return pairs


def _pairs_in_cells(parts: Sequence[_Part], apart: set[int]) -> list[_Pair]:
    """Pair the label in the upper left corner of a ruled box with the text below it.

    A pair gets a higher score if its label is printed smaller than the text. Phrases in ``apart`` are left out.
    """
    cells: dict[Box, list[int]] = defaultdict(list)
    for at, part in enumerate(parts):
        if at not in apart and all(map(math.isfinite, part.cell)):
            cells[part.cell].append(at)
    pairs = []
    for cell, members in cells.items():
        key, *others = sorted(members, key=lambda at: parts[at].box[1] + 0.2 * parts[at].box[0])
        label = parts[key]
        is_corner = label.box[1] - cell[1] < 1.2 * label.height and label.box[0] - cell[0] < 3 * label.height
        if not is_corner or not others or cell[3] - cell[1] < 1.7 * label.height:
            continue
        value = parts[others[0]]
        if value.middle - label.middle < 0.25 * label.height or value.box[1] - label.box[3] > 6 * label.height:
            continue
        # Values in boxes are often sentences, so they are not penalised.
        score = 0.8 + label.as_key + max(value.as_value, -3.0 * value.has_colon)
        score += 0.5 * (label.height < 0.85 * value.height) - 0.2 * min(3, len(others) - 1)
        pairs.append((score, key, others[0]))
    return pairs


def _choose_pairs(*groups: Sequence[_Pair]) -> list[_Pair]:
    """Choose pairs of high score, first those of the first group."""
    keys: set[int] = set()
    values: set[int] = set()
    chosen = []
    for pair in (pair for group in groups for pair in sorted(group, key=lambda pair: -pair[0])):
        score, key, value = pair
        if score < _MIN_SCORE or key in values or value in keys or value in values:
            continue
        keys.add(key)
        values.add(value)
        chosen.append(pair)
    return chosen


def _pairs_of_marks(parts: Sequence[_Part]) -> list[_Pair]:
    """Pair each cross, tick or check box with the text on its left or right, whichever is nearer."""
    found = []
    for at, part in enumerate(parts):
        if not part.is_mark:
            continue
        sides = [
            (gap, other)
            for other in (at - 1, at + 1)
            if 0 <= other < len(parts) and parts[other].row == part.row and not parts[other].is_mark
            for gap in [
                max(part.box[0] - parts[other].box[2], parts[other].box[0] - part.box[2]) / max(1e-6, part.height)
            ]
            if gap < 6
        ]
        if sides:
            gap, other = min(sides)
            found.append((1.0 - 0.2 * gap, other, at))
    return found


def _find_further_lines(content: PageContent, parts: Sequence[_Part], used: set[int]) -> dict[int, list[int]]:
    """Return, for each key or value in ``used``, the unused phrases that are close below it and aligned."""
    free = [at for at in range(len(parts)) if at not in used and not parts[at].has_colon]
    free.sort(key=lambda at: parts[at].box[1])
    lines: dict[int, list[int]] = defaultdict(list)
    ends = {at: parts[at] for at in used}
    for at in free:
        part = parts[at]
        best, best_offset = None, 0.6
        for owner, last in ends.items():
            height = max(1e-6, min(last.height, part.height))
            gap = (part.box[1] - last.box[3]) / height
            if not -0.5 < gap < 0.7 or max(last.height, part.height) > 1.6 * height:
                continue
            offset = min(abs(part.box[0] - last.box[0]), abs(part.box[0] + part.box[2] - last.box[0] - last.box[2]) / 2)
            if offset / height < best_offset and not _is_ruled_between(content, last, part):
                best, best_offset = owner, offset / height
        if best is not None:
            lines[best].append(at)
            ends[best] = part
    return lines


def _is_ruled_between(content: PageContent, upper: _Part, lower: _Part) -> bool:
    rules = content.horizontal_rules
    middle = (rules[:, 1] + rules[:, 3]) / 2
    top, bottom = (upper.box[1] + upper.box[3]) / 2, (lower.box[1] + lower.box[3]) / 2
    return bool(
        np.any((middle > top) & (middle < bottom) & (rules[:, 0] < lower.box[2]) & (rules[:, 2] > lower.box[0]))
    )


def _words_of(parts: Sequence[_Part], at: int, lines: dict[int, list[int]]) -> tuple[int, ...]:
    return tuple(word for part in (at, *lines.get(at, ())) for word in parts[part].words)
