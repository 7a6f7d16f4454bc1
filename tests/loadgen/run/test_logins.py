"""Load on a secured cluster: the same settings as for other clients, and no exposed secret."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.loadgen.run.kit import UNDISTURBED, Load, load, producers
from tests.support import needs
from tests.support.broker import target_is_kafka
from tests.support.certificates import Authority
from tests.support.sasl_broker import ALICE, PASSWORD, SaslBroker, client_jaas, write_properties
from tests.support.tls_broker import TlsBroker

pytestmark = pytest.mark.skipif(target_is_kafka(), reason="about our own settings")
SESSION_MS = 1_500


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    settings = {"listener.name.sasl_plaintext.connections.max.reauth.ms": str(SESSION_MS)}
    found = SaslBroker(tmp_path_factory.mktemp("sasl"), settings)
    try:
        found.start()
        found.add_user(ALICE, PASSWORD)
        yield found
    finally:
        found.close()


def properties(directory: Path, mechanism: str, password: str = PASSWORD) -> Path:
    path = directory / f"{mechanism}.properties"
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism}
    write_properties(path, settings | {"sasl.jaas.config": client_jaas(mechanism, ALICE, password)})
    return path


def topic() -> str:
    return f"load-{uuid.uuid4().hex[:8]}"


def with_engine(scenario: Path, engine: str) -> Path:
    text = scenario.read_text()
    assert 'kind = "producer"' in text
    scenario.write_text(text.replace('kind = "producer"', f'kind = "producer"\nengine = "{engine}"'))
    return scenario


@pytest.mark.parametrize(
    ("mechanism", "engine", "options"),
    [
        pytest.param("SCRAM-SHA-512", "gevent", ("--processes", "2"), marks=pytest.mark.full),
        ("PLAIN", "gevent", ()),
        pytest.param("SCRAM-SHA-256", "librdkafka", (), marks=pytest.mark.full),
    ],
)
def test_a_run_with_a_login(
    broker: SaslBroker, tmp_path: Path, mechanism: str, engine: str, options: tuple[str, ...]
) -> None:
    """If this fails, broker-load cannot load a secured cluster, or only until the first session ends; or passwords are
    in process lists or reports.
    """
    seen: list[str] = []

    def look(_: Load) -> None:
        for each in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                seen.append(each.read_text(errors="replace"))
            except OSError:
                continue

    page = tmp_path / "report.html"
    scenario = with_engine(producers(tmp_path, topic()), engine)
    login = properties(tmp_path, mechanism)
    run = load(
        tmp_path,
        broker.bootstrap,
        *("--scenario", scenario, "--html", page, "--command-config", login),
        *options,
        meanwhile=look,
    )
    assert run.code in UNDISTURBED, run.stdout + run.stderr
    produced = run.of.operations["Produce"]
    assert (produced.failures, produced.requests > 1_000) == (0, True)
    assert any("loadgen" in each for each in seen)
    shown = "".join(each for each in seen if "loadgen" in each) + run.stdout + run.stderr + page.read_text()
    assert PASSWORD not in shown


@pytest.mark.full
def test_a_run_over_tls(tmp_path: Path) -> None:
    """If this fails, broker-load cannot load a cluster with TLS, or answers that arrive together wait for later
    ones.
    """
    needs.require(needs.tls)
    broker = TlsBroker(tmp_path / "broker")
    try:
        broker.start()
        login = tmp_path / "tls.properties"
        settings = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": client_jaas("PLAIN", ALICE, PASSWORD),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(broker.directory / "authority.pem"),
        }
        write_properties(login, settings)
        options = ("--command-config", login, "--processes", "2")
        for engine in ("gevent", "librdkafka"):
            scenario = with_engine(producers(tmp_path, topic()), engine)
            run = load(tmp_path, broker.sasl_bootstrap, "--scenario", scenario, *options)
            assert run.code in UNDISTURBED, run.stdout + run.stderr
            produced = run.of.operations["Produce"]
            assert (produced.failures, produced.requests > 1_000) == (0, True)
            assert PASSWORD not in run.stdout + run.stderr
        write_properties(
            login, settings | {"ssl.truststore.location": str(Authority("Other").write_pem(tmp_path / "o"))}
        )
        stranger = load(
            tmp_path, broker.sasl_bootstrap, "--scenario", producers(tmp_path, topic()), "--command-config", login
        )
        assert stranger.code not in UNDISTURBED
        assert "certificate verify failed" in stranger.stdout + stranger.stderr
    finally:
        broker.close()


@pytest.mark.full
def test_what_cannot_log_in_says_so(broker: SaslBroker, tmp_path: Path) -> None:
    """If this fails, a run on a secured cluster ends without a reason."""
    wrong = load(
        tmp_path,
        broker.bootstrap,
        *("--scenario", producers(tmp_path, topic()), "--command-config", properties(tmp_path, "PLAIN", "wrong")),
    )
    assert wrong.code not in UNDISTURBED
    assert "Invalid username or password" in wrong.stdout + wrong.stderr
    assert '"wrong"' not in wrong.stdout + wrong.stderr
    raw = load(
        tmp_path,
        broker.bootstrap,
        *("--scenario", with_engine(producers(tmp_path, topic()), "raw")),
        *("--command-config", properties(tmp_path, "PLAIN")),
    )
    assert raw.code not in UNDISTURBED
    assert "the engine raw has neither logins nor TLS" in raw.stdout + raw.stderr
    missing = load(tmp_path, broker.bootstrap, "--command-config", tmp_path / "none")
    assert missing.code not in UNDISTURBED
    assert "--command-config" in missing.stderr
