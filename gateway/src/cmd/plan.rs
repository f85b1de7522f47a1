//! `dream-gateway plan`: what a cluster would cost and how far its sums would be off, before it exists.
//!
//! Everything is computed by the code that later does it: parameters, noise and policy are the protocol's, and message
//! sizes are those of real messages. Nothing is read and nothing is sent.

mod choice;
mod cost;
mod error;
mod homes;
mod numbers;
mod report;
mod scheme;
mod solve;
mod suited;
mod summary;
mod text;

use std::fmt;
use std::io::Write;

use clap::{Args, FromArgMatches as _};
use dream_edge::HomeKind;
use dream_edge::cut_off::{CutOffDay, CutOffTable};
use dream_protocol::params::{Params, Terms};
use dream_protocol::policy::Profile;
use dream_protocol::scheme::{COMMITTEE_FROM, Kind, SchemeChoice};

use self::choice::{Choice, Privacy};
use self::homes::Homes;
use self::numbers::real;
use self::report::{Found, Plan};
use self::scheme::SchemePlan;
use crate::cmd::BadInput;
use crate::config::decimal::{self, Fraction};
use crate::config::{even_draws, with_committee};

const EXAMPLES: &str = "\
Which kind?
  1. Does any home heat rooms or water with electricity, or charge a car? electric-heat. As house, such homes lost a third of
     their energy.
  2. Does any home feed in? pv. Under a range that begins at 0, all that is fed in is lost.
  3. Do nearly all homes have one or two residents? flat, otherwise house. Houses as flats lost a tenth of their energy.
  A kind that is too large only adds noise.

Examples:
  dream-gateway plan --homes 600 --kind house
  dream-gateway plan --homes 10000 --kind house --day-epsilon 4 --willing 0.9 --loss 0.02
  dream-gateway plan --error 3 --day-epsilon 10                  # how many homes?
  dream-gateway plan --error 6 --homes 600                       # what epsilon of a day?
  dream-gateway plan --error 6 --homes 600 --day-epsilon 8       # how long are slots?
  dream-gateway plan --homes 300 --range -5000..9000 --mean-load 400 --json";

/// A planned cluster. Defaults are those of the gateway's configuration.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct PlanArgs {
    /// How many homes the cluster has, each with a meter; by default 300
    #[arg(long, value_name = "COUNT", visible_alias = "members", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    homes: Option<u16>,
    /// Home profile to assume: flat, house, electric-heat or pv. It sets the range of readings and their root mean square over a day;
    /// three questions below choose it
    #[arg(long, value_name = "KIND", default_value_t)]
    kind: HomeKind,
    /// The error you accept: the mean size of the noise in a slot's sum when all answer, in per cent of the mean load.
    /// The plan then solves for the homes if --homes is left out, or else for the epsilon of a day, or else for the
    /// length of slots
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    error: Option<f64>,
    /// Epsilon of all slots of a UTC day together, but for a probability of one in a million; 0 for none. An attempt then
    /// gets the largest epsilon that meters accept and under which the kind's day fits; with --epsilon too, readings are
    /// cut off so that they fit. By default, enough for the kind's day
    #[arg(long, value_name = "EPSILON", value_parser = day_epsilon)]
    day_epsilon: Option<u64>,
    /// The length of a slot; by default 600
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    slot_seconds: Option<u64>,
    /// The share of the members that are willing to be holders of a committee
    #[arg(long, value_name = "SHARE", default_value = "1", value_parser = share)]
    willing: Fraction,
    /// The share of members that send a reading and then cannot be reached; shows how often that costs a slot. At most 0.5
    #[arg(long, value_name = "SHARE", default_value = "0.01", value_parser = loss)]
    loss: f64,
    /// What a home draws on average, in watts; errors are also shown in per cent of this times the homes. By default
    /// that of simulated homes of the kind: flat 390, house 480, electric-heat 2100, pv 440 (drawn or fed in)
    #[arg(long, value_name = "WATTS", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    mean_load: Option<u32>,
    /// Epsilon of one attempt: a decimal, used exactly. By default what --day-epsilon leaves for the slots of a day, or else
    /// flat 0.48, house 0.5, electric-heat 0.24, pv 0.5
    #[arg(long, value_parser = epsilon)]
    epsilon: Option<Fraction>,
    /// The least and the greatest reading in watts, instead of the kind's; meters clip what lies outside. Homes that feed in
    /// start below 0
    #[arg(long, value_name = "LO..HI", value_parser = range, allow_hyphen_values = true)]
    range: Option<(i64, i64)>,
    /// The share of the members that may be silent in a slot, at most 0.2; rounded down to whole members
    #[arg(long, value_name = "SHARE", default_value = "0.1", value_parser = share)]
    max_missing: Fraction,
    /// The share of the members that may collude with the gateway, at least 0.1; rounded up to whole members
    #[arg(long, value_name = "SHARE", default_value = "0.1", value_parser = share)]
    max_malicious: Fraction,
    /// How long readings may take to arrive; by default a tenth of the slot
    #[arg(long, value_name = "SECONDS")]
    reading_seconds: Option<u64>,
    /// How long reveals may take to arrive; by default a tenth of the slot
    #[arg(long, value_name = "SECONDS")]
    reveal_seconds: Option<u64>,
    /// How often a slot may be tried, the first time included; by default once with a committee and twice without
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=255))]
    attempts: Option<u64>,
    /// How sums are opened: auto (a committee from 50 members on), committee or pairwise
    #[arg(long, value_name = "NAME", default_value_t)]
    scheme: SchemeChoice,
    /// How many mask partners a member has on average; 0 means all other members, which is safest
    #[arg(long, default_value_t = 0)]
    partners: u64,
    /// The policy of the meters: strict, community (each certificate says how many meters the cluster has) or trial.
    /// Its least number of malicious members is assumed, however small the cluster
    #[arg(long, value_name = "NAME", default_value_t)]
    meter_policy: Profile,
    /// How many slots a membership list covers
    #[arg(long, value_name = "SLOTS", default_value_t = 1008, value_parser = clap::value_parser!(u64).range(4..=1_000_000))]
    list_slots: u64,
    /// Also print the lines for the configuration and every number behind the sentences
    #[arg(long, short)]
    verbose: bool,
    /// Print JSON instead of text
    #[arg(long, conflicts_with = "verbose")]
    json: bool,
}

