//! Tests shared by the server stores: lost responses, and servers that crash.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::error::Error as _;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use durable_queue::internals::ANYTHING;
use durable_queue::store::{Act, Claim, Fate, Lease, ListedJob, Settle, Verdict};
use durable_queue::{
    CarriedOut, DurableQueue, ErrorKind, JobId, Limit, Merge, NewJob, Notifier, SettleError, Store,
    StoreError, StoreTime, Token, When,
};
use testkit::Rng;

use crate::proxy::{Proxy, SilentAfter};

pub const JOB: NewJob<'_> = NewJob {
    payload: b"job",
    when: When::NOW,
    key: None,
    group: None,
    merge: Merge::Keep,
    schedule: None,
    urgent: false,
    kind: None,
    options: None,
};

pub fn count(store: &impl Store) -> u32 {
    store.stats("queue").unwrap().jobs
}

pub fn what(error: &StoreError) -> (ErrorKind, CarriedOut) {
    (error.kind(), error.carried_out())
}

/// Returns everything that a log could contain of the error.
pub fn shown(error: &StoreError) -> String {
    let mut text = format!("{error} {error:?}");
    let mut source = error.source();
    while let Some(error) = source {
        write!(text, " {error} {error:?}").unwrap();
        source = error.source();
    }
    text
}

/// Returns a claim of due jobs, which are started.
pub fn claim_of(jobs: u32) -> Claim<'static> {
    Claim {
        token: Token::random(),
        kinds: None,
        max: jobs,
        start: jobs,
        ahead: 0,
        horizon: Duration::ZERO,
        lease: Duration::from_secs(3_600),
        urgent_first: true,
    }
}

/// Claims and starts up to so many due jobs of the queue `queue`.
pub fn claimed(store: &impl Store, jobs: u32) -> Vec<Lease> {
    let turn = store.turn("queue", &[], Some(claim_of(jobs))).unwrap();
    turn.claimed.unwrap().leases
}

/// Settles a job of the queue `queue` in a turn of its own.
pub fn settle(store: &impl Store, lease: &Lease, act: Act<'_>) -> Verdict {
    let settles = [lease.settle(act)];
    store.turn("queue", &settles, None).unwrap().verdicts[0]
}

/// Makes every call that finds jobs, with `jobs` jobs and one under a key, and removes them again.
pub fn all_calls(store: &impl Store, jobs: usize) {
    let puts = store.enqueue("queue", &vec![JOB; jobs]).unwrap();
    let key = Some(&b"key"[..]);
    store.enqueue("queue", &[NewJob { key, ..JOB }]).unwrap();
    let claim = Claim {
        token: Token::random(),
        kinds: None,
        max: 100,
        start: 50,
        ahead: 100,
        horizon: Duration::from_millis(500),
        lease: Duration::from_secs(30),
        urgent_first: true,
    };
    let turn = store.turn("queue", &[], Some(claim)).unwrap();
    let leases = turn.claimed.unwrap().leases;
    assert_eq!(leases.len(), jobs + 1);
    store.held_by("queue", claim.token, claim.lease).unwrap();
    let first = store.list("queue", None, 2).unwrap();
    let after = first.first().map(ListedJob::position);
    assert_eq!(store.list("queue", after, 1).unwrap()[..], first[1..]);
    // PostgreSQL's integers are signed.
    let last = (StoreTime::NEVER, JobId::from_u64(u64::MAX >> 1));
    assert!(store.list("queue", Some(last), 1).unwrap().is_empty());
    let acts = [
        Act::Start { lease: claim.lease },
        Act::Extend { lease: claim.lease },
        Act::Ack,
    ];
    for act in acts {
        let settles = leases.iter().map(|lease| Settle {
            id: lease.id,
            token: claim.token,
            act,
        });
        let settles: Vec<_> = settles.collect();
        store.turn("queue", &settles, None).unwrap();
    }
    assert!(store.cancel("queue", "key".into()).is_ok());
    assert!(store.cancel_requests("queue").unwrap().is_empty());
    let none = JobId::from_u64(1 << 40);
    assert!(store.cancel("queue", none.into()).is_ok());
    assert!(store.reset("queue", puts[0].id().into(), When::NOW).is_ok());
    assert_eq!(store.fate("queue", none).unwrap(), Fate::Gone);
    assert_eq!(store.delete_done("queue", 1).unwrap(), 0);
}

