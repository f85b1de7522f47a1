//! Clocks of simulations: one that follows tokio's, and one that runs at a pace of its own.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use dream_edge::clock;
use dream_protocol::time::{Now, Timestamp};
use tokio::time::Instant;

/// Both clocks of a meter, which follow the clock of tokio. Where that is paused, as in tests, time advances at once to
/// whatever is due next.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    begun: Instant,
    wall: Timestamp,
}

impl Clock {
    /// Starts a clock at the present time of day.
    pub fn start() -> Self {
        Self { begun: Instant::now(), wall: clock::wall() }
    }

    pub fn now(self) -> Now {
        let passed = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        Now { wall: self.wall.plus_millis(passed), monotonic_millis: passed }
    }
}

/// A clock for a simulation: it starts at a time of day, and then runs at the speed that is set.
///
/// Meters and gateway share one, so that their times agree. A meter's two clocks both follow it.
#[derive(Debug)]
pub struct SimulatedClock {
    start: Timestamp,
    pace: Mutex<Pace>,
}

/// Since when the clock runs as it does.
#[derive(Debug, Clone, Copy)]
struct Pace {
    begun: Instant,
    wall: Timestamp,
    speed: f64,
    /// How many hold it back to real time.
    holding: usize,
}

/// Holds a clock back while it is there.
#[derive(Debug)]
pub struct Hold<'a>(&'a SimulatedClock);

impl SimulatedClock {
    /// Starts a clock that is at `start` now, and passes as fast as real time.
    pub fn new(start: Timestamp) -> Self {
        Self { start, pace: Mutex::new(Pace { begun: Instant::now(), wall: start, speed: 1.0, holding: 0 }) }
    }

    /// Lets time pass so many times as fast from now on.
    ///
    /// # Panics
    ///
    /// If the speed is below 1: sleepers would wake too early.
    pub fn set_speed(&self, speed: f64) {
        assert!(speed >= 1.0, "a simulation is no slower than real time");
        self.change(|pace| pace.speed = speed);
    }

    /// Lets time pass no faster than real time until the result is dropped: for long computations, so that a busy
    /// machine does not make meters late.
    pub fn hold(&self) -> Hold<'_> {
        self.change(|pace| pace.holding += 1);
        Hold(self)
    }

    /// Skips the time until `at`, if that is still to come.
    pub fn skip_to(&self, at: Timestamp) {
        self.change(|pace| pace.wall = pace.wall.max(at));
    }

    /// Changes the pace of the clock from now on.
    fn change(&self, change: impl FnOnce(&mut Pace)) {
        let mut pace = self.lock();
        (pace.wall, pace.begun) = (pace.wall_now(), Instant::now());
        change(&mut pace);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl clock::Clock for SimulatedClock {
    fn both(&self) -> Now {
        let wall = self.lock().wall_now();
        Now { wall, monotonic_millis: wall.millis_since(self.start) }
    }

    /// If nobody holds the clock back until then.
    fn to_sleep(&self, span: Duration) -> Duration {
        span.div_f64(self.lock().speed)
    }

    fn is_simulated(&self) -> bool {
        true
    }
}

impl Pace {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast to an integer saturates")]
    fn wall_now(&self) -> Timestamp {
        let speed = if self.holding > 0 { 1.0 } else { self.speed };
        self.wall.plus_millis((self.begun.elapsed().as_secs_f64() * 1000.0 * speed) as u64)
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.change(|pace| pace.holding -= 1);
    }
}

#[cfg(test)]
mod tests {
    use dream_edge::clock::Clock as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn simulated_time_passes_as_fast_as_it_is_told() {
        let start = Timestamp::from_secs(1_000_000);
        let clock = SimulatedClock::new(start);
        let told = || clock.now().millis_since(start);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(told(), 2_000);
        clock.set_speed(150.0);
        tokio::time::advance(Duration::from_secs(4)).await;
        assert_eq!(told(), 602_000);
        assert_eq!(clock.to_sleep(Duration::from_secs(600)), Duration::from_secs(4));
        clock.skip_to(start.plus_secs(1200));
        assert_eq!(told(), 1_200_000);
        clock.skip_to(start);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(told(), 1_350_000, "it goes on at its pace and never back");
        assert_eq!(clock.both().monotonic_millis, told());
        let holds = [clock.hold(), clock.hold()];
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(told(), 1_351_000, "held back to real time");
        drop(holds);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(told(), 1_501_000);
    }
}
