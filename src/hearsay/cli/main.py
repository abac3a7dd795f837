"""`hearsay`: the entry point. It handles signals before the large imports, which take a while."""

from __future__ import annotations

import sys

from hearsay.cli.signals import exit_on_signals


def main() -> None:
    exit_on_signals()
    from hearsay.cli.commands import run

    sys.exit(run())
