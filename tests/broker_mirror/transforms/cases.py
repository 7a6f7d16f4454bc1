"""Random transforms and literals for Kafka Connect's classes (MirrorOracle.java), each made from a seed, and our
answers to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final

from broker_cy.core.config_def.types import ConfigError
from broker_cy.wire.records import Record
from broker_mirror.copy.transforms import Change
from broker_mirror.merged import BYTES_CONVERTER
from broker_mirror.transforms.configuration import SIMPLE_CONVERTER, chain_of
from broker_mirror.transforms.literals import Literal, parsed
from tests.broker_mirror.cases import ERROR, Request

PACKAGE: Final = "org.apache.kafka.connect.transforms."
_TOKENS: Final = (
    "[", "]", "{", "}", ",", ":", '"', "\\", "a", " ", "1", "-", ".", "null", "true", "false", "1.5", "128", '"x"', "e",
    "E5", "2019-08-23", "T14:34:54.346Z", "14:34:54.346Z", "99999999999999999999", "1e40", '\\"', "\\,", "[1", "1]",
    '{"a":', "}", "é", "+", "0.5", "3000000000", "NaN",
)  # fmt: skip
_LITERALS: Final = (
    "eu-west-1", "", "true", "TRUE", "null", "nullx", "127", "128", "40000", "3000000000", "1.0", "1e3", "1E400", "5.",
    ".5", "007", "10,20", "1e-400", "16777217.5", "9223372036854775807", "9223372036854775808", "[1,40000]", "[1,1.5]",
    "[1,1e39]", "[0.1,1e39]", '[1,"a"]', "[true,false]", "[1,null]", "[null,null]", "[a,b]", "[[1],[1.5]]", "[1,]",
    '{"a":1,"b":128}', '{"a":null}', '{"a":1,"b":"x"}', '{1:2,1.5:3}', '{"a":[1,2],"b":{}}', "{a:1}", '["a\\"b"]',
    "2019-02-30", "2019-13-45", "1969-12-31", "1970-01-01", "1970-01-02", "12345-6-7", "2019-08-23T14\\:34\\:54.346Z",
    "1969-08-23T14:34:54.346Z", "24:00:00.000Z", "1:2:3.4Zxxxxx", "[1,2019-08-23]", "[2019-08-23,1]",
    "[2019-08-23,40000]", "[2019-08-23,1.5]", "[1,14:34:54.346Z]", "[1,2019-08-23T14:34:54.346Z]", '["2019-08-23"]',
    "[2019-08-23,14:34:54.346Z]", "[-1,14:34:54.346Z]", '"quoted"', "a:b", "99999999999999999999",
)  # fmt: skip


def literals(seeds: int) -> Iterator[Request]:
    for seed in range(seeds):
        draw = Random(seed)
        texts = ["".join(draw.choice(_TOKENS) for _ in range(draw.randrange(1, 8))).strip() for _ in range(20)]
        yield {"op": "literals", "texts": texts + draw.sample(_LITERALS, 6)}


def _fields(value: Literal | None) -> Any:
    return None if value is None else [value.kind, value.logical, value.text()]


def our_literals(request: Request) -> Any:
    return [_fields(parsed(text)) for text in request["texts"]]


def without_digits(answer: Any) -> Any:
    """Return the answer with numbers of 32 bits as such: before Java 19 some texts have a digit more than needed."""
    if not isinstance(answer, list):
        return answer
    return [
        [each[0], each[1], f"{float(each[2]):.7g}"] if each is not None and each[0] == "FLOAT32" else each
        for each in answer
    ]


_NAMES: Final = ("h", "n", "x", "h.h", "")
_TOPICS: Final = ("A.orders", "A.heartbeats", "A.B.orders", "orders")
_PATTERNS: Final = ("A\\.orders", ".*orders", "orders", "A\\..*", "(?i)a\\.ORDERS", "A.orders|x", "[^A].*", "a[", "")


def _predicate(draw: Random) -> dict[str, Any]:
    match draw.randrange(3):
        case 0:
            return {"type": "predicates.TopicNameMatches", "props": {"pattern": draw.choice(_PATTERNS)}}
        case 1:
            return {"type": "predicates.HasHeaderKey", "props": {"name": draw.choice(_NAMES)}}
        case _:
            return {"type": "predicates.RecordIsTombstone", "props": {}}


def _stage(draw: Random) -> dict[str, Any]:
    stage: dict[str, Any]
    match draw.randrange(4):
        case 0:
            stage = {"type": "Filter", "props": {}}
        case 1:
            names = draw.sample(_NAMES, draw.randrange(1, 3))
            stage = {"type": "DropHeaders", "props": {"headers": ",".join(names)}}
        case _:
            text = draw.choice(["null", *_LITERALS])
            stage = {"type": "InsertHeader", "props": {"header": draw.choice(_NAMES), "value.literal": text}}
    if stage["type"] == "Filter" or draw.random() < 0.5:
        stage["predicate"] = _predicate(draw)
        if draw.random() < 0.4:
            stage["negate"] = True
    return stage


def _hex(draw: Random) -> str | None:
    return draw.choice([None, draw.randbytes(draw.randrange(4)).hex()])


def transforms(seeds: int) -> Iterator[Request]:
    for seed in range(seeds):
        draw = Random(seed)
        records = [
            {
                "topic": draw.choice(_TOPICS),
                "key": _hex(draw),
                "value": _hex(draw),
                "headers": [[draw.choice(_NAMES), _hex(draw)] for _ in range(draw.randrange(4))],
            }
            for _ in range(12)
        ]
        stages = [_stage(draw) for _ in range(draw.randrange(1, 4))]
        converter = draw.choice(["simple", "simple", "bytes"])
        yield {"op": "transforms", "stages": stages, "converter": converter, "records": records}


def properties_of(request: Request) -> dict[str, str]:
    """The settings of the stages, as a file has them."""
    count = len(request["stages"])
    found = {"transforms": ",".join(f"t{index}" for index in range(count))}
    predicates = []
    for index, stage in enumerate(request["stages"]):
        found[f"transforms.t{index}.type"] = PACKAGE + stage["type"]
        found |= {f"transforms.t{index}.{name}": text for name, text in stage["props"].items()}
        if "predicate" in stage:
            predicates.append(f"p{index}")
            found[f"transforms.t{index}.predicate"] = f"p{index}"
            found[f"predicates.p{index}.type"] = PACKAGE + stage["predicate"]["type"]
            found |= {f"predicates.p{index}.{name}": text for name, text in stage["predicate"]["props"].items()}
        if stage.get("negate"):
            found[f"transforms.t{index}.negate"] = "true"
    return found | {"predicates": ",".join(predicates)}


def our_transforms(request: Request) -> Any:
    converter = SIMPLE_CONVERTER if request["converter"] == "simple" else BYTES_CONVERTER
    try:
        chain = chain_of(properties_of(request), "A->B.", converter)
    except ConfigError:
        return ERROR
    assert chain is not None
    found: list[Any] = []
    for each in request["records"]:
        headers = tuple((name, _bytes(value)) for name, value in each["headers"])
        record = Record(5, 7, _bytes(each["key"]), _bytes(each["value"]), headers)
        change = Change(chain, each["topic"])
        kept = change([record])
        assert change.filtered_to == (0 if kept else 6)
        assert all((one.offset, one.timestamp) == (5, 7) for one in kept)
        found.append(
            [_text(kept[0].key), _text(kept[0].value), [[name, _text(value)] for name, value in kept[0].headers]]
            if kept
            else None
        )
    return found


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def is_refused(request: Request) -> bool:
    """Whether we refuse at the start what fails in Kafka at the first record that has the header, if there is one."""
    inserted = [each["props"]["value.literal"] for each in request["stages"] if each["type"] == "InsertHeader"]
    return request["converter"] == "bytes" and any(parsed(text) is not None for text in inserted)


FAMILIES: Final[dict[str, tuple[Callable[[int], Iterator[Request]], Callable[[Request], Any], int]]] = {
    "literals": (literals, our_literals, 60),
    "transforms": (transforms, our_transforms, 150),
}
"""As cases.FAMILIES."""
