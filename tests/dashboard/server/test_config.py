"""The configuration of the dashboard: errors name the wrong setting and the allowed values; TLS with certificate
files.
"""

from __future__ import annotations

import datetime
import ssl
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from broker_cy import __version__
from broker_cy.client.clusters import Wanted
from broker_cy.client.errors import ClientError
from dashboard.__main__ import main
from dashboard.cli import command, find_entries, find_users
from dashboard.config import load_config
from tests.support.dashboard import running_dashboard

AWAY = "127.0.0.1:1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("listn = 'x'", "dashboard.toml:1: listn: unknown key; did you mean 'listen'? (allowed: alerts, behind"),
        ("listen = 8050", "dashboard.toml:1: listen: 8050 is not a text"),
        ("\nlisten = '127.0.0.1'", "dashboard.toml:2: listen: '127.0.0.1' is not an address: HOST:PORT is expected"),
        ("listen = '127.0.0.1:99999'", "port 99999 is out of range; ports are 0 to 65535"),
        ("hosts = [1]", "dashboard.toml:1: hosts: [1] is not a list of texts"),
        (
            "[environments]\nmain = 'prod'",
            "dashboard.toml:2: environments.main: 'prod' is not allowed (allowed: production, staging, test",
        ),
        ("tls_key = 'k'", "tls_certificate and tls_key belong together"),
        ("trusted_proxies = ['10.0.0.5/8']", "has host bits set"),
        ("trusted_proxies = ['proxy']", "trusted_proxies = ['proxy']"),
        ("tls_key = 'k'\ntls_certificate = 'c'\nbehind_tls_proxy = true", "without tls_certificate"),
        ("readonly = 'yes'", "dashboard.toml:1: readonly: 'yes' is not allowed (allowed: true, false)"),
        ("[[mask]]\ntopic = 'x'", "mask"),
        ("[oidc]\nissuer = 'x'", "oidc"),
        ("listen = ", "not TOML"),
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path: Path, text: str, expected: str) -> None:
    """If this fails, a typing error in the configuration is ignored, or causes a traceback."""
    path = tmp_path / "dashboard.toml"
    path.write_text(text)
    with pytest.raises(ClientError) as raised:
        load_config(path)
    assert expected in str(raised.value)
    assert str(path) in str(raised.value)


def test_options_come_before_the_file(tmp_path: Path) -> None:
    """If this fails, an option on the command line is silently overruled."""
    path = tmp_path / "dashboard.toml"
    path.write_text("listen = '127.0.0.1:1234'\nusers = 'who.toml'\nstate = '/srv/dash'\nreport = 'weeks.html'\n")
    config = load_config(path)
    assert (config.host, config.port, config.users) == ("127.0.0.1", 1234, tmp_path / "who.toml")
    changed = config.with_options(listen="[::1]:80", users=None, state=tmp_path, alerts=None, is_readonly=True)
    assert (changed.host, changed.port, changed.state, changed.is_readonly) == ("::1", 80, tmp_path, True)
    assert changed.users == config.users
    assert (config.report, changed.report) == (tmp_path / "weeks.html", tmp_path / "weeks.html")


def test_files_beside_the_cluster_file_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a dashboard with another cluster file ignores the login configured in that file's directory."""
    default, own = tmp_path / "default" / "broker-cy", tmp_path / "own"
    default.mkdir(parents=True)
    own.mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(default.parent))
    monkeypatch.delenv("BROKER_CY_CLUSTERS", raising=False)
    clusters = own / "clusters.toml"
    assert load_config(None, clusters).users is None
    assert find_users(None, clusters) == own / "dashboard-users.toml"
    # Naming another cluster file does not disable a configured login.
    (default / "dashboard-users.toml").touch()
    (default / "dashboard.toml").write_text("listen = '127.0.0.1:1'\n")
    found = load_config(None, clusters)
    assert (found.port, found.users) == (1, default / "dashboard-users.toml")
    (own / "dashboard-users.toml").touch()
    (own / "dashboard.toml").write_text("listen = '127.0.0.1:2'\n")
    found = load_config(None, clusters)
    assert (found.port, found.users) == (2, own / "dashboard-users.toml")
    assert find_users(None, clusters) == own / "dashboard-users.toml"
    assert load_config(None).port == 1
    (own / "dashboard.toml").write_text("users = 'team.toml'\n")
    assert load_config(None, clusters).users == find_users(None, clusters) == own / "team.toml"


