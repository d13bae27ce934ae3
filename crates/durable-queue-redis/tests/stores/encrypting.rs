//! A server that accepts only TLS, whose certificate is signed by a root created by the test.

use std::fs;
use std::sync::mpsc::channel;

use ::redis::{Client, TlsCertificates};
use durable_queue::{ErrorKind, Notifier, Store, StoreError};
use durable_queue_redis::RedisStore;

use crate::alike::{JOB, count};
use crate::redis_server::Server;
use crate::tls::{REDIS_PASSWORD, encrypted_redis};

/// Opens a store that trusts only this root.
fn open(server: &Server, address: &str, root: &str) -> Result<RedisStore, StoreError> {
    let root = fs::read(server.folder().join(format!("{root}.pem"))).unwrap();
    let certificates = TlsCertificates {
        client_tls: None,
        root_cert: Some(root),
    };
    let client = Client::build_with_tls(address, certificates).unwrap();
    RedisStore::options().open_client(&client)
}

#[test]
fn a_server_with_a_trusted_root_is_used_with_tls() {
    let Some((server, address)) = encrypted_redis() else {
        return;
    };
    testkit::watchdog(testkit::LIMIT, || {
        let store = open(&server, &address, "root").unwrap();
        store.enqueue("queue", &[JOB]).unwrap();
        assert_eq!(count(&store), 1);
        // The listening session as well.
        let (sender, times) = channel();
        let notifier = Notifier::new(move |due| _ = sender.send(due));
        let watch = store.watch("queue", notifier).unwrap();
        let other = open(&server, &address, "root").unwrap();
        other.enqueue("queue", &[JOB]).unwrap();
        times.recv().unwrap();
        drop(watch);
    });
}

#[test]
fn a_server_with_an_unknown_root_is_rejected_and_the_error_shows_no_secret() {
    let Some((server, address)) = encrypted_redis() else {
        return;
    };
    testkit::watchdog(testkit::LIMIT, || {
        let other_root = open(&server, &address, "other").unwrap_err();
        // Trusts the system's roots.
        let no_root = RedisStore::open(&address).unwrap_err();
        for error in [other_root, no_root] {
            assert_eq!(error.kind(), ErrorKind::Other);
            let shown = format!("{error} {error:?}");
            assert!(shown.contains("its certificate is not trusted"), "{shown}");
            for secret in [REDIS_PASSWORD, "127.0.0.1"] {
                assert!(!shown.contains(secret), "{shown}");
            }
        }
    });
}
