//! How long a thread polls before it sleeps.
//!
//! Spinning wins if the other thread is running on another core, yielding if it is ready but has no core, sleeping
//! in all other cases. `docs/decisions/waiting.md` has the measurements.

use std::cell::Cell;
use std::time::{Duration, Instant};

use sync_shim::thread::{spin_loop, yield_briefly};
#[cfg(not(anthill_loom))]
use sync_shim::{Clock, MonotonicClock};

/// An effort: `spins` polls in a row, then `yields` polls with other threads let in between.
#[derive(Clone, Copy, Debug)]
pub struct SpinPolicy {
    pub(crate) spins: u32,
    pub(crate) yields: u32,
}

/// Number of polls that replace the yields where yielding would let threads of other programs in. They take about
/// as long as a wake-up.
const INSTEAD: u32 = 200;

/// For a worker without work.
pub(crate) const SEARCH: SpinPolicy = SpinPolicy {
    spins: 16,
    yields: 16,
};

/// For a worker whose last searches were in vain.
pub(crate) const SHORT_SEARCH: SpinPolicy = SpinPolicy {
    spins: 48,
    yields: 0,
};

/// For a submitter at a full pool.
pub(crate) const SUBMIT: SpinPolicy = SpinPolicy {
    spins: 8,
    yields: 16,
};

/// For a thread that joins a task.
pub const JOIN_SPIN: SpinPolicy = SpinPolicy {
    spins: 64,
    yields: 4,
};

/// Polls `ready` until it is true or the effort is spent. Returns the last answer.
pub fn spin_until(policy: SpinPolicy, ready: impl Fn() -> bool) -> bool {
    // A model polls once: further polls without a wake-up would add executions but no outcomes.
    if cfg!(anthill_loom) {
        return ready();
    }
    // Spins first, because a yield is a system call, which does not pay if the wait ends within a few spins.
    if looks(policy.spins, &ready) {
        return true;
    }
    for _ in 0..policy.yields {
        if ready() {
            return true;
        }
        // The rest of the time is spun away, since a yield to another program may take a whole time slice.
        if !yield_briefly(1) {
            return looks(INSTEAD, ready);
        }
    }
    // Once more, because the other thread may have run during the last yield.
    ready()
}

/// Polls `ready` until it is true or `time` has passed on the machine's clock. Returns the start time if it was in
/// vain.
#[cfg(not(anthill_loom))]
pub(crate) fn spin_for(time: Duration, ready: impl Fn() -> bool) -> Option<Instant> {
    let began = MonotonicClock.now();
    loop {
        // In batches, because reading the clock costs as much as several polls.
        if looks(16, &ready) || !yield_briefly(1) && looks(32, &ready) {
            return None;
        }
        if began.elapsed() > time {
            return Some(began);
        }
    }
}

// A model polls once, as in `spin_until`: time must not decide what it explores.
#[cfg(anthill_loom)]
pub(crate) fn spin_for(_: Duration, ready: impl Fn() -> bool) -> Option<Instant> {
    ready();
    None
}

/// Polls `times` times in a row, and once more.
fn looks(times: u32, ready: impl Fn() -> bool) -> bool {
    for _ in 0..times {
        if ready() {
            return true;
        }
        spin_loop();
    }
    ready()
}

/// After `free` failures in a row, each further failure skips the next 1, 2, 4, .. efforts, up to `most`. A success
/// starts over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    /// Failures in a row that skip nothing.
    free: u32,
    /// Maximum number of efforts skipped in a row. A power of two.
    most: u32,
    failures: u32,
    left_out: u32,
}

impl Backoff {
    pub(crate) const fn new(free: u32, most: u32) -> Self {
        Self {
            free,
            most,
            failures: 0,
            left_out: 0,
        }
    }

    /// Whether to make the effort this time.
    pub(crate) fn is_due(&mut self) -> bool {
        let is_due = self.left_out == 0;
        self.left_out = self.left_out.saturating_sub(1);
        is_due
    }

    /// Whether the next effort is skipped.
    #[cfg(all(test, not(anthill_loom)))]
    pub(crate) fn is_left_out(&self) -> bool {
        self.left_out > 0
    }

    /// Records the outcome of an effort.
    pub(crate) fn learn(&mut self, paid: bool) {
        if paid {
            // From the start, because one success shows that the effort pays again.
            *self = Self::new(self.free, self.most);
            return;
        }
        self.failures = self.failures.saturating_add(1);
        if let Some(doublings) = self.failures.checked_sub(self.free + 1) {
            // After 32 doublings the shift would overflow, so the limit takes over.
            let left_out = 1_u32.checked_shl(doublings).unwrap_or(self.most);
            self.left_out = left_out.min(self.most);
        }
    }
}

