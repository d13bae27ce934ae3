//! Pushes in the caller's own transaction.

use std::time::Duration;

use durable_queue::{DurableQueue, Merge, NewJob, Push, PushIn, Put, Store, StoreTime, When};

use super::Database;
use crate::alike::{JOB, claim_of, count};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(1_000_000);

#[test]
fn jobs_of_the_callers_transaction_exist_only_if_it_commits() {
    let Some(database) = Database::new() else {
        return;
    };
    database.sql("CREATE TABLE SCHEMA.orders (id bigint)");
    let mut own = database.session();
    let insert = format!("INSERT INTO {}.orders VALUES (1)", database.schema);
    for commit in [false, true] {
        let mut transaction = own.transaction().unwrap();
        transaction.execute(&insert, &[]).unwrap();
        let puts = database
            .store
            .enqueue_in(&mut transaction, "queue", &[JOB])
            .unwrap();
        assert!(matches!(puts[..], [Put::New(_)]));
        assert_eq!(count(&database.store), 0, "it is not committed");
        if commit {
            transaction.commit().unwrap();
        } else {
            transaction.rollback().unwrap();
        }
        assert_eq!(count(&database.store), u32::from(commit));
        let orders: i64 = database.get("SELECT count(*) FROM SCHEMA.orders");
        assert_eq!(orders, i64::from(commit));
    }
}

/// The transaction may have begun long ago.
#[test]
fn a_delay_counts_from_the_call_and_not_from_the_start_of_the_transaction() {
    let Some(database) = Database::new() else {
        return;
    };
    let mut own = database.session();
    let mut transaction = own.transaction().unwrap();
    let begun = "SELECT (extract(epoch FROM now()) * 1000000)::bigint";
    let begun: i64 = transaction.query_one(begun, &[]).unwrap().get(0);
    transaction.batch_execute("SELECT pg_sleep(0.002)").unwrap();
    database
        .store
        .enqueue_in(&mut transaction, "queue", &[JOB])
        .unwrap();
    transaction.commit().unwrap();
    let due: i64 = database.get("SELECT due FROM SCHEMA.job");
    assert!(due >= begun + 2_000, "{due} {begun}");
}

#[test]
fn a_batch_is_inserted_completely_or_not_at_all() {
    let Some(database) = Database::new() else {
        return;
    };
    database.sql("ALTER TABLE SCHEMA.job ADD CHECK (payload <> 'refused')");
    let refused = NewJob {
        payload: b"refused",
        ..JOB
    };
    let error = database
        .store
        .enqueue("queue", &[JOB, refused])
        .unwrap_err();
    assert_eq!(error.kind(), durable_queue::ErrorKind::Other);
    assert_eq!(error.carried_out(), durable_queue::CarriedOut::No);
    assert_eq!(count(&database.store), 0);
}

