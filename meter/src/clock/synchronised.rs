//! Whether the wall clock follows a source of time.
//!
//! A clock that somebody sets must not be confirmed by what was true before. So steps are looked for, and after one only a
//! *later* synchronisation counts, and never at once; but a clock that goes back to where the monotonic one expects it, since it was
//! last confirmed, is as right as before. Before the first look nothing is known of steps; what is asked then must
//! be recent. Somebody who controls the source of time, or this machine, can still make the meter believe any time.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::UNIX_EPOCH;

use dream_protocol::time::{Now, Timestamp};

/// How far wall clock and monotonic clock may drift apart between two confirmations. Daemons slew by less.
const STEP_MILLIS: u64 = 1_000;

/// By what share of the time passed crystals drift apart at most: a thousandth.
const DRIFT: u64 = 1_000;

/// For how long after a step nothing is believed.
const QUIET_MILLIS: u64 = 60_000;

/// For how long a synchronisation counts: twice the longest interval at which systemd-timesyncd asks, and a bit more.
const RECENT_MILLIS: u64 = 75 * 60_000;

/// By how much a synchronisation may seem to be in the future: times of files are coarse.
const COARSE_MILLIS: u64 = 2_000;

/// Says what is known of the wall clock, by somebody who knows.
pub trait TimeSource: Debug {
    /// Returns whether the kernel's clock is synchronised, if it can be asked. A kernel forgets that when the clock is set.
    fn kernel_is_synchronised(&self) -> Option<bool>;

    /// Returns when the clock was last synchronised, on that clock.
    fn last_synchronised(&self) -> Option<Timestamp>;

    /// Returns whether the clock is believed without a question, as its owner says.
    fn is_trusted(&self) -> bool {
        false
    }
}

/// Follows the two clocks, and says whether the wall clock can be believed.
#[derive(Debug)]
pub struct Synchronised<'a> {
    source: &'a dyn TimeSource,
    /// When both clocks were first seen, or last confirmed, or since the last step: small steps that add up are noticed too.
    anchor: Option<Now>,
    step: Option<Step>,
    /// When the clock was last known to be right.
    confirmed: Option<Now>,
}

#[derive(Debug)]
struct Step {
    seen_at: Now,
    /// The synchronisation that was known then.
    known: Option<Timestamp>,
}

impl<'a> Synchronised<'a> {
    pub const fn new(source: &'a dyn TimeSource) -> Self {
        Self { source, anchor: None, step: None, confirmed: None }
    }

    /// Looks whether the clock was set, and returns whether it is right again after it was wrong. To be called often; asks nobody
    /// if it was not set.
    pub fn look(&mut self, now: Now) -> bool {
        let anchor = *self.anchor.get_or_insert(now);
        if apart(anchor, now) <= STEP_MILLIS {
            return false;
        }
        self.anchor = Some(now);
        let passed = |since: Now| now.monotonic_millis.saturating_sub(since.monotonic_millis);
        // Whatever it was set to in between, nobody has touched the monotonic clock.
        let is_back = self.confirmed.is_some_and(|right| apart(right, now) <= STEP_MILLIS + passed(right) / DRIFT);
        let known = self.source.last_synchronised();
        self.step = (!is_back).then_some(Step { seen_at: now, known });
        is_back
    }

    /// Returns whether the clock is right now. If so, it is followed from here on.
    pub fn is_confirmed(&mut self, now: Now) -> bool {
        self.look(now);
        let confirmed = self.source.is_trusted() || self.is_synchronised(now);
        if confirmed {
            (self.anchor, self.step, self.confirmed) = (Some(now), None, Some(now));
        }
        confirmed
    }

    fn is_synchronised(&self, now: Now) -> bool {
        let since = |step: &Step| now.monotonic_millis.saturating_sub(step.seen_at.monotonic_millis);
        if self.step.as_ref().is_some_and(|step| since(step) < QUIET_MILLIS) {
            return false;
        }
        self.source.kernel_is_synchronised().unwrap_or_else(|| {
            let last = self.source.last_synchronised();
            let is_later = self.step.as_ref().is_none_or(|step| last != step.known);
            is_later
                && last.is_some_and(|last| {
                    now.wall.millis_since(last) <= RECENT_MILLIS && last.millis_since(now.wall) <= COARSE_MILLIS
                })
        })
    }
}

