"""Effect of each rule of `mediatensor.ocr.structure`: ``python -m benchmarks.text.structure rules --forms ...``.

Every named number of the rules is set to 0, to 0.7 and 1.4 times its value and to a million times its value, every
predicate is fixed to true and to false, and every step that only corrects a result is left out. The pages are scored
after each change: links of forms and values of receipts, cell adjacency of tables, regions and their order. The pages
that the rules were developed on (``--known``) are scored separately. A rule that can be switched off without a
lower score on any set is unnecessary.
"""

from __future__ import annotations

import argparse
import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from PIL import Image

from mediatensor.ocr import structure
from mediatensor.ocr.io import DocumentFile
from mediatensor.ocr.structure import (
    content_of_picture,
    extract_fields,
    find_fields,
    find_regions,
    find_structure,
    find_tables,
)

from ..shared.machine import machine_stamp
from .structure_adjacency import AdjacencyScore, score_relations
from .structure_fields import LinkScore, box_of_words, form_contents, form_links, score_links, score_values
from .structure_regions import count_right, docbank_page, five_kinds, in_columns_or_rows, kendall_tau, publaynet_truth
from .structure_tables import read_truth, tables_of

__all__ = ["add_command"]

Scores = dict[str, float]
Measure = Callable[[], Scores]
# A change: its name, and (module, attribute, value) to set.
Change = tuple[str, list[tuple[Any, str, Any]]]

_FACTORS = {"0": 0.0, "x 0.7": 0.7, "x 1.4": 1.4, "x 10^6": 1e6}
# Steps that only correct a result: the argument that they return when they are left out, or None for no result.
_STEPS: Mapping[str, int | None] = {
    "drop_sign_columns": 2,
    "drop_slits": 2,
    "_drop_weak_edges": 1,
    "_drop_rules_through_words": None,
    "_cut_to_frame": 1,
    "_join_strays": None,
    "_drop_backgrounds": 0,
    "_join_rows": 1,
    "_drop_chance_pairs": 1,
    "_add_words_of_region": 1,
    "_join_lines": None,
}
_KINDS_OF_BLOCKS = ("_find_margins", "_find_captions", "_find_formulas", "_find_headings", "_find_items",
                    "_find_footnotes", "_find_references")  # fmt: skip


def rule_modules(areas: Sequence[str]) -> list[ModuleType]:
    """Return the modules of `mediatensor.ocr.structure` whose names begin with one of these."""
    names = sorted(path.stem for path in Path(inspect.getfile(structure)).parent.glob("_[a-z]*.py"))
    chosen = [name for name in names if name[1:].startswith(tuple(areas))]
    return [import_module(f"{structure.__name__}.{name}") for name in chosen]


def changes_of(module: ModuleType) -> Iterator[tuple[str, Change]]:
    """Yield the rules of a module, each with one of its changes."""
    for name, value in list(vars(module).items()):
        rule = f"{module.__name__.rpartition('.')[2]}.{name}"
        if isinstance(value, int | float) and not isinstance(value, bool) and name.isupper():
            for label, factor in _FACTORS.items():
                changed = round(value * factor) if isinstance(value, int) else value * factor
                yield rule, (label, [(module, name, changed)])
        elif inspect.isfunction(value) and value.__module__ == module.__name__:
            yield from ((rule, change) for change in _changes_of_function(module, name, value))
        elif inspect.isclass(value) and value.__module__ == module.__name__:
            for method in [part for part in vars(value).values() if inspect.isfunction(part)]:
                if method.__annotations__.get("return") == "bool":
                    for fixed in (False, True):
                        replacement = [(value, method.__name__, lambda *_, fixed=fixed, **__: fixed)]
                        yield f"{rule}.{method.__name__}", (str(fixed).lower(), replacement)


def _changes_of_function(module: ModuleType, name: str, function: Callable[..., Any]) -> Iterator[Change]:
    users = [other for other in rule_modules([""]) if vars(other).get(name) is function]
    if function.__annotations__.get("return") == "bool":
        for fixed in (False, True):
            yield str(fixed).lower(), [(user, name, lambda *_, fixed=fixed, **__: fixed) for user in users]
    elif name in _KINDS_OF_BLOCKS:
        yield "left out", [(module, name, lambda *_: None)]
    elif (place := _STEPS.get(name)) is not None:
        yield "left out", [(user, name, lambda *given, place=place, **__: given[place]) for user in users]


@contextmanager
def changed(change: Change) -> Iterator[None]:
    """Apply a change while the block runs."""
    before = [(owner, name, vars(owner)[name]) for owner, name, _ in change[1]]
    for owner, name, value in change[1]:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


