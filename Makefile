# All targets run in .venv, which holds the packages of requirements.lock (names, versions and hashes) and no others.
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

# Tests start hundreds of Python processes. If the environment turned bytecode files off, each process would compile all
# modules that it imports.
export PYTHONDONTWRITEBYTECODE :=

# Simulate five routers on one network, analyse the runs, and write a report of one page.
demo: setup
	$(BIN)/hearsay demo

# One worker more than cores: tests of nodes, browsers and processes spend a fifth of their time waiting.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(1 + len(getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))(0)))')

STORES := build/stores-tools
SITE := build/site-tools

# The tests to run after a change. They take nine minutes on two cores. After a change in core, sim or trace, the kernels of
# the array engine are compiled first, which takes five minutes more.
test: setup
	@$(BIN)/hearsay spark prepare || true
	$(BIN)/python tests/sim/compile_entries.py quick
	$(BIN)/python -m pytest -n $(WORKERS) -m "not thorough and not mutants"

# The tests to run before a change is handed in: all except mutants, with eight times as many examples of hypothesis. They
# take 34 minutes on two cores, and the compilation of kernels seven more.
test-all: setup
	@$(MAKE) --no-print-directory $(STORES)/.from-lock $(SITE)/.from-lock || true
	@$(BIN)/hearsay spark prepare || true
	$(BIN)/python tests/sim/compile_entries.py all
	$(BIN)/python -m pytest -n $(WORKERS) -m "not mutants" --hypothesis-profile thorough -rs

# An S3 server for tests, in its own environment.
$(STORES)/.from-lock: tests/stores/requirements.lock
	$(PYTHON) -m venv --clear $(STORES)
	$(STORES)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r tests/stores/requirements.lock
	@touch $@

# Check style, strict types in the package, and some rules of types in all other Python files.
lint: setup
	@$(BIN)/python -c 'import basedpyright' 2>/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --require-hashes --only-binary :all: -r requirements-types.lock
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright --level error
	$(BIN)/basedpyright --level error --project pyrightconfig.tests.json

# Generate source files and pages again. Test vectors have another generator, tools/make_vectors.py.
pages: setup
	@for tool in row_functions difference_tables score_tables scenario_page table_page; do \
	  echo "tools/$$tool.py"; $(BIN)/python "tools/$$tool.py" || exit 1; done

# Print the code lines and files of each package, and their budgets (tools/size_budgets.toml).
size:
	@$(PYTHON) tools/size.py

# Test the node with go-, rust-, js- and py-libp2p. Implementations whose toolchain is missing are skipped, and the output
# names them. The peers are built once, in the user's cache folder.
interop: setup
	$(BIN)/python -m pytest interop -n 2 -rs

# Search for faults with random input: scenarios with the checker, one engine against the other, parsers, mutants of the
# node, and killed processes. `make soak SECONDS=3600 SEED=n` sets the duration and the first seed.
soak: setup
	$(BIN)/python tests/soak/run_soak.py --seconds $(or $(SECONDS),600) $(if $(SEED),--seed $(SEED))

# Fuzz each parser for some seconds; `make fuzz SECONDS=600` takes longer.
fuzz: setup
	@$(BIN)/python -c 'import atheris' 2>/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --require-hashes --only-binary :all: -r tests/fuzz/requirements.lock
	$(BIN)/python tests/fuzz/run_fuzzers.py --seconds $(or $(SECONDS),10)

# Remove one defence of the node at a time, and check that its tests fail; `make mutants ONLY="window rsa"` removes only
# those whose names contain one of these words. Then change rules and kernels, and check that test vectors and the comparison of engines fail.
mutants: setup
	$(BIN)/python tests/mutants/run_mutants.py $(if $(ONLY),--only $(ONLY))
	$(if $(ONLY),,$(BIN)/python -m pytest -n $(WORKERS) -m mutants)

# Run the benchmarks, and write the figures with machine, date and commit into docs/benchmarks. `make bench QUICK=1` takes
# small sizes.
bench: setup
	$(BIN)/python bench/record.py $(if $(QUICK),--quick)

# Build the documentation as a site, build/site/index.html. Its generator has its own environment and lock file.
site: $(SITE)/.from-lock
	$(PYTHON) tools/site/site_pages.py build/site-pages
	$(SITE)/bin/sphinx-build -q -W --keep-going -c tools/site build/site-pages build/site
	@echo "build/site/index.html"

$(SITE)/.from-lock: tools/site/requirements.lock
	$(PYTHON) -m venv --clear $(SITE)
	$(SITE)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r tools/site/requirements.lock
	@touch $@

# Build the distribution, and try the wheel in a new environment.
wheel:
	PYTHON=$(PYTHON) .ci/wheel

# For maintainers: update the pinned versions (needs `uv`). The extra `libp2p` is left out: it has 65 packages, some of which
# must be compiled; interop/py/requirements.txt pins their versions. PySpark is published as a source archive only, so it has
# its own lock file and is built with the pinned setuptools.
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
