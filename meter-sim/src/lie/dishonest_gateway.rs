//! The dishonest gateway: it collects what meters send, and sends them honest and dishonest messages.

mod incoming;
mod messages;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use dream_protocol::certificate::Authorities;
use dream_protocol::derive;
use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::keys::{AgreementSecret, IdentityKey};
use dream_protocol::member_set::MemberSet;
use dream_protocol::membership::MembershipList;
use dream_protocol::meter::Refusal;
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::topic::{GatewayChannel, MeterChannel};
use dream_protocol::wire::{MaskedReading, Reveal};
use tokio::sync::mpsc::UnboundedReceiver;

use super::SLOT_SECONDS;
use super::attack::{Attack, Lie, Precondition};
use super::draft::Draft;
use super::link::{Event, Publish};
use super::meters::{MeterEvent, Reaction, digest};
use super::participants::{Gateway, watts};
use super::report::{Control, Outcome};
use dream_fleet::clock::Clock;

/// The epoch of the honest list: there is an older number.
const EPOCH: u64 = 2;

/// How long to wait for anything.
const TIMEOUT: Duration = Duration::from_secs(20);

/// How many slots are tried until all meters have reported one.
const SLOTS_TRIED: u64 = 10;

/// How often an attack that came too late for its slot is tried.
const TRIES: usize = 5;

/// How much of a slot must be left for an attack.
const ROOM_MILLIS: u64 = SLOT_SECONDS * 1000 / 2 - 500;

/// The gateway, with everything that it received.
pub(super) struct DishonestGateway {
    cluster: ClusterId,
    gateway: Gateway,
    authorities: Authorities,
    secret: AgreementSecret,
    meters: usize,
    client: Box<dyn Publish>,
    incoming: UnboundedReceiver<Event>,
    meter_events: UnboundedReceiver<MeterEvent>,
    clock: Clock,
    /// Connections that stand, its own among them.
    connected: usize,
    enrolments: BTreeMap<MeterId, Vec<u8>>,
    readings: BTreeMap<Slot, BTreeMap<MeterId, MaskedReading>>,
    reveals: BTreeMap<Slot, BTreeMap<MeterId, Reveal>>,
    /// By message, and then by meter.
    reactions: BTreeMap<[u8; 32], BTreeMap<usize, Reaction>>,
    list: Option<Arc<MembershipList>>,
    /// Slots with a request that meters may answer.
    asked: BTreeSet<Slot>,
    answered: Option<Slot>,
}

impl DishonestGateway {
    pub(super) fn connect(
        gateway: Gateway,
        client_id: &str,
        cluster: ClusterId,
        authorities: Authorities,
        meters: usize,
        meter_events: UnboundedReceiver<MeterEvent>,
        clock: Clock,
    ) -> Self {
        let filters: Vec<String> = MeterChannel::ALL.iter().map(|channel| channel.filter(&cluster)).collect();
        let (client, incoming) = gateway.link.connect(client_id, &filters);
        Self {
            cluster,
            gateway,
            authorities,
            secret: AgreementSecret::generate(&mut rand::rng()),
            meters,
            client,
            incoming,
            meter_events,
            clock,
            connected: 0,
            enrolments: BTreeMap::new(),
            readings: BTreeMap::new(),
            reveals: BTreeMap::new(),
            reactions: BTreeMap::new(),
            list: None,
            asked: BTreeSet::new(),
            answered: None,
        }
    }

    /// Waits until the broker has confirmed its subscriptions: what meters send before is lost.
    pub(super) async fn subscribed(&mut self) -> anyhow::Result<()> {
        if !self.until(TIMEOUT, |gateway| gateway.connected >= 1).await? {
            bail!("the broker at {} does not confirm the gateway's subscriptions", self.gateway.link);
        }
        Ok(())
    }

    /// Waits until all meters have enrolled.
    pub(super) async fn enrolled(&mut self) -> anyhow::Result<()> {
        if !self.until(TIMEOUT, |gateway| gateway.enrolments.len() == gateway.meters).await? {
            let (came, all) = (self.enrolments.len(), self.meters);
            bail!("only {came} of {all} meters could enrol; check that the broker lets them publish on dream/v1/#");
        }
        Ok(())
    }