/// Forks. The child makes all calls of its parent's store, calls `more`, and drops the store. Returns in the
/// parent, whose store still works.
pub fn a_forked_child_is_refused<S: Store>(
    store: S,
    more: impl FnOnce(&S) -> Option<StoreError>,
) -> S {
    let mut parents = Some(store);
    testkit::in_fork(|| {
        let store = parents.take().unwrap();
        let notifier = || Notifier::new(|_| ());
        let span = Duration::from_secs(1);
        let id = JobId::from_u64(1);
        let refused = [
            store.enqueue("queue", &[JOB]).err(),
            store.enqueue("queue", &[JOB; 2]).err(),
            store.turn("queue", &[], None).err(),
            store.turn("queue", &[], Some(claim_of(1))).err(),
            store.cancel("queue", id.into()).err(),
            store.cancel_requests("queue").err(),
            store.reset("queue", id.into(), When::NOW).err(),
            store.held_by("queue", Token::random(), span).err(),
            store.watch("queue", notifier()).err(),
            store.watch("another", notifier()).err(),
            store.pause("queue", true).err(),
            store.limit("queue", &Limit::ordered(), true).err(),
            store.limits("queue").err(),
            store.stats("queue").err(),
            store.list("queue", None, 1).err(),
            store.dead("queue", None, 1).err(),
            store.redrive("queue", &[id]).err(),
            store.delete_dead("queue", &[id]).err(),
            store.fate("queue", id).err(),
            store.delete_done("queue", 1).err(),
            more(&store).or(Some(StoreError::new(ErrorKind::Forked))),
        ];
        for (call, error) in refused.into_iter().enumerate() {
            let error = error.unwrap_or_else(|| panic!("call {call} was made"));
            assert_eq!(error.kind(), ErrorKind::Forked, "call {call}");
            assert_eq!(error.carried_out(), CarriedOut::No, "call {call}");
        }
        drop(store);
    })
    .expect("the child is rejected and ends");
    parents.take().unwrap()
}

/// Loses responses of all kinds of calls: claims, starts, settles, `held_by`, listening. `lossy` is connected
/// through the proxy, which loses one of `each` responses, and `direct` is not.
pub fn lost_responses_lose_no_job<S: Store + 'static>(
    direct: &S,
    lossy: S,
    proxy: &Proxy,
    each: u32,
) {
    const JOBS: u32 = 60;
    const CUTS: u32 = 15;
    let queue: DurableQueue<Vec<u8>, _> = DurableQueue::builder("queue", lossy)
        .lease(Duration::from_secs(2))
        .build()
        .unwrap();
    let payloads: Vec<_> = (0..JOBS).map(u32::to_le_bytes).collect();
    let jobs: Vec<_> = payloads
        .iter()
        .map(|payload| NewJob { payload, ..JOB })
        .collect();
    direct.enqueue("queue", &jobs).unwrap();
    proxy.lose_each(each);
    let mut done = BTreeSet::new();
    while done.len() < payloads.len() || proxy.lost() < CUTS {
        if done.len() == payloads.len() {
            done.clear();
            direct.enqueue("queue", &jobs).unwrap();
        }
        let job = queue.take().unwrap();
        let payload = job.to_vec();
        // A job whose response was lost is handed out again or is gone; the figures tell at the end.
        match job.ack() {
            Ok(()) | Err(SettleError::Unknown) => _ = done.insert(payload),
            Err(error) => assert!(error.is_stale(), "{error}"),
        }
        if proxy.lost() >= CUTS {
            proxy.lose_each(0);
        }
    }
    proxy.lose_each(0);
    assert!(proxy.lost() >= CUTS, "{} were lost", proxy.lost());
    assert_eq!(count(direct), 0);
}

/// Loses the response to a push. `store` is connected through the proxy, and `direct` is not.
pub fn a_lost_response_is_reported<S: Store>(direct: &S, store: &S, proxy: &Proxy) {
    let never = NewJob {
        when: When::At(StoreTime::NEVER),
        ..JOB
    };
    for before in 0.. {
        // A statement is prepared now, so the response to its execution is lost next.
        store.enqueue("queue", &[never]).unwrap();
        proxy.lose_next();
        // An idle session is checked first, and the response to the check was lost.
        let Err(error) = store.enqueue("queue", &[never]) else {
            assert!(before < 100);
            continue;
        };
        assert_eq!(what(&error), (ErrorKind::Unavailable, CarriedOut::Perhaps));
        assert_eq!(count(direct), 2 * before + 2, "it was");
        break;
    }
}

/// Payload of a job whose push gets no response.
pub const HOLD: &[u8] = b"hold this";

