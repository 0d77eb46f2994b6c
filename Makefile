# `make run` ends with a score and a report, `make test` runs the tests. Both install what they need first. `make help` lists all
# targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.set-up
PYTEST := $(BIN)/python -m pytest
# Tests without Ray, ranks or torch.compile. With those of other pure packages they would take longer than 90 s on two cores.
FAST := $(addprefix tests/,accounting comparison journal leaderboard morphism preflight ranking rules searchers statistics test_docs.py) \
	--ignore=tests/searchers/test_ray_tune.py

.PHONY: help setup run test test-fast test-long test-all lint size mutants clean constraints
.DEFAULT_GOAL := help

help: ## print this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(STAMP) ## create the environment in .venv with the versions of constraints.txt, if it is missing

$(STAMP): pyproject.toml setup.py constraints.txt tools/setup.sh tools/build_horovod.sh tools/horovod_plan.py tools/torch_build.py tools/torchvision_without_cuda.sh constraints-cuda.txt
	@PYTHON="$(PYTHON)" bash tools/setup.sh
	@touch $@

run: setup ## run the benchmark on this machine: about 3 minutes, ends with a score and a report
	@$(BIN)/python -m aiperf $(ARGS)

test: setup ## run the tests, three at a time, one of them with real processes (about 10 minutes on two cores)
	@$(PYTEST) -n 3 -m "not slow" --durations=20 $(ARGS)

test-fast: setup ## run the tests of graphs, searchers, rules, journal, score and ranking (under 90 s on two cores)
	@$(PYTEST) -n 2 -m "not slow" $(FAST) $(ARGS)

test-long: setup ## run only the long tests (ARGS=tests/simulate: some of them)
	@$(PYTEST) -m slow $(ARGS)

test-all: setup ## run all tests, the long ones included
	@$(PYTEST) $(ARGS)

lint: setup ## check with ruff, mypy --strict, the import contracts and the budget of lines in pyproject.toml
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m tools.size --budget

size: setup ## print lines of code by package, and their change since the parent commit
	@$(BIN)/python -m tools.size

mutants: setup ## change the code of score and rules piece by piece, and list the changes that no test detects (an hour)
	@$(BIN)/mutmut run $(ARGS)
	@$(BIN)/mutmut results

constraints: setup ## write constraints.txt from the installed packages
	@bash tools/write_constraints.sh

clean: ## remove the environment and all caches, but not runs/
	@rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache mutants