/// Returns how far the wall clock is from where the monotonic one expects it since a moment.
fn apart(since: Now, now: Now) -> u64 {
    let expected = since.wall.plus_millis(now.monotonic_millis.saturating_sub(since.monotonic_millis));
    expected.millis_since(now.wall).max(now.wall.millis_since(expected))
}

/// Asks this machine: a Raspberry Pi, for one, has no clock that outlives a power cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SystemTimeSource {
    /// systemd, for the state of the kernel's clock, whatever keeps it. Where systemd does not answer, as in a container: the file that
    /// systemd-timesyncd touches whenever it has synchronised the clock, or chrony.
    Asked { flag: PathBuf },
    /// The owner says that the clock of this machine is always right.
    Trusted,
}

impl TimeSource for SystemTimeSource {
    fn kernel_is_synchronised(&self) -> Option<bool> {
        match printed("timedatectl", &["show", "--property=NTPSynchronized", "--value"])?.as_str() {
            "yes" => Some(true),
            "no" => Some(false),
            _ => None,
        }
    }

    fn last_synchronised(&self) -> Option<Timestamp> {
        let Self::Asked { flag } = self else { return None };
        touched(flag).or_else(|| tracking(&printed("chronyc", &["-c", "tracking"])?))
    }

    fn is_trusted(&self) -> bool {
        *self == Self::Trusted
    }
}

/// Returns when a file was last touched.
fn touched(path: &Path) -> Option<Timestamp> {
    let since = path.metadata().and_then(|found| found.modified()).ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(Timestamp::from_millis(u64::try_from(since.as_millis()).ok()?))
}

/// Reads what chrony says as comma-separated values: the fourth is the time of the last update from a source.
fn tracking(line: &str) -> Option<Timestamp> {
    let fields: Vec<&str> = line.split(',').collect();
    let (updated, leap) = (fields.get(3)?, fields.last()?);
    let seconds = updated.split('.').next()?.parse().ok().filter(|seconds| *seconds > 0)?;
    (*leap != "Not synchronised").then_some(Timestamp::from_secs(seconds))
}

