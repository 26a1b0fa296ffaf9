# make setup | demo | test | lint | bench: everything is installed into .venv by these targets.
PYTHON ?= python3.11
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: setup demo test lint bench test-slow test-browser docs clean

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	touch $(STAMP)

setup: $(STAMP)

demo: setup
	$(BIN)/python -m steincheck demo --report demo-report.html

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: demo lint
	$(BIN)/python -m pytest

test-slow: setup
	$(BIN)/python -m pytest -m slow

# opens the report in headless Chromium and keeps the pictures in docs/images
test-browser: setup
	test -x /usr/bin/chromium || { apt-get update --quiet=2 && apt-get install --quiet=2 --yes --no-install-recommends chromium; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt playwright
	$(BIN)/python -m pytest -m browser

bench: setup
	$(BIN)/python -m pytest benchmarks --benchmark-disable-gc -m ""

docs: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[docs]"
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

clean:
	rm -rf .venv build dist docs/_build
