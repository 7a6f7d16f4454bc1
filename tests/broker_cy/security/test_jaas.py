"""JAAS settings as Kafka reads them, and the login modules that are refused."""

from __future__ import annotations

import pytest

from broker_cy.security import jaas
from broker_cy.security.jaas import JaasError
from broker_cy.security.sasl.exchange import KerberosLogin

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f'{PLAIN} required username="al" password="a-secret";', {"username": "al", "password": "a-secret"}),
        (f"{PLAIN} REQUIRED username=alice password='it\"s';", {"username": "alice", "password": 'it"s'}),
        (f"{PLAIN}\n  optional\n  a = b ;\n", {"a": "b"}),
        (f'{PLAIN} required a="\\"\\\\\\n\\x\\101\\477";', {"a": '"\\\nxA\x277'}),
        (f"{PLAIN} required // a comment\n a=b /* another; one */ ;", {"a": "b"}),
        (f"{PLAIN} required a=b / c=d\n;", {"a": "b"}),
        (f'{PLAIN} required user_a-b.c="1" u\xe4="2" $x=y_1.z;', {"user_a-b.c": "1", "u\xe4": "2", "$x": "y_1.z"}),
        (f"{PLAIN} required a=b a=c;", {"a": "c"}),
        (f"{PLAIN} required;", {}),
        (f'{PLAIN} required "quoted name"="with = and ; // too";', {"quoted name": "with = and ; // too"}),
    ],
)  # fmt: skip
def test_settings_of_kafka_are_read(text: str, options: dict[str, str]) -> None:
    """If this fails, a server.properties that works with Kafka gives users other passwords, or does not start."""
    module = jaas.parse(text)
    assert (module.name, module.options) == (PLAIN, options)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "Login module not specified"),
        ("// nothing", "Login module not specified"),
        (PLAIN, "control flag not specified"),
        (f"{PLAIN} sometimes;", "Invalid login module control flag"),
        (f"{PLAIN} ;", "Invalid login module control flag"),
        (f"{PLAIN} required", "not terminated by semi-colon"),
        (f"{PLAIN} required a=b", "not terminated by semi-colon"),
        (f"{PLAIN} required a;", "Value not specified for option number 1"),
        (f"{PLAIN} required a=b c=;", "Value not specified for option number 2"),
        (f"{PLAIN} required a=1;", "Value not specified"),
        (f"{PLAIN} required a=-;", "Value not specified"),
        (f"{PLAIN} required a=b; {PLAIN} required;", "several login modules"),
        (f'{PLAIN} required a="b;', "a quote is not closed"),
        ("= required;", "does not begin with the name"),
        (f"{PLAIN} required {'a=b ' * 3}{' '.join(f'a{number}=b' for number in range(10_001))};", "more than 10000"),
        ("x" * (1 << 20) + "y", "characters"),
    ],
)
def test_mistakes_are_reported(text: str, error: str) -> None:
    """If this fails, a broker starts with other users than the operator meant."""
    with pytest.raises(JaasError, match=error):
        jaas.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        f'{PLAIN} required password="open sesame;',
        f'{PLAIN} required password="x"open sesame;',
        f"{PLAIN} required password=x open sesame;",
        f'{PLAIN} "open" sesame;',
    ],
)
def test_no_error_has_a_part_of_a_password(text: str) -> None:
    """If this fails, a log has the password of a user, because a quote is missing in the settings."""
    with pytest.raises(JaasError) as found:
        jaas.parse(text)
    assert "sesame" not in str(found.value)
    assert "open" not in str(found.value)


@pytest.mark.parametrize(
    "module",
    [
        "com.sun.security.auth.module.JndiLoginModule",  # CVE-2023-25194
        "com.sun.security.auth.module.LdapLoginModule",  # CVE-2025-27818, CVE-2025-27819
        "org.example.OwnLoginModule",
        PLAIN.lower(),
        f"{PLAIN}2",
    ],
)
def test_other_login_modules_are_refused(module: str) -> None:
    """If this fails, anyone who can change settings can choose the class that a broker or a client runs."""
    text = f'{module} required username="alice" password="s" user.provider.url="ldap://attacker" serviceName="x";'
    for mechanism in jaas.MECHANISMS:
        with pytest.raises(JaasError, match="is not allowed: the login module of"):
            jaas.login(mechanism, text)
        with pytest.raises(JaasError, match="is not allowed"):
            jaas.check_server(mechanism, text)
    with pytest.raises(JaasError, match="is not allowed"):
        jaas.passwords(text)


