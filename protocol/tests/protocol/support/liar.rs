//! A gateway that signs whatever suits it, facing real meters, and what it can compute from their answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use dream_protocol::certificate::Fingerprint;
use dream_protocol::derive;
use dream_protocol::enrolment::Enrolment;
use dream_protocol::ids::ClusterId;
use dream_protocol::keys::{AgreementPublic, AgreementSecret, ListHash, MacKey, StreamKey};
use dream_protocol::member_set::MemberSet;
use dream_protocol::membership::MembershipList;
use dream_protocol::meter::{self, MeterConfig, Notice, Record, Refusal};
use dream_protocol::params::Terms;
use dream_protocol::policy::Policy;
use dream_protocol::scheme::pairwise::mask::Masks;
use dream_protocol::simulation::Simulation;
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::topic::{GatewayChannel, MeterChannel, Topic};
use dream_protocol::wire::{
    EvidenceStatement, ListStatement, Mac0, MaskedReading, Message as _, RecoveryRequest, Retry, Reveal, Sign1, Status,
    StatusCode,
};

use super::pki::{Issued, Pki};
use super::world::{MeterNode, Packet};
use super::{START, TERMS, at, cluster_id, meter_config, meter_name, policy, rng};

/// No noise: sums are exact, and what opens can be compared with what was measured.
pub(crate) const NO_NOISE: Simulation = Simulation::NOISELESS;

/// The first slot of the liar's lists.
pub(crate) const FIRST: Slot = Slot(START / 600 + 1);

/// When its first list is delivered.
pub(crate) const LISTED: u64 = START + 6;

/// A lying gateway and the honest meters it lies to.
pub(crate) struct Liar {
    pub(crate) pki: Pki,
    pub(crate) policy: Policy,
    pub(crate) identity: Issued,
    pub(crate) secret: AgreementSecret,
    pub(crate) simulation: Simulation,
    pub(crate) meters: Vec<MeterNode>,
    /// The meters' own enrolments, sorted as they are.
    pub(crate) enrolments: Vec<Vec<u8>>,
    /// The list that the meters hold, once [`Liar::publish`] was called.
    pub(crate) list: Option<Arc<MembershipList>>,
}

/// The fingerprints by which a list names the authorities of its meters and that of its gateway.
pub(crate) fn named_authorities(pki: &Pki) -> (Vec<Fingerprint>, Fingerprint) {
    let authorities = pki.authorities();
    (authorities.meters().fingerprints(), authorities.gateways().fingerprints()[0])
}

/// A list that can say anything.
#[derive(Clone)]
pub(crate) struct Draft {
    pub(crate) cluster: ClusterId,
    pub(crate) epoch: u64,
    pub(crate) previous_epoch: u64,
    pub(crate) previous: ListHash,
    pub(crate) meter_authorities: Vec<Fingerprint>,
    pub(crate) gateway_authority: Fingerprint,
    pub(crate) gateway: AgreementPublic,
    pub(crate) from_slot: Slot,
    pub(crate) to_slot: Slot,
    pub(crate) terms: Terms,
    pub(crate) enrolments: Vec<Vec<u8>>,
}

impl Draft {
    pub(crate) fn sign(&self, signer: &Issued) -> Packet {
        self.sign_for(signer, &GatewayChannel::Membership.topic(&self.cluster))
    }

    /// Signs for a topic; the packet travels on the cluster's membership topic all the same.
    pub(crate) fn sign_for(&self, signer: &Issued, topic: &str) -> Packet {
        let committee = self.terms.scheme.committee().is_some();
        let statement = ListStatement {
            cluster: self.cluster.clone(),
            epoch: self.epoch,
            previous_epoch: self.previous_epoch,
            previous: self.previous,
            meter_authorities: self.meter_authorities.clone(),
            gateway_authority: self.gateway_authority,
            gateway: self.gateway,
            from_slot: self.from_slot,
            to_slot: self.to_slot,
            terms: self.terms,
            enrolments: self.enrolments.iter().map(Vec::as_slice).collect(),
            // With a committee everybody is willing.
            holders: (0u16..).zip(&self.enrolments).filter(|_| committee).map(|(member, _)| member).collect(),
        };
        let payload = statement.seal((&signer.identity(), &signer.der), topic);
        Packet::new(GatewayChannel::FullMembership.topic(&cluster_id()), payload)
    }
}

