//! An empty database of `Redis`, used by one run.

use redis::{Client, Connection, cmd};

use super::Counts;
use crate::contender::Outcome;

/// The key that marks a database as used by a run.
const MARK: &str = "bench";
/// Tests use the first database and the last two.
const DATABASES: std::ops::Range<u32> = 1..14;

/// All keys of a database, and a session in addition to those of the run.
pub struct Keys {
    session: Connection,
    address: String,
}

impl Keys {
    /// Claims the first database without keys.
    pub(super) fn claim(server: &str) -> Outcome<Self> {
        let (before, _) = server
            .rsplit_once('/')
            .ok_or("the address names no database")?;
        for number in DATABASES {
            let address = format!("{before}/{number}");
            let mut session = Client::open(&*address)?.get_connection()?;
            // Of runs that begin at the same time, one sets it first.
            if !cmd("SETNX").arg(MARK).arg(1).query(&mut session)? {
                continue;
            }
            if cmd("DBSIZE").query::<u64>(&mut session)? == 1 {
                return Ok(Self { session, address });
            }
            cmd("DEL").arg(MARK).exec(&mut session)?;
        }
        Err("every database of the server contains keys".into())
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// The server does not count its syncs.
    pub(super) fn counts(&mut self) -> Outcome<Counts> {
        let info: String = cmd("INFO").query(&mut self.session)?;
        let figure = |name: &str| {
            let mut lines = info.lines();
            let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|figure| figure.parse().ok())
        };
        Ok(Counts {
            queries: figure("total_reads_processed"),
            syncs: None,
            log: figure("aof_current_size"),
        })
    }

    pub(super) fn remove(&mut self) -> Outcome {
        Ok(cmd("FLUSHDB").exec(&mut self.session)?)
    }
}
