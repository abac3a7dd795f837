// Sequences in the format of docs/reference/vectors.md, and conversions of their parameters and RPCs to go's.
package pubsub

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	pb "github.com/libp2p/go-libp2p-pubsub/pb"
)

type sequence struct {
	Name       string                     `json:"name"`
	Parameters json.RawMessage            `json:"parameters"`
	Messages   map[string]sequenceMessage `json:"messages"`
	Steps      []sequenceStep             `json:"steps"`
}

type sequenceMessage struct {
	Topic string  `json:"topic"`
	Size  int     `json:"size"`
	From  *string `json:"from"`
}

type sequenceStep struct {
	At       int64   `json:"at"`
	Event    string  `json:"event"`
	Peer     string  `json:"peer"`
	Protocol string  `json:"protocol"`
	Outbound bool    `json:"outbound"`
	Address  string  `json:"address"`
	Topic    string  `json:"topic"`
	Message  string  `json:"message"`
	Verdict  string  `json:"verdict"`
	Score    float64 `json:"score"`
	Direct   bool    `json:"direct"`
	Rpc      rpcForm `json:"rpc"`
}

type rpcForm struct {
	Subscribe   []string             `json:"subscribe,omitempty"`
	Unsubscribe []string             `json:"unsubscribe,omitempty"`
	Messages    []string             `json:"messages,omitempty"`
	Ihave       map[string][]string  `json:"ihave,omitempty"`
	Iwant       []string             `json:"iwant,omitempty"`
	Graft       []string             `json:"graft,omitempty"`
	Prune       map[string]pruneForm `json:"prune,omitempty"`
	Idontwant   []string             `json:"idontwant,omitempty"`
	Extensions  []string             `json:"extensions,omitempty"`
}

type pruneForm struct {
	Backoff *uint64  `json:"backoff,omitempty"`
	Peers   []string `json:"peers,omitempty"`
}

// sequenceParameters has times in microseconds. They are read as nanoseconds, and then multiplied by a thousand.
type sequenceParameters struct {
	GossipSubParams
	FloodPublish bool
	PrunePeers   int
	Validate     bool
	Score        *sequenceScore
}

type sequenceScore struct {
	PeerScoreParams
	IPColocationFactorWhitelist []string
	Thresholds                  PeerScoreThresholds
}

const (
	microsecond     = time.Microsecond
	partialMessages = "partial_messages"
)

// readParameters returns parameters for go, with the specification's values for those that a vector lacks.
func readParameters(raw json.RawMessage) (*sequenceParameters, error) {
	params := &sequenceParameters{GossipSubParams: DefaultGossipSubParams(), FloodPublish: true}
	own := &params.GossipSubParams
	own.D, own.Dlo, own.Dhi, own.Dscore, own.Dout, own.Dlazy = 6, 4, 12, 4, 2, 6
	own.HeartbeatInitialDelay = 0
	times := []*time.Duration{
		&own.IWantFollowupTime, &own.HeartbeatInterval, &own.FanoutTTL, &own.PruneBackoff, &own.UnsubscribeBackoff,
		&own.GraftFloodThreshold,
	}
	for _, each := range times {
		*each /= microsecond
	}
	if err := json.Unmarshal(raw, params); err != nil {
		return nil, err
	}
	for _, each := range append(times, &own.HeartbeatInitialDelay) {
		*each *= microsecond
	}
	own.SlowHeartbeatWarning = 0
	if params.PrunePeers > 0 {
		own.PrunePeers = params.PrunePeers
	}
	if params.Score != nil {
		return params, params.Score.finish()
	}
	return params, nil
}

func (score *sequenceScore) finish() error {
	score.SkipAtomicValidation = true
	score.Thresholds.SkipAtomicValidation = true
	for _, each := range []*time.Duration{&score.DecayInterval, &score.RetainScore, &score.SeenMsgTTL} {
		*each *= microsecond
	}
	for _, topic := range score.Topics {
		topic.SkipAtomicValidation = true
		topic.TimeInMeshQuantum *= microsecond
		topic.MeshMessageDeliveriesWindow *= microsecond
		topic.MeshMessageDeliveriesActivation *= microsecond
	}
	for _, text := range score.IPColocationFactorWhitelist {
		_, parsed, err := net.ParseCIDR(text)
		if err != nil {
			return err
		}
		score.PeerScoreParams.IPColocationFactorWhitelist = append(score.PeerScoreParams.IPColocationFactorWhitelist, parsed)
	}
	return nil
}

func messageName(data []byte) string {
	name, _, _ := bytes.Cut(data, []byte{0})
	return string(name)
}

