//! `SQLite` on a full disk, and which commits survive a power failure.

use std::thread;

use durable_queue::store::{Act, Claim, Lease, Settle, Verdict};
use durable_queue::{
    CarriedOut, DurableQueue, ErrorKind, Merge, NewJob, PushIn, Store, Token, When,
};
use durable_queue_sqlite::SqliteStore;
use rusqlite::{Connection, TransactionBehavior};

use crate::support::{Folder, LONG, job};
use crate::{File, JOB, count, file, options};

/// Opens a connection that must not enlarge the file.
fn full(folder: &Folder) -> Connection {
    let connection = Connection::open(folder.file("jobs")).unwrap();
    let pages: u32 = connection
        .query_row("PRAGMA page_count", [], |row| row.get(0))
        .unwrap();
    connection
        .query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))
        .unwrap();
    connection
}

fn claim_of(jobs: u32) -> Claim<'static> {
    Claim {
        token: Token::random(),
        kinds: None,
        max: jobs,
        start: jobs,
        ahead: jobs,
        horizon: LONG,
        lease: LONG,
        urgent_first: true,
    }
}

fn claimed(store: &SqliteStore, jobs: u32) -> Vec<Lease> {
    let turn = store.turn("queue", &[], Some(claim_of(jobs))).unwrap();
    turn.claimed.unwrap().leases
}

/// A batch of this size adds at most a page to the file.
#[test]
fn a_full_disk_is_reported_and_loses_nothing() {
    let File {
        store,
        clock,
        folder,
    } = file();
    store.enqueue("queue", &[JOB]).unwrap();
    drop(store);
    let store = options(&clock).adopt(full(&folder)).unwrap();
    let payload = vec![0; 1 << 20];
    let large = NewJob {
        payload: &payload,
        ..JOB
    };
    let error = store.enqueue("queue", &[JOB, large]).unwrap_err();
    assert_eq!(
        (error.kind(), error.carried_out()),
        (ErrorKind::Full, CarriedOut::No)
    );
    assert!(error.is_transient());
    assert_eq!(count(&store), 1, "all of a batch or none");
    store.enqueue("queue", &[JOB]).unwrap();
    assert_eq!(count(&store), 2);
}

/// Makes changes of jobs need an additional page. Deleting frees space, but needs some first.
const NEEDS_SPACE: &str = "CREATE TABLE ballast (bytes BLOB);
    CREATE TRIGGER updates AFTER UPDATE ON durable_job
    BEGIN INSERT INTO ballast VALUES (zeroblob(1000000)); END;
    CREATE TRIGGER deletes AFTER DELETE ON durable_job
    BEGIN INSERT INTO ballast VALUES (zeroblob(1000000)); END";
const NEEDS_NONE: &str = "DROP TRIGGER updates; DROP TRIGGER deletes";

#[test]
fn a_disk_that_becomes_full_during_a_turn_undoes_all_of_it() {
    let File {
        store,
        clock,
        folder,
    } = file();
    let other = Connection::open(folder.file("jobs")).unwrap();
    let puts = store.enqueue("queue", &[JOB; 3]).unwrap();
    let leases = claimed(&store, 2);
    drop(store);
    other.execute_batch(NEEDS_SPACE).unwrap();
    let store = options(&clock).adopt(full(&folder)).unwrap();
    let settles = |act| [leases[0].settle(act), leases[1].settle(act)];
    let when = When::NOW;
    let acts = [
        Act::Ack,
        Act::bury("no"),
        Act::retry(when),
        Act::Extend { lease: LONG },
        Act::Release,
    ];
    let id = puts[2].id();
    let turns = acts.map(|act| store.turn("queue", &settles(act), None).err());
    let with_claim = store.turn("queue", &settles(Act::Ack), Some(claim_of(1)));
    let refused = turns.into_iter().chain([
        with_claim.err(),
        store.turn("queue", &[], Some(claim_of(1))).err(),
        store.cancel("queue", id.into()).err(),
        store.reset("queue", id.into(), when).err(),
    ]);
    for (call, error) in refused.enumerate() {
        let error = error.unwrap_or_else(|| panic!("call {call} was carried out"));
        assert_eq!(
            (error.kind(), error.carried_out()),
            (ErrorKind::Full, CarriedOut::No),
            "{call}"
        );
        assert!(error.is_transient());
    }
    assert_eq!(count(&store), 3);
    assert!(store.dead("queue", None, 1).unwrap().is_empty());

    other.execute_batch(NEEDS_NONE).unwrap();
    let turn = store.turn("queue", &settles(Act::Ack), Some(claim_of(9)));
    let turn = turn.unwrap();
    assert_eq!(turn.verdicts, [Verdict::Done; 2]);
    assert_eq!(turn.claimed.unwrap().leases.len(), 1);
    assert_eq!(count(&store), 1);
}

