"""Problems of the settings in a file and on a command line, before any value is used: variables of config providers are
resolved, and each name is known, reported or refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import cache
from typing import Final

from broker_cy.config import authorizer, foreign, sasl
from broker_cy.config.definitions import BROKER, BROKER_QUOTAS, INTERNAL, Setting, Support
from broker_cy.config.startup import (
    HIDDEN,
    LISTENER_PREFIX,
    Place,
    complete,
    is_of_listener,
    refused_text,
    setting_of,
)
from broker_cy.core.classes import NamedTuple
from broker_cy.core.config_def import providers
from broker_cy.core.config_def.types import ConfigError
from broker_cy.core.configs import ConfigType
from broker_cy.core.logs import Event

# Names that one log line lists.
LISTED_MAX: Final = 20
# Unknown names in a file; each is compared with all known ones, which takes 3 ms.
UNKNOWN_MAX: Final = 1000
# Shorter values are parts of ordinary words, as are those in `_fixed_texts`.
_HIDDEN_BYTES_MIN: Final = 4
# Words of messages that are in no name of a setting.
_WORDS: Final = "invalid value must string int long short double number type either true false expected valid values"
_SEPARATORS: Final = re.compile(r"[,;\s]+")
# The setting that a message begins with.
_NAMED: Final = re.compile(r"setting ([\w.-]+)")
_WORD: Final = re.compile(r"[\w-]+(?:\.[\w-]+)*")
_ADVICE: Final = "remove it or correct its name"
_ZOOKEEPER: Final = "zookeeper.connect"


class Kind(Enum):
    REFUSED = "refused"
    INERT = "inert"  # a setting of Kafka without an effect here
    REMOVED = "removed"
    OTHER = "other"  # of another program
    UNKNOWN = "unknown"


class Finding(NamedTuple):
    """`detail` is a sentence about the setting, or its part of a line that lists several of a kind."""

    setting: str
    kind: Kind
    detail: str

    @property
    def sentence(self) -> str:
        """The problem and its remedy, in one line."""
        match self.kind:
            case Kind.REFUSED:
                return self.detail
            case Kind.INERT:
                return f"{self.setting} has no effect yet: remove it"
            case Kind.REMOVED:
                return f"{self.setting} {self.detail}"
            case Kind.OTHER:
                return f"{self.setting} is a setting of another program and has no effect: remove it"
            case Kind.UNKNOWN:
                return f"unknown setting {self.setting} has no effect: {_ADVICE}" + _in_brackets(self.detail)


class Findings(NamedTuple):
    """`texts` are the settings with the values of providers, and `hidden` the names of those that have some; `secrets`
    are these values. `found` is in the order of the file.
    """

    texts: dict[str, str]
    hidden: frozenset[str]
    secrets: frozenset[str]
    found: list[Finding]
    places: Mapping[str, Place]

    def of(self, *kinds: Kind) -> list[Finding]:
        return [each for each in self.found if each.kind in kinds]

    def refuse(self, found: list[Finding]) -> None:
        """Raises ConfigError for the first of these, with its place; the message counts the others."""
        if not found:
            return
        first = found[0]
        more = ""
        if len(found) > 1:
            more = f" (and {len(found) - 1} more" + (f": {self._check()} lists them)" if self._file() else ")")
        raise ConfigError(f"{self.at(first.setting)}{first.sentence}{more}", first.setting)

    def _file(self) -> str | None:
        return next((place.source for place in self.places.values() if place.line), None)

    def _check(self) -> str:
        """The command that shows all problems."""
        return f"broker-cy storage check -c {self._file() or 'FILE'}"

    def at(self, setting: str) -> str:
        """The place of a setting, as a message begins with it."""
        return f"{self.places[setting]}: " if setting in self.places else ""

    def located(self, error: ConfigError) -> ConfigError:
        """The error with the place of its setting, and without values of providers."""
        setting = error.setting or self._named(str(error))
        return ConfigError(f"{self.at(setting)}{hide(str(error), self.secrets)}", setting)

    def _named(self, message: str) -> str:
        """The setting that a message is about; empty if it names none: Kafka's messages have it anywhere."""
        if (named := _NAMED.match(message)) is not None:
            return named[1]
        words = [word for word in _WORD.findall(message) if word in self.places]
        # A name of one word may be an ordinary word.
        return max(words, key=lambda word: "." in word, default="")

    def events(self) -> list[Event]:
        """The warnings for the log: one of each kind, with the names."""
        return [*self._inert(), *self._removed(), *self._other(), *self._unknown()]

    def _inert(self) -> list[Event]:
        found = self.of(Kind.INERT)
        if not found:
            return []
        return [Event("settings have no effect yet", {"count": len(found), "settings": self._listed(found)})]

    def _removed(self) -> list[Event]:
        found = self.of(Kind.REMOVED)
        if not found:
            return []
        reasons = {each.detail for each in found}
        shown = reasons.pop() if len(reasons) == 1 else self._check()
        fields = {"count": len(found), "settings": self._listed(found), "reasons": shown}
        return [Event("removed settings have no effect", fields)]

    def _other(self) -> list[Event]:
        counts = Counter(each.detail for each in self.of(Kind.OTHER))
        if not counts:
            return []
        listed = _first(f"{name} ({count})" for name, count in counts.most_common())
        return [Event("settings of other programs have no effect", {"count": counts.total(), "settings": listed})]

    def _unknown(self) -> list[Event]:
        found = self.of(Kind.UNKNOWN)
        if not found:
            return []
        return [Event("unknown settings have no effect", {"count": len(found), "settings": self._listed(found)})]

    def _listed(self, found: list[Finding]) -> str:
        def text(each: Finding) -> str:
            place = self.places.get(each.setting)
            parts = [] if place is None else [place.short]
            if each.kind is Kind.UNKNOWN and each.detail:
                parts.append(each.detail)
            return each.setting + _in_brackets(", ".join(parts))

        return _first(map(text, found))


