//! A dishonest gateway against meters of a committee. It owns the broker too, and so decides who hears what: messages travel in
//! memory, in virtual time, and it is the same run every time.

mod attack;
mod false_list;
mod scene;

use std::collections::BTreeMap;

use dream_protocol::meter::Key;
use dream_protocol::simulation::Simulation;

pub use attack::CommitteeAttack;

use self::false_list::{FalseHolder, FalseList};
use self::scene::Scene;
use super::RunEvent;
use super::attack::Lie;
use super::dishonest_gateway::Response;
use super::participants::watts;
use super::report::{Control, Outcome, Report};

/// Tries these attacks on so many meters, with an honest list and an honest slot in between. `simulation` may switch a rule of
/// the meters off, to show what it is for.
pub(super) fn play(
    meters: usize,
    simulation: Simulation,
    attacks: &[CommitteeAttack],
    mut tell: impl FnMut(RunEvent<'_>),
) -> Report {
    let mut scene = Scene::new(meters, simulation);
    let mut report = Report::default();
    for honest in [honest_list, honest_slot] {
        let control = honest(&mut scene);
        tell(RunEvent::Control(&control));
        report.controls.push(control);
    }
    for &attack in attacks {
        let lie = Lie::ToCommittee(attack);
        tell(RunEvent::Lie(lie));
        let outcome = Outcome::new(lie, try_on(&mut scene, attack));
        tell(RunEvent::Outcome(&outcome));
        report.outcomes.push(outcome);
        if attack == CommitteeAttack::RolledBackHolders {
            let control = whole_roll_back(&mut scene);
            tell(RunEvent::Control(&control));
            report.controls.push(control);
        }
    }
    report
}

fn try_on(scene: &mut Scene, attack: CommitteeAttack) -> Vec<Response> {
    match attack {
        CommitteeAttack::ForeignAuthorities => publish(scene, FalseList::ForeignAuthorities),
        CommitteeAttack::OtherBody => publish(scene, FalseList::OtherBody),
        CommitteeAttack::PaddedHolders => publish(scene, FalseList::Holder(FalseHolder::Twice)),
        CommitteeAttack::UndrawnHolder => publish(scene, FalseList::Holder(FalseHolder::Undrawn)),
        CommitteeAttack::UnwillingHolder => publish(scene, FalseList::Holder(FalseHolder::Unwilling)),
        CommitteeAttack::SplitRequest => split_request(scene),
        CommitteeAttack::AskedTwice => asked_twice(scene),
        CommitteeAttack::LateRequest => late_request(scene),
        CommitteeAttack::RolledBackHolders => rolled_back(scene),
    }
}

fn publish(scene: &mut Scene, list: FalseList) -> Vec<Response> {
    let (channel, bytes) = scene.false_list(list);
    responses(scene.tell_all(channel, &bytes))
}

fn responses(reactions: Vec<scene::Reaction>) -> Vec<Response> {
    reactions.into_iter().map(|reaction| reaction.response).collect()
}

/// Lets the gateway form its list, which all meters must accept.
fn honest_list(scene: &mut Scene) -> Control {
    scene.run_until_listed();
    Control::List { accepted: scene.accepted(), meters: scene.meters() }
}

/// Hands an honest request to all, and its answers to the gateway.
fn honest_slot(scene: &mut Scene) -> Control {
    let request = scene.next_request();
    let answers = scene.ask(&request, 0..scene.holders.len());
    let answered = answers.iter().filter(|reaction| reaction.response.complied).count();
    let sum = scene.open(request.slot, answers);
    let exact = (0..scene.meters()).map(watts).sum();
    Control::Slot { answered, meters: scene.holders.len(), sum, exact }
}

/// Asks half of the holders for one sum and half for another; then each half for the other one. A holder that answers
/// both complies; and so do all if a sum opens.
fn split_request(scene: &mut Scene) -> Vec<Response> {
    let first = scene.next_request();
    let second = scene.another_request(&first);
    let (half, all) = (scene.holders.len() / 2, scene.holders.len());
    let mut answers = scene.ask(&first, 0..half);
    scene.ask(&second, half..all);
    let mut again = scene.ask(&second, 0..half);
    again.extend(scene.ask(&first, half..all));
    let refused: Vec<Response> = again.iter().map(|reaction| reaction.response.clone()).collect();
    answers.extend(again.into_iter().skip(half));
    let opens = scene.open(first.slot, answers).is_some();
    refused.into_iter().map(|response| Response { complied: response.complied || opens, ..response }).collect()
}

fn asked_twice(scene: &mut Scene) -> Vec<Response> {
    let first = scene.next_request();
    let second = scene.another_request(&first);
    let all = 0..scene.holders.len();
    scene.ask(&first, all.clone());
    responses(scene.ask(&second, all))
}

fn late_request(scene: &mut Scene) -> Vec<Response> {
    let request = scene.next_request();
    scene.run_past(request.slot);
    responses(scene.ask(&request, 0..scene.holders.len()))
}

/// Puts everything back that holders have recorded, but for the account, which a meter keeps where it cannot be put back.
fn rolled_back(scene: &mut Scene) -> Vec<Response> {
    let first = scene.next_request();
    let second = scene.another_request(&first);
    let all = 0..scene.holders.len();
    let before = all.clone().map(|holder| scene.records_of(holder)).collect::<Vec<_>>();
    scene.ask(&first, all.clone());
    for (holder, mut records) in before.into_iter().enumerate() {
        let account = scene.records_of(holder).remove(&Key::Account);
        records.extend(account.map(|account| (Key::Account, account)));
        scene.put_back(holder, records);
    }
    responses(scene.ask(&second, all))
}

/// Puts back all that f holders have recorded, the account as well: they answer again, and cannot know better. The others are
/// shown one of two requests each, so that both get as many answers as can be.
fn whole_roll_back(scene: &mut Scene) -> Control {
    let (needed, colluding) = scene.committee();
    let first = scene.next_request();
    let second = scene.another_request(&first);
    let all = scene.holders.len();
    let half = colluding + (all - colluding) / 2;
    let before: Vec<BTreeMap<Key, Vec<u8>>> = (0..colluding).map(|holder| scene.records_of(holder)).collect();
    let answers = |reactions: &[scene::Reaction]| reactions.iter().filter(|one| one.response.complied).count();
    let answered = scene.ask(&first, 0..half);
    let to_first = answers(&answered);
    for (holder, records) in before.into_iter().enumerate() {
        scene.put_back(holder, records);
    }
    let again = answers(&scene.ask(&second, 0..colluding));
    let to_second = again + answers(&scene.ask(&second, half..all));
    let opens = scene.open(first.slot, answered).is_some();
    Control::RollBack { again, most: to_first.max(to_second), needed, opens }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    fn succeeded(report: &Report) -> Vec<(Lie, usize)> {
        let outcomes = report.outcomes.iter().filter(|outcome| !outcome.is_refused());
        outcomes.map(|outcome| (outcome.lie, outcome.complied)).collect()
    }

    #[test]
    fn every_lie_is_refused_and_what_is_honest_works() {
        let report = play(51, Simulation::default(), CommitteeAttack::value_variants(), |_| {});
        assert_eq!((succeeded(&report), report.controls.len()), (Vec::new(), 3), "{report}");
        assert!(report.is_good(), "{}", report.complaint());
    }

    #[test]
    fn holders_that_answer_twice_are_found_out() {
        let twice = Simulation { one_answer: false, ..Simulation::default() };
        let report = play(51, twice, CommitteeAttack::value_variants(), |_| {});
        let all = |attack| (Lie::ToCommittee(attack), 50);
        let expected =
            [CommitteeAttack::SplitRequest, CommitteeAttack::AskedTwice, CommitteeAttack::RolledBackHolders].map(all);
        assert_eq!(succeeded(&report), expected, "all but the one that is no holder\n{report}");
        assert!(!report.is_good());
    }
}
