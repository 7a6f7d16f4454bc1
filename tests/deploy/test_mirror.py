"""A process of broker-mirror on each of two hosts that are also brokers. Both clusters of the flow are this one, under
two aliases. The tests are steps on the same hosts.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
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
MIRRORS = HOSTS[:2]
GROUPS = {"brokers": HOSTS, "mirrors": MIRRORS, "monitoring": ["n3"]}
UNIT, BROKER = "broker-mirror", "broker-cy"
FLOW, TOPIC, COPY = "east->main", "orders", "east.orders"
EAST = {
    "bootstrap.servers": "n1:9092,n2:9092",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "mirror",
    "sasl.password.file": "/etc/broker-cy/mirror/password",
    "ssl.truststore.type": "PEM",
    "ssl.truststore.location": "/etc/broker-cy/mirror/authority.pem",
}
SETTINGS = {
    "mirror_cluster": "main",
    "mirror_clusters": {"east": EAST},
    "mirror_flows": {FLOW: {"topics": TOPIC, "refresh.topics.interval.seconds": 1}},
}
WAIT_S, POLL_S = 120.0, 0.5


@dataclass
class Site:
    """A lab on which site.yml has run once."""

    lab: Lab

    def write_inventory(self, **variables: Any) -> None:
        wheels = str(wheelhouse(self.lab, ("mirror",), [NEW]))
        self.lab.write_inventory(GROUPS, {"broker_wheelhouse": wheels, **SETTINGS, **variables})

    def page(self, host: str, path: str) -> str:
        """A page of a process, as monitoring gets it."""
        address = self.lab.host(host).address
        return self.lab.ssh("n3", f"curl -s -f --max-time 5 http://{address}:8085{path}").stdout

    def flow(self, host: str) -> dict[str, Any]:
        (found,) = [each for each in json.loads(self.page(host, "/status"))["flows"] if each["target"] == "main"]
        assert isinstance(found, dict)
        return found

    def send(self, values: range) -> None:
        """Send records, and wait until they are copied, each once."""
        ask(self.lab, "n3", "produce", TOPIC, stdin="".join(f"value-{each}\n" for each in values))

        def copied() -> bool:
            read = ask(self.lab, "n3", "consume", COPY, "-e").split()
            wanted = [f"value-{each}" for each in range(values.stop)]
            assert len(read) <= len(wanted), read
            return sorted(read) == sorted(wanted)

        until(copied, "the records in the target", WAIT_S, POLL_S, tolerate=(LabError,))

    def shown(self, host: str, name: str, unit: str = UNIT) -> str:
        """A property of a unit."""
        return self.lab.ssh(host, f"systemctl show {unit} -p {name} --value").stdout.strip()

    def starts(self, unit: str, hosts: list[str]) -> list[str]:
        """A value of each host that changes with each start of the unit."""
        return [self.shown(host, "InvocationID", unit) for host in hosts]


@pytest.fixture(scope="module")
def site(make_lab: Callable[..., Lab]) -> Site:
    found = Site(make_lab("mirror", len(HOSTS)))
    found.write_inventory()
    play(found.lab, "site.yml")
    return found


def test_records_are_copied(site: Site) -> None:
    """If this fails, the role installs a mirror that copies nothing."""
    ask(site.lab, "n3", "topics", "create", TOPIC, "-p", "4")
    site.send(range(10))
    shares = sorted(site.flow(host)["share"] for host in MIRRORS)
    assert shares == ["1 of 2", "2 of 2"]
    lines = ask(site.lab, "n3", "events", "--type", "copy_flow_changed", "--json").splitlines()
    events = [json.loads(line) for line in lines]
    assert {"started"} <= {each["change"] for each in events}, events


def test_unit_is_confined(site: Site) -> None:
    """If this fails, an attacker who breaks into the mirror controls the host."""
    shown = site.lab.ssh("n1", f"systemd-analyze security --no-pager {UNIT}.service | tail -1").stdout
    level = re.search(r"(\d+\.\d)", shown)
    assert level is not None, shown
    assert float(level[1]) <= 2.5, shown


def test_monitoring_finds_the_processes(site: Site) -> None:
    """If this fails, Prometheus and the service of alerts say nothing of a mirror that stands still."""
    jobs = yaml.safe_load(site.lab.ssh("n3", "sudo cat /etc/prometheus/broker-cy/scrape.yml").stdout)["scrape_configs"]
    (job,) = [each for each in jobs if each["job_name"] == UNIT]
    targets = [target for each in job["static_configs"] for target in each["targets"]]
    assert targets == [f"{site.lab.host(host).address}:8085" for host in MIRRORS]
    for host in MIRRORS:
        assert 'broker_mirror_flow_running{source="east",target="main"} 1' in site.page(host, "/metrics")
    command = (
        "sudo /opt/broker-cy/current/bin/broker-cy alerts --clusters-file /etc/broker-cy/alerts/clusters.toml --json"
    )
    found = json.loads(site.lab.ssh("n3", command, check=False).stdout)
    states = {each["rule"]: each["state"] for each in found}
    assert states["mirrors not running"] == "ok", found


def test_killed_process_comes_back(site: Site) -> None:
    """If this fails, a crash of a mirror needs an operator, or records are lost or copied twice."""
    before = site.shown("n2", "MainPID")
    site.lab.ssh("n2", f"sudo kill -9 {before}")
    site.send(range(10, 30))
    until(lambda: site.shown("n2", "MainPID") not in (before, "0"), "the next process", WAIT_S, POLL_S)
    until(lambda: site.flow("n2")["state"] == "running", "its part", WAIT_S, POLL_S, tolerate=(LabError,))
    site.send(range(30, 40))


def test_second_run_changes_nothing(site: Site) -> None:
    """If this fails, a recap does not show whether a change of the inventory had the intended effect."""
    before = site.starts(UNIT, MIRRORS)
    again = play(site.lab, "site.yml")
    assert (again.changed, again.failed) == (0, 0), again.output[-6000:]
    dry = play(site.lab, "site.yml", "--check", "--diff")
    assert (dry.changed, dry.failed) == (0, 0), dry.output[-6000:]
    assert site.starts(UNIT, MIRRORS) == before


def test_changed_setting_restarts_only_the_mirrors(site: Site) -> None:
    """If this fails, a setting of the mirror restarts brokers, or has no effect."""
    brokers, mirrors = site.starts(BROKER, HOSTS), site.starts(UNIT, MIRRORS)
    site.write_inventory(mirror_settings={"offset.flush.interval.ms": 2000})
    play(site.lab, "site.yml")
    assert site.starts(BROKER, HOSTS) == brokers
    assert all(one != other for one, other in zip(mirrors, site.starts(UNIT, MIRRORS), strict=True))
    site.send(range(40, 50))
    assert play(site.lab, "site.yml").changed == 0


def test_wrong_setting_stops_the_play_at_the_first_host(site: Site) -> None:
    """If this fails, a wrong setting ends all processes of the mirror."""
    before = site.starts(UNIT, MIRRORS[1:])
    site.write_inventory(mirror_settings={"offset.flush.intervall.ms": 2000}, mirror_start_timeout_s=5)
    failed = play(site.lab, "services.yml", check=False)
    assert failed.code != 0
    assert site.starts(UNIT, MIRRORS[1:]) == before
    site.send(range(50, 60))
    site.write_inventory()
    play(site.lab, "services.yml")


def test_mirrors_follow_an_upgrade_and_the_way_back(site: Site) -> None:
    """If this fails, a mirror runs the old release after an upgrade until it is restarted by hand."""
    for name, extra, release in (("upgrade", ["-e", f"broker_version={NEW}"], NEW), ("rollback", [], version())):
        play(site.lab, f"{name}.yml", *extra)
        for host in MIRRORS:
            # Its interpreter is the system's; its libraries belong to the release.
            pid = shlex.quote(site.shown(host, "MainPID"))
            mapped = site.lab.ssh(host, f"sudo grep -o '/releases/[^/]*/' /proc/{pid}/maps")
            assert set(mapped.stdout.split()) == {f"/releases/{release}/"}, f"{name}: {host}"
    site.send(range(60, 70))
