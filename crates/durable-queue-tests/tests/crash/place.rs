//! The store that the processes share: a file in the run's folder, or a server.

use std::path::Path;
use std::time::Duration;

use durable_queue::Store;

use crate::version::{PostgresStore, RedisStore, SqliteStore};

/// Environment variable with the server's address, because all users can see arguments.
pub(crate) const SERVER: &str = "DURABLE_CRASH_SERVER";

/// Name of the file in the run's folder.
pub(crate) const FILE: &str = "jobs";

/// A part that is played on any store.
pub(crate) trait Role {
    fn play<S: Store + Clone>(self, store: S);
}

/// Plays on the server with this address, or else on the file.
pub(crate) fn play(server: Option<&str>, folder: &Path, role: impl Role) {
    match server {
        None => {
            // The test is about kills, not about the disk. A stopped process may hold the lock for long.
            let store = SqliteStore::options().busy_timeout(Duration::from_secs(30));
            role.play(store.open(folder.join(FILE)).unwrap());
        }
        Some(address) if address.starts_with("postgres") => {
            role.play(PostgresStore::open(address).unwrap());
        }
        Some(address) if address.starts_with("redis") => {
            let open = || RedisStore::open(address);
            // A stop interrupts the process's system calls.
            let store = open().or_else(|error| {
                if error.is_transient() {
                    open()
                } else {
                    Err(error)
                }
            });
            role.play(store.unwrap());
        }
        Some(_) => panic!("no such server is built in"),
    }
}
