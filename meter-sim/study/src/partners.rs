//! How probable it is that a gateway guesses a meter's mask partners, and why this product does not let it guess.

use dream_protocol::scheme::pairwise::partners::{MOST_LOG2, closing_log2_with};

use super::accuracy::Alpha;
use super::section::{Axis, Cell, Figure, Section, Stroke, Table, row};

const SIZES: [u16; 2] = [100, 300];

pub(super) fn section() -> Section {
    let finding = format!("{} partners of 99 keep masks closed at alpha 0.2", fewest_partners(100, 0.2));
    Section::new([success_table(), example_table(), inference_table()], SIZES.map(figure)).finding(finding)
}

/// The probability that one meter of `members` has no partner among those that are neither malicious nor declared silent:
/// `(1 - w/(N-1))^(N(1-alpha) - 1)`, the paper's formula. Each pair is selected with probability `w/(N-1)`.
fn isolated(members: u16, partners: f64, alpha: f64) -> f64 {
    let members = f64::from(members);
    let selected = (partners / (members - 1.0)).min(1.0);
    (1.0 - selected).powf(members * (1.0 - alpha) - 1.0)
}

/// The probability, per attempt, that any set of fewer than n honest meters closes, of which one meter alone is only the
/// smallest case. Half of alpha is malicious, half silent. `None` without partners to draw, or when it says nothing.
fn any_closes(members: u16, partners: f64, alpha: f64) -> Option<f64> {
    let malicious = share(members, alpha / 2.0);
    let missing = share(members, alpha) - malicious;
    let selected = partners / (f64::from(members) - 1.0);
    let log2 = closing_log2_with(members, missing, malicious, selected);
    (log2 < 0.0).then(|| log2.exp2())
}

/// The fewest partners with which a meter accepts a list.
fn fewest_partners(members: u16, alpha: f64) -> u16 {
    let enough = |&partners: &u16| {
        any_closes(members, f64::from(partners), alpha).is_some_and(|probability| probability.log2() <= MOST_LOG2)
    };
    (1..members - 1).find(enough).unwrap_or(members - 1)
}

/// The probability that a guess at one bit of a home's life is right, at most, when both answers were as probable before.
fn inference(epsilon: f64) -> f64 {
    1.0 / (1.0 + (-epsilon).exp())
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a small positive number")]
fn share(members: u16, of: f64) -> u16 {
    (f64::from(members) * of).round() as u16
}

fn figure(members: u16) -> Figure {
    let betas = || (1..=60).map(|percent| f64::from(percent) / 100.0);
    let partners = move |beta: f64| beta * f64::from(members);
    let alphas = Alpha::PAPERS.map(Alpha::share);
    let paper = alphas.map(|alpha| {
        let points = betas().map(|beta| (beta, isolated(members, partners(beta), alpha)));
        Stroke::Solid.through(format!("one meter (paper), alpha {alpha}"), points)
    });
    let ours = alphas.map(|alpha| {
        let points = betas().filter_map(|beta| Some((beta, any_closes(members, partners(beta), alpha)?)));
        Stroke::Dashed.through(format!("any set (our bound), alpha {alpha}"), points)
    });
    Figure::new(
        if members == SIZES[0] { "partners_100" } else { "partners_300" },
        format!(
            "The chance, per slot, that masks fail to hide a reading among {members} members; of alpha, half is malicious \
             and half silent"
        ),
        (Axis::linear("partners drawn, as a share of the members (w/N)"), Axis::logarithmic("probability")),
        paper.into_iter().chain(ours),
    )
}

fn success_table() -> Table {
    const COLUMNS: &str = "members alpha partners_share one_meter_alone any_set_bound fewest_partners_accepted";
    let row = |members: u16, alpha: f64, beta: f64| {
        let partners = beta * f64::from(members);
        let alone = Cell::Tiny(isolated(members, partners, alpha));
        let bound = any_closes(members, partners, alpha).map_or_else(|| "no bound".into(), Cell::Tiny);
        row![members, alpha, beta, alone, bound, fewest_partners(members, alpha)]
    };
    let all = SIZES.into_iter().flat_map(|members| Alpha::PAPERS.map(|alpha| (members, alpha.share())));
    let rows = all.flat_map(|(members, alpha)| [0.1, 0.3, 0.5].map(|beta| row(members, alpha, beta)));
    Table::new("partners", COLUMNS, rows)
}

/// The paper's example: half of 100 nodes are malicious, 30 partners.
fn example_table() -> Table {
    let one = isolated(100, 30.0, 0.5);
    let row = |slots: i32| {
        let paper = (slots == 1).then_some(Cell::Tiny(1.8e-8));
        row![slots.unsigned_abs(), Cell::Tiny(one.powi(slots)), paper, years_until(slots, one)]
    };
    Table::new("guessed_slots", "slots probability_if_chosen paper_probability years_until_any", (1..=4).map(row))
}

/// How long it takes on average until what has this probability in a slot of five minutes has happened so often.
fn years_until(times: i32, probability: f64) -> f64 {
    const SLOTS_PER_YEAR: f64 = 12.0 * 24.0 * 365.0;
    f64::from(times) / (probability * SLOTS_PER_YEAR)
}

fn inference_table() -> Table {
    let paper = [(0.1, 0.52), (0.5, 0.62), (1.0, 0.73), (2.0, 0.88)];
    let paper_of = |epsilon: f64| paper.iter().find(|(of, _)| *of == epsilon).map(|&(_, probability)| probability);
    let row = |epsilon: f64| row![epsilon, inference(epsilon), paper_of(epsilon)];
    Table::new("inference", "epsilon right_at_most paper", [0.1, 0.5, 1.0, 2.0, 5.0, 10.0].map(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_example_is_two_in_a_hundred_million_and_458_years() {
        let probability = isolated(100, 30.0, 0.5);
        assert!((probability - 2.08e-8).abs() < 0.005e-8, "{probability}");
        assert_eq!(years_until(1, probability).round(), 458.0);
        assert_eq!(years_until(2, probability).round(), 916.0);
        assert_eq!(years_until(1, 50.0 * probability).round(), 9.0);
    }

    #[test]
    fn any_set_closes_more_easily_than_one_meter_alone() {
        for (members, alpha, beta) in [(100, 0.1, 0.5), (100, 0.3, 0.5), (300, 0.3, 0.3)] {
            let partners = beta * f64::from(members);
            let bound = any_closes(members, partners, alpha).unwrap();
            assert!(bound > isolated(members, partners, alpha) && bound < 1.0, "{members} {alpha} {beta}: {bound}");
        }
        assert_eq!(any_closes(100, 5.0, 0.5), None, "five partners guarantee nothing");
    }

    #[test]
    fn as_many_partners_are_needed_as_the_protocol_says() {
        assert_eq!(fewest_partners(100, 0.2), 47);
        assert_eq!(fewest_partners(300, 0.2), 58);
    }

    #[test]
    fn a_guess_is_right_as_often_as_the_paper_says() {
        for row in inference_table().rows {
            let [_, Cell::Number(ours), paper] = &row[..] else { panic!("{row:?}") };
            if let Cell::Number(paper) = paper {
                assert!((ours - paper).abs() <= 0.0051, "{row:?}");
            }
        }
        assert_eq!(inference(0.0), 0.5);
    }
}