    /// Publishes an honest list, which all meters must accept.
    pub(super) async fn honest_list(&mut self) -> anyhow::Result<Control> {
        let bytes = self.sign(Draft::honest(EPOCH, self.enrolments()));
        let list = MembershipList::verify(&bytes, &self.cluster, &self.authorities)?;
        let responses = self.send(GatewayChannel::FullMembership, &bytes, 0..self.meters).await?;
        self.list = Some(list);
        Ok(Control::List {
            accepted: responses.iter().filter(|reaction| reaction.complied).count(),
            meters: self.meters,
        })
    }

    /// Runs an honest slot: requests reveals from all meters, and opens the sum.
    pub(super) async fn honest_slot(&mut self) -> anyhow::Result<Control> {
        let (slot, answered) = self.asked_slot().await?;
        let params = *self.list()?.params();
        let sum = self.open(slot).filter(|sum| params.is_plausible(*sum));
        let exact = (0..self.meters).map(watts).sum();
        Ok(Control::Slot { answered, meters: self.meters, sum, exact })
    }

    /// Tries an attack, again if it came too late for its slot.
    pub(super) async fn lie(&mut self, attack: Attack) -> anyhow::Result<Outcome> {
        let mut outcome = self.lie_once(attack).await?;
        for _ in 1..TRIES {
            if !outcome.came_too_late() {
                break;
            }
            outcome = self.lie_once(attack).await?;
        }
        Ok(outcome)
    }

    async fn lie_once(&mut self, attack: Attack) -> anyhow::Result<Outcome> {
        let all = 0..self.meters;
        let responses = match attack.precondition() {
            Precondition::NoList | Precondition::List => {
                let bytes = self.sign(self.false_list(attack)?);
                self.send(GatewayChannel::FullMembership, &bytes, all).await?
            }
            Precondition::ReportedSlot => {
                let slot = self.reported_slot().await?;
                let (members, named) = (self.list()?.params().members(), self.list()?.params().max_missing());
                let forged = (attack == Attack::ForgedSignature).then(|| IdentityKey::from_seed(&rand::random()));
                let (missing, to) = if attack == Attack::NamedMissing {
                    // As many as a list allows: those alone have a reason to refuse, and the others answer.
                    self.asked.insert(slot);
                    (MemberSet::from_members(members, 0..named), 0..usize::from(named))
                } else if attack == Attack::OversizedRequest {
                    (MemberSet::from_members(members, 1..members), all)
                } else {
                    (MemberSet::empty(members), all)
                };
                let bytes = self.request(slot, &missing, forged.as_ref())?;
                let responses = self.send(GatewayChannel::Recovery, &bytes, to).await?;
                if responses.iter().any(|reaction| reaction.complied) {
                    self.asked.insert(slot);
                }
                responses
            }
            Precondition::AnsweredSlot => {
                let slot = self.answered_slot().await?;
                let (channel, bytes) = if attack == Attack::SecondRequest {
                    let members = self.list()?.params().members();
                    let missing = MemberSet::from_members(members, [members - 1]);
                    (GatewayChannel::Recovery, self.request(slot, &missing, None)?)
                } else {
                    (GatewayChannel::Retry, self.retry(slot)?)
                };
                self.send(channel, &bytes, all).await?
            }
        };
        Ok(Outcome::new(Lie::ToMembers(attack), responses))
    }

    fn wall(&self) -> Timestamp {
        self.clock.now().wall
    }

    fn list(&self) -> anyhow::Result<&Arc<MembershipList>> {
        self.list.as_ref().ok_or_else(|| anyhow::anyhow!("no list was accepted"))
    }

    /// Waits for a slot that all meters have reported, without a request so far and with time left, and returns it.
    async fn reported_slot(&mut self) -> anyhow::Result<Slot> {
        let timeout = Duration::from_secs(SLOT_SECONDS * SLOTS_TRIED);
        if !self.until(timeout, |gateway| gateway.usable_slot().is_some()).await? {
            bail!("the meters do not all report a slot in time; is this machine, or the broker, very busy?");
        }
        Ok(self.usable_slot().expect("just found"))
    }

