//! `dream-meter enrol`: makes the key here, where it stays, and installs the certificate.

use std::fmt::Write as _;
use std::io::Write;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use dream_edge::mqtt::BrokerUrl;
use dream_protocol::ids::{GatewayId, MeterId};
use dream_protocol::policy::Profile;
use sha2::{Digest as _, Sha256};

use super::BadInput;
use crate::authority::write_request;
use crate::clock::{utc, wall};
use crate::config::{edit, meaning};
use crate::est::EnrolUrl;
use crate::files::{self, FileError};
use crate::identity::{Identity, IdentityFiles};
use crate::invitation::Fingerprint;

/// Make a key and a request for a certificate, then install the certificate
///
/// With --meter it makes `meter.key`, which never leaves this machine, and `meter.csr` for the authority. With --certificate it
/// installs what the authority sent, and the first time writes `meter.toml` from the other flags.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  dream-meter enrol --meter m-0007
  dream-meter enrol --certificate m-0007.pem --meter-authority meter-authority.pem \\
      --gateway-authority gateway-authority.pem --gateway gw-1 \\
      --broker mqtts://broker.example --broker-ca gateway-authority.pem --profile community
  dream-meter enrol --certificate renewed.pem")]
pub(super) struct EnrolArgs {
    /// Where the files go
    #[arg(long, value_name = "DIR", default_value = "/etc/dream-meter")]
    pub(super) directory: PathBuf,
    /// The meter's name, as agreed with the authority: makes a key and a request
    #[arg(long, value_name = "NAME", value_parser = MeterId::new, required_unless_present = "certificate", conflicts_with = "certificate")]
    pub(super) meter: Option<MeterId>,
    /// The certificate that the authority sent, in PEM
    #[arg(long, value_name = "FILE")]
    pub(super) certificate: Option<PathBuf>,
    /// The certificate of your community's authority, which certifies its meters
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub(super) meter_authority: Vec<PathBuf>,
    /// The certificate of the authority that certifies the gateway: a different one
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub(super) gateway_authority: Vec<PathBuf>,
    /// The community's broker: `mqtts://HOST[:8883]`
    #[arg(long, value_name = "URL", requires = "certificate")]
    pub(super) broker: Option<String>,
    /// The CA certificates that verify the broker; by default those of the gateway's authorities
    #[arg(long, value_name = "FILE", requires = "broker")]
    pub(super) broker_ca: Option<PathBuf>,
    /// A gateway whose lists the meter may accept
    #[arg(long, value_name = "NAME", value_parser = GatewayId::new, requires = "certificate")]
    pub(super) gateway: Vec<GatewayId>,
    /// What you allow: strict or community
    #[arg(long, value_name = "NAME", requires = "certificate", default_value = "strict")]
    pub(super) profile: Profile,
    /// Trust this machine's clock without checking that it is synchronised
    #[arg(long, requires = "certificate")]
    pub(super) trust_clock: bool,
    /// How `run` renews the certificate.
    #[arg(skip)]
    pub(super) renewing: Option<Renewing>,
}

/// Where certificates are renewed, and the certificate that answers there.
#[derive(Debug, Clone)]
pub(super) struct Renewing {
    pub(super) url: EnrolUrl,
    pub(super) server: Fingerprint,
}

