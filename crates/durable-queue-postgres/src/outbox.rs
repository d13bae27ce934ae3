//! Announces jobs that were pushed in transactions of the application, once those are committed (the
//! transactional outbox).
//!
//! `NOTIFY` inside the transaction would do this, but the server serializes the commits of such transactions.
//! So only one push per [`NOTIFY_EVERY`] notifies in its transaction. The transactions of the others are
//! recorded here, and a thread of the store asks the server which of them have ended.
//!
//! # Invariants
//! 1. A job whose push did not notify is announced after the commit of its transaction, unless the process
//!    dies first or the store is dropped before the commit.
//! 2. A transaction that was open for a time `t` is noticed within [`LATE`] of `t`, or [`FIRST_LOOK`] if that
//!    is more.
//! 3. The lock is not held during a call of the store or of a notifier.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use durable_queue::StoreTime;
use durable_queue::internals::{FIRST_PAUSE, LONGEST_PAUSE};
use durable_queue::internals::{SharedClock, called};
use durable_queue::store::Result;
use sync_shim::thread::{ThreadOptions, spawn_service};
use sync_shim::{Clock, Mutex, Parker};

use super::Shared;
use super::session::By;

/// One push of a store per this time notifies in its own transaction, so a process that pushes rarely needs
/// no thread and may end right after its commit.
const NOTIFY_EVERY: Duration = Duration::from_secs(1);
/// Time from a push to the first look at its transaction.
const FIRST_LOOK: Duration = Duration::from_millis(2);
/// Time between two looks at a transaction, as a part of the time that it has been open.
const LATE: u32 = 8;
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// With this many open transactions, each push notifies in its own transaction.
const MOST_OPEN: usize = 10_000;
/// Time for the calls that a drop of the store makes.
const FAREWELL: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Outbox {
    state: Mutex<State>,
    parker: Parker,
    clock: SharedClock,
}

#[derive(Debug, Default)]
struct State {
    notified: Option<Instant>,
    has_thread: bool,
    /// Transactions with unannounced pushes, by transaction id.
    open: BTreeMap<i64, Open>,
    /// When the thread looks next.
    look_at: Option<Instant>,
}

#[derive(Debug)]
struct Open {
    since: Instant,
    /// The earliest due time in each queue.
    queues: Vec<(String, StoreTime)>,
}

impl Outbox {
    pub(super) fn new(clock: SharedClock) -> Self {
        Self {
            state: Mutex::new(State::default()),
            parker: Parker::new(),
            clock,
        }
    }

    /// Returns whether a push has to notify in its transaction. If not, the caller [`add`](Self::add)s it.
    pub(super) fn notifies(&self, shared: &Arc<Shared>) -> bool {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let is_rare = |last: Instant| now.saturating_duration_since(last) >= NOTIFY_EVERY;
        if state.notified.is_none_or(is_rare) || state.open.len() >= MOST_OPEN {
            state.notified = Some(now);
            return true;
        }
        if !state.has_thread {
            let (weak, parker) = (Arc::downgrade(shared), self.parker.clone());
            let options = ThreadOptions {
                name: Some("durable-outbox"),
                ..ThreadOptions::default()
            };
            state.has_thread = spawn_service(options, move || run(&weak, &parker)).is_ok();
        }
        !state.has_thread
    }

    /// Adds a push of a job that is due at `due`.
    pub(super) fn add(&self, transaction: i64, queue: &str, due: StoreTime) {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let open = state.open.entry(transaction).or_insert_with(|| Open {
            since: now,
            queues: Vec::new(),
        });
        match open.queues.iter_mut().find(|(name, _)| name == queue) {
            Some((_, earliest)) => *earliest = due.min(*earliest),
            None => open.queues.push((queue.to_owned(), due)),
        }
        let first_look = now + FIRST_LOOK;
        if state.look_at.is_none_or(|at| at > first_look) {
            state.look_at = Some(first_look);
            drop(state);
            self.parker.unpark();
        }
    }

    /// Removes transactions that have ended, as returned by a look at the `open` ones. Returns the earliest
    /// job of each queue that is now visible.
    fn close(
        &self,
        open: Vec<i64>,
        ended: Result<Vec<(i64, bool)>>,
    ) -> Result<BTreeMap<String, StoreTime>> {
        let ended = match ended {
            Err(error) if error.is_transient() => return Err(error),
            // Perhaps the server was replaced and knows none of them. An unnecessary look is harmless.
            Err(_) => open.into_iter().map(|number| (number, true)).collect(),
            Ok(ended) => ended,
        };
        let mut earliest = BTreeMap::new();
        let mut state = self.state.lock();
        for (number, is_committed) in ended {
            let ended = state.open.remove(&number).filter(|_| is_committed);
            for (queue, due) in ended.into_iter().flat_map(|open| open.queues) {
                let known = earliest.entry(queue).or_insert(due);
                *known = due.min(*known);
            }
        }
        Ok(earliest)
    }

