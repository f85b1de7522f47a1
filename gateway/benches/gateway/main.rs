//! What the daemon costs, from outside: the real process, a real Mosquitto, and a bare subscriber as the least it could be.
//!
//! `cargo bench -p dream-gateway` prints the table. Options after `--`: `--rounds N`, `--clusters N --members N` for the
//! large gateway, `--only one` or `--only many` for one of the two halves.
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot go on fails")]
#![allow(unreachable_pub, reason = "a program has no outside")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints what it found")]

mod backlog;
mod members;
mod trial;

use std::time::Duration;

use trial::{Plan, Trial};

/// A cluster as large as one may be.
const ONE: Plan = Plan { clusters: 1, members: 10_000, slot_seconds: 21 };

/// A large gateway.
const MANY: Plan = Plan { clusters: 100, members: 1_000, slot_seconds: 36 };

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, rest @ ..] = arguments.as_slice()
        && flag == backlog::BARE
    {
        return backlog::bare(rest);
    }
    // `cargo test --benches` builds and runs this too, and wants it to be quick.
    if arguments.iter().any(|argument| argument == "--test") || !arguments.iter().any(|argument| argument == "--bench")
    {
        return;
    }
    let value = |name: &str| arguments.iter().skip_while(|argument| *argument != name).nth(1);
    let number = |name: &str, default: usize| value(name).map_or(default, |text| text.parse().unwrap());
    let only = |half: &str| value("--only").is_none_or(|only| only == half);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut rows = Vec::new();
        if only("one") {
            rows.extend(one(number("--rounds", 4)).await);
        }
        if only("many") {
            let plan = Plan {
                clusters: number("--clusters", MANY.clusters),
                members: number("--members", MANY.members),
                ..MANY
            };
            rows.extend(many(plan, number("--rounds", 3)).await);
        }
        println!("{:46}{:>16}{:>16}{:>18}{:>9}", "", "measured", "bare", "ratio", "aim");
        for Row { what, measured, bare, ratio, aim } in rows {
            println!("{what:46}{measured:>16}{bare:>16}{ratio:>18}{aim:>9}");
        }
    });
}

/// A line of the table.
struct Row {
    what: String,
    measured: String,
    bare: String,
    ratio: String,
    aim: String,
}

/// Backlogs and slots of one cluster.
async fn one(rounds: usize) -> Vec<Row> {
    let mut trial = Trial::start(ONE).await;
    let (mut drains, mut alone, mut together) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        drains.push(trial.drain().await);
        let (latencies, in_a_burst) = if round % 2 == 0 { (&mut alone, false) } else { (&mut together, true) };
        latencies.push(trial.decode(in_a_burst).await);
        trial.stop();
    }
    let mut rows = vec![drain_row("backlog of 10,000 readings, one cluster", ONE, &drains)];
    rows.extend(decode_row("slot of 10,000 decoded after the last reveal", &alone));
    rows.extend(decode_row("the same, 10,000 reveals in a burst", &together));
    rows
}

/// A gateway with many members: backlogs, and what it takes of the machine's memory.
async fn many(plan: Plan, rounds: usize) -> Vec<Row> {
    let mut trial = Trial::start(plan).await;
    let Plan { clusters, members, .. } = plan;
    let mut drains = Vec::new();
    let mut busy = 0;
    for _ in 0..rounds {
        drains.push(trial.drain().await);
        busy = busy.max(trial.resident());
        trial.stop();
    }
    let total = clusters * members;
    let each = |bytes: u64| format!("{} B each", bytes / u64::try_from(total).unwrap());
    let row = |what: &str, bytes: u64, aim: &str| Row {
        what: format!("{what}, {clusters} x {members}"),
        measured: each(bytes),
        bare: format!("{} MB", trial.empty / 1_000_000),
        ratio: format!("{} MB", bytes / 1_000_000),
        aim: aim.to_owned(),
    };
    vec![
        drain_row(&format!("backlog of {total} readings, {clusters} clusters"), plan, &drains),
        row("memory when ready", trial.ready, "< 2 KB"),
        row("memory after a backlog", busy, "< 2 KB"),
    ]
}

/// The rates of the least disturbed round, and the range of the ratio over all rounds.
fn drain_row(what: &str, plan: Plan, drains: &[(Duration, Duration)]) -> Row {
    let ratio = |(gateway, bare): &(Duration, Duration)| bare.as_secs_f64() / gateway.as_secs_f64();
    let mut ratios: Vec<f64> = drains.iter().map(ratio).collect();
    ratios.sort_by(f64::total_cmp);
    let rate = |fastest: Option<Duration>| {
        let readings = f64::from(u32::try_from(plan.clusters * plan.members).unwrap());
        format!("{:.0} k/s", fastest.map_or(0.0, |time| readings / time.as_secs_f64() / 1e3))
    };
    let (gateway, bare) =
        (drains.iter().map(|(gateway, _)| *gateway).min(), drains.iter().map(|(_, bare)| *bare).min());
    let overall = gateway.zip(bare).map_or(0.0, |pair| ratio(&pair));
    let (least, most) = (ratios.first().copied().unwrap_or(0.0), ratios.last().copied().unwrap_or(0.0));
    Row {
        what: what.to_owned(),
        measured: rate(gateway),
        bare: rate(bare),
        ratio: format!("{overall:.2} ({least:.2}-{most:.2})"),
        aim: ">= 0.9".to_owned(),
    }
}

/// The fastest and the slowest slot.
fn decode_row(what: &str, latencies: &[Duration]) -> Option<Row> {
    let millis = |latency: &Duration| format!("{:.1} ms", latency.as_secs_f64() * 1e3);
    Some(Row {
        what: what.to_owned(),
        measured: millis(latencies.iter().min()?),
        bare: String::new(),
        ratio: format!("at most {}", millis(latencies.iter().max()?)),
        aim: "50 ms".to_owned(),
    })
}
