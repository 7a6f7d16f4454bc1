"""Kerberos: the user of a principal (sasl.kerberos.principal.to.local.rules; Kafka's KerberosName, KerberosShortNamer
and KerberosRule).

A principal is `primary@REALM` or `primary/host@REALM`. The first rule that fits it decides:

    DEFAULT                                         the primary, if the realm is the default one
    RULE:[n:text](pattern)s/from/to/g/L             for a principal of n parts in front of the @

`text` has $0 for the realm, $1 and $2 for the parts, and makes a name, which `pattern` must match as a whole. Then the
matches of `from` are replaced, once or (g) everywhere, and L or U turns the result to lower or upper case. If no rule
fits, or if the name still has a `/` or `@`, the client is refused.

Malformed rules are refused at the start; Kafka notices some of them with the first client that they fit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from broker_cy.core.classes import NamedTuple
from broker_cy.security.java_pattern import NotTranslatable, compiled
from broker_cy.security.java_replacement import expanded, wrong_with

_NAME: Final = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_RULE: Final = re.compile(
    r"(DEFAULT)|RULE:\[(\d*):([^\]]*)\](?:\(([^)]*)\))?(?:s/([^/]*)/([^/]*)/(g)?)?/?([LU])?", re.ASCII
)
_PARAMETER: Final = re.compile(r"\$(\d*)", re.ASCII)
_DEFAULT: Final = "DEFAULT"


class RuleError(ValueError):
    """A rule is malformed, or no rule fits."""


class _Rule(NamedTuple):
    """`parts` is 0 for DEFAULT."""

    text: str
    parts: int = 0
    shape: str = ""
    match: re.Pattern[str] | None = None
    find: re.Pattern[str] | None = None
    replacement: str = ""
    everywhere: bool = False
    case: str = ""

    def apply(self, realm: str, parts: Sequence[str], default_realm: str) -> str | None:
        if self.parts == 0:
            return parts[0] if realm == default_realm else None
        if len(parts) != self.parts:
            return None
        found = _PARAMETER.sub(lambda each: (realm, *parts)[int(each[1])], self.shape)
        if self.match is not None and self.match.fullmatch(found) is None:
            return None
        if self.find is not None:
            found = self.find.sub(
                lambda each: expanded(self.replacement, each), found, count=0 if self.everywhere else 1
            )
        return found


class PrincipalRules:
    """Raises RuleError for malformed rules."""

    def __init__(self, rules: Sequence[str], default_realm: str) -> None:
        self._rules = [_parse(text) for text in rules]
        self._default_realm = default_realm

    def user_of(self, principal: str) -> str:
        """The name of the user, without `User:`. Raises RuleError."""
        found = _NAME.fullmatch(principal)
        # Kerberos writes a `/` or `@` within a part with a backslash, which the rules do not know.
        if found is None or "\\" in principal:
            raise RuleError(f"Malformed Kerberos name: {principal}")
        parts = [part for part in found.group(1, 2) if part is not None]
        for rule in self._rules:
            user = rule.apply(found[3], parts, self._default_realm)
            if user is None:
                continue
            if not user or "/" in user or "@" in user:
                raise RuleError(f"Non-simple name {user} after auth_to_local rule {rule.text}")
            return {"L": user.lower(), "U": user.upper()}.get(rule.case, user)
        rules = ", ".join(rule.text for rule in self._rules)
        raise RuleError(f"No rules apply to {principal}, rules {rules}")


def _parse(text: str) -> _Rule:
    found = _RULE.match(text)
    if found is None:
        raise RuleError(f"Invalid rule: {text}")
    if found.end() != len(text):
        raise RuleError(f"Invalid rule: `{text}`, unmatched substring: `{text[found.end() :]}`")
    if found[1] is not None:
        return _Rule(_DEFAULT)
    parts, shape, replacement = int(found[2] or 0), found[3], found[6] or ""
    if parts < 1:
        raise RuleError(f"Invalid rule: {text}: the number of parts is missing")
    for number in _PARAMETER.findall(shape):
        if not number or int(number) > parts:
            raise RuleError(f"Invalid rule: {text}: ${number} is outside of the valid range 0 to {parts}")
    try:
        match, find = (None if each is None else compiled(each) for each in found.group(4, 5))
    except NotTranslatable as error:
        raise RuleError(f"Invalid rule: {text}: {error}") from None
    if find is not None and (wrong := wrong_with(replacement, find)) is not None:
        raise RuleError(f"Invalid rule: {text}: {wrong}")
    return _Rule(text, parts, shape, match, find, replacement, found[7] is not None, found[8] or "")
