//! Stored contents are returned unchanged, and pushes are announced.

use std::sync::Arc;
use std::time::Duration;

use durable_queue::internals::SharedClock;
use durable_queue::store::{Act, JobState, ListedJob, RECALL, Store, Verdict, Watch};
use durable_queue::{
    CarriedOut, ErrorKind, JobId, Merge, NewJob, Notifier, Put, StoreTime, Token, When, Which,
};
use sync_shim::{Clock, Mutex, Parker};

use super::{
    Fixture, HORIZON, LEASE, QUEUE, SECOND, claim_of, claim_unconfirmed, claimed, job, keyed, put,
    put_one, settle, start, start_one,
};

/// Maximum wait for announcements; only a hang takes so long.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Empty, large and binary payloads.
pub fn payloads_are_kept_byte_for_byte(fixture: &impl Fixture) {
    let store = fixture.store();
    let large: Vec<u8> = (0..=255).cycle().take(4 << 20).collect();
    for payload in [
        &b""[..],
        b"\0",
        b"\xff\xfe\0'\";--",
        "\u{1F41C}".as_bytes(),
        &large,
    ] {
        put_one(store, job(payload, When::NOW));
        let lease = start_one(store);
        assert!(lease.payload == payload, "{} bytes", payload.len());
        assert_eq!(settle(store, &lease, Act::Ack), Verdict::Done);
    }
}

/// With arbitrary bytes and characters.
pub fn keys_and_names_may_be_arbitrary(fixture: &impl Fixture) {
    let store = fixture.store();
    let hostile: [&[u8]; 9] = [
        b"",
        b" ",
        b"\0",
        b"\0\0",
        b"\xff\xfe",
        b"'; DROP TABLE durable_job; --",
        b"{a}:b\r\n*1",
        b"%s%n",
        "\u{202e}\u{1F41C}".as_bytes(),
    ];
    let mut ids = Vec::new();
    for key in hostile {
        let new = NewJob {
            key: Some(key),
            ..job(key, HORIZON)
        };
        let put = put(store, &[new, new]);
        let id = put[0].id();
        assert_eq!(put, [Put::New(id), Put::Kept(id)], "{key:?}");
        ids.push(id);
    }
    let leases = claimed(store, 100, 0).leases;
    for (lease, key) in leases.iter().zip(hostile) {
        assert_eq!((lease.key.as_deref(), &lease.payload[..]), (Some(key), key));
    }
    for key in hostile {
        assert!(
            store
                .cancel(QUEUE, Which::Key(key))
                .expect("an answer")
                .is_gone(),
            "{key:?}"
        );
    }
    for name in ["a b", "'; --", "\u{1F41C}", "queue2", "{queue}:due"] {
        store
            .enqueue(name, &[job(name.as_bytes(), When::NOW)])
            .expect("an answer");
        let claim = super::claim_of(10, 10);
        let turn = store.turn(name, &[], Some(claim)).expect("a turn");
        let leases = turn.claimed.expect("a claim").leases;
        assert_eq!(leases.len(), 1, "{name}");
        assert_eq!(leases[0].payload, name.as_bytes());
    }
}

