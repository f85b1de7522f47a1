//! The authority as others see it: curl and openssl, which know nothing of us, enrol and renew by RFC 7030.

use std::path::{Path, PathBuf};
use std::process::Command;

use dream_meter::authority::{Authority, Grant, Request};
use dream_meter::invitation::{Fingerprint, Invitation, Secret};
use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::policy::Profile;
use dream_protocol::time::Timestamp;
use dream_testkit::lab::command::succeed;
use dream_testkit::lab::process::Process;
use dream_testkit::lab::{free_port, until, wall};

use super::{answer, run};

/// An authority that serves, and a stranger with a shell.
struct Stranger {
    folder: tempfile::TempDir,
    port: u16,
    _server: Process,
}

impl Stranger {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let port = free_port();
        run(at, "authority init --name Riverside --gateway gw-1");
        run(at, "authority init --directory operator/authority --name Operator --gateway gw-1");
        std::fs::rename(at.join("operator/authority/authority.pem"), at.join("operator.pem")).unwrap();
        run(
            at,
            &format!(
                "authority invite m-0000 --cluster riverside --size 25 --url https://127.0.0.1:{port} --no-qr \
                 --broker mqtts://broker.example --gateway gw-1 --gateway-authority operator.pem"
            ),
        );
        let arguments = ["authority", "serve", "--listen", &format!("127.0.0.1:{port}"), "--directory"];
        let mut arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        arguments.push(at.join("authority").display().to_string());
        let mut server = Process::new("authority", PathBuf::from(env!("CARGO_BIN_EXE_dream-meter")), arguments, at);
        server.start();
        until("the authority serves", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()).await;
        Self { folder, port, _server: server }
    }

    fn at(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a line of shell in which `$EST` is where the authority is; returns what it prints.
    fn shell(&self, line: &str) -> String {
        let mut command = Command::new("sh");
        let est = format!("https://127.0.0.1:{}/.well-known/est", self.port);
        command.args(["-euc", line]).current_dir(self.at()).env("EST", est);
        succeed(&mut command)
    }

    fn invitation(&self, flags: &str) -> Invitation {
        let said = run(self.at(), &format!("authority invite --no-qr --cluster riverside --size 25 {flags}"));
        said.lines().find_map(|line| line.strip_prefix("dream-meter join ")).unwrap().parse().unwrap()
    }

    /// Invites a meter; returns the secret.
    fn invite(&self, flags: &str) -> String {
        self.invitation(flags).secret.expose().to_string()
    }

    /// Asks for a certificate; returns the status, and the body in the file `answer`.
    fn post(&self, path: &str, flags: &str, request: &str) -> String {
        self.shell(&format!(
            "curl --silent --cacert authority/server.pem {flags} -H 'Content-Type: application/pkcs10' \
             --data-binary @{request} --output answer --write-out '%{{http_code}}' $EST/{path}"
        ))
    }

    fn answer(&self) -> String {
        std::fs::read_to_string(self.at().join("answer")).unwrap()
    }

    fn request(&self, name: &str, meter: &str) {
        self.shell(&format!(
            "openssl genpkey -algorithm ed25519 -out {name}.key && \
             openssl req -new -key {name}.key -subj /CN={meter} -outform DER | base64 > {name}.b64"
        ));
    }
}

/// Turns the answer into a certificate in PEM.
const UNWRAP: &str = "base64 -d answer | openssl pkcs7 -inform DER -print_certs";

