//! Delay queues: threads and futures that take, pushers that wait, and both ways to close.

use std::time::Duration;

use anthill::delay_queue::{EntryId, Expired, TakeError};
use anthill::{DelayQueue, ManualClock};
use sync_shim::Mutex;
use sync_shim::model::{random_below, spawn};

use super::{InPlace, Ledger, SECOND, Ticker, Ticket, block_on, join_all, poll_once};

type Queue = DelayQueue<Ticket, ManualClock>;

fn queue() -> (Queue, ManualClock) {
    let clock = ManualClock::new();
    let queue = DelayQueue::<Ticket>::builder()
        .bound(1 + random_below(3))
        .clock(clock.clone())
        .build()
        .unwrap();
    (queue, clock)
}

fn is_at_rest(queue: &Queue, ledger: &Ledger) {
    let stats = queue.stats();
    assert_eq!(
        (queue.len(), stats.waiting_takers, stats.waiting_pushers),
        (0, 0, 0)
    );
    ledger.is_settled();
}

/// Takes entries by every call until the queue is closed and empty.
fn take_all(queue: &Queue) {
    loop {
        let taken = match random_below(4) {
            0 => queue.take(),
            1 => block_on(queue.take_async()),
            2 => {
                // A dropped future passes its wake-up on.
                let mut given_up = queue.take_async();
                drop(poll_once(&mut given_up).map(|taken| taken.map(spend)));
                queue.take()
            }
            _ => queue.take_timeout(SECOND),
        };
        match taken {
            Ok(expired) => spend(expired),
            Err(TakeError::Closed) => return,
            Err(TakeError::TimedOut | TakeError::Empty) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
}

fn spend(expired: Expired<Ticket>) {
    expired.value.spend();
}

fn push(queue: &Queue, ledger: &Ledger) -> Option<EntryId> {
    let delay = SECOND * u32::try_from(random_below(3)).unwrap();
    let ticket = ledger.ticket();
    match random_below(4) {
        0 => queue.push(ticket, delay).ok(),
        1 => queue.try_push(ticket, delay).ok(),
        2 => block_on(queue.push_async(ticket, delay)).ok(),
        _ => {
            let mut given_up = queue.push_async(ticket, delay);
            let polled = poll_once(&mut given_up);
            match polled {
                std::task::Poll::Ready(pushed) => pushed.ok(),
                std::task::Poll::Pending => None,
            }
        }
    }
}

/// Consumers and producers of all kinds, cancels, time, and a close.
#[testkit::scenario]
fn every_entry_is_taken_once_or_returned() {
    let ((queue, clock), ledger) = (queue(), Ledger::default());
    let takers: Vec<_> = (0..2)
        .map(|_| {
            let queue = queue.clone();
            spawn(move || take_all(&queue))
        })
        .collect();
    let pushers: Vec<_> = (0..2)
        .map(|_| {
            let (queue, ledger) = (queue.clone(), ledger.clone());
            spawn(move || {
                for _ in 0..3 {
                    let id = push(&queue, &ledger);
                    match (random_below(4), id) {
                        (0, Some(id)) => drop(queue.cancel(id)),
                        (1, Some(id)) => drop(queue.reset(id, SECOND)),
                        _ => {}
                    }
                }
            })
        })
        .collect();
    // Only consumers make room, so time advances until all have ended.
    let time = Ticker::start(clock);
    match random_below(4) {
        0 => drop(queue.close_now().into_iter()),
        1 => drop(queue.close()),
        _ => {}
    }
    join_all(pushers);
    queue.close();
    join_all(takers);
    time.stop();
    is_at_rest(&queue, &ledger);
}

/// A consumer whose continuation runs inside the call of a producer or of another consumer pushes
/// an entry, and waits there for room. A third consumer makes the room.
#[testkit::scenario]
fn a_taker_run_in_place_that_pushes_and_waits_loses_no_entry() {
    let ((queue, _clock), ledger) = (queue(), Ledger::default());
    let takers: Vec<_> = (0..2)
        .map(|_| {
            let queue = queue.clone();
            spawn(move || {
                while let Ok(expired) = queue.take() {
                    spend(expired);
                }
            })
        })
        .collect();
    let over = {
        let (queue, ledger) = (queue.clone(), ledger.clone());
        InPlace::start(async move {
            if let Ok(expired) = queue.take_async().await {
                spend(expired);
                drop(queue.push(ledger.ticket(), Duration::ZERO));
            }
        })
    };
    let pushers: Vec<_> = (0..2)
        .map(|_| {
            let (queue, ledger) = (queue.clone(), ledger.clone());
            spawn(move || {
                for _ in 0..2 {
                    drop(queue.push(ledger.ticket(), Duration::ZERO));
                }
            })
        })
        .collect();
    join_all(pushers);
    queue.close();
    over.wait();
    join_all(takers);
    is_at_rest(&queue, &ledger);
}

/// `close_now` returns values whose drops inspect the queue, while consumers and producers wait.
#[testkit::scenario]
fn entries_whose_drops_inspect_the_queue_are_returned_once() {
    struct Looks(Queue2, Option<Ticket>);
    type Queue2 = DelayQueue<Mutex<Option<Box<dyn Send>>>, ManualClock>;
    impl Drop for Looks {
        fn drop(&mut self) {
            let _ = (self.0.len(), self.0.stats());
            self.1.take();
        }
    }
    let (clock, ledger) = (ManualClock::new(), Ledger::default());
    let queue: Queue2 = DelayQueue::with_clock(clock);
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let (queue, ledger) = (queue.clone(), ledger.clone());
            spawn(move || {
                let value: Box<dyn Send> = Box::new(Looks(queue.clone(), Some(ledger.ticket())));
                let delay = SECOND * u32::try_from(random_below(2)).unwrap();
                drop(queue.push(Mutex::new(Some(value)), delay));
                if random_below(2) == 0 {
                    drop(queue.take());
                }
            })
        })
        .collect();
    drop(queue.close_now());
    join_all(threads);
    assert!(queue.is_empty());
    ledger.is_settled();
}
