//! An open transaction of the application that has pushed a job: other calls do not wait for it, unless they
//! need the jobs that it has locked. A call that waited would hang the test.

use std::time::Duration;

use durable_queue::store::{Act, Claim, Verdict};
use durable_queue::{JobId, Limit, Merge, NewJob, PushIn, Store, Token, When};
use testkit::{LIMIT, watchdog};

use super::Database;
use crate::alike::JOB;

const HORIZON: Duration = LIMIT;

fn keyed(key: &'static [u8], merge: Merge) -> NewJob<'static> {
    NewJob {
        key: Some(key),
        merge,
        ..JOB
    }
}

fn claim(start: u32, ahead: u32) -> Claim<'static> {
    Claim {
        token: Token::random(),
        kinds: None,
        max: start + ahead,
        start,
        ahead,
        horizon: HORIZON,
        lease: LIMIT * 10,
        urgent_first: true,
    }
}

#[test]
fn no_call_waits_for_an_open_transaction_of_the_application() {
    // A push, and whether it locks the job claimed ahead.
    let pushes: [(NewJob<'_>, bool); 7] = [
        (JOB, false),
        (keyed(b"new", Merge::Keep), false),
        (keyed(b"due", Merge::Keep), false),
        (keyed(b"due", Merge::Latest), false),
        (keyed(b"runs", Merge::Keep), false),
        (keyed(b"ahead", Merge::Keep), true),
        (keyed(b"ahead", Merge::Latest), true),
    ];
    for rule in [None, Some(Limit::ordered()), Some(Limit::fair())] {
        for (pushed, locks_ahead) in pushes {
            let Some(database) = Database::new() else {
                return;
            };
            let options = database.options().busy_timeout(LIMIT * 10);
            let store = options.open(&database.address).unwrap();
            if let Some(rule) = &rule {
                store.limit("queue", rule, true).unwrap();
            }
            let begin = |job: NewJob<'_>| {
                store.enqueue("queue", &[job]).unwrap();
                let turn = store.turn("queue", &[], Some(claim(1, 0))).unwrap();
                turn.claimed.unwrap().leases.remove(0)
            };
            let [acked, retried, released] = [
                JOB,
                keyed(b"runs", Merge::Keep),
                keyed(b"other", Merge::Keep),
            ]
            .map(begin);
            store
                .enqueue("queue", &[keyed(b"ahead", Merge::Keep)])
                .unwrap();
            let turn = store.turn("queue", &[], Some(claim(0, 1))).unwrap();
            let ahead = turn.claimed.unwrap().leases.remove(0);
            store
                .enqueue("queue", &[keyed(b"due", Merge::Keep), JOB])
                .unwrap();

            let mut session = database.session();
            let mut transaction = session.transaction().unwrap();
            store
                .enqueue_in(&mut transaction, "queue", &[pushed])
                .unwrap();
            let start = ahead.settle(Act::Start { lease: LIMIT * 10 });
            let settles = [
                start,
                released.settle(Act::Extend { lease: LIMIT * 10 }),
                acked.settle(Act::Ack),
                retried.settle(Act::retry(When::NOW)),
                released.settle(Act::Release),
            ];
            let turn = watchdog(LIMIT, || {
                store.turn("queue", &settles, Some(claim(1, 1))).unwrap()
            });
            let mut expected = [Verdict::Done; 5];
            if locks_ahead {
                expected[0] = Verdict::NotDue;
            }
            assert_eq!(turn.verdicts, expected, "{pushed:?}");
            assert_eq!(turn.claimed.unwrap().leases.len(), 2, "{pushed:?}");
            watchdog(LIMIT, || {
                store.list("queue", None, 10).unwrap();
                store.stats("queue").unwrap();
                store.pause("queue", false).unwrap();
            });
            store
                .enqueue("queue", &[JOB, keyed(b"last", Merge::Keep)])
                .unwrap();
            let cancelled = store.cancel("queue", "last".into()).unwrap();
            assert!(cancelled.is_gone());
            transaction.commit().unwrap();

            if locks_ahead {
                // A merge has taken it from its holder; otherwise it can be started.
                let verdict = store.turn("queue", &[start], None).unwrap().verdicts[0];
                let is_merged = pushed.merge == Merge::Latest;
                assert_eq!(verdict == Verdict::Stale, is_merged, "{pushed:?}");
            }
            let jobs = store.list("queue", None, 20).unwrap();
            let mut ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
            ids.sort_unstable();
            ids.dedup();
            // All jobs except the acknowledged one, plus the last pushed one and those of the transaction.
            let added = matches!(pushed.key, None | Some(b"new" | b"runs"));
            assert_eq!(ids.len(), 6 + usize::from(added), "{pushed:?}");
        }
    }
}

/// The settle would call the waiting job. After a merge, that is a job like any other.
#[test]
fn a_settle_does_not_wait_for_an_open_transaction_that_has_locked_the_next_job_of_the_group() {
    for merge in [Merge::Keep, Merge::Latest] {
        for rule in [Limit::ordered(), Limit::per_group(1)] {
            let Some(database) = Database::new() else {
                return;
            };
            let options = database.options().busy_timeout(LIMIT * 10);
            let store = options.open(&database.address).unwrap();
            store.limit("queue", &rule, true).unwrap();
            let group = Some("account 7");
            let of_group = NewJob { group, ..JOB };
            store.enqueue("queue", &[of_group]).unwrap();
            let turn = store.turn("queue", &[], Some(claim(1, 0))).unwrap();
            let first = turn.claimed.unwrap().leases.remove(0);
            let next = NewJob {
                group,
                ..keyed(b"key", merge)
            };
            let next_id = store.enqueue("queue", &[next]).unwrap()[0].id();
            let turn = store.turn("queue", &[], Some(claim(1, 0))).unwrap();
            assert!(turn.claimed.unwrap().leases.is_empty());

            let mut session = database.session();
            let mut transaction = session.transaction().unwrap();
            store
                .enqueue_in(&mut transaction, "queue", &[next])
                .unwrap();
            let ack = [first.settle(Act::Ack)];
            let turn = watchdog(LIMIT, || store.turn("queue", &ack, None).unwrap());
            assert_eq!(turn.verdicts, [Verdict::Done]);
            let turn = watchdog(LIMIT, || {
                store.turn("queue", &[], Some(claim(1, 0))).unwrap()
            });
            let claimed = turn.claimed.unwrap();
            assert!(claimed.leases.is_empty());
            assert!(claimed.first > turn.now, "it would be repeated at once");
            assert!(claimed.first <= turn.now.after(Duration::from_secs(1)));
            transaction.commit().unwrap();
            let turn = store.turn("queue", &[], Some(claim(1, 0))).unwrap();
            let claimed = turn.claimed.unwrap().leases;
            assert_eq!(claimed.len(), 1, "{merge:?}, {rule:?}");
            assert_eq!(claimed[0].id, next_id);
        }
    }
}
