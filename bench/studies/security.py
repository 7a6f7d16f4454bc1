"""Figures of security, one part after the other: `python -m bench.studies.security --help`.

handshakes: of TLS, compared with Apache Kafka (bench.studies.handshakes). quotas: the accuracy of byte-rate quotas,
compared with Apache Kafka (bench.studies.quota_rates). acls: authorisation alone, on one core
(bench.studies.micro_acls).

`broker-bench compare ours-tls ours kafka-tls kafka` measures the cost of TLS per byte.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.studies import goals
from bench.studies.goals import Figures, Goals
from bench.studies.handshakes import handshake_figures
from bench.studies.micro_acls import acl_figures
from bench.studies.quota_rates import CLIENTS, quota_figures

PROGRAM = "bench.studies.security"
QUOTA_BYTES_PER_S = 2_000_000.0


@dataclass(frozen=True)
class Sizes:
    """The options."""

    handshakes: int
    clients: int
    seconds: int
    acls: int


PARTS: dict[str, Callable[[Sizes], Figures]] = {
    "handshakes": lambda sizes: handshake_figures(sizes.handshakes, sizes.clients),
    "quotas": lambda sizes: quota_figures(QUOTA_BYTES_PER_S, sizes.seconds),
    "acls": lambda sizes: acl_figures(sizes.acls),
}
_OF_QUOTAS = [f"quota_{client.replace(' ', '_').lower()}_percent" for client in CLIENTS]
GOALS = Goals(
    at_least={"mtls_handshakes_per_s_of_a_worker": 2_000.0, **dict.fromkeys(_OF_QUOTAS, 95.0)},
    at_most={"acl_index_s": 1.0, "acl_index_mb": 60.0, "acl_decision_new_us": 3.0},
)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print the figures; returns the exit code (`goals.measure`)."""
    parser = goals.parser(PROGRAM, __doc__, PARTS)
    parser.add_argument("--handshakes", type=int, default=2_000)
    parser.add_argument("--clients", type=int, default=2, help="that shake hands at the same time")
    parser.add_argument("--seconds", type=int, default=30, help="the time over which rates are measured")
    parser.add_argument("--acls", type=int, default=100_000)
    given = parser.parse_args(argv)
    names = ("handshakes", "clients", "seconds", "acls")
    goals.check(parser, given, PARTS, names)
    sizes = Sizes(**{name: getattr(given, name) for name in names})
    return goals.measure(PROGRAM, given, GOALS, lambda part: PARTS[part](sizes))


if __name__ == "__main__":
    sys.exit(main())
