"""Any part that an episub peer may send, made from strategies for its fields."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from hearsay.core.language import episub_parts


def parts_said(
    *,
    topics: SearchStrategy[str],
    id_lists: SearchStrategy[tuple[Any, ...]],
    announced: SearchStrategy[tuple[tuple[Any, ...], tuple[int, ...]]],
    peers: SearchStrategy[Any],
    peer_lists: SearchStrategy[tuple[Any, ...]],
    numbers: SearchStrategy[int],
    sketches: SearchStrategy[tuple[int, ...]],
) -> SearchStrategy[episub_parts.Part]:
    """Any part; `announced` are the ids and the hops of an IHAVE."""
    return (
        st.builds(lambda topic, both: episub_parts.EpisubIHave(topic, *both), topics, announced)
        | st.builds(episub_parts.EpisubGraft, topics, id_lists)
        | st.builds(episub_parts.EpisubPrune, topics)
        | st.builds(episub_parts.GetNodes, topics)
        | st.builds(episub_parts.Nodes, topics, peer_lists, numbers)
        | st.builds(episub_parts.GetTopics)
        | st.builds(episub_parts.Topics, st.lists(topics, max_size=3).map(tuple))
        | st.builds(episub_parts.EpisubJoin, topics, peers, numbers, numbers)
        | st.builds(episub_parts.ForwardJoin, topics, peers, numbers, numbers)
        | st.builds(
            episub_parts.Neighbor,
            topics,
            st.sampled_from(episub_parts.Role),
            st.booleans(),
            numbers,
            numbers,
            numbers,
            peer_lists,
        )
        | st.builds(episub_parts.Disconnect, topics, st.booleans())
        | st.builds(episub_parts.EpisubLeave, topics, peers, numbers, numbers)
        | st.builds(episub_parts.Shuffle, topics, peers, peer_lists, numbers, numbers, sketches)
        | st.builds(episub_parts.ShuffleReply, topics, peer_lists, numbers, sketches)
    )