OIDC = """\
[oidc]
issuer = "https://id.example.com"
client_id = "dash"
client_secret_file = "client.secret"
redirect_url = "https://dash.example.com/oidc/callback"
claim = "groups"
roles = { team = "viewer" }
"""


@pytest.mark.parametrize(
    ("beside", "default", "users", "alerts", "port"),
    [
        # Users and rules in the cluster file's directory override those that the other dashboard.toml names.
        ({"dashboard-users.toml": "", "alerts.toml": ""}, "named", "own/dashboard-users.toml", "own/alerts.toml", 1),
        # A dashboard.toml in that directory overrides the other one as a whole; a login that only the other directory
        # has stays in force.
        ({"dashboard.toml": "listen = '127.0.0.1:2'\n"}, "named", "default/broker-cy/their.toml", None, 2),
        ({"dashboard.toml": "alerts = 'ours.toml'\n", "alerts.toml": ""}, "", None, "own/ours.toml", 8050),
        ({"dashboard.toml": "users = 'us.toml'\n", "dashboard-users.toml": ""}, "named", "own/us.toml", None, 8050),
        ({}, "named", "default/broker-cy/their.toml", "default/broker-cy/rules.toml", 1),
        ({"alerts.toml": ""}, "", None, "own/alerts.toml", 8050),
    ],
)
def test_what_is_beside_the_cluster_file_wins(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    beside: dict[str, str],
    default: str,
    users: str | None,
    alerts: str | None,
    port: int,
) -> None:
    """If this fails, users of another installation can log in to this dashboard, or its alert rules are ignored."""
    other, own = tmp_path / "default" / "broker-cy", tmp_path / "own"
    other.mkdir(parents=True)
    own.mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(other.parent))
    monkeypatch.delenv("BROKER_CY_CLUSTERS", raising=False)
    if default:
        (other / "dashboard.toml").write_text("listen = '127.0.0.1:1'\nusers = 'their.toml'\nalerts = 'rules.toml'\n")
    for name, text in beside.items():
        (own / name).write_text(text)
    found = load_config(None, own / "clusters.toml")
    assert (found.users, found.alerts, found.port) == (
        None if users is None else tmp_path / users,
        None if alerts is None else tmp_path / alerts,
        port,
    )


