//! The real gateway, inside the test's process, with the configuration of a provisioned directory.

use std::path::Path;

use dream_gateway::config::{Config, Overrides};
use dream_gateway::secrets::GatewayIdentity;
use dream_gateway::{daemon, driver};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::mosquitto::Mosquitto;

pub struct Gateway {
    runtime: Runtime,
    stop: Option<oneshot::Sender<()>>,
    running: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Gateway {
    pub fn start(directory: &Path, broker: &Mosquitto) -> Self {
        let path = directory.join("gateway.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text.replace("mqtts://localhost:8883", &broker.url()).replace("127.0.0.1:9464", "127.0.0.1:0");
        std::fs::write(&path, text).unwrap();
        let config = Config::load(&path, &Overrides::default()).unwrap();
        let identity = GatewayIdentity::load(&config.identity, &config.id, driver::now()).unwrap();
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(daemon::listen(&config)).unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let running = runtime.spawn(async move {
            let (_reloads, waiting) = mpsc::channel(1);
            let stopped = async { stopped.await.unwrap_or_default() };
            daemon::run(config, identity, listener, waiting, stopped).await
        });
        Self { runtime, stop: Some(stop), running: Some(running) }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.runtime.block_on(self.running.take().unwrap()).unwrap();
        if !std::thread::panicking() {
            ended.unwrap();
        }
    }
}