    fn usable_slot(&self) -> Option<Slot> {
        let (slot, readings) = self.readings.last_key_value()?;
        (readings.len() == self.meters && !self.asked.contains(slot) && self.has_room(*slot)).then_some(*slot)
    }

    fn has_room(&self, slot: Slot) -> bool {
        self.list.as_ref().is_some_and(|list| list.params().slot_expiry(slot).millis_since(self.wall()) >= ROOM_MILLIS)
    }

    /// Returns a slot whose request all meters have answered, with time left.
    async fn answered_slot(&mut self) -> anyhow::Result<Slot> {
        if let Some(slot) = self.answered.filter(|slot| self.has_room(*slot)) {
            return Ok(slot);
        }
        let (slot, answered) = self.asked_slot().await?;
        if answered < self.meters {
            bail!("{answered} of {} meters answer an honest request", self.meters);
        }
        Ok(slot)
    }

    /// Sends honest requests until all meters have answered one in time. Returns the slot and the number of answers.
    async fn asked_slot(&mut self) -> anyhow::Result<(Slot, usize)> {
        let mut last = (Slot(0), 0);
        for _ in 0..TRIES {
            let slot = self.reported_slot().await?;
            last = (slot, self.ask_honestly(slot).await?);
            if last.1 == self.meters {
                self.answered = Some(slot);
                break;
            }
        }
        Ok(last)
    }

    /// Sends a request in which nobody is missing. Returns the number of answers.
    async fn ask_honestly(&mut self, slot: Slot) -> anyhow::Result<usize> {
        let members = self.list()?.params().members();
        let bytes = self.request(slot, &MemberSet::empty(members), None)?;
        self.asked.insert(slot);
        self.send(GatewayChannel::Recovery, &bytes, 0..self.meters).await?;
        self.until(TIMEOUT, |gateway| gateway.reveals_of(slot) == gateway.meters || !gateway.is_open(slot)).await?;
        Ok(self.reveals_of(slot))
    }

    fn reveals_of(&self, slot: Slot) -> usize {
        self.reveals.get(&slot).map_or(0, BTreeMap::len)
    }

    /// Returns whether answers may still come.
    fn is_open(&self, slot: Slot) -> bool {
        self.list.as_ref().is_some_and(|list| list.params().slot_expiry(slot) > self.wall())
    }

    /// Returns the sum of a slot that everyone has answered: `protocol-gateway.md 4`, "The result".
    fn open(&self, slot: Slot) -> Option<i64> {
        let list = self.list.as_ref()?;
        let (readings, reveals) = (self.readings.get(&slot)?, self.reveals.get(&slot)?);
        let mut sum = 0u64;
        for member in list.members() {
            let shared = self.secret.agree(member.agreement())?;
            let (stream, _) = derive::gateway_keys(list.hash(), &shared, list.cluster(), member.id());
            let (reading, reveal) = (readings.get(member.id())?, reveals.get(member.id())?);
            sum = sum
                .wrapping_add(reading.ciphertext)
                .wrapping_sub(derive::stream(&stream, slot, 0))
                .wrapping_sub(reveal.revealed);
        }
        Some(sum.cast_signed())
    }

    /// Publishes a message, waits for the responses, and returns those of some meters. A silent meter neither refuses nor
    /// complies.
    async fn send(
        &mut self,
        channel: GatewayChannel,
        bytes: &[u8],
        to: std::ops::Range<usize>,
    ) -> anyhow::Result<Vec<Response>> {
        let message = digest(bytes);
        self.client.publish(&channel.topic(&self.cluster), bytes);
        let heard = |gateway: &Self| gateway.reactions.get(&message).map_or(0, BTreeMap::len) == gateway.meters;
        self.until(TIMEOUT, heard).await?;
        let mut reactions = self.reactions.remove(&message).unwrap_or_default();
        Ok(to.map(|meter| Response::of(reactions.remove(&meter))).collect())
    }
}

/// How a meter responded to a message.
#[derive(Debug, Clone)]
pub(super) struct Response {
    pub(super) refusal: Option<Refusal>,
    pub(super) complied: bool,
}

impl Response {
    fn of(reaction: Option<Reaction>) -> Self {
        reaction.map_or(Self { refusal: None, complied: false }, |Reaction { refusal, complied, .. }| Self {
            refusal,
            complied,
        })
    }
}
