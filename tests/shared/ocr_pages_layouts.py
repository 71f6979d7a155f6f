"""What drawn pages look like: a letter, a page of two columns, a form, a form on rules, a receipt."""

from __future__ import annotations

import random
from collections.abc import Callable

from ocr_pages_sheet import BOLD, MONO, SANS, SERIF, TIMES, Font, Sheet
from ocr_pages_words import GOODS, NAMES, WORDS, address, amount, code, date, name, phone, sentence


def _paragraph(sheet: Sheet, x: float, y: float, width: float, num_sentences: int, font: Font, stop: float) -> float:
    """Sentences, broken into lines that end above ``stop``; returns the next baseline."""
    step, line = sheet.size * 1.35, ""
    for word in " ".join(sentence(sheet.rng) for _ in range(num_sentences)).split():
        if line and sheet.length(f"{line} {word}", font) > width:
            if y > stop:
                return y
            sheet.write(x, y, line, font)
            y, line = y + step, word
        else:
            line = f"{line} {word}".strip()
    if y <= stop:
        sheet.write(x, y, line, font)
        y += step
    return y


def draw_letter(sheet: Sheet) -> None:
    rng, size, margin = sheet.rng, sheet.size, sheet.width * 0.11
    font = sheet.font(rng.choice([SERIF, TIMES, SANS]))
    y = sheet.height * 0.08
    firm = f"{rng.choice(NAMES)} & {rng.choice(NAMES)} Company"
    sheet.write(sheet.width / 2, y, firm, sheet.font(BOLD, 1.6), align="centre")
    for text in (date(rng), "", name(rng), address(rng), f"Springfield, OH {rng.randint(10000, 99999)}", ""):
        y += size * 1.4
        if text:
            sheet.write(margin, y, text, font)
    y += size * 1.6
    sheet.write(margin, y, f"Dear {rng.choice(['Mr.', 'Ms.', 'Dr.'])} {rng.choice(NAMES)}:", font)
    y += size * 2.2
    stop = sheet.height - margin - 5 * size
    while y < stop - 3 * size:
        y = _paragraph(sheet, margin, y, sheet.width - 2 * margin, rng.randint(2, 5), font, stop) + size * 0.9
    sheet.write(margin, y + size, "Sincerely,", font)
    sheet.write(margin, y + 4 * size, name(rng), font)


def draw_columns(sheet: Sheet) -> None:
    rng, size, margin = sheet.rng, sheet.size, sheet.width * 0.08
    gap = sheet.width * 0.05
    width = (sheet.width - 2 * margin - gap) / 2
    font = sheet.font(rng.choice([SERIF, TIMES, SANS]))
    title = " ".join(rng.choices(WORDS, k=4)).title()
    sheet.write(sheet.width / 2, margin + size, title, sheet.font(BOLD, 1.8), align="centre")
    sheet.rule(margin, margin + 2 * size, sheet.width - margin, margin + 2 * size)
    for x in (margin, margin + width + gap):
        y, stop = margin + 4 * size, sheet.height - margin
        while y < stop - 3 * size:
            y = _paragraph(sheet, x, y, width, rng.randint(3, 6), font, stop) + size * 0.8


def draw_form(sheet: Sheet) -> None:
    rng, size, margin = sheet.rng, sheet.size, sheet.width * 0.08
    label, value = sheet.font(SANS), sheet.font(rng.choice([MONO, SERIF, TIMES]))
    right = sheet.width - margin
    y = margin + size
    sheet.write(sheet.width / 2, y, "REGISTRATION FORM", sheet.font(BOLD, 1.5), align="centre")
    sheet.write(right, y, f"No. {code(rng)}", label, align="right")
    fields: list[tuple[str, Callable[[random.Random], str]]] = [
        ("NAME:", name), ("DATE:", date), ("ADDRESS:", address), ("TELEPHONE:", phone), ("ACCOUNT:", code),
        ("AMOUNT:", amount), ("CONTACT:", name), ("REFERENCE:", code),
    ]  # fmt: skip
    height, half = size * 2.6, sheet.width / 2
    y += size * 1.5
    for number, (title, fill) in enumerate(fields):
        left = margin if number % 2 == 0 else half
        sheet.box(left, y, half if number % 2 == 0 else right, y + height)
        end = sheet.write(left + 4, y + height * 0.65, title, label)
        sheet.write(end + 2 * size, y + height * 0.65, fill(rng), value, ink=rng.choice([0, 60]))
        y += height * (number % 2)
    y += size * 2
    for question in range(4):
        sheet.box(margin, y - size * 0.8, margin + size * 0.8, y)
        sheet.write(margin + 1.6 * size, y, f"Option {question + 1} {' '.join(rng.choices(WORDS, k=4))}", label)
        y += size * 1.8
    y = _table(sheet, margin, y, right, value)
    _paragraph(sheet, margin, y + 2 * size, right - margin, 8, label, sheet.height - margin)


