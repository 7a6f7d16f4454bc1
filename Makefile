# The commands of the README are `make run`, `make demo` and `make test`; each sets up what it needs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
ARGS   ?=
# cython-lint runs pycodestyle by name.
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Tests run in parallel over this many workers; those marked `serial` run alone afterwards. Three for two cores: many tests
# wait for a program that they started.
WORKERS ?= 3

.PHONY: run demo dashboard test build lint lint-deploy types unit spark serial instructions system-packages soak bench \
	bench-check asan clean lock wheelhouse lab lab-test

run: build
	exec $(BIN)/broker-cy start --hints --set brokercy.metrics.listener=127.0.0.1:9404 $(ARGS)

# A broker with a workload, until Ctrl-C; ARGS: --help.
demo: build
	exec $(BIN)/python -m demo $(ARGS)

# The web dashboard of a broker that runs; ARGS: --bootstrap, --listen, ...
dashboard: build
	exec $(BIN)/broker-dash $(ARGS)

build: $(VENV)/.installed
	@sh tools/openssl.sh
	$(BIN)/python setup.py -q build_ext
	@# Otherwise the time to the first response includes compiling every module if PYTHONDONTWRITEBYTECODE is set.
	@$(BIN)/python -m compileall -q broker_cy admin_tui dashboard loadgen spark_analytics

# pip runs once per lock file; the editable install once per change of the metadata.
$(VENV)/.requirements: requirements.lock tools/make_venv.sh
	sh tools/make_venv.sh $(PYTHON) $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements.lock
	touch $@

$(VENV)/.installed: $(VENV)/.requirements setup.cfg pyproject.toml setup.py $(wildcard requirements/*.in)
	BROKER_CY_NO_EXTENSIONS=1 $(BIN)/pip install -q --disable-pip-version-check --no-build-isolation --no-deps -e .
	touch $@

# The wheels that hosts install, in deploy/ansible/wheelhouse; ARGS: --extras, --version, --out (docs/deploy.md).
wheelhouse: build $(VENV)/.ansible
	$(BIN)/python deploy/wheelhouse.py $(ARGS)

# From nothing to a cluster that serves, on three lab hosts on this machine (as root): tests/deploy/lab.py; ARGS: --keep, ...
lab: build system-packages $(VENV)/.ansible
	$(BIN)/python -m tests.deploy.show $(ARGS)

# What the playbooks promise, on lab hosts: all of it, about half an hour; `make test` has a short form.
lab-test: build system-packages $(VENV)/.gssapi $(VENV)/.ansible
	$(BIN)/pytest -q -o faulthandler_timeout=3600 tests/deploy $(ARGS)

test: build system-packages $(VENV)/.gssapi $(VENV)/.ansible lint types unit spark serial instructions

system-packages:
	sh tools/system_packages.sh

# The extra `gssapi`, which is compiled against a system package: for tests only.
$(VENV)/.gssapi: $(VENV)/.requirements requirements/gssapi.lock | system-packages
	$(BIN)/pip install -q --disable-pip-version-check --no-build-isolation --require-hashes -r requirements/gssapi.lock
	touch $@

# Ansible, and the programs that check its files: for tests, and for who deploys from here.
$(VENV)/.ansible: $(VENV)/.requirements requirements/ansible.lock
	$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements/ansible.lock
	touch $@

lint: lint-deploy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/cython-lint broker_cy bench spark_analytics
	$(BIN)/lint-imports

lint-deploy: $(VENV)/.ansible
	cd deploy/ansible && $(CURDIR)/$(BIN)/yamllint --strict .
	cd deploy/ansible && $(CURDIR)/$(BIN)/ansible-lint -q --profile production

types:
	$(BIN)/mypy

unit:
	$(BIN)/pytest -q -n $(WORKERS) -m "not soak and not serial" --ignore=tests/spark_analytics tests || $(BIN)/python tools/run_again.py $$?

# In two processes, each with a JVM; the other tests' processes would each start their own. A file's tests share tables.
# The order of files is that of tests/spark_analytics/conftest.py: those that take longest begin.
spark:
	$(BIN)/pytest -q -n 2 --dist loadfile --no-loadscope-reorder -m "not soak" tests/spark_analytics

serial:
	$(BIN)/pytest -q -m "serial and not soak" tests

# Checks the instructions of the hot operations if the build is the recorded one; otherwise prints that it is not.
instructions:
	@$(BIN)/python -m bench.check --where-recorded

soak: build system-packages $(VENV)/.gssapi $(VENV)/.ansible
	@# Soak tests have separate time limits of up to hours; pyproject.toml ends a process after 330 s. A process for each file:
	@# the memory and the descriptors that one has used do not affect the others.
	@failed=; for file in $$(grep -rl --include='test_*.py' 'mark\.soak' tests | LC_ALL=C sort); do \
		$(BIN)/pytest -q -m soak -o faulthandler_timeout=15000 $$file || failed="$$failed $$file"; \
	done; test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

# Measures the tables of docs/performance.md, and Apache Kafka for comparison; ARGS: --only, --budget, --out (docs/bench.md).
bench: build
	$(BIN)/broker-bench record $(ARGS)

# Compares instructions of the hot operations with bench/check/expected.json; ARGS: --top, --record.
bench-check: build
	@$(BIN)/python -m bench.check $(ARGS)

asan: $(VENV)/.installed
	sh tools/asan.sh

lock:
	$(BIN)/pip install -q uv
	$(BIN)/uv pip compile -q --universal --no-emit-index-url --python-version 3.11 --generate-hashes \
		--upgrade requirements/dev.in -o requirements.lock
	$(BIN)/uv pip compile -q --universal --no-emit-index-url --python-version 3.11 --generate-hashes \
		--upgrade requirements/gssapi.in -o requirements/gssapi.lock
	$(BIN)/uv pip compile -q --universal --no-emit-index-url --python-version 3.11 --generate-hashes \
		--upgrade requirements/sslyze.in -o requirements/sslyze.lock
	@# In one environment with the rest.
	$(BIN)/uv pip compile -q --universal --no-emit-index-url --python-version 3.11 --generate-hashes \
		--upgrade -c requirements.lock requirements/ansible.in -o requirements/ansible.lock

clean:
	rm -rf $(VENV) build *.egg-info
	find broker_cy bench spark_analytics \( -name '*.so' -o -name '*.c' \) -not -path '*/includes/*' -delete
