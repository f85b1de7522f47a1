//! The participants: a gateway with its real key, and honest meters that trust its authority.

use std::fmt;
use std::sync::Arc;

use dream_protocol::certificate::Authorities;
use dream_protocol::ids::{GatewayId, MeterId};
use dream_protocol::keys::IdentityKey;
use dream_protocol::policy::Policy;

use super::SLOT_SECONDS;
use super::link::Link;
use dream_fleet::access::Access;
use dream_fleet::authority::TestAuthorities;
use dream_fleet::directory::Directory;
use dream_homes::args::BadInput;

/// How many connections the meters share, unless each shows a certificate of its own.
const SHARED_CONNECTIONS: usize = 3;

/// The gateway and the meters, with how they reach the broker.
#[derive(Debug)]
pub struct Participants {
    pub(super) authorities: Authorities,
    pub(super) gateway: Gateway,
    /// One group of meters a connection.
    pub(super) groups: Vec<(Arc<dyn Link>, Vec<MeterIdentity>)>,
}

/// The gateway, which lies.
pub(super) struct Gateway {
    pub(super) id: GatewayId,
    pub(super) der: Vec<u8>,
    pub(super) identity: IdentityKey,
    pub(super) link: Arc<dyn Link>,
}

/// The certificate and key of a meter.
pub(super) struct MeterIdentity {
    /// Counted from 0.
    pub(super) number: usize,
    pub(super) der: Vec<u8>,
    pub(super) identity: IdentityKey,
}

impl Participants {
    /// Returns participants with new certificates, which are not written to files.
    pub fn generate(meters: usize, access: &Access) -> Self {
        Self::linked(meters, &(Arc::new(access.clone()) as Arc<dyn Link>))
    }

    /// Returns participants with new certificates that communicate over this link.
    pub(super) fn linked(meters: usize, link: &Arc<dyn Link>) -> Self {
        let authority = TestAuthorities::new(1);
        let id = GatewayId::new("gw-1").expect("a plain name");
        let issued = authority.gateway(&id);
        let gateway = Gateway { id, identity: issued.identity(), der: issued.der, link: link.clone() };
        let identities = (0..meters).map(|number| {
            let issued = authority.meter(&MeterId::new(&format!("m-{:04}", number + 1)).expect("a plain name"));
            MeterIdentity { number, identity: issued.identity(), der: issued.der }
        });
        let mut identities: Vec<MeterIdentity> = identities.collect();
        let mut groups = Vec::new();
        let size = meters.div_ceil(SHARED_CONNECTIONS);
        while !identities.is_empty() {
            let rest = identities.split_off(size.min(identities.len()));
            groups.push((link.clone(), std::mem::replace(&mut identities, rest)));
        }
        Self { authorities: authority.authorities(), gateway, groups }
    }

    /// Returns the gateway and the first meters of a directory, each on a connection of its own that shows its certificate.
    pub fn of_directory(directory: &Directory, meters: usize, access: &Access) -> anyhow::Result<Self> {
        let (id, issued) = directory.gateway()?;
        let (certificate, key) = directory.gateway_files();
        let link = Arc::new(access.with_client(&certificate, &key)?);
        let gateway = Gateway { id, identity: issued.identity(), der: issued.der, link };
        let files: Vec<_> = directory.clusters().iter().flat_map(|(_, meters)| meters).take(meters).collect();
        if files.len() < meters {
            let there = files.len();
            return Err(BadInput(format!("--dir: found {there} meters, but {meters} are needed; see --meters")).into());
        }
        let group = |(number, files): (usize, &&dream_fleet::directory::MeterFiles)| {
            let issued = files.load()?;
            let link: Arc<dyn Link> = Arc::new(access.with_client(&files.certificate, &files.key)?);
            Ok((link, vec![MeterIdentity { number, identity: issued.identity(), der: issued.der }]))
        };
        let groups = files.iter().enumerate().map(group).collect::<anyhow::Result<_>>()?;
        Ok(Self { authorities: directory.authorities().clone(), gateway, groups })
    }

    pub(super) fn meters(&self) -> usize {
        self.groups.iter().map(|(_, identities)| identities.len()).sum()
    }

    /// Returns the default policy, except that it accepts short slots.
    pub(super) fn policy(&self) -> Policy {
        Policy { min_slot_seconds: SLOT_SECONDS, ..Policy::new(self.authorities.clone(), [self.gateway.id.clone()]) }
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("id", &self.id).finish_non_exhaustive()
    }
}

impl fmt::Debug for MeterIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MeterIdentity").field("number", &self.number).finish_non_exhaustive()
    }
}

/// Returns the load of a meter's home in watts, which is the same in every slot.
pub(super) fn watts(meter: usize) -> i64 {
    let spread = meter * 367 % 1900;
    120 + i64::try_from(spread).expect("small")
}
