// A small gossipsub peer for the interoperability tests, on go-libp2p and go-libp2p-pubsub.
//
// Input and output are lines, which ../README.md describes.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p"
	pubsub "github.com/libp2p/go-libp2p-pubsub"
	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
)

const anyPort = "/ip4/127.0.0.1/tcp/0"

var output, names sync.Mutex

func say(event map[string]any) {
	output.Lock()
	defer output.Unlock()
	line, _ := json.Marshal(event)
	fmt.Println(string(line))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func byAuthor(m *pb.Message) string  { return string(m.GetFrom()) + string(m.GetSeqno()) }
func byContent(m *pb.Message) string { h := sha256.Sum256(m.GetData()); return string(h[:]) }

// meshes traces the events of the router, and has the members of its meshes.
type meshes struct {
	sync.Mutex
	peers map[string]map[string]bool
}

func (m *meshes) Trace(event *pb.TraceEvent) {
	m.Lock()
	defer m.Unlock()
	switch event.GetType() {
	case pb.TraceEvent_JOIN:
		m.peers[event.GetJoin().GetTopic()] = map[string]bool{}
	case pb.TraceEvent_LEAVE:
		delete(m.peers, event.GetLeave().GetTopic())
	case pb.TraceEvent_GRAFT:
		if mesh, ok := m.peers[event.GetGraft().GetTopic()]; ok {
			mesh[string(event.GetGraft().GetPeerID())] = true
		}
	case pb.TraceEvent_PRUNE:
		delete(m.peers[event.GetPrune().GetTopic()], string(event.GetPrune().GetPeerID()))
	case pb.TraceEvent_ON_CLOSED_OUTBOUND_STREAM:
		for _, mesh := range m.peers {
			delete(mesh, string(event.GetOnClosedOutboundStream().GetPeerID()))
		}
	}
}

func (m *meshes) sizes() map[string]int {
	m.Lock()
	defer m.Unlock()
	sizes := map[string]int{}
	for topic, mesh := range m.peers {
		sizes[topic] = len(mesh)
	}
	return sizes
}

// newHost returns a host that listens at an address and dials from it, with the transport, security and multiplexer of
// the other implementations. Without a resource manager it has no limits.
func newHost(listen string, resources network.ResourceManager) host.Host {
	made, err := libp2p.New(
		libp2p.ListenAddrStrings(listen),
		libp2p.Transport(tcp.NewTCPTransport),
		libp2p.Security(noise.ID, noise.New),
		libp2p.Muxer("/yamux/1.0.0", yamux.DefaultTransport),
		libp2p.DisableRelay(),
		libp2p.ResourceManager(resources),
	)
	must(err)
	return made
}

func main() {
	listen := flag.String("listen", anyPort, "where to listen")
	connect := flag.String("connect", "", "multiaddrs to dial, separated by commas")
	count := flag.Bool("count", false, "print the number of every hundredth message instead of each message")
	router := flag.String("router", "gossipsub", "gossipsub or floodsub")
	unsigned := flag.Bool("unsigned", false, "StrictNoSign, ids by content")
	topics := flag.String("topics", "", "topics to join, separated by commas")
	attacked := flag.Bool("victim", false, "run as the node under attack, with all defaults, in the topic `news`")
	var defaults victim
	flag.DurationVar(&defaults.slowValidator, "slow-validator", 0, "of a victim: join `slow`, with a validator that takes this time")
	var judges judge
	judges.flags()
	var partial partials
	partial.flags()
	flag.BoolVar(&defaults.unread, "unread", false, "of a victim: join `unread`, and never read it")
	flag.Parse()
	ctx := context.Background()
	if *attacked {
		defaults.run(ctx)
	}

	host := newHost(*listen, nil)
	mesh := &meshes{peers: map[string]map[string]bool{}}
	options := []pubsub.Option{
		pubsub.WithEventTracer(mesh),
		pubsub.WithMaxMessageSize(4 << 20),
		pubsub.WithPeerOutboundQueueSize(20000),
		pubsub.WithValidateQueueSize(20000),
		pubsub.WithValidateThrottle(20000),
	}
	if *unsigned {
		options = append(options, pubsub.WithMessageSignaturePolicy(pubsub.StrictNoSign), pubsub.WithMessageIdFn(byContent), pubsub.WithNoAuthor())
	} else {
		options = append(options, pubsub.WithMessageSignaturePolicy(pubsub.StrictSign), pubsub.WithMessageIdFn(byAuthor))
	}
	if *router == "gossipsub" {
		options = append(options, judges.options()...)
		options = append(options, partial.options()...)
	}
	var ps *pubsub.PubSub
	var err error
	if *router == "floodsub" {
		ps, err = pubsub.NewFloodSub(ctx, host, options...)
	} else {
		ps, err = pubsub.NewGossipSub(ctx, host, options...)
	}
	must(err)
	judges.validate(ps)
	partial.pubsub = ps

	joined := map[string]*pubsub.Topic{}
	received := 0
	subscriptions := map[string]*pubsub.Subscription{}
	join := func(name string) {
		topic, ok := joined[name]
		if !ok {
			topic, err = ps.Join(name, partial.topicOptions(name)...)
			must(err)
			joined[name] = topic
		}
		subscription, err := topic.Subscribe(pubsub.WithBufferSize(20000))
		must(err)
		subscriptions[name] = subscription
		go func() {
			for {
				message, err := subscription.Next(ctx)
				if err != nil {
					return
				}
				if message.ReceivedFrom == host.ID() {
					continue
				}
				received++
				if *count {
					if received%100 == 0 {
						say(map[string]any{"event": "count", "count": received})
					}
					continue
				}
				digest := sha256.Sum256(message.Data)
				say(map[string]any{"event": "message", "topic": name, "size": len(message.Data),
					"sha256": hex.EncodeToString(digest[:]), "from": message.GetFrom().String()})
			}
		}()
	}
	for _, name := range strings.Split(*topics, ",") {
		if name != "" {
			join(name)
		}
	}
	say(map[string]any{"event": "listening", "address": fmt.Sprintf("%s/p2p/%s", host.Addrs()[0], host.ID())})
	dial := func(address string) {
		info, err := peer.AddrInfoFromString(address)
		must(err)
		must(host.Connect(ctx, *info))
	}
	for _, address := range strings.Split(*connect, ",") {
		if address != "" {
			dial(address)
		}
	}
	go func() {
		before := ""
		for {
			time.Sleep(50 * time.Millisecond)
			counts := map[string]int{}
			names.Lock()
			for name, topic := range joined {
				counts[name] = len(topic.ListPeers())
			}
			names.Unlock()
			sizes := mesh.sizes()
			now := fmt.Sprint(counts, sizes)
			if now != before {
				before = now
				say(map[string]any{"event": "peers", "topics": counts, "mesh": sizes})
			}
		}
	}()

	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.SplitN(lines.Text(), " ", 4)
		names.Lock()
		switch words[0] {
		case "publish":
			size, _ := strconv.Atoi(words[2])
			count, _ := strconv.Atoi(words[3])
			for i := 0; i < count; i++ {
				data := make([]byte, size)
				copy(data, fmt.Sprintf("%d %d %s go", i, time.Now().UnixNano(), host.ID()))
				must(joined[words[1]].Publish(ctx, data))
			}
		case "say":
			must(joined[words[1]].Publish(ctx, []byte(strings.Join(words[2:], " "))))
		case "leave":
			subscriptions[words[1]].Cancel()
		case "join":
			join(words[1])
		case "connect":
			dial(words[1])
		case "parts":
			partial.own(words[1:])
		}
		names.Unlock()
	}
	host.Close()
}
