//! Tasks that are to run as long as their program.

use std::future::Future;

use thiserror::Error;
use tokio::task::JoinError;

/// A task has ended that should have run as long as the program: the program ends too, and its supervisor starts it again.
#[derive(Debug, Error)]
#[error("{what} has ended: {why}")]
pub struct TaskEnded {
    /// What the task did.
    what: &'static str,
    why: String,
}

impl TaskEnded {
    pub fn new(what: &'static str, why: &str) -> Self {
        Self { what, why: why.to_owned() }
    }
}

/// Waits until a task ends, which it should not, and says why it did: it has panicked, or returned.
pub async fn end_of<T>(what: &'static str, task: impl Future<Output = Result<T, JoinError>>) -> TaskEnded {
    match task.await {
        Ok(_) => TaskEnded::new(what, "it returned"),
        Err(error) => TaskEnded::new(what, &error.to_string()),
    }
}

/// The same of a task that there may not be.
pub async fn end_of_some<T>(what: &'static str, task: Option<impl Future<Output = Result<T, JoinError>>>) -> TaskEnded {
    match task {
        Some(task) => end_of(what, task).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_end_is_a_good_one() {
        let panics = tokio::spawn(async { assert!(std::hint::black_box(false), "overflow") });
        let told = end_of("what reads the meter", panics).await.to_string();
        assert!(told.starts_with("what reads the meter has ended: task ") && told.contains("overflow"), "{told}");
        let told = end_of("the page", tokio::spawn(async {})).await.to_string();
        assert_eq!(told, "the page has ended: it returned");
    }
}
