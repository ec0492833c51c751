# Every target sets up what it needs: a virtual environment next to this file, from pinned requirements.
# `make help` lists the targets. `make PYTHON=/path/to/python3.12 ...` selects the interpreter.

OLD_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11, 2))
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$python" -c '$(OLD_ENOUGH)' 2>/dev/null && echo "$$python" && break; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet

# tests/conftest.py says how many processes `auto` is.
PYTEST := $(BIN)/python -m pytest -n auto --dist worksteal

.PHONY: help install demo test test-apiserver test-shadow test-truth test-when test-e2e soak lint format conformance perf performance examples svg site site-version screenshots dist dist-twice image test-image binary release release-check clean rebuild

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(MAKEFILE_LIST) | expand -t 25

install: $(STAMP) ## Create or repair .venv

# An environment that doesn't work, or was created for another directory, is created again.
ifneq ($(shell $(BIN)/python -c '$(OLD_ENOUGH)' 2>/dev/null && cat $(STAMP) 2>/dev/null),$(CURDIR))
$(STAMP): rebuild
CLEAR := --clear
endif

$(STAMP): requirements/dev.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "Bayplan needs Python 3.11.2 or newer; select one with make PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c '$(OLD_ENOUGH)' 2>/dev/null || { echo "Bayplan needs Python 3.11.2 or newer, but '$(PYTHON)' is not" >&2; exit 1; }
	@echo "1/3 Creating $(VENV) with $$("$(PYTHON)" --version) ..."
	@"$(PYTHON)" -m venv $(CLEAR) $(VENV)
	@echo "2/3 Installing the requirements, which takes about a minute ..."
	@$(PIP) --require-hashes --requirement requirements/dev.txt
	@echo "3/3 Installing Bayplan ..."
	@$(PIP) --no-deps --no-build-isolation --editable .
	@printf '%s' "$(CURDIR)" >$@

demo: install ## Show the scheduler at work on an embedded cluster, and what another policy makes of a week
	@$(BIN)/bayplan demo
	@printf '\nWhat would packing the nodes have made of last week? (a sample; yours: docs/history.md)\n\n'
	@folder=$$(mktemp -d) && trap 'rm -r "$$folder"' EXIT && \
	$(BIN)/bayplan history sample "$$folder/last-week" > "$$folder/written" && \
	$(BIN)/bayplan compare --history "$$folder/last-week" --autoscaler cluster-autoscaler --limit 4 \
		--set NodeResourcesFit.scoringStrategy.type=MostAllocated
	@printf '\nTo use bayplan in this shell: source $(VENV)/bin/activate\n'

test: install ## Run all tests; ARGS=... is passed to pytest
	$(PYTEST) $(ARGS)

test-apiserver: install ## Run the tests that need a real control plane in KUBEBUILDER_ASSETS
	@test -n "$$KUBEBUILDER_ASSETS" || { echo "Set KUBEBUILDER_ASSETS to a directory with etcd and kube-apiserver, such as one created by setup-envtest" >&2; exit 1; }
	$(PYTEST) -m apiserver $(ARGS)

test-shadow: install ## Run a shadow beside the kube-scheduler in KUBEBUILDER_ASSETS, on 1,000 nodes of its control plane
	@test -x "$$KUBEBUILDER_ASSETS/kube-scheduler" || { echo "Set KUBEBUILDER_ASSETS to a directory with etcd, kube-apiserver and kube-scheduler" >&2; exit 1; }
	$(PYTEST) -m apiserver --timeout 900 -rP $(ARGS) tests/end_to_end/test_shadow_beside_a_scheduler.py

test-truth: install ## Compare what `compare` foretells with what kube-scheduler in KUBEBUILDER_ASSETS does (25 minutes)
	$(BIN)/python benchmarks/truth.py --write docs/compare.md $(ARGS)

test-when: install ## Compare when jobs start with what `when` says, with kube-scheduler in KUBEBUILDER_ASSETS (7 minutes)
	$(BIN)/python benchmarks/when_truth.py --real --write docs/when.md --plot docs/images/when.svg $(ARGS)

test-e2e: install ## Run Kubernetes' e2e tests of scheduling: E2E_TEST=path of e2e.test, RUNS=1, VERSION=1.36
	@$(BIN)/python tools/kubernetes_e2e.py "$(E2E_TEST)" "$(RUNS)" "$(VERSION)"

soak: install ## Run the outage tests and the fuzz at full length (takes minutes)
	$(BIN)/python -m pytest -m soak --timeout 600 $(ARGS) tests/end_to_end

lint: install ## Run ruff, mypy --strict and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: install ## Fix and format the code with ruff
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

