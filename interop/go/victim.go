// The node that bench/attacks.py attacks: gossipsub with the defaults of its libraries.
package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p"
	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/peer"
	rcmgr "github.com/libp2p/go-libp2p/p2p/host/resource-manager"
)

type victim struct {
	slowValidator time.Duration
	unread        bool
}

// run prints each second the number of delivered messages and the members of the mesh of `news`, for ever.
//
// The resource manager has its default limits, but they also hold for connections of loopback addresses, which all
// attackers have here. By default these addresses are exempt.
func (v victim) run(ctx context.Context) {
	limits := rcmgr.DefaultLimits
	libp2p.SetDefaultServiceLimits(&limits)
	resources, err := rcmgr.NewResourceManager(
		rcmgr.NewFixedLimiter(limits.AutoScale()),
		rcmgr.WithNetworkPrefixLimit([]rcmgr.NetworkPrefixLimit{}, nil),
	)
	must(err)
	host := newHost(anyPort, resources)
	mesh := &meshes{peers: map[string]map[string]bool{}}
	ps, err := pubsub.NewGossipSub(ctx, host, pubsub.WithEventTracer(mesh))
	must(err)
	counts := &received{counts: map[string]int{}, seen: map[string]bool{}}
	counts.follow(ctx, ps, "news")
	if v.slowValidator > 0 {
		must(ps.RegisterTopicValidator("slow", func(context.Context, peer.ID, *pubsub.Message) bool {
			time.Sleep(v.slowValidator)
			return true
		}))
		counts.follow(ctx, ps, "slow")
	}
	if v.unread {
		topic, err := ps.Join("unread")
		must(err)
		_, err = topic.Subscribe()
		must(err)
	}
	say(map[string]any{"event": "listening", "address": fmt.Sprintf("%s/p2p/%s", host.Addrs()[0], host.ID())})
	for {
		time.Sleep(time.Second)
		event := map[string]any{"event": "report", "mesh": mesh.members("news")}
		counts.Lock()
		for name, count := range counts.counts {
			event[name] = count
		}
		counts.Unlock()
		say(event)
	}
}

func (m *meshes) members(topic string) []string {
	m.Lock()
	defer m.Unlock()
	members := []string{}
	for member := range m.peers[topic] {
		members = append(members, hex.EncodeToString([]byte(member)))
	}
	return members
}

// received counts the messages that are delivered to the application: all, forged, and repeated.
type received struct {
	sync.Mutex
	counts map[string]int
	seen   map[string]bool
}

func (r *received) follow(ctx context.Context, ps *pubsub.PubSub, name string) {
	topic, err := ps.Join(name)
	must(err)
	subscription, err := topic.Subscribe()
	must(err)
	go func() {
		for {
			message, err := subscription.Next(ctx)
			if err != nil {
				return
			}
			r.Lock()
			r.counts["delivered"]++
			r.counts["delivered in "+name]++
			if bytes.HasPrefix(message.Data, []byte("forged")) {
				r.counts["forged"]++
			}
			if len(message.Data) < 1024 {
				key := string(message.From) + string(message.Data)
				if r.seen[key] {
					r.counts["again"]++
				}
				r.seen[key] = true
			}
			r.Unlock()
		}
	}()
}
