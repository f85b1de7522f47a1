//! The clocks of this machine, and whether its wall clock is right.

use std::fmt::Debug;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use dream_protocol::time::Timestamp;

/// Returns the time of day, which somebody may set.
pub fn wall() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Whether the wall clock follows a source of time, by somebody who knows.
pub trait TimeSource: Debug {
    fn is_synchronised(&self) -> bool;

    /// Returns whether asking again later tells anything.
    fn is_worth_asking_again(&self) -> bool {
        true
    }
}

/// Asks this machine: a Raspberry Pi, for one, has no clock that outlives a power cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SystemTimeSource {
    /// The file that systemd-timesyncd makes once it has the time; where there is none, `timedatectl`, which also knows of
    /// chrony and ntpd.
    Asked { flag: PathBuf },
    /// The owner says that the clock of this machine is always right.
    Trusted,
}

impl TimeSource for SystemTimeSource {
    fn is_synchronised(&self) -> bool {
        match self {
            Self::Asked { flag } => flag.exists() || timedatectl(),
            Self::Trusted => true,
        }
    }

    fn is_worth_asking_again(&self) -> bool {
        match self {
            Self::Asked { .. } => true,
            Self::Trusted => false,
        }
    }
}

/// Asks systemd whether the kernel's clock is synchronised, by whomever. Where there is no systemd nobody answers.
fn timedatectl() -> bool {
    let mut command = Command::new("timedatectl");
    command.args(["show", "--property=NTPSynchronized", "--value"]).stdin(Stdio::null()).stderr(Stdio::null());
    command.output().is_ok_and(|output| output.stdout.trim_ascii() == b"yes")
}

/// Writes Unix seconds as a time in UTC, to the minute.
pub fn utc(seconds: u64) -> String {
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute) = (seconds / 3600 % 24, seconds / 60 % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

/// Returns year, month and day of a day that is counted from the beginning of 1970. Years begin in March here, so that a leap
/// day is their last, and 400 of them have 146,097 days.
const fn date(days: u64) -> (u64, u64, u64) {
    let since = days + 719_468; // 0000-03-01
    let (era, of_era) = (since / 146_097, since % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let (month, next) = if from_march < 10 { (from_march + 3, 0) } else { (from_march - 9, 1) };
    (era * 400 + year_of_era + next, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399, "2000-02-28 23:59 UTC"),
            (951_868_740, "2000-02-29 23:59 UTC"),
            (1_794_960_000, "2026-11-18 00:00 UTC"),
            (4_102_444_799, "2099-12-31 23:59 UTC"),
        ] {
            assert_eq!(utc(seconds), text);
        }
    }

    #[test]
    fn a_flag_file_says_that_the_clock_is_right() {
        let folder = tempfile::tempdir().unwrap();
        let flag = folder.path().join("synchronized");
        std::fs::write(&flag, "").unwrap();
        assert!(SystemTimeSource::Asked { flag }.is_synchronised());
        assert!(SystemTimeSource::Trusted.is_synchronised());
    }
}
