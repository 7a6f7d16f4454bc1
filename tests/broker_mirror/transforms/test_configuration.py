"""The settings of transforms: where they count, and errors that name setting, value and what is allowed."""

from __future__ import annotations

import pytest

from broker_cy.core.config_def.types import ConfigError
from broker_mirror.config import parse_config
from broker_mirror.flows import Flow, cautions, flows_of
from broker_mirror.transforms.chain import Chain, Message
from broker_mirror.transforms.configuration import SIMPLE_CONVERTER

PACKAGE = "org.apache.kafka.connect.transforms."
FILE = {"clusters": "A,B", "A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1", "A->B.enabled": "true"}
FILTER = {"A->B.transforms": "x", "A->B.transforms.x.type": f"{PACKAGE}Filter"}
INSERT = {
    "A->B.transforms": "x",
    "A->B.transforms.x.type": f"{PACKAGE}InsertHeader",
    "A->B.transforms.x.header": "origin",
    "A->B.transforms.x.value.literal": "eu",
}
DROP = {"A->B.transforms": "x", "A->B.transforms.x.type": f"{PACKAGE}DropHeaders"}
MATCHES = {
    **FILTER,
    "A->B.transforms.x.predicate": "p",
    "A->B.predicates": "p",
    "A->B.predicates.p.type": f"{PACKAGE}predicates.TopicNameMatches",
}
TEXT = {"A->B.header.converter": SIMPLE_CONVERTER}


def flow_of(*settings: dict[str, str]) -> Flow:
    """The flow A->B of a file with these settings."""
    given = dict(FILE)
    for each in settings:
        given |= each
    return next(flow for flow in flows_of(parse_config(given, "f")) if flow.copies)


def chain_of(*settings: dict[str, str]) -> Chain:
    found = flow_of(*settings).transforms
    assert found is not None
    return found


def test_without_transforms_batches_pass_as_they_are() -> None:
    """If this fails, each flow decodes its batches, which costs ten times as much."""
    assert flow_of().transforms is None
    assert flow_of({"transforms": "", "predicates": ""}).transforms is None


def test_stages_are_in_the_order_of_the_list() -> None:
    """If this fails, a filter sees headers that a later transform makes."""
    marked = {
        "A->B.transforms": "drop, mark, keep",
        "A->B.transforms.drop.type": f"{PACKAGE}DropHeaders",
        "A->B.transforms.drop.headers": "mark, n",
        "A->B.transforms.mark.type": f"{PACKAGE}InsertHeader",
        "A->B.transforms.mark.header": "mark",
        "A->B.transforms.mark.value.literal": "true",
        "A->B.transforms.mark.predicate": "empty",
        "A->B.transforms.keep.type": f"{PACKAGE}Filter",
        "A->B.transforms.keep.predicate": "marked",
        "A->B.transforms.keep.negate": "true",
        "A->B.predicates": "empty, marked",
        "A->B.predicates.empty.type": f"{PACKAGE}predicates.RecordIsTombstone",
        "A->B.predicates.marked.type": f"{PACKAGE}predicates.HasHeaderKey",
        "A->B.predicates.marked.name": "mark",
    }
    chain = chain_of(TEXT, marked)
    message = Message("A.t", b"k", None, (("n", b"1"), ("mark", b"2"), ("h", b"3")), 7)
    found = chain.apply(message)
    assert found is not None
    assert chain.written(found.headers) == (("h", b"Mw=="), ("mark", b"true"))
    assert chain.apply(message._replace(value=b"")) is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"A->B.transforms": "x"}, "A->B.transforms.x.type is not set"),
        # MirrorMaker 2 does not read the type at the top of the file, and then does not start.
        ({"transforms": "x", "transforms.x.type": f"{PACKAGE}Filter"}, "A->B.transforms.x.type is not set"),
        ({"A->B.transforms": "x,x"}, "A->B.transforms=x,x names x twice; each name is allowed once"),
        ({"A->B.transforms": "x,,y"}, "'A->B.transforms' values must not be empty"),
        (
            {**FILTER, "A->B.transforms.x.type": f"{PACKAGE}ReplaceField$Value"},
            r"A->B.transforms.x.type=.*ReplaceField\$Value is not possible here, because it works on fields, and "
            r"records of a mirror have bytes; allowed: .*InsertHeader, .*DropHeaders, .*Filter$",
        ),
        (
            {**FILTER, "A->B.transforms.x.type": f"{PACKAGE}RegexRouter"},
            "changes the topic, .* replication.policy.class and replication.policy.separator name remote topics; allow",
        ),
        ({**FILTER, "A->B.transforms.x.type": f"{PACKAGE}HoistField$Key"}, "makes a structure, and ByteArrayConverter"),
        ({**FILTER, "A->B.transforms.x.type": f"{PACKAGE}SetSchemaMetadata$Key"}, "names a schema, and records"),
        (
            {**FILTER, "A->B.transforms.x.type": "my.Own"},
            "type=my.Own is a class in Java, which cannot run here; allow",
        ),
        (
            {**FILTER, "A->B.transforms.x.headers": "a"},
            "x.headers is no setting of .*Filter; allowed: type, plugin.ver",
        ),
        (DROP, "A->B.transforms.x.headers is not set"),
        ({**DROP, "A->B.transforms.x.headers": ""}, "'A->B.transforms.x.headers' must not be empty"),
        (
            INSERT,
            "A->B.transforms.x.value.literal=eu is no bytes, and ByteArrayConverter writes nothing else: .*; allowed: "
            f"null, or A->B.header.converter={SIMPLE_CONVERTER}",
        ),
        ({**FILTER, "A->B.transforms.x.negate": "true"}, "x.negate needs A->B.transforms.x.predicate"),
        ({**FILTER, "A->B.transforms.x.predicate": "p"}, "predicate=p is not in A->B.predicates; allowed: none"),
        ({**MATCHES, "A->B.predicates.p.pattern": "a["}, "A->B.predicates.p.pattern=a.: .* is not a valid regular"),
        ({**MATCHES, "A->B.predicates.p.pattern": ""}, "A->B.predicates.p.pattern: String must be non-empty"),
        ({**MATCHES, "A->B.predicates.p.pattern": "a", "A->B.transforms.x.negate": "no"}, "x.negate: Expected value"),
        (
            {**MATCHES, "A->B.predicates.p.type": f"{PACKAGE}Filter"},
            "p.type=.*Filter is a class .*; allowed: .*predicate",
        ),
        (
            {"header.converter": "my.Converter"},
            "my.Converter for configuration header.converter: String must be one of",
        ),
        (
            {**FILTER, "A->B.brokercy.flow": "link"},
            "A->B.transforms needs A->B.brokercy.flow=copy: link flows keep the b",
        ),
        ({**TEXT, "A->B.brokercy.flow": "link"}, "A->B.header.converter needs A->B.brokercy.flow=copy"),
    ],
)
def test_a_wrong_setting_is_named(settings: dict[str, str], message: str) -> None:
    """If this fails, a flow copies records that its operator wanted to leave out, or fails later."""
    with pytest.raises(ConfigError, match=message):
        flow_of(settings)