def test_a_login_with_a_provider_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, naming another cluster file disables the login through an OpenID provider."""
    other = tmp_path / "default" / "broker-cy"
    other.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(other.parent))
    monkeypatch.delenv("BROKER_CY_CLUSTERS", raising=False)
    (other / "dashboard.toml").write_text(OIDC)
    (other / "client.secret").write_text("secret\n")
    (other / "client.secret").chmod(0o600)
    (tmp_path / "dashboard.toml").write_text("listen = '127.0.0.1:2'\n")
    found = load_config(None, tmp_path / "clusters.toml")
    assert (found.port, found.oidc is not None) == (2, True)


def test_user_commands_change_the_file_of_the_dashboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, `user add` succeeds, and the dashboard with the same options still runs without a login."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "default"))
    clusters = tmp_path / "clusters.toml"

    def run(*options: str) -> Result:
        added = ["user", "add", "anna", "--password-stdin"]
        return CliRunner().invoke(command, [*options, *added], input="a long enough password\n")

    assert run("--clusters-file", str(clusters)).exit_code == 0
    assert (tmp_path / "dashboard-users.toml").exists()
    (tmp_path / "dashboard.toml").write_text("users = 'team.toml'\n")
    assert run("--config", str(tmp_path / "dashboard.toml")).exit_code == 0
    assert (tmp_path / "team.toml").exists()
    assert run("--users", str(tmp_path / "mine.toml")).exit_code == 0
    assert (tmp_path / "mine.toml").exists()
    refused = run("--cluster", "production")
    assert refused.exit_code == 2
    assert "--cluster has no effect on users; allowed before user are --clusters-file" in refused.stderr


def test_which_clusters_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the dashboard shows another cluster than the requested one."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("BROKER_CY_CLUSTERS", raising=False)
    path = tmp_path / "clusters.toml"
    path.write_text('default = "b"\n[clusters.a]\nbootstrap = "x:1"\n[clusters.b]\nbootstrap = "y:2"\n')

    def shown(wanted: Wanted, *names: str) -> list[str]:
        return [entry.name for entry in find_entries(wanted, names)[0]]

    file = Wanted(clusters_file=path)
    assert shown(file) == ["b", "a"]
    assert shown(file, "a", "a") == ["a"]
    assert shown(replace(file, bootstrap="z:3")) == ["z:3"]
    assert shown(Wanted()) == ["127.0.0.1:9092"]
    monkeypatch.setenv("BROKER_CY_CLUSTER", "a")
    assert shown(file) == ["a"]
    monkeypatch.delenv("BROKER_CY_CLUSTER")
    # With an address, an invalid default file is not read.
    (tmp_path / "broker-cy").mkdir()
    (tmp_path / "broker-cy" / "clusters.toml").write_text("[clusters.one\n")
    assert shown(Wanted(bootstrap="z:3")) == ["z:3"]
    assert not find_entries(Wanted(bootstrap="z:3"), ())[1]
    with pytest.raises(ClientError, match="not TOML"):
        shown(Wanted())
    with pytest.raises(ClientError, match="not TOML"):
        shown(Wanted(bootstrap="z:3", clusters_file=tmp_path / "broker-cy" / "clusters.toml"))
    for names, bootstrap, expected in ((("c",), None, "known: a, b"), (("a",), "z:3", "cannot be used together")):
        with pytest.raises(ClientError, match=expected):
            shown(replace(file, bootstrap=bootstrap), *names)
    # A login is for one cluster: another one would get its password.
    login = replace(file, settings={"security.protocol": "SSL"})
    assert find_entries(login, ("a",))[0][0].client_settings()[0] == {"security.protocol": "SSL"}
    with pytest.raises(ClientError, match="-X is for one cluster, not for b, a"):
        shown(login)


def test_a_registry_is_of_one_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, records of one cluster are decoded with the schemas of another."""
    path = tmp_path / "clusters.toml"
    path.write_text('[clusters.a]\nbootstrap = "x:1"\nregistry = "http://a:8081"\n[clusters.b]\nbootstrap = "y:2"\n')
    monkeypatch.setenv("BROKER_CY_REGISTRY", "http://ambient:8081")
    file = Wanted(clusters_file=path)

    def registries(wanted: Wanted, *names: str) -> list[str | None]:
        return [entry.registry for entry in find_entries(wanted, names)[0]]

    assert registries(file) == ["http://a:8081", None]
    assert registries(file, "b") == ["http://ambient:8081"]
    assert registries(replace(file, registry="http://c:8081"), "a") == ["http://c:8081"]
    with pytest.raises(ClientError, match="--registry is for one cluster, not for a, b"):
        registries(replace(file, registry="http://c:8081"))


def test_mirrors_are_of_one_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the mirrors of one cluster are shown as those of all."""
    path = tmp_path / "clusters.toml"
    path.write_text('[clusters.a]\nbootstrap = "x:1"\nmirrors = "m1:85, m2:85"\n[clusters.b]\nbootstrap = "y:2"\n')
    monkeypatch.setenv("BROKER_CY_MIRRORS", "ambient:85")
    file = Wanted(clusters_file=path)

    def mirrors(wanted: Wanted, *names: str) -> list[list[str]]:
        return [[str(each) for each in entry.mirrors] for entry in find_entries(wanted, names)[0]]

    assert mirrors(file) == [["m1:85", "m2:85"], []]
    assert mirrors(file, "b") == [["ambient:85"]]
    assert mirrors(replace(file, mirrors="c:85"), "a") == [["c:85"]]
    with pytest.raises(ClientError, match="--mirrors is for one cluster, not for a, b"):
        mirrors(replace(file, mirrors="c:85"))
    with pytest.raises(ClientError, match="--mirrors: 'c' is not an address"):
        mirrors(replace(file, mirrors="c"), "a")


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run `broker-dash` in this process with options that it must refuse; return its message. An exception would be a
    traceback for the user.
    """

    def run(*options: str) -> str:
        monkeypatch.setattr(sys, "argv", ["broker-dash", *options])
        assert main() == 2, options
        return capsys.readouterr().err

    return run


