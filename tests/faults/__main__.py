"""Plant the faults of the list one by one, and report which ones the suite finds: ``python -m tests.faults``.

Each fault is planted in a copy of the source. Its test in the list runs, and if it passes, the test files that concern
the module run until a test fails, sampled as `make test` samples them. With ``--all``, a fault that they miss is looked
for again by the whole grids and slow tests. A test that fails must pass over the source as it is, or it does not count.

``--choose`` replaces the faults of the list whose places are gone; the seed decides. ``--record`` writes the test that
found a fault into the list.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path

from ..shared import structure
from .mutations import Fault, find_faults, plant
from .running import Result, path_of, run_fault, run_test

__all__ = ["main"]

LIST = Path(__file__).with_name("faults.jsonl")
# How many faults of the list are in each wing.
_NUM_FAULTS = {"media": 45, "data": 20, "text": 27, "data and text": 4, "apps": 11}


def choose(seed: int, kept: list[Fault]) -> list[Fault]:
    """Choose a hundred faults: these first, at most one in a module, and kinds in turn."""
    generator = random.Random(seed)
    chosen: list[Fault] = []
    for wing, number in _NUM_FAULTS.items():
        modules = sorted(module for module in structure.modules() if structure.wing_of(module) == wing)
        generator.shuffle(modules)
        of_wing = [fault for fault in kept if fault.module in modules]
        kinds = Counter(fault.kind for fault in of_wing)
        used = {fault.module for fault in of_wing}
        for module in modules:
            if module in used:
                continue
            faults = list(find_faults(module, path_of(module).read_text(encoding="utf-8")))
            if len(of_wing) < number and faults:
                rarest = min((kinds[fault.kind] for fault in faults), default=0)
                fault = generator.choice([fault for fault in faults if kinds[fault.kind] == rarest])
                kinds[fault.kind] += 1
                of_wing.append(fault)
        chosen += of_wing
    return chosen


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line and run; return 1 if a fault was missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("numbers", nargs="*", type=int, help="only these faults of the list, from 0")
    parser.add_argument("--all", action="store_true", help="look again, with all tests, for faults that were missed")
    parser.add_argument("--seconds", type=float, default=60, help="for each fault (default: %(default)g)")
    parser.add_argument("--choose", type=int, metavar="SEED", help="replace the faults whose places are gone, instead")
    parser.add_argument("--record", action="store_true", help="write the tests that find faults into the list")
    parser.add_argument("-o", "--output", type=Path, help="append results to this file, as lines of JSON")
    options = parser.parse_args(arguments)
    faults = [Fault(**json.loads(line)) for line in LIST.read_text(encoding="utf-8").splitlines()]
    if options.choose is not None:
        _write_list(choose(options.choose, [fault for fault in faults if _is_there(fault)]))
        return 0
    # Imported once, for all processes that are forked from this one.
    import av
    import hypothesis
    import numpy
    import scipy.ndimage
    import torch._dynamo
    from PIL import Image

    print("imported", ", ".join(each.__name__ for each in (av, hypothesis, numpy, scipy.ndimage, torch._dynamo, Image)))
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="mediatensor-test-clips-") as clips:
        os.environ["MEDIATENSOR_TEST_CLIPS"] = clips
        for number in options.numbers or range(len(faults)):
            result = _look_for(faults[number], runs_all=False, seconds=options.seconds)
            if options.all and result.outcome in ("missed", "timed out"):
                result = _look_for(faults[number], runs_all=True, seconds=5 * options.seconds)
                result = replace(result, outcome=f"{result.outcome} by --all")
            outcomes[result.outcome] += 1
            fault = faults[number]
            where = f"{fault.module.removeprefix('mediatensor.')}: {fault.function}: {fault.before} -> {fault.after}"
            print(f"{number:3} {result.outcome:12} {result.seconds:6.1f} s  {where}  [{result.test}]", flush=True)
            if options.record and result.outcome == "found":
                faults[number] = replace(fault, test=result.test.partition("[")[0])
                _write_list(faults)
            if options.output is not None:
                with options.output.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"number": number, **asdict(result)}) + "\n")
    print(", ".join(f"{number} {outcome}" for outcome, number in outcomes.most_common()))
    return int(outcomes["missed"] > 0)


def _write_list(faults: list[Fault]) -> None:
    LIST.write_text("".join(json.dumps(asdict(fault)) + "\n" for fault in faults), encoding="utf-8")


def _is_there(fault: Fault) -> bool:
    path = path_of(fault.module)
    with tempfile.TemporaryDirectory() as folder:
        return path.exists() and plant(fault, Path(shutil.copy(path, folder)))


def _look_for(fault: Fault, *, runs_all: bool, seconds: float) -> Result:
    result = run_fault(fault, runs_all=runs_all, seconds=seconds)
    if result.outcome == "found" and result.test.startswith("tests/"):
        clean = run_test(result.test, seconds)
        if clean.outcome != "missed":
            return replace(result, outcome="unclear", test=f"{result.test} also fails without the fault")
    return result


if __name__ == "__main__":
    sys.exit(main())
