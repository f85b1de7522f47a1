//! The committee scheme's mathematics against definitions: arithmetic of wide integers, Lagrange's formula, and two slow
//! decoders.

mod slow;

use std::collections::BTreeSet;

use dream_protocol::scheme::committee::dealing::Dealer;
use dream_protocol::scheme::committee::decoding::{self, Decoded, Undecodable};
use dream_protocol::scheme::committee::field::{Element, MODULUS};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, subsequence};

// ---- The field ----------------------------------------------------------------------------------------------------------

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn arithmetic_is_that_of_wide_integers(a in element(), b in element(), exponent: u8) {
        let (wide_a, wide_b) = (wide(a), wide(b));
        prop_assert_eq!(wide(a + b), (wide_a + wide_b) % P);
        prop_assert_eq!(wide(a - b), (wide_a + P - wide_b) % P);
        prop_assert_eq!(wide(a * b), wide_a * wide_b % P);
        prop_assert_eq!(wide(-a), (P - wide_a) % P);
        prop_assert_eq!(wide(a.pow(exponent.into())), (0..exponent).fold(1, |power, _| power * wide_a % P));
        let (mut sum, mut difference, mut product) = (a, a, a);
        sum += b;
        difference -= b;
        product *= b;
        prop_assert!((sum, difference, product) == (a + b, a - b, a * b));
    }

    #[test]
    fn the_laws_of_a_field_hold(a in element(), b in element(), c in element()) {
        prop_assert!(a + b == b + a && a * b == b * a);
        prop_assert!((a + b) + c == a + (b + c) && (a * b) * c == a * (b * c));
        prop_assert!(a * (b + c) == a * b + a * c);
        prop_assert!(a + Element::ZERO == a && a * Element::ONE == a);
        prop_assert!(a + -a == Element::ZERO && a - b == a + -b);
        match a.inverse() {
            Some(inverse) => prop_assert_eq!(a * inverse, Element::ONE),
            None => prop_assert_eq!(a, Element::ZERO),
        }
    }

    #[test]
    fn numbers_are_read_and_written(block: [u8; 16], signed: i64, any: u64, a in element()) {
        prop_assert_eq!(wide(Element::from_block(block)), u128::from_be_bytes(block) % P);
        let element = Element::from_signed(signed);
        prop_assert_eq!(i128::from(element.to_canonical()), i128::from(signed).rem_euclid(P.cast_signed()));
        prop_assert!(element.to_signed().unsigned_abs() <= (MODULUS - 1) / 2);
        prop_assert_eq!(Element::from_signed(element.to_signed()), element);
        prop_assert_eq!(Element::from_canonical(any).map(Element::to_canonical), (any < MODULUS).then_some(any));
        prop_assert_eq!(Element::from_be_bytes(a.to_be_bytes()), Some(a));
    }
}

proptest! {
    // Making a case of hundreds of numbers takes far longer than adding them up.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn sums_of_products_are_reduced_in_time(pairs in vec((element(), element()), 0..200)) {
        let (left, right): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
        let expected = pairs.iter().fold(0, |sum, (a, b)| (sum + wide(*a) * wide(*b)) % P);
        prop_assert_eq!(wide(Element::dot(&left, &right)), expected);
        prop_assert_eq!(wide(left.iter().sum()), left.iter().map(|a| wide(*a)).sum::<u128>() % P);
    }
}

