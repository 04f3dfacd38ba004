# make demo    a leaderboard of the tiny encoder on the embedded data, in results/leaderboard.html
# make test    lint, types, import layers and tests, as CI runs them
# make test-core   the tests of the core, without those of the extensions
# make check   the first three alone, no dead code, the limits of make house, and plain English
# make site    the documentation as a site, in build/site
# make extras  installs the optional packages whose tests are skipped without them
# make test-light   tests of tasks, metrics, statistics, the store and the report: what every system can run
# make try-packages  the first hour of a user in a new environment, with the packages in the folder
#              BENCH_TEST_DIST, or with packages that are built for it; some minutes
# make soak    the long proofs: kills, crowds, fuzzing, a million rows, a cluster; an hour or more
# make benchmark MODEL=checkpoint DATA=folder   beside transformers' Trainer; about an hour
# make benchmark-growth MODEL=checkpoint        how cost grows with rows, length, layers and seeds
# make gpu MODEL=checkpoint DATA=folder         what a GPU is worth, in pieces that go on where they
#              stopped; DEVICE=cpu tries the program with a tiny encoder, in some minutes;
#              BIN=folder takes the Python there as it is, where nothing can be installed
# make house   the size of the core and of each extension, and what is counted of them, with their limits
# make cli-page   writes docs/cli.md anew from the commands' options
# make pictures   makes the pictures of the documentation anew, in docs; PICTURES="report.png ..."
#              makes only these; needs Chromium; some minutes
# make mutations   whether tests notice wrong operators in metrics, batching, statistics and keys;
#              SAMPLE and SEED say how many of each file are tried, and which
# make parity  whether trainings of every family and head are those of transformers, in docs/parity.md;
#              JOBS at once
# make equivalence MODEL=checkpoint DATA=folder   trainings on real data beside transformers' Trainer,
#              ten seeds a side, for the same page; goes on where it stopped
# make hub     whether the hub still has the models and data sets of our tables; REPORT=file writes what differs
# make gold    accepts what the gold-file tests produced
# Every target makes its own environment in .venv; PYTHON=python3.12 picks another interpreter.
# make tests VENV=build/oldest CONSTRAINTS=build/oldest.txt   with the oldest versions that pyproject.toml
#              allows; with build/newest and build/newest.txt, with the newest that the index has

PYTHON ?= python3
VENV ?= .venv
CONSTRAINTS ?= constraints.txt
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS)
INSTALL_EXTRAS ?= $(PIP)
WORKERS ?= 2
ROUNDS ?= 2
DEVICE ?= cuda
SAMPLE ?= 6
SEED ?= 1
JOBS ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo test test-core test-light try-packages check tests site extras soak benchmark benchmark-growth gpu house cli-page pictures mutations parity equivalence hub gold clean

help:
	@sed -n 's/^# //p' Makefile

build/oldest.txt: pyproject.toml .ci/oldest.py
	@mkdir -p build
	$(PYTHON) .ci/oldest.py > $@

build/newest.txt:
	@mkdir -p build
	@touch $@

$(VENV)/installed: pyproject.toml $(CONSTRAINTS)
	@echo "installing benchharness into $(VENV) (some minutes the first time)"
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(PIP) --editable .
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(PIP) --editable '.[dev,peer]'
	@touch $@

# At once, because pip begins anew each time.
$(VENV)/installed-extras: pyproject.toml $(CONSTRAINTS)
	$(PYTHON) -m venv $(VENV)
	$(INSTALL_EXTRAS) torch --editable '.[dev,peer,mlflow,onnx,postgresql,tensorboard,trackio,triton,wandb,xlsx]'
	@touch $(VENV)/installed
	@touch $(VENV)/installed-dev
	@touch $@

demo: $(VENV)/installed
	$(BIN)/bench demo
	@echo "open results/leaderboard.html in a browser"

check: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/vulture
	$(BIN)/python -m benchmarks.house --check
	$(BIN)/pytest --quiet tests/test_plain_english.py

tests: $(VENV)/installed-dev
	$(BIN)/pytest --numprocesses $(WORKERS) --dist loadscope --no-loadscope-reorder \
	    --durations 25

test: check tests

test-core: $(VENV)/installed-dev
	$(BIN)/pytest --numprocesses $(WORKERS) --dist loadscope --no-loadscope-reorder \
	    --durations 25 --ignore tests/extensions tests

test-light: $(VENV)/installed-dev
	$(BIN)/pytest --numprocesses $(WORKERS) --dist loadscope tests/tasks tests/leaderboard

try-packages: $(VENV)/installed-dev
	$(BIN)/pytest -m soak --timeout 1500 tests/test_first_hour.py

site: $(VENV)/installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "open build/site/index.html in a browser"

extras: $(VENV)/installed-extras

soak: $(VENV)/installed-dev
	$(BIN)/pytest -m soak --numprocesses $(WORKERS) --dist worksteal --timeout 7200 --durations 25 tests

benchmark: $(VENV)/installed-dev
	$(BIN)/python -m benchmarks --model $(MODEL) --data $(DATA) --rounds $(ROUNDS)
	$(BIN)/python -m benchmarks --model $(MODEL) --data $(DATA) --rounds 1 --seeds 3 \
	    --side ours --side best --out seeds
	$(BIN)/python -m benchmarks.tables

benchmark-growth: $(VENV)/installed-dev
	$(BIN)/python -m benchmarks.growth --model $(MODEL)
	$(BIN)/python -m benchmarks.tables

gpu: $(if $(filter command line,$(origin BIN)),,$(VENV)/installed-dev)
	@$(BIN)/python -m benchmarks.gpu --device $(DEVICE) $(if $(MODEL),--model $(MODEL)) \
	    $(if $(DATA),--data $(DATA)); status=$$?; $(BIN)/python -m benchmarks.tables; exit $$status

house: $(VENV)/installed-dev
	@$(BIN)/python -m benchmarks.house

cli-page: $(VENV)/installed-dev
	$(BIN)/python docs/site/cli_page.py

pictures: $(VENV)/installed-dev
	$(BIN)/python -m benchmarks.pictures $(PICTURES)

mutations: $(VENV)/installed-dev
	$(BIN)/python -m benchmarks.mutations --sample $(SAMPLE) --seed $(SEED)

parity: $(VENV)/installed-dev
	$(BIN)/python -m benchmarks.parity_page --jobs $(JOBS)

equivalence: $(VENV)/installed-dev
	$(BIN)/python -m benchmarks.equivalence --model $(MODEL) --data $(DATA)
	$(BIN)/python -m benchmarks.parity_page --page

hub: $(VENV)/installed-dev
	$(BIN)/python -m benchmarks.hub $(if $(REPORT),--report $(REPORT))

gold: $(VENV)/installed-dev
	BENCH_UPDATE_GOLD=1 $(BIN)/pytest -q tests -m gold

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache
