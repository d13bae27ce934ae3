//! A server without space: errors are reported as they are, nothing is changed, and the store works
//! afterwards.

use std::thread;

use durable_queue::store::{Act, Claim, Lease, Settle, Verdict};
use durable_queue::{CarriedOut, DurableQueue, ErrorKind, PushIn, Store};

use super::Database;
use crate::alike::{JOB, claim_of, count, shown, what};

/// Errors of a full disk and of a process without memory. The server's messages name files and sizes.
const NO_ROOM: [(&str, &str); 2] = [("53100", "disk is full"), ("53200", "no memory left")];

impl Database {
    /// Makes changes of jobs fail with this error. `what` is an event of a trigger.
    fn refuse(&self, what: &str, code: &str) {
        self.sql(&format!(
            "CREATE OR REPLACE FUNCTION SCHEMA.test_refuse() RETURNS trigger LANGUAGE plpgsql
            AS 'BEGIN RAISE ''base/1/hunter2'' USING ERRCODE = ''{code}''; END';
            CREATE TRIGGER test_refuse BEFORE {what} ON SCHEMA.job
            FOR EACH ROW EXECUTE FUNCTION SCHEMA.test_refuse()"
        ));
    }

    fn go_on(&self) {
        self.sql("DROP TRIGGER test_refuse ON SCHEMA.job");
    }

    fn claimed(&self, claim: Claim) -> Vec<Lease> {
        let turn = self.store.turn("queue", &[], Some(claim)).unwrap();
        turn.claimed.unwrap().leases
    }
}

#[test]
fn a_full_server_is_reported_by_each_call_and_loses_nothing() {
    let Some(database) = Database::new() else {
        return;
    };
    let store = &database.store;
    for (code, meaning) in NO_ROOM {
        let ids = store.enqueue("queue", &[JOB; 3]).unwrap();
        let claim = claim_of(2);
        let leases = database.claimed(claim);
        let settles = |act| {
            let settles = leases.iter().map(|lease| Settle {
                id: lease.id,
                token: lease.token,
                act,
            });
            settles.collect::<Vec<_>>()
        };
        database.refuse("INSERT OR UPDATE OR DELETE", code);
        let mut own = database.session();
        let mut transaction = own.transaction().unwrap();
        let when = durable_queue::When::NOW;
        let refused = [
            store.enqueue("queue", &[JOB]).err(),
            store.enqueue("queue", &[JOB; 2]).err(),
            store.enqueue_in(&mut transaction, "queue", &[JOB]).err(),
            store.turn("queue", &[], Some(claim_of(1))).err(),
            store.turn("queue", &settles(Act::Ack), None).err(),
            store.turn("queue", &settles(Act::bury("no")), None).err(),
            store
                .turn("queue", &settles(Act::retry(when)), Some(claim_of(1)))
                .err(),
            store.cancel("queue", ids[2].id().into()).err(),
            store.reset("queue", ids[2].id().into(), when).err(),
        ];
        for (call, error) in refused.into_iter().enumerate() {
            let error = error.unwrap_or_else(|| panic!("call {call} was carried out"));
            assert_eq!(what(&error), (ErrorKind::Full, CarriedOut::No), "{call}");
            assert!(error.is_transient());
            let shown = shown(&error);
            assert!(shown.contains(code) && shown.contains(meaning), "{shown}");
            assert!(!shown.contains("hunter2"), "{shown}");
        }
        assert_eq!(count(store), 3, "it can be read");
        assert!(store.dead("queue", None, 1).unwrap().is_empty());
        drop(transaction);
        database.go_on();
        // Held jobs are still held.
        let turn = store
            .turn("queue", &settles(Act::Ack), Some(claim_of(9)))
            .unwrap();
        assert_eq!(turn.verdicts, [Verdict::Done; 2]);
        let rest = turn.claimed.unwrap().leases;
        assert_eq!(rest.len(), 1);
        let ack = Settle {
            id: rest[0].id,
            token: rest[0].token,
            act: Act::Ack,
        };
        store.turn("queue", &[ack], None).unwrap();
        assert_eq!(count(store), 0);
    }
}

/// Without intervention in the program.
#[test]
fn an_acknowledgement_waits_until_the_server_has_space() {
    let Some(database) = Database::new() else {
        return;
    };
    let queue: DurableQueue<Vec<u8>, _> = DurableQueue::new("queue", database.another_store());
    testkit::watchdog(testkit::LIMIT, || {
        for (code, _) in NO_ROOM {
            queue
                .push(b"job".to_vec(), durable_queue::When::NOW)
                .unwrap();
            let job = queue.take().unwrap();
            database.refuse("DELETE", code);
            thread::scope(|scope| {
                let acked = scope.spawn(|| job.ack());
                let is_full = || {
                    let error = queue.last_error();
                    error.is_some_and(|error| error.kind() == ErrorKind::Full)
                };
                while !is_full() {
                    thread::yield_now();
                }
                assert_eq!(count(&database.store), 1);
                database.go_on();
                acked.join().unwrap().unwrap();
            });
            assert_eq!(count(&database.store), 0);
        }
    });
}
