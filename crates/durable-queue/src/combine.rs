//! Combines pushes: while calls of the store are in progress, further pushes queue up and are sent together
//! in the next call. So concurrent threads share a round trip and a disk sync.
//!
//! Flat combining, after Hendler, Incze, Shavit and Tzafrir (2010): a push that finds fewer calls in progress
//! than allowed becomes a leader, and also sends the queued pushes. A leader makes one call, then the first
//! queued push becomes the leader, so that no thread works for others indefinitely.
//!
//! Not for jobs with keys: the order of their locks in the store would depend on the timing of other threads.
//!
//! # Invariants
//! 1. There are at most [`LEADERS`] leaders. While there are fewer, the queue is empty.
//! 2. Each queued push is answered, with its result or with the order to lead, even if the store panics.
//! 3. A job that the store rejects does not make other jobs fail.

use std::collections::VecDeque;
use std::sync::Arc;

use sync_shim::Mutex;

use crate::error::{CarriedOut, ErrorKind, StoreError};
use crate::job::{NewJob, Put};
use crate::reply::Reply;
use crate::store::Result;
use crate::time::When;

/// More than one, so that a call whose connection hangs does not block all pushes.
const LEADERS: usize = 2;
/// Maximum number of jobs of one call.
const MOST: usize = 100;
/// Maximum total payload of a call in bytes, so that a call does not exceed the limits of a store. A larger
/// job is sent alone and not copied.
const BYTES: usize = 1 << 20;

