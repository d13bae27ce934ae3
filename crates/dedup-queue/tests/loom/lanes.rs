//! The low lane, with waiters. The short critical sections do not know the lanes.

use sync_shim::model::spawn;

use super::{beside, is_at_rest, plain};

#[testkit::model(preemptions = 3)]
fn a_low_add_racing_a_getter_wakes_it() {
    let queue = plain();
    let worker = beside(&queue, |queue| assert_eq!(*queue.get().unwrap(), 1));
    queue.low_priority().add(1).unwrap();
    worker.join().unwrap();
    is_at_rest(&queue);
}

/// One worker gets the key, once, and the other one the next key.
#[testkit::model(preemptions = 3)]
fn a_raised_low_key_racing_two_getters_is_delivered_once() {
    let queue = plain();
    queue.low_priority().add(1).unwrap();
    queue.low_priority().add(2).unwrap();
    let takers = [(); 2].map(|()| {
        let queue = queue.clone();
        // Held to the end, because an add of a held key would cause another delivery.
        spawn(move || queue.get().unwrap().into_owned())
    });
    let added = queue.add(2).unwrap();
    let guards = takers.map(|taker| taker.join().unwrap());
    assert_eq!(*guards[0] + *guards[1], 3);
    let again = usize::from(added == dedup_queue::Added::New);
    assert_eq!(queue.stats().dirty, again);
    drop(guards);
    assert_eq!(queue.stats().ready, again);
    queue.remove(&2);
    is_at_rest(&queue);
}
