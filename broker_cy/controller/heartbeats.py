"""The brokers that are heard from: the soft state of the active controller (Kafka's BrokerHeartbeatManager).

Nothing here is in the log: a new controller starts all sessions afresh (`activate`), and may then learn by other means,
such as probes of all brokers, that some of them are dead; `FenceBrokers` takes those. Times are arguments, in
milliseconds of any monotonic clock.

Invariant: a broker that is unfenced in the committed state has a contact here, at most `session_timeout_ms` old, or is
in the answer of `expired`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from broker_cy.core.classes import NamedTuple, dataclass
from broker_cy.metadata.image import BrokerImage

SESSION_TIMEOUT_MS = 9_000  # Kafka's default of broker.session.timeout.ms
_NEVER = 2**63 - 1
# A live broker that was fenced is unfenced immediately. If it is fenced again within FLAP_FORGIVEN_MS, it stays fenced
# for FLAP_HOLD_MS, and twice as long each further time: each change moves leaders, and clients with them.
FLAP_HOLD_MS = 500
FLAP_HOLD_MS_MAX = 8_000
FLAP_FORGIVEN_MS = 300_000
# How long a refusal counts; a node that is still refused reports again within that time.
REFUSED_MS = 3_000


class RefusedConnection(NamedTuple):
    """The times of a node's first and last report that a broker refuses it, without a pause of REFUSED_MS."""

    first_ms: int
    last_ms: int


@dataclass(slots=True)
class Contact:
    """The last contact of one incarnation of a broker.

    The broker must have applied the metadata up to `registered_at`, the offset of its registration, before it is
    unfenced. `shutdown_at` is the end of the log when its controlled shutdown began, -1 before: it may stop when the
    other brokers have applied the log up to there, so that they send no client to it. `heard` is whether it has sent a
    heartbeat, and got no answer since that it may stop. `flaps` counts how often in a row it was fenced without a
    request, the last time at `fenced_ms`. Since its last heartbeat, `refused_by` has the nodes, by id, whose
    connections it refused after it had accepted earlier ones; `is_cut`: the connection of the active controller to it
    has ended.
    """

    epoch: int
    last_ms: int
    heard: bool = False
    metadata_offset: int = -1
    registered_at: int = -1
    shutdown_at: int = -1
    flaps: int = 0
    fenced_ms: int = -_NEVER
    refused_by: dict[int, RefusedConnection] = field(default_factory=dict)
    is_cut: bool = False

    @property
    def held_until_ms(self) -> int:
        """When it may be unfenced."""
        if self.flaps < 2:
            return -_NEVER
        return self.fenced_ms + min(FLAP_HOLD_MS << min(self.flaps - 2, 16), FLAP_HOLD_MS_MAX)

    def fence(self, now_ms: int) -> None:
        """It is fenced, and has not asked for it."""
        self.flaps = self.flaps + 1 if now_ms - self.fenced_ms <= FLAP_FORGIVEN_MS else 1
        self.fenced_ms = now_ms
        # Kafka's controller does not resume a shutdown that the end of the session interrupted.
        self.shutdown_at = -1

    def beat(self, now_ms: int) -> None:
        """Its process runs: reports of its end were wrong."""
        self.last_ms = now_ms
        self.refused_by.clear()
        self.is_cut = False

    def refuse(self, observer: int, now_ms: int) -> None:
        """Note that it refuses the connections of the node `observer`."""
        known = self.refused_by.get(observer)
        first_ms = known.first_ms if known is not None and self.is_refused(observer, now_ms) else now_ms
        self.refused_by[observer] = RefusedConnection(first_ms, now_ms)

    def is_refused(self, observer: int, now_ms: int) -> bool:
        """Whether the node was refused lately."""
        known = self.refused_by.get(observer)
        return known is not None and now_ms - known.last_ms <= REFUSED_MS

    @property
    def is_shutting_down(self) -> bool:
        return self.shutdown_at >= 0


class Heartbeats:
    """The contacts of all registered brokers, by id. Contacts of unregistered brokers stay until another controller is
    active, so their number is bounded by the ids.
    """

    __slots__ = ("_contacts", "session_timeout_ms")

    def __init__(self, session_timeout_ms: int = SESSION_TIMEOUT_MS) -> None:
        self.session_timeout_ms = session_timeout_ms
        self._contacts: dict[int, Contact] = {}

    def __repr__(self) -> str:
        return f"Heartbeats({self._contacts})"

    def activate(self, brokers: Mapping[int, BrokerImage], end_offset: int, now_ms: int, own: int = -1) -> None:
        """Start the session of every broker now, because this node has just become the active controller. The offsets
        of the registrations are not known here, so a fenced broker has to reach the end of the log.

        The broker with the id `own` runs in this process. It has no session before its first heartbeat: the registered
        incarnation may be that of a process which this one follows, and need not wait for.
        """
        self._contacts = {
            broker.broker_id: Contact(
                broker.epoch,
                now_ms,
                heard=not broker.fenced and broker.broker_id != own,
                registered_at=end_offset - 1,
            )
            for broker in brokers.values()
        }

    def register(self, broker_id: int, epoch: int, registered_at: int, now_ms: int) -> None:
        """Note a registration. An earlier controlled shutdown begins again with the next heartbeat."""
        old = self._contacts.get(broker_id)
        if old is None or old.epoch != epoch:
            self._contacts[broker_id] = Contact(epoch, now_ms, registered_at=registered_at)
            return
        old.beat(now_ms)
        old.registered_at = registered_at
        old.metadata_offset = old.shutdown_at = -1

    def contact(self, broker: BrokerImage) -> Contact:
        """The contact of the registered incarnation; a new one, as if never heard from, if none is known."""
        found = self._contacts.get(broker.broker_id)
        if found is None or found.epoch != broker.epoch:
            found = self._contacts[broker.broker_id] = Contact(broker.epoch, -_NEVER, registered_at=broker.epoch)
        return found

    def has_session(self, broker: BrokerImage, now_ms: int) -> bool:
        """Whether the process of the registered incarnation is alive: it sent a heartbeat within the session timeout,
        fenced or not, and got no request to stop. (Kafka 4.3.1 also keeps out, for the rest of that time, the successor
        of a broker that stopped in order.)
        """
        found = self.contact(broker)
        return found.heard and found.last_ms + self.session_timeout_ms >= now_ms

    def expired(self, brokers: Mapping[int, BrokerImage], now_ms: int) -> tuple[int, ...]:
        """The unfenced brokers whose session has ended, ascending: they are to be fenced now."""
        return tuple(sorted(b.broker_id for b in brokers.values() if not b.fenced and not self.has_session(b, now_ms)))

    def next_check_ms(self, brokers: Mapping[int, BrokerImage]) -> int | None:
        """The time at which the next session ends if no heartbeat arrives; None if no broker is unfenced."""
        times = [self.contact(b).last_ms for b in brokers.values() if not b.fenced]
        return min(times) + self.session_timeout_ms + 1 if times else None

    def lowest_offset(self, brokers: Mapping[int, BrokerImage]) -> int:
        """The metadata offset that all brokers have reached that are neither fenced nor about to stop; the greatest
        int64 without such a broker. A broker that was about to stop counts if it has registered again since, or if this
        controller has not heard from it (its registration still says that it stops): it may lead partitions.
        """
        contacts = (self.contact(b) for b in brokers.values() if not b.fenced)
        return min((each.metadata_offset for each in contacts if not each.is_shutting_down), default=_NEVER)
