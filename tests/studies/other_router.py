"""A router without kernels, which the array engine does not run: `router.kind = "other_router:OTHER"`."""

from __future__ import annotations

from dataclasses import replace

from hearsay.core.registry import find_router

OTHER = replace(find_router("meshsub"), name="other")
