"""A master and workers, started separately, as on several hosts."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.launch.nodes import free_ports
from broker_cy.client.program import EXIT_FAILED
from broker_cy.launch.processes import Child
from loadgen.command import GENERATOR_LIMIT
from tests.loadgen.run.kit import COMMAND, ENDS_S, ROOT, UNDISTURBED, Load, loading, producers
from tests.support import needs
from tests.support.both_brokers import running
from tests.support.broker import QUICK, BrokerProcess, Target
from tests.support.wait import until

# Starts a worker as if it were of another release.
OTHER_VERSION = (
    "import broker_cy; broker_cy.__version__ = '0.0.9'; from loadgen.__main__ import main; import sys; sys.exit(main())"
)
# Starts a worker that waits for its master for a second only.
IMPATIENT = (
    "from locust import runners; runners.CONNECT_RETRY_COUNT = 0; runners.CONNECT_TIMEOUT = 1; "
    "from loadgen.__main__ import main; import sys; sys.exit(main())"
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with running("broker-cy", tmp_path_factory.mktemp("distributed")) as target:
        yield target


@contextmanager
def worker(
    directory: Path, name: str, master: str, command: Sequence[str] = COMMAND, prefix: Sequence[str] = ()
) -> Iterator[Child]:
    words = [*prefix, *command, "worker", "--master", master]
    child = Child(words, directory, name, env={"PYTHONPATH": str(ROOT)})
    try:
        yield child
    finally:
        child.kill()


@contextmanager
def master(directory: Path, bootstrap: str, scenario: Path, listen: str) -> Iterator[Load]:
    options = ("--scenario", scenario, "--workers", "2", "--listen", listen)
    with loading(directory, bootstrap, *options, mode="master") as running_master:
        yield running_master


def test_master_and_workers(broker: Target, tmp_path: Path) -> None:
    """If this fails, load cannot come from more than one host."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    scenario = producers(tmp_path, "two-workers", rate=900)
    with ExitStack() as stack:
        # Workers wait for a master that has not started yet.
        workers = [stack.enter_context(worker(tmp_path, f"worker-{n}", address)) for n in range(2)]
        run = stack.enter_context(master(tmp_path, broker.bootstrap, scenario, address)).end()
        assert run.code in UNDISTURBED, run.stdout + run.stderr
        assert {each.pid for each in run.of.workers} == {each.pid for each in workers}
        assert [each.host for each in run.of.workers] == [socket.gethostname()] * 2
        assert run.of.verification is not None
        assert run.of.verification.total("acknowledged") == 3150
        for each in workers:
            assert each.wait(ENDS_S) == 0, each.stderr()


@pytest.mark.full
def test_a_worker_of_another_version_is_refused(broker: Target, tmp_path: Path) -> None:
    """If this fails, versions that count or verify differently produce one result."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    with ExitStack() as stack:
        run = stack.enter_context(master(tmp_path, broker.bootstrap, producers(tmp_path, "versions"), address))
        stack.enter_context(worker(tmp_path, "same", address))
        other = stack.enter_context(worker(tmp_path, "other", address, (sys.executable, "-c", OTHER_VERSION)))
        ended = run.end()
        assert ended.code == EXIT_FAILED
        assert f"({socket.gethostname()}, process {other.pid}): this worker is of version 0.0.9" in ended.stderr
        assert other.wait(ENDS_S) == 0


@pytest.mark.full
def test_a_worker_that_comes_too_late(broker: Target, tmp_path: Path) -> None:
    """If this fails, a third worker takes users from the others in the middle of their requests."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    with ExitStack() as stack:
        run = stack.enter_context(master(tmp_path, broker.bootstrap, producers(tmp_path, "late", seconds=9), address))
        for n in range(2):
            stack.enter_context(worker(tmp_path, f"worker-{n}", address))
        run.shows("Produce")
        late = stack.enter_context(worker(tmp_path, "late", address))
        until(lambda: "the run has begun without this worker" in late.stderr(), "the late worker", ENDS_S)
        ended = run.end()
        assert ended.code in UNDISTURBED, ended.stdout + ended.stderr
        assert len(ended.of.workers) == 2
        assert ended.of.verification is not None
        assert ended.of.verification.total("acknowledged") == 9500
        assert any("connected after the run had begun" in each for each in ended.of.notes)
        assert late.wait(ENDS_S) == 0


