//! A small gossipsub peer for the interoperability tests, on rust-libp2p. ../../README.md describes input and output.

mod partials;

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::StreamExt;
use libp2p::gossipsub::{self, IdentTopic, MessageAuthenticity, MessageId, PublishError, ValidationMode};
use libp2p::swarm::{NetworkBehaviour, SwarmEvent};
use libp2p::{identify, identity, noise, tcp, yamux, Multiaddr, Swarm, SwarmBuilder};
use serde_json::{json, Value};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncBufReadExt, BufReader};

use partials::Partials;

const MAX_BYTES: usize = 4 << 20;

#[derive(NetworkBehaviour)]
struct Behaviour {
    gossipsub: gossipsub::Behaviour,
    identify: identify::Behaviour,
}

fn say(event: Value) {
    println!("{event}");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn by_author(message: &gossipsub::Message) -> MessageId {
    let mut id = message.source.map(|peer| peer.to_bytes()).unwrap_or_default();
    id.extend(message.sequence_number.unwrap_or_default().to_be_bytes());
    MessageId::from(id)
}

fn by_content(message: &gossipsub::Message) -> MessageId {
    MessageId::from(Sha256::digest(&message.data).to_vec())
}

struct Flags {
    connect: Vec<String>,
    topics: Vec<String>,
    unsigned: bool,
    count: bool,
    /// Topics in which partial messages are requested.
    partial: Vec<String>,
    /// Topics in which parts are sent, but not requested.
    supports_partial: Vec<String>,
}

fn flags() -> Flags {
    let mut flags = Flags {
        connect: vec![],
        topics: vec![],
        unsigned: false,
        count: false,
        partial: vec![],
        supports_partial: vec![],
    };
    let list = |text: String| text.split(',').filter(|part| !part.is_empty()).map(String::from).collect();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--connect" => flags.connect = list(words.next().expect("an address")),
            "--topics" => flags.topics = list(words.next().expect("topics")),
            "--unsigned" => flags.unsigned = true,
            "--count" => flags.count = true,
            "--partial" => flags.partial = list(words.next().expect("topics")),
            "--supports-partial" => flags.supports_partial = list(words.next().expect("topics")),
            _ => panic!("unknown flag {word}"),
        }
    }
    flags
}

fn swarm(unsigned: bool) -> Result<Swarm<Behaviour>, Box<dyn Error>> {
    let key = identity::Keypair::generate_ed25519();
    let config = gossipsub::ConfigBuilder::default()
        .max_transmit_size(MAX_BYTES)
        .validation_mode(if unsigned { ValidationMode::Anonymous } else { ValidationMode::Strict })
        .message_id_fn(if unsigned { by_content } else { by_author })
        .support_floodsub()
        .flood_publish(false)
        // The router uses this backoff for a peer that unsubscribes, even if the peer's PRUNE has a shorter backoff.
        .prune_backoff(Duration::from_secs(10))
        .connection_handler_queue_len(20_000)
        .build()?;
    let authenticity = if unsigned { MessageAuthenticity::Anonymous } else { MessageAuthenticity::Signed(key.clone()) };
    let behaviour = Behaviour {
        gossipsub: gossipsub::Behaviour::new(authenticity, config)?,
        identify: identify::Behaviour::new(identify::Config::new("/ipfs/0.1.0".into(), key.public())),
    };
    Ok(SwarmBuilder::with_existing_identity(key)
        .with_tokio()
        .with_tcp(tcp::Config::default().nodelay(true), noise::Config::new, yamux::Config::default)?
        .with_behaviour(|_| behaviour)?
        .with_swarm_config(|config| config.with_idle_connection_timeout(Duration::from_secs(600)))
        .build())
}

/// Messages that wait for a subscribed peer, or for room in a queue.
#[derive(Default)]
struct Outbox {
    waiting: std::collections::VecDeque<(String, Vec<u8>)>,
}

