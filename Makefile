# Everything runs in a virtual environment that make sets up by itself: only Python 3.11 or newer,
# make and git are needed.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
unexport PYTHONDONTWRITEBYTECODE  # or each of many processes compiles all anew
DEMO := $(VENV)/.demo
READY := $(VENV)/.ready

.PHONY: demo test test-deep bench lint types docs proofs check clean

demo: $(DEMO)  ## the main job, on real purchases; only what it needs is installed
	$(BIN)/sparseq demo

PYTEST := $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

test: $(READY)  ## every test but the deep ones, and the examples in docstrings and docs, on all cores
	$(PYTEST) -m "not deep"

test-deep: $(READY)  ## what takes too long for every change, and how long each of it took
	$(PYTEST) -m deep --durations 0 --durations-min 1

bench: $(READY)  ## the figures that are promised; NAMES="noise engine" for some of them
	$(BIN)/python -m benchmarks $(NAMES) $(if $(JSON),--json)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)  ## ours, and what a user's script sees of them
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python

docs: $(READY)  ## the site, in out/site; nothing is fetched for it, and a link that leads nowhere fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

proofs:  ## what Rocq checks (docs/theorems/machine-checked.md); where it is not installed that is said
	$(PYTHON) proofs/check.py

check: lint types docs test

INSTALL := $(BIN)/python -m pip install --constraint constraints.txt

$(DEMO): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "sparseq needs Python 3.11 or newer; say which: make PYTHON=python3.12 …"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) --quiet --upgrade pip
	@echo "Installing sparseq and its libraries (0.9 GB) into $(VENV)"
	$(INSTALL) --editable '.[fast,plot]'
	@touch $(DEMO)

$(READY): $(DEMO)
	@echo "Installing what tests and docs need (1.3 GB more) into $(VENV)"
	$(INSTALL) --quiet --editable '.[docs,fast,plot,test]'
	@touch $(READY)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis out
