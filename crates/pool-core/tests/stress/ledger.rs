//! Who was handed over, what came of it, and that nobody was lost, run twice or dropped twice.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use pool_core::Stats;

use crate::job::Id;

/// Every task of a round. All orderings are relaxed: the books are read after every thread that
/// writes to them has been joined.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<Vec<Arc<Entry>>>);

#[derive(Default)]
struct Entry {
    runs: AtomicU32,
    drops: AtomicU32,
    /// Runs that were to count as panicked.
    panics: AtomicU32,
    said: AtomicU8,
}

/// What the caller was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Said {
    /// It was never handed over.
    Nothing,
    Accepted,
    Refused,
    /// Accepted, and then cancelled.
    Cancelled,
    /// Its future was dropped: accepted or not, nobody was told.
    Dropped,
}

/// One task's line in the ledger.
pub(crate) struct Token {
    id: Id,
    spawned: bool,
    entry: Arc<Entry>,
}

impl Ledger {
    pub(crate) fn token(&self, spawned: bool) -> Token {
        let mut entries = self.entries();
        let entry = Arc::<Entry>::default();
        entries.push(Arc::clone(&entry));
        Token {
            id: entries.len() - 1,
            spawned,
            entry,
        }
    }

    pub(crate) fn say(&self, id: Id, said: Said) {
        self.entries()[id].said.store(said as u8, Relaxed);
    }

    /// At the end, when every thread is gone. `released` came back from `release_now`.
    pub(crate) fn check(&self, stats: Option<&Stats>, released: Option<u64>) {
        let entries = self.entries();
        let (mut ran, mut panicked) = (0, 0);
        let mut by_said = [0_u64; 5];
        let mut left = 0; // Accepted for certain, neither run nor cancelled.
        for (id, entry) in entries.iter().enumerate() {
            let (runs, drops) = (entry.runs.load(Relaxed), entry.drops.load(Relaxed));
            let said = entry.said.load(Relaxed);
            assert_eq!(
                drops, 1,
                "drops of {id}, which was told {said} and ran {runs} times"
            );
            assert!(runs <= 1, "{id} ran {runs} times");
            if [Said::Nothing, Said::Refused, Said::Cancelled]
                .map(|s| s as u8)
                .contains(&said)
            {
                assert_eq!(runs, 0, "{id} was told {said}");
            }
            left += u64::from(said == Said::Accepted as u8 && runs == 0);
            by_said[usize::from(said)] += 1;
            ran += u64::from(runs);
            panicked += u64::from(entry.panics.load(Relaxed));
        }
        let [_, accepted, refused, cancelled, dropped] = by_said;
        if let Some(released) = released {
            assert!(
                left <= released,
                "{left} tasks were accepted and never ended"
            );
            assert!(
                released <= left + dropped,
                "{released} came back, {left} left"
            );
        }
        if let Some(stats) = stats {
            assert_eq!(stats.in_flight, 0);
            assert_eq!(stats.completed + stats.panicked, ran);
            assert_eq!(stats.panicked, panicked);
            assert_eq!(stats.cancelled, cancelled);
            assert_eq!(Some(stats.released), released);
            let ended = ran + stats.cancelled + stats.released;
            assert_eq!(stats.submitted, ended, "at rest");
            let calls = accepted + refused + cancelled + dropped;
            assert_eq!(
                stats.submitted + stats.refused,
                calls,
                "each call has one answer"
            );
        }
    }

    fn entries(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Entry>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Token {
    pub(crate) fn id(&self) -> Id {
        self.id
    }

    pub(crate) fn is_spawned(&self) -> bool {
        self.spawned
    }

    /// The task runs, and will panic or not.
    pub(crate) fn runs(&self, panics: bool) {
        self.entry.runs.fetch_add(1, Relaxed);
        self.entry.panics.fetch_add(u32::from(panics), Relaxed);
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.entry.drops.fetch_add(1, Relaxed);
    }
}
