"""Each package keeps its budget of code lines and files; only code lines count."""

from __future__ import annotations

import size

_MODULE = '''"""A docstring
of two lines."""

import os
from pathlib import (
    Path,
)

# A comment.
LIMIT = 3
"""A docstring of a constant."""


def area(width: int) -> str:
    """Another docstring."""

    text = """two
lines"""
    return os.fspath(Path(text)) * width  # a comment after code
'''


def test_only_code_counts() -> None:
    assert size.code_lines(_MODULE) == 5


def test_every_package_keeps_its_budget() -> None:
    assert not size.excesses(), "run `make size`; a budget is raised in tools/size_budgets.toml, openly"
