//! `dream-meter authority invite` and `import`: invitations, for one meter or many.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use dream_edge::mqtt::BrokerUrl;
use dream_protocol::ids::{ClusterId, GatewayId, MeterId};
use dream_protocol::policy::Profile;
use dream_protocol::time::Timestamp;
use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;
use serde::Deserialize;
use zeroize::Zeroizing;

use super::super::BadInput;
use super::Directory;
use crate::authority::{Authority, Community, Facts, Invited};
use crate::clock::{utc, wall};
use crate::est::EnrolUrl;
use crate::files;
use crate::invitation::Secret;

const DAY_SECONDS: u64 = 86_400;

/// Invite a meter: make the one line that its owner joins with
///
/// The line holds a secret for one use, so send it to the owner alone. `authority serve` must run at --url. What the line says of the community is
/// remembered: pass it with the first invitation, or when it changes.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  dream-meter authority invite m-0007 --cluster riverside --size 25 --url https://authority.example \\
      --broker mqtts://broker.example --gateway gw-1 --gateway-authority gateway-authority.pem
  dream-meter authority invite m-0008 --cluster riverside --size 25")]
pub(crate) struct InviteArgs {
    /// The meter's name
    #[arg(value_parser = MeterId::new)]
    meter: MeterId,
    #[command(flatten)]
    at: Directory,
    /// The one cluster that the meter may join
    #[arg(long, value_name = "NAME", value_parser = ClusterId::new)]
    cluster: ClusterId,
    /// How many meters the cluster has. Meters refuse a list with fewer than 70 % of them
    #[arg(long, value_name = "METERS")]
    size: u64,
    /// How many days the certificate is valid
    #[arg(long, default_value_t = 365)]
    days: u64,
    /// Certify a new key although a certificate is valid: the meter was replaced, or its key is lost
    #[arg(long)]
    replace: bool,
    /// The name that this meter had before: it keeps its draw value
    #[arg(long, value_name = "NAME", value_parser = MeterId::new)]
    formerly: Option<MeterId>,
    #[command(flatten)]
    said: SaidOnce,
    /// Show no QR code
    #[arg(long)]
    no_qr: bool,
}

/// What is remembered.
#[derive(Debug, Args)]
struct SaidOnce {
    /// How many days the invitation can be used
    #[arg(long, value_name = "DAYS", default_value_t = 14, value_parser = clap::value_parser!(u64).range(1..=365))]
    expires: u64,
    /// Where `authority serve` answers: `https://HOST[:8445]`
    #[arg(long, value_name = "URL")]
    url: Option<EnrolUrl>,
    /// The community's broker: `mqtts://HOST[:8883]`
    #[arg(long, value_name = "URL", value_parser = broker_url)]
    broker: Option<BrokerUrl>,
    /// The CA certificates that verify the broker, if not those of the gateway's authorities
    #[arg(long, value_name = "FILE")]
    broker_ca: Option<PathBuf>,
    /// A gateway whose lists meters may accept
    #[arg(long, value_name = "NAME", value_parser = GatewayId::new)]
    gateway: Vec<GatewayId>,
    /// The certificate of the authority that certifies the gateway
    #[arg(long, value_name = "FILE")]
    gateway_authority: Vec<PathBuf>,
    /// What you propose that owners allow: strict or community [default: community]
    #[arg(long, value_name = "NAME")]
    profile: Option<Profile>,
}

impl SaidOnce {
    fn describe(&self, authority: &Authority) -> anyhow::Result<Community> {
        if self.profile == Some(Profile::Trial) {
            return Err(BadInput(
                "--profile: an invitation proposes strict or community; trial protects nobody".into(),
            )
            .into());
        }
        Ok(authority.describe(&Facts {
            broker: self.broker.clone(),
            gateways: self.gateway.clone(),
            profile: self.profile,
            enrol: self.url.clone(),
            gateway_authorities: self.gateway_authority.clone(),
            broker_ca: self.broker_ca.clone(),
        })?)
    }

    fn expires(&self, now: Timestamp) -> u64 {
        now.as_secs() + self.expires * DAY_SECONDS
    }
}

fn broker_url(text: &str) -> Result<BrokerUrl, String> {
    BrokerUrl::parse(text).ok_or_else(|| "use mqtts://HOST[:8883] or mqtt://HOST[:1883]".to_owned())
}

