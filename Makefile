# Everything on a bare machine: `make run` ends with a score and a report, `make test` with the tests passed.
# Both set up what they need first; `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.set-up
PYTEST := $(BIN)/python -m pytest
# Tests without Ray, ranks or torch.compile. With those of other pure packages they would take longer than 90 s on two cores.
FAST := $(addprefix tests/,accounting comparison journal leaderboard morphism preflight ranking rules searchers statistics test_docs.py)

.PHONY: help setup run test test-fast test-long test-all lint size mutants clean constraints
.DEFAULT_GOAL := help

help: ## what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(STAMP) ## the environment in .venv, pinned by constraints.txt (does nothing when it is there)

$(STAMP): pyproject.toml setup.py constraints.txt tools/setup.sh tools/build_horovod.sh tools/horovod_plan.py tools/torch_build.py tools/torchvision_without_cuda.sh $(wildcard constraints-cuda.txt)
	@PYTHON="$(PYTHON)" bash tools/setup.sh
	@touch $@

run: setup ## the main job on this machine: about 3 minutes, ends with a score and a report
	@$(BIN)/python -m aiperf $(ARGS)

test: setup ## the tests, two at once (about 10 minutes on two cores)
	@$(PYTEST) -n 2 -m "not slow" $(ARGS)

test-fast: setup ## tests of graphs, searchers, rules, journal, score and ranking, two at once (under 90 s on two cores)
	@$(PYTEST) -n 2 -m "not slow" $(FAST) $(ARGS)

test-long: setup ## the long tests alone (ARGS=tests/simulate: some of them)
	@$(PYTEST) -m slow $(ARGS)

test-all: setup ## the tests with the long ones
	@$(PYTEST) $(ARGS)

lint: setup ## ruff, mypy strict and the floors of docs/architecture.md
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

size: setup ## lines of code by package, modules by folder, the functions' median length
	@$(BIN)/python -m tools.size

mutants: setup ## changes the code of score and rules piece by piece, and lists the changes that no test fails on (an hour)
	@$(BIN)/mutmut run $(ARGS)
	@$(BIN)/mutmut results

constraints: setup ## writes constraints.txt from what is installed now
	@bash tools/write_constraints.sh

clean: ## removes the environment and every cache; runs/ stays
	@rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache mutants
