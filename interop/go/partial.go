// Partial messages of eight parts of 1,024 bytes, in the format of libp2p's interoperability tests.
//
// A group is a number of 64 bits. Its part i has 128 successive numbers from group + 128*i on. An encoded message has a
// bitmap of one byte, the parts of the bitmap, and the group. Metadata is the bitmap of the parts that the sender has.
// Numbers are big-endian.
package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"iter"
	"log/slog"
	"strconv"
	"strings"
	"sync"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p-pubsub/partialmessages"
	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/peer"
)

const (
	partCount  = 8
	partBytes  = 1024
	groupBytes = 8
	allParts   = 1<<partCount - 1
)

// counterpart is the state of a peer in a group: has are the parts that it announced, if spoke; told are the parts
// that this node announced to it, if spoken.
type counterpart struct {
	has, told     byte
	spoke, spoken bool
}

// partials exchanges the parts of groups in the topics of the flags -partial and -supports-partial.
type partials struct {
	sync.Mutex
	requested, supported string
	testing              bool
	extension            *partialmessages.PartialMessagesExtension[counterpart]
	pubsub               *pubsub.PubSub
	held                 map[string]map[uint64]byte
}

func (p *partials) flags() {
	flag.StringVar(&p.requested, "partial", "", "topics in which partial messages are requested, separated by commas")
	flag.BoolVar(&p.testing, "test-extension", false, "announce the test extension, and print the sender of each test message")
	flag.StringVar(&p.supported, "supports-partial", "", "topics in which parts are sent, but not requested, separated by commas")
}

func (p *partials) options() []pubsub.Option {
	var options []pubsub.Option
	if p.testing {
		options = append(options, pubsub.WithTestExtension(pubsub.TestExtensionConfig{
			OnReceiveTestExtension: func(from peer.ID) { say(map[string]any{"event": "test", "from": from.String()}) },
		}))
	}
	if p.requested == "" && p.supported == "" {
		return options
	}
	p.held = map[string]map[uint64]byte{}
	p.extension = &partialmessages.PartialMessagesExtension[counterpart]{
		Logger:        slog.Default(),
		OnIncomingRPC: p.incoming,
		OnEmitGossip: func(topic string, group []byte, _ []peer.ID, _ map[peer.ID]counterpart) {
			go p.publish(topic, binary.BigEndian.Uint64(group))
		},
	}
	return append(options, pubsub.WithPartialMessagesExtension(p.extension))
}

func (p *partials) topicOptions(topic string) []pubsub.TopicOpt {
	named := func(topics string) bool { return strings.Contains(","+topics+",", ","+topic+",") }
	switch {
	case named(p.requested):
		return []pubsub.TopicOpt{pubsub.RequestPartialMessages()}
	case named(p.supported):
		return []pubsub.TopicOpt{pubsub.SupportsPartialMessages()}
	}
	return nil
}

// own adds parts of a group as if this node had made them, and announces them to peers: `TOPIC GROUP BITMAP`.
func (p *partials) own(words []string) {
	group, err := strconv.ParseUint(words[1], 10, 64)
	must(err)
	parts, err := strconv.ParseUint(words[2], 10, partCount)
	must(err)
	p.Lock()
	p.add(words[0], group, byte(parts))
	p.Unlock()
	p.publish(words[0], group)
}

// add adds parts, and prints all parts of the group if they are more than before.
func (p *partials) add(topic string, group uint64, parts byte) {
	groups, ok := p.held[topic]
	if !ok {
		groups = map[uint64]byte{}
		p.held[topic] = groups
	}
	before := groups[group]
	groups[group] |= parts
	if now := groups[group]; now != before {
		say(map[string]any{"event": "parts", "topic": topic, "group": group, "parts": int(now)})
	}
}

// incoming handles an RPC of a peer. The router calls it, so it must not call the router in the same goroutine.
func (p *partials) incoming(from peer.ID, states map[peer.ID]counterpart, rpc *pb.PartialMessagesExtension) error {
	topic, id := rpc.GetTopicID(), rpc.GroupID
	if len(id) != groupBytes || len(rpc.PartsMetadata) > 1 {
		return p.refuse(topic, from, "not a group or metadata of eight parts")
	}
	group, state := binary.BigEndian.Uint64(id), states[from]
	if len(rpc.PartsMetadata) > 0 {
		state.spoke = true
		state.has = rpc.PartsMetadata[0]
	}
	if len(rpc.PartialMessage) > 0 {
		parts, err := decode(group, rpc.PartialMessage)
		if err != nil {
			return p.refuse(topic, from, err.Error())
		}
		state.has |= parts
		p.Lock()
		if parts&^p.held[topic][group] != 0 {
			go p.pubsub.PeerFeedback(topic, from, pubsub.PeerFeedbackUsefulMessage)
		}
		p.add(topic, group, parts)
		p.Unlock()
	}
	states[from] = state
	go p.publish(topic, group)
	return nil
}

func (p *partials) refuse(topic string, from peer.ID, why string) error {
	go p.pubsub.PeerFeedback(topic, from, pubsub.PeerFeedbackInvalidMessage)
	say(map[string]any{"event": "refused", "reason": why})
	return errors.New(why)
}

// publish sends peers the parts that they lack, and announces the parts of this node to peers that do not know them.
func (p *partials) publish(topic string, group uint64) {
	id := binary.BigEndian.AppendUint64(nil, group)
	_ = pubsub.PublishPartial(p.pubsub, topic, id, func(
		states map[peer.ID]counterpart, requests func(peer.ID) bool,
	) iter.Seq2[peer.ID, partialmessages.PublishAction] {
		p.Lock()
		parts := p.held[topic][group]
		p.Unlock()
		return func(yield func(peer.ID, partialmessages.PublishAction) bool) {
			for to, state := range states {
				var action partialmessages.PublishAction
				if lacks := parts &^ state.has; lacks != 0 && state.spoke && requests(to) {
					action.EncodedPartialMessage = encode(group, lacks)
					state.has |= lacks
				}
				if !state.spoken || state.told != parts {
					action.EncodedPartsMetadata = []byte{parts}
					state.told, state.spoken = parts, true
				}
				states[to] = state
				if !yield(to, action) {
					return
				}
			}
		}
	})
}

func content(group uint64, index int) []byte {
	part := make([]byte, 0, partBytes)
	for i := range partBytes / 8 {
		part = binary.BigEndian.AppendUint64(part, group+uint64(index*partBytes/8+i))
	}
	return part
}

func encode(group uint64, parts byte) []byte {
	message := []byte{parts}
	for i := range partCount {
		if parts&(1<<i) != 0 {
			message = append(message, content(group, i)...)
		}
	}
	return binary.BigEndian.AppendUint64(message, group)
}

func decode(group uint64, message []byte) (byte, error) {
	if !bytes.Equal(message, encode(group, message[0])) {
		return 0, errors.New("not the parts of this group")
	}
	return message[0], nil
}
