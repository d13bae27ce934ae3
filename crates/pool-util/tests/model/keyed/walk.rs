//! Runs a program on a real pool.
//!
//! # Invariants of the pool at rest
//! 1. The tasks of a key start in the order of their acceptance, at most as many at a time as the
//!    limit.
//! 2. As many tasks run as there are workers, or all that may run: of each key up to the limit.
//! 3. An accepted task holds room until it has ended, and only accepted tasks do. A cancelled one
//!    holds room until its key's turn reaches it, which is at once if a worker is free.
//! 4. A call is admitted if there is room, and waiters are admitted in order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use pool_core::{DropPolicy, JoinError, Pool, QueueDepth, Stats};
use pool_util::PoolExt;
use testkit::CountingWaker;

use crate::twin::job::{Board, Id, Verdict};
use crate::twin::patience::{is_over, lock, poll};

use super::program::{Key, Op, Settings};
use super::subject::{Answer, Handle, Refused, Subject, Submission};

/// Runs the whole program, then releases the pool and checks that nothing is left.
pub(crate) fn walk(settings: Settings, ops: &[Op]) {
    let mut walk = Walk::new(settings);
    for op in ops {
        walk.step(*op);
        walk.settle(op);
    }
    walk.finale();
}

/// The end of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Value,
    Panicked,
    Cancelled,
    Released,
    Refused,
    /// Its future was dropped.
    GivenUp,
}

/// A submitted task.
struct Known {
    key: Key,
    end: Option<End>,
    ran: bool,
}

struct Waiter {
    id: Id,
    spawn: bool,
    future: Submission,
    bell: CountingWaker,
}

struct Walk {
    settings: Settings,
    subject: Subject,
    board: Board,
    known: Vec<Known>,
    handles: BTreeMap<Id, Handle>,
    /// Futures that wait for room, in the order of their first polls.
    line: VecDeque<Waiter>,
    /// Accepted and unstarted tasks without a key.
    plain: VecDeque<Id>,
    /// Per key: accepted and unstarted tasks, and those that their handles cancelled.
    lanes: BTreeMap<u8, VecDeque<Id>>,
    running: BTreeSet<Id>,
    open: bool,
    paused: bool,
    /// Set by a `release_now`: no task behind a running one starts.
    discards: bool,
    /// The results of calls within tasks.
    within: Arc<Mutex<Option<Within>>>,
}

enum Within {
    Handed(Answer),
    Joined(Result<Id, JoinError>),
}

