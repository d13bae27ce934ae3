//! A random walk over the rules of `takers`: no order of critical sections leaves an entry while a
//! waiter would take it.
//!
//! Sections are atomic, so a sequence of sections is a schedule. Every party is a state machine. A
//! notification stays in a set until its party acts on it. Time advances only when no party can
//! act: then no entry may be ready for a waiter.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Wake, Waker};

use delay_queue::NEVER;
use delay_queue::wait::{AlarmRequest, Left, ReadySource, WaiterId, Waiters, WakeList};
use delay_queue::{Alarm, Parker};
use testkit::Rng;

/// The heap as the rules use it.
#[derive(Default)]
struct Dues {
    now: u64,
    dues: Vec<u64>,
}

impl Dues {
    fn take(&mut self) -> bool {
        let (now, due) = (self.now, |due: &u64| *due);
        let earliest = self.dues.iter().map(due).min();
        let Some(earliest) = earliest.filter(|&due| due <= now) else {
            return false;
        };
        let at = self.dues.iter().position(|&due| due == earliest).unwrap();
        self.dues.swap_remove(at);
        true
    }

    fn earliest(&self) -> u64 {
        self.dues.iter().copied().min().unwrap_or(NEVER)
    }
}

impl ReadySource for Dues {
    fn now(&self) -> u64 {
        self.now
    }
    fn ready(&mut self, limit: usize) -> usize {
        let ready = self.dues.iter().filter(|&&due| due <= self.now);
        ready.count().min(limit)
    }
    fn next_due(&mut self) -> u64 {
        let later = self.dues.iter().filter(|&&due| due > self.now);
        later.copied().min().unwrap_or(NEVER)
    }
}

/// Settles, and returns the alarm to set.
fn settled(waiters: &mut Waiters, source: &mut Dues, wakes: &mut WakeList) -> Option<AlarmRequest> {
    let mut request = None;
    waiters.settle(source, wakes, &mut request);
    request
}

/// A thread that takes: awake, or asleep with the reasons to wake it.
#[derive(Debug)]
struct Thread {
    parker: Parker,
    asleep: Option<(WaiterId, Option<u64>)>,
    deadline: u64,
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

/// A future that waits. A lazy future is never polled again.
struct Future {
    id: WaiterId,
    woken: Arc<Flag>,
    lazy: bool,
}

struct World {
    source: Dues,
    waiters: Waiters,
    threads: Vec<Thread>,
    futures: Vec<Future>,
    /// Requests for an alarm that no party has carried out yet.
    requests: Vec<AlarmRequest>,
    /// Alarms that are set, with their times.
    alarms: BTreeMap<u64, u64>,
    dropped: Arc<std::sync::Mutex<BTreeSet<u64>>>,
    next_alarm: u64,
    time: u64,
    pushed: u64,
    taken: u64,
    /// Entries that were given a time, and notifications of futures that left without an entry.
    wakes_allowed: u64,
}

/// Records that an alarm was taken back.
struct Guard(u64, Arc<std::sync::Mutex<BTreeSet<u64>>>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.1.lock().unwrap().insert(self.0);
    }
}

impl World {
    fn new(threads: usize) -> Self {
        let thread = |_| Thread {
            parker: Parker::new(),
            asleep: None,
            deadline: NEVER,
        };
        Self {
            source: Dues::default(),
            waiters: Waiters::new(),
            threads: (0..threads).map(thread).collect(),
            futures: Vec::new(),
            requests: Vec::new(),
            alarms: BTreeMap::new(),
            dropped: Arc::default(),
            next_alarm: 0,
            time: 0,
            pushed: 0,
            taken: 0,
            wakes_allowed: 0,
        }
    }

    fn settle(&mut self) {
        let mut wakes = WakeList::new();
        let request = settled(&mut self.waiters, &mut self.source, &mut wakes);
        self.requests.extend(request);
        wakes.wake_all();
    }

    fn take(&mut self) -> bool {
        let taken = self.source.take();
        if taken {
            self.taken += 1;
            self.settle();
        }
        taken
    }

    fn look(&mut self) -> bool {
        self.source.now = self.source.now.max(self.time);
        self.take()
    }

    fn push(&mut self, due: u64) {
        self.pushed += 1;
        self.wakes_allowed += 1;
        self.source.dues.push(due);
        if self.waiters.concerns(due, self.source.now) {
            self.settle();
        }
    }

    /// Whether the thread can act: it is awake, or has a reason to wake.
    fn can_act(&self, thread: &Thread) -> bool {
        thread.asleep.is_none_or(|(_, until)| {
            let token = thread.parker.take_token();
            if token {
                thread.parker.unpark();
            }
            token || until.is_some_and(|until| until <= self.time) || thread.deadline <= self.time
        })
    }

