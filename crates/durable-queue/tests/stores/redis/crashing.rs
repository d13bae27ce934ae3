//! A server that dies in mid-run, without a chance to write anything down.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use durable_queue::store::{Act, Claim, Settle, Verdict};
use durable_queue::{CarriedOut, DurableQueue, NewJob, SettleError, Store, Token};

use super::JOB;
use super::server::Server;

const JOBS: u32 = 120;
const CRASHES: u32 = 3;

#[test]
fn what_was_answered_for_stays_so_when_the_server_dies_at_once() {
    let Some(mut server) = Server::new(&[]) else {
        return;
    };
    let store = server.store();
    let key = NewJob {
        key: Some(b"key"),
        ..JOB
    };
    store.enqueue("queue", &[JOB, JOB, JOB, JOB, key]).unwrap();
    server.crash();
    let claim = Claim {
        token: Token::random(),
        max: 4,
        start: 4,
        ahead: 0,
        horizon: Duration::ZERO,
        lease: Duration::from_secs(3_600),
    };
    let turn = server.store().turn("queue", &[], Some(claim)).unwrap();
    let leases = turn.claimed.unwrap().leases;
    let acts = [Act::Ack, Act::Ack, Act::Bury { error: "no" }];
    for (lease, act) in leases.iter().zip(acts) {
        let before = server.store().stats("queue").unwrap();
        let settle = Settle {
            id: lease.id,
            token: lease.token,
            act,
        };
        let turn = server.store().turn("queue", &[settle], None).unwrap();
        assert_eq!(turn.verdicts, [Verdict::Done]);
        server.crash();
        let after = server.store().stats("queue").unwrap();
        assert_eq!(after.jobs, before.jobs - 1);
    }
    let last = server.store().stats("queue").unwrap();
    assert_eq!((last.jobs, last.dead), (2, 1));
    assert!(
        server
            .store()
            .cancel("queue", "key".into())
            .unwrap()
            .is_gone()
    );
    server.crash();
    assert_eq!(server.store().stats("queue").unwrap().jobs, 1);
}

#[test]
fn a_server_that_dies_and_comes_back_has_lost_nothing_that_it_answered() {
    let Some(server) = Server::new(&[]) else {
        return;
    };
    let queue: DurableQueue<Vec<u8>, _> = DurableQueue::new("queue", server.store());
    let server = Mutex::new(server);
    // How often each was entered, perhaps.
    let entered = Mutex::new(BTreeMap::new());
    // What was acknowledged, and how often; what has no answer is gone, or comes again.
    let mut acked: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
    let mut unknown = BTreeSet::new();
    testkit::watchdog(testkit::LIMIT, || {
        thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..JOBS {
                    if number % (JOBS / (CRASHES + 1)) == 1 && number > 1 {
                        scope.spawn(|| server.lock().unwrap().crash());
                    }
                    push(&queue, number, &entered);
                }
            });
            while acked.len() + unknown.len() < JOBS as usize {
                let job = queue.take().unwrap();
                let payload = job.to_vec();
                let times = entered.lock().unwrap().get(&payload).copied();
                match job.ack() {
                    Ok(()) => {
                        let acks = acked.entry(payload.clone()).or_default();
                        *acks += 1;
                        // One that is being pushed has no answer yet.
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
        assert_eq!(entered.lock().unwrap().len(), JOBS as usize);
    });
}

/// Until there is an answer.
fn push<S: Store>(
    queue: &DurableQueue<Vec<u8>, S>,
    number: u32,
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