// How a joining thread and the worker that runs its task poll for each other before they sleep.
//
// If each side has a core, both poll, and a round trip takes half a microsecond. Otherwise a poll that ends just
// before the other side is awake costs its own time and a wake-up, on both sides, in every round trip. The sides
// behave differently then: the joiner sleeps at once, and the worker that woke it polls for as long as the joiner
// may need to submit its next task. `docs/decisions/waiting.md` has the measurements.
//
// Workers that have woken no joiner search as `AdaptiveSpin` says.
//
// # Memory orderings
// None: each thread reads only what it wrote itself.

/// How long a worker that has woken a joiner polls for the next task: about three wake-ups.
const LOOK: Duration = Duration::from_micros(15);

/// A poll in vain still paid if the next task came within this time, even though the worker slept by then.
// Longer than `LOOK`, because the time is taken after the worker has woken up, and that wake-up is part of it.
const SOON: Duration = Duration::from_micros(45);

/// Maximum number of polls that a thread skips in a row.
const MOST_LEFT_OUT: u32 = 64;

sync_shim::thread_locals! {
    // One free failure, so that a thread that joins long and short tasks in turn still polls for the short ones.
    static JOINS: Cell<Backoff> = Cell::new(Backoff::new(1, MOST_LEFT_OUT));
    static HAS_WOKEN_JOINER: Cell<bool> = Cell::new(false);
}

/// Polls `ready` a few times before a join sleeps, unless the last polls of the thread were in vain.
pub fn look_before_join(ready: impl Fn() -> bool) {
    if cfg!(anthill_loom) {
        ready(); // As in `spin_until`.
        return;
    }
    JOINS.with(|joins| {
        let mut backoff = joins.get();
        if backoff.is_due() {
            backoff.learn(spin_until(JOIN_SPIN, ready));
        }
        joins.set(backoff);
    });
}

/// Records that the calling thread, perhaps a worker, has unparked a joiner. `slept`: the joiner was asleep.
pub fn has_unparked_joiner(slept: bool) {
    // A joiner that was still polling needs no time to wake up, so an ordinary search finds its next task.
    if slept {
        HAS_WOKEN_JOINER.with(|woken| woken.set(true));
    }
}

/// Whether this thread has woken a joiner since the last call.
pub fn take_woken_joiner() -> bool {
    HAS_WOKEN_JOINER.with(|woken| woken.replace(false))
}

/// A worker's polls for the next task of joiners that it has woken.
pub(crate) struct JoinerSpin {
    backoff: Backoff,
    /// Start of the last poll, if it was in vain and the worker has slept since.
    began: Option<Instant>,
}

impl JoinerSpin {
    pub(crate) fn new() -> Self {
        Self {
            backoff: Backoff::new(0, MOST_LEFT_OUT),
            began: None,
        }
    }

    /// Polls for work if the worker has woken a joiner since the last call and such polls pay. Returns whether there is
    /// work, or `None` without a poll.
    #[inline(never)]
    pub(crate) fn look(&mut self, ready: impl Fn() -> bool) -> Option<bool> {
        // Taken before the backoff is asked: a skipped poll must not leave the note for a later, unrelated search.
        let has_woken = take_woken_joiner();
        if !has_woken || !self.backoff.is_due() {
            return None;
        }
        self.began = spin_for(LOOK, ready);
        let found = self.began.is_none();
        // A poll in vain is judged by how long the worker then sleeps, which is known only after it (`woke`).
        if found {
            self.backoff.learn(true);
        }
        Some(found)
    }

    /// Records that the worker has slept and was woken.
    pub(crate) fn woke(&mut self) {
        if let Some(began) = self.began.take() {
            self.learn(began.elapsed());
        }
    }

