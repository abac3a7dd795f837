"""Where implementations differ, as named choices. The first word of each is go's."""

from __future__ import annotations

from enum import StrEnum


class Validation(StrEnum):
    """How much of a set of parameters must be given."""

    ATOMIC = "atomic"
    """All of it."""
    SELECTIVE = "selective"
    """Groups of which nothing is given are switched off (go's "skip atomic validation")."""


class MeshTimes(StrEnum):
    """Up to when the time in the mesh counts."""

    LAST_REFRESH = "last-refresh"
    NOW = "now"
    """jvm."""


class QuantumRounding(StrEnum):
    """What counts of a time in the mesh: the quanta that are over, or what has begun, too."""

    WHOLE = "whole"
    FRACTION = "fraction"
    """rust, js, nim, jvm."""


class RetainedScores(StrEnum):
    """Of whom something is kept when they go."""

    NOT_POSITIVE = "not-positive"
    ALL = "all"
    """nim, jvm."""
    UNTIL_RETURN = "until-return"
    """As `not-positive`, but who comes back starts afresh: so nothing is held against them (js)."""


class InvalidCopies(StrEnum):
    """Who is blamed for copies of an invalid message."""

    ALL = "all"
    MEMBERS = "members"
    """Only members of the mesh (jvm)."""


class Ipv6Counting(StrEnum):
    """As what an IPv6 address counts."""

    WHOLE_AND_PREFIX = "whole-and-prefix"
    """Once as it is, and once as its /64, which one household has to itself."""
    PREFIX = "prefix"
    WHOLE = "whole"
    """rust."""
    NOT = "not"
    """jvm."""


class TrackedPromises(StrEnum):
    """Which ids of an IWANT are promises."""

    ONE = "one"
    ALL = "all"
    """rust."""
    NONE = "none"
    """nim."""