    /// The thread wakes, checks, and either sleeps again or finishes and starts over.
    fn run_thread(&mut self, at: usize, rng: &mut Rng) {
        let time = self.time;
        self.threads[at].parker.take_token();
        let thread = &mut self.threads[at];
        let slept = thread.asleep.take();
        let time_is_up = slept.is_some() && thread.deadline <= time;
        if let Some((id, _)) = slept {
            self.waiters.dequeue_thread(id);
        }
        if self.look() {
            return;
        }
        if time_is_up {
            self.settle();
            return;
        }
        let next = self.source.earliest();
        let thread = &mut self.threads[at];
        if slept.is_none() {
            thread.deadline = if rng.chance(2) {
                time + 1 + rng.below(6) as u64
            } else {
                NEVER
            };
        }
        thread.asleep = Some(self.waiters.enqueue_thread(thread.parker.clone(), next));
        self.settle();
    }

    fn poll(&mut self, old: Option<usize>, rng: &mut Rng) {
        let (mut was_called, mut before) = (false, None);
        if let Some(at) = old {
            let future = self.futures.swap_remove(at);
            before = Some(future.id);
            match self.waiters.dequeue_future(future.id) {
                Left::Notified => was_called = true,
                Left::Waiting(waker) => drop(waker),
                Left::NoAlarm(_) => unreachable!("alarms never fail here"),
            }
        }
        if !self.look() {
            self.wakes_allowed += u64::from(was_called);
            let woken = Arc::new(Flag::default());
            let waker = Waker::from(Arc::clone(&woken));
            let id = self.waiters.enqueue_future(waker, before);
            let lazy = rng.chance(4);
            self.futures.push(Future { id, woken, lazy });
        }
        self.settle();
    }

    fn drop_future(&mut self, at: usize) {
        let future = self.futures.swap_remove(at);
        if matches!(self.waiters.dequeue_future(future.id), Left::Notified) {
            self.wakes_allowed += 1;
        }
        self.settle();
    }

    fn arm(&mut self, at: usize) {
        let request = self.requests.swap_remove(at);
        self.next_alarm += 1;
        self.alarms.insert(self.next_alarm, request.at);
        let alarm = Alarm::new(Guard(self.next_alarm, Arc::clone(&self.dropped)));
        let mut wakes = WakeList::new();
        drop(
            self.waiters
                .alarm_set(&request, io::Result::Ok(alarm), &mut wakes),
        );
        wakes.wake_all();
        self.settle();
    }

    /// The alarms that ring now, except cancelled ones.
    fn ringing(&mut self) -> Vec<u64> {
        for gone in std::mem::take(&mut *self.dropped.lock().unwrap()) {
            self.alarms.remove(&gone);
        }
        let due = self.alarms.iter().filter(|&(_, &at)| at <= self.time);
        due.map(|(&alarm, _)| alarm).collect()
    }

    fn wake(&mut self, alarm: u64) {
        self.alarms.remove(&alarm);
        self.source.now = self.source.now.max(self.time);
        drop(self.waiters.alarm_fired());
        if !self.waiters.is_alarm_being_set() {
            self.settle();
        }
    }

    /// Makes one step of a party that can act. Returns `false` if none can.
    fn step(&mut self, rng: &mut Rng) -> bool {
        let threads: Vec<_> = (0..self.threads.len())
            .filter(|&at| self.can_act(&self.threads[at]))
            .collect();
        let woken: Vec<_> = (0..self.futures.len())
            .filter(|&at| !self.futures[at].lazy && self.futures[at].woken.0.load(SeqCst))
            .collect();
        let ringing = self.ringing();
        let choices = threads.len() + woken.len() + ringing.len() + self.requests.len();
        if choices == 0 {
            return false;
        }
        let choice = rng.below(choices);
        let mut from = 0;
        if let Some(&at) = threads.get(choice) {
            self.run_thread(at, rng);
            return true;
        }
        from += threads.len();
        if let Some(&at) = woken.get(choice - from) {
            self.poll(Some(at), rng);
            return true;
        }
        from += woken.len();
        if let Some(&alarm) = ringing.get(choice - from) {
            self.wake(alarm);
            return true;
        }
        from += ringing.len();
        self.arm(choice - from);
        true
    }

    /// The invariant when no party can act: all ready entries were announced to futures that do not
    /// look.
    fn check_rest(&mut self) {
        let ready = self.source.ready(usize::MAX);
        let announced = self
            .futures
            .iter()
            .filter(|future| future.lazy && future.woken.0.load(SeqCst));
        let waiting = self.waiters.waiting();
        let wakes = self.waiters.counts().wakes;
        assert!(wakes <= self.wakes_allowed, "{wakes} wakes");
        assert!(
            waiting == 0 || ready <= announced.count(),
            "{ready} entries are ready and {waiting} takers wait at {}",
            self.time
        );
    }
}

