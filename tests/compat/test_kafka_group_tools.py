"""Kafka's tools for groups with all of their options: they show with our broker what they show with Kafka."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker_cy.wire import messages
from tests.compat.differential.brokers import make_ready
from tests.compat.differential.build import batch, put
from tests.compat.differential.members import Member
from tests.compat.differential.script import Entry, Run
from tests.compat.differential.scripts_group_requests import assigned, share, streams
from tests.support import kafka_tools, needs
from tests.support.both_brokers import running
from tests.support.broker import Target
from tests.support.kafka_dump import dump_log_segments

pytestmark = [pytest.mark.full, needs.kafka]
SESSION_MS = 1_800_000
SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    # Members send nothing while the tools run, which may take minutes on a busy machine.
    **{
        f"group.{kind}.{limit}session.timeout.ms": str(SESSION_MS)
        for kind in ("consumer", "share", "streams")
        for limit in ("", "max.")
    },
    # The batches have timestamps of years ago.
    "log.retention.ms": "-1",
}
TOPIC = "read"
CONSUMERS, SHARERS, STREAMS = (
    "consumer.group.ConsumerGroupCommand",
    "consumer.group.ShareGroupCommand",
    "streams.StreamsGroupCommand",
)
CSV = f'"{TOPIC}",0,2\n"{TOPIC}",1,3\n'
# (tool, options); DIR is a directory that has offsets.csv.
COMMANDS: list[tuple[str, str]] = [
    (CONSUMERS, "--list"),
    (CONSUMERS, "--list --state"),
    (CONSUMERS, "--list --state stable,empty --type consumer,classic"),
    (CONSUMERS, "--list --type none"),
    (CONSUMERS, "--describe --group consumers"),
    (CONSUMERS, "--describe --group consumers --verbose"),
    (CONSUMERS, "--describe --group consumers --members --verbose"),
    (CONSUMERS, "--describe --group consumers --state --verbose"),
    (CONSUMERS, "--describe --group committed --offsets"),
    (CONSUMERS, "--describe --group absent"),
    (CONSUMERS, "--describe --group sharers"),
    (CONSUMERS, f"--reset-offsets --group consumers --topic {TOPIC} --to-earliest --dry-run"),
    (CONSUMERS, f"--reset-offsets --group committed --topic {TOPIC} --to-earliest --dry-run"),
    (CONSUMERS, f"--reset-offsets --group committed --topic {TOPIC} --to-latest --execute"),
    (CONSUMERS, f"--reset-offsets --group committed --topic {TOPIC}:1 --to-offset 2 --execute"),
    (CONSUMERS, f"--reset-offsets --group committed --topic {TOPIC} --shift-by -1 --execute"),
    (CONSUMERS, f"--reset-offsets --group committed --topic {TOPIC} --shift-by 1000 --dry-run"),
    (CONSUMERS, "--reset-offsets --group committed --all-topics --to-current --dry-run --export"),
    (CONSUMERS, f"--reset-offsets --group committed --topic {TOPIC} --to-datetime 2020-01-01T00:00:00.000 --dry-run"),
    (CONSUMERS, f"--reset-offsets --group committed --topic {TOPIC} --by-duration PT1S --dry-run"),
    (CONSUMERS, "--reset-offsets --group committed --from-file DIR/offsets.csv --execute"),
    (CONSUMERS, f"--delete-offsets --group consumers --topic {TOPIC}"),
    (CONSUMERS, f"--delete-offsets --group committed --topic {TOPIC}:0"),
    (CONSUMERS, "--describe --group committed"),
    (CONSUMERS, "--delete --group consumers"),
    (CONSUMERS, "--delete --group committed --group absent"),
    (CONSUMERS, "--validate-regex a.*"),
    (CONSUMERS, "--validate-regex ["),
    (SHARERS, "--list"),
    (SHARERS, "--list --state"),
    (SHARERS, "--list --state empty"),
    (SHARERS, "--describe --all-groups"),
    (SHARERS, "--describe --group sharers --offsets --verbose"),
    (SHARERS, "--describe --group sharers --members --verbose"),
    (SHARERS, "--describe --group sharers --state --verbose"),
    (SHARERS, "--describe --group absent"),
    (SHARERS, "--describe --group consumers"),
    (SHARERS, f"--reset-offsets --group sharers --topic {TOPIC} --to-earliest --execute"),
    (SHARERS, f"--reset-offsets --group altered --topic {TOPIC} --to-latest --dry-run"),
    (SHARERS, f"--reset-offsets --group altered --topic {TOPIC} --to-latest --execute"),
    (SHARERS, "--reset-offsets --group altered --all-topics --to-earliest --execute"),
    (SHARERS, f"--reset-offsets --group altered --topic {TOPIC} --to-datetime 2020-01-01T00:00:00.000 --execute"),
    (SHARERS, "--describe --group altered --verbose"),
    (SHARERS, f"--delete-offsets --group sharers --topic {TOPIC}"),
    (SHARERS, f"--delete-offsets --group altered --topic {TOPIC}"),
    (SHARERS, "--describe --group altered"),
    (SHARERS, "--delete --group sharers"),
    (SHARERS, "--delete --group altered"),
    (SHARERS, "--delete --group absent"),
    (SHARERS, "--list"),
    (STREAMS, "--list"),
    (STREAMS, "--list --state"),
    (STREAMS, "--list --state stable"),
    (STREAMS, "--describe --all-groups"),
    (STREAMS, "--describe --group streams --offsets --verbose"),
    (STREAMS, "--describe --group streams --members --verbose"),
    (STREAMS, "--describe --group streams --state --verbose"),
    (STREAMS, "--describe --group absent"),
    (STREAMS, "--describe --group sharers"),
    (STREAMS, f"--reset-offsets --group streams --input-topic {TOPIC} --to-earliest --execute"),
    (STREAMS, f"--reset-offsets --group left --input-topic {TOPIC} --to-latest --dry-run"),
    (STREAMS, f"--reset-offsets --group left --input-topic {TOPIC}:0 --to-offset 1 --execute"),
    (STREAMS, "--reset-offsets --group left --all-input-topics --shift-by 1 --execute"),
    (STREAMS, "--describe --group left --offsets --verbose"),
    (STREAMS, f"--delete-offsets --group left --input-topic {TOPIC}:0"),
    (STREAMS, f"--delete-offsets --group streams --input-topic {TOPIC}"),
    (STREAMS, "--delete --group streams"),
    (STREAMS, "--delete --group left"),
    (STREAMS, "--list"),
]


def make_groups(broker: Target) -> None:
    """A group of each type with a member, and one without."""
    make_ready(broker)
    run = Run(broker, Entry(TOPIC, "", 0, lambda *_: None))
    try:
        topic = run.topic(partitions=2)
        for partition in range(2):
            put(run, topic, partition, *(batch(b"%d" % number) for number in range(5)))
        assigned(run, topic, "consumers")
        share(run, topic, "sharers")
        streams(run, topic, "streams")
        streams(run, topic, "left")
        leaves = messages.StreamsGroupHeartbeatRequest(group_id="left", member_id="m", member_epoch=-1)
        assert run.quietly(leaves, 0).error_code == 0
        alter = messages.AlterShareGroupOffsetsRequest
        part = alter.AlterShareGroupOffsetsRequestPartition
        parts = [part(partition_index=at, start_offset=at) for at in range(2)]
        altered = alter(
            group_id="altered", topics=[alter.AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=parts)]
        )
        assert run.quietly(altered, 0).error_code == 0
        commit = messages.OffsetCommitRequest
        offsets = [commit.OffsetCommitRequestPartition(partition_index=at, committed_offset=4) for at in range(2)]
        committed = commit(
            group_id="committed",
            generation_id_or_member_epoch=-1,
            topics=[commit.OffsetCommitRequestTopic(name=topic, partitions=offsets)],
        )
        assert run.quietly(committed, 8).topics[0].partitions[0].error_code == 0
        Member(run, "classics", "classic", session_ms=SESSION_MS, rebalance_ms=SESSION_MS).join()
    finally:
        run.close()


def shown(broker: Target, tool: str, options: str, directory: Path) -> list[str]:
    """The lines of both outputs, without what differs between two runs."""
    words = options.replace("DIR", str(directory)).split()
    at_broker = [] if "--validate-regex" in words else ["--bootstrap-server", broker.bootstrap]
    done = kafka_tools.run_tool(f"org.apache.kafka.tools.{tool}", *at_broker, *words, check=False)
    text = (done.stdout + done.stderr).decode()
    text = text.replace(broker.bootstrap, "BROKER").replace(str(directory), "DIR")
    text = re.sub(r"\b[\w.-]+:\d+ +\(1\)", "COORDINATOR (1)", text)
    # Times of warnings, and the words of errors.
    text = re.sub(r"(?m)^[\d-]+ [\d:,]+ WARN", "WARN", text)
    text = re.sub(r"(\.errors\.\w+Exception): .*", r"\1", text)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return [f"exit code {done.returncode}", *sorted(line for line in lines if line and not line.startswith("at "))]


@contextmanager
def prepared(kind: str, directory: Path) -> Iterator[Target]:
    with running(kind, directory / kind, SETTINGS) as broker:
        make_groups(broker)
        yield broker


@pytest.mark.timeout(900)
def test_tools_show_the_same(tmp_path: Path) -> None:
    """If this fails, a script that calls Kafka's tools for consumer, share and streams groups gets another answer."""
    (tmp_path / "offsets.csv").write_text(CSV)
    found = {}
    for kind in ("broker-cy", "kafka"):
        with prepared(kind, tmp_path) as broker:
            found[kind] = [(options, shown(broker, tool, options, tmp_path)) for tool, options in COMMANDS]
    differ = [(our, their) for our, their in zip(found["broker-cy"], found["kafka"], strict=True) if our != their]
    assert not differ, "\n".join(f"{our[0]}\n  ours:  {our[1]}\n  Kafka: {their[1]}" for our, their in differ)


@pytest.mark.timeout(300)
def test_dump_of_groups_and_share_state(tmp_path: Path) -> None:
    """If this fails, Kafka's dump tool cannot read our records of groups, or the state of share partitions."""
    with prepared("broker-cy", tmp_path) as broker:
        broker.stop()
        logs = {
            name: [path for path in broker.data_dir.glob(f"{name}-*/*.log") if path.stat().st_size]
            for name in ("__consumer_offsets", "__share_group_state")
        }
        groups = dump_log_segments(logs["__consumer_offsets"], "--offsets-decoder")
        state = dump_log_segments(logs["__share_group_state"], "--share-group-state-decoder")
    kinds = {int(kind) for kind in re.findall(r'"type":"?(\d+)', groups)}
    assert {3, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 17, 19, 20, 21, 22, 23} <= kinds
    assert re.search(r'"groupId":"altered".*"startOffset":1', state)
    assert "Could not" not in groups + state
