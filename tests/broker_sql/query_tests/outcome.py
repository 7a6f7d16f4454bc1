"""Outcomes of cases, counted by file and by reason."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

# Names, numbers and texts of one case: without them, the same reason reads the same in all cases.
_OF_ONE_CASE: Final = re.compile(r"`[^`]*`|'[^']*'|\"[^\"]*\"|line \d+:\d+|\b\d+\b|<[^>]*>")


@dataclass(frozen=True, slots=True)
class Outcome:
    """`stage` is the last step that was reached: parse, plan, run, compare or passed. `reason` is "" if it passed."""

    file: str
    name: str
    stage: str
    reason: str

    @property
    def passed(self) -> bool:
        return self.stage == "passed"

    @property
    def group(self) -> str:
        return f"{self.stage}: {_OF_ONE_CASE.sub('…', self.reason.splitlines()[0] if self.reason else '')[:110]}"


def report(outcomes: Iterable[Outcome], *, groups_max: int = 60) -> str:
    """Return the counts of files with failures, of stages and of reasons, the most frequent one first."""
    found = list(outcomes)
    by_file: dict[str, list[Outcome]] = defaultdict(list)
    for each in found:
        by_file[each.file].append(each)
    lines = []
    for file, some in sorted(by_file.items()):
        passed = sum(each.passed for each in some)
        if passed < len(some):
            lines.append(f"{passed:5} of {len(some):3}  {file}")
    lines.append("")
    reasons = Counter(each.group for each in found if not each.passed)
    lines += [f"{count:5}  {reason}" for reason, count in reasons.most_common(groups_max)]
    lines.append("")
    stages = Counter(each.stage for each in found)
    lines.append(", ".join(f"{stage} {count}" for stage, count in stages.most_common()))
    passed = sum(each.passed for each in found)
    lines.append(f"passed: {passed} of {len(found)} ({passed / max(len(found), 1):.1%})")
    return "\n".join(lines)
