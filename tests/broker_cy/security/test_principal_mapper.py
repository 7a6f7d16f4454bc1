"""ssl.principal.mapping.rules, with the cases of Kafka's documentation and of its SslPrincipalMapper."""

from __future__ import annotations

import pytest

from broker_cy.security.tls.principal import MappingError, PrincipalMapper

RULES = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L , RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/, "
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, DEFAULT"
)


@pytest.mark.parametrize(
    ("rules", "subject", "expected"),
    [
        ("DEFAULT", "CN=alice,O=x", "CN=alice,O=x"),
        (RULES, "CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        (RULES, "CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "Duke@SME"),
        (RULES, "cn=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        (RULES, "OU=JavaSoft,O=Sun Microsystems", "OU=JavaSoft,O=Sun Microsystems"),
        # A number of no group is text; as many digits count as make a group.
        ("RULE:^CN=(.*?),.*$/$1@$4/", "CN=a,O=x", "a@$4"),
        ("RULE:^CN=(.*?),.*$/$12/", "CN=a,O=x", "a2"),
        ("RULE:^CN=(.*?),.*$/$0!/", "CN=a,O=x", "CN=a,O=x!"),
        (r"RULE:^CN=(.*?),.*$/\$1\/$1/", "CN=a,O=x", "$1/a"),
        (r"RULE:^CN=(?<who>.*?),.*$/${who}-${who}/U", "CN=a,O=x", "A-A"),
        (r"RULE:^cn\/(.*)$/$1/", "cn/a", "a"),
        # Rules in any layout; an empty one is none.
        ("  RULE:a/b/ ,, DEFAULT ", "x", "x"),
        ("RULE:a/b/,RULE:x/y/", "x", "y"),
    ],
)
def test_rules(rules: str, subject: str, expected: str) -> None:
    """If this fails, the ACLs of the users that a rule makes do not count, or count for others."""
    assert PrincipalMapper(rules).name_of(subject) == expected


def test_no_rule_applies() -> None:
    """If this fails, a client that matches no rule gets a principal."""
    with pytest.raises(MappingError, match="no rule"):
        PrincipalMapper("RULE:^CN=a$/a/").name_of("CN=b")
    # The pattern is of the whole name.
    with pytest.raises(MappingError, match="no rule"):
        PrincipalMapper("RULE:CN=a/a/").name_of("CN=a,O=evil")


@pytest.mark.parametrize("rules", ["RULE:(/x/", "RULE:^a$/$1/", "NONSENSE", "RULE:a", "RULE:a/b/K"])
def test_malformed_rules(rules: str) -> None:
    """If this fails, a broker starts with rules whose meaning differs from their text."""
    with pytest.raises(MappingError, match="Invalid rule"):
        PrincipalMapper(rules)