// ---- Dealing ------------------------------------------------------------------------------------------------------------

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn both_dealers_evaluate_the_polynomial_of_lagrange((needed, dealt) in committee(1..=40)) {
        let points: Vec<_> = (1..).zip(dealt.iter().copied()).collect();
        let (given, others) = points.split_at(needed);
        for dealer in [Dealer::new(dealt.len(), needed), Dealer::small(dealt.len(), needed)] {
            let dealing = dealer.deal(&dealt);
            prop_assert_eq!(dealing.secret(), slow::interpolate(given, 0));
            let corrections: Vec<_> = others.iter().map(|(x, dealt)| slow::interpolate(given, *x) - *dealt).collect();
            prop_assert_eq!(dealing.corrections(), corrections);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn both_dealers_agree_for_committees_of_all_sizes((needed, dealt) in committee(41..=256)) {
        let matrix = Dealer::new(dealt.len(), needed).deal(&dealt);
        let table = Dealer::small(dealt.len(), needed).deal(&dealt);
        prop_assert_eq!(matrix.secret(), table.secret());
        prop_assert_eq!(matrix.corrections(), table.corrections());
    }
}

// ---- From dealing to decoding -------------------------------------------------------------------------------------------

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// A slot as the protocol runs it: members deal, holders add up what they were dealt, the gateway adds the corrections.
    #[test]
    fn the_sum_of_all_secrets_comes_out_of_any_answers_that_suffice(
        (needed, members) in (1usize..=24, 1usize..=24).prop_flat_map(|(needed, spare)| {
            (Just(needed), vec(vec(element(), needed + spare), 1..6))
        }),
        order: u64,
        kept: Index,
    ) {
        let holders = members[0].len();
        let dealer = Dealer::new(holders, needed);
        let dealings: Vec<_> = members.iter().map(|dealt| dealer.deal(dealt)).collect();
        let answer = |holder: usize| {
            let dealt: Element = members.iter().map(|dealt| dealt[holder]).sum();
            let corrections = dealings.iter().filter_map(|dealing| dealing.corrections().get(holder.checked_sub(needed)?));
            (u16::try_from(holder + 1).unwrap(), dealt + corrections.sum())
        };
        let answers = shuffled((0..holders).map(answer).collect(), order);
        let kept = needed + kept.index(holders - needed + 1);
        let decoded = decoding::decode(needed, &answers[..kept]);
        let secret = dealings.iter().map(|dealing| dealing.secret()).sum();
        prop_assert_eq!(decoded, Ok(Decoded { secret, agreeing: kept, wrong: vec![] }));
        prop_assert!(decoding::consistent(needed, &answers[..kept]));
        prop_assert_eq!(
            decoding::decode(needed, &answers[..needed - 1]),
            Err(Undecodable::TooFew { answers: needed - 1, needed })
        );
    }
}

// ---- Wrong answers ------------------------------------------------------------------------------------------------------

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn as_many_wrong_answers_as_can_be_corrected_are_named(case in spoilt(1..=60, 0..=30, Wrong::Correctable)) {
        let agreeing = case.answers.len() - case.wrong.len();
        let expected = Decoded { secret: case.secret, agreeing, wrong: case.wrong.iter().copied().collect() };
        prop_assert_eq!(decoding::decode(case.needed, &case.answers), Ok(expected));
        prop_assert_eq!(decoding::consistent(case.needed, &case.answers), case.wrong.is_empty());
    }

    /// Whatever is accepted lies on one polynomial but for as many answers as may be wrong, and they are the ones named.
    #[test]
    fn no_result_disagrees_with_more_answers_than_it_may(case in spoilt(1..=30, 0..=30, Wrong::Any)) {
        if let Ok(decoded) = decoding::decode(case.needed, &case.answers) {
            prop_assert!(decoded.wrong.len() <= (case.answers.len() - case.needed) / 2);
            let (wrong, right): (Vec<Answer>, Vec<Answer>) =
                case.answers.iter().partition(|(x, _)| decoded.wrong.binary_search(x).is_ok());
            prop_assert_eq!(right.len(), decoded.agreeing);
            let given = &right[..case.needed];
            prop_assert!(right.iter().all(|(x, value)| slow::interpolate(given, *x) == *value));
            prop_assert!(wrong.iter().all(|(x, value)| slow::interpolate(given, *x) != *value));
            prop_assert_eq!(slow::interpolate(given, 0), decoded.secret);
        }
    }

    /// Both accept and refuse the same, with few wrong answers and with many.
    #[test]
    fn the_decoder_agrees_with_that_of_berlekamp_and_welch(case in spoilt(1..=12, 0..=12, Wrong::Any)) {
        let decoded = decoding::decode(case.needed, &case.answers).ok();
        prop_assert_eq!(decoded, slow::berlekamp_welch(case.needed, &case.answers));
    }

    #[test]
    fn the_decoder_agrees_with_trying_all_subsets(case in spoilt(1..=5, 0..=6, Wrong::Any)) {
        let decoded = decoding::decode(case.needed, &case.answers).ok();
        prop_assert_eq!(decoded, slow::all_subsets(case.needed, &case.answers));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn the_largest_committees_decode(case in spoilt(129..=192, 0..=64, Wrong::Correctable)) {
        let agreeing = case.answers.len() - case.wrong.len();
        let expected = Decoded { secret: case.secret, agreeing, wrong: case.wrong.iter().copied().collect() };
        prop_assert_eq!(decoding::decode(case.needed, &case.answers), Ok(expected));
    }
}

