//! What the running gateway says of itself and of its clusters.

use serde::Deserialize;

use super::{Finding, State};
use crate::board::readiness::Latch;
use crate::cmd::running::{Answer, RunningGateway};

/// Whether a gateway answers, and whether it is ready.
#[derive(Debug)]
pub(super) struct Heard {
    readiness: Answer,
    /// Whether anything answers on its address.
    pub(super) answers: bool,
}

#[derive(Deserialize)]
struct Clusters {
    clusters: Vec<Cluster>,
}

#[derive(Deserialize)]
struct Cluster {
    id: String,
    state: String,
    candidates: u64,
    min_members: u64,
    list: Option<List>,
    last: Option<Slot>,
    reasons: Vec<Reason>,
}

#[derive(Deserialize)]
struct List {
    members: u64,
}

#[derive(Deserialize)]
struct Slot {
    outcome: String,
    responders: u64,
    members: u64,
}

#[derive(Deserialize)]
struct Reason {
    text: String,
    urgent: bool,
}

impl Heard {
    pub(super) fn from(gateway: &RunningGateway) -> anyhow::Result<Self> {
        let readiness = gateway.answer("/readyz")?;
        Ok(Self { answers: readiness.told.is_ok(), readiness })
    }

    /// Returns whether nobody listens on its address: one that does not answer may only be slow.
    pub(super) fn nobody_listens(&self) -> bool {
        self.readiness.told.as_ref().is_err_and(|problem| problem.contains("refused"))
    }

    /// Returns whether the gateway believes its clock, if it says so.
    pub(super) fn clock_is_right(&self) -> Option<bool> {
        match &self.readiness.told {
            Ok((200, _)) => Some(true),
            Ok((503, body)) => Some(!body.contains(Latch::ClockRight.as_str())),
            Ok(_) | Err(_) => None,
        }
    }

    /// Says what the gateway has received: who receives may read.
    pub(super) fn traffic(&self, gateway: &RunningGateway) -> anyhow::Result<Vec<Finding>> {
        let answer = gateway.answer("/metrics")?;
        let text = match answer.body() {
            Ok(text) => text,
            Err(problem) => {
                let to_do = "use the token of a login with the role `viewer` or `metrics`";
                return Ok(vec![Finding::new("rights", State::Unknown, problem, to_do)]);
            }
        };
        let of = |kind: &str| accepted(text, kind);
        let (readings, reveals, enrolments) = (of("reading"), of("reveal"), of("enrol"));
        let says = format!(
            "the gateway has used {readings} readings, {reveals} reveals and {enrolments} enrolments since it started"
        );
        Ok(vec![if readings > 0 && enrolments + reveals > 0 {
            Finding::ok("rights", format!("{says}; what it publishes is tried with --log-in"))
        } else {
            let to_do = "if its slots are over, the broker's rules may keep messages from it: try them with --log-in, and see \"No load\" in runbooks.md";
            Finding::new("rights", State::Unknown, says, to_do)
        }])
    }

    /// Says how the gateway and its clusters are.
    pub(super) fn findings(&self, gateway: &RunningGateway) -> anyhow::Result<Vec<Finding>> {
        let mut findings = vec![match &self.readiness.told {
            Ok((200, _)) => Finding::ok("gateway", "it answers, and is ready"),
            Ok((401 | 403, _)) => Finding::ok("gateway", "it answers"),
            Ok((_, body)) => Finding::wrong("gateway", body.clone(), "what it waits for is named above or in its log"),
            Err(problem) => {
                let says = format!("no gateway answers: {problem}");
                let to_do = "`systemctl status dream-gateway`, and the last line of its log; with --url if it listens elsewhere";
                return Ok(vec![Finding::wrong("gateway", says, to_do)]);
            }
        }];
        let answer = gateway.answer("/api/v1/clusters")?;
        match answer.body() {
            Ok(body) => findings.extend(clusters(&serde_json::from_str::<Clusters>(body)?.clusters)),
            Err(problem) => {
                let to_do = "name the token of a login with the role `viewer` in --token-file";
                findings.push(Finding::new("lists", State::Unknown, problem, to_do));
            }
        }
        Ok(findings)
    }
}

