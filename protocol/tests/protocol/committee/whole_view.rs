//! The whole view: readings `y`, every number `P` that a member deals to a holder, every correction and every answer.

use std::collections::BTreeSet;

use super::classes::Committee;
use super::space::{PRIME, Space, inverse, multiply};
use super::{leak, long, minus};

/// A cluster whose members are numbered from 0; the first K of them are its holders, member l at the point l + 1.
#[derive(Debug, Clone)]
pub(super) struct Cluster {
    pub(super) members: usize,
    pub(super) holders: usize,
    pub(super) q: usize,
    pub(super) colluders: BTreeSet<usize>,
    /// M: how many a request may name.
    pub(super) missing: usize,
    /// A holder that answers twice, if there is one.
    pub(super) twice: Option<usize>,
}

/// What became of all assignments of requests to holders.
#[derive(Debug, Default)]
struct Verdicts {
    seen: usize,
    whole: usize,
    /// The last of those that open too much.
    leak: Option<String>,
}

/// A request to a holder by the members that it names, bit by bit, or none.
type Request = Option<usize>;

/// Is shown an assignment of requests to holders, and what opens.
type Show<'a> = &'a mut dyn FnMut(&[(usize, Request)], &Space);

#[test]
fn nothing_but_one_whole_sum_opens_within_the_conditions() {
    // N, T, f, K, q
    let mut settings = vec![
        (5, 0, 0, 3, 2),
        (5, 0, 0, 3, 3),
        (5, 0, 0, 4, 3),
        (5, 0, 0, 5, 3),
        (5, 0, 0, 5, 4),
        (6, 1, 0, 5, 3),
        (6, 1, 1, 3, 3),
        (6, 1, 1, 4, 3),
        (6, 1, 1, 5, 4),
        (7, 2, 2, 5, 4),
        (7, 2, 2, 6, 5),
    ];
    if long() {
        settings.extend([(7, 2, 2, 7, 5), (8, 3, 3, 8, 6), (8, 3, 2, 7, 5)]);
    }
    for (members, malicious, f, holders, q) in settings {
        assert!(f < q && q <= holders && 2 * q > holders + f && 4 < members - malicious, "within the conditions");
        for cluster in Cluster::all(members, malicious, f, holders, q, 1) {
            let verdicts = cluster.verdicts();
            assert_eq!(verdicts.leak, None, "{cluster:?}");
            assert!(verdicts.whole > 0 && verdicts.whole < verdicts.seen, "{cluster:?}: {verdicts:?}");
        }
    }
}

#[test]
fn the_sum_that_holders_are_asked_for_alike_opens() {
    for cluster in Cluster::all(6, 1, 1, 5, 4, 1) {
        for named in cluster.requests().into_iter().flatten() {
            let answers: Vec<_> = cluster.asked().into_iter().map(|holder| (holder, Some(named))).collect();
            let open = cluster.open(&answers);
            let honest = cluster.honest().into_iter();
            let counted_in: Vec<u64> = honest.map(|member| u64::from(named >> member & 1 == 0)).collect();
            assert_eq!(open.rows().map(<[u64]>::to_vec).collect::<Vec<_>>(), [counted_in], "{cluster:?}, {named:b}");
        }
    }
}

#[test]
fn more_opens_where_2q_is_k_plus_f() {
    for (members, malicious, f, holders, q) in [(5, 0, 0, 4, 2), (6, 1, 1, 3, 2), (6, 1, 1, 5, 3)] {
        assert_eq!(2 * q, holders + f);
        let clusters = Cluster::all(members, malicious, f, holders, q, 1);
        for cluster in clusters.iter().filter(|cluster| cluster.asked().len() == holders - f) {
            assert!(cluster.verdicts().leak.is_some(), "{cluster:?}");
        }
    }
}

#[test]
fn more_opens_where_requests_may_name_half_of_the_honest_members() {
    for cluster in Cluster::all(5, 1, 1, 4, 3, 2) {
        let leak = cluster.verdicts().leak;
        assert_eq!(leak.is_some(), cluster.asked().len() == 3, "{cluster:?}: {leak:?}");
    }
}

