//! `check-config`, and the mistakes that `run` makes known before it connects: what an operator reads.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use assert_cmd::Command;
use dream_testkit::lab::identities::{GATEWAY, Identities};
use dream_testkit::pki::Pki;
use rcgen::date_time_ymd;
use tempfile::TempDir;

/// A directory with everything that a gateway needs, and its configuration.
struct Place {
    dir: TempDir,
}

const GOOD: &str = r#"
id = "gw"
[identity]
certificate = "gateway.pem"
key = "gateway.key"
meter_authorities = ["meter-authority.pem"]
gateway_authorities = ["gateway-authority.pem"]
[broker]
url = "mqtt://127.0.0.1:1"
[clusters.north]
"#;

impl Place {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        Identities::default().write_gateway(dir.path(), GATEWAY);
        fs::write(dir.path().join("gateway.toml"), GOOD).unwrap();
        Self { dir }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn write(&self, file: &str, text: &str) -> &Self {
        fs::write(self.path().join(file), text).unwrap();
        self
    }

    /// Writes a file that nobody else can read.
    fn write_secret(&self, file: &str, text: &str) {
        self.write(file, text);
        fs::set_permissions(self.path().join(file), fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// Writes a certificate for HTTP, and its key.
    fn write_certificate(&self) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        self.write("http.pem", &made.cert.pem());
        self.write_secret("http.key", &made.signing_key.serialize_pem());
    }

    /// What the command says about a configuration, with the directory's name taken out.
    fn check(&self, toml: &str) -> String {
        self.write("gateway.toml", toml).say(&["check-config", "--config", "gateway.toml"])
    }

    fn say(&self, args: &[&str]) -> String {
        self.say_with(args, &[])
    }

    fn say_with(&self, args: &[&str], variables: &[(&str, &str)]) -> String {
        let mut command = Command::cargo_bin("dream-gateway").unwrap();
        command.current_dir(self.path()).args(args).env_remove("DREAM_CONFIG").env("HOSTNAME", "somewhere");
        let output = command.envs(variables.iter().copied()).output().unwrap();
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        let text = text.replace(&self.path().display().to_string(), "DIR");
        format!("{text}exit code {}", output.status.code().unwrap())
    }
}

/// The good configuration with one line more in a table, or one replaced.
fn with(table: &str, line: &str) -> String {
    if table.is_empty() { format!("{line}\n{GOOD}") } else { GOOD.replace(table, &format!("{table}\n{line}")) }
}

#[test]
fn a_good_configuration_is_summed_up() {
    insta::assert_snapshot!(Place::new().check(GOOD));
}

#[test]
fn the_key_of_before_says_which_two_replace_it() {
    let before = GOOD.replace("meter_authorities", "authorities").replace("gateway_authorities = ", "#");
    insta::assert_snapshot!(Place::new().check(&before));
}

#[test]
fn one_authority_in_both_roles_is_noted_and_warned_of() {
    let place = Place::new();
    fs::copy(place.path().join("gateway-authority.pem"), place.path().join("meter-authority.pem")).unwrap();
    insta::assert_snapshot!(place.check(GOOD));
    // Of no other use: `run` ends at the store, and has warned before.
    let text = with("[broker]", "keep_alive_seconds = 5") + "[store]\npath = \"no/where/gateway.redb\"\n";
    let said = place.write("gateway.toml", &text).say(&["run", "--config", "gateway.toml"]);
    assert!(said.contains("one key is in `identity.meter_authorities`"), "{said}");
}

#[test]
fn the_example_in_the_documentation_is_good() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/gateway.example.toml");
    let place = Place::new();
    let text = fs::read_to_string(&example).unwrap();
    place.write("gateway.toml", &text);
    insta::assert_snapshot!(place.say(&["check-config", "--config", "gateway.toml", "--without-files"]));
}

