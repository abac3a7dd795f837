"""`hearsay vectors`: run test vectors on the scorer and the gossipsub router of this program."""

from __future__ import annotations

from pathlib import Path

import click

from hearsay.cli.arguments import GivenPath
from hearsay.cli.ending import CommandFailed, print_json


@click.command("vectors")
@click.argument("paths", nargs=-1, required=True, metavar="FILE|FOLDER…",
                type=GivenPath(exists=True, path_type=Path))  # fmt: skip
@click.option("--as", "implementation", type=click.Choice(["spec", "go"]), default="spec", show_default=True,
              help="Rules to follow: those of the specification, or of go-libp2p-pubsub.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def command(paths: tuple[Path, ...], implementation: str, as_json: bool) -> None:
    """Run the test vectors in files and folders; exit 1 if one fails."""
    from hearsay.vectors.files import Outcome, run_file, vector_files

    outcomes: list[Outcome] = []
    for file in list(vector_files(paths)):
        for outcome in run_file(file, implementation):
            outcomes.append(outcome)
            if not as_json:
                click.echo(outcome.line())
    failed = sum(outcome.fault is not None for outcome in outcomes)
    if as_json:
        print_json({"as": implementation, "failed": failed, "vectors": [each.values() for each in outcomes]})
    if failed:
        raise CommandFailed(f"{failed} of {len(outcomes)} vectors do not hold")
