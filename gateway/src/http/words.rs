//! Numbers, times and outcomes in words for people.

use dream_protocol::aggregate::Failure;
use dream_protocol::time::Timestamp;
use jiff::tz::TimeZone;
use maud::{Markup, html};

use crate::board::energy::EnergyJson;
use crate::clock::{calendar, rfc3339};

/// Writes a load and its band in one unit: `("93.4", "27.0", "kW")`.
pub(super) fn load(watts: i64, band: u64) -> (String, String, &'static str) {
    let (load, band) = (watts as f64, band as f64);
    let (unit, name) = unit(load.abs().max(band));
    let places = places(load.abs().max(band) / unit);
    (number(load / unit, places), number(band / unit, places), name)
}

/// Writes an energy and its band in one unit: `("3.036", "0.038", "MWh")`. Over time the band becomes small beside the energy, and
/// keeps two digits.
fn energy(watt_hours: i64, band: u64) -> (String, String, String) {
    let (energy, band) = (watt_hours as f64, band as f64);
    let (unit, name) = unit(energy.abs().max(band));
    let places = match band / unit {
        band if band >= 1.0 => 1,
        band if band >= 0.1 => 2,
        _ => 3,
    };
    (number(energy / unit, places), number(band / unit, places), format!("{name}h"))
}

/// Shows an energy in its band.
pub(super) fn energy_within(json: &EnergyJson) -> Markup {
    let (value, band, unit) = energy(json.energy_watt_hours, json.band95_energy_watt_hours);
    html! { (value) " " span.within { "± " (band) } " " (unit) }
}

/// Writes a power on its own: `9 kW`.
pub(super) fn watts(watts: f64) -> String {
    let (unit, name) = unit(watts.abs());
    let text = number(watts / unit, places(watts.abs() / unit));
    format!("{}\u{a0}{name}", shortest(&text))
}

/// Writes a power along an axis that reaches to `most`.
pub(super) fn axis_watts(watts: f64, most: f64) -> String {
    let (unit, name) = unit(most);
    format!("{}\u{a0}{name}", shortest(&number(watts / unit, 2)))
}

fn unit(most: f64) -> (f64, &'static str) {
    match most {
        most if most < 1e3 => (1.0, "W"),
        most if most < 1e6 => (1e3, "kW"),
        most if most < 1e9 => (1e6, "MW"),
        _ => (1e9, "GW"),
    }
}

fn places(value: f64) -> usize {
    if value < 10.0 { 2 } else { 1 }
}

/// With a proper minus sign, and none before what is rounded to 0.
fn number(value: f64, places: usize) -> String {
    let text = format!("{value:.places$}");
    match text.strip_prefix('-') {
        Some(digits) if digits.bytes().all(|byte| matches!(byte, b'0' | b'.')) => digits.to_owned(),
        Some(digits) => format!("\u{2212}{digits}"),
        None => text,
    }
}

