//! Addresses of the test servers.

use std::env;

/// Environment variables with the servers' addresses.
pub const POSTGRES: &str = "DURABLE_POSTGRES_URL";
pub const REDIS: &str = "DURABLE_REDIS_URL";

/// Returns the address of a server. Without one, its tests are skipped.
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
