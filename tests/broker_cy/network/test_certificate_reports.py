"""The reports about certificates, and how often they are made."""

from __future__ import annotations

from broker_cy.core.clock import ManualClock
from broker_cy.metrics.events import CertificateExchanged, CertificateExpires, CertificateRefused, Event
from broker_cy.network.certificate_reports import DAY_MS, REFUSED_AGAIN_MS, REFUSED_MAX, CertificateReports
from broker_cy.security.tls.certificate import Certificate


class Node:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.events: list[Event] = []
        self.reports = CertificateReports(self.clock, self.events.append)

    def take(self) -> list[Event]:
        found, self.events[:] = list(self.events), []
        return found

    def certificate(self, days: float, name: str = "CN=broker") -> Certificate:
        return Certificate(name, b"", b"", self.clock.wall_ms() + round(days * DAY_MS), frozenset())

    def expiries(self, certificate: Certificate) -> list[int]:
        """The days that are reported when it is looked at twice."""
        for _ in range(2):
            self.reports.look("SSL", certificate)
        found = self.take()
        assert all(isinstance(each, CertificateExpires) and each.subject == "CN=broker" for each in found)
        return [each.days for each in found if isinstance(each, CertificateExpires)]


def test_the_end_of_a_certificate_is_reported_once_for_each_step() -> None:
    """If this fails, a certificate ends unnoticed, or its end is reported every five seconds."""
    node = Node()
    certificate = node.certificate(31)
    found = []
    for _ in range(33):
        found.append(node.expiries(certificate))
        node.clock.advance_ms(DAY_MS)
    assert found == [[], [30], *[[]] * 22, [7], *[[]] * 5, [1], [0], []]
    # Another one is reported again, and one that ends as soon as at a start, with the least step.
    assert node.expiries(node.certificate(29)) == [30]
    assert Node().expiries(node.certificate(90)) == []
    assert Node().expiries(Node().certificate(5)) == [7]


def test_each_listener_has_its_own_certificate() -> None:
    """If this fails, the end of the certificate of the second listener is not reported."""
    node = Node()
    certificate = node.certificate(0.5)
    for listener in ("SSL", "SASL_SSL", "SSL"):
        node.reports.look(listener, certificate)
    assert [each.key for each in node.take()] == ["SSL", "SASL_SSL"]


def test_exchanges_and_refusals() -> None:
    """If this fails, a failed certificate exchange goes unnoticed, or a client that may change settings fills the topic
    of events.
    """
    node = Node()
    before, after = node.certificate(1), node.certificate(90, "CN=other")
    node.reports.exchanged("SSL", before, after)
    assert node.take() == [
        CertificateExchanged("SSL", "CN=other", after.not_after_ms, "CN=broker", before.not_after_ms)
    ]
    for reason in ("wrong", "wrong", "x" * 1_000):
        node.reports.refused("SSL", reason, before)
    first, second = node.take()
    assert first == CertificateRefused("SSL", "wrong", "CN=broker", before.not_after_ms)
    assert isinstance(second, CertificateRefused)
    assert len(second.reason) < 300
    for number in range(REFUSED_MAX):
        node.reports.refused("SSL", f"reason {number}", before)
    assert len(node.take()) == REFUSED_MAX - 2
    node.clock.advance_ms(REFUSED_AGAIN_MS)
    node.reports.refused("SSL", "wrong", before)
    assert len(node.take()) == 1
