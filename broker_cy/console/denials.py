"""Failed logins and denied requests as rows: those of the events that a console keeps."""

from __future__ import annotations

from collections.abc import Iterable

from broker_cy.client.event_text import acl_text, why_denied
from broker_cy.core.classes import NamedTuple
from broker_cy.metrics.events import AccessDenied, LoginFailed, Stamped
from broker_cy.security.acl_words import resource_text
from broker_cy.security.acls import ResourceType


class Denial(NamedTuple):
    """One event. `who` is a principal, or the name that a login gave; `times` denials of the same kind, and `left_out`
    of other kinds.
    """

    stamped: Stamped
    who: str
    host: str
    what: str
    why: str
    times: int
    left_out: int

    @property
    def time_ms(self) -> int:
        return self.stamped.time_ms

    @property
    def api(self) -> str:
        """The request; empty for a login."""
        return getattr(self.stamped.event, "api", "")


def denials_of(events: Iterable[Stamped]) -> list[Denial]:
    """The denials among the events, in their order."""
    found = []
    for stamped in events:
        event = stamped.event
        if isinstance(event, LoginFailed):
            what = f"login {event.mechanism}".strip()
            found.append(
                Denial(stamped, event.user or "-", event.host, what, event.reason, event.count, event.left_out)
            )
        elif isinstance(event, AccessDenied):
            what = f"{event.operation.lower().replace('_', '-')} {_resource(event)}"
            found.append(
                Denial(stamped, event.principal, event.host, what, why_denied(event), event.count, event.left_out)
            )
    return found


def asked_texts(stamped: Stamped) -> dict[str, str] | None:
    """The denied operation, as texts for `acts.acls.explain_form`; None for a login."""
    event = stamped.event
    if not isinstance(event, AccessDenied):
        return None
    return {
        "principal": event.principal,
        "operation": event.operation.lower().replace("_", "-"),
        "resource": _resource(event),
        "host": event.host,
    }


def details(denial: Denial) -> list[str]:
    """Everything that is known of a denial, in lines."""
    event = denial.stamped.event
    lines = [f"{denial.who} from {denial.host}: {denial.what}", f"because: {denial.why}"]
    if isinstance(event, AccessDenied):
        lines.append(f"request: {event.api}")
        lines += [f"nearest: {acl_text(each)}" for each in event.near]
    elif isinstance(event, LoginFailed):
        lines.append(f"listener: {event.listener}{', renewing a session' if event.again else ''}")
    if denial.left_out:
        lines.append(f"{denial.left_out:,} other denials of that time were only counted")
    return lines


def _resource(event: AccessDenied) -> str:
    kind = ResourceType.__members__.get(event.resource_type, ResourceType.UNKNOWN)
    return resource_text(kind, event.resource)