/// Returns what a program prints, if it is there and succeeds.
fn printed(program: &str, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::Duration;

    use super::*;

    const START: Timestamp = Timestamp::from_secs(1_900_000_000);

    /// A machine without systemd, as a container is: all that is known is in a file.
    #[derive(Debug)]
    struct FlagAlone {
        folder: tempfile::TempDir,
    }

    impl FlagAlone {
        fn new() -> Self {
            Self { folder: tempfile::tempdir().unwrap() }
        }

        fn touch(&self, at: Timestamp) {
            let file = File::create(self.folder.path().join("synchronized")).unwrap();
            file.set_modified(UNIX_EPOCH + Duration::from_millis(at.as_millis())).unwrap();
        }
    }

    impl TimeSource for FlagAlone {
        fn kernel_is_synchronised(&self) -> Option<bool> {
            None
        }

        fn last_synchronised(&self) -> Option<Timestamp> {
            SystemTimeSource::Asked { flag: self.folder.path().join("synchronized") }.last_synchronised()
        }
    }

    /// The clocks so many seconds after the start, with a wall clock that was set forward by so many.
    fn after(seconds: u64, ahead: u64) -> Now {
        Now { wall: START.plus_millis(1000 * (seconds + ahead)), monotonic_millis: 5_000 + 1000 * seconds }
    }

    #[test]
    fn a_file_proves_a_synchronisation_only_while_it_is_recent() {
        let source = FlagAlone::new();
        assert!(!Synchronised::new(&source).is_confirmed(after(0, 0)), "there is no file");
        source.touch(START);
        for (seconds, confirmed) in [(0, true), (75 * 60, true), (75 * 60 + 1, false)] {
            assert_eq!(Synchronised::new(&source).is_confirmed(after(seconds, 0)), confirmed, "{seconds}");
        }
        source.touch(START.plus_millis(3_000));
        assert!(!Synchronised::new(&source).is_confirmed(after(0, 0)), "from the future: the clock was set back");
    }

    #[test]
    fn a_clock_that_was_set_is_confirmed_by_a_later_synchronisation_alone() {
        let source = FlagAlone::new();
        source.touch(START);
        let mut clock = Synchronised::new(&source);
        assert!(clock.is_confirmed(after(0, 0)));
        assert!(clock.is_confirmed(after(600, 0)), "ten minutes later nothing has changed");
        let ahead = 1_800;
        clock.look(after(700, ahead));
        for seconds in [700, 759, 760, 1_200, 2_400] {
            assert!(!clock.is_confirmed(after(seconds, ahead)), "{seconds}: the file is older than the step");
        }
        source.touch(after(2_500, ahead).wall);
        assert!(clock.is_confirmed(after(2_501, ahead)));
        assert!(clock.is_confirmed(after(3_000, ahead)), "and the step is forgotten");
    }

    #[test]
    fn a_clock_that_was_set_back_is_not_confirmed_when_it_comes_by_the_old_time_again() {
        let source = FlagAlone::new();
        source.touch(START.plus_millis(1000 * 3_600));
        let mut clock = Synchronised::new(&source);
        assert!(clock.is_confirmed(after(0, 3_600)));
        for seconds in [10, 100, 3_590, 3_600, 3_700] {
            assert!(!clock.is_confirmed(after(seconds, 0)), "{seconds}");
        }
    }

    #[test]
    fn steps_too_small_to_notice_add_up() {
        let source = FlagAlone::new();
        source.touch(START);
        let mut clock = Synchronised::new(&source);
        assert!(clock.is_confirmed(after(0, 0)));
        for step in 1..=5 {
            let now = after(10 * step, 0);
            clock.look(Now { wall: now.wall.plus_millis(400 * step), ..now });
        }
        assert!(clock.step.is_some());
    }

    #[test]
    fn a_clock_an_hour_ahead_for_a_while_is_right_again_at_once_when_it_comes_back() {
        for source in [&SystemTimeSource::Trusted as &dyn TimeSource, &Kernel(true)] {
            let mut clock = Synchronised::new(source);
            assert!(clock.is_confirmed(after(0, 0)));
            assert!(!clock.look(after(100, 3_600)), "it jumps");
            assert!(!clock.look(after(150, 3_600)));
            assert!(clock.look(after(160, 0)), "it comes back");
            assert!(!clock.look(after(170, 0)), "said once");
            assert!(clock.is_confirmed(after(180, 0)), "nothing is held against it");
        }
    }

    #[test]
    fn a_clock_that_comes_back_to_another_time_is_not_right() {
        let source = FlagAlone::new();
        source.touch(START);
        let mut clock = Synchronised::new(&source);
        assert!(clock.is_confirmed(after(0, 0)));
        assert!(!clock.look(after(100, 3_600)));
        assert!(!clock.look(after(160, 5)), "five seconds off");
        assert!(!clock.is_confirmed(after(300, 5)));
        // Nor is one of which nobody ever knew that it was right.
        let mut clock = Synchronised::new(&source);
        assert!(!clock.look(after(0, 0)) && !clock.look(after(10, 3_600)) && !clock.look(after(20, 0)));
    }

    /// A machine whose kernel is asked.
    #[derive(Debug)]
    struct Kernel(bool);

    impl TimeSource for Kernel {
        fn kernel_is_synchronised(&self) -> Option<bool> {
            Some(self.0)
        }

        fn last_synchronised(&self) -> Option<Timestamp> {
            Some(START)
        }
    }

    #[test]
    fn a_kernel_is_believed_but_not_right_after_a_step() {
        assert!(!Synchronised::new(&Kernel(false)).is_confirmed(after(0, 0)), "whatever a file says");
        let source = Kernel(true);
        let mut clock = Synchronised::new(&source);
        assert!(clock.is_confirmed(after(0, 0)));
        for (seconds, confirmed) in [(10, false), (69, false), (70, true)] {
            assert_eq!(clock.is_confirmed(after(seconds, 300)), confirmed, "{seconds}");
        }
    }

    #[test]
    fn a_clock_is_trusted_if_its_owner_says_so() {
        assert!(Synchronised::new(&SystemTimeSource::Trusted).is_confirmed(after(0, 0)));
    }

    #[test]
    fn chrony_says_when_it_last_heard_from_a_source() {
        let line = "A29FC87B,162.159.200.123,4,1794960000.123456789,0.000012,0.00003,0.0001,-8.5,0.01,0.2,0.02,0.001,64.5,Normal";
        assert_eq!(tracking(line), Some(Timestamp::from_secs(1_794_960_000)));
        assert_eq!(tracking(&line.replace("Normal", "Not synchronised")), None);
        assert_eq!(tracking("7F7F0101,,0,0.000000000,0,0,0,0,0,0,0,0,0,Normal"), None);
        assert_eq!(tracking("506 Cannot talk to daemon"), None);
    }
}
