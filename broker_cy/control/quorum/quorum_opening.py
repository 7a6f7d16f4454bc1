"""How a node opens its part of the metadata quorum at the start: its voters, and its connections to other nodes.

With kraft.version 1 and above the voters are those of the newest VotersRecord in the metadata log or its snapshot; with
version 0 they are those of controller.quorum.voters, or this node alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker_cy.client.address import Address, parse_address
from broker_cy.client.pool import Pool
from broker_cy.control.link.controller_link import ControllerLink
from broker_cy.control.quorum.quorum_network import QuorumNetwork
from broker_cy.core.classes import NamedTuple
from broker_cy.quorum import wire_log
from broker_cy.quorum.election_state import ElectionState, QuorumError
from broker_cy.quorum.entries import KRaftVersion
from broker_cy.quorum.history import VoterHistory
from broker_cy.quorum.quorum import Quorum
from broker_cy.quorum.step import BOOTSTRAP, Timeouts
from broker_cy.quorum.voters import Endpoint, ReplicaKey, Voter, VoterSet
from broker_cy.quorum.wire import Identity

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Executor

    from broker_cy.client.outgoing import Outgoing
    from broker_cy.config import BrokerConfig
    from broker_cy.control.quorum.metadata_log import MetadataLog
    from broker_cy.core.randomness import Randomness
    from broker_cy.metadata.loader import Loader


class Reach(NamedTuple):
    """The connections to other nodes, for the quorum's messages and for requests to the active controller.

    A pool has a limited number of requests in flight. Clients may send any number of requests, which wait for an active
    controller. Votes and heartbeats must not wait for those, so each kind has a pool of its own.
    """

    pools: tuple[Pool, ...]
    network: QuorumNetwork
    link: ControllerLink


def open_quorum(
    config: BrokerConfig, me: Voter, files: MetadataLog, loader: Loader, randomness: Randomness
) -> tuple[Quorum, VoterSet, Loader]:
    """Return the state machine, its voters, and the loader of the entries that are certainly committed. Raises
    QuorumError if the voters disagree, or if quorum-state does not parse, and MetadataLogError, OSError.
    """
    stored = files.read_election_state()
    history = _history(config, loader, stored)
    is_only_voter = history.newest.voters.ids == (config.node_id,)
    if is_only_voter and not config.is_controller:
        raise QuorumError(_no_controller(config))
    if not is_only_voter:
        # Entries after the snapshot may be uncommitted.
        loader = files.load_snapshot()
    quorum = Quorum(
        me,
        history,
        stored,
        files.epochs(),
        randomness.integer,
        Timeouts(
            election_ms=config["controller.quorum.election.timeout.ms"],
            fetch_ms=config["controller.quorum.fetch.timeout.ms"],
            request_ms=config["controller.quorum.request.timeout.ms"],
            backoff_ms=config["controller.quorum.retry.backoff.ms"],
        ),
        snapshot_id=files.newest_snapshot(),
        bootstrap_servers=0 if is_only_voter else len(_bootstrap_servers(config)),
        auto_join=config["controller.quorum.auto.join.enable"],
    )
    return quorum, history.newest.voters, loader


def open_network(
    config: BrokerConfig,
    me: Voter,
    cluster_id: str,
    quorum: Quorum,
    files: MetadataLog,
    loop: asyncio.AbstractEventLoop,
    outgoing: Outgoing,
    executor: Executor | None,
) -> Reach:
    """Return the connections to other nodes, which are made when they are needed."""

    def address_of(node_id: int) -> Address | None:
        return _address_of(config, quorum, node_id)

    pool, own, forwarded = pools = tuple(Pool(f"broker-cy-{config.node_id}", outgoing) for _ in range(3))
    network = QuorumNetwork(
        Identity(cluster_id, me.key, config.network.controller_names[0]),
        address_of,
        pool,
        loop,
        config["controller.quorum.request.timeout.ms"],
        files,
        outgoing.clock,
        frozenset(Address(one.host, one.port) for one in me.endpoints),
        executor,
    )
    link = ControllerLink(config.node_id, own, forwarded, lambda: quorum.leader_id, address_of)
    return Reach(pools, network, link)


def _history(config: BrokerConfig, loader: Loader, stored: ElectionState | None) -> VoterHistory:
    """The voters. Raises QuorumError if quorum-state has others than the configuration."""
    listener = config.network.controller_names[0]
    configured = config.quorum_voters
    static = [Voter(ReplicaKey(voter.node_id), (Endpoint(listener, voter.host, voter.port),)) for voter in configured]
    first = loader.kraft_in_snapshot
    if loader.kraft.voters is not None:
        known = wire_log.from_record(first.voters) if first.voters is not None else VoterSet(static)
        history = VoterHistory(known, first.kraft_version)
        # All of them: the newest one may be undone, and whom it removes may have to stand until it is committed.
        for offset, kraft in loader.kraft_in_log:
            voters = (wire_log.from_record(kraft.voters),) if kraft.voters is not None else ()
            history.note(offset, (KRaftVersion(kraft.kraft_version), *voters))
        return history
    if not configured and (config.begins_cluster or _was_alone(stored, config.node_id)):
        static = [Voter(ReplicaKey(config.node_id))]
    ids = tuple(sorted(voter.key.id for voter in static))
    if stored is not None and stored.voters and tuple(sorted(stored.voters)) != ids:
        raise QuorumError(_voters_differ(config.node_id, stored.voters, ids, bool(configured)))
    return VoterHistory(VoterSet(static), loader.kraft.kraft_version)


def _was_alone(stored: ElectionState | None, node_id: int) -> bool:
    return stored is not None and stored.voters == (node_id,)


def _voters_differ(node_id: int, found: Sequence[int], wanted: Sequence[int], configured: bool) -> str:
    setting = (
        f"controller.quorum.voters names the nodes {list(wanted)}"
        if configured
        else f"without controller.quorum.voters node {node_id} is the only one"
    )
    return (
        f"the metadata quorum has the voters {sorted(found)}, but {setting}: name these voters in the setting, or "
        "start with an empty data directory"
    )


def _no_controller(config: BrokerConfig) -> str:
    """The error of a node that would lead a cluster of its own, although other controllers are configured."""
    servers = ", ".join(_bootstrap_servers(config))
    return (
        f"node {config.node_id} has been the only controller of its cluster, and its process.roles no longer has the "
        "role controller: give it that role again, or, if it is to join the cluster whose controllers are at "
        f"{servers}, directories that broker-cy storage format has made with the id of that cluster"
    )


def _bootstrap_servers(config: BrokerConfig) -> tuple[str, ...]:
    """The addresses where a node that knows no voter searches for the leader."""
    servers: tuple[str, ...] = tuple(config["controller.quorum.bootstrap.servers"])
    return servers or tuple(f"{voter.host}:{voter.port}" for voter in config.quorum_voters)


def _address_of(config: BrokerConfig, quorum: Quorum, node_id: int) -> Address | None:
    if node_id <= BOOTSTRAP:
        return parse_address(_bootstrap_servers(config)[BOOTSTRAP - node_id])
    endpoints = quorum.endpoints(node_id)
    names = config.network.controller_names
    found = next((one for one in endpoints if one.name in names), endpoints[0] if endpoints else None)
    return Address(found.host, found.port) if found is not None else None
