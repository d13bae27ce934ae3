//! A server that crashes during calls.

use std::sync::Mutex;
use std::time::Duration;

use durable_queue::store::{Act, Claim, Settle, Verdict};
use durable_queue::{DurableQueue, NewJob, Store as _, Token};

use crate::OpenStore as _;
use crate::alike::{JOB, a_crash_loses_no_answered_call};
use crate::redis_server::Server;

#[test]
fn answered_calls_survive_when_the_server_crashes_at_once() {
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
        kinds: None,
        max: 4,
        start: 4,
        ahead: 0,
        horizon: Duration::ZERO,
        lease: Duration::from_secs(3_600),
        urgent_first: true,
    };
    let turn = server.store().turn("queue", &[], Some(claim)).unwrap();
    let leases = turn.claimed.unwrap().leases;
    let acts = [Act::Ack, Act::Ack, Act::bury("no")];
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
fn a_restarted_server_has_lost_no_answered_call() {
    let Some(server) = Server::new(&[]) else {
        return;
    };
    let queue: DurableQueue<Vec<u8>, _> = DurableQueue::new("queue", server.store());
    let server = Mutex::new(server);
    a_crash_loses_no_answered_call(&queue, || server.lock().unwrap().crash());
}
