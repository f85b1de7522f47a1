//! `dream-meter authority`: a community's own authority, on files.

mod invite;
mod judge;
mod serve;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use dream_protocol::ids::{ClusterId, GatewayId, MeterId};
use dream_protocol::time::Timestamp;
use serde_json::json;

use super::BadInput;
use crate::authority::{Authority, Grant, Issued, Request, sign_queue};
use crate::clock::{utc, wall};
use crate::files;
use crate::identity::renewable_from;
use crate::invitation::hexadecimal;

/// Certify the meters of a community
///
/// The authority says which meters are in a cluster and how many: this stops a gateway from listing invented meters
/// beside a few homes. Run it on a different machine from the gateway's, and let somebody else run it.
/// docs/authority.md explains how to back it up.
#[derive(Debug, Subcommand)]
pub(super) enum AuthorityCommand {
    Init(InitArgs),
    Invite(invite::InviteArgs),
    Import(invite::ImportArgs),
    Serve(serve::ServeArgs),
    Sign(SignArgs),
    Renew(RenewArgs),
    List(ListArgs),
    Judge(judge::JudgeArgs),
}

#[derive(Debug, Args)]
pub(super) struct Directory {
    /// Where the authority is kept
    #[arg(long, value_name = "DIR", default_value = "authority")]
    directory: PathBuf,
}

/// List every certificate that was issued
#[derive(Debug, Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    at: Directory,
    /// As JSON, with times in Unix seconds and invitations that nobody has used
    #[arg(long)]
    json: bool,
}

/// Make an authority with a new key
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  dream-meter authority init --name \"Riverside energy community\" --gateway gw-1")]
pub(super) struct InitArgs {
    #[command(flatten)]
    at: Directory,
    /// Its name in certificates
    #[arg(long, value_name = "NAME")]
    name: String,
    /// A gateway's name, which no meter may have: brokers grant rights by name
    #[arg(long, value_name = "NAME", value_parser = GatewayId::new, required = true)]
    gateway: Vec<GatewayId>,
    /// The name of another client with its own rights on the broker
    #[arg(long, value_name = "NAME", value_parser = GatewayId::new)]
    observer: Vec<GatewayId>,
    /// The directory of the authority that this one replaces: its meters keep their draw values
    #[arg(long, value_name = "DIR")]
    draws_of: Option<PathBuf>,
    /// How many days its own certificate is valid
    #[arg(long, default_value_t = 3650)]
    days: u64,
}

/// Sign a meter's request, or those that wait in a queue
///
/// Refuses if the request has another name, if the name is a gateway's, if the meter has a valid certificate, or if the cluster would have more certified meters than --size.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  dream-meter authority sign m-0007 meter.csr --cluster riverside --size 25
  dream-meter authority sign --queue /media/usb/queue")]
