"""The decisions of a seed before the world begins: machines, clients, and faults with their times. A plan is data, so
that a failing one can be shortened and kept (`python -m tests.sim.world`). The file is long because it is one list: the
profiles and the kinds of clusters, each with its chances.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from tests.sim.world.draws import Draws, Trace

# The longest virtual time with faults, and the largest number of faults.
DURATION_US_MAX = 6_000_000
FAULTS_MAX = 12
ADMIN = "admin"
# The client that changes the voters of the metadata quorum.
VOTERS = "voters"
# The client that elects leaders that may lack records.
UNCLEAN = "unclean"
# The kinds of clients that use groups of the consumer protocol (KIP-848), and those that they are drawn from.
CONSUMERS = ("consumer", "instance", "mixed", "manager")
CONSUMER_CLIENTS = ("consumer", "consumer", "consumer", "instance", "mixed", "mixed", "mixed", "manager", "plain")
# Members of share groups (KIP-932), their operator, and the clients that worlds with them are drawn from.
SHARES = "share"
SHARE_OPERATOR = "shareoperator"
SHARE_CLIENTS = (SHARES, SHARES, "plain", "txn")
# Threads of streams applications (KIP-1071), their manager, and the clients that worlds with them are drawn from.
STREAMS = ("streams", "director")
STREAMS_CLIENTS = ("streams", "streams", "streams", "streams", "director", "plain")
# The client that moves replicas between the disks of a machine.
MOVER = "mover"
# A fault of one of several data disks; its `amount` decides which one, and how it behaves. The other one is a disk that
# is replaced by an empty one.
FAIL_DISK, REPLACE_DISK = "fail_disk", "replace_disk"
# The clients that change ACLs, use delegation tokens, and have quotas.
SECURITY = ("warden", "holder", "metered")


@dataclass(frozen=True)
class Fault:
    """`kind` is a function of tests.sim.world.faults, `us` its duration, and `amount` a parameter of the kind."""

    at_us: int
    kind: str
    host: str
    us: int = 0
    amount: int = 0


@dataclass(frozen=True)
class Plan:
    """One world."""

    seed: int
    hosts: tuple[str, ...]
    # The drift of each machine's clock from the world's time, in millionths.
    drifts_ppm: tuple[int, ...]
    # The name of each client, whose letters are its kind, and its broker.
    clients: tuple[tuple[str, str], ...]
    faults: tuple[Fault, ...]
    duration_us: int
    # Every record is on disk before it is acknowledged or read: power may be lost without losing any.
    is_synced: bool
    # How long the clients continue after the faults, when all deadlines must be met.
    calm_us: int = 0
    # The hosts are the nodes of one cluster, and the clients reach all of them.
    is_cluster: bool = False
    # The hosts are processes of one machine.
    is_one_machine: bool = False
    # The hosts that are only controllers (process.roles); if any exist, the others are only brokers.
    controllers: tuple[str, ...] = ()
    # The first voters of a metadata quorum with kraft.version 1; none if the voters are static (kraft.version 0).
    voters: tuple[str, ...] = ()
    # Listeners require a login, and an authorizer decides. `allows_unnamed`: resources without ACLs allow everything.
    is_secured: bool = False
    allows_unnamed: bool = False
    # The metadata logs are on other disks than the data (metadata.log.dir).
    has_metadata_disks: bool = False
    # Each machine has so many data directories, each on a disk of its own; 0: one disk for everything.
    data_disks: int = 0
    # The metadata logs have small segments, and nodes often take snapshots, which replace the log before them.
    has_small_metadata_logs: bool = False
    # The hosts that are a second cluster, which mirrors topics of the first one.
    targets: tuple[str, ...] = ()
    # The hosts of the processes that copy from the first cluster into the second one, instead of links.
    copiers: tuple[str, ...] = ()
    # The hosts of the instances of an application of broker_streams.
    instances: tuple[str, ...] = ()
    # When the mirrors are promoted; 0: never. `reverses`: the first cluster mirrors the promoted topics afterwards.
    promote_us: int = 0
    reverses: bool = False
    # The faults after the reversal; their times count from there.
    later: tuple[Fault, ...] = ()

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Plan:
        """Raises ValueError, KeyError and TypeError for anything else than the result of to_json."""
        found: dict[str, Any] = json.loads(text)
        found["hosts"], found["drifts_ppm"] = tuple(found["hosts"]), tuple(found["drifts_ppm"])
        found["clients"] = tuple((name, host) for name, host in found["clients"])
        found["controllers"], found["voters"] = tuple(found["controllers"]), tuple(found["voters"])
        found["targets"], found["copiers"] = tuple(found["targets"]), tuple(found["copiers"])
        found["instances"] = tuple(found["instances"])
        found["faults"] = tuple(Fault(**each) for each in found["faults"])
        found["later"] = tuple(Fault(**each) for each in found["later"])
        return Plan(**found)

    def without_faults(self, dropped: set[int]) -> Plan:
        return replace(self, faults=tuple(each for at, each in enumerate(self.faults) if at not in dropped))

    def without_later(self, dropped: set[int]) -> Plan:
        return replace(self, later=tuple(each for at, each in enumerate(self.later) if at not in dropped))

    def peers_of(self, host: str) -> tuple[str, ...]:
        """The hosts of the cluster of a host."""
        return tuple(each for each in self.hosts if (each in self.targets) == (host in self.targets))

    @property
    def workers(self) -> tuple[tuple[str, str], ...]:
        """The clients other than administrators."""
        return tuple(each for each in self.clients if not each[0].startswith(ADMIN))

    @cached_property
    def has_consumers(self) -> bool:
        """Whether there are members of the consumer protocol."""
        return any(name.startswith(CONSUMERS) for name, _ in self.clients)

    @cached_property
    def has_shares(self) -> bool:
        """Whether there are members of a share group."""
        return any(name.startswith(SHARES) for name, _ in self.clients)

    @cached_property
    def has_streams(self) -> bool:
        """Whether there are streams groups."""
        return any(name.startswith(STREAMS) for name, _ in self.clients)

    def without_workers(self, dropped: set[int]) -> Plan:
        left = {each for at, each in enumerate(self.workers) if at not in dropped}
        return replace(self, clients=tuple(each for each in self.clients if each[0].startswith(ADMIN) or each in left))


# Kinds of faults by the guarantees of the world: a process may always end. Power may be lost, and disks may fail, only
# if everything is synced.
ENDS = ("kill", "kill_in_call", "stop")
LINKS = ("cut", "cut_up", "cut_down", "loss", "delay")
ALWAYS = (*ENDS, "pause", *LINKS, "set_clock")
ENDING = ("kill_ending", "refuse_markers")
DISKS = ("break_disk", "break_disk", "break_disk")
# These do not include the kinds of single profiles, so that the plans of other profiles stay the same.
SYNCED_ONLY = ("lose_power", "lose_power_in_call", "break_disk", "break_ending")


# In a cluster, the `amount` of a cut, loss or delay is the set of peers that the host is separated from.
EVERYBODY, NODES, ONE_NODE, CLIENTS, OTHER_CLUSTER = range(5)
KILLS = ("kill", "kill", "kill_in_call", "kill_controller")
POWER = ("lose_power", "lose_power", "lose_power_in_call")
IN_CLUSTER = ("stop", "stop", "pause", *LINKS, *LINKS, "set_clock")
MORE = ("plain10", "refused11", "reader12")
CLUSTER_CLIENTS = ("plain", "plain", "txn", "txn", "reader", "member", "refused", "static", "operator", "fencer")


@dataclass(frozen=True)
class Profile:
    """The kinds that the plans of a profile are drawn from. A kind that is named twice is drawn twice as often."""

    clients: tuple[str, ...]
    always: tuple[str, ...] = ALWAYS
    synced_only: tuple[str, ...] = SYNCED_ONLY
    # Probabilities that everything is synced, and that there is one machine.
    synced: float = 0.5
    alone: float = 0.85
    calm_us: tuple[int, ...] = (0,)


# The world as a whole, and parts of it that reach the rare states of one part of the broker in fewer seeds.
EVERYTHING = "everything"
CLUSTER = "cluster"
CLUSTER_DISKS = "cluster-disks"
CLUSTER_ROLES = "cluster-roles"
CLUSTER_VOTERS = "cluster-voters"
CLUSTER_UNCLEAN = "cluster-unclean"
CLUSTER_SECURED = "cluster-secured"
CLUSTER_DATA_DISKS = "cluster-data-disks"
CLUSTER_JBOD = "cluster-jbod"
CLUSTER_SNAPSHOTS = "cluster-snapshots"
CLUSTER_CONSUMERS = "cluster-consumers"
CLUSTER_SHARES = "cluster-shares"
CLUSTER_STREAMS = "cluster-streams"
MIRROR_LINK = "mirror-link"
MIRROR_COPY = "mirror-copy"
STREAMS_APP = "streams-app"
PROFILES = {
    EVERYTHING: Profile(
        (*2 * ("plain", "txn", "reader", "member"), "refused", "static", "operator", "fencer"), (*ALWAYS, *ENDING)
    ),
    "storage": Profile(("plain", "plain", "refused", "txn"), ENDS, synced=1.0, alone=1.0),
    "groups": Profile(
        ("member", "member", "member", "static", "plain", "operator"),
        (*ENDS, "pause", *LINKS),
        ("lose_power", *DISKS),
        alone=1.0,
        calm_us=(0, 0, 12_000_000),
    ),
    "transactions": Profile(
        ("txn", "txn", "txn", "reader", "fencer"),
        (*ENDS, "pause", *LINKS, *ENDING, *ENDING),
        ("lose_power", "break_ending", *DISKS),
        alone=1.0,
        calm_us=(0, 0, 8_000_000),
    ),
    "consumers": Profile(
        CONSUMER_CLIENTS,
        (*ENDS, "pause", *LINKS),
        ("lose_power", *DISKS),
        alone=1.0,
        calm_us=(0, 0, 12_000_000),
    ),
    "streams": Profile(
        ("streams", *STREAMS_CLIENTS),
        (*ENDS, "pause", *LINKS),
        ("lose_power", *DISKS),
        alone=1.0,
        calm_us=(0, 0, 12_000_000),
    ),
    # Several batches of a coordinator are in flight, and a full disk takes the ones that come later.
    "offsets": Profile(
        ("copier", "copier", "copier", "plain"),
        (*ENDS, "pause", *LINKS),
        ("lose_power", *DISKS, *3 * ("fill_behind",)),
        synced=0.8,
        alone=1.0,
    ),
    "clients": Profile(("plain", "refused", "txn", "reader", "member"), ("pause", *LINKS), (), synced=0.0, alone=1.0),
}


# Also the names of profiles whose plans are drawn in another way.
NAMES = (
    *PROFILES,
    CLUSTER,
    CLUSTER_DISKS,
    CLUSTER_ROLES,
    CLUSTER_VOTERS,
    CLUSTER_UNCLEAN,
    CLUSTER_SECURED,
    CLUSTER_DATA_DISKS,
    CLUSTER_JBOD,
    CLUSTER_SNAPSHOTS,
    CLUSTER_CONSUMERS,
    CLUSTER_SHARES,
    CLUSTER_STREAMS,
    MIRROR_LINK,
    MIRROR_COPY,
    STREAMS_APP,
)


def plan_of(seed: int, profile: str = EVERYTHING) -> Plan:
    """The plan of a seed."""
    if profile == CLUSTER:
        return _cluster_plan(seed)
    if profile == CLUSTER_DISKS:
        return _broken_cluster_plan(seed)
    if profile == CLUSTER_ROLES:
        return _roles_plan(seed)
    if profile == CLUSTER_VOTERS:
        return _voters_plan(seed)
    if profile == CLUSTER_UNCLEAN:
        return _unclean_plan(seed)
    if profile == CLUSTER_SECURED:
        return _secured_plan(seed)
    if profile == CLUSTER_DATA_DISKS:
        return _data_disks_plan(seed)
    if profile == CLUSTER_JBOD:
        return _jbod_plan(seed)
    if profile == CLUSTER_SNAPSHOTS:
        return _snapshots_plan(seed)
    if profile == CLUSTER_CONSUMERS:
        return _consumers_plan(seed)
    if profile == CLUSTER_SHARES:
        return _shares_plan(seed)
    if profile == CLUSTER_STREAMS:
        return _streams_plan(seed)
    if profile in (MIRROR_LINK, MIRROR_COPY):
        # Imported here, because it draws with the functions of this module.
        from tests.sim.world.mirror_plan import copy_plan, link_plan

        return link_plan(seed) if profile == MIRROR_LINK else copy_plan(seed)
    if profile == STREAMS_APP:
        from tests.sim.world.app_plan import app_plan

        return app_plan(seed)
    content = PROFILES[profile]
    draw = Draws(seed, "plan", Trace())
    is_synced = draw.chance(content.synced)
    hosts = ("broker1",) if draw.chance(content.alone) else ("broker1", "broker2")
    clients = []
    for host in hosts:
        clients.append((f"{ADMIN}-{host}", host))
        for number in range(draw.randint(3, 8)):
            clients.append((f"{draw.choice(content.clients)}{number}-{host}", host))
    duration_us = draw.randint(500_000, DURATION_US_MAX)
    kinds = content.always + (content.synced_only if is_synced else ())
    faults = [fault_of(draw, kinds, hosts, duration_us) for _ in range(draw.randint(0, FAULTS_MAX))]
    plan = _plan(draw, seed, hosts, clients, faults, duration_us, is_synced)
    return replace(plan, calm_us=draw.choice(content.calm_us))


def _cluster_plan(seed: int) -> Plan:
    """Three nodes that are one cluster."""
    draw = Draws(seed, "plan", Trace())
    hosts = ("broker1", "broker2", "broker3")
    is_synced, is_one_machine = draw.chance(0.3), draw.chance(0.3)
    clients = [(f"{ADMIN}-{CLUSTER}", CLUSTER)]
    for number in range(draw.randint(3, 7)):
        clients.append((f"{draw.choice(CLUSTER_CLIENTS)}{number}-{CLUSTER}", CLUSTER))
    # The first election takes the first second.
    duration_us = draw.randint(2_000_000, 1_000_000 + DURATION_US_MAX)
    # Without syncs only one node loses power, and no other node is killed. A node that cannot prove a clean shutdown
    # may lead only if no other replica can; if two nodes cannot, it is unknown which one lost records (KIP-966).
    unlucky = draw.choice(hosts)
    loses_power = not is_one_machine and draw.chance(0.5)
    kinds = IN_CLUSTER + (POWER if loses_power else ()) + (KILLS if is_synced or not loses_power else ())
    faults = []
    for _ in range(draw.randint(0, FAULTS_MAX)):
        fault = fault_of(draw, kinds, hosts, duration_us)
        if fault.kind in LINKS and fault.kind != "loss":
            fault = replace(fault, amount=draw.choice([EVERYBODY, NODES, NODES, ONE_NODE, ONE_NODE, CLIENTS]))
        if fault.kind in POWER and not is_synced:
            fault = replace(fault, host=unlucky)
        faults.append(fault)
    plan = _plan(draw, seed, hosts, clients, faults, duration_us, is_synced)
    return replace(plan, is_cluster=True, is_one_machine=is_one_machine)


def _broken_cluster_plan(seed: int) -> Plan:
    """Three nodes that are one cluster, in which everything is synced, and the disk of one node fails: the data that it
    rejects may be lost in part, and the others must not lose anything.
    """
    plan = _cluster_plan(seed)
    draw = Draws(seed, "disks", Trace())
    host = draw.choice(plan.hosts)
    broken = [fault_of(draw, DISKS, (host,), plan.duration_us) for _ in range(draw.randint(1, 3))]
    faults = tuple(sorted((*plan.faults, *broken), key=lambda each: each.at_us))
    return replace(plan, is_synced=True, faults=faults)


def _roles_plan(seed: int) -> Plan:
    """The same plan with three brokers and three controllers; half of the faults are those of controllers. Controllers
    have no partitions, and sync everything before they acknowledge it: each of them may lose its power.
    """
    plan = _cluster_plan(seed)
    draw = Draws(seed, "roles", Trace())
    controllers = ("controller4", "controller5", "controller6")
    faults = tuple(replace(each, host=draw.choice(controllers)) if draw.chance(0.5) else each for each in plan.faults)
    return replace(
        plan,
        hosts=(*plan.hosts, *controllers),
        drifts_ppm=(*plan.drifts_ppm, *(draw.randint(-300, 300) for _ in controllers)),
        faults=faults,
        controllers=controllers,
    )


def _voters_plan(seed: int) -> Plan:
    """A cluster with kraft.version 1, and an operator who changes its voters. A quarter of the worlds are those of
    `cluster`, the others those of `cluster-roles` with a fourth controller, which may not be a voter in the beginning.
    """
    draw = Draws(seed, "voters", Trace())
    if draw.chance(0.25):
        plan = _cluster_plan(seed)
        candidates = plan.hosts
    else:
        plan = _roles_plan(seed)
        more = "controller7"
        candidates = (*plan.controllers, more)
        plan = replace(
            plan,
            hosts=(*plan.hosts, more),
            drifts_ppm=(*plan.drifts_ppm, draw.randint(-300, 300)),
            controllers=candidates,
            faults=tuple(
                replace(each, host=more) if each.host in plan.controllers and draw.chance(0.25) else each
                for each in plan.faults
            ),
        )
    voters = tuple(sorted(draw.sample(candidates, draw.choice([1, 2, 3, len(candidates)]))))
    clients = (*plan.clients, (f"{VOTERS}-{CLUSTER}", CLUSTER))
    return replace(plan, clients=clients, voters=voters)


def _unclean_plan(seed: int) -> Plan:
    """A plan of `cluster-roles` with an administrator of unclean elections, and with outages: two brokers are cut off
    until the third one is alone in sync, and that one stands still or ends when they come back.
    """
    plan = _roles_plan(seed)
    draw = Draws(seed, "unclean", Trace())
    brokers = [each for each in plan.hosts if each not in plan.controllers]
    may_kill = plan.is_synced or not any(each.kind in POWER for each in plan.faults)
    faults = list(plan.faults)
    duration_us = plan.duration_us
    for _ in range(draw.randint(1, 2)):
        at_us = duration_us - draw.randint(0, 1_500_000)
        last = draw.choice(brokers)
        cut_us = draw.randint(2_200_000, 3_500_000)
        faults += [
            Fault(at_us + draw.randint(0, 200_000), "cut", each, cut_us, NODES) for each in brokers if each != last
        ]
        ending = "kill" if may_kill and draw.chance(0.3) else "pause"
        faults.append(Fault(at_us + draw.randint(1_900_000, cut_us), ending, last, draw.randint(2_500_000, 5_000_000)))
        duration_us = at_us + 7_000_000
    clients = (*plan.clients, (f"{UNCLEAN}-{CLUSTER}", CLUSTER), *((f"{each}-{CLUSTER}", CLUSTER) for each in MORE))
    ordered = tuple(sorted(faults, key=lambda each: each.at_us))
    return replace(plan, clients=clients, faults=ordered, duration_us=duration_us)


def _secured_plan(seed: int) -> Plan:
    """A plan of `cluster` or of `cluster-roles` whose listeners want a login, with clients that change ACLs, tokens and
    quotas.
    """
    draw = Draws(seed, "secured", Trace())
    plan = _cluster_plan(seed) if draw.chance(0.5) else _roles_plan(seed)
    clients = (*plan.clients, *((f"{each}-{CLUSTER}", CLUSTER) for each in SECURITY))
    return replace(plan, clients=clients, is_secured=True, allows_unnamed=draw.chance(0.5))


def _data_disks_plan(seed: int) -> Plan:
    """The clients of a plan of `cluster`, on nodes whose metadata logs are on other disks than their data. The data
    disks of two of them die, one after the other, and nothing else happens.
    """
    plan = _cluster_plan(seed)
    draw = Draws(seed, "data disks", Trace())
    first, second = draw.sample(plan.hosts, 2)
    begins_us, lasts_us = draw.randint(1_000_000, 2_000_000), draw.randint(2_500_000, 3_500_000)
    # The first one is back by then.
    later_us = begins_us + lasts_us + draw.randint(2_000_000, 3_000_000)
    faults = (
        Fault(begins_us, "lose_data_disk", first, lasts_us),
        Fault(later_us, "lose_data_disk", second, draw.randint(2_500_000, 3_500_000)),
    )
    return replace(
        plan,
        clients=(*plan.clients, (f"plain10-{CLUSTER}", CLUSTER)),
        faults=faults,
        duration_us=later_us + 3_000_000,
        has_metadata_disks=True,
    )


def _jbod_plan(seed: int) -> Plan:
    """The clients of a plan of `cluster`, on nodes with two or three data disks, and an administrator who moves
    replicas between these. Disks fail in every way, one after the other or at the same time, and processes end. A disk
    is replaced by an empty one only if everything else happens to the same node: then others have all records.
    """
    plan = _cluster_plan(seed)
    draw = Draws(seed, "jbod", Trace())
    disks, is_synced = draw.choice([2, 2, 3]), draw.chance(0.5)
    may_replace = draw.chance(0.3)
    unlucky = draw.choice(plan.hosts)
    duration_us = max(plan.duration_us, 4_000_000)
    kinds = (*4 * (FAIL_DISK,), "stop", "kill", "kill_in_call", *(POWER if is_synced else ()))
    kinds += 2 * (REPLACE_DISK,) if may_replace else (FAIL_DISK,)
    faults = []
    for _ in range(draw.randint(1, FAULTS_MAX)):
        fault = fault_of(draw, kinds, (unlucky,) if may_replace else plan.hosts, duration_us)
        if fault.kind in (FAIL_DISK, REPLACE_DISK):
            fault = replace(fault, amount=draw.randint(0, 999))
        faults.append(replace(fault, at_us=max(fault.at_us, 1_200_000)))
    return replace(
        plan,
        clients=(*plan.clients, (f"plain10-{CLUSTER}", CLUSTER), (f"{MOVER}-{CLUSTER}", CLUSTER)),
        faults=tuple(sorted(faults, key=lambda each: each.at_us)),
        duration_us=duration_us,
        is_synced=is_synced,
        is_one_machine=False,
        data_disks=disks,
    )


def _snapshots_plan(seed: int) -> Plan:
    """A plan of `cluster` or of `cluster-roles`, in which snapshots often replace the beginning of the metadata log: a
    node that was away for a moment may need the leader's snapshot.
    """
    draw = Draws(seed, "snapshots", Trace())
    plan = _cluster_plan(seed) if draw.chance(0.5) else _roles_plan(seed)
    return replace(plan, has_small_metadata_logs=True)


def _consumers_plan(seed: int) -> Plan:
    """The faults of a plan of `cluster`, with members of the consumer protocol in place of its clients."""
    plan = _cluster_plan(seed)
    draw = Draws(seed, "consumers", Trace())
    kinds = ["consumer", "consumer", "plain", *draw.sample(CONSUMER_CLIENTS, draw.randint(2, 5))]
    clients = [(f"{kind}{number}-{CLUSTER}", CLUSTER) for number, kind in enumerate(kinds)]
    return replace(plan, clients=(plan.clients[0], *clients))


def _shares_plan(seed: int) -> Plan:
    """The faults of a plan of `cluster` or of `cluster-disks`, with members of a share group among its clients, and in
    half of the worlds an operator of its records.
    """
    draw = Draws(seed, "shares", Trace())
    plan = _cluster_plan(seed) if draw.chance(0.7) else _broken_cluster_plan(seed)
    kinds = [SHARES, SHARES, "plain", *(draw.choice(SHARE_CLIENTS) for _ in range(draw.randint(1, 3)))]
    clients = [(f"{kind}{number}-{CLUSTER}", CLUSTER) for number, kind in enumerate(kinds)]
    plan = replace(plan, clients=(plan.clients[0], *clients), calm_us=draw.choice([0, 0, 4_000_000]))
    plan = _deposed_plan(plan, draw) if draw.chance(0.3) else plan
    return (
        replace(plan, clients=(*plan.clients, (f"{SHARE_OPERATOR}-{CLUSTER}", CLUSTER))) if draw.chance(0.5) else plan
    )


def _deposed_plan(plan: Plan, draw: Draws) -> Plan:
    """With another outage instead of the faults: two brokers lose each other, and one of them may be the active
    controller. Then the other one does not learn that it was replaced, and still reaches clients and the share
    coordinator.
    """
    at_us, lasts_us = draw.randint(1_500_000, 2_500_000), draw.randint(2_500_000, 5_000_000)
    fault = Fault(at_us, "cut", draw.choice(plan.hosts), lasts_us, ONE_NODE)
    return replace(plan, faults=(fault,), duration_us=at_us + lasts_us + 500_000)


def _streams_plan(seed: int) -> Plan:
    """The faults of a plan of `cluster` or of `cluster-disks`, with threads of streams applications."""
    draw = Draws(seed, "streams", Trace())
    plan = _cluster_plan(seed) if draw.chance(0.7) else _broken_cluster_plan(seed)
    kinds = [
        "streams",
        "streams",
        "streams",
        "plain",
        *(draw.choice(STREAMS_CLIENTS) for _ in range(draw.randint(1, 4))),
    ]
    clients = [(f"{kind}{number}-{CLUSTER}", CLUSTER) for number, kind in enumerate(kinds)]
    return replace(plan, clients=(plan.clients[0], *clients))


def with_only(plan: Plan, kind: str) -> Plan:
    """The same world with faults of one kind. Everything is synced, so that each kind is allowed."""
    draw = Draws(plan.seed, f"only {kind}", Trace())
    faults = [fault_of(draw, (kind,), plan.hosts, plan.duration_us) for _ in range(FAULTS_MAX // 2)]
    if plan.is_cluster and kind in LINKS and kind != "loss":
        faults = [replace(fault, amount=draw.choice([NODES, ONE_NODE])) for fault in faults]
    return replace(plan, is_synced=True, faults=tuple(sorted(faults, key=lambda fault: fault.at_us)))


def _plan(
    draw: Draws,
    seed: int,
    hosts: tuple[str, ...],
    clients: list[tuple[str, str]],
    faults: list[Fault],
    duration_us: int,
    is_synced: bool,
) -> Plan:
    """A plan with clocks that drift, and the faults in the order of their times."""
    drifts_ppm = tuple(draw.randint(-300, 300) for _ in hosts)
    ordered = tuple(sorted(faults, key=lambda each: each.at_us))
    return Plan(seed, hosts, drifts_ppm, tuple(clients), ordered, duration_us, is_synced)


def fault_of(draw: Draws, kinds: tuple[str, ...], hosts: tuple[str, ...], duration_us: int) -> Fault:
    """A fault of one of the kinds, at one of the hosts."""
    kind = draw.choice(kinds)
    at_us = draw.randint(300_000, duration_us)
    host = draw.choice(hosts)
    if kind in ("kill_in_call", "lose_power_in_call"):
        return Fault(at_us, kind, host, amount=draw.choice([1, 2, 3, 5, 8, 13, 21, draw.randint(1, 60)]))
    if kind == "set_clock":
        # All together stay below an hour, beyond which brokers refuse timestamps of clients.
        return Fault(at_us, kind, host, amount=draw.choice([-200_000, -1_000, 1_000, 60_000, 200_000]))
    if kind == "loss":
        return Fault(at_us, kind, host, draw.randint(100_000, 3_000_000), draw.choice([1, 10, 30]))
    return Fault(at_us, kind, host, draw.choice([20_000, 300_000, 2_000_000, draw.randint(1, 8_000_000)]))
