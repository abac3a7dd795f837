// Options of a peer for the tests of gossipsub 1.1: scores that soon reach the thresholds, a validator, peer exchange.
package main

import (
	"context"
	"flag"
	"strings"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/peer"
)

type judge struct {
	scored       bool
	bootstrapper bool
	slow         time.Duration
	rejected     string
}

func (j *judge) flags() {
	flag.BoolVar(&j.scored, "scored", false, "keep scores, and print them")
	flag.BoolVar(&j.bootstrapper, "bootstrapper", false, "no mesh, but peer exchange with every PRUNE")
	flag.DurationVar(&j.slow, "slow", 0, "time that the validator of `news` takes")
	flag.StringVar(&j.rejected, "rejected", "", "beginning of messages of `news` that are rejected")
}

func (j *judge) options() []pubsub.Option {
	var options []pubsub.Option
	params := pubsub.DefaultGossipSubParams()
	if j.bootstrapper {
		params.D, params.Dlo, params.Dhi, params.Dout, params.Dscore = 0, 0, 0, 0, 0
		options = append(options, pubsub.WithPeerExchange(true))
	}
	if j.scored {
		params.HeartbeatInterval = 200 * time.Millisecond
		params.IWantFollowupTime = 300 * time.Millisecond
		options = append(options, pubsub.WithPeerScore(j.parameters(), &pubsub.PeerScoreThresholds{
			GossipThreshold: -5000, PublishThreshold: -5500, GraylistThreshold: -6000,
		}), pubsub.WithPeerScoreInspect(sayScores, 200*time.Millisecond))
	}
	return append(options, pubsub.WithGossipSubParams(params))
}

func (j *judge) parameters() *pubsub.PeerScoreParams {
	return &pubsub.PeerScoreParams{
		AppSpecificScore:       func(peer.ID) float64 { return 0 },
		DecayInterval:          time.Second,
		DecayToZero:            0.01,
		BehaviourPenaltyWeight: -100,
		BehaviourPenaltyDecay:  0.99,
		Topics: map[string]*pubsub.TopicScoreParams{"news": {
			TopicWeight:                    1,
			TimeInMeshQuantum:              time.Second,
			InvalidMessageDeliveriesWeight: -1000,
			InvalidMessageDeliveriesDecay:  0.99,
			SkipAtomicValidation:           true,
		}},
	}
}

func sayScores(scores map[peer.ID]float64) {
	said := map[string]float64{}
	for id, score := range scores {
		said[id.String()] = score
	}
	say(map[string]any{"event": "scores", "scores": said})
}

func (j *judge) validate(ps *pubsub.PubSub) {
	if j.slow == 0 && j.rejected == "" {
		return
	}
	must(ps.RegisterTopicValidator("news", func(ctx context.Context, from peer.ID, message *pubsub.Message) pubsub.ValidationResult {
		time.Sleep(j.slow)
		if j.rejected != "" && strings.HasPrefix(string(message.Data), j.rejected) {
			say(map[string]any{"event": "rejected"})
			return pubsub.ValidationReject
		}
		return pubsub.ValidationAccept
	}))
}
