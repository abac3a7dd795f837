"""What an episub peer may say, from strategies for what it says it of."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from hearsay.core.episub import parts


def parts_said(
    *,
    topics: SearchStrategy[str],
    id_lists: SearchStrategy[tuple[Any, ...]],
    announced: SearchStrategy[tuple[tuple[Any, ...], tuple[int, ...]]],
    peers: SearchStrategy[Any],
    peer_lists: SearchStrategy[tuple[Any, ...]],
    numbers: SearchStrategy[int],
    sketches: SearchStrategy[tuple[int, ...]],
) -> SearchStrategy[parts.Part]:
    """Any part; `announced` are the ids and the hops of an IHAVE."""
    return (
        st.builds(lambda topic, both: parts.IHave(topic, *both), topics, announced)
        | st.builds(parts.Graft, topics, id_lists)
        | st.builds(parts.Prune, topics)
        | st.builds(parts.GetNodes, topics)
        | st.builds(parts.Nodes, topics, peer_lists, numbers)
        | st.builds(parts.GetTopics)
        | st.builds(parts.Topics, st.lists(topics, max_size=3).map(tuple))
        | st.builds(parts.Join, topics, peers, numbers, numbers)
        | st.builds(parts.ForwardJoin, topics, peers, numbers, numbers)
        | st.builds(
            parts.Neighbor, topics, st.sampled_from(parts.Role), st.booleans(), numbers, numbers, numbers, peer_lists
        )
        | st.builds(parts.Disconnect, topics, st.booleans())
        | st.builds(parts.Leave, topics, peers, numbers, numbers)
        | st.builds(parts.Shuffle, topics, peers, peer_lists, numbers, numbers, sketches)
        | st.builds(parts.ShuffleReply, topics, peer_lists, numbers, sketches)
    )
