//! What a service manager such as systemd wants to know (`sd_notify(3)`).

use sd_notify::NotifyState;

/// The service manager that started this process, if one did.
#[derive(Debug, Default)]
pub struct ServiceManager {
    listens: bool,
}

impl ServiceManager {
    /// Takes the one that the environment names.
    pub fn of_process() -> Self {
        Self { listens: std::env::var_os("NOTIFY_SOCKET").is_some() }
    }

    /// Returns whether there is one.
    pub const fn listens(&self) -> bool {
        self.listens
    }

    pub fn ready(&self) {
        self.tell(&[NotifyState::Ready]);
    }

    pub fn reloading(&self) {
        let since = NotifyState::monotonic_usec_now().ok();
        self.tell(&[Some(NotifyState::Reloading), since].into_iter().flatten().collect::<Vec<_>>());
    }

    pub fn stopping(&self) {
        self.tell(&[NotifyState::Stopping]);
    }

    /// Says in a few words what the service does, for `systemctl status`.
    pub fn status(&self, words: &str) {
        self.tell(&[NotifyState::Status(words)]);
    }

    /// Pings the watchdog, twice as often as the service manager asks, while `gets_on` holds. Never returns.
    pub async fn ping_watchdog(&self, mut gets_on: impl FnMut() -> bool) {
        let Some(interval) = sd_notify::watchdog_enabled().filter(|_| self.listens) else {
            return std::future::pending().await;
        };
        loop {
            if gets_on() {
                self.tell(&[NotifyState::Watchdog]);
            }
            tokio::time::sleep(interval / 2).await;
        }
    }

    fn tell(&self, state: &[NotifyState<'_>]) {
        if let Some(Err(error)) = self.listens.then(|| sd_notify::notify(state)) {
            tracing::debug!(%error, "cannot reach the service manager");
        }
    }
}
