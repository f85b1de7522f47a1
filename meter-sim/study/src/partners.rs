//! How probable it is that a gateway guesses a meter's mask partners, and why this product does not let it guess.

use dream_protocol::partners::{MOST_LOG2, closing_log2_with};

use super::accuracy::Alpha;
use super::section::{Axis, Block, Cell, Figure, Section, Series, Stroke, Table};

const SIZES: [u16; 2] = [100, 300];

pub(super) fn section() -> Section {
    let mut blocks = vec![Block::Text(INTRODUCTION.to_owned())];
    for members in SIZES {
        blocks.push(Block::Figure(figure(members)));
    }
    blocks.push(Block::Table(success_table()));
    blocks.push(Block::Text(EXAMPLE.to_owned()));
    blocks.push(Block::Table(example_table()));
    blocks.push(Block::Text(INFERENCE.to_owned()));
    blocks.push(Block::Table(inference_table()));
    Section { title: "Guessing mask partners", blocks }
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
    let alphas = Alpha::PAPERS.map(Alpha::share);
    let paper = alphas.map(|alpha| Series {
        label: format!("one meter (paper), alpha {alpha}"),
        points: betas().map(|beta| (beta, isolated(members, beta * f64::from(members), alpha))).collect(),
        stroke: Stroke::Solid,
    });
    let ours = alphas.map(|alpha| Series {
        label: format!("any set (our bound), alpha {alpha}"),
        points: betas()
            .filter_map(|beta| Some((beta, any_closes(members, beta * f64::from(members), alpha)?)))
            .collect(),
        stroke: Stroke::Dashed,
    });
    Figure {
        name: if members == SIZES[0] { "partners_100" } else { "partners_300" },
        caption: format!(
            "The chance, per slot, that masks fail to hide a reading among {members} members; of alpha, half is malicious \
             and half silent"
        ),
        x: Axis::linear("partners drawn, as a share of the members (w/N)"),
        y: Axis::logarithmic("probability"),
        series: paper.into_iter().chain(ours).collect(),
    }
}

fn success_table() -> Table {
    let row = |members: u16, alpha: f64, beta: f64| {
        let partners = beta * f64::from(members);
        let bound = any_closes(members, partners, alpha);
        vec![
            Cell::Count(members.into()),
            Cell::Number(alpha, 1),
            Cell::Number(beta, 1),
            Cell::Tiny(isolated(members, partners, alpha)),
            bound.map_or_else(|| "no bound".into(), Cell::Tiny),
            Cell::Count(fewest_partners(members, alpha).into()),
        ]
    };
    let all = SIZES.into_iter().flat_map(|members| Alpha::PAPERS.map(|alpha| (members, alpha.share())));
    Table {
        name: "partners",
        caption: format!(
            "The chance per slot that one meter is left without an honest partner (the paper's formula), and that any set of \
             meters smaller than n is (a meter of this product insists on at most 2^{MOST_LOG2}); of alpha, half is malicious \
             and half silent"
        ),
        header: &["members", "alpha", "partners_share", "one_meter_alone", "any_set_bound", "fewest_partners_accepted"],
        rows: all.flat_map(|(members, alpha)| [0.1, 0.3, 0.5].map(|beta| row(members, alpha, beta))).collect(),
        shown: true,
    }
}

/// The paper's example: half of 100 nodes are malicious, 30 partners.
fn example_table() -> Table {
    let one = isolated(100, 30.0, 0.5);
    let row = |slots: i32| {
        let probability = one.powi(slots);
        vec![
            Cell::Count(slots.unsigned_abs().into()),
            Cell::Tiny(probability),
            if slots == 1 { Cell::Tiny(1.8e-8) } else { Cell::Empty },
            Cell::Number(years_until(slots, one), 0),
        ]
    };
    Table {
        name: "guessed_slots",
        caption: "The chance that a gateway opens k chosen slots of one chosen meter (N = 100, T = 50, w = 30), and how many \
                  years pass on average until k of its slots are open, whichever they are, with slots of 5 minutes"
            .to_owned(),
        header: &["slots", "probability_if_chosen", "paper_probability", "years_until_any"],
        rows: (1..=4).map(row).collect(),
        shown: true,
    }
}

/// How long it takes on average until what has this probability in a slot of five minutes has happened so often.
fn years_until(times: i32, probability: f64) -> f64 {
    const SLOTS_PER_YEAR: f64 = 12.0 * 24.0 * 365.0;
    f64::from(times) / (probability * SLOTS_PER_YEAR)
}

fn inference_table() -> Table {
    let paper = [(0.1, 0.52), (0.5, 0.62), (1.0, 0.73), (2.0, 0.88)];
    let paper_of = |epsilon: f64| paper.iter().find(|(of, _)| *of == epsilon).map(|&(_, probability)| probability);
    let row = |epsilon: f64| {
        vec![
            Cell::Number(epsilon, 1),
            Cell::Number(inference(epsilon), 3),
            paper_of(epsilon).map_or(Cell::Empty, |probability| Cell::Number(probability, 2)),
        ]
    };
    Table {
        name: "inference",
        caption: "How often a guess between two equally probable answers is right, at most, by what is spent on it"
            .to_owned(),
        header: &["epsilon", "right_at_most", "paper"],
        rows: [0.1, 0.5, 1.0, 2.0, 5.0, 10.0].map(row).into(),
        shown: true,
    }
}

const INTRODUCTION: &str = "\
In the paper each meter masks its reading with a random few of the others, its partners, and a gateway that lies about who \
is silent wins if all partners of a meter are malicious or among those it declared silent. The solid lines are the paper's \
formula for that: the chance per slot that one chosen meter is left without an honest partner. It understates the danger. \
A gateway may choose its victim afterwards, show different meters different lists, and also wins when a small group of \
meters is connected only among itself: then the sum of the group opens, with too little noise. The dashed lines bound the \
chance of all of that; where it would be above 1 and there is no dashed line, nothing is guaranteed. Here every member masks with every other \
(w = 0), so that the chance is none at all; a meter accepts w > 0 only if the bound is at most 2^-64.";

const EXAMPLE: &str = "\
The paper's example has 100 nodes, half of them malicious, and w = 30. It prints 1.8e-8, which is 0.7^50; its own formula \
gives (1 - 30/99)^49 = 2.08e-8, and that is what the 458 years that it goes on to name follow from. They are the wait for one \
chosen meter: in a cluster whose 50 honest meters are all as welcome a victim, it is nine years.";

const INFERENCE: &str = "\
What an epsilon means: if somebody thinks two stories about a home equally probable (somebody was in at nine, nobody was), \
and sees everything that was released, the guess is right with a probability of at most 1/(1 + e^-epsilon). The epsilon is \
that of all slots in which the stories differ, added up, each weighted with how much they differ there.";

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
            let [_, Cell::Number(ours, _), paper] = &row[..] else { panic!("{row:?}") };
            if let Cell::Number(paper, _) = paper {
                assert!((ours - paper).abs() <= 0.0051, "{row:?}");
            }
        }
        assert_eq!(inference(0.0), 0.5);
    }
}
