"""The commands by name, the execution of a command, and the commands `completion` and `schema`.

Every other command has a module of its own, which is imported when the command is used. A failure does not print a
traceback: `ending.py` prints a line for each problem.
"""

from __future__ import annotations

import signal
from importlib import import_module
from typing import Any

import click

from hearsay.cli.ending import close_output, ending, open_streams, print_json
from hearsay.cli.signals import Signalled, Unwound, handle_signals, raise_signalled
from hearsay.version import __version__

COMMANDS = {
    "analyze": "compute metric tables from traces, on Spark",
    "check": "check that metrics stay within bounds; exit 1 if one does not",
    "compare": "test if two scenarios differ, with statistics",
    "completion": "print the completion script of a shell",
    "demo": "simulate five routers, analyse the traces, write a report",
    "explain": "explain how a message reached a node, or why it did not",
    "node": "run a real node that speaks libp2p pubsub",
    "report": "write a report of analysed runs as one HTML file",
    "schema": "print the JSON Schema of scenario, study, budget or tune files, for editors",
    "score": "check score parameters: honest peers that are pruned, bad ones that are not",
    "simulate": "simulate a scenario",
    "spark": "check the Spark installation, or prepare a faster start",
    "sweep": "run a study: combinations of parameters, with several seeds",
    "trace": "show, compare, join and import traces",
    "tune": "search for the best parameters within bounds",
    "vectors": "run test vectors on the scorer and the routers",
    "watch": "show a network in a browser while it runs",
}


class LazyCommands(click.Group):
    """The group of all commands. It imports the module of a command when the command is used; `hearsay --help`
    imports none of these modules. The commands of this module need no import.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.commands or cmd_name not in COMMANDS:
            return self.commands.get(cmd_name)
        command: click.Command = import_module(f"hearsay.cli.{cmd_name}").command
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
    handle_signals(raise_signalled)
    try:
        result = hearsay.main(standalone_mode=False)
        code = result if isinstance(result, int) else 0
    except (Exception, KeyboardInterrupt) as error:
        code = ending(error)
    handle_signals(signal.SIG_IGN)  # the end of the command must not be interrupted
    return close_output(code)


@hearsay.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print a completion script for SHELL. Save it to a file that your shell reads.

    \b
    bash: hearsay completion bash >
            ~/.local/share/bash-completion/completions/hearsay
    zsh:  hearsay completion zsh > FOLDER/_hearsay
            (FOLDER is in $fpath)
    fish: hearsay completion fish >
            ~/.config/fish/completions/hearsay.fish
    """
    from click.shell_completion import get_completion_class

    completion = get_completion_class(shell)
    assert completion is not None
    # `completion.source()` is not used: it starts a shell to find its version.
    complete = completion(hearsay, {}, "hearsay", "_HEARSAY_COMPLETE")
    click.echo(complete.source_template % complete.source_vars())


@hearsay.command("schema")
@click.argument("what", type=click.Choice(["scenario", "study", "budget", "tune"]))
def schema_command(what: str) -> None:
    """Print the JSON Schema of a kind of file. With it, editors complete keys and mark mistakes."""
    from hearsay.sim.scenario.scenario_file import scenario_schema
    from hearsay.studies.budgets import BudgetFile
    from hearsay.studies.study_file import StudyFile, file_schema
    from hearsay.studies.tuning.tune_file import TuneFile

    models = {"study": StudyFile, "budget": BudgetFile, "tune": TuneFile}
    print_json(file_schema(models[what]) if what in models else scenario_schema())
