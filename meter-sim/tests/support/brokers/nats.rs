//! NATS with JetStream, and the users that the shipped script writes.

use std::path::Path;

use super::process::{Process, binary};
use super::{Shipped, free_port};
use crate::support::trial::Trial;

pub(super) fn prepare(directory: &Path, trial: &Trial, port: u16) -> Vec<Process> {
    Shipped::read("nats/dream.conf")
        .with("listen: \"0.0.0.0:8883\"", &format!("listen: \"127.0.0.1:{port}\""))
        .with("listen: \"127.0.0.1:4222\"", &format!("listen: \"127.0.0.1:{}\"", free_port()))
        .with_directory("/etc/nats/certs", trial.path())
        .with_directory("/var/lib/nats/jetstream", &directory.join("jetstream"))
        .write(&directory.join("dream.conf"));
    trial.write_users("nats", &directory.join("dream-users.conf"));
    let arguments = vec!["-c".to_owned(), directory.join("dream.conf").display().to_string()];
    vec![Process::new("nats-server", binary("nats-server", "nats-server"), arguments)]
}
