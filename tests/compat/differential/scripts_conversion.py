"""Groups that change between the classic and the consumer protocol under each migration policy, and subscriptions to
topics that a client may not see.
"""

from __future__ import annotations

from collections.abc import Callable

from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from tests.compat.differential.build import id_of
from tests.compat.differential.members import (
    HEARTBEAT,
    JOIN,
    MEMBER_ID_REQUIRED,
    SYNC,
    Member,
    heartbeat,
    join,
    leave,
    sync,
)
from tests.compat.differential.script import PATIENCE_S, Run, script
from tests.compat.differential.scripts_group_requests import consumer_join, owned
from tests.support.wait import until

POLICIES = ("disabled", "upgrade", "downgrade", "bidirectional")
NEWEST = 1
TOPIC, LITERAL, DESCRIBE, ALLOW = 2, 3, 8, 3


def subscription(*topics: str) -> bytes:
    """The metadata of a classic consumer: version 0, topics, no user data."""
    names = b"".join(len(name).to_bytes(2, "big") + name.encode() for name in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


class Changing:
    """A group, and what its members send."""

    def __init__(self, run: Run, name: str, *topics: str) -> None:
        self.run = run
        self.group = f"{run.name}-{name}"
        self.name = name
        self.topics = topics

    def classic(self, name: str = "classic", instance: str | None = None) -> Member:
        known = f"{name} of {self.name}"
        return Member(self.run, self.group, known, instance, protocols=[("range", subscription(*self.topics))])

    def consumer(self, label: str, epoch: int, member: str = "m", **fields: object) -> None:
        request = consumer_join(self.topics[0], self.group, member_id=member, member_epoch=epoch, **fields)
        if epoch > 0 and not fields:
            request.topic_partitions = request.subscribed_topic_names = None
        self.run.ask(f"{self.name}: {label}", request, NEWEST)

    def shown(self, label: str) -> None:
        """Record the group as each protocol describes it."""
        described = messages.ConsumerGroupDescribeRequest(group_ids=[self.group])
        self.run.ask(f"{self.name}: {label}, described", described, NEWEST)
        classic = messages.DescribeGroupsRequest(groups=[self.group])
        self.run.ask(f"{self.name}: {label}, as classic", classic, 6)

    def beat(self, label: str, member: Member) -> None:
        request = heartbeat(self.group, member.generation, member.id, member.instance)
        self.run.ask(f"{self.name}: {label}", request, HEARTBEAT)

    def join(self, label: str, member: Member) -> None:
        label = f"{self.name}: {label}"
        if not member.id and member.instance is None:
            request = join(self.group, **member.how)
            assert self.run.offer(label, request, JOIN, member.name)
            if member.joined(f"{label}, without an id").error_code != MEMBER_ID_REQUIRED:
                return
        member.send_join(JOIN)
        member.joined(label)

    def sync(self, label: str, member: Member, given: bytes | None = None) -> None:
        assignments = [] if given is None else [(member.id, given)]
        request = sync(self.group, member.generation, member.id, assignments, member.instance)
        self.run.ask(f"{self.name}: {label}", request, SYNC)


def _converted(policy: str) -> Callable[[Run, int], None]:
    def work(run: Run, version: int) -> None:
        topic = run.topic(partitions=2)
        _classic_first(Changing(run, "classic first", topic))
        _consumer_first(Changing(run, "consumer first", topic))
        _static(Changing(run, "static", topic))
        _empty(Changing(run, "empty", topic), Changing(run, "empty consumer", topic))
        _replaced(Changing(run, "replaced", topic))

    work.__name__ = f"conversion_{policy}"
    return work


def _classic_first(group: Changing) -> None:
    """A consumer joins a classic group; both work, and the consumer leaves again."""
    first = group.classic()
    first.join()
    # Version 0 of an assignment: both partitions of the topic.
    name = group.topics[0].encode()
    both = b"\0\0\0\0\0\1" + len(name).to_bytes(2, "big") + name + bytes.fromhex("000000020000000000000001ffffffff")
    group.sync("the leader's sync", first, both)
    group.consumer("a consumer joins", 0)
    group.shown("joined")
    group.beat("the classic one's heartbeat", first)
    group.join("the classic one joins again", first)
    group.sync("the classic one's sync", first)
    group.beat("the classic one's heartbeat after the sync", first)
    group.consumer("the consumer's heartbeat", 2)
    group.join("the classic one joins a third time", first)
    group.sync("its third sync", first)
    group.consumer("the consumer's next heartbeat", 2)
    group.consumer("the consumer's heartbeat in the next epoch", 3)
    group.shown("both")
    group.consumer("the consumer leaves", -1)
    group.shown("alone")
    group.beat("the classic one's heartbeat alone", first)


def _consumer_first(group: Changing) -> None:
    """A classic member joins a consumer group; then the consumer leaves, and the classic one."""
    group.consumer("joins", 0)
    first = group.classic()
    group.join("a classic one joins", first)
    group.sync("its sync", first)
    owns = owned((id_of(group.run, group.topics[0]), [0]))
    group.consumer("the consumer gives a partition up", 1)
    group.consumer("it has given it up", 1, topic_partitions=owns)
    group.beat("the classic one's heartbeat", first)
    group.shown("both")
    group.consumer("leaves", -1)
    group.shown("alone")
    group.beat("alone", first)
    request = leave(group.group, (first.id or "nobody", None))
    group.run.ask(f"{group.name}: the classic one leaves", request, 5)
    group.shown("at the end")


def _static(group: Changing) -> None:
    """A static member comes back with the other protocol."""
    first = group.classic("static", "i")
    first.join()
    group.sync("sync", first, b"")
    group.consumer("comes back as a consumer", 0, instance_id="i")
    group.shown("came back")
    group.beat("the classic one's heartbeat", first)
    group.consumer("leaves for a time", -2, instance_id="i")
    again = group.classic("static again", "i")
    group.join("comes back as a classic one", again)
    group.shown("came back again")


def _replaced(group: Changing) -> None:
    """The only consumer of a group is a static one, and a classic one takes its place while it is away."""
    group.consumer("joins", 0, instance_id="i")
    group.consumer("leaves for a time", -2, instance_id="i")
    again = group.classic("in its place", "i")
    group.join("a classic one comes", again)
    group.shown("replaced")
    group.sync("sync", again, b"")


def _empty(group: Changing, other: Changing) -> None:
    """An empty group takes the protocol of the member that joins."""
    first = group.classic()
    first.join()
    first.sync((first.id, b""))
    group.run.quietly(leave(group.group, (first.id, None)), 3)
    group.consumer("a consumer joins", 0)
    group.shown("with a consumer")
    other.consumer("joins", 0)
    other.consumer("leaves", -1)
    second = other.classic()
    other.join("a classic one joins", second)
    other.sync("sync", second, b"")
    other.shown("with a classic one")


def _hide(run: Run, topic: str) -> None:
    """Allow the topic only to another principal."""
    request = messages.CreateAclsRequest
    rule = request.AclCreation(
        resource_type=TOPIC,
        resource_name=topic,
        resource_pattern_type=LITERAL,
        principal="User:other",
        host="*",
        operation=DESCRIBE,
        permission_type=ALLOW,
    )
    assert run.quietly(request(creations=[rule]), 3).results[0].error_code == 0

    def is_hidden() -> bool:
        return bool(run.described(topic).error_code)

    until(is_hidden, f"{topic} to be hidden", PATIENCE_S)


def _hidden(policy: str) -> Callable[[Run, int], None]:
    def work(run: Run, version: int) -> None:
        """Topics that the client may not see, in lists, in patterns, and in groups of both protocols."""
        seen, hidden = run.topic("-seen", partitions=2), run.topic("-hidden", partitions=2)
        _hide(run, hidden)
        group = Changing(run, "names", seen, hidden)
        group.consumer("hidden and seen", 0, subscribed_topic_names=[seen, hidden])
        group.consumer("hidden", 0, subscribed_topic_names=[hidden])
        group.consumer("seen", 0)
        group.consumer("hidden later", 1, subscribed_topic_names=[hidden, seen], topic_partitions=None)
        group.shown("names")
        pattern = f"{run.name}-.*"
        _with_pattern(Changing(run, "pattern", seen), pattern)
        mixed = Changing(run, "mixed", seen, hidden)
        first = mixed.classic()
        first.join()
        mixed.sync("sync", first, b"")
        mixed.consumer("a consumer joins", 0)
        mixed.shown("mixed")
        mixed.join("the classic one again", first)
        mixed.sync("its sync", first)

    work.__name__ = f"hidden_topics_{policy}"
    return work


def _with_pattern(group: Changing, pattern: str) -> None:
    group.consumer("joins", 0, subscribed_topic_names=None, subscribed_topic_regex=pattern)
    epoch = 1

    def assigned() -> bool:
        nonlocal epoch
        request = consumer_join(group.topics[0], group.group, member_epoch=epoch, topic_partitions=None)
        request.subscribed_topic_names = None
        answer = group.run.quietly(request, NEWEST)
        epoch = answer.member_epoch
        return answer.assignment is not None and bool(answer.assignment.topic_partitions)

    until(assigned, "the topics of the pattern", PATIENCE_S)
    group.shown("assigned")


for _policy in POLICIES:
    for _make in (_converted, _hidden):
        script(ApiKey.CONSUMER_GROUP_HEARTBEAT, broker=f"policy {_policy}", versions=[NEWEST])(_make(_policy))
