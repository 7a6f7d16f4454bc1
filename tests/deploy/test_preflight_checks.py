"""Each check of the preflight, on simulated answers of hosts.

The file is long because it is one table: the fault that each check finds, and its message.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker_cy.security import acl_words
from tests.deploy.preflight import PORTS, ROLES, VERSION, judge, wheel, wheelhouse, write_sums
from tests.support import needs

needs.require(needs.ansible)

GIB = 1 << 30
UNIT = "broker-cy.service"


def answered(number: int) -> dict[str, Any]:
    """The answer of a sound host."""
    return {
        "name": f"n{number}",
        "address": f"10.0.0.{number}",
        "started": time.time(),
        "os": "debian",
        "os_version": "12",
        "os_name": "Debian GNU/Linux 12 (bookworm)",
        "architecture": "x86_64",
        "memory_bytes": 16 * GIB,
        "root": True,
        "systemd": True,
        "container": "none",
        "python": {"path": "/usr/bin/python3", "version": "3.11.2", "error": "", "venv": True, "venv_error": ""},
        "directories": [directory("/srv/data/broker-cy", 2049)],
        "install": directory("/opt", 2048, on_root=True),
        "disks": [],
        "ports": {what: {"port": 9092 + at, "taken": False, "owner": None} for at, what in enumerate(PORTS)},
        "listening": {},
        "own_addresses": [f"10.0.0.{number}"],
        "clock": {"time": time.time(), "synchronised": True, "max_error_us": 1000},
    }


def directory(path: str, device: int, *, on_root: bool = False) -> dict[str, Any]:
    return {
        "path": path,
        "exists": True,
        "mount": "/" if on_root else "/srv/data",
        "file_system": "ext4",
        "source": "/dev/sdb",
        "read_only": False,
        "device": device,
        "on_root": on_root,
        "free_bytes": 500 * GIB,
        "node_id": None,
        "cluster_id": None,
    }


class Cluster:
    """Three sound hosts, and the role's input to the judge about them, which a test changes."""

    def __init__(self, path: Path) -> None:
        self.path = wheelhouse(path / "wheelhouse", (3, 11))
        self.variables: dict[str, dict[str, Any]] = {
            f"n{number}": {"broker_node_id": number, "broker_address": f"10.0.0.{number}"} for number in (1, 2, 3)
        }
        self.others: dict[str, list[str]] = {name: ["ansible_user"] for name in self.variables}
        self.answers = {f"n{number}": answered(number) for number in (1, 2, 3)}
        self.groups: dict[str, list[str]] = {"all": [*self.variables], "brokers": [*self.variables]}
        self.tried: dict[str, list[dict[str, Any]]] = {name: [] for name in self.variables}
        self.names: dict[str, dict[str, Any]] = {name: {} for name in self.variables}
        self.disks: list[dict[str, str]] = []
        self.failed: dict[str, dict[str, Any]] = {}
        self.options: dict[str, Any] = {
            "supported": {"debian": ["12", "13"], "ubuntu": ["24.04"]},
            "architectures": ["x86_64"],
            "min_memory_mb": 4096,
            "min_free_mb": 10240,
            "min_install_mb": 1024,
            "max_clock_difference_s": 0.5,
            "skip": [],
            "unit": UNIT,
            "wheelhouse": str(self.path),
            "version": VERSION,
        }

    def findings(self) -> Any:
        variables = {}
        for name, own in self.variables.items():
            asked = self.failed.get(name) or {"rc": 0, "stdout": json.dumps(self.answers[name])}
            reached = {"rc": 0, "stdout": json.dumps({"tried": self.tried[name], "names": self.names[name]})}
            options = {"disks": self.disks}
            variables[name] = {
                **own,
                "preflight_options": options,
                "preflight_asked": asked,
                "preflight_reached": reached,
            }
        return judge().judge(
            {
                "roles": str(ROLES),
                "groups": self.groups,
                "asked": [*self.variables],
                "answered": time.time() + 1,
                "variables": variables,
                "others": self.others,
                "options": self.options,
            }
        )


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def test_nothing_is_found_on_sound_hosts(cluster: Cluster) -> None:
    findings = cluster.findings()
    assert findings.failures == []
    assert findings.warnings == []


def _of(**changes: object) -> Callable[[Cluster], object]:
    """Changes to the answer of n2."""
    return lambda cluster: cluster.answers["n2"].update(changes)


