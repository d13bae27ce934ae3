//! The work of a store so far, as exactly as the server counts it.
//!
//! - `PostgreSQL`: pages, cached or not, of all statements of clients in this database, including
//!   the functions that they call (`pg_stat_statements`).
//! - `SQLite`: steps of its virtual machine, of all statements of the connection that is
//!   [`counted`].
//! - `Redis` does not count its reads: the microseconds that its scripts took, and the processor
//!   time of its main thread.

use std::collections::BTreeMap;
use std::env;
use std::sync::{Mutex, PoisonError};

use durable_queue::Store;
use durable_queue_postgres::PostgresStore;
use durable_queue_redis::RedisStore;
use durable_queue_sqlite::SqliteStore;
use postgres::{Client, NoTls};
use redis::{Connection as Session, cmd};
use rusqlite::trace::{TraceEvent, TraceEventCodes};
use rusqlite::{Connection, StatementStatus};
use stores::{Outcome, POSTGRES, Place};

pub enum Counter {
    /// A session of another database, so that it does not count itself.
    Postgres(Box<Client>, String),
    Redis(Session),
    Sqlite,
}

impl Counter {
    pub fn of(place: &Place) -> Outcome<Self> {
        let address = place.address();
        Ok(match place {
            Place::Postgres(_) => {
                let (_, name) = address.rsplit_once('/').ok_or("it names a database")?;
                let server = Client::connect(&env::var(POSTGRES)?, NoTls)?;
                Self::Postgres(Box::new(server), name.to_owned())
            }
            Place::Redis(_) => Self::Redis(redis::Client::open(&*address)?.get_connection()?),
            Place::Folder(_) | Place::Nothing => Self::Sqlite,
        })
    }

    pub fn unit(&self) -> &'static str {
        match self {
            Self::Postgres(..) => "pages",
            Self::Redis(_) => "script us",
            Self::Sqlite => "steps",
        }
    }

    /// Whether the count does not depend on other load of the machine.
    pub fn is_exact(&self) -> bool {
        !matches!(self, Self::Redis(_))
    }

    pub fn read(&mut self) -> Outcome<Count> {
        Ok(match self {
            Self::Postgres(server, name) => {
                let pages = "SELECT sum(pages) FILTER (WHERE toplevel), sum(pages) FILTER (WHERE NOT toplevel)
                    FROM pg_database d, LATERAL (
                        SELECT toplevel, (shared_blks_hit + shared_blks_read)::float8 AS pages
                        FROM pg_stat_statements s WHERE s.dbid = d.oid
                    ) s WHERE d.datname = $1";
                let row = server.query_one(pages, &[&*name]).ok();
                let column = |index| row.as_ref().and_then(|row| row.get(index));
                Count([column(0), column(1)])
            }
            Self::Redis(session) => {
                let info: String = cmd("INFO").arg("commandstats").query(session)?;
                let scripts = info.lines().filter(|line| line.starts_with("cmdstat_eval"));
                let micros = scripts.filter_map(|line| {
                    let (_, rest) = line.split_once("usec=")?;
                    rest.split(',').next()?.parse::<f64>().ok()
                });
                Count([Some(micros.sum()), None])
            }
            Self::Sqlite => {
                let steps = STEPS.lock().unwrap_or_else(PoisonError::into_inner);
                #[expect(clippy::cast_precision_loss, reason = "they are far below 2^52")]
                Count([Some(steps.all as f64), None])
            }
        })
    }

    /// The processor time of the server in microseconds, if one thread of it serves all calls.
    pub fn cpu(&mut self) -> Outcome<Option<f64>> {
        let Self::Redis(session) = self else {
            return Ok(None);
        };
        let info: String = cmd("INFO").arg("cpu").query(session)?;
        let figures = info.lines().filter_map(|line| {
            let (name, seconds) = line.split_once(':')?;
            let is_main = name.starts_with("used_cpu_") && name.ends_with("_main_thread");
            is_main.then(|| seconds.parse::<f64>().ok())?
        });
        Ok(Some(figures.sum::<f64>() * 1e6))
    }
}

