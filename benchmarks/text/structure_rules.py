"""Effect of each rule of `mediatensor.ocr.structure` and of the reading order of lines.

``python -m benchmarks.text.structure rules --words FOLDER --forms FOLDER ...``

Every named number of the rules is set to 0, to 0.7 and 1.4 times its value and to a million times its value, every
predicate is fixed to true and to false, and every step that only corrects a result is left out. With ``--conditions``,
every condition inside a function is left out as well: a part of an ``and`` or ``or``, an ``if`` without ``else``, a
mask, and a vote. The number of decisions says how often the condition was not neutral on unseen pages: 0 means that
they do not test it. The pages are scored after each change: links of forms and values of receipts, cell adjacency of
tables, regions and their order. The pages that the rules were developed on (``--known``, the first seeds of drawn
pages, all papers and tables) are scored separately. A rule that can be switched off without a lower score on any set
is unnecessary.
"""

from __future__ import annotations

import argparse
import inspect
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from mediatensor.ocr import _reading_order, structure

from ..shared.machine import machine_stamp
from ..shared.reports import fact_list, write_report
from .rules import changed, changes_of, count_decisions, rule_table, time_limit
from .structure_measures import Measure, Scores, make_measures

__all__ = ["add_command", "rule_modules"]

# Steps that only correct a result: the argument that they return when they are left out, or None for no result.
_STEPS: Mapping[str, int | None] = {
    "drop_sign_columns": 2,
    "_drop_weak_edges": 1,
    "_drop_rules_through_words": None,
    "_cut_to_frame": 1,
    "_join_strays": None,
    "_drop_backgrounds": 0,
    "_join_rows": 1,
    "_drop_chance_pairs": 1,
    "_add_words_of_region": 1,
    "_join_lines": None,
    "_cut_text_at_ends": 0,
    "_widen_to_columns": 0,
    "_full_extents": None,
    "_vote_with_near_gaps": 0,
    "_find_margins": None,
    "_find_captions": None,
    "_find_formulas": None,
    "_find_headings": None,
    "_find_items": None,
    "_find_footnotes": None,
    "_find_references": None,
}
# A changed condition may make a loop endless, so each measure stops after this many times its usual duration.
_PATIENCE = 10


def rule_modules(areas: Sequence[str]) -> list[ModuleType]:
    """Return the modules of rules whose names, without underscore, begin with one of these."""
    found = []
    for package in (structure, _reading_order):
        names = sorted(path.stem for path in Path(inspect.getfile(package)).parent.glob("*[a-z].py"))
        chosen = [name for name in names if name.strip("_").startswith(tuple(areas))]
        found += [import_module(f"{package.__name__}.{name}") for name in chosen]
    return found


def add_command(commands: Any) -> None:
    """Add ``rules`` to the commands of `benchmarks.text.structure`."""
    parser = commands.add_parser("rules", help="the effect of each rule", description=__doc__)
    parser.add_argument("areas", nargs="*", default=[], help="beginnings of names of modules, such as fields, table")
    parser.add_argument("--forms", type=Path, help="a folder in the layout of FUNSD")
    parser.add_argument("--receipts", type=Path, help="a folder in the layout of SROIE")
    parser.add_argument("--tables", type=Path, help="a folder of NAME.pdf with NAME-str.xml")
    parser.add_argument("--publaynet", type=Path, help="a folder in the layout of PubLayNet")
    parser.add_argument("--docbank", type=Path, help="a folder in the layout of DocBank")
    parser.add_argument("--words", type=Path, required=True, help="the words as read, by the other commands")
    parser.add_argument("--known", type=Path, help="a list of the pages that the rules were made on")
    parser.add_argument("--conditions", action="store_true", help="also leave out each condition inside a function")
    parser.add_argument("--until-lower", action="store_true", help="skip the other sets once a score is lower")
    parser.add_argument("-o", "--output", type=Path, default=Path("benchmarks/results"), help="folder of the reports")
    parser.add_argument("--name", default="structure_rules", help="name of the reports")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    areas = options.areas or ["field", "text_lines", "table", "region", "finding", "boxes", "ordering"]
    modules = rule_modules(areas)
    names = [module.__name__.rpartition(".")[2].strip("_") for module in modules]
    bases = [_Base(measure) for measure in make_measures(options, names)]
    print(*((base.scores, f"{base.seconds:.1f} s") for base in bases), sep="\n")
    rows: list[dict[str, Any]] = []
    for module, area in zip(modules, names, strict=True):
        of_area = [base for base in bases if area.startswith(base.measure.areas)]
        unseen = [base.measure for base in of_area if any("unseen" in name for name in base.scores)]
        decisions: Counter[tuple[str, str]] = Counter()
        if options.conditions:
            decisions = count_decisions(module, [measure.results for measure in unseen], conditions=True)
        for rule, change in changes_of(module, conditions=options.conditions, steps=_STEPS):
            with changed(change):
                effect = _effect(of_area, options.until_lower)
            label = change[0]
            if label.startswith("without"):
                label += f" ({decisions[rule.rpartition('.')[2], label]} decisions)"
            rows.append({"rule": rule, "change": label, "effect": effect})
            print(rule, label, effect, flush=True)
    document = {"schema": 1, "machine": machine_stamp(), "rows": rows,
                "base": {name: score for base in bases for name, score in base.scores.items()}}  # fmt: skip
    write_report(options.output, options.name, document, _markdown(document))
    return 0


class _Base:
    """The results and scores of a measure without any change, and the seconds that it takes."""

    def __init__(self, measure: Measure) -> None:
        self.measure = measure
        start = time.monotonic()
        self.results = measure.results()
        self.seconds = time.monotonic() - start
        self.scores = measure.scores(self.results)


def _effect(bases: Sequence[_Base], until_lower: bool) -> Scores | str:
    """Return differences of scores in thousandths, and numbers of other pages; the error if a change is impossible."""
    effect: Scores = {}
    for base in bases:
        try:
            with time_limit(1 + _PATIENCE * base.seconds):
                results = base.measure.results()
            differing = sum(repr(one) != repr(other) for one, other in zip(results, base.results, strict=True))
            scores = base.measure.scores(results) if differing else base.scores
        except Exception as error:
            return type(error).__name__
        for name in base.scores:
            if differing:
                effect[f"{name} ({differing} differ)"] = round(1000 * (scores[name] - base.scores[name]), 1)
        if until_lower and min(effect.values(), default=0.0) < 0:
            break
    return effect


def _markdown(document: Mapping[str, Any]) -> str:
    lines = ["# Rules of structure", "", (__doc__ or "").partition("...``\n\n")[2].strip(), "", "Scores:", ""]
    lines += [f"- {name}: {score:.4f}" for name, score in document["base"].items()]
    note = "Effects are score differences in thousandths, with the number of pages whose results differ."
    lines += ["", f"{note} Unnamed sets do not change.", ""]
    rows = []
    for row in document["rows"]:
        effect = row["effect"]
        if not isinstance(effect, str):
            effect = ", ".join(f"{name} {value:+.1f}" for name, value in effect.items())
        rows.append((row["rule"], row["change"], effect))
    return "\n".join([*lines, *rule_table(rows), "", fact_list(document["machine"]), ""])
