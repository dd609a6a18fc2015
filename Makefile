# `make demo` and `make test` do all the set-up and then the job; everything lives in .venv.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
STAMP = $(VENV)/.installed
WORKERS ?= 2
export HF_HUB_OFFLINE ?= 1
export TOKENIZERS_PARALLELISM = false

.PHONY: demo test slow promises check bench compare base-named lock setup clean

demo: setup
	$(BIN)/supclap demo

test: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m "not slow and not promise"

slow: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m "slow and not promise"

promises: setup
	$(BIN)/python -m pytest -m promise

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: setup
	$(BIN)/supclap bench

compare: base-named setup
	$(BIN)/python tools/compare.py $(BASE)

base-named:
	@test -n "$(BASE)" || { echo "make compare BASE=commit: which commit shall this tree be compared with?" >&2; exit 2; }

lock:
	$(PYTHON) tools/lock.py

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt tools/install.sh
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "supclap needs Python 3.11 or newer; set PYTHON=python3.11" >&2; exit 2; }
	@test -x $(BIN)/python || { echo "setup: virtual environment in $(VENV)" >&2; $(PYTHON) -m venv $(VENV); }
	@PIP="$(BIN)/python -m pip --disable-pip-version-check" bash tools/install.sh
	@touch $@

clean:
	rm -rf $(VENV) runs dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
