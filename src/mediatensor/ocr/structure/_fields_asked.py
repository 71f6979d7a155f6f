"""Extract fields by rules: find labels in the rows of a page, then choose the best matching value near each label.

The company and its address on a receipt or an invoice usually have no labels. They are found at the top of the page.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache

import numpy as np

from ..utils._scores import edit_distance
from ._field_rules import MAX_LINE, FieldRule, find_day_first, is_valid, parse_value, plain, rules_of, value_pattern
from ._page import FoundField, PageContent, box_around
from ._text_lines import (
    REGISTRATION,
    Row,
    adjacent_addresses,
    box_of_words,
    ends_address,
    is_address,
    is_customer_heading,
    phrases_of,
    rows_of,
    stacks_of,
    text_of_words,
)

# Characters that OCR confuses in labels.
_ALIKE = str.maketrans("0158|", "oisbl")
# The largest number of words that a label may occupy in a row. OCR splits and joins words.
_LONGEST_LABEL = 6
_CASH = (
    "cash", "cash tendered", "tendered", "cash received", "amount tendered", "paid amount", "paid", "bar", "gegeben",
)  # fmt: skip
_CHANGE = ("change", "change due", "change amount", "rueckgeld", "ruckgeld", "rendu", "cambio")

# Legal forms of companies
_LEGAL_FORMS = "berhad|inc|llc|ltd|limited|plc|gmbh|ag|kg|ohg|sarl|sas|slu|srl|spa|bv|nv"
_FIRMS = re.compile(
    rf"\b(?:{_LEGAL_FORMS}|sdn|bhd|enterprise|trading|restoran|restaurant|store|stores|mart|market|supermarket|"
    r"hardware|cafe|bakery|bakeries|pharmacy|hotel|station|services|company|corporation|corp|sa|sl|group|holdings?|"
    r"stationery|industries|co|s/b|pte)\b\.?"
)
_LEGAL_FORM_AT_END = re.compile(rf"[^\W\d_].*\W(?:{_LEGAL_FORMS}|sdn\W{{0,2}}bhd|s\.(?:a|l|r\.l|p\.a))\W*$")
_TITLES = re.compile(
    r"^\W*(?:(?:simplified |full )?(?:tax ?)?invoice|(?:official |sales |cash )?receipt|cash (?:bill|sales?)|rechnung|"
    r"facture|factura|quittung|kassenbon|ticket|welcome(?: to)?|copy|original|duplicate|page \d+|bill)\W*$|"
    r"\b(?:thank you|returnable|refund|exchange|come again)\b"
)
_REGISTRATION_AT_END = re.compile(
    r"\s*\(?\s*(?:(?:co\.?|reg\.?|no\.?)[ :]*)*\d{4,9}[-. ]{1,3}[A-Z0-9]{1,2}\s*\)?\s*$", re.I
)
_TOP_ROWS = 10
# A name with a legal form is the company's if it is within this many rows. On 130 receipts of SROIE, 88.8 % of the
# values have the right letters and digits with 6 rows, 88.3 % with 3 or 4, 86.5 % with 8 and 85.0 % with 10.
_LEGAL_ROWS = 6
# Where small coins are not used, amounts in cash are rounded by at most this. On the same pages, three totals more are
# right than without rounding; 0.02 and 0.5 give the same totals.
_MAX_ROUNDING = Decimal("0.05")
# The addresses of writer and customer are within this many rows at the top of a page.
_WRITER_ROWS = 24


@dataclass(frozen=True)
class _Label:
    """An occurrence of one of a field's labels in the text of a row.

    ``rank`` is the index of that label among the field's labels, and ``sureness`` is the confidence of the match.
    """

    row: int
    start: int
    end: int
    rank: int
    sureness: float


@dataclass(frozen=True)
class _Candidate:
    row: int
    start: int
    end: int
    label: _Label | None
    score: float
    amount: Decimal | None = None


def extract_fields(
    content: PageContent, rules: str | FieldRule | Iterable[str | FieldRule], *, day_first: bool | None = None
) -> list[FoundField]:
    """Extract fields from a page by rules.

    Args:
        content: The words of a page.
        rules: `FieldRule` objects, or names of ready-made rule sets. ``"receipt"`` has company, date, address and
            total. ``"invoice"`` has number, date, due_date, supplier, total, net, tax, iban and more, with labels in
            English, German, French and Spanish. If several rules have the same name, they are tried in turn until one
            finds a value.
        day_first: Whether numeric dates have the day before the month. By default, `find_day_first` determines this
            from all dates on the page.

    Returns:
        A list of the fields that were found, at most one for each rule name, in the order of the rules. Values are
        strings as printed; `parse_value` converts them to numbers and dates.

    Raises:
        InvalidArgumentError: A rule is neither a `FieldRule` nor the name of a set.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.structure import FieldRule, PageContent, extract_fields
        >>> boxes = np.array([[10.0, 10, 60, 20], [65, 10, 80, 20], [90, 10, 150, 20]])
        >>> page = PageContent(
        ...     200, 100, boxes, ("Invoice", "No:", "R-1207"), np.zeros(3, int), np.ones(3), np.full(3, np.nan),
        ...     np.zeros(3, bool),
        ... )
        >>> [(field.name, field.key, field.value) for field in extract_fields(page, "invoice")]
        [('number', 'Invoice No:', 'R-1207')]
        >>> extract_fields(page, FieldRule("project", pattern=r"[A-Z]-\\d+", needs_label=False))[0].value
        'R-1207'
    """
    asked = rules_of(rules)
    rows = rows_of(content, phrases_of(content))
    day_first = find_day_first(row.text for row in rows) if day_first is None else day_first
    page = _Page(content, rows, asked, day_first)
    found: dict[str, FoundField] = {}
    for rule in asked:
        if rule.name in found:
            continue
        value = _find_field(page, rule)
        if value is not None:
            found[rule.name] = value
    return list(found.values())


class _Page:
    """The rows of a page, and where the labels of all rules occur in them."""

    def __init__(
        self, content: PageContent, rows: Sequence[Row], rules: Sequence[FieldRule], day_first: bool | None
    ) -> None:
        self.content, self.rows, self.day_first = content, rows, day_first
        wanted = {_squash_text(label) for rule in rules for label in (*rule.labels, *rule.not_labels)}
        wanted |= {_squash_text(label) for label in (*_CASH, *_CHANGE)}
        self.labels = _find_labels(rows, wanted - {""})

    def labels_of(self, labels: Sequence[str]) -> Iterator[_Label]:
        """Yield each occurrence of the given labels on the page. If some overlap, only the longest is yielded."""
        found: list[_Label] = []
        for rank, text in enumerate(labels):
            for row, start, end, sureness in self.labels.get(_squash_text(text), ()):
                found.append(_Label(row, start, end, rank, sureness))
        # An exact match is better than a fuzzy match that contains letters of neighbouring words.
        sure = {(label.row, label.rank) for label in found if label.sureness == 1}
        found = [label for label in found if label.sureness == 1 or (label.row, label.rank) not in sure]
        found.sort(
            key=lambda label: (label.row, label.sureness < 1, label.start - label.end, -label.sureness, label.rank)
        )
        taken: list[_Label] = []
        for label in found:
            beside = (other for other in taken[-8:] if other.row == label.row)
            if not any(label.start < other.end and other.start < label.end for other in beside):
                taken.append(label)
                yield label


def _squash_text(text: str) -> str:
    squashed = "".join(re.findall(r"[^\W_]+", plain(text))).translate(_ALIKE)
    return squashed.replace("rn", "m").replace("vv", "w")


def _find_labels(rows: Sequence[Row], wanted: set[str]) -> dict[str, list[tuple[int, int, int, float]]]:
    """Find where labels occur in the rows of a page, even with one or two misread letters.

    ``wanted`` are labels that `_squash_text` has normalised. The result maps each of them to its occurrences, as (row
    index, start and end in the text of the row, confidence).
    """
    by_ends: dict[str, list[str]] = defaultdict(list)
    for label in wanted:
        if len(label) >= 5:
            # If a single letter is wrong, the first two or the last two letters are intact.
            for part in {"^" + label[:2], label[-2:] + "$"}:
                by_ends[part].append(label)
    longest = max(map(len, wanted), default=0) + 2

    @cache
    def meant(text: str) -> tuple[tuple[str, float], ...]:
        found = [(text, 1.0)] if text in wanted else []
        if len(text) >= 5:
            near = {*by_ends.get("^" + text[:2], ()), *by_ends.get(text[-2:] + "$", ())} - {text}
            for label in near:
                edits = edit_distance(text, label)
                if edits <= (1 if len(label) < 12 else 2):
                    found.append((label, 1 - 0.12 * edits))
        return tuple(found)

    labels: dict[str, list[tuple[int, int, int, float]]] = defaultdict(list)
    for number, row in enumerate(rows):
        tokens = [(match.start(), match.end(), match.group()) for match in re.finditer(r"[^\W_]+", row.text)]
        squashed = [_squash_text(token) for _, _, token in tokens]
        for first, (start, _, first_token) in enumerate(tokens):
            text = ""
            for last, (_, end, last_token) in enumerate(tokens[first : first + _LONGEST_LABEL], first):
                text += squashed[last]
                # A label never continues after a colon or a wide gap.
                if len(text) > longest or re.search(r":|  ", row.text[start:end]):
                    break
                for label, sureness in meant(text):
                    # A number next to a label is not a misread letter of the label.
                    if sureness == 1 or not (first_token.isdigit() or last_token.isdigit()):
                        labels[label].append((number, start, end, sureness))
    return labels


def _find_field(page: _Page, rule: FieldRule) -> FoundField | None:
    if not rule.labels and rule.kind in ("company", "address") and rule.compiled is None:
        return _find_writer(page, rule)
    candidates = list(_find_labelled(page, rule))
    if (not candidates and not rule.needs_label) or not rule.labels:
        candidates = [
            _make_candidate(page, rule, number, start, end, None, 0.9 if rule.compiled else 0.5)
            for number, row in enumerate(page.rows)
            for start, end in _value_spans(rule, row.text)
        ]
    if not candidates:
        return None
    best = _choose_candidate(page, rule, candidates)
    row = page.rows[best.row]
    words = row.words_between(best.start, best.end)
    key = ""
    key_words: tuple[int, ...] = ()
    if best.label is not None:
        label_row = page.rows[best.label.row]
        ends = re.compile(r"[ .)]{0,2}[:;]").match(label_row.text, best.label.end)
        end = ends.end() if ends else best.label.end
        key, key_words = label_row.text[best.label.start : end], label_row.words_between(best.label.start, end)
    confidence = min(1.0, best.score) * _mean_confidence(page.content, words)
    return FoundField(rule.name, key, row.text[best.start : best.end], key_words, words, round(confidence, 4))


def _find_writer(page: _Page, rule: FieldRule) -> FoundField | None:
    """Find the company name or the company's address at the top of the page, depending on ``rule.kind``."""
    rows = _rows_of_writer(page)
    texts = [row.text for row in rows]
    if rule.kind == "company":
        company = _company_row(texts)
        if company is None:
            return None
        number, sureness = company
        name = _strip_number(texts[number])
        # OCR often misreads "SDN BHD".
        value = re.sub(r"\bS[O0D]N(\.?) [B8]H[DO0](?!\w)", r"SDN\1 BHD", re.sub(r" {2,}", " ", name))
        words = rows[number].words_between(0, len(name))
    else:
        numbers, sureness = _address_rows(texts, [(row.box[1], row.box[3]) for row in rows])
        if not numbers:
            return None
        # OCR reads specks as quotation marks.
        value = " ".join(re.sub(r" {2,}", " ", texts[number].strip("\"'`|*~_ ")) for number in numbers)
        words = tuple(word for number in numbers for word in rows[number].words)
    return FoundField(rule.name, "", value, (), words, round(sureness * _mean_confidence(page.content, words), 4))


