# `make help` lists the targets. Nothing but python3.11, make and gcc has to be there before.

PYTHON ?= python3.11
UV ?= uv
VENV ?= .venv
BENCH ?=
DATA ?=
ARGS ?=
BIN := $(VENV)/bin
# Where tests against other people's newest packages install them: about 640 MB of hosts, 500 MB of clients.
CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/memsvc
HOSTS := @anthropic-ai/claude-code@latest @openai/codex@latest
CONFORMANCE := node@22 @modelcontextprotocol/conformance@0.2.0-alpha.12
# Hundreds of processes load the same modules: what one has compiled, the others find, also where nothing is to be written
# beside the sources.
COMPILED := PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX='$(CURDIR)/$(VENV)/pycache'
# With ARGS that choose tests, a part of the suite in which nothing was chosen has not failed.
# Tests wait for commits, processes and timers half of the time: two for each core.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(2 * os.cpu_count())')
TESTS = $(COMPILED) $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal $(ARGS) -m $(1) $(if $(ARGS),|| test $$? = 5)
# Files that contain a mark: loading all others again, in each process, takes longer than many tests.
MARKED = $(if $(ARGS),,$(shell grep -rlE --include='test_*.py' 'mark\.($(1))\b' tests | sort))
SOURCES := memsvc tests docs $(wildcard migrations benchmarks deploy)
# Every download is checked against the lock; the project itself is built with the backend that the lock brought. What is
# never loaded need not be compiled.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input --no-compile
LOCK_WITH := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-emit-find-links --custom-compile-command 'make lock'
AUDIT := $(UV) tool run pip-audit --require-hashes --disable-pip --progress-spinner off

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help serve quick test test-all test-citus test-hosts test-clients conformance lint format lock audit sbom bench clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

serve: $(VENV)/.runtime  ## set up and serve on embedded PostgreSQL (ARGS='--help' for options)
	@exec $(BIN)/memsvc serve $(ARGS)

test: quick  ## set up, check style, types and imports, run the quick tests (ARGS='-k name' to choose)
	@echo 'Slow tests were left out: make test-all runs both.'

test-all: quick  ## run the same checks and tests, and then the slow tests: processes, races, crashes, browsers, backups
	$(call TESTS,'slow and not alone' $(call MARKED,slow|alone))
	$(call TESTS,alone -n 0 $(call MARKED,alone))

quick: lint
	$(call TESTS,'not slow')

test-citus: export MEMSVC_TEST_DSN = $(or $(DSN),$(error DSN is missing))
test-citus: $(VENV)/.dev  ## run the tests that apply to a Citus cluster (DSN: of a superuser on its coordinator)
	$(call TESTS,'not alone' tests/store tests/styles tests/administration tests/gateway tests/contract/test_walls.py)
	$(call TESTS,'not alone' -n 0 tests/contract/test_cluster.py)

test-hosts: $(VENV)/.dev  ## run the newest Claude Code and Codex with hooks (needs npm; installs both in CACHE)
	@command -v npm >/dev/null || { echo 'make test-hosts needs npm: see nodejs.org'; exit 1; }
	@mkdir -p '$(CACHE)/hosts'
	npm install --silent --no-audit --no-fund --prefix '$(CACHE)/hosts' $(HOSTS)
	$(COMPILED) MEMSVC_TEST_HOSTS='$(CACHE)/hosts' $(BIN)/python -m pytest -n 0 -rP tests/hosts $(ARGS)

test-clients: $(VENV)/.dev  ## run the samples of the documentation with the newest packages (installs them in CACHE)
	$(COMPILED) MEMSVC_TEST_CLIENTS='$(CACHE)/clients' $(BIN)/python -m pytest -n 0 tests/e2e/test_client_packages.py $(ARGS)

conformance: $(VENV)/.dev  ## run the official MCP suite and write docs/conformance.md (needs npm; installs it in CACHE)
	@command -v npm >/dev/null || { echo 'make conformance needs npm: see nodejs.org'; exit 1; }
	@mkdir -p '$(CACHE)/conformance'
	npm install --silent --no-audit --no-fund --prefix '$(CACHE)/conformance' $(CONFORMANCE)
	$(COMPILED) MEMSVC_TEST_NODE_MODULES='$(CACHE)/conformance' $(BIN)/python -m tests.conformance

lint: $(VENV)/.dev  ## check style, format, types and imports
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo

format: $(VENV)/.dev  ## format the code and fix what can be fixed automatically
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

lock:  ## rewrite both lock files (needs uv; ARGS=--upgrade for newer versions)
	@command -v $(UV) >/dev/null || { echo 'make lock needs uv: https://docs.astral.sh/uv/'; exit 1; }
	$(LOCK_WITH) $(ARGS) --group build -o requirements.lock pyproject.toml
	$(LOCK_WITH) $(ARGS) --group dev --constraint requirements.lock -o requirements-dev.lock pyproject.toml

audit:  ## check the locked versions for known vulnerabilities (needs uv; skipped if the index does not answer)
	@command -v $(UV) >/dev/null || { echo 'make audit needs uv: https://docs.astral.sh/uv/'; exit 1; }
	@for lock in requirements.lock requirements-dev.lock; do \
		found=$$($(AUDIT) -r $$lock 2>&1); status=$$?; \
		case "$$status $$found" in \
			*'Found '*' known vulnerabilit'*) echo "$$lock: $$found"; exit 1 ;; \
			*'could not be audited'* | *ConnectionError* | *'error sending request'*) \
				echo "$$lock: skipped, the index of vulnerabilities does not answer for every package" ;; \
			'0 '*) echo "$$lock: no known vulnerabilities" ;; \
			*) echo "$$lock: $$found"; exit 1 ;; \
		esac; \
	done

sbom: $(VENV)/.runtime  ## write the list of shipped packages, as CycloneDX, to dist/memsvc.cdx.json
	@mkdir -p dist
	$(BIN)/python -m deploy.sbom >dist/memsvc.cdx.json

bench: $(VENV)/.dev  ## run the benchmarks at a small size (BENCH='latency' to choose, DATA=FILE for recall)
	@$(BIN)/python -m benchmarks --quick $(if $(DATA),--data '$(DATA)') $(ARGS) $(BENCH)

clean:  ## remove everything that make and the tools created; data in .memsvc is kept
	rm -rf $(VENV) dist build .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	$(if $(shell $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo yes),,\
		$(error memsvc needs Python 3.11 or newer; set PYTHON=...))
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: requirements.lock pyproject.toml | $(VENV)/bin/python
	$(INSTALL) --require-hashes -r requirements.lock
	$(INSTALL) --no-deps --no-build-isolation --no-index -e .
	@touch $@

$(VENV)/.dev: requirements-dev.lock $(VENV)/.runtime
	$(INSTALL) --require-hashes -r requirements-dev.lock
	@touch $@
