//! The program on databases of servers.

#[cfg(feature = "postgres")]
use crate::databases::Postgres;
#[cfg(feature = "redis")]
use crate::databases::Redis;
use crate::program;

/// What it writes, if it ends with this status. The address is from the environment, as a password
/// is to be given.
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

#[cfg(feature = "postgres")]
#[test]
fn jobs_in_a_database_of_postgres_are_pushed_listed_and_cancelled() {
    if let Some(database) = Postgres::new() {
        jobs_are_pushed_listed_and_cancelled(&database.address);
    }
}

#[cfg(feature = "redis")]
#[test]
fn jobs_on_a_server_of_redis_are_pushed_listed_and_cancelled() {
    if let Some(database) = Redis::new(15) {
        jobs_are_pushed_listed_and_cancelled(&database.address);
    }
}
