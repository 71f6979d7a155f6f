"""Change the rules of modules one at a time, to measure the effect of each.

A rule is a named number, a predicate (a function that returns ``bool``), or a step that only corrects a result. With
conditions, each condition inside a function is a rule as well: a part of an ``and`` or ``or``, an ``if`` without
``else``, a mask, and a vote.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import inspect
import signal
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from types import FunctionType, ModuleType
from typing import Any, Literal, Protocol, TypeVar

import numpy as np

from ..shared.options import add_output
from ..shared.reports import fact_list, markdown_table, say

__all__ = [
    "Change",
    "Figures",
    "add_rules",
    "changed",
    "changes_of",
    "conditions_of",
    "count_decisions",
    "effect_on",
    "is_chosen",
    "is_decided",
    "measure_changes",
    "numbers_of",
    "remember",
    "rule_table",
    "rules_report",
    "time_limit",
]

# A change: its name, and (module, attribute, value) to set.
Change = tuple[str, list[tuple[Any, str, Any]]]
# Where a node of code has a part: the name of the attribute, and the place in it, if it is a list.
Slot = tuple[str, int | None]

# Counts by name.
Figures = dict[str, int]

FACTORS = {"0": 0.0, "x 0.7": 0.7, "x 1.4": 1.4, "x 10^6": 1e6}
_SMALL = ("x 0.7", "x 1.4")


def changes_of(
    module: ModuleType, *, conditions: bool = False, steps: Mapping[str, int | None] | None = None
) -> Iterator[tuple[str, Change]]:
    """Yield the rules of a module, each with one of its changes.

    Args:
        module: The module.
        conditions: Whether to leave out each condition inside a function as well.
        steps: Names of functions that only correct a result, such as ``function`` or ``Class.method``. The number is
            the argument that they return when they are left out; None stands for no result.
    """
    short = module.__name__.rpartition(".")[2]
    for name, value in list(vars(module).items()):
        if name.isupper():
            yield from ((f"{short}.{rule}", change) for rule, change in _changes_of_numbers(module, name, value))
    for function in _functions_of(module):
        rule = f"{short}.{function.name}"
        if function.is_predicate:
            for fixed in (False, True):
                yield rule, (str(fixed).lower(), function.replaced(lambda *_, fixed=fixed, **__: fixed))
        elif steps and function.name in steps:
            place = steps[function.name]
            given = (lambda *_, **__: None) if place is None else (lambda *values, place=place, **__: values[place])
            yield rule, ("left out", function.replaced(given))
        if conditions:
            yield from ((rule, change) for change in _changes_of_conditions(module, function))


def numbers_of(module: ModuleType) -> set[str]:
    """Return the names of the numbers that a module defines, without those that it imports."""
    parts = ast.parse(inspect.getsource(module)).body
    targets = [target for part in parts if isinstance(part, ast.Assign) for target in part.targets]
    names = {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
    return {name for name in names if name.isupper()}


def _changes_of_numbers(module: ModuleType, name: str, value: Any) -> Iterator[tuple[str, Change]]:
    """Yield the changes of a named number, or of each number of a tuple."""
    numbers = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers):
        return
    for place, number in enumerate(numbers):
        for label, factor in FACTORS.items():
            other = round(number * factor) if isinstance(number, int) else number * factor
            if other != number:
                given = (*value[:place], other, *value[place + 1 :]) if numbers is value else other
                rule = f"{name}[{place}]" if numbers is value else name
                yield rule, (label, [(module, name, given)])


class _Function:
    """A function of a module, or a method or a property of one of its classes."""

    def __init__(self, owner: Any, attribute: str, value: Any) -> None:
        self.owner, self.attribute, self.value = owner, attribute, value
        self.name = f"{owner.__name__}.{attribute}" if inspect.isclass(owner) else attribute
        self.is_property = any(hasattr(value, part) for part in ("fget", "func"))
        found = getattr(value, "fget", None) or getattr(value, "func", value)
        self.code: Any = inspect.unwrap(found) if callable(found) else found

    @property
    def is_predicate(self) -> bool:
        return bool(self.code.__annotations__.get("return") == "bool")

    def replaced(self, other: Any) -> list[tuple[Any, str, Any]]:
        """Return what to set to use another function, in every module that imports this one."""
        if inspect.isclass(self.owner):
            wrapped = property(other) if self.is_property and not isinstance(other, property) else other
            return [(self.owner, self.attribute, wrapped)]
        package = self.owner.__name__.partition(".")[0]
        users = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == package]
        return [(user, self.attribute, other) for user in users if vars(user).get(self.attribute) is self.value]


def _functions_of(module: ModuleType) -> Iterator[_Function]:
    for name, value in list(vars(module).items()):
        if getattr(value, "__module__", None) != module.__name__:
            continue
        parts = [(value, *part) for part in vars(value).items()] if inspect.isclass(value) else [(module, name, value)]
        for part in parts:
            function = _Function(*part)
            # Classes also have generated methods, which have no code here.
            if inspect.isfunction(function.code) and function.code.__code__.co_filename == module.__file__:
                yield function


def _changes_of_conditions(module: ModuleType, function: _Function) -> Iterator[Change]:
    """Yield the function without each of its conditions in turn."""
    source = _parse(function.code)
    for place, node in enumerate(ast.walk(source)):
        for label, slot, neutral in conditions_of(node):
            copy = deepcopy(source)
            _set(list(ast.walk(copy))[place], slot, ast.Constant(neutral))
            yield f"without {label}", function.replaced(_compile(module, function.code, copy))


def _parse(function: FunctionType) -> ast.Module:
    """Return the code of a function without annotations, which hold no conditions."""
    source = ast.parse(textwrap.dedent(inspect.getsource(function)))
    for part in ast.walk(source):
        if isinstance(part, ast.FunctionDef):
            part.returns = None
        elif isinstance(part, ast.arg):
            part.annotation = None
        elif isinstance(part, ast.AnnAssign):
            part.annotation = ast.Constant(None)
    return source


def _compile(module: ModuleType, function: FunctionType, source: ast.Module) -> Any:
    namespace: dict[str, Any] = {}
    exec(compile(ast.fix_missing_locations(source), function.__code__.co_filename, "exec"), vars(module), namespace)
    return namespace[function.__name__]


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


def is_decided(label: str) -> bool:
    """Return whether a change fixes a predicate or leaves out a condition, so that its decisions can be counted."""
    return label in ("false", "true") or label.startswith("without")


def count_decisions(
    module: ModuleType, measures: Iterable[Callable[[], object]], *, conditions: bool = False
) -> Counter[tuple[str, str]]:
    """Count how often the measures test the changes of predicates and conditions of a module.

    Keys are the name of a function and of a change. The count says how often a predicate or a condition has a value
    that the change would replace by another.
    """
    counts: Counter[tuple[str, str]] = Counter()

    def note(rule: str, label: str, neutral: bool | float, value: Any) -> Any:
        counts[rule, label] += int(np.asarray(value, dtype=object).astype(bool).ravel().__ne__(bool(neutral)).sum())
        return value

    def noting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **options: Any) -> Any:
            value = function(*given, **options)
            counts[name, "false" if value else "true"] += 1
            return value

        return call

    replaced: list[tuple[Any, str, Any]] = []
    for function in list(_functions_of(module)):
        code: Any = function.code
        if conditions:
            source = _parse(function.code)
            for node in list(ast.walk(source)):
                for label, slot, neutral in list(conditions_of(node)):
                    part = getattr(node, slot[0]) if slot[1] is None else getattr(node, slot[0])[slot[1]]
                    given = [ast.Constant(value) for value in (function.name, f"without {label}", neutral)]
                    _set(node, slot, ast.Call(ast.Name("__note__", ast.Load()), [*given, part], []))
            code = _compile(module, function.code, source)
        if function.is_predicate:
            called = getattr(code, "fget", None) or getattr(code, "func", code)
            code = noting(function.name, called)
        if code is not function.code:
            replaced += function.replaced(code)
    vars(module)["__note__"] = note
    with changed(("noted", replaced)):
        for measure in measures:
            measure()
    del vars(module)["__note__"]
    return counts


def add_rules(parser: argparse.ArgumentParser, unit: str, name: str) -> None:
    """Add the options of measuring rules on pages or clips, which is the ``unit``, and of reports with a name."""
    parser.add_argument("--rules", nargs="+", metavar="NAME", help="only rules with these names, such as LEAST_GAP")
    parser.add_argument("--conditions", action="store_true", help="also leave out each condition inside a function")
    parser.add_argument(
        "--changes", choices=("large", "small"), help="small: the factors of 0.7 and 1.4 (default: both)"
    )
    parser.add_argument("--enough", type=int, metavar="N", help=f"read no more {unit} once these many counts are lost")
    parser.add_argument("--name", default=name, help="name of the reports")
    add_output(parser)


def is_chosen(rule: str, names: Sequence[str] | None) -> bool:
    """Return whether a rule, such as ``words.WEIGHTS[0]``, has one of the names of ``--rules``, with or without module.

    All rules are chosen if ``names`` is None.
    """
    return names is None or rule in names or rule.partition(".")[2].partition("[")[0] in names


@contextmanager
def changed(change: Change) -> Iterator[None]:
    """Apply a change while the block runs. Cached results of the changed modules are discarded before and after."""
    before = [(owner, name, vars(owner)[name]) for owner, name, _ in change[1]]
    _set_all(change[1])
    try:
        yield
    finally:
        _set_all(before)


def _set_all(values: Sequence[tuple[Any, str, Any]]) -> None:
    for owner, name, value in values:
        setattr(owner, name, value)
        for function in vars(sys.modules[getattr(owner, "__module__", owner.__name__)]).values():
            if hasattr(function, "cache_clear"):
                function.cache_clear()


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `TimeoutError` if the block runs for longer."""

    def stop(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def remember(results: dict[bytes, Any], inputs: Iterable[Any], compute: Callable[[], Any]) -> Any:
    """Return ``compute()``, or the earlier result for inputs with the same values. Inputs are tensors or arrays."""
    digest = hashlib.blake2b(digest_size=16)
    for values in inputs:
        pixels = np.ascontiguousarray(values)
        digest.update(str(pixels.shape).encode())
        digest.update(pixels)
    key = digest.digest()
    if key not in results:
        results[key] = compute()
    return results[key]


class Measured(Protocol):
    """Something that is read again after each change, such as a page, and what it counts without any change."""

    set: str
    figures: Figures


MeasuredT = TypeVar("MeasuredT", bound=Measured)


def effect_on(
    items: Iterable[MeasuredT],
    read: Callable[[MeasuredT], Figures | None],
    *,
    more: Sequence[str],
    less: Sequence[str],
    enough: int | None,
) -> dict[str, Figures]:
    """Read all items after a change, and return the differences of the figures of each set that changes.

    The figures "differ" and "not read" are the numbers of items whose results differ, and of items left out because
    ``enough`` was lost before.

    Args:
        items: The items, those that are read first at the beginning.
        read: Reads an item. It returns the item's figures, or ``None`` if the result does not differ in any way.
        more: Figures of which more is better.
        less: Figures of which less is better.
        enough: Stop reading once this many counts are lost; ``None`` reads all items.
    """
    effect: dict[str, Counter[str]] = {}
    lost = 0
    for item in items:
        counts = effect.setdefault(item.set, Counter())
        if enough is not None and lost >= enough:
            counts["not read"] += 1
            continue
        figures = read(item)
        if figures is None:
            continue
        counts["differ"] += 1
        for name, count in figures.items():
            change = count - item.figures[name]
            counts[name] += change
            lost += max(0, -change if name in more else change if name in less else 0)
    return {
        name: {key: count for key, count in counts.items() if count}
        for name, counts in effect.items()
        if counts["differ"]
    }


def measure_changes(
    changes: Iterable[tuple[str, Change, int]],
    measure: Callable[[str], dict[str, Figures]],
    unit: str,
    *,
    seconds: float,
    only: Literal["large", "small"] | None = None,
) -> list[dict[str, Any]]:
    """Make the changes one by one, and return a row for each: rule, change, effect and number of decisions.

    Small changes are last. They are left out if neither limit of the number has an effect, because then values in
    between have none. If a change is impossible, its effect is the name of the error.

    Args:
        changes: Each rule, its change, and how often the rule was decided.
        measure: Returns the effect of the change that is made now, see `effect_on`. It gets the rule.
        unit: The items, in the plural.
        seconds: Time limit for each change.
        only: Make only the changes of this size. Whatever is not small is large.
    """
    rows: list[dict[str, Any]] = []
    inert: set[tuple[str, str]] = set()
    for rule, change, decisions in sorted(changes, key=lambda entry: entry[1][0] in _SMALL):
        label = change[0]
        is_small = label in _SMALL
        if only is not None and is_small != (only == "small"):
            continue
        if is_small and {(rule, "0"), (rule, "x 10^6")} <= inert:
            continue
        try:
            with changed(change), time_limit(seconds):
                effect: Any = measure(rule)
        except Exception as error:
            effect = type(error).__name__
        if not effect:
            inert.add((rule, label))
        rows.append({"rule": rule, "change": label, "effect": effect, "decisions": decisions})
        say(f"{rule} {label} ({decisions}) {_effect_text(effect, unit)}")
    return rows


def rules_report(
    title: str, module: str | None, base: Mapping[str, Figures], document: Mapping[str, Any], unit: str
) -> str:
    """Return the report of a sweep in Markdown.

    Args:
        title: The heading.
        module: Docstring of the module, whose text after the first sentence becomes the description.
        base: The figures of each set without any change.
        document: ``"rows"`` of `measure_changes`, and the ``"machine"``.
        unit: The items, in the plural.
    """
    lines = [f"# {title}", "", (module or "").partition("``.\n\n")[2].strip(), ""]
    names = list(base)
    figures = ([figure, *(base[name][figure] for name in names)] for figure in base[names[0]])
    lines.append(markdown_table(["figure", *names], figures))
    note = f"Effects are differences of these counts. *Differ* is the number of {unit} whose results differ in any way."
    lines += ["", f"{note} Unnamed sets do not change.", ""]
    places = {row["rule"]: place for place, row in reversed(list(enumerate(document["rows"])))}
    rows = []
    for row in sorted(document["rows"], key=lambda row: places[row["rule"]]):
        label = row["change"]
        if is_decided(label):
            label += f" ({row['decisions']} decisions)"
        rows.append((row["rule"], label, _effect_text(row["effect"], unit)))
    return "\n".join([*lines, *rule_table(rows), "", fact_list(document["machine"]), ""])


def _effect_text(effect: Any, unit: str) -> str:
    """Return one line for an effect: the differences of the figures of each set, or the name of an error.

    The figures "differ" and "not read" are numbers of items that the ``unit`` names, such as clips.
    """
    if isinstance(effect, str):
        return effect
    return ", ".join(
        f"{name}: {figures['differ']} differ"
        + "".join(f", {figure} {count:+d}" for figure, count in figures.items() if figure not in ("differ", "not read"))
        + (f" ({figures['not read']} {unit} not read)" if "not read" in figures else "")
        for name, figures in effect.items()
    )


def rule_table(rows: Iterable[tuple[str, str, str]]) -> list[str]:
    """Return the lines of a table of (rule, change, effect), with an empty effect for changes that have none."""
    lines = ["| rule | changes that have no effect | effects of other changes |", "| --- | --- | --- |"]
    by_rule: dict[str, list[tuple[str, str]]] = {}
    for rule, change, effect in rows:
        by_rule.setdefault(rule, []).append((change, effect))
    for rule, changes in by_rule.items():
        without = ", ".join(_cell(change) for change, effect in changes if not effect)
        effects = "; ".join(f"{_cell(change)}: {effect}" for change, effect in changes if effect)
        lines.append(f"| `{rule}` | {without} | {effects} |")
    return lines


def _cell(change: str) -> str:
    if not change.startswith("without"):
        return change
    label, _, count = change.rpartition(" (")
    return f"`{label}` ({count}".replace("|", "\\|")
