//! What the pages say in words: why something needs a look, a cluster's lists and slots, and the gateway itself.

use dream_gateway::board::gateway_view::BrokerView;
use dream_gateway::board::offenders::OffenderCounts;
use dream_gateway::board::readiness::Latch;
use dream_gateway::board::{ClusterView, ListView, StatusCount};
use dream_protocol::params::{Share, Terms};
use dream_protocol::policy::Profile;
use dream_protocol::time::Slot;
use dream_protocol::wire::StatusCode;

use crate::fixture::{Asked, EPOCH, LAST_SLOT, NOW, closed, listed, proven, slot_of, waiting, with_holders};

/// A page as a reader sees it: without marks, and with single spaces.
pub(crate) fn read(gateway: &Asked, path: &str) -> String {
    const INLINE: [&str; 5] = ["a", "code", "span", "strong", "time"];
    let page = gateway.get(path);
    assert_eq!(page.status, 200, "{path}");
    let mut pieces = page.text().split('<');
    let mut text = pieces.next().unwrap().to_owned();
    for piece in pieces {
        let (tag, words) = piece.split_once('>').unwrap();
        let name = tag.trim_start_matches('/').split(' ').next().unwrap();
        text += if INLINE.contains(&name) { "" } else { " " };
        text += words;
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[track_caller]
pub(crate) fn says(page: &str, expected: &str) {
    assert!(page.contains(expected), "{expected:?} is not in {page}");
}

fn with_terms(id: &str, members: u16, terms: Terms) -> ClusterView {
    let tenth = Share::new(1, 10).unwrap();
    let mut view = listed(id, members);
    let params = terms.for_members(members, tenth, tenth, view.profile.floors().malicious).unwrap();
    let list = view.list.as_mut().unwrap();
    *list = ListView { epoch: EPOCH + 600, params, ..list.clone() };
    view
}

fn count(code: StatusCode, epoch: u64, meters: usize, of: usize) -> StatusCount {
    StatusCount { code, epoch, meters, of }
}

fn ready() -> Asked {
    let gateway = Asked::new();
    gateway.fixture.make_ready();
    gateway
}

#[test]
fn a_refused_list_is_told_with_who_refuses_it_and_the_rule_it_breaks() {
    let gateway = ready();
    let mut view = with_terms("hill", 60, Terms::with_slots_of(30));
    view.slot_seconds = 30;
    view.statuses = vec![count(StatusCode::ListRefused, EPOCH + 600, 60, 60)];
    let outcome = slot_of(60, LAST_SLOT).failed("too_many_missing", 0);
    gateway.fixture.close(&view, closed(outcome));
    let told = "60 of 60 meters refuse the list of 9 Nov, 15:50: slot_seconds 30 is below their minimum 60.";
    for path in ["/", "/clusters/hill", "/clusters/hill/lists"] {
        says(&read(&gateway, path), told);
    }
    says(
        &read(&gateway, "/clusters/hill/lists"),
        "A meter with the default policy refuses these terms: slot_seconds 30",
    );
}

#[test]
fn a_list_is_judged_by_the_policy_that_its_meters_have() {
    let gateway = ready();
    let louder = Terms { epsilon_numerator: 2, epsilon_denominator: 1, ..Terms::DEFAULT };
    let mut view = with_terms("hill", 60, louder);
    view.profile = Profile::Community;
    gateway.fixture.board.show([view]);
    says(&read(&gateway, "/clusters/hill/lists"), "A meter with the community policy accepts these terms.");
}

#[test]
fn every_rule_that_is_broken_is_told_in_the_words_of_the_configuration() {
    let gateway = ready();
    let terms =
        Terms { lo: -10_010, epsilon_numerator: 3, epsilon_denominator: 2, attempts: 3, ..Terms::with_slots_of(60) };
    let mut view = with_terms("hill", 30, terms);
    view.statuses = vec![count(StatusCode::ListRefused, EPOCH + 600, 4, 30)];
    gateway.fixture.board.show([view]);
    says(
        &read(&gateway, "/"),
        "4 of 30 meters refuse the list of 9 Nov, 15:50: range_watts [-10010, 8000] is not within their [-10000, 15000], and epsilon 1.5 is \
         above their maximum 1, and attempts 3 is above their maximum 2, and 30 members are below their minimum 50: more members are needed, and 17 \
         honest members are below their minimum 20: more members are needed.",
    );
}

#[test]
fn a_refusal_without_a_known_rule_says_so_and_an_expected_one_is_told_before_it_is_heard() {
    let gateway = ready();
    let mut strict = listed("strict", 100);
    strict.statuses = vec![count(StatusCode::ListRefused, EPOCH, 1, 100)];
    let unheard = with_terms("unheard", 60, Terms::with_slots_of(30));
    gateway.fixture.board.show([strict, unheard]);
    let page = read(&gateway, "/");
    says(
        &page,
        "1 of 100 meters refuses the list of 9 Nov, 15:40, which the default policy accepts: theirs is stricter, or names other",
    );
    says(
        &page,
        "Meters with the default policy refuse the list of 9 Nov, 15:50: slot_seconds 30 is below their minimum 60.",
    );
}

#[test]
fn silence_is_told_with_what_the_meters_say() {
    let gateway = ready();
    let codes = [
        (StatusCode::NoList, "7 of 100 meters have no list in force: the list of 9 Nov, 15:40 did not reach them."),
        (
            StatusCode::NotListed,
            "7 of 100 meters are not in the list of 9 Nov, 15:40 with the certificate that is in use.",
        ),
        (
            StatusCode::LedgerExhausted,
            "7 of 100 meters have spent the privacy budget of 24 hours and will be silent until enough of it is free again.",
        ),
        (StatusCode::ClockDoubtful, "7 of 100 meters doubt the clock, and will be silent until it is confirmed."),
        (
            StatusCode::RecordLost,
            "7 of 100 meters have lost the keys of the list of 9 Nov, 15:40, and will be back with the next list.",
        ),
        (StatusCode::RequestRefused, "7 of 100 meters refuse this gateway’s requests."),
        (StatusCode::Equivocation, "7 of 100 meters have shown that a gateway contradicted itself."),
        (StatusCode::NotAsked, "7 of 100 meters reported while the gateway was away; that slot is lost."),
    ];
    for (code, told) in codes {
        let mut view = listed("hill", 100);
        view.statuses = vec![count(code, EPOCH, 7, 100)];
        gateway.fixture.board.show([view]);
        says(&read(&gateway, "/"), told);
    }
}

#[test]
fn what_members_have_proven_is_told_with_a_link_to_it() {
    let gateway = ready();
    gateway.fixture.board.show([ClusterView { evidence: proven(), ..listed("hill", 100) }]);
    let told = format!(
        "Members have proven that gateway gw contradicted itself: two different requests for attempt 0 of slot {LAST_SLOT}."
    );
    for path in ["/", "/clusters/hill"] {
        says(&read(&gateway, path), &told);
    }
    let link = "<a href=\"/api/v1/clusters/hill/evidence\">Evidence</a>";
    says(gateway.get("/clusters/hill").text(), link);
}

#[test]
fn a_failed_slot_says_how_many_were_missing_and_how_many_may_be() {
    let gateway = ready();
    gateway.fixture.close(&listed("hill", 100), closed(slot_of(100, LAST_SLOT).failed("too_many_missing", 80)));
    says(&read(&gateway, "/"), "20 of 100 meters were missing in the last slot; the list tolerates 10.");
}

#[test]
fn a_broker_that_lets_nothing_through_is_told_apart_from_meters_that_are_missing() {
    let gateway = ready();
    let none = closed(slot_of(60, LAST_SLOT).failed("too_many_missing", 0));
    gateway.fixture.close(&listed("hill", 60), none);
    for path in ["/", "/clusters/hill"] {
        let page = read(&gateway, path);
        says(&page, "No meter is heard: check that the broker\u{2019}s permissions");
        assert!(!page.contains("meters were missing"), "{page}");
    }
    says(gateway.get("/clusters/hill").text(), "none was heard in the last slot");
    // One is heard, or all refuse and say so.
    gateway.fixture.close(&listed("hill", 60), closed(slot_of(60, LAST_SLOT).failed("too_many_missing", 1)));
    says(&read(&gateway, "/"), "59 of 60 meters were missing in the last slot");
    let refusing = vec![count(StatusCode::ListRefused, EPOCH, 60, 60)];
    gateway.fixture.close(&ClusterView { statuses: refusing, ..listed("hill", 60) }, none);
    assert!(!read(&gateway, "/").contains("No meter is heard"));
}

#[test]
fn holders_that_answered_are_shown_beside_those_that_must() {
    let gateway = ready();
    gateway
        .fixture
        .close(&with_holders(listed("hill", 100), 98, 0), closed(slot_of(100, LAST_SLOT).decoded(50_000, 98)));
    let page = read(&gateway, "/clusters/hill");
    says(&page, "Holders 98 of 100answered; 75 are needed, 23 to spare");
    assert!(!page.contains("Needs a look"), "{page}");
    let lists = read(&gateway, "/clusters/hill/lists");
    says(&lists, "100 members are holders, and any 75 of them open a sum together: 25 may drop out.");
    says(&lists, "answers of holders for another");
}

#[test]
fn holders_that_run_low_or_answer_wrongly_are_told_before_slots_fail() {
    let gateway = ready();
    let slot = || closed(slot_of(100, LAST_SLOT).decoded(50_000, 95));
    gateway.fixture.close(&with_holders(listed("hill", 100), 81, 0), slot());
    says(
        &read(&gateway, "/"),
        "Holders run low: 81 of 100 answered and 75 are needed, so 6 more may drop out before slots give no sum; \
         `dream-gateway holders` names those that did not answer.",
    );
    gateway.fixture.close(&with_holders(listed("hill", 100), 98, 2), slot());
    let page = read(&gateway, "/clusters/hill");
    says(
        &page,
        "2 holders\u{2019} answers were wrong in the last slot: a holder, or a member that dealt to it, lies or has lost its keys.",
    );
    says(&page, "75 are needed, 19 to spare, 2 wrong");
    assert!(!page.contains("Holders run low"), "{page}");
}

#[test]
fn too_few_answers_of_holders_are_told_with_how_many_came() {
    let gateway = ready();
    let view = with_holders(listed("hill", 100), 60, 0);
    gateway.fixture.close(&view, closed(slot_of(100, LAST_SLOT).failed("reveal_missing", 98)));
    let page = read(&gateway, "/");
    says(&page, "Too few holders answered in the last slot: 60 of 100, and 75 are needed.");
    assert!(!page.contains("Holders run low"), "{page}");
}

#[test]
fn counts_of_holders_are_gone_when_they_are_old() {
    let gateway = ready();
    gateway.fixture.board.show([with_holders(listed("hill", 100), 80, 0)]);
    gateway.fixture.set_clock(NOW.plus_secs(3 * 600 + 1));
    assert!(!read(&gateway, "/clusters/hill").contains("80 of 100answered"));
}

#[test]
fn why_a_list_has_no_committee_is_told() {
    let gateway = ready();
    let reason = "12 of 100 members are willing to be holders".to_owned();
    gateway.fixture.board.show([ClusterView { no_committee: Some(reason), ..listed("hill", 100) }]);
    says(
        &read(&gateway, "/clusters/hill"),
        "The list is pairwise, so a sum needs every member’s answer: 12 of 100 members are willing to be holders.",
    );
}

#[test]
fn why_the_last_list_is_kept_is_told_with_its_end() {
    let gateway = ready();
    let reason = "100 meters are enrolled, but 12 of 100 members are willing".to_owned();
    gateway.fixture.board.show([ClusterView { cannot_form: Some(reason), ..listed("hill", 100) }]);
    let page = read(&gateway, "/");
    says(&page, "No new list can be formed, and the last one ends at");
    says(&page, "12 of 100 members are willing.");
}

#[test]
fn a_denied_member_is_listed_until_the_next_list_and_that_is_told() {
    let gateway = ready();
    let mut view = listed("hill", 100);
    view.denied = 1;
    gateway.fixture.board.show([view.clone()]);
    says(
        &read(&gateway, "/"),
        "1 denied meter is still in the list of 9 Nov, 15:40 until the next list begins; sums leave them out as far as the list allows.",
    );
    let next = ListView { epoch: EPOCH + 1200, from_slot: Slot(LAST_SLOT + 3), ..view.list.clone().unwrap() };
    (view.denied, view.next_list) = (2, Some(next));
    gateway.fixture.board.show([view]);
    says(
        &read(&gateway, "/"),
        "2 denied meters are still in the list of 9 Nov, 15:40 until the list of 9 Nov, 16:00 begins at 15:00; sums leave them out",
    );
    says(&read(&gateway, "/clusters/hill/lists"), "List of 9 Nov, 16:00 next");
}

#[test]
fn members_that_spoil_slots_are_counted_and_the_search_for_them_is_told() {
    let gateway = ready();
    let mut view = listed("hill", 100);
    view.offenders = OffenderCounts { silent: 2, quarantined: 2, searching: true, ..OffenderCounts::default() };
    gateway.fixture.board.show([view.clone()]);
    let page = read(&gateway, "/");
    says(&page, "A member spoils sums: groups of members are left out to find it.");
    says(&page, "2 members that spoiled slots are left out until a trial");
    view.offenders.left_out_to_search = 50;
    gateway.fixture.board.show([view.clone()]);
    says(
        &read(&gateway, "/"),
        "Several members spoil sums. To find them, lists leave out 50 members for some slots, others each time; sums \
         do not include them meanwhile.",
    );
    view.offenders.cannot_be_found = true;
    gateway.fixture.board.show([view]);
    says(
        &read(&gateway, "/"),
        "Sum after sum fails: more members spoil them than can be found at this size. The search goes on; deny those \
         you suspect, allow more to be missing (`max_missing`), or enrol more members.",
    );
}

#[test]
fn what_costs_sums_is_named_first_and_a_cluster_that_does_well_is_not() {
    let gateway = ready();
    let mut ending = listed("a-ending", 100);
    ending.ending = 5;
    gateway.fixture.board.show([ending]);
    gateway.fixture.close(&listed("b-fine", 100), closed(slot_of(100, LAST_SLOT).decoded(1000, 95)));
    gateway.fixture.close(&listed("c-failed", 100), closed(slot_of(100, LAST_SLOT).failed("interrupted", 0)));
    let page = read(&gateway, "/");
    let looks = page.split("Needs a look").nth(1).unwrap().split("Filter clusters").next().unwrap().trim();
    assert_eq!(
        looks,
        "c-failed The gateway was away while the last slot was open. a-ending 5 enrolments end within 7 days, not renewed yet."
    );
}

#[test]
fn epsilon_of_today_counts_only_attempts_that_somebody_answered() {
    let gateway = ready();
    let refused = (0..50).fold(listed("hill", 100), |view, slot| {
        gateway.fixture.close(&view, closed(slot_of(100, LAST_SLOT - 49 + slot).failed("too_many_missing", 0)));
        ClusterView::clone(&gateway.fixture.board.cluster("hill").unwrap())
    });
    says(&read(&gateway, "/clusters/hill"), "ε today 0spent by a meter that took part in all, 0.5 an attempt");
    gateway.fixture.close(&refused, closed(slot_of(100, LAST_SLOT).decoded(1000, 95)));
    says(&read(&gateway, "/clusters/hill"), "ε today 1spent");
    assert_eq!(gateway.get("/api/v1/clusters/hill").json()["epsilon_day"], 1.0);
}

#[test]
fn the_terms_of_a_list_are_told_in_words() {
    let gateway = ready();
    gateway.fixture.board.show([listed("hill", 640), waiting("empty")]);
    let page = read(&gateway, "/clusters/hill/lists");
    for told in [
        "List of 9 Nov, 15:40 in force",
        "9 Nov, 15:50 – 16 Nov, 16:00, 1,009 slots of 10 min",
        "640. The meters add the noise themselves, in shares: those of 512 honest meters make up all of it.",
        "Readings are waited for until 1 min after a slot ended, reveals for another 1 min; a slot is tried at most twice.",
        "noise of scale λ = 16 kW is in every sum. When all answer, a slot’s sum is within ± 53 kW of the truth",
        "An attempt costs a meter ε = 0.5.",
        "All slots of a UTC day together cost a home at most ε = 10.7 except with a probability of one in a million",
        "Every member masks with every other.",
        "A meter with the default policy accepts these terms.",
        "No slot has closed yet.",
    ] {
        says(&page, told);
    }
    says(
        &read(&gateway, "/clusters/empty/lists"),
        "There is no list yet: 12 meters are enrolled, and at least 20 are needed.",
    );
}

#[test]
fn earlier_lists_are_told_with_what_came_of_them() {
    let gateway = ready();
    let view = listed("hill", 100);
    for slot in 0..8 {
        let mut slotted = slot_of(100, LAST_SLOT - 7 + slot);
        slotted.epoch = if slot < 4 { EPOCH - 600 } else { EPOCH };
        let outcome = if slot == 1 { slotted.failed("interrupted", 0) } else { slotted.decoded(1000, 95) };
        gateway.fixture.close(&view, closed(outcome));
    }
    let page = read(&gateway, "/clusters/hill/lists");
    says(&page, "9 Nov, 15:40 14:00–14:40 100 1 9 kW 4 100.0 %");
    says(&page, "9 Nov, 15:30 13:20–14:00 100 1 9 kW 4 75.0 %");
}

#[test]
fn slots_are_listed_page_by_page_and_by_outcome() {
    let gateway = ready();
    let view = listed("hill", 100);
    for slot in LAST_SLOT - 119..=LAST_SLOT {
        let slotted = slot_of(100, slot);
        let failed = slot.is_multiple_of(10);
        let outcome = if failed { slotted.failed("reveal_missing", 95) } else { slotted.decoded(1000, 95) };
        gateway.fixture.close(&view, closed(outcome));
    }
    let rows = |path: &str| gateway.get(path).text().matches("<tr><th scope=\"row\">").count();
    let link = |path: &str, id: &str| {
        let page = gateway.get(path);
        let link = page.text().split(&format!("id=\"{id}\" href=\"")).nth(1)?;
        Some(link.split('"').next()?.replace("&amp;", "&"))
    };
    let first = "/clusters/hill/slots";
    assert_eq!((rows(first), link(first, "newest")), (50, None));
    let second = link(first, "older").unwrap();
    let third = link(&second, "older").unwrap();
    assert_eq!((rows(&second), rows(&third), link(&third, "older")), (50, 20, None));
    assert_eq!(link(&third, "newest").as_deref(), Some("/clusters/hill/slots?outcome=all"));
    assert_eq!(rows("/clusters/hill/slots?outcome=reveal_missing"), 12);
    assert_eq!(rows("/clusters/hill/slots?outcome=interrupted"), 0);
    says(&read(&gateway, first), "Reveal missing A meter sent its reading");
    for wrong in ["?outcome=bad", "?before=noon", "?page=2"] {
        assert_eq!(gateway.get(&format!("{first}{wrong}")).status, 400, "{wrong}");
    }
    assert_eq!(gateway.get("/clusters/hill/lists?x=1").status, 400);
    assert_eq!(gateway.get("/clusters/nowhere/slots").status, 404);
    assert_eq!(gateway.get("/clusters/nowhere/lists").status, 404);
}

#[test]
fn the_gateway_tells_how_it_is_itself() {
    let gateway = ready();
    gateway.fixture.board.show([listed("hill", 640)]);
    let page = read(&gateway, "/gateway");
    for told in [
        "gw-1-0 Ready",
        "Broker Connected Since 12:43:20; all subscriptions are confirmed.",
        "Store Writable 1.2 MB; closed slots are kept for 56 days, hours for 1,830 days, and days forever.",
        "Certificate Valid Until 24 Feb 2027, for 100 more days.",
        "1 served here, with 640 members in their lists.",
        &format!("Version {}, running since 12:43:20", env!("CARGO_PKG_VERSION")),
    ] {
        says(&page, told);
    }
    assert!(!read(&gateway, "/").contains("Needs a look"));
}

#[test]
fn trouble_of_the_gateway_is_on_its_page_and_on_the_overview() {
    let gateway = ready();
    let board = &gateway.fixture.board;
    let both = |told: &str| ["/", "/gateway"].into_iter().for_each(|path| says(&read(&gateway, path), told));
    board.update_gateway(|it| it.certificate_ends = Some(NOW.as_secs() + 13 * 86_400));
    both("The gateway’s certificate expires on 29 Nov 2026.");
    gateway.fixture.readiness.unset(Latch::BrokerSubscribed);
    both("The broker has not confirmed the subscriptions yet.");
    board.update_gateway(|it| it.broker = it.broker.lost(NOW, "nobody listens at broker:1883".into()));
    both("No connection to the broker since 14:43:20: nobody listens at broker:1883.");
    says(&read(&gateway, "/gateway"), "Not ready");
    board.update_gateway(|it| it.commit_error = Some("no space left on device".into()));
    both("The store cannot be written: no space left on device.");
    board.update_gateway(|it| (it.commit_error, it.broker) = (None, BrokerView::Connecting));
    gateway.fixture.readiness.unset(Latch::StoreReplayed);
    both("The clusters are being rebuilt from the store.");
}
