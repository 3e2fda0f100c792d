# Everything runs in a virtual environment that make sets up by itself: only Python 3.11 or newer,
# make and git are needed.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test test-all bench lint types docs check clean

demo: $(READY)  ## the main job, on real purchases
	$(BIN)/sparseq demo

test: $(READY)  ## every test but the slow ones, and the examples in docstrings and docs, on all cores
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder -m "not slow"

test-all: $(READY)  ## every test
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

bench: $(READY)  ## the figures that are promised; NAMES="noise engine" for some of them
	$(BIN)/python -m benchmarks $(NAMES) $(if $(JSON),--json)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

docs: $(READY)  ## the examples in README and docs, run as written
	$(BIN)/python -m pytest tests/test_docs.py

check: test lint types docs

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "sparseq needs Python 3.11 or newer; say which: make PYTHON=python3.12 …"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[fast,plot,test]'
	@touch $(READY)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis out
