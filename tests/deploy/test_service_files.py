"""The parts of the other services, without a lab: alert rules, accounts of the dashboard, support bundles."""

from __future__ import annotations

import importlib.util
import io
import json
import re
import shlex
import tarfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import jinja2
import pytest
import yaml

from broker_cy.client.clusters import load_clusters
from broker_cy.client.errors import ClientError
from broker_cy.client.quantities import parse_time
from broker_cy.client.security import login_of
from broker_cy.commands.alerts import command as alerts
from broker_cy.core.properties import read_properties_file
from broker_cy.metrics import definitions
from broker_mirror.cli import command as mirror
from broker_mirror.config import load_config as load_mirror
from broker_mirror.flows import flows_of
from broker_mirror.merged import Role, Side
from broker_mirror.status import METRICS
from broker_registry.cli import command as registry
from broker_registry.config import RegistryConfig, load_config
from broker_streams.cli import command as streams
from broker_streams.hosts.settings import HostSettings
from dashboard.security.users import load_users
from tests.deploy.playbooks import COLLECTION

PASSWORD = "correct horse battery"
KEY = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqGSM49\n-----END PRIVATE KEY-----\n"


def module(path: Path) -> ModuleType:
    """A program of a role or a playbook, as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


accounts = module(COLLECTION / "roles" / "dashboard" / "files" / "accounts.py")
bundle = module(COLLECTION / "playbooks" / "files" / "support_bundle.py")


def test_alert_rules_are_about_metrics_that_exist() -> None:
    """If this fails, an alert of Prometheus never fires: its metric has another name."""
    rules = yaml.safe_load((COLLECTION / "roles/monitoring/vars/main.yml").read_text())["monitoring_rules"]
    source = Path(definitions.__file__).read_text()
    known = set(re.findall(r'"((?:broker_cy|process)_\w+)"', source)) | set(METRICS)
    assert len(known) > 50
    for rule in rules:
        used = {
            re.sub(r"_(bucket|sum|count)$", "", name)
            for name in re.findall(r"\b(?:broker_cy|broker_mirror|process)_\w+", rule["expr"])
        }
        assert used <= known, rule["alert"]
        assert used or "up{" in rule["expr"], rule["alert"]
        assert rule["severity"] in ("critical", "warning")
    assert len({rule["alert"] for rule in rules}) == len(rules)


@pytest.mark.parametrize("webhook", ["", "https://hooks.example.com/alerts"])
def test_the_service_of_alerts_notifies_the_webhook(webhook: str) -> None:
    """If this fails, the service posts no alert to the webhook, or does not start without a webhook."""
    environment = jinja2.Environment()
    environment.filters["quote"] = shlex.quote
    template = COLLECTION / "roles/monitoring/templates/broker-cy-alerts.service.j2"
    unit = environment.from_string(template.read_text()).render(
        monitoring_alerts_every="10s", monitoring_prometheus_cluster="main", monitoring_webhook=webhook
    )
    (line,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    program, name, *arguments = shlex.split(line)
    assert (Path(program).name, name) == ("broker-cy", "alerts")
    assert alerts.make_context(name, arguments).params["notify"] == bool(webhook)


def rendered(name: str, role: str = "registry", **variables: Any) -> str:
    """A template of a role, rendered as Ansible does."""
    environment = jinja2.Environment(trim_blocks=True)
    environment.filters["bool"] = bool
    environment.filters["to_json"] = json.dumps
    environment.filters["quote"] = shlex.quote
    environment.filters["combine"] = lambda first, second: {**first, **second}
    template = COLLECTION / "roles" / role / "templates" / name
    text: str = environment.from_string(template.read_text()).render(
        **{f"{role}_directory": f"/etc/broker-cy/{role}", "ansible_managed": "ours", **variables}
    )
    return text


def registry_config(directory: Path, settings: dict[str, Any], *, is_plaintext: bool) -> RegistryConfig:
    """Return the settings that the registry reads from the file of the role."""
    path = directory / "schema-registry.properties"
    text = rendered(
        "schema-registry.properties.j2",
        broker_plaintext=is_plaintext,
        registry_hosts=["n1", "10.66.0.11"],
        registry_listen="0.0.0.0:8081",
        registry_topic="_schemas",
        registry_replication_factor=3,
        registry_compatibility="full",
        registry_settings=settings,
    )
    path.write_text(text)
    config = load_config(path)
    assert config.warnings == ()
    return config


@pytest.mark.parametrize("is_plaintext", [False, True])
def test_the_registry_accepts_its_settings(tmp_path: Path, is_plaintext: bool) -> None:
    """If this fails, the service of the registry does not start, or serves clients without TLS and a login."""
    settings = {"schema.validate.fields": True, "kafkastore.timeout.ms": 5000}
    config = registry_config(tmp_path, settings, is_plaintext=is_plaintext)
    assert config.election is None
    assert [each.is_tls for each in config.listeners] == [not is_plaintext]
    assert (config.tls is None) == is_plaintext
    assert (config.defaults.level, config.defaults.validates_fields, config.timeout_s) == ("FULL", True, 5.0)
    method = "NONE" if is_plaintext else "BASIC"
    assert config.security.method.value == method
    assert config.security.uses_acls == (not is_plaintext)


@pytest.mark.parametrize("is_plaintext", [False, True])
def test_elected_instances_reach_each_other(tmp_path: Path, is_plaintext: bool) -> None:
    """If this fails, instances forward changes to an address that does not answer, or trust no certificate of it."""
    config = registry_config(tmp_path, {"brokercy.leader.election": True}, is_plaintext=is_plaintext)
    assert config.election is not None
    own = config.election.own
    assert (own.scheme, own.host) == ("http" if is_plaintext else "https", "n1")
    trusted = None if config.tls is None else config.tls.stores.truststore_location
    assert trusted == (None if is_plaintext else "/etc/broker-cy/registry/authority.pem")


def test_the_service_of_the_registry_logs_in_to_the_cluster() -> None:
    """If this fails, the registry does not start, or uses a cluster on its own host."""
    unit = rendered("broker-registry.service.j2", broker_version="1.2.3", broker_hardening="UMask=0077")
    (line,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    program, *arguments = shlex.split(line)
    assert Path(program).name == "broker-registry"
    found = registry.make_context(program, arguments).params
    assert found["file"] == Path("/etc/broker-cy/registry/schema-registry.properties")
    assert found["clusters_file"] == Path("/etc/broker-cy/registry/clusters.toml")


def mirror_file(directory: Path, **changed: Any) -> Path:
    """The file of the role mirror."""
    variables: dict[str, Any] = {
        "broker_plaintext": False,
        "broker_bootstrap": "n1:9092,n2:9092",
        "mirror_cluster": "main",
        "mirror_clusters": {"east": {"bootstrap.servers": "e1:9092", "security.protocol": "PLAINTEXT"}},
        "mirror_flows": {"east->main": {"topics": "orders.*", "sync.group.offsets.enabled": True}},
        "mirror_settings": {"replication.factor": 3},
        "mirror_secrets": {},
        "mirror_listen": "10.66.0.11:8085",
    }
    path = directory / "mm2.properties"
    path.write_text(rendered("mm2.properties.j2", role="mirror", **{**variables, **changed}))
    return path


def test_the_mirror_accepts_its_settings(tmp_path: Path) -> None:
    """If this fails, the service of the mirror does not start, or reaches the cluster without its login."""
    config = load_mirror(mirror_file(tmp_path))
    assert config.warnings == ()
    assert config.clusters == ("main", "east")
    assert config.properties["brokercy.mirror.listener"] == "10.66.0.11:8085"
    (flow,) = [each for each in flows_of(config) if each.copies]
    assert (str(flow.pair), flow.copies_topic("orders-1"), flow.copies_topic("other")) == ("east->main", True, False)
    assert flow.values["replication.factor"] == 3
    assert flow.values["sync.group.offsets.enabled"] is True
    target, source = (flow.clients[side, Role.ADMIN] for side in (Side.TARGET, Side.SOURCE))
    assert (target.bootstrap, source.bootstrap) == ("n1:9092,n2:9092", "e1:9092")
    assert target.security["security.protocol"] == "SASL_SSL"
    assert target.security["sasl.password.file"] == "/etc/broker-cy/mirror/password"
    assert source.security["security.protocol"] == "PLAINTEXT"


def test_secrets_of_the_mirror_are_passed_as_they_are(tmp_path: Path) -> None:
    """If this fails, a password with a backslash is refused by the other cluster, or a flow cannot be turned off."""
    login = r"""org.apache.kafka.common.security.plain.PlainLoginModule required username="m" password="a\\b=c";"""
    path = mirror_file(
        tmp_path,
        broker_plaintext=True,
        mirror_clusters={
            "east": {
                "bootstrap.servers": "e1:9092",
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
            }
        },
        mirror_secrets={"east.sasl.jaas.config": login},
        mirror_flows={"main->east": {"enabled": False}, "east->main": {}},
    )
    config = load_mirror(path)
    assert config.properties["east.sasl.jaas.config"] == login
    assert [str(each.pair) for each in flows_of(config) if each.copies] == ["east->main"]
    assert "main.security.protocol" not in config.properties


def test_the_service_of_the_mirror_runs_its_file() -> None:
    """If this fails, the unit starts with options that the program refuses."""
    unit = rendered("broker-mirror.service.j2", role="mirror", broker_version="1.2.3", broker_hardening="UMask=0077")
    (line,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    program, name, *arguments = shlex.split(line)
    assert (Path(program).name, name) == ("broker-mirror", "start")
    found = mirror.commands[name].make_context(name, arguments).params
    assert found["file"] == Path("/etc/broker-cy/mirror/mm2.properties")


@pytest.mark.parametrize("user", ["dashboard", "load"])
def test_dashboards_and_alerts_find_the_mirrors(tmp_path: Path, user: str) -> None:
    """If this fails, the dashboard of a cluster shows its mirrors without their lag, and alerts miss their failures."""
    hosts = {
        "m1": {"ansible_host": "10.66.0.11"},
        "m2": {"broker_address": "fd00::2"},
        "m3": {"mirror_listen": "m3:85"},
    }
    text = rendered(
        "client_clusters.toml.j2",
        role="broker",
        broker_client_user=user,
        broker_client_directory="/etc/broker-cy/x",
        broker_bootstrap="n1:9092",
        broker_plaintext=True,
        groups={"mirrors": list(hosts)},
        hostvars=hosts,
    )
    path = tmp_path / "clusters.toml"
    path.write_text(text)
    (entry,) = load_clusters(path).clusters.values()
    expected = ["10.66.0.11:8085", "[fd00::2]:8085", "m3:85"] if user == "dashboard" else []
    assert [str(each) for each in entry.mirrors] == expected


APPLICATION: dict[str, Any] = {
    "name": "orders",
    "file": "files/orders.py",
    "settings": {"commit.interval.ms": 50},
    "secrets": {"basic.auth.user.info": r"orders:a\b=c"},
}
STREAMS: dict[str, Any] = {
    "broker_plaintext": False,
    "broker_bootstrap": "n1:9092,n2:9092",
    "broker_version": "1.2.3",
    "broker_hardening": "UMask=0077",
    "streams_settings": {"commit.interval.ms": 500, "topology.optimization": "all"},
    "streams_application": APPLICATION,
    "streams_instance": {"number": 2, "listen": "10.66.0.11:8101"},
    "streams_own_directory": "/etc/broker-cy/streams/orders",
    "streams_own_file": "/etc/broker-cy/streams/orders/orders.py",
    "streams_state_directory": "/var/lib/broker-streams",
}


def test_streams_get_their_settings_and_the_login(tmp_path: Path) -> None:
    """If this fails, an application of the role reaches no cluster, or a setting of the inventory has no effect."""
    path = tmp_path / "streams.properties"
    path.write_text(rendered("streams.properties.j2", role="streams", **STREAMS))
    found = read_properties_file(path)
    assert found["commit.interval.ms"] == "50"
    assert found["topology.optimization"] == "all"
    assert found["basic.auth.user.info"] == r"orders:a\b=c"
    assert HostSettings.of({"application.id": "orders", **found}).commit_interval_ms == 50
    password = tmp_path / "password"
    assert found["sasl.password.file"] == "/etc/broker-cy/streams/password"
    assert found["ssl.truststore.location"] == "/etc/broker-cy/streams/authority.pem"
    password.write_text(PASSWORD)
    security = {name: value for name, value in found.items() if name.startswith(("sasl.", "security."))}
    assert login_of({**security, "sasl.password.file": str(password)}, "orders.py") is not None
    path.write_text(rendered("streams.properties.j2", role="streams", **{**STREAMS, "broker_plaintext": True}))
    assert not any(name.startswith(("sasl.", "ssl.", "security.")) for name in read_properties_file(path))


@pytest.mark.parametrize("arguments", [[], ["-X", "client.rack=a b"]])
def test_the_service_of_an_application_runs_its_file(tmp_path: Path, arguments: list[str]) -> None:
    """If this fails, the unit starts with options that the program refuses, or instances share a directory."""
    (tmp_path / "streams.properties").write_text("")
    application = {**APPLICATION, "arguments": arguments}
    variables = {**STREAMS, "streams_application": application, "streams_own_directory": str(tmp_path)}
    unit = rendered("broker-streams.service.j2", role="streams", **variables)
    (line,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    program, name, *words = shlex.split(line)
    assert (Path(program).name, name) == ("broker-streams", "run")
    found = streams.commands[name].make_context(name, words).params
    changed = dict(each.split("=", 1) for each in found["changed"])
    assert changed["state.dir"] == "/var/lib/broker-streams/orders/2"
    assert changed["application.server"] == "10.66.0.11:8101"
    assert changed.get("client.rack") == ("a b" if arguments else None)
    assert "\nStateDirectory=broker-streams/orders/2\n" in unit


def test_prometheus_finds_all_instances_of_streams() -> None:
    """If this fails, an instance that does not answer is noticed by nobody."""
    applications = [{"name": "orders", "instances": 2}, {"name": "visits"}]
    hosts = {
        "s1": {"ansible_host": "10.66.0.11", "streams_applications": applications},
        "s2": {"broker_address": "fd00::2", "streams_applications": applications[1:], "streams_first_port": 9000},
    }
    text = rendered(
        "job.yml.j2",
        role="monitoring",
        broker_plaintext=True,
        monitoring_prometheus_directory="/etc/prometheus/broker-cy",
        monitoring_prometheus_interval="15s",
        monitoring_prometheus_cluster="main",
        groups={"streams": list(hosts)},
        hostvars=hosts,
    )
    (job,) = [each for each in yaml.safe_load(text)["scrape_configs"] if each["job_name"] == "broker-streams"]
    found = {
        each["targets"][0]: (each["labels"]["application"], each["labels"]["instance_number"])
        for each in job["static_configs"]
    }
    assert found == {
        "10.66.0.11:8100": ("orders", "1"),
        "10.66.0.11:8101": ("orders", "2"),
        "10.66.0.11:8102": ("visits", "1"),
        "[fd00::2]:9000": ("visits", "1"),
    }


def given(*found: dict[str, Any], exclusive: bool = False) -> dict[str, Any]:
    return {"exclusive": exclusive, "accounts": [{"password": PASSWORD, **each} for each in found]}


def test_accounts_become_what_the_inventory_says_and_stay_so(tmp_path: Path) -> None:
    """If this fails, each run of site.yml changes the accounts, or a change of the inventory has no effect."""
    path = tmp_path / "users.toml"
    wanted = given({"name": "anna", "role": "admin"}, {"name": "ben", "topics": ["orders*"]})
    assert accounts.reconcile(path, wanted, is_check=True)["added"] == ["anna", "ben"]
    assert not path.exists()
    assert accounts.reconcile(path, wanted, is_check=False)["added"] == ["anna", "ben"]
    assert load_users(path)["ben"].scope.topics == ("orders*",)
    assert not any(accounts.reconcile(path, wanted, is_check=False).values())

    other = given({"name": "anna", "role": "admin", "password": PASSWORD + "!"}, exclusive=True)
    assert accounts.reconcile(path, other, is_check=True) == {"added": [], "changed": ["anna"], "removed": ["ben"]}
    assert accounts.reconcile(path, other, is_check=False) == {"added": [], "changed": ["anna"], "removed": ["ben"]}
    assert not any(accounts.reconcile(path, other, is_check=False).values())
    assert set(load_users(path)) == {"anna"}


@pytest.mark.parametrize(
    ("account", "said"),
    [
        ({"name": "anna", "password": "short"}, "12"),
        ({"name": "an na"}, "letters"),
        ({"name": "anna", "role": "root"}, "viewer"),
    ],
)
def test_wrong_accounts_are_refused(tmp_path: Path, account: dict[str, Any], said: str) -> None:
    """The message names the allowed values; if this fails, a playbook ends with a stack trace."""
    with pytest.raises((ValueError, ClientError), match=said):
        accounts.reconcile(tmp_path / "users.toml", given(account), is_check=False)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("ssl.keystore.password=geheim-1", "ssl.keystore.password="),
        ('sasl.jaas.config=a.ScramLoginModule required username="x" password="geheim-1";', "sasl.jaas.config="),
        ("  listener.name.client.plain.sasl.jaas.config = user_a=geheim-1", "listener.name.client"),
        ('delegation.token.secret.key = "geheim-1"', "delegation.token.secret.key"),
        ("url = 'https://user:geheim-1@hooks.example.com/x'", "hooks.example.com"),
        ("POST https://hooks.example.com/alerts?key=geheim-1 failed", "hooks.example.com/alerts"),
        ("Authorization: Bearer geheim-1geheim-1", "Authorization: Bearer"),
        ("started with password=geheim-1 and more", "and more"),
        ("started with password='geheim-1 geheim-1', and more", "and more"),
        ('{"name": "anna", "password": "geheim-1"}', "anna"),
        ('hash = "$argon2id$v=19$m=19456,t=2,p=1$geheim-1$geheim-1"', "hash"),
        ("token eyJhbGciOiJIUzI1.eyJzdWIiOiJnZWhlaW0tMSJ9.geheim-1 came", "came"),
        (f"before\n{KEY.replace('MIGH', 'geheim-1')}after", "after"),
        # A log that is cut off within a key.
        ("before\n-----BEGIN EC PRIVATE KEY-----\ngeheim-1geheim-1", "before"),
    ],
)
def test_forms_of_secrets_are_taken_out(text: str, kept: str) -> None:
    """If this fails, an operator sends a password to strangers."""
    shown = bundle.Redactor(()).clean(text)
    assert "geheim-1" not in shown
    assert kept in shown
    assert bundle.HIDDEN in shown


@pytest.mark.parametrize(
    "text",
    [
        "brokercy.metrics.token.file=/etc/broker-cy/metrics-token",
        "sasl.password.file = /etc/broker-cy/load/password",
        "delegation.token.max.lifetime.ms=604800000",
        "node.id=1",
        "ssl.keystore.location=/etc/broker-cy/tls/node.pem",
        'broker_cy_authentications_total{listener="CLIENT",result="failure"} 3',
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    """If this fails, a support bundle lacks the data that it is for."""
    assert bundle.Redactor(()).clean(text) == text


def test_a_secret_of_a_file_is_found_in_all_other_texts() -> None:
    """If this fails, the bundle contains a password that a program printed in an unexpected form."""
    known = bundle.secrets_of("/etc/broker-cy/load/password", "zufall-123456\n")
    known |= bundle.secrets_of("/etc/broker-cy/server.properties", 'a.jaas.config=x password="inhalt-123456";\n')
    known |= bundle.secrets_of("/etc/broker-cy/metrics-token", "erster-123456\nzweiter-123456\n")
    known |= bundle.secrets_of("/etc/broker-cy/alerts/alerts.toml", '[webhook]\nurl = "https://h/letzter-123456"\n')
    redactor = bundle.Redactor(known)
    for secret in ("zufall-123456", "inhalt-123456", "erster-123456", "zweiter-123456", "https://h/letzter-123456"):
        assert secret not in redactor.clean(f"odd line {secret}!")


def test_an_archive_is_for_root_alone_and_says_what_was_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a long log makes an archive too large to send, or all users of the host can read it."""
    monkeypatch.setattr(bundle, "TEXT_BYTES_MAX", 1 << 20)
    path = tmp_path / "bundle.tar.gz"
    bundle.write(str(path), "n1", {"logs/a.log": "x" * (2 << 20), "versions/b.txt": "0.1.0\n"})
    assert path.stat().st_mode & 0o777 == 0o600
    with tarfile.open(fileobj=io.BytesIO(path.read_bytes())) as archive:
        names = {member.name: member.size for member in archive.getmembers()}
        readme = archive.extractfile("n1/README.txt")
        assert readme is not None
        assert "logs/a.log" in readme.read().decode()
    assert names["n1/logs/a.log"] == 1 << 20
    assert names["n1/versions/b.txt"] == 6


