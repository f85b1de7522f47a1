//! Who wants the messages of which topics.

use std::collections::BTreeMap;

use rumqttc::{QoS, has_wildcards, matches};

/// The clients of a filter, and the highest QoS that each wants.
type Clients = BTreeMap<String, QoS>;

/// All subscriptions of all clients.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    /// Filters without wildcards, which are topics.
    plain: BTreeMap<String, Clients>,
    /// Filters that have to be tried one by one.
    wild: BTreeMap<String, Clients>,
}

impl Subscriptions {
    /// Adds one, in place of the same client's for the same filter.
    pub(crate) fn add(&mut self, filter: &str, client: &str, qos: QoS) {
        self.kind(filter).entry(filter.to_owned()).or_default().insert(client.to_owned(), qos);
    }

    pub(crate) fn remove(&mut self, filter: &str, client: &str) {
        let filters = self.kind(filter);
        if let Some(clients) = filters.get_mut(filter) {
            clients.remove(client);
            if clients.is_empty() {
                filters.remove(filter);
            }
        }
    }

    /// Removes all of a client.
    pub(crate) fn forget(&mut self, client: &str) {
        for filters in [&mut self.plain, &mut self.wild] {
            filters.retain(|_, clients| {
                clients.remove(client);
                !clients.is_empty()
            });
        }
    }

    /// Returns who wants the messages of a topic: each client once, however many of its filters match, with the highest QoS
    /// of these.
    pub(crate) fn of(&self, topic: &str) -> BTreeMap<&str, QoS> {
        let mut found = BTreeMap::new();
        let wild = self.wild.iter().filter(|(filter, _)| matches(topic, filter)).map(|(_, clients)| clients);
        for (client, &qos) in self.plain.get(topic).into_iter().chain(wild).flatten() {
            let highest = found.entry(client.as_str()).or_insert(qos);
            if *highest < qos {
                *highest = qos;
            }
        }
        found
    }

    fn kind(&mut self, filter: &str) -> &mut BTreeMap<String, Clients> {
        if has_wildcards(filter) { &mut self.wild } else { &mut self.plain }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_found_once_and_with_the_highest_qos_of_its_filters() {
        let mut subscriptions = Subscriptions::default();
        for (filter, qos) in
            [("a/b", QoS::AtMostOnce), ("a/+", QoS::AtLeastOnce), ("a/#", QoS::AtMostOnce), ("b", QoS::AtLeastOnce)]
        {
            subscriptions.add(filter, "one", qos);
        }
        subscriptions.add("#", "two", QoS::AtMostOnce);
        let both = BTreeMap::from([("one", QoS::AtLeastOnce), ("two", QoS::AtMostOnce)]);
        assert_eq!(subscriptions.of("a/b"), both);
        assert_eq!(subscriptions.of("a"), BTreeMap::from([("one", QoS::AtMostOnce), ("two", QoS::AtMostOnce)]));
        assert_eq!(subscriptions.of("c"), BTreeMap::from([("two", QoS::AtMostOnce)]));
        assert!(subscriptions.of("$SYS/uptime").is_empty(), "a wildcard does not begin with a dollar");

        subscriptions.add("a/+", "one", QoS::AtMostOnce);
        assert_eq!(subscriptions.of("a/b")["one"], QoS::AtMostOnce, "a subscription replaces that for the same filter");
        subscriptions.remove("a/b", "one");
        subscriptions.remove("a/+", "one");
        assert_eq!(subscriptions.of("a/b").len(), 2, "one filter of this client still matches");
        subscriptions.forget("one");
        subscriptions.forget("two");
        assert!(subscriptions.plain.is_empty() && subscriptions.wild.is_empty());
    }
}