conformance: install ## Compare decisions with recorded decisions of kube-scheduler
	$(BIN)/bayplan conformance tests/data/oracle/*.jsonl.gz

perf: install ## Measure how many pods per second the decision core places
	$(BIN)/bayplan perf --on core misc SchedulingBasic/5000Nodes_10000Pods

performance: install ## Measure what is missing in docs/performance.md, and write it; ARGS=... as of benchmarks/performance.py
	$(BIN)/python benchmarks/performance.py $(ARGS)

examples: install ## Run the tests of the examples
	$(PYTEST) tests/examples

svg: install ## Create docs/demo.svg, the picture in the README, from a demo
	$(BIN)/bayplan demo --save-svg docs/demo.svg

# The site has an environment of its own, from requirements/site.txt.
SITE_VENV := .venv-site

$(SITE_VENV)/.installed: requirements/site.txt
	@"$(PYTHON)" -m venv --clear $(SITE_VENV)
	@$(SITE_VENV)/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes --requirement requirements/site.txt
	@touch $@

PICTURES := PYTHONPATH=.:tests/ui $(BIN)/python tools/site_screenshots.py
MKDOCS := NO_MKDOCS_2_WARNING=1 SITE_SCREENSHOTS=build/screenshots $(SITE_VENV)/bin

site: install $(SITE_VENV)/.installed ## Build the documentation site in build/site, with new screenshots, and check it
	@rm -rf build/site build/screenshots && mkdir -p build
	@$(PICTURES) build/screenshots
	@$(MKDOCS)/mkdocs build 2>build/site.log || { cat build/site.log >&2; exit 1; }
	@PYTHONPATH=.:tests/ui $(BIN)/python tools/site_check.py build/site

site-version: site ## Add the site as VERSION to the local branch SITE_BRANCH, which can be published; SITE_URL=... is where
	@test -n "$(VERSION)" || { echo "Name the version, such as make site-version VERSION=0.2" >&2; exit 1; }
	@SITE_VERSIONS=mike PATH="$(CURDIR)/$(SITE_VENV)/bin:$$PATH" $(MKDOCS)/mike deploy --branch $(or $(SITE_BRANCH),gh-pages) --update-aliases $(VERSION) latest

screenshots: install ## Renew the pictures of the page in docs/images
	@$(PICTURES) docs/images

dist: install ## Build the wheel and the source archive in dist/
	$(BIN)/python -m build --no-isolation

dist-twice: install ## Build the wheel and the source archive of the commit twice, and compare their bytes
	@$(BIN)/python -m tools.releases dist-twice

# Parameters of the next targets, which nothing in the tree knows: BUILDER='buildah --storage-driver vfs', BASE=python:3.13-slim,
# REGISTRY, TAG, LIBRARIES=history for `bayplan record`, PYTHONS='python3.11 python3.13' for the binary, URL where a
# release will be, SOURCE of the commit, BUILDER_ID, and KEY to sign with, or to check a signature with.
option = $(if $(2),$(1) '$(2)')

image: install ## Build an image with docker, podman or buildah: BASE, REGISTRY, TAG, LIBRARIES, BUILDER, PUSH=yes
	@$(BIN)/python -m tools.images build $(call option,--builder,$(BUILDER)) $(call option,--base,$(BASE)) \
		$(call option,--registry,$(REGISTRY)) $(call option,--tag,$(TAG)) $(call option,--libraries,$(LIBRARIES)) \
		$(if $(PUSH),--push)

test-image: install ## Build the images on a base made here, run them as the manifests say; needs root and Debian
	@$(BIN)/python -m tools.images try $(call option,--builder,$(BUILDER)) $(call option,--base,$(BASE)) \
		$(call option,--mirror,$(MIRROR))

binary: install ## Write `bayplan` as one file in dist/, for the Pythons PYTHONS
	@$(BIN)/python -m tools.releases binary $(foreach python,$(PYTHONS),--python $(python))

release: install ## Make a release of a tagged commit: KEY, URL, SOURCE, BASE, BUILDER, BUILDER_ID, ARGS
	@$(BIN)/python -m tools.releases make $(call option,--builder,$(BUILDER)) $(call option,--base,$(BASE)) \
		$(call option,--url,$(URL)) $(call option,--source,$(SOURCE)) $(call option,--builder-id,$(BUILDER_ID)) \
		$(call option,--key,$(KEY)) $(foreach python,$(PYTHONS),--python $(python)) $(ARGS)

release-check: install ## Check the release in DIR as somebody does who has only that: DIR, KEY
	@test -n "$(DIR)" || { echo "Name the folder of the release: make release-check DIR=dist/release-v1.2.3" >&2; exit 1; }
	@$(BIN)/python -m tools.releases check '$(DIR)' $(call option,--key,$(KEY))

clean: ## Remove .venv and all caches
	rm -rf $(VENV) $(SITE_VENV) .venv-ci .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
