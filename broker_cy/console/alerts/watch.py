"""Repeated evaluation of rules: which alerts fire, since when, and which are resolved."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.alerts.looks import LOOKS, Broken, NotYet
from broker_cy.console.alerts.rules import AlertSettings, Rule
from broker_cy.console.alerts.webhook import Webhook, facts_of, host_of
from broker_cy.console.figures import Fact
from broker_cy.console.listeners import Listener, Listeners, call
from broker_cy.console.session import Session
from broker_cy.core.classes import dataclass
from broker_cy.reporting.numbers import plural
from broker_cy.reporting.tone import Tone

_LOG = logging.getLogger(__name__)
INTERVAL_S: Final = 5.0
LOOK_TIMEOUT_S: Final = 30.0
# Alerts of one rule that are announced individually; of the others only the number is announced.
SUBJECTS_MAX: Final = 50

OK, PENDING, FIRING, UNKNOWN = "ok", "pending", "firing", "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of evaluating a rule. `subject` is the resource that violates it, and `for_s` for how long; otherwise
    they are empty and None.

    `state` is ok, pending (violated, but not yet for as long as the rule requires), firing, or unknown (no answer).
    """

    rule: Rule
    state: str
    subject: str
    text: str
    for_s: float | None


@dataclass(frozen=True, slots=True)
class Notice:
    """An alert that began to fire or was resolved; times are in ms since 1970."""

    cluster: str
    rule: Rule
    subject: str
    text: str
    is_firing: bool
    since_ms: int
    at_ms: int

    def __str__(self) -> str:
        return f"{self.rule.name}: {self.text}" if self.is_firing else f"{self.rule.name}: resolved: {self.text}"

    def payload(self) -> Mapping[str, Any]:
        """Return the JSON object that is sent to a webhook."""
        return {
            "state": "firing" if self.is_firing else "resolved",
            "cluster": self.cluster,
            "rule": self.rule.name,
            "kind": self.rule.kind,
            "subject": self.subject,
            "text": self.text,
            "since_ms": self.since_ms,
            "at_ms": self.at_ms,
        }


@dataclass(slots=True)
class _Alert:
    """A resource that violates a rule: since when, and whether that was announced."""

    rule: Rule
    text: str
    since_s: float
    since_ms: int
    is_firing: bool = False


