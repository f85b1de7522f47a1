//! Stops tasks for a while, as SIGSTOP does a process.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

/// Whether the tasks of a gateway may run.
#[derive(Debug, Clone, Default)]
pub struct Freezer(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    frozen: bool,
    waiting: Vec<Waker>,
}

impl Freezer {
    /// Stops all tasks, wherever they are.
    pub fn freeze(&self) {
        self.0.lock().unwrap().frozen = true;
    }

    /// Lets them go on.
    pub fn thaw(&self) {
        let mut state = self.0.lock().unwrap();
        state.frozen = false;
        state.waiting.drain(..).for_each(Waker::wake);
    }

    /// Runs a future except while it is frozen.
    pub async fn run<T>(self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        poll_fn(|context| {
            let mut state = self.0.lock().unwrap();
            if state.frozen {
                state.waiting.push(context.waker().clone());
                return Poll::Pending;
            }
            drop(state);
            future.as_mut().poll(context)
        })
        .await
    }
}
