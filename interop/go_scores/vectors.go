// Runs vectors of scores (docs/reference/vectors.md) on go's scorer, in a copy of go-libp2p-pubsub, like driver.go.
// Parameters are read into go's structs, which have the same names. Go's scorer gets addresses from a host's
// connections.
package pubsub

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"sort"
	"strings"
	"time"

	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
)

type vectorFile struct {
	Kind      string   `json:"kind"`
	Tolerance float64  `json:"tolerance"`
	Vectors   []vector `json:"vectors"`
}

type vector struct {
	Name       string           `json:"name"`
	Parameters vectorParameters `json:"parameters"`
	Peers      []string         `json:"peers"`
	Steps      []vectorStep     `json:"steps"`
}

type vectorParameters struct {
	PeerScoreParams
	IPColocationFactorWhitelist []string
}

type vectorStep struct {
	At         int64                             `json:"at"`
	Event      string                            `json:"event"`
	Peer       string                            `json:"peer"`
	Topic      string                            `json:"topic"`
	Message    string                            `json:"message"`
	Reason     string                            `json:"reason"`
	Count      int                               `json:"count"`
	Score      float64                           `json:"score"`
	Addresses  []string                          `json:"addresses"`
	Parameters *TopicScoreParams                 `json:"parameters"`
	Expect     map[string]vectorWorth            `json:"expect"`
	Differs    map[string]map[string]vectorWorth `json:"differs"`
}

type vectorWorth struct {
	Score float64      `json:"score"`
	Parts *vectorParts `json:"parts"`
}

type vectorParts struct {
	P5, P6, P7 float64
	Topics     map[string]map[string]float64 `json:"topics"`
}

var vectorReasons = map[string]string{
	"invalid_signature":    RejectInvalidSignature,
	"self_origin":          RejectSelfOrigin,
	"validation_failed":    RejectValidationFailed,
	"validation_ignored":   RejectValidationIgnored,
	"validation_throttled": RejectValidationThrottled,
	"queue_full":           RejectValidationQueueFull,
}

// vectorHost is a host that only has connections.
type vectorHost struct {
	host.Host
	network vectorNetwork
}

func (h *vectorHost) Network() network.Network { return h.network }

type vectorNetwork struct {
	network.Network
	connections map[peer.ID][]network.Conn
}

func (n vectorNetwork) ConnsToPeer(id peer.ID) []network.Conn { return n.connections[id] }

type vectorConnection struct {
	network.Conn
	remote ma.Multiaddr
}

func (c vectorConnection) RemoteMultiaddr() ma.Multiaddr { return c.remote }
func (c vectorConnection) Stat() network.ConnStats       { return network.ConnStats{} }

func vectorConnections(addresses []string) []network.Conn {
	var made []network.Conn
	for _, address := range addresses {
		protocol := "ip4"
		if strings.Contains(address, ":") {
			protocol = "ip6"
		}
		made = append(made, vectorConnection{remote: ma.StringCast("/" + protocol + "/" + address + "/tcp/1")})
	}
	return made
}

// inMicroseconds corrects times, which are microseconds in vectors, but were read as nanoseconds.
func (topic *TopicScoreParams) inMicroseconds() *TopicScoreParams {
	topic.TimeInMeshQuantum *= time.Microsecond
	topic.MeshMessageDeliveriesWindow *= time.Microsecond
	topic.MeshMessageDeliveriesActivation *= time.Microsecond
	return topic
}

func (given *vectorParameters) params(application map[peer.ID]float64) *PeerScoreParams {
	params := &given.PeerScoreParams
	params.DecayInterval *= time.Microsecond
	params.RetainScore *= time.Microsecond
	params.SeenMsgTTL *= time.Microsecond
	for _, text := range given.IPColocationFactorWhitelist {
		_, allowed, err := net.ParseCIDR(text)
		if err != nil {
			panic(err)
		}
		params.IPColocationFactorWhitelist = append(params.IPColocationFactorWhitelist, allowed)
	}
	if params.Topics == nil {
		params.Topics = make(map[string]*TopicScoreParams)
	}
	for _, topic := range params.Topics {
		topic.inMicroseconds()
	}
	params.AppSpecificScore = func(id peer.ID) float64 { return application[id] }
	return params
}

type vectorRun struct {
	ps          *peerScore
	host        *vectorHost
	application map[peer.ID]float64
}

func newVectorRun(given *vectorParameters) *vectorRun {
	run := &vectorRun{application: make(map[peer.ID]float64)}
	run.host = &vectorHost{network: vectorNetwork{connections: make(map[peer.ID][]network.Conn)}}
	run.ps = newPeerScore(given.params(run.application), slog.Default())
	run.ps.host = run.host
	return run
}

func (run *vectorRun) perform(step vectorStep) {
	ps, id := run.ps, peer.ID(step.Peer)
	msg := &Message{Message: &pb.Message{Topic: &step.Topic}, ID: step.Message, ReceivedFrom: id}
	if ps.both(step.Event, id, msg, vectorReasons[step.Reason]) {
		return
	}
	switch step.Event {
	case "connect":
		run.host.network.connections[id] = vectorConnections(step.Addresses)
		ps.OnNewOutboundStream(id, GossipSubID_v11)
	case "addresses":
		run.host.network.connections[id] = vectorConnections(step.Addresses)
		ps.refreshIPs()
	case "deliver_own":
		ps.DeliverMessage(msg)
	case "behaviour_penalty":
		ps.AddPenalty(id, step.Count)
	case "application_score":
		run.application[id] = step.Score
	case "topic_parameters":
		if err := ps.SetTopicScoreParams(step.Topic, step.Parameters.inMicroseconds()); err != nil {
			panic(err)
		}
	default:
		panic("no such event: " + step.Event)
	}
}

