# `make demo` shows what the library does, `make test` checks it, `make quick` checks it without the slow tests,
# `make docs` builds the manual, `make package` the files of a release, and tries them in a new environment.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test quick lint docs package clean

demo: .venv/installed
	$(BIN)/atlas demo --force

test: lint
	$(BIN)/pytest --numprocesses auto

quick: lint
	$(BIN)/pytest --numprocesses auto -m "not slow"

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# one thread, as in tests: pictures and numbers then depend on nothing else
docs: .venv/dev
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -b html -q --nitpicky --fail-on-warning --keep-going docs build/docs
	@echo "The manual is build/docs/index.html."

package: .venv/dev
	rm -rf build/release
	$(BIN)/python -m build --no-isolation --outdir build/release .
	$(BIN)/python tests/check_package.py build/release

.venv/created:
	$(PYTHON) -m venv .venv
	touch $@

.venv/installed: pyproject.toml | .venv/created
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

# torch comes first, in this version: an open range could fetch gigabytes of libraries for graphics cards
.venv/dev: pyproject.toml | .venv/created
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@ .venv/installed

clean:
	rm -rf .venv build docs/tutorials docs/ideas docs/reference/generated docs/sg_execution_times.rst
