//! Where released sums are written to: `[remote_write]`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use dream_edge::config::Section;

/// A receiver of Prometheus's remote write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteWrite {
    pub address: Address,
    /// Verifies the receiver, for https://.
    pub ca: Option<PathBuf>,
    pub login: Option<ReceiverLogin>,
    /// Added to every series.
    pub labels: BTreeMap<String, String>,
}

/// The parts of its URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    pub tls: bool,
    pub host: String,
    pub port: u16,
    pub path: String,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tls, host, port, path } = self;
        write!(f, "{}://{host}:{port}{path}", if *tls { "https" } else { "http" })
    }
}

/// How to log in there: secrets by their files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReceiverLogin {
    Token(PathBuf),
    Password { username: String, file: PathBuf },
}

pub(super) fn read(section: &Section<'_>) -> Option<RemoteWrite> {
    let address = section.key("url").overridable().parsed(address);
    let ca = section.key("ca").overridable().path();
    let token = section.key("bearer_token_file").overridable().path();
    let username = section.key("username").overridable().text();
    let password = section.key("password_file").overridable().path();
    let labels = section.key("labels").texts().unwrap_or_default();
    if !section.has("url") && address.is_none() {
        let others = ["ca", "bearer_token_file", "username", "password_file", "labels"];
        for name in others.into_iter().filter(|name| section.has(name)) {
            section.wrong(name, "has no effect without `url`, the address of a receiver");
        }
        return None;
    }
    let labels = labels.iter().filter_map(|text| {
        let parted = label(text);
        parted.map_err(|problem| section.wrong("labels", format!("`{text}`: {problem}"))).ok()
    });
    let labels = labels.collect();
    let login = match (token, username, password) {
        (None, None, None) => None,
        (Some(file), None, None) => Some(ReceiverLogin::Token(file)),
        (None, Some(username), Some(file)) => Some(ReceiverLogin::Password { username, file }),
        (Some(_), _, _) => {
            section.wrong(
                "bearer_token_file",
                "a receiver takes a token, or a user name and a password: leave out one of them",
            );
            None
        }
        (None, Some(_), None) => {
            section.missing("password_file", "`username` needs the file of its password");
            None
        }
        (None, None, Some(_)) => {
            section.missing("username", "`password_file` needs a user name");
            None
        }
    };
    let address = address?;
    match (address.tls, &ca) {
        (true, None) => section.missing("ca", "name the file with the CA certificates that verify the receiver's"),
        (false, Some(_)) => section.wrong("ca", "has no effect with http://; use https:// in `url`, or leave it out"),
        (true, Some(_)) | (false, None) => {}
    }
    Some(RemoteWrite { address, ca, login, labels })
}

#[cfg(not(feature = "remote-write"))]
fn address(_: &str) -> Result<Address, &'static str> {
    Err(
        "this program was built without remote write; leave this section out, or build it with the feature `remote-write`",
    )
}

#[cfg(feature = "remote-write")]
fn address(text: &str) -> Result<Address, String> {
    let usual = "use https://prometheus.example:9090/api/v1/write";
    let (tls, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
        (Some(rest), _) => (true, rest),
        (None, Some(rest)) => (false, rest),
        (None, None) => return Err(format!("not the address of a receiver; {usual}")),
    };
    let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
    if authority.contains('@') {
        return Err("user names and passwords have keys of their own: `username` and `password_file`".to_owned());
    }
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            (host, port.parse().map_err(|_| format!("`{port}` is no port; {usual}"))?)
        }
        Some(_) | None => (authority, if tls { 443 } else { 80 }),
    };
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    if host.is_empty() || !is_plain(host) || !is_plain(path) {
        return Err(format!("it must name a host and a path; {usual}"));
    }
    Ok(Address { tls, host: host.to_owned(), port, path: path.to_owned() })
}

/// Returns the name and the value of a label.
fn label(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = text.split_once('=').ok_or("write it as \"name=value\"")?;
    let starts = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') && !name.starts_with("__");
    if !starts || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Err("a name has letters, digits and `_`, and begins with no digit and not with `__`");
    }
    if ["cluster", "outcome"].contains(&name) {
        return Err("the gateway writes this label itself; choose another name");
    }
    if value.is_empty() {
        return Err("a label has a value");
    }
    Ok((name.to_owned(), value.to_owned()))
}
