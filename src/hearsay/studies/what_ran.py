"""What ran: the settings that runs share and those they differ in, and a command that runs a scenario again.

Rules:

* Everything comes from the resolved scenarios, and nothing from how somebody came to them: what a page says is what
  ran.
* A parameter that a kind of router does not have is no difference between it and one that has it.
* A command is shown only if it gives the same scenario to the last key; else the scenario's file is named.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from hearsay.sim.scenario.scenario import Scenario, ScenarioError
from hearsay.sim.scenario.scenario_file import dump_scenario, load_scenario, preset_names
from hearsay.sim.scenario.toml_text import parse
from hearsay.studies.base import flattened
from hearsay.text.numbers import plural
from hearsay.text.toml import value_text

Settings: TypeAlias = Mapping[str, object]
"""The keys of a resolved scenario by their paths."""

SEED = "seed"
_KIND, _PRESET = "router.kind", "router.preset"
_FLAGS = {"network.nodes": "--nodes", "workload.messages": "--messages"}
_LONGEST = 2000


def settings_of(text: str) -> dict[str, object]:
    """The settings of a resolved scenario's file."""
    return dict(flattened(parse(text, "scenario.toml")))


def differing(all_settings: Sequence[Settings]) -> list[str]:
    """The keys whose values are not the same in all, in the order of the files; the seed is told apart from them."""
    kinds = {str(settings.get(_KIND)) for settings in all_settings}
    found: list[str] = []
    for key in dict.fromkeys(key for settings in all_settings for key in settings):
        having = [settings[key] for settings in all_settings if key in settings]
        foreign = key.startswith("router.") and len(kinds) > 1
        everywhere = len(having) == len(all_settings) or foreign
        if key != SEED and (not everywhere or any(value != having[0] for value in having)):
            found.append(key)
    return found


def shared(all_settings: Sequence[Settings]) -> dict[str, object]:
    """What all have, with one value."""
    apart = {*differing(all_settings), SEED}
    first = all_settings[0]
    return {
        key: value
        for key, value in first.items()
        if key not in apart and all(key in settings for settings in all_settings)
    }


def size_words(settings: Settings) -> list[str]:
    """The size of a run in a few words: its nodes, messages and what is lost."""
    words: list[str] = []
    nodes, messages, size = (
        settings.get(key) for key in ("network.nodes", "workload.messages", "workload.size_bytes")
    )
    if isinstance(nodes, int):
        words.append(plural(nodes, "node"))
    if isinstance(messages, int):
        words.append(plural(messages, "message") + (f" of {plural(size, 'byte')}" if isinstance(size, int) else ""))
    loss = settings.get("loss.rate")
    if loss:
        words.append(f"loss {value_text(loss)}")
    return words


def simulate_command(wanted: Settings, seed: int | None = None) -> str | None:
    """The shortest `hearsay simulate` that runs a resolved scenario again; None if only its file can say it."""
    try:
        found = [
            command
            for preset in preset_names()
            if (command := _from_preset(preset, wanted)) is not None
        ]  # fmt: skip
    except ScenarioError:
        return None
    if not found:
        return None
    shown_seed = wanted.get(SEED) if seed is None else seed
    words = [*min(found, key=lambda words: (len(words), sum(map(len, words)))), "--seed", str(shown_seed)]
    command = shlex.join(words)
    return command if len(command) <= _LONGEST else None


def command_of(words: Iterable[object]) -> str:
    """A command as a shell takes it."""
    return shlex.join(["hearsay", *map(str, words)])


def _from_preset(preset: str, wanted: Settings) -> list[str] | None:
    """The words of a command that starts from a preset; None where it cannot come to the same."""
    router: str | None = None
    overrides: list[tuple[str, object]] = []
    base = load_scenario(None, preset)
    if _settings(base).get(_KIND) != wanted.get(_KIND):
        router = str(wanted.get(_KIND))
        base = load_scenario(None, preset, router=router)
    if _settings(base).get(_PRESET) != wanted.get(_PRESET) and _PRESET in wanted:
        overrides.append((_PRESET, wanted[_PRESET]))
        base = load_scenario(None, preset, overrides, router=router)
    start = _settings(base)
    if set(start) - set(wanted):
        return None
    overrides += [
        (key, value)
        for key, value in wanted.items()
        if key not in (SEED, _KIND, _PRESET) and start.get(key) != value
    ]  # fmt: skip
    made = _settings(load_scenario(None, preset, overrides, router=router))
    if {**made, SEED: 0} != {**wanted, SEED: 0}:
        return None
    words = ["hearsay", "simulate", "--preset", preset]
    if router is not None:
        words += ["--router", router]
    for key, value in sorted(overrides, key=lambda setting: setting[0] not in _FLAGS):
        flag = _FLAGS.get(key)
        words += [flag, str(value)] if flag is not None else ["--set", f"{key}={value_text(value)}"]
    return words


def _settings(scenario: Scenario) -> Settings:
    return settings_of(dump_scenario(scenario))
