//! A separate database per test, on the test servers, for tests that use the default schema or prefix.

use super::address::POSTGRES;
use super::address::REDIS;
use super::address::address;

pub struct Postgres {
    server: postgres::Client,
    name: String,
    pub address: String,
}

impl Postgres {
    /// Creates a database whose name begins with that of the test binary.
    pub fn new(binary: &str) -> Option<Self> {
        let address = address(POSTGRES)?;
        let mut server = postgres::Client::connect(&address, postgres::NoTls).unwrap();
        let name = format!("{binary}_{}", std::process::id());
        server
            .batch_execute(&format!("CREATE DATABASE {name}"))
            .unwrap();
        Some(Self {
            server,
            address: format!("{address}?dbname={name}"),
            name,
        })
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let text = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        let dropped = self.server.batch_execute(&text);
        assert!(dropped.is_ok() || std::thread::panicking(), "{dropped:?}");
    }
}

pub struct Redis {
    pub address: String,
}

impl Redis {
    /// Selects a database by number. 0 belongs to the conformance suite, and each test binary has another.
    pub fn new(database: u8) -> Option<Self> {
        let address = address(REDIS)?;
        let (server, _) = address.rsplit_once('/').unwrap();
        let database = Self {
            address: format!("{server}/{database}"),
        };
        database.flush();
        Some(database)
    }

    fn flush(&self) {
        let client = redis::Client::open(&*self.address).unwrap();
        let mut session = client.get_connection().unwrap();
        redis::cmd("FLUSHDB").exec(&mut session).unwrap();
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.flush();
    }
}
