//! Our stores and the yardsticks, in the comparison of durable queues.

mod bare;
mod ours;

use durable_queue::{PostgresStore, RedisStore, SqliteStore};
use stores::{Can, Contender, Needs, Outcome, Queue};

use bare::{Insert, Memory, Set};
use ours::Ours;

/// As many as there are clients at a time.
const SESSIONS: usize = 16;

fn main() {
    stores::main(&[
        Contender {
            name: "ours, PostgreSQL",
            needs: Needs::Postgres,
            open: |address| postgres(address, true),
            can: Can::All,
        },
        Contender {
            name: "ours, Redis",
            needs: Needs::Redis,
            open: |address| redis(address, true),
            can: Can::All,
        },
        Contender {
            name: "ours, SQLite",
            needs: Needs::Folder,
            open: |address| sqlite(address, true),
            can: Can::All,
        },
        Contender {
            name: "ours unconfirmed, PostgreSQL",
            needs: Needs::Postgres,
            open: |address| postgres(address, false),
            can: Can::Start,
        },
        Contender {
            name: "ours unconfirmed, Redis",
            needs: Needs::Redis,
            open: |address| redis(address, false),
            can: Can::Start,
        },
        Contender {
            name: "ours unconfirmed, SQLite",
            needs: Needs::Folder,
            open: |address| sqlite(address, false),
            can: Can::Start,
        },
        Contender {
            name: "bare INSERT, PostgreSQL",
            needs: Needs::Postgres,
            open: |address| Ok(Box::new(Insert::open(address, SESSIONS)?)),
            can: Can::Push,
        },
        Contender {
            name: "bare HSET, Redis",
            needs: Needs::Redis,
            open: |address| Ok(Box::new(Set::open(address, SESSIONS)?)),
            can: Can::Push,
        },
        Contender {
            name: "bare DelayQueue, memory",
            needs: Needs::Nothing,
            open: |_| Ok(Box::new(Memory::new())),
            can: Can::KeepTime,
        },
    ]);
}

/// `confirms`: the store is asked before a job starts.
fn sqlite(path: &str, confirms: bool) -> Outcome<Box<dyn Queue>> {
    let path = path.to_owned();
    Ok(Box::new(Ours::new(confirms, move || {
        Ok(SqliteStore::open(&path)?)
    })?))
}

fn postgres(address: &str, confirms: bool) -> Outcome<Box<dyn Queue>> {
    let address = address.to_owned();
    let open = move || {
        let options = PostgresStore::options().sessions(SESSIONS);
        Ok(options.open(&address)?)
    };
    Ok(Box::new(Ours::new(confirms, open)?))
}

fn redis(address: &str, confirms: bool) -> Outcome<Box<dyn Queue>> {
    let address = address.to_owned();
    let open = move || {
        let options = RedisStore::options().sessions(SESSIONS);
        Ok(options.open(&address)?)
    };
    Ok(Box::new(Ours::new(confirms, open)?))
}
