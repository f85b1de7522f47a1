//! A meter's part in the committee scheme: what it deals as a member, and what it answers as a holder.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use aes::Aes128Enc;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use zeroize::Zeroizing;

use super::dealing::{Dealer, Dealing};
use super::field::Element;
use crate::derive;
use crate::keys::{ListHash, PairKey, SelfKey};
use crate::member_set::MemberSet;
use crate::time::Slot;

/// What a meter deals with its readings under one list.
pub struct Member {
    /// By holder.
    seats: Vec<Seat>,
    dealer: Arc<Dealer>,
    own: OwnDeal,
}

/// Whom a member deals to.
enum Seat {
    /// Another member, with the key shared with it, and whether this member sorts before it.
    Other { cipher: Box<Aes128Enc>, up: bool },
    /// The member itself.
    Own,
}

impl Member {
    /// `holders` has, for each holder in order, the key shared with it and whether this member sorts before it; `None` if the
    /// member is that holder.
    pub fn new(
        holders: impl IntoIterator<Item = Option<(PairKey, bool)>>,
        dealer: Arc<Dealer>,
        self_key: Arc<SelfKey>,
        list: ListHash,
    ) -> Self {
        let seats = holders.into_iter().map(|holder| match holder {
            Some((key, up)) => Seat::Other { cipher: Box::new(Aes128Enc::new(key.expose().into())), up },
            None => Seat::Own,
        });
        Self { seats: seats.collect(), dealer, own: OwnDeal { self_key, list } }
    }

    /// Returns what hides the reading of an attempt, and what it takes for the holders to open sums of it.
    pub fn deal(&self, slot: Slot, attempt: u8) -> Dealing {
        let inputs = [false, true].map(|up| derive::deal_block(up, slot, attempt));
        let dealt = self.seats.iter().map(|seat| match seat {
            Seat::Other { cipher, up } => {
                let mut block = inputs[usize::from(*up)].into();
                cipher.encrypt_block(&mut block);
                Element::from_block(block.into())
            }
            Seat::Own => self.own.deal(slot, attempt),
        });
        let dealt: Zeroizing<Vec<Element>> = Zeroizing::new(dealt.collect());
        self.dealer.deal(&dealt)
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("holders", &self.seats.len()).finish_non_exhaustive()
    }
}

/// What a meter answers as a holder under one list.
pub struct Holder {
    /// By member; `None` is the holder itself.
    keys: Vec<Option<PairKey>>,
    own: OwnDeal,
}

impl Holder {
    /// `keys[j]` is the key shared with member `j` of the sorted list, `None` at the holder's own place.
    pub fn new(keys: Vec<Option<PairKey>>, self_key: Arc<SelfKey>, list: ListHash) -> Self {
        debug_assert_eq!(keys.iter().filter(|key| key.is_none()).count(), 1, "exactly one member is itself");
        Self { keys, own: OwnDeal { self_key, list } }
    }

    /// Returns the sum of what all members that are not missing dealt to this holder in an attempt.
    pub fn answer(&self, missing: &MemberSet, slot: Slot, attempt: u8) -> Element {
        let mut up = true;
        (0u16..).zip(&self.keys).fold(Element::ZERO, |sum, (member, key)| {
            let taken = !missing.contains(member);
            match key {
                Some(key) if taken => {
                    sum + Element::from_block(derive::encrypt(key, derive::deal_block(up, slot, attempt)))
                }
                Some(_) => sum,
                // Those after the holder sort behind it.
                None => {
                    up = false;
                    if taken { sum + self.own.deal(slot, attempt) } else { sum }
                }
            }
        })
    }
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holder").field("members", &self.keys.len()).finish_non_exhaustive()
    }
}

/// What a holder deals to itself.
struct OwnDeal {
    self_key: Arc<SelfKey>,
    list: ListHash,
}

impl OwnDeal {
    fn deal(&self, slot: Slot, attempt: u8) -> Element {
        Element::from_block(derive::own_deal(&self.self_key, &self.list, slot, attempt))
    }
}
