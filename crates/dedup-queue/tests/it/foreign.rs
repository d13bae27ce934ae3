//! Code of keys, hooks and metrics: where it runs, and what its panics change.

use std::cell::Cell;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, OnceLock};

use dedup_queue::{DedupQueue, DedupRetryQueue, Metrics};
use testkit::PanicOnDrop;

use crate::support::{bounded, figures};

thread_local! {
    static BROKEN: Cell<&'static str> = const { Cell::new("") };
}

fn break_down(what: &'static str) {
    assert_ne!(BROKEN.get(), what, "broken on purpose");
}

/// A key whose code panics where a test asks for it. All have the same hash, so all are compared.
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

fn breaks<R>(what: &'static str, call: impl FnOnce() -> R) {
    BROKEN.set(what);
    let broken = catch_unwind(AssertUnwindSafe(call)).is_err();
    BROKEN.set("");
    assert!(broken, "{what} is called");
}

#[test]
fn a_panic_in_a_keys_code_changes_nothing() {
    bounded(|| {
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
        BROKEN.set("eq"); // No key is compared to take one or to let it go.
        drop(held);
        let keys: Vec<_> = (0..3).map(|_| queue.try_get().unwrap().0).collect();
        BROKEN.set("");
        assert_eq!(keys, [1, 2, 0]);
    });
}

#[test]
fn hashing_cloning_and_dropping_keys_may_use_the_queue() {
    thread_local! {
        static QUEUE: OnceLock<DedupQueue<Nosy>> = const { OnceLock::new() };
    }
    fn look() {
        // Not while the thread-local is being set up or torn down.
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
    bounded(|| {
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
    });
}

#[test]
fn a_key_whose_drop_panics_is_done_all_the_same() {
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

#[test]
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
    bounded(|| {
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
        // The queue holds its metrics, which hold the queue.
        *metrics.0.lock().unwrap() = None;
    });
}

#[test]
fn a_hasher_that_is_always_the_same_may_be_given() {
    type Fixed = BuildHasherDefault<std::hash::DefaultHasher>;
    let queue = DedupQueue::<u32>::builder()
        .hasher(Fixed::default())
        .build();
    queue.add(1).unwrap();
    assert_eq!(*queue.get().unwrap(), 1);
}
