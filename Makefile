# Every command a developer needs. `make` alone lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# What the tests of databases and Spark run in: an environment for each extra, with nothing of the others.
ENGINES := .venv-engines
EXTRAS := duckdb polars postgres spark
# Pages whose examples take seconds each; make test-slow runs them.
LONG_PAGES := docs/concepts/release-folder.md docs/guides/estimates.md docs/guides/households.md docs/guides/simulate.md
# Compiled tests are kept, which halves the time to collect them; their files, which may lie in memory, are not.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n 2 --dist worksteal -o tmp_path_retention_policy=failed

.DEFAULT_GOAL := help
.PHONY: help setup engines demo test test-slow test-full check format bench-env bench studies docs changelog clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv, compile the loops, install everything

$(READY): pyproject.toml setup.py $(wildcard src/populace/_native/*.[ch])
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "populace needs Python 3.11 or newer; $(PYTHON) is older or missing." >&2; \
	  echo "hint: make setup PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { \
	  echo "$(PYTHON) cannot make a virtual environment." >&2; \
	  echo "hint: on Debian and Ubuntu, install python3-venv" >&2; exit 1; }
	@echo "installing into $(VENV), which takes a few minutes …" >&2
	@rm -f src/populace/_native/_kernels.*
	@$(BIN)/python -m pip install --disable-pip-version-check -q -e '.[test,check]' > $(VENV)/setup.log 2>&1 || { \
	  grep -v '^WARNING' $(VENV)/setup.log >&2; exit 1; }
	@$(BIN)/python -m populace._native.kernels >&2
	@touch $@

engines: $(EXTRAS:%=$(ENGINES)/%/.ready) ## make the environments of the tests of databases and Spark, one for each

$(ENGINES)/%/.ready: pyproject.toml $(READY)
	@$(PYTHON) -m venv $(ENGINES)/$*
	@echo "installing into $(ENGINES)/$*, which takes a few minutes …" >&2
	@$(ENGINES)/$*/bin/python -m pip install --disable-pip-version-check -q -e '.[$*]' 'pytest>=8' 'hypothesis>=6.100' \
	  > $(ENGINES)/$*/setup.log 2>&1 || { grep -v '^WARNING' $(ENGINES)/$*/setup.log >&2; exit 1; }
	@touch $@

demo: setup ## make a release from the embedded sample; the last line is its folder
	@$(BIN)/populace demo

test: setup ## run the fast tests and every example (under two minutes)
	@$(PYTEST) -m "not slow and not full" $(addprefix --ignore=,$(LONG_PAGES)) tests src docs README.md

test-slow: setup ## run the long tests: kill loops, statistics, browser, databases, Spark
	@$(PYTEST) -m slow --durations 25 --durations-min 10 tests
	@$(PYTEST) $(LONG_PAGES)
	@POPULACE_EXAMPLES=30 $(PYTEST) tests/properties
	@for extra in $(EXTRAS); do \
	  $(MAKE) -s $(ENGINES)/$$extra/.ready || { echo "populace[$$extra] cannot be installed: its tests are skipped" >&2; continue; }; \
	  POPULACE_EXTRA=$$extra env -u PYTHONDONTWRITEBYTECODE $(ENGINES)/$$extra/bin/python -m pytest tests/engines || exit 1; \
	done

test-full: setup ## run every fault at every point, every limit of memory and every replay; it writes docs/reference/faults.md anew
	@$(BIN)/python -m pytest -m full --durations 10 tests

check: setup ## format, lint, types, import contracts
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache --no-logo
	@$(BIN)/python -m tests.architecture.dead_code

format: setup ## rewrite the code in the house format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench-env: setup ## make the separate environments of the peers we measure against
	@for list in bench/environments/*.txt; do \
	  name=$$(basename $$list .txt); \
	  [ .bench/$$name/.ready -nt $$list ] && continue; \
	  echo "installing .bench/$$name …" >&2; \
	  $(PYTHON) -m venv .bench/$$name; \
	  .bench/$$name/bin/python -m pip install --disable-pip-version-check -q -r $$list > .bench/$$name/setup.log 2>&1 || { \
	    grep -v '^WARNING' .bench/$$name/setup.log >&2; exit 1; }; \
	  touch .bench/$$name/.ready; \
	done

bench: bench-env ## run every script of bench/ and keep what it prints in bench/results/ (claims: bench/README.md)
	@for script in bench/*.py; do \
	  kept=bench/results/$$(basename $$script .py); \
	  echo "$$script …" >&2; \
	  $(BIN)/python $$script > $$kept.part || { rm -f $$kept.part; exit 1; }; \
	  mv $$kept.part $$kept.txt; cat $$kept.txt; \
	done

studies: setup ## run every study of examples/studies/, the figures of the sources, into studies/ (under 15 CPU minutes)
	@for study in examples/studies/*.toml; do \
	  name=$$(basename $$study .toml); \
	  missing=$$(sed -n 's/^\(file\|learn\) = "\(.*\)"/\2/p' $$study | while read data; do \
	    [ -f examples/studies/$$data ] || echo $$data; done); \
	  if [ -n "$$missing" ]; then echo "$$name: skipped, there is no" $$missing >&2; continue; fi; \
	  $(BIN)/populace simulate $$study --out studies/$$name || exit 1; \
	done

docs: setup ## write the generated pages and pictures of docs/
	@$(BIN)/python docs/reference/cli.py
	@$(BIN)/python docs/reference/python.py
	@$(BIN)/python docs/reference/combinations.py
	@$(BIN)/python docs/images/truth.py
	@$(BIN)/python docs/images/release.py
	@$(BIN)/python docs/images/estimates.py

changelog: ## write CHANGELOG.md from the fragments in changes/
	@$(PYTHON) changes/compile.py

clean: ## remove what the commands above made, the environments included
	@rm -rf $(VENV) $(ENGINES) .bench .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist demo-release* studies
	@rm -rf src/populace/_native/_kernels.* src/*.egg-info
	@find src tests bench docs -name __pycache__ -type d -prune -exec rm -rf {} +
