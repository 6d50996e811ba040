# Every target runs in its own virtual environment, made on first use: on a clean clone `make demo` or `make test` is all there is to type.
#   make test VENV=/somewhere     use another environment         make test JOBS=4        more test processes
#   make test ARGS="tests/ir -x"  pass arguments to pytest        make venv PYTHON=python3.12

PYTHON ?= python3
VENV ?= .venv
JOBS ?= 2
ARGS ?=

BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# File names are paths relative to this directory; the environment may be elsewhere.
export PYTHONNOUSERSITE := 1

.PHONY: help venv test test-slow test-gpu bench bench-gpu lint format demo docs clean
.DEFAULT_GOAL := help

help:
	@echo "make demo       run the programs of examples/"
	@echo "make test       run the tests (make test-slow: the long ones; make test-gpu: those for a CUDA device)"
	@echo "make bench      time us against eager and Inductor (make bench-gpu: on a CUDA device); ARGS=\"mlp16 --quick\""
	@echo "make lint       ruff, mypy --strict, import contracts, spelling"
	@echo "make format     let ruff reformat and fix what it can"
	@echo "make docs       build the documentation into docs/_build/html"
	@echo "make clean      remove the environment and everything built"

venv: $(STAMP)

$(STAMP): pyproject.toml requirements/torch.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "TorchAir needs Python 3.10 or newer; say which one with PYTHON=python3.x"; exit 1; }
	@echo "Installing into $(VENV): torch and the tools, once. This takes some minutes."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/torch.txt -e '.[dev,cli,viz,demo]'
	@touch $@

$(VENV)/.installed-docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/torch.txt -e '.[docs]'
	@touch $@

test: $(STAMP)
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(ARGS)

test-slow: $(STAMP)
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "slow and not gpu" --timeout 1800 $(ARGS)

test-gpu: $(STAMP)
	$(BIN)/python -m pytest -m gpu --timeout 900 $(ARGS)

bench: $(STAMP)
	$(BIN)/python -m benchmarks $(ARGS)

bench-gpu: $(STAMP)
	$(BIN)/python -m benchmarks --device cuda $(ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

demo: $(STAMP)
	@set -e; for program in $(sort $(wildcard examples/*.py)); do \
		echo; echo "=== $$program"; $(BIN)/python $$program; \
	done

docs: $(VENV)/.installed-docs
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

clean:
	rm -rf .venv build dist docs/_build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis torch_compile_debug
	find src tests scripts examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
