//! `dream-meter authority`.

use super::{answer, run};

#[test]
fn help_explains_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let commands = ["", "init ", "invite ", "import ", "serve ", "sign ", "renew ", "list ", "judge "];
    let help = |command: &&str| answer(folder.path(), &format!("authority {command}--help"));
    insta::assert_snapshot!(commands.iter().map(help).collect::<Vec<_>>().join("\n"));
}

#[test]
fn a_meter_is_certified_once_and_renewed_late() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let mut said = String::new();
    let mut say = |line: &str| said += &format!("$ dream-meter {line}\n{}\n", answer(at, line));
    say("authority init --name Riverside --gateway gw-1");
    say("enrol --directory home --meter m-0007");
    say("authority sign m-0007 home/meter.csr --cluster riverside --size 25 --days 90 --out m-0007.pem");
    say("authority sign m-0007 home/meter.csr --cluster riverside --size 25");
    say("authority renew m-0007");
    say("authority renew m-0008");
    say("authority list");
    insta::assert_snapshot!(said);
}

#[test]
fn every_mistake_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let mut said = String::new();
    let mut say = |line: &str| said += &format!("$ dream-meter {line}\n{}\n", answer(at, line));
    say("authority list");
    say("authority init --name Riverside");
    say("authority init --name Riverside --gateway gw-1 --days 0");
    run(at, "authority init --name Riverside --gateway gw-1");
    let mut say = |line: &str| said += &format!("$ dream-meter {line}\n{}\n", answer(at, line));
    say("authority init --name Riverside --gateway gw-1");
    say("authority sign m-1 nothing.csr --cluster riverside --size 25");
    std::fs::write(at.join("text.csr"), "hello").unwrap();
    say("authority sign m-1 text.csr --cluster riverside --size 25");
    run(at, "enrol --directory home --meter m-1");
    let mut say = |line: &str| said += &format!("$ dream-meter {line}\n{}\n", answer(at, line));
    say("authority sign m-1 home/meter.csr --cluster riverside --size 0");
    say("authority sign m-1 home/meter.csr --cluster River --size 25");
    say("authority sign m-1 home/meter.csr --cluster riverside --size 25 --days 4000");
    say("authority sign m-2 home/meter.csr --cluster riverside --size 25");
    std::fs::write(at.join("authority/reserved"), "gw-1\nm-1\n").unwrap();
    say("authority sign m-1 home/meter.csr --cluster riverside --size 25");
    std::fs::write(at.join("gateway.key"), "").unwrap();
    say("authority list");
    insta::assert_snapshot!(said);
}
