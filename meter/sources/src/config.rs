//! Keys of `[source]` that several kinds of sources have. Each kind declares its own where it reads them.

use dream_edge::config::Section;

use crate::mapping::{Mapping, Quantity};
use crate::names::Wanted;
use crate::slot_mean::{Cadence, Liveness};
use crate::units::{Sign, Unit};

/// Returns how often the source speaks at least, or is asked: an hour at most, because a slot needs several samples.
pub(crate) fn interval_millis(section: &Section<'_>) -> Option<u64> {
    section.key("interval_seconds").number(1..=3600u64).map(|seconds| seconds * 1000)
}

/// Returns a counter's step in thousandths of a watt-hour.
pub(crate) fn counter_step(section: &Section<'_>) -> Option<i64> {
    section.key("counter_step_wh").number(1..=1000i64).map(|step| step * 1000)
}

/// Returns the cadence of a source that speaks every ten seconds unless told otherwise, and the interval in milliseconds.
pub(crate) fn cadence(section: &Section<'_>) -> (Cadence, u64) {
    let interval_millis = interval_millis(section).unwrap_or(10_000);
    let liveness = Liveness::Every { interval_millis };
    (Cadence { liveness, counter_step: counter_step(section) }, interval_millis)
}

/// Returns the unit of a power or of a counter.
pub(crate) fn unit(section: &Section<'_>, key: &'static str, is_power: bool) -> Option<Unit> {
    let units = Unit::ALL.into_iter().filter(|unit| unit.is_power() == is_power);
    section.key(key).one_of(&units.map(|unit| (unit.name(), unit)).collect::<Vec<_>>())
}

/// Returns a unit that must be there.
pub(crate) fn required_unit(section: &Section<'_>, found: Option<Unit>, is_power: bool) -> Option<Unit> {
    if found.is_none() {
        section.missing("unit", if is_power { "use W or kW" } else { "use Wh, kWh, MWh or W*min" });
    }
    found
}

pub(crate) fn sign(section: &Section<'_>, key: &'static str) -> Sign {
    section.key(key).one_of(&[("import", Sign::Import), ("export", Sign::Export)]).unwrap_or_default()
}

/// Replaces what a preset says by what the lists `power`, `import` and `export` do; several numbers are added. Returns whether
/// any of them is there.
pub(crate) fn replace<F>(section: &Section<'_>, mapping: &mut Mapping, field: F) -> bool
where
    F: Fn(&Section<'_>, bool) -> Option<crate::mapping::Field>,
{
    let mut is_any = false;
    let places: [(&'static str, &mut Quantity); 3] =
        [("power", &mut mapping.power), ("import", &mut mapping.import), ("export", &mut mapping.export)];
    for (name, place) in places {
        is_any |= section.has(name);
        if let Some(items) = section.list(name) {
            let way: Vec<_> = items.iter().filter_map(|item| field(item, name == "power")).collect();
            *place = if way.is_empty() { Vec::new() } else { vec![way] };
        }
    }
    if let Some(named) = &mut mapping.named {
        let by_name = |name: &str| !section.has(name);
        named.wanted = Wanted { power: by_name("power"), import: by_name("import"), export: by_name("export") };
    }
    if is_any {
        // Who says which numbers are the grid's knows of the other channels.
        mapping.others.clear();
    }
    is_any
}

/// Notes that counters of one direction alone say nothing of the other.
pub(crate) fn check_directions(section: &Section<'_>, power: bool, import: bool, export: bool, import_only: bool) {
    if !power && import != export && !(import_only && import) {
        let problem = "one counter alone says nothing of what goes the other way; add `power` or the other counter, or set \
                       `import_only = true` if nothing behind the meter can feed in";
        section.wrong_here(problem.to_owned());
    }
}

/// Notes that there is nothing to read.
pub(crate) fn nothing_to_read(section: &Section<'_>, of_field: &str) {
    let lists = "[[source.power]], or [[source.import]] and [[source.export]]";
    section.wrong_here(format!("nothing to read; name a `preset`, or give {lists}, with {of_field}"));
}