def test_the_command_refuses_without_a_traceback(
    tmp_path: Path, told: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a user sees a traceback instead of the setting to change."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    slashes = tmp_path / "slashes.toml"
    slashes.write_text('[clusters."a/b"]\nbootstrap = "127.0.0.1:1"\n')
    for options, expected in (
        (["--listen", "0.0.0.0:0"], "needs a login"),
        (["--listen", "192.0.2.1:80"], "192.0.2.1:80"),
        (["--cluster", "nowhere"], "clusters.toml"),
        (["--bootstrap", "a b"], "a b"),
        (["--timeout", "0"], "--timeout 0"),
        (["--config", str(tmp_path / "none.toml")], "cannot be read"),
        (["--clusters-file", str(slashes)], "must not have /"),
    ):
        text = told("--state", str(tmp_path / "state"), *options)
        assert text.startswith("broker-dash: ")
        assert expected in text


@pytest.mark.parametrize(
    "options", [["--bogus"], ["bogus"], ["--timeout", "abc"], ["user", "add", "z", "--role", "king"]]
)
def test_unknown_options_are_refused_without_a_traceback(options: list[str], told: Callable[..., str]) -> None:
    """If this fails, a typing error on the command line causes a traceback."""
    text = told(*options)
    assert "Usage: " in text
    assert text.splitlines()[-1].startswith("broker-dash: ")


def test_the_version() -> None:
    """If this fails, a user cannot find out which version of the dashboard runs."""
    done = subprocess.run([sys.executable, "-m", "dashboard", "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"broker-dash {__version__}\n")


def certificate(directory: Path) -> tuple[Path, Path]:
    """Write a certificate for localhost and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = directory / "dash.pem", directory / "dash.key"
    paths[0].write_bytes(built.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return paths


def test_tls_by_certificate_files(tmp_path: Path) -> None:
    """If this fails, passwords are sent unencrypted although a certificate is configured."""
    path, _ = certificate(tmp_path)
    config = tmp_path / "dashboard.toml"
    config.write_text("tls_certificate = 'dash.pem'\ntls_key = 'dash.key'\n")
    options = ["--bootstrap", AWAY, "--config", str(config), "--state", str(tmp_path / "state")]
    with running_dashboard(options, env={"XDG_CONFIG_HOME": str(tmp_path)}) as url:
        assert url.startswith("https://127.0.0.1:")
        trusted = ssl.create_default_context(cafile=str(path))
        with httpx.Client(verify=trusted, timeout=30) as client:
            answer = client.get(url.replace("127.0.0.1", "localhost") + "healthz")
            assert answer.status_code == 200
        with pytest.raises(httpx.TransportError):
            httpx.get(url.replace("https", "http") + "healthz")


@pytest.mark.full
def test_a_certificate_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    """If this fails, the dashboard starts, and no browser can connect."""
    certificate(tmp_path)
    (tmp_path / "other").mkdir()
    _, other_key = certificate(tmp_path / "other")
    config = tmp_path / "dashboard.toml"
    for key, expected in ((str(other_key), "cannot be used"), ("missing.key", "there is no such file")):
        config.write_text(f"tls_certificate = 'dash.pem'\ntls_key = '{key}'\n")
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "dashboard",
                "--bootstrap",
                AWAY,
                "--listen",
                "127.0.0.1:0",
                "--config",
                str(config),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, expected in done.stderr) == (2, True), done.stderr
