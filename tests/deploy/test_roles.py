"""The other services on three hosts that are also brokers: dashboard, analytics, load workers, monitoring; the
playbooks load_test, benchmark and support_bundle; and the changes of a second run.

Minutes, and half a gigabyte of wheels.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from broker_cy.launch.processes import die_with_parent
from tests.deploy import playbooks
from tests.deploy.cluster import ask_json, produce_and_consume
from tests.deploy.deployed import NEW
from tests.deploy.host import CONTROL, Shape
from tests.deploy.lab import Lab
from tests.deploy.playbooks import play
from tests.deploy.wheels import version, wheelhouse
from tests.support.wait import until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

HOSTS = ["n1", "n2", "n3"]
# Three roles on a different one of the three hosts each, so that each host has another set of extras.
GROUPS = {
    "brokers": HOSTS,
    "dashboards": ["n1"],
    "monitoring": ["n2"],
    "analytics": ["n3"],
    "load_workers": HOSTS,
}
EXTRAS = ("analytics", "bench", "dashboard", "loadgen")
PORT = 8099
# A webhook: one line of a file for each request.
HOOK = """\
import http.server, sys

class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with open(sys.argv[1], "ab", 0) as file:
            file.write(body + b"\\n")
        self.send_response(204)
        self.end_headers()

    def log_message(self, *words):
        pass

