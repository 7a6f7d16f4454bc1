"""Masking of records: nothing hidden may be shown, and nothing hidden may be searched for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.record_filter import RecordFilter
from broker_cy.wire.records import Record
from dashboard.security.masking import Masking, parse_field, parse_masks
from dashboard.security.roles import Scope

SCOPE = Scope()
UNMASKED = Scope(unmasked=True)


def refuse(reason: str) -> ClientError:
    return ClientError(Failure.INVALID, reason, what="dashboard.toml")


def masking(*fields: str, **rule: Any) -> Masking:
    return Masking(parse_masks([{"topics": ["payments*"], "fields": list(fields), **rule}], refuse))


def shown(masks: Masking, value: Any, scope: Scope = SCOPE, topic: str = "payments") -> Any:
    """The value of a record as the scope sees it; parsed if it is JSON."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    found = masks.record(scope, topic, Record(7, 8, b"key", data, [("h", b"v")]))
    assert (found.offset, found.timestamp, found.key, found.headers) == (7, 8, b"key", (("h", b"v"),))
    assert found.value is not None
    try:
        return json.loads(found.value)
    except ValueError:
        return found.value.decode()


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("$.card.number", {"card": {"number": 4111, "type": "x"}}, {"card": {"number": "***", "type": "x"}}),
        ("$.card.number", {"a": {"card": {"number": 1}}}, {"a": {"card": {"number": 1}}}),
        ("$.card", {"card": {"number": 1}}, {"card": "***"}),
        ("$.card", {"card": None}, {"card": "***"}),
        (
            "$.cards.number",
            {"cards": [{"number": 1}, [{"number": 2}]]},
            {"cards": [{"number": "***"}, [{"number": "***"}]]},
        ),
        ("$.card", [{"card": 1}, {"card": 2}], [{"card": "***"}, {"card": "***"}]),
        ("email", {"email": "a", "b": [{"EMail": "c"}]}, {"email": "***", "b": [{"EMail": "***"}]}),
        ("card.number", {"x": {"card": {"number": 1}}, "number": 2}, {"x": {"card": {"number": "***"}}, "number": 2}),
        ("**.ssn", {"ssn": 1, "a": {"b": {"ssn": 2}}}, {"ssn": "***", "a": {"b": {"ssn": "***"}}}),
        ("$.a.**.z", {"a": {"z": 1, "b": {"z": 2}}, "z": 3}, {"a": {"z": "***", "b": {"z": "***"}}, "z": 3}),
        (
            "$.*.id",
            {"a": {"id": 1}, "id": 2, "b": {"c": {"id": 3}}},
            {"a": {"id": "***"}, "id": 2, "b": {"c": {"id": 3}}},
        ),
        ('$["a.b"].c', {"a.b": {"c": 1}, "a": {"b": {"c": 2}}}, {"a.b": {"c": "***"}, "a": {"b": {"c": 2}}}),
        ("a.a", {"a": {"b": 1, "a": {"a": 2}}}, {"a": {"b": 1, "a": "***"}}),
        ("email", {"text": '{"email": "a", "b": 1}'}, {"text": '{"email": "***", "b": 1}'}),
        ("email", {"text": '[{"x": "{\\"email\\": 1}"}]'}, {"text": '[{"x": "{\\"email\\": \\"***\\"}"}]'}),
        ("email", {"text": "{not JSON"}, {"text": "{not JSON"}),
        ("email", {"": 1, "ä": "\u2028\ud800"}, {"": 1, "ä": "\u2028\ud800"}),
    ],
)
def test_fields_are_hidden(field: str, value: Any, expected: Any) -> None:
    """If this fails, users see fields that the rules hide, or do not see others."""
    assert shown(masking(field), value) == expected


def test_both_occurrences_of_a_name_are_hidden() -> None:
    """If this fails, a producer that repeats a field reveals it."""
    found = shown(masking("ssn"), b'{"ssn": "11", "ssn": "22", "\\u0073sn": "33"}')
    assert found == {"ssn": "***"}
    record = masking("ssn").record(SCOPE, "payments", Record(value=b'{"ssn": "11", "\\u0073sn": "33"}'))
    assert record.value == b'{"ssn": "***", "ssn": "***"}'


