//! Databases of the servers that are named, for one test each.

use std::env;
use std::io::{self, Write as _};

/// The address of a server. If there is none, that is said past the harness, which shows what a test
/// prints only if it fails.
fn address(variable: &str) -> Option<String> {
    let address = env::var(variable).ok();
    if address.is_none() {
        let text = format!(
            "\nLEFT OUT: {variable} is not set, so NO SHOP WAS KILLED ON THAT SERVER: \
            `cargo xtask stores up` starts one\n"
        );
        io::stderr().write_all(text.as_bytes()).unwrap();
    }
    address
}

#[cfg(feature = "postgres")]
pub(crate) struct Postgres {
    server: ::postgres::Client,
    name: String,
    pub(crate) address: String,
}

#[cfg(feature = "postgres")]
impl Postgres {
    pub(crate) fn new() -> Option<Self> {
        let address = address("DURABLE_POSTGRES_URL")?;
        let mut server = ::postgres::Client::connect(&address, ::postgres::NoTls).unwrap();
        let name = format!("orders_{}", std::process::id());
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

#[cfg(feature = "postgres")]
impl Drop for Postgres {
    fn drop(&mut self) {
        let text = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        let dropped = self.server.batch_execute(&text);
        assert!(dropped.is_ok() || std::thread::panicking(), "{dropped:?}");
    }
}

#[cfg(feature = "redis")]
pub(crate) struct Redis {
    pub(crate) address: String,
}

#[cfg(feature = "redis")]
impl Redis {
    /// The program's test has the next one, and all others the first.
    const DATABASE: u8 = 14;

    pub(crate) fn new() -> Option<Self> {
        let address = address("DURABLE_REDIS_URL")?;
        let (server, _) = address.rsplit_once('/').unwrap();
        let database = Self {
            address: format!("{server}/{}", Self::DATABASE),
        };
        database.flush();
        Some(database)
    }

    fn flush(&self) {
        let client = ::redis::Client::open(&*self.address).unwrap();
        let mut session = client.get_connection().unwrap();
        ::redis::cmd("FLUSHDB").exec(&mut session).unwrap();
    }
}

#[cfg(feature = "redis")]
impl Drop for Redis {
    fn drop(&mut self) {
        self.flush();
    }
}
