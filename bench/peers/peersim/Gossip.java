import java.util.Arrays;
import java.util.Locale;
import java.util.TreeMap;

import peersim.config.Configuration;
import peersim.core.CommonState;
import peersim.core.Control;
import peersim.core.Network;
import peersim.core.Node;
import peersim.edsim.EDProtocol;
import peersim.edsim.EDSimulator;

/**
 * The model of simpy_gossip.py as a protocol of PeerSim's event-driven mode. bench/array_speed.py runs it.
 *
 * <p>Times are in microseconds. `peers` has the indexes of a node's peers in Network, ascending. `latency` and
 * `inMesh` have the same order.
 */
public class Gossip implements EDProtocol {
    private static final int DIALS = 10, DEGREE_LOW = 4, DEGREE = 6, LAZY = 6, KEPT = 3, INJECTIONS = 5;
    private static final int SECOND = 1_000_000, LEAST_LATENCY = 10_000, MOST_LATENCY = 150_000;
    private static final int NOBODY = -1, UNSEEN = -1;

    private enum Kind { PUBLISH, IHAVE, IWANT, INJECTION, HEARTBEAT }

    private static final class Event {
        final Kind kind;
        final int sender;
        final int[] messages;

        Event(Kind kind, int sender, int... messages) {
            this.kind = kind;
            this.sender = sender;
            this.messages = messages;
        }
    }

    private static final Event HEARTBEAT = new Event(Kind.HEARTBEAT, NOBODY);

    private static long events, delivered, startedNs;

    private int[] peers, latency;
    private boolean[] inMesh;
    private int meshSize;
    private int beat;
    /** Number of heartbeats before the arrival of each message, or UNSEEN. */
    private int[] seenAt;
    /** Messages in order of arrival; those before `firstRecent` are not in IHAVE any more. */
    private int[] seen;
    private int seenCount, firstRecent;

    /** PeerSim calls this for a prototype, which it clones for each node. Start initialises the nodes. */
    public Gossip(String prefix) {}

    @Override
    public Object clone() {
        try {
            return super.clone();
        } catch (CloneNotSupportedException impossible) {
            throw new AssertionError(impossible);
        }
    }

    @Override
    public void processEvent(Node node, int pid, Object given) {
        Event event = (Event) given;
        events++;
        switch (event.kind) {
            case PUBLISH:
            case INJECTION:
                receive(node, pid, event.messages[0], event.sender);
                break;
            case IHAVE:
                int[] wanted = Arrays.stream(event.messages).filter(message -> seenAt[message] == UNSEEN).toArray();
                if (wanted.length > 0) {
                    send(node, pid, placeOf(event.sender), new Event(Kind.IWANT, node.getIndex(), wanted));
                }
                break;
            case IWANT:
                for (int message : event.messages) {
                    send(node, pid, placeOf(event.sender), new Event(Kind.PUBLISH, node.getIndex(), message));
                }
                break;
            case HEARTBEAT:
                heartbeat(node, pid);
                break;
        }
    }

    private void receive(Node node, int pid, int message, int sender) {
        if (seenAt[message] != UNSEEN) {
            return;
        }
        seenAt[message] = beat;
        seen[seenCount++] = message;
        delivered++;
        Event copy = new Event(Kind.PUBLISH, node.getIndex(), message);
        for (int place = 0; place < peers.length; place++) {
            if (inMesh[place] && peers[place] != sender) {
                send(node, pid, place, copy);
            }
        }
    }

    private void heartbeat(Node node, int pid) {
        beat++;
        if (meshSize < DEGREE_LOW) {
            graft(node.getIndex(), pid);
        }
        while (firstRecent < seenCount && beat - seenAt[seen[firstRecent]] > KEPT) {
            firstRecent++;
        }
        if (firstRecent < seenCount) {
            Event told = new Event(Kind.IHAVE, node.getIndex(), Arrays.copyOfRange(seen, firstRecent, seenCount));
            int[] places = new int[peers.length];
            Arrays.setAll(places, place -> place);
            for (int place : chosen(places, places.length, LAZY)) {
                if (!inMesh[place]) {
                    send(node, pid, place, told);
                }
            }
        }
        EDSimulator.add(SECOND, HEARTBEAT, node, pid);
    }

    private void send(Node node, int pid, int place, Event event) {
        EDSimulator.add(latency[place], event, Network.get(peers[place]), pid);
    }

