# The commands of the README are `make run`, `make demo` and `make test`; each sets up what it needs.
# The steps of a target share the machine and the tree: `make -j` also runs them one at a time.
.NOTPARALLEL:
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
ARGS   ?=
INSTALL = $(BIN)/python tools/install.py
# Without bytecode, each process would compile the modules, and rewrite the assertions of all tests, again.
unexport PYTHONDONTWRITEBYTECODE
# cython-lint runs pycodestyle by name.
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Tests run in parallel over this many workers. Five for two cores: many tests wait for a program that they started.
WORKERS ?= 5

.PHONY: run demo dashboard test test-all build broker checks lint lint-deploy types unit unit-all instructions system-packages soak \
	bench bench-check asan clean lock wheelhouse lab lab-test

run: broker
	exec $(BIN)/broker-cy start --hints --set brokercy.metrics.listener=127.0.0.1:9404 $(ARGS)

# A broker with a workload, until Ctrl-C; ARGS: --help.
demo: build
	exec $(BIN)/python -m demo $(ARGS)

# The web dashboard of a running broker; ARGS: --bootstrap, --listen, ...
dashboard: build
	exec $(BIN)/broker-dash $(ARGS)

# All programs of this repository.
build: $(VENV)/.requirements $(VENV)/.installed
	@sh tools/openssl.sh
	$(BIN)/python setup.py -q build_ext
	@# Otherwise the time to the first response includes compiling every module if PYTHONDONTWRITEBYTECODE is set.
	@$(BIN)/python -m compileall -q broker_cy broker_mirror broker_registry broker_sql broker_streams admin_tui dashboard loadgen spark_analytics

# The broker, broker-cy and broker-tui only.
broker: $(VENV)/.installed
	@sh tools/openssl.sh
	BROKER_CY_ROOMS=broker_cy $(BIN)/python setup.py -q build_ext
	@$(BIN)/python -m compileall -q broker_cy admin_tui

# A fresh environment for each change of a lock file, so that no old package stays in it.
$(VENV)/.run: requirements/run.lock requirements/installer.lock requirements.lock tools/make_venv.sh tools/install.py
	sh tools/make_venv.sh $(PYTHON) $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check --no-compile --only-binary :all: --require-hashes -r requirements/installer.lock
	$(INSTALL) --require-hashes -r requirements/run.lock
	touch $@

$(VENV)/.requirements: $(VENV)/.run
	$(INSTALL) --require-hashes -r requirements.lock
	touch $@

