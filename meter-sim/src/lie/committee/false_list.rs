//! Lists with false holders, foreign authorities, or a body that is not theirs.

use dream_protocol::membership::MembershipList;
use dream_protocol::scheme::Scheme;
use dream_protocol::scheme::committee::Committee;
use dream_protocol::time::Slot;
use dream_protocol::topic::GatewayChannel;
use dream_protocol::wire::{FullList, ListStatement, Message as _, ShortList};
use dream_virtual::example::cluster_id;
use dream_virtual::pki::Pki;
use sha2::{Digest as _, Sha256};

use super::scene::Scene;

/// What is false about a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FalseList {
    ForeignAuthorities,
    OtherBody,
    Holder(FalseHolder),
}

/// Who is named as a holder and must not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FalseHolder {
    Twice,
    Undrawn,
    Unwilling,
}

impl Scene {
    /// Returns a next list that lies, and where it is published.
    pub(super) fn false_list(&self, lie: FalseList) -> (GatewayChannel, Vec<u8>) {
        let bytes = self.list().bytes().clone();
        let mut next = self.next_list(&bytes);
        match lie {
            FalseList::ForeignAuthorities => {
                let foreign = Pki::named("an authority of the gateway's own").authorities().meters().fingerprints();
                next.meter_authorities.extend(foreign);
                next.meter_authorities.sort();
                (GatewayChannel::Membership, self.shortened(&next))
            }
            FalseList::OtherBody => {
                let header = self.sealed_header(&next);
                let mut enrolments = next.enrolments.clone();
                enrolments.rotate_left(1);
                let body = FullList { header: &header, enrolments }.encode();
                (GatewayChannel::FullMembership, body)
            }
            FalseList::Holder(holder) => {
                (GatewayChannel::Membership, self.shortened(&self.with_false_holder(holder, next)))
            }
        }
    }

    /// Draws holders, some of the members, and adds one by a lie.
    fn with_false_holder<'a>(&self, holder: FalseHolder, mut next: ListStatement<'a>) -> ListStatement<'a> {
        let members = next.enrolments.len() as u64;
        let committee = |holders: u64| Committee { drawn: members * 4 / 5, needed: holders, holders };
        next.terms.scheme = Scheme::Committee(committee(1));
        next.holders = self.drawn(&next);
        let unwilling = u16::try_from(members - 1).expect("a hundred at most");
        match holder {
            FalseHolder::Twice => {
                // Its enrolment stands twice among the members as well, so that everything that is hashed agrees.
                let twice = next.holders[0];
                next.enrolments.insert(usize::from(twice), next.enrolments[usize::from(twice)]);
                next.holders.iter_mut().skip(1).for_each(|holder| *holder += 1);
                next.holders.insert(1, twice + 1);
            }
            FalseHolder::Unwilling => next.holders.push(unwilling),
            FalseHolder::Undrawn => {
                let undrawn = (0..unwilling).find(|member| !next.holders.contains(member));
                next.holders.push(undrawn.expect("a fifth is not drawn"));
                next.holders.sort_unstable();
            }
        }
        // Every answer is needed: no condition on q is broken.
        next.terms.scheme = Scheme::Committee(committee(next.holders.len() as u64));
        next
    }

    /// Returns who is drawn by the rules.
    fn drawn(&self, next: &ListStatement<'_>) -> Vec<u16> {
        let list = self.list();
        let start = list.params().slot_start(next.from_slot).as_secs();
        let committee = next.terms.scheme.committee().expect("just set");
        let members = list.params().members();
        let draws =
            list.members().iter().map(|member| member.sigma(start / 86_400).filter(|_| member.is_willing(members)));
        // floor(k * 2^64 / N)
        let below = (u128::from(committee.drawn) << 64) / u128::from(members);
        let drawn = (0..).zip(draws).filter(|(_, draw)| draw.is_some_and(|draw| u128::from(draw) < below));
        drawn.map(|(member, _)| member).collect()
    }

    /// The list that would follow the present one.
    fn next_list<'a>(&self, bytes: &'a [u8]) -> ListStatement<'a> {
        let list: &MembershipList = self.list();
        let statement = ListStatement::decode(bytes).expect("the gateway's own");
        ListStatement {
            epoch: list.epoch() + 1,
            previous_epoch: list.epoch(),
            previous: *list.hash(),
            from_slot: Slot(statement.from_slot.0 + 1),
            ..statement
        }
    }

    fn sealed_header(&self, statement: &ListStatement<'_>) -> Vec<u8> {
        let gateway = self.pki.gateway("gw");
        let topic = GatewayChannel::Membership.topic(&cluster_id());
        statement.header(&gateway.der).seal((&gateway.identity(), &gateway.der), &topic)
    }

    /// Returns a list as members get it that need the holders only.
    fn shortened(&self, statement: &ListStatement<'_>) -> Vec<u8> {
        let header = self.sealed_header(statement);
        let digest = |entry: &&[u8]| <[u8; 32]>::from(Sha256::digest(entry))[..8].to_vec();
        let drawn = statement.terms.scheme.committee().is_some_and(|committee| committee.drawn > 0);
        let (holders, digests) = match drawn {
            true => (
                statement.holders.iter().map(|&holder| statement.enrolments[usize::from(holder)]).collect(),
                statement.enrolments.iter().flat_map(digest).collect(),
            ),
            false => (Vec::new(), Vec::new()),
        };
        ShortList { header: &header, holders, digests: &digests }.encode()
    }
}
