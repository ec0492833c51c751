# Every target sets up what it needs: a virtual environment beside this file, from hashed requirements.
# `make help` lists the targets; `make PYTHON=/path/to/python3.12 ...` chooses the interpreter.

OLD_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$python" -c '$(OLD_ENOUGH)' 2>/dev/null && echo "$$python" && break; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet
FAMILIES := resources node-affinity taints ports-images inter-pod-affinity topology-spread preemption volumes \
            dynamic-resources mixed

# Tests run in as many processes as there are processors, four at most: some of them measure time.
PYTEST := $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal

.PHONY: help install demo test test-apiserver soak lint format conformance perf examples svg clean rebuild

help: ## Say what the targets do
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(MAKEFILE_LIST) | expand -t 25

install: $(STAMP) ## Make or mend .venv

# An environment that no longer runs, or that belongs to another folder, is made anew.
ifneq ($(shell $(BIN)/python -c '$(OLD_ENOUGH)' 2>/dev/null && cat $(STAMP) 2>/dev/null),$(CURDIR))
$(STAMP): rebuild
CLEAR := --clear
endif

$(STAMP): requirements/dev.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "Bayplan needs Python 3.11 or newer; name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c '$(OLD_ENOUGH)' 2>/dev/null || { echo "Bayplan needs Python 3.11 or newer, and '$(PYTHON)' is not that" >&2; exit 1; }
	@echo "Setting up $(VENV) with $$("$(PYTHON)" --version) ..."
	@"$(PYTHON)" -m venv $(CLEAR) $(VENV)
	@$(PIP) --require-hashes --requirement requirements/dev.txt
	@$(PIP) --no-deps --no-build-isolation --editable .
	@printf '%s' "$(CURDIR)" >$@

demo: install ## Watch a scheduler at work on an embedded cluster
	@$(BIN)/bayplan demo

test: install ## Run all tests; ARGS=... for pytest
	$(PYTEST) $(ARGS)

test-apiserver: install ## Run the tests that need a real control plane, found in KUBEBUILDER_ASSETS
	@test -n "$$KUBEBUILDER_ASSETS" || { echo "Set KUBEBUILDER_ASSETS to a folder with etcd and kube-apiserver, as envtest's setup-envtest makes one" >&2; exit 1; }
	$(PYTEST) -m apiserver $(ARGS)

soak: install ## Run the outages of the end-to-end tests at full length: minutes
	$(BIN)/python -m pytest -m soak --timeout 600 $(ARGS) tests/end_to_end

lint: install ## ruff, mypy --strict and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: install ## Put the code in shape
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

conformance: install ## Compare decisions with kube-scheduler's, recorded
	$(BIN)/bayplan conformance $(FAMILIES:%=--family %) tests/data/oracle/*.jsonl.gz

perf: install ## How many pods a second the decision core places
	$(BIN)/bayplan perf --on core misc SchedulingBasic/5000Nodes_10000Pods

examples: install ## Run the tests of the examples
	$(PYTEST) tests/examples

svg: install ## Draw docs/demo.svg, the README's picture, from a run of the demo
	$(BIN)/bayplan demo --save-svg docs/demo.svg

clean: ## Remove the environment and all caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
