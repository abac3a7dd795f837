"""A message of a run explained: why a node got it when it did, which deliveries were slow, who never got it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hearsay.api.runs import Run
from hearsay.explain import answers
from hearsay.explain.message import find_node, open_message
from hearsay.explain.words import heading
from hearsay.text.tables import html_table


class Explanation:
    """The explanation of a message, from the trace of its run."""

    def __init__(self, explanation: answers.Explanation) -> None:
        self._explanation = explanation

    def to_json(self) -> dict[str, Any]:
        """Return the output of `hearsay explain --json`: times in microseconds after the publication."""
        return self._explanation.to_json()

    def __str__(self) -> str:
        return self._explanation.text()

    def _repr_html_(self) -> str:
        caption = f"{heading(self._explanation.message)}: {self._explanation.summary}"
        table = self._explanation.table
        if table is None:
            return html_table((), (), caption, 0)
        return html_table(table.head, table.rows, caption, table.left)


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
    opened = open_message(run.folder if isinstance(run, Run) else Path(run), str(message))
    number = None if node is None else find_node(opened.run, opened.names, str(node))
    return Explanation(answers.explain(opened, number, missing))
