"""A schema registry on each of three hosts that are also brokers. The tests are steps on the same hosts."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from broker_registry.errors import Code
from tests.broker_registry.operations.support import record_of
from tests.deploy.base import LabError
from tests.deploy.deployed import NEW
from tests.deploy.lab import Lab
from tests.deploy.playbooks import play
from tests.deploy.wheels import version, wheelhouse
from tests.support.registry import TYPE, Reply
from tests.support.wait import until

pytestmark = [pytest.mark.soak, pytest.mark.serial, pytest.mark.timeout(3600)]

HOSTS = ["n1", "n2", "n3"]
GROUPS = {"brokers": HOSTS, "registries": HOSTS, "monitoring": ["n1"]}
USER = "orders"
USERS = [
    {"name": USER, "acls": [{"resource": f"topic:{USER}", "operations": ["write", "read", "describe", "delete"]}]},
    {"name": "keeper", "acls": [{"resource": "cluster", "operations": ["describe", "alter"]}]},
]
UNIT, BROKER = "broker-registry", "broker-cy"
AUTHORITY = "/etc/broker-cy/registry/authority.pem"
WAIT_S, POLL_S = 120.0, 0.5
# The retries of a client: no leader is elected yet, or it is just restarted.
NOT_YET = (Code.UNKNOWN_LEADER, Code.FORWARDING_FAILED, Code.TIMED_OUT)
# Prints a line for each round of requests to all instances: how many answered.
WATCH = """while [ -e /run/watch ]; do
    found=0
    for host in n1 n2 n3; do
        curl -s -f -o /dev/null --max-time 2 --cacert {authority} https://$host:8081/_health && found=$((found + 1))
    done
    echo $found
