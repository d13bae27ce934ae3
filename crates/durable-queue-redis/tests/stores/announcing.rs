//! Messages: no process sleeps past a job.

use std::time::Duration;

use ::redis::{Connection, Msg, Value, cmd};
use durable_queue::store::Claim;
use durable_queue::{DurableQueue, JobId, NewJob, Notifier, Reset, Store, StoreTime, Token, When};
use durable_queue_testing::ManualStoreClock;

use super::Keys;
use crate::alike::{JOB, a_lost_listening_session_is_replaced, a_sleeping_queue_is_woken};

const SECOND: Duration = Duration::from_secs(1);
const HORIZON: Duration = Duration::from_millis(500);

/// Receives the messages of the channel.
struct Ear(Connection);

impl Ear {
    fn new(keys: &Keys) -> Self {
        let mut session = keys.session();
        cmd("SUBSCRIBE")
            .arg(keys.key("earlier"))
            .query::<Value>(&mut session)
            .unwrap();
        Self(session)
    }

    /// Returns the times received since the last call.
    fn heard(&mut self, keys: &Keys) -> Vec<i64> {
        // Messages arrive in the order in which they were sent, so earlier ones arrive before this mark.
        keys.run::<()>(cmd("PUBLISH").arg(keys.key("earlier")).arg("mark"));
        let mut times = Vec::new();
        loop {
            let message = Msg::from_owned_value(self.0.recv_response().unwrap()).unwrap();
            let text: String = message.get_payload().unwrap();
            if text == "mark" {
                return times;
            }
            times.push(text.split(' ').next().unwrap().parse().unwrap());
        }
    }
}

fn at(seconds: u32) -> StoreTime {
    ManualStoreClock::START.after(SECOND * seconds)
}

fn job(seconds: u32) -> NewJob<'static> {
    NewJob {
        when: When::At(at(seconds)),
        ..JOB
    }
}

fn claim() -> Claim<'static> {
    Claim {
        token: Token::random(),
        kinds: None,
        max: 1,
        start: 1,
        ahead: 1,
        horizon: HORIZON,
        lease: SECOND * 30,
        urgent_first: true,
    }
}

#[test]
fn only_jobs_due_before_the_head_are_announced() {
    let Some(keys) = Keys::with_manual_clock() else {
        return;
    };
    let store = &keys.store;
    let mut ear = Ear::new(&keys);
    let mut announced = |seconds: u32| {
        let put = store.enqueue("queue", &[job(seconds)]).unwrap()[0];
        let heard = ear.heard(&keys);
        assert!(heard.is_empty() || heard == [at(seconds).as_micros()]);
        (!heard.is_empty(), put.id())
    };
    assert!(announced(50).0, "none is known");
    assert!(!announced(60).0, "each looks at 50");
    let (notified, earliest) = announced(40);
    assert!(notified);
    assert!(!announced(40).0);
    // A claim that finds no job sleeps until 40, or until its horizon before 40.
    let cancelled = |id: JobId| assert!(store.cancel("queue", id.into()).unwrap().is_gone());
    store.turn("queue", &[], Some(claim())).unwrap();
    assert!(!announced(41).0);
    let (notified, early) = announced(39);
    assert!(notified);
    // After the cancels the next claim waits for longer, so pushes in between are announced.
    cancelled(early);
    cancelled(earliest);
    for listed in store.list("queue", None, 2).unwrap() {
        cancelled(listed.id);
    }
    let turn = store.turn("queue", &[], Some(claim())).unwrap();
    assert_eq!(turn.claimed.unwrap().first, at(50));
    assert!(announced(45).0);
    assert!(!announced(46).0);
}

/// It knows of no job, so it waits for any.
#[test]
fn a_new_watch_is_notified_of_every_push_whatever_was_announced_before() {
    let Some(keys) = Keys::with_manual_clock() else {
        return;
    };
    let store = &keys.store;
    let id = store.enqueue("queue", &[job(7)]).unwrap()[0].id();
    assert!(store.cancel("queue", id.into()).unwrap().is_gone());
    let other = keys.another_store();
    let mut ear = Ear::new(&keys);
    store.enqueue("queue", &[job(50)]).unwrap();
    assert!(ear.heard(&keys).is_empty(), "7 was announced");
    let watch = other.watch("queue", Notifier::new(|_| {})).unwrap();
    store.enqueue("queue", &[job(60)]).unwrap();
    assert_eq!(ear.heard(&keys), [at(60).as_micros()]);
    drop(watch);
}

