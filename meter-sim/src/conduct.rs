//! Faults and cheating of simulated meters, from the command line.

use clap::Args;
use dream_protocol::simulation::Simulation;

use crate::verdict::Injected;
use dream_fleet::Faults;

/// The arguments for faults. Flatten them behind a command's own arguments: they begin a heading.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Faults")]
pub struct ConductArgs {
    /// The share of readings hit by a fault: the meter is silent, late, sends twice, sends damaged bytes, restarts or
    /// has a fast clock. By default 0, and 0.03 in the demo
    #[arg(long, value_name = "SHARE", value_parser = share)]
    faults: Option<f64>,
    /// The share of requests that do not reach a meter, drawn again for every attempt. A committee tolerates some lost
    /// holders; in the pairwise scheme, one lost meter fails the attempt
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    vanish: f64,
    /// Add no noise, so that sums are exact. No real meter can do this
    #[arg(long, conflicts_with = "noiseless")]
    no_noise: bool,
    /// The share of meters that cheat by leaving out their noise
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    noiseless: f64,
    /// The share of meters that cheat by shifting the sum
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    shifting: f64,
    /// By how many watts each of them shifts it
    #[arg(long, value_name = "WATTS", default_value_t = 5000, requires = "shifting", allow_negative_numbers = true,
        value_parser = clap::value_parser!(i64).range(-1_000_000..=1_000_000))]
    shift_watts: i64,
    /// The same seed gives the same homes and faults. It also gives simulated meters the same keys and noise, which are
    /// then public. Without it, the demo picks a seed and prints it, and meters of `run` take keys and noise from the
    /// operating system, as they always do for your own readings
    #[arg(long)]
    pub seed: Option<u64>,
}

impl ConductArgs {
    /// Returns the faults, with this share unless the command line gives another.
    pub fn faults(&self, seed: u64, unless_said: f64) -> Faults {
        Faults { seed, rate: self.faults.unwrap_or(unless_said), vanish: self.vanish }
    }

    /// Returns how a meter of a cluster behaves: the first ones cheat.
    pub fn of_meter(&self, number: usize, meters: usize) -> Simulation {
        let (shifting, noiseless) = (part(self.shifting, meters), part(self.noiseless, meters));
        let share = if number < shifting {
            Some(self.shift_watts)
        } else {
            (self.no_noise || number < shifting + noiseless).then_some(0)
        };
        Simulation { share, ..Simulation::default() }
    }

    /// What of all this is in a cluster of so many meters.
    pub fn injected(&self, faults: &Faults, meters: usize) -> Injected {
        let shifting = part(self.shifting, meters);
        Injected {
            faults: faults.rate > 0.0,
            vanishing: faults.vanish > 0.0,
            exact: self.no_noise && shifting == 0,
            shifting,
            shift_watts: self.shift_watts * i64::try_from(shifting).unwrap_or(i64::MAX),
            noiseless: part(self.noiseless, meters),
        }
    }

    pub const fn is_exact(&self) -> bool {
        self.no_noise
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of `meters`")]
fn part(share: f64, meters: usize) -> usize {
    (share * meters as f64).round() as usize
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "use a share from 0 to 1, such as 0.05".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        conduct: ConductArgs,
    }

    fn shares(arguments: &str) -> Vec<Option<i64>> {
        let cli = Cli::parse_from(std::iter::once("x").chain(arguments.split_whitespace()));
        (0..10).map(|number| cli.conduct.of_meter(number, 10).share).collect()
    }

    #[test]
    fn as_many_meters_cheat_as_were_asked_for() {
        assert_eq!(shares(""), [None; 10]);
        assert_eq!(shares("--no-noise"), [Some(0); 10]);
        let mut expected = [None; 10];
        expected[0] = Some(-7);
        expected[1..3].fill(Some(0));
        assert_eq!(shares("--noiseless 0.2 --shifting 0.1 --shift-watts -7"), expected);
    }
}
