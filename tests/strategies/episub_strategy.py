"""A strategy for all parts that an episub peer may send, made from strategies for their fields."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_args

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from hearsay.core.language import episub_parts


def any_episub_part(
    *,
    topics: SearchStrategy[str],
    id_lists: SearchStrategy[tuple[Any, ...]],
    announced: SearchStrategy[tuple[tuple[Any, ...], tuple[int, ...]]],
    peers: SearchStrategy[Any],
    peer_lists: SearchStrategy[tuple[Any, ...]],
    numbers: SearchStrategy[int],
    sketches: SearchStrategy[tuple[int, ...]],
) -> SearchStrategy[episub_parts.EpisubPart]:
    """Return a strategy for any part; fields are drawn by name. `announced` has the ids and hops of an IHAVE."""
    by_field: dict[str, SearchStrategy[Any]] = {
        "topic": topics, "topics": st.lists(topics, max_size=3).map(tuple), "ids": id_lists, "peer": peers,
        "source": peers, "peers": peer_lists, "role": st.sampled_from(episub_parts.Role), "random": st.booleans(),
        "refused": st.booleans(), "sketch": sketches,
    }  # fmt: skip
    parts: dict[type, SearchStrategy[Any]] = {
        kind: st.builds(kind, **{each.name: by_field.get(each.name, numbers) for each in fields(kind)})
        for kind in get_args(episub_parts.EpisubPart)
    }
    parts[episub_parts.EpisubIHave] = st.builds(
        lambda topic, both: episub_parts.EpisubIHave(topic, *both), topics, announced
    )
    return st.one_of(*parts.values())
