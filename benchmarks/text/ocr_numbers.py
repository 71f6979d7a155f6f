"""Generated invoices, for ``python -m benchmarks.text.ocr --numbers``: the share of values that are exactly right.

Each invoice has amounts, dates, account numbers (IBANs with valid check digits), e-mail addresses, telephone
numbers and numbers of documents, in the forms of several countries. A value counts if the words that were read inside
its box, joined by spaces, are exactly the value.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from .ocr_drawn import DrawnSheet, Face, Look, find_face, finished_page
from .ocr_scores import Count, Word

KINDS = ("amount", "date", "IBAN", "e-mail", "phone", "number")

# Six kinds of fonts; the first installed font of each kind is used. The last of each comes with matplotlib.
_FACES = (
    ("LiberationSans-Regular", "DejaVuSans"),
    ("LiberationSerif-Regular", "STIXGeneral"),
    ("Roboto-Regular", "DejaVuSansDisplay"),
    ("CourierPrime", "LiberationMono-Regular", "DejaVuSansMono"),
    ("EBGaramond12-Regular", "DejaVuSerif"),
    ("Carlito-Italic", "DejaVuSans-Oblique"),
)
# The em in pixels and the damage of each invoice in a font.
_LOOKS: tuple[dict[str, Any], ...] = (
    {"em_px": 30},
    {"em_px": 22},
    {"em_px": 24, "noise": 10, "jpeg": 60, "ink": 30},
)
_ITEMS = [
    "Paper",
    "Toner",
    "Shelf",
    "Cable",
    "Lamp",
    "Chair",
    "Folder",
    "Printer",
    "Battery",
    "Monitor",
    "Keyboard",
    "Stamp",
]
_NAMES = ["adams", "baker", "keller", "novak", "rossi", "garcia", "dubois", "jensen", "o.brien", "lindqvist"]
_FIRMS = ["nordwind-druck", "papier24", "kontor-ost", "office_direct", "bluebird", "lumen1", "a1-logistik"]


class Value(NamedTuple):
    """A value on an invoice: its kind, its text, and the box around its ink."""

    kind: str
    text: str
    box: tuple[float, float, float, float]


@dataclass(frozen=True)
class InvoicePage:
    """A rendered invoice: the file, the font, and its values."""

    image: Path
    face: str
    values: tuple[Value, ...]


def iban(country: str, account: str) -> str:
    """Add check digits to an account, so that the IBAN is 1 modulo 97 (ISO 13616).

    >>> iban("DE", "370400440532013000")
    'DE89370400440532013000'
    """
    letters = "".join(str(int(character, 36)) for character in f"{account}{country}00")
    return f"{country}{98 - int(letters) % 97:02d}{account}"


def _iban(rng: random.Random) -> str:
    def digits(number: int) -> str:
        return "".join(rng.choices("0123456789", k=number))

    def capitals(number: int) -> str:
        return "".join(rng.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=number))

    country, account = rng.choice(
        [
            ("DE", digits(18)),
            ("FR", digits(10) + rng.choice(["0", "O", "G", "M"]) + digits(12)),
            ("GB", capitals(4) + digits(14)),
            ("NL", capitals(4) + digits(10)),
            ("IT", capitals(1) + digits(22)),
            ("AT", digits(16)),
        ]
    )
    number = iban(country, account)
    in_fours = " ".join(number[place : place + 4] for place in range(0, len(number), 4))
    return in_fours if rng.random() < 0.7 else number


def _amount(rng: random.Random) -> str:
    whole = rng.choice([rng.randint(0, 99), rng.randint(100, 9999), rng.randint(10_000, 2_000_000)])
    cents, commas = f"{rng.randint(0, 99):02d}", f"{whole:,}"
    points, apostrophes = commas.replace(",", "."), commas.replace(",", "'")
    return rng.choice(
        [
            f"{commas}.{cents}",
            f"€{commas}.{cents}",
            f"${whole}.{cents}",
            f"{points},{cents} €",
            f"-{points},{cents}",
            f"CHF {apostrophes}.{cents}",
            f"({commas}.{cents})",
            f"£{commas}.{cents}",
        ]
    )


def _date(rng: random.Random) -> str:
    day, month, year = rng.randint(1, 28), rng.randint(1, 12), rng.randint(1995, 2029)
    name = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"][month - 1]
    return rng.choice(
        [
            f"{day:02d}.{month:02d}.{year}",
            f"{year}-{month:02d}-{day:02d}",
            f"{month}/{day}/{year % 100:02d}",
            f"{day:02d}/{month:02d}/{year}",
            f"{day} {name} {year}",
            f"{day:02d}-{name}-{year}",
            f"{day}.{month}.{year % 100:02d}",
        ]
    )


def _email(rng: random.Random) -> str:
    user = rng.choice([rng.choice(_NAMES), f"{rng.choice('abcdefghijklmnop')}.{rng.choice(_NAMES)}", "info", "billing"])
    user += rng.choice(["", "", str(rng.randint(1, 99)), "_ap", "-eu", "+invoices"])
    return f"{user}@{rng.choice(_FIRMS)}.{rng.choice(['com', 'de', 'co.uk', 'fr', 'io', 'eu'])}"


def _phone(rng: random.Random) -> str:
    def digits(number: int) -> str:
        return "".join(rng.choices("0123456789", k=number))

    return rng.choice(
        [
            f"+49 {rng.randint(30, 89)} {digits(6)}-{digits(2)}",
            f"(0{rng.randint(20, 99)}) {digits(3)} {digits(4)}",
            f"+1 ({rng.randint(201, 989)}) 555-{digits(4)}",
            f"0{rng.randint(151, 179)}/{digits(7)}",
            f"+44 20 {digits(4)} {digits(4)}",
            f"{rng.randint(201, 989)}.555.{digits(4)}",
        ]
    )


def _number(rng: random.Random) -> str:
    mixed = "".join(rng.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", k=6))
    return rng.choice(
        [
            f"RE-{rng.randint(2015, 2029)}-{rng.randint(0, 99999):05d}",
            f"INV/{rng.randint(15, 29)}/{rng.randint(0, 9999):04d}",
            f"{rng.randint(10**7, 10**9)}",
            f"A{rng.randint(10, 99)}.{rng.randint(1000, 9999)}.{rng.randint(0, 9)}",
            f"{mixed[:3]}-{mixed[3:]}",
            f"#{rng.randint(1, 99999):06d}",
        ]
    )


_MAKERS = dict(zip(KINDS, (_amount, _date, _iban, _email, _phone, _number), strict=True))


def draw_invoice(look: Look) -> tuple[Any, tuple[Value, ...]]:
    """Render an invoice in this look, whose seed chooses the values; return the page and its values."""
    em = look.em_px
    width, height = 46 * em, 51 * em
    sheet = DrawnSheet(width, height, look)
    rng, font, kinds = random.Random(f"invoice {look.seed}"), sheet.font(), {}

    def write(x: float, y: float, kind: str, label: str = "", align: str = "left") -> None:
        if label:
            x = sheet.write(x, y, label, font, look.ink) + 0.7 * em
        kinds[len(sheet.lines)] = kind
        sheet.write(x, y, _MAKERS[kind](rng), font, look.ink, align)

    left, right, y = 3 * em, width - 3 * em, 4 * em
    sheet.write(left, y, f"{rng.choice(_FIRMS).title()} Ltd.", sheet.font(factor=1.5), look.ink)
    for kind, label in (("number", "Invoice"), ("date", "Date"), ("number", "Customer"), ("phone", "Tel.")):
        y += 1.7 * em
        write(left, y, kind, label)
        write(width / 2 + 2 * em, y, "number" if kind == "date" else kind, "Ref.")
    for _ in range(4):
        y += 1.7 * em
        write(left, y, "e-mail")
    y += em
    sheet.rule(left, y, right, y, 2)
    for _ in range(9):
        y += 1.8 * em
        sheet.write(left, y, f"{rng.randint(1, 40)} {rng.choice(_ITEMS)}", font, look.ink)
        write(0.3 * width, y, "date")
        write(0.72 * width, y, "amount", align="right")
        write(right, y, "amount", align="right")
    y += em
    sheet.rule(left, y, right, y, 2)
    for label in ("Net", "VAT", "Total due"):
        y += 1.8 * em
        sheet.write(0.6 * width, y, label, font, look.ink)
        write(right, y, "amount", align="right")
    for _ in range(4):
        y += 1.7 * em
        write(left, y, "IBAN", "IBAN")
        write(0.68 * width, y, "phone")
    page = finished_page(sheet)
    values = []
    for number, kind in kinds.items():
        line = page.lines[number]
        (x0, y0), (x1, y1) = line.quad.min(axis=0).tolist(), line.quad.max(axis=0).tolist()
        values.append(Value(kind, line.text, (x0, y0, x1, y1)))
    return page, tuple(values)


def draw_invoices(folder: Path, limit: int | None = None) -> list[InvoicePage]:
    """Render three invoices in each of six fonts, in several sizes and conditions; they are the same every time."""
    from PIL import Image

    faces = [next((face for name in names if (face := find_face(name))), None) for names in _FACES]
    pages = []
    for place, face in enumerate(face for face in faces if face is not None):
        for number, options in enumerate(_LOOKS[:limit]):
            page, values = draw_invoice(_look(face, 10 * place + number, options))
            path = folder / f"invoice-{place}-{number}.png"
            Image.fromarray(page.image).save(path)
            pages.append(InvoicePage(path, face.name, values))
    return pages


def _look(face: Face, seed: int, options: Mapping[str, Any]) -> Look:
    return Look(face, seed=seed, **options)


def score_values(values: Sequence[Value], found: Sequence[Word]) -> list[tuple[Value, str]]:
    """Return (value, text read inside its box) for each value of a page."""
    read = []
    for value in values:
        x0, y0, x1, y1 = value.box
        reach = 0.4 * (y1 - y0)
        inside = [
            word
            for word in found
            if x0 - reach <= (word.box[0] + word.box[2]) / 2 <= x1 + reach
            and y0 - reach <= (word.box[1] + word.box[3]) / 2 <= y1 + reach
        ]
        read.append((value, " ".join(word.text for word in sorted(inside, key=lambda word: word.box[0]))))
    return read


def numbers_table(pages: Sequence[InvoicePage], words: Sequence[Sequence[Word]]) -> tuple[str, dict[str, Any]]:
    """Return a Markdown table of exact values by font and kind, and a document with all mistakes."""
    counts: dict[tuple[str, str], Count] = defaultdict(Count)
    mistakes = []
    for page, found in zip(pages, words, strict=True):
        for value, text in score_values(page.values, found):
            one = Count(int(text == value.text), 1, 1)
            for key in ((page.face, value.kind), (page.face, "all"), ("all", value.kind), ("all", "all")):
                counts[key] += one
            if text != value.text:
                mistakes.append({"face": page.face, "kind": value.kind, "truth": value.text, "read": text})
    columns, faces = [*KINDS, "all"], [*dict.fromkeys(page.face for page in pages), "all"]
    rows = [["face", *columns], ["---", *["---:"] * len(columns)]]
    rows += [[face, *(_share(counts[face, kind]) for kind in columns)] for face in faces]
    document = {
        "exact": {
            face: {kind: [counts[face, kind].right, counts[face, kind].truth] for kind in columns} for face in faces
        },
        "mistakes": mistakes,
    }
    return "\n".join(f"| {' | '.join(row)} |" for row in rows), document


def _share(count: Count) -> str:
    return f"{100 * count.recall:.1f} ({count.right}/{count.truth})" if count.truth else ""