impl Outbox {
    fn send(&mut self, swarm: &mut Swarm<Behaviour>) {
        while let Some((topic, data)) = self.waiting.pop_front() {
            match swarm.behaviour_mut().gossipsub.publish(IdentTopic::new(&topic), data.clone()) {
                Ok(_) | Err(PublishError::Duplicate) => {}
                Err(PublishError::NoPeersSubscribedToTopic | PublishError::AllQueuesFull(_)) => {
                    self.waiting.push_front((topic, data));
                    return;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let flags = flags();
    let mut swarm = swarm(flags.unsigned)?;
    let me = *swarm.local_peer_id();
    let mut joined: HashMap<String, IdentTopic> = HashMap::new();
    let mut outbox = Outbox::default();
    let mut received = 0u64;
    let mut partials = Partials::default();
    for (names, requests) in [(&flags.partial, true), (&flags.supports_partial, false)] {
        for name in names {
            let topic = IdentTopic::new(name).hash();
            swarm.behaviour_mut().gossipsub.enable_partials_for_topic(topic, requests);
        }
    }
    for name in &flags.topics {
        let topic = IdentTopic::new(name);
        swarm.behaviour_mut().gossipsub.subscribe(&topic)?;
        joined.insert(name.clone(), topic);
    }
    swarm.listen_on("/ip4/127.0.0.1/tcp/0".parse()?)?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut tick = tokio::time::interval(Duration::from_millis(50));
    let mut before = String::new();
    loop {
        tokio::select! {
            event = swarm.select_next_some() => match event {
                SwarmEvent::NewListenAddr { address, .. } => {
                    say(json!({"event": "listening", "address": format!("{address}/p2p/{me}")}));
                    for address in &flags.connect {
                        swarm.dial(address.parse::<Multiaddr>()?)?;
                    }
                }
                SwarmEvent::Behaviour(BehaviourEvent::Gossipsub(gossipsub::Event::Message { message, .. })) => {
                    received += 1;
                    if !flags.count {
                        let from = message.source.map(|peer| peer.to_string()).unwrap_or_default();
                        let digest = hex(&Sha256::digest(&message.data));
                        say(json!({"event": "message", "topic": message.topic.as_str(), "size": message.data.len(),
                            "sha256": digest, "from": from}));
                    } else if received % 100 == 0 {
                        say(json!({"event": "count", "count": received}));
                    }
                }
                SwarmEvent::Behaviour(BehaviourEvent::Gossipsub(gossipsub::Event::Partial {
                    topic_hash, peer_id, group_id, message, ..
                })) => {
                    let gossipsub = &mut swarm.behaviour_mut().gossipsub;
                    partials.came(gossipsub, &topic_hash, peer_id, &group_id, message.as_deref());
                }
                _ => {}
            },
            _ = tick.tick() => {
                outbox.send(&mut swarm);
                let gossipsub = &swarm.behaviour().gossipsub;
                let counts: BTreeMap<&String, usize> = joined.iter().map(|(name, topic)| {
                    let hash = topic.hash();
                    (name, gossipsub.all_peers().filter(|(_, topics)| topics.contains(&&hash)).count())
                }).collect();
                let mesh: BTreeMap<&String, usize> =
                    joined.iter().map(|(name, topic)| (name, gossipsub.mesh_peers(&topic.hash()).count())).collect();
                let now = json!({"event": "peers", "topics": counts, "mesh": mesh});
                if now.to_string() != before {
                    before = now.to_string();
                    say(now);
                }
            }
            line = lines.next_line() => {
                let Some(line) = line? else { return Ok(()) };
                let words: Vec<&str> = line.splitn(4, ' ').collect();
                match words[0] {
                    "publish" => {
                        let (size, count): (usize, usize) = (words[2].parse()?, words[3].parse()?);
                        for place in 0..count {
                            let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
                            let mut data = format!("{place} {now} {me} rust").into_bytes();
                            data.resize(size, 0);
                            outbox.waiting.push_back((words[1].into(), data));
                        }
                        outbox.send(&mut swarm);
                    }
                    "say" => {
                        outbox.waiting.push_back((words[1].into(), words[2..].join(" ").into_bytes()));
                        outbox.send(&mut swarm);
                    }
                    "parts" => {
                        let (group, parts) = (words[2].parse()?, words[3].parse()?);
                        partials.own(&mut swarm.behaviour_mut().gossipsub, words[1], group, parts);
                    }
                    "join" => {
                        let topic = IdentTopic::new(words[1]);
                        swarm.behaviour_mut().gossipsub.subscribe(&topic)?;
                        joined.insert(words[1].into(), topic);
                    }
                    "leave" => {
                        let topic = joined.remove(words[1]).ok_or("not joined")?;
                        let _ = swarm.behaviour_mut().gossipsub.unsubscribe(&topic);
                    }
                    "connect" => swarm.dial(words[1].parse::<Multiaddr>()?)?,
                    other => panic!("unknown command {other}"),
                }
            }
        }
    }
}
