"""`ssl.principal.mapping.rules`: the user for the name of a certificate (Kafka's SslPrincipalMapper).

Rules are separated by commas: `DEFAULT`, which is the name itself, and `RULE:pattern/replacement/[LU]`, whose pattern
must match the whole name; L and U turn the result to lower or upper case. The first rule that matches decides; if none
does, the client is refused.
"""

from __future__ import annotations

import re
from typing import Final

from broker_cy.core.classes import NamedTuple
from broker_cy.security.java_pattern import NotTranslatable, compiled
from broker_cy.security.java_replacement import expanded, numbers
from broker_cy.security.tls.certificate import read_certificate

PRINCIPALS_MAX: Final = 1_000
_RULE: Final = r"(DEFAULT)|RULE:((\\.|[^\\/])*)/((\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(,\s*|$)", re.ASCII)
_PARSER: Final = re.compile(_RULE, re.ASCII)


class MappingError(ValueError):
    """A rule is malformed, or no rule matches."""


class _Rule(NamedTuple):
    """`pattern` is None for DEFAULT."""

    pattern: re.Pattern[str] | None
    replacement: str
    case: str

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        found = self.pattern.sub(lambda match: expanded(self.replacement, match), name)
        if self.case == "L":
            return found.lower()
        return found.upper() if self.case == "U" else found


class PrincipalMapper:
    """Raises MappingError for malformed rules."""

    def __init__(self, rules: str = "DEFAULT") -> None:
        self._rules = tuple(_parse(rules))

    def name_of(self, subject: str) -> str:
        """The name of the user, without `User:`. Raises MappingError."""
        for rule in self._rules:
            found = rule.apply(subject)
            if found is not None:
                return found
        raise MappingError(f"no rule of ssl.principal.mapping.rules applies to {subject}")


class CertificatePrincipals:
    """The principals of clients by their certificates. Raises MappingError for malformed rules.

    Bound: PRINCIPALS_MAX of them are kept, because clients come back with the certificate that they had, and reading
    one takes longer than the rest.
    """

    def __init__(self, rules: str) -> None:
        self._mapper = PrincipalMapper(rules)
        # By the certificate, in DER.
        self._known: dict[bytes, str] = {}

    def of(self, der: bytes) -> str:
        """Return the principal, `User:NAME`. Raises MappingError and CertificateError."""
        found = self._known.get(der)
        if found is None:
            found = f"User:{self._mapper.name_of(read_certificate(der).subject)}"
            if len(self._known) >= PRINCIPALS_MAX:
                self._known.clear()
            self._known[der] = found
        return found


def _parse(text: str) -> list[_Rule]:
    rules = []
    for found in _SPLITTER.finditer(text.strip()):
        rule = found.group(1)
        parsed = _PARSER.match(rule)
        if parsed is None or parsed.end() != len(rule):
            raise MappingError(f"Invalid rule: {rule}")
        if parsed.group(1) is not None:
            rules.append(_Rule(None, "", ""))
        elif parsed.group(2) is not None:
            try:
                pattern = compiled(parsed.group(2))
                for number in numbers(parsed.group(4)):
                    if pattern.groups == 0 and number > 0:
                        raise MappingError(f"Invalid rule: {rule}: its pattern has no group {number}")
            except NotTranslatable as error:
                raise MappingError(f"Invalid rule: {rule}: {error}") from None
            rules.append(_Rule(pattern, parsed.group(4), parsed.group(6)))
    return rules
