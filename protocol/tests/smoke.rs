mod support;
use dream_protocol::cluster;
use dream_protocol::meter;
use support::world::*;

#[test]
fn a_whole_slot() {
    let mut world = World::new(10);
    let slot = world.first_slot();
    let end = world.slot_end(slot);
    world.gateway.handle(cluster::Input::Tick, end);
    for m in 0..10 {
        if m == 3 {
            continue;
        }
        for p in world.measure(m, slot, 100 + m as i64) {
            world.gateway.receive(&p, end.plus_secs(31));
        }
    }
    let request = world.gateway.handle(cluster::Input::Tick, end.plus_secs(60));
    println!("{} {:?} {:?}", request.len(), world.gateway.rejections, world.gateway.outcomes);
    for m in 0..10 {
        for p in world.deliver(m, &request[0], end.plus_secs(61)) {
            world.gateway.receive(&p, end.plus_secs(62));
        }
    }
    let o = world.gateway.outcomes[0];
    assert_eq!(o.result.unwrap().watts(), (0..10).filter(|m| *m != 3).map(|m| 100 + m).sum::<i64>());
    let _ = meter::Input::Tick;
}
