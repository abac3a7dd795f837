//! Plays sequences on the behaviour in virtual time: JSON lines in, JSON lines out. This is a child of the behaviour's
//! module, because it reads private fields.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io::{BufRead, Write},
    task::{Context, Poll, Waker},
    time::Duration,
};

use asynchronous_codec::{Decoder, Encoder};
use bytes::BytesMut;
use libp2p_core::{ConnectedPoint, Endpoint, Multiaddr, multihash::Multihash, transport::PortUse};
use libp2p_identity::PeerId;
use libp2p_swarm::{
    ConnectionId, NetworkBehaviour, ToSwarm,
    behaviour::{ConnectionClosed, ConnectionEstablished, FromSwarm},
};
use serde_json::{Map, Value, json};

use super::{Behaviour, Event, MessageAuthenticity};
use crate::{
    ConfigBuilder, IdentTopic, IdentityTransform, MaxCountSubscriptionFilter, MessageAcceptance,
    MessageId, PeerScoreParams, PeerScoreThresholds, TopicHash, TopicScoreParams, ValidationMode,
    handler::HandlerEvent,
    peer_score::PeerScoreState,
    protocol::GossipsubCodec,
    rpc_proto::proto,
    stand_ins::{Delay, set_time},
    subscription_filter::AllowAllSubscriptionFilter,
    types::PeerKind,
};

const LARGEST: usize = 1 << 22;
const OWN: &str = "self";

type Router = Behaviour<IdentityTransform, MaxCountSubscriptionFilter<AllowAllSubscriptionFilter>>;

fn peer_id(name: &str) -> PeerId {
    PeerId::from_multihash(Multihash::wrap(0, name.as_bytes()).expect("a short name"))
        .expect("an identity")
}

fn name_of(peer: &PeerId) -> String {
    String::from_utf8_lossy(peer.as_ref().digest()).into_owned()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(|each| text(each).to_owned()).collect()
}

fn fields(value: &Value) -> Vec<(String, &Value)> {
    value.as_object().into_iter().flatten().map(|(name, each)| (name.clone(), each)).collect()
}

fn micros(value: &Value) -> Duration {
    Duration::from_micros(value.as_u64().unwrap_or_default())
}

fn count(value: &Value) -> usize {
    value.as_u64().unwrap_or_default() as usize
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}

/// Returns the id of a message. This is its name, which is at the beginning of the data.
fn message_id(message: &crate::Message) -> MessageId {
    MessageId::from(message.data.split(|byte| *byte == 0).next().unwrap_or_default())
}

fn codec() -> GossipsubCodec {
    GossipsubCodec::new(LARGEST, ValidationMode::Permissive, HashMap::new(), 5_000, LARGEST)
}

fn router(parameters: &Value) -> Result<Router, String> {
    let mut config = ConfigBuilder::default();
    config
        .mesh_n(count(&parameters["D"]))
        .mesh_n_low(count(&parameters["Dlo"]))
        .mesh_n_high(count(&parameters["Dhi"]))
        .mesh_outbound_min(count(&parameters["Dout"]))
        .history_length(count(&parameters["HistoryLength"]))
        .history_gossip(count(&parameters["HistoryGossip"]))
        .retain_scores(count(&parameters["Dscore"]))
        .gossip_lazy(count(&parameters["Dlazy"]))
        .gossip_factor(number(&parameters["GossipFactor"]))
        .heartbeat_interval(micros(&parameters["HeartbeatInterval"]))
        .fanout_ttl(micros(&parameters["FanoutTTL"]))
        .validation_mode(ValidationMode::Permissive)
        .message_id_fn(message_id)
        .prune_peers(count(&parameters["PrunePeers"]))
        .prune_backoff(micros(&parameters["PruneBackoff"]))
        .unsubscribe_backoff(micros(&parameters["UnsubscribeBackoff"]))
        .flood_publish(parameters["FloodPublish"] == true)
        .graft_flood_threshold(micros(&parameters["GraftFloodThreshold"]))
        .opportunistic_graft_ticks(parameters["OpportunisticGraftTicks"].as_u64().unwrap_or(60))
        .gossip_retransimission(count(&parameters["GossipRetransmission"]) as u32)
        .max_control_messages_sent(count(&parameters["MaxIHaveLength"]))
        .max_ihave_messages_heartbeat(count(&parameters["MaxIHaveMessages"]))
        .iwant_followup_time(micros(&parameters["IWantFollowupTime"]))
        .idontwant_message_size_threshold(count(&parameters["IDontWantMessageThreshold"]))
        .check_explicit_peers_ticks(parameters["DirectConnectTicks"].as_u64().unwrap_or(300));
    if parameters["Validate"] == true {
        config.validate_messages();
    }
    if count(&parameters["PrunePeers"]) > 0 {
        config.do_px();
    }
    let config = config.build().map_err(|error| error.to_string())?;
    let mut router = Router::new(MessageAuthenticity::Author(peer_id(OWN)), config)?;
    router.heartbeat = Delay::new(micros(&parameters["HeartbeatInitialDelay"]));
    if parameters["Score"].is_object() {
        let (peer, thresholds) = score(&parameters["Score"]);
        router.with_peer_score(peer, thresholds)?;
    }
    Ok(router)
}

