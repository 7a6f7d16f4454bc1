"""The files of the collection: playbooks that Ansible can read, and roles that describe all their variables."""

from __future__ import annotations

import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml

from broker_cy.launch.processes import run
from tests.deploy.playbooks import COLLECTION
from tests.support import needs

ROLES = (
    "preflight",
    "os_tuning",
    "tls",
    "broker",
    "dashboard",
    "registry",
    "mirror",
    "streams",
    "analytics",
    "load_worker",
    "monitoring",
    "logs",
)
PLAYBOOKS = (
    "site", "preflight", "rolling_restart", "upgrade", "rollback", "add_broker", "decommission", "replace_broker",
    "replace_disk", "rotate_certs", "health", "support_bundle", "benchmark", "load_test", "migrate_from_kafka",
)  # fmt: skip
EXAMPLE = COLLECTION / "inventory" / "example"
ANSIBLE_S = 120.0
pytestmark = needs.ansible


def ansible(home: Path, program: str, *words: str | Path) -> str:
    """Run a program of Ansible in the directory of the collection, and return its output."""
    environment = {"ANSIBLE_HOME": str(home), "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8"}
    argv = [Path(sys.executable).with_name(program), *words]
    return run(argv, cwd=COLLECTION, env={**os.environ, **environment}, timeout_s=ANSIBLE_S).stdout.decode()


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text()) or {}


def options_of(role: str) -> dict[str, dict[str, Any]]:
    """The variables of a role that its argument_specs.yml describes for any entry point."""
    specs = read(COLLECTION / "roles" / role / "meta" / "argument_specs.yml")["argument_specs"]
    assert "main" in specs
    found: dict[str, dict[str, Any]] = {}
    for entry in specs.values():
        assert entry["short_description"]
        found |= entry.get("options") or {}
    return found


@pytest.mark.parametrize("role", ROLES)
def test_a_role_describes_its_variables(role: str) -> None:
    """If this fails, a variable that a role reads is unknown to operators, or a wrong value of it is not refused."""
    options = options_of(role)
    defaults = read(COLLECTION / "roles" / role / "defaults" / "main.yml")
    assert set(defaults) - set(options) == set()
    for name, option in options.items():
        assert option.get("description"), name
        assert option.get("type"), name
        # Defaults in two places would diverge: that of defaults/main.yml counts.
        assert "default" not in option or name not in defaults or option["default"] == defaults[name], name


@pytest.mark.parametrize("role", ROLES)
def test_a_role_has_names_of_its_own(role: str) -> None:
    """If this fails, a variable of one role changes another role."""
    for name in read(COLLECTION / "roles" / role / "defaults" / "main.yml"):
        assert name.startswith(f"{role}_")


def test_ansible_reads_every_playbook(tmp_path: Path) -> None:
    """If this fails, a playbook of the documentation is missing, or Ansible refuses it before it does anything."""
    paths = [COLLECTION / "playbooks" / f"{name}.yml" for name in PLAYBOOKS]
    assert [path.name for path in paths if not path.exists()] == []
    # Other playbooks are parts of these, which users may also run.
    paths = sorted((COLLECTION / "playbooks").glob("*.yml"))
    said = ansible(tmp_path, "ansible-playbook", "-i", EXAMPLE, "--syntax-check", *paths)
    assert [path.name for path in paths if str(path) not in said] == []


def test_ansible_reads_the_example_inventory(tmp_path: Path) -> None:
    """If this fails, the example that users copy as their first inventory does not work."""
    known = json.loads(ansible(tmp_path, "ansible-inventory", "-i", EXAMPLE, "--list"))
    hosts = known["_meta"]["hostvars"]
    brokers = [hosts[name] for name in known["brokers"]["hosts"]]
    assert [each["broker_node_id"] for each in brokers] == [1, 2, 3]
    assert len({each["broker_rack"] for each in brokers}) == 3
    variables = {name for each in hosts.values() for name in each}
    described = {name for role in ROLES for name in options_of(role)}
    assert {name for name in variables if not name.startswith(("ansible_", "inventory_"))} - described == set()


META = {"cluster_id": "c", "node_id": "1", "directory_id": "d"}
NEW, FORMATTED = {"meta": None}, {"meta": {**META, "started": False}}
STARTED = {"meta": {**META, "started": True}}


@pytest.mark.parametrize(
    ("here", "others", "exists"),
    [
        ([NEW, NEW, NEW], [], False),
        # A first run that was interrupted: the other hosts also become initial voters.
        ([FORMATTED, NEW, NEW], [], False),
        ([FORMATTED, NEW], [FORMATTED], False),
        ([STARTED, NEW, FORMATTED], [], True),
        ([NEW], [STARTED, None], True),
        # The host that does not answer may have started.
        ([FORMATTED, NEW], [None], True),
    ],
)
def test_formatted_hosts_are_a_cluster_once_one_has_started(
    here: list[dict[str, Any]], others: list[dict[str, Any] | None], exists: bool
) -> None:
    """If this fails, an interrupted first run leaves hosts that never elect an active controller, or a new host votes
    with an empty log in a cluster that has records.
    """
    path = COLLECTION / "roles" / "broker" / "templates" / "exists.json.j2"
    hosts = {f"n{number}": {"broker_probe": probe} for number, probe in enumerate(here)}
    asked = [{"item": str(number), "stdout": json.dumps(each) if each else ""} for number, each in enumerate(others)]
    environment = jinja2.Environment(trim_blocks=True, autoescape=False)
    environment.filters |= {"from_json": json.loads, "to_json": json.dumps}
    said = environment.from_string(path.read_text()).render(
        ansible_play_hosts_all=list(hosts), hostvars=hosts, broker_other_probes={"results": asked}
    )
    assert json.loads(said) is exists


def test_the_probe_tells_directories_that_ran_from_those_that_were_formatted(tmp_path: Path) -> None:
    """If this fails, hosts of an interrupted first run count as a cluster."""
    probe = runpy.run_path(str(COLLECTION / "roles" / "broker" / "files" / "probe.py"), run_name="probe")
    assert probe["meta"]([str(tmp_path)]) is None
    (tmp_path / "meta.properties").write_text("cluster.id=c\nnode.id=1\ndirectory.id=d\n")
    assert probe["meta"]([str(tmp_path)]) == FORMATTED["meta"]
    (tmp_path / "__cluster_metadata-0").mkdir()
    (tmp_path / "__cluster_metadata-0" / "quorum-state").write_text("{}")
    assert probe["meta"]([str(tmp_path)]) == STARTED["meta"]
