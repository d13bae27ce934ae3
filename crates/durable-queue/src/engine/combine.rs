//! Combines pushes: while calls of the store are in progress, further pushes queue up and are sent together
//! in the next call. So concurrent threads and futures share a round trip and a disk sync.
//!
//! Flat combining, after Hendler, Incze, Shavit and Tzafrir (2010): a thread whose push finds fewer calls in
//! progress than allowed becomes a leader, and also sends the queued pushes. A leader makes one call, then the
//! first queued thread becomes the leader, so that no thread works for others indefinitely. If only futures
//! are queued, a call thread is summoned as the leader.
//!
//! Not for jobs with keys: the order of their locks in the store would depend on the timing of other threads.
//!
//! # Invariants
//! 1. There are at most [`LEADERS`] leaders, including summoned ones. While the line is not empty, there is a
//!    leader.
//! 2. Each queued push is answered, with its result or with the order to lead, or withdrawn, even if the store
//!    panics or no thread can be started.
//! 3. A job that the store rejects does not make other jobs fail.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::mem;
use std::panic::resume_unwind;
use std::sync::Arc;

use sync_shim::foreign::{discard, guarded};
use sync_shim::waiter::Waiter;
use sync_shim::{Mutex, Process};

use crate::error::{CarriedOut, ErrorKind, StoreError};
use crate::store::Result;
use crate::store::job::{NewJob, OwnedJob, Put};
use crate::threads::reply::Reply;

/// More than one, so that a call whose connection hangs does not block all pushes.
const LEADERS: usize = 2;
/// Maximum number of jobs of one call.
const MOST: usize = 100;
/// Maximum total payload of a call in bytes, so that a call does not exceed the limits of a store. A larger
/// job is sent alone and not copied.
const BYTES: usize = 1 << 20;

/// Identifies a queued push. Later ones have greater tickets.
type Ticket = u64;

/// What leaders need of a queue.
pub(crate) trait Pushes {
    /// Makes a call of the store.
    fn enter(&self, jobs: &[NewJob<'_>]) -> Result<Vec<Put>>;

    /// Has a call thread call [`Combiner::lead_futures`], or [`Combiner::refuse`] if none can be started. No lock
    /// may be held.
    fn summon(&self);
}

pub(crate) struct Combiner {
    most: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    leaders: usize,
    line: BTreeMap<Ticket, Follower>,
    /// The tickets of threads.
    threads: BTreeSet<Ticket>,
    next: Ticket,
}

/// A queued push.
struct Follower {
    job: OwnedJob,
    waits: Waits,
}

enum Waits {
    Thread(Arc<Reply<Seat>>),
    Future(Arc<Reply<Result<Put>>>),
}

/// Answer to a queued thread.
#[derive(Clone)]
enum Seat {
    Leads,
    Done(Result<Put>),
}

impl Follower {
    fn answer(self, put: Result<Put>) {
        match self.waits {
            Waits::Thread(seat) => seat.give(Seat::Done(put)),
            Waits::Future(reply) => reply.give(put),
        }
    }
}

/// The leader after one whose call has ended.
enum Next {
    Nobody,
    Thread(Arc<Reply<Seat>>),
    /// Only futures wait: a call thread leads.
    CallThread,
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

    /// Returns whether a push may share a call with others.
    pub(crate) fn combines(job: &NewJob<'_>) -> bool {
        job.key.is_none() && job.schedule.is_none() && job.payload.len() <= BYTES
    }

    /// Pushes a job, perhaps together with those of other threads and futures.
    pub(crate) fn push(&self, job: NewJob<'_>, pushes: &dyn Pushes) -> Result<Put> {
        if !Self::combines(&job) {
            return answers(&[job], pushes).remove(0);
        }
        if self.state.lock().leads() {
            return self.lead(job, pushes);
        }
        // Copied outside the lock, because a payload may be large.
        let seat = Reply::new();
        let follower = Follower {
            job: OwnedJob::of(job),
            waits: Waits::Thread(Arc::clone(&seat)),
        };
        {
            let mut state = self.state.lock();
            if state.leads() {
                drop(state);
                return self.lead(job, pushes);
            }
            let ticket = state.enqueue(follower);
            state.threads.insert(ticket);
        }
        match seat.wait() {
            Seat::Leads => self.lead(job, pushes),
            Seat::Done(put) => put,
        }
    }

    /// Enqueues a future's push, which must be [combinable](Self::combines). Its result is given to `reply`, unless it is withdrawn.
    pub(crate) fn enqueue(
        &self,
        job: OwnedJob,
        reply: Arc<Reply<Result<Put>>>,
        pushes: &dyn Pushes,
    ) -> Ticket {
        let waits = Waits::Future(reply);
        let (ticket, summons) = {
            let mut state = self.state.lock();
            let ticket = state.enqueue(Follower { job, waits });
            (ticket, state.leads())
        };
        if summons {
            pushes.summon();
        }
        ticket
    }

    /// Waits for the result of a future's push. Dropped before that, it withdraws the push, if no leader has dequeued it.
    pub(crate) async fn answer(&self, reply: &Reply<Result<Put>>, ticket: Ticket) -> Result<Put> {
        struct Withdraws<'a>(&'a Combiner, Ticket, Process);
        impl Drop for Withdraws<'_> {
            fn drop(&mut self) {
                let Self(combiner, ticket, process) = self;
                if process.is_current() {
                    combiner.withdraw(*ticket);
                }
            }
        }
        let process = Process::current();
        let withdraws = Withdraws(self, ticket, process);
        let answer = poll_fn(|context| {
            // In a forked child no answer comes, and the fork may have left the lock held.
            process.check(StoreError::new(ErrorKind::Forked))?;
            // USER CODE: the waker's clone. Before the lock is taken. A panic is the poller's, and withdraws the push.
            reply.look(Waiter::Task(context.waker().clone()))
        });
        let answer = answer.await;
        mem::forget(withdraws); // It has been dequeued.
        answer
    }

