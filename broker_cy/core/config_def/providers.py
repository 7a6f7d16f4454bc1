"""Config providers (KIP-297, KIP-421): the values of `${provider:path:key}`, from files and from the environment.

As in Kafka, `config.providers` lists names, `config.providers.NAME.class` is the class of one and
`config.providers.NAME.param.X` a parameter. Kafka's three classes are built in, and there are no others. Differences
from Kafka:

- values of a provider are not searched for variables; Kafka's broker does that once more, when it merges settings;
- a variable without a value is refused, as is any other `${`; Kafka keeps its text, which becomes the password;
- one newline at the end of a file of a directory is dropped, so that it does not end up inside a password;
- blanks around names in lists are dropped, and unknown parameters are refused;
- brokercy.automatic.config.providers stands for the system property org.apache.kafka.automatic.config.providers;
- `--set` knows the names `env` and `file` without a definition.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Final

from broker_cy.core.classes import NamedTuple
from broker_cy.core.config_def.types import ConfigError
from broker_cy.core.properties import FILE_BYTES_MAX, parse_properties

NAMES: Final = "config.providers"
PREFIX: Final = "config.providers."
ALLOWED_CLASSES: Final = "brokercy.automatic.config.providers"
ALLOWED_PATHS: Final = "allowed.paths"
ALLOWLIST: Final = "allowlist.pattern"

_PACKAGE: Final = "org.apache.kafka.common.config.provider."
ENV: Final = f"{_PACKAGE}EnvVarConfigProvider"
FILE: Final = f"{_PACKAGE}FileConfigProvider"
DIRECTORY: Final = f"{_PACKAGE}DirectoryConfigProvider"
# By class, the parameter that it has.
_PARAMETERS: Final = {ENV: ALLOWLIST, FILE: ALLOWED_PATHS, DIRECTORY: ALLOWED_PATHS}
# The settings that `--set` knows without a definition.
OF_COMMAND_LINE: Final = {"env": ENV, "file": FILE}

# ConfigTransformer.DEFAULT_PATTERN.
_VARIABLE: Final = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
# Texts that are probably meant as variables: one without a provider, and one without its end.
_BARE: Final = re.compile(r"\$\{[^}:]*\}")
_OPEN: Final = re.compile(r"\$\{(?:(\w+):[\w./:-]*)?", re.ASCII)
_UNCLOSED: Final = "a ${ has no closing }: write ${PROVIDER:NAME}, or put the value where a provider reads it"
_NO_PROVIDER: Final = "names no provider: write ${env:NAME} with a provider env, or the value"


class Provider(NamedTuple):
    """`pattern` is the allowlist of variables of the environment, `paths` are the allowed ones; None: all."""

    kind: str
    name: str
    pattern: re.Pattern[str] | None = None
    paths: tuple[str, ...] | None = None


class Unresolved(ConfigError):
    """A variable that has no value; the message begins with the variable."""


class Providers:
    """The providers that `properties` define. `problems` has a message for each setting that defines none; variables of
    such a provider are reported with the definition only.
    """

    def __init__(self, properties: Mapping[str, str], *, limits: Mapping[str, str] | None = None) -> None:
        """`limits` has brokercy.automatic.config.providers, if `properties` are not those of the file."""
        self.problems: dict[str, str] = {}
        # The values of variables, for messages that must not show them.
        self.values: set[str] = set()
        self._refused: set[str] = set()
        self._providers: dict[str, Provider] = {}
        allowed = (properties if limits is None else limits).get(ALLOWED_CLASSES)
        self._allowed = None if allowed is None else frozenset(_list(allowed))
        for name in _list(properties.get(NAMES, "")):
            # As in Kafka, one without a class is not there.
            if f"{PREFIX}{name}.class" not in properties:
                continue
            try:
                self._providers[name] = self._provider(name, properties)
            except ConfigError:
                self._refused.add(name)

    def _provider(self, name: str, properties: Mapping[str, str]) -> Provider:
        """Raises ConfigError, with the message in `problems`."""
        class_name = f"{PREFIX}{name}.class"
        kind = properties[class_name].strip()
        if kind not in _PARAMETERS:
            built_in = ", ".join(each.removeprefix(_PACKAGE) for each in (FILE, DIRECTORY))
            raise self._problem(
                class_name,
                f"{class_name}={kind} cannot run here: only {built_in} and {ENV.removeprefix(_PACKAGE)} are built in "
                "(mount the values as files, or export them)",
            )
        if not self._allows(kind):
            raise self._problem(class_name, f"{class_name}={kind} is not allowed by {ALLOWED_CLASSES}")
        found = Provider(kind, name)
        prefix = f"{PREFIX}{name}.param."
        for key, text in properties.items():
            if key.startswith(prefix):
                found = self._with_parameter(found, key, key.removeprefix(prefix), text)
        return found

    def _with_parameter(self, provider: Provider, key: str, parameter: str, text: str) -> Provider:
        known = _PARAMETERS[provider.kind]
        if parameter != known:
            raise self._problem(key, f"{key}: {provider.kind.removeprefix(_PACKAGE)} has only the parameter {known}")
        if parameter == ALLOWLIST:
            try:
                return provider._replace(pattern=re.compile(text))
            except re.error as error:
                raise self._problem(key, f"{key}={text} is no regular expression: {error}") from None
        if not text:
            return provider
        paths = tuple(os.path.normpath(path) for path in _list(text))
        for path in paths:
            if not os.path.isabs(path):
                raise self._problem(key, f"{key}: path {path} is not absolute")
            if not os.path.exists(path):
                raise self._problem(key, f"{key}: path {path} does not exist")
        return provider._replace(paths=paths)

    def _allows(self, kind: str) -> bool:
        return self._allowed is None or kind in self._allowed

    def _problem(self, name: str, message: str) -> ConfigError:
        self.problems.setdefault(name, message)
        return ConfigError(message)

    def resolve(self, text: str, *, of_command_line: bool = False) -> str:
        """Return the text with the value of each variable; the same object if it has none. Raises Unresolved for the
        first one without a value, and for each other `${`.
        """
        if "${" not in text:
            return text
        rest = _VARIABLE.sub(" ", text)
        if (bare := _BARE.search(rest)) is not None:
            raise Unresolved(f"{bare[0]} {_NO_PROVIDER}")
        if (opened := _OPEN.search(rest)) is not None:
            raise self._unclosed(opened)
        return _VARIABLE.sub(lambda found: self._value(found, of_command_line), text)

    def _unclosed(self, opened: re.Match[str]) -> Unresolved:
        """Another text than that of a provider may be part of a password, and is not shown."""
        if opened[1] in self._providers or opened[1] in OF_COMMAND_LINE:
            return Unresolved(f"{opened[0]} has no closing }}: write {opened[0]}}}")
        return Unresolved(_UNCLOSED)

    def is_refused(self, text: str) -> bool:
        """Whether a variable of the text belongs to a provider that has an entry in `problems`."""
        return any(found[1] in self._refused for found in _VARIABLE.finditer(text))

    def _value(self, found: re.Match[str], of_command_line: bool) -> str:
        variable, name, path, key = found[0], found[1], found[3] or "", found[4]
        if "${" in variable[2:]:
            raise Unresolved(_UNCLOSED)
        if not name:
            raise Unresolved(f"{variable} {_NO_PROVIDER}")
        provider = self._providers.get(name)
        if provider is None and of_command_line and name in OF_COMMAND_LINE and self._allows(OF_COMMAND_LINE[name]):
            provider = Provider(OF_COMMAND_LINE[name], name)
        if provider is None:
            raise Unresolved(
                f"{variable} names an unknown provider: add {name} to {NAMES} and set {PREFIX}{name}.class, or write "
                "the value"
            )
        value = _READERS[provider.kind](provider, variable, path, key)
        self.values.add(value)
        return value


def has_variable(text: str) -> bool:
    """Whether the text has a variable with a provider."""
    return "${" in text and _VARIABLE.search(text) is not None


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _of_environment(provider: Provider, variable: str, path: str, key: str) -> str:
    if path and key.startswith("-"):
        raise Unresolved(
            f"{variable} has a default, which config providers do not have: write ${{{provider.name}:{path}}} and "
            f"export {path}"
        )
    if path:
        raise Unresolved(f"{variable} has a path: write ${{{provider.name}:{key if key.isidentifier() else path}}}")
    if not key:
        raise Unresolved(f"{variable} names no variable: write ${{{provider.name}:NAME}}")
    if provider.pattern is not None and not provider.pattern.fullmatch(key):
        raise Unresolved(
            f"{variable} is not allowed: {PREFIX}{provider.name}.param.{ALLOWLIST}={provider.pattern.pattern} does not "
            f"match {key}"
        )
    value = os.environ.get(key)
    if value is None:
        raise Unresolved(f"{variable} is not set: export {key}, or write the value")
    return value


def _of_file(provider: Provider, variable: str, path: str, key: str) -> str:
    if path and not key:
        raise Unresolved(f"{variable} names no key: write ${{{provider.name}:{path}:KEY}}")
    data = _read(provider, variable, path)
    try:
        found = parse_properties(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise Unresolved(f"{variable} cannot be read: {path} is not in UTF-8") from None
    except ConfigError as error:
        raise Unresolved(f"{variable} cannot be read: {path}: {error}") from None
    if key not in found:
        raise Unresolved(f"{variable} has no value: {path} has no {key}")
    return found[key]


def _of_directory(provider: Provider, variable: str, path: str, key: str) -> str:
    if not key or "/" in key or key in (".", ".."):
        raise Unresolved(f"{variable} names no file: write ${{{provider.name}:DIRECTORY:FILE}}")
    text = _read(provider, variable, path, key).decode("utf-8", "replace")
    return text[:-1].removesuffix("\r") if text.endswith("\n") else text


_READERS: Final[Mapping[str, Callable[[Provider, str, str, str], str]]] = {
    ENV: _of_environment,
    FILE: _of_file,
    DIRECTORY: _of_directory,
}


def _read(provider: Provider, variable: str, path: str, name: str = "") -> bytes:
    """The content of a file, or of the file `name` in a directory. Raises Unresolved."""
    if not path:
        raise Unresolved(f"{variable} names no path: write ${{{provider.name}:/PATH:NAME}}")
    if provider.paths is not None:
        path = os.path.normpath(path)
        if not any(path == allowed or path.startswith(allowed.rstrip("/") + "/") for allowed in provider.paths):
            raise Unresolved(
                f"{variable} is not allowed: {PREFIX}{provider.name}.param.{ALLOWED_PATHS}={','.join(provider.paths)}"
            )
    try:
        with open(os.path.join(path, name) if name else path, "rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        raise Unresolved(f"{variable} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > FILE_BYTES_MAX:
        raise Unresolved(f"{variable} cannot be read: the file is larger than {FILE_BYTES_MAX} bytes")
    return data
