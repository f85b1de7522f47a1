//! `dream-meter authority serve`.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use dream_edge::service::ServiceManager;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing::info;

use super::Directory;
use crate::authority::{Desk, serve};
use crate::logging;

/// Let invited meters enrol, and certified ones renew, by EST (RFC 7030)
///
/// If `authority.key` is on another machine, requests wait in `queue` until they are signed there with `authority sign --queue`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  dream-meter authority serve --listen 0.0.0.0:8445 --host authority.example")]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    at: Directory,
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8445")]
    listen: SocketAddr,
    /// A name of this machine, for a server certificate that is not there yet
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
}

impl ServeArgs {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        logging::start("info")?;
        let desk = Arc::new(Desk::open(&self.at.directory)?);
        let hosts = if self.host.is_empty() { vec!["localhost".to_owned()] } else { self.host.clone() };
        super::super::runtime()?.block_on(async {
            let listener = TcpListener::bind(self.listen).await;
            let listener = listener.with_context(|| format!("--listen: cannot listen on {}", self.listen))?;
            let signs = if desk.signs() { "here" } else { "on another machine: requests are queued" };
            info!(address = %listener.local_addr()?, signs, "serving EST");
            let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
            let manager = ServiceManager::of_process();
            manager.ready();
            let shutdown = async {
                tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
                manager.stopping();
            };
            serve(listener, desk, &hosts, shutdown).await
        })
    }
}