@pytest.mark.full
def test_a_master_that_dies(broker: Target, tmp_path: Path) -> None:
    """If this fails, workers continue their load forever, until they are stopped by hand."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    scenario = producers(tmp_path, "orphans", seconds=600)
    with ExitStack() as stack:
        run = stack.enter_context(master(tmp_path, broker.bootstrap, scenario, address))
        workers = [stack.enter_context(worker(tmp_path, f"worker-{n}", address)) for n in range(2)]
        run.shows("Produce")
        run.child.send_signal(signal.SIGKILL)
        for each in workers:
            assert each.wait(ENDS_S) == EXIT_FAILED
            assert f"the master {address} was silent for 15 s" in each.stderr()
            assert "Traceback" not in each.stderr()


@pytest.mark.full
def test_a_master_that_never_comes(tmp_path: Path) -> None:
    """If this fails, a worker waits forever for a master at a wrong address."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    with worker(tmp_path, "alone", address, (sys.executable, "-c", IMPATIENT)) as alone:
        assert alone.wait(ENDS_S) == EXIT_FAILED
        assert f"--master: nothing answered at {address}" in alone.stderr()
        assert "Traceback" not in alone.stderr()


@pytest.mark.full
@pytest.mark.parametrize(
    ("host", "why"), [("127.0.0.1", "Address already in use"), ("192.0.2.1", "Socket bind failure")]
)
def test_an_address_that_cannot_be_had(broker: Target, tmp_path: Path, host: str, why: str) -> None:
    """If this fails, the exit code of a master that could not start means a missed threshold."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"{host}:{taken.getsockname()[1]}"
        with master(tmp_path, broker.bootstrap, producers(tmp_path, "port"), address) as run:
            ended = run.end()
    assert ended.code == EXIT_FAILED
    assert f"broker-load: --listen: {address}" in ended.stderr
    assert why in ended.stderr
    assert "Traceback" not in ended.stderr


@dataclass(frozen=True)
class Host:
    """A separate network with one cable to this machine, and its own host name."""

    name: str
    link: str  # this machine's end
    here: str
    there: str

    @property
    def prefix(self) -> list[str]:
        """The prefix of a command line that makes it run there."""
        return ["ip", "netns", "exec", self.name, "unshare", "-u", "sh", "-c", f'hostname {self.name}; exec "$@"', "sh"]


class Elsewhere(BrokerProcess):
    """A broker that is not on loopback."""

    def ready(self, child: Child) -> bool:
        return f"ready on {self.host}:{self.port}" in child.stdout()


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def hosts(count: int) -> Iterator[list[Host]]:
    """Make hosts of network namespaces, in a range for documentation (RFC 5737); skips where this is not allowed."""
    needs.require(needs.cut_network())
    made: list[Host] = []
    tag = f"bl{os.getpid() % 100_000}"
    try:
        for n in range(count):
            host = Host(f"{tag}h{n}", f"{tag}v{n}", f"198.51.100.{4 * n + 1}", f"198.51.100.{4 * n + 2}")
            ip("netns", "add", host.name)
            made.append(host)
            ip("link", "add", host.link, "type", "veth", "peer", "name", "eth0", "netns", host.name)
            ip("addr", "add", f"{host.here}/30", "dev", host.link)
            ip("link", "set", host.link, "up")
            ip("-n", host.name, "addr", "add", f"{host.there}/30", "dev", "eth0")
            for each in ("lo", "eth0"):
                ip("-n", host.name, "link", "set", each, "up")
            # All hosts reach the broker and the master at the address of the first cable.
            ip("-n", host.name, "route", "add", "default", "via", host.here)
        yield made
    finally:
        for host in made:
            subprocess.run(["ip", "link", "del", host.link], capture_output=True)
            ip("netns", "del", host.name)


@pytest.mark.full
@pytest.mark.serial
def test_two_hosts_one_of_which_is_unplugged(tmp_path: Path) -> None:
    """If this fails, the load of a host that disappears is missing, and the figures look as if nothing had happened."""
    with hosts(2) as (first, second), ExitStack() as stack:
        broker = Elsewhere(tmp_path / "broker", QUICK)
        stack.callback(broker.close)
        broker.host = first.here
        broker.start()
        address = f"{first.here}:{free_ports(1)[0]}"
        scenario = producers(tmp_path, "hosts", seconds=14, rate=500)
        run = stack.enter_context(master(tmp_path, broker.bootstrap, scenario, address))
        for host in (first, second):
            stack.enter_context(worker(tmp_path, host.name, address, prefix=host.prefix))
        run.shows("Produce")
        ip("link", "set", second.link, "down")
        ended = run.end()
        assert ended.code == GENERATOR_LIMIT, ended.stdout + ended.stderr
        assert {each.host for each in ended.of.workers} == {first.name, second.name}
        (lost,) = (each for each in ended.of.workers if each.lost is not None)
        assert lost.host == second.name
        assert lost.missing_share > 0
        assert ended.of.verification is not None
        assert ended.of.verification.is_good
