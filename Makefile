# make demo    train the tiny encoder on the packaged data; writes results/leaderboard.html
# make test    all checks of `make check`, then the tests, as in CI
# make test-core   the tests of the core, without those of the extensions
# make test-light  the tests that need no training: tasks, metrics, statistics, store and report
# make check   lint, format, types, import layers, dead code, size limits and plain English
# make site    build the documentation as a website in build/site
# make extras  install the optional packages; without them some tests are skipped
# make try-packages  test the installation and first use of the built packages in a new environment;
#              BENCH_TEST_DIST=folder has the packages, else they are built; some minutes
# make soak    long tests, such as killed jobs, fuzzing, a million rows and a cluster; over an hour
# make benchmark MODEL=checkpoint DATA=folder   compare the speed with transformers' Trainer; about an hour
# make benchmark-growth MODEL=checkpoint        measure how cost grows with rows, length, layers and seeds
# make gpu MODEL=checkpoint DATA=folder         measure on a GPU; repeat the command to continue after an
#              interruption; DEVICE=cpu tests the program with a tiny encoder, in some minutes;
#              BIN=folder uses the Python in this folder and installs nothing
# make house   show the size of the core and of each extension, with its limits
# make cli-page   write docs/cli.md again from the help texts of the commands
# make pictures   draw the pictures of the documentation again; PICTURES="report.png ..." draws only
#              these; needs Chromium; some minutes
# make mutations   check that tests fail for wrong operators in metrics, batching, statistics and keys;
#              SAMPLE mutants per file, chosen at random with SEED
# make parity  compare trainings of every family and head with transformers', and write docs/parity.md;
#              JOBS processes at once
# make equivalence MODEL=checkpoint DATA=folder   compare scores on real data with the Trainer's, ten seeds
#              each, for docs/parity.md; repeat the command to continue after an interruption
# make hub     check that the hub still has the known models and data sets; REPORT=file for the differences
# make gold    replace the expected outputs in tests/gold by the present outputs
# Every target creates its own environment in .venv; PYTHON=python3.12 selects another interpreter.
# make tests VENV=build/oldest CONSTRAINTS=build/oldest.txt   test with the oldest versions that pyproject.toml
#              allows; with build/newest and build/newest.txt, with the newest versions on PyPI

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

# One pip command installs everything, because a later one might change installed versions.
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
