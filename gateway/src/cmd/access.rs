//! `dream-gateway access`: makes entries for the file of users and tokens.

use std::io::{BufRead as _, Write};
use std::path::PathBuf;

use anyhow::Context as _;
use argon2::Argon2;
use argon2::password_hash::PasswordHasher as _;
use clap::{Args, Subcommand, ValueEnum};
use dream_edge::files;
use zeroize::Zeroizing;

use super::BadInput;
use crate::config::access::{Role, hex, new_token, token_hash};

/// How short a password may be.
const SHORTEST: usize = 12;

/// Make a user or a token for `http.access_file`
///
/// Prints a section with the hash of the password or of the token, to be added to the file. A running gateway reads the file again
/// within a minute, or at SIGHUP.
#[derive(Debug, Args)]
pub(super) struct AccessArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Make a user, with the password in the first line of the standard input
    #[command(after_help = "Example:
  dream-gateway access user anna --role operator < password >> /etc/dream/access.toml")]
    User {
        /// The user's name
        name: String,
        #[command(flatten)]
        rights: RightsArgs,
    },
    /// Make a token for a program, and write it to a new file
    #[command(after_help = "Example:
  dream-gateway access token prometheus --role metrics --out prometheus.token >> /etc/dream/access.toml")]
    Token {
        /// What the token is called: whoever uses it
        name: String,
        #[command(flatten)]
        rights: RightsArgs,
        /// Where the token goes, for its owner alone; nothing else has it
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
}

#[derive(Debug, Args)]
struct RightsArgs {
    /// What it is for: /metrics alone, pages and API too, or everything
    #[arg(long)]
    role: RoleArg,
    /// A cluster or group that it may see, and no other; several if given several times
    #[arg(long = "cluster", value_name = "NAME")]
    clusters: Vec<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum RoleArg {
    Metrics,
    Viewer,
    Operator,
}

impl From<RoleArg> for Role {
    fn from(role: RoleArg) -> Self {
        match role {
            RoleArg::Metrics => Self::Metrics,
            RoleArg::Viewer => Self::Viewer,
            RoleArg::Operator => Self::Operator,
        }
    }
}

pub(super) fn run(args: &AccessArgs, out: &mut impl Write) -> anyhow::Result<()> {
    match &args.what {
        What::User { name, rights } => {
            if name.is_empty() || name.contains(':') {
                return Err(BadInput("a user name has at least one character, and no colon".to_owned()).into());
            }
            let mut line = Zeroizing::new(String::new());
            std::io::stdin().lock().read_line(&mut line).context("the standard input")?;
            let password = line.trim_end_matches(['\n', '\r']);
            if password.chars().count() < SHORTEST {
                let short = format!(
                    "the password on the standard input has fewer than {SHORTEST} characters; use a longer one"
                );
                return Err(BadInput(short).into());
            }
            let hash = Argon2::default().hash_password(password.as_bytes());
            let hash = hash.map_err(|error| anyhow::anyhow!("the password cannot be hashed: {error}"))?;
            section("users", name, &format!("password = \"{hash}\""), rights, out)
        }
        What::Token { name, rights, out: path } => {
            let token = Zeroizing::new(new_token());
            let line = Zeroizing::new(format!("{}\n", *token));
            files::create(path, line.as_bytes(), 0o600)?;
            section("tokens", name, &format!("token_sha256 = \"{}\"", hex(&token_hash(&token))), rights, out)
        }
    }
}

fn section(kind: &str, name: &str, secret: &str, rights: &RightsArgs, out: &mut impl Write) -> anyhow::Result<()> {
    // A name in quotes may be anything; TOML escapes texts as JSON does.
    writeln!(out, "\n[{kind}.{}]\n{secret}\nrole = \"{}\"", quoted(name)?, Role::from(rights.role))?;
    if !rights.clusters.is_empty() {
        let clusters: Vec<String> = rights.clusters.iter().map(|name| quoted(name)).collect::<anyhow::Result<_>>()?;
        writeln!(out, "clusters = [{}]", clusters.join(", "))?;
    }
    Ok(())
}

fn quoted(text: &str) -> anyhow::Result<String> {
    Ok(serde_json::to_string(text)?)
}