#[test]
fn every_mistake_is_named_with_its_key_and_what_is_allowed() {
    let place = Place::new();
    let mistakes = [
        ("", "repicas = 2"),
        ("", "replicas = 0"),
        ("", "replicas = 2"),
        ("", "ordinal = 1"),
        ("", "clock_skew_seconds = \"5\""),
        ("", "time_zone = \"CET/Berlin\""),
        ("[identity]", "password = \"x\""),
        ("[broker]", "ca = \"ca.pem\""),
        ("[broker]", "password_file = \"x\""),
        ("[broker]", "client_key = \"x\""),
        ("[broker]", "keep_alive_seconds = 1"),
        ("[clusters.north]", "epsilon = 0"),
        ("[clusters.north]", "epsilon = -1"),
        ("[clusters.north]", "epsilon = 0.0000001"),
        ("[clusters.north]", "epsilon = \"1/3\""),
        ("[clusters.north]", "max_missing = 0.3"),
        ("[clusters.north]", "max_malicious = 0.05"),
        ("[clusters.north]", "max_missing = 10"),
        ("[clusters.north]", "kind = \"castle\""),
        ("[clusters.north]", "day_epsilon = -1"),
        ("[clusters.north]", "day_epsilon = 2000000"),
        ("[clusters.north]", "range_watts = [100, 9000]"),
        ("[clusters.north]", "slot_seconds = 60\nreading_seconds = 40"),
        ("[clusters.north]", "min_members = 1"),
        ("[clusters.north]", "partners = 3"),
        ("[clusters.north]", "meter_policy = \"lenient\""),
        ("[clusters.north]", "scheme = \"both\""),
        ("[clusters.north]", "scheme = \"committee\"\npartners = 60"),
        ("[clusters.north]", "scheme = \"committee\"\nmeter_policy = \"trial\"\nmin_members = 3"),
        ("[clusters.north]", "scheme = \"committee\"\nmax_missing = 0.2"),
        ("[clusters.north]", "min_members = 49"),
        ("[clusters.north]", "meter_policy = \"community\"\nmin_members = 22"),
        ("[clusters.north]", "allow_file = \"nobody\""),
        ("[clusters.north]", "[clusters.Gateway]"),
        ("[clusters.north]", "[clusters.gateway]"),
        ("[clusters.north]", "[http]\nlisten = \"9464\""),
        ("[clusters.north]", "[log]\nlevel = \"loud\""),
        ("[clusters.north]", "[log]\nformat = \"xml\""),
        ("[clusters.north]", "[store]\nretention_days = 0"),
        ("[clusters.north]", "[home_assistant]\ndiscovery_prefix = \"a/#\""),
    ];
    let said: Vec<String> =
        mistakes.iter().map(|(table, line)| format!("== {line}\n{}\n", place.check(&with(table, line)))).collect();
    insta::assert_snapshot!(said.join("\n"));
}

