//! A real Mosquitto that admits only clients with a certificate, each to its own topics.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

pub struct Mosquitto {
    child: Child,
    pub port: u16,
}

impl Mosquitto {
    /// With the broker's certificate of a provisioned directory, and its gateway's name.
    pub fn start(directory: &Path, gateway: &str) -> Self {
        let port = free_port();
        let at = |name: &str| directory.join(name).display().to_string();
        let rights = format!(
            "user {gateway}\ntopic readwrite dream/v1/#\n\
             pattern write dream/v1/+/reading/%u\npattern write dream/v1/+/reveal/%u\n\
             pattern write dream/v1/+/enrol/%u\npattern write dream/v1/+/status/%u\n\
             pattern read dream/v1/+/membership\npattern read dream/v1/+/recovery\n"
        );
        std::fs::write(directory.join("acl"), rights).unwrap();
        let config = format!(
            "user root\nlistener {port} 127.0.0.1\nallow_anonymous false\nmax_inflight_messages 0\n\
             cafile {}\ncertfile {}\nkeyfile {}\nrequire_certificate true\nuse_identity_as_username true\nacl_file {}\n",
            at("authority.pem"),
            at("broker.pem"),
            at("broker.key"),
            at("acl"),
        );
        std::fs::write(directory.join("mosquitto.conf"), config).unwrap();
        let mut command = Command::new(binary("mosquitto"));
        let child = command.arg("-c").arg(directory.join("mosquitto.conf")).spawn().unwrap();
        let begun = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(60), "mosquitto does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Self { child, port }
    }

    pub fn url(&self) -> String {
        format!("mqtts://localhost:{}", self.port)
    }
}

impl Drop for Mosquitto {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Below the ports that the system hands out.
pub fn free_port() -> u16 {
    loop {
        let port = rand::random_range(10_000..30_000);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

/// Where a program is: `sbin` is not on everyone's path.
fn binary(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
    let found = directories.map(|directory| directory.join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("this test needs `{name}`: install Mosquitto"))
}
