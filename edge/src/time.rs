//! How instants are written, by the calendar of jiff.

use dream_protocol::time::Timestamp;

/// Writes an instant as RFC 3339 in UTC. Instants beyond the year 9999 are shown as its end.
pub fn rfc3339(at: Timestamp) -> String {
    calendar(at).to_string()
}

/// Writes Unix seconds as a time in UTC, to the minute.
pub fn utc(seconds: u64) -> String {
    calendar(Timestamp::from_secs(seconds)).strftime("%Y-%m-%d %H:%M UTC").to_string()
}

/// Returns an instant of the calendar.
pub fn calendar(at: Timestamp) -> jiff::Timestamp {
    let millis = i64::try_from(at.as_millis()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_written_in_utc() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (1_794_890_000_050, "2026-11-17T04:33:20.05Z"),
            (u64::MAX, "9999-12-30T22:00:00.999999999Z"),
        ] {
            assert_eq!(rfc3339(Timestamp::from_millis(millis)), text);
        }
    }

    #[test]
    fn times_for_people_are_written_to_the_minute() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_868_740, "2000-02-29 23:59 UTC"),
            (1_794_960_000, "2026-11-18 00:00 UTC"),
            (4_102_444_799, "2099-12-31 23:59 UTC"),
        ] {
            assert_eq!(utc(seconds), text);
        }
    }
}