impl InviteArgs {
    pub(super) fn run(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let now = wall();
        let (_lock, authority) = Authority::open_to_change(&self.at.directory)?;
        let community = self.said.describe(&authority)?;
        let invited = Invited {
            meter: self.meter.clone(),
            cluster: self.cluster.clone(),
            size: self.size,
            days: self.days,
            replace: self.replace,
            formerly: self.formerly.clone(),
            expires: self.said.expires(now),
        };
        let mut lines = invite(&authority, &community, std::slice::from_ref(&invited), now)?;
        let line = lines.swap_remove(0);
        let Invited { meter, cluster, .. } = &invited;
        writeln!(out, "{meter} is invited to the cluster {cluster} until {}.", utc(invited.expires))?;
        writeln!(out, "Send this line to its owner alone: whoever has it first is {meter}.\n")?;
        writeln!(out, "dream-meter join {}", *line)?;
        if !self.no_qr {
            let code = QrCode::new(line.as_bytes()).map_err(|error| anyhow::anyhow!("no QR code: {error}"))?;
            // Dark on light, as cameras want it, on terminals that are light on dark.
            let drawn = code.render::<Dense1x2>().dark_color(Dense1x2::Light).light_color(Dense1x2::Dark).build();
            writeln!(out, "\n{drawn}")?;
        }
        Ok(())
    }
}

/// Invites meters, and returns their lines.
fn invite(
    authority: &Authority,
    community: &Community,
    all: &[Invited],
    now: Timestamp,
) -> anyhow::Result<Vec<Zeroizing<String>>> {
    let secrets: Vec<Secret> = all.iter().map(|_| Secret::new()).collect();
    let hashed: Vec<(Invited, String)> = all.iter().cloned().zip(secrets.iter().map(Secret::hash)).collect();
    authority.invite(&hashed, now)?;
    let line = |(invited, secret)| Ok(authority.invitation_line(community, invited, secret, now)?.line());
    all.iter().zip(secrets).map(line).collect()
}

/// Invite many meters, from a table with the columns meter, cluster and size
///
/// Writes a table with the columns meter and invitation. Nobody is invited if a row is wrong; meters that have a valid certificate are left out, so
/// that an import can be repeated.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  dream-meter authority import meters.csv --out invitations.csv --url https://authority.example \\
      --broker mqtts://broker.example --gateway gw-1 --gateway-authority gateway-authority.pem")]
pub(crate) struct ImportArgs {
    /// The table, with a header; the columns days and formerly may be there too
    table: PathBuf,
    #[command(flatten)]
    at: Directory,
    /// Where the invitations go: a new file, for its owner alone
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    said: SaidOnce,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    meter: String,
    cluster: String,
    size: u64,
    days: Option<u64>,
    formerly: Option<String>,
}

impl ImportArgs {
    pub(super) fn run(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let now = wall();
        let (_lock, authority) = Authority::open_to_change(&self.at.directory)?;
        let rows = self.rows(self.said.expires(now))?;
        let community = self.said.describe(&authority)?;
        let certified = |invited: &Invited| {
            authority.issued().iter().any(|issued| issued.meter == invited.meter && issued.is_valid(now))
        };
        let (known, new): (Vec<Invited>, Vec<Invited>) = rows.into_iter().partition(certified);
        authority.check_all(&new, now).map_err(|problems| BadInput(problems.join("\n")))?;
        let mut table = csv::Writer::from_writer(Vec::new());
        table.write_record(["meter", "invitation"])?;
        for (invited, line) in new.iter().zip(invite(&authority, &community, &new, now)?) {
            table.write_record([invited.meter.as_str(), line.as_str()])?;
        }
        let text = Zeroizing::new(table.into_inner()?);
        files::create(&self.out, &text, 0o600)?;
        writeln!(out, "{} meters are invited; {} have a certificate already.", new.len(), known.len())?;
        writeln!(out, "Send each owner their line of {}, and delete it then.", self.out.display())?;
        Ok(())
    }

    /// Reads the table; every row that is wrong is named.
    fn rows(&self, expires: u64) -> anyhow::Result<Vec<Invited>> {
        let text = files::read(&self.table)?;
        let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_slice());
        let (mut rows, mut problems) = (Vec::new(), Vec::new());
        for (number, row) in reader.deserialize::<Row>().enumerate() {
            let read = row.map_err(|error| error.to_string()).and_then(|row| {
                let name = |text: &str| MeterId::new(text).map_err(|error| error.to_string());
                Ok(Invited {
                    meter: name(&row.meter)?,
                    cluster: ClusterId::new(&row.cluster).map_err(|error| error.to_string())?,
                    size: row.size,
                    days: row.days.unwrap_or(365),
                    replace: false,
                    formerly: row.formerly.as_deref().filter(|text| !text.is_empty()).map(name).transpose()?,
                    expires,
                })
            });
            match read {
                Ok(invited) if rows.iter().any(|other: &Invited| other.meter == invited.meter) => {
                    problems.push(format!("line {}: {} is in the table twice", number + 2, invited.meter));
                }
                Ok(invited) => rows.push(invited),
                Err(why) => problems.push(format!("line {}: {why}", number + 2)),
            }
        }
        if problems.is_empty() {
            return Ok(rows);
        }
        Err(BadInput(format!("{}: nobody is invited\n{}", self.table.display(), problems.join("\n"))).into())
    }
}
