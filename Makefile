# Two commands: `make demo` and `make test`. Both set up .venv first.
PYTHON ?= python3
PIP := .venv/bin/python -m pip --disable-pip-version-check

.PHONY: demo test test-fast test-oldest test-newest test-extras test-wheel check-tag nightly audit lint docs setup setup-hashed clean

setup: .venv/.ready

.venv/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "lit-ios needs Python 3.11 or newer; say which with: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv .venv
	$(PIP) install --quiet -c constraints.txt torch
	$(PIP) install --quiet -c constraints.txt -e '.[dev]'
	@touch $@

demo: setup ## learn from machines that wear out unseen, and show the result
	.venv/bin/lit-ios fit --data fatigue --model auto --quick --trainer.max_epochs 60
	@printf '\nlit-ios is in .venv/bin:  . .venv/bin/activate  puts it on the path\n'

test: setup ## all tests, on two processes
	.venv/bin/python -m pytest -n 2 --dist worksteal

test-fast: setup ## those that take no command line, no second process and no long training
	.venv/bin/python -m pytest -n 2 --dist worksteal -m "not slow"

test-oldest: .venv-oldest/.ready ## the fast tests, with the oldest versions allowed; BUT='torch==2.13.0 onnxscript==0.7.2' takes others of some
	.venv-oldest/bin/python -m pytest -n 2 --dist worksteal -m "not slow"

.venv-oldest/.ready: pyproject.toml .ci/oldest.py
	$(PYTHON) -m venv .venv-oldest
	$(PYTHON) .ci/oldest.py $(BUT) > .venv-oldest/constraints.txt
	.venv-oldest/bin/python -m pip install --quiet -c .venv-oldest/constraints.txt -e '.[dev]'
	@touch $@

test-extras: .venv-extras/.ready ## those that need Ray, MLflow or W&B, which make test skips; WHICH=wandb runs some
	.venv-extras/bin/python -m pytest -m "$(or $(WHICH),ray or mlflow or wandb)"

.venv-extras/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-extras
	.venv-extras/bin/python -m pip --disable-pip-version-check install --quiet -c constraints.txt torch
	.venv-extras/bin/python -m pip --disable-pip-version-check install --quiet -c constraints.txt -e '.[dev,ray,mlflow,wandb]'
	@touch $@

test-newest: ## the fast tests, with the newest versions allowed (of PyTorch the pinned one)
	$(PYTHON) -m venv .venv-newest
	.venv-newest/bin/python -m pip install --quiet $$(grep '^torch==' constraints.txt)
	.venv-newest/bin/python -m pip install --quiet --upgrade -e '.[dev]' $$(grep '^torch==' constraints.txt)
	.venv-newest/bin/python -m pytest -n 2 --dist worksteal -m "not slow"

test-wheel: ## build the wheel, install it into a new environment, and use it in an empty folder
	rm -rf build dist .venv-wheel && $(PYTHON) -m venv .venv-wheel
	.venv-wheel/bin/python -m pip install --quiet -c constraints.txt torch
	.venv-wheel/bin/python -m pip wheel --quiet --no-deps -w dist .
	.venv-wheel/bin/python -m pip install --quiet -c constraints.txt dist/*.whl
	folder=$$(mktemp -d) && cd $$folder && for words in --version "fit --data fatigue --quick --model auto --trainer.max_epochs 2" runs "predict runs/fatigue/auto/version_0 --output decisions.csv"; \
	do $(CURDIR)/.venv-wheel/bin/lit-ios $$words || exit 1; done

setup-hashed: ## like setup, but pip refuses every file whose SHA-256 is not in requirements-hashed.txt
	$(PYTHON) -m venv .venv
	$(PIP) install --quiet --require-hashes -r requirements-hashed.txt
	$(PIP) install --quiet --no-deps --no-build-isolation -e .
	@touch .venv/.ready

check-tag: ## that TAG=v0.1.0 is the version, in the changelog and the citation too
	@$(PYTHON) .ci/tag.py $(TAG)

requirements-hashed.txt: pyproject.toml constraints.txt ## needs uv
	echo '# constraints.txt with the SHA-256 of every file, for make setup-hashed; make $@ writes it.' > $@
	uv pip compile --quiet --generate-hashes --no-annotate --no-header --no-emit-index-url --extra dev -c constraints.txt pyproject.toml >> $@

audit: ## known vulnerabilities of the pinned versions; needs pip-audit, and fails where it has no data
	pip-audit --strict --no-deps --disable-pip -r constraints.txt

nightly: setup ## what docs/reliability.md and docs/security.md promise, with full numbers: an hour or two; WHICH="kills --go-on"
	.venv/bin/python -m benchmarks.reliability $(WHICH)

lint: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

docs: .venv/.docs ## the documentation site, docs/_build/html/index.html; runs the tutorials, and warnings are errors
	.venv/bin/python -m sphinx -b html -j auto -n -q -E -W --keep-going docs docs/_build/html

.venv/.docs: .venv/.ready
	$(PIP) install --quiet -c constraints.txt -e '.[dev,docs]'
	@touch $@

clean: ## remove what setup and runs made
	rm -rf docs/_build .venv .venv-oldest .venv-newest .venv-wheel .venv-extras build dist runs *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