def _directory(**changes: object) -> Callable[[Cluster], object]:
    return lambda cluster: cluster.answers["n2"]["directories"][0].update(changes)


def _variable(**changes: object) -> Callable[[Cluster], object]:
    return lambda cluster: cluster.variables["n2"].update(changes)


def _tried(cluster: Cluster, *, error: str = "", said: str | None = "n2", ahead_s: float = 0.0) -> None:
    for name in ("n1", "n3"):
        one = {"name": "n2", "address": "10.0.0.2", "port": 9092, "what": "client", "listener": True}
        cluster.tried[name].append({**one, "error": error, "said": said, "ahead_s": ahead_s, "bound_s": 0.01})


def _disk(**changes: object) -> Callable[[Cluster], object]:
    def spoil(cluster: Cluster) -> None:
        cluster.disks = [{"device": "/dev/sdb", "path": "/srv/data"}]
        found = {"device": "/dev/sdb", "state": "blank", "content": "", "uuid": "", "mounted": [], **changes}
        cluster.answers["n2"]["disks"] = [found]

    return spoil


def _taken(unit: str) -> Callable[[Cluster], object]:
    owner = {"pid": 12, "command": "nginx", "unit": unit}
    return lambda cluster: cluster.answers["n2"]["ports"]["client"].update(taken=True, owner=owner)


