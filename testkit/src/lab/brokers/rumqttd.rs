//! rumqttd inside this process, with the shipped file. It has no end but the process's.

use super::Shipped;

pub(super) fn start(port: u16) {
    let shipped = Shipped::read("rumqttd/rumqttd.toml")
        .with("listen = \"127.0.0.1:1883\"", &format!("listen = \"127.0.0.1:{port}\""));
    let config: rumqttd::Config = toml::from_str(shipped.text()).unwrap();
    std::thread::spawn(move || rumqttd::Broker::new(config).start().expect("the broker runs"));
}
