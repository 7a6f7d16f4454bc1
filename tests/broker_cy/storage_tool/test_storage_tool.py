"""`broker-cy storage`: its files and its output, as with Kafka's kafka-storage.sh."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import subprocess
from pathlib import Path

import pytest

from broker_cy.core import uuid as uuids
from broker_cy.metadata import releases
from broker_cy.metadata.loader import Loader
from broker_cy.metadata.snapshot import SnapshotId
from broker_cy.storage_tool import command as storage_tool
from tests.support import kafka_tools, needs
from tests.support.kafka_dump import dump_log_segments

EVERY_LEVEL = [f"{name}={level}" for name, since in releases.DEFAULTS.items() for level in range(len(since))]
CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
DIRECTORY = "OaHpCZBOSDerlvQQLHPsCg"
VOTERS = f"1@127.0.0.1:9093:{DIRECTORY},2@127.0.0.1:9094:OaHpCZBOSDerlvQQLHPsCw"
STATIC = {"controller.quorum.voters": "1@127.0.0.1:9093"}
DYNAMIC = {"controller.quorum.bootstrap.servers": "127.0.0.1:9093"}
BROKER = {"process.roles": "broker", "listeners": "PLAINTEXT://127.0.0.1:9092", **DYNAMIC}


def properties(path: Path, settings: dict[str, str]) -> Path:
    """The file of a node whose directory is `path/data`."""
    values = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "log.dirs": str(path / "data"),
        **settings,
    }
    path.mkdir(exist_ok=True)
    file = path / "server.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    return file


def files(path: Path) -> dict[str, bytes]:
    return {
        str(each.relative_to(path)): each.read_bytes()
        for each in path.rglob("*")
        if each.is_file() and each.name != ".lock"
    }


# The settings, and the options of one `format` after each other.
CASES: list[tuple[dict[str, str], list[list[str]]]] = [
    (STATIC, [[], [], ["--ignore-formatted"]]),
    (STATIC, [["--standalone"]]),
    (DYNAMIC, [[], ["--standalone"], ["-s", "-g"]]),
    (DYNAMIC, [["--no-initial-controllers"]]),
    (DYNAMIC, [["--initial-controllers", VOTERS]]),
    (DYNAMIC, [["-I", VOTERS.partition(",")[2]]]),
    (DYNAMIC, [["-s", "--release-version", "4.0"], ["-s", "-g", "-r", "9.9"]]),
    (DYNAMIC, [["-s", "-r", "3.7-IV2", "-f", "transaction.version=1"]]),
    (DYNAMIC, [["-N", "-f", "kraft.version=1"]]),
    (STATIC, [["-f", "metadata.version=20"]]),
    (BROKER, [["--standalone"], []]),
]


def test_check_lists_every_problem_of_a_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """If this fails, an operator learns one by one, and from starts, which lines of a file of Kafka do not work."""
    file = properties(tmp_path, {**DYNAMIC, "num.io.threads": "3", "port": "9092", "foo.bar": "${env:KCY_NOT_SET}"})
    assert storage_tool.run(["check", "-c", str(file)]) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert err.splitlines() == [
        f"{file}: line 7: num.io.threads has no effect yet: remove it",
        f"{file}: line 8: port was removed and has no effect: listeners counts",
        f"{file}: line 9: foo.bar: ${{env:KCY_NOT_SET}} names an unknown provider: add env to config.providers and set "
        "config.providers.env.class, or write the value",
        f"{file}: 3 problems in 9 settings",
    ]
    listeners = {"listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9100"}
    file = properties(tmp_path, {**DYNAMIC, **listeners})
    assert storage_tool.run(["check", "-c", str(file)]) == 0
    assert storage_tool.run(["check", "-c", str(file), "--shards", "2"]) == 0
    assert capfd.readouterr().err == ""
    file = properties(tmp_path, {**DYNAMIC, **listeners, "node.id": "1000"})
    assert storage_tool.run(["check", "-c", str(file), "--shards", "2"]) == 1
    assert "node.id=1000 must be below 1000" in capfd.readouterr().err
    assert not (tmp_path / "data").exists()


def test_errors_as_json(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """If this fails, a program that prepares a node has to parse texts for people."""
    file = properties(tmp_path, {**DYNAMIC, "num.io.threads": "3"})

    def errors(*arguments: str) -> list[str]:
        assert storage_tool.run([*arguments, "--json"]) == 1
        found = [json.loads(line)["error"] for line in capfd.readouterr().err.splitlines()]
        assert {each["failure"] for each in found} == {"invalid"}
        return [each["reason"] for each in found]

    assert errors("check", "-c", str(file))[0] == f"{file}: line 7: num.io.threads has no effect yet: remove it"
    assert "required: --cluster-id" in errors("format", "-c", str(file))[0]
    file = properties(tmp_path, DYNAMIC)
    assert "--standalone, --initial-controllers" in errors("format", "-c", str(file), "-t", CLUSTER)[0]
    assert "9.9" in errors("version-mapping", "-r", "9.9")[0]
    assert "does not exist" in errors("info", "-c", str(file))[0]
    assert errors("info", "-c", str(tmp_path / "absent"))


needs_kafka = needs.kafka


@needs_kafka
@pytest.mark.parametrize(("settings", "calls"), CASES)
def test_the_same_as_kafkas_tool(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], settings: dict[str, str], calls: list[list[str]]
) -> None:
    """If this fails, scripts that format Kafka's directories do something else with ours, or Kafka cannot be started on
    a directory that we have formatted.
    """
    path = tmp_path / "node"
    ours, theirs = [], []
    file = properties(path, settings)
    for call in calls:
        code = storage_tool.run(["format", "-c", str(file), "-t", CLUSTER, *call])
        said = capfd.readouterr()
        ours.append((code, _without_features(said.out), _without_features(said.err)))
    our_files = files(path / "data") if (path / "data").exists() else {}
    if our_files:
        assert storage_tool.run(["info", "-c", str(file)]) == 0
        info = capfd.readouterr().out
    subprocess.run(["rm", "-rf", str(path / "data")], check=True)
    for call in calls:
        arguments = ["format", "-c", str(file), "-t", CLUSTER, *call]
        done = kafka_tools.run_tool("kafka.tools.StorageTool", *arguments, check=False)
        theirs.append(
            (done.returncode, _without_features(done.stdout.decode()), _without_features(done.stderr.decode()))
        )
    assert ours == theirs
    their_files = files(path / "data") if (path / "data").exists() else {}
    assert sorted(our_files) == sorted(their_files)
    for name, content in our_files.items():
        if name.endswith("0000000000.checkpoint") and "-I" not in calls[0] and "--initial-controllers" not in calls[0]:
            # The directory id is random.
            assert len(content) == len(their_files[name])
    if our_files:
        done = kafka_tools.run_tool("kafka.tools.StorageTool", "info", "-c", file, check=False)
        assert _without_ids(info) == _without_ids(done.stdout.decode())


def _without_features(text: str) -> str:
    """Other features have other levels: those whose protocols we do not serve yet stay at 0."""
    return "\n".join(line for line in text.strip().splitlines() if not line.startswith(("Bootstrap metadata", "usage")))


def _without_ids(text: str) -> str:
    at = text.find("directory.id=")
    return text[:at] + text[at + len("directory.id=") + 22 :]


@needs_kafka
@pytest.mark.parametrize(
    "arguments",
    [
        ["version-mapping"],
        ["version-mapping", "--release-version", "3.9.1"],
        ["version-mapping", "-r", "4.0-IV1"],
        ["version-mapping", "-r", "4.4"],
        [
            "feature-dependencies",
            *(
                option
                for name in ("metadata.version=7", "metadata.version=31", *EVERY_LEVEL, "group.version=2")
                for option in ("-f", name)
            ),
        ],
        ["feature-dependencies", "--feature", " share.version = +1 ", "-f", "foo=1"],
        ["feature-dependencies", "-f", "kraft.version=x"],
    ],
    ids=" ".join,
)
def test_the_same_tables_as_kafkas_tool(capfd: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    """If this fails, an operator who plans an upgrade sees other levels than those of Kafka."""
    code = storage_tool.run(arguments)
    said = capfd.readouterr()
    done = kafka_tools.run_tool("kafka.tools.StorageTool", *arguments, check=False)
    assert (code, said.out, said.err) == (done.returncode, done.stdout.decode(), done.stderr.decode())


CREDENTIALS = [
    "SCRAM-SHA-256=[name=alice,password=alice-secret,salt=W22ZaJ0SNY7soEsUEjb6gQ]",
    'SCRAM-SHA-512=[name=alice,iterations=8192,salt="N3E=",saltedpassword="YCE="]',
    " SCRAM-SHA-512=[password=pässword=1,salt=N3E=,name=b\u00f6b,iterations=16384] ",
]


def dumped_credentials(file: Path) -> list[str]:
    text = dump_log_segments([file], "--cluster-metadata-decoder")
    return re.findall(r'payload: (\{"type":"USER_SCRAM_CREDENTIAL_RECORD".*)', text)


@needs_kafka
def test_the_same_credentials_as_kafkas_tool(tmp_path: Path) -> None:
    """If this fails, a user whose password an operator sets cannot log in to the new cluster."""
    options = [option for each in CREDENTIALS for option in ("--add-scram", each)]
    file = properties(tmp_path, STATIC)
    assert storage_tool.run(["format", "-c", str(file), "-t", CLUSTER, *options]) == 0
    ours = dumped_credentials(tmp_path / "data/bootstrap.checkpoint")
    subprocess.run(["rm", "-rf", str(tmp_path / "data")], check=True)
    kafka_tools.run_tool("kafka.tools.StorageTool", "format", "-c", file, "-t", CLUSTER, *options)
    assert ours[:-1] == dumped_credentials(tmp_path / "data/bootstrap.checkpoint")
    assert len(ours) == 4
    assert '"name":""' in ours[-1], "the secret of scram_ops.SECRET"


@needs_kafka
@pytest.mark.parametrize(
    "options",
    [
        ["SCRAM-SHA-1=[name=a,password=b]"],
        ["SCRAM-SHA-256=[password=b,]"],
        ["SCRAM-SHA-256=[name=a,salt=N3E=,saltedpassword=Y]"],
        ["SCRAM-SHA-256=[name=a,password=b,iterations=4095]"],
        ["SCRAM-SHA-512=[name=a,password=b,iterations=16385]"],
        ["SCRAM-SHA-256=[name=a,password=b,z=1,c=2]"],
        ["SCRAM-SHA-256=[name=a,password=b]", "-r", "3.5-IV1"],
    ],
    ids=" ".join,
)
def test_credentials_are_refused_as_by_kafkas_tool(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], options: list[str]
) -> None:
    """If this fails, the metadata contains an unusable credential, or Kafka's scripts do not work."""
    arguments = ["format", "-c", str(properties(tmp_path, STATIC)), "-t", CLUSTER, "--add-scram", *options]
    assert storage_tool.run(arguments) == 1
    said = capfd.readouterr()
    done = kafka_tools.run_tool("kafka.tools.StorageTool", *arguments, check=False)
    assert (done.returncode, said.err) == (1, done.stderr.decode())
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SCRAM-SHA-256", "Failed to find equals sign in SCRAM argument 'SCRAM-SHA-256'"),
        ("SCRAM-SHA-256=name=a", "Expected configuration string to start with ["),
        ("SCRAM-SHA-256=[name=a", "Expected configuration string to end with ]"),
        ("SCRAM-SHA-256=[name]", "No equals sign found in SCRAM component: name"),
        ("SCRAM-SHA-256=[name=a]", "You must supply one of 'password' or 'saltedpassword' to add-scram"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=YCE=]", "You must supply 'salt' with 'saltedpassword' to add-scram"),
        ("SCRAM-SHA-256=[name=a,password=b,salt=!]", "Failed to decode given salt: !"),
        ("SCRAM-SHA-256=[name=a,salt=N3E=,saltedpassword=]", "given saltedPassword: the salted password is empty"),
        ("SCRAM-SHA-256=[name=a,password=b,iterations=many]", "Failed to parse iterations count: many"),
    ],
)
def test_credentials_that_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    """If this fails, a node is formatted with another credential than its operator asked for."""
    file = properties(tmp_path, STATIC)
    assert storage_tool.run(["format", "-c", str(file), "-t", CLUSTER, "-S", text]) == 1
    assert capsys.readouterr().err.strip().endswith(message)
    assert not (tmp_path / "data").exists()