fn score(given: &Value) -> (PeerScoreParams, PeerScoreThresholds) {
    let topics = fields(&given["Topics"]);
    let peer = PeerScoreParams {
        topics: topics.into_iter().map(|(name, each)| (TopicHash::from_raw(name), topic_score(each))).collect(),
        topic_score_cap: number(&given["TopicScoreCap"]),
        app_specific_weight: number(&given["AppSpecificWeight"]),
        ip_colocation_factor_weight: number(&given["IPColocationFactorWeight"]),
        ip_colocation_factor_threshold: number(&given["IPColocationFactorThreshold"]),
        behaviour_penalty_weight: number(&given["BehaviourPenaltyWeight"]),
        behaviour_penalty_threshold: number(&given["BehaviourPenaltyThreshold"]),
        behaviour_penalty_decay: number(&given["BehaviourPenaltyDecay"]),
        decay_interval: micros(&given["DecayInterval"]),
        decay_to_zero: number(&given["DecayToZero"]),
        retain_score: micros(&given["RetainScore"]),
        ..PeerScoreParams::default()
    };
    let levels = &given["Thresholds"];
    let thresholds = PeerScoreThresholds {
        gossip_threshold: number(&levels["GossipThreshold"]),
        publish_threshold: number(&levels["PublishThreshold"]),
        graylist_threshold: number(&levels["GraylistThreshold"]),
        accept_px_threshold: number(&levels["AcceptPXThreshold"]),
        opportunistic_graft_threshold: number(&levels["OpportunisticGraftThreshold"]),
    };
    (peer, thresholds)
}

fn topic_score(given: &Value) -> TopicScoreParams {
    TopicScoreParams {
        topic_weight: number(&given["TopicWeight"]),
        time_in_mesh_weight: number(&given["TimeInMeshWeight"]),
        time_in_mesh_quantum: micros(&given["TimeInMeshQuantum"]),
        time_in_mesh_cap: number(&given["TimeInMeshCap"]),
        first_message_deliveries_weight: number(&given["FirstMessageDeliveriesWeight"]),
        first_message_deliveries_decay: number(&given["FirstMessageDeliveriesDecay"]),
        first_message_deliveries_cap: number(&given["FirstMessageDeliveriesCap"]),
        mesh_message_deliveries_weight: number(&given["MeshMessageDeliveriesWeight"]),
        mesh_message_deliveries_decay: number(&given["MeshMessageDeliveriesDecay"]),
        mesh_message_deliveries_cap: number(&given["MeshMessageDeliveriesCap"]),
        mesh_message_deliveries_threshold: number(&given["MeshMessageDeliveriesThreshold"]),
        mesh_message_deliveries_window: micros(&given["MeshMessageDeliveriesWindow"]),
        mesh_message_deliveries_activation: micros(&given["MeshMessageDeliveriesActivation"]),
        mesh_failure_penalty_weight: number(&given["MeshFailurePenaltyWeight"]),
        mesh_failure_penalty_decay: number(&given["MeshFailurePenaltyDecay"]),
        invalid_message_deliveries_weight: number(&given["InvalidMessageDeliveriesWeight"]),
        invalid_message_deliveries_decay: number(&given["InvalidMessageDeliveriesDecay"]),
    }
}

/// The content of RPCs that the router has sent to a peer, by kind of part.
#[derive(Default)]
struct Sent {
    lists: BTreeMap<&'static str, BTreeSet<String>>,
    ihave: BTreeMap<String, BTreeSet<String>>,
    prune: BTreeMap<String, Value>,
}

impl Sent {
    fn list(&mut self, kind: &'static str, names: impl IntoIterator<Item = String>) {
        self.lists.entry(kind).or_default().extend(names);
    }

