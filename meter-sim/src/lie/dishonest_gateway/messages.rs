//! The lists, requests and retries that it sends, honest or not.

use anyhow::bail;
use dream_protocol::ids::MeterId;
use dream_protocol::keys::{AgreementSecret, IdentityKey, ListHash};
use dream_protocol::member_set::MemberSet;
use dream_protocol::time::Slot;
use dream_protocol::topic::{GatewayChannel, MeterChannel};
use dream_protocol::wire::{EnrolmentStatement, Message as _, RecoveryRequest, Retry, Sign1};

use super::{DishonestGateway, EPOCH};
use crate::lie::attack::Attack;
use crate::lie::draft::Draft;
use crate::lie::meters::digest;
use dream_fleet::authority::TestAuthorities;

impl DishonestGateway {
    pub(super) fn false_list(&self, attack: Attack) -> anyhow::Result<Draft> {
        let mut draft = Draft::honest(EPOCH, self.enrolments());
        match attack {
            Attack::InventedMembers => {
                let invented = usize::try_from(draft.terms.max_malicious)? + 5;
                draft = Draft::honest(EPOCH, [self.enrolments(), self.invented(invented)?].concat());
            }
            Attack::SwappedKeys => {
                for (meter, enrolment) in draft.enrolments.iter_mut().step_by(2) {
                    *enrolment = self.with_another_key(meter, enrolment)?;
                }
            }
            Attack::SmallCrowd => draft = Draft::honest(EPOCH, self.enrolments().into_iter().take(12).collect()),
            Attack::WeakEpsilon => (draft.terms.epsilon_numerator, draft.terms.epsilon_denominator) = (1000, 1),
            Attack::TwoLists => draft = Draft::honest(EPOCH, self.enrolments().into_iter().skip(1).collect()),
            Attack::BrokenChain => {
                (draft.epoch, draft.previous_epoch, draft.previous) = (EPOCH + 1, EPOCH, ListHash(rand::random()));
            }
            Attack::StaleList => draft.epoch = EPOCH - 1,
            Attack::ForgedSignature
            | Attack::OversizedRequest
            | Attack::SecondRequest
            | Attack::EndlessRetries
            | Attack::NamedMissing => bail!("{attack:?} needs no list"),
        }
        Ok(draft)
    }

    /// Returns enrolments of homes that do not exist, certified by an authority that only has the right name.
    fn invented(&self, count: usize) -> anyhow::Result<Vec<(MeterId, Vec<u8>)>> {
        let authority = TestAuthorities::new(1);
        let invent = |number| {
            let id = MeterId::new(&format!("nobody-{number}"))?;
            let issued = authority.meter(&id);
            let now = self.wall().as_secs();
            let statement = EnrolmentStatement {
                cluster: self.cluster.clone(),
                certificate: digest(&issued.der),
                agreement: AgreementSecret::generate(&mut rand::rng()).public(),
                not_before: now,
                // Past the end of the list.
                not_after: now + 86_000,
                seq: now,
                holds: 0,
            };
            let topic = MeterChannel::Enrol.topic(&self.cluster, &id);
            Ok((id, statement.seal((&issued.identity(), &issued.der), &topic)))
        };
        (1..=count).map(invent).collect()
    }

    /// Returns a meter's enrolment with a key of the gateway's, signed by the gateway.
    fn with_another_key(&self, meter: &MeterId, enrolment: &[u8]) -> anyhow::Result<Vec<u8>> {
        let (envelope, certificate) = Sign1::decode_certified(enrolment)?;
        let mut statement = EnrolmentStatement::decode(envelope.payload())?;
        statement.agreement = AgreementSecret::generate(&mut rand::rng()).public();
        let topic = MeterChannel::Enrol.topic(&self.cluster, meter);
        Ok(statement.seal((&self.gateway.identity, certificate), &topic))
    }

    pub(super) fn enrolments(&self) -> Vec<(MeterId, Vec<u8>)> {
        self.enrolments.iter().map(|(meter, bytes)| (meter.clone(), bytes.clone())).collect()
    }

    pub(super) fn sign(&self, draft: Draft) -> Vec<u8> {
        draft.sign(&self.cluster, (&self.gateway, &self.authorities), &self.secret, self.wall())
    }

    /// Returns a request, signed by the gateway unless another key is given.
    pub(super) fn request(
        &self,
        slot: Slot,
        missing: &MemberSet,
        key: Option<&IdentityKey>,
    ) -> anyhow::Result<Vec<u8>> {
        let list = self.list()?;
        let deadline = list.params().slot_expiry(slot).as_secs();
        let missing = missing.as_bytes().to_vec();
        let request = RecoveryRequest { list: *list.hash(), slot, attempt: 0, missing, deadline };
        let topic = GatewayChannel::Recovery.topic(&self.cluster);
        Ok(request.seal(key.unwrap_or(&self.gateway.identity), &topic))
    }

    /// Returns a retry beyond the attempts of the list.
    pub(super) fn retry(&self, slot: Slot) -> anyhow::Result<Vec<u8>> {
        let list = self.list()?;
        let deadline = list.params().slot_expiry(slot).as_secs();
        let retry = Retry { list: *list.hash(), slot, attempt: list.params().attempts(), deadline };
        Ok(retry.seal(&self.gateway.identity, &GatewayChannel::Retry.topic(&self.cluster)))
    }
}
