//! `dream-meter status`: asks the running meter, on the loopback.

use std::io::Write;
use std::time::Duration;

use dream_edge::http::{self, Limits};

use super::ConfigArgs;

/// What an answer may take.
const LIMITS: Limits = Limits { patience: Duration::from_secs(5), body_bytes: 1 << 20 };

pub(super) fn run(args: &ConfigArgs, out: &mut impl Write) -> anyhow::Result<()> {
    let address = args.load()?.http;
    let answer = http::get(&format!("http://{address}/status"), LIMITS).map_err(|problem| {
        anyhow::anyhow!(
            "no meter answers on {address}: {problem}; is `dream-meter run` running with this configuration?"
        )
    });
    let (status, body) = answer?;
    anyhow::ensure!(status == 200, "the program that answers on {address} is not dream-meter");
    Ok(out.write_all(&body)?)
}