/// Returns how many messages of a kind were of use, by the metrics.
fn accepted(metrics: &str, kind: &str) -> u64 {
    let lines = metrics.lines().filter(|line| line.starts_with("dream_messages_total{"));
    let wanted =
        lines.filter(|line| line.contains(&format!("kind=\"{kind}\"")) && line.contains("result=\"accepted\""));
    wanted.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
}

/// Says of each cluster that needs a look why, and how many do well.
fn clusters(all: &[Cluster]) -> Vec<Finding> {
    let to_do = "its page has more; runbooks.md says what to do for each symptom";
    let mut findings = Vec::new();
    let mut well = 0;
    for cluster in all {
        let Cluster { id, state, candidates, min_members, list, last, reasons } = cluster;
        let list = list.as_ref().map_or_else(
            || format!("no list ({candidates} meters are enrolled, {min_members} are needed)"),
            |list| format!("a list of {} members", list.members),
        );
        let last = last.as_ref().map_or_else(String::new, |slot| {
            format!(", {} of {} in the last slot, which is {}", slot.responders, slot.members, slot.outcome)
        });
        let said = format!("{id}: {list}{last}");
        let is_wrong =
            matches!(state.as_str(), "stalled" | "cannot_form") || reasons.iter().any(|reason| reason.urgent);
        let is_waiting = matches!(state.as_str(), "waiting_for_members");
        let why: Vec<&str> = reasons.iter().map(|reason| reason.text.as_str()).collect();
        let says = if why.is_empty() { said } else { format!("{said}: {}", why.join("; ")) };
        match (is_wrong, is_waiting || !reasons.is_empty()) {
            (true, _) => findings.push(Finding::wrong("lists", says, to_do)),
            (false, true) => findings.push(Finding::new("lists", State::Warning, says, to_do)),
            (false, false) if all.len() <= 5 => findings.push(Finding::ok("lists", says)),
            (false, false) => well += 1,
        }
    }
    if well > 0 {
        findings.push(Finding::ok("lists", format!("{well} of {} clusters do well", all.len())));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(id: &str, state: &str, reasons: &[(&str, bool)]) -> Cluster {
        Cluster {
            id: id.to_owned(),
            state: state.to_owned(),
            candidates: 30,
            min_members: 25,
            list: Some(List { members: 30 }),
            last: Some(Slot { outcome: "decoded".to_owned(), responders: 29, members: 30 }),
            reasons: reasons.iter().map(|&(text, urgent)| Reason { text: text.to_owned(), urgent }).collect(),
        }
    }

    #[test]
    fn clusters_that_do_well_take_one_line_and_the_others_one_each() {
        let mut all: Vec<Cluster> = (0..40).map(|at| cluster(&format!("c-{at}"), "running", &[])).collect();
        all.push(cluster("north", "running", &[("30 of 30 meters refuse list 1", true)]));
        all.push(cluster("south", "running", &[("3 enrolments end within 7 days", false)]));
        all.push(cluster("west", "stalled", &[]));
        let found = clusters(&all);
        let states: Vec<State> = found.iter().map(|finding| finding.state).collect();
        assert_eq!(states, [State::Wrong, State::Warning, State::Wrong, State::Ok]);
        assert!(found[0].says.contains("refuse list 1") && found[3].says.starts_with("40 of 43"), "{found:?}");
        let few = clusters(&[cluster("north", "running", &[])]);
        assert_eq!(few[0].says, "north: a list of 30 members, 29 of 30 in the last slot, which is decoded");
    }

    #[test]
    fn only_messages_of_use_count() {
        let text = "# HELP dream_messages_total x\ndream_messages_total{kind=\"reading\",result=\"accepted\"} 12\n\
                    dream_messages_total{kind=\"reading\",result=\"too_late\"} 5\n\
                    dream_messages_total{kind=\"reveal\",result=\"accepted\"} 7\n";
        assert_eq!((accepted(text, "reading"), accepted(text, "reveal"), accepted(text, "enrol")), (12, 7, 0));
    }
}