/// Makes a call of the store.
type Enter<'a> = &'a dyn Fn(&[NewJob<'_>]) -> Result<Vec<Put>>;

pub(crate) struct Combiner {
    most: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    leaders: usize,
    followers: VecDeque<Follower>,
}

/// A queued push.
struct Follower {
    payload: Vec<u8>,
    when: When,
    urgent: bool,
    seat: Arc<Reply<Seat>>,
}

/// Answer to a queued push.
#[derive(Clone)]
enum Seat {
    Leads,
    Done(Result<Put>),
}

impl Follower {
    fn job(&self) -> NewJob<'_> {
        NewJob {
            urgent: self.urgent,
            ..NewJob::plain(&self.payload, self.when)
        }
    }
}

impl Combiner {
    pub(crate) fn new() -> Self {
        Self::of(MOST)
    }

    fn of(most: usize) -> Self {
        Self {
            most,
            state: Mutex::new(State::default()),
        }
    }

    /// Pushes a job without key and schedule, perhaps together with those of other threads.
    pub(crate) fn push(&self, job: NewJob<'_>, enter: Enter<'_>) -> Result<Put> {
        if job.payload.len() > BYTES {
            return alone(job, enter);
        }
        if self.state.lock().leads() {
            return self.lead(job, enter);
        }
        // Copied outside the lock, because a payload may be large.
        let seat = Reply::new();
        let follower = Follower {
            payload: job.payload.to_vec(),
            when: job.when,
            urgent: job.urgent,
            seat: Arc::clone(&seat),
        };
        {
            let mut state = self.state.lock();
            if state.leads() {
                drop(state);
                return self.lead(job, enter);
            }
            state.followers.push_back(follower);
        }
        match seat.wait() {
            Seat::Leads => self.lead(job, enter),
            Seat::Done(put) => put,
        }
    }

    /// Makes one call, with queued pushes.
    fn lead(&self, job: NewJob<'_>, enter: Enter<'_>) -> Result<Put> {
        let room = BYTES - job.payload.len();
        let mut lead = Lead {
            combiner: self,
            followers: self.state.lock().next(self.most - 1, room),
            answers: Vec::new(),
        };
        let mut jobs = vec![job];
        jobs.extend(lead.followers.iter().map(Follower::job));
        // USER CODE: the store. No lock is held. After a panic the drop of `lead` answers its followers.
        let entered = enter(&jobs).and_then(|puts| {
            let is_whole = puts.len() == jobs.len();
            is_whole
                .then_some(puts)
                .ok_or(StoreError::lost_answer(ErrorKind::Corrupt))
        });
        let mut answers: Vec<_> = match entered {
            Ok(puts) => puts.into_iter().map(Ok).collect(),
            Err(error) if jobs.len() == 1 => return Err(error),
            // No job was inserted because of one that the store rejects without identifying it.
            Err(error) if error.carried_out() == CarriedOut::No && !error.is_transient() => {
                jobs.iter().map(|job| alone(*job, enter)).collect()
            }
            Err(error) => vec![Err(error); jobs.len()],
        };
        let own = answers.remove(0);
        lead.answers = answers;
        own
    }
}

impl State {
    /// Makes the caller a leader, if there is room for one.
    fn leads(&mut self) -> bool {
        let leads = self.leaders < LEADERS;
        self.leaders += usize::from(leads);
        leads
    }

    /// Dequeues the pushes that fit into a call with room for `most` jobs and `room` bytes.
    fn next(&mut self, most: usize, mut room: usize) -> Vec<Follower> {
        let mut fits = |follower: &&Follower| {
            let left = room.checked_sub(follower.payload.len());
            room = left.unwrap_or(0);
            left.is_some()
        };
        let count = self
            .followers
            .iter()
            .take(most)
            .take_while(&mut fits)
            .count();
        self.followers.drain(..count).collect()
    }
}

fn alone(job: NewJob<'_>, enter: Enter<'_>) -> Result<Put> {
    enter(&[job]).map(|puts| puts[0])
}

/// A leader, until its call ends, also by a panic.
struct Lead<'c> {
    combiner: &'c Combiner,
    followers: Vec<Follower>,
    /// One for each follower, if the store has answered.
    answers: Vec<Result<Put>>,
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let next = {
            let mut state = self.combiner.state.lock();
            let next = state.followers.pop_front();
            state.leaders -= usize::from(next.is_none());
            next
        };
        // First, so that the next call is in progress while these are answered.
        if let Some(next) = next {
            next.seat.give(Seat::Leads);
        }
        let mut answers = self.answers.drain(..);
        for follower in self.followers.drain(..) {
            let lost = || Err(StoreError::lost_answer(ErrorKind::Other));
            let put = answers.next().unwrap_or_else(lost);
            follower.seat.give(Seat::Done(put));
        }
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
    use std::thread;

    use super::*;
    use crate::job::JobId;

    /// A store whose first calls, one per leader, wait for the test.
    struct Store {
        combiner: Combiner,
        calls: AtomicU64,
        sizes: std::sync::Mutex<Vec<usize>>,
        gate: Barrier,
        fails: fn(&[NewJob<'_>]) -> Option<StoreError>,
    }

    impl Store {
        fn new(most: usize, fails: fn(&[NewJob<'_>]) -> Option<StoreError>) -> Self {
            Self {
                combiner: Combiner::of(most),
                calls: AtomicU64::new(0),
                sizes: std::sync::Mutex::default(),
                gate: Barrier::new(LEADERS + 1),
                fails,
            }
        }

        fn enter(&self, jobs: &[NewJob<'_>]) -> Result<Vec<Put>> {
            if self.calls.fetch_add(1, SeqCst) < LEADERS as u64 {
                self.gate.wait();
            }
            self.sizes.lock().expect("no panic").push(jobs.len());
            if let Some(error) = (self.fails)(jobs) {
                return Err(error);
            }
            // The id is the payload's byte.
            let put = |job: &NewJob<'_>| Put::New(JobId::from_u64(job.payload[0].into()));
            Ok(jobs.iter().map(put).collect())
        }

        fn push(&self, payload: &[u8]) -> Result<Put> {
            let job = NewJob::plain(payload, When::NOW);
            self.combiner.push(job, &|jobs| self.enter(jobs))
        }

        /// Pushes all payloads while leaders are busy, so that they queue in this order. Returns the results
        /// after the leaders continue.
        fn push_together(&self, payloads: &[&[u8]]) -> Vec<thread::Result<Result<Put>>> {
            let in_line = |count| {
                while self.combiner.state.lock().followers.len() < count {
                    thread::yield_now();
                }
            };
            thread::scope(|scope| {
                let leaders: Vec<_> = (0..LEADERS)
                    .map(|_| scope.spawn(|| self.push(b"leader")))
                    .collect();
                while self.calls.load(SeqCst) < LEADERS as u64 {
                    thread::yield_now();
                }
                let mut followers = Vec::new();
                for (index, payload) in payloads.iter().enumerate() {
                    followers.push(scope.spawn(|| self.push(payload)));
                    in_line(index + 1);
                }
                self.gate.wait();
                for leader in leaders {
                    assert!(leader.join().expect("no panic").is_ok());
                }
                followers
                    .into_iter()
                    .map(thread::ScopedJoinHandle::join)
                    .collect()
            })
        }

        fn is_at_rest(&self) -> bool {
            let state = self.combiner.state.lock();
            state.leaders == 0 && state.followers.is_empty()
        }
    }

    fn ids(pushed: Vec<thread::Result<Result<Put>>>) -> Vec<u64> {
        let id = |pushed: thread::Result<Result<Put>>| {
            pushed
                .expect("no panic")
                .expect("it is entered")
                .id()
                .as_u64()
        };
        pushed.into_iter().map(id).collect()
    }

    #[testkit::test]
    fn pushes_that_wait_go_together_and_each_has_its_own_answer() {
        let store = Store::new(MOST, |_| None);
        let ids = ids(store.push_together(&[b"a", b"b", b"c", b"d"]));
        assert_eq!(ids, [b'a', b'b', b'c', b'd'].map(u64::from));
        // Each leader is followed by one leader; either of them may send the other pushes.
        let sizes = store.sizes.lock().expect("no panic").clone();
        assert!(
            sizes.len() <= LEADERS * 2 && sizes.iter().sum::<usize>() == 6,
            "{sizes:?}"
        );
        assert!(store.is_at_rest());
    }

    #[testkit::test]
    fn a_call_takes_no_more_than_its_share_and_the_rest_is_led_by_others() {
        let store = Store::new(2, |_| None);
        let ids = ids(store.push_together(&[&b"x"[..]; 9]));
        assert_eq!(ids.len(), 9);
        let sizes = store.sizes.lock().expect("no panic").clone();
        assert!(sizes.iter().all(|size| *size <= 2), "{sizes:?}");
        assert!(store.is_at_rest());
    }

    #[testkit::test]
    fn a_call_carries_no_more_bytes_than_its_share_and_a_large_job_waits_for_no_other() {
        let store = Store::new(MOST, |jobs| {
            let bytes: usize = jobs.iter().map(|job| job.payload.len()).sum();
            (jobs.len() > 1 && bytes > BYTES).then(|| StoreError::new(ErrorKind::Full))
        });
        let half = vec![b'h'; BYTES / 2 + 1];
        let ids = ids(store.push_together(&[&half, &half, b"a", &half, b"b"]));
        assert_eq!(ids, [b'h', b'h', b'a', b'h', b'b'].map(u64::from));
        assert!(store.is_at_rest());

        store.combiner.state.lock().leaders = LEADERS; // None of them ends.
        assert!(store.push(&vec![b'l'; BYTES + 1]).is_ok());
    }

    #[testkit::test]
    fn a_job_that_the_store_refuses_is_refused_alone() {
        let store = Store::new(MOST, |jobs| {
            let is_bad = jobs.iter().any(|job| job.payload == b"bad");
            is_bad.then(|| StoreError::new(ErrorKind::TooLarge))
        });
        let pushed = store.push_together(&[b"a", b"bad", b"b"]);
        let kinds: Vec<_> = pushed
            .into_iter()
            .map(|pushed| pushed.expect("no panic").err().map(|error| error.kind()))
            .collect();
        assert_eq!(kinds, [None, Some(ErrorKind::TooLarge), None]);
        assert!(store.is_at_rest());
    }

    #[testkit::test]
    fn a_lost_answer_is_that_of_all_and_nothing_is_entered_twice() {
        let store = Store::new(MOST, |jobs| {
            let is_late = jobs.iter().any(|job| job.payload != b"leader");
            is_late.then(|| StoreError::lost_answer(ErrorKind::Unavailable))
        });
        for pushed in store.push_together(&[b"a", b"b", b"c"]) {
            let error = pushed.expect("no panic").expect_err("it is lost");
            assert_eq!(error.carried_out(), CarriedOut::Perhaps);
        }
        assert!(store.calls.load(SeqCst) <= LEADERS as u64 * 2);
        assert!(store.is_at_rest());
    }

    #[testkit::test]
    fn a_store_that_panics_strands_nobody() {
        let store = Store::new(MOST, |jobs| {
            let is_any = jobs.iter().any(|job| job.payload != b"leader");
            assert!(!is_any, "a store panics");
            None
        });
        let mut panics = 0;
        for pushed in store.push_together(&[b"a", b"b", b"c"]) {
            match pushed {
                Ok(put) => {
                    let error = put.expect_err("its leader has no answer");
                    assert_eq!(error.carried_out(), CarriedOut::Perhaps);
                }
                Err(_) => panics += 1,
            }
        }
        assert!((1..=LEADERS * 2).contains(&panics), "{panics}");
        assert!(store.is_at_rest());
        assert!(store.push(b"leader").is_ok());
    }
}
