//! Notifiers: callbacks of stores that announce earlier due times.

use std::fmt;
use std::sync::Arc;

use sync_shim::Mutex;

use crate::store::time::StoreTime;

/// The earliest possible time, for announcements without a time.
pub const ANYTHING: StoreTime = StoreTime::from_micros(i64::MIN);

/// Callback for a store's [`watch`](crate::Store::watch). Clones are the same notifier.
#[derive(Clone)]
pub struct Notifier(Arc<dyn Fn(StoreTime) + Send + Sync>);

impl Notifier {
    /// Creates a notifier that calls `notify` with the earliest new due time. It must not block, nor call a
    /// store.
    pub fn new(notify: impl Fn(StoreTime) + Send + Sync + 'static) -> Self {
        Self(Arc::new(notify))
    }

    /// Announces that a job may be due at `due`, earlier than known. The caller must hold no lock that a call
    /// of the store needs.
    pub fn notify(&self, due: StoreTime) {
        (self.0)(due);
    }
}

impl fmt::Debug for Notifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notifier(..)")
    }
}

/// The notifiers of a store's watches, by queue. For stores that notify from within their own calls.
#[derive(Debug)]
pub struct Notifiers(Arc<Mutex<Registry>>);

#[derive(Debug)]
struct Registry {
    next: u64,
    entries: Vec<(u64, String, Notifier)>,
}

impl Notifiers {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Registry {
            next: 0,
            entries: Vec::new(),
        })))
    }

    /// Adds a notifier, until the returned registration is dropped.
    pub fn add(&self, queue: &str, notifier: Notifier) -> Registration {
        let mut registry = self.0.lock();
        let id = registry.next;
        registry.next += 1;
        registry.entries.push((id, queue.to_owned(), notifier));
        Registration {
            registry: Arc::clone(&self.0),
            id,
        }
    }

    /// Calls the notifiers of a queue. No lock is held.
    pub fn notify(&self, queue: &str, due: StoreTime) {
        self.notify_those(|name| name == queue, due);
    }

    /// Calls the notifiers of all queues, if it is unknown which queue has changed. No lock is held.
    pub fn notify_all(&self, due: StoreTime) {
        self.notify_those(|_| true, due);
    }

    fn notify_those(&self, is_meant: impl Fn(&str) -> bool, due: StoreTime) {
        let called: Vec<Notifier> = {
            let registry = self.0.lock();
            let meant = registry
                .entries
                .iter()
                .filter(|(_, name, _)| is_meant(name));
            meant.map(|(_, _, notifier)| notifier.clone()).collect()
        };
        for notifier in called {
            // USER CODE: a notifier of a caller of `watch`. No lock is held. A panic is that of the thread that notifies.
            notifier.notify(due);
        }
    }
}

impl Default for Notifiers {
    fn default() -> Self {
        Self::new()
    }
}

/// Registration of a notifier. Dropping it removes the notifier, but does not wait for a call in progress.
#[derive(Debug)]
pub struct Registration {
    registry: Arc<Mutex<Registry>>,
    id: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let removed = {
            let mut registry = self.registry.lock();
            let index = registry.entries.iter().position(|(id, ..)| *id == self.id);
            index.map(|index| registry.entries.swap_remove(index))
        };
        // USER CODE: the drop of what the notifier captured. After the unlock.
        drop(removed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registrations_that_are_dropped_in_any_order_leave_nothing() {
        let notifiers = Notifiers::new();
        for _ in 0..10 {
            let name = |n| if n % 2 == 0 { "even" } else { "odd" };
            let add = |n| notifiers.add(name(n), Notifier::new(|_| ()));
            let mut registered: Vec<_> = (0..20).map(add).collect();
            registered.drain(5..15);
            assert_eq!(notifiers.0.lock().entries.len(), 10);
            drop(registered);
            assert_eq!(notifiers.0.lock().entries.len(), 0);
        }
    }
}
