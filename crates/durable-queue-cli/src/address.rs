//! The store's address, from the command line or the environment.

use std::path::{Path, PathBuf};

use durable_queue_sqlite::SqliteStore;

use crate::failure::Failure;

/// Environment variable with the address, if the command line has none.
const VARIABLE: &str = "DURABLE_QUEUE_STORE";

pub(crate) enum Address {
    Sqlite(PathBuf),
    #[cfg(feature = "postgres")]
    Postgres(String),
    #[cfg(feature = "redis")]
    Redis(String),
}

/// Returns the kinds of stores that the program supports.
fn kinds() -> String {
    let mut kinds = "unknown kind of store, expected sqlite:PATH".to_owned();
    for (is_there, kind) in [
        (
            cfg!(feature = "postgres"),
            "postgres://USER:PASSWORD@HOST/DATABASE",
        ),
        (cfg!(feature = "redis"), "redis://USER:PASSWORD@HOST/NUMBER"),
    ] {
        if is_there {
            kinds.push_str(", or ");
            kinds.push_str(kind);
        }
    }
    kinds
}

impl Address {
    /// Parses the address. Errors do not contain it, because it may contain a password.
    pub(crate) fn find(given: Option<String>) -> Result<Self, Failure> {
        let usage = |text: &str| Failure::Usage(text.to_owned());
        let found = given.or_else(|| std::env::var(VARIABLE).ok());
        let found = found
            .ok_or_else(|| Failure::Usage(format!("--store or {VARIABLE} must name the store")))?;
        match found.split_once(':') {
            Some(("sqlite", path)) if !path.is_empty() => Ok(Self::Sqlite(path.into())),
            Some(("sqlite", _)) => Err(usage("the store's path is missing, expected sqlite:PATH")),
            #[cfg(feature = "postgres")]
            Some(("postgres" | "postgresql", _)) => Ok(Self::Postgres(found)),
            #[cfg(feature = "redis")]
            Some(("redis" | "rediss" | "valkey" | "valkeys" | "redis+unix" | "valkey+unix", _)) => {
                Ok(Self::Redis(found))
            }
            _ => Err(Failure::Usage(kinds())),
        }
    }
}

pub(crate) fn open_sqlite(path: &Path, makes_it: bool) -> Result<SqliteStore, Failure> {
    if !makes_it && !path.try_exists()? {
        return Err(Failure::Nothing("there is no such file".to_owned()));
    }
    Ok(SqliteStore::options().watch_every(None).open(path)?)
}