/// If the store cannot represent the name, each call returns [`ErrorKind::BadName`] and affects no other
/// queue.
pub fn a_name_with_nul_is_valid_or_rejected_by_each_call(fixture: &impl Fixture) {
    let store = fixture.store();
    put_one(store, job(b"before", When::NOW));
    let name = format!("{QUEUE}\0more");
    let new = job(b"job", When::NOW);
    let pushed = store.enqueue(&name, &[new]).map(|puts| puts.len());
    let batch = store.enqueue(&name, &[new, keyed("key", b"job", When::NOW, Merge::Keep)]);
    let turn = store.turn(&name, &[], Some(super::claim_of(10, 10)));
    let watch = store.watch(&name, Notifier::new(|_| ()));
    let claim = turn.as_ref().ok().and_then(|turn| turn.claimed.as_ref());
    if pushed.is_ok() {
        assert_eq!(claim.expect("a claim").leases.len(), 3);
        assert!(watch.is_ok());
    } else {
        let id = JobId::from_u64(1);
        let errors = [
            pushed.map(drop),
            batch.map(drop),
            turn.map(drop),
            watch.map(drop),
            store.cancel(&name, Which::Id(id)).map(drop),
            store.cancel_requests(&name).map(drop),
            store.reset(&name, Which::Id(id), When::NOW).map(drop),
            store.held_by(&name, Token::random(), LEASE).map(drop),
            store.pause(&name, true),
            store.stats(&name).map(drop),
            store.list(&name, None, 1).map(drop),
            store.dead(&name, None, 1).map(drop),
            store.redrive(&name, &[id]).map(drop),
            store.delete_dead(&name, &[id]).map(drop),
        ];
        for (call, error) in errors.into_iter().enumerate() {
            let error = error.expect_err("it is refused");
            let what = (error.kind(), error.carried_out());
            assert_eq!(what, (ErrorKind::BadName, CarriedOut::No), "call {call}");
        }
    }
    assert_eq!(claimed(store, 10, 0).leases.len(), 1, "of the other queue");
}

/// Ids increase.
pub fn the_results_of_a_batch_are_in_order(fixture: &impl Fixture) {
    const MANY: u32 = 4_500;
    let store = fixture.store();
    let payloads: Vec<_> = (0..MANY).map(u32::to_le_bytes).collect();
    let jobs: Vec<_> = payloads
        .iter()
        .map(|payload| job(payload, When::NOW))
        .collect();
    let puts = put(store, &jobs);
    assert!(puts.is_sorted_by_key(|put| put.id()));
    assert!(puts.iter().all(|put| matches!(put, Put::New(_))));
    let leases = claimed(store, MANY + 1, MANY + 1).leases;
    assert_eq!(leases.len(), payloads.len());
    for ((lease, put), payload) in leases.iter().zip(&puts).zip(&payloads) {
        assert_eq!((lease.id, &lease.payload[..]), (put.id(), &payload[..]));
    }
}

/// Not an error.
pub fn an_empty_batch_has_no_effect(fixture: &impl Fixture) {
    let store = fixture.store();
    assert!(put(store, &[]).is_empty());
    let turn = super::turn(store, &[], None);
    assert!(turn.verdicts.is_empty() && turn.claimed.is_none());
    assert_eq!(store.redrive(QUEUE, &[]).expect("an answer"), 0);
    assert!(start(store).is_empty());
}

/// Long past, and never.
pub fn extreme_times_are_kept(fixture: &impl Fixture) {
    let store = fixture.store();
    let past = StoreTime::from_micros(-1);
    let never = put_one(store, job(b"never", StoreTime::NEVER));
    put_one(store, job(b"as good as never", Duration::MAX));
    let old = put_one(store, job(b"old", past));
    let lease = start_one(store);
    assert_eq!((lease.id, lease.due), (old, past));
    fixture.advance(SECOND * 3_600);
    assert!(settle(store, &lease, Act::Ack) == Verdict::Done && start(store).is_empty());
    assert!(
        store
            .cancel(QUEUE, never.into())
            .expect("an answer")
            .is_gone()
    );
}

/// The arguments of a notifier's calls.
#[derive(Clone)]
pub(super) struct Heard {
    times: Arc<Mutex<Vec<StoreTime>>>,
    listener: Parker,
}

impl Heard {
    pub(super) fn new() -> Self {
        Self {
            times: Arc::new(Mutex::new(Vec::new())),
            listener: Parker::new(),
        }
    }

    pub(super) fn notifier(&self) -> Notifier {
        let Self { times, listener } = self.clone();
        Notifier::new(move |due| {
            times.lock().push(due);
            listener.unpark();
        })
    }

    pub(super) fn earliest(&self) -> Option<StoreTime> {
        self.times.lock().drain(..).min()
    }