/// What people get wrong most often, and what they then read.
#[test]
fn the_likeliest_mistakes_are_explained() {
    let place = Place::new();
    let mistakes = [
        ("a number in quotes", with("", "clock_skew_seconds = \"5\"")),
        ("another type", with("[clusters.north]", "[http]\nlisten = 9464")),
        ("a misspelt key", with("[clusters.north]", "epsilom = 0.5")),
        ("a key that is like no other", with("[identity]", "owner = \"me\"")),
        ("a misspelt section", GOOD.replace("[broker]", "[brokr]")),
        ("a missing key", GOOD.replace("key = \"gateway.key\"\n", "")),
        ("out of range", with("", "replicas = 5000")),
        ("a key twice", with("[broker]", "url = \"mqtt://127.0.0.1:2\"")),
        ("no TOML", GOOD.replace("\"mqtt://127.0.0.1:1\"", "mqtt://me:hunter2@127.0.0.1")),
        ("a name that does not exist", with("[clusters.north]", "meter_policy = \"communty\"")),
        ("a password in a URL", GOOD.replace("mqtt://127.0.0.1", "tcp://me:hunter2@127.0.0.1")),
        ("a password that is a number", with("[broker]", "username = \"me\"\npassword_file = 271828")),
    ];
    let said = mistakes.iter().map(|(what, text)| format!("== {what}\n{}\n", place.check(text)));
    let no_file = format!("== no file\n{}\n", place.say(&["check-config", "--config", "nowhere.toml"]));
    let said: Vec<String> = said.chain([no_file]).collect();
    assert!(!said.concat().contains("hunter2") && !said.concat().contains("271828"), "a secret is shown: {said:?}");
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn all_mistakes_are_told_at_once() {
    let toml = GOOD.replace("\"gw\"", "\"GW\"").replace("mqtt://127.0.0.1:1", "tcp://user:secret@broker");
    let said = Place::new().check(&toml.replace("[clusters.north]", ""));
    assert!(!said.contains("secret"), "a password is shown");
    insta::assert_snapshot!(said);
}

#[test]
fn mistakes_of_every_kind_are_told_together() {
    let place = Place::new();
    fs::remove_file(place.path().join("gateway.key")).unwrap();
    place
        .write("meter-authority.pem", "nothing")
        .write("gateway-authority.pem", "nothing")
        .write("north.allow", "M-1\nm-2\nM-3\n");
    insta::assert_snapshot!(place.check(
        r#"
repicas = 2
clock_skew_seconds = "5"
[identity]
certificate = "nowhere.pem"
key = "gateway.key"
meter_authorities = ["meter-authority.pem"]
gateway_authorities = ["gateway-authority.pem"]
[broker]
address = "mqtt://127.0.0.1"
keep_alive_seconds = 1
[store]
path = "nowhere/gateway.redb"
[http]
listen = "9464"
[defaults]
slot_seconds = 0
epsilon = -1
min_members = 1
[clusters.north]
allow_file = "north.allow"
atempts = 2
[clusters.south]
epsilon = "one"
[clusters.West]
"#
    ));
}

#[test]
fn a_key_of_the_defaults_is_named_as_it_is_written_and_once() {
    let toml = with("[clusters.north]", "[clusters.south]\nslot_seconds = 0\n[defaults]\nslot_seconds = 100000");
    insta::assert_snapshot!(Place::new().check(&toml));
}

/// The good configuration with three more clusters, one of them with longer slots, and these groups.
fn grouped(groups: &str) -> String {
    let more = "[clusters.south]\n[clusters.west]\n[clusters.hourly]\nslot_seconds = 3600";
    format!("{}\n{groups}", with("[clusters.north]", more))
}

#[test]
fn groups_are_summed_up_with_the_clusters_in_them() {
    let groups = "[groups.feeder-1]\nof = [\"north\", \"south\"]\n[groups.substation]\nof = [\"feeder-1\", \"west\"]\n\
                  [groups.hours]\nof = [\"hourly\"]\n[groups.other]\nof = [\"west\", \"north\"]";
    let place = Place::new();
    place.write("gateway.toml", &grouped(groups));
    let check = ["check-config", "--config", "gateway.toml", "--without-files"];
    let replica = [("DREAM_REPLICAS", "2"), ("DREAM_ORDINAL", "1")];
    insta::assert_snapshot!([place.say(&check), place.say_with(&check, &replica)].join("\n\n"));
}

#[test]
fn every_mistake_of_groups_is_named_where_it_is_and_once() {
    let groups = r#"
[groups.empty]
of = []
[groups.nothing]
[groups.typing]
of = "north"
[groups.unknown]
of = ["north", "nroth"]
off = ["south"]
[groups.north]
of = ["south"]
[groups.Region]
of = ["south"]
[groups.twice]
of = ["north", "west", "north"]
[groups.feeder]
of = ["south", "west"]
[groups.substation]
of = ["feeder", "west"]
[groups.above]
of = ["substation"]
[groups.round]
of = ["west", "and-round"]
[groups.and-round]
of = ["round"]
[groups.to-the-round]
of = ["round"]
[groups.itself]
of = ["itself"]
[groups.mixed]
of = ["north", "hourly", "south"]
[groups.above-mixed]
of = ["mixed"]
"#;
    insta::assert_snapshot!(Place::new().check(&grouped(groups)));
}

#[test]
fn a_cluster_that_is_wrong_makes_no_group_wrong() {
    let toml = with("[clusters.north]", "epsilon = 0\n[groups.all]\nof = [\"north\"]");
    insta::assert_snapshot!(Place::new().check(&toml));
}

#[test]
fn what_meters_refuse_is_noted() {
    let south =
        "min_members = 60\n[clusters.south]\nslot_seconds = 30\nepsilon = 2\nrange_watts = [-100, 20000]\nattempts = 3";
    insta::assert_snapshot!(Place::new().check(&with("[clusters.north]", south)));
}

#[test]
fn a_cluster_is_judged_by_the_policy_of_its_meters() {
    let smaller = "meter_policy = \"community\"\nepsilon = 2\n[clusters.south]\nmeter_policy = \"trial\"\n\
                   slot_seconds = 10\nmin_members = 5";
    insta::assert_snapshot!(Place::new().check(&with("[clusters.north]", smaller)));
}

#[test]
fn the_scheme_of_a_cluster_is_told_with_what_it_needs() {
    let others = "[clusters.pairs]\nscheme = \"pairwise\"\n[clusters.holders]\nscheme = \"committee\"\nmin_members = 1000\n\
                  [clusters.small]\nmeter_policy = \"community\"\n[clusters.missing]\nmax_missing = 0.2\n\
                  [clusters.twice]\nattempts = 2";
    insta::assert_snapshot!(Place::new().check(&with("[clusters.north]", others)));
}

#[test]
fn the_place_of_the_store_is_looked_at() {
    let place = Place::new();
    fs::create_dir(place.path().join("directory")).unwrap();
    place.write("file", "");
    let check = |path: &str| place.check(&format!("{GOOD}[store]\npath = \"{path}\"\n"));
    let said = ["directory", "nowhere/gateway.redb", "file/gateway.redb", "directory/gateway.redb"].map(check);
    insta::assert_snapshot!(said.join("\n\n"));
    assert_eq!(fs::read_dir(place.path().join("directory")).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn a_meters_certificate_is_no_client_certificate_of_a_gateway() {
    let place = Place::new();
    let identities = Identities::default();
    identities.write(place.path(), "client", &identities.pki.meter("m-0001"));
    identities.write_gateway(place.path(), GATEWAY);
    let tls = "url = \"mqtts://127.0.0.1:1\"\nca = \"gateway-authority.pem\"\nclient_certificate = \"client.pem\"\n\
               client_key = \"client.key\"";
    place.write("gateway.toml", &GOOD.replace("url = \"mqtt://127.0.0.1:1\"", tls));
    let said = ["check-config", "run"].map(|command| place.say(&[command, "--config", "gateway.toml"]));
    insta::assert_snapshot!(said.join("\n\n"));
}

#[test]
fn nobody_who_does_not_answer_is_healthy() {
    let place = Place::new();
    place.write("gateway.toml", &format!("{GOOD}[http]\nlisten = \"127.0.0.1:1\"\n"));
    let asked = [&["health", "--config", "gateway.toml"][..], &["health", "--url", "127.0.0.1:1"], &["health"]];
    insta::assert_snapshot!(asked.map(|arguments| place.say(arguments)).join("\n\n"));
}

#[test]
fn broken_files_are_told_before_anything_is_connected() {
    let place = Place::new();
    let identities = Identities::default();
    let mut said = Vec::new();
    let mut check = |what: &str, place: &Place| {
        let answer = place.say(&["run", "--config", "gateway.toml"]);
        said.push(format!("== {what}\n{answer}\n"));
        identities.write_gateway(place.path(), GATEWAY);
    };
    fs::remove_file(place.path().join("gateway.key")).unwrap();
    check("no key", &place);
    place.write("gateway.key", "nothing");
    check("a key that is none", &place);
    let other = Identities { pki: Pki::named("another authority") };
    fs::create_dir(place.path().join("other")).unwrap();
    other.write_gateway(&place.path().join("other"), GATEWAY);
    fs::copy(place.path().join("other/gateway.key"), place.path().join("gateway.key")).unwrap();
    check("another key", &place);
    fs::copy(place.path().join("other/gateway-authority.pem"), place.path().join("gateway-authority.pem")).unwrap();
    check("another authority", &place);
    identities.write(place.path(), "gateway", &identities.pki.meter(GATEWAY));
    check("a meter's certificate", &place);
    let expired = identities.pki.issue(GATEWAY, "gateway", |params| params.not_after = date_time_ymd(2026, 2, 1));
    identities.write(place.path(), "gateway", &expired);
    check("an expired certificate", &place);
    place.write("gateway.toml", &GOOD.replace("\"gw\"", "\"gw-2\""));
    check("another gateway's certificate", &place);
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn a_key_that_everybody_can_read_is_refused_and_one_of_a_group_is_not() {
    let place = Place::new();
    let key = place.path().join("gateway.key");
    // Kubernetes mounts a secret for a group (fsGroup) with 440.
    for (mode, refused) in [(0o600, false), (0o440, false), (0o644, true), (0o604, true)] {
        fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
        for arguments in [["check-config", "--config", "gateway.toml"], ["run", "--config", "gateway.toml"]] {
            if arguments[0] == "run" && !refused {
                continue; // it would run
            }
            let said = place.say(&arguments);
            assert_eq!(said.contains("`identity.key`, can be read by everybody"), refused, "{mode:o}: {said}");
            assert_eq!(said.contains(&format!("(mode {mode:o})")) && said.contains("chmod 600"), refused, "{said}");
            assert_eq!(said.ends_with("exit code 0"), !refused, "{said}");
        }
    }
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    fs::copy(&key, place.path().join("client.key")).unwrap();
    fs::set_permissions(place.path().join("client.key"), fs::Permissions::from_mode(0o644)).unwrap();
    let tls = "url = \"mqtts://127.0.0.1:1\"\nca = \"gateway-authority.pem\"\nclient_certificate = \"gateway.pem\"\n\
               client_key = \"client.key\"";
    let said = place.check(&GOOD.replace("url = \"mqtt://127.0.0.1:1\"", tls));
    assert!(said.contains("`broker.client_key`, can be read by everybody"), "{said}");
}

#[test]
fn a_key_that_does_not_fit_the_clients_certificate_is_told_once() {
    let place = Place::new();
    fs::create_dir(place.path().join("other")).unwrap();
    Identities { pki: Pki::named("another authority") }.write_gateway(&place.path().join("other"), GATEWAY);
    let tls = "url = \"mqtts://127.0.0.1:1\"\nca = \"gateway-authority.pem\"\nclient_certificate = \"gateway.pem\"\n\
               client_key = \"other/gateway.key\"";
    let said = place.check(&GOOD.replace("url = \"mqtt://127.0.0.1:1\"", tls));
    let (_, reason) = said.lines().nth(1).unwrap().rsplit_once(": ").unwrap();
    assert!(said.contains("\ngateway.toml: cannot set up TLS to the broker: "), "{said}");
    assert_eq!(said.matches(reason).count(), 1, "{said}");
    assert!(said.ends_with("exit code 2"), "{said}");
}

#[test]
fn lists_of_meters_are_checked_line_by_line() {
    let place = Place::new();
    place.write("north.allow", "m-1\nm-2 # the second\n\n  M-3\n");
    let said = place.check(&with("[clusters.north]", "allow_file = \"north.allow\""));
    place.write("north.allow", "m-1\nm-2 # the second\n\n  # m-3\n");
    let too_few = place.check(&with("[clusters.north]", "allow_file = \"north.allow\""));
    insta::assert_snapshot!(format!("{said}\n\n{too_few}"));
}

#[test]
fn an_address_beyond_the_loopback_is_warned_of_until_it_has_tls_and_a_login() {
    let place = Place::new();
    place.write_certificate();
    place.write_secret("access.toml", ACCESS);
    let (tls, login) = ("tls_certificate = \"http.pem\"\ntls_key = \"http.key\"", "access_file = \"access.toml\"");
    let both = format!("{tls}\n{login}\nopen = [\"metrics\"]");
    let proxy = format!("{tls}\n[http.proxy]\naddresses = [\"10.1.2.3\"]");
    let open = "everybody who reaches 0.0.0.0:9464 sees every page and number";
    for (lines, summary, warnings) in [
        ("", "without TLS, without a login", &[open, "pages and numbers travel in clear"][..]),
        (tls, "with TLS, without a login", &[open]),
        (
            login,
            "without TLS, for 1 user and 2 tokens; open to all: health",
            &["passwords, tokens and pages travel in clear"],
        ),
        (&both, "with TLS, for 1 user and 2 tokens; open to all: metrics", &[]),
        (&proxy, "with TLS, for whom the proxy names; open to all: health", &[]),
    ] {
        let said = place.check(&format!("{GOOD}[http]\nlisten = \"0.0.0.0:9464\"\n{lines}\n"));
        assert!(said.contains(&format!("  http      0.0.0.0:9464, {summary}\n")), "{said}");
        assert_eq!(said.matches("WARNING").count(), warnings.len(), "{said}");
        assert!(warnings.iter().all(|warning| said.contains(&format!("WARNING: {warning}"))), "{said}");
        assert!(said.ends_with("exit code 0"), "{said}");
    }
    let said = place.check(GOOD);
    assert!(!said.contains("WARNING"), "nobody else reaches the loopback: {said}");
}

/// A user and two tokens. Nobody has these.
const ACCESS: &str = r#"
[users.anna]
password = "$argon2id$v=19$m=19456,t=2,p=1$KJZNIi4ogxWST1eP08ZH+A$vDCcJk/pMVCWU1lCEnjsYVISMuKUqr1d/2hpYudIfm4"
role = "operator"
[tokens.prometheus]
token_sha256 = "070c878271e8c294ee95d556677153b2e0a6ca7541970c4b77eff9163df2c27a"
role = "metrics"
[tokens.tenant]
token_sha256 = "170c878271e8c294ee95d556677153b2e0a6ca7541970c4b77eff9163df2c27a"
role = "viewer"
clusters = ["north"]
"#;

#[test]
fn mistakes_about_who_may_see_what_are_named_and_secrets_are_not_repeated() {
    let place = Place::new();
    place.write_certificate();
    let refused = |lines: &str, expected: &[&str]| {
        let said = place.check(&format!("{GOOD}[http]\n{lines}\n"));
        assert!(said.ends_with("exit code 2"), "{said}");
        assert!(expected.iter().all(|expected| said.contains(expected)), "{said}");
        assert!(!said.contains("hunter2") && !said.contains("5ec7e7"), "{said}");
    };
    refused(
        "operator_listen = \"127.0.0.1:9465\"",
        &["gateway.toml:12: http.operator_listen: replaced by the role `operator`"],
    );
    refused("tls_certificate = \"http.pem\"", &["http.tls_key: missing; `tls_certificate` needs its key"]);
    refused("tls_certificate = \"http.pem\"\ntls_key = \"gateway.key\"", &["does not match the certificate in"]);
    refused(
        "tls_certificate = \"no.pem\"\ntls_key = \"http.key\"",
        &["no.pem, `http.tls_certificate`, cannot be read"],
    );
    refused("open = [\"metrics\"]", &["http.open: has no effect"]);
    refused("access_file = \"none.toml\"", &["none.toml: cannot be read"]);
    refused(
        "[http.proxy]\naddresses = [\"proxy.example\", \"10.0.0.0/33\"]\nuser_header = \"Authorization\"",
        &["`proxy.example` is no address or network", "`10.0.0.0/33` is no address", "http.proxy.user_header: "],
    );
    refused("[http.proxy]", &["http.proxy.addresses: missing"]);
    let proxy = "[http.proxy]\naddresses = [\"10.1.2.3\"]\n";
    // Everybody who is in no group would be an operator.
    for (groups, said) in [("\"\"", "empty"), ("\"ops\", \" \"", "empty"), ("\"ops,grid\"", "`ops,grid` has a comma")] {
        refused(&format!("{proxy}operator_groups = [{groups}]"), &["http.proxy.operator_groups: ", said]);
        refused(&format!("{proxy}viewer_groups = [{groups}]"), &["http.proxy.viewer_groups: ", said]);
    }
    // So would be a user who is called like a group.
    refused(
        &format!("{proxy}groups_header = \"x-forwarded-USER\""),
        &["http.proxy.groups_header: must differ from `user_header`"],
    );
    for everybody in ["0.0.0.0/0", "::/0", "10.1.2.3/0"] {
        refused(
            &format!("[http.proxy]\naddresses = [\"{everybody}\"]"),
            &["http.proxy.addresses: ", "is every address, so that everybody could be anybody"],
        );
    }
    // Clients choose what these say, and proxies pass it on.
    for header in ["X-Forwarded-For", "forwarded", "Connection", "User-Agent", "X-Real-IP"] {
        refused(&format!("{proxy}user_header = \"{header}\""), &["http.proxy.user_header: "]);
    }
    place.write_secret("access.toml", ACCESS);
    refused(
        "access_file = \"access.toml\"\nopen = [\"metric\"]",
        &["`metric` cannot be open; did you mean \"metrics\"?"],
    );
    place.write_secret(
        "access.toml",
        "[users.anna]\npassword = \"hunter2hunter2\"\nrole = \"admin\"\n\
         [tokens.a]\ntoken_sha256 = \"dream_5ec7e7\"\nrole = \"viewer\"\nclusters = [\"nort\"]\n\
         [tokens.b]\nrole = \"viewer\"\ncluster = \"north\"\n",
    );
    refused(
        "access_file = \"access.toml\"",
        &[
            "access.toml:2: users.anna.password: ",
            "`dream-gateway access user` makes one",
            "access.toml:5: tokens.a.token_sha256: ",
            "`dream-gateway access token` makes them",
            "access.toml:8: tokens.b.token_sha256: missing",
            "did you mean `clusters`?",
        ],
    );
    let clusters = ACCESS.replace("[\"north\"]", "[\"nort\"]");
    place.write_secret("access.toml", &clusters);
    refused("access_file = \"access.toml\"", &["there is no cluster or group `nort`; did you mean \"north\"?"]);
    place.write("access.toml", ACCESS);
    fs::set_permissions(place.path().join("access.toml"), fs::Permissions::from_mode(0o644)).unwrap();
    refused("access_file = \"access.toml\"", &["can be read by everybody on this machine (mode 644)", "chmod 600"]);
}

#[test]
fn the_environment_goes_before_the_file() {
    let place = Place::new();
    let check = ["check-config", "--config", "gateway.toml", "--without-files"];
    let good = [("DREAM_BROKER_URL", "mqtt://[::1]"), ("DREAM_REPLICAS", "3"), ("DREAM_ORDINAL", "2")];
    let host = [("DREAM_REPLICAS", "3"), ("HOSTNAME", "gateway-1")];
    let bad = [("DREAM_REPLICAS", "many"), ("DREAM_LOG_FORMAT", "xml"), ("DREAM_GATEWAY_PORT", "tcp://10.0.0.1:80")];
    let said = [&good[..], &host[..], &bad[..]].map(|variables| place.say_with(&check, variables));
    insta::assert_snapshot!(said.join("\n\n"));
}

#[test]
fn what_is_wrong_with_the_store_is_told() {
    let place = Place::new();
    let mut said = Vec::new();
    place.write("gateway.redb", "something else");
    said.push(place.say(&["run", "--config", "gateway.toml"]));
    fs::remove_file(place.path().join("gateway.redb")).unwrap();
    let store = dream_gateway::store::FileStore::open(&place.path().join("gateway.redb"), 4).unwrap();
    said.push(place.say(&["run", "--config", "gateway.toml"]));
    said.push(place.say(&["export", "--config", "gateway.toml"]));
    drop(store);
    said.push(place.say(&["export", "--config", "gateway.toml"]));
    said.push(place.say(&["export", "--store", "other.redb"]));
    said.push(place.say(&["export", "--store", "gateway.redb", "--cluster", "north"]));
    said.push(place.say(&["export", "--store", "gateway.redb", "--from", "yesterday"]));
    let said: Vec<String> = said.iter().map(|said| without_times(said)).collect();
    insta::assert_snapshot!(said.join("\n\n"));
}

/// Log lines start with the time.
fn without_times(said: &str) -> String {
    let line = |line: &str| line.split_once("Z  ").map_or(line, |(_, rest)| rest).to_owned();
    said.lines().map(line).collect::<Vec<_>>().join("\n")
}