/// Answers that lie on two polynomials alike are given to neither.
#[test]
fn as_many_answers_on_either_of_two_polynomials_are_undecodable() {
    let needed = 3;
    for spare in 1..=8u16 {
        // They share two points, which q - 1 of their values are, and each has as many of the others.
        let polynomial = |x: u16, which: u16| Element::from(5) + Element::from(which) * shared_roots(x);
        let answers: Vec<_> = (1..=2 + 2 * spare).map(|x| (x, polynomial(x, x % 2))).collect();
        let correctable = (answers.len() - needed) / 2;
        assert_eq!(
            decoding::decode(needed, &answers),
            Err(Undecodable::TooManyWrong { answers: answers.len(), correctable })
        );
    }
}

fn shared_roots(x: u16) -> Element {
    (Element::from(x) - Element::ONE) * (Element::from(x) - Element::from(2))
}

// ---- Cases --------------------------------------------------------------------------------------------------------------

const P: u128 = MODULUS as u128;

type Answer = (u16, Element);

fn wide(element: Element) -> u128 {
    element.to_canonical().into()
}

/// Any element, the ends of the range often.
fn element() -> impl Strategy<Value = Element> {
    let edge = prop_oneof![0u64..4, MODULUS - 4..MODULUS, Just(1 << 60), Just((1 << 60) - 1)];
    prop_oneof![1 => edge, 3 => 0..MODULUS].prop_map(|value| Element::from_canonical(value).unwrap())
}

/// How many holders are needed, and what all are dealt.
fn committee(holders: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = (usize, Vec<Element>)> {
    vec(element(), holders).prop_flat_map(|dealt| (1..=dealt.len(), Just(dealt)))
}

#[derive(Debug, Clone)]
struct Spoilt {
    needed: usize,
    answers: Vec<Answer>,
    secret: Element,
    wrong: BTreeSet<u16>,
}

#[derive(Debug, Clone, Copy)]
enum Wrong {
    Correctable,
    Any,
}

/// Answers on a polynomial at any points, in any order, some of them wrong: by any amount, by one and the same amount, or
/// such that they lie on another polynomial.
fn spoilt(
    needed: std::ops::RangeInclusive<usize>,
    spare: std::ops::RangeInclusive<usize>,
    wrong: Wrong,
) -> impl Strategy<Value = Spoilt> {
    (needed, spare).prop_flat_map(move |(needed, spare)| {
        let count = needed + spare;
        // All holders of a small committee, some of the largest, or points as far apart as they can be written.
        let last = prop_oneof![Just(u16::try_from(count).unwrap()), Just(256)];
        let points = last.prop_flat_map(move |last| subsequence((1..=last).collect::<Vec<_>>(), count));
        let points = (points, prop_oneof![3 => Just(1), 1 => Just(255)])
            .prop_map(|(points, apart)| points.into_iter().map(|x| x * apart).collect::<Vec<u16>>());
        let most = match wrong {
            Wrong::Correctable => spare / 2,
            Wrong::Any => count,
        };
        let wrong = (0..=most).prop_flat_map(move |wrong| subsequence((0..count).collect::<Vec<_>>(), wrong));
        let errors = prop_oneof![
            vec(element(), count).prop_map(Errors::Any),
            element().prop_map(Errors::Same),
            vec(element(), needed).prop_map(Errors::OtherPolynomial),
        ];
        (vec(element(), needed), points, wrong, errors, any::<u64>()).prop_map(
            move |(polynomial, points, places, errors, order)| {
                let mut answers: Vec<_> = points.into_iter().map(|x| (x, slow::evaluate(&polynomial, x))).collect();
                let mut wrong = BTreeSet::new();
                for place in places {
                    let (x, value) = &mut answers[place];
                    let error = errors.at(place, *x);
                    *value += error;
                    if error != Element::ZERO {
                        wrong.insert(*x);
                    }
                }
                Spoilt { needed, answers: shuffled(answers, order), secret: polynomial[0], wrong }
            },
        )
    })
}

#[derive(Debug, Clone)]
enum Errors {
    Any(Vec<Element>),
    Same(Element),
    OtherPolynomial(Vec<Element>),
}

impl Errors {
    fn at(&self, place: usize, x: u16) -> Element {
        match self {
            Self::Any(errors) => errors[place],
            Self::Same(error) => *error,
            Self::OtherPolynomial(difference) => slow::evaluate(difference, x),
        }
    }
}

/// The same in an order that the number decides.
fn shuffled<T>(mut items: Vec<T>, order: u64) -> Vec<T> {
    let mut state = order;
    for end in (1..items.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        items.swap(end, usize::try_from(state >> 33).unwrap() % (end + 1));
    }
    items
}