    /// Fails unless the notifier is called, now or soon, or a look finds a change, if the store needs looks.
    pub(super) fn is_announced(&self, watch: &mut dyn Watch, what: &str) {
        let clock = SharedClock::default();
        let deadline = clock.now() + PATIENCE;
        while self.earliest().is_none() {
            if watch.every().is_some() {
                assert!(watch.look().expect("a look"), "{what}");
                return;
            }
            let in_time = clock.park_until(&self.listener, deadline);
            assert!(in_time, "{what}");
        }
    }
}

/// By the notifier or the next look, also if another client has pushed.
pub fn a_push_is_announced_to_watches(fixture: &impl Fixture) {
    let store = fixture.store();
    let heard = Heard::new();
    let mut watch = store.watch(QUEUE, heard.notifier()).expect("a watch");
    assert!(!watch.look().expect("a look"), "nothing has changed");

    let due = StoreTime::from_micros(7);
    put(store, &[job(b"", SECOND), job(b"", due)]);
    assert_eq!(heard.earliest(), Some(due));
    let id = put_one(store, job(b"", SECOND));
    heard.earliest();
    let moved = store
        .reset(QUEUE, id.into(), When::At(due))
        .expect("an answer");
    assert_eq!(
        (moved, heard.earliest()),
        (durable_queue::Reset::Moved, Some(due))
    );
    put_one(store, keyed("key", b"", SECOND, Merge::Keep));
    heard.earliest();
    put_one(store, keyed("key", b"", due, Merge::Earliest));
    assert_eq!(heard.earliest(), Some(due));
    store
        .enqueue("elsewhere", &[job(b"", due)])
        .expect("an answer");
    assert_eq!(heard.earliest(), None);

    let mut is_announced = |what: &str| heard.is_announced(&mut *watch, what);
    // No job is due, and claimers wait for later ones.
    start(store);
    let other = fixture.another();
    other
        .enqueue(QUEUE, &[job(b"", When::NOW)])
        .expect("an answer");
    is_announced("a push by another client");
    other.pause(QUEUE, true).expect("an answer");
    is_announced("a pause");
    other.pause(QUEUE, false).expect("an answer");
    is_announced("its end");
}

/// The last holder may be the one that waits.
pub fn released_jobs_are_announced_to_watches(fixture: &impl Fixture) {
    let store = fixture.store();
    let heard = Heard::new();
    let mut watch = store.watch(QUEUE, heard.notifier()).expect("a watch");
    let mut is_announced = |what: &str| heard.is_announced(&mut *watch, what);
    put_one(store, job(b"", When::NOW));
    let lease = start_one(store);
    is_announced("the push");
    assert_eq!(settle(store, &lease, Act::retry(When::NOW)), Verdict::Done);
    is_announced("a retry");
    let lease = start_one(store);
    assert_eq!(settle(store, &lease, Act::Release), Verdict::Done);
    is_announced("a release");
    let lease = start_one(store);
    assert_eq!(settle(store, &lease, Act::bury("")), Verdict::Done);
    assert_eq!(store.redrive(QUEUE, &[lease.id]).expect("an answer"), 1);
    is_announced("a redrive");
}

