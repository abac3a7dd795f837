"""A router that the array engine does not run, for studies: `router.kind = "other_router:OTHER"`."""

from __future__ import annotations

from dataclasses import replace

from hearsay.core.registry import find_router

OTHER = replace(find_router("meshsub"), name="other")
