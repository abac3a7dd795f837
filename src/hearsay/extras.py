"""Packages that come with an extra of this one, and what to say when they are not there.

A plain installation has the routers, the node and the command line. Other features need an extra; without
it they end with one line, which `how_to_install` writes.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

DISTRIBUTION = "hearsay-gossip"
"""The name in the package index; `hearsay` there is something else."""

EXTRAS = {
    "sim": ("numpy", "pyarrow", "numba", "pydantic", "tomli_w", "rich"),
    "tables": ("pandas", "polars", "duckdb"),
    "spark": ("pyspark", "pandas", "scipy"),
    "tune": ("optuna", "sklearn"),
    "libp2p": ("libp2p", "trio"),
    "figures": ("matplotlib",),
    "mdns": ("zeroconf",),
    "fast": ("uvloop", "nacl"),
}
"""The modules that may be missing, by the extra that brings them."""


class MissingExtra(ModuleNotFoundError):
    """A package is not installed that an extra brings; the message is the line that says how to install it."""


def how_to_install(module: str) -> str | None:
    """One line for a module that is missing; None if no extra brings it."""
    root = module.partition(".")[0]
    extra = next((extra for extra, modules in EXTRAS.items() if root in modules), None)
    return None if extra is None else _line(root, extra)


def pip_install(extra: str) -> str:
    """The command that installs an extra where this program runs."""
    installer = (
        f"{sys.executable} -m pip install" if find_spec("pip") else f"uv pip install --python {sys.executable}"
    )
    return f"{installer} '{DISTRIBUTION}[{extra}]'"


def require_extra(extra: str) -> None:
    """Raise `MissingExtra` if the first thing to do would be to miss a module of this extra."""
    for module in EXTRAS[extra]:
        if find_spec(module) is None:
            raise MissingExtra(_line(module, extra), name=module)


def _line(module: str, extra: str) -> str:
    return f"{module} is not installed: {pip_install(extra)}"
