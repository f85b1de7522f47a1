//! `dream-gateway plan`: what a cluster would cost and how far its sums would be off, before it exists.
//!
//! Everything is computed by the code that later does it: parameters, noise and policy are the protocol's, and message
//! sizes are those of real messages. Nothing is read and nothing is sent.

mod cost;
mod text;

use std::io::Write;

use clap::Args;
use dream_protocol::noise::{Confidence, Spread};
use dream_protocol::params::{Params, ParamsError, Share, Terms};
use dream_protocol::policy::{Policy, Profile};
use dream_protocol::scheme::Scheme;
use serde::Serialize;

use self::cost::{AesBlocks, Traffic};
use crate::cmd::BadInput;
use crate::config::decimal::{self, Fraction};

const EXAMPLES: &str = "\
Examples:
  dream-gateway plan
  dream-gateway plan --members 600 --mean-load 400
  dream-gateway plan --members 1000 --slot-seconds 900 --epsilon 0.5
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
    /// The least and the greatest reading in watts; meters clip what lies outside. Homes that feed in start below 0
    #[arg(long, value_name = "LO..HI", default_value = "0..9000", value_parser = range, allow_hyphen_values = true)]
    range: (i64, i64),
    /// The length of a slot
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    slot_seconds: u64,
    /// How long readings may take to arrive; by default a tenth of the slot
    #[arg(long, value_name = "SECONDS")]
    reading_seconds: Option<u64>,
    /// How long reveals may take to arrive; by default a tenth of the slot
    #[arg(long, value_name = "SECONDS")]
    reveal_seconds: Option<u64>,
    /// How often a slot may be tried, the first time included
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=255))]
    attempts: u64,
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
        let params = self.params().map_err(|error| BadInput(format!("{}: {error}", flags(&error))))?;
        let plan = Plan::new(&params, self.meter_policy, self.mean_load, self.list_slots);
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
        let terms = Terms {
            reading_seconds: self.reading_seconds.unwrap_or(usual.reading_seconds),
            reveal_seconds: self.reveal_seconds.unwrap_or(usual.reveal_seconds),
            scheme: Scheme::Pairwise { partners: self.partners },
            lo: self.range.0,
            hi: self.range.1,
            epsilon_numerator: self.epsilon.numerator,
            epsilon_denominator: self.epsilon.denominator,
            attempts: self.attempts,
            ..usual
        };
        let least = self.meter_policy.floors().malicious;
        terms.for_members(self.members, self.max_missing, self.max_malicious, least)
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
        ParamsError::Windows { .. } => "--slot-seconds, --reading-seconds, --reveal-seconds, --attempts",
        ParamsError::TooLarge { .. } => "--range, --epsilon",
        ParamsError::TooFewPartners { .. } | ParamsError::TooLargeForPartners { .. } => "--partners",
        ParamsError::Committee(_) => "--members, --max-missing, --max-malicious, --scheme",
    }
}

fn share(text: &str) -> Result<Share, &'static str> {
    decimal::share(text).ok_or("it is not a share of the members; use a decimal from 0 to 1, such as 0.1")
}

fn epsilon(text: &str) -> Result<Fraction, &'static str> {
    decimal::epsilon(text).ok_or("use a decimal above 0 with at most six places, such as 1 or 0.5")
}

fn range(text: &str) -> Result<(i64, i64), &'static str> {
    let ends = text.split_once("..").and_then(|(lo, hi)| Some((lo.parse().ok()?, hi.parse().ok()?)));
    ends.ok_or("use two whole numbers of watts, such as 0..9000 or -5000..9000")
}

/// What there is to know about a cluster before it exists.
#[derive(Debug, Serialize)]
struct Plan {
    members: u16,
    max_missing: u16,
    max_malicious: u16,
    /// How many honest shares make up the whole noise.
    honest: u16,
    slot_seconds: u64,
    attempts: u8,
    range_watts: (i64, i64),
    micro_epsilon_per_attempt: u64,
    noise_scale_watts: f64,
    /// Of the whole cluster.
    mean_load_watts: u64,
    error_when_all_answer: Deviation,
    error_when_most_are_silent: Deviation,
    error_of_an_hours_mean: Option<HourMean>,
    verdict: Verdict,
    epsilon_per_day: DailyEpsilon,
    meter_policy: &'static str,
    /// By which rules a meter with this policy would refuse the list.
    meter_objections: Vec<String>,
    bytes: Traffic,
    aes_blocks: AesBlocks,
}

/// How far a sum of so many readings may be off.
#[derive(Debug, Clone, Copy, Serialize)]
struct Deviation {
    responders: u16,
    mean_watts: f64,
    band95_watts: u64,
    band99_watts: u64,
    mean_percent: f64,
    band95_percent: f64,
    band99_percent: f64,
}

