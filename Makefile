PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: setup demo test test-lowest test-cluster lint bench docs lock mutants clean help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.stamp ## create .venv and install gnpool with its development tools

# What gnpool itself needs, which is enough for the demo. torch goes first and alone, so that no later resolution can
# choose another one.
$(VENV)/.base: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "gnpool needs Python 3.11 or newer, and '$(PYTHON)' is not. Name another: make PYTHON=python3.12 setup" >&2; \
	  exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -c constraints.txt torch
	$(BIN)/python -m pip install -c constraints.txt -e .
	@touch $@

# The same environment, grown by the tools of development.
$(VENV)/.stamp: $(VENV)/.base
	$(BIN)/python -m pip install -c constraints.txt -e ".[dev]"
	@touch $@

demo: $(VENV)/.base ## train a small GNP network and test it on larger graphs
	$(BIN)/python examples/demo.py

lint: setup ## ruff (rules and format) and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy src

# Two processes, one thread each: most tests are Python's work. Tests of one file stay together and share what they made.
test: lint ## lint, then every test and doctest
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

# The lowest versions that pyproject.toml allows, in an environment of their own, and the tests of what rests on each:
# the command line (typer, rich), kernels and tables (numba, numpy, pyarrow), layers (torch, torch-geometric), files of
# weights (safetensors), pictures (matplotlib) and ONNX. The CPU build of the lowest torch is taken if pip can reach one;
# else the torch of constraints.txt, because other builds of it bring gigabytes of CUDA.
LOWEST       := .venv-lowest
LOWEST_TORCH := $(shell sed -n 's/^torch==//p' constraints-lowest.txt)
LOWEST_TESTS := tests/cli/test_app.py tests/cli/test_read.py tests/data/test_csv.py tests/data/test_read.py \
                tests/insight/test_export.py tests/models/test_saved.py tests/nn/test_aggregation.py tests/nn/test_pyg.py \
                tests/ops/test_cpu_kernels.py tests/report/test_figures.py tests/store/test_store.py tests/test_lowest.py

test-lowest: $(LOWEST)/.stamp ## the tests of what rests on a dependency, with the lowest versions of all of them
	OMP_NUM_THREADS=1 $(LOWEST)/bin/python -m pytest -n 2 --dist loadfile $(LOWEST_TESTS)

$(LOWEST)/.stamp: pyproject.toml constraints.txt constraints-lowest.txt
	rm -rf $(LOWEST)
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install "torch==$(LOWEST_TORCH)+cpu" || \
	  $(LOWEST)/bin/python -m pip install -c constraints.txt torch
	grep -v '^torch==' constraints-lowest.txt > $(LOWEST)/constraints.txt
	$(LOWEST)/bin/python -m pip install -c $(LOWEST)/constraints.txt -e ".[data,export,report]" \
	  hypothesis networkx pytest pytest-xdist
	@touch $@

test-cluster: setup ## kill the processes of a real Ray cluster; a release needs it
	$(BIN)/python -m pip install -c constraints.txt -e ".[ray]"
	$(BIN)/python -m pytest tests/faults/test_ray.py

lock: setup ## write requirements-dev.lock anew, from constraints.txt
	$(BIN)/python -m tools.lock

mutants: setup ## change the package in small ways and see whether a test notices; goes on where it was
	$(BIN)/python -m tools.mutants

bench: setup ## time the operator against its baselines
	$(BIN)/python -m benchmarks

# Tests that compare the generated parts of the pages with the raw outcomes and the code behind them.
NUMBERS := tests/lab/test_record.py::test_files_are_in_step_with_the_scores \
           tests/tasks/test_table.py::test_the_documented_table_is_generated \
           tests/test_arena_page.py::test_the_pages_are_in_step \
           tests/test_benchmarks.py::test_the_pages_show_the_last_figures \
           tests/test_reliability.py::test_the_tables_are_those_of_their_outcomes \
           tests/test_sampled.py::test_the_page_is_in_step_with_the_raw_outcomes \
           tests/test_studies.py::test_the_pages_are_in_step_with_the_raw_outcomes

docs: setup $(VENV)/.docs ## check links, code and numbers of the documentation, build the site in site/
	$(BIN)/python tools/check_docs.py
	$(BIN)/python -m pytest -q $(NUMBERS) tests/test_site.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "open site/index.html"

$(VENV)/.docs: $(VENV)/.stamp
	$(BIN)/python -m pip install -c constraints.txt -e ".[docs]"
	@touch $@

clean: ## remove .venv, caches and build products
	rm -rf $(VENV) $(LOWEST) build dist site .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests tools benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
