"""The message of a router that raises during a run: its name, the event, the node, the time and the error."""

from __future__ import annotations

import traceback
from types import FrameType

from hearsay.core.language.identifiers import Micros
from hearsay.core.shell.contract import RouterFailed, describe_error
from hearsay.sim.plan.plan import Plan
from hearsay.sim.reference.nodes import SimNode

_WATCHING = ("handled", "node_started", "node_stopped")
"""Functions of observers, which the engine calls too; their errors are not the router's."""


def router_failure(error: Exception, plan: Plan, now: Micros, engine_file: str) -> RouterFailed | None:
    """Return the failure of a router that caused an error of the engine; None if no router did."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    calls = [place for place, frame in enumerate(frames) if _calls_router(frame, engine_file)]
    if not calls or calls[-1] + 1 >= len(frames) or isinstance(error, MemoryError | OSError):
        return None
    call, called = frames[calls[-1]], frames[calls[-1] + 1].f_code.co_name
    if called in _WATCHING:
        return None
    node: SimNode = call.f_locals["node"]
    name = plan.routers[plan.router_of[node.id]][0].name
    event = call.f_locals.get("event")
    what = "on creation" if event is None else f"handling {type(event).__name__}"
    if called not in ("handle", "create"):
        what = f"after {what}, with an action that cannot be performed"
    return RouterFailed(
        f"router {name} failed at node {node.id}, {what} at {now / 1e6:.6f} s: {describe_error(error)}"
    )


def _calls_router(frame: FrameType, engine_file: str) -> bool:
    if frame.f_code.co_filename != engine_file:
        return False
    return isinstance(frame.f_locals.get("node"), SimNode) and (
        "event" in frame.f_locals or frame.f_code.co_name == "start"
    )
