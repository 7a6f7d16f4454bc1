"""A client that adds and removes ACLs for `mallory`. As mallory, it writes to, reads from and describes each broker,
and asks controllers, which answer before they know all ACLs.

Each change of the ACLs makes a new version. A broker's answer to mallory must be right in a version that is not older
than those of its earlier answers, also after a restart. After a change was acknowledged, every leader must sooner or
later answer by it. Consumers must never read records that were denied (REFUSED in the history), nor those of a client
that did not log in.

A few lines here decide independently what the ACLs allow: Kafka's semantics for one principal, a topic and the cluster.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from broker_cy.core.errors import ErrorCode
from broker_cy.security.acls import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from broker_cy.wire import messages as m
from tests.history.operations import Fate
from tests.sim.world.clients.base import RETRIABLE, Spot
from tests.sim.world.clients.producers import BY_ID, Sender, result_of
from tests.sim.world.cluster import CONTROLLER_PORT
from tests.sim.world.network import PORT
from tests.sim.world.wire import Channel, Lost, NotLoggedIn

if TYPE_CHECKING:
    from tests.sim.world.world import World

MALLORY = "mallory"
TOPIC = "t0"
FETCH_BYTES = 1 << 16
# Attempts to connect to a controller that may be starting.
ATTEMPTS_MAX, ATTEMPTS_PAUSE_S = 60, 0.01
# Names and types of resource patterns; some of them match TOPIC.
PATTERNS = (
    (TOPIC, PatternType.LITERAL),
    ("*", PatternType.LITERAL),
    ("t", PatternType.PREFIXED),
    ("t0", PatternType.PREFIXED),
    ("t1", PatternType.LITERAL),
)
OPERATIONS: tuple[Operation, ...] = (Operation.WRITE, Operation.READ, Operation.DESCRIBE, Operation.ALL)
OF_CLUSTER: tuple[Operation, ...] = (Operation.ALTER, Operation.DESCRIBE, Operation.ALL)
# The checked operations on TOPIC, and on the cluster.
Right = tuple[ResourceType, Operation]
WRITE, READ, DESCRIBE = ((ResourceType.TOPIC, each) for each in OPERATIONS[:3])
DESCRIBE_CLUSTER = (ResourceType.CLUSTER, Operation.DESCRIBE)
JUDGED: tuple[Right, ...] = (WRITE, READ, DESCRIBE, DESCRIBE_CLUSTER)
IMPLYING: dict[Right, tuple[Operation, ...]] = {
    DESCRIBE: (Operation.WRITE, Operation.READ, Operation.DESCRIBE),
    DESCRIBE_CLUSTER: (Operation.ALTER, Operation.DESCRIBE),
}
DENIALS = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


class Rule(NamedTuple):
    resource: ResourceType
    name: str
    pattern: PatternType
    principal: str
    operation: Operation
    permission: Permission

    def concerns(self, resource: ResourceType) -> bool:
        """Whether the rule matches TOPIC, or the cluster."""
        if self.resource is not resource:
            return False
        name = TOPIC if resource is ResourceType.TOPIC else CLUSTER_NAME
        return name.startswith(self.name) if self.pattern is PatternType.PREFIXED else self.name in (name, "*")


def allowed(rules: frozenset[Rule], *, unless_named: bool) -> frozenset[Right]:
    """Return mallory's permissions. With `unless_named`, a resource without rules allows everything."""
    return frozenset(each for each in JUDGED if _allows(rules, *each, unless_named=unless_named))


def _allows(rules: frozenset[Rule], resource: ResourceType, operation: Operation, *, unless_named: bool) -> bool:
    found = [rule for rule in rules if rule.concerns(resource)]
    if not found:
        return unless_named

    def says(permission: Permission, *operations: Operation) -> bool:
        return any(rule.permission is permission and rule.operation in (Operation.ALL, *operations) for rule in found)

    implying = IMPLYING.get((resource, operation), (operation,))
    return not says(Permission.DENY, operation) and says(Permission.ALLOW, *implying)


