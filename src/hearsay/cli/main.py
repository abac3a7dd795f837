"""`hearsay`: the entry point. Knows the commands by name and loads one only when it is asked for.

Exit codes: 0 ok, 1 failed, 2 usage, 130 interrupted. Nothing a user does ends in a traceback.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import version

import click

COMMANDS = {
    "analyze": "turn traces into metric tables on Spark",
    "check": "hold figures against budgets; exit 1 if one is broken",
    "compare": "compare two scenarios: better, worse, or no difference to be seen",
    "demo": "simulate the routers, analyse on Spark, write the report",
    "node": "run a real node that speaks libp2p pubsub",
    "report": "write a report of analysed runs: one HTML file",
    "simulate": "simulate a scenario",
    "spark": "look after Spark: doctor",
    "sweep": "run a study: many runs over the axes of a scenario, on Spark",
    "trace": "look at traces: show, diff; import those of real networks",
}


class CommandFailed(Exception):
    """A command could not do its work: exit 1 with this message."""


class WrongInput(Exception):
    """What the user gave cannot be used: exit 2, a line for each problem."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


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


@click.group(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(version("hearsay"), prog_name="hearsay")
def hearsay() -> None:
    """Gossip publish/subscribe: simulate it, look at it."""


def main() -> None:
    try:
        code = hearsay.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        print("hearsay: interrupted", file=sys.stderr)
        code = 130
    except WrongInput as error:
        for problem in error.problems:
            print(f"hearsay: {problem}", file=sys.stderr)
        code = 2
    except CommandFailed as error:
        print(f"hearsay: {error}", file=sys.stderr)
        code = 1
    except BrokenPipeError:
        sys.stdout = None
        code = 1
    except MemoryError:
        print("hearsay: out of memory; try fewer nodes or messages", file=sys.stderr)
        code = 1
    sys.exit(code if isinstance(code, int) else 0)
