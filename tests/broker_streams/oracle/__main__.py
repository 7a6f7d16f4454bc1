"""Compares our streams with Kafka's on random specs: `python -m tests.broker_streams.oracle --family F --seeds N`.

    --list           the names of all sets: families of random specs, and scenarios_ROOM with those written by hand
    --set NAME       a set with recorded answers, which needs no JVM; repeatable. All of them without --set
    --family F       a family; repeatable, all families without it
    --seeds N        Kafka answers N seeds of each family from --first (0) on
    --spec FILE      one spec in JSON; "-" is stdin. Kafka answers it
    --show TITLE     print the spec of a scenario or a seed ("tables 5"), as input of --spec
    --kafka          print Kafka's answers, and run nothing of ours
    --all            go on after the first difference of a family
    --order          compare the order of rows of stores too

The exit code is 1 if something differs.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.broker_streams.oracle import answers
from tests.broker_streams.oracle.compare import differences, shown
from tests.broker_streams.oracle.families.all import FAMILIES, spec_of
from tests.broker_streams.oracle.java import AT_ONCE, kafka_streams
from tests.broker_streams.oracle.java import answers as ask
from tests.broker_streams.oracle.ours import answer_of
from tests.broker_streams.oracle.spec import Answer, Spec
from tests.support.java_oracle import JavaOracle

Case = tuple[str, Spec, Answer]
"""A title, a spec and Kafka's answer."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.list:
        print("\n".join(answers.SETS))
        return 0
    if options.show is not None:
        print(json.dumps(_spec(options.show), indent=1, ensure_ascii=False))
        return 0
    families = options.family or list(FAMILIES)
    # Records that are skipped are logged.
    logging.disable()
    differ = False
    with ExitStack() as stack:
        java = stack.enter_context(kafka_streams()) if options.spec or options.seeds else None
        for title, cases in _groups(options, families, java):
            if options.kafka:
                _print(cases)
            else:
                differ |= _run(title, cases, options.all, options.order)
    return int(differ)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", action="append", choices=FAMILIES, metavar="F")
    parser.add_argument("--seeds", type=int, metavar="N")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--spec", metavar="FILE")
    parser.add_argument("--show", metavar="TITLE")
    parser.add_argument("--set", action="append", choices=answers.SETS, metavar="NAME")
    for name in ("list", "kafka", "all", "order"):
        parser.add_argument(f"--{name}", action="store_true")
    return parser


def _spec(title: str) -> Spec:
    """Raises SystemExit: no spec has the title."""
    family, _, seed = title.rpartition(" ")
    if family in FAMILIES and seed.isdigit():
        return spec_of(family, int(seed))
    for name in answers.SETS:
        if (found := answers.specs(name).get(title)) is not None:
            return found
    raise SystemExit(f"no spec has the title {title!r}")


def _groups(
    options: argparse.Namespace, families: Iterable[str], java: JavaOracle | None
) -> Iterator[tuple[str, Iterator[Case]]]:
    if options.spec and java:
        spec = json.loads(sys.stdin.read() if options.spec == "-" else Path(options.spec).read_text())
        yield options.spec, iter([(options.spec, spec, ask(java, [spec])[0])])
    elif java:
        for family in families:
            yield family, _asked(family, options, java)
    else:
        for name in options.set or options.family or answers.SETS:
            yield name, _recorded(name)


def _asked(family: str, options: argparse.Namespace, java: JavaOracle) -> Iterator[Case]:
    seeds = range(options.first, options.first + options.seeds)
    for begin in range(0, len(seeds), AT_ONCE):
        part = seeds[begin : begin + AT_ONCE]
        specs = [spec_of(family, seed) for seed in part]
        for seed, spec, answer in zip(part, specs, ask(java, specs), strict=True):
            yield f"{family} {seed}", spec, answer


def _recorded(name: str) -> Iterator[Case]:
    specs = answers.specs(name)
    for title, answer in answers.recorded_answers(name).items():
        yield title, specs[title], answer


def _print(cases: Iterable[Case]) -> None:
    for title, spec, answer in cases:
        print(f"== {title}\n{answer.get('description', '')}")
        for given, records in zip(spec["inputs"], answer.get("records", ()), strict=False):
            print(json.dumps(given, ensure_ascii=False))
            print("".join(f"    {shown(each)}\n" for each in records), end="")
        rest = {key: value for key, value in answer.items() if key not in ("description", "records")}
        print(json.dumps(rest, indent=1, ensure_ascii=False))


def _run(title: str, cases: Iterable[Case], go_on: bool, order: bool) -> bool:
    """Print the differences of ours, and a line of counts. Returns whether something differs."""
    equal = differ = 0
    for case, spec, theirs in cases:
        found = differences(spec, theirs, answer_of(spec), order)
        if not found:
            equal += 1
            continue
        differ += 1
        print(f"== {case}", *found, sep="\n")
        if not go_on:
            break
    print(f"{title}: {equal} equal, {differ} differ", flush=True)
    return bool(differ)


if __name__ == "__main__":
    sys.exit(main())
