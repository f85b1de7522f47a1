//! `noise.json` and `params.json`: what follows from a list's terms.

use dream_protocol::code::Coded;
use dream_protocol::noise::{Sampler, Scale, Spread};
use dream_protocol::params::{Params, Terms};
use dream_protocol::scheme::Scheme;
use dream_protocol::scheme::committee::{self, Committee};
use dream_protocol::scheme::pairwise::partners;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

use super::json::{Json, hex, list, object, word};
use super::keys::bytes;
use crate::support::TERMS;

const SHARES: [(u32, u64, u64); 5] = [(1, 9000, 1), (3, 9000, 1), (20, 27_000, 1), (80, 9000, 1), (2, 5, 2)];

const PROBABILITIES: [(u32, u64, u64); 6] =
    [(1, 1, 1), (3, 1, 1), (2, 5, 2), (3, 9000, 1), (20, 9000, 1), (80, 9000, 1)];

pub(crate) fn noise() -> Json {
    object! {
        "comment": "protocol.md 5. The shares bind only this implementation, whose order of draws is its own: ChaCha20 as in \
                    the crate rand_chacha, keyed with the seed. The probabilities bind everyone: P(z = d) of one share, to ten \
                    digits, for lambda = numerator/denominator.",
        "shares": list(SHARES, |(honest, numerator, denominator)| {
            let seed = bytes("noise");
            let mut rng = ChaCha20Rng::from_seed(seed);
            let sampler = Sampler::new(honest, Scale::new(numerator, denominator));
            object! {
                "n": u64::from(honest),
                "lambda": vec![numerator.into(), denominator.into()],
                "seed": hex(seed),
                "shares": list(0..24, |_| sampler.sample(&mut rng).into()),
            }
        }),
        "probabilities": list(PROBABILITIES, probabilities),
    }
}

fn probabilities((honest, numerator, denominator): (u32, u64, u64)) -> Json {
    let scale = Scale::new(numerator, denominator);
    let spread = Spread::new(scale, honest, 1);
    let distances = [0u32, 1, 2, 3, 10, 100, 1000, 20_000];
    let far = |&d: &u32| f64::from(d) < 30.0 * scale.as_f64();
    let each = distances.into_iter().filter(far).map(|d| {
        let exact = share_probability(honest, scale.as_f64(), d);
        // The crate knows P(|z| <= h); what it gives for one share must be the same.
        let h = u64::from(d);
        let ours = if d == 0 { spread.coverage(0) } else { (spread.coverage(h) - spread.coverage(h - 1)) / 2.0 };
        assert!((ours - exact).abs() < 1e-11, "n = {honest}, d = {d}: {ours} or {exact}");
        object! { "d": h, "p": format!("{exact:.9e}") }
    });
    object! {
        "n": u64::from(honest),
        "lambda": vec![numerator.into(), denominator.into()],
        "probabilities": Json::List(each.collect()),
    }
}

/// P(z = d) for the difference of two NB(a, p), a = 1/n: `(1-p)^2a sum_k c_k c_(k+d) p^(2k+d)`, `c_k = a (a+1) .. / k!`.
fn share_probability(honest: u32, lambda: f64, distance: u32) -> f64 {
    let a = 1.0 / f64::from(honest);
    let d = f64::from(distance);
    let p_squared = (-2.0 / lambda).exp();
    let mut term: f64 = (0..distance).map(|k| (a + f64::from(k)) / f64::from(k + 1)).product();
    let (mut sum, mut k) = (0.0, 0.0);
    while term > 1e-20 * sum {
        sum += term;
        term *= (a + k) / (k + 1.0) * (a + d + k) / (d + k + 1.0) * p_squared;
        k += 1.0;
    }
    let complement = -(-1.0 / lambda).exp_m1();
    sum * complement.powf(2.0 * a) * (-d / lambda).exp()
}

