# Every target prepares what it needs: a virtual environment in .venv with the pinned packages of constraints.txt.
PYTHON ?= python3
WORKERS ?= 2
RACE ?=
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup test lint types gen-check format sim compat chaos bench race demo clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(READY): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@# An editable install is not compiled; where Python may not write bytecode, each start would compile it anew.
	$(BIN)/python -m compileall -q src
	@touch $@

setup: $(READY) ## make the virtual environment and install Ottla into it

test: $(READY) ## run the tests, in parallel (WORKERS=2)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

lint: $(READY) ## check style, formatting, import layers and tidiness
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q -p no:cacheprovider tests/test_tidy.py

format: $(READY) ## rewrite the sources in the house format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(READY) ## check types, strictly
	$(BIN)/mypy src tools

gen-check: $(READY) ## check that the generated code is what the schemas say
	$(BIN)/python -m tools.gen --check

sim: $(READY) ## run the simulations
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal tests/sim

compat: $(READY) ## run the clients and tools that need a foreign runtime (JVM, Node.js, kcat)
	$(BIN)/python -m pytest -m peers

chaos: $(READY) ## break a node under clients, their transactions and group commits, and judge what came of it
	$(BIN)/python -m tools.chaos
	$(BIN)/python -m tools.chaos.group_commits

bench: $(READY) ## measure speed, start-up and memory, and compare with the last committed result
	$(BIN)/python -m bench

race: $(READY) ## measure Ottla and Apache Kafka side by side, in turns (RACE=--quick for a first look)
	$(BIN)/python -m bench.race $(RACE)

demo: $(READY) ## run the main job end to end and prove its result
	$(BIN)/python -m tools.demo

clean: ## remove everything the other targets made
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
