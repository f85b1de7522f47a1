//! How a meter behaves where a simulated one may behave differently.

use core::fmt;

use super::simulation::{Hidden, Simulated};
use crate::scheme::committee::field::Element;

/// Decides what a meter does at the few places where simulators and tests need another behaviour.
///
/// Sealed: [`Honest`] and [`Simulated`] are all there are, and [`Meter::resume`](super::Meter::resume) makes honest meters
/// only. Behaviour is part of the type, so that no build setting can take the noise out of a meter.
///
/// ```compile_fail
/// #[derive(Debug)]
/// struct Silent;
///
/// impl dream_protocol::meter::Conduct for Silent {
///     fn share(&self, _drawn: i64) -> i64 {
///         0
///     }
/// }
/// ```
pub trait Conduct: sealed::Sealed + fmt::Debug {
    /// Returns the noise share to add to a reading, given the one that was drawn.
    fn share(&self, drawn: i64) -> i64 {
        drawn
    }

    /// Returns whether an attempt is answered only once.
    fn answers_once(&self) -> bool {
        true
    }

    /// Returns how many members a request may name, given the list's M.
    fn most_missing(&self, allowed: u16) -> u16 {
        allowed
    }

    /// Returns how many times the square of a reading counts in its day's account, given how often it must; `None` if the
    /// reading is reported whole.
    fn day_weight(&self, due: u8) -> Option<u8> {
        Some(due)
    }

    /// Returns what to answer as a holder, given the right answer.
    fn answer(&self, sum: Element) -> Element {
        sum
    }

    /// Learns what an attempt's message hides.
    fn hid(&mut self, _hidden: Hidden) {}
}

/// A real meter: it follows every rule.
#[derive(Debug, Clone, Copy, Default)]
pub struct Honest;

impl Conduct for Honest {}

pub(super) mod sealed {
    use alloc::vec::Vec;

    use rand_core::CryptoRng;

    use super::super::{Input, Meter, MeterConfig, MeterError, Record};
    use super::{Conduct, Honest, Simulated};
    use crate::time::Now;

    /// The machine of each conduct, behind functions without type parameters: this crate compiles them once, where every crate that
    /// drives a meter would compile the whole machine again.
    #[expect(unnameable_types, reason = "that nobody else can name it is its purpose")]
    pub trait Sealed: Sized {
        fn resume(self, config: MeterConfig, records: Vec<Record>) -> Result<Meter<Self>, MeterError>
        where
            Self: Conduct;
        fn handle(meter: &mut Meter<Self>, input: Input<'_>, now: Now, rng: &mut dyn CryptoRng)
        where
            Self: Conduct;
    }

    macro_rules! seal {
        ($($conduct:ty),*) => { $(impl Sealed for $conduct {
            fn resume(self, config: MeterConfig, records: Vec<Record>) -> Result<Meter<Self>, MeterError> {
                Meter::with_conduct(config, records, self)
            }

            fn handle(meter: &mut Meter<Self>, input: Input<'_>, now: Now, rng: &mut dyn CryptoRng) {
                meter.step(input, now, rng);
            }
        })* };
    }
    seal!(Honest, Simulated);
}
