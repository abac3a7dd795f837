// Plays sequences on go's router, each in virtual time. build.py adds these files to a copy of go-libp2p-pubsub that
// replaces random choices by the order of names.
//
//	driver -test.run TestSequences -test.timeout 0    reads a sequence per line, and prints a line with its results
package pubsub

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	pb "github.com/libp2p/go-libp2p-pubsub/pb"
)

type seen struct {
	Rpcs      map[string]*rpcForm         `json:"rpcs"`
	Delivers  []string                    `json:"delivers"`
	Validates []string                    `json:"validates"`
	Dials     []string                    `json:"dials"`
	Mesh      map[string][]string         `json:"mesh"`
	Fanout    map[string][]string         `json:"fanout"`
	Backoffs  map[string]map[string]int64 `json:"backoffs"`
	Scores    map[string]float64          `json:"scores"`
}

type result struct {
	Name  string  `json:"name"`
	Error string  `json:"error,omitempty"`
	Steps []*seen `json:"steps"`
}

func TestSequences(t *testing.T) {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<26)
	answers := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var given sequence
		if err := json.Unmarshal(lines.Bytes(), &given); err != nil {
			t.Fatal(err)
		}
		var found *result
		synctest.Test(t, func(*testing.T) { found = play(&given) })
		if err := answers.Encode(found); err != nil {
			t.Fatal(err)
		}
	}
}

type player struct {
	sequence    *sequence
	host        *scriptedHost
	pubsub      *PubSub
	router      *GossipSubRouter
	began       time.Time
	topics      map[string]*Topic
	joined      map[string]*Subscription
	application map[peer.ID]float64
	mutex       sync.Mutex
	asked       []string
	verdicts    map[string]chan ValidationResult
	delivered   []string
}

func play(given *sequence) *result {
	found := &result{Name: given.Name}
	ctx, cancel := context.WithCancel(context.Background())
	p, err := newPlayer(ctx, given)
	if err != nil {
		found.Error = err.Error()
	} else {
		synctest.Wait()
		for place := range given.Steps {
			step := &given.Steps[place]
			time.Sleep(time.Until(p.began.Add(time.Duration(step.At) * microsecond)))
			p.perform(ctx, step)
			synctest.Wait()
			found.Steps = append(found.Steps, p.look())
		}
		for id := range p.host.peers {
			p.host.remove(id)
		}
	}
	cancel()
	synctest.Wait()
	return found
}

func newPlayer(ctx context.Context, given *sequence) (*player, error) {
	p := &player{
		sequence: given, host: newScriptedHost(), began: time.Now(), topics: make(map[string]*Topic),
		joined: make(map[string]*Subscription), application: make(map[peer.ID]float64),
		verdicts: make(map[string]chan ValidationResult),
	}
	params, err := readParameters(given.Parameters)
	if err != nil {
		return nil, err
	}
	if err := params.GossipSubParams.validate(); err != nil {
		return nil, err
	}
	options := []Option{
		WithMessageSignaturePolicy(LaxNoSign),
		WithMessageIdFn(func(message *pb.Message) string { return messageName(message.Data) }),
		WithGossipSubParams(params.GossipSubParams),
		WithFloodPublish(params.FloodPublish),
		WithPeerExchange(params.PrunePeers > 0),
		WithPeerOutboundQueueSize(1000),
		WithValidateQueueSize(1000),
	}
	if score := params.Score; score != nil {
		score.AppSpecificScore = func(id peer.ID) float64 { return p.application[id] }
		options = append(options, WithPeerScore(&score.PeerScoreParams, &score.Thresholds))
	}
	if p.pubsub, err = NewGossipSub(ctx, p.host, options...); err != nil {
		return nil, err
	}
	p.router = p.pubsub.rt.(*GossipSubRouter)
	if params.Validate {
		for _, own := range given.Messages {
			if err := p.validate(own.Topic); err != nil {
				return nil, err
			}
		}
	}
	return p, nil
}

