"""The quotas of clients on this node: the quotas of the metadata that apply to each client, and their use (KIP-13,
KIP-124, KIP-599). `connections.charging` counts the use and throttles connections; handlers of the controller use
`changes`.

While no quota is set at all, `is_on` is false, and connections do not ask.

Broker and controller of one process share it. As in Kafka, each node counts the use for itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, Protocol

from broker_cy.core.logs import facts
from broker_cy.metadata import quotas
from broker_cy.quotas.account import Account
from broker_cy.quotas.bucket import Bucket, MutationQuota
from broker_cy.quotas.entities import Entities, Meter
from broker_cy.quotas.rate import PacedRate

if TYPE_CHECKING:
    from broker_cy.config import BrokerConfig
    from broker_cy.core.clock import Clock
    from broker_cy.metadata.image import ImageDelta, MetadataImage
    from broker_cy.quotas.connections import ConnectionRates

LOGGER = logging.getLogger("broker_cy.server.client_quotas")

# Between two looks for entities that were not used for an hour.
EXPIRE_S: Final = 60.0
_USER: Final = "User:"


class Throttled(Protocol):
    """The connections of one set of listeners (ServerCore)."""

    def meter(self, quotas: ClientQuotas | None, generation: int) -> None:
        """Count the use of clients from now on, for these quotas; None: no quotas."""


class ClientQuotas:
    """`apply` is subscribed to the metadata; `attach` has a server core follow it."""

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        self._clock = clock
        windows, window_ms = config["quota.window.num"], config["quota.window.size.seconds"] * 1000
        changes_windows = config["controller.quota.window.num"]
        changes_window_ms = config["controller.quota.window.size.seconds"] * 1000

        def rates(wait_ms_max: int = 2**31 - 1) -> Entities[PacedRate]:
            return Entities(lambda tags, limit, now_ms: PacedRate(tags, limit, windows, window_ms, now_ms, wait_ms_max))

        self.produce = rates()
        self.fetch = rates()
        # As in Kafka, no wait is longer than a window; and one long request is not waited for over minutes.
        self.time = rates(window_ms)
        self._changes: Entities[Bucket] = Entities(
            lambda tags, limit, now_ms: Bucket(tags, limit, changes_windows, changes_window_ms, now_ms)
        )
        self._kinds: dict[str, Entities[Any]] = {
            quotas.PRODUCER_BYTE_RATE: self.produce,
            quotas.CONSUMER_BYTE_RATE: self.fetch,
            quotas.REQUEST_PERCENTAGE: self.time,
            quotas.CONTROLLER_MUTATION_RATE: self._changes,
        }
        # How fast connections to the listeners for clients begin; None on a node without such.
        self.connections: ConnectionRates | None = None
        self._cores: list[Throttled] = []
        self._generation = 0

    @property
    def is_on(self) -> bool:
        """Whether there is any quota of users and client ids."""
        return any(kind.limits for kind in self._kinds.values())

    def attach(self, core: Throttled) -> None:
        """Connections of this server core are throttled from now on."""
        self._cores.append(core)
        self._renew_cores()

    def meters(self) -> Iterator[tuple[str, Meter]]:
        """The meters, each with the key of its quota."""
        for key, kind in self._kinds.items():
            for meter in kind:
                yield key, meter

    def kinds(self) -> dict[str, Entities[Any]]:
        """The entities of each quota key."""
        if self.connections is None:
            return self._kinds
        return {**self._kinds, quotas.CONNECTION_CREATION_RATE: self.connections.addresses}

    # ---- from the metadata ----

    def apply(self, delta: ImageDelta, image: MetadataImage) -> None:
        """Take over the changes of a commit."""
        changed = set()
        for before, after in delta.quotas:
            record = before if after is None else after
            limit = None if after is None else after.value
            if record.entity[0].entity_type == quotas.IP:
                self._limit_address(record.entity[0].entity_name, limit)
                continue
            kind = self._kinds.get(record.key)
            if kind is not None:
                kind.limits.set(record.entity, limit)
                changed.add(record.key)
        for key in changed:
            self._kinds[key].renew()
        if changed:
            self._renew_cores()

    def _limit_address(self, address: str | None, limit: float | None) -> None:
        if self.connections is None:
            return
        try:
            self.connections.limit_address(address, limit)
        except ValueError as error:
            # Kafka's controller accepts names of hosts.
            LOGGER.warning("quota without effect: not an address", extra=facts(ip=address, reason=error))

    def expire(self) -> None:
        """Forget clients without use for an hour."""
        now_ms = self._now_ms()
        if self.connections is not None:
            self.connections.expire(now_ms)
        for kind in self._kinds.values():
            kind.expire(now_ms)
        self._renew_cores()

    def _renew_cores(self) -> None:
        self._generation = sum(kind.generation for kind in self._kinds.values())
        for core in self._cores:
            core.meter(self if self.is_on else None, self._generation)

    # ---- for connections and handlers ----

    def account(self, principal: str, client_id: bytes) -> Account:
        """The account of a client."""
        now_ms = self._now_ms()
        user, name = _user(principal), client_id.decode(errors="replace")
        found = [kind.of(user, name, now_ms) for kind in (self.produce, self.fetch, self.time)]
        if sum(kind.generation for kind in self._kinds.values()) != self._generation:
            # Others have made room for it.
            self._renew_cores()
        return Account(principal, client_id, self._generation, *found)

    def changes(self, principal: str, client_id: str | None, *, strict: bool) -> Changes | None:
        """The client's remaining quota of partition changes; None without a quota for it."""
        bucket = self._changes.of(_user(principal), client_id or "", self._now_ms())
        return None if bucket is None else Changes(MutationQuota(bucket, strict=strict), self._now_ms)

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)


class Changes:
    """The quota of one request that creates or deletes partitions. `charge` is for its operation."""

    def __init__(self, quota: MutationQuota, now_ms: Callable[[], int]) -> None:
        self._quota = quota
        self._now_ms = now_ms

    def charge(self, count: int) -> None:
        """Raises KafkaError if the change is refused."""
        self._quota.take(count, self._now_ms())

    def wait_ms(self) -> int:
        """How long the client has to wait."""
        wait_ms = self._quota.wait_ms(self._now_ms())
        if wait_ms:
            self._quota.bucket.note_wait(wait_ms)
        return wait_ms


def _user(principal: str) -> str:
    """Quotas are of users by name; other types of principals do not occur."""
    return principal.removeprefix(_USER)
