# `make run` ends with a score and a report, `make test` runs the tests. Both install what they need first. `make help` lists all
# targets.
ifneq ($(shell uname -s),Linux)
$(error AIPerf needs Linux, but this is $(or $(shell uname -s),no Unix). Use a Linux machine, a container (Dockerfile) or WSL 2)
endif
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.set-up
DEV_STAMP := $(VENV)/.set-up-dev
SOURCES := pyproject.toml setup.py $(addprefix requirements/,run.txt cpu.txt cuda.txt dev.txt horovod.txt) $(addprefix tools/,setup.sh installer.py build_horovod.sh horovod_plan.py torch_build.py \
	torchvision_without_cuda.sh)
DEVICE ?= auto
export WHEELS
SET_UP = PYTHON="$(PYTHON)" DEVICE="$(DEVICE)" bash tools/setup.sh
PYTEST := $(BIN)/python -m pytest
# Tests without Ray, ranks or torch.compile. With those of other pure packages they would take longer than 90 s on two cores.
FAST := $(addprefix tests/,accounting comparison journal leaderboard morphism preflight ranking rules searchers statistics test_docs.py) \
	--ignore=tests/searchers/test_ray_tune.py

.PHONY: help setup setup-dev docs again run test test-fast test-long test-all lint submissions release size mutants clean constraints wheels
.DEFAULT_GOAL := help

help: ## print this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(STAMP) ## create the environment of a run in .venv, if it is missing (DEVICE=auto|cpu|cuda|rocm: build of torch)

setup-dev: $(DEV_STAMP) ## add the packages of tests and linters

# another choice of device sets up again
ifeq ($(filter auto $(shell cat $(VENV)/.device 2>/dev/null),$(DEVICE)),)
$(STAMP): again
endif
again:

$(STAMP): $(SOURCES)
	@WITH=run $(SET_UP)
	@touch $@

$(DEV_STAMP): $(STAMP)
	@WITH=dev $(SET_UP)
	@touch $@

run: setup ## run the benchmark on this machine: about 3 minutes, ends with a score and a report
	@$(BIN)/python -m aiperf $(ARGS)

test: setup-dev ## run the tests, three at a time, one of them with real processes (about 10 minutes on two cores)
	@$(PYTEST) -n 3 -m "not slow" --durations=20 $(ARGS)

test-fast: setup-dev ## run the tests of graphs, searchers, rules, journal, score and ranking (under 90 s on two cores)
	@$(PYTEST) -n 2 -m "not slow" $(FAST) $(ARGS)

test-long: setup-dev ## run only the long tests (ARGS=tests/simulate: some of them)
	@$(PYTEST) -m slow $(ARGS)

test-all: setup-dev ## run all tests, the long ones included
	@$(PYTEST) $(ARGS)

lint: setup-dev ## check with ruff, mypy --strict, the import contracts and the budget of lines in pyproject.toml
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m tools.size --budget

docs: setup-dev ## build the documentation site in build/docs, without warnings
	@$(BIN)/python -c "import furo, myst_parser" 2>/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --editable '.[docs]'
	@$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -b html docs build/docs
	@echo "build/docs/index.html"

submissions: setup ## check the folder submissions/ as its keeper (submissions/README.md)
	@$(BIN)/python -m tools.submissions

size: setup-dev ## print lines of code by package, and their change since the parent commit
	@$(BIN)/python -m tools.size

mutants: setup-dev ## change the code of score and rules piece by piece, and list the changes that no test detects (an hour)
	@$(BIN)/mutmut run $(ARGS)
	@$(BIN)/mutmut results

constraints: setup ## write the lock, requirements/*.txt (ARGS=NAME: with the newest version of a package)
	@bash tools/lock.sh $(ARGS)

wheels: ## put all wheels into the folder wheels (or WHEELS=FOLDER), for make setup WHEELS=FOLDER without a network
	@WITH=wheels WHEELS="$(or $(WHEELS),wheels)" $(SET_UP)

release: ## make the files of a release in dist/: sdist, wheel, image, bill of materials, provenance, checksums (nothing is published)
	@PYTHON="$(PYTHON)" bash tools/release.sh

clean: ## remove the environment and all caches, but not runs/
	@rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache mutants
