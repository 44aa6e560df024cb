# Every command a person or CI ever calls. `make help` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash -euo pipefail
PYTHON ?= python3
BIN := .venv/bin
OIDC := server/tests/oidc_provider
TYPESCRIPT := clients/typescript
ORACLE := build/oracle-venv
GENERATORS := build/generators-venv
SCRIPTS ?= 500
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--custom-compile-command 'make lock'
WIRE := sdk/src/openbell/wire
TEST_SEED ?= $(shell date +%s)
TESTS ?= server/tests/tidy server/tests/unit server/tests/integration sdk/tests torture/tests mcp/tests
# The gate shows the slowest tests: DURATIONS=40.
DURATIONS ?= 0
PYTEST := $(BIN)/pytest -q $(if $(filter-out 0,$(DURATIONS)),--durations=$(DURATIONS))
PROOF := PYTHONPATH=server/tests $(BIN)/python -m proof

.PHONY: help setup console lock wheels sbom generate format check lint unit test e2e typescript contract services-up services-down dev demo docs bench proof nightly oracle sim clean

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: .venv/.ready ## make .venv with everything, from hashed requirements

.venv/.ready: requirements/uv.txt requirements/dev.txt sdk/pyproject.toml server/pyproject.toml torture/pyproject.toml mcp/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Openbell needs Python 3.11 or newer; this is $$($(PYTHON) --version). Say which: make setup PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null \
		|| { echo "This Python cannot make virtual environments. On Debian or Ubuntu: apt-get install python3-venv"; exit 1; }
	@test -x $(BIN)/uv || { $(PYTHON) -m venv .venv && $(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt; }
	@VIRTUAL_ENV="$(CURDIR)/.venv" $(BIN)/uv pip install --quiet --require-hashes -r requirements/dev.txt
	@VIRTUAL_ENV="$(CURDIR)/.venv" $(BIN)/uv pip install --quiet --no-deps --no-build-isolation -e sdk -e torture -e server -e mcp
	@touch $@

# Only the tests and the TypeScript client need them.
$(OIDC)/node_modules/.package-lock.json $(TYPESCRIPT)/node_modules/.package-lock.json: %/node_modules/.package-lock.json: %/package-lock.json | setup
	@$(BIN)/npm ci --prefix $* --ignore-scripts --no-audit --no-fund --silent
	@touch $@

lock: ## compile requirements/*.txt and the locks of the tests' OpenID provider, the TypeScript client and the console anew
	$(COMPILE) requirements/uv.in -o requirements/uv.txt
	$(COMPILE) --all-extras --no-emit-package openbell --no-emit-package openbell-torture sdk/pyproject.toml torture/pyproject.toml server/pyproject.toml mcp/pyproject.toml requirements/tools.in -o requirements/dev.txt
	$(COMPILE) --extra grpc --extra aws --no-emit-package openbell --no-emit-package openbell-torture --constraints requirements/dev.txt sdk/pyproject.toml torture/pyproject.toml server/pyproject.toml -o requirements/runtime.txt
	for each in $(OIDC) $(TYPESCRIPT) console; do $(BIN)/npm install --prefix $$each --package-lock-only --ignore-scripts --no-audit --no-fund --silent; done

console: setup ## build the pages of the console, unless they are built from these sources already
	@$(BIN)/python -m openbell_server.devtools.console_build

wheels: console ## build the four distributions into build/wheels, with the locked build tools
	@for each in sdk torture server mcp; do VIRTUAL_ENV="$(CURDIR)/.venv" $(BIN)/uv build --quiet --wheel --no-build-isolation --out-dir build/wheels $$each; done

sbom: wheels ## install requirements/runtime.txt and the wheels into build/runtime, and list all of it in build/sbom.json (CycloneDX)
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python build/runtime
	@$(BIN)/uv pip install --quiet --python build/runtime --require-hashes -r requirements/runtime.txt
	@$(BIN)/uv pip install --quiet --python build/runtime --no-deps --no-index --refresh --find-links build/wheels openbell openbell-torture openbell-server
	@$(BIN)/python tools/sbom.py

generate: setup ## make the gRPC code from proto/, the sync client from the async one, and the OpenAPI document and the reference pages from the code
	@$(BIN)/python -m grpc_tools.protoc -Iopenbell/wire=proto --python_out=sdk/src --grpc_python_out=sdk/src \
		--plugin=protoc-gen-mypy=$(BIN)/protoc-gen-mypy --plugin=protoc-gen-mypy_grpc=$(BIN)/protoc-gen-mypy_grpc \
		--mypy_out=quiet:sdk/src --mypy_grpc_out=quiet:sdk/src openbell/wire/trading.proto
	@$(BIN)/python tools/generate.py
	@PYTHONPATH=server/tests $(BIN)/python -m proof.errors
	@PYTHONPATH=server/tests $(BIN)/python -m proof.sabotages.page

format: setup ## rewrite the code in the house format
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .

# Side by side: mypy keeps one processor busy for as long as the unit tests keep the other.
check: setup ## format, lint, types, import contracts, the wire, tidy, unit tests: under two minutes
	@$(MAKE) --jobs=2 --output-sync=target --no-print-directory lint unit

lint: setup ## of the check: format, lint, types, import contracts, the wire
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/buf lint proto
	@$(BIN)/buf breaking proto --against proto/released
	@$(BIN)/mypy

unit: console ## of the check: tidy and unit tests
	@$(PYTEST) -n 2 server/tests/tidy server/tests/unit sdk/tests torture/tests mcp/tests

test: console $(OIDC)/node_modules/.package-lock.json ## tests on real PostgreSQL, NATS and Redis, two workers, random order
	@echo "random seed $(TEST_SEED)"
	@TMPDIR=$$(tools/scratch_folder) $(PYTEST) -n 2 --randomly-seed=$(TEST_SEED) $(TESTS)

e2e: setup ## tests on the whole stack as processes, two workers, a file at a time
	@TMPDIR=$$(tools/scratch_folder) $(PYTEST) -n 2 --dist loadfile server/tests/e2e

typescript: console $(TYPESCRIPT)/node_modules/.package-lock.json ## build the TypeScript client from docs/openapi.json, check types and test it and the console
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/npm run --prefix $(TYPESCRIPT) --silent check
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/npm run --prefix console --silent check

services-up: setup ## start PostgreSQL and NATS for this checkout, in the background
	@$(BIN)/openbell-server services up

services-down: setup ## stop them
	@$(BIN)/openbell-server services down

dev: setup ## the whole platform in this terminal, with a paper account; Ctrl-C ends it
	@$(BIN)/openbell-server dev

demo: setup ## the same 200 orders by a plain client and by Openbell, at a broker that times out: which are doubled, which are lost
	@$(BIN)/openbell-server demo

contract: setup ## find out whether a broker does what every broker must: make contract [BROKER=paper]
	@PYTHONPATH=server/tests $(BIN)/python -m conformance $(BROKER)

docs: setup ## fill the pages of results from docs/proof, check every link, and build the site into build/site
	@$(BIN)/python tools/docs.py

bench: setup ## how fast the accept step and the whole path are on this machine
	@$(PROOF) bench

proof: setup ## measure one part: make proof PART=e2e [SIZE=gate]; PART=gate measures every part of the gate
	@$(PROOF) $(or $(PART),--help) $(if $(SIZE),--size $(SIZE))

nightly: setup ## measure every part at full size whose result is older than its code: hours; may be interrupted and started again
	@status=0; $(PROOF) nightly || status=$$?; $(BIN)/python tools/docs.py; exit $$status

sim: setup ## run one simulation again and print its trace: make sim SEED=7, with whatever else a failing run says
	@test -n "$(SEED)" || { echo "Say which seed: make sim SEED=7"; exit 2; }
	@PYTHONPATH=server/tests $(BIN)/python -m simulation --seed $(SEED) $(if $(CLASS),--class $(CLASS)) \
		$(if $(CRASH),--crash-at $(CRASH) --reach $(or $(REACH),1) --command $(or $(COMMAND),CREATE) --mood $(or $(MOOD),honest)) \
		$(if $(SABOTAGE),--sabotage "$(SABOTAGE)")

# An engine of other people's making, in an environment of its own: nothing else needs it.
$(ORACLE)/.ready:
	@$(PYTHON) -m venv $(ORACLE)
	@$(ORACLE)/bin/pip install --quiet --disable-pip-version-check nautilus_trader==1.221.0
	@touch $@

# A generator of clients; only the proof part `generators` needs it.
$(GENERATORS)/.ready:
	@$(PYTHON) -m venv $(GENERATORS)
	@$(GENERATORS)/bin/pip install --quiet --disable-pip-version-check openapi-python-client==0.29.1
	@touch $@

oracle: $(ORACLE)/.ready ## the paper broker's matching held against Nautilus Trader's: make oracle [SCRIPTS=500]
	@PYTHONPATH=server/src:server/tests $(ORACLE)/bin/python -m oracle $(SCRIPTS)

clean: ## remove what setup and the checks made
	rm -rf .venv console/node_modules server/src/openbell_server/transport/console/static $(OIDC)/node_modules $(TYPESCRIPT)/node_modules $(TYPESCRIPT)/dist $(TYPESCRIPT)/src/schema.ts .openbell build .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
