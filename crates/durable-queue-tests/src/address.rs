//! Where the servers are, for more than one test binary.

use std::env;

/// Names the address of a server, if there is one.
pub const POSTGRES: &str = "DURABLE_POSTGRES_URL";
pub const REDIS: &str = "DURABLE_REDIS_URL";

/// The address of a server. If there is none, tests are left out.
pub fn address(variable: &str) -> Option<String> {
    let address = env::var(variable).ok();
    if address.is_none() {
        let server = if variable.contains("POSTGRES") {
            "PostgreSQL"
        } else {
            "Redis"
        };
        testkit::left_out(
            &format!("tests on {server}"),
            &format!("{variable} is not set"),
        );
    }
    address
}
