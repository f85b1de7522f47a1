//! An hour or a day as it is stored.

use dream_protocol::time::Timestamp;

use super::Rollup;

/// The first byte of a row, before its numbers.
const VERSION: u8 = 2;
const WORDS: usize = 20;

impl Rollup {
    /// Returns the row as it is stored beside its start.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut row = Vec::with_capacity(1 + 8 * WORDS);
        row.push(VERSION);
        for word in [
            self.end.as_millis(),
            self.first.as_millis(),
            self.last.as_millis(),
            self.measured_millis,
            self.filled_millis,
            self.watt_seconds.to_bits(),
            self.variance.to_bits(),
            self.tails.to_bits(),
            self.filled_deviation.to_bits(),
            self.filtered_millis,
            self.filtered_watt_seconds.to_bits(),
            self.filtered_band95.to_bits(),
            self.slots,
            self.decoded,
            self.members,
            self.responders,
            self.micro_epsilon,
            self.cut_off_watt_seconds.to_bits(),
            self.cut_off_lasting.to_bits(),
            self.cut_off_daily.to_bits(),
        ] {
            row.extend_from_slice(&word.to_be_bytes());
        }
        row
    }

    /// Returns the row that is stored so; `None` if it is none.
    pub(crate) fn decode(start: Timestamp, row: &[u8]) -> Option<Self> {
        let (version, row) = row.split_first()?;
        let (words, []) = row.as_chunks() else { return None };
        if *version != VERSION {
            return None;
        }
        let words: &[[u8; 8]; WORDS] = words.try_into().ok()?;
        let words = words.map(u64::from_be_bytes);
        let [end, first, last, measured_millis, filled_millis, rest @ ..] = words;
        let [watt_seconds, variance, tails, filled_deviation, filtered_millis, rest @ ..] = rest;
        let [filtered_watt_seconds, filtered_band95, slots, decoded, members, responders, micro_epsilon, rest @ ..] =
            rest;
        let [cut_off_watt_seconds, cut_off_lasting, cut_off_daily] = rest.map(f64::from_bits);
        Some(Self {
            start,
            end: Timestamp::from_millis(end),
            first: Timestamp::from_millis(first),
            last: Timestamp::from_millis(last),
            measured_millis,
            filled_millis,
            watt_seconds: f64::from_bits(watt_seconds),
            variance: f64::from_bits(variance),
            tails: f64::from_bits(tails),
            filled_deviation: f64::from_bits(filled_deviation),
            cut_off_watt_seconds,
            cut_off_lasting,
            cut_off_daily,
            filtered_millis,
            filtered_watt_seconds: f64::from_bits(filtered_watt_seconds),
            filtered_band95: f64::from_bits(filtered_band95),
            slots,
            decoded,
            members,
            responders,
            micro_epsilon,
        })
    }
}

#[cfg(test)]
mod tests {
    use dream_edge::cut_off::CutOff;
    use dream_testkit::outcomes::Slotted;

    use super::*;
    use crate::history::{ClosedSlot, FilteredLoad};

    #[test]
    fn a_row_is_stored_to_the_bit_and_another_is_refused() {
        let (start, end) = (Timestamp::from_secs(86_400), Timestamp::from_secs(2 * 86_400));
        let mut day = Rollup::new(start..end);
        for slot in 144..200 {
            let cut_off = Some(CutOff { share: 9000, lasting: 400, daily: 500, passing: 600 });
            day.add(&ClosedSlot { cut_off, ..Slotted::new(slot).decoded(54_321, 90).into() });
        }
        let predicted = Some(FilteredLoad { watts: 30_000, band95: 9000 });
        day.add(&ClosedSlot { predicted, ..Slotted::new(200).failed("interrupted", 0).into() });
        let row = day.encode();
        assert_eq!(Rollup::decode(day.start, &row), Some(day));
        let mut later = row.clone();
        later[0] += 1;
        for other in [&[][..], &row[..row.len() - 1], &later, &[&row[..], &[0; 8]].concat()] {
            assert_eq!(Rollup::decode(day.start, other), None);
        }
    }
}
