# Needs only make and Python >= 3.11. `make` lists the targets.

# The first Python on the PATH that is new enough; `make test PYTHON=/path/to/python` overrides.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 \
	&& { echo "$$p"; break; }; done)

VENV := .venv
PY := $(VENV)/bin/python
VENV_MIN := .venv-min
VENV_LOCK := .venv-lock

# XGBoost and the CUDA library that it requires take 700 MB, and no test needs them.
EXTRAS := test,dev

# Options for pytest: `make test ARGS=tests/kernels`, `make test ARGS="-k sqrtm -n 0"`.
ARGS ?=

# Papers for `make results`: all, or some as in `make results PAPERS="manifest ssfs"`. Options work
# as well: `make results PAPERS="ssfs --part ssfs-table-1 --again"`.
PAPERS ?=

# Delete the half-written target of an interrupted recipe.
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-min check format docs pictures bench results lock clean .venv .venv-min

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.stamp ## rank the pixels of the digits 4 and 9; writes demo.png
	$(PY) examples/demo.py

test: $(VENV)/.stamp ## run the tests
	$(PY) -m pytest $(ARGS)

test-all: $(VENV)/.stamp ## run the tests, and those marked thorough
	$(PY) -m pytest -m '' $(ARGS)

test-min: $(VENV_MIN)/.stamp ## run the tests with the oldest supported versions
	$(VENV_MIN)/bin/python -m pytest $(ARGS)

check: $(VENV)/.stamp ## check format, lint and types
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy

format: $(VENV)/.stamp ## format the code and fix what the linter can
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

docs: $(VENV)/.stamp ## build the documentation into docs/site
	cd docs && ../$(PY) -m zensical build --strict --clean

pictures: $(VENV)/.stamp ## draw the pictures of the gallery and the tutorials into docs/pages/images
	rm -f docs/pages/images/gallery/* docs/pages/images/tutorials/*
	@set -e; for script in examples/gallery/*.py examples/tutorials/*.py; do \
		folder=docs/pages/images/$$(basename $$(dirname $$script)); mkdir -p $$folder; \
		echo "== $$script"; (cd $$folder && "$(CURDIR)/$(PY)" "$(CURDIR)/$$script"); done
	rm -f docs/pages/images/tutorials/*.csv docs/pages/images/tutorials/*.html
	$(PY) examples/digits.py --output docs/pages/images/gallery/operators.png
	$(PY) examples/stability.py --embedded --output docs/pages/images/gallery/ranks.png

bench: $(VENV)/.stamp ## run every script of benchmarks/speed; JAXFS_DATA=DIR names the data
	@set -e; for name in $(sort $(basename $(notdir $(wildcard benchmarks/speed/*.py)))); do \
		echo "== benchmarks.speed.$$name"; $(PY) -m "benchmarks.speed.$$name"; done

results: $(VENV)/.stamp ## compute missing figures and tables of the papers; JAXFS_DATA=DIR
	$(PY) -m benchmarks.papers $(PAPERS)

lock: ## rewrite constraints.txt with the newest versions
	$(call create_venv,$(VENV_LOCK),--clear)
	$(VENV_LOCK)/bin/python -m pip install --quiet '.[all,test,dev]'
	@{ echo '# The exact versions that `make` installs and that are tested; `make lock` rewrites this file.'; \
		$(VENV_LOCK)/bin/python -m pip freeze --exclude jaxfs | grep -v -e ' @ ' -e '^-e'; \
	} > constraints.txt.new
	mv constraints.txt.new constraints.txt
	rm -rf $(VENV_LOCK)

clean: ## remove the environments and everything generated
	rm -rf .venv .venv-min .venv-lock build dist demo.png digits.png constraints.txt.new
	rm -rf docs/site docs/.cache
	rm -rf .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv: $(VENV)/.stamp

.venv-min: $(VENV_MIN)/.stamp

$(VENV)/.stamp: pyproject.toml constraints.txt
	$(call create_venv,$(VENV))
	$(PY) -m pip install --quiet --no-compile -c constraints.txt -e '.[$(EXTRAS)]'
	@touch $@

$(VENV_MIN)/.stamp: pyproject.toml constraints-min.txt
	$(call create_venv,$(VENV_MIN))
	$(VENV_MIN)/bin/python -m pip install --quiet -c constraints-min.txt -e '.[test]'
	@touch $@

# $(call create_venv,DIRECTORY[,OPTIONS]) keeps and updates an environment that already works.
define create_venv
@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	echo 'jaxfs needs Python >= 3.11; found $(or $(PYTHON),none on the PATH).' \
	     'Set one with make PYTHON=/path/to/python' >&2; \
	exit 1; }
@test -z "$(2)" && $(1)/bin/python -m pip --version >/dev/null 2>&1 \
	|| { echo 'building $(1) with $(PYTHON)'; "$(PYTHON)" -m venv --clear $(1); }
endef
