# `make demo` and `make test` work from a bare checkout: each sets up .venv as far as it needs.
# On a machine without an NVIDIA GPU, TORCH_INDEX=https://download.pytorch.org/whl/cpu saves gigabytes.

PYTHON ?= python3
TORCH_INDEX ?=
WORKERS ?= 2
SECONDS ?= 600
HUNT ?=

VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
SOURCES := src tests examples benchmarks vnncomp sitegen checker

.DEFAULT_GOAL := help
.PHONY: help demo test lint docs hunt mutants clean
.DELETE_ON_ERROR:

help:
	@echo "make demo    set up .venv, then prove and break the bundled networks"
	@echo "make test    set up .venv, then lint and run every test"
	@echo "make lint    ruff and mypy only"
	@echo "make docs    set up .venv, then build the documentation into build/site"
	@echo "make hunt    look for wrong verdicts for SECONDS=600, on WORKERS=2 cores"
	@echo "make mutants [ONLY=name]  take away each term that a proof rests on, and show the test that notices"
	@echo "make clean   remove .venv and everything that was built"

demo: $(VENV)/.installed
	$(BIN)/netproof demo

# One thread a worker: the workers are what fills the cores.
test: lint
	cd checker && OMP_NUM_THREADS=1 ../$(BIN)/python -m pytest -q -n $(WORKERS)
	OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy
	cd checker && ../$(BIN)/mypy

# Strict: a link that leads nowhere is an error. The tests build it too.
docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	@echo "open build/site/index.html; its search needs a server: python3 -m http.server --directory build/site"

# Exact answers against every method. Other arguments through HUNT, such as HUNT="--seed 5", HUNT="--first 100000",
# HUNT="--modules" or HUNT="--certificates".
hunt: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 PYTHONPATH=tests \
	  $(BIN)/python -m hunt --seconds $(SECONDS) --workers $(WORKERS) $(HUNT)

# Half an hour: not part of `make test`, which only checks that the table fits the source.
mutants: $(VENV)/.installed-dev
	PYTHONPATH=tests OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m mutants $(ONLY)

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis netproof-demo hunt-out

# torch comes first and alone, so that no other package's needs can choose another build of it.
# setuptools comes with it because the package is then built without a second, isolated environment.
$(VENV)/.installed: pyproject.toml checker/pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "netproof needs Python 3.11 or later, but $(PYTHON) is not: try make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' || \
	  { echo "$(PYTHON) lacks the venv module: on Debian or Ubuntu, apt install python3-venv" >&2; exit 1; }
	@echo "Setting up $(VENV): several minutes and a large download the first time"
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch
	$(PIP_INSTALL) setuptools
	$(PIP_INSTALL) --no-build-isolation --editable ./checker
	$(PIP_INSTALL) --no-build-isolation --editable .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP_INSTALL) --no-build-isolation --editable '.[dev,docs]'
	@touch $@ $(VENV)/.installed-docs

$(VENV)/.installed-docs: $(VENV)/.installed
	$(PIP_INSTALL) --no-build-isolation --editable '.[docs]'
	@touch $@
