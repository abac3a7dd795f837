"""Packages that come with an extra of this one, and what to say when they are not there."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from hearsay.cli.failures import CommandFailed

EXTRAS = {
    "spark": ("pyspark", "pandas", "scipy"),
    "libp2p": ("libp2p", "trio"),
    "mdns": ("zeroconf",),
    "fast": ("uvloop", "nacl"),
}
"""The modules that a command may miss, by the extra that brings them."""


def how_to_install(module: str) -> str | None:
    """One line for a module that is missing; None if no extra brings it."""
    root = module.partition(".")[0]
    extra = next((extra for extra, modules in EXTRAS.items() if root in modules), None)
    return None if extra is None else f"{root} is not installed: {sys.executable} -m pip install 'hearsay[{extra}]'"


def require_extra(extra: str) -> None:
    """Fail if the first thing a command would do is to miss a module of this extra."""
    for module in EXTRAS[extra]:
        if find_spec(module) is None:
            raise CommandFailed(how_to_install(module))