    fn add(&mut self, rpc: proto::Rpc) {
        for change in rpc.subscriptions {
            let kind = if change.subscribe() { "subscribe" } else { "unsubscribe" };
            self.list(kind, [change.topic_id().to_owned()]);
        }
        for message in rpc.publish {
            self.list("messages", [named(message.data().split(|byte| *byte == 0).next().unwrap_or_default())]);
        }
        let control = rpc.control.unwrap_or_default();
        for part in control.ihave {
            self.ihave.entry(part.topic_id().to_owned()).or_default().extend(all_named(&part.message_ids));
        }
        for part in control.iwant {
            self.list("iwant", all_named(&part.message_ids));
        }
        for part in control.idontwant {
            self.list("idontwant", all_named(&part.message_ids));
        }
        for part in control.graft {
            self.list("graft", [part.topic_id().to_owned()]);
        }
        for part in control.prune {
            let mut said = Map::new();
            if let Some(backoff) = part.backoff {
                said.insert("backoff".to_owned(), json!(backoff));
            }
            let mut peers: Vec<_> = part.peers.iter().filter_map(|each| PeerId::from_bytes(each.peer_id()).ok()).collect();
            peers.sort();
            if !peers.is_empty() {
                said.insert("peers".to_owned(), json!(peers.iter().map(name_of).collect::<Vec<_>>()));
            }
            self.prune.insert(part.topic_id().to_owned(), Value::Object(said));
        }
    }

    fn form(self) -> Value {
        let mut form = Map::new();
        for (kind, names) in self.lists {
            form.insert(kind.to_owned(), json!(names));
        }
        if !self.ihave.is_empty() {
            form.insert("ihave".to_owned(), json!(self.ihave));
        }
        if !self.prune.is_empty() {
            form.insert("prune".to_owned(), json!(self.prune));
        }
        Value::Object(form)
    }
}

fn named(id: &[u8]) -> String {
    String::from_utf8_lossy(id).into_owned()
}

fn all_named(ids: &[Vec<u8>]) -> Vec<String> {
    ids.iter().map(|id| named(id)).collect()
}

struct Connection {
    id: ConnectionId,
    point: ConnectedPoint,
}

struct Run<'a> {
    router: Router,
    messages: &'a Value,
    validates: bool,
    connections: BTreeMap<String, Connection>,
    made: usize,
    /// The sender of each message that waits for the application's verdict.
    asked: BTreeMap<String, PeerId>,
    seen_peers: BTreeSet<String>,
    /// The application's scores of peers.
    ratings: BTreeMap<String, f64>,
    topics: BTreeSet<String>,
    delivered: Vec<String>,
    shown: Vec<String>,
    dialled: Vec<String>,
}

impl<'a> Run<'a> {
    fn new(sequence: &'a Value) -> Result<Self, String> {
        set_time(Duration::ZERO);
        let parameters = &sequence["parameters"];
        Ok(Self {
            router: router(parameters)?,
            messages: &sequence["messages"],
            validates: parameters["Validate"] == true,
            connections: BTreeMap::new(),
            made: 0,
            asked: BTreeMap::new(),
            seen_peers: BTreeSet::new(),
            ratings: BTreeMap::new(),
            topics: fields(&sequence["messages"]).iter().map(|(_, own)| text(&own["topic"]).to_owned()).collect(),
            delivered: vec![],
            shown: vec![],
            dialled: vec![],
        })
    }

    fn play(&mut self, step: &Value) -> Value {
        self.let_timers_fire(micros(&step["at"]));
        self.perform(step);
        self.poll();
        self.seen()
    }

    fn let_timers_fire(&mut self, until: Duration) {
        loop {
            let mut due = self.router.heartbeat.end;
            if let PeerScoreState::Active(score) = &self.router.peer_score {
                due = due.min(score.decay_interval.end);
            }
            if due.since_start() > until {
                set_time(until);
                return;
            }
            set_time(due.since_start());
            self.poll();
        }
    }

    fn poll(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        loop {
            match NetworkBehaviour::poll(&mut self.router, &mut context) {
                Poll::Ready(ToSwarm::GenerateEvent(Event::Message { propagation_source, message_id, .. })) => {
                    let name = named(&message_id.0);
                    if self.validates {
                        self.asked.insert(name.clone(), propagation_source);
                        self.shown.push(name);
                    } else {
                        self.delivered.push(name);
                    }
                }
                Poll::Ready(ToSwarm::Dial { opts }) => {
                    // A swarm does not dial connected peers.
                    let named = opts.get_peer_id().as_ref().map(name_of);
                    self.dialled.extend(named.filter(|name| !self.connections.contains_key(name)));
                }
                Poll::Ready(_) => {}
                Poll::Pending if self.router.events.is_empty() => return,
                Poll::Pending => {}
            }
        }
    }