impl Liar {
    /// Meters that have enrolled and hold no list yet; `change` adapts their policy.
    pub(crate) fn enrolled(members: usize, change: impl FnOnce(&mut Policy), simulation: Simulation) -> Self {
        let pki = Pki::new();
        let mut policy = policy(&pki);
        change(&mut policy);
        let identity = pki.gateway("gw");
        let secret = AgreementSecret::from_bytes([0x47; 32]);
        let (meters, enrolments, list) = (Vec::new(), Vec::new(), None);
        let mut liar = Self { pki, policy, identity, secret, simulation, meters, enrolments, list };
        for index in 0..members {
            let mut node = MeterNode::new(liar.config(index), simulation, rng(1000 + index as u64));
            let sent = node.handle(meter::Input::Connected, at(START));
            let [enrolment] = sent.as_slice() else { panic!("one enrolment, not {}", sent.len()) };
            liar.enrolments.push(enrolment.payload.to_vec());
            liar.meters.push(node);
        }
        liar
    }

    /// The one piece of evidence that a meter keeps.
    pub(crate) fn only_evidence(&self, index: usize) -> EvidenceStatement {
        let records = self.meters[index].records();
        let kept = |record: &Record| match record {
            Record::Evidence(evidence) => Some(EvidenceStatement::decode(evidence.bytes()).unwrap()),
            Record::Account(_) | Record::Enrolment(_) | Record::List(_) | Record::Slot(_) | Record::Answer(_) => None,
        };
        let kept: Vec<EvidenceStatement> = records.iter().filter_map(kept).collect();
        <[EvidenceStatement; 1]>::try_from(kept).expect("one piece")[0].clone()
    }

    /// Meters without noise that hold a first list with these tolerances.
    pub(crate) fn new(members: usize, missing: u64, malicious: u64) -> Self {
        Self::with(members, missing, malicious, |_| {}, |_| {}, NO_NOISE)
    }

    pub(crate) fn with(
        members: usize,
        missing: u64,
        malicious: u64,
        policy: impl FnOnce(&mut Policy),
        change: impl FnOnce(&mut Draft),
        simulation: Simulation,
    ) -> Self {
        let mut liar = Self::enrolled(members, policy, simulation);
        let mut draft = liar.draft();
        (draft.terms.max_missing, draft.terms.max_malicious) = (missing, malicious);
        change(&mut draft);
        liar.publish(&draft);
        liar
    }

    pub(crate) fn config(&self, meter: usize) -> MeterConfig {
        MeterConfig { policy: self.policy.clone(), ..meter_config(&self.pki, &meter_name(meter)) }
    }

    /// A good first list of everyone, with a tenth malicious and nobody missing.
    pub(crate) fn draft(&self) -> Draft {
        let (meter_authorities, gateway_authority) = named_authorities(&self.pki);
        Draft {
            cluster: cluster_id(),
            epoch: 1,
            previous_epoch: 0,
            previous: ListHash::NONE,
            meter_authorities,
            gateway_authority,
            gateway: self.secret.public(),
            from_slot: FIRST,
            to_slot: FIRST.plus(143),
            terms: Terms { max_malicious: self.meters.len().div_ceil(10) as u64, ..TERMS },
            enrolments: self.enrolments.clone(),
        }
    }

    /// A good list that continues the one in force.
    pub(crate) fn next_draft(&self) -> Draft {
        let list = self.list();
        Draft {
            epoch: list.epoch() + 1,
            previous_epoch: list.epoch(),
            previous: *list.hash(),
            terms: *list.params().terms(),
            ..self.draft()
        }
    }

    /// Delivers a good list to everyone, who must accept it.
    pub(crate) fn publish(&mut self, draft: &Draft) {
        self.publish_at(draft, at(LISTED));
    }

