//! What there is to know about a cluster before it exists.

use dream_protocol::params::Params;
use dream_protocol::policy::Policy;
use serde::Serialize;

use super::PlanArgs;
use super::choice::Choice;
use super::cost::{AesBlocks, Traffic};
use super::error::{Deviation, Energy, HourMean, MeasuredFilter, Verdict};
use super::homes::Homes;
use super::scheme::SchemePlan;
use super::solve::{self, Free};
use super::suited::Suited;
use super::summary::{Facts, Summary, epsilon_of_kilowatt_hour};
use crate::board::day_epsilon::{self, thousandths};

/// What there is to know about a cluster before it exists.
#[derive(Debug, Serialize)]
pub(super) struct Plan {
    /// What was found for the error that was asked for, if one was.
    pub(super) found: Option<Found>,
    pub(super) summary: Summary,
    /// The lines of a cluster's table in the gateway's configuration that differ from the defaults, or that the plan rests on.
    pub(super) configuration: Vec<String>,
    /// What else to know before such a cluster is made.
    pub(super) notes: Vec<String>,
    pub(super) kind: &'static str,
    pub(super) members: u16,
    pub(super) max_missing: u16,
    pub(super) max_malicious: u16,
    /// How many honest shares make up the whole noise.
    pub(super) honest: u16,
    pub(super) slot_seconds: u64,
    pub(super) attempts: u8,
    pub(super) range_watts: (i64, i64),
    pub(super) micro_epsilon_per_attempt: u64,
    pub(super) noise_scale_watts: f64,
    pub(super) mean_load_watts_per_home: u32,
    /// Of the whole cluster.
    pub(super) mean_load_watts: u64,
    pub(super) error_when_all_answer: Deviation,
    pub(super) error_when_most_are_silent: Deviation,
    pub(super) error_of_an_hours_mean: Option<HourMean>,
    pub(super) error_of_a_days_energy: Energy,
    pub(super) error_of_a_months_energy: Energy,
    /// How much of the energy of simulated homes of this kind is cut off, and so estimated.
    pub(super) cut_off_percent: Option<f64>,
    /// Terms that suit so many homes better, at the same privacy of a day.
    pub(super) suited: Option<Suited>,
    /// What the gateway's filter was measured to do with a harder task.
    pub(super) filter: Option<MeasuredFilter>,
    pub(super) verdict: Verdict,
    pub(super) epsilon_per_day: DailyEpsilon,
    pub(super) opening: SchemePlan,
    pub(super) meter_policy: &'static str,
    /// By which rules a meter with this policy would refuse the list.
    pub(super) meter_objections: Vec<String>,
    pub(super) bytes: Traffic,
    pub(super) aes_blocks: AesBlocks,
}

/// The days of a month.
const MONTH: u32 = 30;

/// What was found, with what it was found for.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Found {
    pub(super) what: Free,
    pub(super) error_percent: f64,
    pub(super) told: String,
}

impl Found {
    pub(super) fn new(what: Free, error_percent: f64, choice: &Choice) -> Self {
        Self { what, error_percent, told: solve::told(what, choice, error_percent) }
    }
}

/// What the slots of one UTC day cost a meter, added up in millionths of epsilon.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct DailyEpsilon {
    pub(super) slots: u64,
    pub(super) micro_epsilon_one_attempt_each: u64,
    pub(super) micro_epsilon_all_attempts: u64,
    /// Rho, which bounds all slots of a UTC day together; 0 for none.
    pub(super) micro_rho: u64,
    /// The root mean square of a day's readings that a meter can report under rho.
    pub(super) rms_watts: Option<u64>,
    /// The most that meters' policy allows: of rho, or of epsilon where there is none.
    pub(super) limit_micro_rho: u64,
    pub(super) limit_micro_epsilon: u64,
    /// What a day, thirty and 365 cost, whatever is tried again, but for a probability of `delta`.
    pub(super) delta: f64,
    pub(super) epsilon_at_delta: f64,
    pub(super) epsilon_of_thirty_days_at_delta: f64,
    pub(super) epsilon_of_a_year_at_delta: f64,
    /// What a day costs without exception.
    pub(super) epsilon_pure: f64,
    /// What using one kilowatt-hour costs without exception, whenever it is used, while nothing is cut off.
    pub(super) epsilon_of_a_kilowatt_hour: f64,
    /// That of the meters' policy.
    pub(super) budget_micro_epsilon: u64,
    /// How many attempts it pays for.
    pub(super) attempts_within_budget: u64,
}

