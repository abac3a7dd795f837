"""Places of drawn nodes, laid out by their links on a thread of its own, on request."""

from __future__ import annotations

from threading import Thread

import numpy as np

from hearsay.graph_layout import force_layout
from hearsay.watch.picture.picture import Picture

SIDE = 10_000
"""Places go to browsers as whole numbers from 0 to this."""
_LINKS_PER_NODE = 2
_MOST_PULLING = 6_000


class Places:
    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._thread: Thread | None = None
        self._found: list[int] | None = None
        self._wanted = False

    def want(self) -> None:
        """Lay them out by the links of now."""
        self._wanted = True

    def news(self) -> list[int] | None:
        """x and y of each place in turn, once they are known."""
        found, self._found = self._found, None
        if self._wanted and self._thread is None and self._is_linked:
            self._wanted = False
            self._thread = Thread(target=self._lay_out, args=self._graph(), daemon=True)
            self._thread.start()
        elif self._thread is not None and not self._thread.is_alive():
            self._thread = None
        return found

    @property
    def _is_linked(self) -> bool:
        """Return True if there are enough links for a layout."""
        nodes = len(self._picture.drawn.numbers)
        return nodes > 1 and len(self._picture.links.links) >= _LINKS_PER_NODE * nodes

    def _graph(self) -> tuple[int, np.ndarray]:
        """Links of topics before connections, of which there are more and which say less."""
        links = sorted(self._picture.links.links, key=lambda link: link[0] < 0)
        pairs = {(min(node, peer), max(node, peer)): None for _, node, peer in links}
        return len(self._picture.drawn.numbers), np.array(list(pairs)[:_MOST_PULLING], dtype=np.int64)

    def _lay_out(self, nodes: int, links: np.ndarray) -> None:
        self._found = (force_layout(nodes, links) * SIDE).round().astype(np.int64).ravel().tolist()
