//! A database created for one run.

use std::thread::sleep;
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};

use super::Counts;
use crate::contender::Outcome;

/// By then the sessions of a run have ended.
const LIMIT: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// A database of a server, and a session to another one.
pub struct Database {
    server: Client,
    name: String,
    address: String,
}

impl Database {
    pub(super) fn create(server: &str, name: String) -> Outcome<Self> {
        let (before, _) = server
            .rsplit_once('/')
            .ok_or("the address names no database")?;
        let address = format!("{before}/{name}");
        let mut server = Client::connect(server, NoTls)?;
        server.batch_execute(&format!("CREATE DATABASE {name}"))?;
        // Other runs may create it at the same time, or the server may not have it: then no queries
        // are counted.
        drop(server.batch_execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements"));
        Ok(Self {
            server,
            name,
            address,
        })
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// The remaining sessions belong to dropped pools, and end soon.
    pub(super) fn wait_for_sessions(&mut self) -> Outcome {
        let begin = Instant::now();
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = $1 AND state = 'idle'";
        self.server.execute(end, &[&self.name])?;
        let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = $1";
        while self.server.query_one(open, &[&self.name])?.get::<_, i64>(0) > 0 {
            if begin.elapsed() > LIMIT {
                return Err("the sessions of the run do not end".into());
            }
            sleep(LOOK_EVERY);
        }
        Ok(())
    }

    pub(super) fn counts(&mut self) -> Outcome<Counts> {
        let log = "SELECT (pg_current_wal_insert_lsn() - '0/0')::float8";
        let queries = "SELECT coalesce(sum(calls), 0)::float8 FROM pg_stat_statements s
            JOIN pg_database d ON d.oid = s.dbid WHERE d.datname = $1 AND s.toplevel";
        // In version 18 the column is in another view.
        let syncs = "SELECT wal_sync::float8 FROM pg_stat_wal";
        let queries = self.server.query_one(queries, &[&self.name]);
        let syncs = self.server.query_one(syncs, &[]);
        Ok(Counts {
            queries: queries.ok().map(|row| row.get(0)),
            syncs: syncs.ok().map(|row| row.get(0)),
            log: Some(self.server.query_one(log, &[])?.get(0)),
        })
    }

    pub(super) fn remove(&mut self) -> Outcome {
        let statement = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        Ok(self.server.batch_execute(&statement)?)
    }
}