class Watch:
    """The rules of one cluster. It is a source that a panel can be linked to."""

    def __init__(
        self,
        rules: Iterable[Rule],
        cluster: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_ms: Callable[[], int] = lambda: int(time.time() * 1000),
    ) -> None:
        self.rules = tuple(rules)
        self.cluster = cluster
        self._clock = clock
        self._wall_ms = wall_ms
        self._alerts: dict[tuple[str, str], _Alert] = {}
        self.findings: tuple[Finding, ...] = ()
        self.error: str | None = None
        self._looked_at_s: float | None = None
        self._listeners = Listeners()
        self._is_looking = False

    @property
    def firing(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.state == FIRING]

    @property
    def age_s(self) -> float | None:
        return None if self._looked_at_s is None else self._clock() - self._looked_at_s

    def subscribe(self, listener: Listener) -> None:
        self._listeners.add(listener)
        if self.findings:
            call(listener)

    def unsubscribe(self, listener: Listener) -> None:
        self._listeners.remove(listener)

    async def look(self, session: Session) -> list[Notice]:
        """Evaluate every rule once and return the alerts that began to fire or were resolved since the last evaluation.

        Does nothing while another evaluation is under way.
        """
        if self._is_looking:
            return []
        self._is_looking = True
        try:
            answers = await asyncio.gather(*(self._ask(session, rule) for rule in self.rules))
        finally:
            self._is_looking = False
        notices: list[Notice] = []
        findings: list[Finding] = []
        for rule, answer in zip(self.rules, answers, strict=True):
            findings += self._judged(rule, answer, notices)
        self.findings = tuple(findings)
        self._looked_at_s = self._clock()
        self._listeners.call()
        return notices

    @staticmethod
    async def _ask(session: Session, rule: Rule) -> list[Broken] | str:
        """Return the resources that violate a rule; a text if they are not known."""
        try:
            async with asyncio.timeout(LOOK_TIMEOUT_S):
                return await LOOKS[rule.kind](session, rule)
        except (ClientError, NotYet) as error:
            return str(error)
        except TimeoutError:
            return f"no answer within {LOOK_TIMEOUT_S:g} s"
        except Exception as error:
            # A bug in one kind of rule: it is reported, and all other rules are still evaluated.
            _LOG.exception("evaluating the rule %r failed", rule.name)
            return f"{type(error).__name__}: {error}"

    def _judged(self, rule: Rule, answer: list[Broken] | str, notices: list[Notice]) -> list[Finding]:
        now, at_ms = self._clock(), self._wall_ms()
        if isinstance(answer, str):
            # A firing alert keeps firing, because it is not known to be resolved.
            fire = [self._finding(key, alert, now) for key, alert in self._alerts.items() if key[0] == rule.name]
            return [*fire, Finding(rule, UNKNOWN, "", answer, None)]
        broken = {each.subject: each.text for each in answer}
        for key in [key for key in self._alerts if key[0] == rule.name and key[1] not in broken]:
            alert = self._alerts.pop(key)
            if alert.is_firing:
                notices.append(Notice(self.cluster, rule, key[1], alert.text, False, alert.since_ms, at_ms))
        known = [subject for subject in broken if (rule.name, subject) in self._alerts]
        new = [subject for subject in broken if (rule.name, subject) not in self._alerts]
        findings: list[Finding] = []
        for subject in known + new[: max(0, SUBJECTS_MAX - len(known))]:
            key = (rule.name, subject)
            alert = self._alerts.setdefault(key, _Alert(rule, "", now, at_ms))
            alert.text = broken[subject]
            if not alert.is_firing and now - alert.since_s >= rule.for_s:
                alert.is_firing = True
                notices.append(Notice(self.cluster, rule, subject, alert.text, True, alert.since_ms, at_ms))
            findings.append(self._finding(key, alert, now))
        more = len(broken) - len(findings)
        if more:
            findings.append(Finding(rule, FIRING, "", f"and {plural(more, 'other')}", None))
        return findings or [Finding(rule, OK, "", "", None)]

    @staticmethod
    def _finding(key: tuple[str, str], alert: _Alert, now: float) -> Finding:
        state = FIRING if alert.is_firing else PENDING
        return Finding(alert.rule, state, key[1], alert.text, now - alert.since_s)


class Alerting:
    """The rules for any number of clusters, with one watch for each cluster and one webhook for all.

    A watch is kept while another cluster is shown, so that alerts are not announced again on return.

    Only a program that was started for it notifies (`notifies`): every open console evaluates the same rules, and each
    would send the same alert. The cluster cannot elect one of them, because its own failure has to be reported, too.
    """

    def __init__(self, settings: AlertSettings, *, interval_s: float = INTERVAL_S, notifies: bool = False) -> None:
        """Raises ClientError if it has to notify and no webhook is configured."""
        if notifies and settings.webhook is None:
            where = settings.path or "alerts.toml in the directory of the cluster file, which does not exist"
            raise ClientError(
                Failure.INVALID, f"the rules have no webhook to notify: add [webhook] to {where}", what="--notify"
            )
        self.settings = settings
        self.interval_s = interval_s
        self.webhook = Webhook(settings.webhook) if notifies and settings.webhook is not None else None
        self._watches: dict[str, Watch] = {}

    def watch(self, cluster: str) -> Watch:
        """Return the watch of the cluster with this name."""
        watch = self._watches.get(cluster)
        if watch is None:
            watch = self._watches[cluster] = Watch(self.settings.rules, cluster)
        return watch

    def webhook_facts(self) -> list[Fact]:
        """Return the deliveries to the webhook, or that this program does not notify it; empty without a webhook."""
        if self.webhook is not None:
            return facts_of(self.webhook)
        if self.settings.webhook is None:
            return []
        off = Fact("delivery", "not by this program; --notify starts one that notifies", Tone.MUTED)
        return [Fact("to", host_of(self.settings.webhook.url)), off]

    async def look(self, session: Session) -> list[Notice]:
        """Evaluate the rules for the cluster of a session; new notices are also queued for the webhook."""
        notices = await self.watch(session.entry.name).look(session)
        if self.webhook is not None:
            for notice in notices:
                self.webhook.put(notice.payload())
        return notices

    async def close(self, flush_s: float = 2.0) -> None:
        """Close the webhook; queued notices are delivered for at most this long."""
        if self.webhook is not None:
            await self.webhook.close(flush_s)