    fn withdraw(&self, ticket: Ticket) {
        let withdrawn = self.state.lock().line.remove(&ticket);
        drop(withdrawn); // After the unlock: a payload may be large.
    }

    /// Makes one call for the thread's own push, with queued ones.
    fn lead(&self, job: NewJob<'_>, pushes: &dyn Pushes) -> Result<Put> {
        let room = BYTES - job.payload.len();
        let followers = self.state.lock().dequeue(self.most - 1, room);
        let jobs = followers.iter().map(|follower| follower.job.as_new());
        let jobs: Vec<_> = [job].into_iter().chain(jobs).collect();
        let answers = guarded(|| answers(&jobs, pushes));
        let next = self.state.lock().hand_over();
        // First, so that the next call is in progress while these are answered.
        match next {
            Next::Nobody => {}
            Next::Thread(seat) => seat.give(Seat::Leads),
            Next::CallThread => pushes.summon(),
        }
        match answers {
            Ok(mut answers) => {
                let own = answers.remove(0);
                answer(followers, answers);
                own
            }
            Err(payload) => {
                answer(followers, Vec::new());
                resume_unwind(payload) // The panic is that of the thread that made the call.
            }
        }
    }

    /// Makes one call for queued pushes, on a summoned thread. Returns whether the thread is to lead again.
    pub(crate) fn lead_futures(&self, pushes: &dyn Pushes) -> bool {
        let followers = self.state.lock().dequeue(self.most, BYTES);
        let mut put = Vec::new();
        if !followers.is_empty() {
            let jobs = followers.iter().map(|follower| follower.job.as_new());
            let jobs: Vec<_> = jobs.collect();
            match guarded(|| answers(&jobs, pushes)) {
                Ok(answers) => put = answers,
                Err(payload) => discard(payload), // The panic hook has shown it.
            }
        }
        // First, so that the next call is in progress while these are answered.
        let seat = self.state.lock().next_thread();
        if let Some(seat) = seat {
            seat.give(Seat::Leads);
            answer(followers, put);
            return false;
        }
        // Their tasks push again meanwhile, so this thread's next call has more jobs.
        answer(followers, put);
        let next = self.state.lock().hand_over();
        match next {
            Next::Nobody => false,
            Next::Thread(seat) => {
                seat.give(Seat::Leads);
                false
            }
            Next::CallThread => true,
        }
    }

