"""``--processes`` runs each file of tests in one of several forked processes, and reports all that happens there."""

from __future__ import annotations

import os
import re

import pytest

pytest_plugins = ["pytester"]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

FILE = """
import os, signal, time, warnings
import pytest

@pytest.fixture(scope="module")
def shared():
    yield os.getpid()
    with open("ends", "a") as file:
        print(os.getpid(), file=file)

@pytest.fixture(scope="session")
def of_process(tmp_path_factory):
    path = tmp_path_factory.mktemp("made") / "here"
    path.touch()
    yield path
    path.rename(path.with_name("ended"))

@pytest.mark.parametrize("number", range(10))
def test_pass(shared, of_process, number):
    assert shared == os.getpid() and of_process.exists()
    with open("processes", "a") as file:
        print(__name__, os.getpid(), file=file)
    time.sleep(0.01)
"""
ODD = """
def test_fail():
    print("printed")
    assert 1 == 2

def test_warn():
    warnings.warn("as told", DeprecationWarning)

def test_die():
    os.kill(os.getpid(), signal.SIGKILL)

def test_after_death(capfd):
    os.write(1, b"caught")
    assert capfd.readouterr().out == "caught"

def test_skip():
    pytest.skip("no reason")

@pytest.mark.xfail
def test_xfail():
    assert False
"""


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess("-p", "forked_workers", "-p", "no:cacheprovider", *arguments)


def test_each_file_has_a_process_that_ends_what_it_began(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(**{f"test_{name}": FILE for name in "abcd"})
    result = run(pytester, "--processes", "2")
    result.assert_outcomes(passed=40)
    lines = (pytester.path / "processes").read_text().splitlines()
    processes = dict(line.split() for line in lines)
    assert len(lines) == 40
    assert len(set(lines)) == 4
    assert len(set(processes.values())) == 2
    assert str(os.getpid()) not in processes.values()
    assert sorted((pytester.path / "ends").read_text().split()) == sorted(processes.values())
    assert not list(pytester.path.parent.rglob("here"))


def test_what_happens_in_a_process_is_reported(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_plain=FILE, test_odd=FILE + ODD)
    result = run(pytester, "--processes", "2", "-rA")
    result.assert_outcomes(passed=22, failed=2, skipped=1, xfailed=1)
    text = result.stdout.str()
    assert re.search(r"FAILED test_odd.py::test_fail - assert 1 == 2", text)
    assert re.search(r"FAILED test_odd.py::test_die - .*status -9", text)
    assert "printed" in text
    assert re.search(r"test_odd.py:\d+: DeprecationWarning: as told", text)
    assert "no reason" in text
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_first_failure_ends_all_processes_if_that_is_asked_for(pytester: pytest.Pytester) -> None:
    late = FILE.replace("range(10)", "range(10_000)")
    pytester.makepyfile(test_long=late, test_odd=FILE + ODD)
    result = run(pytester, "--processes", "2", "-x")
    outcomes = result.parseoutcomes()
    assert outcomes["failed"] == 1
    assert outcomes["passed"] < 10_000
    assert len((pytester.path / "ends").read_text().split()) == 2


def test_one_process_is_the_default(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_plain=FILE)
    run(pytester).assert_outcomes(passed=10)
    assert set((pytester.path / "ends").read_text().split()) == {str(os.getpid())}