    pub(crate) fn publish_at(&mut self, draft: &Draft, wall: Timestamp) {
        let packet = draft.sign(&self.identity);
        let list = MembershipList::verify(&packet.payload, &cluster_id(), &self.pki.authorities()).unwrap();
        for node in &mut self.meters {
            let sent = node.handle(meter::Input::List(list.clone()), wall);
            assert_eq!((on(MeterChannel::Status, &sent), node.refusals()), (vec![], vec![]), "a good list is accepted");
        }
        self.list = Some(list);
    }

    pub(crate) fn list(&self) -> &Arc<MembershipList> {
        self.list.as_ref().expect("a list was published")
    }

    pub(crate) fn slot_end(&self, slot: Slot) -> Timestamp {
        self.list().params().slot_end(slot)
    }

    /// Lets a meter measure a slot; returns the reading that it sends in the first half of its window.
    pub(crate) fn measure(&mut self, meter: usize, slot: Slot, watts: i64) -> Packet {
        let readings = on(MeterChannel::Reading, &self.try_measure(meter, slot, watts));
        let [reading] = readings.as_slice() else { panic!("one reading, not {}", readings.len()) };
        reading.clone()
    }

    pub(crate) fn try_measure(&mut self, meter: usize, slot: Slot, watts: i64) -> Vec<Packet> {
        let end = self.slot_end(slot);
        let mut sent = self.meters[meter].handle(meter::Input::Measured { slot, watts }, end);
        sent.extend(self.meters[meter].handle(meter::Input::Tick, end.plus_secs(30)));
        sent
    }

    pub(crate) fn request(&self, slot: Slot, attempt: u8, missing: &[u16]) -> Packet {
        let members = self.list().params().members();
        self.sign(&self.request_with(
            slot,
            attempt,
            MemberSet::from_members(members, missing.iter().copied()).as_bytes(),
        ))
    }

    pub(crate) fn request_with(&self, slot: Slot, attempt: u8, bitmap: &[u8]) -> RecoveryRequest {
        let deadline = self.slot_end(slot).plus_secs(90).as_secs();
        RecoveryRequest { list: *self.list().hash(), slot, attempt, missing: bitmap.to_vec(), deadline }
    }

    pub(crate) fn sign(&self, request: &RecoveryRequest) -> Packet {
        let topic = GatewayChannel::Recovery.topic(&cluster_id());
        let payload = request.seal(&self.identity.identity(), &topic);
        Packet::new(topic, payload)
    }

    /// A retry whose reading window lasts a minute.
    pub(crate) fn retry(&self, slot: Slot, attempt: u8, wall: Timestamp) -> Packet {
        let retry = Retry { list: *self.list().hash(), slot, attempt, deadline: wall.plus_secs(60).as_secs() };
        let topic = GatewayChannel::Retry.topic(&cluster_id());
        let payload = retry.seal(&self.identity.identity(), &topic);
        Packet::new(topic, payload)
    }

    /// Delivers a message to one meter; returns what it sends, and which rules it names.
    pub(crate) fn tell(&mut self, meter: usize, packet: &Packet, wall: Timestamp) -> (Vec<Packet>, Vec<Refusal>) {
        self.meters[meter].refusals();
        let input = meter::Input::Message { topic: &packet.topic, payload: &packet.payload };
        let sent = self.meters[meter].handle(input, wall);
        (sent, self.meters[meter].refusals())
    }

    /// Delivers a message that a meter must refuse by this rule, sending at most a status with this code.
    pub(crate) fn refused(&mut self, meter: usize, packet: &Packet, wall: Timestamp, rule: &Refusal) {
        let before = self.meters[meter].store.clone();
        let (sent, refusals) = self.tell(meter, packet, wall);
        assert_eq!(refusals, std::slice::from_ref(rule));
        // A meter whose last slot nobody asked about offers its enrolment, whatever else happens.
        let sent: Vec<Packet> = sent
            .into_iter()
            .filter(|packet| on(MeterChannel::Enrol, std::slice::from_ref(packet)).is_empty())
            .collect();
        let mut codes = self.codes(meter, &sent);
        codes.retain(|code| *code != StatusCode::NotAsked);
        assert_eq!(codes, rule.status().into_iter().collect::<Vec<_>>(), "{rule}");
        let kept = |store: &BTreeMap<meter::Key, Vec<u8>>| {
            let mut store = store.clone();
            store.retain(|key, _| !matches!(key, meter::Key::Evidence(_) | meter::Key::Account));
            store
        };
        assert_eq!(kept(&before), kept(&self.meters[meter].store), "{rule}: nothing but evidence is written");
    }

