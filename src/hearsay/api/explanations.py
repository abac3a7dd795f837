"""A message of a run explained: why a node got it when it did, which deliveries were slow, who never got it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hearsay.api.runs import Run
from hearsay.explain.explained import Answer, explain, json_of, table_of, text_of
from hearsay.explain.story import Story, open_story
from hearsay.explain.subject import find_node
from hearsay.text.html_table import html_table


class Explanation:
    """What the trace tells of a message."""

    def __init__(self, story: Story, answer: Answer) -> None:
        self._story = story
        self._answer = answer

    def to_json(self) -> dict[str, Any]:
        """What `hearsay explain --json` says: times in microseconds after the publication."""
        return json_of(self._story, self._answer)

    def __str__(self) -> str:
        return text_of(self._story, self._answer)

    def _repr_html_(self) -> str:
        table = table_of(self._story, self._answer)
        return html_table(table.head, table.rows, table.caption, table.left)


def explain_message(
    run: Run | str | Path, message: int | str, *, node: int | str | None = None, missing: bool = False
) -> Explanation:
    """Explain a message of a run: a number, or how its id begins.

    With `node`, a number or a name, why that node got it when it did, or why never; with `missing` who never got it;
    without both the slowest deliveries and what they have in common. `RunFolderError` says why a folder is no run,
    `ValueError` which message or node the run does not know.
    """
    if missing and node is not None:
        raise ValueError("missing and node: give one; node says of a node that never got it why")
    story = open_story(run.folder if isinstance(run, Run) else Path(run), str(message))
    number = None if node is None else find_node(story.run, story.names, str(node))
    return Explanation(story, explain(story, number, missing))
