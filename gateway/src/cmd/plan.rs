//! `dream-gateway plan`: what a cluster would cost and how far its sums would be off, before it exists.
//!
//! Everything is computed by the code that later does it: parameters, noise and policy are the protocol's, and message
//! sizes are those of real messages. Nothing is read and nothing is sent.

mod cost;
mod error;
mod numbers;
mod report;
mod scheme;
mod text;

use std::io::Write;

use clap::Args;
use dream_protocol::kind::Kind as HomeKind;
use dream_protocol::params::{Params, ParamsError, Share, Terms};
use dream_protocol::policy::Profile;
use dream_protocol::scheme::{COMMITTEE_FROM, Kind, Scheme, SchemeChoice};

use self::numbers::real;
use self::report::Plan;
use self::scheme::SchemePlan;
use crate::cmd::BadInput;
use crate::config::decimal::{self, Fraction};
use crate::config::{even_draws, with_committee};

const EXAMPLES: &str = "\
Examples:
  dream-gateway plan
  dream-gateway plan --members 600 --mean-load 400
  dream-gateway plan --members 1000 --slot-seconds 900 --epsilon 0.5
  dream-gateway plan --members 10000 --kind pv --epsilon 0.1
  dream-gateway plan --members 10000 --willing 0.6 --loss 0.05
  dream-gateway plan --members 300 --range -5000..9000 --json";

/// A cluster that is thought about. Defaults are those of the gateway's configuration.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct PlanArgs {
    /// How many meters the cluster has
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    members: u16,
    /// The share of the members that may be silent in a slot, at most 0.2; rounded down to whole members
    #[arg(long, value_name = "SHARE", default_value = "0.1", value_parser = share)]
    max_missing: Share,
    /// The share of the members that may collude with the gateway, at least 0.1; rounded up to whole members
    #[arg(long, value_name = "SHARE", default_value = "0.1", value_parser = share)]
    max_malicious: Share,
    /// Epsilon of one attempt: a decimal, used exactly
    #[arg(long, default_value = "1", value_parser = epsilon)]
    epsilon: Fraction,
    /// What kind of homes they are: flat, house, electric-heat or pv. It sets the range of readings and the energy of a day
    #[arg(long, value_name = "KIND", default_value_t)]
    kind: HomeKind,
    /// The least and the greatest reading in watts, instead of the kind's; meters clip what lies outside. Homes that feed in
    /// start below 0
    #[arg(long, value_name = "LO..HI", value_parser = range, allow_hyphen_values = true)]
    range: Option<(i64, i64)>,
    /// Epsilon of all slots of a UTC day together, instead of the one that the kind's energy takes; 0 for none
    #[arg(long, value_name = "EPSILON", value_parser = day_epsilon)]
    day_epsilon: Option<u64>,
    /// The length of a slot
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    slot_seconds: u64,
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
    /// The share of the members that are willing to be holders of a committee
    #[arg(long, value_name = "SHARE", default_value = "1", value_parser = willing)]
    willing: Fraction,
    /// The share of members that send a reading and then cannot be reached: to tell how often that costs a slot. At most 0.5
    #[arg(long, value_name = "SHARE", default_value = "0.01", value_parser = loss)]
    loss: f64,
    /// How many mask partners a member has on average; 0 means all other members, which is safest
    #[arg(long, default_value_t = 0)]
    partners: u64,
    /// The policy of the meters: strict, community (each certificate says how many meters the cluster has) or trial. Its least
    /// number of malicious members is reckoned with, however small the cluster
    #[arg(long, value_name = "NAME", default_value_t)]
    meter_policy: Profile,
    /// For how many slots a membership list is made
    #[arg(long, value_name = "SLOTS", default_value_t = 1008, value_parser = clap::value_parser!(u64).range(4..=1_000_000))]
    list_slots: u64,
    /// What a home draws on average, in watts: errors are also told in per cent of this times the members
    #[arg(long, value_name = "WATTS", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    mean_load: u32,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

impl PlanArgs {
    pub(crate) fn run(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let pairwise = self.params().map_err(|error| BadInput(format!("{}: {error}", flags(&error))))?;
        let (params, no_committee) = self.with_scheme(pairwise)?;
        let scheme = SchemePlan::new(&params, self.willing_members(), self.loss, no_committee);
        let plan = Plan::new(&params, scheme, self.meter_policy, self.mean_load, self.list_slots);
        if self.json {
            serde_json::to_writer_pretty(&mut *out, &plan)?;
            writeln!(out)?;
        } else {
            text::write(&plan, out)?;
        }
        Ok(())
    }

