"""`hearsay explain`: why a node got a message when it did."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
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
    from hearsay.explain.story import open_story
    from hearsay.explain.subject import NotInThisRun, find_node
    from hearsay.report.errors import ReportError
    from hearsay.trace.language.errors import RunFolderError

    try:
        story = open_story(run, message)
        number = None if node is None else find_node(story.run, story.names, node)
        answer = _missing(story) if missing else _slowest(story) if number is None else _one_node(story, number)
        if out is not None:
            answer.write(out)
    except NotInThisRun as error:
        raise WrongInput(str(error)) from None
    except (RunFolderError, ReportError) as error:
        raise CommandFailed(str(error)) from None
    if as_json:
        json.dump(answer.document, sys.stdout, indent=2, allow_nan=False)
        sys.stdout.write("\n")
        return
    click.echo(answer.text)
    if out is not None:
        click.echo(f"page: {out}")


@dataclass(frozen=True, slots=True)
class _Answer:
    """In words, as JSON, and how it is written as a page."""

    text: str
    document: dict[str, Any]
    write: Callable[[Path], None]


def _one_node(story: Story, node: int) -> _Answer:
    from hearsay.explain.answer_json import absence_json, node_json
    from hearsay.explain.missing import explain_absence
    from hearsay.explain.missing_words import absence_text
    from hearsay.explain.node_words import node_text
    from hearsay.explain.one_node import explain_node
    from hearsay.explain.shortcut import shortcut_of
    from hearsay.report.explain.explain_page import write_absence_page, write_node_page

    answer = explain_node(story, node)
    if answer is None:
        absence = explain_absence(story, node)
        return _Answer(
            absence_text(story, *absence),
            absence_json(story, *absence),
            lambda out: write_absence_page(out, story, *absence),
        )
    shortcut = shortcut_of(story, answer.path)
    return _Answer(
        node_text(story, answer, shortcut),
        node_json(story, answer, shortcut),
        lambda out: write_node_page(out, story, answer, shortcut),
    )


def _missing(story: Story) -> _Answer:
    from hearsay.explain.answer_json import missing_json
    from hearsay.explain.missing import explain_missing
    from hearsay.explain.missing_words import missing_text
    from hearsay.report.explain.explain_page import write_missing_page

    answer = explain_missing(story)
    return _Answer(
        missing_text(story, answer), missing_json(story, answer), lambda out: write_missing_page(out, story, answer)
    )


def _slowest(story: Story) -> _Answer:
    from hearsay.explain.answer_json import slow_json
    from hearsay.explain.slow_words import slow_text
    from hearsay.explain.slowest import explain_slowest
    from hearsay.report.explain.explain_page import write_slow_page

    answer = explain_slowest(story)
    return _Answer(
        slow_text(story, answer), slow_json(story, answer), lambda out: write_slow_page(out, story, answer)
    )