/// Without intervention in the program.
#[testkit::test]
fn an_acknowledgement_waits_until_the_disk_has_space() {
    let File { store, folder, .. } = file();
    let other = Connection::open(folder.file("jobs")).unwrap();
    drop(store);
    other.execute_batch(NEEDS_SPACE).unwrap();
    let store = SqliteStore::options().adopt(full(&folder)).unwrap();
    other.execute_batch("DROP TRIGGER updates").unwrap();
    let queue: DurableQueue<String, _> = DurableQueue::new("queue", store.clone());
    queue.push(job("job"), When::NOW).unwrap();
    let taken = queue.take().unwrap();
    thread::scope(|scope| {
        let acked = scope.spawn(|| taken.ack());
        let is_full = || {
            let error = queue.last_error();
            error.is_some_and(|error| error.kind() == ErrorKind::Full)
        };
        while !is_full() {
            thread::yield_now();
        }
        assert_eq!(count(&store), 1);
        other.execute_batch("DROP TRIGGER deletes").unwrap();
        acked.join().unwrap().unwrap();
    });
    assert_eq!(count(&store), 0);
}

/// The value of `PRAGMA synchronous` in the transactions that change jobs. In write-ahead mode a commit is
/// synced at this level and above.
const FULL: i64 = 2;
const NORMAL: i64 = 1;

/// Records the level of each transaction.
struct Levels(Connection);

impl Levels {
    fn of(folder: &Folder) -> Self {
        let other = Connection::open(folder.file("jobs")).unwrap();
        let mode: String = other
            .query_row("PRAGMA journal_mode", [], |row| row.get(0))
            .unwrap();
        assert_eq!(mode, "wal");
        other
            .execute_batch("CREATE TABLE seen (level INTEGER)")
            .unwrap();
        for (table, change) in [
            ("durable_job", "INSERT"),
            ("durable_job", "UPDATE"),
            ("durable_job", "DELETE"),
            ("durable_dead", "INSERT"),
            ("durable_dead", "DELETE"),
            ("durable_queue", "UPDATE"),
        ] {
            let trigger = format!(
                "CREATE TRIGGER sees_{change}_{table} AFTER {change} ON {table}
                BEGIN INSERT INTO seen SELECT synchronous FROM pragma_synchronous; END"
            );
            other.execute_batch(&trigger).unwrap();
        }
        Self(other)
    }

    /// Returns the levels of the transactions since the last call.
    #[track_caller]
    fn are(&self, level: i64, call: &str) {
        let mut statement = self.0.prepare("SELECT DISTINCT level FROM seen").unwrap();
        let levels = statement.query_map([], |row| row.get(0)).unwrap();
        let levels: Vec<i64> = levels.map(Result::unwrap).collect();
        assert_eq!(levels, [level], "{call}");
        self.0.execute("DELETE FROM seen", []).unwrap();
    }
}