def examine(properties: Mapping[str, str], places: Mapping[str, Place]) -> Findings:
    """Resolve the variables and judge each name. Raises ConfigError for a file that is not a broker's."""
    given = providers.Providers(properties)
    found = [Finding(name, Kind.REFUSED, text) for name, text in given.problems.items()]
    texts, hidden, secrets = {}, set(), set()
    for name, text in properties.items():
        try:
            texts[name] = given.resolve(text, of_command_line=_is_option(name, places))
        except providers.Unresolved as error:
            if not given.is_refused(text):
                # The place names an option.
                what = str(error) if _is_option(name, places) else f"{name}: {error}"
                found.append(Finding(name, Kind.REFUSED, what))
            continue
        if texts[name] is not text:
            hidden.add(name)
            secrets.add(texts[name])
    secrets |= given.values
    if hidden & {"node.id", "broker.id"}:
        hidden |= {"node.id", "broker.id"}
    try:
        texts = complete(texts)
    except ConfigError as error:
        named = "node.id" if "node.id" in properties else "broker.id"
        found.append(Finding(named, Kind.REFUSED, hide(str(error), secrets)))
    unknown = 0
    # Settings whose variables have no value are not missing.
    beside = {**properties, **texts}
    for name, text in texts.items():
        each = _judge(name, text, beside, HIDDEN if name in hidden else text)
        if each is not None and name in properties:
            found.append(each)
            unknown += each.kind is Kind.UNKNOWN
            if unknown > UNKNOWN_MAX:
                raise ConfigError(f"there are more than {UNKNOWN_MAX} unknown settings: name the file of a broker")
    order = {name: number for number, name in enumerate(properties)}
    found.sort(key=lambda each: order[each.setting])
    return Findings(texts, frozenset(hidden), frozenset(secrets), _of_zookeeper(found, beside), places)


def _of_zookeeper(found: list[Finding], beside: Mapping[str, str]) -> list[Finding]:
    """Put the ZooKeeper problem first: the file of a broker with ZooKeeper is refused for one of these settings,
    because no other problem of it is worth a fix before.
    """
    if "process.roles" in beside:
        return found
    theirs = [each for each in found if foreign.is_of_zookeeper(each.setting)]
    if not theirs:
        return found
    first = min(theirs, key=lambda each: (each.setting != _ZOOKEEPER, each.kind is not Kind.REFUSED))
    others = [each for each in found if each is not first]
    return [Finding(first.setting, Kind.REFUSED, f"{first.setting} {foreign.ROWS[_ZOOKEEPER].text}"), *others]


def _is_option(name: str, places: Mapping[str, Place]) -> bool:
    return name in places and not places[name].line


def hide(message: str, secrets: Iterable[str]) -> str:
    """Return the message without the values of providers, and without parts of such lists. A value that is also a word
    of fixed texts is hidden only where a message quotes a value.
    """
    parts = {part for secret in secrets for part in (secret, *_SEPARATORS.split(secret)) if part}
    for part in sorted(parts, key=len, reverse=True):
        if len(part) >= _HIDDEN_BYTES_MIN and part.lower() not in _fixed_texts():
            message = message.replace(part, HIDDEN)
        else:
            quoted = rf"((?:Invalid value |=|=\S*,)\"?){re.escape(part)}(?=[\s,;\"]|$)"
            message = re.sub(quoted, rf"\g<1>{HIDDEN}", message)
    return message


