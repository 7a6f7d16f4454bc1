"""Users of Kerberos's principals: Kafka's KerberosShortNamer, with the names and rules of its documentation."""

from __future__ import annotations

import pytest

from broker_cy.security.kerberos import PrincipalRules, RuleError

REALM = "EXAMPLE.COM"
APP = r"RULE:[1:$1](App\..*)s/App\.(.*)/$1/g"


def user(principal: str, *rules: str) -> str:
    return PrincipalRules(rules or ("DEFAULT",), REALM).user_of(principal)


@pytest.mark.parametrize(
    ("principal", "rules", "expected"),
    [
        ("alice@EXAMPLE.COM", (), "alice"),
        ("kafka/broker1.example.com@EXAMPLE.COM", (), "kafka"),
        ("alice@OTHER.COM", (APP, "RULE:[1:$1@$0](.*@OTHER.COM)s/@.*//"), "alice"),
        ("App.service-name@X", (APP, "RULE:[2:$1]", "DEFAULT"), "service-name"),
        ("App.service-name/example.com@X", (APP, "RULE:[2:$1]"), "App.service-name"),
        ("Alice@OTHER.COM", ("RULE:[1:$1]/L",), "alice"),
        ("Alice@OTHER.COM", ("RULE:[1:$1](.*)s/A/b/U",), "BLICE"),
        ("Alice@OTHER.COM", ("RULE:[1:$1](.*)s/A/b//U",), "BLICE"),
        ("Alice@OTHER.COM", ("RULE:[1:$1]L",), "alice"),
        ("a.b.c@X", (r"RULE:[1:$1]s/\./-/",), "a-b.c"),
        ("a.b.c@X", (r"RULE:[1:$1]s/\./-/g",), "a-b-c"),
        ("nn/host@X", ("RULE:[2:$2.$1.$0]",), "host.nn.X"),
        ("ab@X", ("RULE:[1:$1]s/(a)(b)/$2$10/",), "ba0"),
        ("ab@X", ("RULE:[1:$1]s/(?<first>a)/${first}\\$/",), "a$b"),
        ("/host@EXAMPLE.COM", ("RULE:[2:x$1]",), "x"),
    ],
)  # fmt: skip
def test_users_of_principals(principal: str, rules: tuple[str, ...], expected: str) -> None:
    """If this fails, a client is another user than in Kafka, with the rights of that one."""
    assert user(principal, *rules) == expected


@pytest.mark.parametrize(
    ("principal", "rules", "error"),
    [
        ("alice@OTHER.COM", (), "No rules apply to alice@OTHER.COM, rules DEFAULT"),
        ("alice@example.com", (), "No rules apply"),
        ("a/b@X", ("RULE:[1:$1]",), "No rules apply"),
        ("a@X", ("RULE:[2:$1]",), "No rules apply"),
        ("ab@X", ("RULE:[1:$1](a)",), "No rules apply"),
        ("a@X", ("RULE:[1:$1@$0]", "DEFAULT"), "Non-simple name a@X"),
        ("a/b@X", ("RULE:[2:$1/$2]",), "Non-simple name a/b"),
        ("@EXAMPLE.COM", (), "Non-simple name"),
        ("a@X", ("RULE:[1:]",), "Non-simple name"),
        # Names that Kerberos allows, in which the rules would find another name.
        ("admin\\/x@EXAMPLE.COM", (), "Malformed"),
        ("admin\\@EXAMPLE.COM@EXAMPLE.COM", (), "Malformed"),
        ("a/b/c@EXAMPLE.COM", (), "Malformed"),
        ("a@b@EXAMPLE.COM", (), "Malformed"),
        ("alice", (), "Malformed"),
        ("", (), "Malformed"),
    ],
)
def test_principals_that_are_nobody(principal: str, rules: tuple[str, ...], error: str) -> None:
    """If this fails, a client of another realm, or with a strange name, becomes a user of this cluster."""
    with pytest.raises(RuleError) as found:
        user(principal, *rules)
    assert error in str(found.value)


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        ("default", "Invalid rule: default"),
        ("RULE:[1:$1", "Invalid rule"),
        ("RULE:[1:$1](a)x", "unmatched substring: `x`"),
        ("DEFAULT/L", "unmatched substring: `/L`"),
        ("RULE:[:$1]", "the number of parts is missing"),
        ("RULE:[1:$2]", "$2 is outside of the valid range 0 to 1"),
        ("RULE:[1:$]", "is outside"),
        ("RULE:[1:$1](*)", "nothing to repeat"),
        ("RULE:[1:$1]s/[/x/", "has no closing ]"),
        ("RULE:[1:$1]s/a/$1/", "has no group 1"),
        ("RULE:[1:$1]s/a/${b}/", "has no group b"),
        ("RULE:[1:$1]s/a/$x/", "neither a number nor a name"),
        ("RULE:[1:$1]s/a/$/", "ends with a $"),
        ("RULE:[1:$1]s/a/b\\/", "ends with a backslash"),
    ],
)
def test_malformed_rules(rule: str, error: str) -> None:
    """If this fails, a broker starts with rules that do not do what the operator meant."""
    with pytest.raises(RuleError) as found:
        user("a@X", rule)
    assert error in str(found.value)
