//! The owner's guide, and the page for people who sign, say what the program does.

use std::path::Path;

use dream_edge::HomeKind;
use dream_meter::config::{keys, meaning};
use dream_protocol::noise::{DAY_DELTA, epsilon_of_rho, pure_epsilon_of_rho, rho_of_epsilon, right_guesses};
use dream_protocol::params::Terms;
use dream_protocol::policy::Profile;

fn guide() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/meter.md")).unwrap()
}

#[test]
fn the_guide_explains_each_profile_as_the_program_does() {
    for profile in Profile::ALL {
        let (name, words) = meaning(profile).split_once(": ").unwrap();
        assert!(guide().contains(&format!("| `{name}` | {words} |")), "{name}");
    }
}

#[test]
fn the_guide_has_every_key_of_the_configuration() {
    let (guide, keys) = (guide(), keys());
    let keys: Vec<&str> = keys.iter().filter_map(|key| key.split('.').nth(1)).collect();
    assert!(keys.len() > 20, "{keys:?}");
    for key in keys {
        assert!(guide.contains(&format!(".{key}`")) || guide.contains(&format!("`{key}`")), "{key}");
    }
}

/// A page's words, with every break and space alike.
fn words_of(page: &str) -> String {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(page)).unwrap();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// How often a guess is right, as a page says it: rounded up.
fn times(rho: f64) -> String {
    format!("{:.0} times in 100", (100.0 * right_guesses(rho, 0.0)).ceil())
}

#[test]
fn the_page_for_people_who_sign_has_the_numbers_of_the_defaults() {
    let page = words_of("privacy.md");
    let terms = HomeKind::default().usual_terms(Terms::DEFAULT);
    assert_eq!(terms, Terms::DEFAULT, "what is usual for the usual kind");
    let rho = terms.day_micro_rho as f64 / 1e6;
    let of_days = |days: f64| epsilon_of_rho(days * rho, DAY_DELTA);
    // How likely it is that an attacker becomes this sure: the tail of the privacy loss, by Markov's inequality for every order.
    let surer = |sure: f64| {
        let loss = (sure / (1.0 - sure)).ln();
        (100.0 * (-(loss - rho).powi(2) / (4.0 * rho)).exp()).ceil()
    };
    let slot = terms.epsilon_numerator as f64 / terms.epsilon_denominator as f64;
    let pure = pure_epsilon_of_rho(rho, 86_400 / terms.slot_seconds * terms.attempts);
    let sure = 100.0 / (1.0 + (-of_days(1.0)).exp());
    let day_limit = |profile: Profile| profile.rules().day_micro_rho as f64 / 1e6;
    let [strict, community] = [Profile::Strict, Profile::Community].map(day_limit);
    // What differs in so many slots costs its squares over those of the noise.
    let lambda = (terms.hi - terms.lo) as f64 / slot;
    let differs = |watts: f64, slots: f64| times(slots * (watts / lambda).powi(2) / 2.0);
    let stated = [
        format!("correctly at most {}; a coin", times(rho)),
        format!("| anything at all | {} |", times(rho)),
        format!("| 50 W for an hour (a lamp, a laptop) | {} |", differs(50.0, 6.0)),
        format!("| 2 kW for an hour (an oven) | {} |", differs(2000.0, 6.0)),
        format!("| 500 W for eight hours (somebody worked at home) | {} |", differs(500.0, 48.0)),
        format!("| 300 W all day | {} |", differs(300.0, 144.0)),
        format!("**epsilon is {:.1} a day, at a delta of one in a million**", of_days(1.0)),
        format!("such an attacker {sure:.3} % sure"),
        format!("a bound without exception holds, epsilon {pure:.1}"),
        format!(
            "99 % sure of the truth on at most {} of 100 days, and 99.9 % sure on at most {} of 100",
            surer(0.99),
            surer(0.999)
        ),
        format!("about one slot is right at most {:.0} times in 100", (100.0 * right_guesses(0.0, slot)).ceil()),
        format!(
            "Seven days cost epsilon {:.1}, thirty {:.0}, a year {:.0}",
            of_days(7.0),
            of_days(30.0),
            of_days(365.0)
        ),
        format!("at epsilon 4 a day a guess about a day is right at most {}", times(rho_of_epsilon(4.0, DAY_DELTA))),
        format!("up to epsilon {:.1} a day ({})", epsilon_of_rho(strict, DAY_DELTA), times(strict)),
        format!("up to epsilon {:.0}: **that hides", epsilon_of_rho(community, DAY_DELTA)),
        format!("a day has {rho:.2} by default"),
        format!(
            "({} at least in `strict`, {} in `community`)",
            Profile::Strict.floors().malicious,
            Profile::Community.floors().malicious
        ),
    ];
    for sentence in stated {
        assert!(page.contains(&sentence), "docs/privacy.md does not say: {sentence}");
    }
}

#[test]
fn twelve_questions_are_answered_by_the_page_for_people_who_sign() {
    let page = words_of("privacy.md");
    let (shown, questions) = page.split_once("<!-- The reader's test").unwrap();
    let cells: Vec<&str> =
        questions.split(" | ").flat_map(|cell| cell.split("| ")).map(|cell| cell.trim_matches([' ', '|'])).collect();
    let asked: Vec<&[&str]> = cells.windows(2).filter(|pair| pair[0].ends_with('?')).collect();
    assert_eq!(asked.len(), 12, "{cells:?}");
    for pair in asked {
        assert!(shown.contains(pair[1]), "{} is not answered by: {}", pair[0], pair[1]);
    }
}

#[test]
fn every_direct_dependency_is_in_the_table_of_who_keeps_it() {
    let manifest = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml")).unwrap();
    let (_, rest) = manifest.split_once("[workspace.dependencies]\n").unwrap();
    let section = rest.split("\n[").next().unwrap();
    let names = section.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(" = "));
    let names: Vec<&str> = names.map(|(name, _)| name).filter(|name| !name.starts_with("dream-")).collect();
    assert!(names.len() > 50, "{names:?}");
    let page = words_of("supply-chain.md");
    for name in names {
        assert!(page.contains(&format!("`{name}`")), "docs/supply-chain.md has no row for {name}");
    }
}
