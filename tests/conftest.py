"""Fixtures for every test that needs a running broker."""

from __future__ import annotations

import gc
import os
import re
import signal
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from bench.launch.chromium import launched
from bench.launch.nodes import share_ports
from tests.support import needs
from tests.support.broker import QUICK, Target, new_target
from tests.support.bytecode import compile_part
from tests.support.kafka_peer import KafkaPeer
from tests.support.run_summary import RunSummary
from tests.support.scheduling import Scheduling
from tests.support.tiers import IS_FULL

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# A shell starts background jobs with SIGINT ignored, and every program that a test starts would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
HANDLERS = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}

# No test may fail because the machine is busy, or because the build has sanitizers. `make test` tries the same examples
# each time; `make test-all` searches with others.
settings.register_profile(
    "unhurried",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=not IS_FULL,
)
settings.load_profile("unhurried")
if not IS_FULL:
    # Hypothesis also tries the constants of all modules that are loaded, which are others in each worker. To collect
    # them takes 3 s of each worker.
    providers._get_local_constants = lambda: providers._local_constants


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Scheduling())
    # Otherwise a broker of another worker's test could take the port of one that is being restarted.
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    number, count = int(worker.removeprefix("gw")), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    share_ports(number, count)
    # Only a worker has it: not a run of pytest in a test.
    if hasattr(config, "workerinput"):
        compile_part(config, number, count)
    summary = os.environ.get("BROKER_CY_TEST_SUMMARY")
    if summary and "PYTEST_XDIST_WORKER" not in os.environ:
        config.pluginmanager.register(RunSummary(Path(summary)))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect no garbage meanwhile: a million new objects stay, and to visit them takes a third of the time. Later
    collections, which some tests and each run of pytest in a test ask for, do not visit them either.
    """
    if gc.get_freeze_count():
        return (yield)
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Fail a test that leaves a signal handler: a signal of a later test in this process would reach it. Under nohup,
    which ignores SIGHUP, asyncio leaves that signal without a handler.
    """
    yield
    changed = {
        each.name: handler
        for each, before in HANDLERS.items()
        if (handler := signal.getsignal(each)) is not before and (before, handler) != (signal.SIG_IGN, signal.SIG_DFL)
    }
    for number, handler in HANDLERS.items():
        signal.signal(number, handler)
    assert not changed, f"handlers of signals are left: {changed}"


# Set once a browser has run in this process.
BROWSED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """After a browser has run, report failures with Python's own traceback. pytest's parses the sources, which Python
    3.11 refuses in a thread that Playwright's greenlets have used ("AST constructor recursion depth mismatch"): that
    would end the whole run.
    """
    style = item.config.option.tbstyle
    if BROWSED in item.config.stash:
        item.config.option.tbstyle = "native"
    try:
        return (yield)
    finally:
        item.config.option.tbstyle = style


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Target]:
    """One running broker for all tests of a module; a module may set BROKER_SETTINGS for it."""
    settings: Mapping[str, str] = getattr(request.module, "BROKER_SETTINGS", {})
    target = new_target(tmp_path_factory.mktemp("broker"), settings)
    try:
        yield target.start()
    finally:
        target.close()


@pytest.fixture(scope="session")
def live_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaPeer]:
    """One Apache Kafka for all tests that do the same on broker-cy and on Kafka. Tests do not touch each other's
    topics.
    """
    needs.require(needs.kafka)
    # Otherwise the coordinator would end a transaction that a test leaves open.
    peer = KafkaPeer(tmp_path_factory.mktemp("kafka"), {**QUICK, "transaction.partition.verification.enable": "false"})
    try:
        yield peer.start()
    finally:
        peer.close()


@pytest.fixture
def make_broker(tmp_path: Path) -> Iterator[Callable[..., Target]]:
    """Starts separate brokers for a test: `make_broker({"name": "value"})`; they end with the test."""
    made: list[Target] = []

    def make(settings: Mapping[str, str] | None = None, data_dir: Path | None = None, start: bool = True) -> Target:
        target = new_target(tmp_path / f"broker-{len(made)}", settings, data_dir)
        made.append(target)
        return target.start() if start else target

    yield make
    for target in made:
        target.close()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name for the test alone; the topic is not created."""
    return re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name)[:60] + "-" + uuid.uuid4().hex[:6]


@pytest.fixture(scope="module")
def chromium(pytestconfig: pytest.Config) -> Iterator[Browser]:
    """A headless Chromium for the tests of a module: while it runs, the tests' thread has a running event loop, in
    which asyncio.run of other modules would fail.
    """
    needs.require(needs.chromium)
    with launched() as browser:
        pytestconfig.stash[BROWSED] = True
        yield browser
