//! The program `durable-queue`, as run by a shell.
#![cfg(not(anthill_loom))]
#![expect(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

#[cfg(all(feature = "tls", any(feature = "postgres", feature = "redis")))]
mod encrypting;
mod fates;
mod limits;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod servers;

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use durable_queue::{DurableQueue, NewJob, Store as _, StoreTime, When};
use durable_queue_sqlite::SqliteStore;
use durable_queue_tests::alike::{JOB, claim_of};
use durable_queue_tests::support::Folder;
use serde_json::{Value, json};

/// A temporary file, and the program that uses it.
struct Shell(Folder);

impl Shell {
    fn new() -> Self {
        Self(Folder::new())
    }

    fn file(&self) -> PathBuf {
        self.0.file("jobs")
    }

    fn queue(&self) -> DurableQueue<String, SqliteStore> {
        DurableQueue::new("mails", SqliteStore::open(self.file()).unwrap())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = program();
        let address = format!("sqlite:{}", self.file().display());
        command.args(["--store", &address, "--queue", "mails"]);
        command.args(arguments);
        command
    }

    /// Returns its output, after checking its exit status.
    fn run(&self, status: i32, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        assert_eq!(output.stderr.is_empty(), status == 0, "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn ok(&self, arguments: &[&str]) -> String {
        self.run(0, arguments)
    }

    /// Returns the JSON objects that it prints.
    fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let text = self.ok(&[arguments, &["--json"]].concat());
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_durable-queue"));
    command.env_remove("DURABLE_QUEUE_STORE");
    command.stdin(Stdio::null());
    command
}

fn feed(mut command: Command, input: &str) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn pushed_jobs_are_listed_in_order_and_can_be_taken() {
    let shell = Shell::new();
    assert_eq!(shell.ok(&["push", "later", "--in", "2d"]), "pushed 1\n");
    shell.ok(&["push", "now", "--", "--and now"]);
    shell.ok(&["push", "then", "--at", "2131-05-01T09:00:00.5+02:00"]);
    let listed = shell.json(&["list"]);
    let states: Vec<_> = listed.iter().map(|job| &job["state"]).collect();
    assert_eq!(states, ["available", "available", "scheduled", "scheduled"]);
    let ids: Vec<_> = listed
        .iter()
        .map(|job| job["id"].as_u64().unwrap())
        .collect();
    assert_eq!(ids, [2, 3, 1, 4]);
    assert_eq!(listed[3]["at"], "2131-05-01T07:00:00.500000Z");
    let text = shell.ok(&["list", "--most", "2"]);
    assert_eq!(text.lines().count(), 3, "a head and two lines");

    let queue = shell.queue();
    let taken = queue.take().unwrap();
    assert_eq!(*taken, "now");
    let running = &shell.json(&["list", "--most", "9"])[1];
    assert_eq!(
        (&running["state"], &running["attempts"]),
        (&"running".into(), &1.into())
    );
    assert_eq!(running["cancelled"], false);
    assert_eq!(shell.run(3, &["cancel", "2"]), "", "a handler has it");
    testkit::block_on(taken.cancelled());
    assert_eq!(shell.json(&["list"])[1]["cancelled"], true);
    assert!(shell.ok(&["list"]).contains("  (cancelled)\n"));
    taken.ack().unwrap();
}

#[test]
fn open_jobs_and_dead_letters_are_listed_with_their_kinds() {
    let shell = Shell::new();
    shell.ok(&["push", "of no kind"]);
    let queue = shell.queue();
    let mail = NewJob {
        kind: Some("send\nmail"),
        ..JOB
    };
    queue.store().enqueue(queue.name(), &[mail]).unwrap();
    let kinds = |command: &str| -> Vec<Value> {
        let lines = shell.json(&[command]);
        lines.iter().map(|job| job["kind"].clone()).collect()
    };
    assert_eq!(kinds("list"), [Value::Null, "send\nmail".into()]);
    let shown = r"  (kind send\nmail)";
    let listed = shell.ok(&["list"]);
    let lines: Vec<bool> = listed.lines().map(|it| it.ends_with(shown)).collect();
    assert_eq!(lines, [false, false, true], "a head, and a job of no kind");

    for _ in 0..2 {
        queue.take().unwrap().bury("no").unwrap();
    }
    assert_eq!(kinds("dead"), [Value::Null, "send\nmail".into()]);
    assert!(shell.ok(&["dead"]).ends_with(&format!("no{shown}\n")));
}

#[test]
fn an_urgent_push_is_listed_as_urgent_and_taken_first() {
    let shell = Shell::new();
    shell.ok(&["push", "first"]);
    shell.ok(&["push", "urgent", "--urgent"]);
    let key = ["push", "pending", "--key", "key", "--in", "1h"];
    assert_eq!(shell.ok(&key), "3 new\n");
    let merge = [&key[..], &["--urgent", "--merge", "latest"]].concat();
    assert_eq!(shell.ok(&merge), "3 merged\n");
    shell.ok(&[
        "push",
        "hourly",
        "--key",
        "0",
        "--cron",
        "0 * * * *",
        "--urgent",
    ]);
    let listed = shell.json(&["list"]);
    let urgent = |list: &[Value]| list.iter().map(|job| job["urgent"] == true).collect();
    let of_all: Vec<bool> = urgent(&listed);
    assert_eq!(of_all, [false, true, true, true]);
    let text = shell.ok(&["list"]);
    assert_eq!(
        text.lines()
            .filter(|line| line.ends_with("  (urgent)"))
            .count(),
        3
    );

    let queue = shell.queue();
    let taken = queue.take().unwrap();
    assert_eq!((&**taken, taken.is_urgent()), ("urgent", true));
    taken.bury("no").unwrap();
    let dead: Vec<bool> = urgent(&shell.json(&["dead"]));
    assert_eq!(dead, [true]);
    assert!(shell.ok(&["dead"]).ends_with("no  (urgent)\n"));
    shell.ok(&["redrive", "2"]);
    let redriven = queue.take().unwrap();
    assert!(redriven.is_urgent());
    assert_eq!(*queue.take().unwrap(), "first");
    redriven.ack().unwrap();
}

#[test]
fn each_line_of_standard_input_is_pushed_as_a_job() {
    let shell = Shell::new();
    let lines: Vec<_> = (0..2_500).map(|line| format!("line {line}")).collect();
    let output = feed(shell.command(&["push"]), &lines.join("\n"));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(output.stdout, b"pushed 2500\n");
    assert_eq!(shell.json(&["list"]).len(), 100);
    let ids: Vec<_> = shell.json(&["list", "--all"]);
    let ids = ids.iter().map(|job| job["id"].as_u64().unwrap());
    assert!(ids.eq(1..=2_500));
    assert_eq!(*shell.queue().take().unwrap(), "line 0");
}

#[test]
fn a_job_is_merged_reset_and_cancelled_by_its_key() {
    let shell = Shell::new();
    let push = |merge: &str, time: &str| {
        let flags = [
            "push", "job", "--key", "k\u{7}", "--merge", merge, "--in", time,
        ];
        shell.json(&flags)[0]["state"].clone()
    };
    assert_eq!(push("keep", "1h"), "new");
    assert_eq!(push("keep", "2h"), "kept");
    assert_eq!(push("earliest", "500ms"), "merged");
    assert_eq!(shell.json(&["list"])[0]["key"], "k\u{7}");
    let text = shell.ok(&["list"]);
    assert!(
        !text.contains('\u{7}'),
        "no bell for the terminal: {text:?}"
    );
    shell.ok(&["reset", "--key", "k\u{7}", "--at", "2131-05-01T00:00:00Z"]);
    assert_eq!(
        shell.json(&["list"])[0]["at"],
        "2131-05-01T00:00:00.000000Z"
    );
    shell.ok(&["cancel", "--key", "k\u{7}"]);
    shell.run(3, &["cancel", "--key", "k\u{7}"]);
    shell.run(3, &["reset", "1"]);
}

#[test]
fn a_repeating_job_is_pushed_with_a_pattern_and_cancelled_by_its_key() {
    let shell = Shell::new();
    let push = ["push", "job", "--key", "k", "--cron", "0 0 1 1 *"];
    assert_eq!(shell.json(&push)[0]["state"], "new");
    assert_eq!(shell.json(&push)[0]["state"], "merged");
    let listed = &shell.json(&["list"])[0];
    assert_eq!(listed["schedule"], "0 0 1 1 *");
    assert!(
        listed["at"]
            .as_str()
            .unwrap()
            .ends_with("-01-01T00:00:00.000000Z")
    );
    assert!(shell.ok(&["list"]).contains("(0 0 1 1 *)"));
    shell.ok(&["cancel", "--key", "k"]);
    for wrong in ["often", "CRON_TZ=Moon/Sea @daily"] {
        shell.run(2, &["push", "job", "--key", "k", "--cron", wrong]);
    }
    shell.run(2, &["push", "job", "--cron", "@daily"]);
}

#[test]
fn dead_letters_are_listed_redriven_and_purged() {
    let shell = Shell::new();
    shell.ok(&["push", "a", "b", "c"]);
    let queue = shell.queue();
    for _ in 0..3 {
        queue.take().unwrap().bury("no\nluck").unwrap();
    }
    let dead = shell.json(&["dead"]);
    assert_eq!(dead.len(), 3);
    assert_eq!(
        (&dead[0]["error"], &dead[0]["attempts"]),
        (&"no\nluck".into(), &1.into())
    );
    assert_eq!(shell.ok(&["dead"]).lines().count(), 4, "each on a line");
    assert_eq!(shell.ok(&["redrive", "1", "1"]), "redriven 1\n");
    assert_eq!(shell.ok(&["re-drive", "--all"]), "redriven 2\n");
    assert_eq!(shell.run(3, &["redrive", "--all"]), "redriven 0\n");
    for _ in 0..3 {
        queue.take().unwrap().bury("again").unwrap();
    }
    assert_eq!(shell.ok(&["purge", "3"]), "purged 1\n");
    assert_eq!(shell.ok(&["purge", "--all"]), "purged 2\n");
    assert_eq!(shell.run(3, &["purge", "--all"]), "purged 0\n");
}

#[test]
fn failed_attempts_are_listed_if_asked_before_and_after_a_burial() {
    let shell = Shell::new();
    shell.ok(&["push", "job"]);
    let queue = shell.queue();
    let fail = |reason: &str| {
        let taken = queue.take().unwrap();
        taken.retry_after(When::NOW, reason).unwrap();
    };
    let failures = |command: &str| {
        assert!(shell.json(&[command])[0].get("failures").is_none());
        shell.json(&[command, "--failures"])[0]["failures"].clone()
    };
    assert_eq!(failures("list"), json!([]));
    let plain = shell.ok(&["list"]);
    assert_eq!(shell.ok(&["list", "--failures"]), plain);
    fail("no\nluck");
    fail("no\u{7}thing");
    let listed = failures("list");
    let error = |number: usize| (&listed[number]["attempt"], &listed[number]["error"]);
    assert_eq!(error(0), (&1.into(), &"no\nluck".into()));
    assert_eq!(error(1), (&2.into(), &"no\u{7}thing".into()));
    assert!(listed[0]["at"].as_str().unwrap().ends_with('Z'));
    let text = shell.ok(&["list", "--failures", "--most", "9"]);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 4, "a head, the job, and its attempts: {text}");
    assert!(lines[2].ends_with("Z  attempt 1: no\\nluck"), "{text}");
    assert!(lines[3].ends_with("Z  attempt 2: no\\u{7}thing"), "{text}");

