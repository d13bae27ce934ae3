//! A server that crashes during calls.

use std::env;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use durable_queue::store::{Act, Claim, Settle, Verdict};
use durable_queue::{DurableQueue, Store as _, Token};

use super::Database;
use crate::alike::{JOB, a_crash_loses_no_answered_call};

/// Environment variable with a command that kills and restarts the server.
const VARIABLE: &str = "DURABLE_POSTGRES_RESTART";

/// Returns when the server responds again.
fn crash() {
    let restart = env::var(VARIABLE).expect(VARIABLE);
    let status = Command::new("sh").args(["-c", &restart]).status().unwrap();
    assert!(status.success());
}

#[test]
#[ignore = "it kills the server of the other tests: `cargo xtask ci --only stores` runs it"]
fn acknowledged_jobs_stay_done_when_the_server_crashes_at_once() {
    let Some(database) = Database::new() else {
        return;
    };
    let store = &database.store;
    store.enqueue("queue", &[JOB; 4]).unwrap();
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
    let leases = store
        .turn("queue", &[], Some(claim))
        .unwrap()
        .claimed
        .unwrap()
        .leases;
    let acts = [Act::Ack, Act::Ack, Act::bury("no")];
    for (lease, act) in leases.iter().zip(acts) {
        let settle = Settle {
            id: lease.id,
            token: lease.token,
            act,
        };
        let before = database.another_store().stats("queue").unwrap();
        // The first call also syncs the claim.
        let turn = database
            .another_store()
            .turn("queue", &[settle], None)
            .unwrap();
        assert_eq!(turn.verdicts, [Verdict::Done]);
        crash();
        let after = database.another_store().stats("queue").unwrap();
        assert_eq!(after.jobs, before.jobs - 1);
    }
    let last = database.another_store().stats("queue").unwrap();
    assert_eq!((last.jobs, last.dead), (1, 1));
}

#[test]
#[ignore = "it kills the server of the other tests: `cargo xtask ci --only stores` runs it"]
fn a_restarted_server_has_lost_no_answered_call() {
    let Some(database) = Database::new() else {
        return;
    };
    // Serialized, because a starting server does not accept the command.
    let turn = Mutex::new(());
    let crash = || {
        let _turn = turn.lock().unwrap();
        crash();
    };
    let queue: DurableQueue<Vec<u8>, _> = DurableQueue::new("queue", database.another_store());
    a_crash_loses_no_answered_call(&queue, crash);
}
