"""`hearsay explain`: why a node got a message when it did."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from hearsay.cli.failures import WrongInput
from hearsay.cli.given_paths import GivenPath
from hearsay.extras import require_extra


@click.command("explain")
@click.argument("run", type=GivenPath(path_type=Path))
@click.option(
    "--message", required=True, metavar="M", help="The message: its number in the run, or how its id begins."
)
@click.option("--node", metavar="NODE", help="Why this node got it when it did; by number or name.")
@click.option("--missing", is_flag=True, help="Who was due it and never got it, and why.")
@click.option("--out", type=GivenPath(path_type=Path, dir_okay=False), metavar="FILE",
              help="Write the answer as one HTML file too, with the path as a timeline.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="The whole answer as JSON on stdout, and nothing else there.")
def command(run: Path, message: str, node: str | None, missing: bool, out: Path | None, as_json: bool) -> None:
    """Why a node of RUN got a message when it did: the path of the first copy, and what each step of it cost.

    Without --node: the slowest deliveries, and what they have in common; with --missing who never got it, and why.
    """
    if missing and node is not None:
        raise WrongInput("--missing and --node: give one; --node says of a node that never got it why")
    require_extra("sim")
    from hearsay.explain.explained import explain, json_of, text_of
    from hearsay.explain.story import open_story
    from hearsay.explain.subject import find_node
    from hearsay.report.explain.explain_page import write_explained_page

    story = open_story(run, message)
    answer = explain(story, None if node is None else find_node(story.run, story.names, node), missing)
    if out is not None:
        write_explained_page(out, story, answer)
    if as_json:
        json.dump(json_of(story, answer), sys.stdout, indent=2, allow_nan=False)
        sys.stdout.write("\n")
        return
    click.echo(text_of(story, answer))
    if out is not None:
        click.echo(f"page: {out}")
