# Every target sets up what it needs: on a fresh machine with Python 3.11, `make serve` is enough.
# pip's own configuration decides where packages come from, and with it whether torch is CPU's or CUDA's.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
.DEFAULT_GOAL := help

PYTHON = $(firstword $(shell command -v python3.11 python3) python3.11)
DEFAULT_MODEL := .models/SmolLM2-135M-Instruct.Q4_1.gguf
GEMMA := .models/gemma-3-270m.Q4_K_M.gguf
MODEL = $(DEFAULT_MODEL)
HOST =
PORT =
PROMPT = The tide leaves a mark
JOBS = 2
WATCH = 127.0.0.1:9090
CHROMIUM =
ARGS =

VENV := .venv
VERSION := $(shell $(PYTHON) -c 'import platform; print(platform.python_version())' 2>/dev/null)
INSTALLED := $(VENV)/.tidemark-$(VERSION)
INSTALLED_DEV := $(INSTALLED)-dev
KERNELS := setup.py $(wildcard engine/model/kernels/*.cpp engine/model/kernels/*.h engine/model/kernels/*.inc)
FETCHED := $(filter $(DEFAULT_MODEL) $(GEMMA),$(MODEL))

export PROMPT  # by the environment, so that it may hold any quotes

.PHONY: help serve watch chat trace top doctor model test test-gemma3 test-sdks test-openapi test-page test-lm-eval test-schemas test-watch test-deploy image check format laws-hour mutants mutants-page bench bench-peers bench-kernels bench-precision bench-cache bench-drafts bench-structure bench-watch clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-19s %s\n", $$1, $$2}' Makefile
	@echo; echo "Variables: MODEL=$(MODEL) HOST= PORT= PROMPT= WATCH=$(WATCH) ARGS='more flags' PYTHON=$(PYTHON)"

serve: $(INSTALLED) $(FETCHED) ## serve MODEL, by default SmolLM2-135M-Instruct on 127.0.0.1:8000
	@exec $(VENV)/bin/tidemark serve '$(MODEL)' $(if $(HOST),--host '$(HOST)') $(if $(PORT),--port '$(PORT)') $(ARGS)

watch: $(INSTALLED) $(FETCHED) ## serve MODEL, with Debian's prometheus beside it on WATCH, by default 127.0.0.1:9090
	@exec $(VENV)/bin/python deploy/watch.py --listen '$(WATCH)' --target '$(or $(HOST),127.0.0.1):$(or $(PORT),8000)' \
	  $(VENV)/bin/tidemark serve '$(MODEL)' $(if $(HOST),--host '$(HOST)') $(if $(PORT),--port '$(PORT)') $(ARGS)

chat: $(INSTALLED) ## talk to a server that runs, by default the one that `make serve` starts
	@exec $(VENV)/bin/tidemark chat $(if $(HOST)$(PORT),--url 'http://$(or $(HOST),127.0.0.1):$(or $(PORT),8000)') $(ARGS)

trace: $(INSTALLED) $(FETCHED) ## show each step of PROMPT as a table of marks and blocks
	@exec $(VENV)/bin/tidemark trace "$$PROMPT" --model '$(MODEL)' $(ARGS)

top: $(INSTALLED) ## watch a server that runs, by default the one that `make serve` starts
	@exec $(VENV)/bin/tidemark top $(if $(HOST)$(PORT),--url 'http://$(or $(HOST),127.0.0.1):$(or $(PORT),8000)') $(ARGS)

doctor: $(INSTALLED) ## say what this machine has, how MODEL fits it (the default one if it was fetched), and what to change
	@exec $(VENV)/bin/tidemark doctor $(if $(or $(filter-out $(DEFAULT_MODEL),$(MODEL)),$(wildcard $(MODEL))),'$(MODEL)') \
	  $(if $(HOST),--host '$(HOST)') $(if $(PORT),--port '$(PORT)') $(ARGS)

model: $(DEFAULT_MODEL) ## fetch the default model

test: $(INSTALLED_DEV) $(DEFAULT_MODEL) ## run the tests; ARGS='tests/config -k toml' runs some
	OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest $(or $(ARGS),--numprocesses $(JOBS) --dist worksteal --cov)

test-gemma3: $(INSTALLED_DEV) $(GEMMA) ## try a real model with windows, which is fetched first
	OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest tests/models/gemma3_270m.py $(ARGS)

test-sdks: $(INSTALLED_DEV) $(FETCHED) ## try SDKs and frameworks, each in an environment of its own; ARGS='openai llm' tries some
	OMP_NUM_THREADS=1 $(VENV)/bin/python -m tests.sdks --model '$(MODEL)' $(ARGS)

test-openapi: $(INSTALLED_DEV) ## try every endpoint as the description has it, with schemathesis
	OMP_NUM_THREADS=1 $(VENV)/bin/python -m tests.sdks.openapi $(ARGS)

test-page: $(INSTALLED_DEV) $(DEFAULT_MODEL) ## try the live page in Chromium, and take its pictures; CHROMIUM=/path if its name is unusual
	OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest tests/page/pure.py tests/page/shown.py tests/page/live.py tests/page/pictures.py \
	  $(if $(CHROMIUM),--chromium '$(CHROMIUM)') $(ARGS)

test-schemas: $(INSTALLED_DEV) $(FETCHED) ## let MODEL answer by hundreds of public JSON schemas; ARGS='--most 50' tries fewer
	$(VENV)/bin/python -m tests.schemas --model '$(MODEL)' $(ARGS)

test-watch: $(INSTALLED_DEV) ## try the board and the rules against Debian's prometheus, over servers under load
	OMP_NUM_THREADS=1 $(VENV)/bin/python -m tests.watch $(ARGS)

test-deploy: $(INSTALLED_DEV) ## check what deploys the server: published schemas, kubectl and systemd-analyze where they are
	$(VENV)/bin/python -m tests.deploy $(ARGS)

image: ## build the container image, run it and ask it a question; WITH_MODEL=1 puts the default model into it, EXTRAS=otel an extra
	@$(PYTHON) -m deploy.image $(if $(WITH_MODEL),--with-model) $(if $(EXTRAS),--extras '$(EXTRAS)') $(if $(BASE),--base '$(BASE)') $(ARGS)

test-lm-eval: $(INSTALLED_DEV) $(FETCHED) ## score small tasks with lm-eval through the server, and through transformers
	OMP_NUM_THREADS=1 $(VENV)/bin/python -m tests.lm_eval --model '$(MODEL)' $(ARGS)

check: $(INSTALLED_DEV) ## formatting, lint, types and layers
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

format: $(INSTALLED_DEV) ## format the code and mend what lint can
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

laws-hour: $(INSTALLED_DEV) ## look for broken laws at random for an hour
	end=$$((SECONDS + 3600)); while ((SECONDS < end)); do \
	  OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest --numprocesses $(JOBS) --hypothesis-profile hour tests/laws $(ARGS); \
	done

mutants: $(INSTALLED_DEV) $(DEFAULT_MODEL) ## put each known fault in and show that the tests see it; ARGS=--write remembers which did
	OMP_NUM_THREADS=1 $(VENV)/bin/python -m tests.mutants $(ARGS)

mutants-page: $(INSTALLED_DEV) ## put faults into the live page and show that its tests in Chromium see them
	OMP_NUM_THREADS=1 $(VENV)/bin/python -m tests.page.mutants $(ARGS)

bench: $(INSTALLED_DEV) $(FETCHED) ## measure the server
	$(VENV)/bin/python -m benchmarks.bench --model '$(MODEL)' $(ARGS)

bench-peers: $(INSTALLED_DEV) $(FETCHED) ## measure the server beside llama.cpp and OpenVINO; installs them into .peers first
	$(VENV)/bin/python -m benchmarks.bench_peers --model '$(MODEL)' $(ARGS)

bench-kernels: $(INSTALLED_DEV) ## measure the kernels beside what the machine allows
	$(VENV)/bin/python -m benchmarks.bench_kernels $(ARGS)

bench-precision: $(INSTALLED_DEV) $(FETCHED) ## measure what each choice of bits costs
	# Without a fixed threshold the allocator splits the holes that large tensors leave, and needs tens of GiB.
	MALLOC_MMAP_THRESHOLD_=1048576 $(VENV)/bin/python -m benchmarks.bench_precision --model '$(MODEL)' $(ARGS)

bench-cache: $(INSTALLED_DEV) $(FETCHED) ## measure what the cache takes, and what it saves
	$(VENV)/bin/python -m benchmarks.bench_cache --model '$(MODEL)' $(ARGS)

bench-drafts: $(INSTALLED_DEV) $(FETCHED) ## measure what drafts save, and what they cost
	$(VENV)/bin/python -m benchmarks.bench_drafts --model '$(MODEL)' $(ARGS)

bench-structure: $(INSTALLED_DEV) $(FETCHED) ## measure what a grammar costs the model's speed
	$(VENV)/bin/python -m benchmarks.bench_structure --model '$(MODEL)' $(ARGS)

bench-watch: $(INSTALLED_DEV) $(FETCHED) ## measure what watching costs the streams, in some four minutes
	$(VENV)/bin/python -m benchmarks.bench_watch --model '$(MODEL)' $(ARGS)

clean: ## remove everything that was installed, fetched or cached
	rm -rf $(VENV) .models .peers .envs .prometheus .image build engine/model/kernels/*.so .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage* *.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +

# An installation whose mark is missing never ended, or is another Python's: it is made anew.
define install
	@[[ '$(VERSION)' == 3.11.* ]] || { \
	  echo "Tidemark needs Python 3.11, $(PYTHON) is $(or $(VERSION),not there): give PYTHON=/path/to/python3.11" >&2; \
	  exit 1; }
	@[[ -e $(INSTALLED) ]] || rm -rf $(VENV)
	@[[ -d $(VENV) ]] || { echo "Installing into $(VENV), a few minutes the first time"; $(PYTHON) -m venv $(VENV); }
	@rm -f $(VENV)/.tidemark-*
	$(VENV)/bin/python -m pip install --disable-pip-version-check --constraint constraints.txt --editable '$(1)'
	@touch $(INSTALLED)
endef

$(INSTALLED): pyproject.toml constraints.txt $(KERNELS)
	$(call install,.)

$(INSTALLED_DEV): pyproject.toml constraints.txt $(KERNELS)
	$(call install,.[dev])
	@touch $@

$(DEFAULT_MODEL) $(GEMMA): | $(INSTALLED)
	$(VENV)/bin/python deploy/fetch_model.py $@