http.server.HTTPServer((sys.argv[2], int(sys.argv[3])), Hook).serve_forever()
"""
WEBHOOK_SECRET = "hook-secret-4711"
# 45 s on two busy cores.
SECOND_RUN_S = 120.0


@dataclass
class Site:
    """A lab on which site.yml has run once, and the alerts that arrived at the webhook."""

    lab: Lab
    hook: Path

    def notices(self) -> list[dict[str, Any]]:
        """The alerts that arrived."""
        lines = self.hook.read_text().splitlines() if self.hook.exists() else []
        return [json.loads(line) for line in lines]

    def secrets(self) -> set[str]:
        """All secrets of the cluster on the control node, and the lines of private keys."""
        found = {WEBHOOK_SECRET}
        directory = self.lab.inventory.parent / "secrets"
        for path in directory.rglob("*"):
            if path.is_file() and path.suffix != ".pem" and path.name != "cluster-id":
                found |= {line for line in path.read_text().splitlines() if len(line) >= 16 and "-----" not in line}
        return found


@pytest.fixture(scope="module")
def site(make_lab: Callable[..., Lab], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    lab = make_lab("roles", 3, Shape(packages=("openjdk-17-jre-headless",)))
    lab.write_inventory(
        GROUPS,
        {
            "broker_wheelhouse": str(wheelhouse(lab, EXTRAS, [NEW])),
            "monitoring_webhook": f"http://{CONTROL}:{PORT}/alerts?key={WEBHOOK_SECRET}",
            "monitoring_alerts_every": "1s",
            "monitoring_alert_rules": [{"name": "broker away", "for_s": 1}],
            "analytics_every": "30s",
        },
    )
    hook = tmp_path_factory.mktemp("hook") / "alerts"
    argv = die_with_parent(lab.ctl("python3", "-c", HOOK, hook, CONTROL, str(PORT)))
    process = subprocess.Popen(argv)
    try:
        play(lab, "site.yml")
        yield Site(lab, hook)
    finally:
        process.kill()
        process.wait()


def reports(site: Site) -> Path:
    return site.lab.inventory.parent / "reports"


def test_a_second_run_changes_nothing(site: Site) -> None:
    """If this fails, a recap does not show whether a change of the inventory had the intended effect."""
    again = play(site.lab, "site.yml")
    assert (again.changed, again.failed) == (0, 0), again.output[-6000:]
    assert again.seconds < SECOND_RUN_S
    dry = play(site.lab, "site.yml", "--check", "--diff")
    assert (dry.changed, dry.failed) == (0, 0), dry.output[-6000:]


def test_services_alone_make_their_users(site: Site) -> None:
    """A group that gets its first host with services.yml, or with --limit, has a login in the cluster."""
    ask_json(site.lab, "n2", "users", "delete", "dashboard", "--yes")
    again = play(site.lab, "services.yml", "--limit", "n1")
    assert again.changed == 1, again.output[-4000:]
    assert "dashboard" in [each["user"] for each in ask_json(site.lab, "n2", "users", "list")]
    assert play(site.lab, "services.yml").changed == 0


def test_the_units_are_confined(site: Site) -> None:
    """If this fails, an attacker who breaks into a service controls the host."""
    for host, unit in (
        ("n1", "broker-dash.service"),
        ("n2", "broker-cy-alerts.service"),
        ("n3", "broker-analytics-ingest.service"),
        ("n3", "broker-analytics-report.service"),
        ("n3", "broker-load-worker@1.service"),
    ):
        shown = site.lab.ssh(host, f"systemd-analyze security --no-pager {unit} | tail -1").stdout
        level = re.search(r"(\d+\.\d)", shown)
        assert level is not None, shown
        assert float(level[1]) <= 2.5, f"{unit}: {shown}"


def test_the_dashboard_serves_a_login_page_over_tls_only(site: Site) -> None:
    """If this fails, every client that reaches the port can read the cluster, or the dashboard is unreachable."""
    lab = site.lab
    page = lab.ssh("n2", "sudo curl -s --cacert /etc/broker-cy/tls/authority.pem https://n1:8050/login").stdout
    assert "password" in page.lower()
    plain = lab.ssh("n2", "curl -s --max-time 5 http://n1:8050/login", check=False)
    assert plain.returncode != 0
    inside = lab.ssh("n2", "sudo curl -s -o /dev/null -w '%{http_code}' -k https://n1:8050/topics").stdout
    assert inside in ("302", "303", "307", "401", "403")


def test_the_dashboards_account_logs_in_and_sees_the_cluster(site: Site) -> None:
    """If this fails, the password on the control node is not the account's password."""
    password = (site.lab.inventory.parent / "secrets/passwords/dashboard-account-admin").read_text().strip()
    curl = "sudo curl -s --cacert /etc/broker-cy/tls/authority.pem -c /tmp/jar -b /tmp/jar"
    page = site.lab.ssh("n1", f"{curl} https://n1:8050/login").stdout
    hidden = dict(re.findall(r'<input[^>]*type="hidden"[^>]*name="([^"]+)"[^>]*value="([^"]*)"', page))
    fields = " ".join(
        f"--data-urlencode '{name}={value}'"
        for name, value in {**hidden, "user": "admin", "name": "admin", "password": password}.items()
    )
    done = site.lab.ssh(
        "n1", f"{curl} -H 'Origin: https://n1:8050' -o /dev/null -w '%{{http_code}}' {fields} https://n1:8050/login"
    ).stdout
    assert done in ("302", "303"), done
    inside = site.lab.ssh(
        "n1", f"{curl} -L -o /dev/null -w '%{{http_code}} %{{url_effective}}' https://n1:8050/"
    ).stdout
    assert inside.startswith("200 ")
    assert "/login" not in inside


def test_the_first_alert_arrives_at_the_webhook(site: Site) -> None:
    """If this fails, no alert is sent when a broker stops."""
    lab = site.lab
    lab.ssh("n3", "sudo systemctl stop broker-cy")
    try:
        fired = until(
            lambda: [each for each in site.notices() if each["state"] == "firing" and each["kind"] == "broker_away"],
            "the alert about the broker that was stopped",
            60,
        )
        assert "3" in fired[0]["subject"] + fired[0]["text"]
    finally:
        lab.ssh("n3", "sudo systemctl start broker-cy")
    until(
        lambda: [each for each in site.notices() if each["state"] == "resolved" and each["kind"] == "broker_away"],
        "the news that it is back",
        60,
    )


