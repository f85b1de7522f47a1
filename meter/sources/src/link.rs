//! How to reach a meter that sends bytes: a serial port, or a bridge that passes them on over TCP.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use dream_edge::config::Section;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::serial::{Line, SerialPort};

/// How long a connection may take to stand.
const CONNECT: Duration = Duration::from_secs(10);

#[derive(Debug, Clone)]
pub(crate) enum Link {
    Serial(PathBuf),
    Tcp(String),
}

/// A port or a connection.
pub(crate) trait Stream: AsyncRead + AsyncWrite + fmt::Debug + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + fmt::Debug + Unpin + Send> Stream for T {}

impl Link {
    /// Reads `serial` or `tcp`.
    pub(crate) fn read(section: &Section<'_>) -> Option<Self> {
        let serial = section.key("serial").text();
        let tcp = section.key("tcp").parsed(host_and_port);
        match (section.has("serial"), section.has("tcp")) {
            (false, false) => section.missing(
                "serial",
                "name the serial port, such as serial = \"/dev/ttyUSB0\", or a bridge, such as tcp = \"192.168.1.20:2001\"",
            ),
            (true, true) => section.wrong("tcp", "a meter has either `serial` or `tcp`; leave one of them out"),
            (true, false) | (false, true) => {}
        }
        serial.map(|path| Self::Serial(path.into())).or_else(|| tcp.map(Self::Tcp))
    }

    pub(crate) async fn open(&self, line: Line) -> io::Result<Box<dyn Stream>> {
        match self {
            Self::Serial(path) => {
                let open = SerialPort::open(path, line);
                Ok(Box::new(
                    open.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?,
                ))
            }
            Self::Tcp(address) => Ok(Box::new(connect(address).await?)),
        }
    }
}

pub(crate) async fn connect(address: &str) -> io::Result<TcpStream> {
    let named = |problem: String| io::Error::other(format!("{address}: {problem}"));
    match timeout(CONNECT, TcpStream::connect(address)).await {
        Ok(connected) => connected.map_err(|error| named(error.to_string())),
        Err(_) => Err(named(format!("no connection within {} s", CONNECT.as_secs()))),
    }
}

/// Checks the form of `HOST:PORT`.
pub(crate) fn host_and_port(address: &str) -> Result<String, &'static str> {
    let sound = address.rsplit_once(':').is_some_and(|(host, port)| {
        let bare = !host.contains([':', '/', '@', ' ']) || (host.starts_with('[') && host.ends_with(']'));
        !host.is_empty() && bare && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    sound.then(|| address.to_owned()).ok_or("not HOST:PORT; use for example 192.168.1.20:2001")
}