    fn perform(&mut self, step: &Value) {
        let name = text(&step["peer"]);
        let topic = IdentTopic::new(text(&step["topic"]));
        let message = text(&step["message"]);
        match text(&step["event"]) {
            "connect" => self.connect(name, step),
            "disconnect" => self.disconnect(name),
            "join" => {
                self.router.subscribe(&topic).expect("no filter");
                self.topics.insert(text(&step["topic"]).to_owned());
            }
            "leave" => {
                self.router.unsubscribe(&topic);
            }
            "publish" => {
                let own = self.message(message);
                let _ = self.router.publish(TopicHash::from_raw(own.topic.clone()), own.data().to_vec());
                self.deliver(message);
            }
            "verdict" => self.judge(message, text(&step["verdict"])),
            "application_score" => {
                self.ratings.insert(name.to_owned(), number(&step["score"]));
                self.router.set_application_score(&peer_id(name), number(&step["score"]));
            }
            "direct" => self.router.add_explicit_peer(&peer_id(name)),
            "rpc" => self.hear(name, &step["rpc"]),
            _ => {}
        }
    }

    fn connect(&mut self, name: &str, step: &Value) {
        let peer = peer_id(name);
        self.made += 1;
        let id = ConnectionId::new_unchecked(self.made);
        let address: Multiaddr = format!("/ip4/{}/tcp/{}", text(&step["address"]), self.made).parse().expect("an address");
        let local: Multiaddr = "/ip4/10.1.0.1/tcp/1".parse().expect("an address");
        let point = if step["outbound"] == true {
            let _ = self.router.handle_established_outbound_connection(id, peer, &address, Endpoint::Dialer, PortUse::New);
            ConnectedPoint::Dialer { address, role_override: Endpoint::Dialer, port_use: PortUse::New }
        } else {
            let _ = self.router.handle_established_inbound_connection(id, peer, &local, &address);
            ConnectedPoint::Listener { local_addr: local, send_back_addr: address }
        };
        self.router.on_swarm_event(FromSwarm::ConnectionEstablished(ConnectionEstablished {
            peer_id: peer,
            connection_id: id,
            endpoint: &point,
            failed_addresses: &[],
            other_established: 0,
        }));
        let kind = match text(&step["protocol"]) {
            "/meshsub/1.3.0" => PeerKind::Gossipsubv1_3,
            "/meshsub/1.2.0" => PeerKind::Gossipsubv1_2,
            "/meshsub/1.1.0" => PeerKind::Gossipsubv1_1,
            "/meshsub/1.0.0" => PeerKind::Gossipsub,
            _ => PeerKind::Floodsub,
        };
        self.router.on_connection_handler_event(peer, id, HandlerEvent::PeerKind(kind));
        if let Some(rating) = self.ratings.get(name) {
            self.router.set_application_score(&peer, *rating);
        }
        self.connections.insert(name.to_owned(), Connection { id, point });
        self.seen_peers.insert(name.to_owned());
    }

    fn disconnect(&mut self, name: &str) {
        if let Some(Connection { id, point }) = self.connections.remove(name) {
            self.router.on_swarm_event(FromSwarm::ConnectionClosed(ConnectionClosed {
                peer_id: peer_id(name),
                connection_id: id,
                endpoint: &point,
                cause: None,
                remaining_established: 0,
            }));
        }
    }

    fn judge(&mut self, name: &str, verdict: &str) {
        let Some(source) = self.asked.remove(name) else {
            return;
        };
        let acceptance = match verdict {
            "accept" => MessageAcceptance::Accept,
            "reject" => MessageAcceptance::Reject,
            _ => MessageAcceptance::Ignore,
        };
        self.router.report_message_validation_result(&MessageId::from(name), &source, acceptance);
        if verdict == "accept" {
            self.deliver(name);
        }
    }

    /// Notes a delivery to the application, if the topic is still joined.
    fn deliver(&mut self, name: &str) {
        if self.router.mesh.contains_key(&TopicHash::from_raw(text(&self.messages[name]["topic"]))) {
            self.delivered.push(name.to_owned());
        }
    }

    fn hear(&mut self, name: &str, form: &Value) {
        let Some(connection) = self.connections.get(name) else {
            return;
        };
        let mut bytes = BytesMut::new();
        codec().encode(self.rpc(form), &mut bytes).expect("an RPC");
        let event = codec().decode(&mut bytes).expect("what was encoded").expect("an RPC");
        self.router.on_connection_handler_event(peer_id(name), connection.id, event);
    }

