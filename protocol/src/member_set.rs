//! A set of a list's members, by index: the bitmap S of a recovery request.

use alloc::boxed::Box;
use alloc::vec;

use strum::{IntoStaticStr, VariantNames};
use thiserror::Error;

/// Why bytes are not a bitmap of a list's members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum MemberSetError {
    #[error("a bitmap of {members} members has {expected} bytes, this one has {found}")]
    Length { members: u16, expected: usize, found: usize },
    #[error("the spare bits after member {members} must be zero")]
    SpareBits { members: u16 },
}

/// Members of one sorted list; member `i` is bit `7 - i mod 8` of byte `i / 8`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberSet {
    members: u16,
    bits: Box<[u8]>,
}

impl MemberSet {
    pub fn empty(members: u16) -> Self {
        Self { members, bits: vec![0; usize::from(members).div_ceil(8)].into() }
    }

    pub fn from_members(members: u16, set: impl IntoIterator<Item = u16>) -> Self {
        let mut all = Self::empty(members);
        set.into_iter().for_each(|member| all.insert(member));
        all
    }

    pub fn from_bytes(members: u16, bytes: &[u8]) -> Result<Self, MemberSetError> {
        let expected = usize::from(members).div_ceil(8);
        if bytes.len() != expected {
            return Err(MemberSetError::Length { members, expected, found: bytes.len() });
        }
        let used = members % 8;
        let spare = if used == 0 { 0 } else { 0xffu8 >> used };
        if bytes.last().is_some_and(|last| last & spare != 0) {
            return Err(MemberSetError::SpareBits { members });
        }
        Ok(Self { members, bits: bytes.into() })
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bits
    }

    /// Adds a member.
    ///
    /// # Panics
    /// If the list has no such member.
    pub fn insert(&mut self, member: u16) {
        assert!(member < self.members, "member {member} of {}", self.members);
        self.bits[usize::from(member / 8)] |= bit(member);
    }

    /// Takes a member out, if it is in.
    pub fn remove(&mut self, member: u16) {
        if self.contains(member) {
            self.bits[usize::from(member / 8)] &= !bit(member);
        }
    }

    pub fn contains(&self, member: u16) -> bool {
        member < self.members && self.bits[usize::from(member / 8)] & bit(member) != 0
    }

    pub fn len(&self) -> u16 {
        self.bits.iter().map(|byte| u16::try_from(byte.count_ones()).expect("at most 8")).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.bits.iter().all(|&byte| byte == 0)
    }

    pub fn iter(&self) -> impl Iterator<Item = u16> {
        (0..self.members).filter(|&member| self.contains(member))
    }
}

fn bit(member: u16) -> u8 {
    0x80 >> (member % 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_member_is_the_highest_bit_of_the_first_byte() {
        let set = MemberSet::from_members(10, [0, 9]);
        assert_eq!(set.as_bytes(), [0x80, 0x40]);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 9]);
        assert_eq!((set.len(), set.contains(9), set.contains(1), set.contains(10)), (2, true, false, false));
        assert_eq!(MemberSet::from_bytes(10, &[0x80, 0x40]), Ok(set));
    }

    #[test]
    fn wrong_lengths_and_spare_bits_are_refused() {
        assert!(matches!(MemberSet::from_bytes(10, &[0]), Err(MemberSetError::Length { expected: 2, .. })));
        assert!(matches!(MemberSet::from_bytes(10, &[0, 0, 0]), Err(MemberSetError::Length { .. })));
        assert_eq!(MemberSet::from_bytes(10, &[0, 0x20]), Err(MemberSetError::SpareBits { members: 10 }));
        assert!(MemberSet::from_bytes(8, &[0xff]).is_ok());
    }
}
