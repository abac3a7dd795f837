// go-trace makes real traces: ten go-libp2p-pubsub hosts run on loopback, and each writes its trace as JSON and as
// protobuf.
//
//	go run . -out DIR [-hosts 10] [-messages 30]
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"log"
	mrand "math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/libp2p/go-libp2p"
	pubsub "github.com/libp2p/go-libp2p-pubsub"
	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
)

// both passes each event to two tracers.
type both [2]pubsub.EventTracer

func (b both) Trace(event *pb.TraceEvent) {
	for _, tracer := range b {
		tracer.Trace(event)
	}
}

type node struct {
	host   host.Host
	pubsub *pubsub.PubSub
	topics map[string]*pubsub.Topic
	close  func()
}

func newNode(ctx context.Context, number int, out string) (*node, error) {
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		return nil, err
	}
	h, err := libp2p.New(libp2p.Identity(key), libp2p.ListenAddrStrings("/ip4/127.0.0.1/tcp/0"))
	if err != nil {
		return nil, err
	}
	name := filepath.Join(out, fmt.Sprintf("node-%02d", number))
	asJSON, err := pubsub.NewJSONTracer(name + ".json")
	if err != nil {
		return nil, err
	}
	asProtobuf, err := pubsub.NewPBTracer(name + ".pb")
	if err != nil {
		return nil, err
	}
	ps, err := pubsub.NewGossipSub(ctx, h, pubsub.WithEventTracer(both{asJSON, asProtobuf}))
	if err != nil {
		return nil, err
	}
	closeAll := func() {
		h.Close()
		time.Sleep(time.Second)
		asJSON.Close()
		asProtobuf.Close()
	}
	return &node{h, ps, map[string]*pubsub.Topic{}, closeAll}, nil
}

func (n *node) join(ctx context.Context, name string) error {
	topic, err := n.pubsub.Join(name)
	if err != nil {
		return err
	}
	subscription, err := topic.Subscribe()
	if err != nil {
		return err
	}
	n.topics[name] = topic
	go func() {
		for {
			if _, err := subscription.Next(ctx); err != nil {
				return
			}
		}
	}()
	return nil
}

// verdict rejects messages with one value of the lowest four bits and ignores those with another, so that the trace
// has reasons of rejects.
func verdict(_ context.Context, _ peer.ID, message *pubsub.Message) pubsub.ValidationResult {
	switch message.Data[0] % 16 {
	case 7:
		return pubsub.ValidationReject
	case 11:
		return pubsub.ValidationIgnore
	}
	return pubsub.ValidationAccept
}

func run(out string, hosts, messages int) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var nodes []*node
	for number := range hosts {
		n, err := newNode(ctx, number, out)
		if err != nil {
			return err
		}
		nodes = append(nodes, n)
	}
	for number, n := range nodes {
		for _, name := range []string{"news", "prices"} {
			if name == "prices" && number%2 == 1 {
				continue
			}
			// The publisher's own messages are validated too; it must not refuse them.
			if number > 0 {
				if err := n.pubsub.RegisterTopicValidator(name, verdict); err != nil {
					return err
				}
			}
			if err := n.join(ctx, name); err != nil {
				return err
			}
		}
	}
	for number, n := range nodes {
		for step := 1; step <= 3; step++ {
			other := nodes[(number+step)%len(nodes)].host
			if err := n.host.Connect(ctx, peer.AddrInfo{ID: other.ID(), Addrs: other.Addrs()}); err != nil {
				return err
			}
		}
	}
	time.Sleep(3 * time.Second)
	for number := range messages {
		data := make([]byte, 64)
		rand.Read(data)
		name, publisher := "news", nodes[0]
		if number%3 == 1 {
			name, data[0] = "prices", 0
			publisher = nodes[2*mrand.IntN((hosts+1)/2)]
		}
		err := publisher.topics[name].Publish(ctx, data)
		var refused pubsub.ValidationError
		if err != nil && !errors.As(err, &refused) {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(2 * time.Second)
	nodes[hosts-1].close()
	time.Sleep(2 * time.Second)
	for _, n := range nodes[:hosts-1] {
		n.close()
	}
	return nil
}

func main() {
	out := flag.String("out", "", "folder for the traces")
	hosts := flag.Int("hosts", 10, "hosts")
	messages := flag.Int("messages", 30, "messages")
	flag.Parse()
	if *out == "" {
		log.Fatal("go-trace: -out DIR is missing")
	}
	if err := run(*out, *hosts, *messages); err != nil {
		log.Fatalf("go-trace: %v", err)
	}
}