#[test]
fn more_opens_where_a_holder_answers_twice() {
    for (members, malicious, f, holders, q) in [(5, 0, 0, 3, 2), (5, 0, 0, 5, 3), (6, 1, 1, 4, 3)] {
        assert_eq!(2 * q, holders + f + 1);
        for mut cluster in Cluster::all(members, malicious, f, holders, q, 1) {
            let asked = cluster.asked();
            for twice in asked.iter().copied().filter(|_| asked.len() == holders - f) {
                cluster.twice = Some(twice);
                assert!(cluster.verdicts().leak.is_some(), "{cluster:?}");
            }
        }
    }
}

#[test]
fn every_reading_opens_to_q_colluding_holders_without_an_answer() {
    for cluster in Cluster::all(6, 2, 2, 4, 2, 1) {
        let colluding = cluster.colluders.iter().filter(|member| **member < 4).count();
        let open = cluster.open(&[]);
        assert_eq!(open.len(), if colluding == 2 { 4 } else { 0 }, "{cluster:?}");
    }
}

#[test]
fn the_short_form_says_the_same() {
    let settings = [(5, 0, 0, 4, 2, 1), (5, 0, 0, 4, 3, 1), (6, 1, 1, 4, 3, 1), (5, 1, 1, 4, 3, 2)];
    for (members, malicious, f, holders, q, missing) in settings {
        for cluster in Cluster::all(members, malicious, f, holders, q, missing) {
            cluster.every_assignment(&mut |answers, open| {
                let short = cluster.short_form(answers);
                let together = open.rows().chain(short.rows()).fold(Space::default(), |mut space, row| {
                    space.insert(row.to_vec());
                    space
                });
                assert_eq!((open.len(), short.len()), (together.len(), together.len()), "{cluster:?}, {answers:?}");
            });
        }
    }
}

impl Cluster {
    /// Every choice of T colluders with at most f holders among them.
    fn all(members: usize, malicious: usize, f: usize, holders: usize, q: usize, missing: usize) -> Vec<Self> {
        let choices = (0_usize..1 << members).map(|chosen| (0..members).filter(|&at| chosen >> at & 1 == 1).collect());
        choices
            .filter(|chosen: &BTreeSet<usize>| chosen.len() == malicious && chosen.range(..holders).count() <= f)
            .map(|colluders| Self { members, holders, q, colluders, missing, twice: None })
            .collect()
    }

    fn honest(&self) -> Vec<usize> {
        (0..self.members).filter(|member| !self.colluders.contains(member)).collect()
    }

    /// The honest holders, once for each answer that they may give.
    fn asked(&self) -> Vec<usize> {
        let honest = (0..self.holders).filter(|holder| !self.colluders.contains(holder));
        honest.chain(self.twice).collect()
    }

    /// All requests that a holder answers, and none.
    fn requests(&self) -> Vec<Request> {
        let named = (0_usize..1 << self.members).filter(|named| named.count_ones() as usize <= self.missing);
        named.map(Some).chain([None]).collect()
    }

    fn verdicts(&self) -> Verdicts {
        let mut verdicts = Verdicts::default();
        let honest = self.members - self.colluders.len();
        self.every_assignment(&mut |answers, open| {
            verdicts.seen += 1;
            verdicts.whole += usize::from(open.len() == 1);
            if let Some(leak) = leak(open, &vec![1; honest], honest - self.missing) {
                verdicts.leak = Some(format!("{leak}, where holders are shown {answers:?}"));
            }
        });
        verdicts
    }

    /// Shows what opens for every assignment of requests to honest holders.
    fn every_assignment(&self, show: Show<'_>) {
        self.assign(&mut Vec::new(), &self.readings(), show);
    }