/// Two sessions are cut at once, and a call finds out on the first. `store` has both through the proxy.
pub fn sessions_cut_together_are_replaced<S: Store>(proxy: &Proxy<SilentAfter>, store: &S) {
    // The caller holds the first session until it is cut.
    let hold = || {
        let job = NewJob {
            payload: HOLD,
            ..JOB
        };
        assert!(store.enqueue("queue", &[job]).is_err());
    };
    testkit::watchdog(testkit::LIMIT, || {
        thread::scope(|scope| {
            for time in 1..=2 {
                let holder = scope.spawn(hold);
                while proxy.plan().seen() < time {
                    thread::yield_now();
                }
                let stats = store.stats("queue"); // On the second session.
                proxy.cut();
                holder.join().unwrap();
                stats.unwrap();
            }
        });
    });
}

/// Another process's `push(n)` pushes the payload `n`, while this process waits for a job.
pub fn a_sleeping_queue_is_woken<S: Store>(
    queue: &DurableQueue<Vec<u8>, S>,
    push: impl Fn(u8, &[u8]),
) {
    const JOBS: u8 = 4;
    testkit::watchdog(testkit::LIMIT, || {
        let (taken, payloads) = channel();
        thread::scope(|scope| {
            scope.spawn(move || {
                for _ in 0..JOBS {
                    let job = queue.take().unwrap();
                    taken.send(job.to_vec()).unwrap();
                    job.ack().unwrap();
                }
            });
            for number in 1..=JOBS {
                let payload = number.to_string().into_bytes();
                push(number, &payload);
                assert_eq!(payloads.recv().unwrap(), payload);
            }
        });
    });
}

/// `cut` ends the session by which `store` listens. `other` is another process's store.
pub fn a_lost_listening_session_is_replaced<S: Store>(store: &S, other: &S, cut: impl FnOnce()) {
    testkit::watchdog(testkit::LIMIT, || {
        let (sender, times) = channel();
        let notifier = Notifier::new(move |due| sender.send(due).unwrap());
        let watch = store.watch("queue", notifier).unwrap();
        cut();
        assert_eq!(times.recv().unwrap(), ANYTHING);
        // It receives announcements again.
        other.enqueue("queue", &[JOB]).unwrap();
        assert!(times.recv().unwrap() > ANYTHING);
        drop(watch);
    });
}

/// Tests the listening session, through the proxy. The arguments of `open` are the time of silence before a
/// probe and the time limit of its answer.
pub fn a_silent_listening_session_is_probed<S: Store>(
    proxy: &Proxy,
    open: impl Fn(Duration, Duration) -> S,
) {
    const EVERY: Duration = Duration::from_millis(1);
    const ANSWERS: u32 = 30;
    testkit::watchdog(testkit::LIMIT, || {
        let store = open(EVERY, testkit::LIMIT * 2);
        let watch = store.watch("queue", Notifier::new(|_| ())).unwrap();
        let (connections, answers) = (proxy.connections(), proxy.answers());
        while proxy.answers() < answers + ANSWERS {
            thread::yield_now();
        }
        assert_eq!(proxy.connections(), connections, "it answered, and is kept");
        drop((watch, store));

        // On a slow machine the session may be replaced early, which is correct, too.
        let store = open(EVERY * 500, Duration::from_millis(100));
        let (sender, times) = channel();
        let notifier = Notifier::new(move |due| _ = sender.send(due));
        let watch = store.watch("queue", notifier).unwrap();
        proxy.swallow();
        assert_eq!(times.recv().unwrap(), ANYTHING);
        drop(watch);
    });
}

/// Environment variable with the number of crashes.
const VARIABLE: &str = "DURABLE_CRASHES";
const CRASHES: usize = 3;
/// Approximate number of jobs between two crashes.
const GAP: usize = 30;
/// Time limit of a crash and the jobs before it, on a busy machine.
const LONGEST: Duration = Duration::from_secs(10);

/// Returns the jobs during whose push the server crashes, and the total number of jobs.
fn plan_crashes(crashes: usize) -> (BTreeSet<usize>, usize) {
    let mut rng = Rng::from_env();
    let next = |last: &mut usize, gap: usize| {
        *last += gap;
        Some(*last)
    };
    let gaps = (0..crashes).map(|_| 1 + rng.below(2 * GAP));
    let points: BTreeSet<usize> = gaps.scan(0, next).collect();
    let jobs = points.last().map_or(0, |last| last + GAP);
    (points, jobs)
}