func (own sequenceMessage) data(name string) []byte {
	data := make([]byte, max(own.Size, len(name)))
	copy(data, name)
	return data
}

func (form rpcForm) rpc(messages map[string]sequenceMessage) *pb.RPC {
	rpc := new(pb.RPC)
	yes, no := true, false
	for _, topic := range form.Subscribe {
		rpc.Subscriptions = append(rpc.Subscriptions, &pb.RPC_SubOpts{Topicid: &topic, Subscribe: &yes})
	}
	for _, topic := range form.Unsubscribe {
		rpc.Subscriptions = append(rpc.Subscriptions, &pb.RPC_SubOpts{Topicid: &topic, Subscribe: &no})
	}
	for _, name := range form.Messages {
		own := messages[name]
		message := &pb.Message{Data: own.data(name), Topic: &own.Topic}
		if own.From != nil {
			message.From = []byte(*own.From)
		}
		rpc.Publish = append(rpc.Publish, message)
	}
	control := new(pb.ControlMessage)
	for topic, ids := range form.Ihave {
		control.Ihave = append(control.Ihave, &pb.ControlIHave{TopicID: &topic, MessageIDs: ids})
	}
	if len(form.Iwant) > 0 {
		control.Iwant = []*pb.ControlIWant{{MessageIDs: form.Iwant}}
	}
	for _, topic := range form.Graft {
		control.Graft = append(control.Graft, &pb.ControlGraft{TopicID: &topic})
	}
	for topic, said := range form.Prune {
		prune := &pb.ControlPrune{TopicID: &topic, Backoff: said.Backoff}
		for _, name := range said.Peers {
			prune.Peers = append(prune.Peers, &pb.PeerInfo{PeerID: []byte(name)})
		}
		control.Prune = append(control.Prune, prune)
	}
	if len(form.Idontwant) > 0 {
		control.Idontwant = []*pb.ControlIDontWant{{MessageIDs: form.Idontwant}}
	}
	if form.Extensions != nil {
		partial := slices.Contains(form.Extensions, partialMessages)
		control.Extensions = &pb.ControlExtensions{PartialMessages: &partial}
	}
	if fmt.Sprint(control) != fmt.Sprint(new(pb.ControlMessage)) {
		rpc.Control = control
	}
	return rpc
}

// formOf returns the content of all these RPCs together, with sorted names.
func formOf(rpcs []*pb.RPC) *rpcForm {
	form := &rpcForm{Ihave: make(map[string][]string), Prune: make(map[string]pruneForm)}
	for _, rpc := range rpcs {
		for _, change := range rpc.Subscriptions {
			if change.GetSubscribe() {
				form.Subscribe = append(form.Subscribe, change.GetTopicid())
			} else {
				form.Unsubscribe = append(form.Unsubscribe, change.GetTopicid())
			}
		}
		for _, message := range rpc.Publish {
			form.Messages = append(form.Messages, messageName(message.Data))
		}
		for _, part := range rpc.GetControl().GetIhave() {
			form.Ihave[part.GetTopicID()] = append(form.Ihave[part.GetTopicID()], part.MessageIDs...)
		}
		for _, part := range rpc.GetControl().GetIwant() {
			form.Iwant = append(form.Iwant, part.MessageIDs...)
		}
		for _, part := range rpc.GetControl().GetGraft() {
			form.Graft = append(form.Graft, part.GetTopicID())
		}
		for _, part := range rpc.GetControl().GetPrune() {
			said := pruneForm{Backoff: part.Backoff}
			for _, each := range part.Peers {
				said.Peers = append(said.Peers, string(each.PeerID))
			}
			slices.Sort(said.Peers)
			form.Prune[part.GetTopicID()] = said
		}
		for _, part := range rpc.GetControl().GetIdontwant() {
			form.Idontwant = append(form.Idontwant, part.MessageIDs...)
		}
		if said := rpc.GetControl().GetExtensions(); said != nil {
			form.Extensions = []string{said.String()}
		}
	}
	lists := []*[]string{
		&form.Subscribe, &form.Unsubscribe, &form.Messages, &form.Iwant, &form.Graft, &form.Idontwant,
	}
	for _, list := range lists {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	for topic, ids := range form.Ihave {
		slices.Sort(ids)
		form.Ihave[topic] = slices.Compact(ids)
	}
	return form
}

func names(peers map[peer.ID]struct{}) []string {
	found := make([]string, 0, len(peers))
	for id := range peers {
		found = append(found, string(id))
	}
	slices.Sort(found)
	return found
}