#[test]
fn a_batch_with_keys_exists_only_if_the_callers_transaction_commits() {
    let Some(database) = Database::new() else {
        return;
    };
    let queue: DurableQueue<String, _> = DurableQueue::new("queue", database.another_store());
    let push = |text: &str| Push::new(text.to_owned(), When::NOW);
    let old = queue.push_keyed("key", "old".to_owned(), LONG, Merge::Keep);
    let old = old.unwrap().id();
    let mut own = database.session();
    for commit in [false, true] {
        let mut transaction = own.transaction().unwrap();
        let batch = vec![
            push("plain"),
            push("new").keyed("key", Merge::Earliest).urgent(),
            push("kept out").keyed("key", Merge::Keep),
        ];
        let puts = queue.push_many_in(&mut transaction, batch);
        let puts = puts.unwrap();
        assert!(matches!(puts[0], Put::New(_)));
        assert_eq!(puts[1..], [Put::Merged(old), Put::Kept(old)]);
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
    testkit::watchdog(testkit::LIMIT, || {
        for expected in ["new", "plain"] {
            let taken = queue.take().unwrap();
            assert_eq!(*taken, expected);
            taken.ack().unwrap();
        }
    });
}

/// By the function for any client, and in batches with and without urgent jobs.
#[test]
fn jobs_can_be_urgent_by_each_kind_of_push() {
    let Some(database) = Database::new() else {
        return;
    };
    let urgent = NewJob {
        urgent: true,
        ..JOB
    };
    database.sql("SELECT SCHEMA.push('queue', 'one')");
    database.sql("SELECT SCHEMA.push('queue', 'two', NULL, NULL, true)");
    database.sql("SELECT SCHEMA.push('queue', 'three', NULL, 'key', NULL)");
    let batches = [
        &[JOB][..],
        &[urgent],
        &[JOB; 2],
        &[urgent; 2],
        &[JOB, urgent],
    ];
    for batch in batches {
        database.store.enqueue("queue", batch).unwrap();
    }
    let mut listed = database.store.list("queue", None, 100).unwrap();
    listed.sort_by_key(|job| job.id);
    let urgent: Vec<bool> = listed.iter().map(|job| job.urgent).collect();
    let of_batches = batches.concat().into_iter().map(|job| job.urgent);
    let expected: Vec<bool> = [false, true, false].into_iter().chain(of_batches).collect();
    assert_eq!(urgent, expected);
}

/// Parameters without types and literals are resolved as bytes.
#[test]
fn sql_pushes_bytes_texts_and_json_now_at_a_time_and_never() {
    let Some(database) = Database::new() else {
        return;
    };
    database.sql(
        "SELECT SCHEMA.push('queue', '\\x6f6e65', '-infinity');
        SELECT SCHEMA.push('queue', 'two', '294276-12-31', 'key');
        SELECT SCHEMA.push_text('queue', '\\x6f', '-infinity', 'schlüssel', true);
        SELECT SCHEMA.push_json('queue', '{\"a\": [1, \"ü\"]}');
        SELECT SCHEMA.push('queue', 'never', 'infinity');
        PREPARE open_types AS SELECT SCHEMA.push($1, $2, $3);
        EXECUTE open_types ('queue', '\\x746f6d', 'epoch');
        DEALLOCATE open_types",
    );
    let turn = database.store.turn("queue", &[], Some(claim_of(10)));
    let claimed = turn.unwrap().claimed.unwrap();
    let mut payloads: Vec<_> = claimed.leases.iter().map(|it| &it.payload[..]).collect();
    payloads.sort_unstable();
    let expected = [
        &b"\\x6f"[..],
        b"one",
        b"tom",
        "{\"a\": [1, \"ü\"]}".as_bytes(),
    ];
    assert_eq!(payloads, expected);
    let text = claimed.leases.iter().find(|it| it.urgent).unwrap();
    assert_eq!(text.key.as_deref(), Some("schlüssel".as_bytes()));
    let listed = database.store.list("queue", None, 10).unwrap();
    let never = listed.iter().filter(|job| job.due == StoreTime::NEVER);
    assert_eq!(
        never.count(),
        2,
        "what is later than the last time is never"
    );
}

/// The sixth and the seventh parameter.
#[test]
fn sql_pushes_jobs_with_kinds_and_options() {
    let Some(database) = Database::new() else {
        return;
    };
    database.sql(
        "SELECT SCHEMA.push('queue', 'one', NULL, NULL, false, 'mail');
        SELECT SCHEMA.push('queue', 'two', NULL, 'key', NULL, NULL, 'once');
        SELECT SCHEMA.push_text('queue', 'three', NULL, NULL, true, 'mail', 'once');
        SELECT SCHEMA.push_json('queue', '4', NULL, NULL, NULL, 'mail', 'once')",
    );
    let turn = database.store.turn("queue", &[], Some(claim_of(10)));
    let mut leases = turn.unwrap().claimed.unwrap().leases;
    leases.sort_by_key(|lease| lease.id);
    let texts = leases
        .iter()
        .map(|lease| (lease.kind.as_deref(), lease.options.as_deref()));
    let (kind, options) = (Some("mail"), Some("once"));
    let expected = [
        (kind, None),
        (None, options),
        (kind, options),
        (kind, options),
    ];
    assert_eq!(texts.collect::<Vec<_>>(), expected);
}