class Warden(Sender):
    def __init__(self, world: World, name: str, host: str) -> None:
        super().__init__(world, name, host)
        self.rules: frozenset[Rule] = frozenset()
        # Mallory's permissions in each version; the newest version may not be committed yet.
        self.versions = [allowed(self.rules, unless_named=world.plan.allows_unnamed)]
        # The oldest version that is consistent with a broker's answers.
        self.least: dict[str, int] = {}
        self.strangers: dict[tuple[str, int], Channel] = {}
        self.brokers = [each for each in world.machines if world.machines[each].is_broker]
        self.controllers = list(world.plan.controllers or world.plan.hosts)

    async def step(self) -> None:
        await self._change()
        for _ in range(self.draw.randint(1, 4)):
            await self._try_something()
        while not await self._agrees():
            await self.back_off()
        self.successes += 1

    # --- the rules

    async def _change(self) -> None:
        """Add or remove a rule, and wait until the change is acknowledged."""
        if self.rules and self.draw.chance(0.5):
            rule = self.draw.choice(sorted(self.rules))
            self._begin(self.rules - {rule})
            flt = m.DeleteAclsRequest.DeleteAclsFilter(
                resource_type_filter=rule.resource,
                resource_name_filter=rule.name,
                pattern_type_filter=rule.pattern,
                principal_filter=rule.principal,
                host_filter="*",
                operation=rule.operation,
                permission_type=rule.permission,
            )
            while (await self.ask(m.DeleteAclsRequest(filters=[flt]), 3)).filter_results[0].error_code:
                await self.back_off()
            return
        resource, operations = ResourceType.TOPIC, OPERATIONS
        name, pattern = self.draw.choice(PATTERNS)
        if self.draw.chance(0.3):
            resource, operations = ResourceType.CLUSTER, OF_CLUSTER
            name, pattern = CLUSTER_NAME, PatternType.LITERAL
        principal = self.draw.choice([f"User:{MALLORY}", f"User:{MALLORY}", "User:*"])
        permission = self.draw.choice([Permission.ALLOW, Permission.ALLOW, Permission.DENY])
        rule = Rule(resource, name, pattern, principal, self.draw.choice(operations), permission)
        self._begin(self.rules | {rule})
        creation = m.CreateAclsRequest.AclCreation(
            resource_type=rule.resource,
            resource_name=rule.name,
            resource_pattern_type=rule.pattern,
            principal=rule.principal,
            host="*",
            operation=rule.operation,
            permission_type=rule.permission,
        )
        while (await self.ask(m.CreateAclsRequest(creations=[creation]), 3)).results[0].error_code:
            await self.back_off()

    def _begin(self, rules: frozenset[Rule]) -> None:
        self.rules = rules
        self.versions.append(allowed(rules, unless_named=self.world.plan.allows_unnamed))
        self.world.note(f"{self.name}: version {len(self.versions) - 1} of the rules: {sorted(self.versions[-1])}")

    # --- mallory

    async def _try_something(self) -> None:
        found = await self._leader()
        if found is None:
            return await self.back_off()
        host, spot = found
        try:
            match self.draw.randrange(10):
                case 0:
                    await self._do_without_a_login(host, spot)
                case 1:
                    await self._guess(host)
                case 2 | 3:
                    await self._look_around(self.draw.choice(self.brokers))
                case 4:
                    await self._fetch(host, spot)
                case 5 | 6 | 7:
                    open_ = [each for (each, port), to in self.strangers.items() if port != PORT and not to.is_lost]
                    down = [each for each in self.controllers if each not in open_]
                    await self._ask_controller(self.draw.choice(down or self.controllers))
                case _:
                    await self._produce(host, spot)
        except Lost:
            await self.back_off()

    async def _agrees(self) -> bool:
        """Whether a leader judges by the newest version, as far as that shows."""
        found = await self._leader()
        if found is None:
            return False
        try:
            newest = self.versions[-1]
            if await self._produce(*found) is not (WRITE in newest):
                return False
            return await self._fetch(*found) is (READ in newest)
        except Lost:
            return False

    async def _leader(self) -> tuple[str, Spot] | None:
        """The host that leads a partition of TOPIC, as far as some broker knows."""
        await self.look()
        spots = [spot for spot in self.spots if spot.topic == TOPIC]
        if not spots:
            return None
        spot = self.draw.choice(spots)
        host = await self.leader_of(spot)
        return None if host is None else (host, spot)

    async def _as_mallory(self, host: str, port: int = PORT) -> Channel:
        channel = self.strangers.get((host, port))
        if channel is None or channel.is_lost or self.draw.chance(0.05):
            if channel is not None:
                channel.close()
            channel = self.strangers[host, port] = Channel(self.world, self.name, host, MALLORY, port=port)
            await channel.open()
        return channel

    async def _produce(self, host: str, spot: Spot) -> bool | None:
        """Whether it was allowed; None if that does not show."""
        batch = self.some_batch(spot)
        try:
            channel = await self._as_mallory(host)
            code, offset = result_of(await channel.send(batch.request(-1, timeout_ms=1_000), BY_ID))
        except Lost:
            self.settle(batch, Fate.UNKNOWN)
            raise
        if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            self.settle(batch, Fate.REFUSED)
        elif code is ErrorCode.NONE:
            self.settle(batch, Fate.ACKED, offset)
        else:
            self.settle(batch, Fate.UNKNOWN)
        return self._observe(host, WRITE, code)

    async def _fetch(self, host: str, spot: Spot) -> bool | None:
        part = m.FetchRequest.FetchPartition(
            partition=spot.partition, fetch_offset=0, partition_max_bytes=FETCH_BYTES, current_leader_epoch=-1
        )
        topic = m.FetchRequest.FetchTopic(topic_id=spot.topic_id, partitions=[part])
        request = m.FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=FETCH_BYTES, topics=[topic])
        channel = await self._as_mallory(host)
        found = (await channel.send(request, BY_ID)).responses[0].partitions[0]
        code = ErrorCode(found.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            code = ErrorCode.NONE
        assert code is ErrorCode.NONE or not found.records, f"{self.name}: {host} sends records with {code.name}"
        return self._observe(host, READ, code)

    async def _look_around(self, host: str) -> None:
        channel = await self._as_mallory(host)
        answer = await channel.send(m.MetadataRequest(topics=None, allow_auto_topic_creation=False), 13)
        # If the topic is not listed, the broker may not know it yet.
        if any(topic.name == TOPIC for topic in answer.topics):
            self._observe(host, DESCRIBE, ErrorCode.NONE)

    async def _ask_controller(self, host: str) -> None:
        """Its listener serves as soon as the process runs, before it knows of all that was committed."""
        part = m.DescribeQuorumRequest.PartitionData(partition_index=0)
        topic = m.DescribeQuorumRequest.TopicData(topic_name="__cluster_metadata", partitions=[part])
        for _ in range(ATTEMPTS_MAX):
            try:
                channel = await self._as_mallory(host, CONTROLLER_PORT)
                answer = await channel.send(m.DescribeQuorumRequest(topics=[topic]), 2)
            except Lost:
                await asyncio.sleep(ATTEMPTS_PAUSE_S)
                continue
            code = ErrorCode(answer.error_code)
            # The rules are not loaded.
            if code is not ErrorCode.UNKNOWN_SERVER_ERROR:
                self._observe(host, DESCRIBE_CLUSTER, code)
            return

    async def _do_without_a_login(self, host: str, spot: Spot) -> None:
        """A request from a client that has not logged in closes the connection and has no effect."""
        batch = self.some_batch(spot)
        self.settle(batch, Fate.REFUSED)
        channel = Channel(self.world, self.name, host, None)
        try:
            await channel.open()
            await channel.send(batch.request(-1), BY_ID)
        finally:
            channel.close()
        raise AssertionError(f"{self.name}: {host} serves Produce without a login")

    async def _guess(self, host: str) -> None:
        channel = Channel(self.world, self.name, host, MALLORY, password="guessed")
        try:
            await channel.open()
        except NotLoggedIn:
            return
        finally:
            channel.close()
        raise AssertionError(f"{self.name}: {host} takes a wrong password")

    def _observe(self, host: str, right: Right, code: ErrorCode) -> bool | None:
        """Find the versions by which a node may have answered. Returns whether it allowed the operation."""
        name = f"{right[1].name} of {right[0].name}"
        if code not in (ErrorCode.NONE, *DENIALS):
            assert code in RETRIABLE | {ErrorCode.UNKNOWN_TOPIC_ID}, f"{self.name}: {name}: {code.name}"
            return None
        is_allowed = code is ErrorCode.NONE
        least = self.least.get(host, 0)
        fitting = (v for v in range(least, len(self.versions)) if (right in self.versions[v]) is is_allowed)
        version = next(fitting, None)
        assert version is not None, (
            f"{self.name}: {host} {'allows' if is_allowed else 'refuses'} {name}, which no version of the rules from "
            f"{least} to {len(self.versions) - 1} does"
        )
        self.least[host] = version
        return is_allowed
