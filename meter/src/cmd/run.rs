//! `dream-meter run`.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::ConfigArgs;
use crate::agent;
use crate::driver::Real;
use crate::logging;

pub(super) fn run(args: &ConfigArgs) -> anyhow::Result<()> {
    let config = args.load()?;
    logging::start(&config.log_level)?;
    let time = config.time.clone();
    let runtime = super::runtime()?;
    let ended = runtime.block_on(async {
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let shutdown = async move {
            tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        };
        let mut hangup = signal(SignalKind::hangup())?;
        let (sender, reloads) = mpsc::channel(1);
        tokio::spawn(async move { while hangup.recv().await.is_some() && sender.send(()).await.is_ok() {} });
        agent::run(config, Real, &time, reloads, shutdown).await
    });
    // A device that does not answer is not waited for.
    runtime.shutdown_background();
    ended
}
