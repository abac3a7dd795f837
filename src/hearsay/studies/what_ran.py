"""The command that runs a resolved scenario again."""

from __future__ import annotations

import shlex

from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.scenario_error import ScenarioError
from hearsay.sim.scenario.scenario_file import dump_scenario, load_scenario, preset_names
from hearsay.studies.settings import (
    SEED,
    Settings,
    settings_of,
)
from hearsay.text.escape import value_text

_KIND, _PRESET = "router.kind", "router.preset"
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
