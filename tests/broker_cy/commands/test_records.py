"""`produce`, `consume` and `records delete`, by their output, in comparison with kcat."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from broker_cy.launch.processes import Child, die_with_parent
from tests.broker_cy.commands.conftest import COMMAND, ROOT, Cli, NewTopic, in_terminal
from tests.support.broker import QUICK, BrokerProcess, Target
from tests.support.clients import kcat
from tests.support.wait import until


def test_lines_go_in_and_come_out(broker_cy: Cli, new_topic: NewTopic) -> None:
    """If this fails, the first command that users try does not work."""
    topic = new_topic()
    broker_cy("produce", topic, stdin=b"hello\nworld\n\nlast")
    assert broker_cy("consume", topic, "-e").out == "hello\nworld\n\nlast\n"
    assert broker_cy("consume", topic, "-e", "-D", r"\x00").out == "hello\0world\0\0last\0"
    assert broker_cy("consume", topic, "-c", "2").out == "hello\nworld\n"


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_kcat_reads_what_we_write_and_we_what_it_writes(
    broker_cy: Cli, broker: Target, new_topic: NewTopic, codec: str
) -> None:
    """If this fails, records that we produce look different to users' tools, or theirs to us."""
    topic = new_topic(3)
    lines = b"".join(b"key-%d:value %d\n" % (number % 40, number) for number in range(500))
    broker_cy("produce", topic, "-K", ":", "-z", codec, "-H", "from=us", "-H", "null", stdin=lines)
    kcat(broker.bootstrap, "-P", "-t", topic, "-K", ":", "-z", codec, "-H", "from=kcat", stdin=lines)
    text = r"%t %p %o %k %K %s %S %T\n"
    theirs = kcat(broker.bootstrap, "-C", "-q", "-t", topic, "-e", "-o", "beginning", "-f", text)
    ours = broker_cy("consume", topic, "-e", "-f", text).out.encode()
    assert len(theirs.splitlines()) == 1_000
    # Partitions are interleaved as they arrive; the order within each is the same.
    assert sorted(ours.splitlines(), key=lambda line: line.split()[1:3]) == sorted(
        theirs.splitlines(), key=lambda line: line.split()[1:3]
    )
    headers = broker_cy("consume", topic, "-e", "-f", r"%h\n", "-Z", "NULL").out.splitlines()
    assert sorted(set(headers)) == ["from=kcat", "from=us,null=NULL"]


def test_every_byte_survives_json(broker_cy: Cli, new_topic: NewTopic) -> None:
    """If this fails, a copy by JSON changes binary values, nulls, headers or timestamps."""
    topic, copy = new_topic(2), new_topic(2)
    records = [
        {"key": "k", "value": {"base64": "/wAB"}, "headers": [{"name": "h", "value": None}],
         "timestamp": 1_700_000_000_000},
        {"key": None, "value": "é\n", "headers": [], "timestamp": 1_700_000_000_001},
        {"key": {"base64": "gA=="}, "value": None, "headers": [{"name": "a", "value": "1"}, {"name": "a", "value": ""}],
         "timestamp": 1_700_000_000_002},
        {"value": ""},
    ]  # fmt: skip
    broker_cy("produce", topic, "-p", "1", "--json-lines", stdin="\n\n".join(map(json.dumps, records)).encode())
    lines = [json.loads(line) for line in broker_cy("consume", topic, "-e", "--json").out.splitlines()]
    assert [line["offset"] for line in lines] == [0, 1, 2, 3]
    assert {line["partition"] for line in lines} == {1}
    fields = ("key", "value", "headers", "timestamp")
    assert [{field: line[field] for field in fields} for line in lines[:3]] == records[:3]
    assert lines[3]["timestamp"] > 1_700_000_000_002
    broker_cy(
        "produce", copy, "-p", "0", "--json-lines", stdin="".join(json.dumps(each) + "\n" for each in lines).encode()
    )
    copied = [json.loads(line) for line in broker_cy("consume", copy, "-e", "--json").out.splitlines()]
    assert [[line[field] for field in fields] for line in copied] == [
        [line[field] for field in fields] for line in lines
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"[1]", "line 2: expected an object"),
        (b'{"value": 5}', 'line 2: 5: expected a string, null or {"base64": ...}'),
        (b'{"value": {"base64": "?"}}', "line 2: base64"),
        (b'{"value": "x", "timestamp": "now"}', "line 2: timestamp 'now' is not a number of milliseconds"),
        (b'{"headers": [{"value": "x"}]}', "line 2: a header without a name"),
        (b"{", "line 2: Expecting"),
    ],
)
def test_bad_json_names_its_line(broker_cy: Cli, new_topic: NewTopic, line: bytes, reason: str) -> None:
    """If this fails, one line of a million is wrong, and the error does not say which."""
    said = broker_cy("produce", new_topic(), "--json-lines", stdin=b'{"value": "ok"}\n' + line + b"\n", code=2)
    assert reason in said.err


