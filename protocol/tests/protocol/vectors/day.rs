//! `day.json`: what a meter reports of readings while the energy account of their day runs out.

use dream_protocol::params::{Params, Terms};
use dream_protocol::simulation::EnergyAccount;

use super::json::{Json, list, object};

/// Noon of a day in 2026, at which a slot of ten minutes starts.
const NOON: u64 = 20_694 * 86_400 + 43_200;

/// One attempt: the start of its slot, the list's range, epsilon and E, and the mean power that was measured.
type Attempt = (u64, (i64, i64), (u64, u64), u64, i64);

pub(crate) fn days() -> Json {
    object! {
        "comment": "protocol.md 5a: attempts of one meter in their order, each under the list in force for its slot, and how \
                    much of the clipped reading x each of them reports. The first attempt of a day reserves the E of its list; \
                    E is in millionths, and 0 is none. Slots have ten minutes.",
        "cases": list(cases(), |(name, attempts)| case(name, &attempts)),
    }
}

fn case(name: &str, attempts: &[Attempt]) -> Json {
    let mut account = EnergyAccount::default();
    let attempts = attempts.iter().map(|&(start, (lo, hi), (en, ed), day_micro_epsilon, measured)| {
        let terms = Terms {
            max_malicious: 10,
            lo,
            hi,
            epsilon_numerator: en,
            epsilon_denominator: ed,
            day_micro_epsilon,
            ..Terms::DEFAULT
        };
        let params = Params::new(100, terms).unwrap();
        let scale = params.noise_scale();
        object! {
            "slot_start": start,
            "lo": lo,
            "hi": hi,
            "epsilon": vec![en.into(), ed.into()],
            "lambda": vec![scale.numerator().into(), scale.denominator().into()],
            "day_micro_epsilon": day_micro_epsilon,
            "measured": measured,
            "x": measured.clamp(lo, hi),
            "reported": account.report(&params, params.slot_at(dream_testkit::example::at(start)), measured),
        }
    });
    object! { "name": name, "attempts": Json::List(attempts.collect()) }
}

fn cases() -> Vec<(&'static str, Vec<Attempt>)> {
    let house = |ahead: u64, day, measured| (NOON + 600 * ahead, (0, 5000), (1, 1), day, measured);
    let signed = |ahead: u64, measured| (NOON + 600 * ahead, (-8000, 8000), (1, 2), 2_000_000, measured);
    let odd = |ahead: u64, epsilon, day, measured| (NOON + 600 * ahead, (0, 4999), epsilon, day, measured);
    let three = 3_000_000;
    vec![
        (
            "what is left, and then 0",
            vec![
                house(0, three, 4000),
                house(1, three, 2000),
                house(2, three, 9000),
                house(3, three, 4000),
                house(4, three, 1),
            ],
        ),
        (
            "two attempts of one slot",
            vec![house(0, three, 3500), house(0, three, 3500), house(1, three, 3500), house(1, three, 3500)],
        ),
        ("feeding in", vec![signed(0, -9000), signed(1, 5000), signed(2, -9000), signed(3, -9000), signed(4, 8000)]),
        (
            "midnight between two slots",
            vec![house(70, three, 5000), house(71, three, 4900), house(72, three, 4800), house(73, three, 4700)],
        ),
        (
            "fractions of a watt",
            vec![
                odd(0, (7, 9), 1_000_001, 1000),
                odd(1, (7, 9), 1_000_001, 1111),
                odd(2, (7, 9), 1_000_001, 4000),
                odd(3, (7, 9), 1_000_001, 4000),
            ],
        ),
        (
            "a list of another lambda and less E, one of more, and one of none",
            vec![
                house(0, 6_000_000, 4000),
                odd(1, (1, 3), 5_000_000, 4000),
                (NOON + 1200, (-3000, 9000), (1, 1), 80_000_000, -4000),
                house(3, 0, 5500),
                house(4, 2_000_000, 1234),
                house(5, 6_000_000, 4321),
                odd(6, (1, 3), 6_000_000, 4444),
                (NOON + 4200, (-3000, 9000), (1, 1), 80_000_000, 8765),
                (NOON + 4800, (-3000, 9000), (1, 1), 80_000_000, -2000),
                house(9, 0, 5500),
            ],
        ),
        (
            "much noise",
            vec![odd(0, (1, 400_000), 2, 1999), odd(1, (1, 400_000), 2, 4000), odd(2, (1, 400_000), 2, 4000)],
        ),
    ]
}
