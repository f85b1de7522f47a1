//! A household as it lives: who is active, what runs, what is lit.
//!
//! Its days begin and end at four in the morning, when nearly everybody sleeps, and know nothing of each other. So the evening
//! goes on over midnight as it was, and every day can be simulated by itself. To find a home as it is at four, a day is lived from
//! the midnight before, with everything off; what happens until four is forgotten.

use std::ops::Range;

use super::activity::ActivityModel;
use super::appliances::{Appliance, Device};
use super::calendar::Day;
use super::cycle::Machine;
use super::draw::Draw;
use super::lighting::Lighting;
use super::occupancy::{Occupancy, People, SLOTS};
use super::{Home, Load};

/// The end of a household's day and the rest of it, in slots of the clock's day.
const NIGHT: Range<usize> = 0..24;
const WAKING: Range<usize> = 24..SLOTS;

/// Simulates days in a row of the clock, from this one on: the night, which ends the household's day before, and its own day up
/// to midnight. Returns what all appliances do, and the lighting last.
pub(super) fn days(home: &Home, first: Day) -> impl Iterator<Item = (Occupancy, Vec<Load>)> {
    let mut before = Life::at_midnight(home, first.before());
    before.live(first.before(), NIGHT);
    before.live(first.before(), WAKING);
    first.and_after().map(move |day| {
        let (active, mut loads) = before.live(day, NIGHT);
        before = Life::at_midnight(home, day);
        let (_, own_night) = before.live(day, NIGHT);
        let (waking_active, waking) = before.live(day, WAKING);
        // What charges at night is off at midnight, but not at four.
        for (load, own) in loads.iter_mut().zip(own_night).filter(|(load, _)| load.device.charges_at_night()) {
            *load = own;
        }
        whole((active, loads), (waking_active, waking))
    })
}

/// Simulates a day by itself, from a midnight with everything off.
pub(super) fn single_day(home: &Home, day: Day) -> (Occupancy, Vec<Load>) {
    let mut life = Life::at_midnight(home, day);
    whole(life.live(day, NIGHT), life.live(day, WAKING))
}

fn whole((mut active, night): Lived, (waking_active, waking): Lived) -> (Occupancy, Vec<Load>) {
    active.extend(waking_active);
    let loads = night.into_iter().zip(waking).map(|(night, waking)| night.then(waking));
    (Occupancy::new(active.try_into().expect(WHOLE)), loads.collect())
}

/// How many residents are active in each slot of a stretch, and what all devices do in it.
type Lived = (Vec<u8>, Vec<Stretch>);

const WHOLE: &str = "a night and the rest of its day";

/// Where appliances and lamps are: in some slots of a day, in each of which so many residents are active.
#[derive(Debug)]
pub(super) struct Surroundings<'a> {
    pub(super) day: Day,
    pub(super) first_slot: usize,
    pub(super) active: &'a [u8],
    pub(super) activities: ActivityModel,
}

impl Surroundings<'_> {
    /// How many are active, minute by minute.
    pub(super) fn minutes(&self) -> impl Iterator<Item = u8> {
        self.active.iter().flat_map(|active| std::iter::repeat_n(*active, 10))
    }
}

/// What a device does in a stretch of a day.
#[derive(Debug)]
pub(super) struct Stretch {
    pub(super) device: Device,
    /// How often it was switched on.
    pub(super) starts: u32,
    pub(super) standby: i32,
    /// Minute by minute.
    pub(super) watts: Vec<i32>,
}

impl Stretch {
    /// The whole day.
    fn then(self, rest: Self) -> Load {
        let Self { device, starts, standby, mut watts } = self;
        watts.extend(rest.watts);
        let watts = watts.into_boxed_slice().try_into().expect(WHOLE);
        Load { device, starts: starts + rest.starts, standby, watts }
    }
}

/// A household at some time of one of its days, and the chance of that day.
#[derive(Debug)]
struct Life<'a> {
    activities: ActivityModel,
    draw: Draw,
    people: People,
    machines: Vec<Machine>,
    lighting: Lighting<'a>,
}

impl<'a> Life<'a> {
    fn at_midnight(home: &'a Home, day: Day) -> Self {
        let mut draw = Draw::of_day(home.seed, home.number, day.number());
        let people = People::at_midnight(home.residents, day.kind(), &mut draw);
        let machines =
            home.owned.iter().map(|device| Machine::at_midnight(Appliance::of(*device), &mut draw)).collect();
        Self { activities: home.activities, draw, people, machines, lighting: home.lamps.at_midnight() }
    }

    /// Lives through some slots. Says how many residents are active in each, and what all devices do.
    fn live(&mut self, day: Day, slots: Range<usize>) -> Lived {
        let Self { activities, draw, people, machines, lighting } = self;
        let active = people.live(day.kind(), slots.clone(), draw);
        let surroundings = Surroundings { day, first_slot: slots.start, active: &active, activities: *activities };
        let mut stretches: Vec<Stretch> =
            machines.iter_mut().map(|machine| machine.live(&surroundings, draw)).collect();
        stretches.push(lighting.live(&surroundings, draw));
        (active, stretches)
    }
}
