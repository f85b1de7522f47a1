//! NATS with JetStream, and the users that the shipped script writes.

use std::path::Path;

use super::{Clients, Shipped};
use crate::lab::free_port;
use crate::lab::process::{Process, program};

/// Returns a server that is not started yet.
pub(super) fn prepare(directory: &Path, clients: &Clients, port: u16) -> Process {
    Shipped::read("nats/dream.conf")
        .with("listen: \"0.0.0.0:8883\"", &format!("listen: \"127.0.0.1:{port}\""))
        .with("listen: \"127.0.0.1:4222\"", &format!("listen: \"127.0.0.1:{}\"", free_port()))
        .with_directory("/etc/nats/certs", &clients.directory)
        .with_directory("/var/lib/nats/jetstream", &directory.join("jetstream"))
        .write(&directory.join("dream.conf"));
    clients.write_users("nats", &directory.join("dream-users.conf"));
    let arguments = vec!["-c".to_owned(), directory.join("dream.conf").display().to_string()];
    Process::new("nats-server", program("nats-server", "nats-server"), arguments, directory)
}
