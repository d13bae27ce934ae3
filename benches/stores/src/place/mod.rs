//! Where the jobs of one run lie: a database or folder that is there for it alone.

mod postgres;
mod redis;

use std::env;
use std::fs;
use std::path::PathBuf;

use crate::contender::Outcome;

use self::postgres::Database;
use self::redis::Keys;

/// Names the address of a server of `PostgreSQL`.
pub const POSTGRES: &str = "DURABLE_POSTGRES_URL";
/// Names the address of a server of `Redis`.
const REDIS: &str = "DURABLE_REDIS_URL";

/// What has to be there for a contender.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// It is in memory.
    Nothing,
    /// On a disk: beside this program.
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

    /// Makes a place for one run.
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

/// It is gone when this is dropped.
pub enum Place {
    Nothing,
    Folder(PathBuf),
    Postgres(Box<Database>),
    Redis(Box<Keys>),
}

impl Place {
    /// What a contender is opened with.
    pub fn address(&self) -> String {
        match self {
            Self::Nothing => String::new(),
            Self::Folder(folder) => folder.join("jobs").display().to_string(),
            Self::Postgres(database) => database.address().to_owned(),
            Self::Redis(keys) => keys.address().to_owned(),
        }
    }

    /// Waits until no session is left, so that all of them have handed in what they counted; then
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

    /// As they are, where they are this run's alone: a server of Redis counts for all databases, and
    /// others may run beside this one. Queries and the log are exact; syncs lack what open sessions
    /// have not handed in.
    pub fn counts(&mut self) -> Outcome<Counts> {
        match self {
            Self::Postgres(database) => database.counts(),
            Self::Nothing | Self::Folder(_) | Self::Redis(_) => Ok(Counts::default()),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What is left then lies below the target directory, or goes with the server.
        match self {
            Self::Nothing => {}
            Self::Folder(folder) => drop(fs::remove_dir_all(folder)),
            Self::Postgres(database) => drop(database.remove()),
            Self::Redis(keys) => drop(keys.remove()),
        }
    }
}

/// What a server has counted so far; none of what it does not count.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    /// Round trips, but for those that are sent together: of `PostgreSQL` the statements of clients in
    /// this database, of `Redis` the reads of sockets (a long message may take several).
    pub queries: Option<f64>,
    /// Of the log, by all databases.
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
