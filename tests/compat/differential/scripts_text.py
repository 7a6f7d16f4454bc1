"""Strings that are not UTF-8: Kafka reads U+FFFD for invalid bytes, and continues."""

from __future__ import annotations

from broker_cy.wire import codec, messages
from broker_cy.wire.frame import ApiKey
from broker_cy.wire.layout import Message
from tests.compat.differential.build import batch, create, fetch, list_offsets, metadata, new_topic, part, produce
from tests.compat.differential.members import heartbeat, join
from tests.compat.differential.script import Run, script
from tests.compat.differential.scripts_group_offsets import commit, committed

# Java counts one error for a surrogate, whole or truncated, and otherwise the same number as Python.
WRONG = {
    "never a byte": b"\xff",
    "Latin-1": b"t\xf6pic",
    "two bytes, cut off": b"\xc3(",
    "two bytes for one": b"\xc0\xaf",
    "three bytes, cut off": b"ok\xe2\x82",
    "three bytes for one": b"\xe0\x80\x80",
    "three bytes, cut off by others": b"\xe2\x82\xed\xa0x",
    "surrogate": b"\xed\xa0\x80",
    "surrogates": b"\xed\xa0\xbd\xed\xb8\x80",
    "surrogate, cut off": b"\xed\xa0x\xed\xbf",
    "four bytes, cut off": b"\xf0\x9f\x98",
    "four bytes, cut off by others": b"\xf0\x9f\xed\xa0\x80\xf0\x9f\x98x",
    "behind the last": b"\xf4\x90\x80\x80",
    "five bytes": b"\xf8\x88\x80\x80\x80",
}


def stand_in(wrong: bytes) -> str:
    return "Q" * len(wrong)


def _ask(run: Run, label: str, request: Message, version: int, wrong: bytes) -> None:
    """`request` contains the placeholder for `wrong`."""
    body = codec.encode(request, version)
    place = stand_in(wrong).encode()
    assert body.count(place) == 1
    run.client().send_body(int(type(request).API_KEY), version, body.replace(place, wrong))
    run.receive(label)


@script(ApiKey.METADATA, versions=[8, 12])
def names_not_utf8(run: Run, version: int) -> None:
    for label, wrong in WRONG.items():
        _ask(run, label, metadata([stand_in(wrong)]), version, wrong)


@script(ApiKey.PRODUCE, versions=[7, 12])
def data_not_utf8(run: Run, version: int) -> None:
    for label, wrong in WRONG.items():
        topics = {stand_in(wrong): {0: batch(b"-")}}
        _ask(run, f"produce: {label}", produce(run, version, topics), version, wrong)
        _ask(run, f"fetch: {label}", fetch(run, version, {stand_in(wrong): [part(0)]}), version, wrong)


@script(ApiKey.OFFSET_COMMIT, versions=[6, 8])
def requests_not_utf8(run: Run, version: int) -> None:
    """The same for APIs that parse their strings in other places; `version` is that of OffsetCommit."""
    topic = run.topic()
    wrong = b"w\xf6rd\xed\xa0\x80"
    word = stand_in(wrong)
    _ask(run, "offsets of a topic", list_offsets({word: [(0, -1)]}), 7, wrong)
    _ask(run, "new topic", create(new_topic(word)), 7, wrong)
    _ask(run, "setting of a new topic", create(new_topic(f"{topic}-new", configs=[("retention.ms", word)])), 7, wrong)
    _ask(run, "commit for a group", commit(run, version, word, {topic: [(0, 5)]}), version, wrong)
    _ask(run, "committed by a group", committed(run, 7, word, None), 7, wrong)
    _ask(run, "commit with words", commit(run, version, f"{topic}-g", {topic: [(0, 5, word)]}), version, wrong)
    run.ask("committed with words", committed(run, 7, f"{topic}-g", None), 7)
    _ask(run, "member", join(topic, word), 5, wrong)
    _ask(run, "heartbeat of a member", heartbeat(topic, 1, word), 4, wrong)
    _ask(run, "group described", messages.DescribeGroupsRequest(groups=[word]), 5, wrong)
    request = messages.ApiVersionsRequest(client_software_name=word, client_software_version="1")
    _ask(run, "name of a program", request, 3, wrong)
