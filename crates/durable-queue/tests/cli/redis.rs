//! The program on a server of Redis.

use std::env;

use ::redis::{Client, cmd};

use crate::program;

const VARIABLE: &str = "DURABLE_REDIS_URL";
/// A database of the test's own, for the program uses the keys that all have.
const DATABASE: u8 = 15;

struct Database {
    address: String,
    password: String,
}

impl Database {
    fn new() -> Option<Self> {
        let address = env::var(VARIABLE).ok()?;
        let (server, _) = address.rsplit_once('/').unwrap();
        let password = address.split([':', '@']).nth(2).unwrap().to_owned();
        let address = format!("{server}/{DATABASE}");
        let database = Self { address, password };
        database.flush();
        Some(database)
    }

    fn flush(&self) {
        let client = Client::open(&*self.address).unwrap();
        let mut session = client.get_connection().unwrap();
        cmd("FLUSHDB").exec(&mut session).unwrap();
    }

    /// What it writes, if it ends with this status. The address is from the environment, as a password
    /// is to be given.
    fn run(&self, status: i32, arguments: &[&str]) -> String {
        let mut command = program();
        command.env("DURABLE_QUEUE_STORE", &self.address);
        let output = command
            .args(["--queue", "mails"])
            .args(arguments)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        let shown = format!("{output:?}");
        assert!(!shown.contains(&self.password), "the password is shown");
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Left out without a server, as those of `tests/stores`, which say so.
#[test]
fn jobs_on_a_server_of_redis_are_pushed_listed_and_cancelled() {
    let Some(database) = Database::new() else {
        return;
    };
    let push = ["push", "report", "--key", "daily", "--cron", "0 3 * * *"];
    assert_eq!(database.run(0, &push), "1 new\n");
    let listed = database.run(0, &["list", "--json"]);
    let job: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!((&job["id"], &job["key"]), (&1.into(), &"daily".into()));
    assert_eq!(
        database.run(0, &["cancel", "--key", "daily"]),
        "cancelled 1\n"
    );
    database.run(3, &["cancel", "--key", "daily"]);
    database.flush();
}