    fn message(&self, name: &str) -> proto::Message {
        let own = &self.messages[name];
        let mut data = name.as_bytes().to_vec();
        data.resize(count(&own["size"]), 0);
        proto::Message {
            from: own["from"].as_str().map(|author| peer_id(author).to_bytes()),
            data: Some(data),
            topic: text(&own["topic"]).to_owned(),
            ..Default::default()
        }
    }

    fn rpc(&self, form: &Value) -> proto::Rpc {
        let changes = |kind: &str| {
            texts(&form[kind]).into_iter().map(|topic| proto::SubOpts {
                subscribe: Some(kind == "subscribe"),
                topic_id: Some(topic),
                ..Default::default()
            }).collect::<Vec<_>>()
        };
        let ids = |names: &Value| texts(names).into_iter().map(String::into_bytes).collect::<Vec<_>>();
        let mut control = proto::ControlMessage::default();
        for (topic, names) in fields(&form["ihave"]) {
            control.ihave.push(proto::ControlIHave { topic_id: Some(topic), message_ids: ids(names) });
        }
        if form["iwant"].is_array() {
            control.iwant.push(proto::ControlIWant { message_ids: ids(&form["iwant"]) });
        }
        if form["idontwant"].is_array() {
            control.idontwant.push(proto::ControlIDontWant { message_ids: ids(&form["idontwant"]) });
        }
        for topic in texts(&form["graft"]) {
            control.graft.push(proto::ControlGraft { topic_id: Some(topic) });
        }
        for (topic, said) in fields(&form["prune"]) {
            let peers = texts(&said["peers"]).iter().map(|other| proto::PeerInfo {
                peer_id: Some(peer_id(other).to_bytes()),
                signed_peer_record: None,
            }).collect();
            control.prune.push(proto::ControlPrune { topic_id: Some(topic), peers, backoff: said["backoff"].as_u64() });
        }
        proto::Rpc {
            subscriptions: [changes("subscribe"), changes("unsubscribe")].concat(),
            publish: texts(&form["messages"]).iter().map(|name| self.message(name)).collect(),
            control: Some(control),
            partial: None,
        }
    }

    /// Returns the actions of a step, and the router's state after it.
    fn seen(&mut self) -> Value {
        let mut context = Context::from_waker(Waker::noop());
        let mut rpcs = Map::new();
        for (peer, details) in self.router.connected_peers.iter_mut() {
            let mut sent = Sent::default();
            let mut any = false;
            while let Poll::Ready(rpc) = details.messages.poll_pop(&mut context) {
                sent.add(rpc.into_protobuf());
                any = true;
            }
            if any {
                rpcs.insert(name_of(peer), sent.form());
            }
        }
        let mut backoffs = Map::new();
        for topic in &self.topics {
            let ends: Map<_, _> = self.seen_peers.iter().filter_map(|name| {
                let end = self.router.backoffs.get_backoff_time(&TopicHash::from_raw(topic.clone()), &peer_id(name))?;
                Some((name.clone(), json!(end.since_start().as_micros() as u64)))
            }).collect();
            backoffs.insert(topic.clone(), Value::Object(ends));
        }
        let scores: Map<_, _> = self.connections.keys().filter_map(|name| {
            Some((name.clone(), json!(self.router.peer_score(&peer_id(name))?)))
        }).collect();
        json!({
            "rpcs": rpcs,
            "delivers": taken(&mut self.delivered),
            "validates": taken(&mut self.shown),
            "dials": taken(&mut self.dialled),
            "mesh": by_topic(&self.router.mesh),
            "fanout": by_topic(&self.router.fanout),
            "backoffs": backoffs,
            "scores": scores,
        })
    }
}

fn taken(names: &mut Vec<String>) -> Vec<String> {
    names.sort();
    std::mem::take(names)
}

fn by_topic(peers: &HashMap<TopicHash, BTreeSet<PeerId>>) -> BTreeMap<String, Vec<String>> {
    peers.iter().map(|(topic, peers)| (topic.to_string(), peers.iter().map(name_of).collect())).collect()
}

pub fn main() {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let sequence: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
        let result = match Run::new(&sequence) {
            Ok(mut run) => {
                let steps = sequence["steps"].as_array().into_iter().flatten();
                json!({"name": sequence["name"], "steps": steps.map(|step| run.play(step)).collect::<Vec<_>>()})
            }
            Err(error) => json!({"name": sequence["name"], "steps": [], "error": error}),
        };
        writeln!(out, "{result}").and_then(|()| out.flush()).expect("a reader");
    }
}
