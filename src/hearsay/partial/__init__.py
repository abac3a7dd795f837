"""Applications of partial messages (gossipsub 1.3): nodes exchange the parts of a message separately.

`PartsExchange` is such an application. It exchanges messages of equal parts (`EqualParts`), or messages in another
`PartsFormat`. For other decisions about what a node sends to a peer, implement `DrivenApplication`.
docs/guide/partial-messages.md explains both.
"""

from hearsay.core.language.events import PartialApplication, PartialFeedback, PartialPeer, PartsFor, PublishPartial
from hearsay.core.language.rpc import Partial, PartialUse
from hearsay.partial.exchange import Asking, DrivenApplication, Outcome, PartsExchange, RemindedApplication
from hearsay.partial.formats import (
    Bitlists,
    Bitmap,
    Claim,
    ClaimForm,
    EqualParts,
    InvalidParts,
    PartsFormat,
    counted,
    counted_parts,
    group_named,
)

__all__ = [
    "Asking",
    "Bitlists",
    "Bitmap",
    "Claim",
    "ClaimForm",
    "DrivenApplication",
    "EqualParts",
    "InvalidParts",
    "Outcome",
    "Partial",
    "PartialApplication",
    "PartialFeedback",
    "PartialPeer",
    "PartialUse",
    "PartsExchange",
    "PartsFor",
    "PartsFormat",
    "PublishPartial",
    "RemindedApplication",
    "counted",
    "counted_parts",
    "group_named",
]