    fn assign(&self, so_far: &mut Vec<(usize, Request)>, view: &Space, show: Show<'_>) {
        let Some(&holder) = self.asked().get(so_far.len()) else {
            return show(so_far, &view.behind(self.members * self.holders));
        };
        for request in self.requests() {
            let mut view = view.clone();
            if let Some(named) = request {
                view.insert(self.answer(holder, named));
            }
            so_far.push((holder, request));
            self.assign(so_far, &view, show);
            so_far.pop();
        }
    }

    /// What opens to a gateway that has seen these answers.
    fn open(&self, answers: &[(usize, Request)]) -> Space {
        let mut view = self.readings();
        for &(holder, request) in answers {
            request.map(|named| view.insert(self.answer(holder, named)));
        }
        view.behind(self.members * self.holders)
    }

    /// The same by the short form.
    fn short_form(&self, answers: &[(usize, Request)]) -> Space {
        let given: Vec<(usize, usize)> = answers.iter().filter_map(|&(holder, named)| Some((holder, named?))).collect();
        let point = |holder: usize| holder as u64 + 1;
        let committee = Committee {
            answers: given.iter().map(|&(holder, _)| point(holder)).collect(),
            colluding: self.colluders.range(..self.holders).map(|&holder| point(holder)).collect(),
            q: self.q,
            honest: self.members - self.colluders.len(),
            missing: self.missing,
        };
        let left_out_by =
            |member: usize| given.iter().enumerate().map(|(at, (_, named))| (named >> member & 1) << at).sum();
        committee.open(&self.honest().into_iter().map(left_out_by).collect::<Vec<_>>())
    }

    /// Everything before the answers: what colluders deal and are dealt, and what honest members send.
    fn readings(&self) -> Space {
        let mut view = Space::default();
        for member in 0..self.members {
            for holder in 0..self.holders {
                if self.colluders.contains(&member) || self.colluders.contains(&holder) {
                    view.insert(self.row(&[(self.dealt(member, holder), 1)]));
                }
            }
        }
        self.honest().iter().flat_map(|&member| self.reading(member)).for_each(|row| {
            view.insert(row);
        });
        view
    }

    /// What an honest member sends: the reading behind its polynomial's value at 0, and its corrections.
    pub(super) fn reading(&self, member: usize) -> Vec<Vec<u64>> {
        let place = self.honest().iter().position(|honest| *honest == member).expect("an honest member");
        let reading = (self.members * self.holders + place, 1);
        let correction = |holder| {
            let dealt = (self.dealt(member, holder), PRIME - 1);
            self.row(&[self.polynomial(member, holder as u64 + 1), vec![dealt]].concat())
        };
        let hidden = self.row(&[self.polynomial(member, 0), vec![reading]].concat());
        [hidden].into_iter().chain((self.q..self.holders).map(correction)).collect()
    }

    /// V: what everyone dealt to this holder but the members that its request names.
    pub(super) fn answer(&self, holder: usize, named: usize) -> Vec<u64> {
        let counted_in = (0..self.members).filter(|member| named >> member & 1 == 0);
        self.row(&counted_in.map(|member| (self.dealt(member, holder), 1)).collect::<Vec<_>>())
    }

    /// The polynomial of a member at `x`, by Lagrange: of degree below q, through what it deals to the first q holders.
    fn polynomial(&self, member: usize, x: u64) -> Vec<(usize, u64)> {
        let points = 1..=self.q as u64;
        let weight = |at: u64| {
            points
                .clone()
                .filter(|other| *other != at)
                .fold(1, |weight, other| multiply(weight, multiply(minus(x, other), inverse(minus(at, other)))))
        };
        (0..self.q).map(|holder| (self.dealt(member, holder), weight(holder as u64 + 1))).collect()
    }

    /// The column of P(member, holder). The honest members' readings come after all of these.
    fn dealt(&self, member: usize, holder: usize) -> usize {
        member * self.holders + holder
    }

    fn row(&self, terms: &[(usize, u64)]) -> Vec<u64> {
        let mut row = vec![0; self.members * self.holders + self.members - self.colluders.len()];
        terms.iter().for_each(|&(column, value)| row[column] = value);
        row
    }
}
