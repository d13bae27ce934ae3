//! Privileges of a role, and the calls that need them.

use std::str::FromStr as _;
use std::time::Duration;

use ::postgres::{Config, NoTls};
use durable_queue::store::{Act, Claim, Fate, Keep, Settle, Verdict};
use durable_queue::{
    CarriedOut, DurableQueue, ErrorKind, Limit, Merge, NewJob, Notifier, PushIn, Reset, Store,
    StoreError, StoreTime, Token, When,
};

use super::Database;
use crate::alike::{JOB, a_sleeping_queue_is_woken, claim_of, shown, what};

/// Returns the privileges documented in the README, as statements for the role `shop`.
fn documented() -> Vec<&'static str> {
    let readme = include_str!("../../README.md");
    let statements = readme.lines().map(str::trim);
    statements
        .filter(|line| line.starts_with("GRANT "))
        .collect()
}

/// Removes the jobs.
const TRUNCATE: &str = "TRUNCATE SCHEMA.job, SCHEMA.dead, SCHEMA.done, SCHEMA.queue, SCHEMA.kind_limit, SCHEMA.group_left";

/// A role with its own password, removed at the end.
struct Role<'d> {
    database: &'d Database,
    name: String,
    config: Config,
}

impl<'d> Role<'d> {
    fn new(database: &'d Database) -> Self {
        let name = format!("{}_shop", database.schema);
        database.sql(&format!("CREATE ROLE {name} LOGIN PASSWORD 'hunter2'"));
        let mut config = Config::from_str(&database.address).unwrap();
        config.user(&name).password("hunter2");
        Self {
            database,
            name,
            config,
        }
    }

    /// Adapts a statement of the README to this role and schema.
    fn sql(&self, statement: &str) {
        let statement = statement
            .replace("SCHEMA durable", "schema SCHEMA")
            .replace("durable.", "SCHEMA.")
            .replace("shop", &self.name);
        self.database.sql(&statement);
    }

    /// Makes all calls of normal operation as this role.
    fn work(&self) -> Result<(), StoreError> {
        let store = self.database.options().open_config(self.config.clone())?;
        let span = Duration::from_secs(1_000);
        let keyed = NewJob {
            key: Some(b"key"),
            merge: Merge::Latest,
            ..JOB
        };
        drop(store.watch("queue", Notifier::new(|_| ()))?);
        store.enqueue("queue", &[JOB])?;
        store.enqueue("queue", &[JOB; 4])?;
        store.enqueue("queue", &[keyed])?;
        store.enqueue("queue", &[keyed])?;
        let mut own = self.config.connect(NoTls).unwrap();
        let mut transaction = own.transaction().unwrap();
        store.enqueue_in(&mut transaction, "another", &[JOB])?;
        transaction.commit().unwrap();

        let claim = claim_of(6);
        let claimed = store.turn("queue", &[], Some(claim))?.claimed.unwrap();
        assert_eq!(claimed.leases.len(), 6);
        assert_eq!(store.held_by("queue", claim.token, claim.lease)?.len(), 6);
        let settles = |acts: &[Act<'static>]| {
            let settles = claimed.leases.iter().zip(acts).map(|(lease, act)| Settle {
                id: lease.id,
                token: claim.token,
                act: *act,
            });
            settles.collect::<Vec<_>>()
        };
        let lease = span;
        let starts = settles(&[Act::Start { lease }; 6]);
        assert_eq!(
            store.turn("queue", &starts, None)?.verdicts,
            [Verdict::Done; 6]
        );
        let acts = settles(&[
            Act::Extend { lease },
            Act::bury("no"),
            Act::bury("no"),
            Act::Ack,
            Act::retry(When::NOW),
            Act::Again { when: When::NOW },
        ]);
        assert_eq!(
            store.turn("queue", &acts, None)?.verdicts,
            [Verdict::Done; 6]
        );
        let given_back = settles(&[Act::Release]);
        store.turn("queue", &given_back, None)?;
        store.held_by("queue", Token::random(), claim.lease)?;

        let dead = store.dead("queue", None, 9)?;
        assert_eq!(store.redrive("queue", &[dead[0].id])?, 1);
        assert_eq!(store.delete_dead("queue", &[dead[1].id])?, 1);
        store.pause("queue", true)?;
        store.pause("queue", false)?;
        for is_set in [true, false] {
            store.limit("queue", &Limit::ordered(), is_set)?;
            let leases = store.turn("queue", &[], Some(claim_of(9)))?.claimed;
            let release = leases.unwrap().leases;
            let release: Vec<_> = release
                .iter()
                .map(|lease| Settle {
                    id: lease.id,
                    token: lease.token,
                    act: Act::Release,
                })
                .collect();
            store.turn("queue", &release, None)?;
        }
        assert_eq!(store.stats("queue")?.jobs, 3);
        leave_a_seat(&store)?;
        let limit = Limit::per_kind("mail", 1);
        for is_set in [true, false] {
            store.limit("queue", &limit, is_set)?;
        }
        for job in store.list("queue", None, 9)? {
            assert_eq!(
                store.reset("queue", job.id.into(), span.into())?,
                Reset::Moved
            );
            assert!(store.cancel("queue", job.id.into())?.is_gone());
        }
        let id = store.enqueue("kept", &[JOB])?[0].id();
        let claim = claim_of(1);
        store.turn("kept", &[], Some(claim))?;
        let keep = Settle {
            id,
            token: claim.token,
            act: Act::Keep(Keep {
                span: Duration::ZERO,
                took: span,
                result: None,
            }),
        };
        assert_eq!(store.turn("kept", &[keep], None)?.verdicts, [Verdict::Done]);
        assert_eq!(store.fate("kept", id)?, Fate::Gone);
        assert_eq!(store.delete_done("kept", 9)?, 1);
        let queue: DurableQueue<Vec<u8>, _> = DurableQueue::new("another", store);
        let taken = queue.take_timeout(testkit::LIMIT).unwrap();
        taken.ack().unwrap();
        Ok(())
    }

