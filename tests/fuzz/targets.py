"""The targets by name; a module is imported when one of its targets is requested."""

from importlib import import_module
from importlib.util import find_spec

from tests.fuzz.target import Target

MODULES = {
    "wire_targets": ("requests", "messages", "produce_view", "fetch_view", "control", "metadata", "group_records"),
    "batch_targets": ("produced", "stored", "compressed"),
    "storage_targets": ("log_files", "small_files"),
    "sasl_targets": ("sasl_exchange", "sasl_answer", "sasl_login", "jaas"),
    "oauth_targets": ("oauth_exchange", "oauth_keys", "sasl_token"),
    "tls_targets": ("tls_hello", "tls_flights", "tls_records"),
    "gssapi_targets": ("gssapi_login", "kerberos_names"),
    "state_targets": ("metadata_log", "group_log", "quorum_state", "quorum_entries"),
}


def load(name: str) -> Target:
    """The target called `name`; KeyError if it does not exist."""
    for module, group in MODULES.items():
        if name in group:
            found: Target = import_module(f"tests.fuzz.{module}").TARGETS[name]
            return found
    raise KeyError(f"no target {name!r}; there are {', '.join(names())}")


def names() -> list[str]:
    """All targets, including those of TLS if the build has TLS."""
    has_tls = find_spec("broker_cy.core.openssl") is not None
    return [name for module, group in MODULES.items() if has_tls or module != "tls_targets" for name in group]