def add_command(commands: Any) -> None:
    """Add ``rules`` to the commands of `benchmarks.structure`."""
    parser = commands.add_parser("rules", help="the effect of each rule", description=__doc__)
    parser.add_argument("areas", nargs="*", default=[], help="beginnings of names of modules, such as fields, table")
    parser.add_argument("--forms", type=Path, help="a folder in the layout of FUNSD")
    parser.add_argument("--receipts", type=Path, help="a folder in the layout of SROIE")
    parser.add_argument("--tables", type=Path, help="a folder of NAME.pdf with NAME-str.xml")
    parser.add_argument("--publaynet", type=Path, help="a folder in the layout of PubLayNet")
    parser.add_argument("--docbank", type=Path, help="a folder in the layout of DocBank")
    parser.add_argument("--words", type=Path, required=True, help="the words as read, by the other commands")
    parser.add_argument("--known", type=Path, help="a list of the pages that the rules were made on")
    parser.add_argument("-o", "--output", type=Path, default=Path("benchmarks/results"), help="folder of the reports")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    known = set(options.known.read_text(encoding="utf-8").split()) if options.known else set()
    measures = _measures(options, {Path(name).stem for name in known})
    rows: list[dict[str, Any]] = []
    for module in rule_modules(options.areas or ["field", "phrases", "table", "region", "finding"]):
        area = module.__name__.rpartition("._")[2]
        of_area = [measure for areas, measure in measures if area.startswith(areas)]
        base = _scores(of_area)
        for rule, change in changes_of(module):
            with changed(change):
                effect = _effect(base, of_area)
            rows.append({"rule": rule, "change": change[0], "effect": effect})
            print(rule, change[0], effect, flush=True)
    document = {"schema": 1, "machine": machine_stamp(), "base": _scores([measure for _, measure in measures]),
                "rows": rows}  # fmt: skip
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "structure_rules.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    (options.output / "structure_rules.md").write_text(_markdown(document), encoding="utf-8")
    return 0


def _scores(measures: Sequence[Measure]) -> Scores:
    return {name: score for measure in measures for name, score in measure().items()}


def _effect(base: Scores, measures: Sequence[Measure]) -> Scores | str:
    """Return the changed scores, as differences in thousandths, or the error if the change is impossible."""
    try:
        scores = _scores(measures)
    except Exception as error:
        return type(error).__name__
    return {name: round(1000 * (scores[name] - base[name]), 1) for name in base if scores[name] != base[name]}


def _measures(options: argparse.Namespace, known: set[str]) -> list[tuple[tuple[str, ...], Measure]]:
    """Return the measures, with the prefixes of the modules that each applies to."""
    measures: list[tuple[tuple[str, ...], Measure]] = []
    if options.forms:
        for split, pages in _split(options.forms, options.words, known):
            annotations = [json.loads(page.read_text(encoding="utf-8")) for page, _, _ in pages]
            sources = [
                {**form_contents(image, annotation), "as read": content_of_picture(image, *_columns(words))}
                for (_, image, words), annotation in zip(pages, annotations, strict=True)
            ]
            links = [form_links(annotation) for annotation in annotations]
            measures.append(
                (("fields_pairs", "phrases"), _links_measure(f"forms, {split}", links, sources, find_fields))
            )
            read = [{"as read": source["as read"]} for source in sources]
            whole = _links_measure(f"forms by find_structure, {split}", links, read, _fields_of_structure)
            measures.append((("table", "region", "finding"), whole))
    if options.receipts:
        for split, pages in _split(options.receipts, options.words, known):
            truths = [json.loads(page.read_text(encoding="utf-8"))["fields"] for page, _, _ in pages]
            contents = [content_of_picture(image, *_columns(words)) for _, image, words in pages]
            measures.append(
                (("fields_asked", "field_rules", "phrases"), _receipts_measure(f"receipts, {split}", truths, contents))
            )
    if options.tables:
        measures.append((("table",), _tables_measure(options.tables)))
    if options.publaynet:
        measures.append((("table", "region"), _publaynet_measure(options.publaynet, options.words)))
    if options.docbank:
        measures.append((("region",), _docbank_measure(options.docbank)))
    return measures


def _split(folder: Path, words: Path, known: set[str]) -> Iterator[tuple[str, list[tuple[Path, Any, Any]]]]:
    """Return annotation, image and words of the read pages: known pages, then unseen ones."""
    for split, is_known in (("known", True), ("unseen", False)):
        pages = []
        for annotation in sorted((folder / "annotations").glob("*.json")):
            file = words / f"{annotation.stem}.json"
            if file.exists() and (annotation.stem in known) == is_known:
                path = next(iter(sorted((folder / "images").glob(f"{annotation.stem}.*"))))
                pages.append((annotation, np.array(Image.open(path).convert("RGB")), json.loads(file.read_text())))
        if pages:
            yield f"{len(pages)} {split}", pages