impl PlanArgs {
    /// Parses arguments that are not this process's own.
    pub(crate) fn of<'a>(arguments: impl Iterator<Item = &'a str>) -> clap::error::Result<Self> {
        let command = Self::augment_args(clap::Command::new("plan"));
        Self::from_arg_matches(&command.try_get_matches_from(std::iter::once("plan").chain(arguments))?)
    }

    pub(crate) fn run(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let (choice, free) = self.solved()?;
        let (params, no_committee) = self.with_scheme(self.params(&choice)?)?;
        let scheme = SchemePlan::new(&params, self.willing_of(params.members()), self.loss, no_committee);
        let found = free.zip(self.error).map(|(free, error)| Found::new(free, error, &choice));
        let plan = Plan::new(self, &choice, &params, scheme, found);
        if self.json {
            serde_json::to_writer_pretty(&mut *out, &plan)?;
            writeln!(out)?;
            return Ok(());
        }
        text::write(&plan, out)?;
        if self.verbose {
            text::write_details(&plan, out)?;
        } else {
            writeln!(
                out,
                "--verbose adds the lines for the configuration, assumptions and costs; --json has every number."
            )?;
        }
        Ok(())
    }

    /// Returns how many members are willing to be holders, rounded down.
    fn willing_of(&self, members: u16) -> u16 {
        let Fraction { numerator, denominator } = self.willing;
        u16::try_from(numerator * u64::from(members) / denominator).unwrap_or(members)
    }

    fn mean_watts_per_home(&self) -> u32 {
        self.mean_load.unwrap_or_else(|| Homes::of(self.kind).mean_watts)
    }

    /// Returns the mean load of the whole cluster.
    fn mean_watts(&self, params: &Params) -> u64 {
        u64::from(params.members()) * u64::from(self.mean_watts_per_home())
    }

    /// Returns what simulated homes of the kind cut off.
    fn cut_off(&self, params: &Params) -> Option<CutOffDay> {
        let Terms { lo, hi, .. } = *params.terms();
        CutOffTable::shipped().of(self.kind, (lo, hi), params.day_rms_watts())
    }

    /// Returns the parameters with a committee if there is to be one; with the reason if one was preferred and cannot
    /// be formed.
    fn with_scheme(&self, pairwise: Params) -> Result<(Params, Option<String>), BadInput> {
        let members = pairwise.members();
        let wanted = match self.scheme {
            SchemeChoice::Only(kind) => kind,
            SchemeChoice::Auto if self.partners == 0 && members >= COMMITTEE_FROM => Kind::Committee,
            SchemeChoice::Auto => Kind::Pairwise,
        };
        if wanted == Kind::Pairwise {
            return Ok((pairwise, None));
        }
        if self.partners != 0 {
            return Err(BadInput("--scheme, --partners: a committee has no mask partners; leave one out".to_owned()));
        }
        let draws = even_draws(self.willing_of(members));
        match with_committee(&pairwise, self.attempts.unwrap_or(1), self.meter_policy, &draws) {
            Ok(params) => Ok((params, None)),
            Err(reason) if self.scheme == SchemeChoice::Auto => Ok((pairwise, Some(reason))),
            Err(reason) => Err(BadInput(format!("--scheme, --homes, --willing, --max-missing: {reason}"))),
        }
    }

    /// Returns the keys that a cluster with this plan needs in the gateway's configuration: those that the plan is
    /// about, and others where they are not the default.
    fn configuration(&self, choice: &Choice, params: &Params) -> Vec<String> {
        let terms = params.terms();
        let usual = Terms::with_slots_of(terms.slot_seconds);
        let tenth = Fraction { numerator: 1, denominator: 10 };
        let key = |name: &str, value: &dyn fmt::Display| Some(format!("{name} = {value}"));
        let text = |name: &str, value: &dyn fmt::Display| Some(format!("{name} = \"{value}\""));
        let other = |name: &str, value: Option<u64>, usual: u64| {
            value.filter(|value| *value != usual).and_then(|value| key(name, &value))
        };
        let (epsilon, day) = match choice.privacy {
            Privacy::Attempt(attempt) => (Some(attempt), None),
            // The defaults of a configuration may state the epsilon of an attempt.
            Privacy::Day(day) => (Some(Fraction::millionths(params.charge_micro_epsilon())), Some(day)),
            Privacy::Both { attempt, day } => (Some(attempt), Some(day)),
        };
        let lines = [
            text("kind", &self.kind),
            self.range.and_then(|(lo, hi)| key("range_watts", &format_args!("[{lo}, {hi}]"))),
            key("slot_seconds", &terms.slot_seconds),
            epsilon.and_then(|epsilon| key("epsilon", &epsilon)),
            day.and_then(|day| key("day_epsilon", &Fraction::millionths(day))),
            other("reading_seconds", self.reading_seconds, usual.reading_seconds),
            other("reveal_seconds", self.reveal_seconds, usual.reveal_seconds),
            self.attempts.and_then(|attempts| key("attempts", &attempts)),
            (self.max_missing != tenth).then(|| key("max_missing", &self.max_missing)).flatten(),
            (self.max_malicious != tenth).then(|| key("max_malicious", &self.max_malicious)).flatten(),
            (self.scheme != SchemeChoice::Auto).then(|| text("scheme", &self.scheme)).flatten(),
            other("partners", Some(self.partners), 0),
            (self.meter_policy != Profile::Strict).then(|| text("meter_policy", &self.meter_policy)).flatten(),
            other("list_slots", Some(self.list_slots), 1008),
        ];
        lines.into_iter().flatten().collect()
    }
}

