# Two commands for everyone: `make demo` and `make test`. Each sets up all that it needs in .venv.
# `make test-full` adds the exhaustive variants of the tests (marker `full`); `make fuzz` damages files for an hour.
PYTHON ?= python3
BIN := .venv/bin
# Python compiles what is imported, a small part of all that is installed: it takes half the time
INSTALL := $(BIN)/pip install --quiet --no-compile --disable-pip-version-check
unexport PYTHONDONTWRITEBYTECODE  # processes that tests start would compile the package again and again

.PHONY: demo test test-full test-browser fuzz lint audit docs dist dist-test clean

demo: .venv/demo
	$(BIN)/accams demo

test: .venv/dev
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal -m "not full"

test-full: .venv/dev
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal

fuzz: .venv/dev
	$(BIN)/python tests/fuzz/run.py --cases 1000000 --seconds 3600

# In an installed Chromium or Chrome, which is not downloaded (apt-get install chromium), with axe-core from npm
test-browser: .venv/browser .venv/axe
	AXE=$(CURDIR)/.venv/node_modules/axe-core/axe.min.js $(BIN)/python -m pytest tests/report/test_browser.py tests/serve/test_journeys.py

lint: .venv/dev
	$(BIN)/ruff check src tests experiments
	$(BIN)/ruff format --check src tests experiments
	$(BIN)/mypy

# Known vulnerabilities of all that is installed, and suspicious code
audit: .venv/audit
	$(BIN)/bandit --quiet --configfile pyproject.toml --recursive src
	$(BIN)/pip-audit --skip-editable

docs: .venv/docs
	$(BIN)/codespell README.md CONTRIBUTING.md CHANGELOG.md docs src
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet --doctree-dir build/doctrees docs site
	$(BIN)/python docs/links.py site

# A wheel and a source distribution, as they are published, checked
dist: .venv/dist
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl

# The wheel in an empty environment, outside of the repository
dist-test: dist
	$(BIN)/python tests/dist/first_steps.py dist/*.whl

.venv/demo: pyproject.toml | .venv
	$(INSTALL) --editable '.[demo]'
	@touch $@

.venv/dev: pyproject.toml | .venv
	$(INSTALL) --editable '.[dev]'
	@touch $@ .venv/demo

.venv/browser: pyproject.toml | .venv
	$(INSTALL) --editable '.[browser]'
	@touch $@ .venv/dev .venv/demo

.venv/axe: | .venv
	npm install --silent --no-save --prefix .venv axe-core
	@touch $@

.venv/audit: pyproject.toml | .venv
	$(INSTALL) --editable '.[audit,plot,ray]'
	@touch $@ .venv/demo

.venv/dist: pyproject.toml | .venv
	$(INSTALL) build check-wheel-contents twine
	@touch $@

.venv/docs: pyproject.toml | .venv
	$(INSTALL) --editable '.[docs]'
	@touch $@

.venv:
	$(PYTHON) -m venv .venv

clean:
	rm -rf .venv site build dist docs/api docs/auto_examples .pytest_cache .mypy_cache .ruff_cache .hypothesis
