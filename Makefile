# Needs Python >= 3.11 and make; everything else is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO_DIR ?= demo-output
# One pinned build for tests; the torch extra itself admits every current release.
TORCH := 2.13.0
EXTRAS := docs,fast,files,lint,reproduce,test,torch

.PHONY: demo test mutants mutants-sample lint types layers docs bench check clean

demo: $(VENV)/.demo
	$(BIN)/corrdp demo --out $(DEMO_DIR)

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto --cov=corrdp --cov-report=term

# Plants every bug of tests/mutants/planted in a copy of the source; see docs/mutants.md.
mutants: $(VENV)/.dev
	$(BIN)/python tests/mutants/run.py --save
	$(BIN)/python docs/tools/write_mutants_page.py

# The fixed set, and some more that change whenever the source does.
mutants-sample: $(VENV)/.dev
	$(BIN)/python tests/mutants/run.py --quick --sample 8

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

layers: $(VENV)/.dev
	$(BIN)/lint-imports

docs: $(VENV)/.dev
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/run_all.py

check: lint types layers docs test

clean:
	rm -rf $(VENV) docs/_build $(DEMO_DIR)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable ".[files,report]"
	touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet torch==$(TORCH)
	$(BIN)/python -m pip install --quiet --editable ".[$(EXTRAS)]"
	$(BIN)/python -m pip install --quiet --no-deps opacus==1.6.0 opt_einsum
	touch $@ $(VENV)/.demo