def test_a_credential_without_a_salt_gets_one_of_its_own(tmp_path: Path) -> None:
    """If this fails, two users with the same password have the same credential, so that one stolen credential opens
    both.
    """
    option = ["--add-scram", "SCRAM-SHA-256=[name=a,password=b]", "--add-scram", "SCRAM-SHA-256=[name=b,password=b]"]
    file = properties(tmp_path, STATIC)
    assert storage_tool.run(["format", "-c", str(file), "-t", CLUSTER, *option]) == 0
    loader = Loader()
    loader.load_snapshot((tmp_path / "data/bootstrap.checkpoint").read_bytes(), SnapshotId(0, 0))
    records = [loader.image.kept["scram", name, 1] for name in "ab"]
    assert records[0].salt != records[1].salt
    for record in records:
        assert 20 <= len(record.salt) <= 26
        salted = hashlib.pbkdf2_hmac("sha256", b"b", record.salt, record.iterations)
        assert (record.iterations, record.server_key) == (4096, hmac.digest(salted, b"Server Key", "sha256"))


def test_info_of_a_directory_that_is_not_formatted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, an operator does not learn why a node does not start."""
    file = properties(tmp_path, STATIC)
    assert storage_tool.run(["info", "-c", str(file)]) == 1
    assert capsys.readouterr().out == f"Found problem:\n  {tmp_path}/data does not exist\n\n"
    (tmp_path / "data").mkdir()
    assert storage_tool.run(["info", "-c", str(file)]) == 1
    assert "is not formatted" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-I", "x"], "'x' is not ID@HOST:PORT:DIRECTORY-ID"),
        (["-I", f"1@a:0:{DIRECTORY}"], "is not ID@HOST:PORT:DIRECTORY-ID"),
        (["-I", f"1@a:1:{DIRECTORY},1@b:1:{DIRECTORY}"], "contain an id twice"),
        (["-s", "-f", "streams.version=2"], "this broker supports levels 0 to 1 of streams.version"),
        (["-s", "-f", "foo=1"], "Unsupported feature: foo."),
        (["-s", "-f", "kraft.version=0"], "kraft.version is 1 with --standalone"),
        (["-N", "-f", "kraft.version=0"], "kraft.version is 1 with --standalone"),
        (["-s", "-r", "4.0", "-f", "metadata.version=20"], "Use --release-version instead of --feature"),
        (["-s", "-f", "metadata.version=31"], "this broker supports levels 7 to 30 of metadata.version"),
    ],
)
def test_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str) -> None:
    """If this fails, a node is formatted for something else than its operator asked for."""
    file = properties(tmp_path, DYNAMIC)
    assert storage_tool.run(["format", "-c", str(file), "-t", CLUSTER, *options]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_random_uuid(capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, Kafka refuses the id of a new cluster."""
    assert storage_tool.run(["random-uuid"]) == 0
    text = capsys.readouterr().out.strip()
    assert uuids.to_text(uuids.from_text(text)) == text
    assert not text.startswith("-")
