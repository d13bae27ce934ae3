//! Which store the processes share: a file in the folder of the run, or a server.

use std::path::Path;
use std::time::Duration;

use durable_queue::Store;

use crate::version::{PostgresStore, RedisStore, SqliteStore};

/// Names the server to the processes that are killed, whose arguments all users see.
pub(crate) const SERVER: &str = "DURABLE_CRASH_SERVER";

/// The file, in the folder of the run.
pub(crate) const FILE: &str = "jobs";

/// What is done on whichever store it is.
pub(crate) trait Role {
    fn play<S: Store + Clone>(self, store: S);
}

/// On the server of this address, or else on the file.
pub(crate) fn play(server: Option<&str>, folder: &Path, role: impl Role) {
    match server {
        None => {
            // The kills are what is tested, not the disk; a stopped process may hold the lock for long.
            let store = SqliteStore::options().busy_timeout(Duration::from_secs(30));
            role.play(store.open(folder.join(FILE)).unwrap());
        }
        Some(address) if address.starts_with("postgres") => {
            role.play(PostgresStore::open(address).unwrap());
        }
        Some(address) if address.starts_with("redis") => {
            let open = || RedisStore::open(address);
            // A stop interrupts the process in its calls of the system.
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
