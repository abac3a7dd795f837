"""Names of runs and topics on the page, with the colour and the mark of a run."""

from __future__ import annotations

from hearsay.report.markup import Html, join, tag, visible
from hearsay.report.run import Selection

COLOURS = 8


def named(selection: Selection, run: int) -> Html:
    return join([run_key(run), " ", name_shown(selection.runs[run].label)])


def topic_words(selection: Selection, place: int) -> str:
    return f"{selection.topics[place]}: " if len(selection.topics) > 1 else ""


def name_shown(name: str) -> Html:
    """A name from outside; isolated, so that its direction does not disturb the text around it."""
    return tag("bdi", name, class_="name", title=name)


def shortened(name: str, most: int) -> str:
    text = visible(name)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def run_key(run: int) -> Html:
    """The colour and the mark of a run."""
    mark = (run + run // COLOURS) % COLOURS
    attributes = f'class="key run-{run % COLOURS}" viewBox="-6 -6 12 12" aria-hidden="true"'
    return Html(f'<svg {attributes}><use href="#mark-{mark}"/></svg>')


def marks() -> Html:
    shapes = (
        '<circle r="4.2"/>',
        '<rect x="-3.8" y="-3.8" width="7.6" height="7.6"/>',
        '<path d="M0-5 4.8 4H-4.8Z"/>',
        '<path d="M0-5.4 5.4 0 0 5.4-5.4 0Z"/>',
        '<path d="M0 5 4.8-4H-4.8Z"/>',
        '<path d="M-1.6-5h3.2v3.4H5v3.2H1.6V5h-3.2V1.6H-5v-3.2h3.4Z"/>',
        '<path d="M0-5.2 5-1.6 3.1 4.3H-3.1L-5-1.6Z"/>',
        '<path d="M-4.6-2.6-2.6-4.6 0-2 2.6-4.6 4.6-2.6 2 0 4.6 2.6 2.6 4.6 0 2-2.6 4.6-4.6 2.6-2 0Z"/>',
    )
    symbols = "".join(f'<g id="mark-{number}">{shape}</g>' for number, shape in enumerate(shapes))
    return Html(f'<svg width="0" height="0" class="unseen" aria-hidden="true"><defs>{symbols}</defs></svg>')
