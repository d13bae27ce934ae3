//! What becomes of a key in a worker's hands.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use dedup_queue::{DedupQueue, DedupRetryQueue, Held, Retrying};

use crate::support::{MS, figures, get, plain, retrying, take_all, until};

/// In client-go a worker that panics before `Done` blocks its key for ever, and every drain.
#[testkit::test]
fn a_worker_that_panics_lets_its_key_go() {
    let queue = plain();
    queue.add("a").unwrap();
    let held = get(&queue);
    queue.add("a").unwrap();
    let worked = catch_unwind(AssertUnwindSafe(|| {
        let _held = held;
        panic!("a worker's own affair");
    }));
    assert!(worked.is_err());
    assert_eq!(
        take_all(&queue),
        ["a"],
        "what was owed meanwhile is delivered"
    );
    assert!(queue.drain().leftovers.unwrap().is_empty());
}

#[test]
fn a_panic_keeps_the_failures() {
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
fn a_guard_goes_to_another_thread() {
    let queue = DedupQueue::<String>::new();
    queue.add("a".to_owned()).unwrap();
    let held = queue.get().unwrap();
    let length = thread::scope(|scope| scope.spawn(move || held.len()).join().unwrap());
    assert_eq!((length, queue.stats().held), (1, 0));
}

#[testkit::test]
fn an_owned_guard_goes_anywhere_and_keeps_the_queue_alive() {
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
fn a_guard_that_becomes_owned_is_not_let_go_by_that() {
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
fn a_guard_that_is_leaked_holds_its_key_for_ever() {
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

/// client-go does not check `Done`: called twice it queues a dirty key twice. Here a guard is let go
/// once, and what a late one says is about its own key only.
#[test]
fn each_delivery_is_let_go_once() {
    let queue = plain();
    queue.add("a").unwrap();
    let first = get(&queue);
    queue.add("a").unwrap();
    first.done();
    let second = get(&queue);
    queue.add("a").unwrap();
    assert_eq!(queue.len(), 0, "the first guard's end is spent");
    drop(second);
    assert_eq!(take_all(&queue), ["a"]);
}

#[testkit::test]
fn letting_go_wakes_a_worker_for_a_key_that_became_ready_by_it() {
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
