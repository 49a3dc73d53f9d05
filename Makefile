# Everyday commands. Each sets up its own virtual environment (.venv) the first time and reuses it afterwards.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PUFFER := .venv-pufferlib
RAY := .venv-ray
MJLAB := .venv-mjlab
TRL := .venv-trl
PACKAGE := .venv-package
APT := -o Acquire::Retries=0 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20

.DEFAULT_GOAL := help
.PHONY: help setup demo test quick check format docs browser pufferlib ray mjlab trl package bench clean

help:  ## show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: $(READY)  ## make .venv with everything that development needs

$(READY): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing Cursus and its development tools into $(VENV) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]" \
		2>$(VENV)/install.log \
		|| { cat $(VENV)/install.log; exit 1; }
	@touch $(READY)

demo: $(READY)  ## see what a curriculum buys: an agent learns for real, with a curriculum and without, in some minutes
	@$(BIN)/cursus demo

test: $(READY)  ## run all tests
	@$(BIN)/python -m pytest -n 2

quick: $(READY)  ## run the quick tests, in less than a minute
	@$(BIN)/python -m pytest -n 2 -m "not slow"

check: $(READY)  ## lint, types, layers
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(READY)  ## format the code and fix what can be fixed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: $(READY)  ## build the documentation site, in which every warning is an error
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[docs]"
	@$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --fresh-env docs docs/_build/html
	@$(BIN)/python -m pytest --quiet --no-header tests/test_site.py
	@echo "The entry page is $(CURDIR)/docs/_build/html/index.html"

browser: $(READY)  ## test the live page in a real browser, which is installed where that is possible
	@command -v chromium >/dev/null || test "$$(id -u)" != 0 || ! command -v apt-get >/dev/null \
		|| { apt-get $(APT) update --quiet && apt-get $(APT) install --yes --no-install-recommends chromium; } >$(VENV)/browser.log 2>&1 \
		|| echo "Chromium could not be installed, see $(VENV)/browser.log: what needs it is skipped."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[browser]"
	@$(BIN)/python -m pytest tests/web/test_browser.py

pufferlib: $(READY)  ## test the PufferLib adapter in a virtual environment of its own
	@test -x $(PUFFER)/bin/python || $(PYTHON) -m venv $(PUFFER)
	@$(PUFFER)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps pufferlib-core==3.0.23
	@$(PUFFER)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--editable . torch psutil hypothesis pytest pytest-timeout
	@$(PUFFER)/bin/python -m pytest tests/adapters/test_pufferlib_adapter.py

ray: $(RAY)/.ready  ## test the adapters of Ray and RLlib in a virtual environment of their own
	@$(RAY)/bin/python -m pytest tests/adapters/test_ray_adapter.py
	@$(RAY)/bin/python -m pytest tests/adapters/test_rllib_adapter.py
	@$(RAY)/bin/python -m pytest tests/journeys/test_example_scripts.py -k rllib

$(RAY)/.ready: pyproject.toml constraints.txt
	@test -x $(RAY)/bin/python || $(PYTHON) -m venv $(RAY)
	@$(RAY)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	@$(RAY)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--editable ".[rllib]" hypothesis pytest pytest-timeout
	@touch $(RAY)/.ready

mjlab:  ## test the curriculum term in an environment of mjlab, in a virtual environment of its own
	@test -x $(MJLAB)/bin/python || $(PYTHON) -m venv $(MJLAB)
	@$(MJLAB)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	@$(MJLAB)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--editable ".[agents]" mjlab pytest pytest-timeout hypothesis
	@$(MJLAB)/bin/python -m pytest tests/adapters/test_mjlab.py

trl: $(TRL)/.ready  ## test the adapters of TRL and Reasoning Gym in a virtual environment of their own
	@$(TRL)/bin/python -m pytest tests/adapters/test_reasoning_gym.py
	@$(TRL)/bin/python -m pytest tests/adapters/test_trl_adapter.py
	@$(TRL)/bin/python -m pytest tests/journeys/test_example_scripts.py -k trl

$(TRL)/.ready: pyproject.toml constraints.txt
	@test -x $(TRL)/bin/python || $(PYTHON) -m venv $(TRL)
	@$(TRL)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	@$(TRL)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--editable ".[reasoning-gym,trl]" hypothesis pytest pytest-timeout
	@touch $(TRL)/.ready

package:  ## build wheel and source archive, check them, and try the wheel in clean environments of Python 3.11 to 3.13
	@test -x $(PACKAGE)/bin/python || $(PYTHON) -m venv $(PACKAGE)
	@$(PACKAGE)/bin/python -m pip install --quiet --disable-pip-version-check build twine
	@rm -rf dist
	@$(PACKAGE)/bin/python -m build --outdir dist . >$(PACKAGE)/build.log 2>&1 || { cat $(PACKAGE)/build.log; exit 1; }
	@$(PACKAGE)/bin/python -m twine check --strict dist/*
	@.ci/try_wheel dist/*.whl

bench: $(READY)  ## run all benchmarks and print their tables
	@$(BIN)/python benchmarks/gates.py
	@$(BIN)/python benchmarks/teacher.py
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check ray pettingzoo joblib scipy
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps syllabus-rl
	@$(BIN)/python benchmarks/curricula.py
	@$(BIN)/python benchmarks/learning_progress.py
	@$(BIN)/python benchmarks/continuous.py
	@$(BIN)/python benchmarks/staged.py
	@$(BIN)/python benchmarks/arena.py --quick
	@$(BIN)/python benchmarks/memory.py
	@$(BIN)/python benchmarks/remote.py
	@$(BIN)/python benchmarks/page.py
	@$(BIN)/python benchmarks/simulator.py
	@$(BIN)/python benchmarks/prompts.py
	@$(BIN)/python benchmarks/hockey.py
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps pufferlib-core==3.0.23
	@$(BIN)/python benchmarks/vector.py
	@$(BIN)/python benchmarks/sb3.py

clean:  ## remove .venv and everything that tools left behind
	rm -rf $(VENV) $(PUFFER) $(RAY) $(MJLAB) $(TRL) $(PACKAGE) dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache docs/_build
