"""Settings of runs: settings that runs share, and settings that differ between runs. A setting is a dotted key of a
resolved scenario with the value of the key.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TypeAlias, cast

from hearsay.number_text import percent, plural
from hearsay.sim.scenario.reading import Document, parse

Settings: TypeAlias = Mapping[str, object]
"""The values of a resolved scenario, by dotted key."""


SEED = "seed"


_KIND = "router.kind"


def flattened(document: Mapping[str, object], above: str = "") -> list[tuple[str, object]]:
    """Return the dotted keys of nested tables, each with its value. An array is one value. `above` precedes
    each key.
    """
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
    """Return the keys, without the seed, that do not have the same value in all of `all_settings`.

    A key that some of `all_settings` lack is returned too. There is an exception if the kinds of routers differ: a
    router parameter that some of `all_settings` lack is returned only if the others have different values of it.
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
    """Return the settings, without the seed, that have the same value in all of `all_settings`, which is not
    empty.
    """
    different = {*differing(all_settings), SEED}
    return {
        key: value
        for key, value in all_settings[0].items()
        if key not in different and all(key in settings for settings in all_settings)
    }


def size_words(settings: Settings) -> list[str]:
    """Return parts of a text about the size of a run: number of nodes, number and size of messages, and loss."""
    words: list[str] = []
    nodes, messages = settings.get("network.nodes"), settings.get("workload.messages")
    size, loss = settings.get("workload.size_bytes"), settings.get("loss.rate")
    if isinstance(nodes, int):
        words.append(plural(nodes, "node"))
    if isinstance(messages, int):
        words.append(plural(messages, "message") + (f" of {plural(size, 'byte')}" if isinstance(size, int) else ""))
    if isinstance(loss, int | Decimal) and loss:
        words.append(f"loss {percent(float(loss))}")
    return words


def command_of(words: Iterable[object]) -> str:
    """Return a command line of `hearsay` with these words, quoted for a shell."""
    return shlex.join(["hearsay", *map(str, words)])