#[tokio::test]
async fn strangers_enrol_and_renew_with_curl_and_openssl() {
    let stranger = Stranger::start().await;
    let fetched = stranger.shell(&format!(
        "curl --silent --fail --cacert authority/server.pem $EST/cacerts > answer && {UNWRAP} | openssl x509 -fingerprint -sha256 -noout"
    ));
    assert_eq!(fetched, stranger.shell("openssl x509 -in authority/authority.pem -fingerprint -sha256 -noout"));
    let attributes = stranger.shell(
        "curl --silent --fail --cacert authority/server.pem $EST/csrattrs | base64 -d | openssl asn1parse -inform DER",
    );
    assert!(attributes.contains("ED25519"), "{attributes}");

    let secret = stranger.invite("m-0007");
    stranger.request("seven", "m-0007");
    let login = format!("-u m-0007:{secret}");
    assert_eq!(stranger.post("simpleenroll", &login, "seven.b64"), "200", "{}", stranger.answer());
    let first = stranger.answer();
    stranger.shell(&format!("{UNWRAP} > seven.pem && openssl verify -CAfile authority/authority.pem seven.pem"));
    let named = stranger.shell("openssl x509 -in seven.pem -noout -ext subjectAltName");
    assert!(named.contains("urn:dream:meter:m-0007") && named.contains("urn:dream:cluster:riverside:25"), "{named}");
    // The same request, the same certificate; another key, none.
    assert_eq!(stranger.post("simpleenroll", &login, "seven.b64"), "200");
    assert_eq!(stranger.answer(), first);
    stranger.request("thief", "m-0007");
    assert_eq!(stranger.post("simpleenroll", &login, "thief.b64"), "403");
    assert!(stranger.answer().contains("was used for another key"), "{}", stranger.answer());
    let certificate = "--cert seven.pem --key seven.key";
    assert_eq!(stranger.post("simplereenroll", certificate, "seven.b64"), "403");
    assert!(stranger.answer().contains("in the last third of its life"), "{}", stranger.answer());
    assert_eq!(stranger.post("simplereenroll", certificate, "thief.b64"), "403");
    assert!(stranger.answer().contains("for another key"), "{}", stranger.answer());

    // One that was certified ten months ago, for a year.
    stranger.request("eight", "m-0008");
    stranger.shell("openssl req -new -key eight.key -subj /CN=m-0008 -out eight.csr");
    let request = Request::read(&stranger.at().join("eight.csr")).unwrap();
    let grant = Grant { cluster: ClusterId::new("riverside").unwrap(), size: 25, days: 365 };
    let long_ago = Timestamp::from_secs(wall().as_secs() - 300 * 86_400);
    let meter = MeterId::new("m-0008").unwrap();
    let (lock, mut authority) = Authority::open_to_change(&stranger.at().join("authority")).unwrap();
    let old = authority.sign(&meter, None, &request, &grant, false, long_ago).unwrap().path.clone();
    drop(lock);
    std::fs::copy(old, stranger.at().join("eight.pem")).unwrap();
    let certificate = "--cert eight.pem --key eight.key";
    assert_eq!(stranger.post("simplereenroll", certificate, "eight.b64"), "200", "{}", stranger.answer());
    let renewed = stranger.answer();
    stranger.shell(&format!("{UNWRAP} > renewed.pem && openssl verify -CAfile authority/authority.pem renewed.pem && openssl x509 -in renewed.pem -checkend 30000000 -noout"));
    assert_eq!(stranger.post("simplereenroll", certificate, "eight.b64"), "200");
    assert_eq!(stranger.answer(), renewed);
    let listed: serde_json::Value = serde_json::from_str(&run(stranger.at(), "authority list --json")).unwrap();
    let valid = listed["certificates"].as_array().unwrap().iter().filter(|one| one["meter"] == "m-0008");
    assert_eq!(valid.count(), 2, "{listed}");
    assert_eq!(listed["invitations"].as_array().unwrap().len(), 1, "of m-0000: {listed}");
}