/// So that the holder confirms before it hands the job out, whichever client took the job.
pub fn jobs_taken_from_an_unconfirmed_holder_are_announced(fixture: &impl Fixture) {
    let store = fixture.store();
    let heard = Heard::new();
    let mut watch = store.watch(QUEUE, heard.notifier()).expect("a watch");
    let other = fixture.another();
    for is_confirmed in [false, true] {
        let claim_one = |which| {
            let new = keyed("key", b"job", HORIZON, Merge::Latest);
            put_one(store, new);
            let leases = if is_confirmed {
                claimed(store, 1, 0).leases
            } else {
                claim_unconfirmed(store, 1)
            };
            assert_eq!(leases.len(), 1, "{which}");
            heard.earliest();
            leases[0].id
        };
        // Calls of this client are announced at once, or by a message from the server.
        let mut is_recalled = |by: &str| {
            if is_confirmed {
                assert!(heard.earliest().is_none_or(|it| it > RECALL), "{by}");
            } else if heard.earliest() != Some(RECALL) {
                heard.is_announced(&mut *watch, by);
            }
        };
        let id = claim_one("a reset");
        let moved = store.reset(QUEUE, id.into(), HORIZON.into());
        assert_eq!(moved.expect("an answer"), durable_queue::Reset::Moved);
        is_recalled("a reset");
        claim_one("a merge");
        put_one(store, keyed("key", b"new", HORIZON, Merge::Latest));
        is_recalled("a merge");
        claim_one("a cancel");
        let gone = store.cancel(QUEUE, "key".into()).expect("an answer");
        assert!(gone.is_gone());
        is_recalled("a cancel");
        let id = claim_one("a cancel by another client");
        let gone = other.cancel(QUEUE, id.into()).expect("an answer");
        assert!(gone.is_gone());
        if !is_confirmed {
            is_recalled("a cancel by another client");
        }
    }
}

/// Once its drop has returned.
pub fn a_dropped_watch_is_not_called(fixture: &impl Fixture) {
    let store = fixture.store();
    let heard = Heard::new();
    let watch = store.watch(QUEUE, heard.notifier()).expect("a watch");
    drop(watch);
    put_one(store, job(b"", When::NOW));
    assert_eq!(heard.earliest(), None);
}

/// Counts that reach the limit return the limit.
pub fn the_figures_are_correct(fixture: &impl Fixture) {
    let store = fixture.store();
    let figures = || {
        let stats = store.stats(QUEUE).expect("figures");
        (stats.jobs, stats.due, stats.dead)
    };
    assert_eq!(figures(), (0, 0, 0));
    let others = [job(b"", When::NOW), job(b"", When::NOW)];
    store.enqueue("elsewhere", &others).expect("an answer");
    let claim = super::claim_of(1, 1);
    let turn = store.turn("elsewhere", &[], Some(claim)).expect("a turn");
    let bury = turn.claimed.expect("a claim").leases[0].settle(Act::bury(""));
    store.turn("elsewhere", &[bury], None).expect("a turn");
    assert_eq!(figures(), (0, 0, 0), "of another queue");
    put(
        store,
        &[job(b"", When::NOW), job(b"", When::NOW), job(b"", SECOND)],
    );
    assert_eq!(figures(), (3, 2, 0));
    let lease = start_one(store);
    assert_eq!(figures(), (3, 1, 0));
    fixture.advance(LEASE);
    assert_eq!(figures(), (3, 3, 0), "the lease has ended");
    assert_eq!(settle(store, &lease, Act::bury("")), Verdict::Done);
    assert_eq!(figures(), (2, 2, 1));
    let limit = durable_queue::store::COUNT_LIMIT;
    put(
        store,
        &vec![
            NewJob {
                merge: Merge::Keep,
                ..job(b"", When::NOW)
            };
            limit as usize
        ],
    );
    assert_eq!(figures(), (limit, limit, 1));
}

/// A page may end between two jobs of the same time. Jobs that never fall due are included.
pub fn a_list_is_in_the_order_of_claims_and_continues_after_its_last_entry(fixture: &impl Fixture) {
    let store = fixture.store();
    let page = |after, most| store.list(QUEUE, after, most).expect("a list");
    assert!(page(None, 10).is_empty(), "there is no such queue");
    let never = put_one(store, job(b"", StoreTime::NEVER));
    let [a, b, c] = [(); 3].map(|()| put_one(store, job(b"", StoreTime::from_micros(7))));
    let past = put_one(store, job(b"", StoreTime::from_micros(i64::MIN)));
    store
        .enqueue("elsewhere", &[job(b"", When::NOW)])
        .expect("an answer");
    let after_all = put_one(store, job(b"", Duration::MAX));
    let expected = [past, a, b, c, never, after_all];
    for most in 1..=7 {
        let mut ids = Vec::new();
        let mut after = None;
        loop {
            let jobs = page(after, most);
            assert!(jobs.len() <= most as usize);
            let Some(last) = jobs.last() else { break };
            after = Some(last.position());
            ids.extend(jobs.iter().map(|job| job.id));
            assert!(ids.len() <= expected.len(), "{ids:?}");
        }
        assert_eq!(ids, expected, "{most} at a time");
    }
    assert!(page(None, 0).is_empty());
    let [first, .., last] = &page(None, 10)[..] else {
        panic!("all are there");
    };
    assert_eq!(first.due, StoreTime::from_micros(i64::MIN));
    assert_eq!((last.due, last.at), (StoreTime::NEVER, StoreTime::NEVER));
}

