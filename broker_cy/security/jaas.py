"""Kafka's JAAS settings (sasl.jaas.config): `LOGIN_MODULE FLAG NAME=VALUE ... ;`, read as its JaasConfig reads them.

Kafka reads them with Java's StreamTokenizer: names are words of letters, digits, `_`, `-`, `$` and `.`, values are
words or in quotes with Java's escapes, and comments are Java's. A number is not a value: it must be in quotes.

Kafka loads the class that the setting names. So a client that may write settings could run code of the broker's class
path (CVE-2023-25194, CVE-2025-27818, CVE-2025-27819: JndiLoginModule, LdapLoginModule). Here a name only selects one of
MODULES: no class is loaded, and every other name is refused.

Invariant: no error names a value or any other part of the text but the login module, because a missing quote makes a
password the name of an option.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from broker_cy.core.classes import NamedTuple
from broker_cy.security.sasl.exchange import KerberosLogin, Login, Passwords, shown

# Bounds of one setting.
TEXT_CHARACTERS_MAX: Final = 1 << 20
OPTIONS_MAX: Final = 10_000

PLAIN: Final = "PLAIN"
SCRAM: Final = frozenset({"SCRAM-SHA-256", "SCRAM-SHA-512"})
OAUTHBEARER: Final = "OAUTHBEARER"
GSSAPI: Final = "GSSAPI"
MECHANISMS: Final = frozenset({PLAIN, OAUTHBEARER, GSSAPI}) | SCRAM
# Mechanisms of a user with a password.
BY_PASSWORD: Final = frozenset({PLAIN}) | SCRAM

_SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
# The allow-list: the login module of each mechanism.
MODULES: Final = {
    PLAIN: "org.apache.kafka.common.security.plain.PlainLoginModule",
    **dict.fromkeys(SCRAM, _SCRAM_MODULE),
    OAUTHBEARER: "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
    GSSAPI: "com.sun.security.auth.module.Krb5LoginModule",
}
_FLAGS: Final = frozenset({"REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL"})
# In the options of PlainLoginModule: user_alice="the password of alice".
_USER_PREFIX: Final = "user_"
_TRUE: Final = "true"
# The options of Krb5LoginModule. This program never prompts for a password, and a key stays in its file.
_OF_KERBEROS: Final = frozenset(
    {"useKeyTab", "keyTab", "principal", "storeKey", "useTicketCache", "ticketCache", "doNotPrompt", "serviceName"}
)
_BOOLEANS: Final = ("useKeyTab", "storeKey", "useTicketCache", "doNotPrompt")
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_WITHIN_WORDS: Final = "-.0123456789"
_OCTAL: Final = "01234567"


class JaasError(ValueError):
    """The setting is wrong; the text says how, and has no secret."""


class Token(NamedTuple):
    """A word or a quoted text (`text`), or another character (`sign`)."""

    text: str | None
    sign: str = ""


class LoginModule:
    """The one entry of a setting. Its options are not in its `repr`."""

    __slots__ = ("name", "options")

    def __init__(self, name: str, options: dict[str, str]) -> None:
        self.name = name
        self.options = options

    def __repr__(self) -> str:
        return f"LoginModule({shown(self.name)}, {len(self.options)} options)"


def passwords(text: str) -> Passwords:
    """The users of PLAIN in the setting of a server. Raises JaasError."""
    options = _module_of(PLAIN, text).options
    return Passwords(
        {name.removeprefix(_USER_PREFIX): value for name, value in options.items() if name.startswith(_USER_PREFIX)}
    )


def check_server(mechanism: str, text: str) -> None:
    """Raise JaasError unless the setting is one of this mechanism. The setting of OAUTHBEARER has no options: Kafka's
    options make unsigned tokens, or a client's.
    """
    module = _module_of(mechanism, text)
    if mechanism == OAUTHBEARER and module.options:
        raise JaasError(f"options of {MODULES[OAUTHBEARER]} are not supported: use the settings sasl.oauthbearer.*")


def login(mechanism: str, text: str) -> Login:
    """The login of a client, or of a broker to another one. Raises JaasError."""
    options = _module_of(mechanism, text).options
    if mechanism not in BY_PASSWORD:
        raise JaasError(f"{shown(mechanism)} is not a mechanism with a user and a password")
    is_token = options.get("tokenauth", "").lower() == _TRUE
    if is_token and mechanism not in SCRAM:
        raise JaasError(f"tokenauth=true needs one of the mechanisms {', '.join(sorted(SCRAM))}")
    user, password = options.get("username"), options.get("password")
    if not user or password is None:
        raise JaasError(f"{MODULES[mechanism]} needs the options username and password")
    return Login(mechanism, user, password, is_token=is_token)


def client_text(mechanism: str, user: str, password: str) -> str:
    """Return the setting of a client that logs in with a user and a password: what `login` reads."""

    def quoted(text: str) -> str:
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'

    return f"{MODULES[mechanism]} required username={quoted(user)} password={quoted(password)};"


def kerberos(text: str, service: str | None, *, is_server: bool = False) -> KerberosLogin:
    """The Kerberos login of a client or a listener. `service` is sasl.kerberos.service.name. Raises JaasError."""
    options = _module_of(GSSAPI, text).options
    if others := sorted(options.keys() - _OF_KERBEROS):
        raise JaasError(f"the option {shown(others[0])} of {MODULES[GSSAPI]} is not supported")
    flags = {name: options.get(name, "false").lower() for name in _BOOLEANS}
    for name, value in flags.items():
        if value not in (_TRUE, "false"):
            raise JaasError(f"the option {name} is true or false")
    found = options.get("serviceName", service)
    if service is not None and found != service:
        raise JaasError("the option serviceName and the setting sasl.kerberos.service.name are different")
    if not found:
        raise JaasError("setting sasl.kerberos.service.name is needed, or the option serviceName")
    has_key, has_tickets = flags["useKeyTab"] == _TRUE, flags["useTicketCache"] == _TRUE
    principal = options.get("principal", "")
    if is_server and not (has_key and flags["storeKey"] == _TRUE and principal):
        raise JaasError(
            f"a listener needs the options useKeyTab=true, storeKey=true and principal of {MODULES[GSSAPI]}"
        )
    if has_key == has_tickets:
        raise JaasError("either useKeyTab=true or useTicketCache=true is needed")
    if has_key and not principal:
        raise JaasError("useKeyTab=true needs the option principal")
    if has_key:
        return KerberosLogin(found, principal, options.get("keyTab", "").removeprefix("file:"))
    return KerberosLogin(found, principal, options.get("ticketCache", ""), uses_tickets=True)


def _module_of(mechanism: str, text: str) -> LoginModule:
    if mechanism not in MODULES:
        raise JaasError(f"the SASL mechanism {shown(mechanism)} is not supported")
    module = parse(text)
    if module.name != MODULES[mechanism]:
        raise JaasError(f"{shown(module.name)} is not allowed: the login module of {mechanism} is {MODULES[mechanism]}")
    return module


def parse(text: str) -> LoginModule:
    """The only entry of the setting. Raises JaasError."""
    if len(text) > TEXT_CHARACTERS_MAX:
        raise JaasError(f"the JAAS config has more than {TEXT_CHARACTERS_MAX} characters")
    tokens = _tokens(text)
    first = next(tokens, None)
    if first is None:
        raise JaasError("Login module not specified in JAAS config")
    if first.text is None:
        raise JaasError("the JAAS config does not begin with the name of a login module")
    flag = next(tokens, None)
    if flag is None:
        raise JaasError("Login module control flag not specified in JAAS config")
    if flag.text is None or flag.text.upper() not in _FLAGS:
        raise JaasError(
            "Invalid login module control flag in JAAS config: it is required, requisite, sufficient or optional"
        )
    module = LoginModule(first.text, _options(tokens))
    if next(tokens, None) is not None:
        raise JaasError("JAAS config property contains several login modules, should be 1 module")
    return module


def _options(tokens: Iterator[Token]) -> dict[str, str]:
    """The options up to the semicolon; of a name that occurs twice the last one counts, as in Kafka."""
    found: dict[str, str] = {}
    for token in tokens:
        if token.sign == ";":
            return found
        if len(found) >= OPTIONS_MAX:
            raise JaasError(f"the JAAS config has more than {OPTIONS_MAX} options")
        equals, value = next(tokens, None), next(tokens, None)
        if token.text is None or equals is None or equals.sign != "=" or value is None or value.text is None:
            raise JaasError(
                f'Value not specified for option number {len(found) + 1} in JAAS config: it has the form NAME="VALUE"'
            )
        found[token.text] = value.text
    raise JaasError("JAAS config entry not terminated by semi-colon")


def _is_letter(sign: str) -> bool:
    """Whether a word may begin with it."""
    return (sign.isascii() and sign.isalpha()) or sign in "_$" or sign >= "\xa0"


def _tokens(text: str) -> Iterator[Token]:
    at, end = 0, len(text)
    while at < end:
        sign = text[at]
        if sign <= " ":
            at += 1
        elif sign == "/":
            at = _after_comment(text, at)
        elif sign in "\"'":
            value, at = _quoted(text, at)
            yield Token(value)
        elif _is_letter(sign):
            begin = at
            while at < end and (
                _is_letter(text[at]) or text[at] in "-." or (text[at].isascii() and text[at].isdigit())
            ):
                at += 1
            yield Token(text[begin:at])
        else:
            # Among them what begins a number.
            at += 1
            yield Token(None, sign)


def _after_comment(text: str, at: int) -> int:
    """The position behind the comment that begins at `at`: a slash alone begins one to the end of the line, too."""
    if text.startswith("/*", at):
        close = text.find("*/", at + 2)
        return len(text) if close < 0 else close + 2
    while at < len(text) and text[at] not in "\r\n":
        at += 1
    return at


def _quoted(text: str, at: int) -> tuple[str, int]:
    """The text in the quotes that open at `at`, and the position behind them."""
    quote = text[at]
    parts: list[str] = []
    at += 1
    while at < len(text) and text[at] not in "\r\n":
        sign = text[at]
        at += 1
        if sign == quote:
            return "".join(parts), at
        if sign == "\\" and at < len(text):
            sign, at = _escaped(text, at)
        parts.append(sign)
    raise JaasError("a quote is not closed on its line of the JAAS config")


def _escaped(text: str, at: int) -> tuple[str, int]:
    """The meaning of the escape behind a backslash, and the position behind it."""
    sign = text[at]
    if sign not in _OCTAL:
        return _ESCAPES.get(sign, sign), at + 1
    # At most \377.
    digits = 3 if sign <= "3" else 2
    end = at
    while end < len(text) and end < at + digits and text[end] in _OCTAL:
        end += 1
    return chr(int(text[at:end], 8)), end
