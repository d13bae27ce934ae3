//! Notifications: no process sleeps past a job.

use std::time::Duration;

use ::postgres::Client;
use ::postgres::fallible_iterator::FallibleIterator as _;
use durable_queue::{DurableQueue, Merge, NewJob, Notifier, PushIn, Reset, Store, StoreTime, When};
use durable_queue_testing::ManualStoreClock;

use super::Database;
use crate::alike::{JOB, a_lost_listening_session_is_replaced, a_sleeping_queue_is_woken};

const SECOND: Duration = Duration::from_secs(1);

/// Receives the messages of the schema's channel.
struct Ear(Client);

impl Ear {
    fn new(database: &Database) -> Self {
        let mut session = database.session();
        let listen = format!("LISTEN durable_queue_{}", database.schema);
        session.batch_execute(&listen).unwrap();
        Self(session)
    }

    /// Returns the times received since the last call.
    fn heard(&mut self, database: &Database) -> Vec<i64> {
        // Notifications arrive in the order of commits, so earlier ones arrive before this mark.
        database.sql("NOTIFY durable_queue_SCHEMA, 'mark'");
        let mut notifications = self.0.notifications();
        let sent = notifications
            .blocking_iter()
            .take_while(|it| Ok(it.payload() != "mark"));
        let times = sent.map(|it| Ok(it.payload().split(' ').nth(1).unwrap().parse().unwrap()));
        times.collect().unwrap()
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

/// The steps of a push and of a process that goes to sleep, in every order: the process sees the job, or is
/// notified of it. The push: `e` inserts, `a` announces. The process: `t` makes a turn, `c` commits it, `l`
/// looks once more.
#[test]
fn in_every_order_a_process_that_goes_to_sleep_sees_a_push_or_is_notified() {
    const ORDERS: [&str; 10] = [
        "eatcl", "etacl", "etcal", "etcla", "teacl", "tecal", "tecla", "tceal", "tcela", "tclea",
    ];
    let Some(database) = Database::with_manual_clock() else {
        return;
    };
    let mut ear = Ear::new(&database);
    let mut sleeper = database.session();
    let schema = &database.schema;
    let due = at(10).as_micros();
    for (number, order) in ORDERS.iter().enumerate() {
        for (was_notified_before, listed) in [
            (false, "NULL, NULL"),
            (true, "NULL, NULL"),
            (false, "'{kind}', '{1}'"),
            (true, "'{kind}', '{1}'"),
        ] {
            let name = format!("{number} {was_notified_before} {}", listed.len());
            database.sql(&format!("SELECT SCHEMA.listen('{name}')"));
            if was_notified_before {
                // The head is minimal: the push has nothing to announce.
                let announce = format!("SELECT SCHEMA.announce('{name}', {}, '')", i64::MIN);
                database.sql(&announce);
            }
            ear.heard(&database);
            let (mut sees, mut raised) = (false, false);
            for step in order.chars() {
                match step {
                    'e' => database.sql(&format!(
                        "SELECT SCHEMA.enqueue_plain('{name}', '{{{due}}}', '{{f}}', '{{x}}', false, '{{kind}}', NULL, NULL, false)"
                    )),
                    'a' => database.sql(&format!("SELECT SCHEMA.announce('{name}', {due}, '')")),
                    't' => {
                        sleeper.batch_execute("BEGIN").unwrap();
                        let turn = format!(
                            "SELECT o_first, o_raised FROM {schema}.turn(
                            $1, false, true, '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}',
                            '00000000-0000-0000-0000-000000000001', 1, 1, 1, 500000, 30000000, true, NULL, {listed})"
                        );
                        let row = sleeper.query_one(&turn, &[&name]).unwrap();
                        sees = row.get::<_, i64>(0) <= due;
                        raised = row.get(1);
                        assert!(raised || sees || !was_notified_before, "the head was low");
                    }
                    'c' => sleeper.batch_execute("COMMIT").unwrap(),
                    _ if raised => {
                        let look = format!("SELECT o_first FROM {schema}.look($1, NULL, {listed})");
                        let first: i64 = sleeper.query_one(&look, &[&name]).unwrap().get(0);
                        sees |= first <= due;
                    }
                    _ => {}
                }
            }
            let notified = ear.heard(&database).contains(&due);
            assert!(
                sees || notified,
                "{order}, notified before: {was_notified_before}, list: {listed}"
            );
        }
    }
}

#[test]
fn only_jobs_due_before_the_head_are_announced() {
    let Some(database) = Database::with_manual_clock() else {
        return;
    };
    let store = &database.store;
    let mut ear = Ear::new(&database);
    let mut announced = |seconds: u32| {
        store.enqueue("queue", &[job(seconds)]).unwrap();
        !ear.heard(&database).is_empty()
    };
    assert!(announced(50), "none is known");
    assert!(!announced(60), "each looks at 50");
    assert!(announced(40));
    assert!(!announced(40));
    assert!(!announced(3_600), "each looks again before that");
    // A claim that finds no job sleeps until 40.
    let claim = durable_queue::store::Claim {
        token: durable_queue::Token::random(),
        kinds: None,
        max: 1,
        start: 1,
        ahead: 1,
        horizon: SECOND / 2,
        lease: SECOND * 30,
        urgent_first: true,
    };
    store.turn("queue", &[], Some(claim)).unwrap();
    assert!(!announced(50));
    assert!(announced(39));
}

/// It knows of no job, so it waits for any.
#[test]
fn a_new_watch_is_notified_of_every_push_whatever_was_announced_before() {
    let Some(database) = Database::with_manual_clock() else {
        return;
    };
    let store = &database.store;
    let mut ear = Ear::new(&database);
    store.enqueue("queue", &[job(7)]).unwrap();
    ear.heard(&database);
    store.enqueue("queue", &[job(50)]).unwrap();
    assert!(ear.heard(&database).is_empty(), "7 was announced");
    let watch = database.another_store();
    let watch = watch.watch("queue", Notifier::new(|_| {})).unwrap();
    store.enqueue("queue", &[job(60)]).unwrap();
    assert_eq!(ear.heard(&database), [at(60).as_micros()]);
    drop(watch);
}

/// If a transaction of the application pushes several jobs in one call, the earliest is announced.
#[test]
fn jobs_are_announced_however_they_are_pushed() {
    let Some(database) = Database::with_manual_clock() else {
        return;
    };
    let store = &database.store;
    let mut ear = Ear::new(&database);
    let keyed = |key, seconds| NewJob {
        key: Some(key),
        ..job(seconds)
    };
    let mut own = database.session();
    for (seconds, batch) in [
        (50, [job(50), job(60)]),
        (40, [keyed(b"a", 40), keyed(b"b", 50)]),
    ] {
        let mut transaction = own.transaction().unwrap();
        let fresh = database.another_store(); // Its first push notifies in the transaction.
        fresh.enqueue_in(&mut transaction, "queue", &batch).unwrap();
        transaction.commit().unwrap();
        assert_eq!(ear.heard(&database), [at(seconds).as_micros()]);
    }
    let heard = |ear: &mut Ear, seconds| {
        assert_eq!(ear.heard(&database), [at(seconds).as_micros()]);
    };
    store.enqueue("queue", &[job(30), job(60)]).unwrap();
    heard(&mut ear, 30);
    let id = store.enqueue("queue", &[keyed(b"c", 20)]).unwrap()[0].id();
    heard(&mut ear, 20);
    let earlier = NewJob {
        merge: Merge::Earliest,
        ..keyed(b"c", 15)
    };
    store.enqueue("queue", &[earlier]).unwrap();
    heard(&mut ear, 15);
    let reset = store.reset("queue", id.into(), When::At(at(10)));
    assert_eq!(reset.unwrap(), Reset::Moved);
    heard(&mut ear, 10);
}

#[test]
fn a_sleeping_queue_is_woken_by_pushes_of_other_processes() {
    let Some(database) = Database::new() else {
        return;
    };
    let queue = DurableQueue::new("queue", database.store.clone());
    let other = database.options().open(&database.address).unwrap();
    a_sleeping_queue_is_woken(&queue, |number, payload| match number {
        // In any language.
        3 => database.sql("SELECT SCHEMA.push('queue', '3')"),
        4 => database.sql("SELECT SCHEMA.push('queue', '4', now() + interval '20 ms', 'key')"),
        _ => {
            let job = NewJob { payload, ..JOB };
            other.enqueue("queue", &[job]).unwrap();
        }
    });
}

#[test]
fn a_lost_listening_session_is_replaced_and_all_notifiers_are_called() {
    let Some(database) = Database::new() else {
        return;
    };
    let other = database.options().open(&database.address).unwrap();
    a_lost_listening_session_is_replaced(&database.store, &other, || {
        let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
            WHERE query LIKE 'LISTEN \"durable_queue_SCHEMA\"%' AND pid <> pg_backend_pid()";
        assert_eq!(database.get::<i64>(cut), 1);
    });
}
