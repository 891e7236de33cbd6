# Two commands: `make demo` and `make test`. Both set up .venv first.
PYTHON ?= python3
PIP := .venv/bin/python -m pip --disable-pip-version-check

.PHONY: demo test test-fast lint setup clean

setup: .venv/.ready

.venv/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "lit-ios needs Python 3.11 or newer; say which with: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv .venv
	$(PIP) install --quiet -c constraints.txt torch
	$(PIP) install --quiet -c constraints.txt -e '.[dev]'
	@touch $@

demo: setup ## learn from machines that wear out unseen, and show the result
	.venv/bin/lit-ios fit --data fatigue --model auto --quick --trainer.max_epochs 60

test: setup ## all tests, on two processes
	.venv/bin/python -m pytest -n 2 --dist worksteal

test-fast: setup ## those that take no command line, no second process and no long training
	.venv/bin/python -m pytest -n 2 --dist worksteal -m "not slow"

lint: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

clean: ## remove what setup and runs made
	rm -rf .venv runs *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
