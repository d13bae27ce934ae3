//! Rows are found, never looked for.

use std::time::Duration;

use durable_queue::store::{Act, Claim, ListedJob, Settle};
use durable_queue::{JobId, NewJob, Store, StoreTime, Token, When};

use super::Database;
use crate::alike::JOB;

const DELAYED: usize = 20_000;

/// By the server's own count of the rows that were read, for plans that were made when the tables were
/// empty.
#[test]
fn delayed_jobs_are_not_read_by_any_call() {
    let Some(database) = Database::new() else {
        return;
    };
    let name = format!("{}_reads", database.schema);
    let address = format!("{}?application_name={name}", database.address);
    let store = database.options().open(&address).unwrap();
    let all_calls = |jobs: usize| {
        let puts = store.enqueue("queue", &vec![JOB; jobs]).unwrap();
        let key = Some(&b"key"[..]);
        store.enqueue("queue", &[NewJob { key, ..JOB }]).unwrap();
        let claim = Claim {
            token: Token::random(),
            max: 100,
            start: 50,
            ahead: 100,
            horizon: Duration::from_millis(500),
            lease: Duration::from_secs(30),
        };
        let turn = store.turn("queue", &[], Some(claim)).unwrap();
        let leases = turn.claimed.unwrap().leases;
        assert_eq!(leases.len(), jobs + 1);
        store.held_by("queue", claim.token, claim.lease).unwrap();
        let first = store.list("queue", None, 2).unwrap();
        let after = first.first().map(ListedJob::position);
        assert_eq!(store.list("queue", after, 1).unwrap()[..], first[1..]);
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
            store
                .turn("queue", &settles.collect::<Vec<_>>(), None)
                .unwrap();
        }
        assert!(store.cancel("queue", "key".into()).is_ok());
        assert!(
            store
                .cancel("queue", JobId::from_u64(1 << 40).into())
                .is_ok()
        );
        assert!(store.reset("queue", puts[0].id().into(), When::NOW).is_ok());
    };
    // More often than a plan is made anew.
    for _ in 0..10 {
        all_calls(1);
    }
    let hour = Duration::from_secs(3_600);
    let delayed = NewJob {
        when: hour.into(),
        ..JOB
    };
    store.enqueue("queue", &vec![delayed; DELAYED]).unwrap();
    all_calls(60);
    drop(store);
    // A session has reported what it read when it is no more to be seen.
    let left = format!("SELECT count(*) FROM pg_stat_activity WHERE application_name = '{name}'");
    testkit::watchdog(testkit::LIMIT, || while database.get::<i64>(&left) != 0 {});
    let read = "SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)
        FROM pg_stat_user_tables WHERE schemaname = 'SCHEMA' AND relname = 'job'";
    let read: i64 = database.get(read);
    assert!(read > 500, "{read} is not what was read");
    assert!(read < 5_000, "{read} rows were read");
}