def _table(sheet: Sheet, left: float, y: float, right: float, font: Font) -> float:
    rng, height = sheet.rng, sheet.size * 2
    edges = [left + (right - left) * part for part in (0, 0.16, 0.6, 0.8, 1)]
    makers = [code, lambda rng: " ".join(rng.choices(GOODS, k=2)), date, amount]
    for row in range(6):
        for number, make in enumerate(makers):
            heading = ("Code", "Item", "Date", "Amount")[number]
            sheet.box(edges[number], y, edges[number + 1], y + height, fill=None if row else 225)
            sheet.write(edges[number] + 3, y + height * 0.68, make(rng) if row else heading, font)
        y += height
    return y


def draw_ruled(sheet: Sheet) -> None:
    """A form that is filled in on rules; underlines, check boxes, and cells hardly higher than their text."""
    rng, size, margin = sheet.rng, sheet.size, sheet.width * 0.07
    right, half = sheet.width - margin, sheet.width / 2
    label, value = sheet.font(rng.choice([SANS, SERIF])), sheet.font(rng.choice([MONO, TIMES]))
    y = margin + size
    end = sheet.write(margin, y, "APPLICATION FOR STORE CREDIT", sheet.font(BOLD, 1.2))
    sheet.rule(margin, y + size * 0.18, end, y + size * 0.18)
    for _ in range(5):
        y += size * rng.uniform(1.8, 2.2)
        for left, entry in ((margin, name), (half, date)):
            end = sheet.write(left, y, rng.choice(["Name:", "Issued to", "Date", "Received by", "No."]), label)
            sheet.rule(end + size * 0.3, y + size * 0.15, left + half - margin * 1.3, y + size * 0.15)
            sheet.write(end + size * rng.uniform(0.8, 3), y, entry(rng), value)
    y += size * 1.5
    edges = [margin + (right - margin) * part for part in (0, 0.3, 0.6, 1)]
    headings = rng.sample(["DATE", "NAME", "AMOUNT", "COMMENTS", "CODE"], 3)
    height = size * rng.uniform(1.2, 1.4)
    for row in range(7):
        for number, entry in enumerate((code, name, amount)):
            sheet.box(edges[number], y, edges[number + 1], y + height)
            text = entry(rng) if row else headings[number]
            sheet.write(edges[number] + size * 0.3, y + height * 0.5 + size * 0.36, text, value if row else label)
        y += height
    for _ in range(2):
        x, y = margin, y + size * 1.7
        for _ in range(4):
            sheet.check_box(x, y - size * 0.75, size * 0.8)
            answer = rng.choice(["Yes", "No", "Approved", "Other", "Full time", "In stock"])
            x = sheet.write(x + size * rng.uniform(1, 1.5), y, answer, label) + size * 1.5
    for _ in range(4):
        y += size * 1.7
        sheet.rule(margin, y - size, right, y - size, 1.2)
        x = margin + size
        for word in sentence(rng).split()[:8]:
            end = sheet.write(x, y, word, label)
            if rng.random() < 0.3:
                sheet.rule(x, y + size * 0.15, end, y + size * 0.15, 0.6)
            x = end + size * 0.3


def draw_receipt(sheet: Sheet) -> None:
    rng, size, margin = sheet.rng, sheet.size, sheet.width * 0.06
    font, right, middle = sheet.font(MONO), sheet.width - sheet.width * 0.06, sheet.width / 2
    y = margin + 2 * size
    sheet.write(middle, y, f"{rng.choice(NAMES).upper()} MART SDN BHD", sheet.font(BOLD, 1.25), align="centre")
    for text in (address(rng).upper(), f"TEL {phone(rng)}", f"INVOICE {code(rng)}"):
        y += size * 1.5
        sheet.write(middle, y, text, font, align="centre")
    y += size * 2
    sheet.write(margin, y, date(rng), font)
    sheet.write(right, y, f"{rng.randint(8, 21)}:{rng.randint(10, 59)}", font, align="right")
    y += size
    sheet.rule(margin, y, right, y)
    while y < sheet.height - 15 * size:
        y += size * 1.6
        sheet.write(margin, y, f"{rng.randint(1, 9)} {' '.join(rng.choices(GOODS, k=rng.randint(1, 2)))}", font)
        sheet.write(right, y, amount(rng), font, align="right")
    y += size
    sheet.rule(margin, y, right, y)
    for title in ("SUBTOTAL", "TAX 6%", "TOTAL", "CASH", "CHANGE"):
        y += size * 1.6
        sheet.write(margin, y, title, sheet.font(BOLD, 1.1) if title == "TOTAL" else font)
        sheet.write(right, y, f"RM {amount(rng)}", font, align="right")
    sheet.write(middle, y + 2 * size, "THANK YOU", font, align="centre")