def test_where_reading_starts_and_ends(broker_cy: Cli, new_topic: NewTopic) -> None:
    """If this fails, the shell's browser shows other records than the requested ones."""
    # Old timestamps: retention would delete the records.
    topic = new_topic(2, "--set", "retention.ms=-1")
    for partition in (0, 1):
        for number in range(3):
            options = ["-p", str(partition), "--timestamp", str(1_700_000_000_000 + number * 1000)]
            lines = b"".join(b"%d.%d\n" % (partition, number * 10 + index) for index in range(10))
            broker_cy("produce", topic, *options, stdin=lines)

    def read(*options: str) -> list[str]:
        return sorted(broker_cy("consume", topic, "-e", *options).out.split())

    assert len(read()) == 60
    assert read("--from", "28") == ["0.28", "0.29", "1.28", "1.29"]
    assert read("--from", "-1") == ["0.29", "1.29"]
    assert read("-p", "1", "--from", "25", "--to", "27") == ["1.25", "1.26"]
    assert read("-p", "0", "--from", "@1700000000001", "--to", "@1700000002000") == [f"0.{n}" for n in range(10, 20)]
    assert read("-p", "0", "--from", "s@1700000002000") == [f"0.{n}" for n in range(20, 30)]
    assert read("--from", "@now") == []
    assert read("--from", "end") == []


def test_records_are_filtered(broker_cy: Cli, new_topic: NewTopic) -> None:
    """If this fails, a user who looks for one record gets others, or misses it."""
    topic = new_topic(2)
    for partition in (0, 1):
        lines = [
            json.dumps(
                {
                    "key": f"order-{number}",
                    "value": json.dumps({"total": number * 10, "paid": number % 2 == 0}),
                    "headers": [{"name": "trace", "value": f"t{partition}"}] if number == 7 else [],
                }
            )
            for number in range(10)
        ]
        broker_cy("produce", topic, "-p", str(partition), "--json-lines", stdin="\n".join(lines).encode())

    def read(*options: str) -> list[str]:
        return sorted(broker_cy("consume", topic, "-e", "-f", r"%p.%o\n", *options).out.split())

    assert read("--filter", "json:$.total > 70") == ["0.8", "0.9", "1.8", "1.9"]
    assert read("--filter", "json:$.total > 70", "--filter", "json:$.paid = true") == ["0.8", "1.8"]
    assert read("--filter", "header:trace=t1", "--filter", "key:~^order-7$") == ["1.7"]
    assert read("--filter", 'value:"paid": true', "-p", "0", "--from", "5") == ["0.6", "0.8"]
    assert read("--filter", "key:order", "-p", "1", "--from", "2", "--to", "4") == ["1.2", "1.3"]
    assert read("--filter", "key:order-3", "--from", "@-1h", "--to", "@now") == ["0.3", "1.3"]
    assert read("--filter", "json:$.paid = false", "-p", "0", "-c", "2") == ["0.1", "0.3"]
    assert read("--filter", "key:bill") == []
    (line,) = broker_cy("consume", topic, "-e", "--json", "--filter", "header:trace=t0").out.splitlines()
    assert json.loads(line)["key"] == "order-7"