    queue.take().unwrap().bury("no").unwrap();
    let buried = failures("dead");
    assert_eq!(buried.as_array().unwrap().len(), 3);
    assert_eq!(buried[2]["error"], "no");
    let text = shell.ok(&["dead", "--all", "--failures"]);
    assert_eq!(text.lines().count(), 5, "{text}");
}

#[test]
fn the_dead_letter_of_a_repeating_job_shows_its_pattern() {
    let shell = Shell::new();
    shell.ok(&["push", "job", "--key", "k", "--cron", "0 0 1 1 *"]);
    shell.ok(&["push", "once"]);
    shell.ok(&["reset", "--key", "k"]);
    let queue = shell.queue();
    for _ in 0..2 {
        queue.take().unwrap().bury("no").unwrap();
    }
    let dead = shell.json(&["dead"]);
    let schedules: Vec<_> = dead.iter().map(|dead| &dead["schedule"]).collect();
    assert_eq!(schedules, [&Value::from("0 0 1 1 *"), &Value::Null]);
    assert!(shell.ok(&["dead"]).contains("no  (0 0 1 1 *)\n"));
}

/// One object per line, and nothing else. A missing job has no object, only an exit status.
#[test]
fn each_command_prints_its_changes_as_json() {
    let shell = Shell::new();
    let one = |arguments: &[&str]| {
        let objects = shell.json(arguments);
        assert_eq!(objects.len(), 1, "{arguments:?}");
        objects[0].clone()
    };
    let none = |arguments: &[&str]| shell.run(3, &[arguments, &["--json"]].concat());
    assert_eq!(one(&["push", "a", "b", "c"]), json!({ "pushed": 3 }));
    let output = feed(shell.command(&["push", "--json", "--in", "1h"]), "d\ne\n");
    assert_eq!(output.stdout, b"{\"pushed\":2}\n");
    assert_eq!(one(&["cancel", "4"]), json!({ "cancelled": 1 }));
    assert_eq!(none(&["cancel", "4"]), "");
    assert_eq!(one(&["reset", "5", "--in", "2h"]), json!({ "moved": 1 }));
    assert_eq!(none(&["reset", "4"]), "");
    let queue = shell.queue();
    for _ in 0..3 {
        queue.take().unwrap().bury("no").unwrap();
    }
    assert_eq!(one(&["redrive", "1"]), json!({ "redriven": 1 }));
    assert_eq!(none(&["redrive", "1"]), "{\"redriven\":0}\n");
    assert_eq!(one(&["purge", "2"]), json!({ "purged": 1 }));
    assert_eq!(one(&["purge", "--all"]), json!({ "purged": 1 }));
    assert_eq!(none(&["purge", "--all"]), "{\"purged\":0}\n");
    assert_eq!(shell.json(&["pause"]), [Value::Null; 0]);
    assert_eq!(one(&["stats"])["paused"], true);
    assert_eq!(shell.json(&["resume"]), [Value::Null; 0]);
    assert_eq!(one(&["stats"])["jobs"], 2);
}

