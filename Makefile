# make setup | demo | test: everything is installed into .venv by these targets; CONTRIBUTING.md lists the others.
PYTHON ?= python3.11
BIN := .venv/bin
ADAPTERS := .venv-adapters
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
export PYTHONDONTWRITEBYTECODE :=  # or every process that a test starts compiles the package anew

.PHONY: setup demo test test-slow lint docs study bench test-adapters test-browser release clean

.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python $(PIP_INSTALL) --constraint constraints.txt --editable ".[dev]"
	touch $@

setup: .venv/.installed

demo: setup
	$(BIN)/python -m steincheck demo --report demo-report.html

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# a file's tests run in one process: what they share is made once
test: demo lint
	$(BIN)/python -m pytest -n 2 --dist loadfile $(ARGS)

# level, power and coverage over many samples, processes, a small part of every figure and study
test-slow: setup
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "slow and not adapters and not browser" \
		--ignore tests/test_packaging.py $(ARGS)

# the code of the pages runs as the site is built
docs: setup
	$(BIN)/python $(PIP_INSTALL) --constraint constraints.txt --editable ".[docs]"
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

# one figure or study by its name, as make study NAME=fig3; NAME=all: every figure and table of the paper, in hours.
# What is committed is not computed again.
study: setup
	$(BIN)/python -m experiments $(NAME) $(ARGS)

# measures what benchmarks/results does not have yet; ARGS=--smoke fails if a ratio of CPU times has halved
bench: setup
	$(BIN)/python $(PIP_INSTALL) --constraint constraints.txt --editable ".[bench]"
	$(BIN)/python -m benchmarks.table $(ARGS)

# NumPyro, PyMC, PyTorch and Stan in an environment of their own; torch first: this pin has no CUDA libraries
$(ADAPTERS)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(ADAPTERS)
	$(ADAPTERS)/bin/python $(PIP_INSTALL) torch==2.13.0
	$(ADAPTERS)/bin/python $(PIP_INSTALL) --constraint constraints.txt --editable ".[adapters]" \
		"arviz>=0.23,<1" "httpstan==4.13.*" "pymc>=5.28,<6"
	touch $@

# compiled Stan programs are kept beside the packages
test-adapters: $(ADAPTERS)/.installed
	$(ADAPTERS)/bin/python -m pytest tests/draws
	XDG_CACHE_HOME=$(CURDIR)/$(ADAPTERS)/cache MPLBACKEND=agg $(ADAPTERS)/bin/python -m pytest -n 2 --dist loadfile \
		-m adapters -W ignore::FutureWarning tests/adapters

# opens the report and the site in headless Chromium and keeps the pictures of the report in docs/images
test-browser: docs
	test -x /usr/bin/chromium || { apt-get update --quiet=2 && apt-get install --quiet=2 --yes --no-install-recommends chromium; }
	$(BIN)/python $(PIP_INSTALL) --constraint constraints.txt axe-playwright-python playwright
	$(BIN)/python -m pytest -m browser

# source archive and wheel, which then runs the lines of the README in an empty environment
release: setup
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m pytest -m slow tests/test_packaging.py

clean:
	rm -rf .venv $(ADAPTERS) build dist docs/_build