/// It shows the due time and the end of the lease. A job whose lease has expired is waiting.
pub fn a_list_shows_the_state_of_each_job(fixture: &impl Fixture) {
    let store = fixture.store();
    let keyed = NewJob {
        key: Some(b"\xff"),
        ..job(b"", When::NOW)
    };
    put(store, &[keyed, job(b"", HORIZON), job(b"", LEASE * 9)]);
    let listed = || {
        let mut jobs = store.list(QUEUE, None, 10).expect("a list");
        jobs.sort_by_key(|job| job.id);
        jobs
    };
    let [running, claimed_ahead, waiting] = &listed()[..] else {
        panic!("there are three");
    };
    assert!(
        [running, claimed_ahead, waiting]
            .iter()
            .all(|job| { (job.due, job.attempts) == (job.at, 0) })
    );
    let states = listed().into_iter().map(|job| job.state);
    let expected = [
        JobState::Available,
        JobState::Scheduled,
        JobState::Scheduled,
    ];
    assert_eq!(states.collect::<Vec<_>>(), expected);
    assert_eq!(running.key.as_deref(), Some(&b"\xff"[..]));
    assert_eq!((&claimed_ahead.key, &waiting.key), (&None, &None));
    let before = listed();
    assert_eq!(claimed(store, 10, 10).leases.len(), 2);
    let after = listed();
    let stand = |job: &ListedJob| (job.state, job.attempts);
    assert_eq!(stand(&after[0]), (JobState::Running, 1));
    assert_eq!(stand(&after[1]), (JobState::Claimed, 0));
    assert_eq!(after[2], before[2]);
    for (before, after) in before.iter().zip(&after).take(2) {
        assert_eq!((after.at, after.id), (before.at, before.id));
        assert!(after.due > before.due, "the end of its lease");
    }
    fixture.advance(LEASE);
    let states: Vec<_> = listed().into_iter().map(|job| job.state).collect();
    assert_eq!(states[..2], [JobState::Available; 2]);
    assert_eq!(states[2], JobState::Scheduled);
    assert_eq!(listed()[0].attempts, 1);
}

/// Other queues are unaffected.
pub fn a_pause_applies_to_one_queue(fixture: &impl Fixture) {
    const OTHER: &str = "other";
    let store = fixture.store();
    let push = || {
        for queue in [QUEUE, OTHER] {
            let job = keyed("key", b"job", When::NOW, Merge::Keep);
            store.enqueue(queue, &[job]).expect("the store takes jobs");
        }
    };
    // Starts jobs of both queues.
    let starts = || {
        [QUEUE, OTHER].map(|queue| {
            let turn = store.turn(queue, &[], Some(claim_of(10, 10)));
            let claimed = turn.expect("the store takes turns").claimed;
            claimed.expect("a claim was asked for").leases.len()
        })
    };
    push();
    store.pause(QUEUE, true).expect("an answer");
    let settings = |queue| {
        let figures = store.stats(queue).expect("figures");
        figures.paused
    };
    assert!(settings(QUEUE) && !settings(OTHER));
    assert_eq!(starts(), [0, 1]);
    store.pause(QUEUE, false).expect("an answer");
    assert_eq!(starts(), [1, 0]);
}