def test_files_keys_and_nulls(broker_cy: Cli, new_topic: NewTopic, tmp_path: Path) -> None:
    """If this fails, a file becomes several records, or an empty value does not become a tombstone."""
    topic = new_topic()
    path = tmp_path / "order.json"
    path.write_bytes(b"line 1\nline 2\n")
    said = broker_cy("produce", topic, "-k", "order-1", "--file", path, "--file", path, "--json")
    assert said.json == [{"topic": topic, "partition": 0, "records": 2, "first_offset": 0}]
    broker_cy("produce", topic, "-K", "=", "-Z", "", stdin=b"order-1=\n=v\nno key\n")
    shown = broker_cy("consume", topic, "-e", "-f", r"%k|%s;", "-Z", "NULL").out
    assert shown == "order-1|line 1\nline 2\n;order-1|line 1\nline 2\n;order-1|NULL;NULL|v;NULL|no key;"


def test_a_record_that_arrives_is_shown_until_interrupted(
    broker: Target, broker_cy: Cli, new_topic: NewTopic, tmp_path: Path
) -> None:
    """If this fails, a live view shows records late, or cannot be ended."""
    topic = new_topic()
    child = Child(
        [*COMMAND, "consume", topic, "--from", "beginning", "--bootstrap", broker.bootstrap],
        tmp_path,
        "consume",
        cwd=ROOT,
    )
    try:
        for number in range(3):
            broker_cy("produce", topic, stdin=b"record %d\n" % number)
            until(lambda number=number: f"record {number}" in child.stdout(), "the record")  # type: ignore[misc]
    finally:
        child.kill()
    shown = in_terminal(["consume", topic, "--bootstrap", broker.bootstrap], interrupt_at="record 2")
    assert shown.screen.split("\r\n")[:3] == ["record 0", "record 1", "record 2"]
    assert shown.code == 130
    assert "Traceback" not in shown.screen


def test_a_group_continues_where_it_stopped(broker_cy: Cli, new_topic: NewTopic) -> None:
    """If this fails, a group reads records twice after an orderly end, or skips some."""
    topic = new_topic()
    group = f"{topic}-group"
    broker_cy("produce", topic, stdin=b"".join(b"%d\n" % number for number in range(10)))

    def read(*options: str) -> list[int]:
        return [int(line) for line in broker_cy("consume", topic, "--group", *options).out.split()]

    assert read(group, "-c", "4") == [0, 1, 2, 3]
    assert read(group, "-c", "2", "--no-commit", "--filter", "value:~[68]") == [6, 8]
    assert read(group, "-c", "6") == [4, 5, 6, 7, 8, 9]
    assert broker_cy("groups", "describe", group, "--json").json[0]["members"] == []
    assert read(f"{group}-2", "-c", "1", "--from", "beginning", "--no-commit") == [0]
    assert "no-such-topic" in broker_cy("consume", "no-such-topic", "--group", group, code=1).err


def test_members_share_the_partitions(broker: Target, broker_cy: Cli, new_topic: NewTopic, tmp_path: Path) -> None:
    """If this fails, two members of a group print the same records, or stay in the group after Ctrl-C."""
    topic = new_topic(2)
    group = f"{topic}-group"
    words = [*COMMAND, "consume", topic, "--group", group, "--from", "end", "-f", r"%p\n"]
    children = [
        Child([*words, "--bootstrap", broker.bootstrap], tmp_path, f"member-{number}", cwd=ROOT) for number in (1, 2)
    ]

    def partitions() -> list[int]:
        if group not in broker_cy("groups", "list", "--json").out:
            return []
        found = broker_cy("groups", "describe", group, "--json").json[0]
        return sorted(len(member["assignment"]) for member in found["members"])

    def sent(lines: int) -> bool:
        for partition in ("0", "1"):
            broker_cy("produce", topic, "-p", partition, stdin=b"x\n")
        shown = [child.stdout().split() for child in children]
        return all(len(each) >= lines for each in shown)

    try:
        until(lambda: partitions() == [1, 1], "both members have a partition", interval_s=0.2)
        until(lambda: sent(1), "both members read", interval_s=0.2)
        shown = [{*child.stdout().split()} for child in children]
        assert sorted(shown, key=sorted) == [{"0"}, {"1"}]
        for child in children:
            child.send_signal(signal.SIGINT)
        assert [child.wait(30) for child in children] == [130, 130]
    finally:
        for child in children:
            child.kill()
    assert partitions() == []