impl Walk {
    fn new(settings: Settings) -> Self {
        let depth = settings
            .depth
            .map_or(QueueDepth::Unlimited, QueueDepth::Limited);
        let pool = Pool::builder()
            .capacity(settings.capacity)
            .queue_depth(depth)
            .drop_policy(DropPolicy::Drain)
            .build()
            .expect("the settings are valid");
        let keyed = pool.keyed().limit(settings.limit);
        Self {
            settings,
            subject: Subject { pool, keyed },
            board: Board::default(),
            known: Vec::new(),
            handles: BTreeMap::new(),
            line: VecDeque::new(),
            plain: VecDeque::new(),
            lanes: BTreeMap::new(),
            running: BTreeSet::new(),
            open: true,
            paused: false,
            discards: false,
            within: Arc::default(),
        }
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Hand { key, spawn } => {
                let id = self.add(key);
                let expected = self.expected();
                let answer = self.subject.try_hand(self.board.job(id), key, spawn);
                self.answered(id, spawn, answer, expected);
            }
            Op::HandAsync { key, spawn } => self.hand_async(key, spawn),
            Op::HandWithin { task, key, spawn } => {
                if let Some(outer) = pick(&self.running, task) {
                    self.hand_within(outer, key, spawn);
                }
            }
            Op::JoinWithin { task, handle } => {
                if let Some(outer) = pick(&self.running, task)
                    && let Some(id) = pick(self.handles.keys(), handle)
                    && self.known[id as usize].key.is_some()
                    && !self.running.contains(&id)
                    && self.known[id as usize].end.is_none()
                {
                    self.join_within(outer, id);
                }
            }
            Op::Finish { task, panics } => {
                if let Some(id) = pick(&self.running, task) {
                    self.finish(id, panics);
                }
            }
            Op::Cancel { handle } => {
                if let Some(id) = pick(self.handles.keys(), handle) {
                    self.cancel(id);
                }
            }
            Op::DropFuture { future } => {
                if let Some(at) = future.checked_rem(self.line.len()) {
                    let waiter = self.line.remove(at).expect("so many wait");
                    self.known[waiter.id as usize].end = Some(End::GivenUp);
                }
            }
            Op::Pause => {
                assert_eq!(self.subject.pool.pause(), self.open && !self.paused);
                self.paused |= self.open;
            }
            Op::Resume => {
                assert_eq!(self.subject.pool.resume(), self.paused);
                self.paused = false;
            }
            Op::Release => {
                assert_eq!(self.subject.pool.release(), self.open);
                (self.open, self.paused) = (false, false);
            }
            Op::ReleaseNow => self.release_now(),
            Op::Reboot => {
                assert_eq!(self.subject.pool.reboot(), !self.open);
                self.open = true;
                self.discards = false;
            }
        }
    }

    /// Records a task that is about to be submitted.
    fn add(&mut self, key: Key) -> Id {
        self.known.push(Known {
            key,
            end: None,
            ran: false,
        });
        Id::try_from(self.known.len() - 1).expect("programs are short")
    }

    /// The expected result of a call that does not wait (4).
    fn expected(&self) -> Result<(), Refused> {
        let taken = taken(&self.subject.pool.stats());
        if !self.open {
            Err(Refused::Released)
        } else if self.limit().is_some_and(|limit| taken >= limit) {
            Err(Refused::Full)
        } else {
            Ok(())
        }
    }

    /// The number of tasks that have room.
    fn limit(&self) -> Option<usize> {
        self.settings
            .depth
            .map(|depth| depth + self.settings.capacity)
    }

    fn answered(&mut self, id: Id, spawn: bool, answer: Answer, expected: Result<(), Refused>) {
        match answer {
            Ok(handle) => {
                assert_eq!((Ok(()), spawn), (expected, handle.is_some()), "of {id}");
                self.accepted(id, handle);
            }
            Err(refused) => {
                assert_eq!(Err(refused), expected, "of {id}");
                self.known[id as usize].end = Some(End::Refused);
            }
        }
    }

    fn accepted(&mut self, id: Id, handle: Option<Handle>) {
        match self.known[id as usize].key {
            None => self.plain.push_back(id),
            Some(key) => self.lanes.entry(key).or_default().push_back(id),
        }
        if let Some(handle) = handle {
            self.handles.insert(id, handle);
        }
    }

    fn hand_async(&mut self, key: Key, spawn: bool) {
        let id = self.add(key);
        let expected = self.expected();
        let mut future = self.subject.hand_async(self.board.job(id), key, spawn);
        let bell = CountingWaker::new();
        let polled = future
            .as_mut()
            .poll(&mut Context::from_waker(&bell.waker()));
        match polled {
            Poll::Ready(answer) => self.answered(id, spawn, answer, expected),
            Poll::Pending => {
                assert_eq!(expected, Err(Refused::Full), "{id} waits");
                self.line.push_back(Waiter {
                    id,
                    spawn,
                    future,
                    bell,
                });
            }
        }
    }

    fn hand_within(&mut self, outer: Id, key: Key, spawn: bool) {
        let id = self.add(key);
        let expected = self.expected();
        let (subject, job) = (self.subject.clone(), self.board.job(id));
        let said = self.call_within(outer, move || {
            Within::Handed(match key {
                None => subject.try_hand(job, key, spawn),
                Some(key) => subject.hand(job, key, spawn),
            })
        });
        let Within::Handed(answer) = said else {
            unreachable!("it was handed over")
        };
        self.answered(id, spawn, answer, expected);
    }

    fn join_within(&mut self, outer: Id, id: Id) {
        let handle = self.handles.remove(&id).expect("just picked");
        let said = self.call_within(outer, || Within::Joined(handle.join()));
        let Within::Joined(joined) = said else {
            unreachable!("it was joined")
        };
        let deadlocks = matches!(joined, Err(JoinError::WouldDeadlock));
        assert!(deadlocks, "{id} within {outer}: {joined:?}");
    }

    /// Has a task at its gate make this call and return to its gate.
    fn call_within(&self, outer: Id, call: impl FnOnce() -> Within + Send + 'static) -> Within {
        let within = Arc::clone(&self.within);
        let call = move || {
            let said = call();
            *lock(&within) = Some(said);
        };
        self.board.tell(outer, Verdict::Call(Box::new(call)));
        let said = poll(|| lock(&self.within).take());
        said.unwrap_or_else(|| panic!("a call within {outer} does not return"))
    }

    fn finish(&mut self, id: Id, panics: bool) {
        let (verdict, end) = if panics {
            (Verdict::Panic, End::Panicked)
        } else {
            (Verdict::Return, End::Value)
        };
        self.board.tell(id, verdict);
        self.running.remove(&id);
        self.known[id as usize].end = Some(end);
        if let Some(key) = self.known[id as usize].key
            && self.discards
        {
            self.end_lane(key);
        }
    }

    /// The remaining tasks of a lane do not start.
    fn end_lane(&mut self, key: u8) {
        for id in self.lanes.remove(&key).unwrap_or_default() {
            self.known[id as usize].end.get_or_insert(End::Released);
        }
    }

    fn cancel(&mut self, id: Id) {
        let known = &mut self.known[id as usize];
        let in_time = !known.ran && known.end.is_none();
        assert_eq!(self.handles[&id].cancel(), in_time, "of {id}");
        if in_time {
            known.end = Some(End::Cancelled);
            assert_eq!(self.board.fate(id).drops, 1, "of {id}, cancelled");
            self.plain.retain(|&other| other != id);
        }
    }

    fn release_now(&mut self) {
        // Keys with a turn in the queue.
        let queued: Vec<u8> = self
            .lanes
            .keys()
            .copied()
            .filter(|&key| self.may_start(key, &self.running) > 0)
            .collect();
        let is_whole = |key: &u8| self.lanes[key].iter().all(|&id| !self.is_cancelled(id));
        let certain = queued.iter().all(is_whole);
        let turns = |&key: &u8| {
            self.may_start(key, &self.running)
                .min(self.lanes[&key].len())
        };
        let turns: usize = queued.iter().map(turns).sum();
        let number = self.subject.pool.release_now();
        if certain {
            assert_eq!(number, self.plain.len() + turns, "plain ones and turns");
        }
        for id in std::mem::take(&mut self.plain) {
            self.known[id as usize].end = Some(End::Released);
            assert_eq!(self.board.fate(id).drops, 1, "of {id}, released");
        }
        for key in queued {
            for &id in &self.lanes[&key] {
                assert_eq!(self.board.fate(id).drops, 1, "of {id}, released");
            }
            self.end_lane(key);
        }
        (self.open, self.paused, self.discards) = (false, false, true);
    }

    fn is_cancelled(&self, id: Id) -> bool {
        self.known[id as usize].end == Some(End::Cancelled)
    }

    /// The number of these tasks that have this key.
    fn of_key<'a>(&self, key: u8, ids: impl IntoIterator<Item = &'a Id>) -> usize {
        let is_it = |id: &&Id| self.known[**id as usize].key == Some(key);
        ids.into_iter().filter(is_it).count()
    }

    /// The number of tasks of this key that may start in addition to the running ones.
    fn may_start<'a>(&self, key: u8, running: impl IntoIterator<Item = &'a Id>) -> usize {
        self.settings.limit as usize - self.of_key(key, running)
    }

    /// Waits until the pool is in a valid state.
    fn settle(&mut self, after: &impl std::fmt::Debug) {
        let began = Instant::now();
        loop {
            self.poll_woken(after);
            let (stats, at_gates) = (self.subject.pool.stats(), self.board.at_gates());
            let Err(why) = self.at_rest(&stats, &at_gates) else {
                break self.rested(&stats, &at_gates);
            };
            assert!(
                !is_over(began),
                "after {after:?} the pool does not come to rest: {why}\n\
                 running {:?}, plain {:?}, lanes {:?}, at gates {at_gates:?}\n{stats:?}",
                self.running,
                self.plain,
                self.lanes,
            );
            thread::yield_now();
        }
    }

    /// Polls woken futures: the first ones of the wait queue, if the pool is open.
    fn poll_woken(&mut self, after: &impl std::fmt::Debug) {
        while let Some(first) = self.line.front_mut() {
            if first.bell.wakes() == 0 {
                // Futures are woken one after the other, and a later one may be polled first.
                return;
            }
            let polled = first
                .future
                .as_mut()
                .poll(&mut Context::from_waker(&first.bell.waker()));
            let Poll::Ready(answer) = polled else {
                panic!("{} was woken after {after:?}, and is not ready", first.id);
            };
            let waiter = self.line.pop_front().expect("it is the first");
            let expected = if self.open {
                Ok(())
            } else {
                Err(Refused::Released)
            };
            self.answered(waiter.id, waiter.spawn, answer, expected);
        }
    }

    fn at_rest(&self, stats: &Stats, at_gates: &[Id]) -> Result<(), &'static str> {
        let gone = self.running.iter().any(|id| !at_gates.contains(id));
        let ensure = |holds: bool, why| if holds { Ok(()) } else { Err(why) };
        ensure(!gone, "a task is on its way to its gate")?;
        // 2.
        let startable = |(&key, lane): (&u8, &VecDeque<Id>)| {
            let waiting = lane.iter().filter(|&&id| !self.is_cancelled(id)).count();
            self.may_start(key, &self.running).min(waiting)
        };
        let startable = self.plain.len() + self.lanes.iter().map(startable).sum::<usize>();
        let busy = if self.paused {
            self.running.len()
        } else {
            let all = self.running.len() + startable;
            all.min(self.settings.capacity).max(self.running.len())
        };
        ensure(at_gates.len() == busy, "another number of tasks run")?;
        ensure(stats.busy == busy, "another number of workers are busy")?;
        // 3.
        let plain_starts = at_gates.iter().filter(|id| self.plain.contains(id)).count();
        let mut holding = at_gates.len() + self.plain.len() - plain_starts;
        let mut perhaps = 0;
        for (&key, lane) in &self.lanes {
            let of_key = self.of_key(key, at_gates);
            ensure(
                of_key <= self.settings.limit as usize,
                "more of a key run than its limit",
            )?;
            // The tasks before a started one have left the lane.
            let started = lane.iter().rposition(|id| at_gates.contains(id));
            let rest = lane.iter().skip(started.map_or(0, |at| at + 1));
            let cancelled = rest.clone().filter(|&&id| self.is_cancelled(id)).count();
            if of_key == self.settings.limit as usize {
                holding += rest.count(); // No turn has reached them.
            } else {
                holding += rest.count() - cancelled;
                if self.paused || busy >= self.settings.capacity {
                    perhaps += cancelled;
                }
            }
        }
        let range = holding..=holding + perhaps;
        ensure(
            range.contains(&taken(stats)),
            "another number of tasks hold room",
        )?;
        // 4.
        ensure(
            stats.waiting == self.line.len(),
            "another number of calls wait",
        )?;
        let full = self.limit().is_some_and(|limit| taken(stats) >= limit);
        ensure(full || self.line.is_empty(), "a call waits beside room")
    }

    /// Records the started tasks, and the cancelled ones that have certainly left.
    fn rested(&mut self, stats: &Stats, at_gates: &[Id]) {
        let started: Vec<Id> = at_gates
            .iter()
            .copied()
            .filter(|id| !self.running.contains(id))
            .collect();
        let plain_before = self.plain.clone();
        let mut by_key = BTreeMap::<u8, Vec<Id>>::new();
        for id in started {
            // 1.
            match self.known[id as usize].key {
                None => {
                    assert!(
                        self.plain.contains(&id),
                        "{id} starts, and was not accepted"
                    );
                    self.plain.retain(|&other| other != id);
                }
                Some(key) => by_key.entry(key).or_default().push(id),
            }
            self.known[id as usize].ran = true;
            self.running.insert(id);
        }
        for (key, mut first_ones) in by_key {
            let of_key = self.of_key(key, &self.running);
            assert!(of_key <= self.settings.limit as usize, "of key {key}");
            let lane = self.lanes.get_mut(&key).expect("they were accepted");
            while !first_ones.is_empty() {
                let first = lane.pop_front().expect("they were accepted");
                if self.known[first as usize].end != Some(End::Cancelled) {
                    let at = first_ones.iter().position(|&id| id == first);
                    let at = at.unwrap_or_else(|| panic!("{first_ones:?} start before {first}"));
                    first_ones.swap_remove(at);
                }
            }
        }
        let left = plain_before.len() - self.plain.len();
        let in_order = self.plain.iter().eq(plain_before.iter().skip(left));
        assert!(in_order, "of {plain_before:?} {:?} are left", self.plain);
        let alive = self
            .known
            .iter()
            .filter(|known| known.end.is_none())
            .count()
            - self.line.len();
        if taken(stats) == alive {
            let known = &self.known;
            for lane in self.lanes.values_mut() {
                lane.retain(|&id| known[id as usize].end.is_none());
            }
        }
        self.lanes.retain(|_, lane| !lane.is_empty());
        let is_keyed = |id: &Id| self.known[*id as usize].key.is_some();
        if self.lanes.is_empty() && !self.running.iter().any(is_keyed) {
            assert_eq!(
                self.subject.keyed.keys(),
                0,
                "keys whose tasks have ended are forgotten"
            );
        }
    }

    /// Ends all tasks, and the pool.
    fn finale(&mut self) {
        self.step(Op::Release);
        self.settle(&"the release");
        while let Some(id) = pick(&self.running, 0) {
            self.finish(id, false);
            self.settle(&"the release, while tasks end");
        }
        let ended = || self.subject.pool.wait_released_timeout(Duration::ZERO).ok();
        poll(ended).expect("a released pool with nothing to do ends");
        assert_eq!(self.subject.keyed.keys(), 0);
        let stats = self.subject.pool.stats();
        assert_eq!((stats.in_flight, stats.reserved, stats.waiting), (0, 0, 0));
        let count = |end| {
            self.known
                .iter()
                .filter(|known| known.end == Some(end))
                .count() as u64
        };
        let expected = [End::Value, End::Panicked, End::Cancelled, End::Released].map(count);
        let seen = [
            stats.completed,
            stats.panicked,
            stats.cancelled,
            stats.released,
        ];
        assert_eq!(seen, expected, "completed, panicked, cancelled, released");
        assert_eq!(stats.submitted, expected.iter().sum::<u64>());
        for (id, known) in (0..).zip(&self.known) {
            let fate = self.board.fate(id);
            assert_eq!(
                (fate.runs, fate.drops),
                (u32::from(known.ran), 1),
                "of {id}"
            );
        }
        for (id, handle) in std::mem::take(&mut self.handles) {
            let end = match handle.try_join().expect("it has ended") {
                Ok(value) => {
                    assert_eq!(value, id);
                    End::Value
                }
                Err(JoinError::Panicked(_)) => End::Panicked,
                Err(JoinError::Cancelled) => End::Cancelled,
                Err(JoinError::Released) => End::Released,
                Err(other) => panic!("of {id}: {other:?}"),
            };
            assert_eq!(Some(end), self.known[id as usize].end, "of {id}");
        }
    }
}

/// Tasks that hold room. Waiting keyed tasks hold permits.
fn taken(stats: &Stats) -> usize {
    stats.in_flight + stats.reserved
}

/// Selects one of them, modulo their number.
fn pick<'a>(all: impl IntoIterator<Item = &'a Id, IntoIter: Clone>, number: usize) -> Option<Id> {
    let all = all.into_iter();
    let at = number.checked_rem(all.clone().count())?;
    all.copied().nth(at)
}

impl Drop for Walk {
    /// Opens all gates after a failure, so that no thread stays.
    fn drop(&mut self) {
        if thread::panicking() {
            self.board.end_all();
        }
    }
}
