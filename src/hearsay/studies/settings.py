"""Settings of runs, the code that makes them, and the command that runs them again."""

from __future__ import annotations

import shlex
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias, cast

from hearsay.core.registry import ENTRY_POINT_GROUP, ROUTERS
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.scenario_error import ScenarioError
from hearsay.sim.scenario.scenario_file import dump_scenario, load_scenario, preset_names
from hearsay.sim.scenario.toml_text import Document, parse
from hearsay.text.numbers import plural
from hearsay.text.toml import value_text
from hearsay.version import __version__

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


_PACKAGE = Path(__file__).parents[1]
_ROOMS = ("core", "trace", "sim")
_FIGURES = "studies/packs.py"


def code_digest(scenario: str) -> str:
    """A hash of this program's rooms that make a run, and of the routers of this scenario from outside."""
    digest = sha256(_own_digest().encode())
    for kind in sorted(set(_routers(scenario)) - set(ROUTERS)):
        digest.update(f"\0{kind}".encode())
        if ":" in kind:
            for name, file in _module_files(_root_of(kind)):
                digest.update(f"\0{name}\0".encode() + file.read_bytes())
        else:
            digest.update("".join(str(point.dist and point.dist.version) for point in _points(kind)).encode())
    return digest.hexdigest()


def carried_modules(scenarios: Iterable[str], work: Path) -> list[Path]:
    """What the tasks need for the routers of these scenarios; zips are made in `work`."""
    roots = sorted({_root_of(kind) for text in set(scenarios) for kind in _routers(text) if ":" in kind})
    carried: list[Path] = []
    for root in roots:
        files = list(_module_files(root))
        if root == "hearsay" or not files:
            continue
        if len(files) == 1 and "/" not in files[0][0]:
            carried.append(files[0][1])
            continue
        carried.append(work / f"{root}.zip")
        with zipfile.ZipFile(carried[-1], "w", zipfile.ZIP_DEFLATED) as archive:
            for name, file in files:
                archive.write(file, name)
    return carried


@lru_cache(maxsize=1)
def _own_digest() -> str:
    digest = sha256(__version__.encode())
    files = [file for room in _ROOMS for file in sorted((_PACKAGE / room).rglob("*.py"))]
    for file in (*files, _PACKAGE / _FIGURES):
        digest.update(f"\0{file.relative_to(_PACKAGE).as_posix()}\0".encode() + file.read_bytes())
    return digest.hexdigest()


def _routers(scenario: str) -> Iterator[str]:
    document: dict[str, Any] = tomllib.loads(scenario)
    yield document["router"]["kind"]
    for population in document.get("population", ()):
        yield population["router"]["kind"]


def _root_of(kind: str) -> str:
    return kind.partition(":")[0].partition(".")[0]


def _module_files(root: str) -> Iterator[tuple[str, Path]]:
    """The files of a module or package, with the names they are imported under."""
    spec = find_spec(root)
    if spec is None:
        return
    if spec.submodule_search_locations:
        for location in map(Path, spec.submodule_search_locations):
            for file in sorted(location.rglob("*.py")):
                yield f"{root}/{file.relative_to(location).as_posix()}", file
    elif spec.origin is not None:
        yield Path(spec.origin).name, Path(spec.origin)


def _points(kind: str) -> list[Any]:
    return [point for point in entry_points(group=ENTRY_POINT_GROUP) if point.name == kind]


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
