"""A program written for Apache Kafka 4.3.1 cannot see a difference: the responses of every API in every
version to the scripts in `differential/` are compared with those of Kafka (`record_answers` records them).
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.compat.differential import answers
from tests.compat.differential.brokers import SETTINGS, make_ready, scripts_of
from tests.compat.differential.deliberate import DELIBERATE
from tests.compat.differential.script import SCRIPTS as _REGISTERED
from tests.compat.differential.script import Entry, run_script
from tests.compat.differential.scripts import SCRIPTS
from tests.support import needs
from tests.support.broker import BrokerProcess
from tests.support.kafka_peer import KafkaPeer

assert SCRIPTS is _REGISTERED


@pytest.fixture(scope="module")
def recorded() -> answers.Answers:
    return answers.load()


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, BrokerProcess]]:
    """Brokers, one for each set of settings; each starts when it is first requested."""
    started: dict[str, BrokerProcess] = {}

    class Started(dict[str, BrokerProcess]):
        def __missing__(self, name: str) -> BrokerProcess:
            peer = BrokerProcess(tmp_path_factory.mktemp(name), SETTINGS[name])
            self[name] = peer
            peer.start()
            make_ready(peer)
            return peer

    started = Started()
    try:
        yield started
    finally:
        for peer in started.values():
            peer.close()


@pytest.mark.parametrize("entry", SCRIPTS.values(), ids=lambda entry: entry.name)
def test_answers_are_those_of_kafka(entry: Entry, brokers: dict[str, BrokerProcess], recorded: answers.Answers) -> None:
    """If this fails, a client that relies on Kafka's response to this gets another one."""
    theirs = recorded[entry.name]
    ours = run_script(brokers[entry.broker], entry).answers
    assert list(ours) == list(theirs), "the script has changed since the answers were recorded"
    wrong = [
        f"{label}{path}: Kafka {their!r}, we {our!r}"
        for label in theirs
        for path, their, our in answers.differences(theirs[label], ours[label])
        if answers.excuse(f"{entry.name}: {label}", path, their, our) is None
    ]
    assert not wrong, "\n" + "\n".join(wrong)


VARIES = (
    # Kafka wakes a waiting fetch before or after it moves the high watermark.
    "fetch_that_waits-v*.high_watermark",
    "fetch_that_waits-v*.last_stable_offset",
    # The text has the id of a topic.
    "share_offsets_altered-v*: *, negative.error_message",
    # The broker draws the id of one of two members, and the hashes of both decide who gets which partition.
    "consumers_in_other_groups-v*: .*, epoch 0*assignment.topic_partitions*.partitions*",
    # Kafka describes groups as of the newest replicated record: one without a record may be missing.
    "describe_groups-v*: .only an id was given.groups*",
    "consumer_members_with_unusual_values-v*: .member_id='', then.groups*assignment",
    # A fetch that must not wait may be over before Kafka has read.
    "share_fetches_with_unusual_values-v*: *max_wait_ms=-*.responses*",
    # A member may have its assignment since the epoch before.
    "sharers_with_unusual_values-v*: *member_epoch=2*.assignment",
)


@pytest.mark.full
@needs.kafka
@pytest.mark.timeout(600)
@pytest.mark.parametrize("broker", SETTINGS)
def test_kafka_gives_the_recorded_answers(broker: str, tmp_path: Path, recorded: answers.Answers) -> None:
    """If this fails, our responses are compared with responses that Kafka does not give."""
    peer = KafkaPeer(tmp_path, SETTINGS[broker])
    try:
        peer.start()
        make_ready(peer)
        found = [
            (f"{entry.name}: {path}", said, now)
            for entry in scripts_of(broker)
            for path, said, now in answers.differences(recorded[entry.name], run_script(peer, entry).answers)
        ]
    finally:
        peer.close()
    wrong = [each for each in found if not any(fnmatchcase(each[0], pattern) for pattern in VARIES)]
    assert not wrong, "\n".join(f"{where}: recorded {said!r}, now {now!r}" for where, said, now in wrong)


def test_answers_are_recorded_for_every_script(recorded: answers.Answers) -> None:
    """If this fails, a script that was added and never recorded compares nothing."""
    assert recorded.keys() == SCRIPTS.keys(), "record the answers anew"
    assert all(recorded.values()), "a script without an answer"


def test_every_deliberate_difference_is_about_a_step(recorded: answers.Answers) -> None:
    """A line about a removed step would excuse whatever step gets its name."""
    steps = [f"{name}: {label}" for name, said in recorded.items() for label in said]
    assert [known for known in DELIBERATE if not any(fnmatchcase(step, known.step) for step in steps)] == []