// worth returns a part of go's score of a peer: the score with all weights 0 except those that keep sets.
func (run *vectorRun) worth(id peer.ID, keep func(*PeerScoreParams)) float64 {
	own := run.ps.params
	alone := &PeerScoreParams{
		Topics:                      make(map[string]*TopicScoreParams),
		AppSpecificScore:            own.AppSpecificScore,
		IPColocationFactorThreshold: own.IPColocationFactorThreshold,
		IPColocationFactorWhitelist: own.IPColocationFactorWhitelist,
		BehaviourPenaltyThreshold:   own.BehaviourPenaltyThreshold,
	}
	keep(alone)
	run.ps.params = alone
	defer func() { run.ps.params = own }()
	return run.ps.Score(id)
}

func (run *vectorRun) parts(id peer.ID) map[string]float64 {
	own := run.ps.params
	found := map[string]float64{
		"P5": run.worth(id, func(alone *PeerScoreParams) { alone.AppSpecificWeight = own.AppSpecificWeight }),
		"P6": run.worth(id, func(alone *PeerScoreParams) { alone.IPColocationFactorWeight = own.IPColocationFactorWeight }),
		"P7": run.worth(id, func(alone *PeerScoreParams) { alone.BehaviourPenaltyWeight = own.BehaviourPenaltyWeight }),
	}
	for name, topic := range own.Topics {
		for part, keep := range map[string]func(*TopicScoreParams){
			"P1":  func(alone *TopicScoreParams) { alone.TimeInMeshWeight = topic.TimeInMeshWeight },
			"P2":  func(alone *TopicScoreParams) { alone.FirstMessageDeliveriesWeight = topic.FirstMessageDeliveriesWeight },
			"P3":  func(alone *TopicScoreParams) { alone.MeshMessageDeliveriesWeight = topic.MeshMessageDeliveriesWeight },
			"P3b": func(alone *TopicScoreParams) { alone.MeshFailurePenaltyWeight = topic.MeshFailurePenaltyWeight },
			"P4":  func(alone *TopicScoreParams) { alone.InvalidMessageDeliveriesWeight = topic.InvalidMessageDeliveriesWeight },
		} {
			only := &TopicScoreParams{
				TopicWeight:                    1,
				TimeInMeshQuantum:              topic.TimeInMeshQuantum,
				TimeInMeshCap:                  topic.TimeInMeshCap,
				MeshMessageDeliveriesThreshold: topic.MeshMessageDeliveriesThreshold,
			}
			keep(only)
			found["topics."+name+"."+part] = run.worth(id, func(alone *PeerScoreParams) { alone.Topics[name] = only })
		}
	}
	return found
}

func (parts *vectorParts) flat() map[string]float64 {
	made := map[string]float64{"P5": parts.P5, "P6": parts.P6, "P7": parts.P7}
	for topic, named := range parts.Topics {
		for part, worth := range named {
			made["topics."+topic+"."+part] = worth
		}
	}
	return made
}

// fault returns the first unexpected value of a peer's score or its parts, or an empty text.
func (run *vectorRun) fault(id string, expected vectorWorth, tolerance float64) string {
	if found := run.ps.Score(peer.ID(id)); !areClose(found, expected.Score, tolerance) {
		return fmt.Sprintf("the score of %s is %.12g, not %.12g", id, found, expected.Score)
	}
	if expected.Parts == nil {
		return ""
	}
	found, wanted := run.parts(peer.ID(id)), expected.Parts.flat()
	var names []string
	for name := range found {
		names = append(names, name)
	}
	for name := range wanted {
		if _, known := found[name]; !known {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	for _, name := range names {
		if !areClose(found[name], wanted[name], tolerance) {
			return fmt.Sprintf("%s of %s is %.12g, not %.12g", name, id, found[name], wanted[name])
		}
	}
	return ""
}

func (each *vector) fault(tolerance float64) string {
	run := newVectorRun(&each.Parameters)
	expected := make(map[string]vectorWorth)
	for _, id := range each.Peers {
		expected[id] = vectorWorth{}
	}
	for number, step := range each.Steps {
		drivenUs = step.At
		run.perform(step)
		for _, now := range []map[string]vectorWorth{step.Expect, step.Differs["go"]} {
			for id, worth := range now {
				expected[id] = worth
			}
		}
		for _, id := range each.Peers {
			if fault := run.fault(id, expected[id], tolerance); fault != "" {
				return fmt.Sprintf("step %d, %s at %d us: %s", number, step.Event, step.At, fault)
			}
		}
	}
	return ""
}

func areClose(found, wanted, tolerance float64) bool {
	return math.Abs(found-wanted) <= tolerance*math.Max(1, math.Abs(wanted))
}

// RunVectors runs files of vectors, prints each result, and returns whether all vectors hold.
func RunVectors(paths []string) bool {
	held := true
	for _, path := range paths {
		var file vectorFile
		text, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(text, &file)
		}
		if err != nil || file.Kind != "score" {
			fmt.Fprintln(os.Stderr, path, "is not a file of score vectors", err)
			os.Exit(2)
		}
		for place := range file.Vectors {
			each := &file.Vectors[place]
			if fault := each.fault(file.Tolerance); fault == "" {
				fmt.Printf("ok    %s: %s\n", path, each.Name)
			} else {
				held = false
				fmt.Printf("FAIL  %s: %s: %s\n", path, each.Name, fault)
			}
		}
	}
	return held
}
