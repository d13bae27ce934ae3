//! No entry is early.

use std::thread;
use std::time::{Duration, Instant};

use delay_queue::{DelayQueue, EntryId, Expired, ManualClock};
use sync_shim::Clock;
use testkit::Rng;

use crate::support::queue;

/// A queue as a plain list.
#[derive(Default)]
struct Twin {
    entries: Vec<(Instant, u64, EntryId, u64)>,
    next: u64,
}

impl Twin {
    fn enter(&mut self, due: Instant, id: EntryId, value: u64) {
        self.next += 1;
        self.entries.push((due, self.next, id, value));
    }

    fn remove(&mut self, id: EntryId) -> Option<u64> {
        let at = self.entries.iter().position(|entry| entry.2 == id)?;
        Some(self.entries.swap_remove(at).3)
    }

    fn take(&mut self, now: Instant) -> Option<u64> {
        let due = self.entries.iter().filter(|entry| entry.0 <= now);
        let first = due.min_by_key(|entry| (entry.0, entry.1))?.2;
        self.remove(first)
    }
}

fn check(taken: &Expired<u64>, now: Instant) {
    assert!(taken.due <= now, "early by {:?}", taken.due - now);
}

/// A random program compared with a list, in manual time: which entries are taken, when, and in
/// which order.
#[test]
fn a_random_program_yields_the_same_entries_as_a_list() {
    let mut rng = Rng::from_env();
    for _ in 0..60 {
        let (queue, clock) = queue();
        let (mut twin, mut ids) = (Twin::default(), Vec::new());
        for value in 0..400 {
            let delay = Duration::from_nanos(rng.below(50) as u64);
            match rng.below(10) {
                0..=3 => {
                    let id = queue.push(value, delay).unwrap();
                    twin.enter(clock.now() + delay, id, value);
                    ids.push(id);
                }
                4 if !ids.is_empty() => {
                    let id = ids[rng.below(ids.len())];
                    assert_eq!(queue.cancel(id), twin.remove(id));
                }
                5 if !ids.is_empty() => {
                    let id = ids[rng.below(ids.len())];
                    let value = twin.remove(id);
                    assert_eq!(queue.reset(id, delay), value.is_some());
                    if let Some(value) = value {
                        twin.enter(clock.now() + delay, id, value);
                    }
                }
                6 => clock.advance(delay / 4),
                7 => {
                    let drained = queue.drain_ready(rng.below(4));
                    for taken in drained {
                        check(&taken, clock.now());
                        assert_eq!(twin.take(clock.now()), Some(taken.value));
                    }
                }
                _ => {
                    let taken = queue.try_take().ok();
                    if let Some(taken) = &taken {
                        check(taken, clock.now());
                    }
                    assert_eq!(taken.map(|taken| taken.value), twin.take(clock.now()));
                }
            }
            assert_eq!(queue.len(), twin.entries.len());
        }
        let left: Vec<_> = queue
            .close_now()
            .into_iter()
            .map(|left| left.value)
            .collect();
        let mut rest = twin.entries;
        rest.sort_by_key(|entry| (entry.0, entry.1));
        let rest: Vec<_> = rest.into_iter().map(|entry| entry.3).collect();
        assert_eq!(left, rest);
    }
}

/// Threads and futures take while another thread advances time.
#[testkit::test]
fn no_entry_is_early_for_threads_and_futures_on_a_moving_clock() {
    const ENTRIES: u64 = 400;
    let (queue, clock) = queue();
    let takers: Vec<_> = (0..3)
        .map(|n| {
            let (queue, clock) = (queue.clone(), clock.clone());
            thread::spawn(move || {
                let mut count = 0;
                loop {
                    let taken = if n == 0 {
                        testkit::block_on(queue.take_async())
                    } else {
                        queue.take()
                    };
                    let Ok(taken) = taken else { return count };
                    check(&taken, clock.now());
                    count += 1;
                }
            })
        })
        .collect();
    let mut rng = Rng::from_env();
    for value in 0..ENTRIES {
        queue
            .push(value, Duration::from_nanos(rng.below(100) as u64))
            .unwrap();
        clock.advance(Duration::from_nanos(rng.below(20) as u64));
    }
    queue.close();
    clock.advance(Duration::from_secs(1));
    let taken: u64 = takers.into_iter().map(|taker| taker.join().unwrap()).sum();
    assert_eq!(taken, ENTRIES);
}

/// The strongest check that is possible with the system clock.
#[testkit::test]
fn no_entry_is_early_on_the_system_clock() {
    let builder = DelayQueue::<Instant>::builder();
    for builder in [
        builder.clone(),
        builder.clone().spin_window(Duration::from_micros(200)),
        builder.coalesce(Duration::from_micros(200)),
    ] {
        let queue = builder.build().unwrap();
        let takers: Vec<_> = (0..4)
            .map(|n| {
                let queue = queue.clone();
                thread::spawn(move || {
                    loop {
                        let taken = if n % 2 == 0 {
                            queue.take()
                        } else {
                            testkit::block_on(queue.take_async())
                        };
                        let Ok(taken) = taken else { return };
                        let now = Instant::now();
                        assert!(now >= taken.due, "early by {:?}", taken.due - now);
                        assert!(taken.due >= taken.value, "earlier than asked for");
                    }
                })
            })
            .collect();
        let mut rng = Rng::from_env();
        for _ in 0..500 {
            let delay = Duration::from_micros(rng.below(3_000) as u64);
            queue.push(Instant::now() + delay, delay).unwrap();
        }
        queue.close();
        for taker in takers {
            taker.join().unwrap();
        }
        assert_eq!(queue.stats().taken, 500);
    }
}

#[testkit::test]
fn coalescing_makes_no_entry_early() {
    let clock = ManualClock::new();
    let builder = DelayQueue::<u8>::builder().clock(clock.clone());
    let queue = builder.coalesce(Duration::from_secs(10)).build().unwrap();
    queue.push(1, Duration::from_secs(5)).unwrap();
    clock.advance(Duration::from_secs(5) - Duration::from_nanos(1));
    assert!(queue.try_take().is_err());
    clock.advance(Duration::from_nanos(1));
    assert_eq!(
        queue.try_take().unwrap().value,
        1,
        "no due entry is left for the taker"
    );
}