def test_each_mechanism_has_its_own_module() -> None:
    """If this fails, one mechanism accepts the users of another."""
    with pytest.raises(JaasError, match="not allowed"):
        jaas.passwords(f'{SCRAM} required user_alice="x";')
    with pytest.raises(JaasError, match="not allowed"):
        jaas.check_server("SCRAM-SHA-256", f"{PLAIN} required;")
    with pytest.raises(JaasError, match="DIGEST-MD5 is not supported"):
        jaas.check_server("DIGEST-MD5", f"{PLAIN} required;")
    with pytest.raises(JaasError, match="not allowed"):
        jaas.check_server("GSSAPI", f"{PLAIN} required;")
    jaas.check_server("SCRAM-SHA-512", f"{SCRAM} required;")


def test_users_and_the_own_login_are_different_options() -> None:
    """If this fails, clients can use the broker's own login, or no broker can log in to another."""
    text = f'{PLAIN} required username="admin" password="a-secret" user_alice="b-secret";'
    assert jaas.passwords(text).by_user == {"alice": "b-secret"}
    found = jaas.login("PLAIN", text)
    assert (found.user, found.password) == ("admin", "a-secret")
    for shown in (repr(found), repr(jaas.passwords(text)), repr(jaas.parse(text))):
        assert "secret" not in shown


def test_a_login_with_a_delegation_token() -> None:
    """If this fails, a client uses the id of its token as a user name; or believes that PLAIN has tokens."""
    for value, is_token in (("true", True), ("TRUE", True), ("false", False)):
        found = jaas.login("SCRAM-SHA-512", f'{SCRAM} required username="id" password="hmac" tokenauth="{value}";')
        assert (found.user, found.password, found.is_token) == ("id", "hmac", is_token)
    with pytest.raises(JaasError, match="tokenauth"):
        jaas.login("PLAIN", f'{PLAIN} required username="id" password="hmac" tokenauth="true";')


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ("", "username and password"),
        ('username="a"', "username and password"),
        ('username="" password="b"', "username and password"),
        ('username="a" tokenauth="true"', "username and password"),
    ],
)
def test_a_login_needs_a_name_and_a_password(options: str, error: str) -> None:
    """If this fails, a mistake in the settings shows only when a broker does not reach another one."""
    with pytest.raises(JaasError, match=error):
        jaas.login("SCRAM-SHA-256", f"{SCRAM} required {options};")


KRB5 = "com.sun.security.auth.module.Krb5LoginModule"
KEY = 'useKeyTab=true storeKey=true keyTab="/etc/k" principal="kafka/h@X"'


def test_kerberos_with_a_key() -> None:
    """If this fails, a broker with Kafka's Kerberos settings does not start, or starts with the wrong key."""
    expected = KerberosLogin("kafka", "kafka/h@X", "/etc/k")
    assert jaas.kerberos(f"{KRB5} required {KEY};", "kafka", is_server=True) == expected
    assert jaas.kerberos(f'{KRB5} required {KEY} serviceName="kafka" doNotPrompt=true;', None) == expected
    assert jaas.kerberos(f'{KRB5} required {KEY} serviceName="kafka" useTicketCache=False;', "kafka") == expected
    jaas.check_server("GSSAPI", f"{KRB5} required {KEY};")


def test_kerberos_with_tickets() -> None:
    """If this fails, a user who has logged in with kinit also has to store a key in a file."""
    assert jaas.kerberos(f"{KRB5} required useTicketCache=true;", "kafka") == KerberosLogin("kafka", "", "", True)
    text = f'{KRB5} required useTicketCache=true ticketCache="/t" principal="alice";'
    assert jaas.kerberos(text, "kafka") == KerberosLogin("kafka", "alice", "/t", uses_tickets=True)


@pytest.mark.parametrize(
    ("options", "service", "is_server", "error"),
    [
        (KEY, None, False, "sasl.kerberos.service.name is needed"),
        (f"{KEY} serviceName=a", "b", False, "are different"),
        (f"{KEY} debug=true", "kafka", False, "the option debug"),
        (f"{KEY} isInitiator=false", "kafka", True, "the option isInitiator"),
        (f"{KEY} useTicketCache=true", "kafka", False, "either useKeyTab"),
        ("", "kafka", False, "either useKeyTab"),
        ("useKeyTab=true", "kafka", False, "needs the option principal"),
        ("useKeyTab=yes principal=a", "kafka", False, "useKeyTab is true or false"),
        ("useTicketCache=true", "kafka", True, "a listener needs"),
        ('useKeyTab=true principal="kafka/h@X"', "kafka", True, "a listener needs"),
        ("useKeyTab=true storeKey=true", "kafka", True, "a listener needs"),
    ],
)
def test_options_of_kerberos_that_are_refused(options: str, service: str | None, is_server: bool, error: str) -> None:
    """If this fails, an option has no effect that an operator relies on."""
    with pytest.raises(JaasError, match=error):
        jaas.kerberos(f"{KRB5} required {options};", service, is_server=is_server)