FAULTS: list[tuple[str, Callable[[Cluster], object], str, list[str]]] = [
    ("an old system", _of(os_version="11", os_name="Debian 11"), "os", ["n2: ", "Debian 11", "preflight_supported"]),
    ("another machine", _of(architecture="riscv64"), "architecture", ["n2: ", "riscv64", "x86_64"]),
    ("no root", _of(root=False), "root", ["n2: ", "ansible_become"]),
    ("no systemd", _of(systemd=False), "systemd", ["n2: ", "systemd"]),
    ("little memory", _of(memory_bytes=GIB), "memory", ["n2: ", "1.0 GiB", "preflight_min_memory_mb", "4096"]),
    (
        "no Python",
        _of(python={"path": "/opt/python", "version": None, "error": "No such file", "venv": False, "venv_error": ""}),
        "python",
        ["n2: ", "/opt/python", "No such file", "set broker_python"],
    ),
    (
        "an old Python",
        _of(python={"path": "/usr/bin/python3", "version": "3.10.1", "error": "", "venv": True, "venv_error": ""}),
        "python",
        ["n2: ", "Python 3.10", "needs 3.11", "broker_python"],
    ),
    (
        "no virtual environments",
        _of(python={"path": "python3", "version": "3.11.2", "error": "", "venv": False, "venv_error": "No ensurepip"}),
        "python",
        ["n2: ", "No ensurepip", "apt install python3-venv"],
    ),
    ("logs on the disk of the system", _directory(on_root=True), "log_directories", ["n2: ", "/srv/data/broker-cy"]),
    ("a read-only disk", _directory(read_only=True), "log_directories", ["n2: ", "read-only"]),
    ("logs in the memory", _directory(file_system="tmpfs"), "log_directories", ["n2: ", "tmpfs"]),
    ("a full disk", _directory(free_bytes=GIB), "disk_space", ["n2: ", "1.0 GiB", "preflight_min_free_mb", "10240"]),
    (
        "a file in the place of a directory",
        lambda cluster: cluster.answers["n2"].update(
            directories=[{"path": "/srv/x", "error": "/srv is not a directory"}]
        ),
        "log_directories",
        ["n2: ", "/srv/x"],
    ),
    ("the disk of another node", _directory(node_id="7"), "identity", ["n2: ", "node 7", "broker_node_id is 2"]),
    (
        "a relative log directory",
        _variable(broker_log_dirs=["logs"]),
        "log_directories",
        ["n2: ", "logs", "absolute"],
    ),
    (
        "a disk put before that of the metadata log",
        lambda cluster: (
            _directory(metadata=True)(cluster),
            _variable(broker_log_dirs=["/srv/new", "/srv/data/broker-cy"])(cluster),
        ),
        "log_directories",
        ["n2: ", "put /srv/data/broker-cy first", "the inventory says /srv/new"],
    ),
    ("the same directory twice", _variable(broker_log_dirs=["/a", "/a"]), "log_directories", ["n2: ", "twice", "/a"]),
    ("a disk with a file system", _disk(state="other", content="TYPE ext4"), "disks", ["ext4", "wipefs", "/dev/sdb"]),
    (
        "a disk that is not there",
        _disk(state="absent", content="No such file"),
        "disks",
        ["n2: ", "/dev/sdb", "No such"],
    ),
    (
        "a disk that failed",
        _disk(state="dead", content="mounted at /srv/data, Input/output error", mounted=["/srv/data"]),
        "disks",
        ["n2: ", "Input/output error", "replace_disk.yml -e broker_replace_disk=n2 -e broker_replace_path=/srv/data"],
    ),
    (
        "one device for two paths",
        _variable(os_tuning_disks=[{"device": "/dev/sdb", "path": "/a"}, {"device": "/dev/sdb", "path": "/b"}]),
        "disks",
        ["n2: ", "a device twice: /dev/sdb"],
    ),
    (
        "two devices for one path",
        _variable(os_tuning_disks=[{"device": "/dev/sdb", "path": "/a"}, {"device": "/dev/sdc", "path": "/a"}]),
        "disks",
        ["n2: ", "a path twice: /a"],
    ),
    ("a disk that is mounted", _disk(state="xfs", mounted=["/home"]), "disks", ["/home", "/srv/data"]),
    ("a port in use", _taken("nginx.service"), "ports", ["n2: ", "nginx (process 12, nginx.service)", "9092"]),
    (
        "a port that is not free for another reason",
        _of(listening={"client": "Permission denied"}),
        "ports",
        ["n2: ", "9092", "Permission denied"],
    ),
    (
        "a clock that is not synchronised",
        _of(clock={"time": time.time(), "synchronised": False, "max_error_us": 0}),
        "clock_synchronised",
        ["n2: ", "timedatectl"],
    ),
    (
        "a clock ahead of the other hosts",
        lambda cluster: _tried(cluster, ahead_s=2.0),
        "clock_difference",
        ["n2 is 2.0 s ahead", "preflight_max_clock_difference_s is 0.5"],
    ),
    (
        "a clock ahead of the control node",
        lambda cluster: cluster.answers["n2"]["clock"].update(time=time.time() + 100),
        "clock_difference",
        ["n2 is", "ahead of that of n1"],
    ),
    (
        "a name that does not resolve",
        lambda cluster: cluster.names["n1"].update({"10.0.0.2": {"addresses": [], "error": "Name not known"}}),
        "names",
        ["n1: ", "10.0.0.2 of n2", "Name not known", "/etc/hosts"],
    ),
    (
        "a name that is the host itself",
        lambda cluster: cluster.names["n1"].update({"b2": {"addresses": ["127.0.1.1"], "error": ""}}),
        "names",
        ["n1: ", "b2", "127.0.1.1"],
    ),
    (
        "a listener behind a firewall",
        lambda cluster: _tried(cluster, error="no answer within 4 s", said=None),
        "reach",
        [
            "No host can reach the listener client of n2 at 10.0.0.2:9092",
            "no answer within 4 s (n1 and n3)",
            "firewall",
        ],
    ),
    (
        "a listener of another host",
        lambda cluster: _tried(cluster, said="n3"),
        "reach",
        ["n2", "n3 answers there"],
    ),
    (
        "an unknown variable",
        _variable(broker_log_dir="/srv"),
        "variables",
        ["n2: ", "broker_log_dir is not", "did you mean broker_log_dirs?"],
    ),
    ("an unknown variable of a small role", _variable(os_tuning_swapiness=1), "variables", ["os_tuning_swappiness"]),
    (
        "an unknown setting",
        _variable(broker_settings={"listener.name.client.sasl.enabled.mechanism": "PLAIN"}),
        "settings",
        ["n2: ", "sasl.enabled.mechanism is no setting of the broker: did you mean sasl.enabled.mechanisms?"],
    ),
    (
        "a setting without an effect",
        _variable(broker_settings={"num.io.threads": 8, "brokercy.config.strict": None}),
        "settings",
        ["n2: ", "num.io.threads has no effect: remove it, or add brokercy.config.strict: false."],
    ),
    ("a wrong type", _variable(broker_client_port="many"), "types", ["n2: ", "broker_client_port is 'many'", "int"]),
    ("a port out of range", _variable(broker_client_port=70000), "types", ["n2: ", "70000", "1 to 65535"]),
    ("a negative node id", _variable(broker_node_id=-1), "types", ["n2: ", "broker_node_id is -1", "0 to 999"]),
    (
        "no node id",
        lambda cluster: cluster.variables["n2"].pop("broker_node_id"),
        "types",
        ["n2: ", "broker_node_id is required"],
    ),
    (
        "the same node id twice",
        _variable(broker_node_id=1),
        "node_ids",
        ["n1 and n2", "broker_node_id 1", "2 is not taken"],
    ),
    (
        "an even quorum",
        _variable(broker_controller=False),
        "voters",
        ["2 voters (n1 and n3)", "broker_controller: false"],
    ),
    (
        "no voter",
        lambda cluster: [each.update(broker_controller=False) for each in cluster.variables.values()],
        "voters",
        ["broker_controller: true"],
    ),
    ("a rack on one host alone", _variable(broker_rack="a"), "racks", ["n1 and n3: ", "broker_rack"]),
    ("the same address twice", _variable(broker_address="10.0.0.1"), "addresses", ["n1 and n2", "10.0.0.1"]),
    ("an address of the host alone", _variable(broker_address="localhost"), "addresses", ["n2: ", "localhost"]),
    ("every address", _variable(broker_address="0.0.0.0"), "addresses", ["n2: ", "0.0.0.0"]),
    (
        "a misspelled group",
        lambda cluster: cluster.groups.update({"dashboard": ["n1"]}),
        "groups",
        ["dashboard", "did you mean dashboards?"],
    ),
    ("no broker", lambda cluster: cluster.groups.pop("brokers"), "groups", ["group brokers"]),
    (
        "a host that is down",
        lambda cluster: cluster.failed.update(n2={"unreachable": True, "msg": "No route to host"}),
        "answers",
        ["n2: ", "No route to host", "--limit"],
    ),
    (
        "a release that is not there",
        lambda cluster: cluster.options.update(version="9.9"),
        "wheelhouse",
        ["broker_version is 9.9", "only 1.2.3"],
    ),
    (
        "a wheel that was changed",
        lambda cluster: wheel(cluster.path, "needed-1.0-py3-none-any.whl", ">=3.12"),
        "wheelhouse",
        ["needed-1.0-py3-none-any.whl does not match its checksum"],
    ),
    (
        "a wheel that is missing",
        lambda cluster: (cluster.path / "needed-1.0-py3-none-any.whl").unlink(),
        "wheelhouse",
        ["needed-1.0-py3-none-any.whl is missing"],
    ),
    (
        "no checksums",
        lambda cluster: (cluster.path / "SHA256SUMS").unlink(),
        "wheelhouse",
        ["SHA256SUMS"],
    ),
    (
        "a wheel of another Python",
        _of(python={"path": "python3", "version": "3.13.1", "error": "", "venv": True, "venv_error": ""}),
        "wheelhouse",
        ["n2: ", "broker_cy", "Python 3.13 on x86_64"],
    ),
    ("an unknown check", lambda cluster: cluster.options.update(skip=["memry"]), "variables", ["memry", "memory"]),
]


