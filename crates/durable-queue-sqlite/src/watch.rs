//! How a store learns about commits of other connections.
//!
//! [`writes`](super::writes), or the pump's polling, decides when to look.

use std::mem;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use durable_queue::internals::ANYTHING;
use durable_queue::store::{Result, Watch};
use durable_queue::{Notifier, Registration};

use super::statements::find;
use super::writes::Listening;
use super::{Shared, SqliteStore, WATCH_EVERY, Watching};

impl Shared {
    /// Returns a number that changes with commits of other connections, but not of this one.
    fn data_version(&self) -> Result<i64> {
        let link = self.link()?;
        let version = find(&link.connection, "PRAGMA data_version", [], |row| {
            row.get(0)
        })?;
        Ok(version.unwrap_or(0))
    }
}

impl SqliteStore {
    /// Calls all notifiers after commits of other connections from now on. Returns `None` if the system has
    /// no file notifications, or there is no log, as in memory.
    fn listen(&self) -> Option<Arc<Listening>> {
        // Read before the first look of the thread and of the caller.
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
                // There were commits, or the query failed, which the pump's next call will find out.
                store.notifiers.notify_all(ANYTHING);
            }
            true
        };
        let listening = Arc::new(Listening::start(&log, look).ok()?);
        *place = Arc::downgrade(&listening);
        Some(listening)
    }
}

/// Detects commits of other connections.
pub(super) struct FileWatch {
    _registration: Registration,
    /// If set, calls the notifiers.
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
