"""Small mistakes that a person could make, found in the syntax tree of a module and written into its text.

A fault is kept by the function it is in and by the text of an expression, so that the list survives most changes around
it::

    {"module": "mediatensor.samplers.clips", "function": "Clips.sample", "kind": "comparison",
     "before": "first < last", "after": "first <= last", "occurrence": 0, "test": "tests/media/test_clips.py::test_end"}
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Fault", "find_faults", "plant"]

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.FloorDiv: ast.Mult}
# What these hold is text for people, or is not run.
_LEFT_OUT = (ast.Raise, ast.JoinedStr, ast.AnnAssign, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


# For these calls, swapped arguments are correct, or invalid.
_SYMMETRIC = ("isinstance", "issubclass", "max", "min", "gcd", "cast")


@dataclass(frozen=True)
class Fault:
    """A mistake in an expression.

    Attributes:
        module: Full name.
        function: Qualified name of the function.
        kind: "comparison", "off by one", "dropped branch", "swapped arguments", "and for or" or "sign".
        before, after: The expression.
        occurrence: Which one, if the function has the same expression several times.
        test: A test that finds it, or an empty string.
    """

    module: str
    function: str
    kind: str
    before: str
    after: str
    occurrence: int = 0
    test: str = ""


def find_faults(module: str, source: str) -> Iterator[Fault]:
    """Yield the faults that can be planted in a module."""
    for function, node in _functions(ast.parse(source)):
        seen: Counter[tuple[str, str]] = Counter()
        for expression in _expressions(node):
            before = ast.unparse(expression)
            for kind, changed in _mutations(expression):
                # One line each, so that the list can be read.
                if len(before) <= 100 and changed != before:
                    yield Fault(module, function, kind, before, changed, seen[kind, before])
                    seen[kind, before] += 1


def plant(fault: Fault, path: Path) -> bool:
    """Write a fault into a file; return whether its place is still there."""
    source = path.read_text(encoding="utf-8")
    for function, node in _functions(ast.parse(source)):
        if function != fault.function:
            continue
        places = [
            expression
            for expression in _expressions(node)
            if ast.unparse(expression) == fault.before
            and any((fault.kind, fault.after) == mutation for mutation in _mutations(expression))
        ]
        if fault.occurrence < len(places):
            path.write_text(_replace(source, places[fault.occurrence], f"({fault.after})"), encoding="utf-8")
            return True
    return False


def _functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.AST]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}{node.name}"
            if not isinstance(node, ast.ClassDef) and node.name not in ("__repr__", "__str__"):
                yield name, node
            yield from _functions(node, f"{name}.")
        else:
            yield from _functions(node, prefix)


def _expressions(function: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions of the body of a function, without nested functions."""
    todo: list[ast.AST] = list(getattr(function, "body", []))
    while todo:
        node = todo.pop(0)
        if isinstance(node, _LEFT_OUT):
            continue
        if isinstance(node, ast.If):
            # Marked, so that only the condition of a statement is a branch.
            node.test._is_branch = not node.orelse  # type: ignore[attr-defined]
        if isinstance(node, ast.expr):
            yield node
        todo += ast.iter_child_nodes(node)


def _mutations(node: ast.expr) -> Iterator[tuple[str, str]]:
    """Yield (kind, changed expression)."""
    changed: ast.expr = copy.deepcopy(node)
    if getattr(node, "_is_branch", False):
        yield "dropped branch", "False"
    if isinstance(changed, ast.Compare) and len(changed.ops) == 1 and type(changed.ops[0]) in _COMPARISONS:
        changed.ops = [_COMPARISONS[type(changed.ops[0])]()]
        yield "comparison", ast.unparse(changed)
    elif isinstance(changed, ast.BoolOp):
        changed.op = ast.Or() if isinstance(changed.op, ast.And) else ast.And()
        yield "and for or", ast.unparse(changed)
    elif isinstance(changed, ast.BinOp) and type(changed.op) in _ARITHMETIC:
        right = changed.right
        if isinstance(right, ast.Constant) and type(right.value) is int:
            right.value += 1
            yield "off by one", ast.unparse(changed)
        elif not any(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in ast.walk(changed)):
            changed.op = _ARITHMETIC[type(changed.op)]()
            yield "sign", ast.unparse(changed)
    elif isinstance(changed, ast.Call) and len(changed.args) >= 2 and isinstance(changed.func, ast.Name):
        names = [argument.id for argument in changed.args[:2] if isinstance(argument, ast.Name)]
        if len(set(names)) == 2 and names[0].islower() and changed.func.id not in _SYMMETRIC:
            changed.args[0], changed.args[1] = changed.args[1], changed.args[0]
            yield "swapped arguments", ast.unparse(changed)


def _replace(source: str, node: ast.expr, text: str) -> str:
    lines = source.encode().splitlines(keepends=True)
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    begin = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
    data = source.encode()
    return (data[:begin] + text.encode() + data[end:]).decode()
