//! Closing, by both methods and in every order.

use std::time::Duration;

use delay_queue::{PushError, TakeError};
use sync_shim::Clock;
use testkit::CountingWaker;

use crate::support::{NOW, SECOND, drain, poll, poll_with, queue, taker, until, wait_asleep};

#[testkit::test]
fn a_push_to_a_closed_queue_returns_the_value() {
    let (queue, clock) = queue();
    assert!(!queue.is_closed());
    assert!(queue.close());
    assert!(!queue.close(), "close returns whether the queue was open");
    assert!(queue.is_closed());
    assert_eq!(queue.push(1, NOW), Err(PushError::Closed(1)));
    assert_eq!(queue.try_push(2, NOW), Err(PushError::Closed(2)));
    assert_eq!(queue.push_at(3, clock.now()), Err(PushError::Closed(3)));
    assert_eq!(
        queue.push_timeout(4, NOW, SECOND),
        Err(PushError::Closed(4))
    );
    assert_eq!(
        testkit::block_on(queue.push_async(5, NOW)),
        Err(PushError::Closed(5))
    );
    assert!(queue.is_empty());
}

#[testkit::test]
fn entries_of_a_closed_queue_are_taken_at_their_times_before_it_ends() {
    let (queue, clock) = queue();
    queue.push(1, SECOND).unwrap();
    queue.push(2, 2 * SECOND).unwrap();
    queue.close();
    assert!(matches!(queue.try_take(), Err(TakeError::NotDue)));
    let taker = {
        let queue = queue.clone();
        std::thread::spawn(move || {
            std::iter::from_fn(|| queue.take().ok())
                .map(|taken| taken.value)
                .collect::<Vec<_>>()
        })
    };
    for _ in 0..2 {
        clock.wait_for_sleepers(1);
        clock.advance(SECOND);
    }
    assert_eq!(taker.join().unwrap(), [1, 2]);
    assert!(matches!(queue.try_take(), Err(TakeError::Closed)));
    assert!(matches!(queue.take_timeout(NOW), Err(TakeError::Closed)));
}

/// Takers end with every operation that removes the last entry with a due time. (In tokio-util's queue,
/// `remove` did not wake the taker.)
#[testkit::test]
fn removing_the_last_entry_of_a_closed_queue_in_any_way_ends_all_takers() {
    type Op = fn(&delay_queue::DelayQueue<u8, delay_queue::ManualClock>, delay_queue::EntryId);
    let ops: [(&str, Op); 6] = [
        ("cancel", |queue, id| _ = queue.cancel(id)),
        ("clear", |queue, _| queue.clear()),
        ("close_now", |queue, _| drop(queue.close_now())),
        ("reset to never", |queue, id| {
            assert!(queue.reset(id, Duration::MAX));
        }),
        ("take", |queue, _| {
            queue.clock().advance(SECOND);
            let _ = queue.try_take();
        }),
        ("drain", |queue, _| {
            queue.clock().advance(SECOND);
            queue.drain_ready(usize::MAX);
        }),
    ];
    for (name, op) in ops {
        let (queue, clock) = queue();
        let id = queue.push(1, SECOND).unwrap();
        queue.close();
        let threads = [taker(&queue), taker(&queue)];
        let waker = CountingWaker::new();
        let mut future = queue.take_async();
        assert!(poll_with(&mut future, &waker.waker()).is_pending());
        wait_asleep(&queue, 3);
        clock.wait_for_sleepers(1);
        op(&queue, id);
        let mut taken = 0;
        for thread in threads {
            match thread.join().unwrap() {
                Ok(_) => taken += 1,
                Err(error) => assert!(error.is_closed(), "{name}: {error}"),
            }
        }
        assert!(taken <= 1, "{name}");
        waker.wait_for_wakes(1);
        let polled = poll(&mut future);
        assert!(
            matches!(polled, std::task::Poll::Ready(Err(TakeError::Closed))),
            "{name}"
        );
    }
}

#[testkit::test]
fn closing_an_empty_queue_ends_all_takers() {
    let (queue, _clock) = queue::<u8>();
    let threads = [taker(&queue), taker(&queue)];
    let waker = CountingWaker::new();
    let mut future = queue.take_async();
    assert!(poll_with(&mut future, &waker.waker()).is_pending());
    wait_asleep(&queue, 3);
    queue.close();
    for thread in threads {
        assert!(thread.join().unwrap().unwrap_err().is_closed());
    }
    assert_eq!(waker.wakes(), 1);
    assert!(poll(&mut future).is_ready());
}

