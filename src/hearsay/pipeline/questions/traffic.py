"""Efficiency and load balance: parts and bytes by kind of part, and the distribution of sent bytes over nodes."""

from __future__ import annotations

from pyspark.sql import DataFrame

from hearsay.pipeline.questions.messages import ARRIVES, VANISHES
from hearsay.pipeline.rows import Frames

_SIDES = ("parts", "ids", "bytes")
_BOTH_OUT = ", ".join(f"coalesce({name}, 0) as {name}_out, 0 as {name}_in" for name in _SIDES)
_BOTH_IN = ", ".join(f"0 as {name}_out, coalesce({name}, 0) as {name}_in" for name in _SIDES)
_SUMS = ", ".join(f"sum({name}_out) as {name}_out, sum({name}_in) as {name}_in" for name in _SIDES)


def traffic(frames: Frames) -> DataFrame:
    """Return the table `traffic`: parts, ids and bytes sent (`out`) and received (`in`) by topic, node and kind."""
    pieces: list[str] = []
    for name, kind, ids in (("message", "'publish'", "1"), ("rpc", "kind", "greatest(coalesce(count, 0), 0)")):
        by_kind = ", kind" if name == "rpc" else ""
        pieces.append(
            f"select run, topic, node, {kind} as kind, {_BOTH_OUT} from ("
            f"select {{run}} as run, topic, peer as node{by_kind}, "
            f"sum(1) as parts, sum({ids}) as ids, sum(bytes) as bytes "
            f"from {{{name}}} where event = 'send_rpc' group by {{run}}, topic, peer{by_kind})"
        )
        pieces.append(
            f"select run, topic, node, {kind} as kind, {_BOTH_IN} from ("
            f"select {{run}} as run, topic, node{by_kind}, "
            f"sum(sign) as parts, sum(sign * ids) as ids, sum(sign * bytes) as bytes "
            f"from (select run, topic, {ids} as ids, bytes{by_kind}, if(event = 'recv_rpc', peer, remote) as node, "
            f"if(event = 'drop_rpc', -1, 1) as sign from {{{name}}} "
            f"where event = 'recv_rpc' or {ARRIVES} or {VANISHES}) "
            f"where node is not null group by {{run}}, topic, node{by_kind})"
        )
    measured = frames.is_measured
    return frames.query(f"""
        with sides as ({" union all ".join(pieces)}),
        summed as (
          select run, topic, node, kind, {_SUMS} from sides where kind is not null group by run, topic, node, kind)
        select run, topic, node, kind, parts_out, ids_out, if({measured["bytes_out"]}, bytes_out, null) as bytes_out,
               parts_in, ids_in, if({measured["bytes_in"]}, bytes_in, null) as bytes_in
        from summed""")


def control(frames: Frames) -> DataFrame:
    """Return the table `control`: parts, ids and bytes sent by topic and kind, and the kind's share of the topic's
    bytes."""
    return frames.query("""
        with summed as (
          select run, topic, kind, sum(parts_out) as parts, sum(ids_out) as ids, sum(bytes_out) as bytes
          from {traffic} group by run, topic, kind)
        select *, bytes / nullif(sum(coalesce(bytes, 0)) over (partition by run, topic), 0) as bytes_share
        from summed where parts > 0""")


def control_shares(frames: Frames) -> DataFrame:
    """Return the share of control by topic: the bytes of all parts except publish, divided by all bytes sent.

    Parts without a topic are mainly IWANTs, which answer IHAVEs. So the bytes of parts without a topic are divided
    among the topics in proportion to the ids in IHAVEs; in a run without IHAVEs, in proportion to the topics' bytes.
    """
    return frames.query(f"""
        with sums as (
          select run, topic, sum(bytes) as total, sum(if(kind <> 'publish', bytes, 0)) as control,
                 sum(if(kind = 'ihave', ids, 0)) as announced
          from {{control}} group by run, topic),
        loose as (select run, sum(total) as loose from sums where topic is null group by run),
        whole as (
          select run, sum(total) as named, sum(announced) as announced
          from sums where topic is not null group by run),
        extras as (
          select s.*, coalesce(l.loose, 0)
                      * coalesce(s.announced / nullif(w.announced, 0), s.total / nullif(w.named, 0), 0D) as extra
          from sums s join whole w using (run) left join loose l using (run) where topic is not null)
        select run, topic,
               if({frames.is_measured["bytes_out"]}, (control + extra) / nullif(total + extra, 0D), null)
                 as control_bytes_share
        from extras""")


def balance(frames: Frames) -> DataFrame:
    """Return the table `balance`: the distribution of sent bytes over nodes, by topic and for the run (topic null).

    The nodes of the run are all `observers`, the nodes whose events the trace records. The nodes of a topic are the
    observers that were members of it, or that sent or received parts of it. The Gini coefficient is 2 * sum(rank *
    bytes) / (nodes * sum(bytes)) - (nodes + 1) / nodes. Ranks count from 1 in ascending order of bytes.
    """
    return frames.query(f"""
        with amounts as (
          select run, topic, node, coalesce(bytes_out, 0) as bytes, true as of_topic from {{traffic}}
          union all select run, topic, node, 0, true from {{memberships}}
          union all select run, null, node, coalesce(bytes_out, 0), false from {{traffic}}
          union all select run, null, node, 0, false from {{observers}}),
        sums as (
          select a.run, topic, node, sum(bytes) as bytes
          from amounts a left semi join {{observers}} o on a.run = o.run and a.node = o.node
          where topic is not null or not of_topic group by a.run, topic, node),
        ranked as (
          select *, cast(row_number() over (partition by run, topic order by bytes) as decimal(10)) as rank
          from sums),
        totals as (
          select run, topic, count(*) as nodes, sum(bytes) as total, max(bytes) as most,
                 cast(sum(rank * cast(bytes as decimal(19))) as double) as weighted
          from ranked group by run, topic)
        select run, topic, nodes, if({frames.is_measured["bytes_out"]}, total / nodes, null) as bytes_mean,
               if({frames.is_measured["bytes_out"]}, most, null) as bytes_max,
               if({frames.is_measured["evenness"]}, most / nullif(total / nodes, 0D), null) as max_over_mean,
               if({frames.is_measured["evenness"]} and total > 0,
                  2D * weighted / (cast(nodes as double) * nullif(total, 0)) - (nodes + 1D) / nodes, null) as gini
        from totals""")
