"""`hearsay explain`: why a node got a message when it did."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hearsay.cli.failures import CommandFailed, WrongInput
from hearsay.cli.given_paths import GivenPath
from hearsay.extras import require_extra

if TYPE_CHECKING:
    from hearsay.explain.story import Story


@click.command("explain")
@click.argument("run", type=GivenPath(path_type=Path))
@click.option(
    "--message", required=True, metavar="M", help="The message: its number in the run, or how its id begins."
)
@click.option("--node", metavar="NODE", help="Why this node got it when it did; by number or name.")
@click.option("--missing", is_flag=True, help="Who was due it and never got it, and why.")
@click.option("--json", "as_json", is_flag=True, help="The whole answer as JSON on stdout, and nothing else there.")
def command(run: Path, message: str, node: str | None, missing: bool, as_json: bool) -> None:
    """Why a node of RUN got a message when it did: the path of the first copy, and what each step of it cost.

    Without --node: the slowest deliveries, and what they have in common; with --missing who never got it, and why.
    """
    if missing and node is not None:
        raise WrongInput("--missing and --node: give one; --node says of a node that never got it why")
    require_extra("sim")
    from hearsay.explain.story import open_story
    from hearsay.explain.subject import NotInThisRun, find_node
    from hearsay.trace.language.errors import RunFolderError

    try:
        story = open_story(run, message)
        if missing:
            text, document = _missing(story)
        elif node is None:
            text, document = _slowest(story)
        else:
            text, document = _one_node(story, find_node(story.run, story.names, node))
    except NotInThisRun as error:
        raise WrongInput(str(error)) from None
    except RunFolderError as error:
        raise CommandFailed(str(error)) from None
    if as_json:
        json.dump(document, sys.stdout, indent=2, allow_nan=False)
        sys.stdout.write("\n")
    else:
        click.echo(text)


def _one_node(story: Story, node: int) -> tuple[str, dict[str, Any]]:
    from hearsay.explain.answer_json import absence_json, node_json
    from hearsay.explain.missing import explain_absence
    from hearsay.explain.missing_words import absence_text
    from hearsay.explain.node_words import node_text
    from hearsay.explain.one_node import explain_node
    from hearsay.explain.shortcut import shortcut_of

    answer = explain_node(story, node)
    if answer is None:
        absence = explain_absence(story, node)
        return absence_text(story, *absence), absence_json(story, *absence)
    shortcut = shortcut_of(story, answer.path)
    return node_text(story, answer, shortcut), node_json(story, answer, shortcut)


def _missing(story: Story) -> tuple[str, dict[str, Any]]:
    from hearsay.explain.answer_json import missing_json
    from hearsay.explain.missing import explain_missing
    from hearsay.explain.missing_words import missing_text

    answer = explain_missing(story)
    return missing_text(story, answer), missing_json(story, answer)


def _slowest(story: Story) -> tuple[str, dict[str, Any]]:
    from hearsay.explain.answer_json import slow_json
    from hearsay.explain.slow_words import slow_text
    from hearsay.explain.slowest import explain_slowest

    answer = explain_slowest(story)
    return slow_text(story, answer), slow_json(story, answer)