impl Plan {
    pub(super) fn new(
        args: &PlanArgs,
        choice: &Choice,
        params: &Params,
        opening: SchemePlan,
        found: Option<Found>,
    ) -> Self {
        let mean_load_watts = args.mean_watts(params);
        let deviation = |silent| Deviation::new(params, params.members() - silent, mean_load_watts);
        let terms = params.terms();
        let policy = args.meter_policy.rules();
        let error_when_all_answer = deviation(0);
        let cut_off = args.cut_off(params);
        let [error_of_a_days_energy, error_of_a_months_energy] =
            [1, MONTH].map(|days| Energy::new(params, mean_load_watts, days, cut_off));
        let cut_off_percent = cut_off.map(|cut_off| {
            let (share, ..) = cut_off.of_a_year(params.members());
            (1000.0 * share / (1.0 + share)).round() / 10.0
        });
        let suited = args.suited(params, mean_load_watts);
        let filter = MeasuredFilter::of(args.kind, terms.slot_seconds, &error_when_all_answer);
        let verdict = Verdict::of(&error_when_all_answer, filter.as_ref());
        let facts = Facts {
            filter,
            verdict,
            params,
            homes: Homes::of(args.kind),
            mean_watts: args.mean_watts_per_home(),
            slot: &error_when_all_answer,
            day: &error_of_a_days_energy,
            suited: suited.as_ref(),
            cut_off_percent,
            opening: &opening,
        };
        let epsilon_per_day = DailyEpsilon::new(params, &policy);
        Self {
            found,
            summary: facts.summary(),
            notes: facts.notes(&epsilon_per_day),
            configuration: args.configuration(choice, params),
            kind: args.kind.as_str(),
            members: params.members(),
            max_missing: params.max_missing(),
            max_malicious: params.max_malicious(),
            honest: params.honest(),
            slot_seconds: terms.slot_seconds,
            attempts: params.attempts(),
            range_watts: (terms.lo, terms.hi),
            micro_epsilon_per_attempt: params.charge_micro_epsilon(),
            noise_scale_watts: params.noise_scale().as_f64(),
            mean_load_watts_per_home: args.mean_watts_per_home(),
            mean_load_watts,
            error_when_all_answer,
            error_when_most_are_silent: deviation(params.max_missing()),
            error_of_an_hours_mean: HourMean::new(params, mean_load_watts),
            error_of_a_days_energy,
            error_of_a_months_energy,
            cut_off_percent,
            suited,
            filter,
            verdict,
            epsilon_per_day,
            opening,
            meter_policy: args.meter_policy.as_str(),
            meter_objections: policy.objections(params).map(|objection| objection.to_string()).collect(),
            bytes: Traffic::measure(params, args.list_slots),
            aes_blocks: AesBlocks::count(params),
        }
    }
}

impl DailyEpsilon {
    fn new(params: &Params, policy: &Policy) -> Self {
        let slots = params.slots_of_a_day();
        let [epsilon_at_delta, epsilon_of_thirty_days_at_delta, epsilon_of_a_year_at_delta] =
            day_epsilon::PERIODS.map(|days| thousandths(day_epsilon::at_delta(params, days)));
        let charge = params.charge_micro_epsilon();
        Self {
            slots,
            micro_epsilon_one_attempt_each: slots * charge,
            micro_epsilon_all_attempts: slots * charge * u64::from(params.attempts()),
            micro_rho: params.terms().day_micro_rho,
            rms_watts: params.day_rms_watts(),
            limit_micro_rho: policy.day_micro_rho,
            limit_micro_epsilon: policy.day_micro_epsilon,
            delta: day_epsilon::DELTA,
            epsilon_at_delta,
            epsilon_of_thirty_days_at_delta,
            epsilon_of_a_year_at_delta,
            epsilon_pure: thousandths(day_epsilon::pure(params, 1)),
            epsilon_of_a_kilowatt_hour: epsilon_of_kilowatt_hour(params),
            budget_micro_epsilon: policy.daily_micro_epsilon,
            attempts_within_budget: policy.daily_micro_epsilon / charge,
        }
    }
}
