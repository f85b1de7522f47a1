//! One meter as a device would carry it: it enrols, takes a list, and reports a day. What it takes of flash is this program's
//! size; what it takes of RAM it prints.
//!
//! A scene is a folder that `scene.py` makes of the test vectors. Records go nowhere: flash is the maker's.

#![no_std]
#![no_main]

extern crate alloc;

use alloc::format;
use alloc::vec::Vec;

use cortex_m_rt::entry;
use cortex_m_semihosting::hprintln;
use dream_embedded::{fail, files, memory, succeed};
use dream_protocol::certificate::{Anchors, Authorities};
use dream_protocol::ids::{ClusterId, GatewayId};
use dream_protocol::keys::IdentityKey;
use dream_protocol::meter::{Input, Meter, MeterConfig, Notice, Output};
use dream_protocol::policy::{Floors, Policy, Profile};
use dream_protocol::time::{Now, Slot, Timestamp};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

/// When the vectors' clusters enrol, and the first slot of their lists.
const START: u64 = 2_980_000 * 600;
const FIRST: u64 = 2_980_002;

/// How many slots are reported.
const SLOTS: u64 = 20;

#[entry]
fn main() -> ! {
    memory::prepare();
    hprintln!("static RAM: {} bytes", memory::statics());
    // The holder's list has a member that an authority certified with ECDSA.
    let scenes: &[&str] = if cfg!(feature = "p256") { &["pairwise", "member", "holder"] } else { &["pairwise", "member"] };
    let sound = scenes.iter().all(|scene| run(scene));
    if sound { succeed() } else { fail() }
}

struct Device {
    meter: Meter,
    rng: ChaCha20Rng,
    sent: u32,
    refused: u32,
}

impl Device {
    fn handle(&mut self, input: Input<'_>, wall: Timestamp) {
        self.meter.handle(input, Now { wall, monotonic_millis: wall.as_millis() }, &mut self.rng);
        while let Some(output) = self.meter.poll() {
            match output {
                // Encoded as it is written to flash, and not kept in RAM.
                Output::Persist(record) => drop(record.encode()),
                Output::Publish { .. } => self.sent += 1,
                Output::Notice(Notice::Refused(_)) => self.refused += 1,
                Output::Notice(_)
                | Output::Erase(_)
                | Output::Measure { .. }
                | Output::Subscribe(_)
                | Output::Unsubscribe(_) => {}
            }
        }
    }
}

/// Plays a scene; whether everything was accepted, and every slot reported.
fn run(scene: &str) -> bool {
    let before = memory::heap_used();
    memory::start();
    let mut device = device(scene);
    device.handle(Input::Connected, Timestamp::from_secs(START));
    report(scene, "enrolled", before);
    deliver(&mut device, scene, "list", START + 6);
    report(scene, "list accepted", before);
    let enrolled = device.sent;
    for slot in (FIRST..).take(SLOTS as usize) {
        let end = Timestamp::from_secs((slot + 1) * 600);
        device.handle(Input::Measured { slot: Slot(slot), watts: 230 }, end);
        device.handle(Input::Tick, end.plus_secs(30));
        if slot == FIRST {
            deliver(&mut device, scene, "request", (slot + 1) * 600 + 61);
        }
    }
    report(scene, &format!("{SLOTS} slots"), before);
    hprintln!("{}: {} messages sent, {} refused", scene, device.sent, device.refused);
    u64::from(device.sent - enrolled) >= SLOTS && device.refused == 0
}

fn device(scene: &str) -> Device {
    let read = |name: &str| files::read(&format!("target/embedded/scenes/{scene}/{name}"));
    let authorities = read("meter-authorities");
    // Each with its length before it, as two bytes.
    let mut ders: Vec<&[u8]> = Vec::new();
    let mut rest = authorities.as_slice();
    while let Some((length, more)) = rest.split_first_chunk() {
        let (der, more) = more.split_at(u16::from_be_bytes(*length).into());
        ders.push(der);
        rest = more;
    }
    let anchors = |ders: &[&[u8]]| Anchors::new(ders.iter().copied()).expect("authorities");
    let gateways = anchors(&[&read("gateway-authority")]);
    let authorities = Authorities::new(anchors(&ders), gateways).expect("two authorities");
    let policy = Policy {
        floors: Floors { members: 3, ..Profile::Trial.floors() },
        day_micro_rho: 72_000_000,
        holds: if scene == "holder" { 10_000 } else { 13 },
        ..Policy::new(authorities, [GatewayId::new("gw").expect("an id")])
    };
    let config = MeterConfig {
        identity: IdentityKey::from_seed(&read("identity").try_into().expect("a key")),
        certificate: read("certificate"),
        cluster: ClusterId::new("north").expect("an id"),
        policy,
    };
    let seed = u64::from_be_bytes(read("seed").try_into().expect("eight bytes"));
    let meter = Meter::resume(config, []).expect("a sound configuration");
    Device { meter, rng: ChaCha20Rng::seed_from_u64(seed), sent: 0, refused: 0 }
}

/// Delivers a message whose bytes are in RAM while it is handled, as a packet's are.
fn deliver(device: &mut Device, scene: &str, name: &str, at: u64) {
    let read = |name: &str| files::read(&format!("target/embedded/scenes/{scene}/{name}"));
    let (topic, payload) = (read(&format!("{name}-topic")), read(name));
    if !payload.is_empty() {
        let topic = core::str::from_utf8(&topic).expect("text");
        device.handle(Input::Message { topic, payload: &payload }, Timestamp::from_secs(at));
    }
}

/// Prints the most that was used so far: the whole of a device's RAM but for its drivers.
fn report(scene: &str, what: &str, before: usize) {
    let (heap, stack, now) = (memory::heap_peak() - before, memory::stack_peak(), memory::heap_used() - before);
    hprintln!("{}, {}: peak RAM {} bytes (heap {}, stack {}); heap now {}", scene, what, heap + stack, heap, stack, now);
}