def test_a_member_leaves_if_its_output_is_closed(broker: Target, broker_cy: Cli, new_topic: NewTopic) -> None:
    """If this fails, `| head` leaves a member in the group, whose partitions no other member reads."""
    topic = new_topic()
    group = f"{topic}-group"
    broker_cy("produce", topic, stdin=b"y\n" * 200_000)
    words = [*COMMAND, "consume", topic, "--group", group, "--bootstrap", broker.bootstrap]
    process = subprocess.Popen(die_with_parent(words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None
    try:
        assert process.stdout.read(2) == b"y\n"
        process.stdout.close()
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""
    finally:
        process.kill()
        process.wait()
    assert broker_cy("groups", "describe", group, "--json").json[0]["members"] == []


def test_typed_lines_are_sent_as_they_are_typed(broker: Target, broker_cy: Cli, new_topic: NewTopic) -> None:
    """If this fails, typed records wait for the end of the input, or Ctrl-C hangs."""
    topic = new_topic()
    argv = die_with_parent([*COMMAND, "produce", topic, "--bootstrap", broker.bootstrap])
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)
    assert process.stdin is not None
    try:
        process.stdin.write(b"first\n")
        process.stdin.flush()
        until(lambda: broker_cy("consume", topic, "-e").out == "first\n", "the line that was typed", interval_s=0.2)
        process.send_signal(2)
        _, errors = process.communicate(timeout=30)
        assert process.returncode == 130
        assert errors.strip() == b"interrupted"
    finally:
        process.kill()
        process.wait()


def test_a_reader_that_has_enough_is_no_error(broker: Target, broker_cy: Cli, new_topic: NewTopic) -> None:
    """If this fails, `| head` ends in a traceback."""
    topic = new_topic()
    broker_cy("produce", topic, stdin=b"x" * 99 + b"\n" + b"y\n" * 200_000)
    argv = die_with_parent([*COMMAND, "consume", topic, "-e", "--bootstrap", broker.bootstrap])
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None
    assert process.stdout.readline() == b"x" * 99 + b"\n"
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(30) == 0


def test_what_cannot_be_written_is_reported(broker_cy: Cli, new_topic: NewTopic) -> None:
    """If this fails, a refused record is lost without an error, or with it the count of those before it."""
    topic = new_topic(1, "--set", "max.message.bytes=1000")
    said = broker_cy("produce", topic, "-D", "|", stdin=b"ok|" + b"x" * 2000, code=1)
    assert "MESSAGE_TOO_LARGE" in said.err
    assert f"partition {topic}-0" in said.err
    missing = broker_cy("produce", "no-such-topic", "--no-create", stdin=b"x\n", code=1)
    assert "topic no-such-topic: UNKNOWN_TOPIC_OR_PARTITION: the topic or partition does not exist" in missing.err
    assert "no-such-topic" not in broker_cy("topics", "list").out
    assert "topic a/b: INVALID_TOPIC_EXCEPTION" in broker_cy("produce", "a/b", stdin=b"x\n", code=1).err
    assert "has no partition 7; it has 0 to 0" in broker_cy("consume", topic, "-p", "7", code=2).err
    assert (
        "partition 7 does not exist; the topic has 0 to 0"
        in broker_cy("produce", topic, "-p", "7", stdin=b"x\n", code=2).err
    )


def test_a_missing_topic_is_created(broker_cy: Cli, new_topic: NewTopic, name: str) -> None:
    """If this fails, the example of docs/cli.md fails: `produce` refuses a topic that kcat and Kafka's console
    producer create.
    """
    source, copy = new_topic(), f"{name}-copy"
    broker_cy("produce", source, "-K", ":", stdin=b"a:1\nb:2\n")
    broker_cy("produce", copy, "--json-lines", stdin=broker_cy("consume", source, "-e", "--json").out.encode())
    assert broker_cy("consume", copy, "-e", "-f", r"%k:%s\n").out == "a:1\nb:2\n"


def test_a_broker_that_creates_no_topics_is_named_as_the_reason(bare: Cli, tmp_path: Path) -> None:
    """If this fails, `produce` waits for a topic that never comes, or does not say why it failed."""
    broker = BrokerProcess(tmp_path, {**QUICK, "auto.create.topics.enable": "false"})
    try:
        broker.start()
        said = bare("produce", "orders", "--timeout", "4", "--bootstrap", broker.bootstrap, stdin=b"x\n", code=1)
    finally:
        broker.close()
    assert "topic orders: UNKNOWN_TOPIC_OR_PARTITION" in said.err
    assert "the broker did not create it within 4 s" in said.err
    assert "auto.create.topics.enable" in said.err


def test_records_are_deleted_after_a_look(broker: Target, broker_cy: Cli, new_topic: NewTopic) -> None:
    """If this fails, records are deleted that the user did not intend, or without confirmation."""
    topic = new_topic(2)
    for partition in ("0", "1"):
        broker_cy("produce", topic, "-p", partition, stdin=b"x\n" * 10)
    delete = ["records", "delete", topic, "--before"]
    shown = broker_cy(*delete, "4", "--dry-run").err.splitlines()
    assert shown[0].split("  ")[0] == "PARTITION"
    assert [line.split() for line in shown[1:]] == [["0", "0", "4", "4", "6"], ["1", "0", "4", "4", "6"]]
    unasked = broker_cy(*delete, "4", code=4)
    assert "add --yes" in unasked.err
    no = in_terminal([*delete, "4", "--bootstrap", broker.bootstrap], b"n\n")
    assert (no.code, "Delete 8 offsets of" in no.screen, "Nothing was changed" in no.screen) == (4, True, True)
    assert len(broker_cy("consume", topic, "-e").out.split()) == 20
    yes = in_terminal([*delete, "4", "-p", "1", "--bootstrap", broker.bootstrap], b"y\n")
    assert yes.code == 0, yes.screen
    assert len(broker_cy("consume", topic, "-e").out.split()) == 16
    said = broker_cy(*delete, "-1", "--yes", "--json")
    assert [(each["partition"], each["start_before"], each["start"], each["end"]) for each in said.json] == [
        (0, 0, 9, 10),
        (1, 4, 9, 10),
    ]
    assert "ends at 10" in broker_cy(*delete, "11", "--yes", code=2).err
    assert "deleted records in 0 partitions" in broker_cy(*delete, "beginning", "--yes").out


def test_aborted_records_are_left_out_on_demand(broker: Target, broker_cy: Cli, new_topic: NewTopic) -> None:
    """If this fails, --committed shows aborted records."""
    from confluent_kafka import Producer

    topic = new_topic()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": f"id-{time.time_ns()}"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"aborted")
    assert producer.flush(60) == 0
    producer.abort_transaction(60)
    broker_cy("produce", topic, stdin=b"kept\n")
    assert broker_cy("consume", topic, "-e").out == "aborted\nkept\n"
    assert broker_cy("consume", topic, "-e", "--committed").out == "kept\n"


def test_contradictions_are_refused(broker_cy: Cli) -> None:
    """If this fails, one of two contradictory options is used."""
    for arguments, reason in (
        (["consume", "t", "--json", "-f", "%s"], "--json cannot be combined with --format"),
        (["consume", "t", "-f", "%q"], "unknown conversion %q"),
        (["consume", "t", "--group", "g", "-p", "1"], "--group cannot be combined with --partitions"),
        (["consume", "t", "--group", "g", "--from", "5"], "--from, for partitions without one, is beginning or end"),
        (["consume", "t", "--no-commit"], "need --group"),
        (["consume", "t", "--group", "g", "--no-commit", "--commit-interval", "1s"], "cannot be combined with"),
        (["consume", "t", "--filter", "json:$.total ? 1"], "column 14: '? 1' is not understood"),
        (["consume", "t", "--filter", "total = 1"], "column 1: 'total = 1': key:TEXT, value:TEXT"),
        (["produce", "t", "-k", "a", "-K", ":"], "cannot be used together"),
        (["produce", "t", "--json-lines", "-k", "a"], "--json-lines cannot be combined with"),
        (["produce", "t", "-z", "rar"], "'none', 'gzip', 'snappy', 'lz4', 'zstd'"),
        (["produce", "t", "--acks", "2"], "'all', '1', '0'"),
    ):
        assert reason in broker_cy(*arguments, code=2).err, arguments
