//! Mosquitto: a main file as Debian's, which includes the shipped one.

use std::path::Path;

use super::Shipped;
use crate::lab::mosquitto::configured;
use crate::lab::process::Process;

/// Returns a Mosquitto that is not started yet, with the certificates of a directory, for its gateway.
pub(super) fn prepare(directory: &Path, certificates: &Path, gateway: &str, more_rights: &str, port: u16) -> Process {
    let included = directory.join("conf.d");
    std::fs::create_dir(&included).unwrap();
    Shipped::read("mosquitto/dream.conf")
        .with("listener 8883", &format!("listener {port} 127.0.0.1"))
        .with("/etc/mosquitto/dream.acl", directory.join("dream.acl").to_str().unwrap())
        .with_directory("/etc/mosquitto/certs", certificates)
        .write(&included.join("dream.conf"));
    let rights = Shipped::read("mosquitto/dream.acl").with("user gw-1\n", &format!("user {gateway}\n"));
    std::fs::write(directory.join("dream.acl"), format!("{}{more_rights}", rights.text())).unwrap();
    // `user root` has no effect for anyone else, and lets root keep the temporary directory.
    let main = format!(
        "user root\npersistence_location {}/\nlog_dest stderr\ninclude_dir {}\n",
        directory.display(),
        included.display()
    );
    configured(directory, &main)
}
