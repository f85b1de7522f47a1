//! Who may write: a row of the database that one gateway holds for some seconds at a time.
//!
//! Only the database's clock counts. A gateway that falls silent loses the row to the next one, which raises the fence; what the
//! former still tries to commit is refused from then on.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use super::{Inner, StoreError, schema, words};

#[derive(Debug)]
pub(super) struct Lease {
    shard: i32,
    owner: String,
    lasts: Duration,
    /// The fence under which this gateway writes, as long as it may.
    fence: Mutex<Option<i64>>,
}

impl Lease {
    pub(super) fn new(shard: u32, owner: &str, seconds: u64) -> Self {
        let shard = i32::try_from(shard).expect("there are few shards");
        Self { shard, owner: owner.to_owned(), lasts: Duration::from_secs(seconds), fence: Mutex::default() }
    }

    /// Returns the shard and the fence; an error if another gateway may write, or nobody asked yet.
    pub(super) fn held(&self) -> Result<(i32, i64), StoreError> {
        self.fence().map(|fence| (self.shard, fence)).ok_or(StoreError::Fenced)
    }

    pub(super) fn lost(&self) {
        self.set(None);
    }

    fn fence(&self) -> Option<i64> {
        *self.fence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, fence: Option<i64>) {
        *self.fence.lock().unwrap_or_else(PoisonError::into_inner) = fence;
    }

    /// Takes the row if nobody holds it, and begins to renew it; otherwise returns who does.
    pub(super) async fn try_take(inner: &Arc<Inner>) -> Result<Option<String>, StoreError> {
        let Self { shard, owner, lasts, .. } = &inner.lease;
        let client = inner.leasing().await?;
        client.execute(schema::ADD_SHARD, &[shard]).await.map_err(words)?;
        let taken = client.query_opt(schema::TAKE, &[shard, owner, &lasts.as_secs_f64()]).await.map_err(words)?;
        let Some(taken) = taken else {
            let holder = client.query_one(schema::OWNER, &[shard]).await.map_err(words)?;
            return Ok(Some(holder.get(0)));
        };
        let fence = taken.get(0);
        inner.lease.set(Some(fence));
        tokio::spawn(keep(Arc::downgrade(inner), fence, *lasts / 3));
        Ok(None)
    }

    /// Lets the next gateway take the row at once.
    pub(super) async fn give_back(inner: &Inner) -> Result<(), StoreError> {
        let Ok((shard, fence)) = inner.lease.held() else { return Ok(()) };
        inner.lease.lost();
        inner.leasing().await?.execute(schema::GIVE_BACK, &[&shard, &fence]).await.map_err(words)?;
        Ok(())
    }
}

/// Renews the lease until it is lost or given back. While the database is away nobody can take it.
async fn keep(inner: Weak<Inner>, fence: i64, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let Some(inner) = inner.upgrade() else { return };
        if inner.lease.fence() != Some(fence) {
            return;
        }
        match renew(&inner, fence).await {
            Ok(true) => {}
            Ok(false) => {
                tracing::error!("another gateway has taken over");
                return inner.lease.lost();
            }
            Err(error) => tracing::warn!(%error, "the lease of the store cannot be renewed"),
        }
    }
}

async fn renew(inner: &Inner, fence: i64) -> Result<bool, StoreError> {
    let Lease { shard, lasts, .. } = &inner.lease;
    let client = inner.leasing().await?;
    let renewed = client.execute(schema::RENEW, &[shard, &fence, &lasts.as_secs_f64()]).await.map_err(words)?;
    let size: i64 = client.query_one(schema::SIZE, &[]).await.map_err(words)?.get(0);
    inner.bytes.store(size.unsigned_abs(), Ordering::Relaxed);
    Ok(renewed == 1)
}
