"""The commands by name. A command is imported when it is used.

A mistake of a user never ends in a traceback: `ending.py` prints one line for each failure.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from hearsay.cli.ending import close_output, ending, open_streams
from hearsay.cli.signals import Signalled, Unwound, ignore_signals, raise_on_signals
from hearsay.version import __version__

COMMANDS = {
    "analyze": "compute metric tables from traces, on Spark",
    "check": "check metrics against limits; exit 1 if one is exceeded",
    "compare": "test whether two scenarios differ, with statistics",
    "completion": "print the completion script of a shell",
    "demo": "simulate the routers, analyse on Spark, write the report",
    "explain": "explain how a message reached a node, or why it did not",
    "node": "run a real node that speaks libp2p pubsub",
    "report": "write a report of analysed runs as one HTML file",
    "schema": "print the JSON Schema of scenario, study, budget or tune files, for editors",
    "score": "check score parameters for unpunished and wrongly pruned peers",
    "simulate": "simulate a scenario",
    "spark": "check the Spark installation, or prepare a faster start",
    "sweep": "run a study: a scenario with many parameter combinations",
    "trace": "show, compare, join and import traces",
    "tune": "search for the best parameters within limits",
    "vectors": "run test vectors of scores and routers",
    "watch": "show a network in a browser while it runs",
}


class LazyCommands(click.Group):
    """Commands are modules of `hearsay.cli`, imported on use; `--help` needs none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"hearsay.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(name, COMMANDS, 1)
            hint = f" Did you mean {near[0]}?" if near else f" There are {', '.join(sorted(COMMANDS))}."
            raise click.UsageError(f"No such command '{name}'.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise Unwound(error if isinstance(error, Signalled) else Signalled()) from error


@click.group(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="hearsay")
def hearsay() -> None:
    """Simulate, run and analyse libp2p gossip networks."""


def run() -> int:
    """Run the command that the arguments name, and return its exit code."""
    open_streams()
    raise_on_signals()
    try:
        result = hearsay.main(standalone_mode=False)
        code = result if isinstance(result, int) else 0
    except (Exception, KeyboardInterrupt) as error:
        code = ending(error)
    ignore_signals()
    return close_output(code)
