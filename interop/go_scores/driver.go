// Drives go's peer scores call by call. timed_copy.py adds this file to a copy of go-libp2p-pubsub, and lets score.go
// get the time here. A line of input has the parameters of a script, or a call. A line of output has the scores of all
// peers after a call.
package pubsub

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"time"

	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/peer"
)

var drivenUs int64

func drivenNow() time.Time {
	return time.Unix(1_700_000_000, 0).Add(time.Duration(drivenUs) * time.Microsecond)
}

func drivenSince(then time.Time) time.Duration { return drivenNow().Sub(then) }

type drivenPeer struct {
	TopicCap               float64 `json:"topic_cap"`
	ApplicationWeight      float64 `json:"application_weight"`
	SharedAddressWeight    float64 `json:"shared_address_weight"`
	SharedAddressThreshold int     `json:"shared_address_threshold"`
	MisbehaviourWeight     float64 `json:"misbehaviour_weight"`
	MisbehaviourThreshold  float64 `json:"misbehaviour_threshold"`
	MisbehaviourDecay      float64 `json:"misbehaviour_decay"`
	DecayToZero            float64 `json:"decay_to_zero"`
	RetainMs               int64   `json:"retain_ms"`
	DeliveryTtlMs          int64   `json:"delivery_ttl_ms"`
}

type drivenTopic struct {
	Weight           float64 `json:"weight"`
	TimeInMeshWeight float64 `json:"time_in_mesh_weight"`
	Quantum          int64   `json:"quantum"`
	TimeInMeshCap    float64 `json:"time_in_mesh_cap"`
	FirstWeight      float64 `json:"first_weight"`
	FirstDecay       float64 `json:"first_decay"`
	FirstCap         float64 `json:"first_cap"`
	MeshWeight       float64 `json:"mesh_weight"`
	MeshDecay        float64 `json:"mesh_decay"`
	MeshCap          float64 `json:"mesh_cap"`
	MeshThreshold    float64 `json:"mesh_threshold"`
	Window           int64   `json:"window"`
	Activation       int64   `json:"activation"`
	FailureWeight    float64 `json:"failure_weight"`
	FailureDecay     float64 `json:"failure_decay"`
	InvalidWeight    float64 `json:"invalid_weight"`
	InvalidDecay     float64 `json:"invalid_decay"`
}

type drivenCall struct {
	Call      string                 `json:"call"`
	Now       int64                  `json:"now"`
	Peer      string                 `json:"peer"`
	Topic     string                 `json:"topic"`
	Message   string                 `json:"message"`
	Reason    string                 `json:"reason"`
	Value     float64                `json:"value"`
	Addresses []string               `json:"addresses"`
	Peers     []string               `json:"peers"`
	Own       drivenPeer             `json:"parameters"`
	Topics    map[string]drivenTopic `json:"topics"`
}

