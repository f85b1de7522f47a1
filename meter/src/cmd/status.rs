//! `dream-meter status`: asks the running meter, on the loopback.

use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use dream_edge::http::{self, Limits};

use super::ConfigArgs;

/// What an answer may take.
const LIMITS: Limits = Limits { patience: Duration::from_secs(5), body_bytes: 1 << 20 };

pub(super) fn run(args: &ConfigArgs, out: &mut impl Write) -> anyhow::Result<()> {
    Ok(out.write_all(&ask(args.load()?.http, "/status")?)?)
}

/// Asks the running meter for a path.
pub(super) fn ask(address: SocketAddr, path: &str) -> anyhow::Result<Vec<u8>> {
    let answer = http::get(&format!("http://{address}{path}"), LIMITS).map_err(|problem| {
        anyhow::anyhow!(
            "no meter answers on {address}: {problem}; is `dream-meter run` running with this configuration?"
        )
    });
    let (status, body) = answer?;
    anyhow::ensure!(status == 200, "the program that answers on {address} is not dream-meter");
    Ok(body)
}
