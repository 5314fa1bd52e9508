# Two commands matter: `make demo` and `make test`. Both set up `.venv` themselves.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

# Pinned so that a plain `pip install` of some other package never pulls a CUDA build of several GB.
TORCH  ?= torch==2.13.0

GEMS   ?= .venv-gems

# vLLM beside Jumar, of a version that requirements/ has: make vllm VLLM=0.33.0
VLLM      ?= 0.24.0
VENV_VLLM ?= .venv-vllm$(if $(filter 0.24.0,$(VLLM)),,-$(basename $(VLLM)))

.PHONY: demo test fuzz fuzz-api test-torch-npu flag-gems vllm \
  test-vllm test-vllm-short vllm-acceptance lint bench bench-faults docs clean format

demo: $(VENV)/.runtime
	$(BIN)/python examples/demo.py --out demo-out

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto --cov --cov-report=
	JUMAR_EMULATE_NPU=2 $(BIN)/python -m pytest tests/emulated tests/integration -n auto \
	  --cov --cov-append --cov-report=term

# The property tests on examples that nobody drew before.
fuzz: $(VENV)/.dev
	JUMAR_FUZZ=1 $(BIN)/python -m pytest -m hypothesis -n auto

# Requests drawn from the OpenAPI document, against a server of real models.
fuzz-api: $(VENV)/.dev
	$(BIN)/python tools/fuzz_api.py --max-examples 20

# The emulated torch_npu against the real wheel, on empty stand-in libraries; needs gcc and nm.
test-torch-npu: $(VENV)/.dev
	$(BIN)/python tools/check_torch_npu.py

# FlagGems in Triton's interpreter on the emulated NPU (docs/flag-gems.md); 0.7 GB in $(GEMS).
flag-gems: export TRITON_INTERPRET=1
flag-gems: export JUMAR_EMULATE_NPU=2,noise=off
flag-gems: export FLAGGEMS_CACHE_DIR=$(CURDIR)/$(GEMS)/cache
flag-gems: $(GEMS)/.ready
	$(GEMS)/bin/python -m pytest -q -p no:randomly tests/emulated/test_flag_gems.py
	rm -rf $(GEMS)/findings
	$(GEMS)/bin/python -W ignore tools/flag_gems/table.py $(GEMS)/findings

$(GEMS)/.ready: $(VENV)/.dev tools/flag_gems/prepare.py
	$(BIN)/python tools/flag_gems/prepare.py $(GEMS)
	@touch $@

# The real vLLM on Jumar's platform (docs/vllm.md): 2 GB in $(VENV_VLLM).
vllm: $(VENV_VLLM)/.ready

$(VENV_VLLM)/.ready: requirements/vllm-$(VLLM).txt tools/vllm/prepare.py pyproject.toml
	$(PYTHON) tools/vllm/prepare.py $(VENV_VLLM) $(VLLM) "$(TORCH)"
	@touch $@

# The table of docs/vllm-acceptance.md anew, on the CPU, then on an emulated NPU.
vllm-acceptance: $(VENV_VLLM)/.ready
	JUMAR_VLLM_DEVICE=cpu $(VENV_VLLM)/bin/python -m tests.vllm.acceptance
	JUMAR_EMULATE_NPU=1,noise=off $(VENV_VLLM)/bin/python -m tests.vllm.acceptance

# Its tests on the CPU, then on emulated NPUs; the short form leaves out what takes long.
test-vllm test-vllm-short: export OMP_NUM_THREADS=1
test-vllm: $(VENV_VLLM)/.ready
	JUMAR_VLLM_DEVICE=cpu $(VENV_VLLM)/bin/python -m pytest -q tests/vllm
	JUMAR_EMULATE_NPU=2 $(VENV_VLLM)/bin/python -m pytest -q tests/vllm

test-vllm-short: $(VENV_VLLM)/.ready
	JUMAR_VLLM_DEVICE=cpu $(VENV_VLLM)/bin/python -m pytest -q tests/vllm -m "not long"
	JUMAR_EMULATE_NPU=2 $(VENV_VLLM)/bin/python -m pytest -q -m "not long" \
	  tests/vllm/test_parity.py tests/vllm/test_platform.py tests/vllm/test_attention_ascend.py

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/vermin --target=3.10- --violations --no-tips --eval-annotations -q src hatch_build.py

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks

# 2,000 requests of 64 callers while workers are killed: some ten minutes on two cores.
soak: $(VENV)/.dev
	$(BIN)/python -m benchmarks.soak

# 55 real faults of operators, injected into the emulated NPU: ROWS=5,6,9 for some of them.
ROWS ?=
bench-faults: $(VENV)/.dev
	JUMAR_EMULATE_NPU=1 $(BIN)/python -m benchmarks.faults --rows "$(ROWS)"

docs: $(VENV)/.dev
	$(BIN)/python tools/make_docs.py
	$(BIN)/python tools/doctor_rules.py

format: $(VENV)/.dev
	$(BIN)/ruff check --fix . && $(BIN)/ruff format .

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade pip

$(VENV)/.runtime: $(BIN)/python pyproject.toml hatch_build.py
	$(BIN)/python -m pip install -q "$(TORCH)"
	$(BIN)/python -m pip install -q -e ".[runtime,server,demo]"
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime
	$(BIN)/python -m pip install -q -e ".[runtime,server,demo,dev]"
	@touch $@

clean:
	rm -rf $(VENV) build dist demo-out jumar-out .mypy_cache .ruff_cache .pytest_cache
