//! The tables and functions, and their migration from older versions.
//!
//! # Invariants
//! 1. Released steps never change. Each version replaces the functions, which have no state. Functions of the
//!    previous version stay callable, for its processes. So a function with more parameters is an overload,
//!    and a function with another result type has a new name that ends in a version number.
//! 2. The schema's name was checked by [`Schema::new`], so it needs no escaping in statements. All other
//!    values are parameters.

use durable_queue::internals::Version;
use durable_queue::store::Result;
use durable_queue::{ErrorKind, SAFETY_LOOK, StoreError, StoreTime};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, GenericClient};

use super::failure::{bad_name, failure, is_conflict, is_locked, no_session};

/// Step `i` migrates from version `i` to `i + 1`.
const STEPS: [&str; 11] = [
    include_str!("sql/step_1.sql"),
    include_str!("sql/step_2.sql"),
    include_str!("sql/step_3.sql"),
    include_str!("sql/step_4.sql"),
    include_str!("sql/step_5.sql"),
    include_str!("sql/step_6.sql"),
    include_str!("sql/step_7.sql"),
    include_str!("sql/step_8.sql"),
    include_str!("sql/step_9.sql"),
    include_str!("sql/step_10.sql"),
    include_str!("sql/step_11.sql"),
];

const FUNCTIONS: [&str; 5] = [
    include_str!("sql/enqueue.sql"),
    include_str!("sql/turn.sql"),
    include_str!("sql/serial.sql"),
    include_str!("sql/limits.sql"),
    include_str!("sql/control.sql"),
];

/// A procedure that commits before it ends, with two output parameters.
pub(super) const PUSH_ONE: &str = "push_one_10";
pub(super) const TURN: &str = "turn_10";

/// The version that this crate writes.
#[expect(clippy::cast_possible_truncation, reason = "there are few")]
pub(super) const VERSION: u32 = STEPS.len() as u32;

/// The oldest version that may use tables of this one.
///
/// Processes of versions 8 and 9 call functions that know the columns of version 10. So the jobs that they
/// return, bury and redrive keep kinds, options and failures, marked jobs end when they are returned, and a
/// cancel marks running jobs. But those processes hand out jobs of all kinds to their only handler, record no
/// failed attempts, and do not learn of marks.
///
/// Version 11 has changed no function that processes of version 10 call, except for what it does. So those
/// processes observe all limits, as do those of versions 8 and 9.
const OLDEST: u32 = 8;

/// How often a migration is repeated that could not lock the tables.
const RETRIES: u32 = 20;
/// Time limit of a migration for each lock. In the meantime all calls of other processes wait behind it.
const LOCK_TIMEOUT: &str = "500ms";
/// Lets those calls pass.
const PAUSE: &str = "SELECT pg_sleep(0.5)";

/// Maximum length of a schema's name: a channel's name, which contains it, has at most 63 bytes.
const LONGEST_NAME: usize = 40;

