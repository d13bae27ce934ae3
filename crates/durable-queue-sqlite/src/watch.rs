//! How a store in a file learns of what other connections commit.
//!
//! Not for: when to look. [`writes`](super::writes) has that, or the pump, by looks at intervals.

use std::mem;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use durable_queue::internals::ANYTHING;
use durable_queue::store::{Result, Watch};
use durable_queue::{Notifier, Registration};

use super::writes::Listening;
use super::{Shared, SqliteStore, WATCH_EVERY, Watching, find};

impl Shared {
    /// A number that changes with the commits of others, not with those of this connection.
    fn data_version(&self) -> Result<i64> {
        let link = self.link()?;
        let version = find(&link.connection, "PRAGMA data_version", [], |row| {
            row.get(0)
        })?;
        Ok(version.unwrap_or(0))
    }
}

impl SqliteStore {
    /// From now on all notifiers are called after commits of others. None if the system cannot say
    /// when the log is written, or there is none, as in memory.
    fn listen(&self) -> Option<Arc<Listening>> {
        // Read before the thread's first look, and before the caller's.
        let mut seen = self.0.data_version().ok()?;
        let log = {
            let link = self.0.link().ok()?;
            let file = link.connection.path().filter(|path| !path.is_empty());
            PathBuf::from(format!("{}-wal", file?))
        };
        let mut place = self.0.listening.lock();
        if let Some(listening) = place.upgrade() {
            return Some(listening);
        }
        let store = Arc::downgrade(&self.0);
        let look = move || {
            let Some(store) = store.upgrade() else {
                return false;
            };
            let version = store.data_version();
            if !version.is_ok_and(|version| mem::replace(&mut seen, version) == version) {
                // Or it failed: the pump, which asks then, finds that out.
                store.notifiers.notify_all(ANYTHING);
            }
            true
        };
        let listening = Arc::new(Listening::start(&log, look).ok()?);
        *place = Arc::downgrade(&listening);
        Some(listening)
    }
}

/// Notices commits of other connections.
pub(super) struct FileWatch {
    _registration: Registration,
    /// Calls the notifiers, if it is there.
    _listening: Option<Arc<Listening>>,
    every: Option<Duration>,
    store: SqliteStore,
    seen: i64,
}

impl FileWatch {
    pub(super) fn new(store: &SqliteStore, name: &str, notifier: Notifier) -> Result<Self> {
        let registration = store.0.notifiers.add(name, notifier);
        let (every, listening) = match store.0.watching {
            Watching::Never => (None, None),
            Watching::Every(period) => (Some(period), None),
            Watching::Writes => match store.listen() {
                Some(listening) => (None, Some(listening)),
                None => (Some(WATCH_EVERY), None),
            },
        };
        Ok(Self {
            _registration: registration,
            _listening: listening,
            every,
            seen: store.0.data_version()?,
            store: store.clone(),
        })
    }
}

impl Watch for FileWatch {
    fn every(&self) -> Option<Duration> {
        self.every
    }

    fn look(&mut self) -> Result<bool> {
        let version = self.store.0.data_version()?;
        Ok(mem::replace(&mut self.seen, version) != version)
    }
}