#[test]
fn every_call_that_makes_a_job_due_earlier_announces_it() {
    use durable_queue::store::{Act, Settle};
    let Some(keys) = Keys::with_manual_clock() else {
        return;
    };
    let store = &keys.store;
    let mut ear = Ear::new(&keys);
    let id = store.enqueue("queue", &[job(0)]).unwrap()[0].id();
    let start = || {
        let claim = claim();
        let claimed = store.turn("queue", &[], Some(claim)).unwrap().claimed;
        assert_eq!(claimed.unwrap().leases.len(), 1);
        claim.token
    };
    let mut given_back = |act: Act<'_>, next: Option<Claim<'_>>| {
        let token = start();
        ear.heard(&keys);
        store
            .turn("queue", &[Settle { id, token, act }], next)
            .unwrap();
        ear.heard(&keys)
    };
    let zero = at(0).as_micros();
    let retry = Act::retry(When::At(at(0)));
    assert_eq!(given_back(retry, None), [zero]);
    assert_eq!(given_back(Act::Release, None), [zero]);
    // Also if the same turn has a claim that does not take it.
    let other = Claim { max: 0, ..claim() };
    assert_eq!(given_back(retry, Some(other)), [zero]);
    // If the same turn claims it again, other processes cannot have it.
    let token = claim();
    assert!(given_back(retry, Some(token)).is_empty());
    let release = Settle {
        id,
        token: token.token,
        act: Act::Release,
    };
    store.turn("queue", &[release], None).unwrap();
    let bury = Act::bury("");
    assert!(given_back(bury, None).is_empty());
    store.turn("queue", &[], Some(claim())).unwrap();
    assert_eq!(store.redrive("queue", &[id]).unwrap(), 1);
    assert_eq!(ear.heard(&keys), [zero]);
    let later = When::At(at(60));
    assert_eq!(
        store.reset("queue", id.into(), later).unwrap(),
        Reset::Moved
    );
    store.turn("queue", &[], Some(claim())).unwrap();
    assert!(ear.heard(&keys).is_empty());
    let sooner = When::At(at(30));
    assert_eq!(
        store.reset("queue", id.into(), sooner).unwrap(),
        Reset::Moved
    );
    assert_eq!(ear.heard(&keys), [at(30).as_micros()]);
    let repeating = NewJob {
        schedule: Some("hourly"),
        ..job(0)
    };
    let id = store.enqueue("queue", &[repeating]).unwrap()[0].id();
    let first = claim();
    store.turn("queue", &[], Some(first)).unwrap();
    ear.heard(&keys);
    let again = Settle {
        id,
        token: first.token,
        act: Act::Again {
            when: When::At(at(20)),
        },
    };
    store.turn("queue", &[again], None).unwrap();
    assert_eq!(ear.heard(&keys), [at(20).as_micros()]);
    store.pause("queue", true).unwrap();
    assert_eq!(ear.heard(&keys).len(), 1);
}

#[test]
fn a_sleeping_queue_is_woken_by_pushes_of_other_processes() {
    let Some(keys) = Keys::new() else {
        return;
    };
    // A name that a message must contain unchanged.
    let name = "a {queue}\0 of\nwords";
    let queue = DurableQueue::new(name, keys.store.clone());
    let other = keys.another_store();
    a_sleeping_queue_is_woken(&queue, |_, payload| {
        other.enqueue(name, &[NewJob { payload, ..JOB }]).unwrap();
    });
}

#[test]
fn a_lost_listening_session_is_replaced_and_all_notifiers_are_called() {
    let Some(keys) = Keys::new() else {
        return;
    };
    let name = format!("listens-{}", keys.prefix.replace(':', "-"));
    keys.run::<()>(cmd("ACL").arg(&["SETUSER", &name, "on", ">word", "~*", "&*", "+@all"]));
    let host = keys.address.rsplit_once('@').unwrap().1;
    let store = keys
        .options()
        .open(&format!("redis://{name}:word@{host}"))
        .unwrap();
    a_lost_listening_session_is_replaced(&store, &keys.store, || {
        let killed: u32 = keys.run(cmd("CLIENT").arg(&["KILL", "TYPE", "pubsub", "USER", &name]));
        assert_eq!(killed, 1);
    });
    keys.run::<()>(cmd("ACL").arg(&["DELUSER", &name]));
}
