//! Which place a member has in its list.

use crate::enrolment::Enrolment;

/// Finds a member for every reading. A hasher without a random key: ids are certified, and nothing here is ambient.
#[cfg(feature = "gateway")]
#[derive(Debug)]
pub(super) struct Index(
    std::collections::HashMap<crate::ids::MeterId, u16, core::hash::BuildHasherDefault<std::hash::DefaultHasher>>,
);

#[cfg(feature = "gateway")]
impl Index {
    pub(super) fn of(members: &[Enrolment]) -> Self {
        Self(members.iter().map(|member| member.id().clone()).zip(0..).collect())
    }

    pub(super) fn find(&self, _members: &[Enrolment], id: &str) -> Option<u16> {
        self.0.get(id).copied()
    }
}

/// A meter looks for nobody but itself, a few times a list: the order of the entries is index enough.
#[cfg(not(feature = "gateway"))]
#[derive(Debug)]
pub(super) struct Index;

#[cfg(not(feature = "gateway"))]
impl Index {
    pub(super) fn of(_members: &[Enrolment]) -> Self {
        Self
    }

    pub(super) fn find(&self, members: &[Enrolment], id: &str) -> Option<u16> {
        let place = members.binary_search_by(|member| member.id().as_str().cmp(id)).ok()?;
        u16::try_from(place).ok()
    }
}
