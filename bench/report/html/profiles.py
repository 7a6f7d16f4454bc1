"""The part of a report about profiles: modules and functions by CPU time, with a colour for each target."""

from collections.abc import Sequence
from html import escape
from typing import Any

from bench.report.columns import REST, heaviest, profile_cell, profile_columns
from bench.report.html.entities import Entity
from bench.report.result import Profile, ProfileRow
from broker_cy.reporting.charts import Chart, hover
from broker_cy.reporting.document import details
from broker_cy.reporting.tables import html

MOST_MODULES = 12
MOST_FUNCTIONS = 24
MOST_NAME = 52  # of a row's label; the whole name is in the hover text and the table
Profiled = Sequence[tuple[Entity, Profile]]


def profiled(found: Sequence[Entity]) -> list[tuple[Entity, Profile]]:
    """Return the profile of each target that has one."""
    return [
        (entity, profile)
        for entity in found
        for profile in entity.document.profiles
        if profile.target == entity.target
    ]  # fmt: skip


def bars(known: Profiled) -> list[Chart]:
    """Return the charts of modules and of functions: per GB if every target has that figure, otherwise as shares."""
    if not known:
        return []
    profiles = [profile for _, profile in known]
    per_gb = all(row.cpu_s_per_gb is not None for profile in profiles for row in profile.functions)
    unit = "CPU-s/GB" if per_gb else "% of the target's CPU"
    made = []
    for name, title, most, modules in (
        ("modules", "CPU by module", MOST_MODULES, True),
        ("functions", "CPU by function", MOST_FUNCTIONS, False),
    ):
        keys = heaviest(profiles, modules)[:most]
        note = "A bar for each target, per GB, so that lengths can be compared." if per_gb else "A bar for each target."
        made.append(_bars(f"profile-{name}", f"{title} ({unit})", note, known, keys, modules, per_gb))
    return made


def _bars(
    name: str, title: str, note: str, known: Profiled, keys: Sequence[tuple[str, str]], modules: bool, per_gb: bool
) -> Chart:
    unit = "CPU-s/GB" if per_gb else "%"
    places = list(range(len(keys)))
    data: list[dict[str, Any]] = []
    for entity, profile in known:
        rows = {(row.module, row.function): row for row in (profile.modules if modules else profile.functions)}
        texts = [
            f"{hover(entity.name)}<br>{hover(function or module)}{f' ({hover(module)})' if function else ''}<br>"
            f"{hover(profile_cell(rows[module, function]) if (module, function) in rows else 'not among its heaviest')}"
            for module, function in keys
        ]
        data.append({
            "type": "bar", "orientation": "h", "y": places, "x": [_length(rows.get(key), per_gb) for key in keys],
            "hovertext": texts, "hovertemplate": "%{hovertext}<extra></extra>",
            "meta": {"entity": entity.index, "label": None},
        })  # fmt: skip
    layout = {
        "height": 100 + len(keys) * (12 + 9 * len(known)),
        "barmode": "group", "bargap": 0.3,
        "xaxis": {"title": {"text": unit}, "rangemode": "tozero"},
        "yaxis": {
            "tickvals": places, "ticktext": [hover(label(*key)) for key in keys], "range": [len(keys) - 0.4, -0.6],
            "automargin": True, "showgrid": False, "zeroline": False,
        },
    }  # fmt: skip
    return Chart(name, title, note, data, layout, wide=True)


def label(module: str, function: str) -> str:
    """Return function and module, cut to MOST_NAME."""
    if not function:
        return module
    room = MOST_NAME - len(module) - 3
    shown = function if len(function) <= room else function[: max(room, 8) - 1] + "…"
    return f"{shown} ({module})"


def _length(row: ProfileRow | None, per_gb: bool) -> float | None:
    if row is None:
        return None
    return row.cpu_s_per_gb if per_gb else row.share * 100


def table(known: Profiled) -> str:
    """Return a table of every listed function, with a column for each target."""
    if not known:
        return ""
    columns = profile_columns([(entity.name, profile) for entity, profile in known])
    rows = [*heaviest([profile for _, profile in known]), REST]
    code = {"function": lambda function: f"<code>{escape(function[1])}</code>"}
    return details("Every listed function", html("Every listed function", columns, rows, code))


def about(known: Profiled) -> str:
    """Describe how each target was profiled."""
    items = "".join(
        f"<li>{escape(entity.name)}: {profile.samples:,} samples of {escape(profile.event)} in {profile.seconds:.1f} s"
        + "".join(f"; {escape(note)}" for note in profile.notes)
        + "</li>"
        for entity, profile in known
    )
    clock = any("clock" in profile.event for _, profile in known)
    reported = (
        " This machine has no cycle counter: time with interrupts off is charged to the function that turns them on"
        " again (_raw_spin_unlock_irqrestore, finish_task_switch)."
        if clock
        else ""
    )
    return (
        '<div class="muted"><p>perf recorded a separate window after the measured ones; it is not part of any figure.'
        f" CPU-s/GB is the share times the median of the measured windows.{reported}</p><ul>{items}</ul></div>"
    )
