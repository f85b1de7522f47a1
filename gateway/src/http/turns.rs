//! Whose password is checked next. A check takes memory and time, so few are made at a time, and nobody takes all the places of
//! those who wait.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit};

/// How many passwords are checked at a time: each check takes 19 MiB and tens of milliseconds.
const CHECKS: usize = 2;

/// How many more requests may wait for that.
const WAITING: usize = 64;

/// How many of both one address has at most.
const OF_ONE: usize = 16;

#[derive(Debug)]
pub(super) struct Turns {
    checks: Semaphore,
    /// How many have a place, by [`network`].
    places: Mutex<HashMap<Option<IpAddr>, usize>>,
}

impl Default for Turns {
    fn default() -> Self {
        Self { checks: Semaphore::new(CHECKS), places: Mutex::default() }
    }
}

impl Turns {
    /// Returns a place among those who wait, unless there is none.
    pub(super) fn place(self: &Arc<Self>, peer: Option<IpAddr>) -> Option<Place> {
        let network = peer.map(network);
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if places.values().sum::<usize>() >= CHECKS + WAITING || places.get(&network).is_some_and(|&own| own >= OF_ONE)
        {
            return None;
        }
        *places.entry(network).or_default() += 1;
        Some(Place { turns: self.clone(), network })
    }
}

/// One of those who wait, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    turns: Arc<Turns>,
    network: Option<IpAddr>,
}

impl Place {
    /// Waits until it is this one's turn.
    pub(super) async fn turn(&self) -> SemaphorePermit<'_> {
        self.turns.checks.acquire().await.expect("it is never closed")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = self.turns.places.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = places.get_mut(&self.network) {
            *own -= 1;
            if *own == 0 {
                places.remove(&self.network);
            }
        }
    }
}

/// Returns what counts as one address: of IPv6, the network of 64 bits, in which one customer has all addresses.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => (address & std::net::Ipv6Addr::from_bits(!0 << 64)).into(),
    }
}
