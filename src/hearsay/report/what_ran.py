"""The section “What ran” of a page: settings that differ, settings that all runs share, seeds, hashes, commands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hearsay.report.html import Html, folded, join, labelled_table, tag
from hearsay.studies.settings import Settings, differing, shared
from hearsay.text import value_text

NO_SETTING = "–"


@dataclass(frozen=True, slots=True)
class ShownRun:
    """A run, a study, or a side of a comparison, with its settings. Without a scenario, the settings are None."""

    name: Html
    settings: Settings | None
    facts: Mapping[str, str]
    """Other facts by title: engine, seed, trace hash."""
    command: str | None = None


def what_ran(all_ran: Sequence[ShownRun], intro: Iterable[Html] = ()) -> Html:
    """Return the section “What ran”, which begins with `intro`."""
    known = [ran.settings for ran in all_ran if ran.settings is not None]
    keys = differing(known) if len(known) > 1 else []
    facts = list(dict.fromkeys(title for ran in all_ran for title in ran.facts))
    heads = ["", *keys, *facts]
    rows = [
        [
            ran.name,
            *(setting_words(ran.settings, key) for key in keys),
            *(tag("span", ran.facts[title], class_="name") if title in ran.facts else NO_SETTING for title in facts),
        ]
        for ran in all_ran
    ]
    differ = f"The runs differ in: {', '.join(keys)}." if keys else "All settings are the same."
    differences = tag("p", differ) if len(known) > 1 else ""
    table = labelled_table(heads, rows, "Settings that differ")
    return folded("What ran", "ran", *intro, differences, table, _commands(all_ran), _shared(known))


def seed_words(seeds: Sequence[int]) -> str:
    """Return seeds in words: as a range if there are more than two and all are consecutive, otherwise as a list."""
    is_range = len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[-1] + 1))
    return f"{seeds[0]}…{seeds[-1]}" if is_range else ", ".join(map(str, seeds))


def command_line(command: str) -> Html:
    return tag("pre", tag("code", command), class_="command", tabindex=0)


def setting_words(settings: Settings | None, key: str) -> str:
    """Return the value of a setting as text, or a dash if the setting is missing."""
    if settings is None or key not in settings:
        return NO_SETTING
    value = settings[key]
    return value if isinstance(value, str) else value_text(value)


def _commands(all_ran: Sequence[ShownRun]) -> Html:
    items = [tag("li", ran.name, command_line(ran.command)) for ran in all_ran if ran.command is not None]
    if not items:
        return Html("")
    return tag("details", tag("summary", "Commands that repeat these runs"), tag("ul", *items), class_="data")


def _shared(known: Sequence[Settings]) -> Html:
    if not known:
        return Html("")
    common = shared(known)
    title = f"{len(common)} settings that all runs share" if len(known) > 1 else f"All {len(common)} settings"
    lines = [join([f"{key} = {value_text(value)}"]) for key, value in common.items()]
    return tag("details", tag("summary", title), tag("pre", Html("\n".join(lines))), class_="data")
