//! Shared sessions: by the pump and the application, and by servers that replace each other.

use std::thread;
use std::time::Duration;

use durable_queue::store::{Act, Claim, Settle};
use durable_queue::{CarriedOut, ErrorKind, Merge, NewJob, PushIn, Store};

use super::Database;
use super::failing::{server, through};
use crate::alike::{HOLD, JOB, claim_of, what};
use crate::proxy::{Proxy, SilentAfter};

const LONG: Duration = Duration::from_secs(3_600);

/// A claim with a minimal lease.
fn short_claim() -> Claim<'static> {
    Claim {
        lease: Duration::from_secs(4),
        ..claim_of(1)
    }
}

#[test]
fn a_turn_does_not_wait_when_the_application_uses_all_its_sessions() {
    let Some(database) = Database::new() else {
        return;
    };
    let keyed = NewJob {
        key: Some(b"key"),
        merge: Merge::Latest,
        ..JOB
    };
    let name = format!("{}_app", database.schema);
    let address = format!("{}?application_name={name}", database.address);
    let store = database
        .options()
        .busy_timeout(LONG)
        .open(&address)
        .unwrap();
    // The queue exists, so calls do not wait for its creation.
    store.enqueue("queue", &[JOB]).unwrap();
    testkit::watchdog(testkit::LIMIT, || {
        let mut own = database.session();
        let mut transaction = own.transaction().unwrap();
        store
            .enqueue_in(&mut transaction, "queue", &[keyed])
            .unwrap();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| store.enqueue("queue", &[keyed]).unwrap());
            }
            // Two of the four use the two sessions, the others wait for them.
            while database.waiting_for_locks(&name) < 2 {
                thread::yield_now();
            }
            store.turn("queue", &[], None).unwrap();
            let claim = claim_of(1);
            store.turn("queue", &[], Some(claim)).unwrap();
            store.held_by("queue", claim.token, claim.lease).unwrap();
            transaction.rollback().unwrap();
        });
    });
}

#[test]
fn a_turn_that_waits_for_a_lock_ends_before_the_lease() {
    let Some(database) = Database::new() else {
        return;
    };
    let store = database
        .options()
        .busy_timeout(LONG)
        .open(&database.address)
        .unwrap();
    store.enqueue("queue", &[JOB]).unwrap();
    let claim = short_claim();
    let turn = store.turn("queue", &[], Some(claim)).unwrap();
    let held = turn.claimed.unwrap().leases.remove(0);
    let ack = Settle {
        id: held.id,
        token: held.token,
        act: Act::Ack,
    };
    testkit::watchdog(testkit::LIMIT, || {
        let mut own = database.session();
        let mut transaction = own.transaction().unwrap();
        let lock = format!("SELECT FROM {}.job FOR UPDATE", database.schema);
        transaction.execute(&lock, &[]).unwrap();
        let error = store.turn("queue", &[ack], None).unwrap_err();
        assert_eq!(what(&error), (ErrorKind::Busy, CarriedOut::No));
        transaction.rollback().unwrap();
        store.turn("queue", &[ack], None).unwrap();
    });
}

/// The network acknowledges all data, so no limit of the network ends the call.
#[test]
fn a_turn_without_a_response_ends_before_the_lease() {
    let Some(database) = Database::new() else {
        return;
    };
    let proxy = Proxy::with(server(&database), SilentAfter::new(HOLD));
    let store = database
        .options()
        .open_config(through(&database, proxy.address))
        .unwrap();
    let claim = short_claim();
    testkit::watchdog(testkit::LIMIT, || {
        store.turn("queue", &[], Some(claim)).unwrap();
        let error = String::from_utf8(HOLD.to_vec()).unwrap();
        let bury = Settle {
            id: durable_queue::JobId::from_u64(1),
            token: claim.token,
            act: Act::bury(&error),
        };
        let error = store.turn("queue", &[bury], None).unwrap_err();
        assert_eq!(what(&error), (ErrorKind::Unavailable, CarriedOut::Perhaps));
    });
}

/// Like a server that became a standby, or whose disk was full: new connections can write again.
#[test]
fn sessions_older_than_the_detection_of_a_read_only_database_are_replaced() {
    let Some(database) = Database::new() else {
        return;
    };
    let role = format!("{}_writer", database.schema);
    database.sql(&format!(
        "CREATE ROLE {role} LOGIN PASSWORD 'x' SUPERUSER; ALTER ROLE {role} SET default_transaction_read_only = on"
    ));
    let mut config = through(&database, server(&database));
    config.user(&role).password("x");
    let opened = database.options().open_config(config);
    let claim = || Some(claim_of(1));
    let answers = opened.map(|store| {
        // One session is the application's, the other one the pump's.
        let read = store.stats("queue").map(drop);
        let refused = [
            store.turn("queue", &[], claim()).err(),
            store.turn("queue", &[], claim()).err(),
        ];
        database.sql(&format!(
            "ALTER ROLE {role} RESET default_transaction_read_only"
        ));
        let written = store.enqueue("queue", &[JOB]).map(drop);
        let claimed = store.turn("queue", &[], claim()).map(drop);
        drop(store);
        (read, refused, written, claimed)
    });
    let end = "SELECT count(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity WHERE usename";
    database.get::<i64>(&format!("{end} = '{role}'"));
    database.sql(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
    let (read, refused, written, claimed) = answers.unwrap();
    read.unwrap();
    for error in refused {
        assert_eq!(what(&error.unwrap()), (ErrorKind::ReadOnly, CarriedOut::No));
    }
    written.unwrap();
    claimed.unwrap();
}