/// The counts of whole calls and of the statements within them, if the server counts them.
#[derive(Clone, Copy)]
pub struct Count([Option<f64>; 2]);

impl Count {
    /// Some versions of `PostgreSQL` count a prepared `CALL` only once, but always count its
    /// statements.
    pub fn since(self, before: Self) -> Option<f64> {
        let mut both = self
            .0
            .into_iter()
            .zip(before.0)
            .map(|(to, from)| Some(to? - from.unwrap_or(0.0)));
        let (whole, within) = (both.next()?, both.next()?);
        whole.filter(|whole| *whole > 0.0).or(within)
    }
}

/// Steps of the statements that the traced connection has finished.
static STEPS: Mutex<Steps> = Mutex::new(Steps {
    all: 0,
    of: BTreeMap::new(),
});

struct Steps {
    all: u64,
    /// The steps of all runs of each statement, by its text.
    of: BTreeMap<String, i32>,
}

/// A store on its own connection, whose work is counted.
pub fn counted(place: &Place) -> Outcome<Box<dyn Store>> {
    let address = place.address();
    Ok(match place {
        Place::Postgres(_) => {
            // Includes the statements within functions.
            let all = "options=-c%20pg_stat_statements.track%3Dall";
            Box::new(PostgresStore::open(&format!("{address}?{all}"))?)
        }
        Place::Redis(_) => Box::new(RedisStore::open(&address)?),
        Place::Folder(_) | Place::Nothing => {
            let connection = Connection::open(&address)?;
            trace(&connection);
            Box::new(SqliteStore::options().adopt(connection)?)
        }
    })
}

fn trace(connection: &Connection) {
    connection.trace_v2(
        TraceEventCodes::SQLITE_TRACE_PROFILE,
        Some(|event| {
            if let TraceEvent::Profile(statement, _) = event {
                let mut steps = STEPS.lock().unwrap_or_else(PoisonError::into_inner);
                let taken = statement.get_status(StatementStatus::VmStep);
                let before = steps.of.insert(statement.sql().into_owned(), taken);
                // A statement that was prepared again begins at zero.
                let before = before.filter(|before| *before <= taken).unwrap_or(0);
                steps.all += u64::from((taken - before).unsigned_abs());
            }
        }),
    );
}

/// A transaction with a snapshot of the current state, open until this is dropped.
pub enum Snapshot {
    Postgres(#[expect(dead_code, reason = "it is held")] Client),
    Sqlite(#[expect(dead_code, reason = "it is held")] Connection),
}

pub fn snapshot(place: &Place) -> Outcome<Snapshot> {
    let address = place.address();
    Ok(match place {
        Place::Postgres(_) => {
            let mut client = Client::connect(&address, NoTls)?;
            client.batch_execute(
                "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM durable.job",
            )?;
            Snapshot::Postgres(client)
        }
        Place::Folder(_) => {
            let connection = Connection::open(&address)?;
            connection.execute_batch("BEGIN")?;
            let jobs = "SELECT count(*) FROM durable_job";
            connection.query_row(jobs, [], |_| Ok(()))?;
            Snapshot::Sqlite(connection)
        }
        Place::Redis(_) | Place::Nothing => return Err("it has no snapshots".into()),
    })
}

/// Runs `PostgreSQL`'s vacuum at the same moments of each run: it removes dead rows that no
/// transaction can see.
pub fn tidy(place: &Place) -> Outcome {
    if let Place::Postgres(_) = place {
        let mut client = Client::connect(&place.address(), NoTls)?;
        client.batch_execute("ALTER TABLE durable.job SET (autovacuum_enabled = off)")?;
        client.batch_execute(
            "VACUUM (ANALYZE, INDEX_CLEANUP ON) durable.job, durable.queue, durable.dead",
        )?;
    }
    Ok(())
}