def _rows_of_writer(page: _Page) -> Sequence[Row]:
    """Return the rows of a page without addresses, such as the customer's, that are next to the writer's address.

    If addresses are next to each other, the writer's is the leftmost one without a heading such as "Bill to:".
    """
    first = [phrase for row in page.rows[:_WRITER_ROWS] for phrase in row.phrases]
    stacks = stacks_of(first)
    texts = [[text_of_words(page.content, phrase.words) for phrase in stack] for stack in stacks]
    groups = adjacent_addresses([box_around([phrase.box for phrase in stack]) for stack in stacks], texts)
    if not groups:
        return page.rows
    # Sorting is stable: the leftmost comes first.
    columns = sorted(groups[0], key=lambda index: is_customer_heading(plain(texts[index][0])))
    others = {phrase.words for index in columns[1:] for phrase in stacks[index]}
    kept = [phrase for row in page.rows for phrase in row.phrases if phrase.words not in others]
    return rows_of(page.content, kept)


def _mean_confidence(content: PageContent, words: Sequence[int]) -> float:
    return float(np.clip(content.confidences[list(words)].mean(), 0, 1))


def _find_labelled(page: _Page, rule: FieldRule) -> Iterator[_Candidate]:
    excluded: dict[int, list[_Label]] = defaultdict(list)
    for label in page.labels_of(rule.not_labels):
        excluded[label.row].append(label)
    for label in page.labels_of(rule.labels):
        row = page.rows[label.row]
        sureness = label.sureness * (1 - 0.15 * label.rank / max(1, len(rule.labels)))
        # "Sub total" excludes the "total" in it, but not a "total" further away in the same row.
        if any(_excludes(row, bar, label) for bar in excluded[label.row]):
            continue
        found = False
        if rule.where in ("right", "any"):
            for start, end in _values_right(page, rule, label):
                found = True
                yield _make_candidate(page, rule, label.row, start, end, label, sureness)
        if rule.where == "below" or (rule.where == "any" and not found):
            for number, start, end, nearness in _values_below(page, rule, label):
                yield _make_candidate(page, rule, number, start, end, label, sureness * nearness)


