//! Partial messages of eight parts of 1,024 bytes. ../../go/partial.go describes the format.

use std::collections::HashMap;

use libp2p::gossipsub::{Behaviour, IdentTopic, PublishError, TopicHash};
use libp2p::PeerId;
use libp2p_gossipsub::partial_messages::{Metadata, Partial, PartialAction, PartialError};
use serde_json::json;

use crate::say;

const PART_BYTES: usize = 1024;
const GROUP_BYTES: usize = 8;

/// The parts that a peer has, as a bitmap.
#[derive(Debug)]
struct Parts([u8; 1]);

impl Metadata for Parts {
    fn as_slice(&self) -> &[u8] {
        &self.0
    }

    fn update(&mut self, data: &[u8]) -> Result<bool, PartialError> {
        let before = self.0[0];
        self.0[0] |= bitmap(data)?;
        Ok(self.0[0] != before)
    }

    fn update_from_data(&mut self, data: &[u8]) -> Result<(), PartialError> {
        self.0[0] |= data.first().copied().unwrap_or(0);
        Ok(())
    }
}

/// The parts of a group that this node has, as a bitmap.
struct Held {
    group: u64,
    parts: u8,
}

impl Partial for Held {
    fn group_id(&self) -> Vec<u8> {
        self.group.to_be_bytes().to_vec()
    }

    fn metadata(&self) -> Box<dyn Metadata> {
        Box::new(Parts([self.parts]))
    }

    fn partial_action_from_metadata(&self, _: PeerId, said: Option<&[u8]>) -> Result<PartialAction, PartialError> {
        let Some(said) = said else { return Ok(PartialAction { need: false, send: None }) };
        let has = bitmap(said)?;
        let lacks = self.parts & !has;
        let after: Box<dyn Metadata> = Box::new(Parts([has | lacks]));
        let send = (lacks != 0).then(|| (encode(self.group, lacks), after));
        Ok(PartialAction { need: has & !self.parts != 0, send })
    }
}

/// The parts that this node has, as a bitmap by topic and group.
#[derive(Default)]
pub struct Partials {
    held: HashMap<(String, u64), u8>,
}

impl Partials {
    /// Add parts as if this node had made them, and announce them to peers: `parts TOPIC GROUP BITMAP`.
    pub fn own(&mut self, gossipsub: &mut Behaviour, topic: &str, group: u64, parts: u8) {
        self.add(topic, group, parts);
        self.publish(gossipsub, topic, group);
    }

    pub fn came(
        &mut self, gossipsub: &mut Behaviour, topic: &TopicHash, from: PeerId, group: &[u8], message: Option<&[u8]>,
    ) {
        let decoded = read(group).and_then(|group| Ok((group, message.map_or(Ok(0), |data| decode(group, data))?)));
        match decoded {
            Ok((group, parts)) => self.own(gossipsub, topic.as_str(), group, parts),
            Err(error) => {
                gossipsub.report_invalid_partial(from, topic);
                say(json!({"event": "refused", "reason": error.to_string()}));
            }
        }
    }

    fn add(&mut self, topic: &str, group: u64, parts: u8) {
        let held = self.held.entry((topic.into(), group)).or_default();
        if *held | parts != *held {
            *held |= parts;
            say(json!({"event": "parts", "topic": topic, "group": group, "parts": *held}));
        }
    }

    fn publish(&mut self, gossipsub: &mut Behaviour, topic: &str, group: u64) {
        let parts = self.held[&(topic.to_string(), group)];
        match gossipsub.publish_partial(IdentTopic::new(topic), Held { group, parts }) {
            Ok(()) | Err(PublishError::NoPeersSubscribedToTopic) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn bitmap(data: &[u8]) -> Result<u8, PartialError> {
    if let [parts] = data { Ok(*parts) } else { Err(PartialError::InvalidFormat) }
}

fn read(group: &[u8]) -> Result<u64, PartialError> {
    let bytes: [u8; GROUP_BYTES] = group.try_into().map_err(|_| PartialError::InvalidFormat)?;
    Ok(u64::from_be_bytes(bytes))
}

fn encode(group: u64, parts: u8) -> Vec<u8> {
    let numbers = (PART_BYTES / GROUP_BYTES) as u64;
    let mut message = vec![parts];
    for index in (0..8u64).filter(|index| parts >> index & 1 == 1) {
        for number in 0..numbers {
            message.extend(group.wrapping_add(index * numbers + number).to_be_bytes());
        }
    }
    message.extend(group.to_be_bytes());
    message
}

fn decode(group: u64, message: &[u8]) -> Result<u8, PartialError> {
    let parts = *message.first().ok_or(PartialError::InvalidFormat)?;
    if message == encode(group, parts) { Ok(parts) } else { Err(PartialError::ValidationFailed) }
}
