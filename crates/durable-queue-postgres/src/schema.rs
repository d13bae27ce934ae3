//! The tables and functions of a schema.
//!
//! # Invariants
//! 1. What a released version has created never changes, except that a later version may replace functions, which have
//!    no state.
//! 2. The schema's name was checked by [`Schema::new`], so it needs no escaping in statements. All other
//!    values are parameters.

use durable_queue::internals::SAFETY_LOOK;
use durable_queue::internals::Version;
use durable_queue::store::Result;
use durable_queue::{ErrorKind, StoreError, StoreTime};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, GenericClient};

use super::failure::{bad_name, failure, no_session};

const ALL: [&str; 8] = [
    include_str!("sql/tables.sql"),
    include_str!("sql/enqueue.sql"),
    include_str!("sql/kinds.sql"),
    include_str!("sql/turn.sql"),
    include_str!("sql/groups.sql"),
    include_str!("sql/limited.sql"),
    include_str!("sql/limits.sql"),
    include_str!("sql/control.sql"),
];

/// A procedure that commits before it ends, with two output parameters.
pub(super) const PUSH_ONE: &str = "push_one";
pub(super) const TURN: &str = "turn";

/// The version of the tables that this crate creates.
pub(super) const VERSION: u32 = 1;

/// The oldest version that may use them.
const OLDEST: u32 = 1;

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
            Type::TEXT_ARRAY,
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
            Type::TEXT_ARRAY,
            Type::BOOL,
        ],
        "reset" => &[Type::TEXT, Type::INT8, Type::BYTEA, Type::INT8, Type::BOOL],
        "list" => &[Type::TEXT, Type::INT8, Type::INT8, Type::INT8],
        "announce" => &[Type::TEXT, Type::INT8, Type::TEXT],
        "cancel" => &[Type::TEXT, Type::INT8, Type::BYTEA],
        "held_by" => &[Type::TEXT, Type::UUID, Type::INT8],
        "pause" => &[Type::TEXT, Type::BOOL, Type::TEXT],
        "dead_letters" | "limit_groups" => &[Type::TEXT, Type::INT8, Type::INT8],
        "look" => &[
            Type::TEXT,
            Type::INT8_ARRAY,
            Type::TEXT_ARRAY,
            Type::INT8_ARRAY,
        ],
        "redrive" | "delete_dead" => &[Type::TEXT, Type::INT8_ARRAY],
        "limit_kind" => &[Type::TEXT, Type::TEXT, Type::BOOL, Type::INT8, Type::INT8],
        "stats" | "cancel_requests" | "fate" | "delete_done" => &[Type::TEXT, Type::INT8],
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

    /// Creates the tables and functions, unless they exist.
    pub(super) async fn create(&self, client: &mut Client) -> Result<()> {
        let failed = |error| no_session(&error);
        // Read first, without a write, so that a role without write privileges can open them.
        if self.version(client).await?.is_usable(VERSION)? {
            return Ok(());
        }
        let transaction = client.transaction().await.map_err(failed)?;
        // Serializes processes until the commit.
        let lock = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";
        transaction
            .query_typed(lock, &[(&self.channel(), Type::TEXT)])
            .await
            .map_err(failed)?;
        // Explicitly, because a drop would send the rollback only with the session's next call, and the
        // transaction holds the lock.
        if self.version(&transaction).await?.is_usable(VERSION)? {
            return transaction.rollback().await.map_err(failed);
        }
        if let Err(error) = transaction.batch_execute(&self.creation()).await {
            transaction.rollback().await.map_err(failed)?;
            return Err(failed(error));
        }
        transaction.commit().await.map_err(|error| failure(&error))
    }

    fn creation(&self) -> String {
        let mut all = vec![format!("CREATE SCHEMA IF NOT EXISTS \"{}\";", self.0)];
        all.extend(ALL.map(|text| self.render(text)));
        all.push(self.render(&format!(
            "INSERT INTO SCHEMA.version (version, oldest) VALUES ({VERSION}, {OLDEST});"
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
        let version = "SELECT v.version::bigint, v.oldest::bigint FROM SCHEMA.version v";
        let version = self.render(version);
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