def test_wrong_settings_of_a_bundle_are_refused() -> None:
    """The message contains the value and the allowed values."""
    with pytest.raises(SystemExit, match=r"'gestern': a time ago such as"):
        bundle.journal_time("gestern")


@pytest.mark.parametrize(
    "text",
    [
        *("-30m", "-2d", "-5min", "-1h30m", "-1w", "-90 s", "-0.5h", "-1_000ms", "- 5m", "-1h 30m ", "-0s", "-2000us"),
        *("-", "", "5m", "-5", "-5x", "-5M", "--5m", "-1us", "-0.5ms", "-1e3s", "-²s", "-" + "1s" * 60, "-5m-"),
        *("-99999999999999999999w", "-9000w"),
    ],
)
def test_a_bundle_understands_durations_as_all_programs_do(text: str) -> None:
    """If this fails, a duration that `broker-cy` accepts is refused for a support bundle, or has another meaning."""
    now_ms = time.time_ns() // 1_000_000
    try:
        expected = now_ms - parse_time(text, lambda: now_ms)
    except ValueError:
        expected = None
    if expected is None or not text.startswith("-"):
        with pytest.raises(SystemExit, match="a time ago such as"):
            bundle.journal_time(text)
        return
    found = re.fullmatch(r"-(\d+)us", bundle.journal_time(text))
    assert found is not None
    found_ms = int(found[1]) // 1000
    # Times before 1970 become 1970; the distance to it grows while the test runs.
    assert found_ms == expected or (text == "-9000w" and found_ms > expected)