    /// Called instead of [`lead_futures`](Self::lead_futures) if no call thread can be started.
    pub(crate) fn refuse(&self, error: &StoreError) {
        let (next, refused) = self.state.lock().without_call_thread();
        if let Next::Thread(seat) = next {
            seat.give(Seat::Leads);
        }
        for follower in refused.into_values() {
            follower.answer(Err(error.clone()));
        }
    }
}

impl State {
    /// Makes the caller a leader, if there is room for one.
    fn leads(&mut self) -> bool {
        let leads = self.leaders < LEADERS;
        self.leaders += usize::from(leads);
        leads
    }

    fn enqueue(&mut self, follower: Follower) -> Ticket {
        let ticket = self.next;
        self.next += 1;
        self.line.insert(ticket, follower);
        ticket
    }

    /// Dequeues the pushes that fit into a call with room for `most` jobs and `room` bytes.
    fn dequeue(&mut self, most: usize, mut room: usize) -> Vec<Follower> {
        let mut dequeued = Vec::new();
        while dequeued.len() < most
            && let Some(first) = self.line.first_entry()
        {
            let Some(left) = room.checked_sub(first.get().job.payload.len()) else {
                break;
            };
            room = left;
            self.threads.remove(first.key());
            dequeued.push(first.remove());
        }
        dequeued
    }

    /// Dequeues the first thread.
    fn next_thread(&mut self) -> Option<Arc<Reply<Seat>>> {
        let ticket = self.threads.pop_first()?;
        match self.line.remove(&ticket)?.waits {
            Waits::Thread(seat) => Some(seat),
            Waits::Future(_) => None, // Not in `threads`.
        }
    }

    /// Ends a lead, and chooses the next leader.
    fn hand_over(&mut self) -> Next {
        if let Some(seat) = self.next_thread() {
            return Next::Thread(seat);
        }
        if self.line.is_empty() {
            self.leaders -= 1;
            return Next::Nobody;
        }
        Next::CallThread
    }

    /// Ends the lead of a call thread that could not be started. Returns the pushes that have no leader then.
    fn without_call_thread(&mut self) -> (Next, BTreeMap<Ticket, Follower>) {
        if self.leaders > 1 {
            self.leaders -= 1; // The other leader hands over to the line.
            return (Next::Nobody, BTreeMap::new());
        }
        match self.hand_over() {
            Next::CallThread => {
                self.leaders -= 1;
                (Next::Nobody, mem::take(&mut self.line))
            }
            next => (next, BTreeMap::new()),
        }
    }
}