# Once per change of the metadata.
$(VENV)/.installed: $(VENV)/.run setup.cfg pyproject.toml setup.py $(wildcard requirements/*.in)
	BROKER_CY_NO_EXTENSIONS=1 $(INSTALL) --no-build-isolation --no-deps -e .
	touch $@

# The wheels that hosts install, in deploy/ansible/wheelhouse; ARGS: --extras, --version, --out (docs/deploy.md).
wheelhouse: build $(VENV)/.ansible
	$(BIN)/python deploy/wheelhouse.py $(ARGS)

# Sets up a running cluster on three lab hosts on this machine (as root): tests/deploy/lab.py; ARGS: --keep, ...
lab: system-packages build $(VENV)/.ansible
	$(BIN)/python -m tests.deploy.show $(ARGS)

# Tests all playbooks on lab hosts, in about half an hour; `make test-all` has a short form.
lab-test: system-packages build $(VENV)/.gssapi $(VENV)/.ansible
	$(BIN)/pytest -q -o faulthandler_timeout=3600 tests/deploy $(ARGS)

# Before each commit, and in CI: at most 15 minutes on two cores once the environment exists.
test: system-packages build $(VENV)/.gssapi $(VENV)/.ansible checks unit instructions

# Before an issue is resolved: all tests except the soak tests, with more seeds and mutants.
test-all: system-packages build $(VENV)/.gssapi $(VENV)/.ansible checks unit-all instructions

# The tier of the tests that need the packages.
TIER = quick
test-all lab lab-test: TIER = all
soak: TIER = soak
system-packages:
	sh tools/system_packages.sh $(TIER)

# The extra `gssapi`, only for tests: it is compiled against a system package.
$(VENV)/.gssapi: $(VENV)/.requirements requirements/gssapi.lock | system-packages
	$(INSTALL) --no-build-isolation --require-hashes -r requirements/gssapi.lock
	touch $@

# Ansible, and the programs that check its files: for tests, and for deployments from this tree.
$(VENV)/.ansible: $(VENV)/.requirements requirements/ansible.lock
	$(INSTALL) --require-hashes -r requirements/ansible.lock
	touch $@

# mypy needs one core for a minute without a cache: the linters run meanwhile. Its result is shown after theirs.
checks: $(VENV)/.ansible
	@mkdir -p build; $(MAKE) --no-print-directory -s types > build/types.txt 2>&1 & types=$$!; status=0; \
	$(MAKE) --no-print-directory lint || status=$$?; \
	wait $$types || status=$$?; echo "$(BIN)/mypy"; cat build/types.txt; exit $$status

lint: lint-deploy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/cython-lint broker_cy broker_streams bench
	$(BIN)/lint-imports

lint-deploy: $(VENV)/.ansible
	cd deploy/ansible && $(CURDIR)/$(BIN)/yamllint --strict .
	cd deploy/ansible && $(CURDIR)/$(BIN)/ansible-lint -q --profile production

types:
	$(BIN)/mypy

# PYTEST_ARGS go to pytest; tests/support/scheduling.py groups tests by worker. The summary has durations and skips.
PYTEST_ARGS ?=
SUMMARY := build/tests

unit:
	BROKER_CY_TEST_SUMMARY=$(SUMMARY)/quick.md \
		$(BIN)/pytest -q -n $(WORKERS) --dist loadgroup -m "not full and not serial and not soak" $(PYTEST_ARGS) tests

# The serial tests run and are reported even if others failed. The time limit of a test is longer than in `make test`: a
# search for a planted defect took over 300 s on a busy machine. Some have limits of their own, of at most half an hour.
# Many of its tests start clusters of JVMs.
unit-all: WORKERS = 4
unit-all:
	@status=0; export BROKER_CY_TESTS=all; hangs="--timeout 1200 -o faulthandler_timeout=1900"; \
	BROKER_CY_TEST_SUMMARY=$(SUMMARY)/all.md \
		$(BIN)/pytest -q $$hangs -n $(WORKERS) --dist loadgroup -m "not serial and not soak" $(PYTEST_ARGS) tests || status=$$?; \
	BROKER_CY_TEST_SUMMARY=$(SUMMARY)/serial.md \
		$(BIN)/pytest -q $$hangs -m "serial and not soak" $(PYTEST_ARGS) tests || status=$$?; \
	cat $(SUMMARY)/all.md $(SUMMARY)/serial.md; exit $$status

# Checks the instructions of the hot operations if the build is the recorded one; otherwise prints that it is not.
instructions:
	@$(BIN)/python -m bench.check --where-recorded

soak: system-packages build $(VENV)/.gssapi $(VENV)/.ansible
	@# Soak tests have separate time limits of up to hours; pyproject.toml ends a process after 330 s. Each file has a process:
	@# its use of memory and descriptors does not affect the other files.
	@export BROKER_CY_TESTS=all; failed=; for file in $$(grep -rl --include='test_*.py' 'mark\.soak' tests | LC_ALL=C sort); do \
		$(BIN)/pytest -q -m soak -o faulthandler_timeout=15000 $$file || failed="$$failed $$file"; \
	done; test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

# Measures the tables of docs/performance.md, and Apache Kafka for comparison; ARGS: --only, --budget, --out (docs/bench.md).
bench: build
	$(BIN)/broker-bench record $(ARGS)

# Compares instructions of the hot operations with bench/check/expected.json; ARGS: --top, --record.
bench-check: build
	@$(BIN)/python -m bench.check $(ARGS)

asan: $(VENV)/.requirements $(VENV)/.installed
	sh tools/asan.sh

# One resolution: the other lock files of this environment use the versions of requirements.lock.
COMPILE = $(BIN)/uv pip compile -q --universal --no-emit-index-url --python-version 3.11 --generate-hashes --upgrade
lock: $(VENV)/.run
	$(COMPILE) requirements/dev.in -o requirements.lock
	$(COMPILE) -c requirements.lock requirements/run.in -o requirements/run.lock
	$(COMPILE) -c requirements.lock requirements/installer.in -o requirements/installer.lock
	$(COMPILE) -c requirements.lock requirements/ansible.in -o requirements/ansible.lock
	$(COMPILE) requirements/gssapi.in -o requirements/gssapi.lock
	$(COMPILE) requirements/sslyze.in -o requirements/sslyze.lock

clean:
	rm -rf $(VENV) build *.egg-info
	find broker_cy bench spark_analytics \( -name '*.so' -o -name '*.c' \) -not -path '*/includes/*' -delete