impl EnrolArgs {
    pub(super) fn run(&self, out: &mut impl Write) -> anyhow::Result<()> {
        match (&self.meter, &self.certificate) {
            (Some(meter), _) => self.request(meter, out),
            (None, Some(certificate)) => self.install(certificate, out),
            (None, None) => {
                Err(BadInput("name the meter with --meter, or its certificate with --certificate".to_owned()).into())
            }
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn request(&self, meter: &MeterId, out: &mut impl Write) -> anyhow::Result<()> {
        let (key, request) = (self.file("meter.key"), self.file("meter.csr"));
        std::fs::create_dir_all(&self.directory)
            .map_err(|error| FileError::Write { path: self.directory.clone(), error })?;
        // One that is there already asks again.
        let seed = if key.exists() { files::private_seed(&key)? } else { files::create_key(&key)? };
        write_request(&request, meter, &seed)?;
        writeln!(out, "The key of {meter} is in {}; it stays on this machine.", key.display())?;
        writeln!(out, "Send {} to your community's authority. Then install its answer:", request.display())?;
        writeln!(
            out,
            "  dream-meter enrol --certificate FILE --meter-authority FILE --gateway-authority FILE --gateway NAME --broker URL --profile NAME"
        )?;
        Ok(())
    }

    fn install(&self, certificate: &Path, out: &mut impl Write) -> anyhow::Result<()> {
        let (config, key) = (self.file("meter.toml"), self.file("meter.key"));
        if !key.exists() {
            let message = "is missing: create it with `dream-meter enrol --meter NAME`, with the request for the authority to sign";
            return Err(BadInput(format!("{} {message}", key.display())).into());
        }
        let text = self.text()?;
        let first = !text.lines().any(|line| line.trim() == "[identity]");
        if first {
            self.name_authorities()?;
        } else if self.broker.is_some()
            || !self.meter_authority.is_empty()
            || !self.gateway_authority.is_empty()
            || !self.gateway.is_empty()
        {
            let message = "already says how to take part; edit it, or pass only --certificate to renew";
            return Err(BadInput(format!("{} {message}", config.display())).into());
        }
        if first {
            let identity = self.install_first(certificate)?;
            writeln!(
                out,
                "{} may take part in the cluster {} until {}.",
                identity.id,
                identity.cluster,
                utc(identity.checked.not_after())
            )?;
            writeln!(out, "What you allow is in {}, and nobody else can change it:", config.display())?;
            writeln!(out, "  {}", meaning(self.profile))?;
            let at = config.display();
            writeln!(
                out,
                "Next: `dream-meter probe --serial DEVICE --write {at}`, then `dream-meter run --config {at}`."
            )?;
        } else {
            let identity = self.check(certificate, false)?;
            let der = &identity.certificate;
            files::replace(&self.file("meter.pem"), files::encode("CERTIFICATE", der).as_bytes())?;
            writeln!(
                out,
                "The certificate of {} is now valid until {}.",
                identity.id,
                utc(identity.checked.not_after())
            )?;
            writeln!(out, "A running meter loads it on SIGHUP: `systemctl reload dream-meter`.")?;
        }
        Ok(())
    }

    /// Returns what the configuration says so far.
    fn text(&self) -> Result<String, FileError> {
        let path = self.file("meter.toml");
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(FileError::Read { path, error }),
        }
    }

    /// Installs the first certificate with its authorities, and writes the configuration. What is wrong is found before anything is
    /// written.
    pub(super) fn install_first(&self, certificate: &Path) -> anyhow::Result<Identity> {
        let identity = self.check(certificate, true)?;
        let sections = self.sections(&identity.id)?;
        let text = edit::add(&self.text()?, &sections).map_err(|error| BadInput(error.to_string()))?;
        self.install_authorities()?;
        files::replace(&self.file("meter.pem"), files::encode("CERTIFICATE", &identity.certificate).as_bytes())?;
        files::replace(&self.file("meter.toml"), text.as_bytes())?;
        Ok(identity)
    }

    /// Checks a certificate before anything is replaced.
    fn check(&self, certificate: &Path, first: bool) -> anyhow::Result<Identity> {
        let installed = |name: &str| vec![self.file(name)];
        let files = IdentityFiles {
            certificate: certificate.to_owned(),
            key: self.file("meter.key"),
            meter_authorities: if first { self.meter_authority.clone() } else { installed(METER_AUTHORITIES) },
            gateway_authorities: if first { self.gateway_authority.clone() } else { installed(GATEWAY_AUTHORITIES) },
            // What is installed was the owner's decision.
            one_authority: !first,
        };
        let identity = Identity::load(&files, None)?;
        identity.check_period(certificate, wall())?;
        let sized = identity.checked.cluster().is_some_and(|cluster| cluster.size.is_some());
        if self.profile == Profile::Community && !sized {
            let message =
                "names no cluster with a size, which the profile community needs; ask the authority for one that does";
            return Err(BadInput(format!("the certificate in {} {message}", certificate.display())).into());
        }
        Ok(identity)
    }

    fn name_authorities(&self) -> Result<(), BadInput> {
        let missing = |flag: &str, what: &str| BadInput(format!("{flag} is missing: name the certificate of {what}"));
        if self.meter_authority.is_empty() {
            return Err(missing("--meter-authority", "your community's authority"));
        }
        if self.gateway_authority.is_empty() {
            return Err(missing("--gateway-authority", "the authority that certifies the gateway"));
        }
        Ok(())
    }

    fn install_authorities(&self) -> anyhow::Result<()> {
        for (paths, name) in
            [(&self.meter_authority, METER_AUTHORITIES), (&self.gateway_authority, GATEWAY_AUTHORITIES)]
        {
            let mut all = String::new();
            for path in paths {
                for der in files::certificates(path)? {
                    all += &files::encode("CERTIFICATE", &der);
                }
            }
            files::replace(&self.file(name), all.as_bytes())?;
        }
        if let Some(ca) = &self.broker_ca {
            let found: String = files::certificates(ca)?.iter().map(|der| files::encode("CERTIFICATE", der)).collect();
            files::replace(&self.file("broker-ca.pem"), found.as_bytes())?;
        }
        Ok(())
    }

    /// Returns where the witness of a meter outside /etc is kept: not in this directory, whose back-up would bring it along.
    fn witness(&self, meter: &MeterId, cache: &Path) -> PathBuf {
        let directory = std::path::absolute(&self.directory).unwrap_or_else(|_| self.directory.clone());
        let hash = Sha256::digest(directory.as_os_str().as_bytes());
        // The same name in another directory is another meter: a trial, mostly.
        let name = format!("{meter}-{:02x}{:02x}{:02x}{:02x}.witness", hash[0], hash[1], hash[2], hash[3]);
        cache.join("dream-meter").join(name)
    }

    /// Returns what is written into a new configuration.
    fn sections(&self, meter: &MeterId) -> Result<String, BadInput> {
        let missing = |flag: &str, what: &str| BadInput(format!("{flag} is missing: {what}"));
        let broker =
            self.broker.as_ref().ok_or_else(|| missing("--broker", "the address of your community's broker"))?;
        // What stands before an `@` may be a password, and what is an address has no quotes.
        if BrokerUrl::parse(broker).is_none() {
            return Err(BadInput(
                "--broker: use mqtts://HOST[:8883] or mqtt://HOST[:1883]; a login goes into meter.toml".to_owned(),
            ));
        }
        if self.gateway.is_empty() {
            return Err(missing("--gateway", "the gateway whose lists the meter may accept"));
        }
        let gateways: Vec<String> = self.gateway.iter().map(|gateway| format!("\"{gateway}\"")).collect();
        let mut text = String::from(IDENTITY);
        write!(text, "\n[community]\nurl = \"{broker}\"\n").expect(FITS);
        if broker.starts_with("mqtts://") {
            let ca = if self.broker_ca.is_some() { "broker-ca.pem" } else { GATEWAY_AUTHORITIES };
            writeln!(text, "ca = \"{ca}\"").expect(FITS);
        }
        let (profile, gateways) = (self.profile, gateways.join(", "));
        write!(text, "\n# {}.\n[policy]\nprofile = \"{profile}\"\ngateways = [{gateways}]\n", meaning(profile))
            .expect(FITS);
        if !self.directory.starts_with("/etc") {
            let witness = self.witness(meter, &cache_folder());
            write!(text, "\n[state]\ndirectory = \"state\"\nwitness = {witness:?}\n").expect(FITS);
        }
        if let Some(Renewing { url, server }) = &self.renewing {
            write!(text, "\n[renewal]\nurl = \"{url}\"\nserver = \"{server}\"\n").expect(FITS);
        }
        if self.trust_clock {
            text += "\n[clock]\ntrusted = true\n";
        }
        Ok(text)
    }
}

/// Returns a folder that outlives a restart of the machine and that back-ups leave out.
fn cache_folder() -> PathBuf {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || absolute("HOME").map(|home| home.join(".cache"));
    absolute("XDG_CACHE_HOME").or_else(home).unwrap_or_else(|| "/var/cache".into())
}

pub(super) const METER_AUTHORITIES: &str = "meter-authorities.pem";
pub(super) const GATEWAY_AUTHORITIES: &str = "gateway-authorities.pem";

const FITS: &str = "a String takes everything";

const IDENTITY: &str = "\
# What this home shares, and with whom. Every key is explained in docs/meter.md.
[identity]
certificate = \"meter.pem\"
key = \"meter.key\"
meter_authorities = [\"meter-authorities.pem\"]
gateway_authorities = [\"gateway-authorities.pem\"]
";
