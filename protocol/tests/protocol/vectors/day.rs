//! `day.json`: what a meter reports of readings while the account of their day runs out.

use dream_protocol::params::{Params, Terms};
use dream_protocol::simulation::DayAccount;

use super::json::{Json, list, object};

/// Noon of a day in 2026, at which a slot of ten minutes starts.
const NOON: u64 = 20_694 * 86_400 + 43_200;

/// One attempt: the start of its slot, the list's range, epsilon and rho, and the mean power that was measured.
type Attempt = (u64, (i64, i64), (u64, u64), u64, i64);

pub(crate) fn days() -> Json {
    object! {
        "comment": "protocol.md 5a: attempts of one meter in their order, each under the list in force for its slot, and how \
                    much of the clipped reading x each of them reports. The first attempt of a day reserves the rho of its \
                    list; rho is in millionths, and 0 is none.",
        "cases": list(cases(), |(name, slot_seconds, attempts)| case(name, slot_seconds, &attempts)),
    }
}

fn case(name: &str, slot_seconds: u64, attempts: &[Attempt]) -> Json {
    let mut account = DayAccount::default();
    let attempts = attempts.iter().map(|&(start, (lo, hi), (en, ed), day_micro_rho, measured)| {
        let terms = Terms {
            max_malicious: 10,
            lo,
            hi,
            epsilon_numerator: en,
            epsilon_denominator: ed,
            day_micro_rho,
            ..Terms::with_slots_of(slot_seconds)
        };
        let params = Params::new(100, terms).unwrap();
        let (scale, slot) = (params.noise_scale(), params.slot_at(dream_testkit::example::at(start)));
        object! {
            "slot": slot.0,
            "lo": lo,
            "hi": hi,
            "epsilon": vec![en.into(), ed.into()],
            "lambda": vec![scale.numerator().into(), scale.denominator().into()],
            "day_micro_rho": day_micro_rho,
            "measured": measured,
            "x": measured.clamp(lo, hi),
            "reported": account.report(&params, slot, measured),
        }
    });
    object! { "name": name, "slot_seconds": slot_seconds, "attempts": Json::List(attempts.collect()) }
}

fn cases() -> Vec<(&'static str, u64, Vec<Attempt>)> {
    const SIXTH: u64 = 600;
    let house = |ahead: u64, rho, measured| (NOON + 600 * ahead, (0, 8000), (1, 2), rho, measured);
    let signed = |ahead: u64, rho, measured| (NOON + 600 * ahead, (-8000, 8000), (1, 2), rho, measured);
    let odd = |ahead: u64, epsilon, rho, measured| (NOON + 600 * ahead, (0, 4999), epsilon, rho, measured);
    let (tenth, third, half) = (100_000, 333_333, 500_000);
    vec![
        (
            "four times the even part of what is left",
            SIXTH,
            vec![
                house(0, half, 8000),
                house(1, half, 8000),
                house(2, half, 1000),
                house(3, half, 8000),
                house(40, half, 8000),
            ],
        ),
        (
            "the last four slots of a day, and 0 when nothing is left",
            SIXTH,
            vec![
                house(67, tenth, 4000),
                house(68, tenth, 4000),
                house(69, tenth, 4000),
                house(70, tenth, 4000),
                house(71, tenth, 4000),
                house(71, tenth, 4000),
                house(71, tenth, 4000),
            ],
        ),
        (
            "two attempts of one slot",
            SIXTH,
            vec![
                house(60, third, 3500),
                house(60, third, 3500),
                house(61, third, 3500),
                house(61, third, 3500),
                house(70, third, 8000),
            ],
        ),
        (
            "readings that may be negative",
            SIXTH,
            vec![
                signed(0, tenth, -9000),
                signed(1, tenth, 500),
                signed(69, tenth, -9000),
                signed(70, tenth, -9000),
                signed(71, tenth, 8000),
            ],
        ),
        (
            "a list whose readings may be negative, and one whose readings may not",
            SIXTH,
            vec![signed(68, half, -8000), house(69, half, 8000), signed(70, half, 8000), house(71, half, 8000)],
        ),
        (
            "midnight between two slots",
            SIXTH,
            vec![house(70, tenth, 5000), house(71, tenth, 4900), house(72, tenth, 4800), house(73, tenth, 4700)],
        ),
        (
            "slots that do not divide a day",
            1000,
            vec![house(0, tenth, 8000), house(71, tenth, 8000), house(72, tenth, 8000), house(74, tenth, 8000)],
        ),
        ("a slot as long as a day", 86_400, vec![house(0, tenth, 8000), house(0, tenth, 8000)]),
        (
            "fractions of a watt",
            SIXTH,
            vec![
                odd(60, (7, 9), 1_000_001, 1000),
                odd(61, (7, 9), 1_000_001, 1111),
                odd(62, (7, 9), 1_000_001, 4000),
                odd(70, (7, 9), 1_000_001, 4000),
                odd(71, (7, 9), 1_000_001, 4000),
            ],
        ),
        (
            "a list of another lambda and less rho, one of more, and one of none",
            SIXTH,
            vec![
                house(60, half, 4000),
                odd(61, (1, 3), 400_000, 4000),
                (NOON + 62 * 600, (-3000, 9000), (1, 1), 80_000_000, -4000),
                house(63, 0, 9500),
                house(64, tenth, 1234),
                house(65, half, 4321),
                odd(66, (1, 3), half, 4444),
                (NOON + 67 * 600, (-3000, 9000), (1, 1), 80_000_000, 8765),
                (NOON + 68 * 600, (-3000, 9000), (1, 1), 80_000_000, -2000),
                house(69, 0, 9500),
            ],
        ),
        ("much noise", SIXTH, vec![odd(69, (1, 400), 1, 1200), odd(70, (1, 400), 1, 4000), odd(71, (1, 400), 1, 4000)]),
        ("little noise", SIXTH, vec![odd(0, (4999, 1), 20_000_000, 4999), odd(71, (4999, 1), 20_000_000, 4999)]),
    ]
}