done"""


@dataclass
class Site:
    """A lab on which site.yml has run once."""

    lab: Lab

    def write_inventory(self, **variables: Any) -> None:
        wheels = str(wheelhouse(self.lab, ("registry",), [NEW]))
        self.lab.write_inventory(GROUPS, {"broker_wheelhouse": wheels, "broker_users": USERS, **variables})

    def password(self, user: str) -> str:
        return (self.lab.inventory.parent / "secrets/passwords" / user).read_text().strip()

    def call(
        self, instance: str, method: str, path: str, body: Any = None, user: str | None = USER, more: str = ""
    ) -> Reply:
        """A request to an instance from another host."""
        other = "n2" if instance == "n1" else "n1"
        login = "" if user is None else f"-u {shlex.quote(f'{user}:{self.password(user)}')}"
        data = "" if body is None else f"-H 'Content-Type: {TYPE}' --data-binary {shlex.quote(json.dumps(body))}"
        curl = f"sudo curl -s -S -w '\\n%{{http_code}}' --max-time 30 --cacert {AUTHORITY} {login} {data} {more}"
        said = self.lab.ssh(other, f"{curl} -X {method} 'https://{instance}:8081{path}'").stdout
        text, _, status = said.rpartition("\n")
        return Reply(int(status), json.loads(text))

    def register(self, instance: str, subject: str, name: str) -> int:
        """Register a record of this name at an instance; return the id. Waits for an election."""

        def attempt() -> Reply | None:
            reply = self.call(instance, "POST", f"/subjects/{subject}/versions", {"schema": record_of(name=name)})
            return reply if reply.status == 200 or reply.body["error_code"] not in NOT_YET else None

        reply = until(attempt, f"a registration at {instance}", WAIT_S, POLL_S, tolerate=(LabError,))
        assert reply.status == 200, reply
        return int(reply.body["id"])

    def wait_for(self, instance: str, schema_id: int, subject: str) -> None:
        """Wait until an instance has a schema."""
        until(
            lambda: (
                self.call(instance, "GET", f"/schemas/ids/{schema_id}/versions").body
                == [{"subject": subject, "version": 1}]
            ),
            f"the schema {schema_id} at {instance}",
            WAIT_S,
            POLL_S,
            tolerate=(LabError,),
        )

    def shown(self, host: str, name: str, unit: str = UNIT) -> str:
        """A property of a unit."""
        return self.lab.ssh(host, f"systemctl show {unit} -p {name} --value").stdout.strip()

    def starts(self, unit: str) -> list[str]:
        """A value of each host that changes with each start of the unit."""
        return [self.shown(host, "InvocationID", unit) for host in HOSTS]


@pytest.fixture(scope="module")
def site(make_lab: Callable[..., Lab]) -> Site:
    found = Site(make_lab("registry", len(HOSTS)))
    found.write_inventory()
    play(found.lab, "site.yml")
    return found


@contextmanager
def watched(lab: Lab) -> Iterator[list[int]]:
    """Ask all instances again and again. The list has the number of answers of each round when the block has ended."""
    rounds: list[int] = []
    script = shlex.quote(WATCH.format(authority=AUTHORITY))
    lab.ssh("n1", "sudo touch /run/watch")
    lab.ssh("n1", f"sudo systemd-run -q --unit=watch -p StandardOutput=file:/run/watched sh -c {script}")
    until(lambda: lab.ssh("n1", "cat /run/watched", check=False).stdout, "the first round", WAIT_S, POLL_S)
    try:
        yield rounds
    finally:
        lab.ssh("n1", "sudo rm /run/watch")
        until(
            lambda: lab.ssh("n1", "systemctl is-active watch", check=False).stdout.strip() != "active",
            "the last round",
            WAIT_S,
            POLL_S,
        )
        rounds += map(int, lab.ssh("n1", "cat /run/watched; sudo rm /run/watched").stdout.split())


def test_schema_of_one_instance_is_read_from_the_others(site: Site) -> None:
    """If this fails, the role installs registries that clients cannot use, or that let everyone in."""
    first = site.register("n1", "orders-value", "First")
    for instance in ("n2", "n3"):
        site.wait_for(instance, first, "orders-value")
    assert site.call("n2", "GET", "/subjects", user=None).body["error_code"] == 40101
    refused = site.call("n2", "POST", "/subjects/payments-value/versions", {"schema": record_of(name="Other")})
    assert refused.body["error_code"] == Code.ACCESS_DENIED
    assert site.lab.ssh("n2", "curl -s --max-time 5 http://n1:8081/subjects", check=False).returncode != 0
    # An operator's look at all instances by the program of a host.
    file = "/tmp/registry.properties"
    lines = [
        f"basic.auth.user.info={USER}:{site.password(USER)}",
        "schema.registry.ssl.truststore.type=PEM",
        f"schema.registry.ssl.truststore.location={AUTHORITY}",
    ]
    site.lab.ssh("n3", f"printf '%s\\n' {shlex.join(lines)} > {file}")
    command = "sudo /opt/broker-cy/current/bin/broker-cy schemas list --registry https://n1:8081,https://n2:8081"
    assert "orders-value" in site.lab.ssh("n3", f"{command} --registry-config {file}; rm {file}").stdout


def test_unit_is_confined(site: Site) -> None:
    """If this fails, an attacker who breaks into the registry controls the host."""
    shown = site.lab.ssh("n1", f"systemd-analyze security --no-pager {UNIT}.service | tail -1").stdout
    level = re.search(r"(\d+\.\d)", shown)
    assert level is not None, shown
    assert float(level[1]) <= 2.5, shown


def test_prometheus_may_read_the_metrics(site: Site) -> None:
    """If this fails, Prometheus gets no metrics of the registries, and its alert fires for healthy ones."""
    folder = "/etc/prometheus/broker-cy"
    jobs = yaml.safe_load(site.lab.ssh("n1", f"sudo cat {folder}/scrape.yml").stdout)["scrape_configs"]
    (job,) = [each for each in jobs if each["job_name"] == UNIT]
    login = job["basic_auth"]
    targets = [target for each in job["static_configs"] for target in each["targets"]]
    assert targets == [f"{site.lab.host(name).address}:8081" for name in HOSTS]
    for target in targets:
        user = f'-u "{login["username"]}:$(sudo cat {login["password_file"]})"'
        curl = f"sudo curl -s --cacert {job['tls_config']['ca_file']} {user}"
        page = site.lab.ssh("n1", f"{curl} {job['scheme']}://{target}/metrics").stdout
        assert "broker_registry_following 1" in page
        assert (
            site.lab.ssh("n1", f"curl -s -k -o /dev/null -w '%{{http_code}}' https://{target}/metrics").stdout == "401"
        )


def test_killed_instance_comes_back(site: Site) -> None:
    """If this fails, a crash of a registry needs an operator, or ids are lost or given twice."""
    before = site.shown("n2", "MainPID")
    site.lab.ssh("n2", f"sudo kill -9 {before}")
    second = site.register("n1", "orders-second", "Second")
    until(lambda: site.shown("n2", "MainPID") not in (before, "0"), "the next process", WAIT_S, POLL_S)
    third = site.register("n2", "orders-third", "Third")
    assert (second, third) == (2, 3)
    for instance in HOSTS:
        site.wait_for(instance, second, "orders-second")
        site.wait_for(instance, third, "orders-third")


def test_host_without_power_comes_back(site: Site) -> None:
    """If this fails, registries of other hosts need the one that is lost, or it does not start with its host."""
    site.lab.kill("n3")
    fourth = site.register("n1", "orders-fourth", "Fourth")
    assert fourth == 4
    site.wait_for("n2", fourth, "orders-fourth")
    site.lab.start("n3")
    site.wait_for("n3", fourth, "orders-fourth")
    assert site.register("n3", "orders-fifth", "Fifth") == 5


def test_second_run_changes_nothing(site: Site) -> None:
    """If this fails, a recap does not show whether a change of the inventory had the intended effect."""
    before = site.starts(UNIT)
    again = play(site.lab, "site.yml")
    assert (again.changed, again.failed) == (0, 0), again.output[-6000:]
    dry = play(site.lab, "site.yml", "--check", "--diff")
    assert (dry.changed, dry.failed) == (0, 0), dry.output[-6000:]
    assert site.starts(UNIT) == before


def test_changed_setting_restarts_only_the_registries(site: Site) -> None:
    """If this fails, a setting of the registry restarts brokers, or all instances restart at the same time, so that
    clients reach none.
    """
    brokers, registries = site.starts(BROKER), site.starts(UNIT)
    site.write_inventory(registry_compatibility="full")
    with watched(site.lab) as rounds:
        play(site.lab, "site.yml")
    assert site.starts(BROKER) == brokers
    assert all(one != other for one, other in zip(registries, site.starts(UNIT), strict=True))
    assert min(rounds) >= len(HOSTS) - 1, rounds
    for instance in HOSTS:
        assert site.call(instance, "GET", "/config", user="keeper").body == {"compatibilityLevel": "FULL"}
    assert play(site.lab, "site.yml").changed == 0


def test_elected_instances_forward_changes(site: Site) -> None:
    """If this fails, brokercy.leader.election on hosts of the role ends all registrations: the others cannot forward
    changes to the leader, or may not join the group.
    """
    site.write_inventory(registry_compatibility="full", registry_settings={"brokercy.leader.election": True})
    play(site.lab, "services.yml")
    ids = [site.register(host, f"orders-{host}", f"Of{host}") for host in HOSTS]
    assert ids == [6, 7, 8]
    more = "-H 'X-Forward: true'"
    replies = [site.call(host, "PUT", "/config", {"compatibility": "FULL"}, "keeper", more).body for host in HOSTS]
    assert sum(each.get("error_code") == Code.UNKNOWN_LEADER for each in replies) == 2, replies
    for instance in HOSTS:
        for schema_id, host in zip(ids, HOSTS, strict=True):
            site.wait_for(instance, schema_id, f"orders-{host}")
    assert play(site.lab, "services.yml").changed == 0


def test_registries_follow_an_upgrade_and_the_way_back(site: Site) -> None:
    """If this fails, a registry runs the old release after an upgrade until it is restarted by hand."""
    for name, extra, release in (("upgrade", ["-e", f"broker_version={NEW}"], NEW), ("rollback", [], version())):
        play(site.lab, f"{name}.yml", *extra)
        for host in HOSTS:
            # Its interpreter is the system's; its libraries belong to the release.
            mapped = site.lab.ssh(host, f"sudo grep -o '/releases/[^/]*/' /proc/{site.shown(host, 'MainPID')}/maps")
            assert set(mapped.stdout.split()) == {f"/releases/{release}/"}, f"{name}: {host}"
        site.wait_for("n1", 1, "orders-value")
