// A host in memory with the methods that go-libp2p-pubsub calls. Each of its peers is a pair of streams.
package pubsub

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/connmgr"
	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/host/eventbus"
	ma "github.com/multiformats/go-multiaddr"
	"google.golang.org/protobuf/proto"

	pb "github.com/libp2p/go-libp2p-pubsub/pb"
)

const scriptedSelf = peer.ID("self")

type scriptedHost struct {
	host.Host
	bus        event.Bus
	identified event.Emitter
	handlers   map[protocol.ID]network.StreamHandler
	mutex      sync.Mutex
	peers      map[peer.ID]*scriptedPeer
	dials      []string
}

// scriptedPeer is a connected peer with its connection. Pubsub opened the stream received, the peer opened sending.
type scriptedPeer struct {
	network.Conn
	id       peer.ID
	protocol protocol.ID
	outbound bool
	remote   ma.Multiaddr
	received *scriptedStream
	sending  *scriptedStream
}

func newScriptedHost() *scriptedHost {
	bus := eventbus.NewBus()
	identified, err := bus.Emitter(new(event.EvtPeerIdentificationCompleted))
	if err != nil {
		panic(err)
	}
	return &scriptedHost{
		bus: bus, identified: identified, handlers: make(map[protocol.ID]network.StreamHandler),
		peers: make(map[peer.ID]*scriptedPeer),
	}
}

func (h *scriptedHost) ID() peer.ID                                              { return scriptedSelf }
func (h *scriptedHost) Addrs() []ma.Multiaddr                                    { return nil }
func (h *scriptedHost) Peerstore() peerstore.Peerstore                           { return scriptedPeerstore{} }
func (h *scriptedHost) Network() network.Network                                 { return scriptedNetwork{host: h} }
func (h *scriptedHost) ConnManager() connmgr.ConnManager                         { return connmgr.NullConnMgr{} }
func (h *scriptedHost) EventBus() event.Bus                                      { return h.bus }
func (h *scriptedHost) SetStreamHandler(id protocol.ID, f network.StreamHandler) { h.handlers[id] = f }

func (h *scriptedHost) Connect(_ context.Context, named peer.AddrInfo) error {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.dials = append(h.dials, string(named.ID))
	return errors.New("not there")
}

func (h *scriptedHost) NewStream(_ context.Context, id peer.ID, _ ...protocol.ID) (network.Stream, error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	p, connected := h.peers[id]
	if !connected {
		return nil, errors.New("not connected")
	}
	return p.received, nil
}

// add connects a peer and opens the streams of both sides.
func (h *scriptedHost) add(id peer.ID, proto protocol.ID, outbound bool, address string) {
	p := &scriptedPeer{id: id, protocol: proto, outbound: outbound, remote: scriptedAddress(address)}
	p.received, p.sending = newScriptedStream(p), newScriptedStream(p)
	h.mutex.Lock()
	h.peers[id] = p
	h.mutex.Unlock()
	err := h.identified.Emit(event.EvtPeerIdentificationCompleted{Peer: id, Protocols: []protocol.ID{proto}})
	if err != nil {
		panic(err)
	}
	go h.handlers[proto](p.sending)
}

func (h *scriptedHost) remove(id peer.ID) {
	h.mutex.Lock()
	p, connected := h.peers[id]
	delete(h.peers, id)
	h.mutex.Unlock()
	if connected {
		p.received.Close()
		p.sending.Close()
	}
}

func (p *scriptedPeer) say(rpc *pb.RPC) {
	body, err := proto.Marshal(rpc)
	if err != nil {
		panic(err)
	}
	p.sending.incoming <- append(binary.AppendUvarint(nil, uint64(len(body))), body...)
}

// heard returns the RPCs that pubsub has written to the peer, and removes them.
func (p *scriptedPeer) heard() []*pb.RPC {
	p.received.mutex.Lock()
	defer p.received.mutex.Unlock()
	var found []*pb.RPC
	rest := p.received.written
	for len(rest) > 0 {
		size, head := binary.Uvarint(rest)
		rpc := new(pb.RPC)
		if err := proto.Unmarshal(rest[head:head+int(size)], rpc); err != nil {
			panic(err)
		}
		found = append(found, rpc)
		rest = rest[head+int(size):]
	}
	p.received.written = nil
	return found
}

func scriptedAddress(address string) ma.Multiaddr {
	if address == "" {
		address = "127.0.0.1"
	}
	kind := "ip4"
	for _, letter := range address {
		if letter == ':' {
			kind = "ip6"
		}
	}
	return ma.StringCast("/" + kind + "/" + address + "/tcp/1")
}

func (p *scriptedPeer) RemotePeer() peer.ID           { return p.id }
func (p *scriptedPeer) RemoteMultiaddr() ma.Multiaddr { return p.remote }
func (p *scriptedPeer) GetStreams() []network.Stream  { return []network.Stream{p.received, p.sending} }
func (p *scriptedPeer) Stat() network.ConnStats {
	direction := network.DirInbound
	if p.outbound {
		direction = network.DirOutbound
	}
	return network.ConnStats{Stats: network.Stats{Direction: direction}}
}

type scriptedStream struct {
	network.Stream
	peer     *scriptedPeer
	incoming chan []byte
	ended    chan struct{}
	once     sync.Once
	rest     []byte
	mutex    sync.Mutex
	written  []byte
}

func newScriptedStream(p *scriptedPeer) *scriptedStream {
	return &scriptedStream{peer: p, incoming: make(chan []byte, 1), ended: make(chan struct{})}
}

func (s *scriptedStream) Conn() network.Conn               { return s.peer }
func (s *scriptedStream) Protocol() protocol.ID            { return s.peer.protocol }
func (s *scriptedStream) SetWriteDeadline(time.Time) error { return nil }
func (s *scriptedStream) Close() error                     { s.once.Do(func() { close(s.ended) }); return nil }
func (s *scriptedStream) Reset() error                     { return s.Close() }

func (s *scriptedStream) Read(into []byte) (int, error) {
	if len(s.rest) == 0 {
		select {
		case s.rest = <-s.incoming:
		case <-s.ended:
			return 0, io.EOF
		}
	}
	count := copy(into, s.rest)
	s.rest = s.rest[count:]
	return count, nil
}

func (s *scriptedStream) Write(data []byte) (int, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.written = append(s.written, data...)
	return len(data), nil
}

type scriptedNetwork struct {
	network.Network
	host *scriptedHost
}

func (n scriptedNetwork) Peers() []peer.ID { return nil }

func (n scriptedNetwork) ConnsToPeer(id peer.ID) []network.Conn {
	n.host.mutex.Lock()
	defer n.host.mutex.Unlock()
	if p, connected := n.host.peers[id]; connected {
		return []network.Conn{p}
	}
	return nil
}

func (n scriptedNetwork) Connectedness(id peer.ID) network.Connectedness {
	if len(n.ConnsToPeer(id)) > 0 {
		return network.Connected
	}
	return network.NotConnected
}

type scriptedPeerstore struct{ peerstore.Peerstore }

func (scriptedPeerstore) AddAddrs(peer.ID, []ma.Multiaddr, time.Duration) {}
func (scriptedPeerstore) Addrs(peer.ID) []ma.Multiaddr                    { return nil }
