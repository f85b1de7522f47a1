//! How fast homes are simulated, beside the random numbers alone: the model asks, minute by minute, whether each appliance
//! and each lamp of a home is switched on, and a question costs at least a number. `scripts/bench-ratios` prints the ratio.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use dream_homes::home::{ActivityModel, Calendar, Home, MINUTES_PER_DAY, Month, Residents};
use dream_homes::street;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(4));
    targets = homes
}
criterion_main!(benches);

const HOMES: u32 = 200;
/// How many lamps a home has on average.
const LAMPS: usize = 24;

fn homes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("homes");
    group.throughput(Throughput::Elements(u64::from(HOMES)));
    let residents = Residents::between(1, 5).expect("1 to 5");
    let homes = street::homes(1, HOMES, residents, ActivityModel::Crest);
    let day = Calendar::Of(Month::NOVEMBER).day(1);
    let simulate = |home: &Home| home.day(black_box(day)).total()[0];
    group.bench_function("day", |bencher| bencher.iter(|| homes.iter().map(simulate).sum::<i32>()));
    group.bench_function("day_on_all_cores", |bencher| {
        bencher.iter(|| street::in_parallel(street::all_cores(), &homes, simulate));
    });
    let devices: usize = homes.iter().map(|home| home.owned().len() + LAMPS).sum();
    group.bench_function("bare_numbers", |bencher| {
        let mut numbers = ChaCha8Rng::seed_from_u64(1);
        bencher.iter(|| (0..devices * MINUTES_PER_DAY).fold(0, |sum, _| sum ^ numbers.next_u32()));
    });
    group.finish();
}
