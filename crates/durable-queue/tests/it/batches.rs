//! Batched pushes, whose jobs have their own keys, policies and urgency.

use durable_queue::{CarriedOut, DurableQueue, ErrorKind, Merge, Push, Put, Store, When};
use durable_queue_sqlite::SqliteStore;
use durable_queue_testing::{Call, Fault, SimStore};
use rusqlite::{Connection, TransactionBehavior};

use crate::support::{Folder, LONG, SECOND, Time, job};

type Queue<S> = DurableQueue<String, S>;

fn push(text: &str, when: impl Into<When>) -> Push<String> {
    Push::new(job(text), when)
}

/// Takes all due jobs, and returns them in order with their keys.
fn take_all<S: Store>(queue: &Queue<S>) -> Vec<(String, Option<Vec<u8>>)> {
    let due = queue.store_stats().unwrap().due;
    let take = |_| {
        let taken = queue.take().unwrap();
        let seen = (taken.clone(), taken.key().map(<[u8]>::to_vec));
        taken.ack().unwrap();
        seen
    };
    (0..due).map(take).collect()
}

fn named(text: &str) -> (String, Option<Vec<u8>>) {
    (job(text), None)
}

fn keyed(text: &str, key: &str) -> (String, Option<Vec<u8>>) {
    (job(text), Some(key.as_bytes().to_vec()))
}

/// Pushes a batch onto keys with and without a pending job.
fn jobs_of_a_batch_behave_like_single_pushes<S: Store>(time: &Time, queue: &Queue<S>) {
    let keys = ["keep", "earliest", "latest", "debounce"];
    let pending = keys.map(|key| push("old", SECOND * 2).keyed(key, Merge::Keep));
    let pending = queue.push_many(pending.into()).unwrap();
    assert!(pending.iter().all(|put| matches!(put, Put::New(_))));
    let [keep, earliest, latest, debounce] = [0, 1, 2, 3].map(|index| pending[index].id());

    let bound = Merge::DebounceUntil((SECOND * 3).into());
    let puts = queue.push_many(vec![
        push("kept out", SECOND).keyed("keep", Merge::Keep),
        push("earlier", SECOND).keyed("earliest", Merge::Earliest),
        push("later", SECOND * 4).keyed("latest", Merge::Latest),
        push("put off", SECOND * 3).keyed("debounce", Merge::Debounce),
        push("plain", SECOND),
        push("urgent", SECOND).urgent(),
        push("bounded", SECOND * 9).keyed("bound", bound),
        push("twice", SECOND * 9).keyed("bound", bound),
    ]);
    let puts = puts.unwrap();
    let expected = [
        Put::Kept(keep),
        Put::Merged(earliest),
        Put::Merged(latest),
        Put::Merged(debounce),
    ];
    assert_eq!(puts[..4], expected);
    assert!(puts[4..7].iter().all(|put| matches!(put, Put::New(_))));
    assert_eq!(
        puts[7],
        Put::Merged(puts[6].id()),
        "with what came before it"
    );

    let taken = || {
        time.clock.advance(SECOND);
        take_all(queue)
    };
    let expected = [
        named("urgent"),
        keyed("earlier", "earliest"),
        named("plain"),
    ];
    assert_eq!(taken(), expected);
    assert_eq!(taken(), [keyed("old", "keep")]);
    assert_eq!(
        taken(),
        [keyed("put off", "debounce"), keyed("twice", "bound")]
    );
    assert_eq!(taken(), [keyed("later", "latest")]);
    assert_eq!(queue.store_stats().unwrap().jobs, 0);
}

#[testkit::test]
fn jobs_of_a_batch_have_keys_policies_and_urgency_like_single_pushes() {
    let time = Time::new();
    jobs_of_a_batch_behave_like_single_pushes(&time, &time.queue(time.sim()));
}

#[testkit::test]
fn jobs_of_a_batch_in_sqlite_have_keys_policies_and_urgency_like_single_pushes() {
    let (time, folder) = (Time::new(), Folder::new());
    let store = SqliteStore::options().clock(time.store.clone());
    let store = store.open(folder.file("jobs")).unwrap();
    jobs_of_a_batch_behave_like_single_pushes(&time, &time.queue(store));
}

#[test]
fn all_batches_of_an_urgent_handle_are_urgent() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    queue.urgent().push_many(vec![push("a", LONG); 2]).unwrap();
    let many = vec![push("b", LONG), push("c", LONG).urgent()];
    queue.push_many(many).unwrap();
    let mut listed = queue.list(None, 9).unwrap();
    listed.sort_by_key(|job| job.id);
    let urgent: Vec<bool> = listed.iter().map(|job| job.urgent).collect();
    assert_eq!(urgent, [true, true, false, true]);
}

#[test]
fn a_rejected_batch_is_returned_and_not_inserted() {
    let time = Time::new();
    let store = SimStore::with_faults(time.store.clone(), |call| match call {
        Call::Enqueue => Fault::Refused(ErrorKind::Full),
        _ => Fault::None,
    });
    let queue = time.queue(store);
    let secret = push("hunter2", LONG).keyed("hunter2", Merge::Latest);
    let batch = vec![push("plain", LONG), secret.urgent()];
    let refused = queue.push_many(batch.clone()).unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::Full);
    assert_eq!(refused.error.carried_out(), CarriedOut::No);
    assert!(refused.value == batch);
    assert!(!format!("{refused:?} {batch:?}").contains("hunter2"));
    assert_eq!(queue.store_stats().unwrap().jobs, 0);
    let values: Vec<String> = refused.value.into_iter().map(Push::into_value).collect();
    assert_eq!(values, ["plain", "hunter2"]);
    let queue = time.queue(time.sim());
    assert!(queue.push_many(Vec::new()).unwrap().is_empty());
}

#[testkit::test]
fn a_batch_of_the_callers_transaction_exists_only_if_it_commits() {
    let (time, folder) = (Time::new(), Folder::new());
    let store = SqliteStore::options().clock(time.store.clone());
    let store = store.open(folder.file("jobs")).unwrap();
    let queue = time.queue(store);
    let first = queue.push_many(vec![push("old", LONG).keyed("key", Merge::Keep)]);
    let first = first.unwrap()[0].id();
    let mut own = Connection::open(folder.file("jobs")).unwrap();
    for commit in [false, true] {
        let transaction = own.transaction_with_behavior(TransactionBehavior::Immediate);
        let mut transaction = transaction.unwrap();
        let batch = vec![
            push("plain", When::NOW),
            push("new", When::NOW)
                .keyed("key", Merge::Earliest)
                .urgent(),
        ];
        let puts = queue.push_many_in(&mut transaction, batch);
        let puts = puts.unwrap();
        assert!(matches!(puts[0], Put::New(_)));
        assert_eq!(puts[1], Put::Merged(first));
        if commit {
            transaction.commit().unwrap();
        } else {
            transaction.rollback().unwrap();
        }
        let stats = queue.store_stats().unwrap();
        assert_eq!(
            (stats.jobs, stats.due),
            if commit { (2, 2) } else { (1, 0) }
        );
    }
    queue.announce();
    assert_eq!(take_all(&queue), [keyed("new", "key"), named("plain")]);
}
