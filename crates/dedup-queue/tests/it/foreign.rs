//! User code of keys, hooks and metrics: where it runs, and that its panics change nothing.

use std::cell::Cell;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Waker;
use std::time::Instant;

use dedup_queue::{Added, Clock, DedupQueue, DedupRetryQueue, ManualClock, Metrics, Retried};
use sync_shim::{Alarm, Parker};
use testkit::PanicOnDrop;

use crate::support::figures;

thread_local! {
    static BROKEN: Cell<&'static str> = const { Cell::new("") };
}

fn break_down(what: &'static str) {
    assert_ne!(BROKEN.get(), what, "broken on purpose");
}

/// A key whose code panics where a test requests it. All keys have the same hash, so all are
/// compared.
#[derive(Debug)]
struct Fragile(u32);

impl PartialEq for Fragile {
    fn eq(&self, other: &Self) -> bool {
        break_down("eq");
        self.0 == other.0
    }
}
impl Eq for Fragile {}
impl Hash for Fragile {
    fn hash<H: Hasher>(&self, state: &mut H) {
        break_down("hash");
        0.hash(state);
    }
}
impl Clone for Fragile {
    fn clone(&self) -> Self {
        break_down("clone");
        Self(self.0)
    }
}

impl Drop for Fragile {
    fn drop(&mut self) {
        break_down("drop");
    }
}

fn breaks<R>(what: &'static str, call: impl FnOnce() -> R) {
    BROKEN.set(what);
    let broken = catch_unwind(AssertUnwindSafe(call)).is_err();
    BROKEN.set("");
    assert!(broken, "{what} is called");
}

#[testkit::test]
fn a_panic_in_the_code_of_a_key_changes_nothing() {
    let queue = DedupRetryQueue::<Fragile>::new();
    for key in 0..3 {
        queue.add(Fragile(key)).unwrap();
    }
    let held = queue.get().unwrap();
    queue.add(Fragile(0)).unwrap();
    let before = queue.stats();
    for what in ["eq", "hash", "clone"] {
        breaks(what, || queue.add(Fragile(1)));
        breaks(what, || queue.add(Fragile(9)));
        breaks(what, || queue.add_after(Fragile(9), crate::support::MS));
        breaks(what, || queue.add_rate_limited(Fragile(9)));
    }
    for what in ["eq", "hash"] {
        breaks(what, || queue.remove(&Fragile(1)));
        breaks(what, || queue.failures(&Fragile(1)));
        breaks(what, || queue.forget(&Fragile(1)));
    }
    assert_eq!(queue.stats(), before);
    BROKEN.set("eq"); // A take or a release compares no keys.
    drop(held);
    let keys: Vec<_> = (0..3).map(|_| queue.try_get().unwrap().0).collect();
    BROKEN.set("");
    assert_eq!(keys, [1, 2, 0]);
}

/// A call that accepts or refuses a key returns its result, although both surplus copies of the key
/// panic in their drops. Two panics at once would abort the process.
#[testkit::test]
fn an_add_answers_although_its_copies_of_the_key_panic_in_their_drops() {
    let test = "foreign::an_add_answers_although_its_copies_of_the_key_panic_in_their_drops";
    let ended = testkit::in_child(test, || {
        for delayed in [false, true] {
            let queue = DedupRetryQueue::<Fragile>::new();
            queue.add(Fragile(1)).unwrap();
            if delayed {
                // Makes later adds take the full path.
                queue.add_after(Fragile(2), crate::support::MS).unwrap();
            }
            BROKEN.set("drop");
            assert_eq!(queue.add(Fragile(1)).ok(), Some(Added::Merged));
            assert_eq!(
                queue.low_priority().add(Fragile(1)).ok(),
                Some(Added::Merged)
            );
            assert_eq!(
                queue.add_after(Fragile(1), crate::support::MS).ok(),
                Some(Added::Merged)
            );
            assert_eq!(
                queue.add_after_backoff(Fragile(1)).ok(),
                Some(Added::Merged)
            );
            assert_eq!(
                queue.add_rate_limited(Fragile(1)).ok(),
                Some(Retried::Ready)
            );
            queue.shut_down();
            let refused = [
                queue.add(Fragile(3)),
                queue.low_priority().add(Fragile(3)),
                queue.add_after(Fragile(3), crate::support::MS),
                queue.add_after_backoff(Fragile(3)),
            ];
            let failed = queue.add_rate_limited(Fragile(3));
            let last = DedupRetryQueue::<Fragile>::builder()
                .max_attempts(std::num::NonZeroU32::MIN)
                .build();
            let given_up = last.add_rate_limited(Fragile(4));
            BROKEN.set("");
            assert_eq!(given_up.ok(), Some(Retried::GivenUp));
            assert!(refused.iter().all(Result::is_err) && failed.is_err());
        }
    });
    ended.unwrap();
}