/// Returns the types of the parameters of a function, for calls that are not prepared.
pub(super) fn parameter_types(function: &str) -> &'static [Type] {
    match function {
        TURN => &[
            Type::TEXT,
            Type::BOOL,
            Type::BOOL,
            Type::INT2_ARRAY,
            Type::INT8_ARRAY,
            Type::UUID_ARRAY,
            Type::INT8_ARRAY,
            Type::BOOL_ARRAY,
            Type::TEXT_ARRAY,
            Type::TEXT_ARRAY,
            Type::UUID,
            Type::INT8,
            Type::INT8,
            Type::INT8,
            Type::INT8,
            Type::INT8,
            Type::BOOL,
            Type::INT8_ARRAY,
        ],
        "enqueue_plain" => &[
            Type::TEXT,
            Type::INT8_ARRAY,
            Type::BOOL_ARRAY,
            Type::BYTEA_ARRAY,
            Type::BOOL,
            Type::TEXT_ARRAY,
            Type::TEXT_ARRAY,
            Type::BOOL,
        ],
        "enqueue" => &[
            Type::TEXT,
            Type::INT8_ARRAY,
            Type::BOOL_ARRAY,
            Type::BYTEA_ARRAY,
            Type::BYTEA_ARRAY,
            Type::INT2_ARRAY,
            Type::INT8_ARRAY,
            Type::BOOL_ARRAY,
            Type::TEXT_ARRAY,
            Type::BOOL_ARRAY,
            Type::TEXT_ARRAY,
            Type::TEXT_ARRAY,
            Type::BOOL,
        ],
        "reset" => &[Type::TEXT, Type::INT8, Type::BYTEA, Type::INT8, Type::BOOL],
        "list_10" => &[Type::TEXT, Type::INT8, Type::INT8, Type::INT8],
        "announce" => &[Type::TEXT, Type::INT8, Type::TEXT],
        "cancel_10" => &[Type::TEXT, Type::INT8, Type::BYTEA],
        "held_by_10" => &[Type::TEXT, Type::UUID, Type::INT8],
        "pause" => &[Type::TEXT, Type::BOOL, Type::TEXT],
        "dead_letters_10" => &[Type::TEXT, Type::INT8, Type::INT8],
        "look_9" | "redrive" | "delete_dead" => &[Type::TEXT, Type::INT8_ARRAY],
        "serialize_keys" => &[Type::TEXT, Type::BOOL],
        "limit_kind" => &[Type::TEXT, Type::TEXT, Type::BOOL, Type::INT8, Type::INT8],
        "stats_7" | "limit_keys" | "cancel_requests" | "fate" | "delete_done" => {
            &[Type::TEXT, Type::INT8]
        }
        "listen" | "limits" => &[Type::TEXT],
        _ => &[Type::INT8_ARRAY], // `ENDED`.
    }
}

/// Jobs that are due after this time, in microseconds, are not announced. Twice the interval of regular looks, for
/// transactions that commit long after they have inserted a job.
pub(super) fn soon() -> i64 {
    StoreTime::from_micros(0).after(SAFETY_LOOK * 2).as_micros()
}

/// The name of a schema.
#[derive(Clone)]
pub(super) struct Schema(String);

impl Schema {
    pub(super) fn new(name: &str) -> Result<Self> {
        let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        let mut bytes = name.bytes();
        let is_good = bytes.next().is_some_and(is_letter)
            && bytes.all(|byte| is_letter(byte) || byte.is_ascii_digit())
            && name.len() <= LONGEST_NAME;
        is_good.then(|| Self(name.to_owned())).ok_or_else(bad_name)
    }

    /// Returns the channel of notifications about all queues of the schema.
    pub(super) fn channel(&self) -> String {
        format!("durable_queue_{}", self.0)
    }

    /// Returns a statement that calls one of the functions.
    pub(super) fn call(&self, function: &str, parameters: usize) -> String {
        let parameters: Vec<String> = (1..=parameters)
            .map(|number| format!("${number}"))
            .collect();
        let parameters = parameters.join(", ");
        let schema = &self.0;
        if function == PUSH_ONE {
            format!("CALL \"{schema}\".{function}({parameters}, NULL, NULL)")
        } else {
            format!("SELECT * FROM \"{schema}\".{function}({parameters})")
        }
    }

    /// Like [`call`](Self::call), with settings for its transaction: columns of a query. The function's first
    /// argument comes from that query too, so it is called after they are set.
    pub(super) fn call_with(&self, settings: &str, function: &str, parameters: usize) -> String {
        let call = self.call(function, parameters);
        let call = call.replacen("$1", "s.first", 1);
        let call = call.replacen("SELECT * FROM ", "LATERAL ", 1);
        format!("SELECT f.* FROM (SELECT $1 AS first, {settings} OFFSET 0) s, {call} f")
    }