@pytest.mark.parametrize(
    ("spoil", "check", "parts"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS]
)
def test_a_fault_is_refused(cluster: Cluster, spoil: Callable[[Cluster], object], check: str, parts: list[str]) -> None:
    """The message names the check, the host, the value and the remedy."""
    spoil(cluster)
    failures = cluster.findings().failures
    assert any(text.startswith(f"[{check}] ") and all(part in text for part in parts) for text in failures), failures


@pytest.mark.parametrize(("spoil", "check", "parts"), [fault[1:] for fault in FAULTS if fault[0] == "little memory"])
def test_a_check_that_is_skipped_only_warns(
    cluster: Cluster, spoil: Callable[[Cluster], object], check: str, parts: list[str]
) -> None:
    spoil(cluster)
    cluster.options["skip"] = [check]
    findings = cluster.findings()
    assert findings.failures == []
    assert any(f"[{check}, skipped]" in text and all(part in text for part in parts) for text in findings.warnings)


def test_what_is_fine_is_not_refused(cluster: Cluster) -> None:
    """The ports of the running broker, a full disk of a node in use, a disk that will be mounted, a blank disk, and
    several disks.
    """
    for found in (cluster.answers["n1"]["directories"], cluster.answers["n2"]["directories"]):
        found.append(directory("/srv/more/broker-cy", 2050))
    cluster.variables["n1"]["broker_log_dirs"] = ["/srv/data/broker-cy", "/srv/more/broker-cy"]
    _taken(UNIT)(cluster)
    _directory(free_bytes=GIB, node_id="2", cluster_id="x")(cluster)
    _disk(state="blank")(cluster)
    cluster.answers["n3"]["directories"][0]["on_root"] = True
    cluster.variables["n3"]["broker_settings"] = {
        "log.retention.hours": 1,
        "super.users": "User:a",
        "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
        "listener.name.client.plain.sasl.jaas.config": "x",
        "listener.name.client.max.connections": 7,
        "brokercy.events.enable": True,
        "num.network.threads": None,
    }
    cluster.variables["n2"]["broker_settings"] = {"num.io.threads": 8, "brokercy.config.strict": False}
    assert cluster.findings().failures == []


