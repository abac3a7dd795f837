"""Episub over fixed connections: the broadcast tree of each topic, with its memory and its timer."""