fn share(text: &str) -> Result<Fraction, &'static str> {
    let share = Fraction::parse(text).filter(|share| share.share().is_some());
    share.ok_or("it is not a share of the members; use a decimal from 0 to 1, such as 0.1")
}

fn percent(text: &str) -> Result<f64, &'static str> {
    let percent = Fraction::parse(text).map(|percent| real(percent.numerator) / real(percent.denominator));
    percent
        .filter(|percent| *percent > 0.0 && *percent <= 100.0)
        .ok_or("use per cent of the mean load above 0, such as 3 or 2.5")
}

fn loss(text: &str) -> Result<f64, &'static str> {
    let loss = Fraction::parse(text).map(|share| real(share.numerator) / real(share.denominator));
    let loss = loss.filter(|loss| *loss <= 0.5);
    loss.ok_or("use a decimal from 0 to 0.5, such as 0.01")
}

fn epsilon(text: &str) -> Result<Fraction, &'static str> {
    decimal::epsilon(text).ok_or("use a decimal above 0 with at most six places, such as 1 or 0.5")
}

fn day_epsilon(text: &str) -> Result<u64, &'static str> {
    decimal::day_micro_epsilon(text)
        .ok_or("use 0 for none, or a decimal below 1099511 with at most six places, such as 4")
}

fn range(text: &str) -> Result<(i64, i64), &'static str> {
    let ends = text.split_once("..").and_then(|(lo, hi)| Some((lo.parse().ok()?, hi.parse().ok()?)));
    ends.ok_or("use two whole numbers of watts, such as 0..9000 or -5000..9000")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the arguments as a user would give them.
    pub(super) fn parsed(arguments: &str) -> PlanArgs {
        PlanArgs::of(arguments.split_whitespace()).unwrap()
    }

    /// Returns why there is no such plan.
    pub(super) fn refused(arguments: &str) -> String {
        parsed(arguments).run(&mut Vec::new()).unwrap_err().to_string()
    }
}
