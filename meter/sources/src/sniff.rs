//! Listens to a port of which nobody knows what speaks there, at one speed after another, until a meter is recognised.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::time::{Instant, timeout_at};

use crate::link::{Link, host_and_port};
use crate::recognise::{Proposal, name_foreign, recognise_bytes};
use crate::serial::{Framing, Line};

/// How long to listen at one speed: some meters speak every ten seconds, and their first telegram may be broken.
const PATIENCE: Duration = Duration::from_secs(25);

/// So much is kept of what came.
const MOST_BYTES: usize = 64 << 10;

/// Kinds of sources, and the name of a line in their configuration.
type Settings = &'static [(&'static str, &'static str)];

/// The lines that meters have, the likeliest first, and what their names are in the configuration of a kind. A line of seven
/// bits and parity is recognised as one of eight, too.
const LINES: [(Line, &str, Settings); 5] = [
    (
        Line { baud: 115_200, framing: Framing::EightNone },
        "115200 baud",
        &[("p1", "115200-8n1"), ("dlms", "115200-8n1")],
    ),
    (Line { baud: 9_600, framing: Framing::EightNone }, "9600 baud", &[("p1", "9600-7e1"), ("tic", "9600-7e1")]),
    (Line { baud: 2_400, framing: Framing::EightEven }, "2400 baud, 8E1", &[("dlms", "2400-8e1")]),
    (Line { baud: 2_400, framing: Framing::EightNone }, "2400 baud, 8N1", &[("dlms", "2400-8n1")]),
    (Line { baud: 1_200, framing: Framing::SevenEven }, "1200 baud", &[("tic", "1200-7e1")]),
];

/// Where to listen.
#[derive(Debug, Clone)]
pub enum Port {
    Serial(PathBuf),
    /// `HOST:PORT`
    Tcp(String),
}

impl Port {
    /// Returns the source that speaks there, or what came instead; `tell` learns of each speed that is tried.
    pub async fn sniff(&self, mut tell: impl FnMut(&str)) -> Result<Proposal, String> {
        let (link, lines) = match self {
            Self::Serial(path) => (Link::Serial(path.clone()), &LINES[..]),
            Self::Tcp(address) => (Link::Tcp(host_and_port(address)?), &LINES[..1]),
        };
        let mut came = String::new();
        for (line, name, settings) in lines {
            let name = if matches!(self, Self::Tcp(_)) { "the bridge" } else { name };
            tell(name);
            match listen(&link, *line).await? {
                Ok(mut proposal) => {
                    let kind =
                        settings.iter().find(|(kind, _)| proposal.config.contains(&format!("kind = \"{kind}\"")));
                    if let (Some((_, setting)), Self::Serial(_)) = (kind, self) {
                        proposal.config += &format!("line = \"{setting}\"\n");
                    }
                    return Ok(proposal);
                }
                Err(bytes) => came += &format!("\n  {name}: {}", name_foreign(&bytes)),
            }
        }
        Err(format!("no meter was recognised:{came}"))
    }

    /// The line of a configuration that says how the port is reached.
    pub fn setting(&self) -> String {
        match self {
            Self::Serial(path) => format!("serial = {}\n", quoted(path)),
            Self::Tcp(address) => format!("tcp = {}\n", quoted(Path::new(address))),
        }
    }
}

fn quoted(text: &Path) -> String {
    serde_json::Value::String(text.display().to_string()).to_string()
}

/// Listens at one speed; returns what came if nothing of it was recognised.
async fn listen(link: &Link, line: Line) -> Result<Result<Proposal, Vec<u8>>, String> {
    let mut stream = link.open(line).await.map_err(|error| error.to_string())?;
    let deadline = Instant::now() + PATIENCE;
    let (mut came, mut bytes) = (Vec::new(), [0; 1024]);
    while let Ok(read) = timeout_at(deadline, stream.read(&mut bytes)).await {
        match read {
            Ok(0) => break,
            Ok(read) => came.extend_from_slice(&bytes[..read]),
            Err(error) => return Err(error.to_string()),
        }
        if let Some(proposal) = recognise_bytes(&came) {
            return Ok(Ok(proposal));
        }
        if came.len() > MOST_BYTES {
            came.drain(..came.len() / 2);
        }
    }
    Ok(Err(came))
}
