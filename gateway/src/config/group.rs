//! Groups: sums of clusters, and of other groups.
//!
//! A group has no state of its own. What is shown of it is added up from what its clusters released.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use dream_edge::config::{Section, one_of};
use dream_protocol::ids::{ClusterId, IdError};

use super::ClusterSettings;

/// The name of a group, which no cluster has.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupId(ClusterId);

impl GroupId {
    /// Checks the grammar, which is that of clusters, and keeps the text.
    pub fn new(text: &str) -> Result<Self, IdError> {
        ClusterId::new(text).map(Self)
    }

    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl Borrow<str> for GroupId {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A sum of clusters that have slots of one length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// What it is the sum of, in the order of the file.
    pub of: Vec<Part>,
    /// Every cluster in it, also those in groups in it, each of them once.
    pub clusters: BTreeSet<ClusterId>,
    /// How long their slots are.
    pub slot_seconds: u64,
}

/// A part of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    Cluster(ClusterId),
    Group(GroupId),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster(cluster) => fmt::Display::fmt(cluster, f),
            Self::Group(group) => fmt::Display::fmt(group, f),
        }
    }
}

/// Reads the groups of a file. `written` are the clusters of the file, `clusters` those of them that are in order.
pub(super) fn read(
    root: &Section<'_>,
    written: BTreeSet<&str>,
    clusters: &BTreeMap<ClusterId, ClusterSettings>,
) -> BTreeMap<GroupId, Group> {
    let of = |section: &Section<'_>| section.key("of").required("[\"north\", \"south\"]").texts();
    let groups: BTreeMap<_, _> =
        root.sections("groups").into_iter().map(|(name, section)| (name, (of(&section), section))).collect();
    let mut check = Check { groups: &groups, written, clusters, found: BTreeMap::new() };
    for (name, (_, section)) in &groups {
        check.name(name, section);
        check.group(name, &mut Vec::new());
    }
    let found = check.found.into_iter();
    found.filter_map(|(name, group)| Some((GroupId::new(name).ok()?, group?))).collect()
}

struct Check<'a, 'r> {
    /// The names of their parts, unless they could not be read.
    groups: &'a BTreeMap<&'a str, (Option<Vec<String>>, Section<'r>)>,
    written: BTreeSet<&'a str>,
    clusters: &'a BTreeMap<ClusterId, ClusterSettings>,
    /// The groups that were looked at; `None` if something in one is wrong, which was noted where it is.
    found: BTreeMap<&'a str, Option<Group>>,
}

impl<'a> Check<'a, '_> {
    fn wrong(&self, name: &str, message: String) {
        if let Some((_, section)) = self.groups.get(name) {
            section.wrong("of", message);
        }
    }

    fn name(&self, name: &str, section: &Section<'_>) {
        match GroupId::new(name) {
            Err(error) => section.wrong_here(error.to_string()),
            Ok(_) if self.written.contains(name) => {
                section.wrong_here("a cluster has this name; give the group another")
            }
            Ok(_) => {}
        }
    }

    /// Looks at a group and everything in it, on the way that led to it.
    fn group(&mut self, name: &'a str, way: &mut Vec<&'a str>) -> Option<Group> {
        if let Some(begin) = way.iter().position(|before| *before == name) {
            let round = [&way[begin..], &[name]].concat();
            // Each of them is noted as wrong on the way back; the cycle is reported once.
            self.wrong(name, format!("{} is a cycle; a group cannot contain itself", round.join(" > ")));
            return None;
        }
        if let Some(group) = self.found.get(name) {
            return group.clone();
        }
        way.push(name);
        let group = self.look(name, way);
        way.pop();
        self.found.insert(name, group.clone());
        group
    }

    fn look(&mut self, name: &'a str, way: &mut Vec<&'a str>) -> Option<Group> {
        let (parts, section) = self.groups.get(name)?;
        let parts: &'a [String] = parts.as_ref()?;
        if parts.is_empty() {
            self.wrong(name, "this list is empty; name the clusters or groups that it is the sum of".to_owned());
            return None;
        }
        let before = section.mistakes();
        let (mut of, mut through) = (Vec::new(), BTreeMap::<ClusterId, &str>::new());
        for part in parts {
            let Some((known, clusters)) = self.part(name, part, way) else { continue };
            for cluster in clusters {
                match through.get(&cluster) {
                    None => drop(through.insert(cluster, part)),
                    Some(first) => {
                        let how = twice(first, part, &cluster);
                        self.wrong(name, format!("`{cluster}` would count twice, {how}; leave one of them out"));
                    }
                }
            }
            of.push(known);
        }
        let clusters: BTreeSet<ClusterId> = through.into_keys().collect();
        let whole = of.len() == parts.len() && section.mistakes() == before;
        let slot_seconds = if whole { self.slot_seconds(name, &clusters) } else { None };
        Some(Group { of, clusters, slot_seconds: slot_seconds? })
    }

    /// Returns what a part is, and the clusters in it.
    fn part(&mut self, name: &'a str, part: &'a str, way: &mut Vec<&'a str>) -> Option<(Part, BTreeSet<ClusterId>)> {
        if self.written.contains(part) {
            // One whose name is none was noted as such.
            let cluster = ClusterId::new(part).ok()?;
            return Some((Part::Cluster(cluster.clone()), BTreeSet::from([cluster])));
        }
        if self.groups.contains_key(part) {
            let group = self.group(part, way)?;
            return Some((Part::Group(GroupId::new(part).ok()?), group.clusters));
        }
        let names = self.written.iter().chain(self.groups.keys()).copied();
        self.wrong(name, format!("{part:?} is neither a cluster nor a group; {}", one_of(part, names)));
        None
    }

    /// Returns how long the slots of all clusters are. Sums of slots that begin or end at different times would be sums of
    /// nothing that ever was.
    fn slot_seconds(&self, name: &str, clusters: &BTreeSet<ClusterId>) -> Option<u64> {
        let mut lengths = BTreeMap::<u64, Vec<&str>>::new();
        for cluster in clusters {
            let settings = self.clusters.get(cluster)?;
            lengths.entry(settings.terms.slot_seconds).or_default().push(cluster.as_str());
        }
        if let Some((&only, _)) = lengths.first_key_value().filter(|_| lengths.len() == 1) {
            return Some(only);
        }
        let found: Vec<_> = lengths.iter().map(|(length, of)| format!("{length} s ({})", of.join(", "))).collect();
        let message = format!(
            "its clusters have slots of {}; only slots of one length can be added up, so use one `slot_seconds`, or a group \
             for each",
            found.join(" and ")
        );
        self.wrong(name, message);
        None
    }
}

/// Says by which parts of a group a cluster is in it.
fn twice(first: &str, second: &str, cluster: &ClusterId) -> String {
    if first == second {
        return format!("because `{first}` is named twice");
    }
    let by = |part: &str| if part == cluster.as_str() { "by itself".to_owned() } else { format!("in `{part}`") };
    format!("{} and {}", by(first), by(second))
}
