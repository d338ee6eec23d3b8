PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: setup demo test lint bench docs mutants clean help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.stamp ## create .venv and install gnpool with its development tools

# torch goes first and alone, so that no later resolution can choose another one.
$(VENV)/.stamp: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "gnpool needs Python 3.11 or newer, and '$(PYTHON)' is not. Name another: make PYTHON=python3.12 setup" >&2; \
	  exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -c constraints.txt torch
	$(BIN)/python -m pip install -c constraints.txt -e ".[dev]"
	@touch $@

demo: setup ## train a small GNP network and test it on larger graphs
	$(BIN)/python examples/demo.py

lint: setup ## ruff (rules and format) and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy src

# Two processes, one thread each: most tests are Python's work. Tests of one file stay together and share what they made.
test: lint ## lint, then every test and doctest
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

mutants: setup ## change the package in small ways and see whether a test notices; goes on where it was
	$(BIN)/python -m tools.mutants

bench: setup ## time the operator against its baselines
	$(BIN)/python -m benchmarks

docs: setup $(VENV)/.docs ## check the links and run the code of the documentation, build the site in site/
	$(BIN)/python tools/check_docs.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "open site/index.html"

$(VENV)/.docs: $(VENV)/.stamp
	$(BIN)/python -m pip install -c constraints.txt -e ".[docs]"
	@touch $@

clean: ## remove .venv, caches and build products
	rm -rf $(VENV) build dist site .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests tools benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
