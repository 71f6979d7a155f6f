# Everything runs from a virtual environment that these rules make and keep up to date.
# On Linux, pip takes torch with its CUDA packages unless PIP_EXTRA_INDEX_URL names PyTorch's index of CPU wheels.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --no-compile --constraint constraints.txt --editable

# The processes of the tests share compiled modules, and do not compile each its own.
unexport PYTHONDONTWRITEBYTECODE

# A file of tests runs in one process, which makes what its tests share once. The processes take the files in order:
# ordered by numbers of tests, a file with few slow ones could come last.
CORES := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
TEST_OPTIONS := -n $(CORES) --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help demo test test-all seeds lint types docs bench clean

help: ## list the targets
	@sed -n 's/^\([a-z%-]*\):.*## /\1\t/p' $(MAKEFILE_LIST)

demo: $(VENV)/.installed ## decode a generated clip, read a generated page, and show what was checked
	$(BIN)/mediatensor demo --overwrite

test: $(VENV)/.installed-test ## run the tests, except slow ones and most of the large grids; PYTEST_ARGS adds arguments
	$(BIN)/python -m pytest $(TEST_OPTIONS) $(PYTEST_ARGS)

test-all: $(VENV)/.installed-test ## run all tests; PYTEST_ARGS adds arguments
	$(BIN)/python -m pytest $(TEST_OPTIONS) --all $(PYTEST_ARGS)

test-%: $(VENV)/.installed-test ## run the tests of one wing, as `test` does: media, data, text or apps
	$(BIN)/python -m pytest $(TEST_OPTIONS) tests/$* $(PYTEST_ARGS)

seeds: $(VENV)/.installed-test ## run the tests that train with twenty seeds each
	$(BIN)/python -m pytest $(TEST_OPTIONS) --all --seeds 20 tests

lint: $(VENV)/.installed-dev ## check style, format and plain English
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python docs/_plain_english.py --limit 3

types: $(VENV)/.installed-dev ## check types
	$(BIN)/mypy

docs: $(VENV)/.installed-dev ## build the documentation into site; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

BENCH_ARGS ?= everyday -o benchmark-results
bench: $(VENV)/.installed-test ## compare with other decoders that are installed; BENCH_ARGS names suites and options
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

clean: ## remove the environment and everything that was built
	rm -rf $(VENV) build dist site benchmark-results mediatensor-demo .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# A stamp is as new as its last installation, so that a second call installs nothing.
$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) ".[ocr]"
	touch $@

$(VENV)/.installed-test: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) ".[test]"
	touch $(VENV)/.installed $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) ".[dev]"
	touch $(VENV)/.installed $(VENV)/.installed-test $@
