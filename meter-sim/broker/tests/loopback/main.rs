//! The broker over the loopback, with the client that the gateway and the meters use, and with one that does what that would not.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod delivery;
mod manners;
mod raw;

use dream_broker::Broker;
use dream_testkit::lab::access::Access;

/// How clients of this test reach a broker.
fn access(broker: &Broker) -> Access {
    Access::open(broker.address().port())
}