#[testkit::test]
fn a_closed_queue_whose_entries_never_fall_due_has_ended() {
    let (queue, _clock) = queue();
    let id = queue.push(1, Duration::MAX).unwrap();
    let waiting = taker(&queue);
    wait_asleep(&queue, 1);
    queue.close();
    assert!(waiting.join().unwrap().unwrap_err().is_closed());
    assert_eq!(queue.len(), 1);
    // A reset can still give the entry a due time, and then it is taken.
    assert!(queue.reset(id, NOW));
    assert_eq!(queue.take().unwrap().value, 1);
}

#[test]
fn entries_of_a_closed_queue_can_be_cancelled_reset_and_cleared() {
    let (queue, clock) = queue();
    let ids: Vec<_> = (0..3).map(|n| queue.push(n, SECOND).unwrap()).collect();
    queue.close();
    assert_eq!(queue.cancel(ids[0]), Some(0));
    assert!(queue.reset(ids[1], 2 * SECOND));
    clock.advance(SECOND);
    assert_eq!(drain(&queue), [2]);
    queue.clear();
    assert!(queue.is_empty());
    assert!(matches!(queue.try_take(), Err(TakeError::Closed)));
}

#[test]
fn close_now_returns_the_remaining_entries_in_order_with_ids_and_times() {
    let (queue, clock) = queue();
    let start = clock.now();
    let never = queue.push("never", Duration::MAX).unwrap();
    let later = queue.push("later", 2 * SECOND).unwrap();
    let due = queue.push("due", NOW).unwrap();
    let equal = queue.push("equal", 2 * SECOND).unwrap();
    let left = queue.close_now();
    let told: Vec<_> = left
        .iter()
        .map(|left| (left.value, left.id, left.due))
        .collect();
    assert_eq!(
        told,
        [
            ("due", due, Some(start)),
            ("later", later, Some(start + 2 * SECOND)),
            ("equal", equal, Some(start + 2 * SECOND)),
            ("never", never, None),
        ]
    );
    assert!(queue.is_closed() && queue.is_empty());
    assert!(queue.close_now().is_empty(), "nothing is left");
    assert_eq!(queue.cancel(later), None);
    assert!(!queue.close());
}

#[test]
fn close_now_works_after_close() {
    let (queue, _clock) = queue();
    queue.push(1, SECOND).unwrap();
    queue.close();
    assert_eq!(queue.close_now().len(), 1);
    assert!(matches!(queue.try_take(), Err(TakeError::Closed)));
}

#[testkit::test]
fn a_take_after_the_end_returns_at_once() {
    let (queue, _clock) = queue::<u8>();
    queue.close_now();
    assert!(queue.take().unwrap_err().is_closed());
    assert!(
        testkit::block_on(queue.take_async())
            .unwrap_err()
            .is_closed()
    );
}

#[testkit::test]
fn a_queue_does_not_close_by_itself() {
    let (queue, clock) = queue();
    let waiting = taker(&queue);
    wait_asleep(&queue, 1);
    let other = queue.clone();
    drop(queue);
    until(|| other.stats().waiting_takers == 1);
    assert!(!other.is_closed());
    other.push(1, SECOND).unwrap();
    clock.wait_for_sleepers(1);
    clock.advance(SECOND);
    assert!(waiting.join().unwrap().is_ok());
}

/// Takers end when no entry can fall due; then a reset gives the last entry a time again.
#[testkit::test]
fn a_taker_leads_again_after_a_reset_revokes_the_end() {
    let (queue, clock) = queue();
    let id = queue.push("again", SECOND).unwrap();
    let first = taker(&queue);
    clock.wait_for_sleepers(1); // It is the leader.
    queue.close();
    assert!(queue.reset(id, Duration::MAX));
    assert!(first.join().unwrap().unwrap_err().is_closed());
    assert!(queue.reset(id, SECOND));
    let second = taker(&queue);
    clock.wait_for_sleepers(1);
    clock.advance(SECOND);
    assert_eq!(second.join().unwrap().unwrap().value, "again");
}
