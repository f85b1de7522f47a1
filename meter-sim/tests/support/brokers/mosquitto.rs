//! Mosquitto: a main file as Debian's, which includes the shipped one.

use std::path::Path;

use super::Shipped;
use super::process::{Process, binary};

/// With the certificates of a directory, for its gateway.
pub(super) fn prepare(directory: &Path, certificates: &Path, gateway: &str, port: u16) -> Vec<Process> {
    let included = directory.join("conf.d");
    std::fs::create_dir(&included).unwrap();
    Shipped::read("mosquitto/dream.conf")
        .with("listener 8883", &format!("listener {port} 127.0.0.1"))
        .with("/etc/mosquitto/dream.acl", directory.join("dream.acl").to_str().unwrap())
        .with_directory("/etc/mosquitto/certs", certificates)
        .write(&included.join("dream.conf"));
    Shipped::read("mosquitto/dream.acl")
        .with("user gw-1\n", &format!("user {gateway}\n"))
        .write(&directory.join("dream.acl"));
    // `user root` has no effect for anyone else, and lets root keep the temporary directory.
    let main = format!(
        "user root\npersistence_location {}/\nlog_dest stderr\ninclude_dir {}\n",
        directory.display(),
        included.display()
    );
    std::fs::write(directory.join("mosquitto.conf"), main).unwrap();
    let arguments = vec!["-c".to_owned(), directory.join("mosquitto.conf").display().to_string()];
    vec![Process::new("mosquitto", binary("mosquitto", "mosquitto"), arguments)]
}
