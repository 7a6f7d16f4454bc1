"""Two instances of an application of broker-streams on each of two hosts that are also brokers. The tests are steps on
the same hosts.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.base import LabError
from tests.deploy.cluster import ask
from tests.deploy.deployed import NEW
from tests.deploy.lab import Lab
from tests.deploy.playbooks import play
from tests.deploy.wheels import version, wheelhouse
from tests.support.wait import until

pytestmark = [pytest.mark.soak, pytest.mark.serial, pytest.mark.timeout(3600)]

HOSTS = ["n1", "n2", "n3"]
RUNNING = HOSTS[:2]
GROUPS = {"brokers": HOSTS, "streams": RUNNING, "monitoring": ["n3"]}
UNITS = [f"broker-streams-counts-{number}" for number in (1, 2)]
BROKER = "broker-cy"
INPUT, OUTPUT = "orders", "counts"
# The module beside the application is one of its `files`.
APPLICATION = """
from broker_streams import STRING, StreamsBuilder
from shown import shown

builder = StreamsBuilder()
orders = builder.stream("orders", key=STRING, value=STRING)
orders.group_by_key().count().to_stream().map_values(shown).to("counts", key=STRING, value=STRING)
# Without a cache, each order has a result.
config = {"application.id": "counts", "statestore.cache.max.bytes": 0}
"""
MODULE = """
def shown(count):
    return f"{count} orders"