    /// Judges a poll in vain by the time from its start to the end of the worker's sleep.
    fn learn(&mut self, until: Duration) {
        self.backoff.learn(until <= SOON);
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod backoff_tests {
    use super::*;

    /// How many efforts are left out after another failure.
    fn left_out_after_failure(backoff: &mut Backoff) -> u32 {
        assert!(backoff.is_due());
        backoff.learn(false);
        let mut left_out = 0;
        while !backoff.is_due() {
            left_out += 1;
        }
        left_out
    }

    #[test]
    fn each_failure_in_a_row_leaves_out_twice_as_many_up_to_the_limit() {
        let mut backoff = Backoff::new(0, 8);
        for expected in [1, 2, 4, 8, 8, 8] {
            assert_eq!(left_out_after_failure(&mut backoff), expected);
        }
        for _ in 0..100 {
            assert_eq!(left_out_after_failure(&mut backoff), 8, "no overflow");
        }
        backoff.learn(true);
        assert_eq!(left_out_after_failure(&mut backoff), 1);
    }

    #[test]
    fn free_failures_leave_nothing_out_and_are_free_again_after_a_success() {
        let mut backoff = Backoff::new(1, 64);
        for expected in [0, 1, 2] {
            assert_eq!(left_out_after_failure(&mut backoff), expected);
        }
        backoff.learn(true);
        for _ in 0..10 {
            assert_eq!(left_out_after_failure(&mut backoff), 0);
            backoff.learn(true);
        }
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod join_spin_tests {
    use std::sync::mpsc;
    use std::thread;

    use testkit::Gate;

    use super::*;
    use crate::{Pool, QueueDepth};

    /// On a thread that has joined nothing and woken no joiner.
    fn on_new_thread<T: Send>(run: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| scope.spawn(run).join().expect("it does not panic"))
    }

    /// Wakes joiners until the worker looks. Returns how many looks it leaves out, and the outcome.
    fn look(spin: &mut JoinerSpin, ready: bool) -> (u32, bool) {
        let mut left_out = 0;
        loop {
            has_unparked_joiner(true);
            if let Some(found) = spin.look(|| ready) {
                return (left_out, found);
            }
            left_out += 1;
        }
    }

    #[test]
    fn a_worker_looks_once_after_it_has_woken_a_sleeping_joiner() {
        on_new_thread(|| {
            let mut spin = JoinerSpin::new();
            let unexpected = || panic!("it looks");
            assert_eq!(spin.look(unexpected), None);
            has_unparked_joiner(false);
            assert_eq!(spin.look(unexpected), None, "the joiner did not sleep");
            has_unparked_joiner(true);
            assert_eq!(spin.look(|| true), Some(true));
            assert_eq!(spin.look(unexpected), None, "no other joiner was woken");
        });
    }

    #[test]
    fn a_worker_that_sleeps_long_after_each_look_leaves_more_and_more_looks_out() {
        let mut spin = JoinerSpin::new();
        let mut expected = 0;
        for next in [1, 2, 4, 8, 16, 32, 64, 64] {
            assert_eq!(look(&mut spin, false), (expected, false));
            spin.learn(SOON + Duration::from_nanos(1));
            expected = next;
        }
        assert_eq!(look(&mut spin, true), (64, true));
        assert_eq!(look(&mut spin, false), (0, false), "the last look has paid");
    }

    #[test]
    fn a_worker_that_is_woken_soon_after_each_look_goes_on_looking() {
        let mut spin = JoinerSpin::new();
        for _ in 0..10 {
            assert_eq!(look(&mut spin, false), (0, false));
            spin.learn(SOON);
        }
    }

    #[test]
    fn a_sleep_is_judged_only_after_a_look_in_vain() {
        let mut spin = JoinerSpin::new();
        assert_eq!(look(&mut spin, true), (0, true));
        assert!(spin.began.is_none());
        assert_eq!(look(&mut spin, false), (0, false));
        assert!(spin.began.is_some());
        spin.woke();
        assert!(spin.began.is_none());
    }

    #[test]
    fn a_joiner_whose_last_two_looks_were_in_vain_sleeps_at_once() {
        let looks = |ready: bool| {
            let count = Cell::new(0);
            look_before_join(|| {
                count.set(count.get() + 1);
                ready
            });
            count.get() > 0
        };
        let ends = [false, false, true, true, false, false, true];
        let looked = on_new_thread(|| ends.map(looks));
        assert_eq!(looked, [true, true, false, true, true, true, false]);
    }

    /// Has a thread `wait` for a task of a pool with one worker, again and again, until the worker's next task finds
    /// that the worker has woken a joiner.
    fn ends_as_soon_as_the_joiner_sleeps(wait: impl Fn(&Pool, Gate) + Send + Sync + 'static) {
        testkit::watchdog(testkit::LIMIT, move || {
            let pool = Pool::builder().capacity(1);
            let pool = pool.queue_depth(QueueDepth::Unlimited).build();
            let pool = pool.expect("it has a capacity");
            let (tell, told) = mpsc::channel();
            let mut yields = 0;
            let mut has_woken = false;
            while !has_woken {
                let gate = Gate::new();
                thread::scope(|scope| {
                    scope.spawn(|| wait(&pool, gate.clone()));
                    gate.wait_for_arrivals(1);
                    let tell = tell.clone();
                    let next = move || tell.send(take_woken_joiner());
                    pool.submit(next).expect("it is open");
                    // More each time, so that the joiner sleeps in the end.
                    (0..yields).for_each(|_| thread::yield_now());
                    gate.open();
                });
                has_woken = told.recv().expect("the task runs");
                yields += 1;
            }
        });
    }

    #[testkit::test]
    fn a_worker_notes_that_it_has_woken_a_thread_that_joins() {
        ends_as_soon_as_the_joiner_sleeps(|pool, gate| {
            let handle = pool.spawn(move || gate.wait()).expect("it is open");
            handle.join().expect("it does not panic");
        });
    }
}
