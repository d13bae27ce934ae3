//! The program with databases on servers.

use std::time::Duration;

use durable_queue::{DurableQueue, Store};
#[cfg(feature = "postgres")]
use durable_queue_postgres::PostgresStore;
#[cfg(feature = "redis")]
use durable_queue_redis::RedisStore;

use crate::program;
#[cfg(feature = "postgres")]
use durable_queue_tests::databases::Postgres;
#[cfg(feature = "redis")]
use durable_queue_tests::databases::Redis;

/// Returns its output, after checking its exit status. The address is in the environment, as recommended for
/// passwords.
fn run(address: &str, status: i32, arguments: &[&str]) -> String {
    let mut command = program();
    command.env("DURABLE_QUEUE_STORE", address);
    let output = command
        .args(["--queue", "mails"])
        .args(arguments)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(status), "{output:?}");
    let password = address.split([':', '@']).nth(2).unwrap();
    let shown = format!("{output:?}");
    assert!(!shown.contains(password), "the password is shown");
    String::from_utf8(output.stdout).unwrap()
}

fn jobs_are_pushed_listed_and_cancelled(address: &str) {
    let push = ["push", "report", "--key", "daily", "--cron", "0 3 * * *"];
    assert_eq!(run(address, 0, &push), "1 new\n");
    let listed = run(address, 0, &["list", "--json"]);
    let job: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!((&job["id"], &job["key"]), (&1.into(), &"daily".into()));
    let cancel = ["cancel", "--key", "daily"];
    assert_eq!(run(address, 0, &cancel), "cancelled 1\n");
    run(address, 3, &cancel);
}

/// Runs all commands that change something, and checks their JSON.
fn changes_are_printed_as_json(address: &str, store: impl Store) {
    let json =
        |status, arguments: &[&str]| run(address, status, &[arguments, &["--json"]].concat());
    assert_eq!(json(0, &["push", "a", "b"]), "{\"pushed\":2}\n");
    let listed = json(0, &["list"]);
    let ids: Vec<String> = listed
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].to_string())
        .collect();
    let [first, last] = [&*ids[0], &*ids[1]];
    assert_eq!(json(0, &["reset", first, "--in", "1h"]), "{\"moved\":1}\n");
    assert_eq!(json(0, &["pause"]), "");
    assert!(json(0, &["watch", "--once"]).contains("\"paused\":true"));
    assert_eq!(json(0, &["resume"]), "");
    for id in [first, last] {
        assert_eq!(json(0, &["cancel", id]), "{\"cancelled\":1}\n");
    }
    assert_eq!(json(0, &["push", "a", "b"]), "{\"pushed\":2}\n");
    let queue: DurableQueue<Vec<u8>, _> = DurableQueue::new("mails", store);
    let buried = [(); 2].map(|()| {
        let taken = queue.take().unwrap();
        let id = taken.id().as_u64().to_string();
        taken.bury("no").unwrap();
        id
    });
    assert_eq!(json(0, &["dead"]).lines().count(), 2);
    assert_eq!(json(0, &["redrive", &buried[0]]), "{\"redriven\":1}\n");
    assert_eq!(json(3, &["redrive", &buried[0]]), "{\"redriven\":0}\n");
    assert_eq!(json(0, &["purge", "--all"]), "{\"purged\":1}\n");
    assert_eq!(json(3, &["purge", "--all"]), "{\"purged\":0}\n");
    queue.take().unwrap().ack().unwrap();
    assert!(json(0, &["stats"]).contains("\"jobs\":0"));
}

fn limits_and_fates_are_shown(address: &str, store: impl Store) {
    for limit in [
        &["per-group", "2"][..],
        &["per-kind", "mail", "4"],
        &["rate-of-kind", "mail", "100", "--per", "90s"],
    ] {
        assert_eq!(run(address, 0, &[&["limit"], limit].concat()), "");
    }
    let limits = "per-group 2\nper-kind mail 4\nrate-of-kind mail 100 --per 1m30s\n";
    assert_eq!(run(address, 0, &["limits"]), limits);
    for limit in [
        &["per-group"][..],
        &["per-kind", "mail"],
        &["rate-of-kind", "mail"],
    ] {
        run(address, 0, &[&["limit"], limit, &["--off"]].concat());
    }
    assert_eq!(run(address, 0, &["limits"]), "");

    let queue = DurableQueue::<String, _>::builder("mails", store);
    let queue = queue.keep_done(Duration::from_secs(600)).build().unwrap();
    run(address, 0, &["push", "done", "dead"]);
    let [done, dead] = [(); 2].map(|()| queue.take().unwrap());
    let [of_done, of_dead] = [&done, &dead].map(|taken| taken.id().as_u64().to_string());
    let show = |status, id: &str| run(address, status, &["show", id]);
    assert_eq!(show(0, &of_done), format!("{of_done} open\n"));
    done.set_result("a result").unwrap();
    done.ack().unwrap();
    dead.bury("no").unwrap();
    assert!(show(0, &of_done).contains(", result of 8 bytes, "));
    assert_eq!(run(address, 0, &["show", &of_done, "--result"]), "a result");
    assert_eq!(show(0, &of_dead), format!("{of_dead} dead: no\n"));
    show(3, "1000000");
}

/// It reports an error, and does not send anything unencrypted.
#[cfg(feature = "postgres")]
fn a_server_that_requires_tls_is_rejected_without_the_feature(address: &str) {
    let mut command = program();
    command.env("DURABLE_QUEUE_STORE", format!("{address}&sslmode=require"));
    let output = command
        .args(["--queue", "mails", "stats"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("TLS"), "{said}");
}

#[cfg(feature = "postgres")]
#[test]
fn each_command_works_on_postgres() {
    if let Some(database) = Postgres::new("cli") {
        jobs_are_pushed_listed_and_cancelled(&database.address);
        let open = || PostgresStore::open(&database.address).unwrap();
        changes_are_printed_as_json(&database.address, open());
        limits_and_fates_are_shown(&database.address, open());
        a_server_that_requires_tls_is_rejected_without_the_feature(&database.address);
    }
}

#[cfg(feature = "redis")]
#[test]
fn each_command_works_on_redis() {
    if let Some(database) = Redis::new(15) {
        jobs_are_pushed_listed_and_cancelled(&database.address);
        let open = || RedisStore::open(&database.address).unwrap();
        changes_are_printed_as_json(&database.address, open());
        limits_and_fates_are_shown(&database.address, open());
    }
}
