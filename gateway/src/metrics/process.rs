//! What Prometheus expects to know about any process, read from `/proc`. Elsewhere than on Linux there is nothing to tell.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{Counter, Gauge};

/// How many ticks a second has in `/proc/self/stat`, on every architecture that Rust's standard library supports.
const TICKS_PER_SECOND: f64 = 100.0;

/// This process.
#[derive(Debug)]
pub(super) struct Process {
    /// Since 1970.
    started_seconds: f64,
}

impl Process {
    /// Takes this moment for the process's start.
    pub(super) fn started_now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started_seconds: since.as_secs_f64() }
    }

    /// Returns the metrics as they are now.
    pub(super) fn collect(&self) -> Vec<MetricFamily> {
        let stat = fs::read_to_string("/proc/self/stat").ok();
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        let cpu = stat.as_deref().and_then(cpu_seconds).map(|seconds| {
            let counter = Counter::new("process_cpu_seconds_total", "Time on processors, in seconds.");
            let counter = counter.expect("a plain name");
            counter.inc_by(seconds);
            counter.collect()
        });
        let gauges = [
            ("process_resident_memory_bytes", "Memory in use.", kibibytes(&status, "VmRSS:")),
            ("process_virtual_memory_bytes", "Address space in use.", kibibytes(&status, "VmSize:")),
            ("process_threads", "Threads.", field(&status, "Threads:")),
            ("process_open_fds", "Open file descriptors.", open_fds()),
            ("process_max_fds", "How many file descriptors may be open.", field(&limits, "Max open files")),
            ("process_start_time_seconds", "When the process started, since 1970.", Some(self.started_seconds)),
        ];
        let gauges = gauges.into_iter().filter_map(|(name, help, value)| {
            let gauge = Gauge::new(name, help).expect("a plain name");
            gauge.set(value?);
            Some(gauge.collect())
        });
        cpu.into_iter().chain(gauges).flatten().collect()
    }
}

/// Returns the time in user and kernel mode. They are the 14th and 15th field, of which the second, a name in brackets, may hold
/// anything.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let mut behind_name = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    let (user, kernel): (f64, f64) = (behind_name.next()?.parse().ok()?, behind_name.next()?.parse().ok()?);
    Some((user + kernel) / TICKS_PER_SECOND)
}

/// Returns the first number behind a name that begins a line.
fn field(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

fn kibibytes(text: &str, name: &str) -> Option<f64> {
    Some(field(text, name)? * 1024.0)
}

#[expect(clippy::cast_precision_loss, reason = "a count far below 2^53")]
fn open_fds() -> Option<f64> {
    // One of them is for reading this directory.
    Some(fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_process_may_hold_anything() {
        let stat = "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(cpu_seconds("42 (short) S 1"), None);
    }

    #[test]
    fn a_running_process_has_memory_threads_and_files() {
        let families = Process::started_now().collect();
        let names: Vec<&str> = families.iter().map(MetricFamily::name).collect();
        for name in
            ["process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds", "process_max_fds"]
        {
            assert!(names.contains(&name), "{names:?}");
        }
        for family in families.iter().filter(|family| family.name() != "process_cpu_seconds_total") {
            assert!(family.get_metric()[0].get_gauge().get_value() > 0.0, "{}", family.name());
        }
    }
}