#[testkit::test]
fn a_hasher_may_use_the_queue_and_may_panic() {
    #[derive(Clone, Default)]
    struct Nosy(Arc<OnceLock<NosyQueue>>);
    type NosyQueue = dedup_queue::DedupQueue<u32, Nosy>;
    impl BuildHasher for Nosy {
        type Hasher = std::hash::DefaultHasher;
        fn build_hasher(&self) -> Self::Hasher {
            break_down("hasher");
            if let Some(queue) = self.0.get() {
                queue.stats();
            }
            Self::Hasher::new()
        }
    }
    let hasher = Nosy::default();
    let queue = DedupQueue::<u32>::builder().hasher(hasher.clone()).build();
    assert!(hasher.0.set(queue.clone()).is_ok());
    queue.add(1).unwrap();
    let before = queue.stats();
    breaks("hasher", || queue.add(1));
    breaks("hasher", || queue.add(2));
    breaks("hasher", || queue.remove(&1));
    assert_eq!(queue.stats(), before);
    assert_eq!(queue.remove(&1), Some(dedup_queue::Pending::Ready));
}

/// The wakers of drains run without the lock, as those of gets do.
#[testkit::test]
fn a_waker_of_a_drain_may_use_the_queue_and_may_panic() {
    let queue = DedupQueue::<u32>::new();
    queue.add(1).unwrap();
    let held = queue.get().unwrap();
    let again = queue.clone();
    let waker = testkit::waker_fn(move || {
        assert!(again.add(2).is_err());
        assert!(again.get().is_err());
        panic!("broken on purpose");
    });
    let mut drain = queue.drain_async();
    assert!(crate::support::poll_with(&mut drain, &waker).is_pending());
    held.done();
    assert!(crate::support::poll(&mut drain).is_ready());
}

#[testkit::test]
fn a_clock_may_use_the_queue_while_it_waits() {
    #[derive(Clone, Debug)]
    struct Nosy(ManualClock, Arc<OnceLock<NosyQueue>>);
    type NosyQueue = dedup_queue::DedupDelayQueue<u32, std::hash::RandomState, Nosy>;
    impl Nosy {
        fn look(&self) {
            let queue = self.1.get().unwrap();
            assert_eq!(queue.remove(&1), None);
            queue.stats();
        }
    }
    impl Clock for Nosy {
        fn now(&self) -> Instant {
            self.0.now() // Called under the lock.
        }
        fn park_until(&self, parker: &Parker, when: Instant) -> bool {
            self.look();
            self.0.advance(crate::support::MS);
            self.0.park_until(parker, when)
        }
        fn wake_at(&self, when: Instant, waker: Waker) -> io::Result<Alarm> {
            self.look();
            self.0.wake_at(when, waker)
        }
    }
    let clock = Nosy(ManualClock::new(), Arc::default());
    let builder = dedup_queue::DedupDelayQueue::<u32>::builder();
    let queue = builder.clock(clock.clone()).build();
    assert!(clock.1.set(queue.clone()).is_ok());
    assert!(queue.get_timeout(crate::support::MS).is_err());
    queue.add_after(2, crate::support::MS).unwrap();
    assert_eq!(*queue.get().unwrap(), 2);
    queue.add_after(3, crate::support::MS).unwrap();
    let mut future = queue.get_async();
    assert!(crate::support::poll(&mut future).is_pending());
    clock.0.advance(crate::support::MS);
    assert!(crate::support::poll(&mut future).is_ready());
    queue.add(4).unwrap();
    let held = queue.get().unwrap();
    assert!(!queue.wait_idle_timeout(crate::support::MS));
    let drained = queue.drain_timeout(crate::support::MS);
    assert_eq!(drained.outcome, dedup_queue::Outcome::TimedOut);
    drop(held);
}

