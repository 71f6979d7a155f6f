"""Draw random pages with ground truth, warped and damaged as if they had been scanned, faxed or photographed.

The kinds of pages are letters, forms, receipts, tables, columns, reports, slides, captions and empty pages.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np

from mediatensor.errors import InvalidArgumentError

from ._damage import Color, chosen_style, damaged, near, papered, random_damage, random_warp
from ._faces import Face, find_faces, upright_face
from ._lines import as_random
from ._sheet import Font, Sheet, draw_grid, draw_random_table, plain_row
from ._texts import capitals, letters_of, texts_of
from ._truth import DrawnField, DrawnPage, moved_truth


def _header(sheet: Sheet, margin: float) -> None:
    if sheet.rng.random() < 0.6:
        small = sheet.body.at(sheet.em * 0.8)
        with sheet.region("Page-header"):
            sheet.write(margin, margin * 0.55, sheet.cut(sheet.phrase(2, 5), sheet.width * 0.5, small), small)
            if sheet.rng.random() < 0.5:
                sheet.write(sheet.width - margin, margin * 0.55, sheet.value("date"), small, align="right")
        if sheet.rng.random() < 0.4:
            sheet.rule(margin, margin * 0.7, sheet.width - margin, margin * 0.7)


def _footer(sheet: Sheet, margin: float) -> None:
    rng, small, y = sheet.rng, sheet.body.at(sheet.em * 0.8), sheet.height - margin * 0.45
    if rng.random() < 0.75:
        with sheet.region("Page-footer"):
            number = rng.choice(["{}", "- {} -", "{} / 48", "({})"]).format(rng.randint(1, 48))
            if rng.random() < 0.5:
                sheet.write(sheet.width / 2, y, number, small, align="centre")
            else:
                sheet.write(margin, y, sheet.cut(sheet.phrase(2, 5), sheet.width * 0.5, small), small)
                sheet.write(sheet.width - margin, y, number, small, align="right")


def _heading(sheet: Sheet, x: float, y: float, width: float, kind: str, factor: float, align: str = "left") -> float:
    font = sheet.strong.at(sheet.em * factor)
    number = f"{sheet.rng.randint(1, 9)}. " if kind == "Section-header" and sheet.rng.random() < 0.3 else ""
    with sheet.region(kind):
        return sheet.paragraph(
            x, y, width, number + sheet.phrase(2, 5), font, leading=1.2, align=align,
            ink=sheet.accent if sheet.rng.random() < 0.5 else None,
        )  # fmt: skip


def _texts(sheet: Sheet, x: float, y: float, width: float, stop: float, count: int, align: str, font: Font) -> float:
    """Write up to ``count`` random paragraphs above y = ``stop``, and return the y of the next baseline."""
    gap, leading = sheet.em * sheet.rng.choice([0.3, 0.8, 1.0]), sheet.rng.uniform(1.25, 1.5)
    for _ in range(count):
        if y > stop:
            break
        text = " ".join(sheet.sentence() for _ in range(sheet.rng.randint(1, 5)))
        with sheet.region("Text"):
            y = sheet.paragraph(x, y, width, text, font, align=align, stop=stop, leading=leading) + gap
    return y


def _items(sheet: Sheet, x: float, y: float, width: float, stop: float, font: Font, count: int) -> float:
    """Write a list of up to ``count`` items above y = ``stop``, and return the y of the next baseline."""
    rng = sheet.rng
    bullet = rng.choice([mark for mark in ("•", "\u2013", "-", "*", "▪", "1.", "a)", "(1)") if sheet.body.has(mark)])
    for number in range(count):
        if y > stop:
            break
        mark = bullet.replace("1", str(number + 1)).replace("a", chr(ord("a") + number % 26))
        text = f"{mark} {sheet.sentence() if rng.random() < 0.6 else sheet.phrase(2, 6)}"
        with sheet.region("List-item"):
            y = sheet.paragraph(x, y, width, text, font, stop=stop, indent=font.getlength(mark + " "))
        y += sheet.em * 0.35
    return y


def _figure(sheet: Sheet, x: float, y: float, width: float, height: float) -> float:
    """Draw an image with its caption below or above it, and return the y of the next baseline."""
    small = sheet.body.at(sheet.em * 0.88)
    text = f"{sheet.phrase(1, 1)} {sheet.rng.randint(1, 20)}: {sheet.sentence()}"
    if sheet.rng.random() < 0.25:
        with sheet.region("Caption"):
            y = sheet.paragraph(x, y, width, text, small)
        with sheet.region("Picture"):
            sheet.picture(x, y - sheet.em * 0.6, x + width, y + height)
        return y + height + 2 * sheet.em
    with sheet.region("Picture"):
        sheet.picture(x, y - sheet.em * 0.8, x + width, y + height)
    with sheet.region("Caption"):
        align = sheet.rng.choice(["left", "centre"])
        y = sheet.paragraph(x, y + height + 1.4 * sheet.em, width, text, small, align=align)
    return y + sheet.em * 0.8


def draw_letter(sheet: Sheet) -> None:
    rng, em = sheet.rng, sheet.em
    margin = sheet.width * rng.uniform(0.09, 0.14)
    font, width, y = sheet.body.at(em), sheet.width - 2 * margin, margin * rng.uniform(0.7, 1.0)
    stop = sheet.height - margin - 7 * em
    if rng.random() < 0.7:
        big, align = sheet.strong.at(em * rng.uniform(1.3, 2)), rng.choice(["left", "centre", "right"])
        x = {"left": margin, "centre": sheet.width / 2, "right": sheet.width - margin}[align]
        with sheet.region("Page-header"):
            sheet.write(x, y, sheet.cut(sheet.phrase(1, 3), width, big), big, ink=sheet.accent, align=align)
            small = sheet.body.at(em * 0.8)
            for kind in ("address", "number")[: rng.randint(0, 2)]:
                y += em * 1.3
                sheet.write(x, y, sheet.cut(sheet.value(kind), width, small), small, align=align)
        y += em * 3
    with sheet.region("Text"):
        for _ in range(rng.randint(2, 4)):
            sheet.write(margin, y, sheet.cut(f"{sheet.phrase(1, 3)} {rng.randint(1, 99)}", width / 2, font), font)
            y += em * 1.35
    with sheet.region("Text"):
        y += em * 1.2
        right = rng.random() < 0.6
        date = f"{sheet.phrase(1, 1)}, {sheet.value('date')}" if rng.random() < 0.5 else sheet.value("date")
        sheet.write(sheet.width - margin if right else margin, y, date, font, align="right" if right else "left")
    y += em * 3
    if rng.random() < 0.7:
        y = _heading(sheet, margin, y, width, "Section-header", 1.0) + em * 1.2
    with sheet.region("Text"):
        sheet.write(margin, y, sheet.cut(sheet.phrase(2, 4), width, font) + ",", font)
    y = _texts(sheet, margin, y + em * 2, width, stop, rng.choice([2, 4, 6, 9]), rng.choice(["left", "justify"]), font)
    with sheet.region("Text"):
        y += em
        sheet.write(margin, y, sheet.cut(sheet.phrase(1, 4), width, font), font)
    sheet.scribble(margin + em, y + 2.2 * em, em * rng.uniform(6, 10))
    with sheet.region("Text"):
        sheet.write(margin, y + 5 * em, sheet.cut(sheet.phrase(2, 2), width, font), font)
    _footer(sheet, margin)


def draw_form(sheet: Sheet) -> None:
    rng, em = sheet.rng, sheet.em
    margin = sheet.width * rng.uniform(0.06, 0.1)
    right, label = sheet.width - margin, sheet.body.at(em * 0.85)
    typed = (sheet.fixed if rng.random() < 0.6 else sheet.body).at(em * rng.uniform(0.95, 1.15))
    _header(sheet, margin)
    y = _heading(
        sheet, margin, margin + em, right - margin, "Title", rng.uniform(1.3, 1.8), rng.choice(["left", "centre"])
    )
    boxed, height = rng.random() < 0.55, em * rng.uniform(2.3, 2.9)
    filled = rng.choice([sheet.ink, (30, 40, 120), (40, 40, 40)])
    for _ in range(rng.randint(1, 5)):
        y += em * 0.8
        if rng.random() < 0.7:
            y = _heading(sheet, margin, y + em, right - margin, "Section-header", 1.05)
        for _ in range(rng.randint(3, 7)):
            columns = rng.choice([1, 2, 2, 3])
            if y + height > sheet.height - margin * 1.5:
                break
            for at in range(columns):
                x0, x1 = (margin + (right - margin) * part / columns for part in (at, at + 1))
                _field(sheet, x0, y, x1, height, boxed, label, typed, filled)
            y += height if boxed else height * 0.85
    y += 2.2 * em
    for _ in range(rng.randint(0, 4)):
        if y > sheet.height - margin * 1.5:
            break
        # Check boxes.
        sheet.box(margin, y - em * 0.75, margin + em * 0.8, y + em * 0.05, outline=sheet.ink)
        if rng.random() < 0.4:
            sheet.rule(margin, y - em * 0.75, margin + em * 0.8, y, em / 10)
            sheet.rule(margin, y, margin + em * 0.8, y - em * 0.75, em / 10)
        with sheet.region("Text"):
            sheet.write(margin + 1.5 * em, y, sheet.cut(sheet.sentence(), right - margin - 2 * em, label), label)
        y += em * 1.8
    if y < sheet.height * 0.7 and rng.random() < 0.5:
        y = draw_random_table(sheet, margin, y, right - margin, sheet.height - margin * 1.5, 8) + 2 * em
    if y < sheet.height - margin - 6 * em:
        _texts(sheet, margin, y, right - margin, sheet.height - margin - em, rng.randint(0, 2), "left", label)
    _footer(sheet, margin)


def _field(
    sheet: Sheet, x0: float, y: float, x1: float, height: float, boxed: bool, label: Font, typed: Font,
    filled: tuple[int, int, int],
) -> None:  # fmt: skip
    em, rng = sheet.em, sheet.rng
    pad = em * 0.35
    with sheet.region("Text"):
        name = sheet.cut(sheet.phrase(1, 2) + rng.choice([":", ":", ""]), (x1 - x0) * 0.45, label)
        small = label if not boxed else sheet.body.at(em * 0.7)
        above = boxed and rng.random() < 0.7
        if boxed:
            sheet.box(x0, y, x1, y + height, outline=sheet.ink)
        key = sheet.write(x0 + pad, y + (height * 0.32 if above else height * 0.66), name, small)
        start = x0 + pad if above else max(key.polygon[:, 0].max() + em * 0.7, x0 + (x1 - x0) * rng.choice([0, 0.3]))
        space = x1 - pad - start
        baseline = y + height * (0.85 if above else 0.66)
        if not boxed:
            end, below = x1 - em, baseline + em * 0.22
            if rng.random() < 0.5:
                sheet.rule(start, below, end, below)
            else:
                sheet.dots(start, end, below)
            space -= em
        if rng.random() < 0.9 and space > 2 * em:
            kinds = ("date", "number", "code", "price", "address")
            content = sheet.phrase(1, 3) if rng.random() < 0.5 else sheet.value(*kinds)
            value = sheet.write(start + em * 0.2, baseline, sheet.cut(content, space, typed), typed, ink=filled)
            sheet.fields.append(DrawnField(key, value))


def draw_receipt(sheet: Sheet) -> None:
    rng, em = sheet.rng, sheet.em
    margin = sheet.width * rng.uniform(0.05, 0.09)
    font, right, middle = sheet.body.at(em), sheet.width - margin, sheet.width / 2
    big, y, width = sheet.strong.at(em * rng.uniform(1.2, 1.8)), margin + 2 * em, sheet.width - 2 * margin
    with sheet.region("Title"):
        sheet.write(middle, y, sheet.cut(capitals(sheet.phrase(1, 2), sheet.language), width, big), big, align="centre")
    with sheet.region("Text"):
        for kind in ("phrase", "number", "address", "code")[: rng.randint(1, 4)]:
            y += em * 1.4
            text = sheet.phrase(2, 4) if kind == "phrase" else sheet.value(kind)
            sheet.write(middle, y, sheet.cut(text, width, font), font, align="centre")
    y += em * 2
    with sheet.region("Text"):
        sheet.write(margin, y, sheet.cut(sheet.value("date"), width * 0.45, font), font)
        sheet.write(right, y, sheet.cut(sheet.value("number"), width * 0.45, font), font, align="right")
    y += em * 0.8
    _divide(sheet, margin, right, y)
    rows = []
    shouted = rng.random() < 0.5
    counted = rng.random() < 0.5
    aligns = ["left", "left", "right"] if counted else ["left", "right"]
    for _ in range(max(1, min(rng.randint(2, 14), int((sheet.height - y - 13 * em) / (1.6 * em))))):
        name = sheet.phrase(1, 3)
        name = capitals(name, sheet.language) if shouted else name
        price = sheet.value("amount")
        rows.append(plain_row([str(rng.randint(1, 9)), name, price] if counted else [name, price], aligns))
    longest = max(font.getlength(row[len(aligns) - 1].text) for row in rows)
    edges = [margin - em * 0.4, right - longest - em * 1.6, right + em * 0.4]
    if counted:
        edges.insert(1, margin + em * 1.8)
    limit = sheet.height - 9 * em
    y = draw_grid(sheet, edges, y + em * 0.4, rows, limit, font=font, head=font)
    _divide(sheet, margin, right, y + em * 0.2)
    y += em * 1.6
    for number in range(rng.randint(1, 4)):
        with sheet.region("Text"):
            used = big if number == 0 and rng.random() < 0.5 else font
            key = sheet.write(
                margin, y, sheet.cut(capitals(sheet.phrase(1, 1), sheet.language), width * 0.45, used), used
            )
            value = sheet.write(right, y, sheet.cut(sheet.value("amount"), width * 0.45, used), used, align="right")
            sheet.fields.append(DrawnField(key, value))
        y += em * 1.6
    if y < sheet.height - 3 * em:
        with sheet.region("Text"):
            sheet.write(middle, y + em, sheet.cut(sheet.sentence(), width, font), font, align="centre")
    if y < sheet.height - 7 * em and rng.random() < 0.5:
        with sheet.region("Picture"):
            sheet.bars(margin + width * 0.15, y + 2.5 * em, right - width * 0.15, y + 5 * em)


def _divide(sheet: Sheet, left: float, right: float, y: float) -> None:
    if sheet.rng.random() < 0.5:
        sheet.rule(left, y, right, y)
    else:
        sheet.dots(left, right, y)


def draw_table(sheet: Sheet) -> None:
    rng, em = sheet.rng, sheet.em
    margin = sheet.width * rng.uniform(0.06, 0.1)
    width, font, stop = sheet.width - 2 * margin, sheet.body.at(em), sheet.height - margin * 1.2
    _header(sheet, margin)
    y = _heading(sheet, margin, margin + em, width, "Title", rng.uniform(1.3, 1.8)) + em * 0.5
    while y < stop - 12 * em:
        y = _texts(sheet, margin, y, width, stop, rng.randint(0, 1), "left", font) + em
        if rng.random() < 0.6:
            with sheet.region("Caption"):
                text = f"{sheet.phrase(1, 1)} {rng.randint(1, 12)}: {sheet.phrase(2, 6)}"
                y = sheet.paragraph(margin, y, width, text, font)
        else:
            y += em
        y = draw_random_table(sheet, margin, y - em * 0.6, width, stop, rng.choice([6, 14, 30])) + 2 * em
        if rng.random() < 0.3 and y < stop:
            with sheet.region("Footnote"):
                y = sheet.paragraph(margin, y, width, f"* {sheet.sentence()}", sheet.body.at(em * 0.8), stop=stop) + em
    _footer(sheet, margin)


def draw_columns(sheet: Sheet) -> None:
    rng, em = sheet.rng, sheet.em
    margin = sheet.width * rng.uniform(0.06, 0.09)
    width, font = sheet.width - 2 * margin, sheet.body.at(em)
    columns, gap = rng.choice([2, 2, 2, 3]), em * rng.uniform(1.6, 2.4)
    column, stop = (width - gap * (columns - 1)) / columns, sheet.height - margin * 1.2
    _header(sheet, margin)
    top = _heading(
        sheet, margin, margin + 2 * em, width, "Title", rng.uniform(1.7, 2.8), rng.choice(["left", "centre"])
    )
    if rng.random() < 0.5:
        with sheet.region("Text"):
            top = sheet.paragraph(margin, top, width, sheet.sentence(), font, align=rng.choice(["left", "centre"]))
    align, ruled = rng.choice(["left", "justify", "justify"]), rng.random() < 0.2
    for number in range(columns):
        x, y = margin + number * (column + gap), top + 1.5 * em
        if number and ruled:
            sheet.rule(x - gap / 2, top + em, x - gap / 2, stop)
        while y < stop - 2 * em:
            if rng.random() < 0.25 and y < stop - 6 * em:
                y = _heading(sheet, x, y + em * 0.6, column, "Section-header", rng.uniform(1.0, 1.25)) + em * 0.2
            elif rng.random() < 0.1 and y < stop - 22 * em:
                y = _figure(sheet, x, y, column, column * rng.uniform(0.5, 0.7))
            y = _texts(sheet, x, y, column, stop, rng.randint(1, 3), align, font)
    _footer(sheet, margin)


def draw_report(sheet: Sheet) -> None:
    rng, em = sheet.rng, sheet.em
    margin = sheet.width * rng.uniform(0.09, 0.13)
    width, font, y = sheet.width - 2 * margin, sheet.body.at(em), margin + 1.5 * em
    noted = rng.random() < 0.5
    stop = sheet.height - margin * 1.1 - (4 * em if noted else 0)
    align = rng.choice(["left", "justify"])
    _header(sheet, margin)
    if rng.random() < 0.5:
        y = _heading(sheet, margin, y, width, "Title", rng.uniform(1.6, 2.2), rng.choice(["left", "centre"])) + em
    while y < stop - 4 * em:
        part = rng.choice(["heading", "text", "text", "list", "figure", "table", "formula"])
        if part == "heading":
            y = _heading(sheet, margin, y + em, width, "Section-header", rng.uniform(1.1, 1.4)) + em * 0.4
        elif part == "list":
            y = _items(sheet, margin + em, y, width - em, stop, font, rng.randint(2, 6)) + em * 0.5
        elif part == "figure" and y < stop - 20 * em:
            y = _figure(sheet, margin + width * 0.1, y, width * 0.8, min(width * 0.4, stop - y - 8 * em))
        elif part == "table" and y < stop - 12 * em:
            with sheet.region("Caption"):
                text = f"{sheet.phrase(1, 1)} {rng.randint(1, 12)}: {sheet.phrase(2, 6)}"
                y = sheet.paragraph(margin, y + em, width, text, font)
            y = draw_random_table(sheet, margin, y - em * 0.6, width, stop, 7) + 2 * em
        elif part == "formula" and y < stop - 4 * em:
            y = _formula(sheet, margin, y + em, width, font)
        else:
            y = _texts(sheet, margin, y, width, stop, 1, align, font)
    if noted:
        y = sheet.height - margin * 1.1 - 2.2 * em
        sheet.rule(margin, y - 1.3 * em, margin + width * 0.3, y - 1.3 * em)
        with sheet.region("Footnote"):
            small = sheet.body.at(em * 0.8)
            sheet.paragraph(margin, y, width, f"{rng.randint(1, 9)} {sheet.sentence()}", small, stop=y + 1.2 * em)
    _footer(sheet, margin)


def _formula(sheet: Sheet, x: float, y: float, width: float, font: Font) -> float:
    rng, letters = sheet.rng, "abcdknpqrstuvxyz"
    first, second, third, fourth = rng.choices(letters, k=4)
    text = rng.choice([
        f"{first} = {second} + {third} / {fourth}", f"{first}({second}) = {rng.randint(2, 9)}{second} - {third}",
        f"{first} = ({second} - {third}) / ({second} + {fourth})",
        f"{rng.randint(2, 99)}{first} < {second} + {rng.randint(1, 9)}",
    ])  # fmt: skip
    with sheet.region("Formula"):
        sheet.write(x + width / 2, y, text, font, align="centre")
        if rng.random() < 0.6:
            sheet.write(x + width, y, f"({rng.randint(1, 30)})", font, align="right")
    return y + 2.4 * sheet.em


def draw_slide(sheet: Sheet) -> None:
    rng, em, margin = sheet.rng, sheet.em, sheet.width * 0.06
    font, pictured = sheet.body.at(em), rng.random() < 0.5
    if rng.random() < 0.3:
        sheet.box(0, 0, sheet.width * 0.02, sheet.height, fill=sheet.accent)
    y = _heading(sheet, margin, margin + em * 1.2, sheet.width - 2 * margin, "Title", rng.uniform(1.4, 2)) + em
    width = (sheet.width * 0.5 if pictured else sheet.width - margin) - margin
    stop = sheet.height - margin - em
    if rng.random() < 0.75:
        y = _items(sheet, margin, y + em, width, stop, font, rng.randint(2, 6))
    else:
        y = _texts(sheet, margin, y + em, width, stop, rng.randint(1, 2), "left", font)
    if pictured:
        with sheet.region("Picture"):
            sheet.picture(sheet.width * 0.55, sheet.height * 0.3, sheet.width - margin, sheet.height * 0.8)
    small = sheet.body.at(max(8.0, em * 0.5))
    with sheet.region("Page-footer"):
        sheet.write(margin, sheet.height - margin * 0.4, sheet.cut(sheet.phrase(2, 4), width, small), small)
        sheet.write(sheet.width - margin, sheet.height - margin * 0.4, str(rng.randint(1, 60)), small, align="right")


def draw_caption(sheet: Sheet) -> None:
    """Draw a photograph with a caption over it, like a frame of a film or of television news."""
    rng, em = sheet.rng, sheet.em
    with sheet.region("Picture"):
        sheet.picture(0, 0, sheet.width, sheet.height, chart=False)
    font, width = sheet.body.at(em), sheet.width * 0.86
    lines = sheet.broken(sheet.sentence(), width, font)[:2]
    y = sheet.height - em * (0.9 + 1.25 * (len(lines) - 1)) - sheet.height * rng.uniform(0, 0.08)
    on_box = rng.random() < 0.5
    ink = rng.choice([(255, 255, 255), (255, 255, 255), (255, 235, 60)])
    with sheet.region("Caption"):
        for line in lines:
            half = font.getlength(line) / 2
            if on_box:
                middle = sheet.width / 2
                sheet.box(middle - half - em * 0.3, y - em, middle + half + em * 0.3, y + em * 0.3, fill=(10, 10, 10))
            sheet.write(sheet.width / 2, y, line, font, ink=ink, align="centre", outlined=not on_box)
            y += em * 1.3


def draw_empty(sheet: Sheet) -> None:
    """Draw a sheet of paper without text. It may have punched holes, ruled lines or a crease."""
    rng, em = sheet.rng, sheet.em
    if rng.random() < 0.4:
        for share in (0.4, 0.6):
            y = sheet.height * share
            sheet.dot(em * 2, y, em * 0.5, sheet.tinted(0.35))
    if rng.random() < 0.3:
        y = em * 6
        while y < sheet.height:
            sheet.rule(0, y, sheet.width, y, color=sheet.tinted(0.25))
            y += em * 2.2
    if rng.random() < 0.4:
        y = sheet.height * rng.uniform(0.3, 0.7)
        sheet.rule(0, y, sheet.width, y + rng.uniform(-3, 3), color=sheet.tinted(0.15))


#: For each kind of page: the drawing function, (width, height) in inches, and the range of text sizes in points.
LAYOUTS: dict[str, tuple[Callable[[Sheet], None], tuple[float, float], tuple[float, float]]] = {
    "letter": (draw_letter, (8.27, 11.69), (9, 12)),
    "form": (draw_form, (8.27, 11.69), (8, 11)),
    "receipt": (draw_receipt, (3.15, 6), (8, 10.5)),
    "table": (draw_table, (8.27, 11.69), (8, 11)),
    "columns": (draw_columns, (8.27, 11.69), (8, 10.5)),
    "report": (draw_report, (8.27, 11.69), (9, 12)),
    "slide": (draw_slide, (13.33, 7.5), (18, 28)),
    "caption": (draw_caption, (10, 5.63), (22, 34)),
    "empty": (draw_empty, (8.27, 11.69), (9, 12)),
}


#: Kinds of pages; ``"mixed"`` selects a random kind.
PAGE_KINDS = (*LAYOUTS, "mixed")

_PAPER_STYLES = {"clean": 10, "print": 25, "scan": 35, "fax": 8, "camera": 22}
_STYLES = {
    "receipt": {"receipt": 55, "scan": 15, "camera": 30},
    "slide": {"clean": 10, "screen": 40, "video": 25, "camera": 15},
    "caption": {"clean": 10, "screen": 30, "video": 60},
}


def draw_random_page(
    rng: random.Random | np.random.Generator,
    *,
    kind: str = "mixed",
    languages: Sequence[str] = ("en",),
    size: tuple[int, int] | None = None,
    faces: Sequence[Face] | None = None,
    style: str = "mixed",
    texts: Sequence[str] = (),
) -> DrawnPage:
    """Draw a random page, and return its image and its ground truth as a `DrawnPage`.

    The same arguments and the same state of ``rng`` give the same page, on a machine with the same fonts.

    Args:
        rng: The random generator. If it is a NumPy Generator, it only supplies a seed.
        kind: One of `PAGE_KINDS`, such as ``"letter"``; ``"mixed"`` picks a random kind.
        languages: Keys of `TEXTS`, such as ``"de"``. The page uses one of these languages, all equally likely.
        size: (width, height) in pixels; ``None`` means the usual paper size of the kind at a random resolution.
        faces: The faces to choose from; ``None`` means all faces of the machine, see `find_faces`.
        style: One of `STYLES`; ``"mixed"`` picks a random style that suits the kind.
        texts: Your own lines of text, which are drawn instead of the built-in sentences; see `read_texts`.

    Raises:
        InvalidArgumentError: if an argument is invalid, or no face has the letters of the language.

    Example:
        >>> import random
        >>> from mediatensor.ocr.drawing import draw_random_page
        >>> page = draw_random_page(random.Random(0), kind="letter", size=(600, 800), style="clean")
        >>> page.image.shape, len(page.words) > 20, page.words[0].polygon.shape
        ((800, 600, 3), True, (4, 2))
    """
    rng = as_random(rng)
    if kind not in PAGE_KINDS:
        raise InvalidArgumentError(f"kind is {kind!r}; accepted: {', '.join(PAGE_KINDS)}")
    if not languages:
        raise InvalidArgumentError("languages is empty; name at least one, such as languages=['en']")
    kind = rng.choices(list(LAYOUTS), (15, 16, 14, 12, 12, 16, 8, 5, 2))[0] if kind == "mixed" else kind
    style = chosen_style(rng, style, _STYLES.get(kind, _PAPER_STYLES))
    language = rng.choice(languages)
    draw, inches, points = LAYOUTS[kind]
    # A receipt printer cuts the paper below the last line.
    is_cut = size is None and kind == "receipt"
    if size is None:
        dpi = rng.uniform(90, 150) if kind not in ("slide", "caption") else rng.uniform(64, 110)
        dpi *= 1.4 if kind == "receipt" else 1
        size = (round(inches[0] * dpi), round(inches[1] * dpi))
    if min(size) < 64:
        raise InvalidArgumentError(f"size is {size}; a page has at least 64 pixels each way")
    em = max(7.0, rng.uniform(*points) / 72 * size[0] / inches[0])
    known = find_faces() if faces is None else tuple(faces)
    needed = "".join(texts) or letters_of(language) + "".join(texts_of(language)) + "0123456789:,.-()/"
    body = upright_face(rng, needed, known, fixed=kind == "receipt" and rng.random() < 0.6)
    if body is None:
        raise InvalidArgumentError(
            f"no face has all letters of {language!r}; install a font that has them, or name it in faces"
        )
    fixed = upright_face(rng, needed, known, fixed=True) or body
    ink, paper = _colors(rng, kind, style)
    texture = 0.0 if style in ("clean", "screen", "video") else rng.uniform(0, 10)
    sheet = Sheet(
        papered(size, paper, texture, rng), em, rng, body=body, fixed=fixed, faces=known, ink=ink, language=language,
        texts=texts,
    )  # fmt: skip
    draw(sheet)
    image, regions, fields = sheet.canvas, tuple(sheet.regions), tuple(sheet.fields)
    if is_cut:
        bottom = max(float(region.polygon[:, 1].max()) for region in regions) + em * rng.uniform(1.5, 5)
        size = (size[0], min(size[1], round(bottom)))
        image = image.crop((0, 0, *size))
    warp = random_warp(rng, style, size)
    if warp is not None:
        desks = [(90, 70, 50), (40, 40, 40), (150, 150, 155), (60, 70, 80)]
        desk = near(rng, rng.choice(desks), 20) if style == "camera" else near(rng, paper, 5)
        image = warp.applied(image, papered(size, desk, 12 if style == "camera" else 2, rng))
        regions, fields = moved_truth(regions, fields, warp.moved_polygons)
    image = damaged(image, random_damage(rng, style, em), rng)
    return DrawnPage(np.array(image), kind, style, language, regions, fields)


def _colors(rng: random.Random, kind: str, style: str) -> tuple[Color, Color]:
    """Return random colours (ink, paper) that suit the kind of page and the style."""
    if kind == "slide" and rng.random() < 0.4:
        return near(rng, (240, 240, 240), 15), near(rng, rng.choice([(20, 30, 60), (15, 15, 15), (10, 70, 80)]), 12)
    dark = rng.choice([0, 0, 15, 35, 60])
    if style == "clean":
        return (dark, dark, dark), (255, 255, 255)
    level = rng.randint(232, 255) if style != "camera" else rng.randint(170, 240)
    return near(rng, (dark, dark, dark), 6), near(rng, (level, level, max(0, level - rng.choice([0, 0, 5, 18]))), 3)
