//! The README of `durable-queue` contains the limits of the stores.
#![cfg(not(anthill_loom))]

#[test]
fn the_readme_contains_the_limits_of_the_stores() {
    let readme = include_str!("../../durable-queue/README.md");
    let mib = |bytes: usize| bytes >> 20;
    for row in [
        format!(
            "| payload | less than a billion bytes, its key included | {} MiB | {} MiB |",
            mib(durable_queue_postgres::PAYLOAD_LIMIT),
            mib(durable_queue_redis::PAYLOAD_LIMIT)
        ),
        format!(
            "| key, kind, name of a queue | the same | {} KiB | {} MiB |",
            durable_queue_postgres::KEY_LIMIT >> 10,
            mib(durable_queue_redis::KEY_LIMIT)
        ),
        format!(
            "| all jobs of one push | no limit | {} MiB | {} MiB |",
            mib(durable_queue_postgres::PUSH_LIMIT),
            mib(durable_queue_redis::PUSH_LIMIT)
        ),
    ] {
        assert!(readme.contains(&row), "{row}");
    }
}
