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
import ast
import inspect
import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from mediatensor.ocr import _reading_order, structure

from ..shared.machine import machine_stamp
from .structure_measures import Measure, Scores, make_measures

__all__ = ["add_command", "changed", "changes_of", "conditions_of", "rule_modules"]

# A change: its name, and (module, attribute, value) to set.
Change = tuple[str, list[tuple[Any, str, Any]]]
# Where a node of code has a part: the name of the attribute, and the place in it, if it is a list.
Slot = tuple[str, int | None]

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
    "_cut_text_at_ends": 0,
    "_widen_to_columns": 0,
    "_full_extents": None,
    "_vote_with_near_gaps": 0,
}
_KINDS_OF_BLOCKS = ("_find_margins", "_find_captions", "_find_formulas", "_find_headings", "_find_items",
                    "_find_footnotes", "_find_references")  # fmt: skip
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


def changes_of(module: ModuleType, conditions: bool) -> Iterator[tuple[str, Change]]:
    """Yield the rules of a module, each with one of its changes."""
    for name, value in list(vars(module).items()):
        rule = f"{module.__name__.rpartition('.')[2]}.{name}"
        if isinstance(value, int | float) and not isinstance(value, bool) and name.isupper():
            for label, factor in _FACTORS.items():
                changed = round(value * factor) if isinstance(value, int) else value * factor
                yield rule, (label, [(module, name, changed)])
        elif inspect.isfunction(value) and value.__module__ == module.__name__:
            yield from ((rule, change) for change in _changes_of_function(module, name, value))
            if conditions:
                yield from ((rule, change) for change in _changes_of_conditions(module, name, value))
        elif inspect.isclass(value) and value.__module__ == module.__name__:
            for part in list(vars(value).values()):
                method = getattr(part, "func", part)
                if inspect.isfunction(method) and method.__annotations__.get("return") == "bool":
                    for fixed in (False, True):
                        given: Any = lambda *_, fixed=fixed, **__: fixed  # noqa: E731
                        replacement = [(value, method.__name__, given if part is method else property(given))]
                        yield f"{rule}.{method.__name__}", (str(fixed).lower(), replacement)


def _users(name: str, function: Callable[..., Any]) -> list[ModuleType]:
    return [other for other in rule_modules([""]) if vars(other).get(name) is function]


def _changes_of_function(module: ModuleType, name: str, function: Callable[..., Any]) -> Iterator[Change]:
    users = _users(name, function)
    if function.__annotations__.get("return") == "bool":
        for fixed in (False, True):
            yield str(fixed).lower(), [(user, name, lambda *_, fixed=fixed, **__: fixed) for user in users]
    elif name in _KINDS_OF_BLOCKS:
        yield "left out", [(module, name, lambda *_: None)]
    elif (place := _STEPS.get(name)) is not None:
        yield "left out", [(user, name, lambda *given, place=place, **__: given[place]) for user in users]


def _changes_of_conditions(module: ModuleType, name: str, function: FunctionType) -> Iterator[Change]:
    """Yield the function without each of its conditions in turn."""
    source = _parse(function)
    for place, node in enumerate(ast.walk(source)):
        for label, slot, neutral in conditions_of(node):
            copy = deepcopy(source)
            _set(list(ast.walk(copy))[place], slot, ast.Constant(neutral))
            yield f"without {label}", _replacement(module, name, function, copy)


def _parse(function: FunctionType) -> ast.Module:
    """Return the code of a function without annotations, which hold no conditions."""
    source = ast.parse(inspect.getsource(function))
    for part in ast.walk(source):
        if isinstance(part, ast.FunctionDef):
            part.returns = None
        elif isinstance(part, ast.arg):
            part.annotation = None
        elif isinstance(part, ast.AnnAssign):
            part.annotation = ast.Constant(None)
    return source


def _replacement(
    module: ModuleType, name: str, function: FunctionType, source: ast.Module
) -> list[tuple[Any, str, Any]]:
    namespace: dict[str, Any] = {}
    exec(compile(ast.fix_missing_locations(source), function.__code__.co_filename, "exec"), vars(module), namespace)
    return [(user, name, namespace[name]) for user in _users(name, function)]


def conditions_of(node: ast.AST) -> Iterator[tuple[str, Slot, bool | float]]:
    """Yield the conditions of a node: name, slot in the node, and the value that leaves the condition out."""
    if isinstance(node, ast.BoolOp):
        for place, part in enumerate(node.values):
            yield ast.unparse(part), ("values", place), isinstance(node.op, ast.And)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr):
        for side in ("left", "right"):
            yield ast.unparse(getattr(node, side)), (side, None), isinstance(node.op, ast.BitAnd)
    elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.BitAnd | ast.BitOr):
        yield ast.unparse(node), ("value", None), isinstance(node.op, ast.BitAnd)
    elif isinstance(node, ast.If) and not node.orelse:
        yield f"if {ast.unparse(node.test)}", ("test", None), False
    elif isinstance(node, ast.IfExp):
        for fixed in (False, True):
            yield f"if {ast.unparse(node.test)}, {str(fixed).lower()}", ("test", None), fixed
    elif isinstance(node, ast.comprehension):
        for place, part in enumerate(node.ifs):
            yield ast.unparse(part), ("ifs", place), True
    elif (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Mult)
        and isinstance(node.left, ast.Constant)
        and isinstance(node.right, ast.Compare | ast.BoolOp | ast.Name | ast.UnaryOp | ast.Call)
    ):
        # A vote, or a limit.
        yield ast.unparse(node), ("right", None), 0.0


