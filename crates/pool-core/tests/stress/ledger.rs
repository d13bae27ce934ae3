//! All submitted tasks and their ends. Checks that none was lost, run twice or dropped twice.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pool_core::Stats;

use crate::job::Id;

/// Every task of a round.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<Vec<Arc<Entry>>>);

/// `Relaxed`: the entries are compared after every thread that writes them has ended.
struct Entry {
    runs: AtomicU64,
    drops: AtomicU64,
    /// Runs that must count as panicked.
    panics: AtomicU64,
    said: Mutex<Said>,
}

/// The answer that the caller got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// The task was never submitted.
    Nothing,
    Accepted,
    Refused,
    /// Accepted, and then cancelled.
    Cancelled,
    /// The future was dropped before it had an answer. The task may have been accepted.
    Dropped,
}

/// A task's access to its entry.
pub(crate) struct Token {
    id: Id,
    spawned: bool,
    entry: Arc<Entry>,
}

impl Ledger {
    pub(crate) fn token(&self, spawned: bool) -> Token {
        let mut entries = lock(&self.0);
        let entry = Arc::new(Entry {
            runs: AtomicU64::new(0),
            drops: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            said: Mutex::new(Said::Nothing),
        });
        entries.push(Arc::clone(&entry));
        Token {
            id: entries.len() - 1,
            spawned,
            entry,
        }
    }

    pub(crate) fn say(&self, id: Id, said: Said) {
        *lock(&lock(&self.0)[id].said) = said;
    }

    /// Compares the books once every thread is gone: with the pool's statistics if its end was
    /// waited for, and with the number of tasks that `release_now` returned if that is known.
    pub(crate) fn check(&self, stats: Option<&Stats>, released: Option<u64>) {
        let entries = lock(&self.0);
        for (id, entry) in entries.iter().enumerate() {
            entry.check(id);
        }
        let told = |said: Said| entries.iter().filter(move |entry| entry.said() == said);
        let number = |said| told(said).count() as u64;
        let dropped = number(Said::Dropped);
        let unrun = told(Said::Accepted).filter(|entry| entry.runs() == 0);
        let unrun = unrun.count() as u64;
        if let Some(released) = released {
            assert!(unrun <= released, "{unrun} accepted tasks did not run");
            assert!(released <= unrun + dropped, "{released} were returned");
        }
        if let Some(stats) = stats {
            let ran: u64 = entries.iter().map(|entry| entry.runs()).sum();
            let panicked = entries.iter().map(|entry| entry.panics.load(Relaxed));
            assert_eq!(stats.in_flight, 0);
            assert_eq!(stats.completed + stats.panicked, ran);
            assert_eq!(stats.panicked, panicked.sum::<u64>());
            assert_eq!(stats.cancelled, number(Said::Cancelled));
            assert_eq!(Some(stats.released), released);
            let ended = ran + stats.cancelled + stats.released;
            assert_eq!(stats.submitted, ended, "at rest");
            let calls = entries.len() as u64 - number(Said::Nothing);
            let answers = stats.submitted + stats.refused;
            assert_eq!(answers, calls, "each call has one answer");
        }
    }
}

impl Entry {
    fn runs(&self) -> u64 {
        self.runs.load(Relaxed)
    }

    fn said(&self) -> Said {
        *lock(&self.said)
    }

    fn check(&self, id: Id) {
        let (runs, drops, said) = (self.runs(), self.drops.load(Relaxed), self.said());
        let may_run = matches!(said, Said::Accepted | Said::Dropped);
        assert!(
            drops == 1 && runs <= u64::from(may_run),
            "{id} was answered {said:?}, ran {runs} times and was dropped {drops} times"
        );
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Token {
    pub(crate) fn id(&self) -> Id {
        self.id
    }

    pub(crate) fn is_spawned(&self) -> bool {
        self.spawned
    }

    /// Records a run that will panic or not.
    pub(crate) fn runs(&self, panics: bool) {
        self.entry.runs.fetch_add(1, Relaxed);
        self.entry.panics.fetch_add(u64::from(panics), Relaxed);
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.entry.drops.fetch_add(1, Relaxed);
    }
}
