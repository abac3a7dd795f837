//! Replacements of the clock, timers and random choices of the crate. The driver sets the time. Choices are the first
//! elements in the order of names.

use std::{
    cell::Cell,
    future::Future,
    ops::{Add, Sub},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

pub(crate) use std::time::SystemTime;

use libp2p_identity::PeerId;

use crate::{MessageId, types::PeerInfo};

thread_local! {
    static NOW: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

pub(crate) fn set_time(now: Duration) {
    NOW.set(now);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Instant(Duration);

impl Instant {
    pub(crate) fn now() -> Self {
        Self(NOW.get())
    }

    pub(crate) fn since_start(&self) -> Duration {
        self.0
    }

    pub(crate) fn elapsed(&self) -> Duration {
        Self::now().saturating_duration_since(*self)
    }

    pub(crate) fn checked_add(&self, wait: Duration) -> Option<Self> {
        self.0.checked_add(wait).map(Self)
    }

    pub(crate) fn duration_since(&self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }

    pub(crate) fn saturating_duration_since(&self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, wait: Duration) -> Self {
        Self(self.0 + wait)
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

/// A timer that expires when the time is set to its end or later.
#[derive(Debug)]
pub struct Delay {
    pub(crate) end: Instant,
}

impl Delay {
    pub(crate) fn new(wait: Duration) -> Self {
        Self {
            end: Instant::now() + wait,
        }
    }

    pub(crate) fn reset(&mut self, wait: Duration) {
        *self = Self::new(wait);
    }
}

impl Future for Delay {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context) -> Poll<()> {
        if self.end <= Instant::now() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

/// An element that the crate draws or shuffles, with its name for the order.
pub(crate) trait Named {
    fn name(&self) -> Vec<u8>;
}

impl Named for PeerId {
    fn name(&self) -> Vec<u8> {
        self.to_bytes()
    }
}

impl Named for &PeerId {
    fn name(&self) -> Vec<u8> {
        self.to_bytes()
    }
}

impl Named for MessageId {
    fn name(&self) -> Vec<u8> {
        self.0.clone()
    }
}

impl Named for PeerInfo {
    fn name(&self) -> Vec<u8> {
        self.peer_id.map(|id| id.to_bytes()).unwrap_or_default()
    }
}

pub(crate) trait SliceRandom {
    fn shuffle<R>(&mut self, random: &mut R);
    fn shuffle_last_first<R>(&mut self, random: &mut R);
}

impl<T: Named> SliceRandom for [T] {
    fn shuffle<R>(&mut self, _: &mut R) {
        self.sort_by_key(Named::name);
    }

    fn shuffle_last_first<R>(&mut self, random: &mut R) {
        self.shuffle(random);
        self.reverse();
    }
}

pub(crate) trait IteratorRandom: Iterator + Sized
where
    Self::Item: Named,
{
    fn sample<R>(self, random: &mut R, count: usize) -> Vec<Self::Item> {
        let mut found: Vec<_> = self.collect();
        found.shuffle(random);
        found.truncate(count);
        found
    }
}

impl<I: Iterator> IteratorRandom for I where I::Item: Named {}
