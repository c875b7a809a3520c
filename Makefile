# `make test` and `make demo` need Python 3.11 or newer and make, nothing else.
# `make check` also needs luacheck and Node.js, and says so when they are missing.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
VENV_READY := $(VENV)/.ready
LUA := service/store/lua
STYLUA_READY := tools/lua/node_modules/.ready

.DEFAULT_GOAL := help
.PHONY: help setup check format test test-long demo bench simulate compare scales loadtest serve compose-env constraints lua-tools clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV_READY) ## make .venv with everything in it (again when the pins change)

$(VENV_READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Python 3.11 or newer is needed; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)." >&2; \
	  echo "Name another one like this: make PYTHON=python3.12 setup" >&2; \
	  exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

check: setup lua-tools ## lint, formatting, types, import rules, Lua (needs luacheck and Node.js)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	luacheck --quiet $(LUA)
	node tools/lua/stylua.mjs --check $(LUA)

format: setup lua-tools ## format Python and Lua, and fix what ruff can fix
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	node tools/lua/stylua.mjs $(LUA)

# Files in order of their names, since the longest have few tests, and those would come last.
# The tests start hundreds of processes: what was compiled once is kept, also where that is off.
test test-long: export PYTHONDONTWRITEBYTECODE :=

test: setup ## run the tests, without the long ones (ARGS="-k ball" passes flags on)
	$(BIN)/python -m pytest -m "not long" -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

test-long: setup ## run the long tests only
	$(BIN)/python -m pytest -m long $(ARGS)

demo: setup ## start the service, replay an environment against it (EXIT=1 stops at the end)
	$(BIN)/zooming demo $(if $(filter-out 0,$(EXIT)),--exit) $(ARGS)

bench: setup ## measure sub-partitions, 10,000 arms, closing, the presets; memory of decisions, balls, tenants
	$(BIN)/zooming bench

simulate: setup ## rerun the paper's experiments (ARGS="--docs docs" renews tables and figures)
	$(BIN)/zooming simulate $(ARGS)

compare: setup ## our learner beside those of others (ARGS="--docs docs" renews table and figure)
	$(BIN)/zooming simulate --compare $(ARGS)

scales: setup ## context scales beside each other, where contexts are skewed (ARGS="--docs docs")
	$(BIN)/zooming simulate --scales $(ARGS)

loadtest: setup ## replay an environment against a running service (ARGS="--rate 100 --report DIR")
	$(BIN)/zooming loadtest $(ARGS)

serve: setup ## start the service (ARGS="--port 9000" passes flags on)
	$(BIN)/zooming serve $(ARGS)

compose-env: ## make the keys for docker compose, in .env, once
	@ops/compose-env.sh

# Resolved under the oldest Python that is supported, so that every pin can be installed there.
# async-timeout: redis asks for it before Python 3.11.3, which the resolving Python may not be.
constraints: ## pin the newest versions of everything in constraints.txt (needs Python 3.11)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || { \
	  echo "The pins are resolved under Python 3.11: make PYTHON=python3.11 constraints" >&2; exit 1; }
	@scratch=$$(mktemp -d) && trap 'rm -rf "$$scratch"' EXIT && \
	$(PYTHON) -m venv "$$scratch/venv" && \
	"$$scratch/venv/bin/pip" install --disable-pip-version-check -e '.[dev]' async-timeout && \
	"$$scratch/venv/bin/pip" freeze --disable-pip-version-check --exclude-editable --all > "$$scratch/all" && \
	{ echo "# Every package that \`make setup\` installs, pinned. Remake with \`make constraints\`."; \
	  grep -E '^[A-Za-z0-9._-]+==' "$$scratch/all" | grep -v '^pip==' | LC_ALL=C sort -f; } > "$$scratch/pins" && \
	cp "$$scratch/pins" constraints.txt && echo "constraints.txt: $$(grep -c == constraints.txt) pins"

lua-tools: $(STYLUA_READY)
	@command -v node >/dev/null || { echo "$(NODE_MISSING)" >&2; exit 1; }
	@command -v luacheck >/dev/null || { echo "$(LUACHECK_MISSING)" >&2; exit 1; }

$(STYLUA_READY): tools/lua/package.json
	@command -v npm >/dev/null || { echo "$(NODE_MISSING)" >&2; exit 1; }
	cd tools/lua && npm install --no-save --no-package-lock --no-audit --no-fund
	@touch $@

NODE_MISSING := Node.js 18 or newer with npm is missing; the Lua formatter runs on it. Debian: apt-get install nodejs npm
LUACHECK_MISSING := luacheck is missing. Debian: apt-get install lua-check; elsewhere: luarocks install luacheck

clean: ## remove .venv, node_modules and everything that tools leave behind (no service data)
	rm -rf $(VENV) tools/lua/node_modules build dist *.egg-info \
	  .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
