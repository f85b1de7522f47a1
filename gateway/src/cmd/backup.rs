//! `dream-gateway backup`: a copy of the store, of a gateway that runs or of one that does not.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;

use crate::clock::{Clock as _, SystemClock, rfc3339};
use crate::cmd::{BadInput, ConfigArgs};
use crate::config::{Config, Place};
use crate::store::{self, CopyError, FileStore, OpenStoreError};

/// How long a running gateway may send nothing.
const PATIENCE: Duration = Duration::from_secs(60);

/// Back up the store, while the gateway runs or not
///
/// A running gateway hands out the rows of one moment on a socket beside its store, to the users who may read the store; slots go on. The copy is
/// checked page by page, and is complete or not there. It has no key and no open slot, but the names of meters: it is for its owner alone.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  dream-gateway backup --config /etc/dream/gateway.toml --out /backup/gateway-$(date +%F).redb
  kubectl exec dream-gateway-0 -- dream-gateway backup --out - > gateway-0.redb")]
pub(super) struct BackupArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// The new file; - is standard output, after a file beside the store
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

pub(super) fn run(args: &BackupArgs, out: &mut impl Write) -> anyhow::Result<()> {
    let config = args.config.load()?;
    let path = store_file(&config)?;
    if args.out == Path::new("-") {
        let beside = PathBuf::from(format!("{}.backup-{}", path.display(), std::process::id()));
        make(&config, path, &beside)?;
        let sent = File::open(&beside).and_then(|mut file| io::copy(&mut file, out));
        std::fs::remove_file(&beside)?;
        sent?;
        return Ok(());
    }
    if args.out.exists() {
        let message = format!(
            "--out: {} is there already, and a back-up replaces nothing; choose another name",
            args.out.display()
        );
        return Err(BadInput(message).into());
    }
    make(&config, path, &args.out).with_context(|| format!("no back-up was made: {}", args.out.display()))?;
    let bytes = std::fs::metadata(&args.out)?.len();
    Ok(writeln!(
        out,
        "{}: {bytes} bytes, checked; `dream-gateway restore --check` shows what it holds",
        args.out.display()
    )?)
}

/// Returns the file of the store; a database is not ours to back up or to restore.
pub(super) fn store_file(config: &Config) -> Result<&Path, BadInput> {
    match &config.store.place {
        Place::File { path, .. } => Ok(path),
        Place::Postgres(_) => Err(BadInput(
            "the store is a database: back it up and restore it with PostgreSQL's own tools, as docs/backup.md says"
                .to_owned(),
        )),
    }
}

fn make(config: &Config, path: &Path, out: &Path) -> anyhow::Result<()> {
    let (made, replica) = (rfc3339(SystemClock.now()), config.replica_name()?.to_string());
    let made = [
        ("made", made.as_str()),
        ("gateway", config.id.as_str()),
        ("replica", &replica),
        ("version", env!("CARGO_PKG_VERSION")),
    ];
    let socket = store::socket_of(path);
    let copied = match UnixStream::connect(&socket) {
        Ok(mut gateway) => {
            gateway.set_read_timeout(Some(PATIENCE))?;
            FileStore::receive(&mut gateway, out, &made)
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            anyhow::bail!("{}: {error}; run this as the user of the gateway, or as root", socket.display())
        }
        // No gateway runs; one that was killed leaves its socket.
        Err(_) => FileStore::open_unchanged(path).map_err(CopyError::from).and_then(|store| store.copy_to(out, &made)),
    };
    if let Err(CopyError::Open(OpenStoreError::Locked { path })) = &copied {
        anyhow::bail!(
            "{} is in use by a process that does not listen on {}: wait until the gateway has started, or stop it; its log says \
             why if it cannot listen",
            path.display(),
            socket.display()
        );
    }
    Ok(copied?)
}
