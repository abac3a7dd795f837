"""The broadcast of one topic: Plumtree's tree over the neighbours that a membership chooses.

Rules (episub spec, "Broadcast Protocol"; Leitão, Pereira, Rodrigues: Epidemic Broadcast Trees, 2007):

* TREE-1: A neighbour is eager or lazy; a new one is eager. A node sends a message at once to all eager neighbours
  except the message's sender, with one hop more. The next IHAVE has the message's id and hops. It goes to the lazy
  neighbours, and to neighbours that became eager since the message was sent. A node without neighbours stores its
  announcements for its next neighbour. A new neighbour gets an IHAVE of the messages of the last
  `announce_recent_ms`: after a crash these messages may have reached only a small part of the network. A neighbour
  that replaced its stream also gets such an IHAVE, since the neighbour may have forgotten earlier ones.
* TREE-2: The first copy of a message makes its sender eager, if the sender is a neighbour. A later copy is answered
  with PRUNE, and makes its sender lazy.
* TREE-3: An IHAVE of an unknown message makes the message missing. One persistent timer touches all missing messages
  (REPAIR-1). The first touch marks a message. At each later touch the next of the message's announcers gets a GRAFT
  for this message and for all other due messages that this peer announced. After `graft_attempts` GRAFTs the message
  is given up, which is traced. A GRAFT makes the link eager for both nodes, and is answered with the messages that
  are still kept. A message that has arrived is not requested, even while the application validates it or after it was
  rejected; TREE-4 and TREE-5 still use its announcements.
* TREE-4: Optimisation: an eager link over which a message came is replaced by a lazy link over which the message was
  announced, if the lazy path is shorter by `optimisation_threshold` hops or more. The peer at the lazy link gets a
  GRAFT, the peer at the eager link a PRUNE. The lazy path has one hop more than the announcement states. The message
  and the announcement may come in either order.
* TREE-5: After the loss of an eager neighbour, the node waits for the next IHAVE, or repairs the tree at once
  (`repair`). If the neighbour failed, the node grafts all its lazy neighbours. If the neighbour is still in the
  overlay, one new edge is enough, and only one of the two nodes adds it: the node that got its newest message over
  the lost edge. That node grafts the lazy neighbour that is nearest to the source and does not depend on the node
  (see `Detours`), or all lazy neighbours if there is no such neighbour.

To graft a neighbour is to make its link eager and to send it GRAFT. With `broadcast = flood` all neighbours stay
eager, and there is neither IHAVE nor PRUNE nor GRAFT: gossip flooding as in HyParView's evaluation."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace

from hearsay.core.episub.caches import MissingList, PayloadCache
from hearsay.core.episub.connections import Agenda, Task
from hearsay.core.episub.membership import Membership
from hearsay.core.episub.parameters import Broadcast, EpisubParameters, Repair
from hearsay.core.language.actions import OverlayChange, OverlayChanged, Reason, Via
from hearsay.core.language.episub_parts import EpisubGraft, EpisubIHave, EpisubPrune
from hearsay.core.language.identifiers import MessageId, PeerId, TopicId
from hearsay.core.language.rpc import Message, PartKind
from hearsay.core.rules.message_rules import announced_hops, hops_of_copy, is_answered, is_shortcut, next_tick
from hearsay.core.rules.randomness import Purpose, sample
from hearsay.core.shell.peers import PeerGroup
from hearsay.core.shell.strategy import Shell


class Detours:
    """Stand-ins for eager neighbours (TREE-5).

    A neighbour S is a stand-in for an eager neighbour E if S announced a message that E sent to this node, with no
    more hops than the message had at this node. So S did not get the message from this node.
    """

    def __init__(self) -> None:
        self._latest: PeerId | None = None
        """The peer that sent the newest message, if the peer is an eager neighbour; otherwise None."""
        self._ahead: dict[PeerId, tuple[PeerId, int]] = {}
        """For each stand-in, the eager neighbour that it can replace, and the announced hops minus the hops of the
        same message at this node (0 or less)."""

    def came_from(self, parent: PeerId | None) -> None:
        """Note that the newest message came from the eager neighbour `parent`; None for any other origin."""
        self._latest = parent

    def compare(self, parent: PeerId | None, own_hops: int, announcer: PeerId, hops: int) -> None:
        """Note whether `announcer` is a stand-in for `parent`, after an announcement of a message.

        `parent` is the eager neighbour that sent the message to this node, None if there is none. The message has
        `own_hops` at this node, and `hops` in the announcement.
        """
        if parent is not None and announcer != parent and hops <= own_hops:
            self._ahead[announcer] = (parent, hops - own_hops)
        else:
            self._ahead.pop(announcer, None)

    def depends_on(self, peer: PeerId) -> bool:
        """Return whether the eager neighbour `peer` sent the newest message. Then the loss of this neighbour cuts the
        node off from the source."""
        return self._latest == peer

    def around(self, peer: PeerId, among: Container[PeerId]) -> PeerId | None:
        """Return the stand-in for `peer` that is in `among` and is nearest to the source; None if there is none."""
        ways = [(by, other) for other, (parent, by) in self._ahead.items() if parent == peer and other in among]
        return min(ways)[1] if ways else None

    def forget(self, peer: PeerId) -> None:
        """Forget a peer that is no longer a neighbour."""
        if self._latest == peer:
            self._latest = None
        self._ahead.pop(peer, None)
        for other in [other for other, (parent, _) in self._ahead.items() if parent == peer]:
            del self._ahead[other]

    def mentions(self, peer: PeerId) -> bool:
        return (
            self._latest == peer or peer in self._ahead or any(parent == peer for parent, _ in self._ahead.values())
        )


class Tree:
    """The node's part of the broadcast tree of one topic."""

    membership: Membership
    """The membership that chooses the neighbours of this tree. The router sets it before the first event."""

    def __init__(self, shell: Shell, parameters: EpisubParameters, topic: TopicId, agenda: Agenda) -> None:
        self._shell = shell
        self._parameters = parameters
        self._agenda = agenda
        self._floods = parameters.broadcast is Broadcast.FLOOD
        self._threshold = 0 if self._floods else parameters.optimisation_threshold
        self.topic = topic
        self.eager = PeerGroup()
        self.lazy = PeerGroup()
        self._detours = Detours()
        self._newly_eager: set[PeerId] = set()
        """Neighbours that became eager since the last IHAVE, while `queue` was not empty."""
        self._newly_up: set[PeerId] = set()
        """Neighbours that get recent messages in the next IHAVE."""
        self.queue: dict[MessageId, int] = {}
        """The messages that the next IHAVE will announce: the hops of each at this node, by id."""
        self.missing = MissingList(parameters)
        self.kept = PayloadCache(parameters)

    def stop(self) -> None:
        """Leave the tree. When the neighbours are removed afterwards, the tree is not repaired."""
        self.eager = PeerGroup()

    def neighbor_up(self, peer: PeerId) -> None:
        self._make_eager(peer)
        self.announce_again(peer)

    def announce_again(self, peer: PeerId) -> None:
        """Announce recent messages, and those that wait for the next IHAVE, to this neighbour in the next IHAVE.

        If `announce_recent_ms` is 0, only set the alarm for the next IHAVE, if messages wait for it.
        """
        if self._parameters.announce_recent_ms and len(self.kept) and not self._floods:
            self._newly_up.add(peer)
        if self.queue or self._newly_up:
            self._arm_flush()

    def neighbor_down(self, peer: PeerId, in_good_order: bool) -> None:
        was_eager = self.eager.discard(peer)
        self.lazy.discard(peer)
        self._newly_eager.discard(peer)
        self._newly_up.discard(peer)
        self.missing.forget_peer(peer)
        if was_eager and self._parameters.repair is Repair.EAGER:
            for other in self._stand_ins(peer, in_good_order):
                self._make_eager(other)
                self._shell.outbox.episub(other, EpisubGraft(self.topic))
        self._detours.forget(peer)

    def peer_removed(self, peer: PeerId) -> None:
        """Forget how often messages were sent to a peer on request."""
        self.kept.forget_peer(peer)

    def publish(self, message: Message) -> None:
        self._spread(replace(message, hops=None), 0, None)

    def accepted(self, message: Message, sender: PeerId) -> None:
        """Handle the first copy of a message, which the router has accepted."""
        hops = hops_of_copy(message.hops or 0)
        missing = self.missing.arrived(message.id)
        if sender in self.lazy.members:
            self._make_eager(sender)
        self._spread(message, hops, sender)
        if missing is not None:
            for announcer, lazy_hops in missing.announcers:
                self._compare(sender, hops, announcer, lazy_hops)
            nearest, lazy_hops = min(missing.announcers, key=lambda known: (known[1], known[0]))
            self._optimise(sender, hops, nearest, lazy_hops)

    def duplicate(self, sender: PeerId) -> None:
        """Answer a later copy of a message with PRUNE, and make its sender lazy (TREE-2)."""
        if self._floods:
            return
        if sender in self.eager.members:
            self._make_lazy(sender)
        self._shell.outbox.episub(sender, EpisubPrune(self.topic))

    def on_ihave(self, sender: PeerId, part: EpisubIHave) -> None:
        if not self._is_neighbour(sender, PartKind.IHAVE):
            return
        shell = self._shell
        announced = list(zip(part.ids, part.hops, strict=False))
        limit = self._parameters.max_ids_per_part
        if len(announced) > limit or len(part.ids) != len(part.hops):
            over = max(len(part.ids), len(part.hops)) - min(len(announced), limit)
            shell.drop(sender, PartKind.IHAVE, over, Reason.OVER_LIMIT)
        shell.seen.expire(shell.now)
        for message_id, said_hops in announced[:limit]:
            hops = announced_hops(said_hops)
            if message_id not in shell.known or message_id in shell.pending:
                pushed_out = self.missing.announce(message_id, sender, hops)
                if pushed_out is not None:
                    shell.drop(pushed_out, PartKind.IHAVE, 1, Reason.OVER_LIMIT)
                continue
            kept = self.kept.get(message_id, shell.now)
            if kept is not None:
                self._compare(kept.parent, kept.hops, sender, hops)
                if kept.parent is not None:
                    self._optimise(kept.parent, kept.hops, sender, hops)
        if len(self.missing) and not self._agenda.is_set(Task.MISSING, None):
            tick_us = self._parameters.missing_tick_ms * 1000
            self._agenda.set(Task.MISSING, None, next_tick(shell.now, tick_us))

    def on_graft(self, sender: PeerId, part: EpisubGraft) -> None:
        if not self._is_neighbour(sender, PartKind.GRAFT):
            return
        self._make_eager(sender)
        limit = self._parameters.max_ids_per_part
        if len(part.ids) > limit:
            self._shell.drop(sender, PartKind.GRAFT, len(part.ids) - limit, Reason.OVER_LIMIT)
        for message_id in part.ids[:limit]:
            kept = self.kept.get(message_id, self._shell.now)
            if kept is None:
                continue
            answers = kept.answers.get(sender, 0) + 1
            if is_answered(answers, self._parameters.graft_answers_per_id):
                kept.answers[sender] = answers
                message = replace(kept.message, hops=kept.hops + 1)
                self._shell.outbox.answer(sender, message, Via.LAZY)

    def on_prune(self, sender: PeerId) -> None:
        if self._is_neighbour(sender, PartKind.PRUNE) and not self._floods:
            self._make_lazy(sender)

    def flush(self) -> None:
        """Send the IHAVEs for the messages in `queue` (TREE-1). Without neighbours, do nothing."""
        if not self.eager.members and not self.lazy.members:
            return
        queue, self.queue = self.queue, {}
        self._announce(queue, self._newly_eager.union(self.lazy.members) - self._newly_up)
        if self._newly_up:
            since_us = self._shell.now - self._parameters.announce_recent_ms * 1000
            recent = self.kept.since(since_us, self._parameters.max_ids_per_part)
            self._announce(queue | recent, self._newly_up)
        self._newly_eager.clear()
        self._newly_up.clear()

    def _announce(self, hops: dict[MessageId, int], peers: set[PeerId]) -> None:
        if not hops:
            return
        ids = sorted(hops)
        if len(ids) > self._parameters.max_ids_per_part:
            state = self._shell.draw(Purpose.GOSSIP_IDS, self.topic, self._shell.now)
            ids = sorted(sample(state, ids, self._parameters.max_ids_per_part))
        if peers:
            part = EpisubIHave(self.topic, tuple(ids), tuple(hops[message_id] for message_id in ids))
            for peer in sorted(peers):
                self._shell.outbox.episub(peer, part)

    def touch_missing(self) -> None:
        """Handle a tick of the persistent timer: touch all missing messages (TREE-3)."""
        shell = self._shell
        shell.seen.expire(shell.now)
        asks, given_up = self.missing.touch(self._parameters.graft_attempts, shell.pending, shell.known)
        for peer in sorted(given_up):
            shell.drop(peer, PartKind.IHAVE, given_up[peer], Reason.GIVEN_UP)
        for peer in sorted(asks):
            self._make_eager(peer)
            self._shell.outbox.episub(peer, EpisubGraft(self.topic, tuple(sorted(asks[peer]))))

    def remembers(self, peer: PeerId) -> bool:
        """Return whether the tree has state about a peer."""
        listed = peer in self.eager or peer in self.lazy or self.kept.has_answered(peer)
        return listed or self.missing.mentions(peer) or self._detours.mentions(peer)

    def _spread(self, message: Message, hops: int, sender: PeerId | None) -> None:
        shell = self._shell
        self.kept.put(message, hops, sender, shell.now)
        self._detours.came_from(sender if sender in self.eager.members else None)
        onward = replace(message, hops=hops + 1)
        shell.outbox.forward(self.eager.ordered, onward, Via.EAGER, sender)
        if not self._floods:
            self.queue[message.id] = hops
            if len(self.queue) > self._parameters.max_ids_per_part:
                del self.queue[next(iter(self.queue))]
            self._arm_flush()

    def _optimise(self, parent: PeerId, hops: int, announcer: PeerId, lazy_hops: int) -> None:
        """Replace the eager link to `parent` by the lazy link to `announcer`, if that saves enough hops (TREE-4).

        A message has `hops` over the link to `parent`; `announcer` announced it with `lazy_hops`.
        """
        if not is_shortcut(hops, lazy_hops, self._threshold):
            return
        if announcer not in self.lazy.members or parent not in self.eager.members:
            return
        self._make_eager(announcer)
        self._make_lazy(parent)
        self._shell.outbox.episub(announcer, EpisubGraft(self.topic))
        self._shell.outbox.episub(parent, EpisubPrune(self.topic))

    def _compare(self, parent: PeerId | None, own_hops: int, announcer: PeerId, hops: int) -> None:
        self._detours.compare(parent if parent in self.eager.members else None, own_hops, announcer, hops)

    def _stand_ins(self, lost: PeerId, in_good_order: bool) -> Iterable[PeerId]:
        """Return the lazy neighbours to graft after the loss of the eager neighbour `lost` (TREE-5). `in_good_order`
        is True if `lost` is still in the overlay."""
        if not in_good_order:
            return self.lazy.ordered
        if not self._detours.depends_on(lost):
            return ()
        detour = self._detours.around(lost, self.lazy.members)
        return self.lazy.ordered if detour is None else (detour,)

    def _is_neighbour(self, sender: PeerId, kind: PartKind) -> bool:
        """Return whether the sender of a part is a neighbour. If not, report the part as dropped, and let the
        membership answer the sender."""
        if sender in self.eager.members or sender in self.lazy.members:
            return True
        self._shell.drop(sender, kind, 1, Reason.NOT_A_NEIGHBOUR)
        self.membership.claimed_as_neighbour(sender)
        return False

    def _make_eager(self, peer: PeerId) -> None:
        self.lazy.discard(peer)
        if self.eager.add(peer):
            if self.queue:
                self._newly_eager.add(peer)
            self._shell.actions.append(OverlayChanged(OverlayChange.EAGER, self.topic, peer))

    def _make_lazy(self, peer: PeerId) -> None:
        self.eager.discard(peer)
        if self.lazy.add(peer):
            self._shell.actions.append(OverlayChanged(OverlayChange.LAZY, self.topic, peer))

    def _arm_flush(self) -> None:
        if not self._agenda.is_set(Task.FLUSH, None):
            self._agenda.set(Task.FLUSH, None, self._shell.now + self._parameters.flush_ms * 1000)
