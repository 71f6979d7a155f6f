"""Tables: ruled or open, with heads, spans, cells of several lines."""

from __future__ import annotations

from ._sheet import Font, Sheet
from ._truth import DrawnCell, DrawnTable, box_polygon

__all__ = ["draw_grid", "draw_random_table", "plain_row"]

# What stands in a column, and how often.
_COLUMNS = {"words": 4, "sentence": 1, "number": 3, "price": 3, "date": 1, "code": 1, "mark": 1}


class _Cell:
    """A cell that is about to be drawn."""

    def __init__(
        self, text: str = "", row_span: int = 1, column_span: int = 1, *, align: str = "left", header: bool = False
    ) -> None:
        self.text, self.row_span, self.column_span = text, row_span, column_span
        self.align, self.header = align, header


def draw_random_table(sheet: Sheet, left: float, y: float, width: float, stop: float, max_rows: int = 14) -> float:
    """Draw a table of random content below ``y`` and above ``stop``; returns where it ends."""
    rng = sheet.rng
    num_columns = max(2, min(rng.randint(2, 7), int(width / (5 * sheet.em))))
    kinds = ["words", *rng.choices(list(_COLUMNS), list(_COLUMNS.values()), k=num_columns - 1)]
    aligns = [{"number": "right", "price": "right", "mark": "centre"}.get(kind, "left") for kind in kinds]
    shares = [{"words": 1.4, "sentence": 2.4}.get(kind, 1.0) * rng.uniform(0.85, 1.2) for kind in kinds]
    edges = [left]
    for share in shares:
        edges.append(edges[-1] + width * share / sum(shares))

    rows: list[dict[int, _Cell]] = []
    grouped = num_columns >= 4 and rng.random() < 0.35
    heads = {at: _Cell(sheet.phrase(1, 2), align=aligns[at], header=True) for at in range(num_columns)}
    if grouped:
        # Columns under a common head; the first has a head of both rows.
        split = rng.randint(2, num_columns - 1)
        top = {0: _Cell(sheet.phrase(1, 1), 2, header=True)}
        top[1] = _Cell(sheet.phrase(1, 2), 1, split - 1, align="centre", header=True)
        if split < num_columns:
            top[split] = _Cell(sheet.phrase(1, 2), 1, num_columns - split, align="centre", header=True)
        rows.append(top)
        del heads[0]
    rows.append(heads)
    body, covered = rng.randint(2, max_rows), 0
    for number in range(body):
        row = {}
        for at, kind in enumerate(kinds):
            if at == 0 and covered:
                covered -= 1
                continue
            span = 1
            if at == 0 and rng.random() < 0.08 and number + 2 <= body:
                span, covered = 2, 1
            row[at] = _Cell(_content(sheet, kind), span, align=aligns[at])
        rows.append(row)
    if rng.random() < 0.25 and not covered and num_columns > 2:
        rows.append(
            {
                0: _Cell(sheet.phrase(1, 2), 1, num_columns - 1),
                num_columns - 1: _Cell(sheet.value("price"), align="right"),
            }
        )
    return draw_grid(sheet, edges, y, rows, stop, look=rng.choice(["ruled", "ruled", "rows", "open", "zebra", "book"]))


def _content(sheet: Sheet, kind: str) -> str:
    if kind == "words":
        return sheet.phrase(1, 4)
    if kind == "sentence":
        return sheet.sentence()
    if kind == "mark":
        return sheet.rng.choice(["x", "-", "1", "2", "", ""])
    return sheet.value(kind) if sheet.rng.random() > 0.06 else ""


def draw_grid(
    sheet: Sheet,
    edges: list[float],
    y: float,
    rows: list[dict[int, _Cell]],
    stop: float,
    *,
    look: str = "open",
    font: Font | None = None,
    head: Font | None = None,
) -> float:
    """Draw cells between vertical edges, as a region; rows that would go beyond ``stop`` are left out.

    ``look`` is ruled, rows (rules between rows), book (rules above, below, and under the head), zebra or open.
    """
    rng = sheet.rng
    font = font or sheet.body.at(sheet.em * 0.92)
    head = head or sheet.strong.at(sheet.em * 0.92)
    pad, step = sheet.em * rng.uniform(0.3, 0.6), font.size * 1.25

    def room(at: int, cell: _Cell) -> float:
        return edges[at + cell.column_span] - edges[at] - 2 * pad

    texts = [
        {at: sheet.broken(cell.text, room(at, cell), head if cell.header else font)[:3] for at, cell in row.items()}
        for row in rows
    ]
    heights = [
        max([len(lines) for at, lines in row.items() if rows[number][at].row_span == 1] or [1]) * step + 2 * pad * 0.8
        for number, row in enumerate(texts)
    ]
    tops = [y]
    for height in heights:
        tops.append(tops[-1] + height)
    count = sum(bottom <= stop for bottom in tops[1:])
    if count < 2:
        return y
    num_heads = sum(any(cell.header for cell in row.values()) for row in rows)
    fill = sheet.tinted(0.18) if look in ("zebra", "ruled") and rng.random() < 0.6 else None
    for number in range(count):
        if fill and (number < num_heads or (look == "zebra" and number % 2 == 0)):
            sheet.box(edges[0], tops[number], edges[-1], tops[number + 1], fill=fill)
    cells: list[DrawnCell] = []

    def table() -> DrawnTable:
        return DrawnTable(count, len(edges) - 1, look == "ruled", tuple(cells))

    with sheet.region("Table", table):
        sheet.belongs(edges[0], tops[0], edges[-1], tops[count])
        for number in range(count):
            for at, cell in sorted(rows[number].items()):
                last, right = min(count, number + cell.row_span), at + cell.column_span
                x0, y0, x1, y1 = edges[at], tops[number], edges[right], tops[last]
                lines, used = [], head if cell.header else font
                texts_of_cell = [text for text in texts[number][at] if text]
                baseline = (y0 + y1 - step * len(texts_of_cell)) / 2 + step * 0.78
                for text in texts_of_cell:
                    x = {"left": x0 + pad, "centre": (x0 + x1) / 2, "right": x1 - pad}[cell.align]
                    lines.append(sheet.write(x, baseline, text, used, align=cell.align))
                    baseline += step
                if look == "ruled":
                    sheet.box(x0, y0, x1, y1, outline=sheet.ink)
                elif look == "rows" or (look == "book" and cell.header):
                    sheet.rule(x0, y1, x1, y1)
                polygon = box_polygon(x0, y0, x1, y1)
                spans = (last - number, cell.column_span)
                cells.append(DrawnCell(number, at, *spans, cell.header, tuple(lines), polygon))
        if look in ("book", "rows"):
            for edge in (tops[0], tops[count]):
                sheet.rule(edges[0], edge, edges[-1], edge, sheet.em / 10)
    return tops[count]


def plain_row(texts: list[str], aligns: list[str], *, header: bool = False) -> dict[int, _Cell]:
    """A row without spans."""
    return {
        at: _Cell(text, align=align, header=header) for at, (text, align) in enumerate(zip(texts, aligns, strict=True))
    }
