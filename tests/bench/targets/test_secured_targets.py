"""Targets whose clients need TLS, SASL, or both: drivers, unmeasured requests, and user errors."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import arguments, cli
from bench.drivers import raw
from bench.drivers.group import Group
from bench.drivers.kafka_tools import KafkaToolsDriver
from bench.drivers.librdkafka import LibrdkafkaDriver
from bench.drivers.raw import RawDriver
from bench.drivers.transactions import TransactionDriver
from bench.spec import target as targets
from bench.spec.workload import Rate, Transactions
from bench.targets.brokers import Attached, BrokerCy
from bench.targets.chosen import chosen
from bench.wire import protocol
from bench.wire.endpoint import Endpoint, connect
from broker_cy.client.options import wanted
from broker_cy.client.payload.draws import Size
from broker_cy.client.toml_file import SpecError
from tests.bench.drivers.test_raw_driver import check_sums, workload
from tests.support import needs

SECURED = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")


@pytest.fixture(autouse=True)
def forked_brokers() -> None:
    """Fork none: tests read the command line of the process."""


@pytest.fixture(scope="module", params=SECURED)
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCy]:
    directory = tmp_path_factory.mktemp("secured") / "data"
    settings = {"ssl.client.auth": "required"} if request.param == "SSL" else None
    with BrokerCy(directory, settings, request.param).running() as target:
        assert isinstance(target, BrokerCy)
        yield target


def config(target: BrokerCy) -> Path:
    assert target.node.client_config is not None
    return target.node.client_config


def ends(target: BrokerCy, topic: str, partitions: int = 2) -> int:
    return sum(raw.list_offsets(target.leaders(topic, partitions), topic, protocol.LATEST).values())


@pytest.mark.parametrize("acks", ["all", "0"])
def test_what_the_raw_driver_counts_is_in_the_log(broker: BrokerCy, acks: str) -> None:
    topic = f"produced-{acks}"
    broker.create_topic(topic, 2)
    before = ends(broker, topic)
    # Requests of several TLS records, and more connections than the first group, one of them waiting for an answer.
    settings = workload(acks=acks, producers=40, batch_bytes=50_000)
    driver = RawDriver(broker.address, topic, settings)
    driver.prepare()
    result = driver.run(0.5)
    driver.close()
    assert (result.errors, result.first_error) == (0, None)
    assert result.records > 0
    check_sums(result)
    if acks == "all":
        assert ends(broker, topic) - before == result.records


def test_the_raw_driver_reads_what_is_there(broker: BrokerCy) -> None:
    """Answers are larger than the initial buffer, and than a TLS record."""
    broker.create_topic("consumed", 2)
    filling = RawDriver(broker.address, "consumed", workload(batch_bytes=100_000))
    filling.prepare()
    written = filling.run(0.5)
    filling.close()
    driver = RawDriver(broker.address, "consumed", workload(producers=0, consumers=2))
    driver.prepare()
    result = driver.run(0.5)
    driver.close()
    assert (result.errors, result.first_error) == (0, None)
    assert result.records > 0
    assert written.records > 0


def test_consumers_follow_producers(broker: BrokerCy) -> None:
    broker.create_topic("followed", 2)
    driver = RawDriver(broker.address, "followed", workload(consumers=1))
    driver.prepare()
    result = driver.run(0.5)
    driver.close()
    assert (result.errors, result.first_error) == (0, None)
    assert result.consumed_records == result.records > 0


@pytest.mark.full
def test_librdkafka(broker: BrokerCy) -> None:
    broker.create_topic("clients", 2)
    before = ends(broker, "clients")
    driver = LibrdkafkaDriver(broker.address, "clients", workload(driver="librdkafka", producers=1, consumers=1))
    driver.prepare()
    result = driver.run(0.5)
    driver.close()
    assert (result.errors, result.first_error) == (0, None)
    assert ends(broker, "clients") - before == result.records == result.consumed_records > 0


def test_transactions_and_groups(broker: BrokerCy) -> None:
    broker.create_topic("transactions", 2)
    asked = Transactions(records=4, aborted=0.0, ids=1)
    driver = TransactionDriver(broker.address, "transactions", workload(producers=1, transactions=asked))
    driver.prepare()
    result = driver.run(0.2)
    driver.close()
    assert (result.errors, result.first_error) == (0, None)
    assert result.transactions > 0
    group = Group(broker.address, "transactions", 2, 6.0, "range")
    try:
        group.join()
        group.await_assigned(lambda: None)
        # Settings contain secrets, and every user can read a command line.
        line = Path(f"/proc/{group.members[0].process.pid}/cmdline").read_bytes()
        assert b"sasl" not in line
        assert b"ssl" not in line
    finally:
        group.close()


@needs.kafka
@pytest.mark.full
def test_kafkas_own_tools(tmp_path: Path) -> None:
    with BrokerCy(tmp_path / "data", None, "SASL_SSL").running() as target:
        target.create_topic("tools", 2)
        settings = workload(
            driver="kafka",
            producers=1,
            record_size=Size(100, 100),
            rate=Rate(500, 500),
        )
        driver = KafkaToolsDriver(target.address, "tools", settings)
        driver.prepare()
        result = driver.run(1.0)
        driver.close()
        assert (result.errors, result.first_error) == (0, None)
        assert result.records > 0


def test_a_running_broker_is_measured_with_the_file_of_its_clients(broker: BrokerCy, tmp_path: Path) -> None:
    options = arguments.parse(
        ["run", "-w", "produce-1kb", "-t", Endpoint(*broker.address).text, "--command-config", str(config(broker))]
    )
    (spec,) = chosen(options.target, wanted(vars(options)), cli.find_target, tmp_path)
    assert spec.bootstrap is not None
    target = Attached(spec.bootstrap, spec.pid, spec.client_config)
    target.start()
    target.create_topic("attached", 2)
    assert str(spec.describe()["client_config"]) == str(config(broker))


def test_secrets_are_for_the_owner_alone(broker: BrokerCy) -> None:
    files = [*config(broker).parent.iterdir(), broker.node.directory / "server.properties"]
    assert len(files) > 1
    for path in files:
        if path.name != "authority.pem":
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o600, path
    assert b"password" not in Path(f"/proc/{broker.pid}/cmdline").read_bytes()


def test_a_wrong_password_is_named(tmp_path: Path) -> None:
    with BrokerCy(tmp_path / "data", None, "SASL_PLAINTEXT").running() as target:
        assert isinstance(target, BrokerCy)
        wrong = tmp_path / "wrong.properties"
        wrong.write_text(config(target).read_text().replace('password="', 'password="x'))
        with pytest.raises(ConnectionRefusedError, match=r"the login failed: .*[Ii]nvalid"):
            connect(Endpoint(*target.address, wrong), 10)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('kind = "floor"\nsecurity = "SSL"', "only for kind"),
        ('kind = "ours"\nnodes = 3\nsecurity = "SSL"', "with one node"),
        ('kind = "ours"\nsecurity = "TLS"', "SASL_SSL"),
        ('kind = "ours"\nclient_config = "here.toml"', "only for kind"),
        ('kind = "address"\nbootstrap = "h:1"\nclient_config = "none"', "'none' is not a file"),
    ],
)
def test_what_a_target_file_may_not_say(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "here.toml"
    path.write_text(text)
    with pytest.raises(SpecError, match=expected):
        targets.load(path)


def test_a_file_of_clients_needs_an_address(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=SSL\n")
    assert cli.main(["run", "-w", "produce-1kb", "-t", "ours", "--command-config", str(path)]) == 2
    assert "only for HOST:PORT" in capsys.readouterr().err
    wrong = tmp_path / "wrong.properties"
    wrong.write_text("security.protocol=TLS\n")
    assert cli.main(["run", "-w", "produce-1kb", "-t", "h:1", "--command-config", str(wrong)]) == 2
    assert "security.protocol=TLS is not known" in capsys.readouterr().err
