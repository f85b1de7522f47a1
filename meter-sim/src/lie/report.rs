//! The results of a run, as data and as text.

use std::collections::BTreeMap;
use std::fmt;

use dream_protocol::meter::Refusal;

use super::attack::Attack;
use super::dishonest_gateway::Response;

/// The result of one attack.
#[derive(Debug)]
pub struct Outcome {
    pub attack: Attack,
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
    List { accepted: usize, meters: usize },
    Slot { answered: usize, meters: usize, sum: Option<i64>, exact: i64 },
}

/// A whole run.
#[derive(Debug, Default)]
pub struct Report {
    pub outcomes: Vec<Outcome>,
    pub controls: Vec<Control>,
}

impl Outcome {
    pub(super) fn new(attack: Attack, responses: Vec<Response>) -> Self {
        let mut outcome =
            Self { attack, meters: responses.len(), refused: 0, complied: 0, rules: BTreeMap::new(), too_late: false };
        for Response { refusal, complied } in responses {
            outcome.complied += usize::from(complied);
            let Some(refusal) = refusal else { continue };
            outcome.refused += usize::from(!complied && attack.is_stopped_by(&refusal));
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
        }
    }
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List { accepted, meters } => write!(f, "An honest list: accepted by {accepted} of {meters}."),
            Self::Slot { answered, meters, sum: Some(sum), exact } => write!(
                f,
                "An honest slot: answered by {answered} of {meters}. The gateway may know the sum with noise, {sum} W; \
                 without noise, which it never learns, it was {exact} W. (With {meters} homes noise is large. It stays as \
                 it is when there are more homes, and matters less.)"
            ),
            Self::Slot { answered, meters, sum: None, .. } => {
                write!(f, "An honest slot: answered by {answered} of {meters}, and the sum does not open.")
            }
        }
    }
}

impl Report {
    /// Whether every lie was refused by every meter, and everything honest worked.
    pub fn is_good(&self) -> bool {
        self.outcomes.iter().all(Outcome::is_refused) && self.controls.iter().all(Control::worked)
    }

    /// What is not as it should be, in one line.
    pub fn complaint(&self) -> String {
        let succeeded: Vec<String> =
            self.outcomes.iter().filter(|outcome| !outcome.is_refused()).map(|outcome| outcome.attack.name()).collect();
        let failed = self.controls.iter().filter(|control| !control.worked()).count();
        match (succeeded.is_empty(), failed) {
            (true, 0) => "nothing".to_owned(),
            (true, _) => "something honest did not work".to_owned(),
            (false, 0) => format!("not refused by all meters: {}", succeeded.join(", ")),
            (false, _) => {
                format!("not refused by all meters: {}; and something honest did not work", succeeded.join(", "))
            }
        }
    }
}

impl fmt::Display for Report {
    /// The table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<18} {:<10} {:<11} what it tries, and the rule that stops it",
            "attack", "verdict", "refused by"
        )?;
        for outcome in &self.outcomes {
            let by = format!("{} of {}", outcome.refused, outcome.meters);
            let (name, verdict, tries) = (outcome.attack.name(), outcome.verdict(), outcome.attack.summary());
            writeln!(f, "{name:<18} {verdict:<10} {by:<11} {tries}")?;
            writeln!(f, "{:<41} - {}", "", outcome.rule())?;
        }
        Ok(())
    }
}