#[tokio::test]
async fn what_cannot_be_answered_is_refused_in_words() {
    let stranger = Stranger::start().await;
    let secret = stranger.invite("m-0007");
    stranger.request("seven", "m-0007");
    let login = format!("-u m-0007:{secret}");
    let mut said = String::new();
    let mut ask = |what: &str, path: &str, flags: &str, request: &str| {
        let status = stranger.post(path, flags, request);
        said += &format!("{what}\n  {status} {}\n", stranger.answer().trim());
    };
    std::fs::write(stranger.at().join("text"), "hello").unwrap();
    std::fs::write(stranger.at().join("huge"), "A".repeat(20_000)).unwrap();
    stranger.shell("openssl req -newkey rsa:2048 -nodes -keyout rsa.key -subj /CN=m-0007 -outform DER 2>/dev/null | base64 > rsa.b64");
    stranger.request("other", "m-0001");
    ask("no login", "simpleenroll", "", "seven.b64");
    ask("another secret", "simpleenroll", "-u m-0007:AAAAAAAAAAAAAAAAAAAAAA", "seven.b64");
    ask("no secret", "simpleenroll", "-u m-0007:hello", "seven.b64");
    ask("another user", "simpleenroll", &format!("-u m-0001:{secret}"), "other.b64");
    ask("another name in the request", "simpleenroll", &login, "other.b64");
    ask("no request", "simpleenroll", &login, "text");
    ask("too much", "simpleenroll", &login, "huge");
    ask("another kind of key", "simpleenroll", &login, "rsa.b64");
    ask("renewing without a certificate", "simplereenroll", "", "seven.b64");
    ask("a path that is not there", "serverkeygen", &login, "seven.b64");
    insta::assert_snapshot!(said);
    // None of that used up the invitation. A gateway's key beside it ends everything.
    std::fs::write(stranger.at().join("gateway.key"), "").unwrap();
    assert_eq!(stranger.post("simpleenroll", &login, "seven.b64"), "500");
    std::fs::remove_file(stranger.at().join("gateway.key")).unwrap();
    assert_eq!(stranger.post("simpleenroll", &login, "seven.b64"), "200");
    // An impatient client waits.
    let many = "for i in $(seq 70); do curl --silent --cacert authority/server.pem --data-binary @text --output /dev/null --write-out '%{http_code}\n' $EST/simpleenroll; done | sort | uniq -c | tr -s ' '";
    let counted = stranger.shell(many);
    assert!(counted.contains(" 429"), "{counted}");
    // A certificate of somebody else's authority does not get through the handshake.
    stranger.shell("openssl req -x509 -key other.key -subj /CN=m-0007 -out foreign.pem");
    let status = stranger.shell(
        "curl --silent --cacert authority/server.pem --cert foreign.pem --key other.key --data-binary @seven.b64 \
         --output /dev/null --write-out '%{http_code}' $EST/simplereenroll || true",
    );
    assert_eq!(status, "000");
}

#[tokio::test]
async fn a_home_joins_only_what_it_was_invited_to() {
    let stranger = Stranger::start().await;
    let at = stranger.at();
    std::fs::write(at.join("samples"), "").unwrap();
    let join = |invitation: &Invitation, flags: &str| {
        let line = invitation.line();
        let said = answer(at, &format!("join {} --directory home --lines samples{flags}", *line));
        said.replace(&stranger.port.to_string(), "PORT").replace(line.as_str(), "LINE")
    };
    let mut said = String::new();
    let mut invitation = stranger.invitation("m-0007");
    said += &format!("nobody answers\n{}\n", join(&invitation, ""));
    let server = std::mem::replace(&mut invitation.server, Fingerprint::of(b"another"));
    said += &format!("another server\n{}\n", join(&invitation, " --yes"));
    invitation.server = server;
    let meters = std::mem::replace(&mut invitation.meter_authorities, vec![Fingerprint::of(b"another")]);
    said += &format!("another authority of meters\n{}\n", join(&invitation, " --yes"));
    invitation.meter_authorities = meters;
    let gateways = std::mem::replace(&mut invitation.gateway_authorities, vec![Fingerprint::of(b"another")]);
    said += &format!("another authority of gateways\n{}\n", join(&invitation, " --yes"));
    invitation.gateway_authorities = gateways;
    let secret = std::mem::replace(&mut invitation.secret, Secret::new());
    said += &format!("another secret\n{}\n", join(&invitation, " --yes"));
    invitation.secret = secret;
    invitation.profile = Profile::Trial;
    said += &format!("a profile that protects nobody\n{}\n", join(&invitation, " --yes"));
    invitation.profile = Profile::Community;
    invitation.enrol.port = free_port();
    let nowhere = join(&invitation, " --yes").replace(&invitation.enrol.port.to_string(), "ELSEWHERE");
    said += &format!("nothing is there\n{nowhere}\n");
    said += &format!("a line that was cut\n{}\n", answer(at, "join dream1,m-0007,riverside"));
    insta::assert_snapshot!(said);
    assert!(!at.join("home/meter.toml").exists() && !at.join("home/meter.pem").exists());
}