#[testkit::test]
fn hashing_cloning_and_dropping_keys_may_use_the_queue() {
    thread_local! {
        static QUEUE: OnceLock<DedupQueue<Nosy>> = const { OnceLock::new() };
    }
    fn look() {
        // Fails while the thread-local is being initialized or destroyed.
        let looked = QUEUE.try_with(|queue| queue.get().map(DedupQueue::stats));
        _ = looked;
    }
    struct Nosy(u32);
    impl PartialEq for Nosy {
        fn eq(&self, other: &Self) -> bool {
            self.0 == other.0
        }
    }
    impl Eq for Nosy {}
    impl Hash for Nosy {
        fn hash<H: Hasher>(&self, state: &mut H) {
            look();
            self.0.hash(state);
        }
    }
    impl Clone for Nosy {
        fn clone(&self) -> Self {
            look();
            Self(self.0)
        }
    }
    impl Drop for Nosy {
        fn drop(&mut self) {
            look();
        }
    }
    let queue = DedupQueue::<Nosy>::new();
    QUEUE.with(|shared| assert!(shared.set(queue.clone()).is_ok()));
    for key in (0..100).chain(0..100) {
        queue
            .add(Nosy(key))
            .unwrap_or_else(|_| unreachable!("it is open"));
    }
    let held = queue.get().unwrap();
    assert!(queue.add(Nosy(held.0)).is_ok());
    drop(held);
    queue.remove(&Nosy(50));
    for _ in 0..10 {
        drop(queue.get());
    }
    drop(queue.drain_timeout(std::time::Duration::ZERO));
    assert!(queue.add(Nosy(1)).is_err());
    QUEUE.with(|shared| assert!(shared.get().is_some()));
}

#[test]
fn a_key_whose_drop_panics_is_done() {
    #[derive(Clone)]
    struct Bomb(
        u32,
        #[expect(dead_code, reason = "held for its Drop")] std::sync::Arc<PanicOnDrop>,
    );
    impl PartialEq for Bomb {
        fn eq(&self, other: &Self) -> bool {
            self.0 == other.0
        }
    }
    impl Eq for Bomb {}
    impl Hash for Bomb {
        fn hash<H: Hasher>(&self, state: &mut H) {
            self.0.hash(state);
        }
    }
    let queue = DedupQueue::<Bomb>::new();
    let bomb = |n| Bomb(n, std::sync::Arc::new(PanicOnDrop::new()));
    queue
        .add(bomb(1))
        .unwrap_or_else(|_| unreachable!("it is open"));
    let held = queue.get().unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| drop(held))).is_err());
    assert_eq!(figures(queue.stats()), [0; 5]);
    queue
        .add(bomb(2))
        .unwrap_or_else(|_| unreachable!("it is open"));
    let key = bomb(2);
    queue.remove(&key);
    assert_eq!(figures(queue.stats()), [0; 5]);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(key))).is_err());
}

#[testkit::test]
fn metrics_may_use_the_queue_and_may_panic() {
    struct Broken(Mutex<Option<DedupQueue<u32>>>);
    impl Metrics for Broken {
        fn adds_total(&self, _: &str, _: u64) {
            let queue = self.0.lock().unwrap().clone();
            queue.expect("it is there").stats();
            panic!("broken metrics");
        }
        fn queue_duration_seconds(&self, _: &str, _: std::time::Duration) {
            panic!("broken metrics");
        }
        fn work_duration_seconds(&self, _: &str, _: std::time::Duration) {
            panic!("broken metrics");
        }
    }
    let metrics = std::sync::Arc::new(Broken(Mutex::new(None)));
    let queue = DedupQueue::<u32>::builder()
        .metrics(metrics.clone())
        .build();
    *metrics.0.lock().unwrap() = Some(queue.clone());
    queue.add(1).unwrap();
    let held = queue.get().unwrap();
    queue.add(1).unwrap();
    drop(held);
    assert_eq!(*queue.get().unwrap(), 1);
    assert_eq!(figures(queue.stats()), [0; 5]);
    // Breaks the reference cycle of the queue and its metrics.
    *metrics.0.lock().unwrap() = None;
}

#[test]
fn a_builder_takes_a_custom_hasher() {
    type Fixed = BuildHasherDefault<std::hash::DefaultHasher>;
    let queue = DedupQueue::<u32>::builder()
        .hasher(Fixed::default())
        .build();
    queue.add(1).unwrap();
    assert_eq!(*queue.get().unwrap(), 1);
}
