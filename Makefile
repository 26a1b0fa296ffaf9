# make setup | demo | test | lint | docs | bench: everything is installed into .venv by these targets.
PYTHON ?= python3.11
BIN := .venv/bin
STAMP := .venv/.installed
ADAPTERS := .venv-adapters
export PYTHONDONTWRITEBYTECODE :=  # or every process that a test starts compiles the package anew

.PHONY: setup demo test lint coverage coverage-report test-processes test-slow test-levels test-studies test-adapters test-browser test-wheel test-lowest bench bench-smoke bench-thresholds reproduce calibration fuzz licences audit docs clean

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

# a file's tests run in one process: what they share is made once; COVER=1 records which lines and branches ran
test: demo lint
	$(BIN)/python -m pytest -n 2 --dist loadfile $(if $(COVER),--cov --cov-report= --cov-fail-under=0)

# the command as users start it, signals, workers and a cluster; COVER=1 adds to what make test recorded
test-processes: setup
	$(BIN)/python -m pytest -n 2 -m processes $(if $(COVER),--cov --cov-append --cov-report= --cov-fail-under=0)

# the suite and, if their environment is there, the tests of the adapters: lines and branches of src that run
ADAPTERS_THERE := $(wildcard $(ADAPTERS)/.installed)
coverage:
	$(MAKE) test COVER=1
	$(MAKE) test-processes COVER=1
	$(if $(ADAPTERS_THERE),$(MAKE) test-adapters COVER=1)
	$(MAKE) coverage-report

# what was recorded last: lines and branches of src, each at least 95 %; without the environment of the adapters,
# of what can run without the packages in it
OF_ADAPTERS := adapters/arviz adapters/bridgestan adapters/loading adapters/numpyro adapters/pymc adapters/stan adapters/torch draws/containers result/per_draw
COMMA := ,
EMPTY :=
SPACE := $(EMPTY) $(EMPTY)
UNTESTED := $(if $(ADAPTERS_THERE),,--omit='$(subst $(SPACE),$(COMMA),$(OF_ADAPTERS:%=*/%.py))')
coverage-report: setup
	$(BIN)/coverage report $(UNTESTED)
	$(BIN)/coverage json --quiet --fail-under=0 -o - $(UNTESTED) | $(BIN)/python .ci/shares 95

test-slow: setup
	$(BIN)/python -m pytest -m slow

# level, power and coverage over repeated samples; every test on every model, with few, is in make test
test-levels: setup
	$(BIN)/python -m pytest -n 2 -m "levels and not slow and not studies and not adapters"

# the experiments: rows of every committed study and figure come out again, and none can be lost
test-studies: setup
	$(BIN)/python -m pytest -n 2 -m studies tests/studies

# NumPyro, PyMC, PyTorch and Stan in an environment of their own; torch first: this pin has no CUDA libraries
$(ADAPTERS)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(ADAPTERS)
	$(ADAPTERS)/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(ADAPTERS)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--editable ".[adapters]" "arviz>=0.23,<1" "httpstan==4.13.*" "pymc>=5.28,<6"
	touch $@

# compiled Stan programs are kept beside the packages; COVER=1 adds to what make test recorded
test-adapters: PYTEST := $(ADAPTERS)/bin/python -m $(if $(COVER),coverage run -m) pytest
test-adapters: $(ADAPTERS)/.installed
	$(PYTEST) tests/test_draws_containers.py
	XDG_CACHE_HOME=$(CURDIR)/$(ADAPTERS)/cache MPLBACKEND=agg $(PYTEST) $(if $(COVER),,-n 2 --dist loadfile) -m adapters -W ignore::FutureWarning tests/adapters
	$(if $(COVER),$(ADAPTERS)/bin/coverage combine --append --quiet)

# opens the report and the site in headless Chromium and keeps the pictures of the report in docs/images
test-browser: docs
	test -x /usr/bin/chromium || { apt-get update --quiet=2 && apt-get install --quiet=2 --yes --no-install-recommends chromium; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt axe-playwright-python playwright
	$(BIN)/python -m pytest -m browser

# the wheel alone, without extras, in an empty environment, runs the five lines of the README
test-wheel: setup
	$(BIN)/python -m pytest -m packaging

# the oldest versions that pyproject.toml allows, and programs optimised as users run them
LOWEST := .venv-lowest
test-lowest:
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check "jax==0.10.0" "jaxlib==0.10.0" "numpy==2.0.*" "scipy==1.14.*" "pytest>=8" "pytest-xdist>=3.5" "joblib==1.4.*" "rich==13.0.*" --editable .
	JAX_DISABLE_MOST_OPTIMIZATIONS=0 $(LOWEST)/bin/python -m pytest -n 2 --dist loadfile tests/test_kernels.py tests/test_bootstrap.py tests/test_target.py tests/test_stein.py tests/test_ksd.py tests/test_modes.py

# measures the cases that benchmarks/results/table.json does not have yet: an hour on an idle machine in all
bench: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[bench]"
	$(BIN)/python -m benchmarks.table

# fails if a ratio of CPU times has halved
bench-smoke: setup
	$(BIN)/python -m benchmarks.table --smoke

# thresholds of time and memory, for an idle machine
bench-thresholds: setup
	$(BIN)/python -m pytest benchmarks --benchmark-disable-gc -m ""

# every figure and table of the paper: hours on two cores; what is committed is not computed again
reproduce: setup
	$(BIN)/python -m experiments all --n-jobs 2
	$(BIN)/python -m experiments.summary

# level and power of the tests, choices of the design: hours, from the beginning
calibration: setup
	$(BIN)/python -m experiments.calibration --renew --n-jobs 2
	$(BIN)/python -m experiments.calibration --docs
	$(BIN)/python -m experiments.flux_study --n-jobs 2
	$(BIN)/python -m experiments.choices

# bad input for every public function, adapters included; resumes where it ended, see fuzz/; fuzz/runs.csv has the runs
SECONDS ?= 1200
SEED ?= 0
fuzz: $(ADAPTERS)/.installed
	MPLBACKEND=agg $(ADAPTERS)/bin/python -W ignore -m fuzz --seconds $(SECONDS) --seed $(SEED) --record

# licences, then known vulnerabilities of the pinned dependencies: of a file or folder of advisories in the OSV
# format (make audit ADVISORIES=all.zip), or, without one, by pip-audit, which needs the network
AUDIT := .venv-audit
licences: setup
	$(BIN)/python -m experiments.licences

ADVISORIES ?=
ifneq ($(ADVISORIES),)
audit: licences
	$(BIN)/python -m experiments.advisories "$(ADVISORIES)"
else
audit: licences
	test -x $(AUDIT)/bin/pip-audit || { $(PYTHON) -m venv $(AUDIT) && $(AUDIT)/bin/pip install --quiet --disable-pip-version-check pip-audit; }
	$(AUDIT)/bin/pip-audit --strict --requirement constraints.txt --no-deps --disable-pip --progress-spinner off \
		|| { echo "known vulnerabilities: found, or not looked up for want of the network (ADVISORIES=PATH needs none); see above" >&2; exit 1; }
endif

# the answers that the text of the pages speaks of, then the site, whose pages run as it is built
docs: setup
	$(BIN)/python -m pytest -n 2 -m pages
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[docs]"
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

clean:
	rm -rf .venv $(ADAPTERS) .venv-lowest .venv-audit build dist docs/_build
