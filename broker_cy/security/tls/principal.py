"""`ssl.principal.mapping.rules`: which user the name of a certificate stands for (Kafka's SslPrincipalMapper).

Rules are separated by commas: `DEFAULT`, which is the name itself, and `RULE:pattern/replacement/[LU]`, where the
pattern must match the whole name; L and U turn the result to lower or upper case. The first rule that matches decides;
where none does, the client is refused.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_RULE: Final = r"(DEFAULT)|RULE:((\\.|[^\\/])*)/((\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(,\s*|$)", re.ASCII)
_PARSER: Final = re.compile(_RULE, re.ASCII)
_REFERENCE: Final = re.compile(r"\\(.)|\$(?:(\d+)|\{([A-Za-z][A-Za-z0-9]*)\}|(.?))", re.DOTALL | re.ASCII)


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
        found = self.pattern.sub(lambda match: _expanded(self.replacement, match), name)
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
                pattern = re.compile(_as_python(parsed.group(2)))
                for number in _numbers(parsed.group(4)):
                    if pattern.groups == 0 and number > 0:
                        raise MappingError(f"Invalid rule: {rule}: its pattern has no group {number}")
            except re.error as error:
                raise MappingError(f"Invalid rule: {rule}: {error}") from None
            rules.append(_Rule(pattern, parsed.group(4), parsed.group(6)))
    return rules


def _as_python(pattern: str) -> str:
    """Java writes the name of a group as (?<name>...)."""
    return re.sub(r"\(\?<(?=[A-Za-z])", "(?P<", pattern)


def _numbers(replacement: str) -> list[int]:
    return [int(found.group(2)) for found in _REFERENCE.finditer(replacement) if found.group(2)]


def _expanded(replacement: str, match: re.Match[str]) -> str:
    """The replacement as Java's Matcher expands it. A number of no group is a text, as in Kafka."""

    def piece(found: re.Match[str]) -> str:
        escaped, number, name, other = found.groups()
        if escaped is not None:
            return str(escaped)
        if name is not None:
            return match.group(name) or ""
        if number is None:
            return "$" + str(other)
        # As many digits as make the number of a group.
        for end in range(len(number), 0, -1):
            if int(number[:end]) <= match.re.groups:
                return (match.group(int(number[:end])) or "") + str(number[end:])
        return f"${number}"

    return _REFERENCE.sub(piece, replacement)
