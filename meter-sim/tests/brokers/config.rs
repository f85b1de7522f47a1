//! The files of `broker-config/` that no broker reads here: those of EMQX, and what the script that writes users refuses.

use std::path::Path;
use std::process::Command;

use dream_testkit::lab::brokers::Shipped;

/// The file keeps to what HOCON and TOML have in common.
#[test]
fn the_configuration_for_emqx_is_well_formed() {
    let shipped = Shipped::read("emqx/dream.conf");
    let config: toml::Table = toml::from_str(shipped.text()).unwrap();
    let tls = &config["listeners"]["ssl"]["default"]["ssl_options"];
    assert_eq!((tls["verify"].as_str(), tls["fail_if_no_peer_cert"].as_bool()), (Some("verify_peer"), Some(true)));
    assert_eq!(config["mqtt"]["peer_cert_as_username"].as_str(), Some("cn"));
    assert_eq!(config["authorization"]["no_match"].as_str(), Some("deny"));
    assert_eq!(config["authorization"]["sources"][0]["type"].as_str(), Some("file"));
}

/// Erlang reads it as EMQX does: terms, each a rule.
#[test]
fn the_rights_for_emqx_are_well_formed_and_name_whom_they_allow_and_end_with_a_denial() {
    let rights = |path: &Path| {
        let program = format!(
            "{{ok, Rules}} = file:consult({:?}), \
             Good = fun({{allow, Who, Action, [[_ | _] | _] = Topics}}) -> \
                      element(1, Who) =:= username andalso \
                      lists:member(Action, [publish, subscribe]) andalso lists:all(fun(Topic) -> is_list(Topic) end, Topics); \
                    (Rule) -> Rule =:= {{deny, all}} end, \
             true = lists:all(Good, Rules), {{deny, all}} = lists:last(Rules), \
             io:format(\"~p\", [length(Rules)]), halt(0).",
            path.display().to_string()
        );
        let mut erlang = Command::new("erl");
        erlang.args(["-noshell", "-eval", &program]).env("ERL_CRASH_DUMP", "/dev/null");
        let output = erlang.output().expect("this test needs `erl`: apt-get install rabbitmq-server");
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    };
    let path = Shipped::path("emqx/dream.acl");
    assert_eq!(rights(&path), (true, "6".to_owned()));

    let broken = tempfile::NamedTempFile::new().unwrap();
    Shipped::read("emqx/dream.acl").with("{deny, all}.", "{deny, all}").write(broken.path());
    assert!(!rights(broken.path()).0, "a missing full stop is noticed");
}

#[test]
fn names_that_would_mean_something_else_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).unwrap();
        name.to_owned()
    };
    let cases = [
        (file("wide.allow", "m-1\n*\n"), "gw-1", "wide.allow:2: `*` is no id"),
        (file("quote.allow", "m\"1\n"), "gw-1", "is no id"),
        (file("twice.allow", "m-1\nm-1\n"), "gw-1", "`m-1` is there twice"),
        (file("same.allow", "gw-1\n"), "gw-1", "`gw-1` is there twice"),
        (file("replica.allow", "gw-1-0\n"), "gw-1", "`gw-1-0` is a client id of the gateway"),
        (file("good.allow", "m-1\n"), ".*", "--gateway: `.*` is no id"),
        (file("meters.txt", "m-1\n"), "gw-1", "name the file after its cluster"),
    ];
    for broker in ["nats", "rabbitmq"] {
        for (file, gateway, complaint) in &cases {
            let (good, said) = users(folder.path(), &[broker, "--gateway", gateway, file]);
            assert!(!good && said.contains(complaint), "{broker} {file} {gateway}: {said}");
        }
        for (observer, complaint) in [
            ("gw", "--observer: client ids of the observer `gw` begin with `gw-`, as `gw-1` does"),
            ("gw-1-0", "--observer: `gw-1-0` is a client id of the gateway; rename the observer"),
            ("m", "good.allow:1: client ids of the observer `m` begin with `m-`, as `m-1` does"),
        ] {
            let (good, said) =
                users(folder.path(), &[broker, "--gateway", "gw-1", "--observer", observer, "good.allow"]);
            assert!(!good && said.contains(complaint), "{broker} {observer}: {said}");
        }
        let (good, said) = users(folder.path(), &[broker, "--gateway", "gw-1", "--observer", "g", "good.allow"]);
        assert!(good, "{said}");
        let (good, said) = users(folder.path(), &[broker, "good.allow"]);
        assert!(!good && said.contains("--gateway gw-1"), "{said}");
    }
    let (good, said) = users(folder.path(), &["emqx", "--gateway", "gw-1", "good.allow"]);
    assert!(!good && said.contains("users rabbitmq --gateway gw-1"), "{said}");
}

fn users(folder: &Path, arguments: &[&str]) -> (bool, String) {
    let output = Command::new(Shipped::path("users")).current_dir(folder).args(arguments).output().unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}