    /** Makes mesh links until the node has D, at both ends at once. */
    private void graft(int self, int pid) {
        int[] free = new int[peers.length];
        int count = 0;
        for (int place = 0; place < peers.length; place++) {
            if (!inMesh[place]) {
                free[count++] = place;
            }
        }
        for (int place : chosen(free, count, DEGREE - meshSize)) {
            Gossip other = at(peers[place], pid);
            inMesh[place] = true;
            meshSize++;
            other.inMesh[other.placeOf(self)] = true;
            other.meshSize++;
        }
    }

    private int placeOf(int peer) {
        return Arrays.binarySearch(peers, peer);
    }

    /** Returns `count` random values of the first `size`, which are partly shuffled. */
    private static int[] chosen(int[] values, int size, int count) {
        int taken = Math.max(0, Math.min(size, count));
        for (int place = 0; place < taken; place++) {
            int other = place + CommonState.r.nextInt(size - place);
            int value = values[place];
            values[place] = values[other];
            values[other] = value;
        }
        return Arrays.copyOf(values, taken);
    }

    private static Gossip at(int index, int pid) {
        return (Gossip) Network.get(index).getProtocol(pid);
    }

    /** Connects the nodes, and puts the first heartbeats and all injections into the queue. */
    public static class Start implements Control {
        private final int pid, messages;
        private final long warmUp, interval;

        public Start(String prefix) {
            pid = Configuration.getPid(prefix + ".protocol");
            messages = Configuration.getInt(prefix + ".messages");
            warmUp = Configuration.getLong(prefix + ".warm_up");
            interval = Configuration.getLong(prefix + ".interval");
        }

        @Override
        public boolean execute() {
            int nodes = Network.size();
            wire(nodes);
            for (int node = 0; node < nodes; node++) {
                at(node, pid).graft(node, pid);
            }
            for (int node = 0; node < nodes; node++) {
                EDSimulator.add(SECOND + CommonState.r.nextInt(SECOND), HEARTBEAT, Network.get(node), pid);
            }
            for (int message = 0; message < messages; message++) {
                Event injection = new Event(Kind.INJECTION, NOBODY, message);
                long delay = warmUp + message * interval;
                CommonState.r.ints(0, nodes).distinct().limit(Math.min(INJECTIONS, nodes))
                    .forEach(node -> EDSimulator.add(delay, injection, Network.get(node), pid));
            }
            startedNs = System.nanoTime();
            return false;
        }

        private void wire(int nodes) {
            TreeMap<Integer, Integer>[] links = links(nodes);
            for (int node = 0; node < nodes; node++) {
                Gossip gossip = at(node, pid);
                gossip.peers = links[node].keySet().stream().mapToInt(Integer::intValue).toArray();
                gossip.latency = links[node].values().stream().mapToInt(Integer::intValue).toArray();
                gossip.inMesh = new boolean[gossip.peers.length];
                gossip.seen = new int[messages];
                gossip.seenAt = new int[messages];
                Arrays.fill(gossip.seenAt, UNSEEN);
                links[node] = null;
            }
        }

        /** Returns for each node its peers, with the latency to each. */
        private static TreeMap<Integer, Integer>[] links(int nodes) {
            @SuppressWarnings("unchecked")
            TreeMap<Integer, Integer>[] links = new TreeMap[nodes];
            Arrays.setAll(links, node -> new TreeMap<>());
            for (int dialler = 0; dialler < nodes; dialler++) {
                int node = dialler;
                CommonState.r.ints(0, nodes).distinct().limit(Math.min(DIALS, nodes)).forEach(other -> {
                    if (other != node && !links[node].containsKey(other)) {
                        int latency = LEAST_LATENCY + CommonState.r.nextInt(MOST_LATENCY - LEAST_LATENCY + 1);
                        links[node].put(other, latency);
                        links[other].put(node, latency);
                    }
                });
            }
            return links;
        }
    }

    /** Prints wall time, events and deliveries at the end of the run. */
    public static class End implements Control {
        public End(String prefix) {}

        @Override
        public boolean execute() {
            double wall = (System.nanoTime() - startedNs) / 1e9;
            System.out.printf(
                Locale.ROOT, "{\"wall\": %.3f, \"events\": %d, \"delivered\": %d}%n", wall, events, delivered);
            return false;
        }
    }
}