def test_prometheus_takes_the_files(site: Site, tmp_path: Path) -> None:
    """If this fails, Prometheus does not start, or scrapes no brokers."""
    lab = site.lab
    folder = "/etc/prometheus/broker-cy"
    for name in ("targets.json", "scrape.yml", "rules.yml", "prometheus.yml", "authority.pem", "token"):
        (tmp_path / name).write_text(lab.ssh("n2", f"sudo cat {folder}/{name}").stdout)
    targets = json.loads((tmp_path / "targets.json").read_text())
    addresses = [target for entry in targets for target in entry["targets"]]
    assert addresses == [f"{lab.host(name).address}:9404" for name in HOSTS]
    assert [entry["labels"]["broker"] for entry in targets] == ["1", "2", "3"]
    (job,) = yaml.safe_load((tmp_path / "scrape.yml").read_text())["scrape_configs"]
    for target in addresses:
        page = lab.ssh(
            "n2",
            f'sudo curl -s --cacert {job["tls_config"]["ca_file"]} -H "Authorization: Bearer $(sudo cat'
            f' {job["authorization"]["credentials_file"]})" {job["scheme"]}://{target}/metrics',
        ).stdout
        assert "broker_cy_build_info" in page
        refused = lab.ssh("n2", f"curl -s -k -o /dev/null -w '%{{http_code}}' https://{target}/metrics").stdout
        assert refused == "401"
    for name in ("rules.yml", "prometheus.yml"):
        path = tmp_path / name
        path.write_text(path.read_text().replace(folder, str(tmp_path)))
    promtool = shutil.which("promtool")
    if promtool is None:
        # Debian's package prometheus contains this program.
        assert yaml.safe_load((tmp_path / "rules.yml").read_text())["groups"][0]["rules"]
        return
    for words in (("check", "config", "prometheus.yml"), ("check", "rules", "rules.yml")):
        done = subprocess.run([promtool, *words], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_timer_fills_the_lake_and_the_report_is_written(site: Site) -> None:
    """If this fails, no data is available for questions about last week."""
    lab = site.lab
    produce_and_consume(lab, "n1", "n2", "lake")
    lake = "/var/lib/broker-analytics/lake"
    tables = until(
        lambda: lab.ssh("n3", f"sudo find {lake} -path '*/samples/*.parquet'", check=False).stdout.split(),
        "the first ingest of the timer",
        120,
        1.0,
    )
    assert tables
    assert "active" in lab.ssh("n3", "systemctl is-active broker-analytics-ingest.timer").stdout
    lab.ssh("n3", "sudo systemctl start broker-analytics-report.service", timeout_s=1800)
    report = lab.ssh("n3", "sudo head -c 2000 /var/lib/broker-analytics/report/report.html").stdout
    assert "<html" in report.lower()


def test_a_load_test_brings_one_report_back(site: Site) -> None:
    """If this fails, the load of several hosts cannot be evaluated as one run."""
    done = play(
        site.lab,
        "load_test.yml",
        "-e",
        json.dumps(
            {
                "load_test_scenario": "mixed",
                "load_test_rate": "200/s",
                "load_test_duration": "5s",
                "load_test_label": "try",
                # Brokers, workers and the test share this machine: results that depend on its speed do not count as
                # failures.
                "load_test_strict": False,
            }
        ),
        check=False,
    )
    assert done.code == 0, done.output[-6000:]
    result = json.loads((reports(site) / "load-try.json").read_text())
    assert result["schema"] == "broker-load/1"
    assert len(result["workers"]) == 3
    assert "<html" in (reports(site) / "load-try.html").read_text()[:2000].lower()
    topics = {each["name"] for each in ask_json(site.lab, "n1", "topics", "list")}
    assert "broker-load" not in topics
    for host in HOSTS:
        left = site.lab.ssh(host, "systemctl list-units --no-legend 'broker-load*'").stdout.strip()
        assert not left


def test_a_scenario_that_is_wrong_fails_with_its_reason(site: Site, tmp_path: Path) -> None:
    """If this fails, a load test waits for an hour, or leaves workers behind."""
    scenario = tmp_path / "wrong.toml"
    scenario.write_text('duration = "5s"\n')
    done = play(site.lab, "load_test.yml", "-e", f"load_test_scenario={scenario}", check=False)
    assert done.code != 0
    assert "users: 0 entries" in done.output
    assert "undefined" not in done.output
    left = site.lab.ssh("n2", "systemctl list-units --no-legend 'broker-load*'").stdout.strip()
    assert not left


def test_a_benchmark_brings_one_report_back(site: Site, tmp_path: Path) -> None:
    """If this fails, figures of a real cluster have to be gathered by hand."""
    workload = tmp_path / "small.toml"
    workload.write_text(
        'partitions = 6\n[records]\nsize = "1 KB"\n[producers]\ncount = 2\nrate = "100 requests/s"\n'
        '[time]\nsteady = "0 s"\nwarm_up = "500 ms"\nduration = "2 s"\n'
    )
    play(
        site.lab,
        "benchmark.yml",
        "-e",
        json.dumps({"benchmark_workload": str(workload), "benchmark_pairs": 1, "benchmark_label": "try"}),
    )
    results = sorted((reports(site) / "bench-try").glob("*.json"))
    assert [path.name for path in results] == [f"{host}-small.json" for host in HOSTS]
    for path in results:
        assert all(run["failed"] is None for run in json.loads(path.read_text())["runs"])
    assert "<html" in (reports(site) / "bench-try.html").read_text()[:2000].lower()


def test_services_follow_an_upgrade_and_the_way_back(site: Site) -> None:
    """If this fails, a dashboard runs the old release after an upgrade until it is restarted by hand."""
    for name, extra, release in (("upgrade", ["-e", f"broker_version={NEW}"], NEW), ("rollback", [], version())):
        play(site.lab, f"{name}.yml", *extra)
        for host, unit in (("n1", "broker-dash"), ("n2", "broker-cy-alerts")):
            # Its interpreter is the system's; its extensions belong to the release.
            process = f"$(systemctl show -p MainPID --value {unit})"
            mapped = site.lab.ssh(host, f"sudo grep -o '/releases/[^/]*/' /proc/{process}/maps").stdout
            assert set(mapped.split()) == {f"/releases/{release}/"}, f"{name}: {unit}"
    assert play(site.lab, "site.yml").changed == 0


def test_a_support_bundle_has_everything_but_secrets(site: Site, tmp_path: Path) -> None:
    """If this fails, a bundle reveals the cluster's secrets, or lacks data that support needs."""
    # A secret in a log, in a form that no pattern matches.
    token = (site.lab.inventory.parent / "secrets/metrics-token").read_text().strip()
    site.lab.ssh("n1", f"echo 'odd line {token} here' | sudo systemd-cat -t odd --priority=info")
    site.lab.ssh("n1", f"sudo systemd-run --wait --unit=broker-dash-odd /bin/echo 'odd {token}'")
    play(site.lab, "support_bundle.yml", "-e", "support_bundle_since=-2h")
    (folder,) = (site.lab.inventory.parent / "support").iterdir()
    secrets = site.secrets()
    assert len(secrets) > 5
    for host in HOSTS:
        with tarfile.open(folder / f"{host}.tar.gz") as archive:
            archive.extractall(tmp_path / host, filter="data")
        texts = {
            str(path.relative_to(tmp_path / host / host)): path.read_text(errors="replace")
            for path in (tmp_path / host).rglob("*")
            if path.is_file()
        }
        assert "broker_cy_build_info" in texts["metrics.txt"]
        assert "leader" in texts["cluster/quorum.txt"].lower()
        assert "0.1.0" in texts["versions/broker-cy.txt"]
        assert "node.id=" in texts["configuration/etc/broker-cy/server.properties"]
        assert texts["logs/broker-cy.service.log"]
        assert "broker-cy" in texts["versions/python.txt"]
        for name, text in texts.items():
            assert "PRIVATE KEY-----" not in text, f"{host}: {name}"
            for secret in secrets:
                assert secret not in text, f"{host}: {name}"
    left = site.lab.ssh("n1", "ls /var/tmp").stdout
    assert "broker-cy-support" not in left


def test_no_secret_is_in_what_ansible_printed(site: Site) -> None:
    """If this fails, passwords are in the operator's terminal, the CI log and Ansible's log file. Runs last."""
    printed = playbooks.log(site.lab).read_text(errors="replace")
    assert "Accounts of the dashboard" in printed
    for secret in site.secrets():
        assert secret not in printed
