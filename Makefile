# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo bench test lint types unit soak coverage docs package readme format clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# The environment is made once, and again only when what it should hold has changed.
# Every file is checked against its SHA-256. torch comes first, without libraries for GPUs if an index that pip knows has
# that build; a build that is there already is kept. With PyPI's build, its libraries. Last this package, which needs no more.
CHECKED := $(PIP) --require-hashes --no-deps --requirement
TORCH := $(BIN)/python -c 'from importlib.metadata import version; print(version("torch"))'
$(READY): pyproject.toml constraints.txt $(wildcard requirements*.txt)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11, 5))' || { \
	  echo "the pinned packages need Python 3.11.5 or newer; found $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/python || { echo "Making the virtual environment $(VENV) ..."; $(PYTHON) -m venv $(VENV); }
	@echo "Installing the pinned packages (a few minutes the first time) ..."
	@grep -qx "torch==$$($(TORCH) 2>/dev/null | cut -d+ -f1)" constraints.txt || $(CHECKED) requirements-cpu.txt 2>/dev/null || true
	@$(CHECKED) requirements.txt
	@$(TORCH) | grep -q + || $(CHECKED) requirements-gpu.txt
	@$(PIP) --constraint constraints.txt --no-build-isolation --editable '.[dev]'
	@touch $(READY)

demo: $(READY)  ## train softmax, triplet and Magnet on digits and show the result
	@$(BIN)/magnet demo

bench: $(READY)  ## measure speed and memory, and write the tables of docs/performance.md (about 25 minutes)
	@$(BIN)/magnet bench --docs docs/performance.md

test: lint types docs unit  ## everything that must hold: style, types, the site of the docs, tests

lint: $(READY)  ## ruff, both checks
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(READY)  ## mypy
	@$(BIN)/mypy

unit: $(READY)  ## the tests, on two processes of one thread each
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal

coverage: $(READY)  ## the tests, and how much of the package they run; the floor is in pyproject.toml
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal --cov=magnet --cov-report=term:skip-covered

SHARE ?= 1
soak: $(READY)  ## faults of all kinds for about two hours, as a table (SHARE=0.05: a twentieth of the cases)
	@OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -W ignore -m faults.soak --share $(SHARE)

docs: $(READY)  ## the documentation as a site, in site/, its pictures of the explorer up to date; any warning is an error
	@$(BIN)/python tools/hero.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

package: $(READY)  ## wheel and source archive in dist/, their metadata checked
	@rm -rf build dist
	@$(BIN)/python -m build --no-isolation
	@$(BIN)/python -m twine check --strict dist/*

readme: $(READY)  ## every shell line of the README as printed, in an empty environment (long)
	@$(BIN)/python tools/readme.py

format: $(READY)  ## let ruff rewrite the code
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

clean:  ## remove the environment and what the tools left
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .coverage* build dist site .cache src/*.egg-info
