//! A feeder: it takes an entry, offers it to a receiver, and returns it if there is none.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use delay_queue::feeder::{Control, Unsent, feed};
use delay_queue::{DelayQueue, Expired};
use sync_shim::model::{JoinHandle, spawn};
use sync_shim::{Clock, Mutex, Parker};

use super::line::full;
use super::{NOW, Queue, beside, queue, steps, value};

type Item = Expired<&'static str>;

/// A channel without a buffer, as a feeder uses it.
#[derive(Clone)]
struct Hatch(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    feeder: Parker,
    receiver: Parker,
}

#[derive(Default)]
struct State {
    wanted: bool,
    received: Option<Item>,
    interrupted: bool,
}

impl Wake for Inner {
    fn wake(self: Arc<Self>) {
        self.state.lock().interrupted = true;
        self.feeder.unpark();
    }
}

impl Hatch {
    fn new() -> Self {
        Self(Arc::new(Inner {
            state: Mutex::new(State::default()),
            feeder: Parker::new(),
            receiver: Parker::new(),
        }))
    }

    fn offer(&self, value: Item) -> Result<(), Unsent<&'static str>> {
        loop {
            let mut state = self.0.state.lock();
            if std::mem::take(&mut state.interrupted) {
                let is_final = false;
                return Err(Unsent { value, is_final });
            }
            if std::mem::take(&mut state.wanted) {
                state.received = Some(value);
                drop(state);
                self.0.receiver.unpark();
                return Ok(());
            }
            drop(state);
            self.0.feeder.park();
        }
    }

    fn receive(&self) -> Item {
        self.0.state.lock().wanted = true;
        self.0.feeder.unpark();
        self.0.receiver.park();
        self.0.state.lock().received.unwrap()
    }

    fn was_received(&self) -> bool {
        self.0.state.lock().received.is_some()
    }
}

fn feeder(queue: &Queue, hatch: &Hatch) -> (Control, JoinHandle<()>) {
    let control = Control::new(Waker::from(Arc::clone(&hatch.0)));
    let (queue, hatch, told) = (queue.clone(), hatch.clone(), control.clone());
    let thread = spawn(move || feed(&queue, &told, |value| hatch.offer(value)));
    (control, thread)
}

#[testkit::model(preemptions = 3)]
fn a_stop_racing_a_feeder_that_waits_ends_it() {
    let (queue, _clock) = queue();
    queue.push("far", steps(9)).unwrap();
    let (control, thread) = feeder(&queue, &Hatch::new());
    control.stop();
    thread.join().unwrap();
    assert_eq!(queue.len(), 1);
}

#[testkit::model(preemptions = 3)]
fn a_stop_racing_an_offer_leaves_the_entry_in_the_queue() {
    let (queue, _clock) = queue();
    let id = queue.push("entry", NOW).unwrap();
    let (control, thread) = feeder(&queue, &Hatch::new());
    control.stop();
    thread.join().unwrap();
    let taken = queue.try_take().unwrap();
    assert_eq!((taken.value, taken.id), ("entry", id));
}

#[testkit::model(preemptions = 3)]
fn a_close_now_racing_an_offer_returns_the_entry() {
    let (queue, _clock) = queue();
    queue.push("entry", NOW).unwrap();
    let (_control, thread) = feeder(&queue, &Hatch::new());
    let left = queue.close_now();
    assert_eq!(left.len(), 1);
    thread.join().unwrap();
    assert!(queue.is_empty());
}

/// Either the receiver gets the entry or the call returns it.
#[testkit::model(preemptions = 3)]
fn a_close_now_racing_a_receiver_has_one_winner() {
    let (queue, _clock) = queue();
    queue.push("entry", NOW).unwrap();
    let hatch = Hatch::new();
    let (_control, thread) = feeder(&queue, &hatch);
    hatch.0.state.lock().wanted = true;
    hatch.0.feeder.unpark();
    let left = queue.close_now().len();
    thread.join().unwrap();
    assert_eq!(left + usize::from(hatch.was_received()), 1);
    assert!(queue.is_empty());
}

/// A feeder that returns an entry must notify a waiting taker.
#[testkit::model(preemptions = 3)]
fn a_returned_entry_racing_a_waiting_taker_is_taken() {
    let (queue, _clock) = queue();
    queue.push("entry", NOW).unwrap();
    let (control, thread) = feeder(&queue, &Hatch::new());
    let taker = beside(&queue, |queue| value(queue.take()));
    control.stop();
    thread.join().unwrap();
    assert_eq!(taker.join().unwrap().unwrap(), "entry");
}

