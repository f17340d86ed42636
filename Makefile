# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# small tests run fastest on one thread each, so: a process a core
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

.PHONY: demo test check test-slow bench claims docs clean

demo: $(READY)
	$(BIN)/saccade demo

test: check
	$(PYTEST) -m "not slow"

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	tools/javascript/check

test-slow: $(READY)
	$(PYTEST) -m slow

bench: $(READY)
	$(BIN)/python benchmarks/attention.py
	$(BIN)/python benchmarks/models.py
	$(BIN)/python benchmarks/engines.py

# measure every claim of docs/explanation/claims.md again, on an otherwise idle machine
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
	rm -rf .venv tools/javascript/node_modules runs build dist site *.egg-info src/*.egg-info .pytest_cache .mypy_cache .ruff_cache
