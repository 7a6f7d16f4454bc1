"""Full text of cluster events, and the tone of each; broker_cy.client.event_text has one-line texts."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from broker_cy.client.event_text import line_of, subject_of
from broker_cy.metrics.events import (
    AccessDenied,
    AclsCreated,
    AclsDeleted,
    BrokerFenced,
    BrokerStarted,
    BrokerUnfenced,
    CertificateExchanged,
    CertificateExpires,
    CertificateRefused,
    ControllerChanged,
    CopyFlowChanged,
    DelegationTokensChanged,
    DirectoryFailed,
    Event,
    InSyncBelowMin,
    LeadersElected,
    LoginFailed,
    MirrorChanged,
    MirrorFailed,
    MirrorTruncated,
    RecordsDeleted,
    ScramUsersChanged,
    ShareRecordsChanged,
    Stamped,
    StreamsInstanceChanged,
    TopicDeleted,
    TransactionTimedOut,
)
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import duration, when
from broker_cy.reporting.tone import Tone

# Fields that are times, in ms since 1970. Other fields that end in _ms are durations.
_MOMENTS = frozenset(
    {
        "started_ms",
        "commit_ms",
        "record_time_ms",
        "first_ms",
        "not_after_ms",
        "before_not_after_ms",
        "expires_ms",
        "max_ms",
    }
)


def detail_of(stamped: Stamped, *, utc: bool) -> str:
    """Return the event in a sentence, and every field; times and durations also in readable form."""
    event = stamped.event
    return "\n".join([f"{subject_of(stamped)}: {line_of(event)}", "", *_lines(asdict(event), 0, utc)])


def _shown(name: str, value: Any, utc: bool) -> str:
    if value in (None, [], {}):
        return "-"
    if not isinstance(value, int) or not name.endswith("_ms") or value < 0:
        return clean(str(value))
    return f"{value} ({when(value, utc=utc) if name in _MOMENTS else duration(value)})"


def _lines(value: Any, depth: int, utc: bool) -> list[str]:
    pad = "  " * depth
    lines: list[str] = []
    if isinstance(value, dict):
        for name, each in value.items():
            if isinstance(each, dict | list) and each:
                lines.append(f"{pad}{clean(str(name))}:")
                lines += _lines(each, depth + 1, utc)
            else:
                lines.append(f"{pad}{clean(str(name))}: {_shown(str(name), each, utc)}")
    else:
        for each in value:
            if isinstance(each, dict):
                parts = ", ".join(f"{name} {_shown(name, one, utc)}" for name, one in each.items())
                lines.append(f"{pad}- {parts}")
            else:
                lines.append(clean(f"{pad}- {each}"))
    return lines


def tone_of(event: Event) -> Tone:
    """Return the tone of an event."""
    if isinstance(event, TransactionTimedOut | TopicDeleted | RecordsDeleted | LoginFailed | AccessDenied):
        return Tone.WARN
    if isinstance(event, AclsCreated | AclsDeleted | ScramUsersChanged | ShareRecordsChanged):
        return Tone.WARN
    match event:
        case DelegationTokensChanged():
            # Programs renew them all the time.
            return Tone.WARN if any(each.change in ("created", "removed") for each in event.tokens) else Tone.PLAIN
        case CertificateExpires():
            return Tone.WARN if event.days > 1 else Tone.BAD
        case CertificateRefused():
            return Tone.BAD
        case CertificateExchanged():
            return Tone.GOOD
        case BrokerStarted() if not event.clean or event.truncated_bytes:
            return Tone.BAD
        case CopyFlowChanged():
            good = event.change in ("started", "problem_ended")
            return Tone.GOOD if good else Tone.BAD if event.change == "failed" else Tone.WARN
        case StreamsInstanceChanged():
            return {"running": Tone.GOOD, "failed": Tone.BAD}.get(event.change, Tone.PLAIN)
        case MirrorFailed():
            return Tone.BAD
        case MirrorTruncated():
            return Tone.WARN
        case MirrorChanged():
            # A promotion cannot be undone.
            return Tone.WARN if event.change == "promoted" else Tone.PLAIN
        case BrokerFenced():
            # One that was stopped, or started again, is no failure.
            return Tone.BAD if event.cause == "lost" else Tone.WARN
        case BrokerUnfenced():
            return Tone.GOOD
        case ControllerChanged():
            return Tone.WARN
        case LeadersElected():
            return Tone.WARN if event.cause == "failure" else Tone.BAD
        case InSyncBelowMin() | DirectoryFailed():
            return Tone.BAD
    return Tone.PLAIN