pub(super) struct SignArgs {
    /// The meter's name, as agreed with its owner
    #[arg(value_parser = MeterId::new, required_unless_present = "queue")]
    meter: Option<MeterId>,
    /// The request, as `dream-meter enrol` made it
    #[arg(required_unless_present = "queue")]
    request: Option<PathBuf>,
    /// Sign what waits in the `queue` of an authority that serves without its key: invited meters, and renewals
    #[arg(long, value_name = "DIR", conflicts_with_all = ["meter", "request", "cluster", "size", "replace", "formerly", "out"])]
    queue: Option<PathBuf>,
    #[command(flatten)]
    at: Directory,
    /// The one cluster that the meter may join
    #[arg(long, value_name = "NAME", value_parser = ClusterId::new, required_unless_present = "queue")]
    cluster: Option<ClusterId>,
    /// How many meters the cluster has. Meters refuse a list with fewer than 70 % of them
    #[arg(long, value_name = "METERS", required_unless_present = "queue")]
    size: Option<u64>,
    /// How many days the certificate is valid
    #[arg(long, default_value_t = 365)]
    days: u64,
    /// Certify a new key although a certificate is valid: the meter was replaced, or its key is lost
    #[arg(long)]
    replace: bool,
    /// The name that this meter had before: it keeps its draw value
    #[arg(long, value_name = "NAME", value_parser = MeterId::new)]
    formerly: Option<MeterId>,
    /// Also write the certificate here, to send it to the meter's owner
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Renew a meter's certificate for the same key, in the last third of its life
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  dream-meter authority renew m-0007")]
pub(super) struct RenewArgs {
    /// The meter's name
    #[arg(value_parser = MeterId::new)]
    meter: MeterId,
    #[command(flatten)]
    at: Directory,
    /// How many meters the cluster has now, if that has changed
    #[arg(long, value_name = "METERS")]
    size: Option<u64>,
    /// How many days the certificate is valid
    #[arg(long, default_value_t = 365)]
    days: u64,
    /// Also write the certificate here, to send it to the meter's owner
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl AuthorityCommand {
    pub(super) fn run(&self, out: &mut impl Write) -> anyhow::Result<()> {
        match self {
            Self::Init(args) => args.run(out),
            Self::Invite(args) => args.run(out),
            Self::Import(args) => args.run(out),
            Self::Serve(args) => args.run(),
            Self::Sign(args) => args.run(out),
            Self::Renew(args) => {
                let (_lock, mut authority) = Authority::open_to_change(&args.at.directory)?;
                tell(authority.renew(&args.meter, args.size, args.days, wall())?, args.out.as_ref(), out)
            }
            Self::List(args) if args.json => list_json(&args.at.directory, wall(), out),
            Self::List(args) => list(&args.at, out),
            Self::Judge(args) => args.run(out),
        }
    }
}

impl SignArgs {
    fn run(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let (_lock, mut authority) = Authority::open_to_change(&self.at.directory)?;
        if let Some(queue) = &self.queue {
            return sign_all(&mut authority, queue, out);
        }
        let (Some(meter), Some(request), Some(cluster), Some(size)) =
            (&self.meter, &self.request, &self.cluster, self.size)
        else {
            return Err(BadInput("name the meter, its request, --cluster and --size; or --queue".to_owned()).into());
        };
        let request = Request::read(request)?;
        let grant = Grant { cluster: cluster.clone(), size, days: self.days };
        let issued = authority.sign(meter, self.formerly.as_ref(), &request, &grant, self.replace, wall())?;
        tell(issued, self.out.as_ref(), out)
    }
}

fn sign_all(authority: &mut Authority, queue: &Path, out: &mut impl Write) -> anyhow::Result<()> {
    let all = sign_queue(authority, queue, wall())?;
    for signed in &all {
        match &signed.refused {
            None => writeln!(out, "{}: signed", signed.meter)?,
            Some(error) => writeln!(out, "{}: refused: {error}", signed.meter)?,
        }
    }
    let signed = all.iter().filter(|signed| signed.refused.is_none()).count();
    writeln!(out, "{signed} of {} signed. Bring {} back to the machine that serves.", all.len(), queue.display())?;
    Ok(())
}

impl InitArgs {
    fn run(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let reserved = [self.gateway.as_slice(), &self.observer].concat();
        Authority::init(&self.at.directory, &self.name, &reserved, self.draws_of.as_deref(), self.days, wall())?;
        let at = self.at.directory.display();
        writeln!(out, "The authority `{}` is in {at}.", self.name)?;
        writeln!(
            out,
            "Give {at}/authority.pem to everybody. Keep {at}/authority.key and {at}/draw.key secret, and back up the whole directory:"
        )?;
        writeln!(
            out,
            "without the keys you cannot certify or renew a meter, and without `issued` you cannot tell which ones are certified."
        )?;
        Ok(())
    }
}

fn tell(issued: &Issued, copy: Option<&PathBuf>, out: &mut impl Write) -> anyhow::Result<()> {
    let path = match copy {
        None => &issued.path,
        Some(copy) => {
            files::replace(copy, &files::read(&issued.path)?)?;
            copy
        }
    };
    let certified = issued.certificate.cluster().map_or("-", |cluster| cluster.id.as_str());
    let until = utc(issued.certificate.not_after());
    writeln!(
        out,
        "{} is certified for the cluster {certified} until {until}: send {} to its owner.",
        issued.meter,
        path.display()
    )?;
    Ok(())
}

fn list(at: &Directory, out: &mut impl Write) -> anyhow::Result<()> {
    let (authority, now) = (Authority::open(&at.directory)?, wall());
    let all = authority.issued();
    let longest = |length: fn(&Issued) -> usize| all.iter().map(length).max().unwrap_or_default();
    let meter = longest(|issued| issued.meter.as_str().len()).max(5);
    let cluster = longest(|issued| cluster_of(issued).len()).max(7);
    writeln!(out, "{:meter$}  {:cluster$}  {:>5}  {:20}  {:20}  state", "meter", "cluster", "size", "from", "to")?;
    for issued in all {
        let (from, to) = (issued.certificate.not_before(), issued.certificate.not_after());
        let size = issued.certificate.cluster().and_then(|cluster| cluster.size);
        let size = size.map_or_else(|| "-".to_owned(), |size| size.to_string());
        let state = if !issued.is_valid(now) {
            "expired"
        } else if now.as_secs() >= renewable_from(&issued.certificate) {
            "renew"
        } else {
            "valid"
        };
        let lacks = if issued.certificate.draw().is_none() { ", without a draw value" } else { "" };
        let name = issued.meter.as_str();
        let of = cluster_of(issued);
        writeln!(out, "{name:meter$}  {of:cluster$}  {size:>5}  {:20}  {:20}  {state}{lacks}", utc(from), utc(to))?;
    }
    Ok(())
}

fn list_json(directory: &Path, now: Timestamp, out: &mut impl Write) -> anyhow::Result<()> {
    let authority = Authority::open(directory)?;
    let certificates = authority.issued().iter().map(|issued| {
        json!({
            "meter": issued.meter.as_str(),
            "cluster": cluster_of(issued),
            "size": issued.certificate.cluster().and_then(|cluster| cluster.size),
            "from": issued.certificate.not_before(),
            "to": issued.certificate.not_after(),
            "renewable_from": renewable_from(&issued.certificate),
            "valid": issued.is_valid(now),
            "sha256": hexadecimal(&issued.fingerprint.0),
        })
    });
    let open = authority.open_invitations(now)?;
    let invitations = open.iter().map(|invited| {
        let (meter, cluster) = (invited.meter.as_str(), invited.cluster.as_str());
        json!({ "meter": meter, "cluster": cluster, "size": invited.size, "expires": invited.expires })
    });
    let all = json!({
        "certificates": certificates.collect::<Vec<_>>(),
        "invitations": invitations.collect::<Vec<_>>(),
        "waiting": authority.waiting(),
    });
    writeln!(out, "{all:#}")?;
    Ok(())
}

fn cluster_of(issued: &Issued) -> &str {
    issued.certificate.cluster().map_or("-", |cluster| cluster.id.as_str())
}