/// Makes one call of the store. Returns one answer for each job.
fn answers(jobs: &[NewJob<'_>], pushes: &dyn Pushes) -> Vec<Result<Put>> {
    // USER CODE: the store. No lock is held.
    let entered = pushes.enter(jobs).and_then(|puts| {
        let is_whole = puts.len() == jobs.len();
        is_whole
            .then_some(puts)
            .ok_or(StoreError::lost_answer(ErrorKind::Corrupt))
    });
    match entered {
        Ok(puts) => puts.into_iter().map(Ok).collect(),
        // No job was inserted because of one that the store rejects without identifying it.
        Err(error)
            if error.carried_out() == CarriedOut::No && !error.is_transient() && jobs.len() > 1 =>
        {
            jobs.chunks(1)
                .flat_map(|job| answers(job, pushes))
                .collect()
        }
        Err(error) => vec![Err(error); jobs.len()],
    }
}

/// Answers pushes. Those without an answer were in a call that panicked.
fn answer(followers: Vec<Follower>, answers: Vec<Result<Put>>) {
    let mut answers = answers.into_iter();
    for follower in followers {
        let lost = || Err(StoreError::lost_answer(ErrorKind::Other));
        follower.answer(answers.next().unwrap_or_else(lost));
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
    use std::thread;

    use super::*;
    use crate::store::job::JobId;
    use crate::store::time::When;

    /// A store whose first calls, one per leader, wait for the test. A test plays the summoned threads.
    struct Store {
        combiner: Combiner,
        calls: AtomicU64,
        summons: AtomicU64,
        sizes: std::sync::Mutex<Vec<usize>>,
        gate: Barrier,
        fails: fn(&[NewJob<'_>]) -> Option<StoreError>,
    }

    impl Store {
        fn new(most: usize, fails: fn(&[NewJob<'_>]) -> Option<StoreError>) -> Self {
            Self {
                combiner: Combiner::of(most),
                calls: AtomicU64::new(0),
                summons: AtomicU64::new(0),
                sizes: std::sync::Mutex::default(),
                gate: Barrier::new(LEADERS + 1),
                fails,
            }
        }

        fn push(&self, payload: &[u8]) -> Result<Put> {
            let job = NewJob::plain(payload, When::NOW);
            self.combiner.push(job, self)
        }

        /// Enqueues a future's push.
        fn enqueue(&self, payload: &[u8]) -> (Ticket, Arc<Reply<Result<Put>>>) {
            let job = OwnedJob::of(NewJob::plain(payload, When::NOW));
            let reply = Reply::new();
            let ticket = self.combiner.enqueue(job, Arc::clone(&reply), self);
            (ticket, reply)
        }

        fn summons(&self) -> u64 {
            self.summons.load(SeqCst)
        }

        fn sizes(&self) -> Vec<usize> {
            self.sizes.lock().expect("no panic").clone()
        }

        /// Pushes all payloads while leaders are busy, so that they queue in this order. Returns the results
        /// after the leaders continue.
        fn push_together(&self, payloads: &[&[u8]]) -> Vec<thread::Result<Result<Put>>> {
            let in_line = |count| {
                while self.combiner.state.lock().line.len() < count {
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
            state.leaders == 0 && state.line.is_empty() && state.threads.is_empty()
        }
    }

    impl Pushes for Store {
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

        fn summon(&self) {
            self.summons.fetch_add(1, SeqCst);
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
        let sizes = store.sizes();
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
        let sizes = store.sizes();
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

    /// A store whose calls do not wait for the test.
    fn open_store(most: usize, fails: fn(&[NewJob<'_>]) -> Option<StoreError>) -> Store {
        let store = Store::new(most, fails);
        store.calls.store(LEADERS as u64, SeqCst);
        store
    }

    fn id(reply: &Reply<Result<Put>>) -> u64 {
        reply.wait().expect("it is entered").id().as_u64()
    }

    #[testkit::test]
    fn queued_futures_summon_leaders_that_send_them_together() {
        let store = open_store(3, |_| None);
        let pushed = [b"a", b"b", b"c", b"d"].map(|payload| store.enqueue(payload).1);
        assert_eq!(
            store.summons(),
            LEADERS as u64,
            "no more leaders than allowed"
        );
        assert!(store.combiner.lead_futures(&store), "one push is left");
        assert!(!store.combiner.lead_futures(&store));
        assert_eq!(
            pushed.map(|reply| id(&reply)),
            [b'a', b'b', b'c', b'd'].map(u64::from)
        );
        assert!(
            !store.combiner.lead_futures(&store),
            "the other leader finds nothing"
        );
        assert_eq!((store.sizes(), store.summons()), (vec![3, 1], 2));
        assert!(store.is_at_rest());
    }

    #[testkit::test]
    fn a_thread_sends_queued_futures_and_the_rest_has_a_summoned_leader() {
        let store = open_store(3, |_| None);
        store.combiner.state.lock().leaders = 1; // It ends later than the others.
        let pushed = [b"a", b"b", b"c"].map(|payload| store.enqueue(payload).1);
        assert_eq!(store.summons(), 1);
        store.combiner.state.lock().leaders -= 1; // The summoned thread is not yet there.
        assert_eq!(
            store.push(b"t").expect("it is entered").id().as_u64(),
            u64::from(b't')
        );
        assert_eq!(store.summons(), 2, "a thread does not lead for futures");
        assert!(!store.combiner.lead_futures(&store));
        assert_eq!(
            pushed.map(|reply| id(&reply)),
            [b'a', b'b', b'c'].map(u64::from)
        );
        assert!(!store.combiner.lead_futures(&store));
        assert_eq!(store.sizes(), [3, 1]);
        assert!(store.is_at_rest());
    }

    #[testkit::test]
    fn a_queued_thread_leads_before_a_call_thread_does() {
        let store = open_store(2, |_| None);
        let pushed = [b"a", b"b"].map(|payload| store.enqueue(payload).1);
        let late = thread::scope(|scope| {
            let thread = scope.spawn(|| store.push(b"t"));
            while store.combiner.state.lock().threads.is_empty() {
                thread::yield_now();
            }
            let late = store.enqueue(b"l").1;
            assert!(
                !store.combiner.lead_futures(&store),
                "the thread leads next"
            );
            assert!(thread.join().expect("no panic").is_ok());
            late
        });
        let pushed = pushed.map(|reply| id(&reply));
        assert_eq!(
            (pushed, id(&late)),
            ([b'a', b'b'].map(u64::from), u64::from(b'l'))
        );
        assert_eq!((store.sizes(), store.summons()), (vec![2, 2], 2));
        assert!(!store.combiner.lead_futures(&store));
        assert!(store.is_at_rest());
    }

    #[testkit::test]
    fn a_withdrawn_push_is_not_sent_and_a_leader_that_finds_nothing_makes_no_call() {
        let store = open_store(MOST, |_| None);
        let (a, b) = (store.enqueue(b"a"), store.enqueue(b"b"));
        store.combiner.withdraw(a.0);
        assert!(!store.combiner.lead_futures(&store));
        assert_eq!((id(&b.1), store.sizes()), (u64::from(b'b'), vec![1]));
        assert!(!store.combiner.lead_futures(&store));
        store.combiner.withdraw(b.0); // Too late, without effect.
        assert_eq!(store.sizes(), [1]);
        assert!(store.is_at_rest());
    }

    #[testkit::test]
    fn without_a_call_thread_futures_get_the_error_and_later_pushes_work() {
        let store = open_store(MOST, |_| None);
        let no_thread = StoreError::new(ErrorKind::NoThread);
        let pushed = [b"a", b"b"].map(|payload| store.enqueue(payload).1);
        store.combiner.refuse(&no_thread); // The other leader may still come.
        assert_eq!(store.combiner.state.lock().line.len(), 2);
        store.combiner.refuse(&no_thread);
        for reply in pushed {
            let error = reply.wait().expect_err("it has no leader");
            assert_eq!(
                (error.kind(), error.carried_out()),
                (ErrorKind::NoThread, CarriedOut::No)
            );
        }
        assert!(store.is_at_rest());
        assert!(store.push(b"t").is_ok());
        let later = store.enqueue(b"l").1;
        assert!(!store.combiner.lead_futures(&store));
        assert_eq!(id(&later), u64::from(b'l'));
        assert!(store.is_at_rest());
    }

    #[testkit::test]
    fn without_a_call_thread_a_queued_thread_leads() {
        let store = open_store(MOST, |_| None);
        let pushed = [b"a", b"b"].map(|payload| store.enqueue(payload).1);
        thread::scope(|scope| {
            let thread = scope.spawn(|| store.push(b"t"));
            while store.combiner.state.lock().threads.is_empty() {
                thread::yield_now();
            }
            for _ in 0..LEADERS {
                store.combiner.refuse(&StoreError::new(ErrorKind::NoThread));
            }
            assert!(thread.join().expect("no panic").is_ok());
        });
        assert_eq!(pushed.map(|reply| id(&reply)), [b'a', b'b'].map(u64::from));
        assert!(store.is_at_rest());
    }

    #[testkit::test]
    fn a_store_that_panics_on_a_call_thread_answers_all_futures() {
        let store = open_store(MOST, |_| panic!("a store panics"));
        let pushed = [b"a", b"b"].map(|payload| store.enqueue(payload).1);
        assert!(!store.combiner.lead_futures(&store));
        for reply in pushed {
            let error = reply.wait().expect_err("its leader has no answer");
            assert_eq!(error.carried_out(), CarriedOut::Perhaps);
        }
        assert!(!store.combiner.lead_futures(&store));
        assert!(store.is_at_rest());
    }
}