"""
WAIT_S, POLL_S = 120.0, 0.5


@dataclass
class Site:
    """A lab on which site.yml has run once."""

    lab: Lab
    files: Path

    def write_inventory(self, applications: list[dict[str, Any]] | None = None, **variables: Any) -> None:
        wheels = str(wheelhouse(self.lab, ("streams",), [NEW]))
        given = [self.application()] if applications is None else applications
        self.lab.write_inventory(GROUPS, {"broker_wheelhouse": wheels, "streams_applications": given, **variables})

    def application(self, **settings: Any) -> dict[str, Any]:
        return {
            "name": "counts",
            "file": str(self.files / "counts.py"),
            "files": {"shown.py": str(self.files / "shown.py")},
            "instances": 2,
            "settings": settings,
        }

    def page(self, host: str, path: str, port: int = 8100) -> str:
        """A page of an instance, as monitoring gets it."""
        address = self.lab.host(host).address
        return self.lab.ssh("n3", f"curl -s -f --max-time 5 http://{address}:{port}{path}").stdout

    def send(self, rounds: range) -> None:
        """Send an order of each of eight keys in each round, and wait for the counts: each once."""
        lines = "".join(f"key-{key}:tea\n" for _ in rounds for key in range(8))
        ask(self.lab, "n3", "produce", INPUT, "-K", ":", stdin=lines)

        def counted() -> bool:
            read = ask(self.lab, "n3", "consume", OUTPUT, "-e").splitlines()
            wanted = [f"{count} orders" for count in range(1, rounds.stop + 1) for _ in range(8)]
            assert len(read) <= len(wanted), read
            return sorted(read) == sorted(wanted)

        until(counted, "the counts of all orders", WAIT_S, POLL_S, tolerate=(LabError,))

    def shown(self, host: str, name: str, unit: str) -> str:
        """A property of a unit."""
        return self.lab.ssh(host, f"systemctl show {unit} -p {name} --value").stdout.strip()

    def starts(self, units: list[str], hosts: list[str]) -> list[str]:
        """A value of each unit that changes with each start of it."""
        return [self.shown(host, "InvocationID", unit) for host in hosts for unit in units]


@pytest.fixture(scope="module")
def site(make_lab: Callable[..., Lab], tmp_path_factory: pytest.TempPathFactory) -> Site:
    files = tmp_path_factory.mktemp("application")
    (files / "counts.py").write_text(APPLICATION)
    (files / "shown.py").write_text(MODULE)
    found = Site(make_lab("streams", len(HOSTS)), files)
    found.write_inventory([])
    play(found.lab, "site.yml")
    for topic in (INPUT, OUTPUT):
        ask(found.lab, "n3", "topics", "create", topic, "-p", "4")
    found.write_inventory()
    play(found.lab, "site.yml")
    return found


def test_orders_are_counted(site: Site) -> None:
    """If this fails, the role installs an application that processes nothing, or some records twice."""
    site.send(range(2))


def test_unit_is_confined(site: Site) -> None:
    """If this fails, an attacker who breaks into an application controls the host."""
    shown = site.lab.ssh("n1", f"systemd-analyze security --no-pager {UNITS[0]}.service | tail -1").stdout
    level = re.search(r"(\d+\.\d)", shown)
    assert level is not None, shown
    assert float(level[1]) <= 2.5, shown


def test_monitoring_finds_the_instances(site: Site) -> None:
    """If this fails, Prometheus says nothing of an application that stands still."""
    jobs = yaml.safe_load(site.lab.ssh("n3", "sudo cat /etc/prometheus/broker-cy/scrape.yml").stdout)["scrape_configs"]
    (job,) = [each for each in jobs if each["job_name"] == "broker-streams"]
    targets = [target for each in job["static_configs"] for target in each["targets"]]
    assert targets == [f"{site.lab.host(host).address}:{port}" for host in RUNNING for port in (8100, 8101)]
    for host in RUNNING:
        for port in (8100, 8101):
            assert "kafka_streams_" in site.page(host, "/metrics", port)


def test_killed_instance_comes_back(site: Site) -> None:
    """If this fails, a crash of an application needs an operator, or records are lost or counted twice."""
    before = site.shown("n2", "MainPID", UNITS[0])
    site.lab.ssh("n2", f"sudo kill -9 {before}")
    site.send(range(2, 4))
    until(lambda: site.shown("n2", "MainPID", UNITS[0]) not in (before, "0"), "the next process", WAIT_S, POLL_S)


def test_second_run_changes_nothing(site: Site) -> None:
    """If this fails, a recap does not show whether a change of the inventory had the intended effect."""
    before = site.starts(UNITS, RUNNING)
    again = play(site.lab, "site.yml")
    assert (again.changed, again.failed) == (0, 0), again.output[-6000:]
    dry = play(site.lab, "site.yml", "--check", "--diff")
    assert (dry.changed, dry.failed) == (0, 0), dry.output[-6000:]
    assert site.starts(UNITS, RUNNING) == before


def test_changed_setting_restarts_only_the_instances(site: Site) -> None:
    """If this fails, a setting of an application restarts brokers, or has no effect."""
    brokers, instances = site.starts([BROKER], HOSTS), site.starts(UNITS, RUNNING)
    site.write_inventory([site.application(**{"commit.interval.ms": 50})])
    play(site.lab, "site.yml")
    assert site.starts([BROKER], HOSTS) == brokers
    assert all(one != other for one, other in zip(instances, site.starts(UNITS, RUNNING), strict=True))
    site.send(range(4, 5))
    assert play(site.lab, "site.yml").changed == 0


def test_wrong_setting_stops_the_play_at_the_first_instance(site: Site) -> None:
    """If this fails, a wrong setting ends all instances of an application."""
    before = site.starts(UNITS, RUNNING)
    site.write_inventory([site.application(**{"commit.interval.ms": "soon"})], streams_start_timeout_s=5)
    failed = play(site.lab, "services.yml", check=False)
    assert failed.code != 0
    # Either host may be the first one.
    assert sum(one != other for one, other in zip(before, site.starts(UNITS, RUNNING), strict=True)) == 1
    site.send(range(5, 6))
    site.write_inventory()
    play(site.lab, "services.yml")


def test_instances_follow_an_upgrade_and_the_way_back(site: Site) -> None:
    """If this fails, an application runs on the old release after an upgrade until it is restarted by hand."""
    for name, extra, release in (("upgrade", ["-e", f"broker_version={NEW}"], NEW), ("rollback", [], version())):
        play(site.lab, f"{name}.yml", *extra)
        for host in RUNNING:
            pid = shlex.quote(site.shown(host, "MainPID", UNITS[1]))
            mapped = site.lab.ssh(host, f"sudo grep -o '/releases/[^/]*/' /proc/{pid}/maps")
            assert set(mapped.stdout.split()) == {f"/releases/{release}/"}, f"{name}: {host}"
    site.send(range(6, 7))


def test_an_application_that_leaves_the_list_is_removed(site: Site) -> None:
    """If this fails, an application that nobody wants any more goes on, or its state fills the disk."""
    site.write_inventory([{**site.application(), "instances": 1}])
    play(site.lab, "services.yml")
    units = "ls /etc/systemd/system | grep broker-streams; systemctl list-units --all --plain | grep -c broker-streams-"
    assert site.lab.ssh("n1", units, check=False).stdout.split() == [f"{UNITS[0]}.service", "1"]
    site.send(range(7, 8))
    site.write_inventory([])
    play(site.lab, "services.yml")
    assert site.lab.ssh("n1", units, check=False).stdout.split() == ["0"]
    left = site.lab.ssh("n1", "sudo ls /var/lib/broker-streams; sudo ls -d /etc/broker-cy/streams/counts", check=False)
    assert left.stdout.split() == []
    assert play(site.lab, "services.yml").changed == 0
