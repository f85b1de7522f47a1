//! `meter-sim lie`: a dishonest gateway against honest meters, on a real broker; then a dishonest meter among them.
//!
//! The meters are the protocol's own machines with their default policy. The gateway signs with its real key: it is the
//! gateway. What protects a home is that every meter checks for itself, and this command shows each check at work. What
//! protects the sums from a member is that the gateway finds it and leaves it out.

mod attack;
mod choice;
mod client;
mod committee;
mod dishonest_gateway;
mod dishonest_member;
mod draft;
mod link;
mod meters;
mod participants;
mod report;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use dream_protocol::ids::ClusterId;
use dream_protocol::simulation::Simulation;
use dream_protocol::topic::{ANY_GATEWAY_STATUS, is_replica_of, replica_of_status};
use tokio::sync::mpsc::unbounded_channel;

pub use attack::{Attack, Lie};
pub use committee::CommitteeAttack;
pub use dishonest_member::{Day, Liar};
pub use participants::Participants;
pub use report::{Control, Outcome, Report};

use self::attack::Precondition;
use self::choice::Choice;
use self::dishonest_gateway::DishonestGateway;
use self::link::Event;
use self::meters::MeterGroup;
use crate::broker;
use dream_fleet::access::{Access, BrokerArgs};
use dream_fleet::clock::Clock;
use dream_fleet::directory::Directory;
use dream_homes::args::{BadInput, whole};

/// For how long after a subscription what the broker retains may take to arrive.
const RETAINED_WITHIN: Duration = Duration::from_secs(1);

/// Short, so that nobody waits long, and long enough for a busy machine.
const SLOT_SECONDS: u64 = 4;

const EXAMPLES: &str = "\
Examples:
  meter-sim lie
  meter-sim lie --only second-request --only oversized-request
  meter-sim lie --only split-request --only rolled-back-holders
  meter-sim lie --only spoils-sums --meters 99
  meter-sim lie --broker mqtt://localhost --meters 100
  meter-sim lie --broker mqtts://localhost --dir trial";

/// Attack honest meters as a dishonest gateway, attack a cluster as a dishonest meter, and report what happens
///
/// Takes about a minute. Without --broker, a broker is started inside this process. On your own broker it uses a
/// separate cluster with a random name, and leaves nothing behind. Attacks on a committee and the days with a dishonest
/// meter run in memory, where the gateway also controls who receives what. Exits with 0 only if every meter refused
/// every lie of the gateway, an honest list and an honest slot worked, and the gateway found every dishonest meter
/// while nearly all sums were decoded.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LieArgs {
    /// Use the gateway and the meters of a directory made by `meter-sim provision`, each on its own connection with its
    /// own certificate, for a broker that requires them. By default, certificates are made for this run only
    #[arg(long, value_name = "DIR", requires = "broker", conflicts_with = "client_certificate")]
    dir: Option<PathBuf>,
    /// Start a broker inside this process, which is the default without --broker
    #[arg(long, conflicts_with = "broker")]
    embedded: bool,
    /// The number of honest meters
    #[arg(long, default_value_t = 51, value_parser = whole::<usize, 51, 100>)]
    meters: usize,
    /// Limit to this attack; repeat it for more
    #[arg(long, value_name = "ATTACK", value_enum)]
    only: Vec<Choice>,
    #[command(flatten)]
    broker: BrokerArgs,
}

impl LieArgs {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let (attacks, to_committees, liars) = choice::chosen(&self.only);
        let mut report = if attacks.is_empty() { Report::default() } else { self.lie_to_meters(&attacks)? };
        if !to_committees.is_empty() {
            introduce_committee(self.meters);
            let more = committee::play(self.meters, Simulation::default(), &to_committees, tell);
            report.outcomes.extend(more.outcomes);
            report.controls.extend(more.controls);
        }
        for liar in liars {
            tell(RunEvent::Liar(liar));
            let day = liar.play(self.meters);
            tell(RunEvent::Day(&day));
            report.days.push(day);
        }
        conclude(&report);
        if !report.is_good() {
            bail!("{}", report.complaint());
        }
        Ok(())
    }

    /// Plays the dishonest gateway.
    fn lie_to_meters(&self, attacks: &[Attack]) -> anyhow::Result<Report> {
        let directory = self.dir.as_deref().map(Directory::open).transpose()?;
        let ca = directory.as_ref().map(Directory::broker_ca);
        let access = match self.broker.access(ca.as_deref())? {
            Some(access) => access,
            None => {
                let embedded = broker::start(None).context("the embedded broker cannot be started")?;
                Access::open(embedded.ip().to_string(), embedded.port())
            }
        };
        let participants = match &directory {
            Some(directory) => Participants::of_directory(directory, self.meters, &access)?,
            None => Participants::generate(self.meters, &access),
        };
        let runtime = tokio::runtime::Runtime::new().context("cannot start threads")?;
        if directory.is_some() {
            runtime.block_on(refuse_beside_the_real_one(&participants))?;
        }
        introduce(self.meters);
        runtime.block_on(play(participants, Simulation::default(), attacks, tell))
    }
}