def _columns(words: Any) -> tuple[Any, Any, Any, Any]:
    texts, boxes, lines, confidences = zip(*words, strict=True) if words else ((), (), (), ())
    return boxes, texts, lines, confidences


def _fields_of_structure(content: Any) -> Any:
    return find_structure(content, fields=True).fields


def _links_measure(name: str, links: Sequence[Any], sources: Sequence[Mapping[str, Any]], find: Any) -> Measure:
    def measure() -> Scores:
        totals: dict[str, LinkScore] = {}
        for wanted, contents in zip(links, sources, strict=True):
            for source, content in contents.items():
                boxes = [
                    (box_of_words(content, field.key_words), box_of_words(content, field.value_words))
                    for field in find(content)
                ]
                totals[source] = totals.get(source, LinkScore()) + score_links(wanted, boxes)
        return {f"{name}, {source}": score.f1 for source, score in totals.items()}

    return measure


def _receipts_measure(name: str, truths: Sequence[Any], contents: Sequence[Any]) -> Measure:
    def measure() -> Scores:
        marks = []
        for truth, content in zip(truths, contents, strict=True):
            found = {field.name: field.value for field in extract_fields(content, "receipt")}
            marks += list(score_values(truth, found).values())
        exact, letters = np.mean(marks, axis=0).tolist()
        return {f"{name}, exact": exact, f"{name}, letters": letters}

    return measure


def _tables_measure(folder: Path) -> Measure:
    truths, contents = [], []
    for truth in sorted(folder.glob("*-str.xml")):
        pdf = folder / f"{truth.name.removesuffix('-str.xml')}.pdf"
        if pdf.exists():
            pages = DocumentFile.from_pdf(pdf)
            truths.append(read_truth(truth))
            contents.append([content for number in range(len(pages)) if (content := pages.page_content(number))])

    def measure() -> Scores:
        total = AdjacencyScore()
        for truth, pages in zip(truths, contents, strict=True):
            found = [relation for content in pages for relation in tables_of(content, find_tables(content))]
            total += score_relations(truth, found)
        return {f"tables, {len(truths)} known files": total.f1}

    return measure


def _publaynet_measure(folder: Path, words: Path) -> Measure:
    pages = []
    for name, wanted in publaynet_truth(folder):
        file = words / "publaynet" / f"{name}.json"
        if file.exists():
            image = np.array(Image.open(folder / name).convert("RGB"))
            pages.append((wanted, content_of_picture(image, *_columns(json.loads(file.read_text())["words"]))))

    def measure() -> Scores:
        counts = np.zeros(3)
        for wanted, content in pages:
            found = five_kinds(find_regions(content, find_tables(content)))
            counts += (sum(count_right(wanted, found).values()), len(found), len(wanted))
        return {f"regions, {len(pages)} pages": float(2 * counts[0] / max(1, counts[1] + counts[2]))}

    return measure


def _docbank_measure(folder: Path) -> Measure:
    pages = [(path, *docbank_page(path)) for path in sorted(folder.glob("*.txt"))]

    def measure() -> Scores:
        taus = []
        for path, boxes, labels, content in pages:
            regions = find_regions(content, find_tables(content))
            order = np.array([word for region in regions for word in region.words], np.int64)
            taus.append(kendall_tau(np.argsort(in_columns_or_rows(path, boxes, labels))[order].tolist()))
        return {f"order, {len(pages)} pages": float(np.mean(taus))}

    return measure


def _markdown(document: Mapping[str, Any]) -> str:
    lines = ["# Rules of structure", "", (__doc__ or "").partition("\n\n")[2].strip(), "", "Scores:", ""]
    lines += [f"- {name}: {score:.4f}" for name, score in document["base"].items()]
    lines += ["", "Effects are score differences in thousandths. Unnamed sets do not change.", ""]
    lines += ["| rule | changes that have no effect | effects of other changes |", "| --- | --- | --- |"]
    by_rule: dict[str, list[tuple[str, str]]] = {}
    for row in document["rows"]:
        effect = row["effect"]
        if not isinstance(effect, str):
            effect = ", ".join(f"{name} {value:+.1f}" for name, value in effect.items())
        by_rule.setdefault(row["rule"], []).append((row["change"], effect))
    for rule, changes in by_rule.items():
        without = ", ".join(change for change, effect in changes if not effect)
        effects = "; ".join(f"{change}: {effect}" for change, effect in changes if effect)
        lines.append(f"| `{rule}` | {without} | {effects} |")
    return "\n".join([*lines, "", *(f"- {key}: {value}" for key, value in document["machine"].items()), ""])