/// The queue is closed and the feeder holds its last entry: takers must wait until it is received,
/// and then end.
#[testkit::model(preemptions = 3)]
fn a_last_entry_that_is_received_after_close_ends_a_waiting_taker() {
    let (queue, _clock) = queue();
    queue.push("entry", NOW).unwrap();
    let hatch = Hatch::new();
    let (_control, thread) = feeder(&queue, &hatch);
    let taken = queue.take_timeout(NOW);
    let taker = beside(&queue, |queue| value(queue.take()));
    queue.close();
    if taken.is_err() {
        assert_eq!(hatch.receive().value, "entry");
    }
    assert!(taker.join().unwrap().unwrap_err().is_closed());
    thread.join().unwrap();
}

/// The place of a checked-out entry is free for a pusher once the entry is received.
#[testkit::model(preemptions = 2)]
fn a_received_entry_racing_a_waiting_push_admits_it() {
    let (queue, _clock) = super::line::full();
    let hatch = Hatch::new();
    let (control, thread) = feeder(&queue, &hatch);
    let pusher = beside(&queue, |queue| queue.push("second", NOW).is_ok());
    assert_eq!(hatch.receive().value, "first");
    assert!(pusher.join().unwrap());
    control.stop();
    thread.join().unwrap();
    assert_eq!(queue.try_take().unwrap().value, "second");
}

/// The queue is closed and the feeder returns its last entry: a taker must still be waiting for it.
#[testkit::model(preemptions = 3)]
fn a_close_racing_a_returned_offer_leaves_the_entry_to_a_taker() {
    let (queue, _clock) = queue();
    queue.push("entry", NOW).unwrap();
    let (control, thread) = feeder(&queue, &Hatch::new());
    let taker = beside(&queue, |queue| value(queue.take()));
    queue.close();
    control.stop();
    assert_eq!(taker.join().unwrap().unwrap(), "entry");
    thread.join().unwrap();
}

/// The feeder was the leader and leaves with its entry. Another taker waits for the next one.
#[testkit::model(preemptions = 2)]
fn a_feeder_that_leaves_with_an_entry_passes_the_lead_on() {
    let (queue, clock) = queue();
    queue.push("one", steps(1)).unwrap();
    queue.push("two", steps(2)).unwrap();
    let (control, thread) = feeder(&queue, &Hatch::new());
    let taker = beside(&queue, |queue| value(queue.take()).unwrap());
    clock.advance(steps(1));
    clock.advance(steps(1));
    // The feeder keeps its entry: the taker gets the other one.
    let taken = taker.join().unwrap();
    control.stop();
    thread.join().unwrap();
    assert_ne!(queue.try_take().unwrap().value, taken);
}

/// Without a receiver the feeder ends, and its entry goes to a waiting taker.
#[testkit::model(preemptions = 3)]
fn a_feeder_without_receivers_racing_a_taker_leaves_it_the_entry() {
    let (queue, _clock) = queue();
    queue.push("entry", NOW).unwrap();
    let thread = {
        let queue = queue.clone();
        let control = Control::new(Waker::noop().clone());
        spawn(move || {
            feed(&queue, &control, |value| {
                let is_final = true;
                Err(Unsent { value, is_final })
            });
        })
    };
    let taken = value(queue.take());
    // The feeder may have been too late to take an entry, and wait.
    queue.close();
    assert_eq!(taken.unwrap(), "entry");
    thread.join().unwrap();
}

/// A closed queue is cleared while the feeder holds its last entry: the returned entry is dropped.
#[testkit::model(preemptions = 3)]
fn a_clear_racing_a_returned_offer_ends_a_waiting_taker() {
    let (queue, _clock) = queue();
    queue.push("entry", NOW).unwrap();
    let (control, thread) = feeder(&queue, &Hatch::new());
    let taker = beside(&queue, |queue| value(queue.take()));
    queue.close();
    queue.clear();
    control.stop();
    let taken = taker.join().unwrap();
    assert!(taken.is_ok_and(|value| value == "entry") || queue.is_empty());
    thread.join().unwrap();
}

