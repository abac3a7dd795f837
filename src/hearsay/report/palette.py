"""The colours and marks of series: the same on pages, in SVG files and in figures for papers."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, count

LIGHT = ("#0067b1", "#c94f00", "#00805c", "#b0478a", "#8a6d00", "#3b8fd0", "#6b4fa0", "#59636e")
"""Colours for a light background, by number, that colour-blind readers can distinguish."""
DARK = ("#5aaef2", "#ff9350", "#3ecb9f", "#f08bc8", "#e3c04c", "#a8d8ff", "#b79df0", "#aab4bf")
COUNT = len(LIGHT)
NEUTRAL = 7
"""The number of the colour grey, for series without a router."""
ROUTERS = ("floodsub", "randomsub", "meshsub", "gossipsub", "episub")
"""Routers in the order of their colours, which are the same in all reports and figures."""
MARKS = (
    "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0Z",
    "M-3.2-3.2h6.4v6.4h-6.4Z",
    "M0-4.2 4 3.4H-4Z",
    "M0-4.5 4.5 0 0 4.5-4.5 0Z",
    "M0 4.2 4-3.4H-4Z",
    "M-1.3-4.2h2.6v2.9h2.9v2.6h-2.9v2.9h-2.6v-2.9h-2.9v-2.6h2.9Z",
    "M0-4.4 4.2-1.4 2.6 3.6H-2.6L-4.2-1.4Z",
    "M-4.4-1.2h8.8v2.4h-8.8Z",
)
"""Shapes of marks as SVG paths around the origin, by number."""


def css() -> str:
    """Return the colours as CSS variables and classes, for screens and paper."""
    light, dark = (
        " ".join(f"--run-{number}: {colour};" for number, colour in enumerate(colours)) for colours in (LIGHT, DARK)
    )
    classes = " ".join(f".run-{number} {{ color: var(--run-{number}); }}" for number in range(COUNT))
    classes += " ".join(f".mark-{number} {{ clip-path: path('{shape}'); }}" for number, shape in enumerate(MARKS))
    return (
        f":root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"
        f"@media print {{ :root {{ {light} }} }}\n{classes}\n"
    )


def numbers_of(routers: Iterable[object]) -> list[int]:
    """Return a number for the colour and mark of each series, given the router of each series. The first series of a
    router in `ROUTERS` gets the number of the router; each other series gets the next free number.
    """
    names = list(routers)
    own = {names.index(name): number for number, name in enumerate(ROUTERS) if name in names}
    for place in range(len(names)):
        if place not in own:
            free = chain(range(len(ROUTERS), COUNT), count())
            own[place] = next(number for number in free if number not in own.values())
    return [own[place] for place in range(len(names))]


def mark_of(series: int) -> int:
    """Return the index of the mark for a number from `numbers_of`. Numbers of one colour have different marks."""
    return (series + series // COUNT) % COUNT
