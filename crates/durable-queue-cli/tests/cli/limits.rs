//! Limits for all processes.

use std::time::Duration;

use durable_queue::Limit;
use serde_json::{Value, json};

use crate::Shell;

fn store() -> Shell {
    let shell = Shell::new();
    shell.ok(&["push", "job"]);
    shell
}

#[test]
fn limits_are_set_listed_replaced_and_removed() {
    let shell = store();
    assert_eq!(shell.ok(&["limits"]), "");
    for set in [
        &["limit", "rate-of-kind", "mail", "100", "--per", "90s"][..],
        &["limit", "per-kind", "report", "9"],
        &["limit", "per-kind", "report", "4"],
        &["limit", "ordered"],
        &["limit", "per-group", "2"],
    ] {
        assert_eq!(shell.ok(set), "");
    }
    let text = "per-group 2\nrate-of-kind mail 100 --per 1m30s\nper-kind report 4\n";
    assert_eq!(shell.ok(&["limits"]), text);
    let listed = [
        json!({ "limit": "per-group", "most": 2 }),
        json!({ "limit": "rate-of-kind", "kind": "mail", "jobs": 100, "per_seconds": 90.0 }),
        json!({ "limit": "per-kind", "kind": "report", "most": 4 }),
    ];
    assert_eq!(shell.json(&["limits"]), listed);
    let queue = shell.queue();
    let in_force = [
        Limit::per_group(2),
        Limit::rate_of_kind("mail", 100, Duration::from_secs(90)),
        Limit::per_kind("report", 4),
    ];
    assert_eq!(queue.limits().unwrap(), in_force);

    for (remove, left) in [
        (&["limit", "per-kind", "report", "--off"][..], 2),
        (&["limit", "per-group", "--off"], 1),
        (&["limit", "rate-of-kind", "other", "--off"], 1),
        (&["limit", "rate-of-kind", "mail", "--off"], 0),
    ] {
        assert_eq!(shell.json(remove), [Value::Null; 0]);
        assert_eq!(queue.limits().unwrap().len(), left, "{remove:?}");
    }
}

#[test]
fn a_listed_limit_is_the_arguments_that_set_it() {
    let shell = store();
    let queue = shell.queue();
    let limits = [
        Limit::per_group(1),
        Limit::rate_of_kind("a", 1, Duration::from_micros(1)),
        Limit::rate_of_kind("b", u32::MAX, Duration::from_secs(90_061)),
        Limit::rate_of_kind("c", 7, Duration::from_micros(3_600_250_001)),
        Limit::per_kind("d", 0),
    ];
    let set = |limit: &Limit| queue.limit(limit).unwrap();
    limits.iter().for_each(set);
    let text = shell.ok(&["limits"]);
    for limit in &limits {
        queue.remove_limit(limit).unwrap();
    }
    for line in text.lines() {
        let arguments: Vec<_> = ["limit"].into_iter().chain(line.split(' ')).collect();
        shell.ok(&arguments);
    }
    assert_eq!(queue.limits().unwrap(), limits);
}

/// Any of them can be turned off by the name of another one.
#[test]
fn each_rule_of_groups_is_listed_by_the_argument_that_sets_it() {
    let shell = store();
    for (argument, other, rule) in [
        ("ordered", "fair", Limit::ordered()),
        ("fair", "ordered", Limit::fair()),
    ] {
        shell.ok(&["limit", argument]);
        assert_eq!(shell.queue().limits().unwrap(), [rule]);
        assert_eq!(shell.ok(&["limits"]), format!("{argument}\n"));
        assert_eq!(shell.json(&["limits"]), [json!({ "limit": argument })]);
        shell.ok(&["limit", other, "--off"]);
        assert_eq!(shell.ok(&["limits"]), "");
    }
}

#[test]
fn the_name_of_a_kind_is_listed_on_one_line() {
    let shell = store();
    shell.ok(&["limit", "per-kind", "two words", "1"]);
    shell.ok(&["limit", "per-kind", "two\nlines", "2"]);
    let text = shell.ok(&["limits"]);
    assert_eq!(text, "per-kind two\\nlines 2\nper-kind \"two words\" 1\n");
    assert_eq!(shell.json(&["limits"])[0]["kind"], "two\nlines");
}

#[test]
fn an_invalid_limit_is_rejected_and_changes_nothing() {
    let shell = store();
    shell.ok(&["limit", "per-group", "2"]);
    for wrong in [
        &["per-group"][..],
        &["per-group", "0"],
        &["per-group", "many"],
        &["per-group", "4294967296"],
        &["per-group", "1", "--off"],
        &["ordered", "1"],
        &["fair", "1"],
        &["per-kind", "mail"],
        &["per-kind", "", "1"],
        &["per-kind", "--off"],
        &["rate-of-kind", "mail"],
        &["rate-of-kind", "mail", "5"],
        &["rate-of-kind", "mail", "--per", "1s"],
        &["rate-of-kind", "mail", "0", "--per", "1s"],
        &["rate-of-kind", "mail", "5", "--per", "0s"],
        &["rate-of-kind", "mail", "5", "--per", "often"],
        &["rate-of-kind", "mail", "5", "--per", "1s", "--off"],
        &["rate-of-kind", "", "--off"],
        &["per-queue", "1"],
        &[],
    ] {
        assert_eq!(shell.run(2, &[&["limit"], wrong].concat()), "", "{wrong:?}");
    }
    assert_eq!(shell.ok(&["limits"]), "per-group 2\n");
    let said = shell.command(&["limit", "rate-of-kind", "mail", "5", "--per", "0s"]);
    let said = { said }.output().unwrap();
    assert!(String::from_utf8(said.stderr).unwrap().contains("--per"));
}