def test_what_is_shown_does_not_change() -> None:
    """If this fails, amounts and ids of masked topics are shown with other digits."""
    value = b'{"id": 12345678901234567890, "amount": 1.10, "e": 1E400, "ssn": 1, "nan": NaN, "t": true}'
    record = masking("ssn").record(SCOPE, "payments", Record(value=value))
    assert record.value == value.replace(b'"ssn": 1', b'"ssn": "***"')


@pytest.mark.parametrize(
    "value",
    [
        b"4111 1111",
        b'"4111"',
        b"4111",
        b'["4111"]',
        b"\x00\x00\x00\x00\x01" + b'{"a": 1}',
        b'{"card": 4111',
        b'{"card": 4111} trailing',
        b"\xff\xfe4111",
        b"[" * 100_000,
        b'{"a":' * 3_000 + b"1" + b"}" * 3_000,
        b'{"a": "' + b"4" * (1 << 20) + b'"}',
        b"",
    ],
)
def test_what_cannot_be_judged_is_hidden(value: bytes) -> None:
    """If this fails, a value in another format shows what the rules hide."""
    record = masking("card").record(SCOPE, "payments", Record(value=value))
    assert record.value == f"*** ({len(value):,} bytes hidden)".encode()


def test_json_in_texts_is_followed_to_a_bound() -> None:
    """If this fails, texts in texts hide a field from the rules."""
    value: Any = {"ssn": 4111}
    for _ in range(6):
        value = {"text": json.dumps(value)}
    assert "4111" not in json.dumps(shown(masking("ssn"), value))


def test_keys_headers_and_whole_values() -> None:
    """If this fails, the key or a header shows the same data."""
    masks = masking("$", keys=True, headers=["Authorization"], **{"with": "hidden"})
    headers = [("AUTHORIZATION", b"Bearer x"), ("trace", b"1"), ("authorization", None)]
    record = masks.record(SCOPE, "payments-eu", Record(1, 2, b"4111", b'{"a": 1}', headers))
    assert record.key == b"hidden (4 bytes hidden)"
    assert record.value == b"hidden (8 bytes hidden)"
    assert record.headers == (("AUTHORIZATION", b"hidden"), ("trace", b"1"), ("authorization", None))
    empty = masks.record(SCOPE, "payments", Record())
    assert (empty.key, empty.value) == (None, None)


def test_who_and_what_is_not_concerned() -> None:
    """If this fails, unmasked users or other topics lose data."""
    masks = masking("a", keys=True)
    record = Record(value=b'{"a":1}')
    assert masks.record(UNMASKED, "payments", record) is record
    assert masks.record(SCOPE, "orders", record) is record
    assert Masking().record(SCOPE, "payments", record) is record
    assert masks.hides(SCOPE, "payments")
    assert not masks.hides(UNMASKED, "payments")
    assert not masks.hides(SCOPE, "orders")


def test_all_rules_of_a_topic_hold() -> None:
    """If this fails, a second rule for the same topic has no effect."""
    rules = [
        {"topics": ["pay*"], "fields": ["a"], "with": "1"},
        {"topics": ["*"], "fields": ["b"], "headers": ["h"], "with": "2"},
    ]
    masks = Masking(parse_masks(rules, refuse))
    record = masks.record(SCOPE, "payments", Record(value=b'{"a": 0, "b": 0, "c": 0}', headers=[("h", b"v")]))
    assert record.value == b'{"a": "1", "b": "2", "c": 0}'
    assert record.headers == (("h", b"2"),)