    fn params(&self) -> Result<Params, ParamsError> {
        let usual = Terms::with_slots_of(self.slot_seconds);
        let (lo, hi) = self.range.unwrap_or_else(|| self.kind.range());
        let terms = Terms {
            reading_seconds: self.reading_seconds.unwrap_or(usual.reading_seconds),
            reveal_seconds: self.reveal_seconds.unwrap_or(usual.reveal_seconds),
            scheme: Scheme::Pairwise { partners: self.partners },
            lo,
            hi,
            epsilon_numerator: self.epsilon.numerator,
            epsilon_denominator: self.epsilon.denominator,
            attempts: self.attempts.unwrap_or(usual.attempts),
            ..usual
        }
        .with_day_watt_hours(self.kind.day_watt_hours());
        let day_micro_epsilon = self.day_epsilon.unwrap_or(terms.day_micro_epsilon);
        let terms = Terms { day_micro_epsilon, ..terms };
        let least = self.meter_policy.floors().malicious;
        terms.for_members(self.members, self.max_missing, self.max_malicious, least)
    }

    /// Returns how many members are willing to be holders, rounded down.
    fn willing_members(&self) -> u16 {
        let Fraction { numerator, denominator } = self.willing;
        u16::try_from(numerator * u64::from(self.members) / denominator).unwrap_or(self.members)
    }

    /// Returns the parameters with a committee if there is to be one; with why there is none, if one was preferred.
    fn with_scheme(&self, pairwise: Params) -> Result<(Params, Option<String>), BadInput> {
        let wanted = match self.scheme {
            SchemeChoice::Only(kind) => kind,
            SchemeChoice::Auto if self.partners == 0 && self.members >= COMMITTEE_FROM => Kind::Committee,
            SchemeChoice::Auto => Kind::Pairwise,
        };
        if wanted == Kind::Pairwise {
            return Ok((pairwise, None));
        }
        if self.partners != 0 {
            return Err(BadInput("--scheme, --partners: a committee has no mask partners; leave one out".to_owned()));
        }
        let draws = even_draws(self.willing_members());
        match with_committee(&pairwise, self.attempts.unwrap_or(1), self.meter_policy, &draws) {
            Ok(params) => Ok((params, None)),
            Err(reason) if self.scheme == SchemeChoice::Auto => Ok((pairwise, Some(reason))),
            Err(reason) => Err(BadInput(format!("--scheme, --members, --willing, --max-missing: {reason}"))),
        }
    }
}

/// Returns the flags that a refusal is about.
fn flags(error: &ParamsError) -> &'static str {
    match error {
        ParamsError::Members { .. } => "--members",
        ParamsError::TooManyMissing { .. } => "--max-missing",
        ParamsError::TooFewMalicious { .. } => "--max-malicious",
        ParamsError::NoneHonest { .. } => "--members, --max-missing, --max-malicious, --meter-policy",
        ParamsError::Range { .. } => "--range",
        ParamsError::Epsilon { .. } => "--epsilon",
        ParamsError::DayEpsilon { .. } => "--day-epsilon, --slot-seconds",
        ParamsError::Windows { .. } => "--slot-seconds, --reading-seconds, --reveal-seconds, --attempts",
        ParamsError::TooLarge { .. } => "--range, --epsilon",
        ParamsError::TooFewPartners { .. } | ParamsError::TooLargeForPartners { .. } => "--partners",
        ParamsError::Committee(_) => "--members, --max-missing, --max-malicious, --scheme",
    }
}

fn share(text: &str) -> Result<Share, &'static str> {
    decimal::share(text).ok_or("it is not a share of the members; use a decimal from 0 to 1, such as 0.1")
}

fn willing(text: &str) -> Result<Fraction, &'static str> {
    share(text)?;
    Fraction::parse(text).ok_or("use a decimal from 0 to 1, such as 0.8")
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
        .ok_or("use 0 for none, or a decimal below 1099511 with at most six places, such as 72")
}

fn range(text: &str) -> Result<(i64, i64), &'static str> {
    let ends = text.split_once("..").and_then(|(lo, hi)| Some((lo.parse().ok()?, hi.parse().ok()?)));
    ends.ok_or("use two whole numbers of watts, such as 0..9000 or -5000..9000")
}
