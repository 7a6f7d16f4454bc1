"""The election of the instance that writes, as instances of Confluent's registry hold it."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from broker_cy.client.group_member import Joined
from broker_cy.core.errors import WireError
from broker_registry.leadership import DUPLICATE_URLS, Assignment, ElectionSettings, Identity, RegistryProtocol, elected

# As Confluent's registry 8 writes them, and older ones.
THEIRS = b'{"host":"sr-1","port":8081,"master_eligibility":true,"scheme":"http","version":1,"leader":false}'
OLDER = b'{"version":1,"host":"sr-2","port":8081,"master_eligibility":true}'


def parsed(data: bytes) -> Identity:
    return Identity.parse(json.loads(data))


def test_identities_are_those_of_confluents_registry() -> None:
    """If this fails, instances of Confluent's registry do not elect ours, or do not reach it."""
    assert parsed(THEIRS) == Identity("sr-1", 8081)
    assert parsed(OLDER) == Identity("sr-2", 8081)
    assert parsed(OLDER).url == "http://sr-2:8081"
    ((name, data),) = RegistryProtocol(parsed(THEIRS)).metadata(frozenset())
    assert (name, data) == ("v0", THEIRS)
    found = Identity.parse({"host": "a", "port": 1, "master_eligibility": False, "scheme": "https", "karapace": "4"})
    assert (found.url, found.is_eligible) == ("https://a:1", False)


@pytest.mark.parametrize("found", [None, [], "x", {}, {"host": "a"}, {"host": "a", "port": "x"}])
def test_other_identities_are_refused(found: Any) -> None:
    """If this fails, a member of another program ends the election of all."""
    with pytest.raises(WireError):
        Identity.parse(found)


def test_assignments_are_those_of_confluents_registry() -> None:
    """If this fails, instances of Confluent's registry do not learn which one writes."""
    whole = Assignment(0, "member-1", Identity("sr-1", 8081))
    data = b'{"error":0,"master":"member-1","master_identity":' + THEIRS + b',"version":1}'
    assert whole.encode() == data
    assert Assignment.decode(data) == whole
    assert Assignment().encode() == b'{"error":0,"version":1}'
    assert Assignment.decode(b'{"version":1,"error":1}') == Assignment(DUPLICATE_URLS)
    for wrong in (b"", b"[]", b"{", b'{"error":"x"}', b'{"master_identity":7}'):
        with pytest.raises(WireError):
            Assignment.decode(wrong)


def test_the_least_url_of_those_that_may_lead_is_elected() -> None:
    """If this fails, two instances of one group hold different ones for the leader."""
    members = {
        "m1": Identity("b", 1),
        "m2": Identity("a", 2),
        "m3": Identity("a", 1, is_eligible=False),
        "m4": Identity("c", 1, is_leader=True),
    }
    assert elected(members, is_sticky=False) == Assignment(0, "m2", members["m2"])
    assert elected(members, is_sticky=True) == Assignment(0, "m4", members["m4"])
    # Two that lead: the least URL of all decides.
    members["m5"] = Identity("d", 1, is_leader=True)
    assert elected(members, is_sticky=True).member_id == "m2"
    del members["m5"]
    members["m4"] = Identity("c", 1, is_eligible=False, is_leader=True)
    assert elected(members, is_sticky=True).member_id == "m2"
    assert elected({"m3": members["m3"]}, is_sticky=False) == Assignment()
    # Ports are compared as text: they are a part of the URL.
    assert elected({"x": Identity("a", 9), "y": Identity("a", 10)}, is_sticky=False).member_id == "y"


def test_two_instances_with_one_url_elect_nobody() -> None:
    """If this fails, two instances that are both `localhost` both write."""
    members = {"m1": Identity("localhost", 8081), "m2": Identity("localhost", 8081)}
    found = elected(members, is_sticky=False)
    assert found.error == DUPLICATE_URLS
    protocol = RegistryProtocol(members["m1"])
    assert protocol.parts(found.encode()) == frozenset()
    assert "one URL" in protocol.problem


def test_members_that_are_not_understood_do_not_lead() -> None:
    """If this fails, a program with the same group keeps the registry from writing."""
    protocol = RegistryProtocol(Identity("sr-1", 8081))
    members = [Joined("m1", None, THEIRS), Joined("m2", None, b"\0\1"), Joined("m3", None, b"[]")]
    found = protocol.assignments(members)
    assert found.keys() == {"m1", "m2", "m3"}
    assert protocol.parts(found["m2"]) == frozenset({Identity("sr-1", 8081)})
    assert protocol.problem == ""
    assert protocol.parts(Assignment().encode()) == frozenset()
    assert "no instance of the group may lead" in protocol.problem
    ineligible = Assignment(0, "m", Identity("x", 1, is_eligible=False)).encode()
    assert protocol.parts(ineligible) == frozenset()
    assert "may not lead" in protocol.problem


def test_sticky_leaders_say_that_they_lead() -> None:
    """If this fails, each instance that starts takes the lead from the one that has it."""
    draw = Random(7)
    protocols = {f"m{number}": RegistryProtocol(Identity(f"h{9 - number}", 1), is_sticky=True) for number in range(9)}
    joined: dict[str, RegistryProtocol] = {}
    leader = ""
    for name, protocol in protocols.items():
        joined[name] = protocol
        members = [Joined(each, None, one.metadata(frozenset())[0][1]) for each, one in joined.items()]
        assigned = draw.choice(list(joined.values())).assignments(members)
        found = {each: one.parts(assigned[each]) for each, one in joined.items()}
        assert len({next(iter(each)).url for each in found.values()}) == 1
        leader = leader or next(iter(found[name])).url
        assert next(iter(found[name])).url == leader
    assert [each.own.is_leader for each in joined.values()] == [True, *[False] * 8]


def test_an_instance_is_reached_where_it_listens() -> None:
    """If this fails, requests are forwarded to an address without a listener."""
    settings = ElectionSettings(Identity("", 0, is_eligible=False))
    assert settings.at("127.0.0.1", 8085).own == Identity("127.0.0.1", 8085, is_eligible=False)
    named = ElectionSettings(Identity("registry.example.com", 443, scheme="https"))
    assert named.at("127.0.0.1", 8085).own == named.own