def test_rights_that_cannot_be_given_are_refused(cluster: Cluster) -> None:
    """If this fails, a typing error in an ACL ends the play when the cluster is already running."""

    judge()
    preflight_inventory = sys.modules["preflight_inventory"]
    kinds, operations = preflight_inventory.KINDS_OF_RESOURCES, preflight_inventory.OPERATIONS

    def findings_of(resource: str, operation: str) -> str:
        acls = [{"resource": resource, "operations": [operation]}]
        cluster.variables["n2"]["broker_users"] = [{"name": "orders", "acls": acls}]
        return "".join(cluster.findings().failures)

    for kind in kinds:
        acl_words.parse_resource(f"{kind}:a")
        assert findings_of(f"{kind}:a", "read") == ""
    for operation in operations:
        acl_words.parse_operation(operation)
        assert findings_of("cluster", operation.upper().replace("-", "_")) == ""
    assert {acl_words.parse_type(each) for each in (*kinds, "cluster")} == set(acl_words.TYPES)
    for resource, operation, part in (
        ("topc:a", "read", "'topc:a'"),
        ("topic", "read", "'topic'"),
        ("topic:a", "reed", "'reed'"),
    ):
        assert part in findings_of(resource, operation)
        assert "acls of orders" in findings_of(resource, operation)


def test_secrets_are_in_no_message(cluster: Cluster) -> None:
    """Error messages are printed and logged, and the judge has all variables."""
    cluster.variables["n2"] |= {
        "broker_admin_password": ["hunter2"],
        "broker_users": [{"name": "a", "password": {"x": "hunter2"}, "acls": "hunter2"}],
        "broker_metrics_token": {"hunter2": 1},
        "tls_ca_key_passphrase": ["hunter2"],
    }
    findings = cluster.findings()
    assert findings.failures
    assert "hunter2" not in "".join(findings.failures + findings.warnings)


def test_two_directories_on_one_disk_are_a_warning(cluster: Cluster) -> None:
    cluster.answers["n2"]["directories"].append(directory("/srv/data/more", 2049))
    findings = cluster.findings()
    assert findings.failures == []
    assert any("n2: " in text and "on one device" in text for text in findings.warnings)


def test_a_variable_without_a_prefix_that_is_nearly_ours_is_a_warning(cluster: Cluster) -> None:
    cluster.others["n2"].append("brokers_settings")
    findings = cluster.findings()
    assert findings.failures == []
    assert any("brokers_settings" in text and "broker_settings" in text for text in findings.warnings)


def test_all_roles_are_known(cluster: Cluster) -> None:
    """The variables of a role that is missing in the list would not be checked."""
    import yaml

    known = yaml.safe_load((ROLES / "preflight" / "vars" / "main.yml").read_text())["preflight_roles"]
    assert sorted(known) == sorted(path.name for path in ROLES.iterdir() if path.is_dir())


def test_the_wheelhouse_may_have_wheels_for_several_pythons(cluster: Cluster) -> None:
    """Hosts with different Debian releases take the matching wheel."""
    cluster.answers["n2"]["python"]["version"] = "3.13.1"
    wheel(cluster.path, f"broker_cy-{VERSION}-cp313-cp313-linux_x86_64.whl")
    write_sums(cluster.path)
    assert cluster.findings().failures == []
    assert sys.version_info >= (3, 11)
