//! The database or folder that is created for one run.

mod postgres;
mod redis;

use std::env;
use std::fs;
use std::path::PathBuf;

use crate::contender::Outcome;

use self::postgres::Database;
use self::redis::Keys;

/// The environment variable with the address of a `PostgreSQL` server.
pub const POSTGRES: &str = "DURABLE_POSTGRES_URL";
/// The environment variable with the address of a `Redis` server.
const REDIS: &str = "DURABLE_REDIS_URL";

/// The requirement of a contender.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: it is in memory.
    Nothing,
    /// A folder on a disk, next to this program.
    Folder,
    Postgres,
    Redis,
}

impl Needs {
    pub fn are_there(self) -> bool {
        match self {
            Self::Nothing | Self::Folder => true,
            Self::Postgres => env::var_os(POSTGRES).is_some(),
            Self::Redis => env::var_os(REDIS).is_some(),
        }
    }

    /// Creates a place for one run.
    pub fn place(self) -> Outcome<Place> {
        let name = format!("bench_{}", std::process::id());
        Ok(match self {
            Self::Nothing => Place::Nothing,
            Self::Folder => {
                let program = env::current_exe()?;
                let folder = program.parent().ok_or("it lies in a folder")?.join(name);
                fs::create_dir_all(&folder)?;
                Place::Folder(folder)
            }
            Self::Postgres => {
                let database = Database::create(&env::var(POSTGRES)?, name)?;
                Place::Postgres(Box::new(database))
            }
            Self::Redis => Place::Redis(Box::new(Keys::claim(&env::var(REDIS)?)?)),
        })
    }
}

/// The place of one run, which is removed when this is dropped.
pub enum Place {
    Nothing,
    Folder(PathBuf),
    Postgres(Box<Database>),
    Redis(Box<Keys>),
}

impl Place {
    /// The address that a contender is opened with.
    pub fn address(&self) -> String {
        match self {
            Self::Nothing => String::new(),
            Self::Folder(folder) => folder.join("jobs").display().to_string(),
            Self::Postgres(database) => database.address().to_owned(),
            Self::Redis(keys) => keys.address().to_owned(),
        }
    }

    /// Waits until no session is left, because sessions report their counts when they end. Then
    /// reads the counters.
    pub fn settled_counts(&mut self) -> Outcome<Counts> {
        match self {
            Self::Postgres(database) => {
                database.wait_for_sessions()?;
                database.counts()
            }
            Self::Redis(keys) => keys.counts(),
            Self::Nothing | Self::Folder(_) => Ok(Counts::default()),
        }
    }

    /// Reads the counters while sessions are open. A Redis server counts for all databases, so
    /// other runs may be included. Queries and the log are exact; syncs lack the counts of open
    /// sessions.
    pub fn counts(&mut self) -> Outcome<Counts> {
        match self {
            Self::Postgres(database) => database.counts(),
            Self::Nothing | Self::Folder(_) | Self::Redis(_) => Ok(Counts::default()),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // The rest is below the target directory, or is removed with the server.
        match self {
            Self::Nothing => {}
            Self::Folder(folder) => drop(fs::remove_dir_all(folder)),
            Self::Postgres(database) => drop(database.remove()),
            Self::Redis(keys) => drop(keys.remove()),
        }
    }
}

/// The counters of a server, as far as it has them.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    /// Round trips: statements of clients in this database (`PostgreSQL`), or reads of sockets
    /// (`Redis`; a long message may take several). Pipelined calls count as one.
    pub queries: Option<f64>,
    /// Syncs of the log, by all databases.
    pub syncs: Option<f64>,
    /// Bytes of the log, by all databases.
    pub log: Option<f64>,
}

impl Counts {
    pub fn since(self, earlier: Self) -> Self {
        let since = |now: Option<f64>, then: Option<f64>| Some(now? - then?);
        Self {
            queries: since(self.queries, earlier.queries),
            syncs: since(self.syncs, earlier.syncs),
            log: since(self.log, earlier.log),
        }
    }
}
