# Needs Python >= 3.11 and make; everything else is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO_DIR ?= demo-output
# Exact versions of the test environment; make lock writes it anew.
LOCK := requirements/test.lock
TORCH := $(shell grep '^torch==' $(LOCK))
EXTRAS := docs,fast,files,lint,report,reproduce,sql,studio,test,torch
# Engines ask for newer packages than the oldest that everything else runs with.
ENGINES := dask,ray,spark

.PHONY: demo test coverage quick slow load mutants mutants-sample freeze lint types layers docs bench check
.PHONY: lock oldest test-oldest test-newest wheel clean

demo: $(VENV)/.demo
	$(BIN)/corrdp demo --out $(DEMO_DIR)

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto $(PYTEST_OPTIONS)

# Branch coverage is slower than the tests alone.
coverage: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto --cov=corrdp --cov-report=term

# Daily work: under two minutes on two cores.
quick: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto -q -m "not slow"

# What of them is slow, written anew; it takes hours on a busy machine.
slow: $(VENV)/.dev
	PYTHONPATH=tests/tools $(BIN)/python -m pytest -n auto -q -p processor_time --junitxml=$(VENV)/run.xml
	$(BIN)/python tests/tools/list_slow.py $(VENV)/run.xml

# Tests that once looked at the clock, ten times beside four busy loops.
load: $(VENV)/.dev
	$(BIN)/python tests/tools/under_load.py

# Plants every bug of tests/mutants/planted in a copy of the source; see docs/mutants.md.
mutants: $(VENV)/.dev
	$(BIN)/python tests/mutants/run.py --save
	$(BIN)/python docs/tools/write_mutants_page.py

# The fixed set, and some more that change whenever the source does.
mutants-sample: $(VENV)/.dev
	$(BIN)/python tests/mutants/run.py --quick --sample 8

# Values that moved because they were meant to; say why in the commit.
freeze: $(VENV)/.dev
	$(BIN)/python tests/golden/test_frozen_values.py

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

layers: $(VENV)/.dev
	$(BIN)/lint-imports

docs: $(VENV)/.dev
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

# What is published: built, installed without development tools, tried outside the tree.
wheel:
	rm -rf dist
	$(PYTHON) -m venv --clear .venv-wheel
	.venv-wheel/bin/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	.venv-wheel/bin/python -m pip install --quiet --constraint $(LOCK) dist/corrdp-*.whl
	cd .venv-wheel && bin/python ../tests/tools/smoke.py && bin/corrdp --version

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/run_all.py

check: lint types layers docs test

clean:
	rm -rf $(VENV) .venv-oldest .venv-newest .venv-wheel dist docs/_build $(DEMO_DIR)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml $(LOCK) | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --constraint $(LOCK) --editable ".[files,report]"
	touch $@

$(VENV)/.dev: pyproject.toml $(LOCK) | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --constraint $(LOCK) $(TORCH)
	$(BIN)/python -m pip install --quiet --constraint $(LOCK) --editable ".[$(EXTRAS),$(ENGINES)]"
	$(BIN)/python -m pip install --quiet --constraint $(LOCK) --no-deps opacus opt_einsum
	touch $@ $(VENV)/.demo

# The newest versions that fit together; look at the difference before committing it.
lock: $(VENV)/bin/python
	$(BIN)/python requirements/resolve.py lock

oldest: $(VENV)/bin/python
	$(BIN)/python requirements/resolve.py oldest

# By hand: all tests with the oldest and the newest supported versions (torch is pinned).
test-oldest: CONSTRAINT := --constraint requirements/oldest.txt
test-oldest test-newest: test-%:
	$(PYTHON) -m venv --clear .venv-$*
	.venv-$*/bin/python -m pip install --quiet $(CONSTRAINT) $(TORCH)
	.venv-$*/bin/python -m pip install --quiet $(CONSTRAINT) --editable ".[$(EXTRAS)]"
	.venv-$*/bin/python -m pip install --quiet --constraint $(LOCK) --no-deps opacus opt_einsum
	.venv-$*/bin/python requirements/try_versions.py $* -n auto $(PYTEST_OPTIONS)
