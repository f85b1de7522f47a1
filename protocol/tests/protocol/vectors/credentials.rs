//! Who takes part in the vectors: certificates and keys, as `membership.json` records them.
//!
//! Checking reads them from the file and never makes a certificate anew; only blessing does.

use dream_protocol::certificate::{Anchors, Authorities};
use dream_protocol::cluster::ClusterConfig;
use dream_protocol::ids::{GatewayId, MeterId};
use dream_protocol::meter::MeterConfig;
use dream_protocol::policy::{Floors, Policy};

use crate::support::pki::{Issued, Pki};
use crate::support::{SMALL, cluster_config, cluster_id};

/// The members, sorted bytewise: `-` before digits, digits before letters, a name before what it begins.
pub(crate) const METERS: [&str; 5] = ["cellar-2", "cellar-21", "cellar2", "m-0001", "m-0002"];

pub(crate) const GATEWAY: &str = "gw";

pub(crate) struct Credentials {
    pub(crate) meter_authority: Issued,
    pub(crate) gateway_authority: Issued,
    pub(crate) gateway: Issued,
    pub(crate) meters: Vec<(MeterId, Issued)>,
}

impl Credentials {
    pub(crate) fn new() -> Self {
        if super::blessing() { Self::make() } else { Self::read() }
    }

    fn make() -> Self {
        let pki = Pki::new();
        let [meter_authority, gateway_authority] = pki.authority_keys();
        Self {
            meter_authority,
            gateway_authority,
            gateway: pki.gateway(GATEWAY),
            meters: METERS.iter().map(|id| (MeterId::new(id).unwrap(), pki.meter(id))).collect(),
        }
    }

    fn read() -> Self {
        let file: serde_json::Value = serde_json::from_str(&super::read("membership.json")).unwrap();
        let bytes = |value: &serde_json::Value| hex::decode(value.as_str().unwrap()).unwrap();
        let issued = |value: &serde_json::Value| Issued {
            der: bytes(&value["certificate"]),
            seed: bytes(&value["identity_private"]).try_into().unwrap(),
        };
        let meters = file["meters"].as_array().unwrap();
        Self {
            meter_authority: issued(&file["meter_authority"]),
            gateway_authority: issued(&file["gateway_authority"]),
            gateway: issued(&file["gateway"]),
            meters: meters
                .iter()
                .map(|value| (MeterId::new(value["id"].as_str().unwrap()).unwrap(), issued(value)))
                .collect(),
        }
    }

    pub(crate) fn authorities(&self) -> Authorities {
        let anchors = |authority: &Issued| Anchors::new([authority.der.as_slice()]).unwrap();
        Authorities::new(anchors(&self.meter_authority), anchors(&self.gateway_authority)).unwrap()
    }

    pub(crate) fn meter_config(&self, index: usize) -> MeterConfig {
        let issued = &self.meters[index].1;
        let gateways = [GatewayId::new(GATEWAY).unwrap()];
        MeterConfig {
            identity: issued.identity(),
            certificate: issued.der.clone(),
            cluster: cluster_id(),
            policy: Policy {
                floors: Floors { members: 3, ..SMALL },
                day_micro_rho: 72_000_000,
                ..Policy::new(self.authorities(), gateways)
            },
        }
    }

    pub(crate) fn cluster_config(&self) -> ClusterConfig {
        let members = u16::try_from(self.meters.len()).unwrap();
        ClusterConfig {
            identity: self.gateway.identity().into(),
            certificate: self.gateway.der.clone().into(),
            authorities: self.authorities(),
            ..cluster_config(&Pki::new(), members)
        }
    }
}
