//! Members by name, for operators alone. They are kept apart from the [board](super::Board): what shows the board cannot show a
//! meter.

use std::collections::BTreeMap;
use std::sync::RwLock;

use dream_protocol::ids::ClusterId;

use super::holders::HolderJson;
use super::offenders::OffenderJson;

/// The members of a cluster that the operator should know of.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// Who spoils slots.
    pub offenders: Vec<OffenderJson>,
    /// Which holders dropped out or contradicted others.
    pub holders: Vec<HolderJson>,
}

/// Members by cluster: the driver writes it, and only operators are shown it.
#[derive(Debug, Default)]
pub struct NamedMembers(RwLock<BTreeMap<ClusterId, Names>>);

impl NamedMembers {
    /// Replaces the members of these clusters.
    pub fn set(&self, names: impl IntoIterator<Item = (ClusterId, Names)>) {
        self.0.write().expect("nobody panics while writing").extend(names);
    }

    /// Forgets a cluster that is no longer served.
    pub fn remove(&self, cluster: &ClusterId) {
        self.0.write().expect("nobody panics while writing").remove(cluster);
    }

    /// Returns who spoils slots, by cluster and meter.
    pub fn offenders(&self) -> Vec<OffenderJson> {
        self.all(|names| &names.offenders)
    }

    /// Returns which holders dropped out or contradicted others, by cluster and meter.
    pub fn holders(&self) -> Vec<HolderJson> {
        self.all(|names| &names.holders)
    }

    fn all<T: Clone>(&self, of: impl Fn(&Names) -> &Vec<T>) -> Vec<T> {
        self.0.read().expect("nobody panics while writing").values().flat_map(of).cloned().collect()
    }
}
