//! The clocks, passed in where they are needed: tests and demonstrations run in a time of their own.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dream_protocol::time::{Now, Timestamp};
use rustix::time::{ClockId, clock_gettime};

/// Tells the time. The wall clock may be set, and jump, while nothing happens.
pub trait Clock: Debug + Send + Sync {
    /// Returns the wall clock, and one beside it that is never set.
    fn both(&self) -> Now;

    /// Returns the time by which slots begin and end.
    fn now(&self) -> Timestamp {
        self.both().wall
    }

    /// Returns for how long to sleep until the clock has gone on by `span`.
    fn to_sleep(&self, span: Duration) -> Duration {
        span
    }

    /// Returns whether this is the time of a simulation, which pages then say.
    fn is_simulated(&self) -> bool {
        false
    }
}

/// The clocks of this machine. The one that is never set goes on while the machine sleeps.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn both(&self) -> Now {
        let since_boot = Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default();
        Now { wall: wall(), monotonic_millis: millis(since_boot) }
    }
}

/// Returns the time of day of this machine.
pub fn wall() -> Timestamp {
    Timestamp::from_millis(millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()))
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// How far the wall clock may be from where the steady one expects it: a minute, and a thousandth of the time since both were
/// last compared, which is more than any crystal drifts.
const TOLERANCE_MILLIS: u64 = 60_000;
const DRIFT: u64 = 1_000;

/// For how long two clocks that agree are compared from the same moment. Small steps that add up within it are noticed.
const ANCHORED_MILLIS: u64 = 86_400_000;

/// What the wall clock is worth, beside the steady one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nobody has said yet that it is right: it is followed wherever it goes.
    Unconfirmed,
    /// It was right once, and both clocks have gone on alike since.
    Agrees,
    /// It has jumped by so many milliseconds, back if that is negative, and is not followed.
    Ahead(i64),
}

/// A clock that does not jump once it is known to be right: the wall clock, and instead of one that jumps the steady clock,
/// from the last moment at which both were right.
#[derive(Debug)]
pub struct SteadyClock {
    clock: Arc<dyn Clock>,
    /// When the wall clock was last known to be right.
    anchor: Mutex<Option<Now>>,
}

impl SteadyClock {
    /// Follows a clock of which nothing is known yet.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, anchor: Mutex::default() }
    }

    /// Takes the wall clock as it is now for right.
    pub fn confirm(&self) {
        *self.anchor.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.clock.both());
    }

    /// Returns what the wall clock is worth.
    pub fn standing(&self) -> Standing {
        self.look().1
    }

    fn look(&self) -> (Now, Standing) {
        let seen = self.clock.both();
        let mut anchored = self.anchor.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(anchor) = *anchored else { return (seen, Standing::Unconfirmed) };
        let passed = seen.monotonic_millis.saturating_sub(anchor.monotonic_millis);
        let steady = anchor.wall.plus_millis(passed);
        let (ahead, behind) = (seen.wall.millis_since(steady), steady.millis_since(seen.wall));
        if ahead.max(behind) > TOLERANCE_MILLIS + passed / DRIFT {
            let signed = |millis: u64| i64::try_from(millis).unwrap_or(i64::MAX);
            return (Now { wall: steady, ..seen }, Standing::Ahead(signed(ahead) - signed(behind)));
        }
        if passed >= ANCHORED_MILLIS {
            *anchored = Some(seen);
        }
        (seen, Standing::Agrees)
    }
}

impl Clock for SteadyClock {
    fn both(&self) -> Now {
        self.look().0
    }

    fn to_sleep(&self, span: Duration) -> Duration {
        self.clock.to_sleep(span)
    }

    fn is_simulated(&self) -> bool {
        self.clock.is_simulated()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two clocks that a test sets.
    #[derive(Debug)]
    struct Hands(Mutex<Now>);

    impl Clock for Hands {
        fn both(&self) -> Now {
            *self.0.lock().unwrap()
        }
    }

    const BEGIN: Timestamp = Timestamp::from_secs(1_794_837_600);
    const HOUR: u64 = 3_600_000;

    fn at(wall_millis: u64, monotonic_millis: u64) -> Now {
        Now { wall: BEGIN.plus_millis(wall_millis), monotonic_millis }
    }

    /// A clock that was right at the beginning, and how to set it.
    fn confirmed() -> (SteadyClock, impl Fn(u64, u64)) {
        let hands = Arc::new(Hands(Mutex::new(at(0, 0))));
        let clock = SteadyClock::new(hands.clone());
        clock.confirm();
        (clock, move |wall, monotonic| *hands.0.lock().unwrap() = at(wall, monotonic))
    }

    #[test]
    fn a_clock_that_nobody_confirmed_is_followed_wherever_it_goes() {
        let hands = Arc::new(Hands(Mutex::new(at(0, 0))));
        let clock = SteadyClock::new(hands.clone());
        *hands.0.lock().unwrap() = at(40 * 24 * HOUR, 1000);
        assert_eq!((clock.now(), clock.standing()), (BEGIN.plus_millis(40 * 24 * HOUR), Standing::Unconfirmed));
    }

    #[test]
    fn a_jump_is_not_followed_until_it_is_taken_back_or_confirmed() {
        let (clock, set) = confirmed();
        set(HOUR + 10_000, 10_000);
        assert_eq!((clock.now(), clock.standing()), (BEGIN.plus_millis(10_000), Standing::Ahead(3_600_000)));
        set(20_000, 20_000);
        assert_eq!((clock.now(), clock.standing()), (BEGIN.plus_millis(20_000), Standing::Agrees));
        *clock.anchor.lock().unwrap() = Some(at(2 * HOUR, 20_000));
        assert_eq!((clock.now(), clock.standing()), (BEGIN.plus_millis(2 * HOUR), Standing::Ahead(20_000 - 7_200_000)));
        clock.confirm();
        assert_eq!((clock.now(), clock.standing()), (BEGIN.plus_millis(20_000), Standing::Agrees));
    }

    #[test]
    fn a_machine_that_slept_does_not_jump() {
        let (clock, set) = confirmed();
        set(10 * HOUR, 10 * HOUR);
        assert_eq!((clock.now(), clock.standing()), (BEGIN.plus_millis(10 * HOUR), Standing::Agrees));
    }

    #[test]
    fn small_corrections_are_followed_and_do_not_add_up_within_a_day() {
        let (clock, set) = confirmed();
        for step in 1..=3 {
            set(step * 25_000, step);
            let standing = if step < 3 { Standing::Agrees } else { Standing::Ahead(74_997) };
            assert_eq!(clock.standing(), standing);
        }
        // A minute and a half a day is a drift.
        let (clock, set) = confirmed();
        for day in 1..=30 {
            set(day * (24 * HOUR + 90_000), day * 24 * HOUR);
            assert_eq!(
                (clock.now(), clock.standing()),
                (BEGIN.plus_millis(day * (24 * HOUR + 90_000)), Standing::Agrees)
            );
        }
    }

    #[test]
    fn the_steady_clock_of_this_machine_goes_on() {
        let before = SystemClock.both().monotonic_millis;
        std::thread::sleep(Duration::from_millis(5));
        assert!(SystemClock.both().monotonic_millis > before);
    }
}
