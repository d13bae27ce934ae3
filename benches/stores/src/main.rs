//! Our stores and the yardsticks in the comparison of durable queues.

mod bare;
mod ours;
mod outbox;
mod slopes;

use durable_queue_postgres::PostgresStore;
use durable_queue_redis::RedisStore;
use durable_queue_sqlite::SqliteStore;
use stores::{Can, Contender, Needs, Outcome, Queue};

use bare::{Insert, Memory, Set};
use ours::{MANY, ONE, Ours, Way};
use outbox::{Entry, Outbox};

/// As many as there are concurrent clients.
const SESSIONS: usize = 16;

const CONTENDERS: &[Contender] = &[
    Contender {
        name: "ours, PostgreSQL",
        needs: Needs::Postgres,
        open: |address| postgres(address, Way::Confirmed),
        can: Can::All,
    },
    Contender {
        name: "ours, Redis",
        needs: Needs::Redis,
        open: |address| redis(address, Way::Confirmed),
        can: Can::All,
    },
    Contender {
        name: "ours, SQLite",
        needs: Needs::Folder,
        open: |address| sqlite(address, Way::Confirmed),
        can: Can::All,
    },
    Contender {
        name: "ours unconfirmed, PostgreSQL",
        needs: Needs::Postgres,
        open: |address| postgres(address, Way::Unconfirmed),
        can: Can::Start,
    },
    Contender {
        name: "ours unconfirmed, Redis",
        needs: Needs::Redis,
        open: |address| redis(address, Way::Unconfirmed),
        can: Can::Start,
    },
    Contender {
        name: "ours unconfirmed, SQLite",
        needs: Needs::Folder,
        open: |address| sqlite(address, Way::Unconfirmed),
        can: Can::Start,
    },
    Contender {
        name: "ours at the time, PostgreSQL",
        needs: Needs::Postgres,
        open: |address| postgres(address, Way::AtTheTime),
        can: Can::Start,
    },
    Contender {
        name: "ours at the time, Redis",
        needs: Needs::Redis,
        open: |address| redis(address, Way::AtTheTime),
        can: Can::Start,
    },
    Contender {
        name: "ours at the time, SQLite",
        needs: Needs::Folder,
        open: |address| sqlite(address, Way::AtTheTime),
        can: Can::Start,
    },
    Contender {
        name: "ours default batch, PostgreSQL",
        needs: Needs::Postgres,
        open: |address| postgres(address, Way::Adaptive),
        can: Can::Work,
    },
    Contender {
        name: "ours default batch, Redis",
        needs: Needs::Redis,
        open: |address| redis(address, Way::Adaptive),
        can: Can::Work,
    },
    Contender {
        name: "ours default batch, SQLite",
        needs: Needs::Folder,
        open: |address| sqlite(address, Way::Adaptive),
        can: Can::Work,
    },
    Contender {
        name: "ours threads, PostgreSQL",
        needs: Needs::Postgres,
        open: |address| postgres(address, Way::Threads(None)),
        can: Can::Handle,
    },
    Contender {
        name: "ours threads, SQLite",
        needs: Needs::Folder,
        open: |address| sqlite(address, Way::Threads(None)),
        can: Can::Handle,
    },
    Contender {
        name: "ours run_async, batch, PostgreSQL",
        needs: Needs::Postgres,
        open: |address| postgres(address, Way::Run(MANY)),
        can: Can::Handle,
    },
    Contender {
        name: "ours run_async, batch, SQLite",
        needs: Needs::Folder,
        open: |address| sqlite(address, Way::Run(MANY)),
        can: Can::Handle,
    },
    Contender {
        name: "ours start_async, batch, PostgreSQL",
        needs: Needs::Postgres,
        open: |address| postgres(address, Way::Pool(MANY)),
        can: Can::Handle,
    },
    Contender {
        name: "ours start_async, batch, SQLite",
        needs: Needs::Folder,
        open: |address| sqlite(address, Way::Pool(MANY)),
        can: Can::Handle,
    },
    Contender {
        name: "ours threads, one by one, PostgreSQL",
        needs: Needs::Postgres,
        open: |address| postgres(address, Way::Threads(ONE)),
        can: Can::Handle,
    },
    Contender {
        name: "ours threads, one by one, SQLite",
        needs: Needs::Folder,
        open: |address| sqlite(address, Way::Threads(ONE)),
        can: Can::Handle,
    },
    Contender {
        name: "ours run_async, PostgreSQL",
        needs: Needs::Postgres,
        open: |address| postgres(address, Way::Run(None)),
        can: Can::Handle,
    },
    Contender {
        name: "ours run_async, SQLite",
        needs: Needs::Folder,
        open: |address| sqlite(address, Way::Run(None)),
        can: Can::Handle,
    },
    Contender {
        name: "ours start_async, PostgreSQL",
        needs: Needs::Postgres,
        open: |address| postgres(address, Way::Pool(None)),
        can: Can::Handle,
    },
    Contender {
        name: "ours start_async, SQLite",
        needs: Needs::Folder,
        open: |address| sqlite(address, Way::Pool(None)),
        can: Can::Handle,
    },
    Contender {
        name: "bare INSERT, PostgreSQL",
        needs: Needs::Postgres,
        open: |address| Ok(Box::new(Insert::open(address, SESSIONS)?)),
        can: Can::Push,
    },
    Contender {
        name: "ours, push_in",
        needs: Needs::Postgres,
        open: |address| Ok(Box::new(Outbox::open(address, Entry::Push)?)),
        can: Can::Transact,
    },
    Contender {
        name: "ours, durable.push",
        needs: Needs::Postgres,
        open: |address| Ok(Box::new(Outbox::open(address, Entry::Sql)?)),
        can: Can::Transact,
    },
    Contender {
        name: "bare, no job",
        needs: Needs::Postgres,
        open: |address| Ok(Box::new(Outbox::open(address, Entry::None)?)),
        can: Can::Transact,
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
];

fn main() {
    stores::main_with(CONTENDERS, slopes::cases());
}

fn sqlite(path: &str, way: Way) -> Outcome<Box<dyn Queue>> {
    let path = path.to_owned();
    Ok(Box::new(Ours::new(way, move || {
        Ok(SqliteStore::open(&path)?)
    })?))
}

fn postgres(address: &str, way: Way) -> Outcome<Box<dyn Queue>> {
    let address = address.to_owned();
    let open = move || {
        let options = PostgresStore::options().sessions(SESSIONS);
        Ok(options.open(&address)?)
    };
    Ok(Box::new(Ours::new(way, open)?))
}

fn redis(address: &str, way: Way) -> Outcome<Box<dyn Queue>> {
    let address = address.to_owned();
    let open = move || {
        let options = RedisStore::options().sessions(SESSIONS);
        Ok(options.open(&address)?)
    };
    Ok(Box::new(Ours::new(way, open)?))
}
