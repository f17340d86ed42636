# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# small tests run fastest on one thread each, so: one process per core; compiled files are kept,
# because tests start many processes
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

.PHONY: demo test check checklist test-slow test-lowest test-python test-selection bench claims docs clean

demo: $(READY)
	$(BIN)/saccade demo

test: check
	$(PYTEST) -m "not slow"

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell src tests docs examples benchmarks tools setup.py *.md
	$(BIN)/python tools/voice.py
	$(BIN)/python tools/checklist.py
	tools/javascript/check

# the items of docs/explanation/lectures.md, and the tests that cite each of them
checklist:
	$(PYTHON) tools/checklist.py --list

test-slow: $(READY)
	$(PYTEST) -m slow

# imports, the command line and a part of the tests: what other versions of Python and of the
# dependencies are tested with
SELECTION := tests/test_config.py tests/cli/test_verbs.py tests/attention/test_scores.py \
	tests/text/test_tokenizer.py tests/data/sources tests/metrics/test_text.py \
	tests/training/test_recipe.py tests/serve/test_routes.py tests/engines/test_choice.py
EXTRAS := serve,parquet,excel,hf,track,fast,onnx,demo
FOR_TESTS := pytest pytest-timeout beartype httpx hypothesis
SMALL := --max-steps 3 --set model.dim=16 --set text.source.size=300 --set generation.max_length=10

# the lowest direct versions that pyproject.toml allows, in an environment of their own
test-lowest:
	test -x .venv-lowest/bin/python || $(PYTHON) -m venv .venv-lowest
	$(PYTHON) tools/lowest.py > .venv-lowest/constraints.txt
	$(MAKE) test-selection FOLDER=.venv-lowest VERSIONS=.venv-lowest/constraints.txt

# another Python, in an environment of its own: make test-python PYTHON=python3.13
test-python:
	rm -rf .venv-python
	$(PYTHON) -m venv .venv-python
	$(MAKE) test-selection FOLDER=.venv-python VERSIONS=constraints.txt

test-selection:
	$(FOLDER)/bin/python -m pip install --quiet -c $(VERSIONS) torch
	$(FOLDER)/bin/python -m pip install --quiet -c $(VERSIONS) ".[$(EXTRAS)]" $(FOR_TESTS)
	$(FOLDER)/bin/saccade recipes > /dev/null
	OMP_NUM_THREADS=1 $(FOLDER)/bin/python -m pytest -o addopts="" -W default -q -m "not slow" $(SELECTION)
	rm -rf $(FOLDER)/run $(FOLDER)/onnx $(FOLDER)/ctranslate2
	$(FOLDER)/bin/saccade train transformer-tiny --data builtin:phrases --out $(FOLDER)/run $(SMALL)
	$(FOLDER)/bin/saccade export $(FOLDER)/run --to onnx $(FOLDER)/onnx
	$(FOLDER)/bin/saccade export $(FOLDER)/run --to ctranslate2 $(FOLDER)/ctranslate2

bench: $(READY)
	$(BIN)/python benchmarks/attention.py
	$(BIN)/python benchmarks/models.py
	$(BIN)/python benchmarks/engines.py

# measure every claim of the documentation again; run nothing else on the machine meanwhile
claims: $(READY)
	for claim in examples/claims/k*.py; do $(BIN)/python $$claim --out docs/claims || exit 1; done
	$(BIN)/python docs/make_claims.py

# the documentation as a site, offline; a broken link is an error
docs: $(READY)
	$(BIN)/python docs/make_site.py

# torch first and pinned: anything else that asks for it then finds it installed
$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev,demo]"
	touch $(READY)

clean:
	rm -rf .venv .venv-lowest .venv-python site tools/javascript/node_modules runs build dist *.egg-info src/*.egg-info .pytest_cache .mypy_cache .ruff_cache
