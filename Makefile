.DEFAULT_GOAL := help
# Some machines set it. Each process would then compile again what it imports.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help setup demo test test-changed test-all test-spark test-java-suite test-spark-suite test-pyiceberg-suite test-rck test-rest-api test-object-stores fuzz fuzz-sql mutants check docs format bench wheel sbom release-check notices native lock clean
PYTHON := .venv/bin/python
# Tests run in two processes more than there are cores, at most four; those that run tests of Spark start a session each.
SIDE_BY_SIDE := -n auto --maxprocesses 4 --dist loadgroup

help: ## what there is
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-18s %s\n", $$1, $$2}'

setup: ## make .venv from the pinned requirements; instant when nothing changed
	@python3 scripts/setup

demo: setup ## files become Iceberg tables on Spark, and a walk through every layer of their metadata
	@.venv/bin/icefloe demo --dir demo-warehouse --replace

test: setup ## the tests, without the slow ones and those that need another engine
	$(PYTHON) -m pytest $(SIDE_BY_SIDE) -m "not oracle and not slow" $(ARGS)

test-changed: setup ## of those, the tests that a change concerns: those that ran a changed function last time; the first call runs all and remembers
	$(PYTHON) -m pytest --testmon --testmon-forceselect $(SIDE_BY_SIDE) -m "not oracle and not slow" $(ARGS)

test-all: setup ## every test, and all examples of those with random values; those of Comet and of Java's Iceberg run on PySpark 4.1
	@python3 scripts/setup spark 4.1
	ICEFLOE_ALL_EXAMPLES=1 $(PYTHON) -m pytest $(ARGS)

test-spark: ## the Spark tests on another PySpark: make test-spark VERSION=4.1 (4.0, 4.1, 4.2)
	@python3 scripts/setup spark $(VERSION)
	.venvs/spark-$(VERSION)/bin/python -m pytest $(SIDE_BY_SIDE) -m "spark and not oracle and not slow" $(ARGS)

test-java-suite: setup ## Java Iceberg's own Spark tests on Icefloe; needs Maven and a JDK: make test-java-suite [ARGS='"TestMerge*" --resume']
	@$(PYTHON) -m tests.java_suite $(ARGS)

test-spark-suite: ## Spark's own tests on Icefloe's tables, with Spark 4.2; needs Maven and a JDK: make test-spark-suite [ARGS='"subquery/*.sql" "DeltaBased*" --resume']
	@python3 scripts/setup spark 4.2
	@.venvs/spark-4.2/bin/python -m tests.spark_suite $(ARGS)

test-pyiceberg-suite: setup ## PyIceberg's own tests and documentation on Icefloe, with renamed imports: make test-pyiceberg-suite [ARGS=tests/table/test_upsert.py]; with ARGS=--server PyIceberg itself and Java's Iceberg on Spark, on `icefloe serve`
	@$(if $(filter --server,$(ARGS)),python3 scripts/setup pyiceberg && python3 scripts/setup spark 4.1)
	@$(PYTHON) -m tests.pyiceberg_suite $(ARGS)

test-rck: setup ## Java Iceberg's compatibility kit for REST catalogs against `icefloe serve`; needs Maven and a Java runtime: make test-rck [ARGS=testBasicCreateTable]
	@$(PYTHON) -m tests.rck $(ARGS)

test-rest-api: setup ## generated requests (schemathesis) against `icefloe serve`, checked by the OpenAPI document that ICEFLOE_REST_OPENAPI names
	@python3 scripts/setup rest-api
	@$(PYTHON) -m tests.rest_api $(ARGS)

test-object-stores: ## tables in emulators of S3, Azure and Google Cloud Storage: make test-object-stores [VERSION=4.1] [ARGS="-k s3"]; Comet's need VERSION=4.1
	@python3 scripts/setup object-stores $(VERSION)
	@scripts/emulators
	.venvs/object-stores$(if $(VERSION),-$(VERSION))/bin/python -m pytest -m emulator tests/object_stores tests/spark/sql/test_catalogs_by_settings.py $(ARGS)

fuzz: setup ## damaged inputs for every reader, 120,000 of them; ARGS="--seed 7 --target manifest" for others
	$(PYTHON) -m tests.fuzz --cases 120000 $(ARGS)

fuzz-sql: setup ## random SQL on random tables, compared with plain Parquet of Spark: make fuzz-sql [VERSION=4.1] [ARGS="--seed 7 --queries 20000"]
	@$(if $(VERSION),python3 scripts/setup spark $(VERSION))
	$(if $(VERSION),.venvs/spark-$(VERSION)/bin/python,$(PYTHON)) -m tests.fuzz_sql $(ARGS)

mutants: setup ## 400 small faults drawn from the source, and which of them the tests see; takes hours: make mutants [ARGS="--count 40"]
	@$(PYTHON) -m tests.mutation draw $(ARGS)
	@$(PYTHON) -m tests.mutation map $(ARGS)
	@$(PYTHON) -m tests.mutation run $(ARGS)

check: setup docs ## formatting, lint, types, layers, and the documentation's links and names
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports --no-cache

# Not --quiet: strict mode does not count the warnings that it hides.
docs: ## the documentation as a site, site/index.html, which opens without a network
	@python3 scripts/setup docs
	@NO_MKDOCS_2_WARNING=1 .venvs/docs/bin/mkdocs build --strict

format: setup ## format, and fix what lint can fix
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

bench: setup ## measure against PyIceberg and against Spark's own Parquet, as ratios of one run: make bench [ARGS="planning append"]
	@python3 scripts/setup pyiceberg
	@python3 scripts/setup duckdb
	@$(PYTHON) -m benchmarks $(ARGS)

wheel: ## dist/: wheels for Linux with the compiled manifest codec, one for any platform without it, the sdist and the SBOM
	@python3 scripts/setup release
	@.venvs/release/bin/python scripts/build_release.py

sbom: ## the SBOM alone, in CycloneDX's JSON
	@python3 scripts/setup release
	@.venvs/release/bin/python scripts/build_release.py sbom

release-check: setup wheel ## install what `make wheel` built into empty environments of each Python, and run the README there
	@$(PYTHON) scripts/release_check.py $(ARGS)

notices: ## THIRD-PARTY-NOTICES.md: the licences of all dependencies, as they are pinned
	@python3 scripts/setup licences
	@.venvs/licences/bin/python scripts/third_party_notices.py

native: ## compile the manifest codec in place, where its C has changed; `make setup` does it too
	@$(PYTHON) scripts/build_native.py

lock: ## make the pins in requirements/ anew (ARGS=--upgrade for the newest versions)
	@scripts/lock $(ARGS)

clean: ## remove what was built here, but not the environments
	rm -rf site .benchmarks demo-warehouse .testmondata* .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache dist spark-warehouse
