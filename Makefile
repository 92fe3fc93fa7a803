# `make demo` shows what the library does, `make test` checks it, `make quick` checks it without the slow tests,
# `make docs` builds the manual, `make package` the files of a release, and tries them in a new environment.
# `make lowest` runs the quick tests with the lowest versions of the libraries that pyproject.toml allows.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test quick lowest lint docs package clean

demo: .venv/installed
	$(BIN)/atlas demo --force

test: lint
	$(BIN)/pytest --numprocesses auto

quick: lint
	$(BIN)/pytest --numprocesses auto -m "not slow"

# Old libraries use what new versions of their own dependencies deprecate: that is no fault here. Compiled code
# of other versions must not be mixed with ours.
lowest: .lowest/installed
	NUMBA_CACHE_DIR=.lowest/numba .lowest/bin/pytest --numprocesses auto -m "not slow" -W ignore::DeprecationWarning

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

# What the core needs is at its lowest, and all else as new as goes with that: scikit-learn 1.6 does not know the
# frames of polars 2.
.lowest/installed: pyproject.toml tests/lowest_versions.py | .venv/dev
	$(PYTHON) -m venv .lowest
	$(BIN)/python tests/lowest_versions.py > .lowest/constraints.txt
	.lowest/bin/python -m pip install --quiet torch==2.13.0
	.lowest/bin/python -m pip install --quiet --constraint .lowest/constraints.txt --editable ".[all]" \
		"polars>=1.0,<2" hypothesis pytest pytest-xdist packaging
	touch $@

clean:
	rm -rf .venv .lowest build docs/tutorials docs/ideas docs/reference/generated docs/sg_execution_times.rst
