# `make explore` flies a mission, `make check` runs linters and quick tests, `make test` runs all tests.
# Each sets up .venv first, once.
# ARGS goes to the command that is run: make explore ARGS="--robots 8"; make test ARGS="-k guard".

PYTHON ?= python3
UV ?= uv
ARGS ?=

READY := .venv/.ready

# Packages of another Python, such as those of a sourced ROS workspace, stay out of the environment.
unexport PYTHONPATH

.PHONY: explore check test lint api lock clean

explore: $(READY)
	@.venv/bin/decmarvel explore $(ARGS)

# Without the tests that compile large programs, open a browser or start a cluster.
check: lint
	.venv/bin/python -m pytest -m "not slow and not browser and not cluster" $(ARGS)

test: $(READY)
	.venv/bin/python -m pytest $(ARGS)

lint: $(READY)
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/lint-imports --no-logo

# The page of the Python API, from the docstrings.
api: $(READY)
	.venv/bin/python docs/make_api.py

$(READY): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null || { \
		found=$$($(PYTHON) --version 2>&1) || found="not there"; \
		echo "decmarvel needs Python 3.11, 3.12 or 3.13; '$(PYTHON)' is $$found." >&2; \
		echo "Name another one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "Setting up .venv, a minute or two ..."
	@$(PYTHON) -m venv .venv
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index -e .
	@touch $@

# One lock for Python 3.11 to 3.13 on every platform. Needs uv.
lock:
	$(UV) pip compile --universal --generate-hashes --python-version 3.11 --extra dev --upgrade \
		--custom-compile-command "make lock" --quiet pyproject.toml -o requirements.lock

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