#[test]
fn a_pause_is_shown_in_stats_and_applies_to_all_processes() {
    let shell = Shell::new();
    shell.ok(&["push", "job"]);
    shell.ok(&["push", "job", "--in", "1h"]);
    shell.ok(&["pause"]);
    assert_eq!(
        shell.ok(&["stats"]),
        "2 jobs, 1 of them due, 0 dead letters, paused\n"
    );
    let queue = shell.queue();
    assert!(queue.take_timeout(std::time::Duration::ZERO).is_err());
    shell.ok(&["resume"]);
    assert_eq!(
        shell.ok(&["watch", "--once"]),
        "2 jobs, 1 of them due, 0 dead letters\n"
    );
    let figures = &shell.json(&["watch", "--once"])[0];
    assert_eq!(
        (&figures["due"], &figures["paused"]),
        (&1.into(), &false.into())
    );
    drop(queue.take().unwrap());
}

/// So that an operator sees a kind that no process takes.
#[test]
fn due_jobs_of_each_kind_are_shown_in_stats() {
    struct Report;
    impl durable_queue::Kind for Report {
        const NAME: &'static str = "a\u{1b}report";
    }
    impl durable_queue::Payload for Report {
        fn encode(&self) -> Result<std::borrow::Cow<'_, [u8]>, durable_queue::EncodeError> {
            Ok(std::borrow::Cow::Borrowed(b""))
        }

        fn decode(_: Vec<u8>) -> Result<Self, durable_queue::DecodeError> {
            Ok(Self)
        }
    }
    let shell = Shell::new();
    shell.ok(&["push", "job"]);
    let reports = shell.queue().kind::<Report>();
    for _ in 0..2 {
        reports.push(Report, durable_queue::When::NOW).unwrap();
    }
    assert_eq!(
        shell.ok(&["stats"]),
        "3 jobs, 3 of them due, 0 dead letters\nDue by kind:\n2  a\\u{1b}report\n"
    );
    let figures = &shell.json(&["stats"])[0];
    assert_eq!(figures["due_of_kinds"]["a\u{1b}report"], 2);
}

