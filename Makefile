PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: setup demo test lint bench docs clean help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-6s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

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

test: lint ## lint, then every test and doctest
	$(BIN)/python -m pytest

bench: setup ## time the operator against its baselines
	$(BIN)/python -m benchmarks

docs: setup ## check the links and run the code of the documentation
	$(BIN)/python tools/check_docs.py

clean: ## remove .venv, caches and build products
	rm -rf $(VENV) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests tools benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
