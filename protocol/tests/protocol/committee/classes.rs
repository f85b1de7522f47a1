//! The short form of the view: evaluations of the honest members' polynomials.
//!
//! A gateway knows `y_i + f_i(0)` of each honest member, `f_i` at the points of colluding holders, and for each honest holder
//! that answered the sum of `f_i(x)` over the members that its request did not name. Members that the same holders leave out
//! are in every sum alike: an assignment of requests is, up to the order of members, a multiset of the sets of holders that
//! leave a member out, in which no holder occurs more than M times.
//!
//! The answers with coefficients `a` open something if for each member `sum of a_x f(x) = c f(0)`, over the holders that
//! count it in and for every `f` of degree below q that is 0 at the colluders' points; `c` says how often its reading is in
//! the sum. A holder that does not answer is one with coefficient 0.

use super::space::{Space, inverse, multiply, product};
use super::{leak, long, minus, power};

/// A set of holders, bit by bit.
type Holders = usize;

/// A committee that is asked about one attempt.
#[derive(Debug, Clone)]
pub(super) struct Committee {
    /// The points of the answers of honest holders.
    pub(super) answers: Vec<u64>,
    /// The points of colluding holders.
    pub(super) colluding: Vec<u64>,
    pub(super) q: usize,
    /// Honest members.
    pub(super) honest: usize,
    /// M: how many a request may name.
    pub(super) missing: usize,
}

/// What became of all assignments, or of those up to the first that opens too much.
#[derive(Debug, Default)]
struct Verdicts {
    /// In how many one sum opens.
    whole: u64,
    leak: Option<String>,
}

#[test]
fn nothing_but_one_whole_sum_opens_within_the_conditions() {
    // q - f, f, M
    let mut settings = vec![(1, 0, 1), (1, 2, 1), (1, 1, 3), (2, 2, 1), (2, 1, 2), (2, 1, 3), (2, 0, 8)];
    settings.extend([(3, 2, 1), (3, 2, 2), (3, 0, 3), (4, 2, 1), (4, 0, 2), (5, 1, 1)]);
    if long() {
        settings.extend([(2, 3, 8), (3, 3, 2), (3, 3, 3), (4, 3, 1), (4, 1, 2), (5, 2, 1), (6, 0, 1)]);
    }
    for (m, colluders, missing) in settings {
        for holders in [2 * m - 1, 2 * m - 2] {
            let mut whole = 0;
            for committee in Committee::all(m, holders, colluders, missing, 4 * missing + 1) {
                let verdicts = committee.verdicts();
                assert_eq!(verdicts.leak, None, "{committee:?}");
                whole += verdicts.whole;
            }
            assert_eq!(whole > 0, holders >= m, "a sum opens if and only if enough holders are honest");
        }
    }
}

#[test]
fn single_readings_open_where_2q_is_k_plus_f() {
    for m in 1..=12 {
        for committee in (0..=1).flat_map(|colluders| Committee::all(m, 2 * m, colluders, 1, 5)) {
            assert!(committee.gives_away_the_first(m), "{committee:?}");
            assert!(m > 3 || committee.verdicts().leak.is_some(), "{committee:?}");
        }
    }
}

#[test]
fn single_readings_open_where_a_holder_answers_twice() {
    for m in 1..=12 {
        for committee in (0..=1).flat_map(|colluders| Committee::all(m, 2 * m - 1, colluders, 1, 5)) {
            assert!(!committee.gives_away_the_first(m), "{committee:?}");
            let mut committee = committee.clone();
            committee.answers.push(committee.answers[0]);
            assert!(committee.gives_away_the_first(m), "{committee:?}");
            assert!(m > 3 || committee.verdicts().leak.is_some(), "{committee:?}");
        }
    }
}

#[test]
fn a_holder_that_answers_twice_counts_like_one_more_colluder() {
    for (m, holders) in [(3, 4), (3, 3), (4, 5)] {
        for committee in Committee::all(m, holders, 1, 1, 5) {
            let mut committee = committee.clone();
            for twice in committee.answers.clone().into_iter().take(2 * m - holders) {
                assert_eq!(committee.verdicts().leak, None, "{committee:?}");
                committee.answers.push(twice);
            }
            assert!(committee.gives_away_the_first(m), "{committee:?}");
        }
    }
}