#[test]
fn ordered_groups_apply_to_all_processes_and_are_listed() {
    let shell = Shell::new();
    let queue = shell.queue();
    shell.ok(&["limit", "ordered"]);
    shell.ok(&["push", "first", "--group", "a\tgroup"]);
    let first = queue.take().unwrap();
    shell.ok(&["push", "second", "--group", "a\tgroup", "--key", "key"]);
    let claim = Some(claim_of(1));
    let turn = queue.store().turn(queue.name(), &[], claim).unwrap();
    assert!(turn.claimed.unwrap().leases.is_empty());
    let listed = || -> Vec<_> {
        let listed = shell.json(&["list"]);
        let states = listed.iter().map(|job| job["state"].clone());
        assert!(listed.iter().all(|job| job["group"] == "a\tgroup"));
        states.collect()
    };
    assert_eq!(listed(), ["running", "waiting"]);
    assert!(shell.ok(&["list"]).contains("key  (group a\\tgroup)\n"));
    first.bury("lost").unwrap();
    assert_eq!(listed(), ["available"]);
    let second = queue.take().unwrap();
    second
        .retry_after(std::time::Duration::from_secs(3_600), "later")
        .unwrap();
    assert_eq!(listed(), ["retryable"]);
    assert_eq!(shell.json(&["dead"])[0]["group"], "a\tgroup");
    assert!(shell.ok(&["dead"]).contains("lost  (group a\\tgroup)\n"));
}