#[test]
fn answered_calls_are_synced_except_claims_starts_and_extensions() {
    let File {
        store,
        clock,
        folder,
    } = file();
    let levels = Levels::of(&folder);
    drop(store);
    // Independent of the settings of the application's own connection.
    let own = Connection::open(folder.file("jobs")).unwrap();
    own.execute_batch("PRAGMA synchronous = OFF").unwrap();
    for store in [
        options(&clock).open(folder.file("jobs")).unwrap(),
        options(&clock).adopt(own).unwrap(),
    ] {
        let keyed = NewJob {
            key: Some(b"key"),
            merge: Merge::Latest,
            ..JOB
        };
        let turn = |settles: &[Settle<'_>], claim: u32| {
            let claim = (claim > 0).then(|| claim_of(claim));
            let turn = store.turn("queue", settles, claim).unwrap();
            assert_eq!(turn.verdicts, vec![Verdict::Done; settles.len()]);
            turn.claimed.map(|claimed| claimed.leases)
        };
        store.enqueue("queue", &[JOB]).unwrap();
        levels.are(FULL, "a push");
        store.enqueue("queue", &[JOB; 5]).unwrap();
        levels.are(FULL, "a batch");
        store.enqueue("queue", &[keyed]).unwrap();
        levels.are(FULL, "a key");
        store.enqueue("queue", &[keyed]).unwrap();
        levels.are(FULL, "a merge");
        let leases = turn(&[], 6).unwrap();
        assert_eq!(leases.len(), 6);
        levels.are(NORMAL, "a claim");
        let lease = LONG;
        for (of, act, level) in [
            (0, Act::Start { lease }, NORMAL),
            (0, Act::Ack, FULL),
            (1, Act::Extend { lease }, NORMAL),
            (1, Act::bury("no"), FULL),
            (2, Act::Release, NORMAL),
            (3, Act::retry(When::NOW), FULL),
            (4, Act::Again { when: When::NOW }, FULL),
        ] {
            turn(&[leases[of].settle(act)], 0);
            levels.are(level, &format!("{act:?}"));
        }
        turn(&[leases[5].settle(Act::Ack)], 1);
        levels.are(FULL, "an acknowledgement with a claim");
        let dead = store.dead("queue", None, 1).unwrap()[0].id;
        assert_eq!(store.redrive("queue", &[dead]).unwrap(), 1);
        levels.are(FULL, "a dead letter that is driven again");
        let put = store.enqueue("queue", &[JOB]).unwrap()[0];
        levels.are(FULL, "a push after a claim");
        assert!(store.reset("queue", put.id().into(), LONG.into()).is_ok());
        levels.are(FULL, "a reset");
        assert!(store.cancel("queue", put.id().into()).unwrap().is_gone());
        levels.are(FULL, "a cancel");
        for paused in [true, false] {
            store.pause("queue", paused).unwrap();
            levels.are(FULL, "a pause");
        }
        let leases = turn(&[], 1).unwrap();
        levels.are(NORMAL, "a claim");
        turn(&[leases[0].settle(Act::bury("no"))], 0);
        assert_eq!(store.delete_dead("queue", &[leases[0].id]).unwrap(), 1);
        levels.are(FULL, "a dead letter that is deleted");
        for job in store.list("queue", None, 100).unwrap() {
            _ = store.cancel("queue", job.id.into()).unwrap();
        }
        levels.are(FULL, "cancels");
    }
    // In the caller's own transaction, the commit has the level of the caller's connection, here SQLite's
    // default.
    let mut own = Connection::open(folder.file("jobs")).unwrap();
    let store = options(&clock).open(folder.file("jobs")).unwrap();
    let transaction = own.transaction_with_behavior(TransactionBehavior::Immediate);
    let mut transaction = transaction.unwrap();
    store.enqueue_in(&mut transaction, "queue", &[JOB]).unwrap();
    transaction.commit().unwrap();
    levels.are(FULL, "a push in the caller's own transaction");
}

/// The calls that a queue's pump makes.
#[testkit::test]
fn a_push_and_an_acknowledgement_through_a_queue_are_synced() {
    let File { store, folder, .. } = file();
    let levels = Levels::of(&folder);
    drop(store);
    let store = SqliteStore::open(folder.file("jobs")).unwrap();
    // A renewal would be recorded, too, and is not synced.
    let queue = DurableQueue::<String, _>::builder("queue", store).heartbeat(false);
    let queue = queue.build().unwrap();
    queue.push(job("job"), When::NOW).unwrap();
    levels.are(FULL, "a push");
    let taken = queue.take().unwrap();
    levels.are(NORMAL, "a take");
    taken.ack().unwrap();
    levels.are(FULL, "an acknowledgement");
}
