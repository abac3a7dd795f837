"""`hearsay explain`: explain when and how a node got a message, or why the node did not get it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from hearsay.cli.arguments import GivenPath
from hearsay.cli.ending import WrongInput, print_json
from hearsay.user_errors import require_extra


@click.command("explain")
@click.argument("run", type=GivenPath(path_type=Path))
@click.option("--message", metavar="M",
              help="Number of the message, or the beginning of its id; without it, list the latest.")  # fmt: skip
@click.option("--node", metavar="NODE", help="Explain the delivery to the node with this number or name.")
@click.option("--missing", is_flag=True, help="Explain why nodes that should have got the message did not get it.")
@click.option("--out", type=GivenPath(path_type=Path, dir_okay=False), metavar="FILE",
              help="Also write the answer as one HTML file, with the path as a timeline.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the whole answer as JSON.")
def command(run: Path, message: str | None, node: str | None, missing: bool, out: Path | None, as_json: bool) -> None:
    """Explain a message of RUN. With --node, show the path of the first copy to a node, and the time of each step.

    Without --node, show the slowest deliveries and what they have in common. With --missing, show the nodes that
    never got the message. Without --message, list the ten latest messages.
    """
    if missing and node is not None:
        raise WrongInput("--missing and --node: give one; --node also explains a missing delivery")
    if message is None and (missing or node is not None or out is not None):
        raise WrongInput("--message is missing: --node, --missing and --out are about one message")
    require_extra("sim")
    if message is None:
        from hearsay.explain.message import latest_messages, latest_text

        messages = latest_messages(run)
        if as_json:
            print_json({"messages": [asdict(each) for each in messages]}, allow_nan=False)
        else:
            click.echo(f"{latest_text(messages)}\n\nhearsay explain {run} --message M explains one of them.")
        return
    from hearsay.explain.answers import explain
    from hearsay.explain.message import find_node, open_message
    from hearsay.report.explain_page import write_explained_page

    opened = open_message(run, message)
    number = None if node is None else find_node(opened.run, opened.names, node)
    explanation = explain(opened, number, missing)
    if out is not None:
        write_explained_page(out, explanation)
    if as_json:
        print_json(explanation.to_json(), allow_nan=False)
        return
    click.echo(explanation.text())
    if out is not None:
        click.echo(f"page: {out}")
