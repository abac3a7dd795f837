"""Settings of runs: those that they share, those that differ, and the command that repeats a run."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias, cast

from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.scenario_error import ScenarioError
from hearsay.sim.scenario.scenario_file import dump_scenario, load_scenario, preset_names
from hearsay.sim.scenario.toml_text import Document, parse
from hearsay.text.escape import value_text
from hearsay.text.numbers import plural

Settings: TypeAlias = Mapping[str, object]
"""Values of a resolved scenario by the paths of their keys."""


SEED = "seed"


_KIND = "router.kind"


def flattened(document: Mapping[str, object], above: str = "") -> list[tuple[str, object]]:
    """Return the keys of nested tables by their paths, with their values; arrays are values."""
    found: list[tuple[str, object]] = []
    for key, value in document.items():
        path = f"{above}{key}"
        if isinstance(value, dict):
            found += flattened(cast("Document", value), f"{path}.")
        else:
            found.append((path, value))
    return found


def settings_of(text: str) -> dict[str, object]:
    """Return the settings in the text of a resolved scenario."""
    return dict(flattened(parse(text, "scenario.toml")))


def differing(all_settings: Sequence[Settings]) -> list[str]:
    """Return the keys with different values, in the order of the files, without the seed.

    A parameter that only one kind of router has is no difference between kinds.
    """
    kinds = {str(settings.get(_KIND)) for settings in all_settings}
    found: list[str] = []
    for key in dict.fromkeys(key for settings in all_settings for key in settings):
        values = [settings[key] for settings in all_settings if key in settings]
        of_other_router = key.startswith("router.") and len(kinds) > 1
        everywhere = len(values) == len(all_settings) or of_other_router
        if key != SEED and (not everywhere or any(value != values[0] for value in values)):
            found.append(key)
    return found


def shared(all_settings: Sequence[Settings]) -> dict[str, object]:
    """Return the settings that all have, with the same value."""
    different = {*differing(all_settings), SEED}
    return {
        key: value
        for key, value in all_settings[0].items()
        if key not in different and all(key in settings for settings in all_settings)
    }


def size_words(settings: Settings) -> list[str]:
    """Return the size of a run in a few words: nodes, messages, loss."""
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


def command_of(words: Iterable[object]) -> str:
    """Return a `hearsay` command in the form for a shell."""
    return shlex.join(["hearsay", *map(str, words)])


_PRESET = "router.preset"
_FLAGS = {"network.nodes": "--nodes", "workload.messages": "--messages"}
_MAX_LENGTH = 2000


def simulate_command(wanted: Settings, seed: int | None = None) -> str | None:
    """Return the shortest `hearsay simulate` for a resolved scenario; None if only its file describes it."""
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
    return command if len(command) <= _MAX_LENGTH else None


def _from_preset(preset: str, wanted: Settings) -> list[str] | None:
    """Return the words of a command that starts from a preset; None if no command gives the same scenario."""
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