#[tokio::test]
async fn a_running_meter_renews_its_certificate_by_itself() {
    let stranger = Stranger::start().await;
    let at = stranger.at();
    run(at, "enrol --directory home --meter m-0009");
    let grant = Grant { cluster: ClusterId::new("riverside").unwrap(), size: 25, days: 365 };
    let request = Request::read(&at.join("home/meter.csr")).unwrap();
    let long_ago = Timestamp::from_secs(wall().as_secs() - 300 * 86_400);
    let (lock, mut authority) = Authority::open_to_change(&at.join("authority")).unwrap();
    let issued = authority.sign(request.meter(), None, &request, &grant, false, long_ago).unwrap().path.clone();
    drop(lock);
    std::fs::copy(issued, at.join("m-0009.pem")).unwrap();
    run(
        at,
        "enrol --directory home --certificate m-0009.pem --meter-authority authority/authority.pem \
         --gateway-authority operator.pem --gateway gw-1 --broker mqtt://127.0.0.1:1 --profile community --trust-clock",
    );
    let server = stranger.invitation("m-0001").server;
    let (config, samples, page) = (at.join("home/meter.toml"), at.join("samples"), free_port());
    std::fs::write(&samples, "").unwrap();
    let text = std::fs::read_to_string(&config).unwrap();
    let more = format!(
        "\n[renewal]\nurl = \"https://127.0.0.1:{}\"\nserver = \"{server}\"\n[http]\nlisten = \"127.0.0.1:{page}\"\n\
         [source]\nkind = \"lines\"\npath = \"{}\"\ninterval_seconds = 10\n",
        stranger.port,
        samples.display()
    );
    std::fs::write(&config, text + &more).unwrap();
    let before = std::fs::read(at.join("home/meter.pem")).unwrap();
    let arguments = vec!["run".to_owned(), "--config".to_owned(), config.display().to_string()];
    let mut meter = Process::new("meter", PathBuf::from(env!("CARGO_BIN_EXE_dream-meter")), arguments, at);
    meter.start();
    until("it has loaded another certificate", || meter.printed().contains("loaded the renewed certificate")).await;
    // The folder of the configuration may be read-only: the new one is with the records.
    assert_eq!(std::fs::read(at.join("home/meter.pem")).unwrap(), before);
    stranger.shell("openssl x509 -in home/state/meter.pem -checkend 30000000 -noout");
    let said = run(at, "check-config --config home/meter.toml");
    let end = stranger
        .shell("date -u -d \"$(openssl x509 -in home/state/meter.pem -noout -enddate | cut -d= -f2)\" +%Y-%m-%d");
    assert!(said.contains(&format!("Certificate: valid until {}", end.trim())), "{said}");
    let said = run(at, "status --config home/meter.toml");
    assert!(said.contains("it renews itself from"), "{said}");
    until("the register agrees", || run(at, "status --config home/meter.toml").contains("Authority's register: fine"))
        .await;
    assert!(meter.stop().success());
}