func microseconds(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

func (own drivenPeer) params(topics map[string]drivenTopic, application func(peer.ID) float64) *PeerScoreParams {
	scored := make(map[string]*TopicScoreParams)
	for name, topic := range topics {
		scored[name] = topic.params()
	}
	return &PeerScoreParams{
		Topics:                      scored,
		TopicScoreCap:               own.TopicCap,
		AppSpecificScore:            application,
		AppSpecificWeight:           own.ApplicationWeight,
		IPColocationFactorWeight:    own.SharedAddressWeight,
		IPColocationFactorThreshold: own.SharedAddressThreshold,
		BehaviourPenaltyWeight:      own.MisbehaviourWeight,
		BehaviourPenaltyThreshold:   own.MisbehaviourThreshold,
		BehaviourPenaltyDecay:       own.MisbehaviourDecay,
		DecayInterval:               time.Second,
		DecayToZero:                 own.DecayToZero,
		RetainScore:                 microseconds(1000 * own.RetainMs),
		SeenMsgTTL:                  microseconds(1000 * own.DeliveryTtlMs),
	}
}

func (topic drivenTopic) params() *TopicScoreParams {
	return &TopicScoreParams{
		TopicWeight:                     topic.Weight,
		TimeInMeshWeight:                topic.TimeInMeshWeight,
		TimeInMeshQuantum:               microseconds(topic.Quantum),
		TimeInMeshCap:                   topic.TimeInMeshCap,
		FirstMessageDeliveriesWeight:    topic.FirstWeight,
		FirstMessageDeliveriesDecay:     topic.FirstDecay,
		FirstMessageDeliveriesCap:       topic.FirstCap,
		MeshMessageDeliveriesWeight:     topic.MeshWeight,
		MeshMessageDeliveriesDecay:      topic.MeshDecay,
		MeshMessageDeliveriesCap:        topic.MeshCap,
		MeshMessageDeliveriesThreshold:  topic.MeshThreshold,
		MeshMessageDeliveriesWindow:     microseconds(topic.Window),
		MeshMessageDeliveriesActivation: microseconds(topic.Activation),
		MeshFailurePenaltyWeight:        topic.FailureWeight,
		MeshFailurePenaltyDecay:         topic.FailureDecay,
		InvalidMessageDeliveriesWeight:  topic.InvalidWeight,
		InvalidMessageDeliveriesDecay:   topic.InvalidDecay,
	}
}

var drivenReasons = map[string]string{
	"BAD_SIGNATURE": RejectInvalidSignature,
	"SELF_ORIGIN":   RejectSelfOrigin,
	"REJECTED":      RejectValidationFailed,
	"IGNORED":       RejectValidationIgnored,
	"THROTTLED":     RejectValidationThrottled,
	"QUEUE_FULL":    RejectValidationQueueFull,
}

// connect has the effect of OnNewOutboundStream on the peer's record, with given addresses.
func (ps *peerScore) connect(id peer.ID, addresses []string) {
	stats, known := ps.peerStats[id]
	if !known {
		stats = &peerStats{topics: make(map[string]*topicStats)}
		ps.peerStats[id] = stats
	}
	stats.connected = true
	ps.setIPs(id, addresses, stats.ips)
	stats.ips = addresses
}

// both performs an event that has the same name in recorded calls and in vectors. It returns false for other names.
func (ps *peerScore) both(name string, id peer.ID, msg *Message, rejection string) bool {
	switch name {
	case "disconnect":
		if stats, known := ps.peerStats[id]; known && stats.connected {
			ps.OnClosedOutboundStream(id)
		}
	case "graft":
		ps.Graft(id, msg.GetTopic())
	case "prune":
		ps.Prune(id, msg.GetTopic())
	case "validate":
		ps.ValidateMessage(msg)
	case "deliver":
		ps.DeliverMessage(msg)
	case "duplicate":
		ps.DuplicateMessage(msg)
	case "reject":
		ps.RejectMessage(msg, rejection)
	case "refresh":
		ps.refreshScores()
		ps.gcDeliveryRecords()
	default:
		return false
	}
	return true
}

func (ps *peerScore) driven(call drivenCall, application map[peer.ID]float64) {
	id := peer.ID(call.Peer)
	msg := &Message{Message: &pb.Message{Topic: &call.Topic}, ID: call.Message, ReceivedFrom: id}
	if ps.both(call.Call, id, msg, drivenReasons[call.Reason]) {
		return
	}
	switch call.Call {
	case "connect":
		ps.connect(id, call.Addresses)
	case "penalise":
		ps.AddPenalty(id, int(call.Value))
	case "set_application_score":
		application[id] = call.Value
	default:
		panic(call.Call)
	}
}

// Drive performs the calls of the input, and prints the scores of all peers after each.
func Drive() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	answers := json.NewEncoder(os.Stdout)
	var ps *peerScore
	var peers []string
	var application map[peer.ID]float64
	for lines.Scan() {
		var call drivenCall
		if err := json.Unmarshal(lines.Bytes(), &call); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		drivenUs = call.Now
		if call.Peers != nil {
			peers, application = call.Peers, make(map[peer.ID]float64)
			own := application
			ps = newPeerScore(call.Own.params(call.Topics, func(id peer.ID) float64 { return own[id] }), slog.Default())
			continue
		}
		ps.driven(call, application)
		scores := make([]float64, len(peers))
		for place, id := range peers {
			scores[place] = ps.Score(peer.ID(id))
		}
		_ = answers.Encode(scores)
	}
}
