//! Many threads: every entry is taken once.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use delay_queue::DelayQueue;
use testkit::{Rng, block_on};

const PRODUCERS: usize = 16;
const TAKERS: usize = 16;
const EACH: usize = 250;

/// Each entry is a token, which is marked where it is taken or returned.
#[derive(Default)]
struct Ledger(Vec<AtomicUsize>);

impl Ledger {
    fn new(tokens: usize) -> Arc<Self> {
        Arc::new(Self((0..tokens).map(|_| AtomicUsize::new(0)).collect()))
    }

    fn tick(&self, token: usize) {
        assert_eq!(self.0[token].fetch_add(1, SeqCst), 0, "token {token} twice");
    }

    fn ticked(&self) -> usize {
        self.0
            .iter()
            .filter(|token| token.load(SeqCst) == 1)
            .count()
    }
}

fn storm(queue: &DelayQueue<usize>) {
    let ledger = Ledger::new(PRODUCERS * EACH);
    let mut rng = Rng::from_env();
    let takers: Vec<_> = (0..TAKERS)
        .map(|n| {
            let (queue, ledger, mut rng) = (queue.clone(), Arc::clone(&ledger), rng.split());
            thread::spawn(move || {
                loop {
                    let short = Duration::from_micros(rng.below(300) as u64);
                    let taken = match n % 4 {
                        0 => queue.take(),
                        1 => queue.take_timeout(short),
                        2 => block_on(queue.take_async()),
                        _ => {
                            for taken in queue.drain_ready(rng.below(5)) {
                                ledger.tick(taken.value);
                            }
                            queue.take_timeout(short)
                        }
                    };
                    match taken {
                        Ok(taken) => ledger.tick(taken.value),
                        Err(error) if error.is_closed() => return,
                        Err(_) => {}
                    }
                }
            })
        })
        .collect();
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|n| {
            let (queue, ledger, mut rng) = (queue.clone(), Arc::clone(&ledger), rng.split());
            thread::spawn(move || {
                let mut ids = Vec::new();
                for token in n * EACH..(n + 1) * EACH {
                    let delay = Duration::from_micros(rng.below(2_000) as u64);
                    let id = match rng.below(3) {
                        0 => queue.push(token, delay).unwrap(),
                        1 => block_on(queue.push_async(token, delay)).unwrap(),
                        _ => queue.push_timeout(token, delay, Duration::MAX).unwrap(),
                    };
                    ids.push(id);
                    let old = ids[rng.below(ids.len())];
                    match rng.below(6) {
                        0 | 1 => {
                            if let Some(token) = queue.cancel(old) {
                                ledger.tick(token);
                            }
                        }
                        2 => _ = queue.reset(old, delay / 2),
                        _ => {}
                    }
                }
                ids
            })
        })
        .collect();
    let ids: Vec<_> = producers
        .into_iter()
        .flat_map(|producer| producer.join().unwrap())
        .collect();
    queue.close();
    for taker in takers {
        taker.join().unwrap();
    }
    assert_eq!(ledger.ticked(), PRODUCERS * EACH);
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
    let stats = queue.stats();
    assert_eq!(
        (stats.len, stats.waiting_takers, stats.waiting_pushers),
        (0, 0, 0)
    );
    assert_eq!(stats.pushed, stats.taken + stats.cancelled);
}

#[testkit::test]
fn sixteen_producers_and_sixteen_takers_lose_and_duplicate_no_entry() {
    storm(&DelayQueue::new());
}

#[testkit::test]
fn producers_and_takers_of_a_bounded_queue_lose_and_duplicate_no_entry() {
    storm(&DelayQueue::<usize>::builder().bound(20).build().unwrap());
}

#[testkit::test]
fn producers_and_takers_with_a_spin_window_or_coalescing_lose_and_duplicate_no_entry() {
    let spin = DelayQueue::<usize>::builder().spin_window(Duration::from_micros(50));
    storm(&spin.build().unwrap());
    let coalesce = DelayQueue::<usize>::builder().coalesce(Duration::from_micros(200));
    storm(&coalesce.build().unwrap());
}

/// `close_now` while others take and push: it returns exactly the entries that were not taken.
#[testkit::test]
fn close_now_during_takes_and_pushes_loses_no_entry() {
    let mut rng = Rng::from_env();
    for _ in 0..30 {
        let queue = DelayQueue::<usize>::builder().bound(8).build().unwrap();
        let ledger = Ledger::new(4_000);
        let takers: Vec<_> = (0..3)
            .map(|_| {
                let (queue, ledger) = (queue.clone(), Arc::clone(&ledger));
                thread::spawn(move || {
                    while let Ok(taken) = queue.take() {
                        ledger.tick(taken.value);
                    }
                })
            })
            .collect();
        let producers: Vec<_> = (0..2)
            .map(|n| {
                let queue = queue.clone();
                thread::spawn(move || {
                    let mut accepted = 0;
                    for token in n * 2_000..(n + 1) * 2_000 {
                        let Ok(_) = queue.push(token, Duration::ZERO) else {
                            break;
                        };
                        accepted += 1;
                    }
                    accepted
                })
            })
            .collect();
        for _ in 0..rng.below(50) {
            thread::yield_now();
        }
        for left in queue.close_now() {
            ledger.tick(left.value);
        }
        let accepted: usize = producers.into_iter().map(|one| one.join().unwrap()).sum();
        for taker in takers {
            taker.join().unwrap();
        }
        assert_eq!(ledger.ticked(), accepted);
    }
}
