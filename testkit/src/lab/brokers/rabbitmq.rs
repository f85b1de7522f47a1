//! RabbitMQ with its MQTT plugin: a node of its own, with its own epmd, cookie and data.

use std::path::{Path, PathBuf};

use super::{Clients, Shipped};
use crate::lab::free_port;
use crate::lab::process::{Process, program};

/// Returns the server and what it needs, not started yet, in the order in which they are to be started.
pub(super) fn prepare(directory: &Path, clients: &Clients, port: u16) -> Vec<Process> {
    let users = directory.join("dream-users.json");
    // AMQP is not needed, and its port may be another node's.
    let without_amqp = format!("listeners.tcp = none\nmqtt.listeners.ssl.1 = 127.0.0.1:{port}");
    Shipped::read("rabbitmq/50-dream.conf")
        .with("mqtt.listeners.ssl.1 = 8883", &without_amqp)
        .with("/etc/rabbitmq/dream-users.json", users.to_str().unwrap())
        .with_directory("/etc/rabbitmq/certs", &clients.directory)
        .write(&directory.join("rabbitmq.conf"));
    Shipped::read("rabbitmq/enabled_plugins").write(&directory.join("enabled_plugins"));
    clients.write_users("rabbitmq", &users);
    let epmd = free_port();
    let arguments = ["-port", &epmd.to_string(), "-address", "127.0.0.1"].map(str::to_owned).to_vec();
    let names = Process::new("epmd", program("epmd", "rabbitmq-server"), arguments, directory);
    let server = Process::new("rabbitmq", server(), Vec::new(), directory);
    vec![names, server.with_environment(environment(directory, port, epmd))]
}

fn environment(directory: &Path, port: u16, epmd: u16) -> Vec<(&'static str, String)> {
    let at = |name: &str| directory.join(name).display().to_string();
    vec![
        // The cookie is made there.
        ("HOME", at("")),
        ("RABBITMQ_NODENAME", format!("dream-{port}@localhost")),
        ("RABBITMQ_MNESIA_BASE", at("mnesia")),
        ("RABBITMQ_LOG_BASE", at("log")),
        ("RABBITMQ_LOGS", "-".to_owned()),
        ("RABBITMQ_CONFIG_FILE", at("rabbitmq.conf")),
        ("RABBITMQ_CONFIG_FILES", at("conf.d")),
        ("RABBITMQ_ADVANCED_CONFIG_FILE", at("advanced.config")),
        ("RABBITMQ_CONF_ENV_FILE", at("rabbitmq-env.conf")),
        ("RABBITMQ_GENERATED_CONFIG_DIR", at("generated")),
        ("RABBITMQ_ENABLED_PLUGINS_FILE", at("enabled_plugins")),
        ("RABBITMQ_PID_FILE", at("pid")),
        ("RABBITMQ_DIST_PORT", free_port().to_string()),
        ("ERL_EPMD_PORT", epmd.to_string()),
        ("ERL_EPMD_ADDRESS", "127.0.0.1".to_owned()),
        // epmd is a process of the test's, which ends it; schedulers that spin take the time of everyone else.
        (
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
            "-start_epmd false -kernel inet_dist_use_interface {127,0,0,1} +sbwt none +sbwtdcpu none +sbwtdio none"
                .to_owned(),
        ),
        // The script is then replaced by the server, so that both are one process.
        ("RUNNING_UNDER_SYSTEMD", "true".to_owned()),
    ]
}

/// The server's own script: the one on the path changes to the user `rabbitmq` first, who cannot read what a test writes.
fn server() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/rabbitmq/lib").into_iter().flatten();
    let mut scripts = versions.filter_map(|entry| Some(entry.ok()?.path().join("sbin/rabbitmq-server")));
    let found = scripts.find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("this test needs RabbitMQ: apt-get install rabbitmq-server"))
}