    /// Returns the text with the schema's name.
    pub(super) fn render(&self, text: &str) -> String {
        text.replace("SCHEMA.", &format!("\"{}\".", self.0))
            .replace("CHANNEL", &self.channel())
            .replace("SOON", &soon().to_string())
    }

    /// Creates the tables, or migrates those of an older version.
    pub(super) async fn migrate(&self, client: &mut Client) -> Result<()> {
        let failed = |error| no_session(&error);
        // Read first, without a write, so that a role without write privileges can open current tables.
        if self.version(client).await?.is_usable(VERSION)? {
            return Ok(());
        }
        let mut retries = RETRIES;
        loop {
            let transaction = client.transaction().await.map_err(failed)?;
            // Serializes processes until the commit.
            let lock = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";
            transaction
                .query_typed(lock, &[(&self.channel(), Type::TEXT)])
                .await
                .map_err(failed)?;
            let found = self.version(&transaction).await?;
            if found.is_usable(VERSION)? {
                // Explicitly, because a drop would send the rollback only with the session's next call, and the
                // transaction holds the lock.
                return transaction.rollback().await.map_err(failed);
            }
            let migrated = transaction.batch_execute(&self.migration(found)).await;
            let Err(error) = migrated else {
                return transaction.commit().await.map_err(|error| failure(&error));
            };
            transaction.rollback().await.map_err(failed)?;
            // By a long transaction, or by one that has locked the tables in another order.
            if retries == 0 || !is_locked(&error) && !is_conflict(&error) {
                return Err(failed(error));
            }
            retries -= 1;
            client.batch_execute(PAUSE).await.map_err(failed)?;
        }
    }

    /// Returns the statements that migrate from a version.
    fn migration(&self, found: Version) -> String {
        let mut all = vec![format!("CREATE SCHEMA IF NOT EXISTS \"{}\";", self.0)];
        if found.number > 0 {
            // In the order of most calls. Otherwise each call that has locked the second table while a step waits for
            // the first would be a deadlock.
            all.push(self.render(&format!(
                "SET LOCAL lock_timeout = '{LOCK_TIMEOUT}';
                LOCK TABLE SCHEMA.queue, SCHEMA.job IN ACCESS EXCLUSIVE MODE;"
            )));
        }
        let steps = STEPS[found.number as usize..].iter().chain(&FUNCTIONS);
        all.extend(steps.map(|text| self.render(text)));
        all.push(self.render(&format!(
            "CREATE TABLE IF NOT EXISTS SCHEMA.version (version integer NOT NULL);
            ALTER TABLE SCHEMA.version ADD COLUMN IF NOT EXISTS oldest integer;
            DELETE FROM SCHEMA.version;
            INSERT INTO SCHEMA.version (version, oldest) VALUES ({VERSION}, {OLDEST});"
        )));
        all.join("\n")
    }

    async fn version(&self, client: &impl GenericClient) -> Result<Version> {
        let failed = |error| no_session(&error);
        let is_there = client
            .query_typed(
                "SELECT FROM pg_catalog.pg_class c
                JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname = $1 AND c.relname = 'version'",
                &[(&self.0, Type::TEXT)],
            )
            .await;
        if is_there.map_err(failed)?.is_empty() {
            return Ok(Version::NONE);
        }
        // Versions before 8 do not record it. None of them may use tables of another version.
        let version = self.render(
            "SELECT v.version::bigint, coalesce((to_jsonb(v) ->> 'oldest')::bigint, v.version)
            FROM SCHEMA.version v",
        );
        let version = client.query_typed(&version, &[]).await.map_err(failed)?;
        let version = version.first().and_then(|row| {
            let number = |column| u32::try_from(row.get::<_, i64>(column)).ok();
            Some(Version {
                number: number(0)?,
                oldest: number(1)?,
            })
        });
        version.ok_or_else(|| StoreError::new(ErrorKind::Corrupt))
    }
}
