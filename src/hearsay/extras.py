"""The extras of this distribution, and the message when a package of an extra is missing.

A plain installation has the routers, the node and the command line. Other features need an extra; without it they
fail with the line of `how_to_install`.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

DISTRIBUTION = "hearsay-gossip"
"""The name in the package index, where `hearsay` is another project."""

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
"""The top-level modules that each extra installs."""


class MissingExtra(ModuleNotFoundError):
    """A package of an extra is not installed. The message is a line that says how to install it."""


def how_to_install(module: str) -> str | None:
    """Return a line that says how to install a missing module; None if it belongs to no extra."""
    root = module.partition(".")[0]
    extra = next((extra for extra, modules in EXTRAS.items() if root in modules), None)
    return None if extra is None else _line(root, extra)


def pip_install(extra: str) -> str:
    """Return the command that installs an extra for this Python."""
    installer = (
        f"{sys.executable} -m pip install" if find_spec("pip") else f"uv pip install --python {sys.executable}"
    )
    return f"{installer} '{DISTRIBUTION}[{extra}]'"


def require_extra(extra: str) -> None:
    """Raise `MissingExtra` if a module of this extra is missing."""
    for module in EXTRAS[extra]:
        if find_spec(module) is None:
            raise MissingExtra(_line(module, extra), name=module)


def _line(module: str, extra: str) -> str:
    return f"{module} is not installed: {pip_install(extra)}"