// validate adds a validator by which messages of a topic wait for a step with the application's verdict.
func (p *player) validate(topic string) error {
	if _, known := p.topics[topic]; known {
		return nil
	}
	p.topic(topic)
	return p.pubsub.RegisterTopicValidator(topic, func(ctx context.Context, from peer.ID, message *Message) ValidationResult {
		if from == scriptedSelf {
			return ValidationAccept
		}
		verdict := make(chan ValidationResult, 1)
		p.mutex.Lock()
		p.asked = append(p.asked, message.ID)
		p.verdicts[message.ID] = verdict
		p.mutex.Unlock()
		select {
		case said := <-verdict:
			return said
		case <-ctx.Done():
			return ValidationIgnore
		}
	})
}

func (p *player) topic(name string) *Topic {
	if p.topics[name] == nil {
		topic, err := p.pubsub.Join(name)
		if err != nil {
			panic(err)
		}
		p.topics[name] = topic
	}
	return p.topics[name]
}

func (p *player) perform(ctx context.Context, step *sequenceStep) {
	id := peer.ID(step.Peer)
	switch step.Event {
	case "connect":
		p.host.add(id, protocol.ID(step.Protocol), step.Outbound, step.Address)
	case "disconnect":
		p.host.remove(id)
	case "join":
		subscription, err := p.topic(step.Topic).Subscribe(WithBufferSize(1000))
		if err != nil {
			panic(err)
		}
		p.joined[step.Topic] = subscription
	case "leave":
		if subscription := p.joined[step.Topic]; subscription != nil {
			p.take(subscription)
			subscription.Cancel()
			delete(p.joined, step.Topic)
		}
	case "publish":
		own := p.sequence.Messages[step.Message]
		if err := p.topic(own.Topic).Publish(ctx, own.data(step.Message)); err != nil {
			panic(err)
		}
	case "rpc":
		if connected := p.host.peers[id]; connected != nil {
			connected.say(step.Rpc.rpc(p.sequence.Messages))
		}
	case "verdict":
		results := map[string]ValidationResult{
			"accept": ValidationAccept, "reject": ValidationReject, "ignore": ValidationIgnore,
		}
		if verdict, waits := p.verdicts[step.Message]; waits {
			delete(p.verdicts, step.Message)
			verdict <- results[step.Verdict]
		}
	case "application_score":
		p.application[id] = step.Score
	case "direct":
		p.pubsub.eval <- func() {
			if step.Direct {
				p.router.AddDirectPeer(peer.AddrInfo{ID: id})
			} else {
				p.router.RemoveDirectPeer(id)
			}
		}
	case "heartbeat":
	default:
		panic(step.Event)
	}
}

func (p *player) take(subscription *Subscription) {
	for {
		select {
		case message, open := <-subscription.ch:
			if !open {
				return
			}
			p.delivered = append(p.delivered, message.ID)
		default:
			return
		}
	}
}

// look returns the actions since the last call, and the router's state. No goroutine of the router runs meanwhile.
func (p *player) look() *seen {
	for _, subscription := range p.joined {
		p.take(subscription)
	}
	now := &seen{
		Rpcs: make(map[string]*rpcForm), Delivers: p.delivered, Validates: p.asked, Dials: p.host.dials,
		Mesh: make(map[string][]string), Fanout: make(map[string][]string),
		Backoffs: make(map[string]map[string]int64), Scores: make(map[string]float64),
	}
	p.delivered, p.asked, p.host.dials = nil, nil, nil
	slices.Sort(now.Delivers)
	slices.Sort(now.Validates)
	slices.Sort(now.Dials)
	for id, each := range p.host.peers {
		if heard := each.heard(); len(heard) > 0 {
			now.Rpcs[string(id)] = formOf(heard)
		}
		if p.router.score != nil {
			now.Scores[string(id)] = p.router.score.Score(id)
		}
	}
	for topic, peers := range p.router.mesh {
		now.Mesh[topic] = names(peers)
	}
	for topic, peers := range p.router.fanout {
		now.Fanout[topic] = names(peers)
	}
	for topic, ends := range p.router.backoff {
		now.Backoffs[topic] = make(map[string]int64)
		for id, end := range ends {
			now.Backoffs[topic][string(id)] = end.Sub(p.began).Microseconds()
		}
	}
	return now
}