/// The server of the queue's store crashes repeatedly during the run. `crash` returns when the server is
/// running again; concurrent crashes are serialized.
pub fn a_crash_loses_no_answered_call<S: Store + 'static>(
    queue: &DurableQueue<Vec<u8>, S>,
    crash: impl Fn() + Sync,
) {
    let crashes = env::var(VARIABLE).map_or(CRASHES, |number| number.parse().unwrap());
    let (points, jobs) = plan_crashes(crashes);
    let limit = testkit::LIMIT + LONGEST * u32::try_from(crashes).unwrap();
    // How often each job may have been inserted.
    let entered = Mutex::new(BTreeMap::new());
    // How often each job was acknowledged. A job without a response is gone or is handed out again.
    let mut acked: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
    let mut unknown = BTreeSet::new();
    testkit::watchdog(limit, || {
        thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..jobs {
                    if points.contains(&number) {
                        scope.spawn(&crash);
                    }
                    push(queue, number, &entered);
                }
            });
            while acked.len() + unknown.len() < jobs {
                let job = queue.take().unwrap();
                let payload = job.to_vec();
                let times = entered.lock().unwrap().get(&payload).copied();
                match job.ack() {
                    Ok(()) => {
                        let acks = acked.entry(payload.clone()).or_default();
                        *acks += 1;
                        // A push in progress has no response yet.
                        let most = times.unwrap_or(u32::MAX);
                        assert!(*acks <= most, "acknowledged, and handed out again");
                        unknown.remove(&payload);
                    }
                    Err(SettleError::Unknown) if !acked.contains_key(&payload) => {
                        unknown.insert(payload);
                    }
                    Err(SettleError::Unknown) => {}
                    Err(error) => assert!(error.is_stale(), "{error}"),
                }
            }
        });
        assert_eq!(entered.lock().unwrap().len(), jobs);
    });
    println!(
        "{crashes} crashes: {jobs} jobs, {} acknowledged, {} without an answer",
        acked.len(),
        unknown.len()
    );
}

/// Repeats until there is a response.
fn push<S: Store>(
    queue: &DurableQueue<Vec<u8>, S>,
    number: usize,
    entered: &Mutex<BTreeMap<Vec<u8>, u32>>,
) {
    let payload = number.to_le_bytes().to_vec();
    let mut times = 0;
    loop {
        let pushed = queue.push(payload.clone(), Duration::ZERO);
        let is_in = pushed.is_ok();
        let perhaps = pushed.is_err_and(|error| error.error.carried_out() == CarriedOut::Perhaps);
        times += u32::from(is_in || perhaps);
        if is_in {
            entered.lock().unwrap().insert(payload, times);
            return;
        }
        thread::yield_now();
    }
}

/// `shift` moves the server's clock by a number of microseconds, forward or back. `tests/it/clocks.rs` does
/// the same for a queue.
pub fn setting_the_clock_moves_jobs_and_leases(store: &impl Store, shift: impl Fn(i64)) {
    const HOUR: i64 = 3_600_000_000;
    let now = || store.turn("queue", &[], None).unwrap().now;
    let claimed = || {
        let claim = Claim {
            horizon: Duration::ZERO,
            ..claim_of(10)
        };
        let turn = store.turn("queue", &[], Some(claim)).unwrap();
        turn.claimed.unwrap().leases
    };
    let settled = |lease: &Lease, act| {
        let (id, token) = (lease.id, lease.token);
        store
            .turn("queue", &[Settle { id, token, act }], None)
            .unwrap()
            .verdicts[0]
    };
    let second = Duration::from_secs(1);
    let delayed = NewJob {
        when: second.into(),
        ..JOB
    };
    store.enqueue("queue", &[JOB, delayed]).unwrap();
    let [held] = &claimed()[..] else {
        panic!("one is due");
    };
    let before = now();
    shift(-HOUR);
    assert_eq!(
        before.since(now()),
        Duration::from_micros(HOUR.unsigned_abs())
    );
    // A running job's lease is longer by the jump, unless it is renewed. New jobs are due by the new time,
    // earlier ones by their own.
    let lease = second * 10;
    assert!(claimed().is_empty());
    assert_eq!(settled(held, Act::Extend { lease }), Verdict::Done);
    let jobs = store.list("queue", None, 10).unwrap();
    assert!(
        jobs.iter()
            .any(|job| job.id == held.id && job.due == now().after(lease))
    );
    let put = store.enqueue("queue", &[JOB]).unwrap()[0];
    let [other] = &claimed()[..] else {
        panic!("one is due");
    };
    assert_eq!(
        (other.id, settled(other, Act::Ack)),
        (put.id(), Verdict::Done)
    );
    // The jump ends the lease, and makes the delayed job due.
    shift(HOUR + 1_000_000);
    assert_eq!(claimed().len(), 2);
    assert_eq!(settled(held, Act::Ack), Verdict::Stale);
}