#[test]
fn more_opens_where_requests_may_name_half_of_the_honest_members() {
    for (m, missing) in [(2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (4, 1)] {
        for committee in (0..=2).flat_map(|colluders| Committee::all(m, 2 * m - 1, colluders, missing, 2 * missing)) {
            assert!(committee.verdicts().leak.is_some(), "{committee:?}");
        }
    }
}

impl Committee {
    /// Every choice of the colluders' points among 1 to K.
    fn all(m: usize, holders: usize, colluders: usize, missing: usize, honest: usize) -> Vec<Self> {
        let points = holders + colluders;
        let choices = (0_usize..1 << points).filter(|chosen| chosen.count_ones() as usize == colluders);
        choices
            .map(|chosen| {
                let (colluding, answers) = (1..=points as u64).partition(|x| chosen & (1 << (x - 1)) != 0);
                Self { answers, colluding, q: m + colluders, honest, missing }
            })
            .collect()
    }

    /// Tries every assignment of requests to holders.
    fn verdicts(&self) -> Verdicts {
        let mut verdicts = Verdicts::default();
        let room = vec![self.missing; self.answers.len()];
        self.extend(&mut Vec::new(), &Space::default(), &room, &mut verdicts);
        verdicts
    }

    /// Judges the assignment in which the members so far are left out by the holders of `left_out`, in ascending order, and
    /// then those with more.
    fn extend(&self, left_out: &mut Vec<Holders>, bound: &Space, room: &[usize], verdicts: &mut Verdicts) {
        // Where no coefficients are left nothing opens, nor does it if more members are left out.
        if bound.len() == self.answers.len() || verdicts.leak.is_some() {
            return;
        }
        self.judge(left_out, bound, verdicts);
        if left_out.len() == self.honest {
            return;
        }
        for holders in left_out.last().copied().unwrap_or(1)..1 << self.answers.len() {
            let mut room = room.to_vec();
            if !members(holders).all(|holder| take(&mut room[holder])) {
                continue;
            }
            let mut more = bound.clone();
            if left_out.last() != Some(&holders) {
                self.bind(holders, &mut more);
            }
            left_out.push(holders);
            self.extend(left_out, &more, &room, verdicts);
            left_out.pop();
        }
    }

    fn judge(&self, left_out: &[Holders], bound: &Space, verdicts: &mut Verdicts) {
        let mut classes: Vec<(Holders, usize)> = Vec::new();
        let others = vec![0; self.honest - left_out.len()];
        for &holders in others.iter().chain(left_out) {
            match classes.last_mut() {
                Some((last, size)) if *last == holders => *size += 1,
                _ => classes.push((holders, 1)),
            }
        }
        let (sets, sizes): (Vec<Holders>, Vec<usize>) = classes.into_iter().unzip();
        let mut bound = bound.clone();
        if !others.is_empty() {
            self.bind(0, &mut bound);
        }
        let open = self.sums(&sets, &bound);
        verdicts.whole += u64::from(open.len() == 1);
        let leak = leak(&open, &sizes, self.honest - self.missing);
        verdicts.leak = leak.map(|leak| format!("{leak}, where members are left out by {left_out:?}"));
    }

    /// The sums that open: how often each member is in them, given the holders that leave it out.
    pub(super) fn open(&self, left_out: &[Holders]) -> Space {
        let mut bound = Space::default();
        left_out.iter().for_each(|holders| self.bind(*holders, &mut bound));
        self.sums(left_out, &bound)
    }

    /// Whether the reading of the first member opens if the first m answers leave it out, and the others nobody.
    fn gives_away_the_first(&self, m: usize) -> bool {
        let mut left_out = vec![0; self.honest];
        left_out[0] = (1 << m) - 1;
        let mut alone = vec![0; self.honest];
        alone[0] = 1;
        !self.open(&left_out).insert(alone)
    }

    /// The conditions on the coefficients of answers that a member sets whom `holders` leave out: the others' evaluations of
    /// `x^k` times a polynomial that is 0 for colluders add up to 0 for every k but 0.
    fn bind(&self, holders: Holders, bound: &mut Space) {
        for k in 1..self.q - self.colluding.len() {
            bound.insert(self.evaluations(holders, k));
        }
    }

    /// The sums that open with coefficients that satisfy all conditions.
    fn sums(&self, left_out: &[Holders], bound: &Space) -> Space {
        let mut open = Space::default();
        let at_zero = inverse(self.vanishing(0));
        for coefficients in bound.solutions(self.answers.len()) {
            let times = |holders: &Holders| multiply(product(&coefficients, &self.evaluations(*holders, 0)), at_zero);
            open.insert(left_out.iter().map(times).collect());
        }
        open
    }

    /// At each holder's point, but 0 for `holders`: `x^k` times the polynomial that is 0 for colluders.
    fn evaluations(&self, holders: Holders, k: usize) -> Vec<u64> {
        let at = |(holder, &x): (usize, &u64)| match holders >> holder & 1 {
            0 => multiply(power(x, k), self.vanishing(x)),
            _ => 0,
        };
        self.answers.iter().enumerate().map(at).collect()
    }

    /// A polynomial of degree f that is 0 at the colluders' points.
    fn vanishing(&self, x: u64) -> u64 {
        self.colluding.iter().fold(1, |product, &root| multiply(product, minus(x, root)))
    }
}

fn members(holders: Holders) -> impl Iterator<Item = usize> {
    (0..).take_while(move |holder| holders >> holder != 0).filter(move |holder| holders >> holder & 1 == 1)
}

fn take(room: &mut usize) -> bool {
    let free = *room > 0;
    *room -= usize::from(free);
    free
}