fn walk(rng: &mut Rng) {
    let mut world = World::new(rng.below(4));
    for _ in 0..60 {
        match rng.below(9) {
            0..=2 => {
                let due = world.time + rng.below(8) as u64;
                // Pushes by a delay, or at a point in time.
                if rng.chance(2) {
                    world.source.now = world.source.now.max(world.time);
                }
                world.push(due);
            }
            3 if world.futures.len() < 4 => world.poll(None, rng),
            4 if !world.futures.is_empty() => {
                let at = rng.below(world.futures.len());
                world.drop_future(at);
            }
            5 if !world.futures.is_empty() => {
                let at = rng.below(world.futures.len());
                world.poll(Some(at), rng); // A spurious poll.
            }
            6 if !world.source.dues.is_empty() => {
                // A cancel or a reset.
                let at = rng.below(world.source.dues.len());
                world.source.dues.swap_remove(at);
                if rng.chance(2) {
                    let due = world.time + rng.below(8) as u64;
                    world.pushed -= 1;
                    world.push(due);
                } else {
                    world.pushed -= 1;
                    world.settle();
                }
            }
            7 => {
                world.look();
            }
            _ => {}
        }
        for _ in 0..rng.below(4) {
            world.step(rng);
        }
        if rng.chance(3) {
            while world.step(rng) {}
            world.check_rest();
            world.time += 1 + rng.below(3) as u64;
        }
    }
    while world.step(rng) {}
    world.check_rest();
    assert_eq!(world.pushed, world.taken + world.source.dues.len() as u64);
}

#[test]
fn no_schedule_leaves_an_entry_while_a_taker_waits() {
    let mut rng = Rng::from_env();
    for _ in 0..3_000 {
        walk(&mut rng);
    }
}

/// A push of an entry earlier than the leader's relies on a thread that has been notified and has
/// not looked yet.
#[test]
fn a_notified_thread_that_finds_an_earlier_time_leads_and_wakes_no_taker() {
    let mut source = Dues {
        now: 0,
        dues: vec![9],
    };
    let mut waiters = Waiters::new();
    let mut wakes = WakeList::new();
    let (leader, follower) = (Parker::new(), Parker::new());
    assert_eq!(waiters.enqueue_thread(leader.clone(), 9).1, Some(9));
    let (id, leads_until) = waiters.enqueue_thread(follower.clone(), 9);
    assert_eq!(leads_until, None);
    source.dues.push(0);
    settled(&mut waiters, &mut source, &mut wakes);
    source.dues.push(1);
    assert!(!waiters.concerns(1, 0), "the follower was notified");
    assert!(source.take(), "by another, before the follower looks");
    waiters.dequeue_thread(id);
    assert_eq!(waiters.enqueue_thread(follower, 1).1, Some(1));
    settled(&mut waiters, &mut source, &mut wakes);
    wakes.wake_all();
    assert!(!leader.take_token());
    assert_eq!(waiters.counts().rearms, 0);
}

/// An alarm cannot be set while a notified thread has not looked yet. The thread will become the
/// leader, so the futures get no error.
#[test]
fn a_failed_alarm_is_no_error_while_a_thread_is_notified() {
    let mut source = Dues {
        now: 0,
        dues: vec![9],
    };
    let mut waiters = Waiters::new();
    let mut wakes = WakeList::new();
    let woken = Arc::new(Flag::default());
    let future = waiters.enqueue_future(Waker::from(Arc::clone(&woken)), None);
    let request = settled(&mut waiters, &mut source, &mut wakes).unwrap();
    let (thread, _) = waiters.enqueue_thread(Parker::new(), 9);
    source.dues.push(0);
    assert!(
        settled(&mut waiters, &mut source, &mut wakes).is_none(),
        "the thread is called"
    );
    let failed = waiters.alarm_set(&request, Err(io::Error::other("no alarm")), &mut wakes);
    drop(failed);
    assert!(settled(&mut waiters, &mut source, &mut wakes).is_none());
    wakes.wake_all();
    assert!(!woken.0.load(SeqCst));

    // The thread looks, takes and leaves: the future is alone, and an alarm is requested again.
    waiters.dequeue_thread(thread);
    assert!(source.take());
    let mut wakes = WakeList::new();
    assert!(settled(&mut waiters, &mut source, &mut wakes).is_some());
    assert!(matches!(waiters.dequeue_future(future), Left::Waiting(_)));
}