    /// The codes of messages that must all be statuses of this meter.
    pub(crate) fn codes(&self, meter: usize, sent: &[Packet]) -> Vec<StatusCode> {
        let issued = self.pki.meter(&meter_name(meter));
        let code = |packet: &Packet| {
            let Ok(Topic::Meter { channel: MeterChannel::Status, .. }) = Topic::parse(&packet.topic) else {
                panic!("a status, not something on {}", packet.topic);
            };
            let envelope = Sign1::decode(&packet.payload).unwrap();
            assert!(envelope.verifies(&issued.identity().public(), &packet.topic));
            Status::decode(envelope.payload()).unwrap().code
        };
        sent.iter().map(code).collect()
    }

    /// Starts a meter again from its records, or from those of them that `keep` leaves.
    pub(crate) fn restart(&mut self, meter: usize, keep: impl Fn(&meter::Key) -> bool) {
        let config = self.config(meter);
        let node = &mut self.meters[meter];
        node.store.retain(|key, _| keep(key));
        node.restart(config, self.simulation);
    }

    /// S_i and A_i, which the gateway shares with every member.
    pub(crate) fn gateway_keys(&self, meter: usize) -> (StreamKey, MacKey) {
        let list = self.list();
        let member = &list.members()[meter];
        let shared = self.secret.agree(member.agreement()).unwrap();
        derive::gateway_keys(list.hash(), &shared, list.cluster(), member.id())
    }

    /// What the gateway gets out of one meter's messages: `ct - K' - R`.
    pub(crate) fn open(&self, meter: usize, reading: &Packet, reveal: Option<&Packet>) -> u64 {
        let reading = reading_in(reading);
        let (stream, _) = self.gateway_keys(meter);
        let unstreamed = reading.ciphertext.wrapping_sub(derive::stream(&stream, reading.slot, reading.attempt));
        unstreamed.wrapping_sub(reveal.map_or(0, |reveal| reveal_in(reveal).revealed))
    }

    /// A colluder's pairwise masks.
    pub(crate) fn masks_of(&self, meter: usize) -> Masks {
        let list = self.list();
        let known: Vec<_> = self.meters[meter].meter.agreements().collect();
        let key = |(other, member): (usize, &Enrolment)| {
            (other != meter).then(|| {
                let (_, shared) = known.iter().find(|(with, _)| **with == *member.agreement()).unwrap();
                derive::pair_key(list.hash(), shared, list.cluster(), list.members()[meter].id(), member.id())
            })
        };
        Masks::new(list.members().iter().enumerate().map(key).collect(), None)
    }

    pub(crate) fn charges(&self, meter: usize) -> usize {
        self.meters[meter].notices.iter().filter(|notice| matches!(notice, Notice::Charged { .. })).count()
    }
}

/// The reading in a message, which must be one.
pub(crate) fn reading_in(packet: &Packet) -> MaskedReading {
    MaskedReading::decode(Mac0::decode(&packet.payload).unwrap().payload()).unwrap()
}

/// The reveal in a message, which must be one.
pub(crate) fn reveal_in(packet: &Packet) -> Reveal {
    Reveal::decode(Mac0::decode(&packet.payload).unwrap().payload()).unwrap()
}

/// The messages of one channel.
pub(crate) fn on(channel: MeterChannel, sent: &[Packet]) -> Vec<Packet> {
    let matches =
        |packet: &&Packet| matches!(Topic::parse(&packet.topic), Ok(Topic::Meter { channel: of, .. }) if of == channel);
    sent.iter().filter(matches).cloned().collect()
}