pub(crate) fn params() -> Json {
    object! {
        "comment": "protocol.md 2, 4, 4a and 6: what follows from a number of members and a list's terms, and which terms no \
                    list may have (whatever a meter's policy says). lambda is in lowest terms; closing is the base-2 logarithm \
                    of section 6's bound, at most -64 where w > 0 draws partners. scheme 1 is with a committee: partners is k \
                    there, quorum is q and holders K; f is how many holders may collude, and draws below drawn_below make \
                    holders. colluding has f for every mean number of drawn colluders, which is k there.",
        "accepted": list(accepted(), |(members, terms)| derived(members, terms)),
        "refused": list(refused(), |(members, terms)| {
            let error = Params::new(members, terms).expect_err("these terms are refused");
            object! { "members": members as u64, "terms": self::terms(&terms), "refusal": error.code() }
        }),
        "colluding": list(1..=64, |drawn: u64| {
            let (members, malicious) = (10_000, 5000);
            let colluding = Committee::colluding(drawn, members, malicious).expect("a mean of 64 at most");
            object! { "members": members, "max_malicious": malicious, "partners": drawn, "f": colluding }
        }),
    }
}

fn derived(members: usize, terms: Terms) -> Json {
    let params = Params::new(members, terms).unwrap();
    let scale = params.noise_scale();
    let (least, most) = plausible(&params);
    let threshold = partners::threshold(&params);
    let committee = terms.scheme.committee();
    let colluding =
        committee.map(|of| Committee::colluding(of.drawn, members as u64, terms.max_malicious).expect("k is in range"));
    let drawn_below = committee.and_then(|of| committee::threshold(of.drawn, members as u64));
    object! {
        "members": members as u64,
        "terms": self::terms(&terms),
        "n": params.honest(),
        "sensitivity": params.sensitivity(),
        "lambda": vec![scale.numerator().into(), scale.denominator().into()],
        "charge_micro_epsilon": params.charge_micro_epsilon(),
        "plain_day_micro_epsilon": params.plain_day_micro_epsilon(),
        "day_rms_watts": params.day_rms_watts().map_or(Json::Null, Json::from),
        "least_plausible": least,
        "most_plausible": most,
        "threshold": threshold.map_or(Json::Null, word),
        "closing": threshold.map_or(Json::Null, |_| format!("{:.6}", partners::closing_log2(&params)).into()),
        "f": colluding.map_or(Json::Null, Json::from),
        "drawn_below": drawn_below.map_or(Json::Null, word),
    }
}

/// The ends of the plausible range, found by asking.
fn plausible(params: &Params) -> (i64, i64) {
    (edge(params, -(1 << 60)), edge(params, 1 << 60))
}

/// The last plausible value on the way from 0 to one that is not.
fn edge(params: &Params, mut outside: i64) -> i64 {
    let mut inside = 0;
    while outside.abs_diff(inside) > 1 {
        let middle = i64::midpoint(inside, outside);
        *if params.is_plausible(middle) { &mut inside } else { &mut outside } = middle;
    }
    inside
}

/// A hundred members, a tenth of them silent and a tenth malicious.
const HUNDRED: Terms = Terms { max_missing: 10, max_malicious: 10, ..TERMS };