/// Without zeros at the end of its decimals.
fn shortest(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// Writes a count with its thousands apart: `1,008`.
pub(super) fn count(count: impl TryInto<u64>) -> String {
    let digits = count.try_into().unwrap_or(u64::MAX).to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

/// Writes a share: `97.2 %`.
pub(super) fn percent(part: usize, whole: usize) -> String {
    share(if whole == 0 { 0.0 } else { part as f64 / whole as f64 })
}

/// Writes a share of 1 alike.
pub(super) fn share(share: f64) -> String {
    format!("{:.1}\u{a0}%", 100.0 * share)
}

/// Writes an epsilon of so many millionths, exact: `0.5`.
pub(super) fn epsilon(micro: u64) -> String {
    shortest(&format!("{}.{:06}", micro / 1_000_000, micro % 1_000_000)).to_owned()
}

/// Writes a length of time: `10 min`.
pub(super) fn duration(seconds: u64) -> String {
    match seconds {
        seconds if seconds >= 3600 && seconds.is_multiple_of(3600) => format!("{} h", seconds / 3600),
        seconds if seconds >= 60 && seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        seconds => format!("{seconds} s"),
    }
}

/// Writes how old something is, in its two largest units: `4 h 20 min`.
pub(super) fn age(seconds: u64) -> String {
    let two = |(large, of), (small, rest)| match rest {
        0 => format!("{large} {of}"),
        rest => format!("{large} {of} {rest} {small}"),
    };
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match hours {
        48.. => two((hours / 24, "days"), ("h", hours % 24)),
        1.. => two((hours, "h"), ("min", minutes % 60)),
        0 if minutes > 0 => format!("{minutes} min"),
        0 => format!("{seconds} s"),
    }
}

fn formatted(at: Timestamp, format: &str) -> String {
    calendar(at).to_zoned(TimeZone::UTC).strftime(format).to_string()
}

/// Writes the time of day in UTC; seconds only if there are any.
pub(super) fn clock(at: Timestamp) -> String {
    formatted(at, if at.as_secs().is_multiple_of(60) { "%H:%M" } else { "%H:%M:%S" })
}

/// Writes the time of day in UTC, to the second.
pub(super) fn clock_seconds(at: Timestamp) -> String {
    formatted(at, "%H:%M:%S")
}

/// Writes the day in UTC: `16 Nov`.
pub(super) fn day(at: Timestamp) -> String {
    formatted(at, "%-d %b")
}

/// Writes the date in UTC: `16 Nov 2026`.
pub(super) fn date(at: Timestamp) -> String {
    formatted(at, "%-d %b %Y")
}

/// Writes an instant for people; with the day, unless it is today.
pub(super) fn instant(at: Timestamp, now: Timestamp) -> String {
    if at.utc_day() == now.utc_day() { clock(at) } else { format!("{}, {}", day(at), clock(at)) }
}

/// Writes an instant for people and machines.
pub(super) fn time(at: Timestamp, now: Timestamp) -> Markup {
    html! { time datetime=(rfc3339(at)) { (instant(at, now)) } }
}

/// Names a list by its epoch, which is the time at which it was made: `list of 16 Nov, 10:20`.
pub(super) fn list(epoch: u64, now: Timestamp) -> String {
    format!("list of {}", instant(Timestamp::from_secs(epoch), now))
}

/// Writes when a list was made, with its epoch as a tooltip; there may be none.
pub(super) fn epoch(epoch: u64, now: Timestamp) -> Markup {
    let at = Timestamp::from_secs(epoch);
    html! {
        @if epoch == 0 { "none" }
        @else { time datetime=(rfc3339(at)) title={ "Epoch " (epoch) } { (instant(at, now)) } }
    }
}

/// Writes from one instant to another; with the days, unless both are today.
pub(super) fn period(from: Timestamp, to: Timestamp, now: Timestamp) -> Markup {
    let dated = |at: Timestamp| html! { time datetime=(rfc3339(at)) { (day(at)) ", " (clock(at)) } };
    html! {
        @if from.utc_day() != to.utc_day() { (dated(from)) " – " (dated(to)) }
        @else { (time(from, now)) "–" time datetime=(rfc3339(to)) { (clock(to)) } }
    }
}

/// Writes a size: `1.3 MB`.
pub(super) fn bytes(bytes: u64) -> String {
    let (size, name) = match bytes {
        0..1_000_000 => (1e3, "kB"),
        1_000_000..1_000_000_000 => (1e6, "MB"),
        _ => (1e9, "GB"),
    };
    format!("{:.1}\u{a0}{name}", bytes as f64 / size)
}

/// Writes a failure in a few words, and what it means.
pub(super) const fn failure(failure: Failure) -> (&'static str, &'static str) {
    match failure {
        Failure::TooManyMissing => (
            "Too many missing",
            "More meters were silent than the list tolerates, so no sum was asked for and none was released.",
        ),
        Failure::RevealMissing => (
            "Reveal missing",
            "A meter sent its reading but did not help to unmask the sum, or too few holders answered, and no attempt was left.",
        ),
        Failure::UnmaskFailed => ("Unmasking failed", "No load for this slot: a meter sent invalid data."),
        Failure::Interrupted => {
            ("Interrupted", "The gateway was away until the slot\u{2019}s windows had passed. No meter is to blame.")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_and_bands_share_a_unit() {
        assert_eq!(load(93_440, 27_000), ("93.4".into(), "27.0".into(), "kW"));
        assert_eq!(load(-250, 900), ("\u{2212}250.0".into(), "900.0".into(), "W"));
        assert_eq!(load(1_234_567, 27_000), ("1.23".into(), "0.03".into(), "MW"));
        assert_eq!(watts(9000.0), "9\u{a0}kW");
        assert_eq!(axis_watts(20_000.0, 100_000.0), "20\u{a0}kW");
        assert_eq!(load(-3, 27_000), ("0.0".into(), "27.0".into(), "kW"));
        assert_eq!(load(-93_440, 27_000), ("\u{2212}93.4".into(), "27.0".into(), "kW"));
        assert_eq!(
            [watts(-8000.0), watts(-0.001), axis_watts(-0.0, 9.0)],
            ["\u{2212}8\u{a0}kW", "0\u{a0}W", "0\u{a0}W"]
        );
        assert_eq!(axis_watts(-500.0, 2500.0), "\u{2212}0.5\u{a0}kW");
    }

    #[test]
    fn bands_of_energies_keep_two_digits() {
        let words = |energy, band| {
            let (energy, band, unit) = super::energy(energy, band);
            format!("{energy} {band} {unit}")
        };
        assert_eq!(words(3_036_400, 38_200), "3.036 0.038 MWh");
        assert_eq!(words(41_312_000, 103_000), "41.31 0.10 MWh");
        assert_eq!(words(136_700, 9600), "136.7 9.6 kWh");
        assert_eq!(words(-250, 900), "\u{2212}250.0 900.0 Wh");
    }

    #[test]
    fn counts_epsilons_and_durations_are_short_and_exact() {
        assert_eq!([count(7u64), count(1008u64), count(1_234_567u64)], ["7", "1,008", "1,234,567"]);
        assert_eq!([epsilon(500_000), epsilon(1_000_000), epsilon(333_334), epsilon(0)], ["0.5", "1", "0.333334", "0"]);
        assert_eq!([duration(600), duration(3600), duration(90), duration(5400)], ["10 min", "1 h", "90 s", "90 min"]);
    }

    #[test]
    fn ages_have_two_units_at_most() {
        let told = [7, 600, 3600, 15_600, 172_799, 172_800, 1_000_000].map(age);
        assert_eq!(told, ["7 s", "10 min", "1 h", "4 h 20 min", "47 h 59 min", "2 days", "11 days 13 h"]);
    }

    #[test]
    fn instants_of_another_day_tell_the_day() {
        let now = Timestamp::from_secs(1_769_860_800);
        let today = time(Timestamp::from_secs(1_769_860_200), now).into_string();
        assert_eq!(today, "<time datetime=\"2026-01-31T11:50:00Z\">11:50</time>");
        let before = time(Timestamp::from_secs(1_769_760_001), now).into_string();
        assert_eq!(before, "<time datetime=\"2026-01-30T08:00:01Z\">30 Jan, 08:00:01</time>");
    }
}