/// Until it is done.
#[test]
fn a_push_can_be_kept_by_a_started_job() {
    let shell = Shell::new();
    let push = |merge: &str| {
        let push = ["push", "job", "--key", "key", "--merge", merge];
        shell.json(&push)[0]["state"].clone()
    };
    assert_eq!(push("keep-until-done"), "new");
    let job = shell.queue().take().unwrap();
    assert_eq!(push("keep-until-done"), "kept");
    assert_eq!(push("keep-done"), "kept");
    job.ack().unwrap();
    assert_eq!(push("keep-done"), "new");
}

#[test]
fn watch_ends_quietly_when_its_reader_has_gone() {
    let shell = Shell::new();
    shell.ok(&["push", "job"]);
    let mut watch = shell.command(&["watch", "--every", "1ms"]);
    let watch = watch.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut watch = watch.spawn().unwrap();
    drop(watch.stdout.take());
    let ended = testkit::watchdog(testkit::LIMIT, move || watch.wait_with_output().unwrap());
    assert!(
        ended.status.success() && ended.stderr.is_empty(),
        "{ended:?}"
    );
}

#[test]
fn an_invalid_command_is_reported_with_its_own_status() {
    let shell = Shell::new();
    shell.ok(&["push", "job"]);
    for wrong in [
        &["push", "job", "--in", "1h", "--at", "2131-05-01T00:00:00Z"][..],
        &["push", "job", "--in", "soon"],
        &["push", "job", "--in", "-1h"],
        &["push", "job", "--at", "tomorrow"],
        &["push", "job", "--merge", "keep"],
        &["push", "job", "--key", "k", "--merge", "somehow"],
        &["push", "--key", "k"],
        &["cancel"],
        &["cancel", "1", "--key", "k"],
        &["redrive"],
        &["purge", "1", "--all"],
        &["list", "--most", "1", "--all"],
        &["dance"],
        &[],
    ] {
        assert_eq!(shell.run(2, wrong), "", "{wrong:?}");
    }
    assert_eq!(shell.json(&["list"]).len(), 1, "and does nothing");
}

#[test]
fn only_a_push_creates_a_missing_store() {
    let shell = Shell::new();
    for command in ["list", "stats", "pause", "limits"] {
        shell.run(3, &[command]);
    }
    assert!(!shell.file().exists());
    fs::write(
        shell.file(),
        "not a database, but long enough to look like one".repeat(100),
    )
    .unwrap();
    shell.run(1, &["list"]);
}

#[test]
fn the_address_may_be_in_the_environment_and_is_never_shown() {
    let shell = Shell::new();
    shell.ok(&["push", "job"]);
    let mut command = program();
    command.env(
        "DURABLE_QUEUE_STORE",
        format!("sqlite:{}", shell.file().display()),
    );
    let output = command
        .args(["--queue", "mails", "stats"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");

    for secret in [
        "postgres://me:hunter2@127.0.0.1:1/jobs",
        "redis://me:hunter2@127.0.0.1:1/0",
        "rediss://me:hunter2@127.0.0.1:1/0",
        "unknown://me:hunter2@127.0.0.1:1/0",
    ] {
        for arguments in [
            &["--store", secret, "--queue", "mails", "stats"][..],
            &["--store", secret, "--queue", "mails", "dance"],
            &["--store", secret, "stats"],
            &[
                "--store", secret, "--store", secret, "--queue", "mails", "stats",
            ],
            &["--queue", "mails", "stats", "--help"],
        ] {
            let mut command = program();
            command.env("DURABLE_QUEUE_STORE", secret);
            let output = command.args(arguments).output().unwrap();
            assert!(!format!("{output:?}").contains("hunter2"), "{output:?}");
        }
    }
}

#[test]
fn no_command_shows_payloads() {
    let shell = Shell::new();
    shell.ok(&["push", "hunter2", "--key", "k"]);
    let queue = shell.queue();
    let mut shown = shell.ok(&["list"]) + &shell.ok(&["list", "--json"]);
    queue.take().unwrap().bury("no luck").unwrap();
    for command in [&["dead"][..], &["show", "1"]] {
        shown += &(shell.ok(command) + &shell.ok(&[command, &["--json"]].concat()));
    }
    assert!(
        shown.contains("no luck") && !shown.contains("hunter2"),
        "{shown}"
    );
}

#[test]
fn extreme_times_are_shown() {
    let shell = Shell::new();
    let queue = shell.queue();
    queue.push("job".to_owned(), StoreTime::NEVER).unwrap();
    let past = When::At(StoreTime::from_micros(i64::MIN));
    queue.push("job".to_owned(), past).unwrap();
    let listed = shell.json(&["list"]);
    assert_eq!(
        (&listed[0]["at"], &listed[1]["at"]),
        (&"ever".into(), &"never".into())
    );
}