fn accepted() -> Vec<(usize, Terms)> {
    vec![
        (100, HUNDRED),
        (100, Terms { epsilon_denominator: 3, ..HUNDRED }),
        (100, Terms { epsilon_numerator: 7, epsilon_denominator: 9, lo: -3000, hi: 5000, ..HUNDRED }),
        (100, Terms { epsilon_numerator: 1_000_000, epsilon_denominator: 999_999, ..HUNDRED }),
        (100, Terms { max_missing: 20, max_malicious: 79, ..HUNDRED }),
        (100, Terms { scheme: Scheme::Pairwise { partners: 47 }, ..HUNDRED }),
        (100, Terms { scheme: Scheme::Pairwise { partners: 99 }, ..HUNDRED }),
        (300, Terms { max_missing: 30, max_malicious: 30, scheme: Scheme::Pairwise { partners: 58 }, ..TERMS }),
        (25, Terms { max_missing: 2, max_malicious: 3, ..TERMS }),
        (2, Terms { max_missing: 0, max_malicious: 1, ..TERMS }),
        (10_000, Terms { max_missing: 1000, max_malicious: 1000, ..TERMS }),
        (100, Terms { day_micro_rho: 0, ..HUNDRED }),
        (100, Terms { day_micro_rho: (1 << 40) - 1, ..HUNDRED }),
        (100, Terms { hi: 7, epsilon_numerator: 7, ..HUNDRED }),
        (100, Terms { hi: 7, epsilon_numerator: 8, day_micro_rho: 0, ..HUNDRED }),
        (100, Terms { attempts: 6, ..HUNDRED }),
        (100, Terms { hi: (1 << 40) / 300, ..HUNDRED }),
        (100, Terms { slot_seconds: 86_400, reading_seconds: 43_199, reveal_seconds: 1, ..HUNDRED }),
        (23, Terms { max_missing: 2, max_malicious: 3, scheme: of_committee(0, 18, 23), ..TERMS }),
        (30, Terms { max_missing: 6, max_malicious: 3, scheme: of_committee(0, 23, 30), ..TERMS }),
        (100, Terms { scheme: of_committee(0, 75, 100), ..HUNDRED }),
        (100, Terms { scheme: of_committee(0, 61, 100), ..HUNDRED }),
        (100, Terms { scheme: of_committee(0, 21, 21), ..HUNDRED }),
        (100, Terms { max_missing: 19, max_malicious: 20, scheme: of_committee(0, 71, 100), ..TERMS }),
        (256, Terms { max_missing: 25, max_malicious: 26, scheme: of_committee(0, 192, 256), ..TERMS }),
        (1000, Terms { scheme: of_committee(160, 129, 160), ..THOUSAND }),
        (1000, Terms { scheme: of_committee(160, 119, 140), ..THOUSAND }),
        (1000, Terms { scheme: of_committee(320, 203, 256), ..THOUSAND }),
        (1000, Terms { max_malicious: 200, scheme: of_committee(160, 156, 162), ..THOUSAND }),
        (10_000, Terms { max_missing: 1000, max_malicious: 1000, scheme: of_committee(160, 129, 161), ..TERMS }),
        (300, Terms { max_missing: 30, max_malicious: 30, scheme: of_committee(299, 190, 256), ..TERMS }),
    ]
}

/// A thousand members, a tenth of them silent and a tenth malicious.
const THOUSAND: Terms = Terms { max_missing: 100, max_malicious: 100, ..TERMS };

const fn of_committee(drawn: u64, needed: u64, holders: u64) -> Scheme {
    Scheme::Committee(Committee { drawn, needed, holders })
}

