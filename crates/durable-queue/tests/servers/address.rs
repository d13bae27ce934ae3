//! Where the servers are, for more than one test binary.

use std::collections::BTreeSet;
use std::env;
use std::io::{self, Write as _};
use std::sync::Mutex;

/// Names the address of a server, if there is one.
#[cfg(feature = "postgres")]
pub(crate) const POSTGRES: &str = "DURABLE_POSTGRES_URL";
#[cfg(feature = "redis")]
pub(crate) const REDIS: &str = "DURABLE_REDIS_URL";

/// The address of a server. If there is none, tests are left out.
pub(crate) fn address(variable: &str) -> Option<String> {
    let address = env::var(variable).ok();
    if address.is_none() {
        left_out(&format!(
            "{variable} is not set, so NOTHING WAS TESTED ON THAT SERVER: `cargo xtask stores up` starts one"
        ));
    }
    address
}

/// Says once why tests are left out.
pub(crate) fn left_out(why: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if SAID.lock().unwrap().insert(why.to_owned()) {
        let tests = env!("CARGO_CRATE_NAME");
        let text = format!("\nLEFT OUT of `{tests}`: {why}\n");
        // Past the harness, which shows what a test prints only if it fails.
        io::stderr().write_all(text.as_bytes()).unwrap();
    }
}
