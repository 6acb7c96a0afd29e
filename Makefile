# `make demo` and `make test` create .venv on first use; later calls reuse it until pyproject.toml changes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
DOCS_INSTALLED := $(VENV)/.docs-installed
PACKAGES := geomgen manifolds samplers vit_registers

.DEFAULT_GOAL := help
.PHONY: help demo test lint docs

help: ## list these targets
	@sed -n 's/^\([a-z]*\):.*## /\1|/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "make %-6s %s\n", $$1, $$2}'

demo: $(INSTALLED) ## the main job on real data: writes demo/index.html and demo/results.json
	$(BIN)/geomgen demo --out demo

test: $(INSTALLED) ## run the tests, one worker per core (at most 8), one torch thread each
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --maxprocesses 8 --dist loadfile

lint: $(INSTALLED) ## ruff (rules and format) and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(DOCS_INSTALLED) ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

$(INSTALLED): pyproject.toml
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,demo]'
	touch $@

$(DOCS_INSTALLED): pyproject.toml $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@