@pytest.mark.parametrize(
    ("wanted", "allowed"),
    [
        (RecordFilter(key="k"), True),
        (RecordFilter(value="4111"), False),
        (RecordFilter(value="~4.*"), False),
        (RecordFilter(header="trace=1"), True),
        (RecordFilter(header="Authorization"), False),
        (RecordFilter(header=" authorization = ~^B"), False),
        (RecordFilter(path="$.card.number = 4"), False),
        (RecordFilter(path="$.card.number"), False),
        (RecordFilter(path="$.Card.Number > 4"), False),
        (RecordFilter(path='$["card"]["number"] ~ 4'), False),
        (RecordFilter(path="$[0].card.number = 4"), False),
        (RecordFilter(path="$.card.number.x = 4"), False),
        (RecordFilter(path="$.card ~ 4111"), False),
        (RecordFilter(path="$ ~ 4111"), False),
        (RecordFilter(path='$.card = {"number": 4111}'), False),
        (RecordFilter(path='$.card != [{"number": 4111}]'), False),
        (RecordFilter(path="$.card = 4111"), True),
        (RecordFilter(path="$.card.type = visa"), True),
        (RecordFilter(path="$.card.type ~ vi"), True),
        (RecordFilter(path="$.order.id = 42"), True),
        (RecordFilter(path="$.order ~ 42"), True),
        (RecordFilter(path='$.card < "{\\"number\\": 5"'), False),
        (RecordFilter(path="$.order.id = 42", value="4"), False),
        (RecordFilter(), True),
    ],
)
def test_hidden_fields_cannot_be_searched(wanted: RecordFilter, allowed: bool) -> None:
    """If this fails, a user can find a hidden value by searching for its prefixes."""
    masks = masking("$.card.number", headers=["authorization"])
    assert (masks.may_search(SCOPE, "payments", wanted) == "") is allowed
    assert masks.may_search(UNMASKED, "payments", wanted) == ""
    assert masks.may_search(SCOPE, "orders", wanted) == ""


def test_search_and_copy_of_masked_topics() -> None:
    """If this fails, hidden data can be found by searching, or copied to a topic that shows it."""
    masks = masking("ssn", keys=True)
    assert "cannot be searched" in masks.may_search(SCOPE, "payments")
    assert "cannot be searched" in masks.may_search(SCOPE, "payments", RecordFilter(key="4"))
    assert masks.may_search(SCOPE, "payments", RecordFilter(path="$.order.ssn = 1"))
    assert masks.may_search(SCOPE, "payments", RecordFilter(path="$.order ~ 1"))
    assert masks.may_search(SCOPE, "payments", RecordFilter(path="$.order.id = 1")) == ""
    assert "cannot be copied" in masks.may_copy(SCOPE, "payments")
    assert masks.may_copy(UNMASKED, "payments") == masks.may_copy(SCOPE, "orders") == ""


@pytest.mark.parametrize(
    "text", ["", "$.", "$.a.", "$a", "$[0]", "$.a[*]", "a b", "$..a", "**", "$.a.**", '$["a', "a$b", "."]
)
def test_wrong_paths_are_refused(text: str) -> None:
    """If this fails, a rule with a typing error hides nothing."""
    with pytest.raises(ValueError, match="is not a field"):
        parse_field(text)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"fields": ["a"]}, "mask[0].topics: is missing"),
        ({"topics": ["a"]}, "mask[0] hides nothing"),
        ({"topics": ["a"], "field": ["a"]}, "mask[0].field: unknown key; did you mean 'fields'?"),
        ({"topics": "a", "keys": True}, "mask[0].topics: 'a' is not a list of texts"),
        ({"topics": ["a"], "fields": ["$a"]}, "mask[0].fields: '$a' is not a field"),
        ({"topics": ["a"], "keys": "yes"}, "mask[0].keys: 'yes' is not allowed (allowed: true, false)"),
        ({"topics": ["a"], "keys": True, "with": ""}, "mask[0].with: '' is not a text"),
        (3, "mask[0]: 3 is not a table"),
    ],
)
def test_wrong_rules_are_refused_with_the_place(rule: Any, expected: str) -> None:
    """If this fails, a rule with a mistake hides nothing."""
    with pytest.raises(ClientError) as caught:
        parse_masks([rule], refuse)
    assert expected in caught.value.reason
    with pytest.raises(ClientError, match="list of tables"):
        parse_masks({}, refuse)
