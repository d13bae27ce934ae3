//! Reads a store's version without the crate, because opening the store would upgrade it.

use std::path::Path;

use crate::version::{postgres, redis, rusqlite};

/// The version of the tables or keys, and the oldest version that may use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) version: i64,
    pub(super) oldest: i64,
}

/// Reads from the server at this address, or else from the file in this folder.
pub(super) fn read(server: Option<&str>, folder: &Path) -> Format {
    let (version, oldest) = match server {
        None => {
            let file = rusqlite::Connection::open(folder.join(crate::place::FILE)).unwrap();
            let pair = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
            file.query_row("SELECT version, oldest FROM durable_version", [], pair)
                .unwrap()
        }
        Some(address) if address.starts_with("postgres") => {
            let mut session = postgres::Client::connect(address, postgres::NoTls).unwrap();
            let query = "SELECT version::bigint, oldest::bigint FROM durable.version";
            let row = session.query_one(query, &[]).unwrap();
            (row.get(0), row.get(1))
        }
        Some(address) if address.starts_with("redis") => {
            let client = redis::Client::open(address).unwrap();
            let mut session = client.get_connection().unwrap();
            let mut get = redis::cmd("GET");
            let text: String = get.arg("durable:version").query(&mut session).unwrap();
            let (version, oldest) = text.split_once(':').unwrap();
            (version.parse().unwrap(), oldest.parse().unwrap())
        }
        Some(_) => panic!("no such server is built in"),
    };
    Format { version, oldest }
}