def _excludes(row: Row, bar: _Label, label: _Label) -> bool:
    if label.start <= bar.start and bar.end <= label.end:
        return False
    between = row.text[min(bar.end, label.end) : max(bar.start, label.start)]
    return not re.search(r"\d[.,]\d\d|  ", between)


def _value_spans(rule: FieldRule, text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each substring of ``text`` that has the form that the rule describes."""
    text = text[:MAX_LINE]
    for pattern in (rule.compiled,) if rule.compiled is not None else value_pattern(rule.kind):
        taken = False
        for match in pattern.finditer(text):
            groups = (
                number for number in range(1, (pattern.groups if rule.compiled else 0) + 1) if match.group(number)
            )
            start, end = match.span(next(groups, 0))
            # Strip spaces.
            start, end = start + len(text[start:end]) - len(text[start:end].lstrip()), len(text[:end].rstrip())
            if end > start:
                taken = True
                yield start, end
        if taken:
            return


def _values_right(page: _Page, rule: FieldRule, label: _Label) -> Iterator[tuple[int, int]]:
    text = page.rows[label.row].text
    lead = re.compile(r"[\s:;=#.,)\]*_-]*").match(text, label.end)
    begin = lead.end() if lead else label.end
    # A minus sign, and the mark of an amount such as ".50", belong to the value.
    if rule.kind == "amount" and begin > label.end and re.match(r"-|[.,]\d\d(?![.,]?\d)", text[begin - 1 :]):
        begin -= 1
    rest = text[begin:]
    if rule.compiled is None and rule.kind in ("text", "company", "address"):
        rest = _cut_at_gap(rest)
        if rest:
            yield begin, begin + len(rest)
        return
    values = [(begin + start, begin + end) for start, end in _value_spans(rule, rest)]
    if rule.prefer != "largest":
        # A few other words may follow a label ("Invoice to: ..."), but not a sentence.
        values = [value for value in values[:1] if value[0] - begin <= 40]
    yield from values


def _cut_at_gap(text: str) -> str:
    """Return the text up to the first wide gap, or up to the next word that ends with a colon."""
    text = text[:MAX_LINE].split("  ")[0].strip()
    following = re.search(r"\s[^\W\d_][\w.]{1,20}:(?:\s|$)", text)
    return text[: following.start()].strip() if following else text


def _values_below(page: _Page, rule: FieldRule, label: _Label) -> Iterator[tuple[int, int, int, float]]:
    label_row = page.rows[label.row]
    words = label_row.words_between(label.start, label.end)
    left, top, right, bottom = box_of_words(page.content, words)
    height = bottom - top
    for number in range(max(0, label.row - 3), min(len(page.rows), label.row + 12)):
        row = page.rows[number]
        if number == label.row or row.box[1] > bottom + 3 * height:
            continue
        for place, phrase in enumerate(row.phrases):
            at = [at for at, word in enumerate(row.words) if word in phrase.words]
            start = row.starts[at[0]]
            end = row.starts[at[-1]] + len(page.content.texts[row.words[at[-1]]].strip())
            x0, y0, x1, _ = phrase.box
            # On a skewed scan, the value next to a label may be in a different row.
            middle = (phrase.box[1] + phrase.box[3]) / 2
            beside = place == 0 and x0 >= right - 0.3 * height and abs(middle - (top + bottom) / 2) < 0.8 * height
            # A value below a label overlaps it horizontally.
            below = y0 > (top + bottom) / 2 and min(right, x1) - max(left, x0) > 0.3 * min(right - left, x1 - x0)
            if not below and not beside:
                continue
            for first, last in _value_spans(rule, row.text[start:end]):
                whole = (last - first) / max(1, end - start)
                distance = max(0.0, y0 - bottom) / height if below else 0.3
                yield number, start + first, start + last, (0.75 - 0.1 * distance) * (0.7 + 0.3 * whole)
                break


def _make_candidate(
    page: _Page, rule: FieldRule, row: int, start: int, end: int, label: _Label | None, score: float
) -> _Candidate:
    text = page.rows[row].text[start:end]
    amount = None
    if rule.compiled is None:
        if rule.kind in ("amount", "number", "percent"):
            parsed = parse_value(rule.kind, text)
            amount = parsed if isinstance(parsed, Decimal) else None
            score *= 1.0 if amount is not None else 0.1
        elif rule.kind == "date":
            score *= 1.0 if parse_value("date", text, day_first=page.day_first) is not None else 0.2
        else:
            score *= 1.0 if is_valid(rule.kind, text) else 0.4
    return _Candidate(row, start, end, label, score, amount)


def _choose_candidate(page: _Page, rule: FieldRule, candidates: Sequence[_Candidate]) -> _Candidate:
    if rule.prefer == "largest":
        paid = _amounts_due(page)
        agreeing = [candidate for candidate in candidates if candidate.amount is not None and candidate.amount in paid]
        candidates = agreeing or [*_rounded(page, rule, candidates, paid)] or candidates
    best = max(candidate.score for candidate in candidates)
    good = [candidate for candidate in candidates if candidate.score >= 0.8 * best]
    if rule.prefer == "largest":
        # If amounts are equal, take the one closest to the bottom of the page.
        return max(good, key=lambda candidate: (candidate.amount or Decimal(0), candidate.row))
    if rule.prefer == "last":
        return good[-1]
    return max(good, key=lambda candidate: (candidate.score, -candidate.row))


def _rounded(
    page: _Page, rule: FieldRule, candidates: Sequence[_Candidate], paid: set[Decimal]
) -> Iterator[_Candidate]:
    """Yield amounts without a label of the rule that were paid, and that are a candidate's amount rounded for cash."""
    totals = [candidate.amount for candidate in candidates if candidate.amount is not None]
    rounded = {amount for amount in paid if any(abs(amount - total) <= _MAX_ROUNDING for total in totals)}
    for number, row in enumerate(page.rows if rounded else ()):
        for start, end in _value_spans(rule, row.text):
            candidate = _make_candidate(page, rule, number, start, end, None, 0.5)
            if candidate.amount in rounded:
                yield candidate


def _amounts_due(page: _Page) -> set[Decimal]:
    """Return the amounts that may be due: each positive difference of an amount of cash and of change."""
    given, returned = (set(_amounts(page, labels)) for labels in (_CASH, _CHANGE))
    return {cash - change for cash in given for change in returned if cash - change > 0}


def _amounts(page: _Page, labels: tuple[str, ...]) -> Iterator[Decimal]:
    rule = FieldRule("paid", labels, "amount", where="right")
    for label in page.labels_of(labels):
        for start, end in _values_right(page, rule, label):
            amount = parse_value("amount", page.rows[label.row].text[start:end])
            if isinstance(amount, Decimal):
                yield amount


def _strip_number(text: str) -> str:
    """Remove a company registration number from the end of a row, with any specks after it that were read as text."""
    name = text
    while (end := name.rfind("  ")) > 0 and sum(map(str.isalpha, name[end:])) < 3:
        name = name[:end]
    return _REGISTRATION_AT_END.sub("", name).rstrip() or text


def _company_row(texts: Sequence[str]) -> tuple[int, float] | None:
    """Return the index of the row that is probably the company name, and a confidence, or None if there is no such row.

    ``texts`` are the rows of a page from the top. The first row that can be a name is chosen, but a row with a word
    such as "Ltd" or "restaurant" has priority over it.
    """
    for number, row in enumerate(texts[:_LEGAL_ROWS]):
        text = plain(_strip_number(row))[:MAX_LINE]
        if is_customer_heading(text.partition(":")[0]):
            break
        if _LEGAL_FORM_AT_END.search(text):
            return number, 0.9
    names: list[tuple[int, bool]] = []
    for number, row in enumerate(texts[:_TOP_ROWS]):
        text = plain(_strip_number(row))
        letters = sum(character.isalpha() for character in text)
        if names and (ends_address(text) or is_address(text)):
            break
        if letters < 3 or letters < 0.5 * len(text.replace(" ", "")):
            continue
        if _TITLES.search(text) or ends_address(text) or REGISTRATION.match(text) or _is_date(text):
            continue
        names.append((number, bool(_FIRMS.search(text))))
    if not names:
        return None
    firms = [number for number, is_firm in names[:4] if is_firm]
    return (firms[0], 0.9) if firms else (names[0][0], 0.6)


def _address_rows(texts: Sequence[str], spans: Sequence[tuple[float, float]]) -> tuple[list[int], float]:
    """Find the address below the company name. Return the indices of its rows, and a confidence.

    The list is empty if there is no address.

    ``texts`` are the rows of a page from the top, and ``spans`` their top and bottom positions.
    """
    company = _company_row(texts)
    start = 0 if company is None else company[0] + 1
    taken: list[int] = []
    evidence = 0
    for number in range(start, min(start + _TOP_ROWS, len(texts))):
        text = plain(texts[number])
        if taken:
            top, bottom = spans[taken[-1]]
            if spans[number][0] - bottom > 1.5 * (bottom - top) or len(taken) >= 6:
                break
        if ends_address(text) or _TITLES.search(text) or _is_date(text) or _is_phone(text):
            if taken:
                break
            continue
        if not taken and not is_address(text):
            continue
        if taken and REGISTRATION.match(text) and not re.search(r"\b\d{5}\b", text):
            break
        taken.append(number)
        evidence += is_address(text)
    return (taken if evidence else []), min(0.9, 0.4 + 0.2 * evidence)


def _is_date(text: str) -> bool:
    return any(pattern.search(text) for pattern in value_pattern("date"))


def _is_phone(text: str) -> bool:
    # Single letters may say what a number is: "T: 030 1234 | F: 030 1235".
    return re.fullmatch(r"(?:\b[tfphm]\b|[\W\d])*", text) is not None and any(
        pattern.search(text) for pattern in value_pattern("phone")
    )
