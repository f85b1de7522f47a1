//! `dream-meter status`: asks the running meter, on the loopback.

use std::io::{Read as _, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::Context as _;

use super::ConfigArgs;

/// How long to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) fn run(args: &ConfigArgs, out: &mut impl Write) -> anyhow::Result<()> {
    let address = args.load()?.http;
    let body = ask(address, "/status").with_context(|| {
        format!("no meter answers on {address}; is `dream-meter run` running with this configuration?")
    })?;
    Ok(out.write_all(body.as_bytes())?)
}

fn ask(address: SocketAddr, path: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // Version 1.0: the answer ends with the connection.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("what answers does not speak HTTP")?;
    anyhow::ensure!(head.split(' ').nth(1) == Some("200"), "what answers is no meter");
    Ok(body.to_owned())
}