/// Refuses to play a gateway that is at work: a broker that knows clients by their certificates would throw it off.
async fn refuse_beside_the_real_one(participants: &Participants) -> anyhow::Result<()> {
    let id = &participants.gateway.id;
    let Some((link, _)) = participants.groups.first() else { return Ok(()) };
    let (_client, mut events) =
        link.connect(&format!("lie-look-{:08x}", rand::random::<u32>()), &[ANY_GATEWAY_STATUS.to_owned()]);
    let mut subscribed = false;
    loop {
        let event = if subscribed {
            tokio::time::timeout(RETAINED_WITHIN, events.recv()).await.unwrap_or(None)
        } else {
            events.recv().await
        };
        match event {
            Some(Event::Message { topic, payload }) => {
                let own = replica_of_status(&topic).is_some_and(|replica| is_replica_of(replica, id));
                if own && payload == b"online" {
                    return Err(BadInput(format!(
                        "--dir: the gateway {id} is online on this broker. This command connects with its \
                         certificate, and the broker would disconnect it. Stop it first, or make another directory \
                         with `meter-sim provision`"
                    ))
                    .into());
                }
            }
            Some(Event::Subscribed) => subscribed = true,
            // Those who connect next say what is wrong.
            Some(Event::Lost(_)) | None => return Ok(()),
        }
    }
}

/// Something that happened in a run.
#[derive(Debug, Clone, Copy)]
pub enum RunEvent<'a> {
    /// Comes before its outcome.
    Lie(Lie),
    Outcome(&'a Outcome),
    Control(&'a Control),
    /// Comes before its day.
    Liar(Liar),
    Day(&'a Day),
}

/// Tries these attacks on the meters, in an order that makes sense, with honest steps in between. `simulation` may switch a
/// rule of the meters off, to show what it is for.
pub async fn play(
    participants: Participants,
    simulation: Simulation,
    attacks: &[Attack],
    mut tell: impl FnMut(RunEvent<'_>),
) -> anyhow::Result<Report> {
    // A cluster that nobody else is in: an honest gateway may be at work on the same broker.
    let run: u32 = rand::random();
    let cluster = ClusterId::new(&format!("lie-{run:08x}")).expect("a plain name");
    let (meters, policy) = (participants.meters(), participants.policy());
    let Participants { authorities, gateway, groups } = participants;
    let (meter_events, receiver) = unbounded_channel();
    let clock = Clock::start();
    let mut gateway = DishonestGateway::connect(
        gateway,
        &format!("{cluster}-gw"),
        cluster.clone(),
        authorities,
        meters,
        receiver,
        clock,
    );
    gateway.subscribed().await?;
    for (number, (link, identities)) in groups.into_iter().enumerate() {
        let id = format!("{cluster}-{number}");
        let group =
            MeterGroup::connect(&*link, &id, identities, &cluster, &policy, simulation, meter_events.clone(), clock)?;
        tokio::spawn(group.run());
    }
    drop(meter_events);
    gateway.enrolled().await?;

    let mut report = Report::default();
    for step in steps(attacks) {
        match step {
            Step::Lie(attack) => {
                tell(RunEvent::Lie(Lie::ToMembers(attack)));
                let outcome = gateway.lie(attack).await?;
                tell(RunEvent::Outcome(&outcome));
                report.outcomes.push(outcome);
            }
            Step::List | Step::Slot => {
                let control =
                    if step == Step::List { gateway.honest_list().await? } else { gateway.honest_slot().await? };
                tell(RunEvent::Control(&control));
                let worked = control.worked();
                report.controls.push(control);
                if step == Step::List && !worked {
                    // Without a list there is nothing more to lie about.
                    return Ok(report);
                }
            }
        }
    }
    Ok(report)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Lie(Attack),
    List,
    Slot,
}

/// Returns the attacks, each after the honest step that its precondition needs.
fn steps(attacks: &[Attack]) -> Vec<Step> {
    let lies = |precondition: Precondition| {
        attacks.iter().filter(move |lie| lie.precondition() == precondition).map(|lie| Step::Lie(*lie))
    };
    // This one leaves a slot that cannot be opened, so it comes last.
    let (last, first): (Vec<_>, Vec<_>) =
        lies(Precondition::ReportedSlot).partition(|step| *step == Step::Lie(Attack::NamedMissing));
    let before = lies(Precondition::NoList).chain([Step::List]).chain(lies(Precondition::List)).chain(first);
    before.chain([Step::Slot]).chain(lies(Precondition::AnsweredSlot)).chain(last).collect()
}

#[expect(clippy::print_stdout, reason = "the command's answer")]
fn introduce(meters: usize) {
    println!(
        "\
A gateway should learn what a neighbourhood uses, and never what one home uses. So each meter adds noise to its reading and
hides it under masks that cancel only in the sum over all homes. The meters do not trust the gateway with this: they check
every rule that protects a home themselves.

Here the gateway lies, and signs its lies with its real key. {meters} honest meters decide what to do. They are configured as
in real homes, except for slots of {SLOT_SECONDS} seconds.
"
    );
}

#[expect(clippy::print_stdout, reason = "the command's answer")]
fn introduce_committee(meters: usize) {
    println!(
        "\
Now {meters} meters with a committee: all but one of them are willing to be holders, who open the sum together. Here the
gateway controls the broker, and shows each meter whatever it likes.
"
    );
}

#[expect(clippy::print_stdout, reason = "the command's answer")]
fn tell(event: RunEvent<'_>) {
    match event {
        RunEvent::Lie(lie) => println!("{}\n{}", lie.name(), wrapped(lie.explanation())),
        RunEvent::Outcome(outcome) => {
            for (rule, meters) in &outcome.rules {
                println!("{}", wrapped(&format!("{meters} of {} refuse: {rule}", outcome.meters)));
            }
            if outcome.complied > 0 {
                println!("    {} of {} OBEY", outcome.complied, outcome.meters);
            }
            println!();
        }
        RunEvent::Control(control) => println!("{}\n", wrapped(&control.to_string())),
        RunEvent::Liar(liar) => println!("{}\n{}", liar.name(), wrapped(liar.explanation())),
        RunEvent::Day(day) => println!("{}\n", wrapped(&day.to_string())),
    }
}

#[expect(clippy::print_stdout, reason = "the command's answer")]
fn conclude(report: &Report) {
    print!("{report}");
    let all = match (report.outcomes.is_empty(), report.days.is_empty()) {
        (false, true) => "Every meter concerned refused every lie, and every honest step worked.",
        (true, _) => "Every liar was found, and most sums were decoded.",
        (false, false) => {
            "Every meter concerned refused every lie, every liar was found, and every honest step worked."
        }
    };
    if report.is_good() {
        println!("\n{all}");
    }
}

/// Indented, in lines that fit a terminal.
fn wrapped(text: &str) -> String {
    const WIDTH: usize = 100;
    let mut lines = vec![String::from("   ")];
    for word in text.split_whitespace() {
        if lines.last().is_some_and(|line| line.len() + word.len() >= WIDTH) {
            lines.push(String::from("   "));
        }
        if let Some(line) = lines.last_mut() {
            line.push(' ');
            line.push_str(word);
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod virtual_time;

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn every_lie_is_told_once_and_what_is_honest_comes_in_between() {
        let steps = steps(Attack::value_variants());
        assert_eq!(steps.len(), Attack::value_variants().len() + 2);
        for attack in Attack::value_variants() {
            assert_eq!(steps.iter().filter(|step| **step == Step::Lie(*attack)).count(), 1, "{attack:?}");
        }
        assert_eq!(super::steps(&[]), [Step::List, Step::Slot]);
    }

    #[test]
    fn long_texts_are_broken_between_words() {
        let text = wrapped(Attack::InventedMembers.explanation());
        assert!(text.lines().all(|line| line.len() <= 100 && line.starts_with("    ")), "{text}");
    }
}
