//! Commits jobs and lets their effects happen, one after the other, in a task that can die before any of them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use dream_gateway::engine::effect::{Effect, EffectRunner};
use dream_gateway::engine::writer::Job;
use dream_gateway::store::Store;
use tokio::sync::{Notify, mpsc};

/// Something that a gateway does to the world: a commit or an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Commit,
    Publish,
    Acknowledge,
    Closed,
    Show,
    Flushed,
}

impl Step {
    fn of(effect: &Effect) -> Self {
        match effect {
            Effect::Acknowledge(..) => Self::Acknowledge,
            Effect::Publish { .. } => Self::Publish,
            Effect::Closed { .. } => Self::Closed,
            Effect::Show { .. } => Self::Show,
            Effect::Flushed(_) => Self::Flushed,
        }
    }
}

/// When a gateway dies.
#[derive(Debug, Clone, Default)]
pub struct Doom(Arc<Mutex<State>>, Arc<Notify>);

#[derive(Debug, Default)]
struct State {
    /// Steps that are still done; `None` as long as there is no end.
    left: Option<usize>,
    /// The step before which it died.
    died_before: Option<Step>,
}

impl Doom {
    /// Lets the gateway do so many steps more, and then nothing.
    pub fn after(&self, steps: usize) {
        *self.0.lock().unwrap() = State { left: Some(steps), died_before: None };
    }

    /// Lets it live.
    pub fn lift(&self) {
        *self.0.lock().unwrap() = State::default();
    }

    /// Waits until it dies, and returns the step that it did not do.
    pub async fn death(&self) -> Step {
        loop {
            let died = self.1.notified();
            if let Some(step) = self.0.lock().unwrap().died_before {
                return step;
            }
            died.await;
        }
    }

    /// Returns if the step may be done.
    async fn pass(&self, step: Step) {
        let dies = {
            let mut state = self.0.lock().unwrap();
            match &mut state.left {
                None => false,
                Some(0) => {
                    state.died_before = Some(step);
                    true
                }
                Some(left) => {
                    *left -= 1;
                    false
                }
            }
        };
        if dies {
            self.1.notify_waiters();
            std::future::pending::<()>().await;
        }
    }
}

/// Does what the store's thread does, until nobody hands over jobs any more.
pub async fn write(store: Arc<dyn Store>, mut runner: EffectRunner, mut jobs: mpsc::Receiver<Job>, doom: Doom) {
    while let Some(Job { changes, effects }) = jobs.recv().await {
        if !changes.is_empty() {
            doom.pass(Step::Commit).await;
            store.commit(&changes).unwrap();
            runner.committed(Duration::ZERO);
        }
        for effect in effects {
            doom.pass(Step::of(&effect)).await;
            runner.run(vec![effect]);
        }
    }
}