def _set(node: Any, slot: Slot, value: ast.expr) -> None:
    name, place = slot
    if place is None:
        setattr(node, name, value)
    else:
        getattr(node, name)[place] = value


def _count_conditions(module: ModuleType, measures: Sequence[Measure]) -> Counter[tuple[str, str]]:
    """Count how often each condition of a module has a value on unseen pages that leaving it out would change."""
    counts: Counter[tuple[str, str]] = Counter()

    def note(rule: str, label: str, neutral: bool | float, value: Any) -> Any:
        counts[rule, label] += int(np.asarray(value, dtype=object).astype(bool).ravel().__ne__(bool(neutral)).sum())
        return value

    replaced: list[tuple[Any, str, Any]] = []
    for name, function in list(vars(module).items()):
        if inspect.isfunction(function) and function.__module__ == module.__name__:
            source = _parse(function)
            for node in list(ast.walk(source)):
                for label, slot, neutral in list(conditions_of(node)):
                    part = getattr(node, slot[0]) if slot[1] is None else getattr(node, slot[0])[slot[1]]
                    given = [ast.Constant(value) for value in (name, f"without {label}", neutral)]
                    _set(node, slot, ast.Call(ast.Name("__note__", ast.Load()), [*given, part], []))
            replaced += _replacement(module, name, function, source)
    vars(module)["__note__"] = note
    with changed(("noted", replaced)):
        for measure in measures:
            measure.results()
    del vars(module)["__note__"]
    return counts


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
    areas = options.areas or ["field", "phrases", "table", "region", "finding", "columns", "ordering"]
    modules = rule_modules(areas)
    names = [module.__name__.rpartition(".")[2].strip("_") for module in modules]
    bases = [_Base(measure) for measure in make_measures(options, names)]
    print(*((base.scores, f"{base.seconds:.1f} s") for base in bases), sep="\n")
    rows: list[dict[str, Any]] = []
    for module, area in zip(modules, names, strict=True):
        of_area = [base for base in bases if area.startswith(base.measure.areas)]
        unseen = [base.measure for base in of_area if any("unseen" in name for name in base.scores)]
        decisions = _count_conditions(module, unseen) if options.conditions else Counter()
        for rule, change in changes_of(module, options.conditions):
            with changed(change):
                effect = _effect(of_area, options.until_lower)
            label = change[0]
            if label.startswith("without"):
                label += f" ({decisions[rule.rpartition('.')[2], label]} decisions)"
            rows.append({"rule": rule, "change": label, "effect": effect})
            print(rule, label, effect, flush=True)
    document = {"schema": 1, "machine": machine_stamp(), "rows": rows,
                "base": {name: score for base in bases for name, score in base.scores.items()}}  # fmt: skip
    options.output.mkdir(parents=True, exist_ok=True)
    stem = options.output / options.name
    stem.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    stem.with_suffix(".md").write_text(_markdown(document), encoding="utf-8")
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
            with _time_limit(1 + _PATIENCE * base.seconds):
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


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _markdown(document: Mapping[str, Any]) -> str:
    lines = ["# Rules of structure", "", (__doc__ or "").partition("...``\n\n")[2].strip(), "", "Scores:", ""]
    lines += [f"- {name}: {score:.4f}" for name, score in document["base"].items()]
    note = "Effects are score differences in thousandths, with the number of pages whose results differ."
    lines += ["", f"{note} Unnamed sets do not change.", ""]
    lines += ["| rule | changes that have no effect | effects of other changes |", "| --- | --- | --- |"]
    by_rule: dict[str, list[tuple[str, str]]] = {}
    for row in document["rows"]:
        effect = row["effect"]
        if not isinstance(effect, str):
            effect = ", ".join(f"{name} {value:+.1f}" for name, value in effect.items())
        by_rule.setdefault(row["rule"], []).append((row["change"], effect))
    for rule, changes in by_rule.items():
        without = ", ".join(_cell(change) for change, effect in changes if not effect)
        effects = "; ".join(f"{_cell(change)}: {effect}" for change, effect in changes if effect)
        lines.append(f"| `{rule}` | {without} | {effects} |")
    return "\n".join([*lines, "", *(f"- {key}: {value}" for key, value in document["machine"].items()), ""])


def _cell(change: str) -> str:
    if not change.startswith("without"):
        return change
    label, _, count = change.rpartition(" (")
    return f"`{label}` ({count}".replace("|", "\\|")
