//! The guard of a held key, and how it ends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use dedup_queue::{DedupQueue, DedupRetryQueue, Held, Retrying};

use crate::support::{MS, figures, get, plain, retrying, take_all, until};

/// In client-go a worker that panics before `Done` blocks its key, and every drain, forever.
#[testkit::test]
fn a_worker_that_panics_releases_its_key() {
    let queue = plain();
    queue.add("a").unwrap();
    let held = get(&queue);
    queue.add("a").unwrap();
    let worked = catch_unwind(AssertUnwindSafe(|| {
        let _held = held;
        panic!("a panic of the worker");
    }));
    assert!(worked.is_err());
    assert_eq!(
        take_all(&queue),
        ["a"],
        "the delivery that was owed is made"
    );
    assert!(queue.drain().leftovers.unwrap().is_empty());
}

#[test]
fn a_worker_that_panics_keeps_the_failures_of_its_key() {
    let (queue, clock) = retrying();
    queue.add("a").unwrap();
    get(&queue).retry();
    clock.advance(5 * MS);
    let held = get(&queue);
    assert!(
        catch_unwind(AssertUnwindSafe(move || {
            let _held = held;
            panic!("a worker's own affair");
        }))
        .is_err()
    );
    assert_eq!(queue.failures(&"a"), 1);
}

#[testkit::test]
fn a_guard_can_move_to_another_thread() {
    let queue = DedupQueue::<String>::new();
    queue.add("a".to_owned()).unwrap();
    let held = queue.get().unwrap();
    let length = thread::scope(|scope| scope.spawn(move || held.len()).join().unwrap());
    assert_eq!((length, queue.stats().held), (1, 0));
}

#[testkit::test]
fn an_owned_guard_keeps_the_queue_alive() {
    fn free<T: Send + 'static>(held: T) -> T {
        held
    }
    let held = {
        let queue = DedupQueue::<String>::new();
        queue.add("a".to_owned()).unwrap();
        free(queue.get().unwrap().into_owned().into_owned())
    };
    let length = thread::spawn(move || held.len()).join().unwrap();
    assert_eq!(length, 1);
}

#[test]
fn into_owned_does_not_release_the_key() {
    let (queue, _clock) = retrying();
    queue.add("a").unwrap();
    let held = get(&queue).into_owned();
    queue.add("a").unwrap();
    assert_eq!(figures(queue.stats()), [0, 1, 1, 0, 0]);
    held.retry();
    let held = get(&queue).into_owned();
    assert_eq!((*held, held.failures()), ("a", 1));
    held.succeed();
    assert_eq!(figures(queue.stats()), [0; 5]);
}

#[test]
fn a_leaked_guard_holds_its_key_forever() {
    let queue = plain();
    queue.add("a").unwrap();
    std::mem::forget(get(&queue));
    queue.add("a").unwrap();
    assert_eq!(figures(queue.stats()), [0, 1, 1, 0, 0]);
    let left = queue
        .drain_timeout(std::time::Duration::ZERO)
        .leftovers
        .unwrap();
    assert_eq!(left.held.len(), 1);
}

/// client-go does not check `Done`: a second call queues a dirty key twice. Here a guard is
/// released once, and a late release affects only its own delivery.
#[test]
fn each_delivery_is_released_once() {
    let queue = plain();
    queue.add("a").unwrap();
    let first = get(&queue);
    queue.add("a").unwrap();
    first.done();
    let second = get(&queue);
    queue.add("a").unwrap();
    assert_eq!(queue.len(), 0, "the first guard is already released");
    drop(second);
    assert_eq!(take_all(&queue), ["a"]);
}

#[testkit::test]
fn the_release_of_a_dirty_key_wakes_a_worker() {
    let queue = DedupRetryQueue::<&'static str>::new();
    queue.add("a").unwrap();
    let held: Held<_, Retrying> = queue.get().unwrap();
    queue.add("a").unwrap();
    thread::scope(|scope| {
        let other = scope.spawn(|| *queue.get().unwrap());
        until(|| queue.stats().waiting == 1);
        held.succeed();
        assert_eq!(other.join().unwrap(), "a");
    });
}
