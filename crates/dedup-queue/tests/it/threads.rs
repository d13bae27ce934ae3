//! Many producers and many workers.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use dedup_queue::{DedupQueue, Outcome};

use crate::support::is_closed;

const PRODUCERS: usize = 50;
const ADDS: usize = 50;
const WORKERS: usize = 10;

/// The calls that end the queue after all keys have been added.
fn ends() -> [fn(&DedupQueue<usize>); 2] {
    [
        |queue| assert!(queue.shut_down()),
        |queue| assert_eq!(queue.drain().outcome, Outcome::Finished),
    ]
}

#[testkit::test]
fn many_workers_handle_every_key_of_many_producers_once() {
    const LATE: usize = PRODUCERS;
    for end in ends() {
        let queue = DedupQueue::<usize>::new();
        let seen = [const { AtomicUsize::new(0) }; PRODUCERS + 1];
        let at_work = [const { AtomicUsize::new(0) }; PRODUCERS];
        thread::scope(|scope| {
            for _ in 0..WORKERS {
                scope.spawn(|| {
                    loop {
                        let got = queue.get();
                        let Ok(key) = got else {
                            assert!(is_closed(&got));
                            return;
                        };
                        let others = at_work[*key].fetch_add(1, Relaxed);
                        assert_eq!(others, 0, "two workers on key {}", *key);
                        seen[*key].fetch_add(1, Relaxed);
                        thread::yield_now();
                        at_work[*key].fetch_sub(1, Relaxed);
                    }
                });
            }
            let producers: Vec<_> = (0..PRODUCERS)
                .map(|key| {
                    let queue = &queue;
                    scope.spawn(move || (0..ADDS).for_each(|_| _ = queue.add(key).unwrap()))
                })
                .collect();
            for producer in producers {
                producer.join().unwrap();
            }
            end(&queue);
            assert_eq!(queue.add(LATE).unwrap_err().into_key(), LATE);
        });
        let seen = seen.map(AtomicUsize::into_inner);
        assert!(
            seen[..PRODUCERS]
                .iter()
                .all(|&times| (1..=ADDS).contains(&times))
        );
        assert_eq!(seen[LATE], 0);
        assert_eq!(queue.len(), 0);
    }
}

#[testkit::test]
fn keys_added_again_by_their_workers_are_delivered_before_the_queue_is_closed() {
    for end in ends() {
        let queue = DedupQueue::<usize>::new();
        let seen = [const { AtomicUsize::new(0) }; PRODUCERS];
        let added = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..WORKERS {
                scope.spawn(|| {
                    while let Ok(key) = queue.get() {
                        if seen[*key].fetch_add(1, Relaxed) == 0 {
                            // The key is held, so this makes it dirty.
                            queue.add(*key).unwrap();
                            added.fetch_add(1, Relaxed);
                        }
                    }
                });
            }
            (0..PRODUCERS).for_each(|key| _ = queue.add(key).unwrap());
            while added.load(Relaxed) < PRODUCERS {
                thread::yield_now();
            }
            end(&queue);
        });
        assert!(seen.iter().all(|times| times.load(Relaxed) == 2));
        assert_eq!(queue.len(), 0);
    }
}
