//! Two members that send nonsense at once: lists let more be missing, and leave some out for a few slots.

use dream_protocol::cluster::Notice;
use dream_protocol::scheme::Kind;
use dream_testkit::plain_cluster::Conduct;

use super::{cluster, committee, is_quarantined, run};

#[test]
fn two_who_lie_at_once_are_found_in_a_committee() {
    for seed in 0..2 {
        let mut cluster = committee(100, &[(5, Conduct::Nonsense), (31, Conduct::Nonsense)], seed);
        let full = cluster.next_slot();
        let report = run(&mut cluster, 90, true);
        assert!(is_quarantined(&cluster, 5) && is_quarantined(&cluster, 31), "{report:?}");
        let malicious = |members: usize| u64::try_from(members.div_ceil(10)).unwrap();
        let mut shortest = usize::MAX;
        for _ in 0..60 {
            let closed = cluster.next_slot();
            shortest = shortest.min(closed.members.len());
            let list = cluster.gateway.cluster.newest_list().unwrap();
            assert_eq!(list.params().terms().scheme.kind(), Kind::Committee);
            assert!(u64::from(list.params().max_malicious()) >= malicious(full.members.len()), "T stays");
        }
        assert_eq!(cluster.next_slot().members.len(), 100, "everybody is listed again");
        let list = cluster.gateway.cluster.newest_list().unwrap();
        assert_eq!(list.params().max_missing(), 10, "and no more may be missing than before");
    }
}

#[test]
fn shorter_lists_keep_everybodys_t_and_a_committee() {
    let liars: Vec<_> = (0..30).map(|liar| (liar, Conduct::Nonsense)).collect();
    let mut cluster = committee(100, &liars, 1);
    let mut shortest = usize::MAX;
    for _ in 0..60 {
        shortest = shortest.min(cluster.next_slot().members.len());
        let params = *cluster.gateway.cluster.newest_list().unwrap().params();
        assert_eq!((params.max_malicious(), params.terms().scheme.kind()), (10, Kind::Committee));
    }
    assert!(shortest < 90, "{shortest}");
    assert!(cluster.gateway.cluster.left_out_to_search() > 0 && cluster.gateway.cluster.cannot_be_found());
}

#[test]
fn pairwise_lists_leave_nobody_out() {
    let liars: Vec<_> = (0..8).map(|liar| (liar, Conduct::Nonsense)).collect();
    let mut cluster = cluster(60, (1, 10), &liars, 1);
    for _ in 0..60 {
        assert_eq!(cluster.next_slot().members.len(), 60);
    }
    let left_out = |notice: &Notice| matches!(notice, Notice::SearchesByLists { left_out: 1.., .. });
    assert!(!cluster.notices.iter().any(|(_, notice)| left_out(notice)));
    assert_eq!(cluster.gateway.cluster.newest_list().unwrap().params().max_missing(), 12, "but more may be missing");
}