    fn is_refused(&self, missing: &str) {
        let Err(error) = self.work() else {
            panic!("all was done without {missing}");
        };
        assert_eq!(
            what(&error),
            (ErrorKind::Other, CarriedOut::No),
            "{missing}"
        );
        assert!(!error.is_transient());
        let shown = shown(&error);
        assert!(
            shown.contains("42501: the role lacks a privilege"),
            "{missing}: {shown}"
        );
        for secret in ["hunter2", &self.name, &self.database.schema] {
            assert!(!shown.contains(secret), "{missing}: {shown}");
        }
    }
}

/// Merges a push into a job that is claimed ahead, and claims again.
fn leave_a_seat(store: &impl Store) -> Result<(), StoreError> {
    store.limit("grouped", &Limit::ordered(), true)?;
    for at in [0, 1_000_000] {
        let ahead = NewJob {
            key: Some(b"key"),
            group: Some("account 7"),
            when: StoreTime::from_micros(at).into(),
            merge: Merge::Latest,
            ..JOB
        };
        store.enqueue("grouped", &[ahead])?;
        let claim = Claim {
            start: 0,
            ahead: 1,
            ..claim_of(1)
        };
        store.turn("grouped", &[], Some(claim))?;
    }
    Ok(())
}

impl Drop for Role<'_> {
    fn drop(&mut self) {
        let text = format!("DROP OWNED BY {0}; DROP ROLE {0}", self.name);
        let dropped = self.database.session().batch_execute(&text);
        assert!(dropped.is_ok() || std::thread::panicking(), "{dropped:?}");
    }
}

#[test]
fn each_documented_privilege_is_necessary_and_together_they_suffice() {
    let Some(database) = Database::new() else {
        return;
    };
    let role = Role::new(&database);
    assert_eq!(documented().len(), 5);
    for grant in documented() {
        role.sql(grant);
    }
    role.work().unwrap();
    for grant in documented() {
        let (rights, rest) = grant
            .strip_prefix("GRANT ")
            .unwrap()
            .split_once(" ON ")
            .unwrap();
        let (tables, _) = rest.split_once(" TO ").unwrap();
        for right in rights.split(", ") {
            for table in tables.split(", ") {
                // Removes the jobs, as after a failure during a run.
                database.sql(TRUNCATE);
                let missing = format!("{right} ON {table}");
                role.sql(&format!("REVOKE {missing} FROM shop"));
                role.is_refused(&missing);
                role.sql(&format!("GRANT {missing} TO shop"));
            }
        }
    }
    database.sql(TRUNCATE);
    role.work().unwrap();
    // The role must not create tables.
    database.sql("DROP TABLE SCHEMA.version");
    role.is_refused("CREATE");
}

/// As on a managed server: the role owns a database, or may create schemas in one, and nothing else.
#[test]
fn a_role_that_may_only_create_schemas_installs_and_works() {
    let Some(database) = Database::new() else {
        return;
    };
    let role = Role::new(&database);
    let name = &role.name;
    database.sql("DROP schema SCHEMA CASCADE");
    let grant = format!("GRANT CREATE ON DATABASE {} TO {name}", name_of(&database));
    database.sql(&grant);
    let rights = "SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls
        FROM pg_roles WHERE rolname";
    assert!(!database.get::<bool>(&format!("{rights} = '{name}'")));
    role.work().unwrap();
    let owner = "SELECT DISTINCT tableowner::text FROM pg_tables WHERE schemaname = 'SCHEMA'";
    assert_eq!(&database.get::<String>(owner), name);
    a_sleeping_queue_of_the_role_is_woken(&database, &role);
    // The schema is removed by its database, not with the role.
    database.sql(&format!("REASSIGN OWNED BY {name} TO CURRENT_USER"));
}

fn name_of(database: &Database) -> String {
    database.get("SELECT current_database()::text")
}

fn a_sleeping_queue_of_the_role_is_woken(database: &Database, role: &Role<'_>) {
    let open = || database.options().open_config(role.config.clone()).unwrap();
    let queue = DurableQueue::new("woken", open());
    let other: DurableQueue<Vec<u8>, _> = DurableQueue::new("woken", open());
    a_sleeping_queue_is_woken(&queue, |_, payload| {
        other.push(payload.to_vec(), Duration::ZERO).unwrap();
    });
}