def test_settings_without_an_effect_are_named() -> None:
    """If this fails, a filter that no list names seems to work."""
    flow = flow_of(FILTER, {"A->B.transforms.y.type": "my.Own", "A->B.transforms.x.plugin.version": "4"})
    assert cautions(flow) == [
        "A->B.transforms.y.type has no effect: A->B.transforms does not list it",
        "A->B.transforms.x.plugin.version has no effect",
    ]
    top = parse_config({**FILE, **FILTER, "transforms.x.predicate": "p"}, "f")
    assert top.warnings == (
        "f: transforms.x.predicate has no effect at this place, as in MirrorMaker 2: write "
        "SOURCE->TARGET.transforms.x.predicate",
    )


def test_a_name_may_begin_as_another_one() -> None:
    """If this fails, the settings of x.y are taken for unknown ones of x."""
    both = {
        **FILTER,
        "A->B.transforms": "x, x.y",
        "A->B.transforms.x.y.type": f"{PACKAGE}DropHeaders",
        "A->B.transforms.x.y.headers": "h",
    }
    assert len(chain_of(both).stages) == 2


@pytest.mark.parametrize(
    ("settings", "as_text"),
    [
        ({}, False),
        (TEXT, True),
        ({"header.converter": SIMPLE_CONVERTER}, True),
        ({"B.header.converter": SIMPLE_CONVERTER}, True),
        ({"A.header.converter": SIMPLE_CONVERTER}, False),
        (
            {
                "B.header.converter": SIMPLE_CONVERTER,
                "A->B.header.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
            },
            False,
        ),
    ],
)
def test_the_header_converter_is_that_of_the_flow_or_its_worker(settings: dict[str, str], as_text: bool) -> None:
    """If this fails, headers are written in another form than MirrorMaker 2 writes them."""
    assert chain_of(settings, DROP, {"A->B.transforms.x.headers": "h"}).as_text is as_text


def test_the_text_of_headers_needs_no_transform() -> None:
    """If this fails, headers are bytes although the file asks for text."""
    assert flow_of(TEXT).transforms == Chain((), as_text=True)
