"""The entry point `hearsay`. It installs signal handlers before the large imports, so that a signal during the
imports ends the program cleanly.
"""

from __future__ import annotations

import sys

from hearsay.cli.signals import exit_at_once, handle_signals


def main() -> None:
    handle_signals(exit_at_once)
    from hearsay.cli.commands import run

    sys.exit(run())
