# Everything runs in .venv, made from requirements.lock (names, versions and hashes) and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.from-lock

.PHONY: setup demo test test-all soak lint pages size interop fuzz mutants bench site wheel lock clean

setup: $(STAMP)

$(STAMP): requirements.lock requirements-source.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "hearsay needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "setup: makes .venv once: 810 MB to download, 2.0 GB on disk, one to five minutes, more on a busy machine"
	@$(PYTHON) -m venv --clear $(VENV)
	$(call step,1 of 3: packages of requirements.lock (380 MB),--require-hashes --only-binary :all: -r requirements.lock)
	$(call step,2 of 3: PySpark (430 MB),--require-hashes --no-deps --no-build-isolation -r requirements-source.lock)
	$(call step,3 of 3: hearsay,--no-deps --no-build-isolation -e .)
	@touch $(STAMP)

step = @printf '%s' 'setup: step $(1) ... '; begin=$$(date +%s); \
  $(BIN)/python -m pip install --quiet --disable-pip-version-check $(2) && echo "$$(( $$(date +%s) - begin )) s"

# Tests start hundreds of Pythons. Where the environment forbids them to keep bytecode, each would compile all it imports.
export PYTHONDONTWRITEBYTECODE :=

# Five routers on one network, simulated, analysed, and shown in one page.
demo: setup
	$(BIN)/hearsay demo

# One more than there are cores: tests of nodes, browsers and processes wait for their clocks a fifth of their time.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(1 + len(getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))(0)))')

STORES := build/stores-tools
SITE := build/site-tools

# Every rule, every contract and each real thing once: what to run after a change. Nine minutes on two cores,
# and seven more to compile the kernels of the array engine after they changed.
test: setup
	@$(BIN)/hearsay spark prepare || true
	$(BIN)/python tests/sim/compile_entries.py
	$(BIN)/python -m pytest -n $(WORKERS) -m "not thorough and not mutants"

# All tests but mutants, and what hypothesis tries eight times as often: what to run before a change is handed in. 34 minutes
# on two cores, and seven more to compile kernels.
test-all: setup
	@$(MAKE) --no-print-directory $(STORES)/.from-lock $(SITE)/.from-lock || true
	@$(BIN)/hearsay spark prepare || true
	$(BIN)/python tests/sim/compile_entries.py
	$(BIN)/python -m pytest -n $(WORKERS) -m "not mutants" --hypothesis-profile thorough -rs

# An S3 server for tests, in an environment of its own.
$(STORES)/.from-lock: tests/stores/requirements.lock
	$(PYTHON) -m venv --clear $(STORES)
	$(STORES)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r tests/stores/requirements.lock
	@touch $@

# Style, strict types in the package, and types elsewhere as far as they say something before a test runs.
lint: setup
	@$(BIN)/python -c 'import basedpyright' 2>/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --require-hashes --only-binary :all: -r requirements-types.lock
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright --level error
	$(BIN)/basedpyright --level error --project pyrightconfig.tests.json

# Generated files and pages. Test vectors have a generator of their own, tools/make_vectors.py.
pages: setup
	@for tool in row_functions difference_tables score_tables scenario_page table_page; do \
	  echo "tools/$$tool.py"; $(BIN)/python "tools/$$tool.py" || exit 1; done

# Code lines and files of each package, and their budgets (tools/size_budgets.toml).
size:
	@$(PYTHON) tools/size.py

# Against go-, rust-, js- and py-libp2p; what is not installed is skipped and named. Peers are built into the user's cache.
interop: setup
	$(BIN)/python -m pytest interop -n 2 -rs

# Looks for what no test has met yet, as long as one likes: `make soak SECONDS=3600`, and `SEED=n` to begin there. Random
# scenarios under the checker, engines against each other, parsers, mutants of the node, kills.
soak: setup
	$(BIN)/python tests/soak/run_soak.py --seconds $(or $(SECONDS),600) $(if $(SEED),--seed $(SEED))

# Looks for inputs on which a parser breaks its word, some seconds for each; `make fuzz SECONDS=600` looks longer.
fuzz: setup
	@$(BIN)/python -c 'import atheris' 2>/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --require-hashes --only-binary :all: -r tests/fuzz/requirements.lock
	$(BIN)/python tests/fuzz/run_fuzzers.py --seconds $(or $(SECONDS),10)

# Takes each defence of the node away, one at a time, and shows that its tests fail; `make mutants ONLY="window rsa"` some of them.
# Then rules and kernels are changed, which test vectors and the comparison of engines find.
mutants: setup
	$(BIN)/python tests/mutants/run_mutants.py $(if $(ONLY),--only $(ONLY))
	$(if $(ONLY),,$(BIN)/python -m pytest -n $(WORKERS) -m mutants)

# Writes what it measures into docs/benchmarks, with machine, date and commit. `make bench QUICK=1` takes small sizes.
bench: setup
	$(BIN)/python bench/record.py $(if $(QUICK),--quick)

# The pages as a site, to be opened at build/site/index.html; its generator has an environment and a lock of its own.
site: $(SITE)/.from-lock
	$(PYTHON) tools/site/site_pages.py build/site-pages
	$(SITE)/bin/sphinx-build -q -W --keep-going -c tools/site build/site-pages build/site
	@echo "build/site/index.html"

$(SITE)/.from-lock: tools/site/requirements.lock
	$(PYTHON) -m venv --clear $(SITE)
	$(SITE)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r tools/site/requirements.lock
	@touch $@

# Builds the distribution and tries the wheel in an environment of its own.
wheel:
	PYTHON=$(PYTHON) .ci/wheel

# For maintainers: refresh the pinned versions (needs `uv`). The extra `libp2p` is left out: it brings 65 packages, and
# some are compiled. Its versions are pinned in interop/py/requirements.txt. PySpark comes as a source archive only, so it has a lock
# of its own and is built with the pinned setuptools.
LOCK := uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate
lock:
	$(LOCK) --extra sim --extra fast --extra mdns --extra spark --extra tables --extra figures --extra tune --group dev pyproject.toml --no-emit-package pyspark -o requirements.lock
	$(LOCK) --group types -o requirements-types.lock
	$(LOCK) --group fuzz -o tests/fuzz/requirements.lock
	$(LOCK) --extra fast --extra mdns pyproject.toml -o deploy/node.lock
	$(LOCK) --group build -o deploy/build.lock
	$(LOCK) --group stores -o tests/stores/requirements.lock
	$(LOCK) --group site -o tools/site/requirements.lock
	$(LOCK) --no-deps requirements-source.in -o requirements-source.lock

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis
