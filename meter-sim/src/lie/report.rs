//! The results of a run, as data and as text.

use std::collections::BTreeMap;
use std::fmt;

use dream_protocol::meter::Refusal;

use super::attack::Lie;
use super::dishonest_gateway::Response;
use super::dishonest_member::Day;

/// The result of one attack.
#[derive(Debug)]
pub struct Outcome {
    pub lie: Lie,
    /// How many meters it was tried on.
    pub meters: usize,
    /// How many refused it by the rule that is there for it.
    pub refused: usize,
    /// How many did what it asked for.
    pub complied: usize,
    /// The rules by which it was refused, in the meters' own words, each with how many named it.
    pub rules: BTreeMap<String, usize>,
    too_late: bool,
}

/// An honest step, which shows that the meters do not refuse everything.
#[derive(Debug)]
pub enum Control {
    List {
        accepted: usize,
        meters: usize,
    },
    Slot {
        answered: usize,
        meters: usize,
        sum: Option<i64>,
        exact: i64,
    },
    /// As many holders as may collude lost all their records, answered twice, and the others were shown one of two requests
    /// each: the most answers that one of them got, how many it takes, and whether that opened anything.
    RollBack {
        again: usize,
        most: usize,
        needed: usize,
        opens: bool,
    },
}

/// A whole run.
#[derive(Debug, Default)]
pub struct Report {
    pub outcomes: Vec<Outcome>,
    pub controls: Vec<Control>,
    /// Days with a dishonest member.
    pub days: Vec<Day>,
}

impl Outcome {
    pub(super) fn new(lie: Lie, responses: Vec<Response>) -> Self {
        let mut outcome =
            Self { lie, meters: responses.len(), refused: 0, complied: 0, rules: BTreeMap::new(), too_late: false };
        for Response { refusal, complied } in responses {
            outcome.complied += usize::from(complied);
            let Some(refusal) = refusal else { continue };
            outcome.refused += usize::from(!complied && lie.is_stopped_by(&refusal));
            // The slot was over, or had not begun for this meter: nothing was tried.
            outcome.too_late |= matches!(refusal, Refusal::UnknownSlot | Refusal::OtherAttempt | Refusal::OtherList);
            *outcome.rules.entry(refusal.to_string()).or_default() += 1;
        }
        outcome
    }

    /// Whether every meter refused it, by the rule that is there for it.
    pub fn is_refused(&self) -> bool {
        self.meters > 0 && self.refused == self.meters
    }

    pub(super) fn came_too_late(&self) -> bool {
        self.too_late && self.complied == 0
    }

    /// In one word or two.
    pub fn verdict(&self) -> &'static str {
        match self.complied {
            0 if self.is_refused() => "refused",
            0 => "UNCLEAR",
            _ => "SUCCEEDED",
        }
    }

    fn rule(&self) -> String {
        let most = self.rules.iter().max_by_key(|(_, meters)| **meters);
        most.map_or_else(|| "no rule".to_owned(), |(rule, _)| rule.clone())
    }
}

impl Control {
    pub fn worked(&self) -> bool {
        match self {
            Self::List { accepted, meters } => accepted == meters,
            Self::Slot { answered, meters, sum, .. } => answered == meters && sum.is_some(),
            Self::RollBack { most, needed, opens, .. } => most < needed && !opens,
        }
    }
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List { accepted, meters } => write!(f, "An honest list: accepted by {accepted} of {meters}."),
            Self::Slot { answered, meters, sum: Some(sum), exact } => write!(
                f,
                "An honest slot: answered by {answered} of {meters}. The gateway may know the noisy sum, {sum} W. \
                 Without noise, which it never learns, it was {exact} W. (With {meters} homes the noise is large. It does not \
                 grow with the number of homes, so it matters less in larger clusters.)"
            ),
            Self::Slot { answered, meters, sum: None, .. } => {
                write!(f, "An honest slot: answered by {answered} of {meters}, and the sum does not open.")
            }
            Self::RollBack { again, most, needed, opens } => {
                write!(
                    f,
                    "What this cannot stop: if everything is rolled back, the account too, a holder no longer knows \
                     that it answered. {again} holders, as many as the list allows to work for the gateway, were \
                     rolled back this way and answered twice. "
                )?;
                match opens {
                    false => write!(
                        f,
                        "Of two different requests, one gets at most {most} answers, and a sum needs {needed}: \
                         nothing opens. With more such holders it would."
                    ),
                    true => write!(f, "THAT OPENS A SECOND SUM."),
                }
            }
        }
    }
}

impl Report {
    /// Whether every lie was refused by every meter, every dishonest member found, and everything honest worked.
    pub fn is_good(&self) -> bool {
        let refused = self.outcomes.iter().all(Outcome::is_refused);
        refused && self.controls.iter().all(Control::worked) && self.days.iter().all(Day::is_good)
    }

    /// What is not as it should be, in one line.
    pub fn complaint(&self) -> String {
        let names = |names: Vec<String>| (!names.is_empty()).then(|| names.join(", "));
        let succeeded = self.outcomes.iter().filter(|outcome| !outcome.is_refused());
        let costly = self.days.iter().filter(|day| !day.is_good());
        let worked = self.controls.iter().all(Control::worked);
        let complaints = [
            names(succeeded.map(|outcome| outcome.lie.name()).collect())
                .map(|names| format!("not refused by all meters: {names}")),
            names(costly.map(|day| day.liar.name()).collect())
                .map(|names| format!("not found in time, or at the cost of honest members: {names}")),
            (!worked).then(|| "an honest step failed".to_owned()),
        ];
        let complaints: Vec<String> = complaints.into_iter().flatten().collect();
        if complaints.is_empty() { "nothing".to_owned() } else { complaints.join("; and ") }
    }
}

impl fmt::Display for Report {
    /// The tables.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.outcomes.is_empty() {
            writeln!(
                f,
                "{:<19} {:<10} {:<11} what it tries, and the rule that stops it",
                "attack", "verdict", "refused by"
            )?;
        }
        for outcome in &self.outcomes {
            let by = format!("{} of {}", outcome.refused, outcome.meters);
            let (name, verdict, tries) = (outcome.lie.name(), outcome.verdict(), outcome.lie.summary());
            writeln!(f, "{name:<19} {verdict:<10} {by:<11} {tries}")?;
            writeln!(f, "{:<42} - {}", "", outcome.rule())?;
        }
        let between = if self.outcomes.is_empty() || self.days.is_empty() { "" } else { "\n" };
        write!(f, "{between}")?;
        if !self.days.is_empty() {
            writeln!(f, "{:<19} {:<10} {:<11} what it does, and what that costs", "member", "verdict", "found after")?;
        }
        for day in &self.days {
            let after = day.found_after.map_or_else(|| "-".to_owned(), |after| format!("{after} slots"));
            writeln!(f, "{:<19} {:<10} {after:<11} {}", day.liar.name(), day.verdict(), day.liar.summary())?;
            writeln!(f, "{:<42} - {} of {} slots of the day decoded", "", day.decoded, day.slots)?;
        }
        Ok(())
    }
}