/// How far the mean load of an hour's slots may be off, when all answer. The noise of slots is independent.
#[derive(Debug, Clone, Copy, Serialize)]
struct HourMean {
    slots: u32,
    band95_percent: f64,
}

/// Whether a slot's sum is worth showing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    /// 95 % of the sums are within a tenth of the mean load.
    Useful,
    /// Within three tenths: the shape of a day shows, a single slot says little.
    Coarse,
    /// Beyond that the noise hides the load.
    TooNoisy,
}

/// The percentage of the mean load up to which a 95 % band is useful, and coarse.
const USEFUL_PERCENT: f64 = 10.0;
const COARSE_PERCENT: f64 = 30.0;

/// What the slots of one UTC day cost a meter, in millionths of epsilon.
#[derive(Debug, Clone, Copy, Serialize)]
struct DailyEpsilon {
    slots: u64,
    micro_epsilon_one_attempt_each: u64,
    micro_epsilon_all_attempts: u64,
    /// That of the meters' policy.
    budget_micro_epsilon: u64,
    /// How many attempts it pays for.
    attempts_within_budget: u64,
}

impl Plan {
    fn new(params: &Params, profile: Profile, mean_load: u32, list_slots: u64) -> Self {
        let mean_load_watts = u64::from(params.members()) * u64::from(mean_load);
        let deviation = |silent| Deviation::new(params, params.members() - silent, mean_load_watts);
        let terms = params.terms();
        let policy = profile.rules();
        let error_when_all_answer = deviation(0);
        Self {
            members: params.members(),
            max_missing: params.max_missing(),
            max_malicious: params.max_malicious(),
            honest: params.honest(),
            slot_seconds: terms.slot_seconds,
            attempts: params.attempts(),
            range_watts: (terms.lo, terms.hi),
            micro_epsilon_per_attempt: params.charge_micro_epsilon(),
            noise_scale_watts: params.noise_scale().as_f64(),
            mean_load_watts,
            error_when_all_answer,
            error_when_most_are_silent: deviation(params.max_missing()),
            error_of_an_hours_mean: HourMean::new(params, mean_load_watts),
            verdict: Verdict::of(error_when_all_answer.band95_percent),
            epsilon_per_day: DailyEpsilon::new(params, &policy),
            meter_policy: profile.as_str(),
            meter_objections: policy.objections(params).map(|objection| objection.to_string()).collect(),
            bytes: Traffic::measure(params, list_slots),
            aes_blocks: AesBlocks::count(params),
        }
    }
}

impl Deviation {
    fn new(params: &Params, responders: u16, mean_load_watts: u64) -> Self {
        let spread = Spread::new(params.noise_scale(), params.honest().into(), responders.into());
        let percent = |watts: f64| 100.0 * watts / real(mean_load_watts);
        let mean_watts = spread.mean_error();
        let [band95_watts, band99_watts] = [Confidence::P95, Confidence::P99].map(|level| spread.half_width(level));
        Self {
            responders,
            mean_watts,
            band95_watts,
            band99_watts,
            mean_percent: percent(mean_watts),
            band95_percent: percent(real(band95_watts)),
            band99_percent: percent(real(band99_watts)),
        }
    }
}

impl HourMean {
    /// `None` if there is no second slot in an hour.
    fn new(params: &Params, mean_load_watts: u64) -> Option<Self> {
        let slots = u32::try_from(3600 / params.terms().slot_seconds).ok().filter(|&slots| slots > 1)?;
        // The noise of k slots is that of k times the shares.
        let shares = slots * u32::from(params.members());
        let spread = Spread::new(params.noise_scale(), params.honest().into(), shares);
        let band = real(spread.half_width(Confidence::P95)) / f64::from(slots);
        Some(Self { slots, band95_percent: 100.0 * band / real(mean_load_watts) })
    }
}

impl Verdict {
    fn of(band95_percent: f64) -> Self {
        match band95_percent {
            ..=USEFUL_PERCENT => Self::Useful,
            ..=COARSE_PERCENT => Self::Coarse,
            _ => Self::TooNoisy,
        }
    }
}

impl DailyEpsilon {
    fn new(params: &Params, policy: &Policy) -> Self {
        let slots = 86_400u64.div_ceil(params.terms().slot_seconds);
        let charge = params.charge_micro_epsilon();
        Self {
            slots,
            micro_epsilon_one_attempt_each: slots * charge,
            micro_epsilon_all_attempts: slots * charge * u64::from(params.attempts()),
            budget_micro_epsilon: policy.daily_micro_epsilon,
            attempts_within_budget: policy.daily_micro_epsilon / charge,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "watts and bytes of a report, below 2^53")]
fn real(count: u64) -> f64 {
    count as f64
}
