//! `dream-meter join`: from an invitation to a meter that can be started. Whatever is done already is not done again.

use std::io::{BufRead as _, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use dream_edge::issuer;
use dream_protocol::policy::Profile;

use super::BadInput;
use super::enrol::{EnrolArgs, GATEWAY_AUTHORITIES, METER_AUTHORITIES, Renewing};
use super::probe::{Place, ProbeArgs};
use crate::clock::utc;
use crate::config::meaning;
use crate::est::{self, Answer, Client};
use crate::files::{self, FileError};
use crate::invitation::{Fingerprint, Invitation};

/// Where Linux shows what is plugged in, by names that stay.
const SERIAL: &str = "/dev/serial/by-id";

/// The user that the unit runs as.
const SERVICE: &str = "dream-meter";

/// Join a cluster with the line that your community's authority sent
///
/// Makes the key, which never leaves this machine, enrols, listens to your meter and writes `meter.toml`. It asks before it does anything. If it is
/// interrupted, repeat it: it goes on where it stopped.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  dream-meter join dream1,m-0007,riverside,...
  dream-meter join dream1,m-0007,riverside,... --serial /dev/ttyUSB0 --yes")]
pub(super) struct JoinArgs {
    /// The invitation, as the authority sent it
    #[arg(value_name = "LINE")]
    line: String,
    /// Where the files go
    #[arg(long, value_name = "DIR", default_value = "/etc/dream-meter")]
    directory: PathBuf,
    /// What you allow, instead of what the invitation proposes: strict or community
    #[arg(long, value_name = "NAME")]
    profile: Option<Profile>,
    #[command(flatten)]
    at: Place,
    /// The device, topic or sensor to read if the home's broker has several
    #[arg(long, value_name = "NAME", requires = "mqtt")]
    device: Option<String>,
    /// The user name for the home's broker
    #[arg(long, value_name = "NAME", requires = "mqtt")]
    username: Option<String>,
    /// A file whose first line is the password
    #[arg(long, value_name = "FILE", requires = "username")]
    password_file: Option<PathBuf>,
    /// Trust this machine's clock without checking that it is synchronised
    #[arg(long)]
    trust_clock: bool,
    /// Ask nothing: the flags and the invitation say it all
    #[arg(long)]
    yes: bool,
}

impl JoinArgs {
    pub(super) fn run(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let invitation: Invitation = self.line.parse().map_err(|error| BadInput(format!("{error}")))?;
        let profile = self.profile.unwrap_or(invitation.profile);
        if profile == Profile::Trial && self.profile.is_none() {
            return Err(BadInput(
                "this invitation proposes the profile trial, which protects nobody; ask for another one".to_owned(),
            )
            .into());
        }
        if self.is_enrolled()? {
            writeln!(out, "{} is enrolled.", invitation.meter)?;
        } else {
            self.consent(&invitation, profile, out)?;
            super::runtime()?.block_on(self.enrol(&invitation, profile, out))?;
        }
        self.find_source(out)?;
        let config = self.config();
        super::check_config::run(&super::ConfigArgs { config: config.clone() }, out)?;
        writeln!(out, "\nEverything is ready. Start it:")?;
        if self.directory == Path::new("/etc/dream-meter") {
            self.hand_over(out)?;
            writeln!(out, "  systemctl enable --now dream-meter      or: dream-meter run")?;
            writeln!(out, "  dream-meter status")?;
        } else {
            writeln!(out, "  dream-meter run --config {}", config.display())?;
            writeln!(out, "  dream-meter status --config {}", config.display())?;
        }
        Ok(())
    }

    /// Lets the service read the key.
    fn hand_over(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let key = self.directory.join("meter.key");
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let handed = user_id(&users, SERVICE).map(|user| std::os::unix::fs::chown(&key, Some(user), None));
        if !matches!(handed, Some(Ok(()))) {
            writeln!(out, "  chown {SERVICE} {}", key.display())?;
        }
        Ok(())
    }

    fn config(&self) -> PathBuf {
        self.directory.join("meter.toml")
    }

    /// Whether an earlier run got as far as a certificate and a configuration.
    fn is_enrolled(&self) -> Result<bool, FileError> {
        Ok(self.has_section("[identity]")? && self.directory.join("meter.pem").exists())
    }

    fn has_section(&self, name: &str) -> Result<bool, FileError> {
        let path = self.config();
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(text.lines().any(|line| line.trim() == name)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(FileError::Read { path, error }),
        }
    }

    /// Says what the invitation means, and asks.
    fn consent(&self, invitation: &Invitation, profile: Profile, out: &mut impl Write) -> anyhow::Result<()> {
        let Invitation { meter, cluster, broker, enrol, .. } = invitation;
        let gateways: Vec<&str> = invitation.gateways.iter().map(|gateway| gateway.as_str()).collect();
        writeln!(out, "You are invited to the cluster {cluster} as {meter}.")?;
        writeln!(out, "  The gateway {} sums up the cluster, over the broker {broker}.", gateways.join(", "))?;
        writeln!(out, "  The authority at {enrol} certifies your meter; it sees no reading.")?;
        writeln!(out, "  You allow, and nobody else can change it:\n  {}.", meaning(profile))?;
        self.ask("Do you want that?", out)
    }

    /// Asks a question that is answered with yes, or not at all.
    fn ask(&self, question: &str, out: &mut impl Write) -> anyhow::Result<()> {
        if self.yes {
            return Ok(());
        }
        write!(out, "{question} [y/N] ")?;
        out.flush()?;
        match answer()?.as_str() {
            "y" | "Y" | "yes" | "Yes" => Ok(()),
            _ => Err(BadInput("nothing was changed".to_owned()).into()),
        }
    }

    async fn enrol(&self, invitation: &Invitation, profile: Profile, out: &mut impl Write) -> anyhow::Result<()> {
        let file = |name: &str| self.directory.join(name);
        std::fs::create_dir_all(&self.directory)
            .map_err(|error| FileError::Write { path: self.directory.clone(), error })?;
        let client = Client::new(invitation.enrol.clone(), invitation.server, None)?;
        let ours = client.authorities().await?;
        install(&file(METER_AUTHORITIES), &ours, &invitation.meter_authorities, "meters")?;
        let theirs = pem_certificates(&client.get(est::GATEWAY_AUTHORITIES).await?);
        install(&file(GATEWAY_AUTHORITIES), &theirs, &invitation.gateway_authorities, "gateways")?;
        let broker_ca = file("broker-ca.pem");
        if !invitation.broker_authorities.is_empty() {
            let theirs = pem_certificates(&client.get(est::BROKER_AUTHORITIES).await?);
            install(&broker_ca, &theirs, &invitation.broker_authorities, "the broker")?;
        }
        let key = file("meter.key");
        let seed = if key.exists() { files::private_seed(&key)? } else { files::create_key(&key)? };
        writeln!(out, "The key of {} is in {}; it stays on this machine.", invitation.meter, key.display())?;
        let request = issuer::request(&invitation.meter, &seed);
        let certificate = loop {
            match client.enrol(invitation.meter.as_str(), &invitation.secret, &request).await? {
                Answer::Certificate(der) => break der,
                Answer::Later { seconds } => {
                    let minutes = seconds.div_ceil(60);
                    writeln!(
                        out,
                        "The authority signs by hand: asking again in {minutes} min. You may interrupt this and repeat it later."
                    )?;
                    out.flush()?;
                    tokio::time::sleep(Duration::from_secs(seconds)).await;
                }
            }
        };
        let arrived = file("meter.pem.arrived");
        files::replace(&arrived, files::encode("CERTIFICATE", &certificate).as_bytes())?;
        let enrolled = EnrolArgs {
            directory: self.directory.clone(),
            meter: None,
            certificate: Some(arrived.clone()),
            meter_authority: vec![file(METER_AUTHORITIES)],
            gateway_authority: vec![file(GATEWAY_AUTHORITIES)],
            broker: Some(invitation.broker.to_string()),
            broker_ca: broker_ca.exists().then_some(broker_ca),
            gateway: invitation.gateways.clone(),
            profile,
            trust_clock: self.trust_clock,
            renewing: Some(Renewing { url: invitation.enrol.clone(), server: invitation.server }),
        };
        let identity = enrolled.install_first(&arrived)?;
        std::fs::remove_file(&arrived).map_err(|error| FileError::Write { path: arrived, error })?;
        let (cluster, until) = (&identity.cluster, utc(identity.checked.not_after()));
        writeln!(
            out,
            "{} is certified for the cluster {cluster} until {until}; it renews that by itself.",
            identity.id
        )?;
        Ok(())
    }

    /// Adds the home's meter to the configuration.
    fn find_source(&self, out: &mut impl Write) -> anyhow::Result<()> {
        if self.has_section("[source]")? {
            return Ok(());
        }
        let at = if self.at.is_named() { self.at.clone() } else { self.choose(out)? };
        let probe = ProbeArgs {
            at,
            device: self.device.clone(),
            username: self.username.clone(),
            password_file: self.password_file.clone(),
            write: Some(self.config()),
            samples: 3,
        };
        probe.run(out)
    }

    /// Asks where the meter is, unless there is but one cable.
    fn choose(&self, out: &mut impl Write) -> anyhow::Result<Place> {
        let found = cables();
        let named =
            "name it with --serial, --tcp, --mqtt, --http, --modbus, --lines or --source, and repeat the command";
        match found.as_slice() {
            [only] if self.yes => return Ok(Place::of_cable(only)),
            [] => {
                let message = format!("no cable to a meter is plugged in; if your meter is elsewhere, {named}");
                return Err(BadInput(message).into());
            }
            several if self.yes => {
                let all: String = several.iter().map(|path| format!("\n  --serial {}", path.display())).collect();
                return Err(BadInput(format!("several cables are plugged in; {named}:{all}")).into());
            }
            several => {
                writeln!(out, "Which of these leads to your meter?")?;
                for (number, path) in several.iter().enumerate() {
                    writeln!(out, "  {}  {}", number + 1, path.display())?;
                }
            }
        }
        write!(out, "Number [1]: ")?;
        out.flush()?;
        let text = answer()?;
        let number = if text.is_empty() { Some(1) } else { text.parse::<usize>().ok() };
        let chosen = number.and_then(|number| found.get(number.checked_sub(1)?));
        let none = || BadInput(format!("{text:?} is none of them; if it is elsewhere, {named}"));
        Ok(Place::of_cable(chosen.ok_or_else(none)?))
    }
}

/// Returns the number of a user, as /etc/passwd has it.
fn user_id(users: &str, name: &str) -> Option<u32> {
    let entry = users.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    entry.split(':').nth(1)?.parse().ok()
}

/// Returns the serial ports that have a name.
fn cables() -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(SERIAL) else { return Vec::new() };
    let mut all: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    all.sort();
    all
}

