//! A new user's path: the commands of the README from top to bottom, on a Mosquitto of this machine.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use dream_testkit::lab::command::{seen, succeed};
use dream_testkit::lab::mosquitto::Mosquitto;
use dream_testkit::lab::process::Process;

/// Returns the commands in the fences of a section.
fn commands(section: &str) -> Vec<String> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md")).unwrap();
    let (_, rest) = text.split_once(&format!("# {section}\n")).unwrap_or_else(|| panic!("no section {section}"));
    let section = rest.split("\n##").next().unwrap();
    let fences = section.split("```\n").skip(1).step_by(2).flat_map(str::lines);
    let known = ["cargo ", "meter-sim ", "dream-gateway ", "target/release/"];
    fences.filter(|line| known.iter().any(|known| line.starts_with(known))).map(str::to_owned).collect()
}

/// A user with the programs on the path and nothing else.
struct User {
    folder: tempfile::TempDir,
    path: String,
}

impl User {
    fn new() -> Self {
        let programs = PathBuf::from(env!("CARGO_BIN_EXE_meter-sim")).parent().unwrap().to_owned();
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        Self { folder: tempfile::tempdir().unwrap(), path }
    }

    fn shell(&self, line: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-euc", line]).current_dir(self.folder.path()).env("PATH", &self.path);
        command
    }
}

#[test]
fn the_demo_of_the_readme_shows_a_sum() {
    let user = User::new();
    let [demo] = commands("See it run").try_into().unwrap();
    let line = demo.replace("cargo run --release -p dream-meter-sim --", "meter-sim");
    assert_eq!(line, "meter-sim demo");
    let begun = Instant::now();
    let shown = succeed(&mut user.shell(&format!("{line} --slots 1")));
    assert!(shown.contains("4 of 4 slots gave a sum.") && shown.ends_with("Verdict: all is well.\n"), "{shown}");
    // Reported, not asserted: nextest shows it with --no-capture.
    #[expect(clippy::print_stderr, reason = "a measurement")]
    {
        eprintln!("from the start of the built binary to the first sum: {:.1} s", begun.elapsed().as_secs_f64());
    }
}

#[test]
fn the_trial_of_the_readme_decodes_slots_on_a_broker_of_ones_own() {
    let (user, mosquitto) = (User::new(), Mosquitto::start());
    let [build, provision, gateway, meters] = commands("Try it on your own broker").try_into().unwrap();
    assert!(build.starts_with("cargo build --release -p dream-gateway -p dream-meter-sim"), "{build}");
    let here = |line: &str| line.replace("mqtt://broker.example", &mosquitto.access().url());
    // A minute is long for a test.
    let short = here(&provision).replace("--slot-seconds 60", "--slot-seconds 5");
    assert_ne!(short, here(&provision));
    succeed(&mut user.shell(&short));
    assert_eq!(gateway, "dream-gateway run --config trial/gateway.toml");
    let serve = vec!["-euc".into(), format!("cd {}; exec {gateway}", user.folder.path().display())];
    let mut serving = Process::new("gateway", "/bin/sh".into(), serve, user.folder.path())
        .with_environment(vec![("PATH", user.path.clone()), ("DREAM_HTTP_LISTEN", "127.0.0.1:0".to_owned())]);
    serving.start();
    let output = File::create(user.folder.path().join("meters.txt")).unwrap();
    let run = format!("timeout 200 {} --slots 2", here(&meters));
    let played = user.shell(&run).stdout(output.try_clone().unwrap()).stderr(Stdio::from(output)).status().unwrap();
    let shown = std::fs::read_to_string(user.folder.path().join("meters.txt")).unwrap();
    assert!(played.success() && shown.contains("Verdict: all is well."), "{shown}\n{}", serving.printed());
    assert!(serving.stop().success(), "{}", serving.printed());
}

#[test]
fn the_gateways_commands_of_the_readme_say_what_they_should() {
    let user = User::new();
    let lines = commands("Run a gateway");
    let [_, plan, check, run] = lines.as_slice() else { panic!("four commands, not {lines:?}") };
    let line = |line: &str| line.replace("target/release/", "");
    assert!(succeed(&mut user.shell(&line(plan))).contains("600"), "{plan}");
    // Without a configuration both say that there is none.
    for line in [line(check), line(run)] {
        let said = seen(&mut user.shell(&line));
        assert!(said.contains("gateway.toml"), "{line}: {said}");
    }
}
