//! The terms of clusters, by kind of home.

use dream_edge::HomeKind;
use dream_protocol::params::{Params, Share, Terms};

use crate::accuracy::Range;
use crate::settings::{Epsilon, Settings};

/// The terms of a kind of home, but for what was asked for.
pub(super) fn terms(kind: HomeKind, settings: &Settings, slot_seconds: u64) -> Terms {
    let (lo, hi) = settings.asked_range().map_or_else(|| kind.range(), Range::ends);
    under(kind, settings, Terms { lo, hi, ..Terms::with_slots_of(slot_seconds) })
}

/// The terms of a kind of home in another range.
pub(super) fn under(kind: HomeKind, settings: &Settings, terms: Terms) -> Terms {
    /// No slot has a larger epsilon, whatever the day's is.
    const MOST: u64 = 1_000_000;
    let (epsilon_numerator, epsilon_denominator) =
        settings.asked_epsilon().map_or_else(|| kind.epsilon(), Epsilon::fraction);
    let stated = Terms { epsilon_numerator, epsilon_denominator, ..terms };
    match (settings.asked_epsilon(), settings.day_micro_rho()) {
        (_, None) => stated.with_day_rms(kind.rms_watts()),
        (Some(_), Some(day_micro_rho)) => Terms { day_micro_rho, ..stated },
        (None, Some(rho)) => terms.with_day_rho(rho, kind.rms_watts(), MOST).unwrap_or(stated),
    }
}

/// The same terms for a cluster of so many. Half of alpha may be silent, half malicious, but a tenth is always reckoned with as
/// malicious, and no more than a fifth may be silent.
pub(super) fn params(members: usize, terms: Terms, settings: &Settings) -> Result<Params, String> {
    let alpha = settings.alpha().percent();
    let malicious = alpha.div_ceil(2).max(10).max(alpha.saturating_sub(20));
    let silent = alpha
        .checked_sub(malicious)
        .ok_or("It needs an --alpha of 0.1 or more: meters always reckon with a tenth of malicious members.")?;
    let share = |percent| Share::new(percent, 100).expect("less than all");
    let members = u16::try_from(members).map_err(|_| "It needs a --size of 65535 or less.".to_owned())?;
    terms
        .for_members(members, share(silent), share(malicious), 10)
        .map_err(|error| format!("These terms do not fit: {error}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alpha_is_split_as_meters_allow() {
        let split = |alpha: &str| {
            let settings = Settings::with_alpha(alpha);
            params(1000, Terms::DEFAULT, &settings).map(|params| (params.max_missing(), params.max_malicious()))
        };
        assert_eq!(split("0.2"), Ok((100, 100)));
        assert_eq!(split("0.1"), Ok((0, 100)));
        assert_eq!(split("0.5"), Ok((200, 300)));
        assert!(split("0.05").unwrap_err().contains("--alpha of 0.1"));
    }

    #[test]
    fn terms_are_those_of_the_kind_but_for_what_was_asked_for() {
        assert_eq!(terms(HomeKind::House, &Settings::default(), 600), HomeKind::House.usual_terms(Terms::DEFAULT));
        let asked = Settings::asking("0..10000", "0.5", None);
        let terms_asked = terms(HomeKind::House, &asked, 600);
        assert_eq!((terms_asked.hi, terms_asked.epsilon_numerator, terms_asked.epsilon_denominator), (10_000, 1, 2));
        // 144 times the square of 1,750 W, under noise of 20 kW.
        assert_eq!(terms_asked.day_micro_rho, 1_102_500);
        let both = terms(HomeKind::House, &Settings::asking("0..10000", "0.5", Some("4")), 600);
        assert_eq!((both.day_micro_rho, both.epsilon_denominator), (311_064, 2));
        let day = terms(HomeKind::House, &Settings::asking("0..10000", "", Some("4")), 600);
        assert_eq!((day.day_micro_rho, day.epsilon_numerator), (311_064, 132_793));
    }
}