@cache
def _fixed_texts() -> str:
    """The fixed texts of messages, without values."""
    rows = (text for row in foreign.ROWS.values() for text in (row.name, row.text))
    return "\n".join((*BROKER, *BROKER_QUOTAS, *authorizer.SETTINGS, *rows, _WORDS)).lower()


def _judge(name: str, text: str, texts: Mapping[str, str], shown: str) -> Finding | None:
    """The problem of a setting; None without a problem. Messages have `shown` as its value."""
    setting = setting_of(name)
    if name in authorizer.SETTINGS:
        return None if texts.get(authorizer.CLASS_NAME) else Finding(name, Kind.INERT, "")
    if setting is None:
        return _judge_unknown(name, texts)
    if sasl.is_handler(name, text):
        return None
    if name == authorizer.CLASS_NAME:
        is_refused = text.strip() not in ("", authorizer.STANDARD)
        return Finding(name, Kind.REFUSED, refused_text(name, shown, setting)) if is_refused else None
    if setting.type is ConfigType.CLASS and not text.strip() and setting.default != "":
        return Finding(name, Kind.REFUSED, f"{name} is empty, and must name a class: remove it")
    if setting.support is Support.REFUSED:
        return _judge_refused(name, text, setting, shown)
    if (
        setting.support is Support.INERT
        or name in BROKER_QUOTAS  # they have no static level
        or (setting.support is Support.EFFECTIVE and name.startswith(LISTENER_PREFIX) and not is_of_listener(name))
    ):
        return Finding(name, Kind.INERT, "")
    return None


def _judge_refused(name: str, text: str, setting: Setting, shown: str) -> Finding | None:
    if setting.type is ConfigType.CLASS:
        # Any other class cannot be loaded, but that error says less than the reason.
        is_default = text.strip() == setting.default
    else:
        try:
            is_default = setting.parse(text) == setting.default
        except ConfigError as error:
            return Finding(name, Kind.REFUSED, str(error) if shown == text else hide(str(error), [text, text.strip()]))
    return None if is_default else Finding(name, Kind.REFUSED, refused_text(name, shown, setting))


def _judge_unknown(name: str, texts: Mapping[str, str]) -> Finding | None:
    if name.startswith(providers.PREFIX):
        listed = {part.strip() for part in texts.get(providers.NAMES, "").split(",")}
        if name.removeprefix(providers.PREFIX).partition(".")[0] in listed:
            return None
        return Finding(name, Kind.UNKNOWN, f"{providers.NAMES} does not name it")
    if name in INTERNAL:
        return Finding(name, Kind.INERT, "")
    row = foreign.row_of(name)
    if row is not None and row.is_refused(texts):
        return Finding(name, Kind.REFUSED, f"{name} {row.text}")
    if row is not None and row.kind is foreign.Class.REFUSED:
        row = foreign.row_of_prefix(name) or row
    if row is not None and row.kind is foreign.Class.OTHER:
        return Finding(name, Kind.OTHER, row.name)
    if row is not None:
        return Finding(name, Kind.REMOVED, row.text if row.kind is foreign.Class.REMOVED else _counts(row.unless))
    bases = _bases(name)
    meant = next((meant for base in bases if (meant := foreign.meant(base, texts)) is not None), None)
    if meant is not None:
        if meant.is_missed:
            return Finding(name, Kind.REFUSED, f"unknown setting {name}: {_ADVICE} ({meant.advice})")
        return Finding(name, Kind.UNKNOWN, meant.advice)
    similar = foreign.similar(bases[0])
    return Finding(name, Kind.UNKNOWN, "" if similar is None else f"did you mean {similar}?")


def _bases(name: str) -> tuple[str, ...]:
    """An unknown name without the prefix of a listener, and without that of a mechanism."""
    if not name.lower().startswith(LISTENER_PREFIX):
        return (name,)
    base = sasl.base_of(name.lower())[0]
    return (base, base.partition(".")[2]) if "." in base else (base,)


def _counts(unless: str) -> str:
    """Why a setting that would be refused has no effect beside another one."""
    name, equals, _ = unless.partition("=")
    return "has no effect if it is false" if equals else f"was removed and has no effect: {name} counts"


def _in_brackets(text: str) -> str:
    return f" ({text})" if text else ""


def _first(texts: Iterable[str]) -> str:
    """The first of these, and how many more there are."""
    found = list(texts)
    more = len(found) - LISTED_MAX
    return ", ".join(found[:LISTED_MAX]) + (f" and {more} more" if more > 0 else "")
