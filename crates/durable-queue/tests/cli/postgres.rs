//! The program on a database of `PostgreSQL`.

use std::env;

use ::postgres::{Client, NoTls};

use crate::program;

const VARIABLE: &str = "DURABLE_POSTGRES_URL";

/// A database of the test's own, for the program uses the schema that all have.
struct Database {
    server: Client,
    name: String,
    address: String,
}

impl Database {
    fn new() -> Option<Self> {
        let address = env::var(VARIABLE).ok()?;
        let mut server = Client::connect(&address, NoTls).unwrap();
        let name = format!("cli_{}", std::process::id());
        server
            .batch_execute(&format!("CREATE DATABASE {name}"))
            .unwrap();
        Some(Self {
            server,
            address: format!("{address}?dbname={name}"),
            name,
        })
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
        let password = self.address.split([':', '@']).nth(2).unwrap();
        let shown = format!("{output:?}");
        assert!(!shown.contains(password), "the password is shown");
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let text = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        let dropped = self.server.batch_execute(&text);
        assert!(dropped.is_ok() || std::thread::panicking(), "{dropped:?}");
    }
}

/// Left out without a server, as those of `tests/stores`, which say so.
#[test]
fn jobs_in_a_database_of_postgres_are_pushed_listed_and_cancelled() {
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
}