/// Returns a line that somebody types.
fn answer() -> anyhow::Result<String> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(BadInput("nobody can answer here; repeat the command with --yes".to_owned()).into());
    }
    let mut text = String::new();
    stdin.lock().read_line(&mut text)?;
    Ok(text.trim().to_owned())
}

/// Writes the certificates of authorities whose fingerprints the invitation has: all of them, and no other.
fn install(path: &Path, found: &[Vec<u8>], wanted: &[Fingerprint], of: &str) -> anyhow::Result<()> {
    let known: Vec<&Vec<u8>> = found.iter().filter(|der| wanted.contains(&Fingerprint::of(der))).collect();
    if known.len() != wanted.len() || wanted.is_empty() {
        let message = format!(
            "the authority of {of} that was sent is not the one of the invitation, or it has changed since; ask for a new invitation"
        );
        return Err(BadInput(message).into());
    }
    let text: String = known.iter().map(|der| files::encode("CERTIFICATE", der)).collect();
    Ok(files::replace(path, text.as_bytes())?)
}

fn pem_certificates(text: &[u8]) -> Vec<Vec<u8>> {
    use rustls::pki_types::pem::PemObject as _;
    let all = rustls::pki_types::CertificateDer::pem_slice_iter(text);
    all.filter_map(|der| Some(der.ok()?.to_vec())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_is_found_among_the_users() {
        let users = "root:x:0:0::/root:/bin/sh\ndream-meter-2:x:7:7:::\ndream-meter:x:998:997:::\n";
        assert_eq!(user_id(users, SERVICE), Some(998));
        assert_eq!(user_id("root:x:0:0::/root:/bin/sh\n", SERVICE), None);
    }

    #[test]
    fn only_the_authorities_of_the_invitation_are_installed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("authorities.pem");
        let (one, other) = (b"one".to_vec(), b"other".to_vec());
        let wanted = [Fingerprint::of(&one)];
        for found in [vec![], vec![other.clone()]] {
            install(&path, &found, &wanted, "meters").unwrap_err();
        }
        install(&path, &[], &[], "meters").unwrap_err();
        assert!(!path.exists());
        install(&path, &[other, one.clone()], &wanted, "meters").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), files::encode("CERTIFICATE", &one));
    }
}
