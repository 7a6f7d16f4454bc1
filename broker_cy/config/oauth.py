"""The settings of OAUTHBEARER: a listener's requirements for the tokens of clients, and the source of the token that a
node logs in to other nodes with.

Invariant: only URLs and files that brokercy.sasl.oauthbearer.allowed.urls contains literally are read (CVE-2025-27817).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from broker_cy.core.config_def.types import ConfigError
from broker_cy.security import token_settings
from broker_cy.security.sasl.oauthbearer import TokenEndpoint
from broker_cy.security.token_settings import OAuth, check_allowed_url, required_tokens

HANDLER: Final = "sasl.server.callback.handler.class"
LOGIN_HANDLER: Final = "sasl.login.callback.handler.class"
ALLOWED_URLS: Final = "brokercy.sasl.oauthbearer.allowed.urls"
_TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"
_CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
_CLIENT_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"
_TOKEN_SCOPE: Final = "sasl.oauthbearer.scope"
_OF_PROVIDER: Final = (_CLIENT_ID, _CLIENT_SECRET, _TOKEN_SCOPE)
NAMES: Final = frozenset({*token_settings.NAMES, ALLOWED_URLS, _TOKEN_URL, *_OF_PROVIDER})
OF_LISTENER: Final = NAMES - {ALLOWED_URLS}
# Kafka's validator of signed tokens, the only one served here; without it Kafka accepts unsigned tokens.
_VALIDATORS: Final = frozenset(
    {
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
        "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
    }
)
# Kafka's client of a provider, the only one served here.
_LOGIN_HANDLERS: Final = frozenset(
    {
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
        "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
    }
)
HANDLERS: Final = {HANDLER: _VALIDATORS, LOGIN_HANDLER: _LOGIN_HANDLERS}


def of_listener(listener: str, value: Callable[[str], Any], allowed: Iterable[str]) -> OAuth:
    """`value` returns the typed value of a setting for this listener. Raises ConfigError."""

    def check(setting: str, url: str) -> None:
        check_allowed_url(setting, url, allowed, ALLOWED_URLS)

    return required_tokens(f"listener {listener} has OAUTHBEARER", value, check)


def of_node(listener: str, setting: str, value: Callable[[str], Any], allowed: Iterable[str]) -> TokenEndpoint:
    """The login of a node to the listener of other nodes, because `setting` says so. Raises ConfigError, without the
    secret.
    """
    url = (value(_TOKEN_URL) or "").strip()
    if not url:
        raise ConfigError(f"setting {setting}=OAUTHBEARER: setting {_TOKEN_URL} is needed for listener {listener}")
    check_allowed_url(_TOKEN_URL, url, allowed, ALLOWED_URLS)
    secret = value(_CLIENT_SECRET)
    found = TokenEndpoint(
        url,
        (value(_CLIENT_ID) or "").strip(),
        "" if secret is None else secret.value.strip(),
        (value(_TOKEN_SCOPE) or "").strip(),
    )
    if found.is_file:
        if any(found[1:]):
            raise ConfigError(f"settings {', '.join(_OF_PROVIDER)} do not belong to a file of {_TOKEN_URL}")
    elif not (found.client_id and found.secret):
        raise ConfigError(f"setting {_TOKEN_URL} needs {_CLIENT_ID} and {_CLIENT_SECRET}")
    return found
