"""Errors whose messages are for the user, and the message when a package of an extra is missing.

A command that ends with one of these errors prints its message, and no traceback.

An installation without extras has the routers, the node and the command line. Every other feature needs an extra. If
the extra is missing, the feature fails with the line that `how_to_install` returns.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

DISTRIBUTION = "hearsay-gossip"
"""The name of the distribution in the package index. The name `hearsay` there belongs to another project."""
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
"""The top-level modules that an extra installs, by the name of the extra."""


class Failure(Exception):
    """The error of an action that cannot be done. A command prints the message and exits with 1."""


class InvalidInput(Exception):
    """The error of unusable input by the user. A command prints a line for each problem and exits with 2."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)


class MissingExtra(ModuleNotFoundError):
    """The error for a missing module that an extra installs. The message is a line that says how to install the
    extra.
    """


def how_to_install(module: str) -> str | None:
    """Return a line that says how to install the extra of a missing module; None if the module belongs to no
    extra.
    """
    root = module.partition(".")[0]
    extra = next((extra for extra, modules in EXTRAS.items() if root in modules), None)
    return None if extra is None else _line(root, extra)


def pip_install(extra: str) -> str:
    """Return the shell command that installs an extra into the environment of this interpreter."""
    installer = (
        f"{sys.executable} -m pip install" if find_spec("pip") else f"uv pip install --python {sys.executable}"
    )
    return f"{installer} '{DISTRIBUTION}[{extra}]'"


def require_extra(extra: str) -> None:
    """Raise `MissingExtra` if a module of this extra is not installed."""
    for module in EXTRAS[extra]:
        if find_spec(module) is None:
            raise MissingExtra(_line(module, extra), name=module)


def _line(module: str, extra: str) -> str:
    return f"{module} is not installed: {pip_install(extra)}"
