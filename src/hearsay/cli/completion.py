"""`hearsay completion`: print the script that lets a shell complete commands and options."""

from __future__ import annotations

import click

from hearsay.cli.commands import hearsay

SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the completion script of SHELL: put its output into a file that your shell reads.

    bash: hearsay completion bash > ~/.local/share/bash-completion/completions/hearsay

    zsh: hearsay completion zsh > FOLDER/_hearsay, where FOLDER is in $fpath

    fish: hearsay completion fish > ~/.config/fish/completions/hearsay.fish
    """
    from click.shell_completion import get_completion_class

    completion = get_completion_class(shell)
    assert completion is not None
    # Fill in the template: `source()` would start a shell to ask for its version.
    complete = completion(hearsay, {}, "hearsay", "_HEARSAY_COMPLETE")
    click.echo(complete.source_template % complete.source_vars())