fn refused() -> Vec<(usize, Terms)> {
    let epsilon =
        |numerator, denominator| Terms { epsilon_numerator: numerator, epsilon_denominator: denominator, ..HUNDRED };
    vec![
        (0, HUNDRED),
        (10_001, Terms { max_missing: 1000, max_malicious: 1001, ..TERMS }),
        (100, Terms { max_missing: 21, ..HUNDRED }),
        (9, Terms { max_missing: 2, max_malicious: 1, ..TERMS }),
        (100, Terms { max_malicious: 9, ..HUNDRED }),
        (101, HUNDRED),
        (1, Terms { max_missing: 0, max_malicious: 1, ..TERMS }),
        (100, Terms { max_missing: 20, max_malicious: 80, ..HUNDRED }),
        (10, Terms { max_missing: 2, max_malicious: 9, ..TERMS }),
        (100, Terms { lo: 1, ..HUNDRED }),
        (100, Terms { lo: -2, hi: -1, ..HUNDRED }),
        (100, Terms { lo: 9000, hi: 0, ..HUNDRED }),
        (100, Terms { hi: 0, ..HUNDRED }),
        (100, epsilon(0, 1)),
        (100, epsilon(1, 0)),
        (100, epsilon(1_000_001, 1)),
        (100, epsilon(1_000_001, 1_000_001)),
        (100, epsilon(1, 1_000_001)),
        (100, Terms { hi: 6000, ..epsilon(1, 1_000_000) }),
        (100, Terms { hi: (1 << 40) / 300 + 1, ..HUNDRED }),
        (100, Terms { day_micro_rho: 1 << 40, ..HUNDRED }),
        (100, Terms { hi: 7, epsilon_numerator: 8, ..HUNDRED }),
        (100, Terms { attempts: 0, ..HUNDRED }),
        (100, Terms { attempts: 7, ..HUNDRED }),
        (100, Terms { attempts: 256, ..HUNDRED }),
        (100, Terms { reading_seconds: 0, ..HUNDRED }),
        (100, Terms { reveal_seconds: 0, ..HUNDRED }),
        (100, Terms { slot_seconds: 0, ..HUNDRED }),
        (100, Terms { slot_seconds: 86_401, ..HUNDRED }),
        (100, Terms { slot_seconds: 86_400, reading_seconds: 1, reveal_seconds: 1, attempts: 256, ..HUNDRED }),
        (10, Terms { max_missing: 2, max_malicious: 1, scheme: Scheme::Pairwise { partners: 5 }, ..TERMS }),
        (10, Terms { max_missing: 2, max_malicious: 1, scheme: Scheme::Pairwise { partners: 8 }, ..TERMS }),
        (100, Terms { scheme: Scheme::Pairwise { partners: 46 }, ..HUNDRED }),
        (100, Terms { scheme: Scheme::Pairwise { partners: 1 }, ..HUNDRED }),
        (1001, Terms { max_missing: 100, max_malicious: 101, scheme: Scheme::Pairwise { partners: 900 }, ..TERMS }),
        // 2q = K + f; q above K; q = f; no holders; more holders than members; more than 256.
        (100, Terms { scheme: of_committee(0, 60, 100), ..HUNDRED }),
        (100, Terms { scheme: of_committee(0, 101, 100), ..HUNDRED }),
        (100, Terms { scheme: of_committee(0, 20, 20), ..HUNDRED }),
        (100, Terms { scheme: of_committee(0, 0, 0), ..HUNDRED }),
        (100, Terms { scheme: of_committee(0, 76, 101), ..HUNDRED }),
        (300, Terms { max_missing: 30, max_malicious: 30, scheme: of_committee(0, 193, 257), ..TERMS }),
        (1000, Terms { scheme: of_committee(160, 128, 160), ..THOUSAND }),
        // 4M = N - T, which pairwise lists may have.
        (100, Terms { max_missing: 20, max_malicious: 20, scheme: of_committee(0, 75, 100), ..TERMS }),
        // k = N; a mean of 65 drawn colluders.
        (300, Terms { max_missing: 30, max_malicious: 30, scheme: of_committee(300, 190, 256), ..TERMS }),
        (1000, Terms { scheme: of_committee(321, 203, 256), ..THOUSAND }),
        (1000, Terms { scheme: of_committee((1 << 53) - 1, 203, 256), ..THOUSAND }),
    ]
}

/// The terms of a list.
fn terms(terms: &Terms) -> Json {
    let pairwise = Committee { drawn: terms.scheme.partners(), needed: 0, holders: 0 };
    let Committee { drawn, needed, holders } = terms.scheme.committee().unwrap_or(pairwise);
    object! {
        "slot_seconds": terms.slot_seconds,
        "reading_seconds": terms.reading_seconds,
        "reveal_seconds": terms.reveal_seconds,
        "scheme": terms.scheme.kind() as u64,
        "max_missing": terms.max_missing,
        "max_malicious": terms.max_malicious,
        "partners": drawn,
        "quorum": needed,
        "holders": holders,
        "lo": terms.lo,
        "hi": terms.hi,
        "epsilon_numerator": terms.epsilon_numerator,
        "epsilon_denominator": terms.epsilon_denominator,
        "day_micro_rho": terms.day_micro_rho,
        "attempts": terms.attempts,
    }
}