    /// Decides when to look next. `pause` is set if the last look failed.
    fn plan(&self, pause: Option<Duration>) {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let youngest = state.open.values().map(|open| open.since).max();
        state.look_at = youngest.map(|since| {
            let age = now.saturating_duration_since(since);
            now + pause.unwrap_or((age / LATE).clamp(FIRST_LOOK, LONGEST_WAIT))
        });
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.parker.unpark();
    }
}

/// The thread's body. It ends with the store.
fn run(shared: &Weak<Shared>, parker: &Parker) {
    let mut pause = FIRST_PAUSE;
    while let Some(store) = shared.upgrade() {
        let clock = store.outbox.clock.clone();
        let now = clock.now();
        let look_at = store.outbox.state.lock().look_at;
        match look_at {
            Some(at) if at <= now => {
                let looked = store.announce_committed(store.sessions.by_pump(None));
                let failed = looked.is_err().then_some(pause);
                pause = failed.map_or(FIRST_PAUSE, |pause| (pause * 2).min(LONGEST_PAUSE));
                store.outbox.plan(failed);
            }
            Some(at) => {
                drop(store);
                clock.park_until(parker, at);
            }
            None => {
                drop(store);
                parker.park();
            }
        }
    }
}

impl Shared {
    /// Asks which transactions have ended, and announces the jobs of committed ones.
    ///
    /// # Errors
    /// Transient errors.
    fn announce_committed(&self, by: By) -> Result<()> {
        let open: Vec<i64> = self.outbox.state.lock().open.keys().copied().collect();
        if open.is_empty() {
            return Ok(());
        }
        let ended = called(|| self.sessions.ended(by, &open));
        let earliest = self.outbox.close(open, ended)?;
        for (queue, due) in earliest {
            let announced = called(|| {
                self.announce(by, &queue, due, true);
                Ok(())
            });
            announced.ok(); // If a notifier has panicked, the others have been called nevertheless.
        }
        Ok(())
    }

    /// Announces the jobs that are committed when the store is dropped.
    pub(super) fn announce_last(&self) {
        if self.sessions.check_process().is_ok() {
            let by = self.sessions.by_pump_within(FAREWELL);
            self.announce_committed(by).ok();
        }
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use sync_shim::ManualClock;

    use super::*;
    use durable_queue::{ErrorKind, StoreError};

    const AT: StoreTime = StoreTime::from_micros(1_000);

    fn outbox() -> (ManualClock, Outbox) {
        let clock = ManualClock::new();
        (clock.clone(), Outbox::new(SharedClock::new(clock)))
    }

    #[test]
    fn a_transaction_is_looked_at_after_an_eighth_of_its_age() {
        let (clock, outbox) = outbox();
        let look_after = || {
            let at = outbox.state.lock().look_at.expect("one is open");
            at - clock.now()
        };
        outbox.add(1, "queue", AT);
        assert_eq!(look_after(), FIRST_LOOK);
        for (age, expected) in [(8, 2), (80, 10), (8_000, 1_000)] {
            clock.advance(Duration::from_millis(age));
            outbox.plan(None);
            let age = clock.now() - outbox.state.lock().open[&1].since;
            let expected = Duration::from_millis(expected)
                .max(age / LATE)
                .min(LONGEST_WAIT);
            assert_eq!(look_after(), expected);
        }
        // A young transaction is not delayed by an old one.
        outbox.add(2, "queue", AT);
        assert_eq!(look_after(), FIRST_LOOK);
        outbox.plan(Some(FIRST_PAUSE));
        assert_eq!(look_after(), FIRST_PAUSE);
        outbox.state.lock().open.clear();
        outbox.plan(None);
        assert_eq!(outbox.state.lock().look_at, None);
    }

    #[test]
    fn the_earliest_job_of_each_queue_is_announced_when_its_transaction_is_committed() {
        let (_, outbox) = outbox();
        let later = AT.after(Duration::from_secs(1));
        let pushes = [
            (1, "a", later),
            (1, "b", later),
            (1, "a", AT),
            (1, "a", later),
            (2, "b", AT),
            (3, "c", AT),
        ];
        for (transaction, queue, due) in pushes {
            outbox.add(transaction, queue, due);
        }
        let close = |ended| outbox.close(vec![1, 2, 3], ended).map(Vec::from_iter);
        let first = close(Ok(vec![(1, true), (2, false)])).expect("there is an answer");
        assert_eq!(first, [("a".to_owned(), AT), ("b".to_owned(), later)]);
        // A retry may succeed.
        let busy = close(Err(StoreError::lost_answer(ErrorKind::Unavailable)));
        assert_eq!(
            busy.map_err(|error| error.kind()),
            Err(ErrorKind::Unavailable)
        );
        // A retry cannot succeed.
        let lasting = close(Err(StoreError::new(ErrorKind::Other)));
        assert_eq!(lasting.expect("it is over"), [("c".to_owned(), AT)]);
        assert!(outbox.state.lock().open.is_empty());
    }
}
