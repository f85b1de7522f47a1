//! `dream-meter check-config`: everything that can be wrong before a broker is asked, and what the configuration means.

use std::io::Write;

use dream_protocol::policy::Profile;

use super::ConfigArgs;
use crate::broker::Access;
use crate::clock::{SystemTimeSource, utc, wall};
use crate::config::{Config, ONE_AUTHORITY_MEANS, meaning};
use crate::identity::Identity;

pub(super) fn run(args: &ConfigArgs, out: &mut impl Write) -> anyhow::Result<()> {
    let config = args.load()?;
    let identity = config.load_identity()?;
    identity.check_period(&config.identity.certificate, wall())?;
    Access::new(&config.community, Some((&identity.certificate, identity.pkcs8())))?;
    if let Some(home) = &config.home {
        Access::new(&home.broker, None)?;
    }
    writeln!(out, "{}: valid configuration", args.config.display())?;
    for (heading, words) in told(&config, &identity) {
        writeln!(out, "{heading}: {words}")?;
    }
    for warning in warnings(&config, &identity) {
        writeln!(out, "Warning: {warning}")?;
    }
    Ok(())
}

pub(super) fn told(config: &Config, identity: &Identity) -> Vec<(&'static str, String)> {
    let gateways: Vec<&str> = config.policy.gateways.iter().map(|gateway| gateway.as_str()).collect();
    let size = identity.checked.cluster().and_then(|cluster| cluster.size);
    let size = size.map_or_else(String::new, |size| format!(", which has {size} meters"));
    let to = identity.checked.not_after();
    vec![
        ("Meter", format!("{} in the cluster {}{size}", identity.id, identity.cluster)),
        ("Certificate", format!("valid until {}", utc(to))),
        (
            "Renewal",
            config
                .renewal
                .as_ref()
                .map_or_else(|| "by hand".to_owned(), |renewal| format!("by itself, at {}", renewal.url)),
        ),
        ("Policy", meaning(config.policy.profile).to_owned()),
        ("Trusted gateways", gateways.join(", ")),
        ("Holder", format!("in clusters of up to {} members", config.policy.holds)),
        ("Community's broker", config.community.to_string()),
        ("Home's broker", config.home.as_ref().map_or_else(|| "none".to_owned(), |home| home.broker.to_string())),
        ("Records", config.state.display().to_string()),
        ("Page", format!("http://{}/", config.http)),
    ]
}

pub(super) fn warnings(config: &Config, identity: &Identity) -> Vec<String> {
    let mut warnings = Vec::new();
    if config.policy.profile == Profile::Trial {
        warnings
            .push("with the profile trial the meter protects nobody; use strict or community for a home".to_owned());
    }
    let sized = identity.checked.cluster().is_some_and(|cluster| cluster.size.is_some());
    if config.policy.profile == Profile::Community && !sized {
        warnings.push(
            "the profile community needs a certificate that names the cluster and its size, and this one does not: the \
             meter will not start"
                .to_owned(),
        );
    }
    if identity.has_one_authority() {
        warnings.push(ONE_AUTHORITY_MEANS.to_owned());
    } else if config.identity.one_authority {
        warnings.push("`identity.one_authority` has no effect: no key is in both roles. Leave it out".to_owned());
    }
    if config.community.ca.is_none() {
        warnings.push(
            "the connection to the community's broker has no TLS: anyone on the path sees when you take part"
                .to_owned(),
        );
    }
    if config.time == SystemTimeSource::Trusted {
        warnings
            .push("the clock is trusted without a check; set `clock.trusted` only where it is always right".to_owned());
    }
    warnings
}