/// Two threads call `close_now` while the feeder holds the entry: one of them gets it, and both
/// return.
#[testkit::model(preemptions = 2)]
fn two_close_nows_racing_an_offer_both_return() {
    let (queue, _clock) = queue();
    queue.push("entry", NOW).unwrap();
    let (_control, thread) = feeder(&queue, &Hatch::new());
    let other = beside(&queue, |queue| queue.close_now().len());
    let left = queue.close_now().len();
    assert_eq!(left + other.join().unwrap(), 1);
    thread.join().unwrap();
    assert!(queue.is_empty());
}

/// The feeder's entry fills the queue. Closing must not leave a pusher waiting for room that may
/// never become free.
#[testkit::model(preemptions = 2)]
fn a_close_racing_an_offer_returns_the_value_of_a_waiting_push() {
    let (queue, _clock) = full();
    let (control, thread) = feeder(&queue, &Hatch::new());
    let pusher = beside(&queue, |queue| queue.push("second", NOW).is_err());
    queue.close();
    assert!(pusher.join().unwrap(), "there was no room");
    control.stop();
    thread.join().unwrap();
    assert_eq!(queue.try_take().unwrap().value, "first");
}

/// A waker that calls `close_now` on the thread that runs it.
struct Closes(Queue, Mutex<usize>, Parker);

impl Wake for Closes {
    fn wake(self: Arc<Self>) {
        let left = self.0.close_now().len();
        *self.1.lock() += left;
        self.2.unpark();
    }
}

/// The feeder's thread wakes a future, for another entry that falls due, and the waker calls
/// `close_now` there.
#[testkit::model(preemptions = 3)]
fn a_close_now_on_the_feeders_thread_returns_the_feeders_entry() {
    let (queue, clock) = queue();
    queue.push("one", steps(1)).unwrap();
    queue.push("two", steps(1)).unwrap();
    let closed = Parker::new();
    let closes = Arc::new(Closes(queue.clone(), Mutex::new(0), closed.clone()));
    let waker = Waker::from(Arc::clone(&closes));
    let mut future = queue.take_async();
    let polled = Pin::new(&mut future).poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    let (_control, thread) = feeder(&queue, &Hatch::new());
    clock.advance(steps(1));
    closed.park();
    thread.join().unwrap();
    assert_eq!(*closes.1.lock(), 2);
    drop(future);
}

/// A waker that waits, and times out, on the thread that runs it.
struct Waits(Queue, std::time::Instant);

impl Wake for Waits {
    fn wake(self: Arc<Self>) {
        assert!(self.0.take_timeout(self.1).is_err());
    }
}

/// `close_now` waits until the feeder has returned its entry. Before that it wakes a rejected
/// pusher, whose waker waits on the same thread.
#[testkit::model(preemptions = 3)]
fn a_close_now_whose_wakers_wait_racing_an_offer_returns() {
    let (queue, clock) = full();
    let (_control, thread) = feeder(&queue, &Hatch::new());
    let other = DelayQueue::with_clock(clock.clone());
    let waker = Waker::from(Arc::new(Waits(other, clock.now())));
    let mut refused = queue.push_async("second", NOW);
    let polled = Pin::new(&mut refused).poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    assert_eq!(queue.close_now().len(), 1);
    thread.join().unwrap();
    drop(refused);
}

/// A waker that waits for the feeder's end.
struct WaitsFor(Parker);

impl Wake for WaitsFor {
    fn wake(self: Arc<Self>) {
        self.0.park();
    }
}

/// As above, but the waker waits until the feeder has reacted to the recall, so the recall must
/// come first.
#[testkit::model(preemptions = 3)]
fn a_close_now_recalls_the_feeder_before_it_runs_wakers() {
    let (queue, _clock) = full();
    let hatch = Hatch::new();
    let control = Control::new(Waker::from(Arc::clone(&hatch.0)));
    let ended = Parker::new();
    let feeder = {
        let (queue, ended) = (queue.clone(), ended.clone());
        spawn(move || {
            feed(&queue, &control, |value| hatch.offer(value));
            ended.unpark();
        })
    };
    let waker = Waker::from(Arc::new(WaitsFor(ended)));
    let mut refused = queue.push_async("second", NOW);
    let polled = Pin::new(&mut refused).poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    assert_eq!(queue.close_now().len(), 1);
    feeder.join().unwrap();
    drop(refused);
}
