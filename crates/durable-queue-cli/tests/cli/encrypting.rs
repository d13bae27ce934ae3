//! The program encrypts connections if the address requires it.

use std::path::Path;
use std::process::Output;

#[cfg(feature = "postgres")]
use durable_queue_tests::databases::Postgres;
#[cfg(feature = "redis")]
use durable_queue_tests::tls::encrypted_redis;
#[cfg(feature = "postgres")]
use durable_queue_tests::tls::{EncryptedPostgres, demanded};

/// Runs `durable-queue` on the queue "mails" of a store, with a root certificate from the folder.
fn program(address: &str, folder: &Path, root: &str, command: &[&str]) -> Output {
    let mut program = crate::program();
    let program = program.env("DURABLE_QUEUE_STORE", address);
    let program = program.args(["--queue", "mails", "--ca"]);
    let output = program
        .arg(folder.join(root))
        .args(command)
        .output()
        .unwrap();
    let shown = format!("{output:?}");
    let password = address.split([':', '@']).nth(2).unwrap();
    for secret in [password, "127.0.0.1"] {
        assert!(!shown.contains(secret), "{shown}");
    }
    output
}

/// It connects only to a server whose root certificate it trusts.
fn the_program_encrypts(address: &str, folder: &Path) {
    let said = |output: Output| {
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let pushed = program(address, folder, "root.pem", &["push", "job"]);
    assert_eq!(said(pushed), (Some(0), "pushed 1\n".to_owned()));
    let (status, text) = said(program(address, folder, "other.pem", &["stats"]));
    assert!(text.contains("its certificate is not trusted"), "{text}");
    assert_eq!(status, Some(1));
    for no_roots in ["none", "server.key"] {
        let (status, text) = said(program(address, folder, no_roots, &["stats"]));
        assert!(text.contains("no PEM certificates"), "{text}");
        assert_eq!(status, Some(2));
    }
    let (status, text) = said(program(address, folder, "root.pem", &["stats"]));
    assert_eq!((status, &text[..6]), (Some(0), "1 jobs"));
}

#[cfg(feature = "postgres")]
#[test]
fn the_program_encrypts_if_a_postgres_address_requires_it() {
    let Some(server) = EncryptedPostgres::new() else {
        return;
    };
    testkit::watchdog(testkit::LIMIT, || {
        let database = Postgres::new("encrypting").unwrap();
        the_program_encrypts(&demanded(&database.address), server.folder());
    });
}

#[cfg(feature = "redis")]
#[test]
fn the_program_encrypts_if_a_redis_address_requires_it() {
    let Some((server, address)) = encrypted_redis() else {
        return;
    };
    testkit::watchdog(testkit::LIMIT, || {
        the_program_encrypts(&address, server.folder());
    });
}
